//! The run's phases, on the program's own thread: open, populate, warm up, measure, drain, report.
//!
//! What lives here: when things happen, and what the shards' figures add up to. What must not:
//! users' decisions (`workloads`), I/O (`engine`), how anything is shown (`report`).

mod fleet;
mod scaling;
mod signals;
mod store;
mod timeline;
mod virtual_run;
mod watchdog;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ringfall_engine::clock::{MILLISECOND, Nanos, SECOND, monotonic_now};
use ringfall_engine::device::Preallocate;
use ringfall_engine::engine::{Engine, EngineBuilder, EngineError};
use ringfall_engine::error::{IoError, SetupError};
use ringfall_engine::fill::VerifyMode;
use ringfall_engine::load::LoadError;
use ringfall_engine::metrics::Metrics;
use ringfall_engine::placement::{SpaceFigures, TierCounts};
use ringfall_engine::shard::{Durability, ShardFacts, ShardSpec};
use ringfall_engine::tier::TIER_COUNT;
use ringfall_workloads::autoscale::{self, Conclusion, Decision};
use ringfall_workloads::source::SourceRequest;
use ringfall_workloads::{Source, Workload, WorkloadConfig, WorkloadStats};
use scaling::Scaling;

use crate::driver::{Command, Notice, ShardReport, ShardStatus, Totals};
use crate::remedy::told_io;
use crate::source::{Feed, FeedFigures, OpenTrace};
pub use fleet::FleetError;
use fleet::{Fleet, ShardSeed};
pub use signals::{Interrupt, fail_at_the_limit_of_file_sizes};
pub use store::{Place, Store, StoreRequest};
pub use timeline::{SecondFigures, Timeline};
pub use virtual_run::{BEGIN, SimulationFigures, VirtualSystem, World, WorldParts, simulate};
pub use watchdog::WatchdogFigures;

/// From telling the shards to start until they do: time for the message to arrive everywhere.
const START_DELAY: Nanos = 20 * MILLISECOND;
/// How often the coordinator looks around.
const LOOK: Duration = Duration::from_millis(50);
/// I/O errors after which a run has failed for good, rather than hammering a dead device.
const ERRORS_MAX: u64 = 1_000;
/// Longest wait for what is in flight when the run ends.
const DRAIN_PATIENCE: Nanos = 120 * SECOND;

/// What a run is given.
#[derive(Clone, Debug)]
pub struct RunSettings {
    /// Threads.
    pub shards: u16,
    /// Core of each shard; none: not pinned.
    pub cpus: Option<Vec<usize>>,
    /// Where the data goes; none: a fresh directory under the system's temp.
    pub cache_dir: Option<PathBuf>,
    /// Whether a raw device may be written over.
    pub destroy_device_contents: bool,
    /// Size of the storage tier, bytes; 0: 95 % of what is free.
    pub storage_capacity_bytes: u64,
    /// At most this part of the free space, percent.
    pub storage_free_percent_max: Option<u64>,
    /// Size of the CPU tier, bytes.
    pub cpu_capacity_bytes: u64,
    /// How data files get their space.
    pub preallocate: Preallocate,
    /// Size of one I/O, bytes.
    pub io_size_bytes: u64,
    /// I/Os in flight a shard.
    pub queue_depth: u32,
    /// Memory for I/O buffers, whole engine, bytes.
    pub io_buffer_bytes: u64,
    /// Flush after each entry or not.
    pub durability: Durability,
    /// How much of what is read is checked.
    pub verify: VerifyMode,
    /// Seed of everything.
    pub seed: u64,
    /// Unmeasured time at the start, ns.
    pub warmup: Nanos,
    /// Measured time, ns.
    pub duration: Nanos,
    /// Requests served at once.
    pub max_inflight_requests: u32,
    /// Prefill writes at once; 0: unbounded.
    pub max_concurrent_allocs: u32,
    /// Whether the run ends when the workload has no more requests.
    pub ends_when_exhausted: bool,
    /// The autoscaler, if users come and go.
    pub autoscale: Option<autoscale::Settings>,
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
    /// The store is open, the shards are not: what is to be done with it before the run is done now.
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
    /// About every 50 ms.
    fn progress(&mut self, progress: &Progress<'_>);
}

/// A run at a glance.
pub struct Progress<'a> {
    /// What it is doing.
    pub phase: Phase,
    /// Until the phase ends, ns.
    pub left_ns: Nanos,
    /// Sums over the shards.
    pub status: ShardStatus,
    /// Seconds measured so far.
    pub timeline: &'a Timeline,
    /// Users there are now; none when requests come from a trace.
    pub users: Option<u32>,
}

