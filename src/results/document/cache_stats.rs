//! `summary.cache_stats`: what was found, what was moved, and how long that took.

use std::collections::BTreeMap;

use ringfall_engine::metrics::{Histogram, TierMetrics};
use ringfall_engine::tier::Tier;
use ringfall_engine::units::gib;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::latency::{PERCENTILES, ms};
use crate::facts::quotient;
use crate::results::RunResult;
use crate::results::health::{Health, judge};

/// What was found, moved and kept. `gb` and `gbps` are GiB and GiB/s, as in the reference.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct CacheStatsReport {
    /// Share of reads that found their entry.
    pub cache_hit_rate: Option<f64>,
    /// Reads that found it.
    pub cache_hits: u64,
    /// Reads that did not.
    pub cache_misses: u64,
    /// Entries in the GPU tier at the end; null in merged results, as are the next four.
    pub gpu_entries: Option<u64>,
    /// Entries in the CPU tier at the end.
    pub cpu_entries: Option<u64>,
    /// Entries in the storage tier at the end.
    pub storage_entries: Option<u64>,
    /// GPU memory used at the end, GiB.
    pub gpu_memory_used_gb: Option<f64>,
    /// CPU memory used at the end, GiB.
    pub cpu_memory_used_gb: Option<f64>,
    /// Entries that reached the CPU tier, written there at once or demoted.
    pub offloads_cpu: u64,
    /// Entries that reached the storage tier.
    pub offloads_storage: u64,
    /// Does the storage meet what the profile asks? Null in merged results.
    pub storage_health: Option<Health>,
    /// Entries written for turns, system prompts and blocks.
    pub prefill_writes: u64,
    /// Successful reads while generating.
    pub decode_reads: u64,
    /// KV bytes that the tiers moved for their entries, GiB: `tier_{gpu,cpu,storage}_kv_bytes_`
    /// `{written,read}_gb`. On storage those of the I/Os that completed in the window, demotions
    /// included, without the rest of an entry's last block; above, those of the operations that
    /// ended. The tiers' sum is `total_{write,read}_gb`.
    #[serde(flatten)]
    pub tiers: TierFigures,
    /// Bytes of entries written for turns, system prompts and blocks, GiB.
    pub prefill_bytes_written_gb: f64,
    /// Bytes read while generating, GiB.
    pub decode_bytes_read_gb: f64,
    /// Hits on system prompts.
    pub system_prompt_hits: u64,
    /// Common phrases are not simulated: null.
    pub common_phrase_hits: Option<u64>,
    /// Hits on a turn's own entry, on retrieved chunks and on a trace's blocks.
    pub user_cache_hits: u64,
    /// Hits on earlier turns.
    pub multi_turn_hits: u64,
    /// KV bytes read from all tiers.
    pub total_read_bytes: u64,
    /// KV bytes written to all tiers.
    pub total_write_bytes: u64,
    /// KV bytes read from all tiers, GiB.
    pub total_read_gb: f64,
    /// KV bytes written to all tiers, GiB.
    pub total_write_gb: f64,
    /// Read over written bytes.
    pub read_write_ratio: Option<f64>,
    /// Reads of entries (a count; historic name).
    pub read_iops: u64,
    /// Writes of entries (a count; historic name).
    pub write_iops: u64,
    /// Tokens of the entries that storage wrote, took in or read.
    pub storage_tokens_processed: Option<u64>,
    /// `{gpu,cpu,storage}_{read,write}_{p50,p95,p99,p999,p9999}_ms`, on storage also
    /// `storage_{read,write}_{device,host}_…`; a tier without operations has none.
    #[serde(flatten)]
    pub latencies_ms: BTreeMap<String, f64>,
}

/// What each tier moved.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct TierFigures {
    pub tier_gpu_kv_bytes_written_gb: f64,
    pub tier_gpu_kv_bytes_read_gb: f64,
    pub tier_gpu_read_bandwidth_gbps: Option<f64>,
    pub tier_gpu_write_bandwidth_gbps: Option<f64>,
    pub tier_cpu_kv_bytes_written_gb: f64,
    pub tier_cpu_kv_bytes_read_gb: f64,
    pub tier_cpu_read_bandwidth_gbps: Option<f64>,
    pub tier_cpu_write_bandwidth_gbps: Option<f64>,
    pub tier_storage_kv_bytes_written_gb: f64,
    pub tier_storage_kv_bytes_read_gb: f64,
    pub tier_storage_read_bandwidth_gbps: Option<f64>,
    pub tier_storage_write_bandwidth_gbps: Option<f64>,
}

/// KV bytes that a tier moved: read, written.
fn tier_bytes(result: &RunResult, tier: Tier) -> [u64; 2] {
    let (engine, metrics) = (&result.engine, result.engine.tier(tier));
    match tier {
        Tier::Storage => [engine.io_read.entry_bytes, engine.io_write.entry_bytes],
        Tier::Gpu | Tier::Cpu => [metrics.read.entry_bytes, metrics.write.entry_bytes],
    }
}

