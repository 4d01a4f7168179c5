//! Steps and outcome of the search for a queue depth.

use std::collections::BTreeSet;

use ringfall_core::named;
use serde::{Deserialize, Serialize};

use crate::stats::median;

/// Activity of the storage tier over an interval at one depth, all shards and drives together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DepthStep {
    /// I/Os that might be in flight, each shard on each drive.
    pub depth: u32,
    /// Length of the interval, s.
    pub seconds: f64,
    /// Single reads and writes that ended in it.
    pub ios: u64,
    /// Their bytes a second.
    pub bytes_per_s: f64,
    /// From submission to completion: mean, median and P99, µs.
    pub latency_us: [f64; 3],
    /// Mean time that an I/O had waited for its place in the queue, µs.
    pub wait_us: f64,
}

impl DepthStep {
    /// I/Os that ended in a second.
    pub fn ios_per_s(&self) -> f64 {
        if self.seconds > 0.0 { self.ios as f64 / self.seconds } else { 0.0 }
    }

    /// Mean number of I/Os in flight, by Little's law: their rate times their latency.
    pub fn in_flight(&self) -> f64 {
        self.ios_per_s() * self.latency_us[0] / 1e6
    }

    /// Mean time of an I/O with its wait for a place, µs.
    pub fn total_us(&self) -> f64 {
        self.latency_us[0] + self.wait_us
    }
}

/// Outcome of all intervals at one depth: the medians, which a hiccup or a burst does not move.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TriedDepth {
    /// I/Os that might be in flight, each shard on each drive.
    pub depth: u32,
    /// Bandwidth, bytes a second.
    pub bytes_per_s: f64,
    /// Least and most bandwidth of an interval, bytes a second.
    pub range_bytes_per_s: [f64; 2],
    /// Median latency of an I/O, µs.
    pub latency_p50_us: f64,
    /// Mean time of an I/O with its wait for a place, µs.
    pub total_us: f64,
}

impl TriedDepth {
    /// Whether every interval at one of the depths had more bandwidth than each at the other. Where
    /// not, what they differ by may be the load, which pauses, and reads more or writes more.
    pub fn is_apart_from(&self, other: &TriedDepth) -> bool {
        let [[least, most], [other_least, other_most]] =
            [self.range_bytes_per_s, other.range_bytes_per_s];
        least > other_most || other_least > most
    }
}

/// Depths that were tried in these steps, from the smallest up.
pub fn tried_depths(steps: &[DepthStep]) -> Vec<TriedDepth> {
    let depths: BTreeSet<u32> = steps.iter().map(|step| step.depth).collect();
    let tried = depths.into_iter().map(|depth| {
        let at_depth = || steps.iter().filter(|step| step.depth == depth);
        let rates = || at_depth().map(|step| step.bytes_per_s);
        let middle = |of: &dyn Fn(&DepthStep) -> f64| {
            median(&at_depth().map(of).collect::<Vec<_>>()).unwrap_or(0.0)
        };
        TriedDepth {
            depth,
            bytes_per_s: middle(&|step| step.bytes_per_s),
            range_bytes_per_s: [
                rates().fold(f64::INFINITY, f64::min),
                rates().fold(f64::NEG_INFINITY, f64::max),
            ],
            latency_p50_us: middle(&|step| step.latency_us[1]),
            total_us: middle(&DepthStep::total_us),
        }
    });
    tried.collect()
}

/// The depth with the most bandwidth, the smallest of equals; `None` of nothing.
pub fn best_depth(tried: &[TriedDepth]) -> Option<&TriedDepth> {
    tried.iter().rev().max_by(|one, other| one.bytes_per_s.total_cmp(&other.bytes_per_s))
}

named! {
/// Why a depth was chosen.
#[derive(Serialize, Deserialize)]
pub enum DepthReason {
    /// A smaller one costs more than 5 % of the bandwidth, or has I/Os wait for a place; a larger
    /// one adds latency, and at most 5 % of bandwidth.
    Knee = "knee",
    /// Bandwidth still rises at the largest depth that was tried.
    StillRises = "still_rises",
    /// Hardly any I/O reached the storage tier, so that there was nothing to judge by.
    TooFewIos = "too_few_ios",
    /// The warm-up was over before the search was.
    OutOfTime = "out_of_time",
    /// A shard, or the rank that decides, did not answer, although there was time.
    NoAnswer = "no_answer",
}
}

/// Outcome of the search.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DepthFigures {
    /// The depth of the measurement, each shard on each drive.
    pub chosen: u32,
    /// The largest that was tried.
    pub deepest: u32,
    /// Whether no larger one was tried because there are no buffers for more.
    pub lacks_buffers: bool,
    /// Queues: shards times drives, of all ranks that searched together.
    pub queues: u32,
    /// Ranks that searched together; none where this process searched for itself.
    pub ranks: Option<u32>,
    /// Why this depth was chosen, or why none could be.
    pub reason: DepthReason,
    /// Steps of the search, in order.
    pub steps: Vec<DepthStep>,
    /// Duration of the search, s.
    pub seconds: f64,
}

