//! Results of a run: plain values of everything that was measured, the document made from them and
//! written as JSON, how it is read back and merged, its warnings and its verdicts.
//!
//! Not here: measuring (`ringfall_running`), or displaying (`ringfall_report`).

#![forbid(unsafe_code)]

pub mod autoscaling;
mod code;
pub mod cold;
pub mod configuration;
pub mod correlation;
mod deep_queue;
mod distinct;
pub mod document;
pub mod facts;
pub mod figures;
mod full;
pub mod health;
mod json;
pub mod merge;
pub mod metrics;
pub mod published;
mod run_result;
mod saturation;
mod simulation;
pub mod sla;
pub mod source;
pub mod spread;
pub mod stats;
mod steadiness;
pub mod trust;
mod warnings;

pub use code::Code;
pub use distinct::{distinct, distinct_by};
pub use document::Document;
pub use full::reached_throttles;
pub use health::{REFUSED_SHARE_MAX, judge};
pub use json::{write_json, write_json_unsynced, write_text};
pub use run_result::RunResult;
pub use simulation::is_without_drive;
pub use simulation::{
    Alternative, Alternatives, Binding, IoTraceReport, NO_DRIVE, NO_DRIVE_SOURCE, SimulationReport,
};
pub use steadiness::SteadinessReport;
pub use warnings::{Warning, warnings_of};

/// The JSON Schema of the results. It is made from their types, by a test, so that no build of the
/// program needs what makes it.
pub const SCHEMA_PAGE: &str = include_str!("../../config/results.schema.json");

#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(test)]
mod tests;
