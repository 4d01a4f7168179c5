//! The JSON result as types: the reference benchmark's keys, then one of our own. One [`Document`]
//! is written by a run, read back, merged and compared, and the schema that `ringfall schema`
//! prints is made from its types, by a test (`schema_test`).
//!
//! The type of each field says what becomes of it when results are merged (`figures`), and the
//! expression beside it where a run's comes from; what is worked out from other figures is
//! `Derived`, and `derive` works it out, for a run as for merged results. A new figure is one such
//! entry.

mod cache;
mod cache_stats;
mod conclusions;
mod config;
mod contradictions;
mod counted;
mod damage;
mod depth;
mod derive;
mod drive_logs;
mod drives;
pub mod engine;
mod evidence;
mod fold;
mod gpu;
mod histograms;
mod kept;
mod latency;
mod latency_keys;
mod limit;
mod merged;
mod ours;
mod rank;
mod read;
mod requests;
mod served;
mod side_by_side;
mod summary;
mod timeline;
mod told_twice;
mod tracing;

pub use cache::CacheReport;
pub use cache_stats::{CacheStatsReport, TierLatencies};
pub use config::ConfigReport;
pub use contradictions::{Claim, Contradiction, contradictions, told as told_contradictions};
pub use depth::{DepthStepReport, QueueDepthReport};
pub use drive_logs::DriveLogReport;
pub use drives::{DiskCounters, DriveDirection, DriveReport, KernelCounters};
pub use engine::{
    DeviceReport, EngineReport, EvictionReport, IoDirection, IoReport, KernelSecondReport,
    WaitsReport,
};
pub use fold::Fold;
pub use gpu::{GpuDeviceReport, GpuReport};
pub use histograms::{CLASSES, EncodedHistogram, EncodedHistograms, Histograms, UNFINISHED};
pub use kept::Agreed;
pub use latency::{LatencyMs, LatencyMsMax};
pub use limit::{LimitKind, RunLimit};
pub use list::Union;
pub use merged::{
    Difference, HostRow, InputFacts, Launch, MergedReport, RankRow, Spread, why_early,
};
pub use ours::{CostReport, ErrorRow, Ours, SCHEMA_VERSION, WindowReport};
pub use rank::RankReport;
pub use read::{FileProblem, Kind, ResultFile, files, json_files, read_bytes};
pub use requests::{QuantileMs, RequestsOfClass, RequestsReport};
pub use served::{ServedReport, TimeReport};
pub use side_by_side::common_window;
pub use summary::{QosClass, QosMetrics, Summary, ThroughputSecond};
pub use timeline::{SecondReport, SecondTier, SecondTierDirection};
pub use tracing::{DeviceLatencyTracing, TracedBucket, TracedHistogram};

use crate::facts::RequestSample;
use crate::figures::{figure, list, merge};
use crate::source::Validation;
use crate::{RunResult, SimulationReport, source};
use figure::{Derived, OfRun, Part, Same, Sum};
use list::{Samples, Timeline};
use merge::figures;

