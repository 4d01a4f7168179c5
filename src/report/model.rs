//! The result of a run: plain values, filled by the coordinator, written by the rest of `report`.

use ringfall_engine::error::IoError;
use ringfall_engine::metrics::{Histogram, Metrics};
use ringfall_engine::placement::SpaceFigures;
use ringfall_engine::shard::ShardFacts;
use ringfall_engine::tier::TIER_COUNT;
use ringfall_workloads::WorkloadStats;
use ringfall_workloads::autoscale::Conclusion;
use ringfall_workloads::contract::{Outcome, Purpose};
use ringfall_workloads::source::ValidationTrace;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::warnings::Warning;
use super::{RequestStats, SimulationReport, TimelineSecond};
use crate::blocktrace::BlockTraceFigures;
use crate::config::Plan;
use crate::host::{BlockDelta, Cost, Machine};
use crate::precondition::PreconditionReport;
use crate::saturate::Roofline;
use crate::source::{FeedFigures, SourceFacts};

/// Everything a run measured.
#[derive(Clone, Debug)]
pub struct RunResult {
    /// What was to be run.
    pub plan: Plan,
    /// As it was typed, the program's name first.
    pub command_line: Vec<String>,
    /// Where it ran.
    pub machine: Machine,
    /// The measurement window; everything below counts what finished in it.
    pub window: Window,
    /// Whether a signal ended the run early.
    pub interrupted: bool,
    /// What ended the run early, if not a signal and not its time.
    pub failure: Option<String>,
    /// All shards' engine counters, merged.
    pub engine: Metrics,
    /// All shards' requests, merged.
    pub requests: RequestStats,
    /// All shards' cache counters, merged.
    pub cache: CacheStats,
    /// What each tier held at the end, by `Tier::index`.
    pub tiers: [TierState; TIER_COUNT],
    /// One row a second of the window.
    pub timeline: Vec<TimelineSecond>,
    /// What was waited for outside the engine's operations: an allocation permit.
    pub allocation_wait: Histogram,
    /// The workload's own counters, since the start.
    pub workload: WorkloadStats,
    /// What the autoscaler found.
    pub autoscale: Option<Conclusion>,
    /// What the source of requests was, and what reading it came to.
    pub source: SourceFacts,
    /// What reading a trace came to.
    pub feed: Option<FeedFigures>,
    /// A recorded cache's fate, to compare with.
    pub validation: Option<ValidationTrace>,
    /// The storage space at the end, one row a shard.
    pub space: Vec<SpaceFigures>,
    /// What the shards' rings and buffers got, one row a shard.
    pub facts: Vec<ShardFacts>,
    /// The first I/O errors since the start, in the window or not.
    pub errors: Vec<IoError>,
    /// Entries of the population that could not be written.
    pub population_failed: u64,
    /// Whether the shards stayed alive.
    pub watchdog: WatchdogReport,
    /// The kernel's counters of the device over the window.
    pub kernel: Option<BlockDelta>,
    /// The same, of every device below the store, the topmost first.
    pub kernel_chain: Vec<BlockDelta>,
    /// The same as `kernel`, between readings.
    pub kernel_seconds: Vec<KernelSecond>,
    /// What the window cost this process.
    pub cost: Cost,
    /// What writing the device before the run came to.
    pub precondition: Option<PreconditionReport>,
    /// What the block layer did, if it was traced; or why it could not be.
    pub block_trace: Option<Result<BlockTraceFigures, String>>,
    /// The device's limits, to hold the run against, and where they come from.
    pub roofline: Option<(String, Roofline)>,
    /// What a simulation knows besides; none for a real run.
    pub simulation: Option<SimulationReport>,
    /// What a reader should know before trusting the numbers.
    pub warnings: Vec<Warning>,
}

/// What the kernel counted between two readings.
#[derive(Clone, Debug, PartialEq)]
pub struct KernelSecond {
    /// Its end, s since the window's start.
    pub end_s: f64,
    /// Its length, s.
    pub seconds: f64,
    /// What was counted.
    pub delta: BlockDelta,
    /// Requests in flight at its end.
    pub in_flight: u64,
}

/// A span of time in which things were counted.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Window {
    /// Wall-clock time of its start, s since 1970.
    pub start_unix_s: f64,
    /// Its length, s; > 0 when anything was measured.
    pub seconds: f64,
    /// Ramp-up before it, s.
    pub warmup_seconds: f64,
    /// From its end until the last operation in flight had finished, s.
    pub drain_seconds: f64,
}

