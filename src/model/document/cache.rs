//! `ringfall.cache`: what the cache did by stricter definitions than those that the reference's
//! keys have.

use ringfall_core::key::Tier;

use super::cache_stats::{moved_bytes, of_tiers};
use super::figure::{Derived, Sum};
use super::merge::figures;
use crate::RunResult;

figures! {
/// Cache activity in the window, by stricter definitions than those of the reference's keys.
pub struct CacheReport of result: RunResult {
    /// Share of the reads that found their entry, 0 to 1; null without reads, where
    /// `summary.cache_stats.cache_hit_rate` is 0 as in the reference.
    pub hit_rate: Derived<Option<f64>>,
    /// Share of the reads of earlier turns that found them, 0 to 1; null without such reads.
    pub multi_turn_hit_rate: Derived<Option<f64>>,
    /// Number of looks for an entry that another request or the population before the run had left:
    /// system prompts, earlier turns, retrieved chunks, blocks of a trace and, in a decode-only
    /// run, the entry of each request. Only these can be missed for want of room; repeated reads of
    /// one entry by a request count once.
    pub looks: Sum<u64> = result.looks().found + result.looks().missed,
    /// Number of `looks` that found their entry.
    pub looks_found: Sum<u64> = result.looks().found,
    /// Share of `looks` that found their entry, 0 to 1; null without any. Results in which it
    /// differs did not do the same work, as a miss costs no time.
    pub look_hit_rate: Derived<Option<f64>>,
    /// Number of successful reads of a turn's own entry while generating: without the earlier turns
    /// and retrieved chunks that `summary.cache_stats.decode_reads` counts too.
    pub own_turn_reads: Sum<u64> = result.cache.own_turn_reads,
    /// Bytes of the entries in `own_turn_reads`.
    pub own_turn_read_bytes: Sum<u64> = result.cache.own_turn_read_bytes,
    /// Number of reads of a system prompt's entry that found it.
    pub prompt_hits: Sum<u64> = result.cache.prefix_hits,
    /// Number of entries written in the window: chunks of documents that were ingested in it are
    /// included, those that were ingested before it and demotions are not.
    pub writes: Sum<u64> = of_tiers(&result.engine, |tier| tier.write.total.count()),
    /// Bytes of the entries in `writes`.
    pub written_bytes: Sum<u64> = of_tiers(&result.engine, |tier| tier.write.entry_bytes),
    /// Number of chunks of documents that were ingested, before the window or in it.
    pub ingested_chunks: Sum<u64> = result.cache.ingested_ever(),
    /// Bytes of the chunks in `ingested_chunks`.
    pub ingested_bytes: Sum<u64> = result.cache.ingested_ever_bytes(),
    /// Bytes of entries that requests read from the CPU tier, without the reads of demotions.
    pub cpu_read_bytes: Sum<u64> = result.engine.tier(Tier::Cpu).read.entry_bytes,
    /// KV bytes read from all tiers, demotions included. For storage these are the bytes whose I/O
    /// completed in the window, even if their operation ended after it.
    pub moved_read_bytes: Sum<u64> = moved_bytes(&result.engine)[0],
    /// KV bytes written to all tiers, demotions included: an entry demoted from the CPU tier to
    /// storage counts twice.
    pub moved_write_bytes: Sum<u64> = moved_bytes(&result.engine)[1],
    /// Bytes moved by reads for each byte moved by writes; null without writes.
    pub moved_read_write_ratio: Derived<Option<f64>>,
}
}
