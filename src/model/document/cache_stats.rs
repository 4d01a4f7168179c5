//! `summary.cache_stats`: what was found, what was moved, and how long that took.

use std::collections::BTreeMap;

use ringfall_core::key::Tier;
use ringfall_core::metrics::{Metrics, TierMetrics};
use ringfall_core::units::gib;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use super::figure::{Derived, OfRun, Sum, shapes};
use super::histograms::Histograms;
use super::latency::ms;
use super::latency_keys;
use super::merge::{Inputs, Merge, figures};
use crate::RunResult;
use crate::health::{Health, judge};

shapes!(Health);

figures! {
/// Hits and misses, bytes read and written, and entries held, by tier. `gb` and `gbps` are GiB and
/// GiB/s, as in the reference. Each description says whether the definition is the reference's. The
/// reference counts an operation when it begins, until its threads have stopped; ringfall counts it
/// when it ends, inside the window.
pub struct CacheStatsReport of result: RunResult {
    /// Share of the reads that found their entry, 0 to 1; 0 without reads. Differs from the
    /// reference as `cache_misses` does, which with a backlog makes most of the difference.
    pub cache_hit_rate: Derived<f64>,
    /// Number of reads that found their entry. Differs from the reference after a decode miss: the
    /// reference then writes the entry without reading it, here its reads follow. The reference
    /// also never finds a system prompt, as it writes none, and in its decode-only runs a turn of
    /// 10,000 tokens or more reads nothing.
    pub cache_hits: Sum<u64> = result.cache.hits,
    /// Number of reads that did not find their entry. Differs from the reference, which also counts
    /// a miss for each later turn of a conversation that is still queued when one of its turns is
    /// served (with a backlog these are most of its misses), and for every request with a system
    /// prompt, as it never writes one. With `history_counts_queued_turns: true` and
    /// `system_prompts_written: false` in the configuration file, section `workload`, ringfall
    /// counts both. The reference's retrieval also sends requests of its own, most of which miss.
    pub cache_misses: Sum<u64> = result.cache.misses,
    /// Number of entries in the GPU tier at the end; null in merged results. Differs from the
    /// reference as `cpu_entries` does.
    pub gpu_entries: OfRun<u64> = result.tiers[Tier::Gpu.index()].entries,
    /// Number of entries in the CPU tier at the end; null in merged results. Differs from the
    /// reference, which fills a tier above storage to `eviction.target_usage_ratio` (80 %) of its
    /// capacity: ringfall fills it to 100 % and then evicts down to that share, so that it holds
    /// more.
    pub cpu_entries: OfRun<u64> = result.tiers[Tier::Cpu.index()].entries,
    /// Number of entries in the storage tier at the end; null in merged results. Differs from the
    /// reference, whose full tier holds fewer, so that it also reads less from storage: it
    /// books an entry's space once for each thread that wants to demote it and gives it back once
    /// (of 50 GiB, 37 held entries after a minute of 20 users).
    pub storage_entries: OfRun<u64> = result.tiers[Tier::Storage.index()].entries,
    /// GPU memory used at the end, GiB; null in merged results. Differs from the reference as
    /// `cpu_entries` does.
    pub gpu_memory_used_gb: OfRun<f64> = gib(result.tiers[Tier::Gpu.index()].used_bytes),
    /// CPU memory used at the end, GiB; null in merged results. Differs from the reference as
    /// `cpu_entries` does.
    pub cpu_memory_used_gb: OfRun<f64> = gib(result.tiers[Tier::Cpu.index()].used_bytes),
    /// Number of entries that reached the CPU tier, written there at once or demoted. Differs from
    /// the reference as `prefill_writes` does.
    pub offloads_cpu: Sum<u64> = reached(&result.engine, Tier::Cpu, Tier::Gpu),
    /// Number of entries that reached the storage tier, written there at once or demoted. Differs
    /// from the reference as `cpu_entries` does: a tier above that holds more demotes less.
    pub offloads_storage: Sum<u64> =
        reached(&result.engine, Tier::Storage, Tier::Cpu)
            + result.engine.evictions_gpu_to_storage.entries,
    /// Whether the storage meets what the performance profile asks for; null in merged results.
    /// Differs from the reference in five ways: a run that measured nothing passes nothing, fewer
    /// than 20 samples are not judged (`too_few`), writes of demotions to storage are judged with
    /// those of prefills, a run in which requests were refused has one more criterion, and so has
    /// the profile `throughput`, for tokens.
    pub storage_health: OfRun<Health> = judge(result),
    /// Number of entries written for turns (also after a decode miss), system prompts and blocks of
    /// a trace, and of ingested chunks of documents. Differs from the reference, which never writes
    /// a prompt (here each of them is written once) and has no blocks; chunks are ingested during
    /// the window there, and before it here unless `rag_ingestion` is `beside`.
    /// `ringfall.cache.writes` has what was written in the window.
    pub prefill_writes: Sum<u64> = result.cache.prefill_writes + result.cache.ingested_ever(),
    /// Number of successful reads in the decode phase: of a turn's own entry, of earlier turns and
    /// of retrieved chunks. Differs from the reference after a decode miss, where the reference
    /// writes the entry and reads nothing, and in decode-only runs, in which the reference's turns
    /// of 10,000 tokens or more read nothing, yet count as requests.
    /// `ringfall.cache.own_turn_reads` has the reads of a turn's own entry alone.
    pub decode_reads: Sum<u64> = result.cache.decode_reads,
    /// KV bytes written to the GPU tier, GiB. Same definition as the reference's.
    pub tier_gpu_kv_bytes_written_gb: Sum<f64> = gib(tier_bytes(&result.engine, Tier::Gpu)[1]),
    /// KV bytes read from the GPU tier, demotions included, GiB. Differs from the reference as
    /// `cpu_entries` does, as its tier holds less.
    pub tier_gpu_kv_bytes_read_gb: Sum<f64> = gib(tier_bytes(&result.engine, Tier::Gpu)[0]),
    /// KV bytes read from the GPU tier, demotions included, divided by the length of the window,
    /// GiB/s. Differs from the reference as `tier_gpu_kv_bytes_read_gb` does.
    pub tier_gpu_read_bandwidth_gbps: Derived<f64>,
    /// KV bytes written to the GPU tier divided by the length of the window, GiB/s. Same definition
    /// as the reference's.
    pub tier_gpu_write_bandwidth_gbps: Derived<f64>,
    /// KV bytes written to the CPU tier, at once or by demotion, GiB. Same definition as the
    /// reference's.
    pub tier_cpu_kv_bytes_written_gb: Sum<f64> = gib(tier_bytes(&result.engine, Tier::Cpu)[1]),
    /// KV bytes read from the CPU tier, by requests and by demotions to storage, GiB. Differs from
    /// the reference as `cpu_entries` does, as its tier holds less. `ringfall.cache.cpu_read_bytes`
    /// has those of requests alone.
    pub tier_cpu_kv_bytes_read_gb: Sum<f64> = gib(tier_bytes(&result.engine, Tier::Cpu)[0]),
    /// KV bytes read from the CPU tier, demotions included, divided by the length of the window,
    /// GiB/s. Differs from the reference as `tier_cpu_kv_bytes_read_gb` does.
    pub tier_cpu_read_bandwidth_gbps: Derived<f64>,
    /// KV bytes written to the CPU tier divided by the length of the window, GiB/s. Same definition
    /// as the reference's.
    pub tier_cpu_write_bandwidth_gbps: Derived<f64>,
    /// KV bytes whose write to storage completed in the window, demotions included, without the
    /// padding of an entry's last block, GiB. Differs from the reference, which counts whole
    /// entries, also those written after the end of the window.
    pub tier_storage_kv_bytes_written_gb: Sum<f64> =
        gib(tier_bytes(&result.engine, Tier::Storage)[1]),
    /// KV bytes whose read from storage completed in the window, without the padding of an entry's
    /// last block, GiB. Differs from the reference, which counts an entry when its read begins,
    /// also after the end of the window, and whose tier holds less (`storage_entries`).
    pub tier_storage_kv_bytes_read_gb: Sum<f64> = gib(tier_bytes(&result.engine, Tier::Storage)[0]),
    /// KV bytes read from storage divided by the length of the window, GiB/s. Differs from the
    /// reference, which divides the bytes of reads that end after the window by the length of the
    /// window.
    pub tier_storage_read_bandwidth_gbps: Derived<f64>,
    /// KV bytes written to storage divided by the length of the window, GiB/s. Differs from the
    /// reference as `tier_storage_read_bandwidth_gbps` does.
    pub tier_storage_write_bandwidth_gbps: Derived<f64>,
    /// Bytes of the entries that `prefill_writes` counts, GiB. Same definition as that of the
    /// reference's release of January 2026.
    pub prefill_bytes_written_gb: Sum<f64> =
        gib(result.cache.prefill_written_bytes + result.cache.ingested_ever_bytes()),
    /// Bytes of the reads that `decode_reads` counts, GiB: the primary metric of published results.
    /// Same definition as that of the reference's release of January 2026.
    /// `ringfall.cache.own_turn_read_bytes` has the bytes of a turn's own entry alone.
    pub decode_bytes_read_gb: Sum<f64> = gib(result.cache.decode_read_bytes),
    /// Number of hits on system prompts and on the own entries of turns that have one. Differs from
    /// the reference, which never finds a prompt, as it writes none (`ringfall.cache.prompt_hits`
    /// has those hits), and whose requests have prompts in decode-only runs too, where ringfall's
    /// have none and this is 0.
    pub system_prompt_hits: Sum<u64> = result.cache.system_prompt_hits,
    /// Always 0: no workload has common phrases. Same definition as the reference's.
    pub common_phrase_hits: Sum<u64> = 0u64,
    /// Number of hits on the own entries of turns without a system prompt, on retrieved chunks and
    /// on blocks of a trace. Differs from the reference in decode-only runs, in which it counts the
    /// turns with a system prompt under `system_prompt_hits`. It has no blocks.
    pub user_cache_hits: Sum<u64> = result.cache.user_cache_hits,
    /// Number of hits on earlier turns. Same definition as the reference's.
    pub multi_turn_hits: Sum<u64> = result.cache.multi_turn_hits,
    /// Bytes of the entries that requests read from all tiers. Differs from the reference as
    /// `cache_hits` does. `ringfall.cache.moved_read_bytes` includes demotions.
    pub total_read_bytes: Sum<u64> = of_tiers(&result.engine, |tier| tier.read.entry_bytes),
    /// Bytes of the entries written to all tiers, each counted once: ingested chunks are included,
    /// demotions are not. Differs from the reference as `prefill_writes` does.
    /// `ringfall.cache.moved_write_bytes` includes demotions.
    pub total_write_bytes: Sum<u64> = written_bytes(result),
    /// The same as `total_read_bytes`, in GiB. Differs from the reference as that does.
    pub total_read_gb: Sum<f64> = gib(of_tiers(&result.engine, |tier| tier.read.entry_bytes)),
    /// The same as `total_write_bytes`, in GiB. Differs from the reference as that does.
    pub total_write_gb: Sum<f64> = gib(written_bytes(result)),
    /// `total_read_bytes` divided by `total_write_bytes`, or by 1 without writes. Differs from the
    /// reference as `total_read_bytes` does.
    pub read_write_ratio: Derived<f64>,
    /// Number of reads of entries (not a rate; the name is the reference's). Differs from the
    /// reference as `cache_hits` does.
    pub read_iops: Sum<u64> = of_tiers(&result.engine, |tier| tier.read.total.count()),
    /// Number of entries written, each counted once, ingested chunks included (not a rate; the name
    /// is the reference's). Differs from the reference as `prefill_writes` does.
    pub write_iops: Sum<u64> =
        of_tiers(&result.engine, |tier| tier.write.total.count())
            + result.cache.ingested_before,
    /// Tokens of the entries that were written to storage, demoted to it or read from it. Differs
    /// from the reference where that tier is full, as the reference's then holds less
    /// (`storage_entries`).
    pub storage_tokens_processed: Sum<f64> = storage_tokens(result),
    /// Latencies of the tiers, by keys of which each is described in `latency_keys`. Zeros in a run
    /// without a drive, as in the reference.
    #[serde(flatten)]
    pub latencies_ms: TierLatencies,
}
}

