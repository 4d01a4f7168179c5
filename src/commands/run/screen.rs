//! Streams and lines of a run, and what is shown at its end.

use std::path::{Path, PathBuf};

use anyhow::Result;
use ringfall_config::{Plan, ProgressForm};
use ringfall_core::clock::Nanos;
use ringfall_host::escape::terminal_path;
use ringfall_host::{ProgressLine, is_stream_watched};
use ringfall_model::{Document, RunResult};
use ringfall_report::show::{Style, print_summary};

use super::outputs::outputs;
use crate::commands::merge::{Merged, sorted};
use crate::commands::{text_stream, write_out};

/// Period between lines of progress where there is no terminal.
const PLAIN_PERIOD: Nanos = Nanos::from_secs(10);

/// Shows the result as a page, and as JSON where that is asked for; see [`show_page`].
pub(super) fn show(
    plan: &Plan,
    result: &RunResult,
    document: &Document,
    is_written: bool,
) -> Result<()> {
    if plan.json {
        crate::commands::print_json(document)?;
    }
    show_page(plan, result, document, is_written)
}

/// `is_written`: the files are named only when all of them could be written.
pub(super) fn show_page(
    plan: &Plan,
    result: &RunResult,
    document: &Document,
    is_written: bool,
) -> Result<()> {
    if plan.quiet {
        return Ok(());
    }
    let mut page = Vec::new();
    print_summary(&mut page, style(plan), result, document)?;
    let files = files_page("  ", outputs(plan).filter(|_| is_written));
    write_out(text_stream(plan.json), &format!("{}{files}", String::from_utf8(page)?))?;
    Ok(())
}

/// Lines that name the files with the results.
fn files_page<'a>(indent: &str, files: impl Iterator<Item = &'a Path>) -> String {
    let labels = std::iter::once("results").chain(std::iter::repeat(""));
    let line =
        |(label, path): (&str, &Path)| format!("{indent}{label:<12} {}\n", terminal_path(path));
    labels.zip(files).map(line).collect()
}

/// Shows the merged result of all ranks; called on rank 0.
pub(super) fn show_merged(plan: &Plan, merged: &Merged) -> Result<()> {
    let outputs = plan.rank.as_ref().and_then(|rank| rank.merged.as_ref());
    let files = outputs.into_iter().flat_map(|outputs| {
        let more = [&outputs.xlsx_output, &outputs.html_output];
        std::iter::once(&outputs.output).chain(more.into_iter().flatten())
    });
    crate::commands::show(&sorted(&merged.document)?, plan.json, plan.quiet, || {
        format!("\n{}{}", merged.page, files_page("", files.map(PathBuf::as_path)))
    })
}

/// Lines during the run.
pub(super) fn progress_line(plan: &Plan) -> ProgressLine {
    ProgressLine::new(text_stream(plan.json), plan.quiet, Some(PLAIN_PERIOD))
        .on_several_lines(plan.progress == ProgressForm::Auto)
}

pub(super) fn style(plan: &Plan) -> Style {
    Style::for_output(is_stream_watched(text_stream(plan.json)))
}
