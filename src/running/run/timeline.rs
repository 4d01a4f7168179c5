//! The seconds of a run, added up over the shards.

use ringfall_core::clock::{Nanos, SECOND};
use ringfall_core::key::TIER_COUNT;
use ringfall_core::metrics::{CoarseLatencies, Gauges, Histogram};
use ringfall_engine::shard::Second;

use crate::driver::RequestSecond;

/// One tier in one direction over one second, all shards. Latencies in ns; none where nothing
/// ended.
#[derive(Clone, Debug, Default)]
pub struct SecondDirectionFigures {
    /// Bytes of the operations that ended in this second.
    pub bytes: u64,
    /// Number of operations that ended in this second.
    pub operations: u64,
    /// Median, P95 and P99.
    pub quantiles_ns: Option<[u64; 3]>,
    histogram: Option<Box<Histogram>>,
}

impl SecondDirectionFigures {
    /// All latencies, while the second is among the newest few.
    #[must_use]
    pub fn latency(&self) -> Option<&Histogram> {
        self.histogram.as_deref()
    }
}

/// One second of the run.
#[derive(Clone, Debug, Default)]
pub struct SecondFigures {
    /// By tier: read, write.
    pub tiers: [[SecondDirectionFigures; 2]; TIER_COUNT],
    /// Entries moved to or from the storage device, by the time that the device took: read, write;
    /// none once the second is closed.
    pub storage_device: [Option<Box<Histogram>>; 2],
    /// Time that entries waited for the storage device, all together.
    pub storage_waits_ns: u64,
    /// Single I/Os: read, write.
    pub io: [CoarseLatencies; 2],
    /// Gauges at its end.
    pub gauges: Gauges,
    /// Number of I/Os that failed in this second.
    pub errors: u64,
    /// The requests of that second.
    pub requests: RequestSecond,
    /// Length: a second, the last one perhaps less, ns.
    pub length_ns: u64,
}

impl SecondFigures {
    /// Storage read latencies as far as known: median, P95, P99.
    #[must_use]
    pub fn latest_read_quantiles_ns(&self) -> Option<[u64; 3]> {
        let read = &self.tiers[TIER_COUNT - 1][0];
        read.quantiles_ns.or_else(|| {
            let histogram = read.histogram.as_ref()?;
            Some([0.5, 0.95, 0.99].map(|q| histogram.quantile_ns(q).unwrap_or(0)))
        })
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
                let fresh =
                    || SecondFigures { length_ns: SECOND.as_ns(), ..SecondFigures::default() };
                self.seconds.resize_with(index + 1, fresh);
            }
            let figures = &mut self.seconds[index];
            figures.gauges.merge(&second.gauges);
            figures.errors += second.errors;
            figures.storage_waits_ns += second.storage_waits_ns;
            for (mine, theirs) in figures.storage_device.iter_mut().zip(second.storage_device) {
                merge(mine, theirs);
            }
            for (mine, theirs) in figures.io.iter_mut().zip(&second.io) {
                mine.merge(theirs);
            }
            for (mine, theirs) in figures.tiers.iter_mut().zip(second.tiers) {
                for (mine, theirs) in mine.iter_mut().zip(theirs) {
                    mine.bytes += theirs.bytes;
                    mine.operations += theirs.operations;
                    merge(&mut mine.histogram, theirs.latency);
                }
            }
        }
        let close = self.seconds.len().saturating_sub(OPEN_SECONDS);
        self.close(close);
    }

    fn close(&mut self, before: usize) {
        for second in self.seconds[..before].iter_mut().skip(self.closed) {
            second.storage_device = Default::default();
            for direction in second.tiers.iter_mut().flatten() {
                direction.quantiles_ns = direction.histogram.take().map(|histogram| {
                    [0.5, 0.95, 0.99].map(|q| histogram.quantile_ns(q).unwrap_or(0))
                });
            }
        }
        self.closed = self.closed.max(before);
    }

    /// Ends the timeline at the window's length and adds the requests.
    pub fn cut_to(&mut self, window: Nanos, requests: &[RequestSecond]) {
        let count = window.div_ceil(SECOND) as usize;
        let fresh = || SecondFigures { length_ns: SECOND.as_ns(), ..SecondFigures::default() };
        self.seconds.resize_with(count, fresh);
        self.closed = self.closed.min(count);
        self.close(count);
        for (second, requests) in self.seconds.iter_mut().zip(requests) {
            second.requests = *requests;
        }
        if let Some(last) = self.seconds.last_mut()
            && window % SECOND > Nanos::ZERO
        {
            last.length_ns = (window % SECOND).as_ns();
        }
    }

    /// The seconds, oldest first; the newest few may still grow while the run goes on.
    #[must_use]
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
