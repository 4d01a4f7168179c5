//! What a shard measured: plain values; merging is addition.

mod counters;
mod encoding;
mod histogram;

pub use counters::{
    DirectionMetrics, ErrorRecord, EvictionMetrics, IoMetrics, Metrics, TierMetrics, VerifyMetrics,
    WaitMetrics,
};
pub use encoding::HistogramDecodeError;
pub use histogram::Histogram;

#[cfg(test)]
mod tests;
