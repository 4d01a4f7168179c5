//! The JSON result as types: the reference benchmark's keys, then one of our own. One [`Document`]
//! is written by a run, read back, merged and compared, and the schema that `ringfall schema`
//! prints is made from its types.
//!
//! The type of each field says what becomes of it when results are merged (`figure`, `list`); what
//! is worked out from other figures is `Derived`, and `derive` works it out, for a run as for
//! merged results. A new figure is a field here and the line that sets it.

mod cache_stats;
mod config;
mod derive;
pub(crate) mod engine;
pub mod figure;
mod histograms;
mod kept;
mod latency;
pub mod list;
pub mod merge;
mod merged;
mod ours;
mod read;
mod summary;
mod timeline;

pub use cache_stats::{CacheStatsReport, TierLatencies};
pub use config::ConfigReport;
pub use engine::{
    DeviceReport, EngineReport, EvictionReport, IoDirection, IoReport, KernelCounters,
    KernelSecondReport, WaitsReport,
};
pub use histograms::{CLASSES, EncodedHistogram, EncodedHistograms, Histograms};
pub use kept::Agreed;
pub use latency::{LatencyMs, LatencyMsMax};
pub use merged::{Difference, InputFacts, MergedReport, Spread};
pub use ours::{CostReport, ErrorRow, Ours, SCHEMA_VERSION, WindowReport};
pub use read::{FileProblem, Kind, ResultFile, read_bytes};
pub use summary::{QosClass, QosMetrics, Summary, ThroughputSecond};
pub use timeline::{SecondReport, SecondTier, SecondTierDirection};

use crate::facts::RequestSample;
use crate::results::source::Validation;
use crate::results::{RunResult, source};
use figure::{Derived, OfRun, Part, Same, Sum};
use list::{Rows, Samples};
use merge::{Inputs, Merge, figures};

figures! {
/// The result of a run.
pub struct Document {
    /// Requests that finished in the window without a failed step.
    pub requests_completed: Sum<u64>,
    /// Tokens that they generated.
    pub total_tokens_generated: Sum<u64>,
    /// Sum of their storage I/O, s.
    pub total_storage_io_latency: Derived<f64>,
    /// Sum of their waiting for generated tokens, s.
    pub total_generation_latency: Derived<f64>,
    /// From intended arrival to end, s; at most 100,000 values, a uniform sample beyond.
    pub end_to_end_latencies: Samples<f64>,
    /// Storage I/O of the same requests, s.
    pub storage_latencies: Samples<f64>,
    /// Waiting for generated tokens of the same requests, s.
    pub generation_latencies: Samples<f64>,
    /// Prefill phases of those that had one, s.
    pub prefill_latencies: Samples<f64>,
    /// Decode phases of those that had one, s.
    pub decode_latencies: Samples<f64>,
    /// One row a second of the window.
    pub throughput_timeline: Rows<ThroughputSecond>,
    /// Earlier turns that were found.
    pub multi_turn_cache_hits: Sum<u64>,
    /// Earlier turns that were not.
    pub multi_turn_cache_misses: Sum<u64>,
    /// Every draw follows from it.
    pub seed: Same<u64>,
    /// What the reference benchmark reports.
    pub summary: Part<Summary>,
    /// What it lacks.
    pub ringfall: Part<Ours>,
    /// The hit rate beside a recorded one, with `--validation-trace`.
    #[serde(default, skip_serializing_if = "OfRun::is_unknown")]
    pub validation: OfRun<Validation>,
}
}

impl Document {
    /// The document of a run.
    #[must_use]
    pub fn of(result: &RunResult) -> Document {
        let requests = &result.requests;
        let samples = requests.samples();
        let seconds = |pick: fn(&RequestSample) -> u64| -> Samples<f64> {
            samples.iter().map(|sample| pick(sample) as f64 / 1e9).collect()
        };
        let phase = |pick: fn(&RequestSample) -> u64| -> Samples<f64> {
            let there = samples.iter().map(pick).filter(|&ns| ns > 0);
            there.map(|ns| ns as f64 / 1e9).collect()
        };
        let mut document = Document {
            requests_completed: Sum::of(requests.completed()),
            total_tokens_generated: Sum::of(requests.generated_tokens),
            total_storage_io_latency: Derived::default(),
            total_generation_latency: Derived::default(),
            end_to_end_latencies: seconds(|sample| sample.end_to_end_ns),
            storage_latencies: seconds(|sample| sample.storage_io_ns),
            generation_latencies: seconds(|sample| sample.generation_ns),
            prefill_latencies: phase(|sample| sample.prefill_ns),
            decode_latencies: phase(|sample| sample.decode_ns),
            throughput_timeline: ThroughputSecond::of(result),
            multi_turn_cache_hits: Sum::of(result.cache.multi_turn_hits),
            multi_turn_cache_misses: Sum::of(result.cache.multi_turn_misses),
            seed: Same::of(result.plan.seed),
            summary: Part(Summary::of(result)),
            ringfall: Part(Ours::of(result)),
            validation: OfRun::maybe(source::validation(result)),
        };
        document.derive(&Histograms::of(result), &result.command_line);
        document
    }

    /// Several documents of ringfall as one, written by that command: counters add up, histograms
    /// merge exactly, and what is worked out from them is worked out anew. `histograms` are those
    /// of all of them together. What tells the inputs apart is still to be said
    /// ([`Ours::merged`]).
    #[must_use]
    pub fn merged(
        documents: &[&Document],
        histograms: &Histograms,
        command_line: &[String],
    ) -> Document {
        let inputs = Inputs {
            seconds: documents.iter().map(|d| d.seconds().unwrap_or(0.0)).collect(),
            completed: documents
                .iter()
                .map(|d| d.requests_completed.known().unwrap_or(0))
                .collect(),
        };
        let mut merged = <Document as Merge>::merged(documents, &inputs);
        merged.derive(histograms, command_line);
        merged
    }

    /// Length of the measurement window, s.
    #[must_use]
    pub fn seconds(&self) -> Option<f64> {
        self.ringfall.window.seconds.known()
    }

    /// The schema of these types, as JSON Schema 2020-12.
    #[must_use]
    pub fn schema() -> serde_json::Value {
        schemars::schema_for!(Document).into()
    }
}

#[cfg(test)]
mod tests;
