//! Counters of the workload's reads from and writes to the cache.

use ringfall_workloads::contract::{Outcome, Purpose};

use super::{quotient, summed};
use crate::stats::Proportion;

summed! {
/// Counters of the workload's accesses to the cache. Plain counts, so shards' values add up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheStats {
    /// Reads that found their entry, all purposes but populating.
    pub hits: u64,
    /// Reads that did not.
    pub misses: u64,
    /// Hits on system prompts, and on the own entry of a turn that has one.
    pub system_prompt_hits: u64,
    /// Hits on the own entry of a turn without a system prompt, on RAG chunks and on blocks.
    pub user_cache_hits: u64,
    /// Hits on earlier turns.
    pub multi_turn_hits: u64,
    /// Misses on earlier turns.
    pub multi_turn_misses: u64,
    /// Reads of a system prompt that found it.
    pub prefix_hits: u64,
    /// Reads of a system prompt that did not find it.
    pub prefix_misses: u64,
    /// Bytes of system prompts read instead of being prefilled.
    pub prefix_saved_bytes: u64,
    /// Entries written for turns (and again after a decode miss), system prompts and blocks.
    pub prefill_writes: u64,
    /// Bytes written by `prefill_writes`.
    pub prefill_written_bytes: u64,
    /// RAG chunks written in the window: among the writes that the tiers count.
    pub ingested: u64,
    /// Bytes of the RAG chunks written in the window.
    pub ingested_bytes: u64,
    /// RAG chunks ingested before the window, be it before the load or beside it in the warm-up: no
    /// tier's counts have them.
    pub ingested_before: u64,
    /// Bytes of the RAG chunks ingested before the window.
    pub ingested_before_bytes: u64,
    /// Successful reads of a turn's own entry, of earlier turns and of RAG chunks.
    pub decode_reads: u64,
    /// Bytes read by `decode_reads`.
    pub decode_read_bytes: u64,
    /// Successful reads of a turn's own entry while generating.
    pub own_turn_reads: u64,
    /// Bytes read by `own_turn_reads`.
    pub own_turn_read_bytes: u64,
    /// Looks for an entry that another request left, and those of them that found it.
    pub reuse: Looks,
    /// Looks for a turn's own entry, which only a decode-only run can't have written itself.
    pub own: Looks,
}
}

summed! {
/// Looks for an entry in the cache: of the reads of one entry in one step the first alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Looks {
    /// Looks that found the entry.
    pub found: u64,
    /// Looks that did not.
    pub missed: u64,
}
}

impl Looks {
    fn record(&mut self, found: bool) {
        match found {
            true => self.found += 1,
            false => self.missed += 1,
        }
    }

    /// Share of the looks that found their entry; `None` without looks.
    pub fn hit_rate(self) -> Option<f64> {
        quotient(self.found, self.found + self.missed)
    }

    /// Whether these found less than `other` did by more than runs of one configuration differ, and
    /// by more than chance.
    #[must_use]
    pub fn find_less_than(self, other: Looks) -> bool {
        let [own, other] = [self, other].map(|looks| Proportion {
            part: looks.found,
            of: looks.found.saturating_add(looks.missed),
        });
        let difference = other.share().zip(own.share()).map(|(other, own)| other - own);
        difference.is_some_and(|points| points > HIT_RATES_APART) && other.is_above(own)
    }

    /// Whether either of two runs found less than the other, so that they did not read alike.
    #[must_use]
    pub fn are_apart(self, other: Looks) -> bool {
        self.find_less_than(other) || other.find_less_than(self)
    }
}

/// Difference of two hit rates beyond which runs did not do the same work: 3 points, above what
/// runs of one configuration differ by.
pub const HIT_RATES_APART: f64 = 0.03;

impl CacheStats {
    /// Share of the reads of earlier turns that found them; `None` without such reads.
    pub fn reuse_share(&self) -> Option<f64> {
        self.earlier_turns().hit_rate()
    }

    /// Reads of earlier turns that found them, and that did not.
    #[must_use]
    pub fn earlier_turns(&self) -> Looks {
        Looks { found: self.multi_turn_hits, missed: self.multi_turn_misses }
    }

