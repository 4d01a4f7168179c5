//! One second of a run.

use ringfall_engine::shard::{CoarseLatencies, Gauges};
use ringfall_engine::tier::TIER_COUNT;

/// One direction of one tier in one second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimelineDirection {
    /// Storage: bytes whose I/O completed. Above: bytes of the entries whose operation finished.
    pub bytes: u64,
    /// Operations that finished.
    pub operations: u64,
    /// Median latency, µs; `None` without operations.
    pub latency_p50_us: Option<u64>,
    /// 95th percentile, µs.
    pub latency_p95_us: Option<u64>,
    /// 99th percentile, µs.
    pub latency_p99_us: Option<u64>,
}

/// One tier in one second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimelineTier {
    /// Entries read.
    pub read: TimelineDirection,
    /// Entries written.
    pub write: TimelineDirection,
}

/// What happened in one second of the window (the last may be shorter).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TimelineSecond {
    /// Its end, s since the window's start.
    pub end_s: f64,
    /// Its length, s.
    pub seconds: f64,
    /// By `Tier::index`.
    pub tiers: [TimelineTier; TIER_COUNT],
    /// Latencies of single I/Os: read, write.
    pub io: [CoarseLatencies; 2],
    /// How things stood at its end, all shards.
    pub gauges: Gauges,
    /// Users simulated.
    pub users: u32,
    /// Requests that finished.
    pub requests_completed: u64,
    /// Tokens they generated.
    pub generated_tokens: u64,
    /// Reads that found their entry.
    pub hits: u64,
    /// Reads that did not.
    pub misses: u64,
    /// Failed I/Os.
    pub errors: u64,
}
