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
/// Hits and misses, bytes read and written, and entries held, by tier. `gb` and `gbps` are GiB and
/// GiB/s, as in the reference. Each description says whether the definition is the reference's. The
/// reference counts an operation when it begins, until its threads have stopped; ringfall counts it
/// when it ends, inside the window.
pub struct CacheStatsReport {
    /// Share of the reads that found their entry, 0 to 1; 0 without reads. Same definition as the
    /// reference's; see `cache_misses`.
    pub cache_hit_rate: Derived<f64>,
    /// Number of reads that found their entry. Same definition as the reference's.
    pub cache_hits: Sum<u64>,
    /// Number of reads that did not find their entry. Same definition as the reference's, which
    /// counts one more miss for almost every request with a system prompt: it never writes prompts,
    /// whereas ringfall writes a prompt once and finds it from then on.
    pub cache_misses: Sum<u64>,
    /// Number of entries in the GPU tier at the end; null in merged results. Same definition as the
    /// reference's.
    pub gpu_entries: OfRun<u64>,
    /// Number of entries in the CPU tier at the end; null in merged results. Same definition as the
    /// reference's.
    pub cpu_entries: OfRun<u64>,
    /// Number of entries in the storage tier at the end; null in merged results. Same definition as
    /// the reference's, whose full tier holds fewer, so that it also reads less from storage: it
    /// books an entry's space once for each thread that wants to demote it and gives it back once
    /// (of 50 GiB, 37 held entries after a minute of 20 users).
    pub storage_entries: OfRun<u64>,
    /// GPU memory used at the end, GiB; null in merged results. Same definition as the reference's.
    pub gpu_memory_used_gb: OfRun<f64>,
    /// CPU memory used at the end, GiB; null in merged results. Same definition as the reference's.
    pub cpu_memory_used_gb: OfRun<f64>,
    /// Number of entries that reached the CPU tier, written there at once or demoted. Same
    /// definition as the reference's.
    pub offloads_cpu: Sum<u64>,
    /// Number of entries that reached the storage tier, written there at once or demoted. Same
    /// definition as the reference's.
    pub offloads_storage: Sum<u64>,
    /// Whether the storage meets what the performance profile asks for; null in merged results.
    /// Same criteria as the reference's.
    pub storage_health: OfRun<Health>,
    /// Number of entries written for turns (also after a decode miss), system prompts and blocks of
    /// a trace, and of ingested chunks of documents. Same definition as the reference's, which
    /// never writes prompts and has no blocks; chunks are ingested before the window here, and
    /// during it there. `ringfall.cache.writes` has what was written in the window.
    pub prefill_writes: Sum<u64>,
    /// Number of successful reads in the decode phase: of a turn's own entry, of earlier turns and
    /// of retrieved chunks. Same definition as the reference's. `ringfall.cache.own_turn_reads` has
    /// the reads of a turn's own entry alone.
    pub decode_reads: Sum<u64>,
    /// KV bytes written to the GPU tier, GiB. Same definition as the reference's.
    pub tier_gpu_kv_bytes_written_gb: Sum<f64>,
    /// KV bytes read from the GPU tier, demotions included, GiB. Same definition as the
    /// reference's.
    pub tier_gpu_kv_bytes_read_gb: Sum<f64>,
    /// KV bytes read from the GPU tier divided by the length of the window, GiB/s; demotions
    /// included, as in the reference.
    pub tier_gpu_read_bandwidth_gbps: Derived<f64>,
    /// KV bytes written to the GPU tier divided by the length of the window, GiB/s. Same definition
    /// as the reference's.
    pub tier_gpu_write_bandwidth_gbps: Derived<f64>,
    /// KV bytes written to the CPU tier, at once or by demotion, GiB. Same definition as the
    /// reference's.
    pub tier_cpu_kv_bytes_written_gb: Sum<f64>,
    /// KV bytes read from the CPU tier, by requests and by demotions to storage, GiB. Same
    /// definition as the reference's. `ringfall.cache.cpu_read_bytes` has those of requests alone.
    pub tier_cpu_kv_bytes_read_gb: Sum<f64>,
    /// KV bytes read from the CPU tier divided by the length of the window, GiB/s; demotions
    /// included, as in the reference.
    pub tier_cpu_read_bandwidth_gbps: Derived<f64>,
    /// KV bytes written to the CPU tier divided by the length of the window, GiB/s. Same definition
    /// as the reference's.
    pub tier_cpu_write_bandwidth_gbps: Derived<f64>,
    /// KV bytes whose write to storage completed in the window, demotions included, without the
    /// padding of an entry's last block, GiB. Differs from the reference, which counts whole
    /// entries, also those written after the end of the window.
    pub tier_storage_kv_bytes_written_gb: Sum<f64>,
    /// KV bytes whose read from storage completed in the window, without the padding of an entry's
    /// last block, GiB. Differs from the reference, which counts an entry when its read begins,
    /// also after the end of the window, and whose tier holds less (`storage_entries`).
    pub tier_storage_kv_bytes_read_gb: Sum<f64>,
    /// KV bytes read from storage divided by the length of the window, GiB/s. Differs from the
    /// reference, which divides the bytes of reads that end after the window by the length of the
    /// window.
    pub tier_storage_read_bandwidth_gbps: Derived<f64>,
    /// KV bytes written to storage divided by the length of the window, GiB/s. Differs from the
    /// reference as `tier_storage_read_bandwidth_gbps` does.
    pub tier_storage_write_bandwidth_gbps: Derived<f64>,
    /// Bytes of the entries that `prefill_writes` counts, GiB. Same definition as that of the
    /// reference's release of January 2026.
    pub prefill_bytes_written_gb: Sum<f64>,
    /// Bytes of the reads that `decode_reads` counts, GiB: the primary metric of published results.
    /// Same definition as that of the reference's release of January 2026.
    /// `ringfall.cache.own_turn_read_bytes` has the bytes of a turn's own entry alone.
    pub decode_bytes_read_gb: Sum<f64>,
    /// Number of hits on system prompts and on the own entries of turns that have one. Same
    /// definition as the reference's. `ringfall.cache.prompt_hits` has the hits on the prompts
    /// themselves.
    pub system_prompt_hits: Sum<u64>,
    /// Always 0, as in the reference: no workload has common phrases.
    pub common_phrase_hits: Sum<u64>,
    /// Number of hits on the own entries of turns without a system prompt, on retrieved chunks and
    /// on blocks of a trace. Same definition as the reference's, which has no blocks.
    pub user_cache_hits: Sum<u64>,
    /// Number of hits on earlier turns. Same definition as the reference's.
    pub multi_turn_hits: Sum<u64>,
    /// Bytes of the entries that requests read from all tiers. Same definition as the reference's.
    /// `ringfall.cache.moved_read_bytes` includes demotions.
    pub total_read_bytes: Sum<u64>,
    /// Bytes of the entries written to all tiers, each counted once: ingested chunks are included,
    /// demotions are not. Same definition as the reference's. `ringfall.cache.moved_write_bytes`
    /// includes demotions.
    pub total_write_bytes: Sum<u64>,
    /// The same as `total_read_bytes`, in GiB.
    pub total_read_gb: Sum<f64>,
    /// The same as `total_write_bytes`, in GiB.
    pub total_write_gb: Sum<f64>,
    /// `total_read_bytes` divided by `total_write_bytes`, or by 1 without writes. Same definition
    /// as the reference's.
    pub read_write_ratio: Derived<f64>,
    /// Number of reads of entries (not a rate; the name is the reference's). Same definition as the
    /// reference's.
    pub read_iops: Sum<u64>,
    /// Number of entries written, each counted once, ingested chunks included (not a rate; the name
    /// is the reference's). Same definition as the reference's.
    pub write_iops: Sum<u64>,
    /// Tokens of the entries that were written to storage, demoted to it or read from it. Same
    /// definition as the reference's, whose tier holds less (`storage_entries`).
    pub storage_tokens_processed: Sum<f64>,
    /// `{gpu,cpu,storage}_{read,write}_{p50,p95,p99,p999,p9999}_ms`, on storage and GPU also
    /// `{gpu,storage}_{read,write}_{device,host}_…`; a tier without operations has none, as in the
    /// reference. Differs from the reference, whose device time of a write is its `fsync` alone.
    /// Zeros in a run without a drive, as in the reference.
    #[serde(flatten)]
    pub latencies_ms: TierLatencies,
}
}