impl DepthFigures {
    /// Why this depth, in a sentence without a full stop.
    pub fn told(&self) -> String {
        let (chosen, deepest) = (self.chosen, self.deepest);
        let tried = tried_depths(&self.steps);
        let at = |depth: u32| tried.iter().find(|tried| tried.depth == depth);
        let best = best_depth(&tried);
        let mib_per_s = |tried: &TriedDepth| tried.bytes_per_s / f64::from(1 << 20);
        let range = |tried: &TriedDepth| {
            let [least, most] = tried.range_bytes_per_s.map(|rate| rate / f64::from(1 << 20));
            format!("{:.0} MiB/s ({least:.0} to {most:.0})", mib_per_s(tried))
        };
        match (self.reason, at(chosen), best.zip(at(deepest))) {
            (DepthReason::Knee, Some(here), Some((_, deep)))
                if here.bytes_per_s > 1.05 * deep.bytes_per_s && !here.is_apart_from(deep) =>
            {
                format!(
                    "the smallest depth at which no loss shows: {}, and depth {deepest} {}; the \
                     load changed more from step to step than the depth changed; single I/O P50 \
                     {:.3} ms instead of {:.3} ms",
                    range(here),
                    range(deep),
                    here.latency_p50_us / 1e3,
                    deep.latency_p50_us / 1e3
                )
            }
            (DepthReason::Knee, Some(here), Some((best, deep))) if here == best => format!(
                "the depth with the most bandwidth: {:.0} MiB/s, where depth {deepest} has {:.0}",
                mib_per_s(here),
                mib_per_s(deep)
            ),
            (DepthReason::Knee, Some(here), Some((best, deep))) => format!(
                "the smallest depth that comes within 5 % of the best bandwidth without longer \
                 waits: {:.0} of {:.0} MiB/s, {:.1} % less (medians; depth {} is the best), single \
                 I/O P50 {:.3} ms instead of {:.3} ms at depth {deepest}",
                mib_per_s(here),
                mib_per_s(best),
                (1.0 - here.bytes_per_s / best.bytes_per_s) * 100.0,
                best.depth,
                here.latency_p50_us / 1e3,
                deep.latency_p50_us / 1e3
            ),
            (DepthReason::StillRises, ..) => self.still_rises(),
            (DepthReason::OutOfTime, here, _) => {
                let steps = match self.steps.len() {
                    1 => "one step".to_owned(),
                    steps => format!("{steps} steps"),
                };
                let taken = match here {
                    Some(here) => {
                        format!("this had the most bandwidth so far, {:.0} MiB/s", mib_per_s(here))
                    }
                    None => "until then it is what --queue-depth standard has".to_owned(),
                };
                format!(
                    "the warm-up was over after {steps}, before the search was: a longer --warmup \
                     lets it end; {taken}"
                )
            }
            (DepthReason::NoAnswer, ..) => {
                let who = if self.ranks.is_some() { "a shard or a rank" } else { "a shard" };
                format!(
                    "{who} did not answer during the warm-up, so that the search could not go on: \
                     what held it up is told with the run's errors and warnings"
                )
            }
            (DepthReason::TooFewIos | DepthReason::Knee, ..) => {
                "hardly any I/O reached the storage tier during the warm-up, so that there was \
                 nothing to judge by: a longer --warmup, a smaller --cpu-mem-gb or more users \
                 bring more"
                    .to_owned()
            }
        }
    }

    fn still_rises(&self) -> String {
        let deepest = self.deepest;
        let smaller = self.steps.iter().map(|step| step.depth).filter(|&depth| depth < deepest);
        match (smaller.max(), self.lacks_buffers) {
            (None, true) => format!(
                "depth {deepest} is the only one that there are buffers for: a larger \
                 --io-buffer-mb, or a higher ulimit -l, lets it try others"
            ),
            (None, false) => format!(
                "depth {deepest} is the only one for so many shards: with fewer --shards there are \
                 others to try"
            ),
            (Some(next), true) => format!(
                "depth {next} costs bandwidth or has I/Os wait, and {deepest} is the largest that \
                 there are buffers for: a larger --io-buffer-mb, or a higher ulimit -l, may be \
                 faster still"
            ),
            (Some(next), false) => format!(
                "depth {next} costs bandwidth or has I/Os wait, and {deepest} is the largest that \
                 was tried: a larger number may be faster still"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::depth;

    /// Depth 16 was said to have 13,344 MiB/s, and depth 64 8,871: users paused in some steps.
    #[test]
    fn steps_that_differ_by_the_load_show_nothing_of_the_depth() {
        let steps = [(64, 13_350.0), (16, 13_349.0), (64, 4_326.0), (16, 13_340.0)];
        let steps = steps.map(|(depth, mib_per_s)| DepthStep {
            depth,
            bytes_per_s: mib_per_s * f64::from(1 << 20),
            ..DepthStep::default()
        });
        let told = DepthFigures { steps: steps.to_vec(), ..depth(16, DepthReason::Knee) }.told();
        assert!(told.starts_with("the smallest depth at which no loss shows"), "{told}");
        let rates = "13344 MiB/s (13340 to 13349), and depth 64 8838 MiB/s (4326 to 13350)";
        assert!(told.contains(rates), "{told}");
    }

    /// A depth that cost up to 5 % of the bandwidth was told as if it cost none.
    #[test]
    fn the_bandwidth_that_a_knee_costs_is_told() {
        let step = |depth, mib_per_s: f64| DepthStep {
            depth,
            bytes_per_s: mib_per_s * f64::from(1 << 20),
            ..DepthStep::default()
        };
        let steps = vec![step(16, 96.0), step(32, 100.0), step(64, 99.0)];
        let told = DepthFigures { steps, ..depth(16, DepthReason::Knee) }.told();
        assert!(told.contains("96 of 100 MiB/s, 4.0 % less (medians; depth 32"), "{told}");
    }
}
