//! Results of a run: a plain value of everything that was measured, the document made from it and
//! written as JSON, its warnings and its verdicts.
//!
//! Not here: measuring (`run`, `driver`), or displaying (`show`).

pub(crate) mod autoscaling;
mod code;
pub mod cold;
pub mod configuration;
pub(crate) mod correlation;
mod deep_queue;
pub mod document;
pub mod figures;
pub(crate) mod health;
mod json;
pub mod metrics;
pub mod published;
mod run_result;
mod saturation;
mod simulation;
pub(crate) mod sla;
pub(crate) mod source;
mod steadiness;
pub mod trust;
mod warnings;

pub use code::Code;
pub use document::Document;
pub use health::{REFUSED_SHARE_MAX, judge};
pub use json::{write_json, write_text};
pub use run_result::RunResult;
pub(crate) use simulation::is_without_drive;
pub use simulation::{Binding, IoTraceReport, NO_DRIVE, NO_DRIVE_SOURCE, SimulationReport};
pub use steadiness::SteadinessReport;
pub use warnings::{Warning, warnings_of};

/// The JSON Schema of the results. It is made from their types, by a test, so that no build of the
/// program needs what makes it.
pub const SCHEMA_PAGE: &str = include_str!("../../config/results.schema.json");

#[cfg(test)]
pub(crate) mod tests;
