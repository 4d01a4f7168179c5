//! What a shard measured: plain values; merging is addition.

mod counters;
mod histogram;

pub use counters::{
    DirectionMetrics, ErrorRecord, EvictionMetrics, IoMetrics, Metrics, TierMetrics, VerifyMetrics,
    WaitMetrics,
};
pub use histogram::Histogram;
