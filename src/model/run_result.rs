//! Everything that a run measured, as one plain value: a command fills it, documents and summaries
//! are made of it.

use std::ops::{Deref, DerefMut};

use ringfall_config::{PhaseMode, Plan};
use ringfall_core::facts::ShardFacts;
use ringfall_core::key::{TIER_COUNT, Tier};
use ringfall_core::units::MIB;
use ringfall_host::{BlockDelta, Cost, Launcher, Machine};
use ringfall_workloads::layout::{LayoutOption, LayoutPlan};
use ringfall_workloads::source::{TraceFormat, ValidationTrace};

use crate::facts::{
    BlockTraceFigures, DriveAccount, DriveOutcome, GpuOutcome, KernelSecond, Looks,
    PreconditionReport, Roofline, RunFigures, SourceFacts, TierShortage, TierState, Window,
};
use crate::full::{DeviceCounts, ThrottleUse};
use crate::warnings::Warning;
use crate::{SimulationReport, deep_queue};

/// Everything a run measured.
#[derive(Clone, Debug)]
pub struct RunResult {
    /// Plan of the run.
    pub plan: Plan,
    /// Command line as it was typed, the program's name first.
    pub command_line: Vec<String>,
    /// Hardware and kernel of the machine that the run was on.
    pub machine: Machine,
    /// Launcher that started it as one of several processes, if any.
    pub launcher: Option<Launcher>,
    /// The measurement window; everything below counts what finished in it.
    pub window: Window,
    /// Whether a signal ended the run early.
    pub interrupted: bool,
    /// Failure that ended the run early, if one did.
    pub failure: Option<String>,
    /// Figures of the run, summed over its shards; a result has each as if it were its own.
    pub figures: RunFigures,
    /// State of each tier at the end, by `Tier::index`.
    pub tiers: [TierState; TIER_COUNT],
    /// Tiers that got less space than they were to have.
    pub shortages: Vec<TierShortage>,
    /// The GPU tier that was asked for; none where none was.
    pub gpu: Option<GpuOutcome>,
    /// Source of the requests, and facts found while opening it.
    pub source: SourceFacts,
    /// A recorded cache's fate, to compare with.
    pub validation: Option<ValidationTrace>,
    /// Resources that the shards' rings and buffers got, one row a shard.
    pub facts: Vec<ShardFacts>,
    /// The drives of the storage tier.
    pub drives: Vec<DriveOutcome>,
    /// The kernel's counters of the device over the window; of several devices, their sums.
    pub kernel: Option<BlockDelta>,
    /// The same, of every device below the store, the topmost first.
    pub kernel_chain: Vec<BlockDelta>,
    /// The same as `kernel`, between readings.
    pub kernel_seconds: Vec<KernelSecond>,
    /// Accounts of the drives below the store; none of one that is asked again when the run ends.
    pub drive_accounts: Vec<DriveAccount>,
    /// CPU time, memory and context switches of this process in the window.
    pub cost: Cost,
    /// Report of preconditioning the device before the run.
    pub precondition: Option<PreconditionReport>,
    /// Activity of the block layer, if it was traced; or why it could not be.
    pub block_trace: Option<Result<BlockTraceFigures, String>>,
    /// The device's limits, to hold the run against, and where they come from.
    pub roofline: Option<(String, Roofline)>,
    /// Figures that only a simulation has; `None` for a real run.
    pub simulation: Option<SimulationReport>,
    /// Warnings to read before trusting the numbers.
    pub warnings: Vec<Warning>,
}

impl Deref for RunResult {
    type Target = RunFigures;

    fn deref(&self) -> &RunFigures {
        &self.figures
    }
}

impl DerefMut for RunResult {
    fn deref_mut(&mut self) -> &mut RunFigures {
        &mut self.figures
    }
}

impl RunResult {
    /// Word for where requests came from: the format of a trace, or the kind of another source.
    pub fn source_name(&self) -> &'static str {
        self.source.format.map_or(self.plan.traffic.name(), TraceFormat::name)
    }

    /// Looks for entries that could be missed for want of room: those that other requests left, and
    /// in a decode-only run, whose requests write nothing, those of the population.
    pub fn looks(&self) -> Looks {
        let mut looks = self.cache.reuse;
        if self.plan.phases == PhaseMode::DecodeOnly {
            looks += self.cache.own;
        }
        looks
    }

    /// Share of the device's limits that the run used; none without limits, and for a window
    /// without length.
    pub fn roofline_share(&self) -> Option<f64> {
        let (_, roofline) = self.roofline.as_ref()?;
        let [read, written] = self.storage_rates()?;
        roofline.share(read, written)
    }

    /// Limit of a cgroup on the drives' I/O that the run used most; none where there is none.
    pub(crate) fn throttle(&self) -> Option<ThrottleUse> {
        let counts = self.kernel_chain.iter().map(|delta| DeviceCounts {
            device: &delta.device,
            bytes: [delta.read_bytes, delta.write_bytes],
            ios: [delta.reads, delta.writes],
        });
        let moved_bytes = [&self.engine.io_read, &self.engine.io_write].map(|io| io.bytes);
        let counts: Vec<_> = counts.collect();
        ThrottleUse::most(&self.machine, &counts, moved_bytes, self.window.seconds)
    }

    /// Bytes a second that storage read and wrote; none for a window without length.
    fn storage_rates(&self) -> Option<[f64; 2]> {
        let seconds = Some(self.window.seconds).filter(|&seconds| seconds > 0.0)?;
        Some([&self.engine.io_read, &self.engine.io_write].map(|io| io.bytes as f64 / seconds))
    }

    /// Whether the storage tier has all that its drives have room for, so that asking for a larger
    /// one would change nothing.
    pub fn lacks_room(&self) -> bool {
        let asked_bytes = self.plan.storage_capacity_bytes;
        let given_bytes = self.tiers[Tier::Storage.index()].capacity_bytes;
        // What was asked for is rounded down to whole blocks on each drive.
        let is_less = asked_bytes == 0 || given_bytes.saturating_add(MIB) < asked_bytes;
        is_less && !self.plan.is_without_storage && self.simulation.is_none()
    }

    /// Whether reads and writes were NVMe commands, which bypass the kernel's caches and counters.
    pub fn is_of_commands(&self) -> bool {
        self.facts.iter().any(|shard| shard.ring.passthrough)
    }

    /// Whether files go through the page cache wherever they are, as with most engines' layouts.
    pub fn is_through_page_cache(&self) -> bool {
        let layout = self.plan.layout_plan.as_ref().map(LayoutPlan::options);
        layout.is_some_and(|layout| layout.value(LayoutOption::Direct) == Some(0))
    }

    /// I/Os in flight at most in the window, each shard on each drive.
    pub fn depth(&self) -> u32 {
        self.queue_depth.as_ref().map_or(self.plan.queue_depth, |found| found.chosen)
    }

    /// Whether a simulated run had buffers for as many I/Os as its queues take.
    pub fn has_buffers_for_queues(&self) -> bool {
        deep_queue::has_buffers_for_all(self)
    }
}