/// KV bytes that a tier moved: read, written. Above storage a demotion's read counts with the tier
/// that it leaves, and its write, as a promotion's, with the one that it reaches.
fn tier_bytes(result: &RunResult, tier: Tier) -> [u64; 2] {
    let (engine, metrics) = (&result.engine, result.engine.tier(tier));
    let demoted = |from: Tier| engine.evictions[from.index()].bytes;
    let promoted = engine.promoted_to(tier).bytes;
    match tier {
        Tier::Storage => [engine.io_read.entry_bytes, engine.io_write.entry_bytes],
        Tier::Gpu => [
            metrics.read.entry_bytes + engine.evicted_bytes(tier),
            metrics.write.entry_bytes + promoted,
        ],
        Tier::Cpu => [
            metrics.read.entry_bytes + demoted(tier),
            metrics.write.entry_bytes + demoted(Tier::Gpu) + promoted,
        ],
    }
}

/// KV bytes that all tiers moved, demotions among them: read, written.
pub(super) fn moved_bytes(result: &RunResult) -> [u64; 2] {
    let tiers = Tier::ALL.map(|tier| tier_bytes(result, tier));
    std::array::from_fn(|direction| tiers.iter().map(|tier| tier[direction]).sum())
}

impl CacheStatsReport {
    /// The counters; what is derived is set by [`derive`](super::derive).
    pub(super) fn of(result: &RunResult) -> CacheStatsReport {
        let (cache, engine) = (&result.cache, &result.engine);
        let [[gpu_read, gpu_written], [cpu_read, cpu_written], [disk_read, disk_written]] =
            Tier::ALL.map(|tier| tier_bytes(result, tier));
        let operations =
            |pick: fn(&TierMetrics) -> u64| -> u64 { engine.tiers.iter().map(pick).sum() };
        let read = operations(|tier| tier.read.entry_bytes);
        // The tiers count from the start of the window: what is ingested in it is among that.
        let written = operations(|tier| tier.write.entry_bytes) + cache.ingested_before_bytes;
        // As in the reference: entries that reached the tier, written there at once or demoted.
        let reached = |tier: Tier, above: Tier| {
            engine.tier(tier).write.total.count() + engine.evictions[above.index()].entries
        };
        let state = |tier: Tier| result.tiers[tier.index()];
        let ingested = cache.ingested + cache.ingested_before;
        let ingested_bytes = cache.ingested_bytes + cache.ingested_before_bytes;
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
            offloads_storage: Sum::of(
                reached(Tier::Storage, Tier::Cpu) + engine.evictions_gpu_to_storage.entries,
            ),
            storage_health: OfRun::of(judge(result)),
            prefill_writes: Sum::of(cache.prefill_writes + ingested),
            decode_reads: Sum::of(cache.decode_reads),
            tier_gpu_kv_bytes_written_gb: sum_gib(gpu_written),
            tier_gpu_kv_bytes_read_gb: sum_gib(gpu_read),
            tier_cpu_kv_bytes_written_gb: sum_gib(cpu_written),
            tier_cpu_kv_bytes_read_gb: sum_gib(cpu_read),
            tier_storage_kv_bytes_written_gb: sum_gib(disk_written),
            tier_storage_kv_bytes_read_gb: sum_gib(disk_read),
            prefill_bytes_written_gb: sum_gib(cache.prefill_written_bytes + ingested_bytes),
            decode_bytes_read_gb: sum_gib(cache.decode_read_bytes),
            system_prompt_hits: Sum::of(cache.system_prompt_hits),
            common_phrase_hits: Sum::of(0),
            user_cache_hits: Sum::of(cache.user_cache_hits),
            multi_turn_hits: Sum::of(cache.multi_turn_hits),
            total_read_bytes: Sum::of(read),
            total_write_bytes: Sum::of(written),
            total_read_gb: sum_gib(read),
            total_write_gb: sum_gib(written),
            read_iops: Sum::of(operations(|tier| tier.read.total.count())),
            write_iops: Sum::of(
                operations(|tier| tier.write.total.count()) + cache.ingested_before,
            ),
            storage_tokens_processed: Sum::of(storage_tokens(result)),
            ..CacheStatsReport::default()
        }
    }
}

