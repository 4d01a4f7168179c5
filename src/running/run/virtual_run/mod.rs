//! A run on a simulated clock and drive: the real driver, workload, placement and QoS code, on one
//! thread. What differs from a real run is in `world`: the clock, the device, that entries have no
//! bytes, and that messages between shards arrive at once.
//!
//! Nothing is drawn at random but by the workload and the drive's model, nothing waits for the
//! outside: the same settings give the same run, to the nanosecond.

mod world;

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::convert::Infallible;
use std::rc::Rc;

use ringfall_config::{DeviceFile, MEMORY_LATENCY};
use ringfall_core::clock::{Nanos, SECOND};
use ringfall_core::error::SetupError;
use ringfall_core::facts::buffers_a_shard;
use ringfall_core::fill::VerifyMode;
use ringfall_core::units::BLOCK_BYTES;
use ringfall_engine::device::{Occupation, SimDrive};
use ringfall_engine::shard::timers::Timers;
use ringfall_engine::shard::{Content, Hollow, HollowMemory};
use ringfall_engine::tier::cpu::CpuPool;
use ringfall_host::interrupt::Interrupt;
use ringfall_model::facts::{FileCounts, RunFigures, SimulationFigures};
use ringfall_workloads::autoscale::Decision;
use ringfall_workloads::source::SourceRequest;

use super::conduct::{Shards, conduct};
use super::depth::Tuning;
use super::phases::{Ending, Order, Phase, PhasePlan, Sight};
use super::scaling::Scaling;
use super::{Assignment, RunOutcome, RunSettings, Timeline};
use crate::iotrace::TraceWriter;
use crate::source::{ROWS_AHEAD, RowReader};
pub use world::{BEGIN, World, WorldParts};

/// Steps between two looks at whether somebody interrupts.
const LOOK_STEPS: u32 = 1 << 16;

/// Equal parts of a capacity, in whole blocks where there are several.
fn equal_parts(bytes: u64, drives: u16) -> Vec<u64> {
    match drives {
        1 => vec![bytes],
        _ => vec![bytes / u64::from(drives) / BLOCK_BYTES * BLOCK_BYTES; usize::from(drives)],
    }
}

/// Runs on the described system, from populating to the last I/O; every operation goes to `log`, if
/// there is one. Its GPUs share what they have.
pub fn simulate(
    settings: &RunSettings,
    assignment: Assignment,
    device: &DeviceFile,
    log: Option<&Rc<TraceWriter>>,
    interrupt: &Interrupt,
) -> Result<(RunOutcome, SimulationFigures), SetupError> {
    let time = Timers::starting_at(BEGIN);
    let &DeviceFile { model, drives, memory_bytes_per_s, gpu, .. } = device;
    let of_gpu = |bytes_per_s| Rc::new(HollowMemory::new(time.clone(), bytes_per_s, gpu.latency));
    let (gpu_link, gpu_memory) = (of_gpu(gpu.link_bytes_per_s), of_gpu(gpu.memory_bytes_per_s));
    let link_busy = gpu_link.busy();
    let host_memory = || HollowMemory::new(time.clone(), memory_bytes_per_s, MEMORY_LATENCY);
    let host: Vec<HollowMemory> = (0..settings.shards).map(|_| host_memory()).collect();
    let memories = host.iter().map(HollowMemory::busy).collect();
    let host = RefCell::new(host.into_iter());
    let parts = WorldParts {
        drives: (0..drives).map(|_| SimDrive::new(model, time.clock(), None)).collect(),
        drives_bytes: equal_parts(settings.store.capacity_bytes, drives),
        time,
        cpu: CpuPool::hollow(),
        content: Box::new(move || {
            let host = host.borrow_mut().next().expect("there is one for each shard");
            let (gpu_link, gpu_memory) = (Rc::clone(&gpu_link), Rc::clone(&gpu_memory));
            Content::Hollow(Hollow { host, gpu_link, gpu_memory })
        }),
        verify: VerifyMode::Off,
    };
    let world = World::new(settings, &assignment, parts)?;
    let shards = usize::from(settings.shards);
    let mut simulation = Simulation {
        settings,
        interrupt,
        world,
        memories,
        link_busy,
        log,
        timeline: Timeline::default(),
        scaling: Scaling::of(settings),
        tuner: None,
        feed: assignment.rows.map(|rows| VirtualFeed::new(rows, shards)),
        steps: 0,
        found: Found::default(),
        next_tick: Nanos::MAX,
        window_begin: Nanos::ZERO,
        population_failed: Rc::default(),
        busy: Default::default(),
        drive_busy: Default::default(),
        report: None,
    };
    // On a simulated clock nothing takes time to arrive, and a drive is as slow as it is described.
    let plan = PhasePlan {
        start_delay: Nanos::ZERO,
        gathers: false,
        silence_max: Nanos::MAX,
        ..settings.phase_plan()
    };
    let Ok(_over) = conduct(plan, &mut simulation);
    Ok(simulation.report.expect("the last order of every run is to report"))
}

