//! Percentiles as they stand in the JSON.

use ringfall_core::metrics::Histogram;

use super::figure::Derived;
use crate::figures::given::row;

/// The percentiles that every latency is given at, and their suffix in keys.
pub const PERCENTILES: [(&str, f64); 5] =
    [("p50", 0.5), ("p95", 0.95), ("p99", 0.99), ("p999", 0.999), ("p9999", 0.9999)];

/// Converts nanoseconds to milliseconds, fractions included.
#[must_use]
pub fn ms(ns: u64) -> f64 {
    ns as f64 / 1e6
}

row! {
/// Mean and percentiles of a set of latencies, ms.
pub struct LatencyMs {
    /// Mean of the latencies, ms.
    pub mean: Derived<f64>,
    /// Median of the latencies, ms.
    pub p50: Derived<f64>,
    /// 95th percentile of the latencies, ms.
    pub p95: Derived<f64>,
    /// 99th percentile of the latencies, ms.
    pub p99: Derived<f64>,
    /// 99.9th percentile of the latencies, ms.
    pub p999: Derived<f64>,
    /// 99.99th percentile of the latencies, ms.
    pub p9999: Derived<f64>,
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

impl LatencyMs {
    /// As the reference's keys have them: zeros for an empty histogram.
    #[must_use]
    pub fn or_zeros(histogram: &Histogram) -> LatencyMs {
        let at = |quantile| Derived::of(histogram.quantile_ns(quantile).map_or(0.0, ms));
        LatencyMs {
            mean: Derived::of(histogram.mean_ns().unwrap_or(0.0) / 1e6),
            p50: at(0.5),
            p95: at(0.95),
            p99: at(0.99),
            p999: at(0.999),
            p9999: at(0.9999),
        }
    }
}

impl LatencyMsMax {
    /// Summarises a histogram; `None` when it is empty.
    #[must_use]
    pub fn of(histogram: &Histogram) -> Option<LatencyMsMax> {
        Some(LatencyMsMax {
            percentiles: LatencyMs::or_zeros(histogram),
            max: Derived::of(ms(histogram.max_ns()?)),
            count: Derived::of(histogram.count()),
        })
    }
}