/// What a run is doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// Writing what must be there before measuring.
    Populate,
    /// Running unmeasured.
    WarmUp,
    /// Running measured.
    Measure,
    /// Ending what is in flight.
    Drain,
}

/// Why a run ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Ending {
    /// Its time was over, or its requests were.
    Complete,
    /// A signal.
    Interrupted,
    /// It could not go on; the sentence says why.
    Failed(String),
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
    /// What the autoscaler found.
    pub autoscale: Option<Conclusion>,
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
            autoscale: None,
            users: Vec::new(),
            feed: None,
            watchdog: WatchdogFigures::default(),
            population_failed: 0,
            cleanup: Ok(()),
        }
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

/// A run from open to clean.
///
/// # Errors
/// When it could not begin, or a shard died or got stuck; nothing was measured then.
pub fn run(
    settings: &RunSettings,
    load: Load,
    interrupt: &Interrupt,
    observer: &mut dyn Observer,
) -> Result<RunOutcome, FleetError> {
    let store = Store::open(&StoreRequest {
        cache_dir: settings.cache_dir.clone(),
        destroy_device_contents: settings.destroy_device_contents,
        capacity_bytes: settings.storage_capacity_bytes,
        capacity_flag: "--storage-capacity-gb",
        free_percent_max: settings.storage_free_percent_max,
        shards: settings.shards,
        preallocate: settings.preallocate,
    })?;
    observer.prepare(&store)?;
    let (feed, rows) = match load.rows {
        None => (None, vec![None; usize::from(settings.shards)]),
        Some(trace) => {
            let (feed, rows) = Feed::start(trace, settings.shards).map_err(|error| {
                SetupError::new(
                    format!("no thread can be started to read the trace: {error}"),
                    "raise the limit of threads (ulimit -u)",
                )
            })?;
            (Some(feed), rows.into_iter().map(Some).collect())
        }
    };
    let seeds = seeds(settings, &load.config, &load.source, rows, &store)?;
    let (fleet, facts) = Fleet::start(seeds)?;
    observer.opened(&store, &facts);
    let mut run = Run {
        settings,
        interrupt,
        observer,
        store: &store,
        fleet,
        statuses: vec![ShardStatus::default(); usize::from(settings.shards)],
        timeline: Timeline::default(),
        reports: (0..settings.shards).map(|_| None).collect(),
        populated: vec![None; usize::from(settings.shards)],
        scaling: settings.autoscale.map(|scale| Scaling::new(scale, settings.shards)),
        feed,
        users: (!load.source.is_rows()).then_some(load.config.num_users),
    };
    let mut outcome = run.phases()?;
    run.fleet.join()?;
    outcome.cleanup = store.remove();
    Ok(outcome)
}

