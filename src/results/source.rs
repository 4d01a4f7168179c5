//! Where the requests came from, and how the hit rate compares with a recorded one.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::results::RunResult;

/// Two hit rates agree when they differ by no more than this share of the recorded one.
const VALIDATION_TOLERANCE: f64 = 0.05;

/// `ringfall.source`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct SourceReport {
    /// `synthetic`, `sharegpt`, `burstgpt`, `mooncake` or `io_trace`.
    pub kind: String,
    /// Files read.
    pub files: Vec<String>,
    /// Conversations of a dataset.
    pub conversations: Option<u64>,
    /// Their turns.
    pub turns: Option<u64>,
    /// Rows of a trace given to the shards.
    pub rows: Option<u64>,
    /// Whole passes over the trace.
    pub cycles: Option<u32>,
    /// Operations of a logical trace.
    pub operations: Option<u64>,
    /// Entries that it reads before it writes them: they were written before the run.
    pub populated_objects: Option<u64>,
    /// Their size.
    pub populated_bytes: Option<u64>,
    /// Rows or conversations that did not parse.
    pub skipped: u64,
    /// Where and why the first did not.
    pub first_skipped: Option<String>,
    /// Blocks of a trace that were read, since the start.
    pub block_hits: Option<u64>,
    /// Blocks that had to be written.
    pub block_misses: Option<u64>,
    /// Share of blocks that were read.
    pub block_hit_rate: Option<f64>,
    /// Requests that arrived since the start.
    pub arrived: u64,
    /// Requests dropped from the queue: the run stopped, or users were sent home.
    pub dropped: u64,
    /// Longest that one shard's queue has been.
    pub queue_depth_max: u64,
    /// Requests queued at the end.
    pub queued_at_end: u64,
    /// How long the oldest of them had been waiting, s.
    pub queue_age_at_end_s: f64,
    /// Largest lag of an arrival behind its intended time, ms.
    pub timer_lag_max_ms: f64,
}

/// The top-level `validation`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Validation {
    /// Share of the recorded requests that hit.
    pub recorded_hit_rate: f64,
    /// Recorded requests.
    pub recorded_requests: u64,
    /// Rows that said nothing.
    pub skipped: u64,
    /// This run's hit rate.
    pub measured_hit_rate: Option<f64>,
    /// Difference of the two as a share of the recorded one.
    pub relative_error: Option<f64>,
    /// Largest such difference that passes.
    pub tolerance: f64,
    /// Whether it does; none when nothing was measured.
    pub passed: Option<bool>,
}

/// `ringfall.source`.
pub(crate) fn report(result: &RunResult) -> SourceReport {
    let (workload, feed) = (&result.workload, result.feed.as_ref());
    let skipped = feed.map_or(&result.source.skipped, |feed| &feed.skipped);
    let blocks = workload.block_hits + workload.block_misses;
    SourceReport {
        kind: result.plan.traffic.name().to_owned(),
        files: result.source.files.clone(),
        conversations: result.source.conversations,
        turns: result.source.turns,
        rows: feed.map(|feed| feed.rows),
        cycles: feed.map(|feed| feed.cycles),
        operations: result.source.operations,
        populated_objects: result.source.populated.map(|(objects, _)| objects),
        populated_bytes: result.source.populated.map(|(_, bytes)| bytes),
        skipped: skipped.rows,
        first_skipped: skipped.first.clone(),
        block_hits: (blocks > 0).then_some(workload.block_hits),
        block_misses: (blocks > 0).then_some(workload.block_misses),
        block_hit_rate: crate::facts::quotient(workload.block_hits, blocks),
        arrived: workload.arrived,
        dropped: workload.dropped,
        queue_depth_max: workload.queue_depth_max,
        queued_at_end: workload.queued_at_end,
        queue_age_at_end_s: workload.queue_age_at_end_ns as f64 / 1e9,
        timer_lag_max_ms: workload.timer_lag_max_ns as f64 / 1e6,
    }
}

/// The comparison with a recorded cache, if one was given.
pub(crate) fn validation(result: &RunResult) -> Option<Validation> {
    let trace = result.validation.as_ref()?;
    let recorded = trace.hit_rate();
    let measured = result.cache.hit_rate();
    let error = measured.map(|measured| match recorded {
        0.0 => measured.signum() * measured.min(1.0),
        recorded => (measured - recorded).abs() / recorded,
    });
    Some(Validation {
        recorded_hit_rate: recorded,
        recorded_requests: trace.requests,
        skipped: trace.skipped.rows,
        measured_hit_rate: measured,
        relative_error: error,
        tolerance: VALIDATION_TOLERANCE,
        passed: error.map(|error| error <= VALIDATION_TOLERANCE),
    })
}
