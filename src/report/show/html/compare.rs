//! The comparison of two results at the top of their page.

use ringfall_model::document::ResultFile;

use super::Named;
use super::markup::Html;
use crate::analysis::compare::compare;
use crate::show::compare::comparison_table;

/// Writes the comparison of the second result with the first, where there are two.
pub(super) fn section(html: &mut Html, results: &[Named]) {
    let [baseline, candidate] = results else { return };
    let side = |named: &Named| {
        let (path, document) = (named.name.clone().into(), named.document.clone());
        vec![ResultFile { path, document }]
    };
    html.heading("Comparison");
    html.sub(&format!("baseline: {} · candidate: {}", baseline.name, candidate.name));
    match compare(side(baseline), side(candidate)) {
        Ok(comparison) => {
            html.paragraph_of("verdict", &comparison.conclusion);
            html.notes(&comparison.cautions);
            html.table(&comparison_table(&comparison, false));
        }
        Err(problem) => html.paragraph(&problem.to_string()),
    }
}