struct Simulation<'a> {
    settings: &'a RunSettings,
    interrupt: &'a Interrupt,
    world: World,
    /// When each shard's memory is busy.
    memories: Vec<Rc<RefCell<Occupation>>>,
    /// When the link to the GPUs is busy.
    link_busy: Rc<RefCell<Occupation>>,
    log: Option<&'a Rc<TraceWriter>>,
    timeline: Timeline,
    scaling: Option<Scaling>,
    /// The search for a queue depth.
    tuner: Option<Tuning>,
    feed: Option<VirtualFeed>,
    steps: u32,
    found: Found,
    /// When the next second of the window is over; `MAX` outside it.
    next_tick: Nanos,
    /// The workload's measured time begins here.
    window_begin: Nanos,
    population_failed: Rc<Cell<u64>>,
    /// At the window's beginning and end.
    busy: [Busy; 2],
    /// For how long each part of the drive was busy when the last second of the window was over.
    drive_busy: [Nanos; 3],
    /// Results of the run, once it is over.
    report: Option<(RunOutcome, SimulationFigures)>,
}

/// Events found while time passed.
#[derive(Default)]
struct Found {
    /// Why the run can't go on.
    failure: Option<String>,
    is_interrupted: bool,
    has_answer: bool,
    /// Nothing can happen any more by itself.
    is_still: bool,
}

impl Found {
    fn is_reason_to_end(&self) -> bool {
        self.failure.is_some() || self.is_interrupted || self.has_answer
    }
}