/// The engine that a run asks for, with a storage tier of that size.
fn engine_of(settings: &RunSettings, storage_bytes: u64) -> EngineBuilder {
    let permits = settings.max_concurrent_allocs;
    Engine::builder()
        .shards(settings.shards)
        .seed(settings.seed)
        .storage_bytes(storage_bytes)
        .cpu_bytes(settings.cpu_capacity_bytes)
        .io_bytes(settings.io_size_bytes)
        .queue_depth(settings.queue_depth)
        .buffer_bytes(settings.io_buffer_bytes)
        .durability(settings.durability)
        .verify(settings.verify)
        .allocations_max((permits > 0).then_some(permits))
        .requests_max(Some(settings.max_inflight_requests))
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
    let engine = engine_of(settings, store.capacity_bytes());
    // Not `start`: users and commands live on the shards' own threads, in one inbox with messages.
    let specs = engine.specs(&store.file).map_err(refused)?;
    let seed = |(spec, rows): (ShardSpec, Option<flume::Receiver<SourceRequest>>)| {
        let (config, source, index) = (Arc::clone(workload), source.clone(), spec.id.0);
        let users =
            Workload::new(config, source, settings.seed, u32::from(index), u32::from(shards))
                .map_err(|error| {
                    SetupError::new(error.to_string(), "change the workload's settings")
                })?;
        Ok(ShardSeed {
            spec,
            workload: users,
            max_concurrent_allocs: settings.max_concurrent_allocs > 0,
            rows,
            autoscaled: settings.autoscale.is_some(),
            cpu: settings.cpus.as_ref().map(|cpus| cpus[usize::from(index) % cpus.len()]),
        })
    };
    specs.into_iter().zip(rows).map(seed).collect()
}

struct Run<'a> {
    settings: &'a RunSettings,
    interrupt: &'a Interrupt,
    observer: &'a mut dyn Observer,
    store: &'a Store,
    fleet: Fleet,
    statuses: Vec<ShardStatus>,
    timeline: Timeline,
    reports: Vec<Option<Box<ShardReport>>>,
    populated: Vec<Option<u64>>,
    scaling: Option<Scaling>,
    feed: Option<Feed>,
    /// Users there are now; none when requests come from a trace.
    users: Option<u32>,
}

