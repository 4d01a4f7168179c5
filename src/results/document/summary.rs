//! `summary`: what the reference benchmark reports.

use ringfall_engine::metrics::Histogram;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::cache_stats::CacheStatsReport;
use super::figure::{Derived, OfRun, Part, Same, Sum, shapes};
use super::latency::{LatencyMs, LatencyMsMax, ms};
use super::list::Rows;
use super::merge::figures;
use crate::results::RunResult;
use crate::results::autoscaling::{self, AutoscalingRow, AutoscalingSummary};
use crate::results::sla::{COMPLIANCE, SLA, Sla};

/// One second's throughput.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ThroughputSecond {
    /// Its end, s since 1970.
    pub timestamp: f64,
    /// Tokens a second of the requests that finished in it.
    pub throughput_tokens_per_sec: f64,
}

impl ThroughputSecond {
    pub(super) fn of(result: &RunResult) -> Rows<ThroughputSecond> {
        let rows = result.timeline.iter().map(|second| ThroughputSecond {
            timestamp: result.window.start_unix_s + second.end_s,
            throughput_tokens_per_sec: second.generated_tokens as f64 / second.seconds.max(1e-9),
        });
        rows.collect()
    }
}

figures! {
/// What the reference benchmark reports.
pub struct Summary {
    /// Requests that finished in the window without a failed step.
    pub total_requests: Sum<u64>,
    /// Tokens that they generated.
    pub total_tokens: Sum<u64>,
    /// Length of the window, s.
    pub elapsed_time: Sum<f64>,
    /// Tokens over the window.
    pub avg_throughput_tokens_per_sec: Derived<Option<f64>>,
    /// Sum of the requests' storage I/O, s.
    pub total_storage_io_time: Derived<f64>,
    /// Tokens over that sum.
    pub storage_throughput_tokens_per_sec: Derived<Option<f64>>,
    /// Requests over the window.
    pub requests_per_second: Derived<Option<f64>>,
    /// From intended arrival to end.
    pub end_to_end_latency_ms: Derived<Option<LatencyMs>>,
    /// Storage I/O of a request.
    pub storage_io_latency_ms: Derived<Option<LatencyMs>>,
    /// Waiting for generated tokens.
    pub generation_latency_ms: Derived<Option<LatencyMs>>,
    /// What was found, moved and kept.
    pub cache_stats: Part<CacheStatsReport>,
    /// By QoS class.
    pub qos_metrics: Derived<QosMetrics>,
    /// System prompts.
    pub prefix_cache_stats: Part<PrefixCacheStats>,
    /// What the autoscaler did, a row a step; empty without one.
    pub autoscaling_stats: Same<Vec<AutoscalingRow>>,
    /// What it came to.
    pub autoscaling_summary: OfRun<AutoscalingSummary>,
    /// Earlier turns of conversations.
    pub multi_turn_stats: Part<MultiTurnStats>,
}
}

figures! {
/// System prompts.
pub struct PrefixCacheStats {
    /// Reads that found their prompt.
    pub prefix_hits: Sum<u64>,
    /// Reads that did not.
    pub prefix_misses: Sum<u64>,
    /// As `prefix_hits`.
    pub system_prompt_reuse: Sum<u64>,
    /// Not simulated: null.
    pub common_phrase_reuse: Sum<Option<u64>>,
    /// Bytes read instead of prefilled.
    pub bytes_saved: Sum<u64>,
}
}

figures! {
/// Earlier turns of conversations.
pub struct MultiTurnStats {
    /// Found.
    pub cache_hits: Sum<u64>,
    /// Not found.
    pub cache_misses: Sum<u64>,
    /// Share found.
    pub hit_rate: Derived<Option<f64>>,
}
}

/// By QoS class.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct QosMetrics {
    /// Priority 3.
    pub interactive: QosClass,
    /// Priority 2.
    pub responsive: QosClass,
    /// Priority 1.
    pub batch: QosClass,
}

/// One class: `{no_data: true}` without requests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[expect(clippy::large_enum_variant, reason = "a document holds three")]
#[serde(untagged)]
pub enum QosClass {
    /// It had requests.
    Measured {
        /// How many.
        total_requests: u64,
        /// From intended arrival to end.
        latency_ms: LatencyMsMax,
        /// The promise and how it was kept.
        sla: SlaReport,
        /// All targets.
        targets_ms: SlaTargets,
    },
    /// It had none.
    Nothing {
        /// True.
        no_data: bool,
    },
}

/// A promise and how it was kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SlaReport {
    /// Target P95, ms.
    pub target_p95_ms: u64,
    /// P95, ms.
    pub actual_p95_ms: Option<f64>,
    /// Share of requests that took no longer than the target.
    pub compliance: f64,
    /// Whether that is 95 % or more.
    pub met: bool,
}

/// Targets of a class, ms.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SlaTargets {
    /// 95th percentile.
    pub p95: u64,
    /// 99th percentile.
    pub p99: u64,
    /// 99.9th percentile.
    pub p999: u64,
    /// 99.99th percentile.
    pub p9999: u64,
}

impl QosClass {
    fn of(sla: &Sla, histogram: &Histogram) -> QosClass {
        let (Some(compliance), Some(latency_ms)) =
            (sla.compliance(histogram), LatencyMsMax::of(histogram))
        else {
            return QosClass::Nothing { no_data: true };
        };
        let [p95, p99, p999, p9999] = sla.targets_ms;
        QosClass::Measured {
            total_requests: histogram.count(),
            latency_ms,
            sla: SlaReport {
                target_p95_ms: p95,
                actual_p95_ms: histogram.quantile_ns(0.95).map(ms),
                compliance,
                met: compliance >= COMPLIANCE,
            },
            targets_ms: SlaTargets { p95, p99, p999, p9999 },
        }
    }
}

impl QosMetrics {
    /// Of the classes' latencies, most urgent first.
    pub(super) fn of(classes: [&Histogram; 3]) -> QosMetrics {
        let [interactive, responsive, batch] =
            std::array::from_fn(|class| QosClass::of(&SLA[class], classes[class]));
        QosMetrics { interactive, responsive, batch }
    }

    /// The classes by name, most urgent first.
    #[must_use]
    pub fn all(&self) -> [(&'static str, &QosClass); 3] {
        [
            ("interactive", &self.interactive),
            ("responsive", &self.responsive),
            ("batch", &self.batch),
        ]
    }
}

shapes!(QosMetrics, AutoscalingSummary);

impl Summary {
    pub(super) fn of(result: &RunResult) -> Summary {
        let (requests, cache) = (&result.requests, &result.cache);
        Summary {
            total_requests: Sum::of(requests.completed()),
            total_tokens: Sum::of(requests.generated_tokens),
            elapsed_time: Sum::of(result.window.seconds),
            cache_stats: Part(CacheStatsReport::of(result)),
            prefix_cache_stats: Part(PrefixCacheStats {
                prefix_hits: Sum::of(cache.system_prompt_hits),
                prefix_misses: Sum::of(cache.prefix_misses),
                system_prompt_reuse: Sum::of(cache.system_prompt_hits),
                common_phrase_reuse: Sum::default(),
                bytes_saved: Sum::of(cache.prefix_saved_bytes),
            }),
            autoscaling_stats: Same::of(autoscaling::rows(result)),
            autoscaling_summary: OfRun::maybe(autoscaling::summary(result)),
            multi_turn_stats: Part(MultiTurnStats {
                cache_hits: Sum::of(cache.multi_turn_hits),
                cache_misses: Sum::of(cache.multi_turn_misses),
                hit_rate: Derived::default(),
            }),
            ..Summary::default()
        }
    }
}
