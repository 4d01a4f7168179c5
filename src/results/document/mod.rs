//! The JSON result as types: the reference benchmark's keys, then one of our own. The
//! schema that `ringfall schema` prints is made from these types, and other commands read results
//! back by them.

mod cache_stats;
mod config;
pub(crate) mod engine;
mod latency;
mod ours;
mod summary;
mod timeline;
pub(crate) mod values;

use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use cache_stats::CacheStatsReport;
pub use config::ConfigReport;
pub use engine::{
    DeviceReport, EncodedHistogram, EngineReport, EvictionReport, IoDirection, IoReport,
    KernelSecondReport, WaitsReport,
};
pub use latency::{LatencyMs, LatencyMsMax};
pub use ours::{CostReport, Ours, SCHEMA_VERSION, WindowReport};
pub use summary::{QosClass, Summary, ThroughputSecond};
pub use timeline::{SecondReport, SecondTier, SecondTierDirection};

use crate::config::InputError;
use crate::facts::RequestSample;
use crate::results::source::Validation;
use crate::results::{RunResult, source};

/// The result of a run.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Document {
    /// Requests that finished in the window without a failed step.
    pub requests_completed: u64,
    /// Tokens that they generated.
    pub total_tokens_generated: u64,
    /// Sum of their storage I/O, s.
    pub total_storage_io_latency: f64,
    /// Sum of their waiting for generated tokens, s.
    pub total_generation_latency: f64,
    /// From intended arrival to end, s; at most 100,000 values, a uniform sample beyond.
    pub end_to_end_latencies: Vec<f64>,
    /// Storage I/O of the same requests, s.
    pub storage_latencies: Vec<f64>,
    /// Waiting for generated tokens of the same requests, s.
    pub generation_latencies: Vec<f64>,
    /// Prefill phases of those that had one, s.
    pub prefill_latencies: Vec<f64>,
    /// Decode phases of those that had one, s.
    pub decode_latencies: Vec<f64>,
    /// One row a second of the window.
    pub throughput_timeline: Vec<ThroughputSecond>,
    /// Earlier turns that were found.
    pub multi_turn_cache_hits: u64,
    /// Earlier turns that were not.
    pub multi_turn_cache_misses: u64,
    /// Every draw follows from it.
    pub seed: Option<u64>,
    /// What the reference benchmark reports.
    pub summary: Summary,
    /// What it lacks.
    pub ringfall: Ours,
    /// The hit rate beside a recorded one, with `--validation-trace`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub validation: Option<Validation>,
}

impl Document {
    /// The document of a run.
    #[must_use]
    pub fn of(result: &RunResult) -> Document {
        let requests = &result.requests;
        let samples = requests.samples();
        let seconds = |pick: fn(&RequestSample) -> u64| -> Vec<f64> {
            samples.iter().map(|sample| pick(sample) as f64 / 1e9).collect()
        };
        let phase = |pick: fn(&RequestSample) -> u64| -> Vec<f64> {
            let there = samples.iter().map(pick).filter(|&ns| ns > 0);
            there.map(|ns| ns as f64 / 1e9).collect()
        };
        Document {
            requests_completed: requests.completed(),
            total_tokens_generated: requests.generated_tokens,
            total_storage_io_latency: requests.storage_io.sum_ns() as f64 / 1e9,
            total_generation_latency: requests.generation.sum_ns() as f64 / 1e9,
            end_to_end_latencies: seconds(|sample| sample.end_to_end_ns),
            storage_latencies: seconds(|sample| sample.storage_io_ns),
            generation_latencies: seconds(|sample| sample.generation_ns),
            prefill_latencies: phase(|sample| sample.prefill_ns),
            decode_latencies: phase(|sample| sample.decode_ns),
            throughput_timeline: ThroughputSecond::of(result),
            multi_turn_cache_hits: result.cache.multi_turn_hits,
            multi_turn_cache_misses: result.cache.multi_turn_misses,
            seed: Some(result.plan.seed),
            summary: Summary::of(result),
            ringfall: Ours::of(result),
            validation: source::validation(result),
        }
    }

    /// Reads a result back.
    ///
    /// # Errors
    /// The file can't be read, is not JSON, or is not such a result: names the file, the place and
    /// the problem.
    pub fn read(path: &Path) -> Result<Document, InputError> {
        let wrong = |what: String| InputError::new(format!("{}: {what}", path.display()));
        let text = read_bytes(path).map_err(wrong)?;
        let value: serde_json::Value = serde_json::from_slice(&text)
            .map_err(|error| wrong(format!("not a JSON result, or cut short: {error}")))?;
        let version = value.pointer("/ringfall/schema_version").and_then(serde_json::Value::as_u64);
        match version {
            Some(version) if version == u64::from(SCHEMA_VERSION) => {}
            Some(version) => {
                return Err(wrong(format!(
                    "its schema_version is {version}, this ringfall reads {SCHEMA_VERSION}: run it \
                     again with this version"
                )));
            }
            None => {
                return Err(wrong(
                    "JSON, but no result of `ringfall run`: it has no ringfall.schema_version"
                        .to_owned(),
                ));
            }
        }
        serde_json::from_value(value)
            .map_err(|error| wrong(format!("not a whole result of `ringfall run`: {error}")))
    }

    /// The schema of these types, as JSON Schema 2020-12.
    #[must_use]
    pub fn schema() -> serde_json::Value {
        schemars::schema_for!(Document).into()
    }
}

/// Largest file that is read: hundreds of times the largest result (six arrays of at most 100,000
/// numbers, and a day's timeline).
const FILE_BYTES_MAX: u64 = 1 << 30;

/// The bytes of a plain file.
///
/// # Errors
/// A sentence: it can't be read, is none, is empty or impossibly large.
pub fn read_bytes(path: &Path) -> Result<Vec<u8>, String> {
    let metadata = std::fs::metadata(path).map_err(|error| error.to_string())?;
    if !metadata.is_file() {
        return Err("this is not a plain file; give a file that a run wrote".to_owned());
    }
    if metadata.len() == 0 {
        return Err("the file is empty: the run that wrote it did not finish".to_owned());
    }
    if metadata.len() > FILE_BYTES_MAX {
        return Err(format!("{} bytes are more than any result has", metadata.len()));
    }
    std::fs::read(path).map_err(|error| error.to_string())
}
