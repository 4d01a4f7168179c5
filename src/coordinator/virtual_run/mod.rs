//! A run on a simulated clock and drive: the real driver, workload, placement and QoS code, on one
//! thread. What differs from a real run is in `world`: the clock, the device, that entries have no
//! bytes, and that messages between shards arrive at once.
//!
//! Nothing is drawn at random but by the workload and the drive's model, nothing waits for the
//! outside: the same settings give the same run, to the nanosecond.

mod world;

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use ringfall_engine::clock::{Nanos, SECOND};
use ringfall_engine::device::{DeviceModel, Occupation, SimDrive};
use ringfall_engine::error::SetupError;
use ringfall_engine::fill::VerifyMode;
use ringfall_engine::shard::local::VirtualTime;
use ringfall_engine::shard::{Content, HollowMemory};
use ringfall_engine::tier::cpu::CpuPool;
use ringfall_workloads::autoscale::Decision;
use ringfall_workloads::source::SourceRequest;

use super::scaling::Scaling;
use super::{Ending, Interrupt, Load, RunOutcome, RunSettings, Timeline};
use crate::iotrace::TraceWriter;
use crate::source::{OpenTrace, ROWS_AHEAD, RowReader};
pub use world::{BEGIN, World, WorldParts};

/// Steps between two looks at whether somebody interrupts.
const LOOK_STEPS: u32 = 1 << 16;

/// The system that is simulated.
#[derive(Clone, Debug)]
pub struct VirtualSystem {
    /// Its drive.
    pub model: DeviceModel,
    /// Bytes that a core copies a second.
    pub memory_bytes_per_s: f64,
    /// What an operation on host memory takes besides, ns; > 0.
    pub memory_latency_ns: Nanos,
}

/// What a simulation knows besides.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SimulationFigures {
    /// Share of the window in which the drive was occupied.
    pub drive_busy_share: f64,
    /// Share of the window in which I/Os waited for one of the drive's parallel places.
    pub drive_crowded_share: f64,
    /// Share of the window in which a core was busy copying, the mean over the shards.
    pub memory_busy_share: f64,
}

/// Runs it, from populating to the last I/O; every operation of it goes to `log`, if there is one.
///
/// # Errors
/// Settings that no run can have.
pub fn simulate(
    settings: &RunSettings,
    load: Load,
    system: &VirtualSystem,
    log: Option<&Rc<TraceWriter>>,
    interrupt: &Interrupt,
) -> Result<(RunOutcome, SimulationFigures), SetupError> {
    let time = VirtualTime::starting_at(BEGIN);
    let VirtualSystem { model, memory_bytes_per_s, memory_latency_ns } = system.clone();
    let memory = {
        let time = time.clone();
        move || HollowMemory::new(time.clone(), memory_bytes_per_s, memory_latency_ns)
    };
    let memories: Rc<RefCell<Vec<Rc<RefCell<Occupation>>>>> = Rc::default();
    let kept = Rc::clone(&memories);
    let parts = WorldParts {
        drive: SimDrive::new(model, time.clock()),
        time,
        cpu: CpuPool::hollow(),
        content: Box::new(move || {
            let memory = memory();
            kept.borrow_mut().push(memory.busy());
            Content::Hollow(memory)
        }),
        verify: VerifyMode::Off,
    };
    let world = World::new(settings, &load, parts)?;
    let memories = memories.take();
    let shards = usize::from(settings.shards);
    let mut simulation = Simulation {
        settings,
        interrupt,
        world,
        memories,
        log,
        timeline: Timeline::default(),
        scaling: settings.autoscale.map(|scale| Scaling::new(scale, settings.shards)),
        feed: load.rows.map(|trace| Feed::new(trace, shards)),
        steps: 0,
    };
    Ok(simulation.phases())
}

struct Simulation<'a> {
    settings: &'a RunSettings,
    interrupt: &'a Interrupt,
    world: World,
    /// When each shard's memory is busy.
    memories: Vec<Rc<RefCell<Occupation>>>,
    log: Option<&'a Rc<TraceWriter>>,
    timeline: Timeline,
    scaling: Option<Scaling>,
    feed: Option<Feed>,
    steps: u32,
}

