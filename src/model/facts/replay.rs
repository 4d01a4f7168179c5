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
