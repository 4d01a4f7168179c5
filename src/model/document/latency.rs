//! Percentiles as they stand in the JSON.

use ringfall_core::metrics::Histogram;

use super::figure::Derived;
use crate::figures::given::row;

/// The percentiles that every latency is given at, and their suffix in keys.
pub const PERCENTILES: [(&str, f64); 5] =
    [("p50", 0.5), ("p95", 0.95), ("p99", 0.99), ("p999", 0.999), ("p9999", 0.9999)];

/// Converts nanoseconds to milliseconds, fractions included.
pub fn ms(ns: u64) -> f64 {
    ns as f64 / 1e6
}

row! {
/// Mean and percentiles of a set of latencies, ms.
pub struct LatencyMs of histogram: Histogram {
    /// Mean of the latencies, ms.
    pub mean: Derived<f64> = histogram.mean_ns().unwrap_or(0.0) / 1e6,
    /// Median of the latencies, ms.
    pub p50: Derived<f64> = quantile_ms(histogram, 0.5),
    /// 95th percentile of the latencies, ms.
    pub p95: Derived<f64> = quantile_ms(histogram, 0.95),
    /// 99th percentile of the latencies, ms.
    pub p99: Derived<f64> = quantile_ms(histogram, 0.99),
    /// 99.9th percentile of the latencies, ms.
    pub p999: Derived<f64> = quantile_ms(histogram, 0.999),
    /// 99.99th percentile of the latencies, ms.
    pub p9999: Derived<f64> = quantile_ms(histogram, 0.9999),
}

/// Mean, percentiles, maximum and number of a set of latencies, ms.
pub struct LatencyMsMax {
    /// Mean and percentiles of the latencies, ms.
    #[serde(flatten)]
    pub percentiles: LatencyMs,
    /// Largest of the latencies, ms.
    pub max: Derived<f64>,
    /// Number of latencies in the set.
    pub count: Derived<u64>,
}
}

/// A quantile of the latencies; 0 for an empty histogram, as the reference's keys have it.
fn quantile_ms(histogram: &Histogram, quantile: f64) -> f64 {
    histogram.quantile_ns(quantile).map_or(0.0, ms)
}

impl LatencyMsMax {
    /// Summarises a histogram; `None` when it is empty.
    pub fn of(histogram: &Histogram) -> Option<LatencyMsMax> {
        Some(LatencyMsMax {
            percentiles: LatencyMs::of(histogram),
            max: Derived::of(ms(histogram.max_ns()?)),
            count: Derived::of(histogram.count()),
        })
    }
}
