//! Percentiles as they stand in the JSON.

use ringfall_engine::metrics::Histogram;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The percentiles that every latency is given at, and their suffix in keys.
pub const PERCENTILES: [(&str, f64); 5] =
    [("p50", 0.5), ("p95", 0.95), ("p99", 0.99), ("p999", 0.999), ("p9999", 0.9999)];

/// Nanoseconds as ms.
#[must_use]
pub fn ms(ns: u64) -> f64 {
    ns as f64 / 1e6
}

/// Latencies, ms.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LatencyMs {
    /// Mean.
    pub mean: f64,
    /// Median.
    pub p50: f64,
    /// 95th percentile.
    pub p95: f64,
    /// 99th percentile.
    pub p99: f64,
    /// 99.9th percentile.
    pub p999: f64,
    /// 99.99th percentile.
    pub p9999: f64,
}

impl LatencyMs {
    /// Of a histogram; none when it is empty.
    #[must_use]
    pub fn of(histogram: &Histogram) -> Option<LatencyMs> {
        let at = |quantile| histogram.quantile_ns(quantile).map(ms);
        Some(LatencyMs {
            mean: histogram.mean_ns()? / 1e6,
            p50: at(0.5)?,
            p95: at(0.95)?,
            p99: at(0.99)?,
            p999: at(0.999)?,
            p9999: at(0.9999)?,
        })
    }
}

/// Latencies, ms, with the largest and their number.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LatencyMsMax {
    /// Mean and percentiles.
    #[serde(flatten)]
    pub percentiles: LatencyMs,
    /// The largest.
    pub max: f64,
    /// How many there are.
    pub count: u64,
}

impl LatencyMsMax {
    /// Of a histogram; none when it is empty.
    #[must_use]
    pub fn of(histogram: &Histogram) -> Option<LatencyMsMax> {
        Some(LatencyMsMax {
            percentiles: LatencyMs::of(histogram)?,
            max: ms(histogram.max_ns()?),
            count: histogram.count(),
        })
    }
}
