//! Runs, on the program's own thread: opened, led through their phases, and added up.
//!
//! This folder decides when things happen, and adds up the shards' figures. It holds no decisions
//! of users (`workloads`), no I/O (`engine`), no output (`show`).

mod cleanup;
mod conduct;
mod depth;
mod fleet;
mod gpu_direct;
mod milestones;
mod over_ranks;
mod phases;
mod real;
mod scaling;
mod start;
mod store_watch;
mod threads;
mod timeline;
mod virtual_run;
mod waiting;
mod watchdog;

use std::sync::Arc;

use ringfall_config::object_store::{ObjectOptions, ObjectUrl};
use ringfall_core::clock::Nanos;
use ringfall_core::error::SetupError;
use ringfall_core::facts::ShardFacts;
use ringfall_core::key::{ShardId, TIER_COUNT};
use ringfall_core::placement::{SharedBudgets, Shortage, TierCounts};
use ringfall_engine::engine::{EngineBuilder, EngineError};
use ringfall_engine::load::LoadError;
use ringfall_engine::shard::{Second, ShardSpec};
use ringfall_engine::tier::gpu::DirectStorage;
use ringfall_host::ShardBytes;
use ringfall_model::facts::{RunFigures, bytes_by_drive};
use ringfall_workloads::autoscale;
use ringfall_workloads::source::SourceRequest;
use ringfall_workloads::{SharedParts, Source, Workload, WorkloadConfig};

use crate::driver::{RequestCounts, RequestSecond, ShardOutcome, ShardPlan, ShardStatus};
use crate::layouts::TierLayout;
use crate::source::RowReader;
use crate::store::{Store, StoreRequest};
pub use cleanup::Cleanup;
pub use conduct::{Shards, conduct};
pub use fleet::FleetError;
pub use gpu_direct::DirectOpener;
pub use phases::{
    ERRORS_MAX, Ending, Order, Phase, PhaseMachine, PhasePlan, SILENCE_MAX, START_DELAY, Sight,
};
pub use real::run;
use scaling::Scaling;
pub use start::Start;
pub use timeline::{SecondFigures, Timeline};
pub use virtual_run::{BEGIN, World, WorldParts, simulate};
pub use waiting::SlowIos;

/// Settings of a run, of which the default is one without storage, load or time.
#[derive(Clone, Default)]
pub struct RunSettings {
    /// Settings of the engine, without those that the run reads too: they are below, and reach the
    /// engine when it is made.
    pub engine: EngineBuilder,
    /// Where the data goes, and how much of it; for as many shards as the run has.
    pub store: StoreRequest,
    /// The object store in place of drives; none: the data goes to drives.
    pub objects: Option<(ObjectUrl, ObjectOptions)>,
    /// The engine's layout in which data is kept in files; none: in a data file.
    pub layout: Option<TierLayout>,
    /// Whether there is a storage tier.
    pub has_storage: bool,
    /// Whether the run goes on with the others when one of several drives fails.
    pub outlives_drives: bool,
    /// Number of shards, each of which is a thread.
    pub shards: u16,
    /// Core of each shard; none: not pinned.
    pub cpus: Option<Vec<usize>>,
    /// Opens the way of GPU memory to the data files past host memory; none: bytes go by way of I/O
    /// buffers.
    pub gpu_direct: Option<DirectOpener>,
    /// Size of one I/O, bytes.
    pub io_size_bytes: u64,
    /// I/Os in flight a shard on each drive, at most.
    pub queue_depth: u32,
    /// Whether the warm-up finds a smaller one that is enough; and the depth where it can't.
    pub depth_search: Option<u32>,
    /// Memory for I/O buffers, whole engine, bytes.
    pub io_buffer_bytes: u64,
    /// Random seed of the users, their requests and the content of entries.
    pub seed: u64,
    /// When the load begins.
    pub start: Start,
    /// Whether what was measured is handed over as soon as the run ends early, before what is in
    /// flight has ended: a second Ctrl-C ends the process at once, and a launcher kills its
    /// processes a second after it has asked them to end.
    pub keeps_early: bool,
    /// Unmeasured time at the start.
    pub warmup: Nanos,
    /// Length of the measurement window.
    pub duration: Nanos,
    /// Prefill writes at once; 0: unbounded.
    pub max_concurrent_allocs: u32,
    /// Whether the run ends when the workload has no more requests.
    pub ends_when_exhausted: bool,
    /// With an autoscaler: requests that end the run, found or not.
    pub autoscale_requests_max: Option<u64>,
    /// The autoscaler, if users come and go.
    pub autoscale: Option<autoscale::Settings>,
    /// Loads with which the run ends early; none: it is told nothing by them.
    pub loads_enough: Option<LoadsEnough>,
}

/// Loads in the window that leave nothing open.
#[derive(Clone, Copy, Debug)]
pub struct LoadsEnough {
    /// Number of loads, at least.
    pub loads: u64,
    /// Time that they take in all, at least.
    pub time: Nanos,
}

