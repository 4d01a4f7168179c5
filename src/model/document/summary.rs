//! `summary`: what the reference benchmark reports.

use ringfall_core::metrics::Histogram;
use ringfall_workloads::contract::Class;
use serde::{Deserialize, Serialize};

use super::cache_stats::CacheStatsReport;
use super::figure::{Derived, Fact, Part, Sum, shapes};
use super::latency::{LatencyMs, LatencyMsMax, ms};
use super::list::{Rows, Timed, Timeline};
use super::merge::figures;
use super::timeline::SecondReport;
use crate::autoscaling::{AutoscalingRow, AutoscalingSummary};
use crate::facts::CacheStats;
use crate::figures::given::row;
use crate::sla::{COMPLIANCE, Sla};
use crate::{RunResult, autoscaling};

row! {
/// Throughput from the start of the window to the end of one of its seconds. `ringfall.timeline`
/// has the throughput of each second by itself.
pub struct ThroughputSecond {
    /// End of the second, s after the start of the window. Same definition as the reference's.
    pub timestamp: f64,
    /// Tokens generated since the start of the window divided by the time since then, tokens/s.
    /// Same definition as the reference's.
    pub throughput_tokens_per_sec: Fact<f64>,
}

/// Latency target of a QoS class, and how it was kept.
pub struct SlaReport {
    /// Target for the 95th percentile of the latency, ms.
    pub target_p95_ms: u64,
    /// Measured 95th percentile of the latency, ms.
    pub actual_p95_ms: Option<f64>,
    /// Share of the requests that took no longer than the target P95, from 0 to 1.
    pub compliance: f64,
    /// Whether at least 95 % of the requests took no longer than the target P95.
    pub met: bool,
}

/// Latency targets of a QoS class, ms.
pub struct SlaTargets of sla: Sla {
    /// Target for the 95th percentile, ms.
    pub p95: u64 = sla.targets_ms[0],
    /// Target for the 99th percentile, ms.
    pub p99: u64 = sla.targets_ms[1],
    /// Target for the 99.9th percentile, ms.
    pub p999: u64 = sla.targets_ms[2],
    /// Target for the 99.99th percentile, ms.
    pub p9999: u64 = sla.targets_ms[3],
}
}

impl Timed for ThroughputSecond {
    fn delay(&mut self, by_s: f64) {
        self.timestamp += by_s;
    }
}

impl ThroughputSecond {
    /// A row for each second of the timeline that says when it ended.
    pub(super) fn of(timeline: &[SecondReport]) -> Timeline<ThroughputSecond> {
        let mut tokens = Some(0_u64);
        let rows = timeline.iter().filter_map(|second| {
            let timestamp = second.end_s.known()?;
            // From a second on whose tokens are unknown, so is their sum.
            let sum = tokens.zip(second.generated_tokens.known());
            tokens = sum.map(|(sum, one)| sum.saturating_add(one));
            let rate = tokens.map(|tokens| tokens as f64 / timestamp.max(1e-6));
            Some(ThroughputSecond { timestamp, throughput_tokens_per_sec: Fact::maybe(rate) })
        });
        rows.collect()
    }
}

