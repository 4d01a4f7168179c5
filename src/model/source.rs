//! Where the requests came from, and how the hit rate compares with a recorded one.

use ringfall_workloads::WorkloadStats;
use ringfall_workloads::digest::Digest;
use ringfall_workloads::source::{Skipped, ValidationTrace};

use crate::RunResult;
use crate::figures::figure::{Derived, First, Max, Same, Sum};
use crate::figures::given::row;
use crate::figures::list::Union;
use crate::figures::merge::figures;

/// Two hit rates agree when they differ by no more than this share of the recorded one.
const VALIDATION_TOLERANCE: f64 = 0.05;

figures! {
/// Where requests came from, and how they arrived.
pub struct SourceReport of result: RunResult {
    /// Kind of source: `synthetic`, `sharegpt`, `io_trace`, or the format of a trace: `burstgpt`,
    /// `mooncake`, `qwen`, `sessions`, `azure` or `copilot`.
    pub kind: Same<String> = result.source_name().to_owned(),
    /// Names of the files that were read.
    pub files: Union<String> = result.source.files.iter().cloned(),
    /// Digests of what was read, each of so many first rows of a trace (`first ROWS: DIGEST`),
    /// or of all rows or turns (`all ROWS: DIGEST`). There are several, since runs read a trace to
    /// different depths: where two results have other digests of as many rows, their traces
    /// differ, whatever the files are called. Neither pace nor seed counts. Empty without files.
    pub digests: Union<String> = digests(result),
    /// Number of conversations in the dataset; null without a dataset.
    pub conversations: Same<u64> = result.source.conversations,
    /// Number of turns in the conversations of the dataset; null without a dataset.
    pub turns: Same<u64> = result.source.turns,
    /// Number of rows of a trace that were given to the shards; null without a trace.
    pub rows: Sum<Option<u64>> = result.feed.as_ref().map(|feed| feed.rows),
    /// Number of complete passes over the trace; null without a trace.
    pub cycles: Sum<Option<u32>> = result.feed.as_ref().map(|feed| feed.cycles),
    /// Number of operations in the logical trace that was replayed; null without one, and in merged
    /// results that replayed different ones.
    pub operations: Same<u64> = result.source.operations,
    /// Number of entries that the logical trace reads before it writes them, and that were
    /// therefore written before the run: before each of merged ones.
    pub populated_objects: Same<u64> = result.source.populated.map(|(objects, _)| objects),
    /// Bytes of the entries in `populated_objects`.
    pub populated_bytes: Same<u64> = result.source.populated.map(|(_, bytes)| bytes),
    /// Number of rows or conversations skipped because they could not be parsed.
    pub skipped: Sum<u64> = skipped(result).rows,
    /// Which row or conversation was skipped first, and why.
    pub first_skipped: First<String> = skipped(result).first.clone(),
    /// Number of prefix blocks of a trace that were found and read, since the start of the run.
    pub block_hits: Sum<Option<u64>> = blocks(result).map(|stats| stats.block_hits),
    /// Number of prefix blocks of a trace that were not found and had to be written, since the
    /// start of the run.
    pub block_misses: Sum<Option<u64>> = blocks(result).map(|stats| stats.block_misses),
    /// Share of the prefix blocks of a trace that were found, from 0 to 1; null without blocks.
    pub block_hit_rate: Derived<Option<f64>>,
    /// Number of requests that arrived since the start of the run.
    pub arrived: Sum<u64> = result.workload.arrived,
    /// Number of requests dropped from the queue, because the run stopped or the autoscaler removed
    /// their users.
    pub dropped: Sum<u64> = result.workload.dropped,
    /// Largest number of requests that waited in the queue of one shard.
    pub queue_depth_max: Max<u64> = result.workload.queue_depth_max,
    /// Number of requests that waited to be served when the run stopped.
    pub queued_at_end: Sum<u64> = result.workload.queued_at_end,
    /// Age of the oldest request in `queued_at_end`, s.
    pub queue_age_at_end_s: Max<f64> = result.workload.queue_age_at_end_ns as f64 / 1e9,
    /// Longest delay between the intended time of an arrival and the arrival itself, ms.
    pub timer_lag_max_ms: Max<f64> = result.workload.timer_lag_max_ns as f64 / 1e6,
}
}

/// Digests of the dataset, or of the rows of the trace that were given.
fn digests(result: &RunResult) -> Vec<String> {
    let Some(feed) = &result.feed else {
        let of_dataset = result.source.digest.zip(result.source.turns);
        return of_dataset.map(|(digest, turns)| digest.of_all(turns)).into_iter().collect();
    };
    let mut all = feed.digests.clone();
    if !Digest::is_kept_after(feed.rows) {
        all.push(feed.digest.of_first(feed.rows));
    }
    all.extend(feed.is_over.then(|| feed.digest.of_all(feed.rows)));
    all
}

/// Rows of the trace, or parts of the dataset, that were skipped.
fn skipped(result: &RunResult) -> &Skipped {
    result.feed.as_ref().map_or(&result.source.skipped, |feed| &feed.skipped)
}

/// The workload's counters, where it read blocks of a trace.
fn blocks(result: &RunResult) -> Option<&WorkloadStats> {
    Some(&result.workload).filter(|stats| stats.block_hits + stats.block_misses > 0)
}

