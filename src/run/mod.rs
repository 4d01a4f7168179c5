//! Runs, on the program's own thread: opened, led through their phases, added up, cleaned up.
//!
//! What lives here: when things happen, and what the shards' figures add up to. What must not:
//! users' decisions (`workloads`), I/O (`engine`), how anything is shown (`show`).

mod depth;
mod fleet;
mod over_ranks;
mod phases;
mod scaling;
mod start;
mod store_watch;
mod threads;
mod timeline;
mod virtual_run;
mod watchdog;

use std::sync::Arc;
use std::time::Duration;

use ringfall_engine::clock::{Nanos, SECOND, monotonic_now};
use ringfall_engine::engine::{Engine, EngineBuilder, EngineError};
use ringfall_engine::error::{IoError, SetupError};
use ringfall_engine::load::LoadError;
use ringfall_engine::metrics::Metrics;
use ringfall_engine::placement::{Shortage, SpaceFigures, TierCounts};
use ringfall_engine::shard::{ShardFacts, ShardSpec};
use ringfall_engine::tier::TIER_COUNT;
use ringfall_engine::units::MIB;
use ringfall_workloads::autoscale::{self, Conclusion};
use ringfall_workloads::source::SourceRequest;
use ringfall_workloads::{Library, Source, Workload, WorkloadConfig, WorkloadStats};

use crate::driver::{ShardReport, ShardStatus, Totals};
use crate::facts::{DepthFigures, FeedFigures};
use crate::host::Awaited;
use crate::interrupt::Interrupt;
use crate::objects::{ObjectCounts, ObjectOptions, ObjectUrl};
use crate::source::{Feed, OpenTrace};
use crate::store::{Store, StoreError, StoreRequest};
pub use fleet::FleetError;
use fleet::{Fleet, ShardSeed};
pub use phases::{
    ERRORS_MAX, Ending, Order, Phase, PhasePlan, SILENCE_MAX, START_DELAY, Shards, Sight, conduct,
    conduct_to_the_end,
};
use scaling::Scaling;
pub use start::Start;
use threads::Threads;
pub use timeline::{SecondFigures, Timeline};
pub use virtual_run::{BEGIN, VirtualGpus, VirtualSystem, World, WorldParts, simulate};
pub use watchdog::WatchdogFigures;

/// What a run is given. What is not asked for is as in [`RunSettings::default`].
#[derive(Clone, Debug)]
pub struct RunSettings {
    /// What the engine is asked to be, but for what the run reads too: that is below, and the
    /// engine is given it when it is made.
    pub engine: EngineBuilder,
    /// Where the data goes, and how much of it; for as many shards as the run has.
    pub store: StoreRequest,
    /// The object store in place of drives; none: the data goes to drives.
    pub objects: Option<(ObjectUrl, ObjectOptions)>,
    /// Whether there is a storage tier.
    pub has_storage: bool,
    /// Whether the run goes on with the others when one of several drives fails.
    pub outlives_drives: bool,
    /// Number of shards, each of which is a thread.
    pub shards: u16,
    /// Core of each shard; none: not pinned.
    pub cpus: Option<Vec<usize>>,
    /// Size of one I/O, bytes.
    pub io_size_bytes: u64,
    /// I/Os in flight a shard on each drive, at most.
    pub queue_depth: u32,
    /// Whether the warm-up finds a smaller one that is enough; and the depth where it can't.
    pub depth_search: Option<u32>,
    /// Memory for I/O buffers, whole engine, bytes.
    pub io_buffer_bytes: u64,
    /// Seed of all that is drawn at random.
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
}

/// A second of load on one shard, in a fresh directory, without tiers above storage.
impl Default for RunSettings {
    fn default() -> RunSettings {
        let (io_size_bytes, queue_depth) = (MIB, 16);
        RunSettings {
            engine: Engine::builder(),
            store: StoreRequest::default(),
            objects: None,
            has_storage: true,
            outlives_drives: false,
            shards: 1,
            cpus: None,
            io_size_bytes,
            queue_depth,
            depth_search: None,
            io_buffer_bytes: io_size_bytes * u64::from(queue_depth),
            seed: 0,
            start: Start::WhenReady,
            keeps_early: false,
            warmup: Nanos::ZERO,
            duration: SECOND,
            max_concurrent_allocs: 0,
            ends_when_exhausted: false,
            autoscale_requests_max: None,
            autoscale: None,
        }
    }
}

