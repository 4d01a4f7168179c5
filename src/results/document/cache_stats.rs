//! `summary.cache_stats`: what was found, what was moved, and how long that took.

use std::collections::BTreeMap;

use ringfall_engine::metrics::TierMetrics;
use ringfall_engine::tier::Tier;
use ringfall_engine::units::gib;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use super::figure::{Derived, OfRun, Sum, shapes};
use super::histograms::Histograms;
use super::latency::{PERCENTILES, ms};
use super::merge::{Inputs, Merge, figures};
use crate::results::RunResult;
use crate::results::health::{Health, judge};

shapes!(Health);

figures! {
/// What was found, moved and kept. `gb` and `gbps` are GiB and GiB/s, as in the reference.
pub struct CacheStatsReport {
    /// Share of reads that found their entry.
    pub cache_hit_rate: Derived<Option<f64>>,
    /// Reads that found it.
    pub cache_hits: Sum<u64>,
    /// Reads that did not.
    pub cache_misses: Sum<u64>,
    /// Entries in the GPU tier at the end; null in merged results, as are the next four.
    pub gpu_entries: OfRun<u64>,
    /// Entries in the CPU tier at the end.
    pub cpu_entries: OfRun<u64>,
    /// Entries in the storage tier at the end.
    pub storage_entries: OfRun<u64>,
    /// GPU memory used at the end, GiB.
    pub gpu_memory_used_gb: OfRun<f64>,
    /// CPU memory used at the end, GiB.
    pub cpu_memory_used_gb: OfRun<f64>,
    /// Entries that reached the CPU tier, written there at once or demoted.
    pub offloads_cpu: Sum<u64>,
    /// Entries that reached the storage tier.
    pub offloads_storage: Sum<u64>,
    /// Does the storage meet what the profile asks? Null in merged results.
    pub storage_health: OfRun<Health>,
    /// Entries written for turns, system prompts and blocks.
    pub prefill_writes: Sum<u64>,
    /// Successful reads while generating.
    pub decode_reads: Sum<u64>,
    /// KV bytes written in the GPU tier by the operations that ended in the window, GiB.
    pub tier_gpu_kv_bytes_written_gb: Sum<f64>,
    /// KV bytes read in the GPU tier by the operations that ended in the window, GiB.
    pub tier_gpu_kv_bytes_read_gb: Sum<f64>,
    /// KV bytes read in the GPU tier over the window, GiB/s.
    pub tier_gpu_read_bandwidth_gbps: Derived<Option<f64>>,
    /// KV bytes written in the GPU tier over the window, GiB/s.
    pub tier_gpu_write_bandwidth_gbps: Derived<Option<f64>>,
    /// KV bytes written in the CPU tier by the operations that ended in the window, GiB.
    pub tier_cpu_kv_bytes_written_gb: Sum<f64>,
    /// KV bytes read in the CPU tier by the operations that ended in the window, GiB.
    pub tier_cpu_kv_bytes_read_gb: Sum<f64>,
    /// KV bytes read in the CPU tier over the window, GiB/s.
    pub tier_cpu_read_bandwidth_gbps: Derived<Option<f64>>,
    /// KV bytes written in the CPU tier over the window, GiB/s.
    pub tier_cpu_write_bandwidth_gbps: Derived<Option<f64>>,
    /// KV bytes of the entries whose I/O on storage completed in the window, demotions included,
    /// without the rest of an entry's last block, written, GiB.
    pub tier_storage_kv_bytes_written_gb: Sum<f64>,
    /// KV bytes of the entries whose I/O on storage completed in the window, demotions included,
    /// without the rest of an entry's last block, read, GiB.
    pub tier_storage_kv_bytes_read_gb: Sum<f64>,
    /// KV bytes read in the storage tier over the window, GiB/s.
    pub tier_storage_read_bandwidth_gbps: Derived<Option<f64>>,
    /// KV bytes written in the storage tier over the window, GiB/s.
    pub tier_storage_write_bandwidth_gbps: Derived<Option<f64>>,
    /// Bytes of entries written for turns, system prompts and blocks, GiB.
    pub prefill_bytes_written_gb: Sum<f64>,
    /// Bytes read while generating, GiB.
    pub decode_bytes_read_gb: Sum<f64>,
    /// Hits on system prompts.
    pub system_prompt_hits: Sum<u64>,
    /// Common phrases are not simulated: null.
    pub common_phrase_hits: Sum<Option<u64>>,
    /// Hits on a turn's own entry, on retrieved chunks and on a trace's blocks.
    pub user_cache_hits: Sum<u64>,
    /// Hits on earlier turns.
    pub multi_turn_hits: Sum<u64>,
    /// KV bytes read from all tiers.
    pub total_read_bytes: Sum<u64>,
    /// KV bytes written to all tiers.
    pub total_write_bytes: Sum<u64>,
    /// KV bytes read from all tiers, GiB.
    pub total_read_gb: Sum<f64>,
    /// KV bytes written to all tiers, GiB.
    pub total_write_gb: Sum<f64>,
    /// Read over written bytes.
    pub read_write_ratio: Derived<Option<f64>>,
    /// Reads of entries (a count; historic name).
    pub read_iops: Sum<u64>,
    /// Writes of entries (a count; historic name).
    pub write_iops: Sum<u64>,
    /// Tokens of the entries that storage wrote, took in or read.
    pub storage_tokens_processed: Sum<Option<u64>>,
    /// `{gpu,cpu,storage}_{read,write}_{p50,p95,p99,p999,p9999}_ms`, on storage also
    /// `storage_{read,write}_{device,host}_…`; a tier without operations has none.
    #[serde(flatten)]
    pub latencies_ms: TierLatencies,
}
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
    /// The counters; what is derived is set by [`derive`](super::derive).
    pub(super) fn of(result: &RunResult) -> CacheStatsReport {
        let (cache, engine) = (&result.cache, &result.engine);
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
        let sum_gib = |bytes: u64| Sum::of(gib(bytes));
        CacheStatsReport {
            cache_hits: Sum::of(cache.hits),
            cache_misses: Sum::of(cache.misses),
            gpu_entries: OfRun::of(state(Tier::Gpu).entries),
            cpu_entries: OfRun::of(state(Tier::Cpu).entries),
            storage_entries: OfRun::of(state(Tier::Storage).entries),
            gpu_memory_used_gb: OfRun::of(gib(state(Tier::Gpu).used_bytes)),
            cpu_memory_used_gb: OfRun::of(gib(state(Tier::Cpu).used_bytes)),
            offloads_cpu: Sum::of(reached(Tier::Cpu, Tier::Gpu)),
            offloads_storage: Sum::of(reached(Tier::Storage, Tier::Cpu)),
            storage_health: OfRun::of(judge(result)),
            prefill_writes: Sum::of(cache.prefill_writes),
            decode_reads: Sum::of(cache.decode_reads),
            tier_gpu_kv_bytes_written_gb: sum_gib(gpu_written),
            tier_gpu_kv_bytes_read_gb: sum_gib(gpu_read),
            tier_cpu_kv_bytes_written_gb: sum_gib(cpu_written),
            tier_cpu_kv_bytes_read_gb: sum_gib(cpu_read),
            tier_storage_kv_bytes_written_gb: sum_gib(disk_written),
            tier_storage_kv_bytes_read_gb: sum_gib(disk_read),
            prefill_bytes_written_gb: sum_gib(cache.prefill_written_bytes),
            decode_bytes_read_gb: sum_gib(cache.decode_read_bytes),
            system_prompt_hits: Sum::of(cache.system_prompt_hits),
            user_cache_hits: Sum::of(cache.user_cache_hits),
            multi_turn_hits: Sum::of(cache.multi_turn_hits),
            total_read_bytes: Sum::of(read),
            total_write_bytes: Sum::of(written),
            total_read_gb: sum_gib(read),
            total_write_gb: sum_gib(written),
            read_iops: Sum::of(operations(|tier| tier.read.total.count())),
            write_iops: Sum::of(operations(|tier| tier.write.total.count())),
            storage_tokens_processed: Sum::maybe(storage_tokens(result)),
            ..CacheStatsReport::default()
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

/// Latencies of the tiers by their keys. Derived; a tier that had no operation has none.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[serde(transparent)]
pub struct TierLatencies(BTreeMap<String, f64>);

impl TierLatencies {
    /// The latency at that key, ms.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<f64> {
        self.0.get(key).copied()
    }

    /// Of the histograms that there are.
    pub(super) fn of(histograms: &Histograms) -> TierLatencies {
        let mut keys = BTreeMap::new();
        for tier in Tier::ALL.map(Tier::name) {
            for direction in ["read", "write"] {
                for (part, histogram) in [("", "total"), ("device_", "device"), ("host_", "host")] {
                    // What the tiers in memory spend is all the host's.
                    if !part.is_empty() && tier != Tier::Storage.name() {
                        continue;
                    }
                    let name = format!("{tier}_{direction}_{histogram}");
                    let Some(histogram) = histograms.get(&name) else { continue };
                    for (percentile, quantile) in PERCENTILES {
                        if let Some(ns) = histogram.quantile_ns(quantile) {
                            keys.insert(
                                format!("{tier}_{direction}_{part}{percentile}_ms"),
                                ms(ns),
                            );
                        }
                    }
                }
            }
        }
        TierLatencies(keys)
    }
}

// All that stands beside the other keys and is a number: the rest is not ours.
impl<'de> Deserialize<'de> for TierLatencies {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let others: BTreeMap<String, Value> = BTreeMap::deserialize(deserializer)?;
        let latencies = others.into_iter().filter(|(key, _)| key.ends_with("_ms"));
        let numbers = latencies.filter_map(|(key, value)| Some((key, value.as_f64()?)));
        Ok(TierLatencies(numbers.collect()))
    }
}

impl Merge for TierLatencies {
    fn merged(_: &[&Self], _: &Inputs) -> Self {
        TierLatencies::default()
    }

    #[cfg(test)]
    fn rules(path: &str, into: &mut Vec<(String, &'static str)>) {
        into.push((path.to_owned(), "derived"));
    }
}
