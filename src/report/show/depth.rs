//! The queue depth that is searched for, in the banner and in the summary.

use std::fmt::Write;

use ringfall_config::Plan;
use ringfall_model::RunResult;

use super::prose;

/// As the banner says it, before the run.
pub(super) fn planned(plan: &Plan) -> String {
    match plan.depth_search {
        Some(_) => format!("up to {} deep each (the warm-up finds how deep)", plan.queue_depth),
        None => format!("{} deep each", plan.queue_depth),
    }
}

/// As the summary says it; nothing where there was no search.
pub(super) fn line(text: &mut String, result: &RunResult) -> std::fmt::Result {
    let Some(found) = &result.queue_depth else { return Ok(()) };
    let mut before = format!("  queue depth  {}: ", found.chosen);
    let sentence = found.told();
    for line in prose::lines(&sentence, (before.chars().count(), 15), prose::WIDTH) {
        writeln!(text, "{before}{line}")?;
        before = " ".repeat(15);
    }
    Ok(())
}
