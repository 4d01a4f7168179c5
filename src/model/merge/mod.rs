//! Several results of ringfall as one: counters add up, histograms merge exactly, percentiles and
//! rates are made anew from those. Ranks of one launch have run beside each other: their window
//! reaches from the first start to the last end. Other runs are taken to have followed one another:
//! times add up too, so a rate is that of all runs together over all their time.
//!
//! The type of each figure determines how it merges, in `results::document`. Figures that can't be
//! merged are null: the contents of a tier at the end, the health's verdict. The runs' own files
//! keep them.

mod ranks;
mod told;

use crate::document::{
    Difference, FileProblem, Fold, Histograms, InputFacts, MergedReport, ResultFile, common_window,
    contradictions, told_contradictions,
};
use crate::spread::spreads;
use crate::{Code, Document, Warning};
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
    let mut whole = inputs.iter();
    merge_outlined(inputs, differences, command_line, &mut |input| {
        // In the same order.
        Ok(whole.next().unwrap_or(input).document.clone())
    })
}

/// The same of results of which only the outlines are at hand, and which are read one after the
/// other: memory holds one of them at a time, and what they come to.
///
/// # Errors
/// When one of them can't be read, has no histograms, or a damaged one.
pub fn merge_outlined(
    outlines: &[ResultFile],
    differences: &[Difference],
    command_line: &[String],
    read: &mut dyn FnMut(&ResultFile) -> Result<Document, FileProblem>,
) -> Result<Document, FileProblem> {
    let documents: Vec<&Document> = outlines.iter().map(|outline| &outline.document).collect();
    let mut report = MergedReport::default();
    let is_launch = is_one_launch(&documents);
    let mut fold = match is_launch {
        true => Fold::side_by_side(common_window(&documents)),
        false => Fold::one_after_the_other(),
    };
    let mut contradicting = Vec::new();
    for outline in outlines {
        let document = read(outline)?;
        let found = told_contradictions(&contradictions(&document));
        contradicting.extend(found.map(|found| Warning {
            code: Code::ContradictsItself,
            text: format!("{}: {found}", outline.name()),
            flag_to_try: None,
        }));
        let histograms = Histograms::read(&document, &outline.path)?;
        fold.add(document, &histograms);
    }
    let mut merged = fold.finish(command_line);
    merged.ringfall.warnings = told::together(&documents, is_launch);
    merged.ringfall.warnings.extend(contradicting);
    if is_launch {
        report.ranks = ranks::rows(&documents);
        report.hosts = ranks::hosts(&documents);
        let launch = ranks::launch(&documents, &report.ranks);
        merged.ringfall.warnings.extend(ranks::warnings(&launch, &report.ranks));
        report.launch = Some(launch);
    }
    merged.ringfall.merged = Some(MergedReport {
        inputs: documents
            .iter()
            .zip(outlines)
            .map(|(document, outline)| InputFacts::of(&(outline.name(), document)))
            .collect(),
        differences: differences.to_vec(),
        spread: spreads(&documents),
        ..report
    });
    Ok(merged)
}

#[cfg(test)]
#[path = "merge_test.rs"]
mod tests;
