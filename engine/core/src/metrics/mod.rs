//! Measurements of a shard: plain values; merging is addition.

mod counters;
mod counts;
mod encoding;
mod histogram;
mod momentary;
mod octaves;

pub use counters::{
    DirectionMetrics, DriveMetrics, ErrorRecord, EvictionMetrics, GpuMoves, IoMetrics, Metrics,
    PromotionMetrics, SIZE_CLASSES, SizeCount, TierMetrics, VerifyMetrics, WaitMetrics, size_class,
};
pub use counts::{Counters, Counts};
pub use encoding::HistogramDecodeError;
pub use histogram::Histogram;
pub use momentary::{COARSE_BUCKETS, CoarseLatencies, Gauges};

#[cfg(test)]
mod tests;
