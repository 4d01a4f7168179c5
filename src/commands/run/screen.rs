//! Where what people read of a run goes, and what is shown at its end.

use std::io::Write;

use anyhow::{Context, Result};

use super::outputs::outputs;
use crate::commands::merge::{Merged, sorted};
use crate::config::Plan;
use crate::escape::{terminal, terminal_path};
use crate::host::is_watched;
use crate::outlet::{Stream, notices, page, written};
use crate::results::{Document, RunResult};
use crate::show::{Style, print_summary};

/// A reader that has seen enough (`| head`), or a terminal that was closed, is no failure: the
/// results are in their file.
pub(super) fn unless_reader_left(told: Result<()>) -> Result<()> {
    match told {
        Err(error) if error.downcast_ref().is_some_and(crate::commands::has_reader_left) => Ok(()),
        // It says already which stream that was.
        Err(error) if error.is::<&str>() => Err(error),
        other => other.context("standard output"),
    }
}

/// `is_written`: the files are named only when all of them could be written.
pub(super) fn show(
    plan: &Plan,
    result: &RunResult,
    document: &Document,
    is_written: bool,
) -> Result<()> {
    if plan.json {
        crate::commands::print_json(document)?;
    }
    if !plan.quiet {
        let mut out = page(stream(plan));
        print_summary(&mut out, style(plan), result, document)?;
        let mut label = "results";
        for path in outputs(plan).filter(|_| is_written) {
            writeln!(out, "  {label:<12} {}", terminal_path(path))?;
            label = "";
        }
        written(stream(plan))?;
    } else {
        // Who asked for silence still learns why the status is 1.
        for why in super::why_failed(result) {
            crate::stderr::tell(format_args!("error: {}", terminal(&why)));
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
        let mut out = page(stream(plan));
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
        written(stream(plan))?;
    }
    Ok(())
}

/// Stream of the messages during the run.
pub(super) fn output(plan: &Plan) -> Box<dyn Write> {
    Box::new(notices(stream(plan)))
}

/// Stream of the text for people: standard output, unless the JSON goes there.
pub(super) fn stream(plan: &Plan) -> Stream {
    if plan.json { Stream::Err } else { Stream::Out }
}

pub(super) fn is_terminal(plan: &Plan) -> bool {
    match plan.json {
        true => is_watched(&std::io::stderr()),
        false => is_watched(&std::io::stdout()),
    }
}

pub(super) fn style(plan: &Plan) -> Style {
    Style::for_output(is_terminal(plan))
}
