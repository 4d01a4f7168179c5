//! `ringfall.timeline`: one row a second. The rows of ranks for the same second add up, figure by
//! figure; those of runs follow one another.

use ringfall_core::key::Tier;
use ringfall_core::metrics::CoarseLatencies;

use super::figure::{Max, OfRun, Part, Sum};
use super::list::{Buckets, Timed};
use super::merge::figures;
use crate::facts::{TimelineDirection, TimelineSecond, quotient};

figures! {
/// One second of the measurement window; the last may be shorter.
pub struct SecondReport of second: TimelineSecond {
    /// End of the second, s after the start of the window.
    pub end_s: Max<f64> = second.end_s,
    /// Length of the second, s: 1, or less for the last one.
    pub seconds: Max<f64> = second.seconds,
    /// Reads, writes and bytes held, by tier.
    pub tiers: Part<SecondTiers> = SecondTiers::of(second),
    /// Latencies of single reads from storage, as pairs of bucket and count: bucket n begins at
    /// 2^(n/2) µs.
    pub io_read_buckets: Buckets<(u32, u32)> = buckets(&second.io[0]),
    /// Latencies of single writes to storage, as pairs of bucket and count: bucket n begins at
    /// 2^(n/2) µs.
    pub io_write_buckets: Buckets<(u32, u32)> = buckets(&second.io[1]),
    /// Number of I/Os in flight on storage at the end of the second; with `--layout`, of files or
    /// slots that were asked for, those that wait for a thread among them.
    pub queue_depth: Sum<u32> = second.gauges.in_flight,
    /// Number of simulated users in this second.
    pub users: Sum<u32> = second.users,
    /// Number of requests that finished in this second.
    pub requests_completed: Sum<u64> = second.requests_completed,
    /// Number of tokens that the requests in `requests_completed` generated.
    pub generated_tokens: Sum<u64> = second.generated_tokens,
    /// Share of the reads that found their entry, from 0 to 1; null without reads, and where the
    /// seconds of several ranks are added up.
    pub hit_rate: OfRun<f64> = quotient(second.hits, second.hits + second.misses),
    /// Number of I/Os that failed in this second.
    pub errors: Sum<u64> = second.errors,
}

/// One second of each tier.
pub struct SecondTiers of second: TimelineSecond {
    /// The tier in GPU memory.
    pub gpu: Part<SecondTier> = SecondTier::of(&(second, Tier::Gpu)),
    /// The tier in CPU memory.
    pub cpu: Part<SecondTier> = SecondTier::of(&(second, Tier::Cpu)),
    /// The tier on the drive.
    pub storage: Part<SecondTier> = SecondTier::of(&(second, Tier::Storage)),
}

/// One second of one tier.
pub struct SecondTier of (second, tier): (&TimelineSecond, Tier) {
    /// Entries read from the tier.
    pub read: Part<SecondTierDirection> = SecondTierDirection::of(&second.tiers[tier.index()].read),
    /// Entries written to the tier.
    pub write: Part<SecondTierDirection> =
        SecondTierDirection::of(&second.tiers[tier.index()].write),
    /// Bytes of the entries that the tier held at the end of the second.
    pub held_bytes: Sum<u64> = second.gauges.held_bytes[tier.index()],
}

/// One second of one tier in one direction. Percentiles are null without operations, and where the
/// seconds of several ranks are added up.
pub struct SecondTierDirection from direction: TimelineDirection {
    /// Bytes read or written in this second. For storage, bytes whose I/O completed, in whole
    /// blocks; for the tiers above it, bytes of the entries whose operation ended.
    pub bytes: Sum<u64>,
    /// Number of reads or writes of entries that ended in this second.
    pub operations: Sum<u64>,
    /// Median latency of these operations, µs; null without operations.
    pub latency_p50_us: OfRun<u64>,
    /// 95th percentile of the latency of these operations, µs; null without operations.
    pub latency_p95_us: OfRun<u64>,
    /// 99th percentile of the latency of these operations, µs; null without operations.
    pub latency_p99_us: OfRun<u64>,
}
}

impl Timed for SecondReport {
    fn delay(&mut self, by_s: f64) {
        self.end_s = self.end_s.map(|end_s| end_s + by_s);
    }
}

fn buckets(latencies: &CoarseLatencies) -> impl Iterator<Item = (u32, u32)> {
    let counts = latencies.counts().iter().copied();
    (0..).zip(counts).filter(|&(_, count)| count > 0)
}