figures! {
/// Result of a ringfall run, or of several runs merged. `summary` and the other top-level keys are
/// those of the reference, MLPerf Storage's KV cache benchmark; `ringfall` has all that the
/// reference does not report.
pub struct Document {
    /// Number of requests that finished in the window: the same as `summary.total_requests`.
    /// Differs from the reference as that does.
    pub requests_completed: Sum<u64>,
    /// Number of tokens that these requests generated: the same as `summary.total_tokens`. Differs
    /// from the reference as that does.
    pub total_tokens_generated: Sum<u64>,
    /// Sum of the storage I/O times of the requests, s: the same as
    /// `summary.total_storage_io_time`. Differs from the reference as that does.
    pub total_storage_io_latency: Derived<f64>,
    /// Sum of the times that the requests waited for generated tokens, s. Differs from the
    /// reference as `summary.generation_latency_ms` does.
    pub total_generation_latency: Derived<f64>,
    /// Latencies of the requests that finished, from intended arrival to end, s. Differs from the
    /// reference in that at most 100,000 values are kept: of more requests, a uniform sample
    /// (`ringfall.samples`). See also `summary.end_to_end_latency_ms`.
    pub end_to_end_latencies: Samples<f64>,
    /// Storage I/O times of the requests in `end_to_end_latencies`, s. Differs from the reference
    /// as `summary.storage_io_latency_ms` does.
    pub storage_latencies: Samples<f64>,
    /// Times that the requests in `end_to_end_latencies` waited for generated tokens, s.
    /// Differs from the reference as `summary.generation_latency_ms` does.
    pub generation_latencies: Samples<f64>,
    /// Durations of the prefill phases of the requests that had one, s. Differs from the reference,
    /// which counts only the write of the turn's entry: here the reads of the prompt, of earlier
    /// turns and of retrieved chunks are included.
    pub prefill_latencies: Samples<f64>,
    /// Durations of the decode phases of the requests that had one, s. Differs from the reference
    /// after a decode miss: the write of the entry and the reads that follow it are included.
    pub decode_latencies: Samples<f64>,
    /// Token throughput from the start of the window to the end of each of its seconds, one row per
    /// second. Differs from the reference, which writes a row for each interval of its autoscaler
    /// and none without one.
    pub throughput_timeline: Timeline<ThroughputSecond>,
    /// Number of reads of an earlier turn that found it: the same as
    /// `summary.multi_turn_stats.cache_hits`. Same definition as the reference's.
    pub multi_turn_cache_hits: Sum<u64>,
    /// Number of reads of another turn that did not find it: the same as
    /// `summary.multi_turn_stats.cache_misses`. Differs from the reference as that does.
    pub multi_turn_cache_misses: Sum<u64>,
    /// Random seed of the run. Same definition as the reference's; null in merged results whose
    /// seeds differ.
    pub seed: Same<u64>,
    /// Figures that the reference benchmark reports, under its keys.
    pub summary: Part<Summary>,
    /// Everything that the reference benchmark does not report.
    pub ringfall: Part<Ours>,
    /// Histograms of what the kernel's block layer did, from `--enable-latency-tracing`; absent
    /// without it, and where `ringfall.block_trace` is null. Differs from the reference, which also
    /// traces calls of the file system.
    #[serde(default, skip_serializing_if = "Derived::is_unknown")]
    pub device_latency_tracing: Derived<Option<DeviceLatencyTracing>>,
    /// The run as a fio job, from `--enable-latency-tracing`; absent without it, and in merged
    /// results: a job describes the load of one run. Differs from the
    /// reference's, which is distilled from traced sizes and latencies: this one is made from the
    /// I/Os that ringfall itself counted.
    #[serde(default, skip_serializing_if = "OfRun::is_unknown")]
    pub fio_workload: OfRun<String>,
    /// Hit rate of the run compared with a recorded one, from `--validation-trace`; absent without
    /// it, and in merged results: a recording is compared with a single run. Same keys as the
    /// reference's.
    #[serde(default, skip_serializing_if = "OfRun::is_unknown")]
    pub validation: OfRun<Validation>,
}
}

