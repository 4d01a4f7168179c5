//! Several results of ringfall as one: counters add up, histograms merge exactly, percentiles and
//! rates are made anew from those. Ranks of one launch have run beside each other: their window
//! reaches from the first start to the last end. Other runs are taken to have followed one another:
//! times add up too, so a rate is that of all runs together over all their time.
//!
//! How each figure merges is said by its type, in `results::document`. What can't be merged is
//! null: what a tier held at the end, the health's verdict. The runs' own files keep it.

mod ranks;

use super::spread::spreads;
use crate::results::Document;
use crate::results::document::{
    Difference, FileProblem, Histograms, InputFacts, MergedReport, ResultFile,
};
pub use ranks::is_one_launch;

/// The results as one document, laid out as a run's, with `ringfall.merged` saying of what.
///
/// # Errors
/// When one of them has no histograms, or a damaged one.
pub fn merge(
    inputs: &[ResultFile],
    differences: &[Difference],
    command_line: &[String],
) -> Result<Document, FileProblem> {
    let documents: Vec<&Document> = inputs.iter().map(|input| &input.document).collect();
    let histograms = histograms_of(inputs)?;
    let mut report = MergedReport::default();
    let mut merged = if is_one_launch(&documents) {
        report.ranks = ranks::rows(&documents);
        report.hosts = ranks::hosts(&documents);
        let launch = ranks::launch(&documents, &report.ranks);
        let mut merged = Document::side_by_side(&documents, &histograms, command_line);
        merged.ringfall.warnings.extend(ranks::warnings(&launch, &report.ranks));
        report.launch = Some(launch);
        merged
    } else {
        Document::merged(&documents, &histograms, command_line)
    };
    merged.ringfall.merged = Some(MergedReport {
        inputs: inputs.iter().map(|input| InputFacts::of(input.name(), &input.document)).collect(),
        differences: differences.to_vec(),
        spread: spreads(&documents),
        ..report
    });
    Ok(merged)
}

/// The histograms of all together.
fn histograms_of(inputs: &[ResultFile]) -> Result<Histograms, FileProblem> {
    let mut all: Option<Histograms> = None;
    for input in inputs {
        let theirs = Histograms::read(&input.document, &input.path)?;
        match &mut all {
            None => all = Some(theirs),
            Some(all) => all.add(&theirs),
        }
    }
    Ok(all.unwrap_or_default())
}

#[cfg(test)]
#[path = "merge_test.rs"]
pub(crate) mod tests;