/// What is run: the workload's settings, and where its requests come from.
pub struct Load {
    /// The settings.
    pub config: Arc<WorkloadConfig>,
    /// Where requests come from.
    pub source: Source,
    /// The rows, when they come from a trace.
    pub rows: Option<OpenTrace>,
}

/// What the run's teller wants to hear.
pub trait Observer {
    /// The store's space is being written: bytes done, and all of them.
    fn giving_space(&mut self, done_bytes: u64, all_bytes: u64);
    /// The object store has not answered for so long since it was first asked.
    fn awaits_store(&mut self, url: &ObjectUrl, waited: Duration);
    /// The store is open, the shards are not: what is to be done with it before the run is done
    /// now.
    ///
    /// # Errors
    /// It could not be done; the run then does not begin.
    fn prepare(&mut self, store: &Store) -> Result<(), LoadError>;
    /// The store is open, nothing has run yet.
    fn opened(&mut self, store: &Store, facts: &[ShardFacts]);
    /// The measurement window begins: the moment to sample counters.
    fn window_began(&mut self);
    /// The measurement window has ended.
    fn window_ended(&mut self);
    /// The run ends early, and this is what it has measured: the same comes again when what is in
    /// flight has ended, if the process lives as long.
    fn kept(&mut self, outcome: RunOutcome);
    /// About every 50 ms.
    fn progress(&mut self, progress: &Progress<'_>);
}

/// A run at a glance.
pub struct Progress<'a> {
    /// What it is doing.
    pub phase: Phase,
    /// Until the phase ends; `MAX` where nobody knows.
    pub left: Nanos,
    /// Since the phase began.
    pub elapsed: Nanos,
    /// Sums over the shards.
    pub status: ShardStatus,
    /// Seconds measured so far.
    pub timeline: &'a Timeline,
    /// Users there are now; none when requests come from a trace.
    pub users: Option<u32>,
    /// What the run waits for before it begins, in words; empty where there is nothing to say.
    pub awaits: &'a str,
    /// Whether a signal asked for its end.
    pub is_interrupted: bool,
}

