//! From what was typed to a validated [`Plan`]: defaults, file and command line, in that order.
//! This package only works out the plan; it does nothing with it.

#![forbid(unsafe_code)]

mod auto;
mod bounds;
mod check;
mod depth;
mod derive;
mod device_file;
mod effective;
mod facts;
mod figures;
mod file;
mod first_page;
mod input_error;
mod kinds;
mod layout;
mod listen;
mod names;
pub mod nearest;
pub mod object_store;
mod options;
mod page;
mod part;
mod places;
mod plan;
mod preset;
mod rank;
mod reference;
mod resolve;
mod rules;
mod run_args;
mod served;
mod shared;
mod table;
mod traffic;
mod url;
pub mod values;
mod words;
mod workload;
mod yaml;

pub use bounds::advice;
pub use depth::{Depth, SEARCH_WARMUP_S};
pub use device_file::{DeviceFile, GpuModel, MEMORY_LATENCY};
pub use effective::render;
pub use facts::{Facts, compact_utc};
pub use figures::{
    AutoscalerSteps, Eviction, GpuLimits, HealthCriteria, Limits, QosTargets, SaturationTargets,
    TARGET_MS_MAX, WAITING_MAX,
};
pub use file::ConfigFile;
pub use input_error::InputError;
pub use listen::Listen;
pub use options::{Options, SETTINGS, Settings};
pub use page::defaults_page;
pub use part::Part;
pub use places::{Places, typed as typed_places};
pub use plan::{
    GpuBackend, GpuTransfer, LayoutLimits, LogLevel, MergeRanks, OnDeviceFailure, Origin,
    PRECONDITION_THREAD_BYTES, PerformanceProfile, Plan, ProgressForm, Promotion, Ranks,
    RooflineFrom, TraceEpoch, TraceKind, Traffic, Until,
};
pub use preset::{PRESET_DURATION_S, PRESETS, PUBLISHED_SYSTEMS, Preset, presets_page};
pub use rank::{Cores, MeetsBy, MergedOutputs, Rank};
pub use resolve::{Defaults, resolve, resolve_with};
pub use run_args::RunArgs;
pub use served::ServedRule;
pub use shared::{Shared, Taken};
pub use table::{Compared, Setting};
pub use traffic::BURST_TRACE;
pub use words::{
    Arrival, AutoscalerMode, DecodeReads, GenerationMode, HistoryReads, Named, PhaseMode,
    Preallocate, ReplayedRows, Word, WritePolicy,
};
pub use workload::WorkloadSection;

#[cfg(test)]
mod tests;
