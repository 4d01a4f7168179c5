//! Everything that a run measured, as one plain value: a command fills it, documents and summaries
//! are made of it.

use ringfall_engine::error::IoError;
use ringfall_engine::metrics::{Histogram, Metrics};
use ringfall_engine::placement::SpaceFigures;
use ringfall_engine::shard::ShardFacts;
use ringfall_engine::tier::TIER_COUNT;
use ringfall_workloads::WorkloadStats;
use ringfall_workloads::autoscale::Conclusion;
use ringfall_workloads::source::ValidationTrace;

use crate::config::{PhaseMode, Plan};
use crate::facts::{
    BlockTraceFigures, CacheStats, DepthFigures, DriveOutcome, FeedFigures, GpuOutcome,
    KernelSecond, Looks, PreconditionReport, RequestStats, Roofline, SourceFacts, TierShortage,
    TierState, TimelineSecond, WatchdogReport, Window,
};
use crate::host::{BlockDelta, Cost, Launcher, Machine};
use crate::objects::ObjectCounts;
use crate::results::SimulationReport;
use crate::results::warnings::Warning;

/// Everything a run measured.
#[derive(Clone, Debug)]
pub struct RunResult {
    /// What was to be run.
    pub plan: Plan,
    /// As it was typed, the program's name first.
    pub command_line: Vec<String>,
    /// Hardware and kernel of the machine that the run was on.
    pub machine: Machine,
    /// What started it as one of several, if anything did.
    pub launcher: Option<Launcher>,
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
    /// Tiers that got less space than they were to have.
    pub shortages: Vec<TierShortage>,
    /// The GPU tier that was asked for; none where none was.
    pub gpu: Option<GpuOutcome>,
    /// One row a second of the window.
    pub timeline: Vec<TimelineSecond>,
    /// What was waited for outside the engine's operations: an allocation permit.
    pub allocation_wait: Histogram,
    /// The workload's own counters, since the start.
    pub workload: WorkloadStats,
    /// What the autoscaler found.
    pub autoscale: Option<Conclusion>,
    /// What the search for a queue depth found.
    pub queue_depth: Option<DepthFigures>,
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
    /// What all shards together got less of than was asked for, in a sentence each.
    pub shortfalls: Vec<String>,
    /// The first I/O errors since the start, in the window or not.
    pub errors: Vec<IoError>,
    /// Entries of the population that could not be written.
    pub population_failed: u64,
    /// Whether the shards stayed alive.
    pub watchdog: WatchdogReport,
    /// The drives of the storage tier.
    pub drives: Vec<DriveOutcome>,
    /// The kernel's counters of the device over the window; of several devices, their sums.
    pub kernel: Option<BlockDelta>,
    /// The same, of every device below the store, the topmost first.
    pub kernel_chain: Vec<BlockDelta>,
    /// The same as `kernel`, between readings.
    pub kernel_seconds: Vec<KernelSecond>,
    /// What the window cost this process.
    pub cost: Cost,
    /// What writing the device before the run came to.
    pub precondition: Option<PreconditionReport>,
    /// What the object store was asked, where the storage tier was in one.
    pub objects: Option<ObjectCounts>,
    /// What the block layer did, if it was traced; or why it could not be.
    pub block_trace: Option<Result<BlockTraceFigures, String>>,
    /// The device's limits, to hold the run against, and where they come from.
    pub roofline: Option<(String, Roofline)>,
    /// What a simulation knows besides; none for a real run.
    pub simulation: Option<SimulationReport>,
    /// What a reader should know before trusting the numbers.
    pub warnings: Vec<Warning>,
}

impl RunResult {
    /// Looks for entries that could be missed for want of room: those that other requests left, and
    /// in a decode-only run, whose requests write nothing, those of the population.
    #[must_use]
    pub fn looks(&self) -> Looks {
        let mut looks = self.cache.reuse;
        if self.plan.phases == PhaseMode::DecodeOnly {
            looks.merge(self.cache.own);
        }
        looks
    }

    /// I/Os in flight at most in the window, each shard on each drive.
    #[must_use]
    pub fn depth(&self) -> u32 {
        self.queue_depth.as_ref().map_or(self.plan.queue_depth, |found| found.chosen)
    }
}