/// What a run measured, added up over the shards.
pub struct RunOutcome {
    /// Why it ended.
    pub ending: Ending,
    /// Start and end of the window, `CLOCK_MONOTONIC`.
    pub window: (Nanos, Nanos),
    /// The engine's counters.
    pub metrics: Box<Metrics>,
    /// The requests.
    pub totals: Box<Totals>,
    /// The workload's counters.
    pub workload: WorkloadStats,
    /// By second.
    pub timeline: Timeline,
    /// Failures since the start, the first of each shard.
    pub errors: Vec<IoError>,
    /// What is in each tier at the end.
    pub tiers: [TierCounts; TIER_COUNT],
    /// Storage space at the end, by shard.
    pub space: Vec<SpaceFigures>,
    /// Tiers that got less space than they were to have, while the run went on.
    pub shortages: Vec<Shortage>,
    /// Drives that have failed, by their places in the store, and when that was noticed.
    pub lost_drives: Vec<(usize, Nanos)>,
    /// What the autoscaler found.
    pub autoscale: Option<Conclusion>,
    /// What the search for a queue depth found.
    pub queue_depth: Option<DepthFigures>,
    /// Users of each second, when the autoscaler changed them.
    pub users: Vec<u32>,
    /// What reading the trace came to.
    pub feed: Option<FeedFigures>,
    /// Heartbeats.
    pub watchdog: WatchdogFigures,
    /// Entries of the population that could not be written.
    pub population_failed: u64,
    /// Cleaning up failed: what is left behind.
    pub cleanup: Result<(), SetupError>,
    /// What the object store was asked, where the data was in one.
    pub objects: Option<ObjectCounts>,
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
    ) -> Option<depth::Tuner> {
        let standard = self.depth_search?;
        // At most 1,024 shards on 64 drives.
        let queues = u32::from(self.shards) * drives.max(1) as u32;
        Some(depth::Tuner::new([self.queue_depth, places, standard], queues, (origin, window)))
    }

    /// Cores that the shards may run on.
    fn cores(&self) -> usize {
        let all = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        self.cpus.as_ref().map_or(all, Vec::len)
    }

    /// I/Os for which each queue of the shard with the fewest buffers has one: the kernel may have
    /// registered less memory than was asked for.
    fn places(&self, drives: usize, facts: &[ShardFacts]) -> u32 {
        let a_queue =
            |facts: &ShardFacts| facts.buffer_bytes / self.io_size_bytes / drives.max(1) as u64;
        let least = facts.iter().map(a_queue).min().unwrap_or(u64::MAX);
        u32::try_from(least).unwrap_or(u32::MAX).clamp(1, self.queue_depth)
    }

    /// How long the phases last and what ends them, on real time.
    #[must_use]
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
    fn empty(ending: Ending, window: (Nanos, Nanos)) -> RunOutcome {
        RunOutcome {
            ending,
            window,
            metrics: Box::default(),
            totals: Box::default(),
            workload: WorkloadStats::default(),
            timeline: Timeline::default(),
            errors: Vec::new(),
            tiers: Default::default(),
            space: Vec::new(),
            shortages: Vec::new(),
            lost_drives: Vec::new(),
            autoscale: None,
            queue_depth: None,
            users: Vec::new(),
            feed: None,
            watchdog: WatchdogFigures::default(),
            population_failed: 0,
            cleanup: Ok(()),
            objects: None,
        }
    }

    /// A run that was interrupted before it had begun.
    fn interrupted_early() -> RunOutcome {
        let now = monotonic_now();
        RunOutcome::empty(Ending::Interrupted, (now, now))
    }

    /// Makes it a failed run, unless it is one already.
    fn fail(&mut self, sentence: String) {
        if !matches!(self.ending, Ending::Failed(_)) {
            self.ending = Ending::Failed(sentence);
        }
    }

    /// Adds what came out of the autoscaler, and the seconds of the window.
    fn conclude(&mut self, scaling: Option<&Scaling>, timeline: Timeline) {
        if let Some(scaling) = scaling {
            (self.autoscale, self.users) = scaling.conclude();
        }
        self.timeline = timeline;
        self.timeline.cut_to(self.window.1 - self.window.0, &self.totals.seconds);
    }

    /// Adds what a shard measured; its seconds to the timeline.
    fn add(&mut self, report: ShardReport, timeline: &mut Timeline) {
        self.metrics.merge(&report.metrics);
        self.totals.merge(&report.totals);
        self.workload.merge(&report.workload);
        timeline.add(report.seconds);
        self.errors.extend(report.errors);
        for (sum, one) in self.tiers.iter_mut().zip(report.tiers) {
            sum.entries += one.entries;
            sum.bytes += one.bytes;
        }
        self.space.push(report.space);
    }
}

/// Longest wait for the kernel to delete the data files: terabytes on a disk or over a network take
/// minutes, and a run that did not end well may have a dead device.
fn removal_patience(ending: &Ending) -> Duration {
    Duration::from_secs(match ending {
        Ending::Complete => 3_600,
        Ending::Interrupted | Ending::Failed(_) => 120,
    })
}

