//! One second of a run.

use ringfall_core::key::TIER_COUNT;
use ringfall_core::metrics::{CoarseLatencies, Gauges};

/// One direction of one tier in one second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimelineDirection {
    /// Storage: bytes whose I/O completed. Above: bytes of the entries whose operation finished.
    pub bytes: u64,
    /// Number of reads or writes of entries that finished in this second.
    pub operations: u64,
    /// Median latency, µs; `None` without operations.
    pub latency_p50_us: Option<u64>,
    /// 95th percentile of their latency, µs; `None` without operations.
    pub latency_p95_us: Option<u64>,
    /// 99th percentile of their latency, µs; `None` without operations.
    pub latency_p99_us: Option<u64>,
}

/// One tier in one second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimelineTier {
    /// Entries read from this tier in this second.
    pub read: TimelineDirection,
    /// Entries written to this tier in this second.
    pub write: TimelineDirection,
}

/// Activity in one second of the window (the last may be shorter).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TimelineSecond {
    /// Its end, s since the window's start.
    pub end_s: f64,
    /// Length of the second, s: 1 but for the last, which may be shorter.
    pub seconds: f64,
    /// Activity of each tier, by `Tier::index`.
    pub tiers: [TimelineTier; TIER_COUNT],
    /// Latencies of single I/Os: read, write.
    pub io: [CoarseLatencies; 2],
    /// Gauges at the end of the second, all shards.
    pub gauges: Gauges,
    /// Number of users that were simulated at its end.
    pub users: u32,
    /// Number of requests that finished in this second.
    pub requests_completed: u64,
    /// Number of tokens generated for the requests that finished in this second.
    pub generated_tokens: u64,
    /// Reads that found their entry.
    pub hits: u64,
    /// Reads that did not.
    pub misses: u64,
    /// Number of I/Os that failed in this second.
    pub errors: u64,
}