row! {
/// Hit rate of the run compared with that of a recorded cache, as the reference has it:
/// `ringfall.validation` has more.
#[serde(default)]
pub struct Validation {
    /// Whether `avg_error_pct` is at most 5; false without reads. Same definition as the
    /// reference's.
    pub passed: bool,
    /// Mean of the errors in `comparison`, %. Same definition as the reference's, which compares
    /// the hit rate alone.
    pub avg_error_pct: f64,
    /// The figures of the run that are compared with the recording.
    pub comparison: ValidationComparison,
    /// Size, hit rate and means of the recording itself.
    pub trace_stats: ValidationTraceStats,
}

/// Figures of a run that are compared with those of a recorded cache.
#[serde(default)]
pub struct ValidationComparison {
    /// Hit rate of the run beside that of the recording.
    pub cache_hit_rate: ComparedHitRate,
}

/// Hit rate of a run and of a recorded cache.
#[serde(default)]
pub struct ComparedHitRate {
    /// Hit rate of this run, from 0 to 1; 0 without reads. Same definition as the reference's.
    pub benchmark: f64,
    /// Share of the recorded requests that hit, from 0 to 1. Same definition as the reference's.
    pub trace: f64,
    /// Difference between the two divided by `trace`, %. Same definition as the reference's, which
    /// fails on a recording without hits: here it is 0 when the run has none either, else 100.
    pub error_pct: f64,
    /// Whether `error_pct` is at most 5. Same definition as the reference's.
    pub within_5pct: bool,
}

/// Figures of the recording of a cache.
#[serde(default)]
pub struct ValidationTraceStats of trace: ValidationTrace {
    /// Number of requests in the recording. Same definition as the reference's.
    pub total_requests: u64 = trace.requests,
    /// Share of the recorded requests that hit, from 0 to 1. Same definition as the reference's.
    pub cache_hit_rate: f64 = trace.hit_rate(),
    /// Bytes read divided by bytes written, or by 1 without writes; null when the recording lacks
    /// either. Same definition as the reference's, which refuses a recording that lacks them.
    pub read_write_ratio: Option<f64> = trace.read_write_ratio(),
    /// Mean context of a recorded request, tokens; null when the recording lacks it. Same
    /// definition as the reference's.
    pub context_tokens_mean: Option<f64> = trace.context_tokens.mean(),
    /// Mean number of tokens that a recorded request generated; null when the recording lacks it.
    /// Same definition as the reference's.
    pub generation_tokens_mean: Option<f64> = trace.generation_tokens.mean(),
}

/// Hit rate of the run compared with that of a recorded cache, and the recording's other figures.
pub struct ValidationReport of (result, trace): (&RunResult, &ValidationTrace) {
    /// Share of the recorded requests that hit, from 0 to 1.
    pub recorded_hit_rate: f64 = trace.hit_rate(),
    /// Number of requests in the recording.
    pub recorded_requests: u64 = trace.requests,
    /// Bytes that the recorded requests read; null when the recording lacks them.
    pub recorded_read_bytes: Option<f64> = trace.read_bytes.sum(),
    /// Bytes that the recorded requests wrote; null when the recording lacks them.
    pub recorded_write_bytes: Option<f64> = trace.write_bytes.sum(),
    /// Mean latency of the recorded reads, ms; null when the recording lacks it. Nothing is
    /// compared with it: it is that of another device.
    pub recorded_read_latency_mean_ms: Option<f64> = trace.read_latency_ms.mean(),
    /// Mean latency of the recorded writes, ms; null when the recording lacks it.
    pub recorded_write_latency_mean_ms: Option<f64> = trace.write_latency_ms.mean(),
    /// Number of rows of the recording that could not be read.
    pub skipped: u64 = trace.skipped.rows,
    /// Hit rate of this run, from 0 to 1; null without reads.
    pub measured_hit_rate: Option<f64> = result.cache.hit_rate(),
    /// Difference between the measured and the recorded hit rate, divided by the recorded one; null
    /// without reads.
    pub relative_error: Option<f64> = relative_error(result, trace),
    /// Largest `relative_error` that passes.
    pub tolerance: f64 = VALIDATION_TOLERANCE,
    /// Whether `relative_error` is within `tolerance`; null without reads.
    pub passed: Option<bool> =
        relative_error(result, trace).map(|error| error <= VALIDATION_TOLERANCE),
}
}

/// By which share of the recorded hit rate one differs from it.
fn error(measured: f64, recorded: f64) -> f64 {
    match recorded {
        0.0 if measured > 0.0 => 1.0,
        0.0 => 0.0,
        recorded => (measured - recorded).abs() / recorded,
    }
}

/// Share of the recorded hit rate by which that of the run differs from it; none without reads.
fn relative_error(result: &RunResult, trace: &ValidationTrace) -> Option<f64> {
    Some(error(result.cache.hit_rate()?, trace.hit_rate()))
}

/// The comparison with a recorded cache in the reference's keys, if one was given.
pub(crate) fn compared(result: &RunResult) -> Option<Validation> {
    let trace = result.validation.as_ref()?;
    let (recorded, measured) = (trace.hit_rate(), result.cache.hit_rate().unwrap_or(0.0));
    let error = error(measured, recorded);
    // A run that read nothing has shown nothing, also beside a recording without hits.
    let passed = result.cache.hit_rate().is_some() && error <= VALIDATION_TOLERANCE;
    let error_pct = error * 100.0;
    Some(Validation {
        passed,
        avg_error_pct: error_pct,
        comparison: ValidationComparison {
            cache_hit_rate: ComparedHitRate {
                benchmark: measured,
                trace: recorded,
                error_pct,
                within_5pct: passed,
            },
        },
        trace_stats: ValidationTraceStats::of(trace),
    })
}
