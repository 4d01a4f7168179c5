//! `ringfall.timeline`: one row a second.

use ringfall_engine::shard::CoarseLatencies;
use ringfall_engine::tier::Tier;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::list::{Timed, Timeline};
use crate::facts::quotient;
use crate::facts::{TimelineDirection, TimelineSecond, TimelineTier};
use crate::results::RunResult;

/// One second of the measurement window; the last may be shorter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SecondReport {
    /// End of the second, s after the start of the window.
    pub end_s: f64,
    /// Length of the second, s: 1, or less for the last one.
    pub seconds: f64,
    /// Reads, writes and bytes held, by tier.
    pub tiers: SecondTiers,
    /// Latencies of single reads from storage, as pairs of bucket and count: bucket n begins at
    /// 2^(n/2) µs.
    pub io_read_buckets: Vec<(u32, u32)>,
    /// Latencies of single writes to storage, as pairs of bucket and count: bucket n begins at
    /// 2^(n/2) µs.
    pub io_write_buckets: Vec<(u32, u32)>,
    /// Number of I/Os in flight on storage at the end of the second.
    pub queue_depth: u32,
    /// Number of simulated users in this second.
    pub users: u32,
    /// Number of requests that finished in this second.
    pub requests_completed: u64,
    /// Number of tokens that the requests in `requests_completed` generated.
    pub generated_tokens: u64,
    /// Share of the reads that found their entry, from 0 to 1; null without reads.
    pub hit_rate: Option<f64>,
    /// Number of I/Os that failed in this second.
    pub errors: u64,
}

/// One second of each tier.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SecondTiers {
    /// The tier in GPU memory.
    pub gpu: SecondTier,
    /// The tier in CPU memory.
    pub cpu: SecondTier,
    /// The tier on the drive.
    pub storage: SecondTier,
}

/// One second of one tier.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SecondTier {
    /// Entries read from the tier.
    pub read: SecondTierDirection,
    /// Entries written to the tier.
    pub write: SecondTierDirection,
    /// Bytes of the entries that the tier held at the end of the second.
    pub held_bytes: u64,
}

/// One second of one tier in one direction.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SecondTierDirection {
    /// Bytes read or written in this second. For storage, bytes whose I/O completed, in whole
    /// blocks; for the tiers above it, bytes of the entries whose operation ended.
    pub bytes: u64,
    /// Number of reads or writes of entries that ended in this second.
    pub operations: u64,
    /// Median latency of these operations, µs; null without operations.
    pub latency_p50_us: Option<u64>,
    /// 95th percentile of the latency of these operations, µs; null without operations.
    pub latency_p95_us: Option<u64>,
    /// 99th percentile of the latency of these operations, µs; null without operations.
    pub latency_p99_us: Option<u64>,
}

impl Timed for SecondReport {
    fn end_s(&mut self) -> &mut f64 {
        &mut self.end_s
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
            end_s: second.end_s,
            seconds: second.seconds,
            tiers: SecondTiers {
                gpu: tier(Tier::Gpu),
                cpu: tier(Tier::Cpu),
                storage: tier(Tier::Storage),
            },
            io_read_buckets: buckets(&second.io[0]),
            io_write_buckets: buckets(&second.io[1]),
            queue_depth: second.gauges.in_flight,
            users: second.users,
            requests_completed: second.requests_completed,
            generated_tokens: second.generated_tokens,
            hit_rate: quotient(second.hits, second.hits + second.misses),
            errors: second.errors,
        }
    }
}

fn buckets(latencies: &CoarseLatencies) -> Vec<(u32, u32)> {
    let counts = latencies.counts().iter().copied();
    (0..).zip(counts).filter(|&(_, count)| count > 0).collect()
}

impl SecondTier {
    fn of(tier: &TimelineTier, held_bytes: u64) -> SecondTier {
        let direction = |one: &TimelineDirection| SecondTierDirection {
            bytes: one.bytes,
            operations: one.operations,
            latency_p50_us: one.latency_p50_us,
            latency_p95_us: one.latency_p95_us,
            latency_p99_us: one.latency_p99_us,
        };
        SecondTier { read: direction(&tier.read), write: direction(&tier.write), held_bytes }
    }
}
