//! Measured in, text out: JSON, the terminal, progress, warnings. Decides nothing about the run.

mod autoscaling;
mod correlation;
pub mod document;
mod fio_job;
mod health;
mod html;
mod json;
mod model;
pub mod progress;
mod requests;
mod sheet;
mod simulation;
mod sla;
mod source;
mod terminal;
mod timeline;
mod warnings;
mod what_if;

pub use document::Document;
pub use fio_job::fio_job;
pub use health::judge;
pub use html::{Named, write_html, write_roofline_html, write_what_if_html};
pub use json::write_json;
pub use model::{CacheStats, KernelSecond, RunResult, TierState, WatchdogReport, Window};
pub use requests::{RequestSample, RequestStats, SAMPLES_MAX, class_index};
pub use sheet::write_sheet;
pub use simulation::{Binding, IoTraceReport, SimulationReport};
pub use sla::p95_targets_ns;
pub use terminal::{Banner, Style, print_banner, print_summary};
pub use timeline::{TimelineDirection, TimelineSecond, TimelineTier};
pub use warnings::{Warning, warnings_of};
pub use what_if::{WhatIf, WhatIfRow};

/// The JSON Schema of the results, as it stands in `config/results.schema.json`.
#[must_use]
pub fn schema_page() -> String {
    format!("{:#}\n", Document::schema())
}

/// `part / whole`; `None` when there is nothing to divide by: a figure that was not measured.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "a report figure")]
pub(crate) fn quotient(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

#[cfg(test)]
pub(crate) mod tests;