impl Shards for Simulation<'_> {
    type Broken = Infallible;

    fn sight(&mut self, phase: Phase) -> Result<Sight, Infallible> {
        let shards = self.world.drivers.iter().map(|driver| driver.shard());
        let (errors, ended) = shards.fold((0, 0), |(errors, ended), shard| {
            (errors + shard.error_count(), ended + shard.measure().ended_ever())
        });
        let is_reason = self.found.is_reason_to_end();
        Ok(Sight {
            now: self.world.time.now(),
            is_done: match phase {
                Phase::Populate => self.found.is_still || self.world.runtime.task_count() == 0,
                Phase::Drain => self.found.is_still,
                // A simulated system is there as soon as it is described, and its report at once.
                Phase::Open | Phase::Precondition | Phase::Assemble | Phase::Report => true,
                Phase::Gather | Phase::WarmUp | Phase::Measure => false,
            },
            // Asked for only where the answer matters: it looks at every shard.
            is_exhausted: self.found.is_still && self.is_exhausted(),
            is_interrupted: self.found.is_interrupted,
            has_answer: self.found.has_answer,
            is_abandoned: phase == Phase::Drain && is_reason && !self.found.is_still,
            errors,
            ended,
            failure: self.found.failure.clone(),
            ..Sight::default()
        })
    }

    fn obey(&mut self, order: Order) -> Result<(), Infallible> {
        self.found.is_still = false;
        match order {
            // Nothing has to be kept: it takes no time, and its process none of anybody's drives.
            Order::Open | Order::Precondition | Order::Assemble | Order::Keep { .. } => {}
            Order::Populate => self.populate(),
            Order::Start { origin, window } => {
                if let Some(log) = self.log {
                    log.begin(origin);
                    self.world.drivers.iter().for_each(|driver| driver.log_to(log));
                }
                self.world.start(origin, window);
                let (settings, drives) = (self.settings, self.world.drives.len());
                let bytes_a_drive = settings.io_buffer_bytes / drives.max(1) as u64;
                let io_bytes = settings.io_size_bytes;
                let depth = settings.queue_depth;
                let places = buffers_a_shard(bytes_a_drive, settings.shards, io_bytes, depth);
                self.tuner = settings.tuner(drives, places, (origin, window.0));
            }
            Order::BeginWindow => {
                // Its time is over by now: it says so, if it had not come to an end.
                self.tune();
                self.busy[0] = self.busy();
                self.drive_busy = self.busy[0].drive;
                self.window_begin = self.world.time.now();
                self.next_tick = self.window_begin + SECOND;
            }
            Order::Stop { window_end } => {
                self.busy[1] = self.busy();
                if self.found.is_interrupted {
                    self.world.drivers.iter().for_each(|driver| driver.count_by_sample());
                }
                self.world.stop(window_end);
                self.found = Found::default();
            }
            Order::Report { ending, window } => self.report = Some(self.outcome(ending, window)),
        }
        Ok(())
    }

    fn pass_time(&mut self, phase: Phase, until: Nanos) -> Result<(), Infallible> {
        match phase {
            Phase::Open | Phase::Precondition | Phase::Assemble | Phase::Gather | Phase::Report => {
                unreachable!("a simulated run waits for nothing while {phase}")
            }
            Phase::Populate => {
                while self.world.runtime.task_count() > 0 && !self.found.is_reason_to_end() {
                    if !self.world.step_now() && !self.world.advance(Nanos::MAX) {
                        self.found.is_still = true;
                        break;
                    }
                    self.look();
                }
            }
            Phase::WarmUp => {
                let due = self.tune();
                self.run_until(until.min(due), self.settings.ends_when_exhausted);
            }
            Phase::Drain => self.run_until(until, false),
            Phase::Measure => {
                let tick = self.next_tick.min(until);
                self.run_until(tick, self.settings.ends_when_exhausted);
                let is_over = self.found.is_still && self.is_exhausted();
                if !self.found.is_reason_to_end() && !is_over {
                    self.tick(tick);
                    self.next_tick = tick + SECOND;
                }
            }
        }
        Ok(())
    }
}

