//! The seconds of a run, added up over the shards.

use ringfall_core::clock::{Nanos, SECOND};
use ringfall_core::key::{TIER_COUNT, Tier};
use ringfall_core::metrics::Histogram;
use ringfall_engine::shard::Second;
use ringfall_model::facts::TimelineSecond;

use crate::driver::RequestSecond;

/// One second of the run.
#[derive(Clone, Debug, Default)]
pub struct SecondFigures {
    /// The second as the result holds it.
    pub row: TimelineSecond,
    /// Entries moved to or from the storage device, by the time that the device took: read, write;
    /// none once the second is closed.
    pub storage_device: [Option<Box<Histogram>>; 2],
    /// Time that entries waited for the storage device, all together.
    pub storage_waits_ns: u64,
    /// By tier: read, write; none where nothing ended, and once the second is closed.
    latencies: [[Option<Box<Histogram>>; 2]; TIER_COUNT],
}

impl SecondFigures {
    /// Latencies of the tier's reads and writes that ended, while the second is among the newest
    /// few.
    pub fn latencies(&self, tier: Tier) -> [Option<&Histogram>; 2] {
        self.latencies[tier.index()].each_ref().map(Option::as_deref)
    }
}

/// All seconds so far. Histograms are kept for the newest seconds only, so that memory does not
/// grow with them.
#[derive(Clone, Debug, Default)]
pub struct Timeline {
    seconds: Vec<SecondFigures>,
    /// Seconds before this one are closed: their quantiles are final.
    closed: usize,
}

/// Seconds kept open for shards that report late.
const OPEN_SECONDS: usize = 5;

impl Timeline {
    /// Adds a shard's seconds.
    pub fn add(&mut self, seconds: Vec<Second>) {
        for second in seconds {
            let index = second.index as usize;
            if self.seconds.len() <= index {
                self.seconds.resize_with(index + 1, SecondFigures::default);
            }
            let figures = &mut self.seconds[index];
            let row = &mut figures.row;
            row.gauges.merge(&second.gauges);
            row.errors += second.errors;
            figures.storage_waits_ns += second.storage_waits_ns;
            for (mine, theirs) in figures.storage_device.iter_mut().zip(second.storage_device) {
                merge(mine, theirs);
            }
            for (mine, theirs) in row.io.iter_mut().zip(&second.io) {
                mine.merge(theirs);
            }
            let tiers = row.tiers.iter_mut().zip(&mut figures.latencies);
            for ((tier, latencies), theirs) in tiers.zip(second.tiers) {
                let directions = [&mut tier.read, &mut tier.write].into_iter().zip(latencies);
                for ((mine, latency), theirs) in directions.zip(theirs) {
                    mine.bytes += theirs.bytes;
                    mine.operations += theirs.operations;
                    merge(latency, theirs.latency);
                }
            }
        }
        let close = self.seconds.len().saturating_sub(OPEN_SECONDS);
        self.close(close);
    }

    fn close(&mut self, before: usize) {
        for second in self.seconds[..before].iter_mut().skip(self.closed) {
            second.storage_device = Default::default();
            for (tier, latencies) in second.row.tiers.iter_mut().zip(&mut second.latencies) {
                for (row, latency) in [&mut tier.read, &mut tier.write].into_iter().zip(latencies) {
                    let latency = latency.take();
                    let us = |q| Some(latency.as_ref()?.quantile_ns(q).unwrap_or(0) / 1_000);
                    row.latency_p50_us = us(0.5);
                    row.latency_p95_us = us(0.95);
                    row.latency_p99_us = us(0.99);
                }
            }
        }
        self.closed = self.closed.max(before);
    }

    /// The seconds of a window of that length, with the requests of each.
    #[must_use]
    pub fn rows(mut self, window: Nanos, requests: &[RequestSecond]) -> Vec<TimelineSecond> {
        let count = window.div_ceil(SECOND) as usize;
        self.seconds.resize_with(count, SecondFigures::default);
        self.closed = self.closed.min(count);
        self.close(count);
        let mut left = window;
        let mut end_s = 0.0;
        let rows = self.seconds.into_iter().enumerate().map(|(index, second)| {
            let length = left.min(SECOND);
            left -= length;
            let seconds = length.as_ns_f64() / SECOND.as_ns_f64();
            end_s += seconds;
            let requests = requests.get(index).copied().unwrap_or_default();
            TimelineSecond {
                end_s,
                seconds,
                requests_completed: requests.completed,
                generated_tokens: requests.tokens,
                hits: requests.hits,
                misses: requests.misses,
                ..second.row
            }
        });
        rows.collect()
    }

    /// The seconds, oldest first; the newest few may still grow while the run goes on.
    pub fn seconds(&self) -> &[SecondFigures] {
        &self.seconds
    }
}

/// Adds the latencies of a shard to those of others, where there are any.
fn merge(sum: &mut Option<Box<Histogram>>, one: Option<Box<Histogram>>) {
    match (sum, one) {
        (_, None) => {}
        (Some(sum), Some(one)) => sum.merge(&one),
        (sum, one) => *sum = one,
    }
}
