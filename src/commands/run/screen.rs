//! Streams and lines of a run, and what is shown at its end.

use std::io::Write as _;

use anyhow::Result;
use ringfall_config::Plan;
use ringfall_core::clock::Nanos;
use ringfall_host::escape::{terminal, terminal_path};
use ringfall_host::outlet::Stream;
use ringfall_host::{ProgressLine, is_stream_watched};
use ringfall_model::{Document, RunResult};
use ringfall_report::show::{Style, print_summary};

use super::outputs::outputs;
use crate::commands::merge::{Merged, sorted};
use crate::commands::write_out;

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
    if !plan.quiet {
        let mut out = Vec::new();
        print_summary(&mut out, style(plan), result, document)?;
        let mut label = "results";
        for path in outputs(plan).filter(|_| is_written) {
            writeln!(out, "  {label:<12} {}", terminal_path(path))?;
            label = "";
        }
        write_out(stream(plan), &String::from_utf8(out)?)?;
    } else {
        // Who asked for silence still learns why the status is 1.
        for why in super::why_failed(result) {
            ringfall_host::stderr::tell(format_args!("error: {}", terminal(&why)));
        }
    }
    Ok(())
}

/// Shows the merged result of all ranks; called on rank 0.
pub(super) fn show_merged(plan: &Plan, merged: &Merged) -> Result<()> {
    if plan.json {
        crate::commands::print_json(&sorted(&merged.document)?)?;
    }
    if !plan.quiet {
        let mut out = Vec::new();
        write!(out, "\n{}", merged.page)?;
        let outputs = plan.rank.as_ref().and_then(|rank| rank.merged.as_ref());
        let outputs = outputs.map(|outputs| {
            let more = [&outputs.xlsx_output, &outputs.html_output];
            std::iter::once(&outputs.output).chain(more.into_iter().flatten())
        });
        let mut label = "results";
        for path in outputs.into_iter().flatten() {
            writeln!(out, "{label:<12} {}", terminal_path(path))?;
            label = "";
        }
        write_out(stream(plan), &String::from_utf8(out)?)?;
    }
    Ok(())
}

/// Lines during the run.
pub(super) fn progress_line(plan: &Plan) -> ProgressLine {
    ProgressLine::new(stream(plan), plan.quiet, Some(PLAIN_PERIOD))
}

/// Stream of the text for people: standard output, unless the JSON goes there.
pub(super) fn stream(plan: &Plan) -> Stream {
    if plan.json { Stream::Err } else { Stream::Out }
}

pub(super) fn style(plan: &Plan) -> Style {
    Style::for_output(is_stream_watched(stream(plan)))
}
