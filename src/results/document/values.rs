//! Parts of the document as plain JSON, for commands that put results together without reading
//! them whole.

use ringfall_engine::metrics::{Histogram, TierMetrics};
use ringfall_engine::tier::TIER_COUNT;
use serde::Serialize;
use serde_json::{Value, json};

use super::cache_stats::tier_latencies;
use super::engine::EncodedHistogram;
use super::latency::{LatencyMs, LatencyMsMax};
use super::summary::QosMetrics;

/// Evictions by the tiers from and to, in the order of `Tier::index` of the first.
pub(crate) const EVICTION_PAIRS: [&str; TIER_COUNT] =
    ["gpu_to_cpu", "cpu_to_storage", "storage_to_none"];

/// Plain values always become JSON.
fn value(of: impl Serialize) -> Value {
    serde_json::to_value(of).unwrap_or_default()
}

/// `mean p50 p95 p99 p999 p9999`, ms; null when nothing was measured.
pub(crate) fn latency_ms(histogram: &Histogram) -> Value {
    value(LatencyMs::of(histogram))
}

/// As [`latency_ms`], with the maximum and the count.
pub(crate) fn latency_ms_max(histogram: &Histogram) -> Value {
    value(LatencyMsMax::of(histogram))
}

/// A histogram that merges exactly; null when it is empty.
pub(crate) fn encoded(histogram: &Histogram) -> Value {
    value(EncodedHistogram::of(histogram))
}

/// `summary.qos_metrics` of the classes' latencies, most urgent first.
pub(crate) fn qos(classes: &[Histogram; 3]) -> Value {
    value(QosMetrics::of(classes))
}

/// The latency keys of a tier.
pub(crate) fn latency_keys(
    tier: ringfall_engine::tier::Tier,
    metrics: &TierMetrics,
) -> impl Iterator<Item = (String, Value)> {
    tier_latencies(tier, metrics).into_iter().map(|(key, ms)| (key, json!(ms)))
}