figures! {
/// Figures that the reference benchmark reports, under its keys. Each description says whether the
/// definition is the reference's; where it differs, `ringfall` has a stricter figure.
pub struct Summary of result: RunResult {
    /// Number of requests that finished in the window. Differs from the reference, which also
    /// counts those that finish while its threads stop after the window, those with a failed step,
    /// and those whose entry is too large for every tier (`ringfall.errors` has the last two).
    pub total_requests: Sum<u64> = result.requests.completed(),
    /// Number of tokens that the requests in `total_requests` generated. Differs from the reference
    /// as `total_requests` does.
    pub total_tokens: Sum<u64> = result.requests.generated_tokens,
    /// Length of the measurement window, s. Same definition as the reference's: what its threads
    /// take to stop after the window is not in it, although what they do in that time is counted.
    pub elapsed_time: Sum<f64> = result.window.seconds,
    /// Tokens generated divided by the length of the window, tokens/s. Differs from the reference
    /// as `total_tokens` does.
    pub avg_throughput_tokens_per_sec: Derived<f64>,
    /// Sum of the storage I/O times of the requests, s. Differs from the reference as
    /// `storage_io_latency_ms` does.
    pub total_storage_io_time: Derived<f64>,
    /// Tokens generated divided by the summed storage I/O time of the requests, tokens/s; 0 when
    /// that time is 0. Differs from the reference as `storage_io_latency_ms` does.
    pub storage_throughput_tokens_per_sec: Derived<f64>,
    /// Requests that finished divided by the length of the window, requests/s. Differs from the
    /// reference as `total_requests` does.
    pub requests_per_second: Derived<f64>,
    /// Latency of the requests that finished, from intended arrival to end, ms. Requests that had
    /// not finished when the window closed are left out, and under overload the figures are too
    /// low: `ringfall.requests` includes those. Differs from the reference, which also has the
    /// requests that finish while its threads stop after the window. With `--trace-speedup 0` all
    /// rows of its trace arrive at once and wait, whereas here a row arrives when fewer than 64
    /// wait on its shard, so that the latency does not grow with the trace. Zeros when no request
    /// finished (`ringfall.not_measured` says so).
    pub end_to_end_latency_ms: Derived<LatencyMs>,
    /// Time that each request that finished spent reading and writing entries in all tiers, ms.
    /// As in the reference, the waits for an allocation permit and for a tier to have room are left
    /// out. Differs from the reference, which has no queue before the device: the wait for a place
    /// in it is included (`ringfall.waits` has all of these waits). Zeros when no request finished.
    pub storage_io_latency_ms: Derived<LatencyMs>,
    /// Time that each request that finished waited for generated tokens, ms. Differs from the
    /// reference, which also has the requests that finish while its threads stop after the window:
    /// those with the longest answers. Zeros when no request finished.
    pub generation_latency_ms: Derived<LatencyMs>,
    /// Hits and misses, bytes read and written, and entries held, by tier.
    pub cache_stats: Part<CacheStatsReport> = CacheStatsReport::of(result),
    /// Requests that finished, by QoS class, against the targets of the run. Differs from the
    /// reference as `end_to_end_latency_ms` does; `ringfall.requests` takes the unfinished ones
    /// into account. The targets are null in merged results that had different
    /// ones.
    pub qos_metrics: Derived<QosMetrics>,
    /// Reads of the entries of system prompts.
    pub prefix_cache_stats: Part<PrefixCacheStats> = PrefixCacheStats::of(&result.cache),
    /// Steps of the autoscaler, one row each; empty without an autoscaler. Of merged results, one
    /// search after the other. Differs from the reference, which has no row for a step that changed
    /// nothing.
    pub autoscaling_stats: Rows<AutoscalingRow> = autoscaling::rows(result),
    /// Results of the autoscaler; null without an autoscaler, as in the reference. Each key says
    /// whether its definition is the reference's; in merged results a key is null where they differ
    /// in it.
    pub autoscaling_summary: Option<AutoscalingSummary> =
        result.autoscale.as_ref().map(AutoscalingSummary::of),
    /// Reads of earlier turns of conversations.
    pub multi_turn_stats: Part<MultiTurnStats> = MultiTurnStats::of(&result.cache),
}

/// Reads of the entries of system prompts. Zeros when prefix caching is off, where the reference
/// leaves the keys out.
pub struct PrefixCacheStats from cache: CacheStats {
    /// Number of reads of a system prompt's entry that found it. Differs from the reference, which
    /// counts the requests that have a prompt and never writes one.
    pub prefix_hits: Sum<u64>,
    /// Number of reads of a system prompt's entry that did not find it. Differs from the reference,
    /// which counts the requests that have no prompt.
    pub prefix_misses: Sum<u64>,
    /// The same as `prefix_hits`: every prefix is a system prompt. Differs from the reference as
    /// `prefix_hits` does.
    pub system_prompt_reuse: Sum<u64> = cache.prefix_hits,
    /// Always 0: no workload has common phrases. Same definition as the reference's.
    pub common_phrase_reuse: Sum<u64> = 0u64,
    /// Bytes of system prompts that were read instead of prefilled. Differs from the reference,
    /// which counts the bytes of all requests' prompts, read or not.
    pub bytes_saved: Sum<u64> = cache.prefix_saved_bytes,
}

/// Reads of earlier turns of conversations.
pub struct MultiTurnStats of cache: CacheStats {
    /// Number of reads of an earlier turn that found it. Same definition as the reference's.
    pub cache_hits: Sum<u64> = cache.multi_turn_hits,
    /// Number of reads of another turn that did not find it. Differs from the reference, which also
    /// counts one for each later turn of the conversation that is still queued; with
    /// `history_counts_queued_turns: true` in the configuration file, section `workload`, so does
    /// ringfall.
    pub cache_misses: Sum<u64> = cache.multi_turn_misses,
    /// Share of the reads of earlier turns that found them, from 0 to 1; 0 without such reads.
    /// Differs from the reference as `cache_misses` does: with a backlog the reference's is much
    /// lower.
    pub hit_rate: Derived<f64>,
}
}

