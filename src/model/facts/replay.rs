//! Figures of recorded operations that were done again.

use serde::Serialize;

/// Operations of one kind that ended as they had in the recording.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct ReplayedOperations {
    /// Name of the system call, or the nearest: `stat`, `open`, `create`, `write`, `fsync` …
    pub name: &'static str,
    /// Number of operations of that kind that were replayed.
    pub count: u64,
    /// Bytes that they moved.
    pub bytes: u64,
    /// Latencies of the recording, which have the time that strace took in them.
    pub recorded: ReplayLatency,
    /// Latencies of the replay.
    pub replayed: ReplayLatency,
    /// Part of the sum of the recording's latencies that may be strace's own, s: what it adds to a
    /// call, once for each of these and for each stop of another thread that it handled meanwhile.
    pub strace_s: f64,
}

/// Calls that were in flight while any was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct CallsInFlight {
    /// Mean number, over the time in which there was one at least.
    pub mean: f64,
    /// Largest number at a time.
    pub most: u64,
}

/// Latencies of operations of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct ReplayLatency {
    /// Median of their latencies, us; null where none was timed.
    pub p50_us: Option<f64>,
    /// 99th percentile of their latencies, us; null where none was timed.
    pub p99_us: Option<f64>,
    /// Sum of their latencies, s.
    pub total_s: f64,
}