/// Tokens of the entries written to storage, demoted there, or read from it. As in the reference, 0
/// when the model's tokens have no size (which `config` refuses).
fn storage_tokens(result: &RunResult) -> f64 {
    let storage = result.engine.tier(Tier::Storage);
    let engine = &result.engine;
    let demoted = engine.evictions[Tier::Cpu.index()].bytes + engine.evictions_gpu_to_storage.bytes;
    let bytes = storage.read.entry_bytes + storage.write.entry_bytes + demoted;
    // An entry is one GPU's share of its tokens.
    let share = f64::from(result.plan.tensor_parallel);
    let token_bytes = result.plan.model_spec.bytes_per_token();
    token_bytes.map_or(0.0, |token_bytes| bytes as f64 * share / token_bytes as f64)
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

    /// Sets all to 0: what the reference has of a run that moved nothing.
    pub(super) fn set_to_zero(&mut self) {
        self.0.values_mut().for_each(|ms| *ms = 0.0);
    }

    /// The keys that there are.
    pub(super) fn keys(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// Of the histograms that there are.
    pub(super) fn of(histograms: &Histograms) -> TierLatencies {
        let mut keys = BTreeMap::new();
        for tier in Tier::ALL.map(Tier::name) {
            for direction in ["read", "write"] {
                for (part, histogram) in [("", "total"), ("device_", "device"), ("host_", "host")] {
                    // What the tier in host memory spends is all the host's.
                    if !part.is_empty() && tier == Tier::Cpu.name() {
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