impl Simulation<'_> {
    fn outcome(
        &mut self,
        ending: Ending,
        window: (Nanos, Nanos),
    ) -> (RunOutcome, SimulationFigures) {
        let mut outcome = RunOutcome { ending, window, ..RunOutcome::default() };
        outcome.figures = RunFigures {
            population_failed: self.population_failed.get(),
            queue_depth: self.tuner.as_ref().and_then(|tuner| tuner.figures().cloned()),
            feed: self.feed.as_ref().map(|feed| feed.rows.figures()),
            files: self.file_counts(),
            ..RunFigures::default()
        };
        for driver in &self.world.drivers {
            outcome.add(driver.report(), None, &mut self.timeline);
        }
        outcome.conclude(self.scaling.as_ref(), std::mem::take(&mut self.timeline));
        let length = (window.1 - window.0).as_ns().max(1) as f64;
        let [before, after] = &self.busy;
        let share = |of: &dyn Fn(&Busy) -> Nanos| (of(after) - of(before)).as_ns_f64() / length;
        let parts = [0, 1, 2].map(|part| share(&|busy| busy.drive[part]));
        let memories = (0..self.memories.len()).map(|core| share(&|busy| busy.memory(core)));
        let figures = SimulationFigures {
            drive_busy_share: parts.into_iter().fold(0.0, f64::max),
            drive_iops_share: share(&|busy| busy.by_number),
            drive_slowed_share: share(&|busy| busy.slowed),
            drive_crowded_share: share(&|busy| busy.crowded),
            memory_busy_share: memories.fold(0.0, f64::max),
            gpu_link_busy_share: share(&|busy| busy.link),
            files_waiting_mean: share(&|busy| busy.files_waited),
        };
        (outcome, figures)
    }

    /// Operations on the files of the layout that take time, of a run with one.
    fn file_counts(&self) -> Option<FileCounts> {
        let (layout, files) = self.settings.layout.as_ref().zip(self.world.files.as_ref())?;
        Some(layout.counts(&files.outcome()))
    }

    fn busy(&self) -> Busy {
        let now = self.world.time.now();
        let drives = &self.world.drives;
        let mean = |of: &dyn Fn(&SimDrive) -> Nanos| {
            drives.iter().map(|drive| of(drive)).sum::<Nanos>() / drives.len() as u64
        };
        Busy {
            drive: [0, 1, 2].map(|part| mean(&|drive| drive.busy()[part])),
            by_number: mean(&|drive| drive.by_number()),
            slowed: mean(&|drive| drive.slowed()),
            crowded: mean(&|drive| drive.crowded()),
            memories: self.memories.iter().map(|busy| busy.borrow().until(now)).collect(),
            link: self.link_busy.borrow().until(now),
            files_waited: self.world.files.as_ref().map_or(Nanos::ZERO, |files| files.waited()),
        }
    }

    /// Begins to write what must be there before measuring.
    fn populate(&self) {
        for driver in &self.world.drivers {
            let (driver, failed) = (Rc::clone(driver), Rc::clone(&self.population_failed));
            self.world.runtime.spawn(Box::pin(async move {
                failed.set(failed.get() + driver.populate_all().await);
            }));
        }
    }

    /// Carries out what the search for a queue depth wants done by now; when it wants more.
    fn tune(&mut self) -> Nanos {
        let Some(tuner) = &mut self.tuner else { return Nanos::MAX };
        let drivers = &self.world.drivers;
        while let Some(order) = tuner.next(self.world.time.now(), drivers.len()) {
            for interval in drivers.iter().filter_map(|driver| driver.tune(order)) {
                tuner.add(&interval);
            }
        }
        tuner.due()
    }

    /// Runs until that time, or until something is found that may end the run before.
    fn run_until(&mut self, deadline: Nanos, may_exhaust: bool) {
        self.found.is_still = false;
        loop {
            let stepped = self.step_now();
            if !stepped && may_exhaust && self.is_exhausted() {
                self.found.is_still = true;
                return;
            }
            if !stepped && !self.world.advance(deadline) {
                break;
            }
            self.look();
            if self.found.is_reason_to_end() {
                return;
            }
        }
        if deadline == Nanos::MAX {
            self.found.is_still = true;
        } else {
            self.world.time.advance_to(deadline);
        }
    }

    /// Nothing is left to do, now or later.
    fn is_exhausted(&self) -> bool {
        self.world.drivers.iter().all(|driver| driver.is_exhausted())
    }

    /// One thing that happens without time passing; false when there is none.
    fn step_now(&mut self) -> bool {
        self.world.step_now() || self.feed.as_mut().is_some_and(|feed| feed.supply(&self.world))
    }

    /// Looks for a reason to go no further; for most of them now and then.
    fn look(&mut self) {
        if let Some(failure) = self.feed.as_mut().and_then(|feed| feed.failure.take()) {
            self.found.failure.get_or_insert(failure);
        }
        self.steps += 1;
        if self.steps < LOOK_STEPS {
            return;
        }
        self.steps = 0;
        self.found.is_interrupted |= self.interrupt.is_set();
        if self.log.is_some_and(|log| log.has_failed()) {
            self.found.failure.get_or_insert("the trace can't be written".to_owned());
        }
        if self.world.goes_round_in_circles() {
            self.found.failure.get_or_insert(
                "the simulated users never wait for anything, so that time stands still: let them \
                 think, generate, or read from the drive"
                    .to_owned(),
            );
        }
    }

    /// A second of the window is over.
    fn tick(&mut self, now: Nanos) {
        let over = (now - self.window_begin) / SECOND;
        let drive = self.busy().drive;
        let before = std::mem::replace(&mut self.drive_busy, drive);
        if let Some((scaling, second)) = self.scaling.as_mut().zip(over.checked_sub(1)) {
            let busy = drive.iter().zip(before).map(|(now, before)| *now - before).max();
            scaling.seconds.add_busy(second, busy.unwrap_or_default());
        }
        for (index, driver) in self.world.drivers.iter().enumerate() {
            let seconds = driver.shard().measure().take_seconds(now, driver.gauges());
            self.timeline.add(seconds);
            if let Some(scaling) = &mut self.scaling {
                let status = driver.status();
                scaling.seconds.add(index, over, driver.take_news(), &status);
            }
        }
        let Some(scaling) = &mut self.scaling else { return };
        // It decides for itself alone, and needs no time of its own.
        match scaling.decide(&self.timeline, Nanos::ZERO) {
            Decision::Hold => {}
            Decision::Users(users) => {
                self.world.drivers.iter().for_each(|driver| driver.set_users(users));
            }
            Decision::Stop => self.found.has_answer = true,
        }
    }
}