/// Requests that finished, by QoS class.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct QosMetrics {
    /// Requests of the class `interactive`, the most urgent (priority 3).
    pub interactive: QosClass,
    /// Requests of the class `responsive` (priority 2).
    pub responsive: QosClass,
    /// Requests of the class `batch`, the least urgent (priority 1).
    pub batch: QosClass,
}

/// Requests of one QoS class; `{no_data: true}` when it had none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
#[expect(clippy::large_enum_variant, reason = "a document holds three")]
#[serde(untagged)]
pub enum QosClass {
    /// A class of which requests finished.
    Measured {
        /// Number of requests of this class that finished in the window.
        total_requests: u64,
        /// Latency of the requests of this class, from intended arrival to end, ms.
        latency_ms: LatencyMsMax,
        /// Latency target of the class, and how it was kept; null in merged results that had
        /// different targets: no one target was kept or missed.
        sla: Fact<Option<SlaReport>>,
        /// All latency targets of the class, ms; null in merged results that had different ones.
        targets_ms: Fact<Option<SlaTargets>>,
    },
    /// A class of which no request finished.
    Nothing {
        /// Always true: no request of this class finished.
        no_data: bool,
    },
}

impl QosClass {
    fn of(sla: Option<&Sla>, histogram: &Histogram) -> QosClass {
        let Some(latency_ms) = LatencyMsMax::of(histogram) else {
            return QosClass::Nothing { no_data: true };
        };
        let kept = |sla: &Sla| {
            let compliance = sla.compliance(histogram)?;
            Some(SlaReport {
                target_p95_ms: sla.targets_ms[0],
                actual_p95_ms: histogram.quantile_ns(0.95).map(ms),
                compliance,
                met: compliance >= COMPLIANCE,
            })
        };
        QosClass::Measured {
            total_requests: histogram.count(),
            latency_ms,
            sla: Fact::maybe(sla.and_then(kept)),
            targets_ms: Fact::maybe(sla.map(SlaTargets::of)),
        }
    }
}

impl QosMetrics {
    /// Computes the metrics from the classes' latencies and targets, most urgent first; without
    /// targets where they are not the same for all requests.
    pub(super) fn of(classes: [&Histogram; 3], slas: Option<&[Sla; 3]>) -> QosMetrics {
        let of = |class: usize| QosClass::of(slas.map(|slas| &slas[class]), classes[class]);
        let [interactive, responsive, batch] = std::array::from_fn(of);
        QosMetrics { interactive, responsive, batch }
    }

    /// The classes by name, most urgent first.
    pub fn all(&self) -> [(&'static str, &QosClass); 3] {
        let [interactive, responsive, batch] = Class::NAMES;
        [(interactive, &self.interactive), (responsive, &self.responsive), (batch, &self.batch)]
    }
}

shapes!(QosMetrics);

impl Summary {
    /// Share of the requests of that class that finished within their P95 target; none where none
    /// finished, or there was no one target.
    pub fn share_within_target(&self, class: &str) -> Option<f64> {
        let classes = self.qos_metrics.as_ref()?.all();
        match classes.into_iter().find(|(name, _)| *name == class)?.1 {
            QosClass::Measured { sla, .. } => Some(sla.as_ref()?.compliance),
            QosClass::Nothing { .. } => None,
        }
    }
}
