//! Where the requests came from, and how the hit rate compares with a recorded one.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::results::RunResult;
use crate::results::document::figure::{Derived, First, Max, OfRun, Same, Sum, shapes};
use crate::results::document::list::Union;
use crate::results::document::merge::figures;

shapes!(Validation);

/// Two hit rates agree when they differ by no more than this share of the recorded one.
const VALIDATION_TOLERANCE: f64 = 0.05;

figures! {
/// `ringfall.source`.
pub struct SourceReport {
    /// `synthetic`, `sharegpt`, `burstgpt`, `mooncake` or `io_trace`.
    pub kind: Same<String>,
    /// Files read.
    pub files: Union<String>,
    /// Conversations of a dataset.
    pub conversations: Same<u64>,
    /// Their turns.
    pub turns: Same<u64>,
    /// Rows of a trace given to the shards.
    pub rows: Sum<Option<u64>>,
    /// Whole passes over the trace.
    pub cycles: Sum<Option<u32>>,
    /// Operations of a logical trace.
    pub operations: OfRun<u64>,
    /// Entries that it reads before it writes them: they were written before the run.
    pub populated_objects: OfRun<u64>,
    /// Their size.
    pub populated_bytes: OfRun<u64>,
    /// Rows or conversations that did not parse.
    pub skipped: Sum<u64>,
    /// Where and why the first did not.
    pub first_skipped: First<String>,
    /// Blocks of a trace that were read, since the start.
    pub block_hits: Sum<Option<u64>>,
    /// Blocks that had to be written.
    pub block_misses: Sum<Option<u64>>,
    /// Share of blocks that were read.
    pub block_hit_rate: Derived<Option<f64>>,
    /// Requests that arrived since the start.
    pub arrived: Sum<u64>,
    /// Requests dropped from the queue: the run stopped, or users were sent home.
    pub dropped: Sum<u64>,
    /// Longest that one shard's queue has been.
    pub queue_depth_max: Max<u64>,
    /// Requests queued at the end.
    pub queued_at_end: Sum<u64>,
    /// How long the oldest of them had been waiting, s.
    pub queue_age_at_end_s: Max<f64>,
    /// Largest lag of an arrival behind its intended time, ms.
    pub timer_lag_max_ms: Max<f64>,
}
}

/// The top-level `validation`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
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
        kind: Same::of(result.plan.traffic.name().to_owned()),
        files: result.source.files.iter().cloned().collect(),
        conversations: Same::maybe(result.source.conversations),
        turns: Same::maybe(result.source.turns),
        rows: Sum::maybe(feed.map(|feed| feed.rows)),
        cycles: Sum::maybe(feed.map(|feed| feed.cycles)),
        operations: OfRun::maybe(result.source.operations),
        populated_objects: OfRun::maybe(result.source.populated.map(|(objects, _)| objects)),
        populated_bytes: OfRun::maybe(result.source.populated.map(|(_, bytes)| bytes)),
        skipped: Sum::of(skipped.rows),
        first_skipped: First::maybe(skipped.first.clone()),
        block_hits: Sum::maybe((blocks > 0).then_some(workload.block_hits)),
        block_misses: Sum::maybe((blocks > 0).then_some(workload.block_misses)),
        block_hit_rate: Derived::default(),
        arrived: Sum::of(workload.arrived),
        dropped: Sum::of(workload.dropped),
        queue_depth_max: Max::of(workload.queue_depth_max),
        queued_at_end: Sum::of(workload.queued_at_end),
        queue_age_at_end_s: Max::of(workload.queue_age_at_end_ns as f64 / 1e9),
        timer_lag_max_ms: Max::of(workload.timer_lag_max_ns as f64 / 1e6),
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