impl Document {
    /// The document of a run.
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
        let ringfall = Ours::of(result);
        let mut document = Document {
            requests_completed: Sum::of(requests.completed()),
            total_tokens_generated: Sum::of(requests.generated_tokens),
            end_to_end_latencies: seconds(|sample| sample.end_to_end_ns),
            storage_latencies: seconds(|sample| sample.storage_io_ns),
            generation_latencies: seconds(|sample| sample.generation_ns),
            prefill_latencies: phase(|sample| sample.prefill_ns),
            decode_latencies: phase(|sample| sample.decode_ns),
            throughput_timeline: ThroughputSecond::of(&ringfall.timeline),
            multi_turn_cache_hits: Sum::of(result.cache.multi_turn_hits),
            multi_turn_cache_misses: Sum::of(result.cache.multi_turn_misses),
            seed: Same::of(result.plan.seed),
            summary: Part(Summary::of(result)),
            ringfall: Part(ringfall),
            validation: OfRun::maybe(source::compared(result)),
            ..Document::default()
        };
        document.derive(&Histograms::of(result), &result.command_line);
        let limit = RunLimit::of(&document);
        document.ringfall.limit = OfRun::maybe((limit.kind != LimitKind::None).then_some(limit));
        document
    }

    /// Whether the run left the storage tier out (`--disable-storage`): no drive can be gone by.
    pub(crate) fn is_without_storage(&self) -> bool {
        let config = self.ringfall.config.as_ref();
        config.is_some_and(|config| config.storage_capacity_bytes == Some(0))
    }

    /// Latencies of the requests that finished; none when none did, where the key holds zeros.
    pub fn latency_of(&self, pick: fn(&Summary) -> &Derived<LatencyMs>) -> Option<&LatencyMs> {
        let has_finished = self.summary.total_requests.known() != Some(0);
        pick(&self.summary).as_ref().filter(|_| has_finished)
    }

    /// Storage I/O times of the requests that finished; none when none did, or there was no drive:
    /// the key holds zeros then.
    pub fn storage_io_latency(&self) -> Option<&LatencyMs> {
        let latency = self.latency_of(|summary| &summary.storage_io_latency_ms);
        latency.filter(|_| !self.is_without_drive())
    }

    /// Latency of a tier at that key, ms; none where the tier had no operation or there was no
    /// drive, where the key holds 0.
    pub fn tier_latency_ms(&self, key: &str) -> Option<f64> {
        let latency = self.summary.cache_stats.latencies_ms.get(key);
        latency.filter(|_| !self.is_without_drive())
    }

    /// Bandwidths of the storage tier in reads and writes, GiB/s; none without a drive, where the
    /// keys hold what was asked for.
    pub fn storage_bandwidth_gib_per_s(&self) -> [Option<f64>; 2] {
        let stats = &self.summary.cache_stats;
        let both =
            [stats.tier_storage_read_bandwidth_gbps, stats.tier_storage_write_bandwidth_gbps];
        both.map(|rate| rate.known().filter(|_| !self.is_without_drive()))
    }

    /// Share of the reads that found their entry; none without reads, where the key holds 0.
    pub fn hit_rate(&self) -> Option<f64> {
        let stats = &self.summary.cache_stats;
        share_if_any(stats.cache_hit_rate, stats.cache_hits, stats.cache_misses)
    }

    /// Share of the reads of earlier turns that found them; none without such reads.
    pub fn multi_turn_hit_rate(&self) -> Option<f64> {
        let turns = &self.summary.multi_turn_stats;
        share_if_any(turns.hit_rate, turns.cache_hits, turns.cache_misses)
    }

    /// Latencies of loading a context; none where none was loaded, or there was no drive.
    pub fn context_load(&self) -> Option<&LatencyMs> {
        Some(&self.ringfall.served.context_load_ms.as_ref()?.percentiles)
    }

    /// Bytes read for each byte written; none without bytes written.
    pub fn read_write_ratio(&self) -> Option<f64> {
        let stats = &self.summary.cache_stats;
        let has_written = stats.total_write_bytes.known() != Some(0);
        stats.read_write_ratio.known().filter(|_| has_written)
    }

    /// Whether it is of a run without a drive: what its keys say of storage is then what was asked
    /// for.
    pub fn is_without_drive(&self) -> bool {
        self.ringfall.simulation.as_ref().is_some_and(SimulationReport::is_without_drive)
    }

    /// Length of the measurement window, s.
    pub fn seconds(&self) -> Option<f64> {
        self.ringfall.window.seconds.known()
    }
}

/// A share, unless it is one of nothing.
fn share_if_any(share: Derived<f64>, hits: Sum<u64>, misses: Sum<u64>) -> Option<f64> {
    let has_none = hits.known() == Some(0) && misses.known() == Some(0);
    share.known().filter(|_| !has_none)
}

#[cfg(test)]
mod full_test;
#[cfg(test)]
mod parts_test;
#[cfg(any(test, feature = "testing"))]
mod schema;
#[cfg(test)]
mod schema_test;
#[cfg(test)]
mod tests;
