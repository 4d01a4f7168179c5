//! From what was typed to a validated [`Plan`]: defaults, file and command line, in that order.
//! What must not be here: doing anything with it.

mod auto;
mod bounds;
mod depth;
mod device_file;
mod effective;
mod eviction;
mod facts;
mod file;
mod gpu;
mod health;
mod idle;
mod judging;
mod kinds;
pub mod nearest;
mod needs;
mod objects;
mod options;
mod page;
mod places;
mod plan;
mod preset;
mod rank;
mod reference;
mod resolve;
mod shared;
mod table;
mod traffic;
pub mod values;
mod words;
mod workload;

pub use bounds::advice;
pub use depth::{Depth, SEARCH_WARMUP_S};
pub use device_file::{DeviceFile, GpuModel, MEMORY_LATENCY};
pub use effective::render;
pub use eviction::Eviction;
pub use facts::{Facts, compact_utc};
pub use file::ConfigFile;
pub use gpu::GpuLimits;
pub use health::HealthCriteria;
pub use judging::{AutoscalerSteps, Limits, QosTargets, SaturationTargets};
pub(crate) use judging::{TARGET_MS_MAX, WAITING_MAX};
pub use options::{NOT_YET, Options, SETTINGS, Settings, not_yet};
pub use page::defaults_page;
pub use places::{Places, typed as typed_places};
pub use plan::{
    AutoscalerPlan, GpuBackend, LogLevel, MergeRanks, OnDeviceFailure, Origin, PerformanceProfile,
    Plan, PreconditionAsked, Promotion, Ranks, RooflineFrom, TraceEpoch, TraceKind, Traffic,
};
pub use preset::{PRESETS, PUBLISHED_SYSTEMS, Preset, presets_page};
pub use rank::{Cores, MeetsBy, MergedOutputs, Rank, RankFacts};
pub use resolve::resolve;
pub use shared::{Shared, Taken};
pub use table::{InSweep, Setting};
pub use traffic::BURST_TRACE;
pub use words::{
    Arrival, AutoscalerMode, GenerationMode, Named, PhaseMode, Preallocate, ReplayedRows, Word,
};
pub use workload::WorkloadSection;

use crate::escape::terminal;

/// What was typed can't be run: each sentence says what is wrong, the value, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InputError {
    /// Sentences for the user, at least one, each with the value and what to do.
    pub sentences: Vec<String>,
}

impl InputError {
    /// An error of one sentence.
    pub fn new(sentence: impl Into<String>) -> InputError {
        InputError { sentences: vec![sentence.into()] }
    }
}

impl std::fmt::Display for InputError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // They are shown to people, and name files and values.
        let sentences: Vec<String> =
            self.sentences.iter().map(|sentence| terminal(sentence)).collect();
        f.write_str(&sentences.join("\nerror: "))
    }
}

impl std::error::Error for InputError {}

#[cfg(test)]
mod tests;
