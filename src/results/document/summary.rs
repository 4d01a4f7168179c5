//! `summary`: what the reference benchmark reports.

use ringfall_engine::metrics::Histogram;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::cache_stats::CacheStatsReport;
use super::latency::{LatencyMs, LatencyMsMax, ms};
use crate::facts::quotient;
use crate::results::RunResult;
use crate::results::autoscaling::{self, AutoscalingRow, AutoscalingSummary};
use crate::results::sla::{COMPLIANCE, SLA, Sla};

/// One second's throughput.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ThroughputSecond {
    /// Its end, s since 1970.
    pub timestamp: f64,
    /// Tokens a second of the requests that finished in it.
    pub throughput_tokens_per_sec: f64,
}

impl ThroughputSecond {
    pub(super) fn of(result: &RunResult) -> Vec<ThroughputSecond> {
        let rows = result.timeline.iter().map(|second| ThroughputSecond {
            timestamp: result.window.start_unix_s + second.end_s,
            throughput_tokens_per_sec: second.generated_tokens as f64 / second.seconds.max(1e-9),
        });
        rows.collect()
    }
}

/// What the reference benchmark reports.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Summary {
    /// Requests that finished in the window without a failed step.
    pub total_requests: u64,
    /// Tokens that they generated.
    pub total_tokens: u64,
    /// Length of the window, s.
    pub elapsed_time: f64,
    /// Tokens over the window.
    pub avg_throughput_tokens_per_sec: Option<f64>,
    /// Sum of the requests' storage I/O, s.
    pub total_storage_io_time: f64,
    /// Tokens over that sum.
    pub storage_throughput_tokens_per_sec: Option<f64>,
    /// Requests over the window.
    pub requests_per_second: Option<f64>,
    /// From intended arrival to end.
    pub end_to_end_latency_ms: Option<LatencyMs>,
    /// Storage I/O of a request.
    pub storage_io_latency_ms: Option<LatencyMs>,
    /// Waiting for generated tokens.
    pub generation_latency_ms: Option<LatencyMs>,
    /// What was found, moved and kept.
    pub cache_stats: CacheStatsReport,
    /// By QoS class.
    pub qos_metrics: QosMetrics,
    /// System prompts.
    pub prefix_cache_stats: PrefixCacheStats,
    /// What the autoscaler did, a row a step; empty without one.
    pub autoscaling_stats: Vec<AutoscalingRow>,
    /// What it came to.
    pub autoscaling_summary: Option<AutoscalingSummary>,
    /// Earlier turns of conversations.
    pub multi_turn_stats: MultiTurnStats,
}

/// System prompts.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct PrefixCacheStats {
    /// Reads that found their prompt.
    pub prefix_hits: u64,
    /// Reads that did not.
    pub prefix_misses: u64,
    /// As `prefix_hits`.
    pub system_prompt_reuse: u64,
    /// Not simulated: null.
    pub common_phrase_reuse: Option<u64>,
    /// Bytes read instead of prefilled.
    pub bytes_saved: u64,
}

/// Earlier turns of conversations.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct MultiTurnStats {
    /// Found.
    pub cache_hits: u64,
    /// Not found.
    pub cache_misses: u64,
    /// Share found.
    pub hit_rate: Option<f64>,
}

/// By QoS class.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct QosMetrics {
    /// Priority 3.
    pub interactive: QosClass,
    /// Priority 2.
    pub responsive: QosClass,
    /// Priority 1.
    pub batch: QosClass,
}

/// One class: `{no_data: true}` without requests.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
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
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
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
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
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
    pub(super) fn of(classes: &[Histogram; 3]) -> QosMetrics {
        let [interactive, responsive, batch] =
            std::array::from_fn(|class| QosClass::of(&SLA[class], &classes[class]));
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

impl Summary {
    pub(super) fn of(result: &RunResult) -> Summary {
        let requests = &result.requests;
        let (seconds, tokens) = (result.window.seconds, requests.generated_tokens);
        let rate = |count: u64| (seconds > 0.0).then(|| count as f64 / seconds);
        let storage_s = requests.storage_io.sum_ns() as f64 / 1e9;
        let cache = &result.cache;
        let (hits, misses) = (cache.multi_turn_hits, cache.multi_turn_misses);
        Summary {
            total_requests: requests.completed(),
            total_tokens: tokens,
            elapsed_time: seconds,
            avg_throughput_tokens_per_sec: rate(tokens),
            total_storage_io_time: storage_s,
            storage_throughput_tokens_per_sec: (storage_s > 0.0).then(|| tokens as f64 / storage_s),
            requests_per_second: rate(requests.completed()),
            end_to_end_latency_ms: LatencyMs::of(&requests.end_to_end_all()),
            storage_io_latency_ms: LatencyMs::of(&requests.storage_io),
            generation_latency_ms: LatencyMs::of(&requests.generation),
            cache_stats: CacheStatsReport::of(result),
            qos_metrics: QosMetrics::of(&requests.end_to_end),
            prefix_cache_stats: PrefixCacheStats {
                prefix_hits: cache.system_prompt_hits,
                prefix_misses: cache.prefix_misses,
                system_prompt_reuse: cache.system_prompt_hits,
                common_phrase_reuse: None,
                bytes_saved: cache.prefix_saved_bytes,
            },
            autoscaling_stats: autoscaling::rows(result),
            autoscaling_summary: autoscaling::summary(result),
            multi_turn_stats: MultiTurnStats {
                cache_hits: hits,
                cache_misses: misses,
                hit_rate: quotient(hits, hits + misses),
            },
        }
    }
}