impl Run<'_> {
    fn phases(&mut self) -> Result<RunOutcome, FleetError> {
        let population_failed = self.populate()?;
        let origin = monotonic_now() + START_DELAY;
        let start = origin + self.settings.warmup;
        let end = start + self.settings.duration;
        self.fleet.tell(Command::Start { origin, window: (start, end) });
        let mut ending = self.run_until(Phase::WarmUp, start, false)?;
        self.fleet.forget_gaps();
        self.observer.window_began();
        if ending == Ending::Complete {
            let may_exhaust = self.settings.ends_when_exhausted;
            ending = self.run_until(Phase::Measure, end, may_exhaust)?;
        }
        let end = end.min(monotonic_now()).max(start);
        self.fleet.tell(Command::Stop { window_end: end });
        self.observer.window_ended();
        self.drain()?;
        Ok(self.outcome(ending, (start, end), population_failed))
    }

    fn populate(&mut self) -> Result<u64, FleetError> {
        self.fleet.tell(Command::Populate);
        while self.populated.iter().any(Option::is_none) && !self.interrupt.is_set() {
            self.look_around(Phase::Populate, 0)?;
        }
        Ok(self.populated.iter().flatten().sum())
    }

    fn run_until(
        &mut self,
        phase: Phase,
        deadline: Nanos,
        may_exhaust: bool,
    ) -> Result<Ending, FleetError> {
        let mut next_check = monotonic_now() + SECOND;
        loop {
            let now = monotonic_now();
            if self.interrupt.is_set() {
                return Ok(Ending::Interrupted);
            }
            if now >= deadline {
                return Ok(Ending::Complete);
            }
            self.look_around(phase, deadline - now)?;
            if self.errors() >= ERRORS_MAX {
                let sentence = format!("stopped after {} I/O errors", self.errors());
                return Ok(Ending::Failed(sentence));
            }
            if phase == Phase::Measure && self.scale() {
                return Ok(Ending::Complete);
            }
            if let Some(failure) = self.feed.as_ref().and_then(|feed| feed.figures().failure) {
                return Ok(Ending::Failed(failure));
            }
            if may_exhaust && self.statuses.iter().all(|status| status.exhausted) {
                return Ok(Ending::Complete);
            }
            if now >= next_check {
                next_check = now + SECOND;
                if let Err(error) = self.store.file.check() {
                    return Ok(Ending::Failed(format!("stopped: {}", told_io(&error))));
                }
            }
        }
    }

    /// Lets the autoscaler decide, if there is one. `true`: it has its answer.
    fn scale(&mut self) -> bool {
        let Some(scaling) = &mut self.scaling else { return false };
        match scaling.decide(&self.timeline) {
            Decision::Hold => false,
            Decision::Users(users) => {
                self.users = Some(users);
                self.fleet.tell(Command::SetUsers(users));
                false
            }
            Decision::Stop => true,
        }
    }

    fn drain(&mut self) -> Result<(), FleetError> {
        let deadline = monotonic_now() + DRAIN_PATIENCE;
        while let Some(shard) = self.reports.iter().position(Option::is_none) {
            let now = monotonic_now();
            if now >= deadline {
                return Err(self.fleet.stuck(shard as u16, DRAIN_PATIENCE));
            }
            self.look_around(Phase::Drain, deadline - now)?;
        }
        Ok(())
    }

    /// Takes what the shards have sent, watches over them, shows progress.
    fn look_around(&mut self, phase: Phase, left_ns: Nanos) -> Result<(), FleetError> {
        let patience = LOOK.min(Duration::from_nanos(left_ns.max(MILLISECOND)));
        let mut next = self.fleet.next_notice(patience);
        while let Some(notice) = next {
            self.take(notice);
            next = self.fleet.next_notice(Duration::ZERO);
        }
        self.fleet.watch()?;
        let status = self.statuses.iter().fold(ShardStatus::default(), |sum, one| ShardStatus {
            queued: sum.queued + one.queued,
            serving: sum.serving + one.serving,
            in_flight: sum.in_flight + one.in_flight,
            exhausted: false,
            completed: sum.completed + one.completed,
            errors: sum.errors + one.errors,
        });
        let timeline = &self.timeline;
        let users = self.users;
        self.observer.progress(&Progress { phase, left_ns, status, timeline, users });
        Ok(())
    }

    fn errors(&self) -> u64 {
        self.statuses.iter().map(|status| status.errors).sum()
    }

    fn take(&mut self, notice: Notice) {
        match notice {
            Notice::Ready(..) => {}
            Notice::Populated(id, failed) => self.populated[id.index()] = Some(failed),
            Notice::Tick(id, status, seconds, intervals) => {
                self.statuses[id.index()] = status;
                let over = seconds.last().map_or(0, |second| second.index + 1);
                self.timeline.add(seconds);
                if let Some(scaling) = &mut self.scaling {
                    scaling.add(id.index(), over, intervals);
                }
            }
            Notice::Drained(id, report) => self.reports[id.index()] = Some(report),
        }
    }

    fn outcome(
        &mut self,
        ending: Ending,
        window: (Nanos, Nanos),
        population_failed: u64,
    ) -> RunOutcome {
        let mut outcome = RunOutcome {
            feed: self.feed.as_ref().map(Feed::figures),
            watchdog: self.fleet.watchdog_figures(),
            population_failed,
            ..RunOutcome::empty(ending, window)
        };
        for report in self.reports.iter_mut().filter_map(Option::take) {
            outcome.add(*report, &mut self.timeline);
        }
        if let Some(scaling) = self.scaling.take() {
            let (conclusion, users) = scaling.conclude();
            outcome.autoscale = Some(conclusion);
            outcome.users = users;
        }
        outcome.timeline = std::mem::take(&mut self.timeline);
        outcome.timeline.cut_to(window.1 - window.0, &outcome.totals.seconds);
        outcome
    }
}
