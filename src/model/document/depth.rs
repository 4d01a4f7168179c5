//! `ringfall.queue_depth`: what the search for a queue depth tried, and what it chose.

use ringfall_core::units::GIB;

use super::figure::{Fact, Max, Same};
use super::list::Rows;
use super::merge::figures;
use crate::facts::{DepthFigures, DepthStep};
use crate::figures::given::row;

figures! {
/// Steps and outcome of the search for a queue depth during the warm-up. In merged results a figure
/// is null where the results differ in it, unless it says otherwise.
pub struct QueueDepthReport from figures: DepthFigures {
    /// Queue depth used for the measurement: largest number of I/Os that each shard keeps in flight
    /// on each drive.
    pub chosen: Same<u32>,
    /// Largest depth that was tried.
    pub deepest: Same<u32>,
    /// Number of queues: shards times drives; those of all ranks where they searched together.
    pub queues: Same<u32>,
    /// Number of ranks that searched together, with one decision for all; null when a single
    /// process searched.
    #[serde(default)]
    pub ranks: Same<u32>,
    /// Why this depth was chosen: `knee` (a smaller one costs more than 5 % of the bandwidth or
    /// makes I/Os wait, a larger one adds latency, and at most 5 % of bandwidth), `still_rises`
    /// (bandwidth still rises at the largest depth that was tried), `too_few_ios` (hardly any I/O
    /// reached the storage tier, and the standard depth was taken), `out_of_time` (the warm-up was
    /// over first) or `no_answer` (a shard or another rank did not say what it had measured).
    pub reason: Same<String> = figures.reason.name().to_owned(),
    /// Outcome of the search as a sentence, with its figures.
    pub text: Same<String> = figures.told(),
    /// Length of the search, s; of merged results, that of the longest.
    pub seconds: Max<f64>,
    /// Intervals that were measured, in that order; of merged results, one search after the other.
    pub steps: Rows<DepthStepReport> = figures.steps.iter().map(DepthStepReport::of),
}
}

row! {
/// Activity of the storage tier over an interval at one depth, all shards and drives together.
pub struct DepthStepReport from step: DepthStep {
    /// Queue depth that was tried.
    pub depth: Fact<u32>,
    /// Length of the interval, s.
    pub seconds: Fact<f64>,
    /// Number of single reads and writes that ended in the interval.
    pub ios: Fact<u64>,
    /// Number of single reads and writes that ended per second.
    pub per_s: Fact<f64> = step.ios_per_s(),
    /// Bandwidth, reads and writes together, GiB/s.
    pub gib_per_s: Fact<f64> = step.bytes_per_s / GIB as f64,
    /// Mean number of I/Os in flight: their rate times their mean latency (Little's law).
    pub in_flight: Fact<f64> = step.in_flight(),
    /// Mean latency of a single I/O, µs.
    pub latency_mean_us: Fact<f64> = step.latency_us[0],
    /// Median latency of a single I/O, µs.
    pub latency_p50_us: Fact<f64> = step.latency_us[1],
    /// 99th percentile of the latency of a single I/O, µs.
    pub latency_p99_us: Fact<f64> = step.latency_us[2],
    /// Mean time that an I/O had waited for its place in the queue, µs.
    pub wait_mean_us: Fact<f64> = step.wait_us,
}
}