impl LoadsEnough {
    /// Whether so many requests had them.
    fn are_in(self, requests: &RequestCounts) -> bool {
        requests.loads >= self.loads && requests.load_ns >= u128::from(self.time.as_ns())
    }
}

/// Workload of a run: its settings, and the source of its requests.
pub struct Assignment {
    /// Settings of the users and of the model that they talk to.
    pub config: Arc<WorkloadConfig>,
    /// Where requests come from.
    pub source: Source,
    /// The rows, when they come from a trace.
    pub rows: Option<RowReader>,
}

impl Assignment {
    /// Users of one shard, or its part of a trace; with what all shards share.
    fn workload(
        &self,
        settings: &RunSettings,
        shard: ShardId,
        shared: &Arc<SharedParts>,
    ) -> Result<Workload, SetupError> {
        let (config, source) = (Arc::clone(&self.config), self.source.clone());
        let (shard, shards) = (u32::from(shard.0), u32::from(settings.shards));
        let workload = Workload::new(config, source, settings.seed, shard, shards);
        let wrong = |error: ringfall_workloads::Error| {
            SetupError::new(error.to_string(), "change the workload's settings")
        };
        Ok(workload.map_err(wrong)?.sharing(shared))
    }
}

/// Callbacks during a run.
pub trait Observer {
    /// The store's space is being written: bytes done, and all of them.
    fn giving_space(&mut self, done_bytes: u64, all_bytes: u64);
    /// The store is open, the shards are not: what is to be done with it before the run is done
    /// now.
    fn prepare(&mut self, store: &Store) -> Result<(), LoadError>;
    /// Whether bytes will go between GPU memory and storage past host memory; why not. Told where
    /// that was asked for.
    fn gpu_direct(&mut self, opened: Result<(), String>);
    /// The store is open, nothing has run yet.
    fn opened(&mut self, store: &Store, facts: &[ShardFacts]);
    /// The measurement window begins: the moment to sample counters.
    fn window_began(&mut self);
    /// The measurement window has ended.
    fn window_ended(&mut self);
    /// The run ends early, and this is what it has measured: the same comes again when what is in
    /// flight has ended, if the process lives as long.
    fn kept(&mut self, outcome: RunOutcome);
    /// Seconds that a shard has finished, each of which comes once; as the timeline gets them.
    fn seconds(&mut self, _seconds: &[Second]) {}
    /// About every 50 ms.
    fn progress(&mut self, progress: &Progress<'_>);
}

/// A run at a glance.
pub struct Progress<'a> {
    /// Phase that the run is in.
    pub phase: Phase,
    /// Until the phase ends; `MAX` where nobody knows.
    pub left: Nanos,
    /// Since the phase began.
    pub elapsed: Nanos,
    /// Sums over the shards.
    pub status: ShardStatus,
    /// Seconds measured so far.
    pub timeline: &'a Timeline,
    /// Capacities of the tiers, and their shortages.
    pub budgets: &'a SharedBudgets,
    /// Users there are now; none when requests come from a trace.
    pub users: Option<u32>,
    /// Description of the wait before the run begins; empty if there is none.
    pub awaits: &'a str,
    /// I/Os of a slow drive that the run waits for.
    pub waiting: Option<SlowIos>,
    /// Whether a signal asked for its end.
    pub is_interrupted: bool,
}

/// Results of a run, summed over the shards.
#[derive(Default)]
pub struct RunOutcome {
    /// Why the run ended.
    pub ending: Ending,
    /// Start and end of the window, `CLOCK_MONOTONIC`.
    pub window: (Nanos, Nanos),
    /// Figures that the result holds.
    pub figures: RunFigures,
    seconds: Vec<RequestSecond>,
    /// Contents of each tier at the end.
    pub tiers: [TierCounts; TIER_COUNT],
    /// Bytes that each shard moved in the window, and the core that it ran on.
    pub shard_bytes: Vec<ShardBytes>,
    /// Tiers that got less space than they were to have, while the run went on.
    pub shortages: Vec<Shortage>,
    /// Drives that have failed, by their places in the store, and when that was noticed.
    pub lost_drives: Vec<(usize, Nanos)>,
    /// Users of each second, when the autoscaler changed them.
    pub users: Vec<u32>,
    /// Data to delete once the results are saved.
    pub cleanup: Option<Cleanup>,
}

impl RunSettings {
    /// The search for a queue depth, if there is one, in a warm-up that lasts from the workload's
    /// time 0 to the window's beginning.
    /// `places`: I/Os for which each queue has buffers.
    fn tuner(
        &self,
        drives: usize,
        places: u32,
        (origin, window): (Nanos, Nanos),
    ) -> Option<depth::Tuning> {
        let standard = self.depth_search?;
        // At most 1,024 shards on 64 drives.
        let queues = u32::from(self.shards) * drives.max(1) as u32;
        let warmup = (origin, window);
        let tuner = depth::Tuner::new([self.queue_depth, places, standard], queues, warmup);
        Some(match &self.start {
            Start::Together(group) => {
                depth::Tuning::with_ranks(tuner, Arc::clone(group), queues, warmup)
            }
            Start::WhenReady | Start::AtUnix(_) => depth::Tuning::Alone(tuner),
        })
    }

