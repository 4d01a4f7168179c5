//! `ringfall.timeline`: one row a second.

use ringfall_engine::shard::CoarseLatencies;
use ringfall_engine::tier::Tier;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::list::{Timed, Timeline};
use crate::facts::quotient;
use crate::facts::{TimelineDirection, TimelineSecond, TimelineTier};
use crate::results::RunResult;

/// One second of the window (the last may be shorter).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SecondReport {
    /// Its end, s since the window's start.
    pub end_s: f64,
    /// Its length, s.
    pub seconds: f64,
    /// By tier.
    pub tiers: SecondTiers,
    /// Single reads by latency: pairs of bucket and count; bucket n holds those from 2^(n/2) µs on.
    pub io_read_buckets: Vec<(u32, u32)>,
    /// Single writes, likewise.
    pub io_write_buckets: Vec<(u32, u32)>,
    /// I/Os in flight at its end.
    pub queue_depth: u32,
    /// Users simulated.
    pub users: u32,
    /// Requests that finished.
    pub requests_completed: u64,
    /// Tokens that they generated.
    pub generated_tokens: u64,
    /// Share of reads that found their entry.
    pub hit_rate: Option<f64>,
    /// I/Os that failed.
    pub errors: u64,
}

/// A second of each tier.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SecondTiers {
    /// GPU memory.
    pub gpu: SecondTier,
    /// CPU memory.
    pub cpu: SecondTier,
    /// The drive.
    pub storage: SecondTier,
}

/// A second of one tier.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SecondTier {
    /// Entries read.
    pub read: SecondTierDirection,
    /// Entries written.
    pub write: SecondTierDirection,
    /// Bytes of the entries that it held at the second's end.
    pub held_bytes: u64,
}

/// A second of one tier in one direction.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SecondTierDirection {
    /// Storage: bytes whose I/O completed, whole blocks. Above: bytes of the entries whose
    /// operation ended.
    pub bytes: u64,
    /// Operations that ended.
    pub operations: u64,
    /// Median latency of an operation, µs; null without operations.
    pub latency_p50_us: Option<u64>,
    /// 95th percentile, µs.
    pub latency_p95_us: Option<u64>,
    /// 99th percentile, µs.
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