impl Simulation<'_> {
    fn phases(&mut self) -> (RunOutcome, SimulationFigures) {
        let (mut ending, failed) = self.populate();
        let origin = self.world.time.now();
        let begin = origin + self.settings.warmup;
        let window = (begin, begin + self.settings.duration);
        if let Some(log) = self.log {
            log.begin(origin);
            let log: Rc<dyn crate::iotrace::OperationLog> = Rc::clone(log) as _;
            self.world.drivers.iter().for_each(|driver| driver.log_to(&log));
        }
        self.world.start(origin, window);
        ending = ending.or_else(|| self.run_until(window.0, false));
        let before = self.busy();
        let may_exhaust = self.settings.ends_when_exhausted;
        let mut second = window.0;
        while ending.is_none() && second < window.1 {
            second = (second + SECOND).min(window.1);
            ending = self.run_until(second, may_exhaust).or_else(|| self.tick(second, window.0));
        }
        let end = self.world.time.now().clamp(window.0, window.1);
        let busy = self.busy();
        self.world.stop(end);
        // What is in flight ends; nothing new begins.
        let drained = self.run_until(Nanos::MAX, false);
        let ending = match ending {
            None | Some(Ending::Complete) => drained.unwrap_or(Ending::Complete),
            Some(ending) => ending,
        };
        let mut outcome = RunOutcome::empty(ending, (window.0, end));
        outcome.population_failed = failed;
        outcome.feed = self.feed.as_ref().map(|feed| feed.rows.figures());
        for driver in &self.world.drivers {
            outcome.add(driver.report(), &mut self.timeline);
        }
        if let Some(scaling) = self.scaling.take() {
            let (conclusion, users) = scaling.conclude();
            outcome.autoscale = Some(conclusion);
            outcome.users = users;
        }
        outcome.timeline = std::mem::take(&mut self.timeline);
        outcome.timeline.cut_to(end - window.0, &outcome.totals.seconds);
        let length = (end - window.0).max(1) as f64;
        let share = |of: fn(&Busy) -> Nanos| (of(&busy) - of(&before)) as f64 / length;
        let figures = SimulationFigures {
            drive_busy_share: share(|busy| busy.drive_ns),
            drive_crowded_share: share(|busy| busy.crowded_ns),
            memory_busy_share: share(|busy| busy.memories_ns) / self.memories.len().max(1) as f64,
        };
        (outcome, figures)
    }

    fn busy(&self) -> Busy {
        let now = self.world.time.now();
        Busy {
            drive_ns: self.world.drive.busy_ns(),
            crowded_ns: self.world.drive.crowded_ns(),
            memories_ns: self.memories.iter().map(|busy| busy.borrow().until(now)).sum(),
        }
    }

    /// Writes what must be there before measuring; how much of it failed.
    fn populate(&mut self) -> (Option<Ending>, u64) {
        let failed = Rc::new(Cell::new(0));
        for driver in &self.world.drivers {
            let (driver, failed) = (Rc::clone(driver), Rc::clone(&failed));
            self.world.runtime.spawn(Box::pin(async move {
                failed.set(failed.get() + driver.populate_all().await);
            }));
        }
        let mut ending = None;
        while ending.is_none() && self.world.runtime.task_count() > 0 {
            if !self.world.step_now() && !self.world.advance(Nanos::MAX) {
                break;
            }
            ending = self.look();
        }
        (ending, failed.get())
    }

    /// Runs until that time; an ending, if it ends before.
    fn run_until(&mut self, deadline: Nanos, may_exhaust: bool) -> Option<Ending> {
        loop {
            let stepped = self.step_now();
            if !stepped && may_exhaust && self.is_exhausted() {
                return Some(Ending::Complete);
            }
            if !stepped && !self.world.advance(deadline) {
                break;
            }
            let ending = self.look();
            if ending.is_some() {
                return ending;
            }
        }
        if deadline != Nanos::MAX {
            self.world.time.advance_to(deadline);
        }
        None
    }

    /// Nothing is left to do, now or later.
    fn is_exhausted(&self) -> bool {
        self.world.drivers.iter().all(|driver| driver.is_exhausted())
    }

    /// One thing that happens without time passing; false when there is none.
    fn step_now(&mut self) -> bool {
        self.world.step_now() || self.feed.as_mut().is_some_and(|feed| feed.supply(&self.world))
    }

    /// Whether there is a reason to go no further; most of them are looked for now and then.
    fn look(&mut self) -> Option<Ending> {
        if let Some(failure) = self.feed.as_mut().and_then(|feed| feed.failure.take()) {
            return Some(Ending::Failed(failure));
        }
        self.steps += 1;
        if self.steps < LOOK_STEPS {
            return None;
        }
        self.steps = 0;
        if self.interrupt.is_set() {
            return Some(Ending::Interrupted);
        }
        if self.log.is_some_and(|log| log.has_failed()) {
            return Some(Ending::Failed("the trace can't be written".to_owned()));
        }
        self.world.goes_round_in_circles().then(|| {
            Ending::Failed(
                "the simulated users never wait for anything, so that time stands still: let them \
                 think, generate, or read from the drive"
                    .to_owned(),
            )
        })
    }

    /// A second of the window is over.
    fn tick(&mut self, now: Nanos, window_begin: Nanos) -> Option<Ending> {
        let over = (now - window_begin) / SECOND;
        for (index, driver) in self.world.drivers.iter().enumerate() {
            let seconds = driver.shard().measure().take_seconds(now, driver.gauges());
            self.timeline.add(seconds);
            if let Some(scaling) = &mut self.scaling {
                scaling.add(index, over, driver.take_intervals());
            }
        }
        match self.scaling.as_mut()?.decide(&self.timeline) {
            Decision::Hold => None,
            Decision::Users(users) => {
                self.world.drivers.iter().for_each(|driver| driver.set_users(users));
                None
            }
            Decision::Stop => Some(Ending::Complete),
        }
    }
}

/// For how long something was busy so far, ns.
struct Busy {
    drive_ns: Nanos,
    crowded_ns: Nanos,
    /// All shards' together.
    memories_ns: Nanos,
}

/// A trace's rows, read when a shard wants them.
struct Feed {
    rows: RowReader,
    /// Rows read on the way to another shard's, as many as in a real run.
    waiting: Vec<VecDeque<SourceRequest>>,
    is_over: bool,
    told: bool,
    /// Why reading ended early, if it did; until somebody heard.
    failure: Option<String>,
}

impl Feed {
    fn new(trace: OpenTrace, shards: usize) -> Feed {
        Feed {
            rows: RowReader::new(trace),
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