    /// The core of a shard; none: not pinned.
    fn core_of(&self, shard: u16) -> Option<usize> {
        self.cpus.as_ref().map(|cpus| cpus[usize::from(shard) % cpus.len()])
    }

    /// I/Os for which each queue of the shard with the fewest buffers has one: the kernel may have
    /// registered less memory than was asked for.
    fn places(&self, drives: usize, facts: &[ShardFacts]) -> u32 {
        let a_queue =
            |facts: &ShardFacts| facts.buffer_bytes / self.io_size_bytes / drives.max(1) as u64;
        let least = facts.iter().map(a_queue).min().unwrap_or(u64::MAX);
        u32::try_from(least).unwrap_or(u32::MAX).clamp(1, self.queue_depth)
    }

    /// Durations of the phases and the limits that end them early, on real time.
    pub fn phase_plan(&self) -> PhasePlan {
        PhasePlan {
            start_delay: START_DELAY,
            gathers: self.start.gathers(),
            warmup: self.warmup,
            duration: self.duration,
            ends_when_exhausted: self.ends_when_exhausted,
            errors_max: ERRORS_MAX,
            silence_max: SILENCE_MAX,
        }
    }
}

impl RunOutcome {
    /// Adds what came out of the autoscaler, and the seconds of the window.
    fn conclude(&mut self, scaling: Option<&Scaling>, timeline: Timeline) {
        if let Some(scaling) = scaling {
            (self.figures.autoscale, self.users) = scaling.conclude();
        }
        self.figures.timeline = timeline.rows(self.window.1 - self.window.0, &self.seconds);
    }

    /// Adds what a shard measured, which was pinned to that core or to none; its seconds to the
    /// timeline.
    fn add(&mut self, report: ShardOutcome, core: Option<usize>, timeline: &mut Timeline) {
        self.shard_bytes.push(ShardBytes { core, drives: bytes_by_drive(&report.metrics) });
        let figures = &mut self.figures;
        figures.engine.merge(&report.metrics);
        figures.requests.merge(&report.totals.requests);
        figures.cache += report.totals.cache;
        figures.allocation_wait.merge(&report.totals.allocation_wait);
        figures.workload.merge(&report.workload);
        figures.errors.extend(report.errors);
        figures.space.push(report.space);
        RequestSecond::add(&mut self.seconds, &report.totals.seconds);
        timeline.add(report.seconds);
        for (sum, one) in self.tiers.iter_mut().zip(report.tiers) {
            sum.add(one);
        }
    }
}

/// The engine that a run asks for, with a storage tier on drives of those sizes.
fn engine_of(settings: &RunSettings, drives_bytes: &[u64]) -> EngineBuilder {
    let permits = settings.max_concurrent_allocs;
    let engine = settings.engine.clone().gives_drives_up(true);
    let mut engine = drives_bytes.iter().fold(engine, |engine, &bytes| engine.drive_bytes(bytes));
    if !settings.has_storage {
        engine = engine.without_storage();
    }
    engine
        .shards(settings.shards)
        .seed(settings.seed)
        .io_bytes(settings.io_size_bytes)
        .queue_depth(settings.queue_depth)
        .buffer_bytes(settings.io_buffer_bytes)
        .allocations_max((permits > 0).then_some(permits))
}

/// An engine's refusal as the error of a run that can't begin.
fn refused(error: EngineError) -> SetupError {
    match error {
        EngineError::Setup(error) => error,
        other => SetupError::new(other.to_string(), "change the settings of the run"),
    }
}

/// Plans of the shards' threads, with the rows of a trace that each of them gets.
fn shard_plans(
    settings: &RunSettings,
    assignment: &Assignment,
    rows: Vec<Option<flume::Receiver<SourceRequest>>>,
    store: &Store,
    direct: Option<Arc<dyn DirectStorage>>,
) -> Result<Vec<ShardPlan>, SetupError> {
    let mut engine = engine_of(settings, &store.sizes_bytes());
    if let Some(direct) = direct {
        engine = engine.gpu_direct(direct);
    }
    if let Some(objects) = store.object_io() {
        engine = engine.objects(objects);
    }
    // Not `start`: users and commands live on the shards' own threads, in one inbox with messages.
    let specs = engine.specs(&store.files()).map_err(refused)?;
    let shared = Arc::new(SharedParts::default());
    let plan = |(spec, rows): (ShardSpec, Option<flume::Receiver<SourceRequest>>)| {
        Ok(ShardPlan {
            workload: assignment.workload(settings, spec.id, &shared)?,
            max_concurrent_allocs: settings.max_concurrent_allocs > 0,
            rows,
            autoscaled: settings.autoscale.map(|bounds| bounds.mode),
            cpu: settings.core_of(spec.id.0),
            spec,
        })
    };
    specs.into_iter().zip(rows).map(plan).collect()
}
