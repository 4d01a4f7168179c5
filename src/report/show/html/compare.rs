//! The comparison of two results at the top of their page.

use super::Named;
use super::markup::Html;
use crate::show::compare::{comparison_table, of_two};

/// Writes the comparison of the second result with the first, where there are two.
pub(super) fn section(html: &mut Html, results: &[Named]) {
    let [baseline, candidate] = results else { return };
    html.heading("Comparison");
    html.sub(&format!("baseline: {} · candidate: {}", baseline.name, candidate.name));
    match of_two(baseline, candidate) {
        Ok(comparison) => {
            html.paragraph_of("verdict", &comparison.conclusion);
            html.notes(&comparison.cautions);
            if comparison.is_comparable {
                html.table(&comparison_table(&comparison, false));
            }
        }
        Err(problem) => html.paragraph(&problem.to_string()),
    }
}
