//! The queue depth that is searched for, in the banner and in the summary.

use ringfall_config::Plan;

use super::terminal::{LABEL, Summary};

/// As the banner says it, before the run.
pub(super) fn planned(plan: &Plan) -> String {
    match plan.depth_search {
        Some(_) => format!("up to {} deep each (the warm-up finds how deep)", plan.queue_depth),
        None => format!("{} deep each", plan.queue_depth),
    }
}

impl Summary<'_> {
    /// Writes the depth that was found, and how; nothing where there was no search.
    pub(super) fn depth(&mut self) {
        if let Some(found) = &self.result.queue_depth {
            let before = format!("  queue depth  {}: ", found.chosen);
            self.wrapped(&before, LABEL, &found.told());
        }
    }
}