    /// Counts reads of one entry that ended: `entry_bytes` is its size, 0 when unknown (a miss);
    /// `has_prompt` says whether the request that reads began with a system prompt.
    pub fn record_read(
        &mut self,
        purpose: Purpose,
        times: u32,
        outcome: Outcome,
        entry_bytes: u64,
        has_prompt: bool,
    ) {
        let (hits, missed) = match outcome {
            Outcome::Hit => (u64::from(times), false),
            Outcome::Miss { reads_done } => (u64::from(reads_done), true),
            // A failed read is an error, counted by the engine; it says nothing about the cache.
            _ => return,
        };
        let misses = u64::from(missed);
        match purpose {
            Purpose::Populate => return,
            Purpose::Prefix => {
                self.system_prompt_hits += hits;
                self.prefix_hits += hits;
                self.prefix_misses += misses;
                self.prefix_saved_bytes += hits * entry_bytes;
            }
            Purpose::History => {
                self.multi_turn_hits += hits;
                self.multi_turn_misses += misses;
            }
            Purpose::Decode => {
                match has_prompt {
                    true => self.system_prompt_hits += hits,
                    false => self.user_cache_hits += hits,
                }
                self.own_turn_reads += hits;
                self.own_turn_read_bytes += hits * entry_bytes;
            }
            Purpose::Rag | Purpose::Prefill | Purpose::Rewrite => self.user_cache_hits += hits,
            Purpose::Block => {
                self.user_cache_hits += hits;
                self.hits += hits;
                // The block that was missing and all after it are written: each is a miss then.
                return;
            }
        }
        if matches!(purpose, Purpose::History | Purpose::Decode | Purpose::Rag) {
            self.decode_reads += hits;
            self.decode_read_bytes += hits * entry_bytes;
        }
        self.hits += hits;
        self.misses += misses;
    }

    /// Counts the first read of a step, which showed whether the entry was there.
    pub fn record_look(&mut self, purpose: Purpose, found: bool) {
        match purpose {
            Purpose::Prefix | Purpose::History | Purpose::Rag => self.reuse.record(found),
            // A block that is not there is counted when it is written, with those behind it.
            Purpose::Block if found => self.reuse.record(found),
            Purpose::Decode => self.own.record(found),
            Purpose::Block | Purpose::Populate | Purpose::Prefill | Purpose::Rewrite => {}
        }
    }

    /// Counts one write that was carried out (not one that found its entry there already).
    pub fn record_write(&mut self, purpose: Purpose, entry_bytes: u64) {
        match purpose {
            Purpose::Prefix
            | Purpose::History
            | Purpose::Prefill
            | Purpose::Rewrite
            | Purpose::Block => {
                self.prefill_writes += 1;
                self.prefill_written_bytes += entry_bytes;
            }
            Purpose::Rag => {
                self.ingested += 1;
                self.ingested_bytes += entry_bytes;
            }
            Purpose::Populate | Purpose::Decode => {}
        }
    }

    /// Counts a RAG chunk that was ingested before the window. One that is written in it is a
    /// write like any other ([`record_write`](CacheStats::record_write)).
    pub fn record_ingested_before(&mut self, entry_bytes: u64) {
        self.ingested_before += 1;
        self.ingested_before_bytes += entry_bytes;
    }

    /// RAG chunks that were ingested, before the window or in it.
    pub fn ingested_ever(&self) -> u64 {
        self.ingested + self.ingested_before
    }

    /// Bytes of those chunks.
    pub fn ingested_ever_bytes(&self) -> u64 {
        self.ingested_bytes + self.ingested_before_bytes
    }

    /// Counts a trace's block that could not be read, whether it was written now or turned out to
    /// be there (without one before it, it could not be used).
    pub fn record_block_miss(&mut self) {
        self.misses += 1;
        self.reuse.record(false);
    }

    /// Share of reads that found their entry; `None` without reads.
    pub fn hit_rate(&self) -> Option<f64> {
        quotient(self.hits, self.hits + self.misses)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_are_for_what_others_left_and_a_missing_block_counts_when_it_is_written() {
        let mut cache = CacheStats::default();
        for purpose in [Purpose::Prefix, Purpose::History, Purpose::Rag, Purpose::Block] {
            cache.record_look(purpose, true);
            cache.record_look(purpose, false);
        }
        for purpose in [Purpose::Populate, Purpose::Prefill, Purpose::Rewrite] {
            cache.record_look(purpose, true);
        }
        assert_eq!(cache.reuse, Looks { found: 4, missed: 3 });
        cache.record_block_miss();
        cache.record_look(Purpose::Decode, false);
        let mut both = cache;
        both += cache;
        assert_eq!(
            (both.reuse, both.own),
            (Looks { found: 8, missed: 8 }, Looks { found: 0, missed: 2 })
        );
        assert_eq!((both.reuse.hit_rate(), Looks::default().hit_rate()), (Some(0.5), None));
    }
}
