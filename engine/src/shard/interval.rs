//! The I/Os of any span of time, inside the measurement window or not: what a search looks at while
//! the run warms up.

use crate::clock::Nanos;
use crate::metrics::Histogram;

/// Single reads and writes that ended in a span of time.
#[derive(Clone, Debug, Default)]
pub struct IoInterval {
    /// Moment at which the interval began, by the shard's clock.
    pub began: Nanos,
    /// Length of the interval.
    pub length: Nanos,
    /// Bytes that they moved.
    pub bytes: u64,
    /// From submission to completion of each.
    pub latency: Histogram,
    /// Time that they waited for a buffer or a queue place before, all together.
    pub waits: Nanos,
}

impl IoInterval {
    /// One that begins then, in which nothing has ended.
    pub(super) fn beginning(now: Nanos) -> IoInterval {
        IoInterval { began: now, ..IoInterval::default() }
    }

    /// Adds what another shard did in the same span; the longer of the two lengths stays.
    pub fn merge(&mut self, other: &IoInterval) {
        self.began = if self.length == Nanos::ZERO { other.began } else { self.began };
        self.length = self.length.max(other.length);
        self.bytes += other.bytes;
        self.latency.merge(&other.latency);
        self.waits += other.waits;
    }
}
