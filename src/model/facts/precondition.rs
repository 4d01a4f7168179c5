//! Outcome of writing a device full before a run.

use serde::{Deserialize, Serialize};

/// Result of `--precondition`, the writing of the device before the run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct PreconditionReport {
    /// Bytes that were written; no other figure counts them.
    pub bytes: u64,
    /// Duration of the writing, s.
    pub seconds: f64,
    /// Write bandwidth of each round, in order, bytes/s; empty where several drives were written at
    /// the same time.
    pub rounds_bytes_per_s: Vec<f64>,
    /// Whether the bandwidth of the last five rounds was steady.
    pub steady: bool,
    /// Whether a signal ended the writing early.
    pub interrupted: bool,
}

impl PreconditionReport {
    /// The result of two drives that were written at the same time.
    #[must_use]
    pub fn and(self, other: PreconditionReport) -> PreconditionReport {
        PreconditionReport {
            bytes: self.bytes + other.bytes,
            seconds: self.seconds.max(other.seconds),
            rounds_bytes_per_s: Vec::new(),
            steady: self.steady && other.steady,
            interrupted: self.interrupted || other.interrupted,
        }
    }
}
