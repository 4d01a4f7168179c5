//! Results in a person's hands: the terminal, pages, workbooks, a fio job.
//!
//! Not here: computing figures or judging whether they can be trusted (`results`).

mod audit;
mod compare;
mod discover;
mod discover_short;
mod fio_job;
mod gpu;
mod html;
mod latency;
mod layouts;
mod mlperf;
pub mod prose;
mod quick;
mod ranks;
mod replay;
mod roofline;
mod search;
mod sheet;
mod short;
mod suite;
pub mod table;
mod terminal;
mod trace;
mod trace_plan;
mod verdict;
mod what_if;
mod who;

pub use audit::audit_page;
pub use compare::comparison_table;
pub use discover::discovery_details;
pub use discover_short::discovery_page;
pub use fio_job::fio_job;
pub use html::{
    SuiteSource, write_audit_html, write_html, write_mlperf_html, write_quick_html,
    write_roofline_html, write_suite_html, write_what_if_html,
};
pub use layouts::{LAYOUTS_VERSION, LayoutRow, LayoutsReport, layouts_list, layouts_page};
pub use mlperf::{MlperfRun, mlperf_text};
pub use quick::{beside_page, check_page, quick_page};
pub use ranks::ranks_table;
pub use replay::{InjectedLatency, NotReplayed, REPLAY_VERSION, ReplayReport, replay_page};
pub use roofline::{direction, io_size, roofline_text};
pub use sheet::{SHEET_ENDING, write_audit_csv, write_sheet, write_suite_sheet};
pub use suite::{suite_head, suite_page, suite_plan_page, suite_row};
pub use terminal::{Banner, Style, print_banner, print_summary};
pub use trace::{CachePoint, TallyCounts, TraceHead, TraceReport, cache_sizes, trace_page};
pub use trace_plan::{PlanDrive, PlanQuestion, SSD_SIZES_MAX, TracePlan, trace_plan_page};
pub use what_if::{FLATTERED, FLATTERED_NOTE, WhatIf, WhatIfRow, is_flattered, letters};
pub use who::who;

use ringfall_config::compact_utc;
use ringfall_model::Document;
use ringfall_model::document::SecondReport;
use ringfall_model::figures::figure::Sum;

/// Bytes of a GiB.
const GIB: f64 = ringfall_core::units::GIB as f64;

/// A result and what to call it.
pub struct Named {
    /// A file's name, or the like.
    pub name: String,
    /// The result that goes by this name.
    pub document: Document,
}

/// The sum of counts that a file may have made up: no more than 64 bits hold.
fn total(counts: impl IntoIterator<Item = u64>) -> u64 {
    counts.into_iter().fold(0, u64::saturating_add)
}

/// An amount of a second of the window, in that unit per second.
fn rate(amount: Sum<u64>, unit: f64, second: &SecondReport) -> Option<f64> {
    Some(amount.number()? / unit / second.seconds.known()?.max(1e-9))
}

/// Bytes of a second of the window, GiB per second.
fn gib_rate(bytes: Sum<u64>, second: &SecondReport) -> Option<f64> {
    rate(bytes, GIB, second)
}

/// When a result's measurement began, as the reference writes times, in UTC.
fn began(document: &Document) -> Option<String> {
    let unix_s = document.ringfall.window.start_unix_s.known().filter(|s| *s >= 1.0)?;
    // Below 2⁵³ for any time that a machine has; the share of a second is dropped.
    let compact = compact_utc(unix_s as u64);
    let part = |from: usize, to: usize| compact.get(from..to);
    let (year, month, day) = (part(0, 4)?, part(4, 6)?, part(6, 8)?);
    let (hour, minute, second) = (part(9, 11)?, part(11, 13)?, part(13, 15)?);
    Some(format!("{year}-{month}-{day} {hour}:{minute}:{second}"))
}

#[cfg(test)]
mod tests;