impl CacheStatsReport {
    pub(super) fn of(result: &RunResult) -> CacheStatsReport {
        let (cache, engine) = (&result.cache, &result.engine);
        let seconds = result.window.seconds;
        let rate = |bytes: u64| (seconds > 0.0).then(|| gib(bytes) / seconds);
        let [[gpu_read, gpu_written], [cpu_read, cpu_written], [disk_read, disk_written]] =
            Tier::ALL.map(|tier| tier_bytes(result, tier));
        let (read, written) =
            (gpu_read + cpu_read + disk_read, gpu_written + cpu_written + disk_written);
        let operations =
            |pick: fn(&TierMetrics) -> u64| -> u64 { engine.tiers.iter().map(pick).sum() };
        // As in the reference: entries that reached the tier, written there at once or demoted.
        let reached = |tier: Tier, above: Tier| {
            engine.tier(tier).write.total.count() + engine.evictions[above.index()].entries
        };
        let state = |tier: Tier| result.tiers[tier.index()];
        CacheStatsReport {
            cache_hit_rate: cache.hit_rate(),
            cache_hits: cache.hits,
            cache_misses: cache.misses,
            gpu_entries: Some(state(Tier::Gpu).entries),
            cpu_entries: Some(state(Tier::Cpu).entries),
            storage_entries: Some(state(Tier::Storage).entries),
            gpu_memory_used_gb: Some(gib(state(Tier::Gpu).used_bytes)),
            cpu_memory_used_gb: Some(gib(state(Tier::Cpu).used_bytes)),
            offloads_cpu: reached(Tier::Cpu, Tier::Gpu),
            offloads_storage: reached(Tier::Storage, Tier::Cpu),
            storage_health: Some(judge(result)),
            prefill_writes: cache.prefill_writes,
            decode_reads: cache.decode_reads,
            tiers: TierFigures {
                tier_gpu_kv_bytes_written_gb: gib(gpu_written),
                tier_gpu_kv_bytes_read_gb: gib(gpu_read),
                tier_gpu_read_bandwidth_gbps: rate(gpu_read),
                tier_gpu_write_bandwidth_gbps: rate(gpu_written),
                tier_cpu_kv_bytes_written_gb: gib(cpu_written),
                tier_cpu_kv_bytes_read_gb: gib(cpu_read),
                tier_cpu_read_bandwidth_gbps: rate(cpu_read),
                tier_cpu_write_bandwidth_gbps: rate(cpu_written),
                tier_storage_kv_bytes_written_gb: gib(disk_written),
                tier_storage_kv_bytes_read_gb: gib(disk_read),
                tier_storage_read_bandwidth_gbps: rate(disk_read),
                tier_storage_write_bandwidth_gbps: rate(disk_written),
            },
            prefill_bytes_written_gb: gib(cache.prefill_written_bytes),
            decode_bytes_read_gb: gib(cache.decode_read_bytes),
            system_prompt_hits: cache.system_prompt_hits,
            common_phrase_hits: None,
            user_cache_hits: cache.user_cache_hits,
            multi_turn_hits: cache.multi_turn_hits,
            total_read_bytes: read,
            total_write_bytes: written,
            total_read_gb: gib(read),
            total_write_gb: gib(written),
            read_write_ratio: quotient(read, written),
            read_iops: operations(|tier| tier.read.total.count()),
            write_iops: operations(|tier| tier.write.total.count()),
            storage_tokens_processed: storage_tokens(result),
            latencies_ms: latencies(result),
        }
    }
}

/// Tokens of the entries written to storage, demoted there, or read from it, as the reference
/// counts them. `None` when the model has no size, which `config` refuses.
fn storage_tokens(result: &RunResult) -> Option<u64> {
    let storage = result.engine.tier(Tier::Storage);
    let demoted = result.engine.evictions[Tier::Cpu.index()].bytes;
    let bytes = storage.read.entry_bytes + storage.write.entry_bytes + demoted;
    let token_bytes = result.plan.model_spec.bytes_per_token().ok()?;
    // An entry is one GPU's share of its tokens.
    let tokens = u128::from(bytes) * u128::from(result.plan.tensor_parallel);
    u64::try_from(tokens / u128::from(token_bytes)).ok()
}

fn latencies(result: &RunResult) -> BTreeMap<String, f64> {
    let tiers = Tier::ALL.into_iter();
    tiers.flat_map(|tier| tier_latencies(tier, result.engine.tier(tier))).collect()
}

/// The latency keys of one tier.
pub(super) fn tier_latencies(tier: Tier, metrics: &TierMetrics) -> BTreeMap<String, f64> {
    let (mut keys, name) = (BTreeMap::new(), tier.name());
    for (direction, metrics) in [("read", &metrics.read), ("write", &metrics.write)] {
        let parts: &[(&str, &Histogram)] = match tier {
            Tier::Storage => {
                &[("", &metrics.total), ("device_", &metrics.device), ("host_", &metrics.host)]
            }
            Tier::Gpu | Tier::Cpu => &[("", &metrics.total)],
        };
        for (part, histogram) in parts {
            for (percentile, quantile) in PERCENTILES {
                if let Some(ns) = histogram.quantile_ns(quantile) {
                    keys.insert(format!("{name}_{direction}_{part}{percentile}_ms"), ms(ns));
                }
            }
        }
    }
    keys
}
