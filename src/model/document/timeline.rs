//! `ringfall.timeline`: one row a second. The rows of ranks for the same second add up, figure by
//! figure; those of runs follow one another.

use ringfall_core::key::Tier;
use ringfall_core::metrics::CoarseLatencies;

use super::figure::{Max, OfRun, Part, Sum};
use super::list::{Buckets, Timed, Timeline};
use super::merge::figures;
use crate::RunResult;
use crate::facts::quotient;
use crate::facts::{TimelineDirection, TimelineSecond, TimelineTier};

figures! {
/// One second of the measurement window; the last may be shorter.
pub struct SecondReport {
    /// End of the second, s after the start of the window.
    pub end_s: Max<f64>,
    /// Length of the second, s: 1, or less for the last one.
    pub seconds: Max<f64>,
    /// Reads, writes and bytes held, by tier.
    pub tiers: Part<SecondTiers>,
    /// Latencies of single reads from storage, as pairs of bucket and count: bucket n begins at
    /// 2^(n/2) µs.
    pub io_read_buckets: Buckets<(u32, u32)>,
    /// Latencies of single writes to storage, as pairs of bucket and count: bucket n begins at
    /// 2^(n/2) µs.
    pub io_write_buckets: Buckets<(u32, u32)>,
    /// Number of I/Os in flight on storage at the end of the second.
    pub queue_depth: Sum<u32>,
    /// Number of simulated users in this second.
    pub users: Sum<u32>,
    /// Number of requests that finished in this second.
    pub requests_completed: Sum<u64>,
    /// Number of tokens that the requests in `requests_completed` generated.
    pub generated_tokens: Sum<u64>,
    /// Share of the reads that found their entry, from 0 to 1; null without reads, and where the
    /// seconds of several ranks are added up.
    pub hit_rate: OfRun<f64>,
    /// Number of I/Os that failed in this second.
    pub errors: Sum<u64>,
}
}

figures! {
/// One second of each tier.
pub struct SecondTiers {
    /// The tier in GPU memory.
    pub gpu: Part<SecondTier>,
    /// The tier in CPU memory.
    pub cpu: Part<SecondTier>,
    /// The tier on the drive.
    pub storage: Part<SecondTier>,
}
}

figures! {
/// One second of one tier.
pub struct SecondTier {
    /// Entries read from the tier.
    pub read: Part<SecondTierDirection>,
    /// Entries written to the tier.
    pub write: Part<SecondTierDirection>,
    /// Bytes of the entries that the tier held at the end of the second.
    pub held_bytes: Sum<u64>,
}
}

figures! {
/// One second of one tier in one direction. Percentiles are null without operations, and where the
/// seconds of several ranks are added up.
pub struct SecondTierDirection {
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

impl SecondReport {
    pub(super) fn all(result: &RunResult) -> Timeline<SecondReport> {
        result.timeline.iter().map(SecondReport::of).collect()
    }

    fn of(second: &TimelineSecond) -> SecondReport {
        let tier = |tier: Tier| {
            let held_bytes = second.gauges.held_bytes[tier.index()];
            SecondTier::of(&second.tiers[tier.index()], held_bytes)
        };
        SecondReport {
            end_s: Max::of(second.end_s),
            seconds: Max::of(second.seconds),
            tiers: Part(SecondTiers {
                gpu: Part(tier(Tier::Gpu)),
                cpu: Part(tier(Tier::Cpu)),
                storage: Part(tier(Tier::Storage)),
            }),
            io_read_buckets: buckets(&second.io[0]),
            io_write_buckets: buckets(&second.io[1]),
            queue_depth: Sum::of(second.gauges.in_flight),
            users: Sum::of(second.users),
            requests_completed: Sum::of(second.requests_completed),
            generated_tokens: Sum::of(second.generated_tokens),
            hit_rate: OfRun::maybe(quotient(second.hits, second.hits + second.misses)),
            errors: Sum::of(second.errors),
        }
    }
}

fn buckets(latencies: &CoarseLatencies) -> Buckets<(u32, u32)> {
    let counts = latencies.counts().iter().copied();
    (0..).zip(counts).filter(|&(_, count)| count > 0).collect()
}

impl SecondTier {
    fn of(tier: &TimelineTier, held_bytes: u64) -> SecondTier {
        let direction = |one: &TimelineDirection| {
            Part(SecondTierDirection {
                bytes: Sum::of(one.bytes),
                operations: Sum::of(one.operations),
                latency_p50_us: OfRun::maybe(one.latency_p50_us),
                latency_p95_us: OfRun::maybe(one.latency_p95_us),
                latency_p99_us: OfRun::maybe(one.latency_p99_us),
            })
        };
        SecondTier {
            read: direction(&tier.read),
            write: direction(&tier.write),
            held_bytes: Sum::of(held_bytes),
        }
    }
}
