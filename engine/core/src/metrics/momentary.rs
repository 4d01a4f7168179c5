//! State of a shard at a moment, and latencies of one second.

use crate::clock::{MICROSECOND, Nanos};
use crate::key::TIER_COUNT;

/// State of a shard at a moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Gauges {
    /// Number of I/Os submitted and not yet completed.
    pub in_flight: u32,
    /// Bytes of the entries in each tier, by [`crate::key::Tier::index`].
    pub held_bytes: [u64; TIER_COUNT],
}

impl Gauges {
    /// Adds the state of another shard at the same moment.
    pub fn merge(&mut self, other: &Gauges) {
        self.in_flight += other.in_flight;
        for (mine, theirs) in self.held_bytes.iter_mut().zip(other.held_bytes) {
            *mine += theirs;
        }
    }
}

/// Buckets of [`CoarseLatencies`]: half octaves from 1 µs; the last one ends above an hour.
pub const COARSE_BUCKETS: usize = 64;

/// Where the upper half of an octave begins when its number is shifted up to the highest bit:
/// √2 · 2^63, rounded up.
const UPPER_HALF: u64 = 0xb504_f333_f9de_6485;

/// Latencies by half octave: enough for a picture of a second, in a quarter of a KiB.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CoarseLatencies {
    counts: [u32; COARSE_BUCKETS],
}

impl Default for CoarseLatencies {
    fn default() -> Self {
        CoarseLatencies { counts: [0; COARSE_BUCKETS] }
    }
}

impl CoarseLatencies {
    /// Counts one latency in its bucket; the first also holds those below 1 µs.
    pub fn record(&mut self, latency: Nanos) {
        let us = (latency / MICROSECOND).max(1);
        let octave = us.ilog2();
        let upper_half = us << us.leading_zeros() >= UPPER_HALF;
        let bucket = (2 * octave as usize + usize::from(upper_half)).min(COARSE_BUCKETS - 1);
        self.counts[bucket] = self.counts[bucket].saturating_add(1);
    }

    /// Adds the counts of another shard, bucket by bucket.
    pub fn merge(&mut self, other: &CoarseLatencies) {
        for (mine, theirs) in self.counts.iter_mut().zip(other.counts) {
            *mine = mine.saturating_add(theirs);
        }
    }

    /// Counts by bucket; bucket `n` holds latencies from `2^(n/2)` µs on.
    pub fn counts(&self) -> &[u32; COARSE_BUCKETS] {
        &self.counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_octaves_begin_where_they_say() {
        for (us, bucket) in
            [(0, 0), (1, 0), (2, 2), (3, 3), (4, 4), (5, 4), (6, 5), (1_000_000, 39)]
        {
            let mut latencies = CoarseLatencies::default();
            latencies.record(Nanos::from_us(us));
            assert_eq!(latencies.counts()[bucket], 1, "{us} µs");
            let begin_us = 2f64.powf(bucket as f64 / 2.0);
            assert!(us as f64 >= begin_us || us == 0, "{us} µs is below {begin_us}");
        }
        // √2 · 2^octave ≤ us  ⇔  us² ≥ 2 · 4^octave
        let near = |octave: u32| {
            let root = (2u128 << (2 * octave)).isqrt() as u64;
            [root.saturating_sub(1), root, root + 1].map(move |us| (us, octave))
        };
        for (us, octave) in (0..43).flat_map(near).filter(|(us, octave)| us >> octave == 1) {
            let mut latencies = CoarseLatencies::default();
            latencies.record(Nanos::from_us(us));
            let is_above = u128::from(us) * u128::from(us) >= 2u128 << (2 * octave);
            let bucket = (2 * octave as usize + usize::from(is_above)).min(COARSE_BUCKETS - 1);
            assert_eq!(latencies.counts()[bucket], 1, "{us} µs");
        }
        let mut latencies = CoarseLatencies::default();
        latencies.record(Nanos::MAX);
        assert_eq!(latencies.counts()[COARSE_BUCKETS - 1], 1);
    }
}
