//! `ringfall.queue_depth`: what the search for a queue depth tried, and what it chose.

use ringfall_engine::units::GIB;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::figure::shapes;
use crate::facts::{DepthFigures, DepthStep};

shapes!(QueueDepthReport);

/// What the search for a queue depth tried during the warm-up, and what it chose.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct QueueDepthReport {
    /// Queue depth used for the measurement: most I/Os each shard keeps in flight on each drive.
    pub chosen: u32,
    /// Largest depth that was tried.
    pub deepest: u32,
    /// Number of queues: shards times drives; those of all ranks where they searched together.
    pub queues: u32,
    /// Number of ranks that searched together, with one decision for all; null when a single
    /// process searched.
    #[serde(default)]
    pub ranks: Option<u32>,
    /// Why this depth was chosen: `knee` (a smaller one costs bandwidth or has I/Os wait, a larger
    /// one only adds latency), `still_rises` (bandwidth still rises at the largest depth that was
    /// tried), `too_few_ios` (hardly any I/O reached the storage tier, and the standard depth was
    /// taken), `out_of_time` (the warm-up was over first) or
    /// `no_answer` (a shard or another rank did not say what it had measured).
    pub reason: String,
    /// Outcome of the search as a sentence, with its figures.
    pub text: String,
    /// Length of the search, s.
    pub seconds: f64,
    /// Intervals that were measured, in that order.
    pub steps: Vec<DepthStepReport>,
}

/// What the storage tier did over an interval at one depth, all shards and drives together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DepthStepReport {
    /// Queue depth that was tried.
    pub depth: u32,
    /// Length of the interval, s.
    pub seconds: f64,
    /// Single reads and writes that ended in the interval.
    pub ios: u64,
    /// Single reads and writes per second.
    pub per_s: f64,
    /// Bandwidth, reads and writes together, GiB/s.
    pub gib_per_s: f64,
    /// Mean number of I/Os in flight: their rate times their mean latency (Little's law).
    pub in_flight: f64,
    /// Mean latency of a single I/O, µs.
    pub latency_mean_us: f64,
    /// Median latency of a single I/O, µs.
    pub latency_p50_us: f64,
    /// 99th percentile of the latency of a single I/O, µs.
    pub latency_p99_us: f64,
    /// Mean time that an I/O had waited for its place in the queue, µs.
    pub wait_mean_us: f64,
}

impl QueueDepthReport {
    pub(super) fn of(figures: &DepthFigures) -> QueueDepthReport {
        QueueDepthReport {
            chosen: figures.chosen,
            deepest: figures.deepest,
            queues: figures.queues,
            ranks: figures.ranks,
            reason: figures.reason.name().to_owned(),
            text: figures.told(),
            seconds: figures.seconds,
            steps: figures.steps.iter().map(DepthStepReport::of).collect(),
        }
    }
}

impl DepthStepReport {
    fn of(step: &DepthStep) -> DepthStepReport {
        let [latency_mean_us, latency_p50_us, latency_p99_us] = step.latency_us;
        DepthStepReport {
            depth: step.depth,
            seconds: step.seconds,
            ios: step.ios,
            per_s: step.ios_per_s(),
            gib_per_s: step.bytes_per_s / GIB as f64,
            in_flight: step.in_flight(),
            latency_mean_us,
            latency_p50_us,
            latency_p99_us,
            wait_mean_us: step.wait_us,
        }
    }
}
