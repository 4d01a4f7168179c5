//! The measurement window, and what was seen around the shards while it was open.

use ringfall_host::BlockDelta;

/// Kernel counters between two readings.
#[derive(Clone, Debug, PartialEq)]
pub struct KernelSecond {
    /// Its end, s since the window's start.
    pub end_s: f64,
    /// Time between the two readings, s.
    pub seconds: f64,
    /// Increase of the disk's kernel counters between the readings.
    pub delta: BlockDelta,
    /// Requests in flight at its end.
    pub in_flight: u64,
}

/// A span of time in which things were counted.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Window {
    /// Wall-clock time of its start, s since 1970.
    pub start_unix_s: f64,
    /// Its length, s; > 0 when anything was measured.
    pub seconds: f64,
    /// Ramp-up before it, s.
    pub warmup_seconds: f64,
    /// From its end until the last operation in flight had finished, s.
    pub drain_seconds: f64,
}

/// One tier at the end of the window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TierState {
    /// Number of entries in the tier.
    pub entries: u64,
    /// Bytes of the tier that entries take up.
    pub used_bytes: u64,
    /// Bytes it may use.
    pub capacity_bytes: u64,
}

/// Observations of the watchdog.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WatchdogReport {
    /// Times that a shard was overdue for a second or more.
    pub stalls: u64,
    /// Longest time within the window for which a shard was overdue, ns.
    pub overdue_max_ns: u64,
}