/// For how long something was busy so far.
#[derive(Default)]
struct Busy {
    /// That of reads, of writes and of both, where each has a part of the drive.
    drive: [Nanos; 3],
    by_number: Nanos,
    slowed: Nanos,
    crowded: Nanos,
    /// That of each shard's core with copies.
    memories: Vec<Nanos>,
    link: Nanos,
    /// That of all files that waited for a worker.
    files_waited: Nanos,
}

impl Busy {
    /// Time that a core copied; none before the window.
    fn memory(&self, core: usize) -> Nanos {
        self.memories.get(core).copied().unwrap_or_default()
    }
}

/// A trace's rows, read when a shard wants them.
struct VirtualFeed {
    rows: RowReader,
    /// Rows read on the way to another shard's, as many as in a real run.
    waiting: Vec<VecDeque<SourceRequest>>,
    is_over: bool,
    told: bool,
    /// Why reading ended early, if it did; until somebody heard.
    failure: Option<String>,
}

impl VirtualFeed {
    fn new(rows: RowReader, shards: usize) -> VirtualFeed {
        VirtualFeed {
            rows,
            waiting: (0..shards).map(|_| VecDeque::new()).collect(),
            is_over: false,
            told: false,
            failure: None,
        }
    }

    /// Gives rows to who wants some; whether anybody got any, or heard that there are no more.
    fn supply(&mut self, world: &World) -> bool {
        let mut supplied = false;
        for (index, driver) in world.drivers.iter().enumerate() {
            while driver.wants_rows() {
                while self.waiting[index].is_empty() && self.may_read() {
                    self.read_one();
                }
                let Some(row) = self.waiting[index].pop_front() else { break };
                driver.supply(row);
                supplied = true;
            }
        }
        if self.is_over && !self.told && self.waiting.iter().all(VecDeque::is_empty) {
            self.told = true;
            world.drivers.iter().for_each(|driver| driver.supply_end());
            supplied = true;
        }
        supplied
    }

    /// A shard that does not take its rows holds up the reading for all.
    fn may_read(&self) -> bool {
        !self.is_over && self.waiting.iter().all(|rows| rows.len() < ROWS_AHEAD)
    }

    fn read_one(&mut self) {
        match self.rows.next_row(self.waiting.len()) {
            Some((shard, row)) => self.waiting[shard].push_back(row),
            None => {
                self.is_over = true;
                self.failure = self.rows.figures().failure;
            }
        }
    }
}