/// KV bytes that a tier moved: read, written. Above storage a demotion's read counts with the tier
/// that it leaves, and its write, as a promotion's, with the one that it reaches.
fn tier_bytes(engine: &Metrics, tier: Tier) -> [u64; 2] {
    let metrics = engine.tier(tier);
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
pub(super) fn moved_bytes(engine: &Metrics) -> [u64; 2] {
    let tiers = Tier::ALL.map(|tier| tier_bytes(engine, tier));
    std::array::from_fn(|direction| tiers.iter().map(|tier| tier[direction]).sum())
}

pub(super) fn of_tiers(engine: &Metrics, pick: fn(&TierMetrics) -> u64) -> u64 {
    engine.tiers.iter().map(pick).sum()
}

/// Bytes written, each entry once. The tiers count from the start of the window: what is ingested
/// in it is among that.
fn written_bytes(result: &RunResult) -> u64 {
    of_tiers(&result.engine, |tier| tier.write.entry_bytes) + result.cache.ingested_before_bytes
}

/// Entries that reached the tier, as in the reference: written there at once or demoted.
fn reached(engine: &Metrics, tier: Tier, above: Tier) -> u64 {
    engine.tier(tier).write.total.count() + engine.evictions[above.index()].entries
}

/// Tokens of the entries written to storage, demoted there, or read from it. As in the reference, 0
/// when the model's tokens have no size (which `config` refuses).
fn storage_tokens(result: &RunResult) -> f64 {
    let storage = result.engine.tier(Tier::Storage);
    let engine = &result.engine;
    let demoted = engine.evictions[Tier::Cpu.index()].bytes + engine.evictions_gpu_to_storage.bytes;
    let bytes = storage.read.entry_bytes + storage.write.entry_bytes + demoted;
    // An entry is one GPU's share of its tokens, or what an engine keeps of all.
    let (share, token_bytes) = match &result.plan.layout_plan {
        Some(layout) => (1.0, Ok(layout.entry_token_bytes())),
        None => (f64::from(result.plan.tensor_parallel), result.plan.model_spec.bytes_per_token()),
    };
    token_bytes.map_or(0.0, |token_bytes| bytes as f64 * share / token_bytes as f64)
}

/// Latencies of the tiers by their keys. Derived; a tier that had no operation has none.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(transparent)]
pub struct TierLatencies(BTreeMap<String, f64>);

impl TierLatencies {
    /// The latency at that key, ms.
    pub fn get(&self, key: &str) -> Option<f64> {
        self.0.get(key).copied()
    }

    /// Sets all to 0: what the reference has of a run that moved nothing.
    pub(super) fn set_to_zero(&mut self) {
        self.0.values_mut().for_each(|ms| *ms = 0.0);
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// Computes the latencies from the histograms that exist.
    pub(super) fn of(histograms: &Histograms) -> TierLatencies {
        let measured = latency_keys::all().filter_map(|key| {
            let ns = histograms.get(&key.histogram())?.quantile_ns(key.quantile)?;
            Some((key.name(), ms(ns)))
        });
        TierLatencies(measured.collect())
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
        // They have no place of their own: they stand among the other keys.
        let (above, _) = path.rsplit_once('/').expect("a place begins with a slash");
        into.extend(latency_keys::all().map(|key| (format!("{above}/{}", key.name()), "derived")));
    }
}