/// A run from open to clean.
///
/// # Errors
/// When it could not begin. A shard that dies or gets stuck later ends the run as failed, with what
/// the others measured.
pub fn run(
    settings: &RunSettings,
    load: Load,
    interrupt: &Interrupt,
    observer: &mut dyn Observer,
) -> Result<RunOutcome, FleetError> {
    let store = match open_store(settings, interrupt, observer) {
        Err(_) if interrupt.is_set() => return Ok(RunOutcome::interrupted_early()),
        opened => opened?,
    };
    observer.prepare(&store)?;
    let (feed, rows) = match load.rows {
        None => (None, vec![None; usize::from(settings.shards)]),
        Some(trace) => {
            let (feed, rows) = Feed::start(trace, settings.shards).map_err(|error| {
                SetupError::new(
                    format!("no thread can be started to read the trace: {error}"),
                    "raise the limit on threads (ulimit -u)",
                )
            })?;
            (Some(feed), rows.into_iter().map(Some).collect())
        }
    };
    let seeds = seeds(settings, &load.config, &load.source, rows, &store)?;
    // A run has at least one shard.
    let budgets = Arc::clone(&seeds[0].spec.blueprint.shared.budgets);
    let (fleet, facts) = match Fleet::start(seeds, settings.cores(), interrupt) {
        // Nothing was measured, and that is what the results say.
        Err(FleetError::Interrupted) => {
            let cleanup = store.remove_within(removal_patience(&Ending::Interrupted));
            return Ok(RunOutcome { cleanup, ..RunOutcome::interrupted_early() });
        }
        started => started?,
    };
    observer.opened(&store, &facts);
    let users = (!load.source.is_rows()).then_some(load.config.num_users);
    let fleet = (fleet, Arc::clone(&budgets));
    let mut threads = Threads::new(settings, interrupt, observer, &store, fleet, feed, users);
    threads.places = settings.places(store.drives.len(), &facts);
    let phases = conduct_to_the_end(settings.phase_plan(), &mut threads);
    let mut outcome = threads.outcome(&phases);
    outcome.shortages = budgets.shortages();
    settings.start.ended(&outcome.ending);
    outcome.objects = store.object_counts();
    outcome.cleanup = store.remove_within(removal_patience(&outcome.ending));
    Ok(outcome)
}

/// The store that a run asks for, unless it is interrupted meanwhile.
fn open_store(
    settings: &RunSettings,
    interrupt: &Interrupt,
    observer: &mut dyn Observer,
) -> Result<Store, StoreError> {
    let request = StoreRequest { shards: settings.shards, ..settings.store.clone() };
    match (settings.has_storage, &settings.objects) {
        (false, _) => Store::nowhere(),
        #[cfg(feature = "objects")]
        (true, Some((url, options))) => {
            let bytes = settings.store.capacity_bytes;
            Store::in_objects(url, options, bytes, settings.shards, &mut |waited| {
                observer.awaits_store(url, waited);
                !interrupt.is_set()
            })
        }
        // Without the feature such a place is refused with the other settings.
        (true, _) => {
            let awaited = Awaited::new("the storage to be opened".to_owned());
            Store::open(&request, &mut |done_bytes, all_bytes| {
                awaited.moves();
                observer.giving_space(done_bytes, all_bytes);
                !interrupt.is_set()
            })
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

fn seeds(
    settings: &RunSettings,
    workload: &Arc<WorkloadConfig>,
    source: &Source,
    rows: Vec<Option<flume::Receiver<SourceRequest>>>,
    store: &Store,
) -> Result<Vec<ShardSeed>, FleetError> {
    let shards = settings.shards;
    let engine = engine_of(settings, &store.sizes_bytes());
    let engine = match store.object_io() {
        Some(objects) => engine.objects(objects),
        None => engine,
    };
    // Not `start`: users and commands live on the shards' own threads, in one inbox with messages.
    let specs = engine.specs(&store.files()).map_err(refused)?;
    let library = Arc::new(Library::default());
    let seed = |(spec, rows): (ShardSpec, Option<flume::Receiver<SourceRequest>>)| {
        let (config, source, index) = (Arc::clone(workload), source.clone(), spec.id.0);
        let users =
            Workload::new(config, source, settings.seed, u32::from(index), u32::from(shards))
                .map_err(|error| {
                    SetupError::new(error.to_string(), "change the workload's settings")
                })?;
        Ok(ShardSeed {
            spec,
            workload: users.with_library(&library),
            max_concurrent_allocs: settings.max_concurrent_allocs > 0,
            rows,
            autoscaled: settings.autoscale.is_some(),
            cpu: settings.cpus.as_ref().map(|cpus| cpus[usize::from(index) % cpus.len()]),
        })
    };
    specs.into_iter().zip(rows).map(seed).collect()
}