/// One tier at the end of the window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TierState {
    /// Entries held.
    pub entries: u64,
    /// Bytes used.
    pub used_bytes: u64,
    /// Bytes it may use.
    pub capacity_bytes: u64,
}

/// What the workload found in the cache. Plain counts, so shards' values add up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheStats {
    /// Reads that found their entry, all purposes but populating.
    pub hits: u64,
    /// Reads that did not.
    pub misses: u64,
    /// Hits on system prompts.
    pub system_prompt_hits: u64,
    /// Hits on a turn's own entry, and on RAG chunks.
    pub user_cache_hits: u64,
    /// Hits on earlier turns.
    pub multi_turn_hits: u64,
    /// Misses on earlier turns.
    pub multi_turn_misses: u64,
    /// Reads of a system prompt that did not find it.
    pub prefix_misses: u64,
    /// Bytes of system prompts read instead of being prefilled.
    pub prefix_saved_bytes: u64,
    /// Entries written for turns (and again after a decode miss) and system prompts.
    pub prefill_writes: u64,
    /// Bytes of those.
    pub prefill_written_bytes: u64,
    /// Successful reads while generating.
    pub decode_reads: u64,
    /// Bytes of those.
    pub decode_read_bytes: u64,
}

impl CacheStats {
    /// Counts one read step: `entry_bytes` is the entry's size, 0 when unknown (a miss).
    pub fn record_read(
        &mut self,
        purpose: Purpose,
        times: u32,
        outcome: Outcome,
        entry_bytes: u64,
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
                self.prefix_misses += misses;
                self.prefix_saved_bytes += hits * entry_bytes;
            }
            Purpose::History => {
                self.multi_turn_hits += hits;
                self.multi_turn_misses += misses;
            }
            Purpose::Decode => {
                self.user_cache_hits += hits;
                self.decode_reads += hits;
                self.decode_read_bytes += hits * entry_bytes;
            }
            Purpose::Rag | Purpose::Prefill | Purpose::Rewrite => self.user_cache_hits += hits,
            Purpose::Block => {
                self.user_cache_hits += hits;
                self.hits += hits;
                // The block that was missing and all after it are written: each is a miss then.
                return;
            }
        }
        self.hits += hits;
        self.misses += misses;
    }

    /// Counts one write that was carried out (not one that found its entry there already).
    pub fn record_write(&mut self, purpose: Purpose, entry_bytes: u64) {
        match purpose {
            Purpose::Prefix | Purpose::Prefill | Purpose::Rewrite | Purpose::Block => {
                self.prefill_writes += 1;
                self.prefill_written_bytes += entry_bytes;
            }
            Purpose::Populate | Purpose::History | Purpose::Rag | Purpose::Decode => {}
        }
    }

    /// Counts a trace's block that could not be read, whether it was written now or turned out to
    /// be there (without one before it, it could not be used).
    pub fn record_block_miss(&mut self) {
        self.misses += 1;
    }

    /// Adds another shard's counts.
    pub fn merge(&mut self, other: &CacheStats) {
        self.hits += other.hits;
        self.misses += other.misses;
        self.system_prompt_hits += other.system_prompt_hits;
        self.user_cache_hits += other.user_cache_hits;
        self.multi_turn_hits += other.multi_turn_hits;
        self.multi_turn_misses += other.multi_turn_misses;
        self.prefix_misses += other.prefix_misses;
        self.prefix_saved_bytes += other.prefix_saved_bytes;
        self.prefill_writes += other.prefill_writes;
        self.prefill_written_bytes += other.prefill_written_bytes;
        self.decode_reads += other.decode_reads;
        self.decode_read_bytes += other.decode_read_bytes;
    }

    /// Share of reads that found their entry; `None` without reads.
    #[must_use]
    pub fn hit_rate(&self) -> Option<f64> {
        super::quotient(self.hits, self.hits + self.misses)
    }
}

/// What the watchdog saw.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WatchdogReport {
    /// Times that a shard missed a second of heartbeats.
    pub stalls: u64,
    /// Times that a shard was woken because a heartbeat was late by 50 ms.
    pub nudges: u64,
    /// The longest gap between two heartbeats of a shard, ns (their period is 5 ms).
    pub heartbeat_gap_max_ns: u64,
    /// Heartbeats of all shards.
    pub heartbeats: u64,
}
