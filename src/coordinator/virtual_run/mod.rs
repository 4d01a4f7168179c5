//! A run on a simulated clock and drive: the real driver, workload, placement and QoS code, on one
//! thread. What differs from a real run is in `world`: the clock, the device, that entries have no
//! bytes, and that messages between shards arrive at once.
//!
//! Nothing is drawn at random but by the workload and the drive's model, nothing waits for the
//! outside: the same settings give the same run, to the nanosecond.

mod world;

use std::cell::Cell;
use std::collections::VecDeque;
use std::rc::Rc;

use ringfall_engine::clock::{Nanos, SECOND};
use ringfall_engine::device::{DeviceModel, SimDrive};
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
use crate::source::{FeedFigures, OpenTrace};
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
    /// Share of the window in which a core copied, the mean over the shards.
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
    let memories: Rc<std::cell::RefCell<Vec<Rc<Cell<Nanos>>>>> = Rc::default();
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
    /// Time that each shard's memory was busy.
    memories: Vec<Rc<Cell<Nanos>>>,
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
        ending = ending.or_else(|| self.run_until(window.0));
        let busy_before = self.busy();
        let mut second = window.0;
        while ending.is_none() && second < window.1 {
            second = (second + SECOND).min(window.1);
            ending = self.run_until(second).or_else(|| self.tick(second, window));
        }
        let end = self.world.time.now().clamp(window.0, window.1);
        let busy = self.busy();
        self.world.stop(end);
        let ending = ending.unwrap_or(Ending::Complete);
        // What is in flight ends; nothing new begins. One that goes round in circles would not.
        if !matches!(ending, Ending::Failed(_)) {
            let _over = self.run_until(Nanos::MAX);
        }
        let mut outcome = RunOutcome::empty(ending, (window.0, end));
        outcome.population_failed = failed;
        outcome.feed = self.feed.as_ref().map(|feed| feed.figures.clone());
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
        let figures = SimulationFigures {
            drive_busy_share: ((busy.0 - busy_before.0) as f64 / length).min(1.0),
            memory_busy_share: ((busy.1 - busy_before.1) as f64
                / length
                / self.memories.len().max(1) as f64)
                .min(1.0),
        };
        (outcome, figures)
    }

    /// Time that the drive, and all memories together, were busy so far.
    fn busy(&self) -> (Nanos, Nanos) {
        let memories = self.memories.iter().map(|busy| busy.get()).sum();
        (self.world.drive.busy_ns(), memories)
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
            if !self.step(Nanos::MAX) {
                break;
            }
            ending = self.look();
        }
        (ending, failed.get())
    }

    /// Runs until that time; an ending, if it ends before.
    fn run_until(&mut self, deadline: Nanos) -> Option<Ending> {
        while self.step(deadline) {
            let ending = self.look();
            if ending.is_some() && deadline != Nanos::MAX {
                return ending;
            }
        }
        if deadline != Nanos::MAX {
            self.world.time.advance_to(deadline);
        }
        None
    }

    /// One thing that happens until `deadline`; false when nothing is left to.
    fn step(&mut self, deadline: Nanos) -> bool {
        if self.world.step_now() {
            return true;
        }
        if let Some(feed) = &mut self.feed
            && feed.supply(&self.world)
        {
            return true;
        }
        self.world.advance(deadline)
    }

    /// Now and then: whether there is a reason to go no further.
    fn look(&mut self) -> Option<Ending> {
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
    fn tick(&mut self, now: Nanos, window: (Nanos, Nanos)) -> Option<Ending> {
        let over = (now - window.0) / SECOND;
        for (index, driver) in self.world.drivers.iter().enumerate() {
            let seconds = driver.shard().measure().take_seconds(now, driver.gauges());
            self.timeline.add(seconds);
            if let Some(scaling) = &mut self.scaling {
                scaling.add(index, over, driver.take_intervals());
            }
        }
        if let Some(scaling) = &mut self.scaling {
            match scaling.decide(&self.timeline) {
                Decision::Hold => {}
                Decision::Users(users) => {
                    self.world.drivers.iter().for_each(|driver| driver.set_users(users));
                }
                Decision::Stop => return Some(Ending::Complete),
            }
        }
        let exhausted = self.world.drivers.iter().all(|driver| driver.is_exhausted());
        (self.settings.ends_when_exhausted && exhausted).then_some(Ending::Complete)
    }
}

/// A trace's rows, read when a shard wants them.
struct Feed {
    trace: OpenTrace,
    first: Option<SourceRequest>,
    /// Rows read on the way to another shard's.
    waiting: Vec<VecDeque<SourceRequest>>,
    is_over: bool,
    told: bool,
    figures: FeedFigures,
}

impl Feed {
    fn new(trace: OpenTrace, shards: usize) -> Feed {
        Feed {
            first: Some(trace.first.clone()),
            trace,
            waiting: (0..shards).map(|_| VecDeque::new()).collect(),
            is_over: false,
            told: false,
            figures: FeedFigures::default(),
        }
    }

    /// Gives rows to who wants some; whether anybody got any, or heard that there are no more.
    fn supply(&mut self, world: &World) -> bool {
        let mut supplied = false;
        for (index, driver) in world.drivers.iter().enumerate() {
            while driver.wants_rows() {
                while self.waiting[index].is_empty() && !self.is_over {
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

    fn read_one(&mut self) {
        let next = match self.first.take() {
            Some(first) => Ok(Some(first)),
            None => self.trace.stream.next_request(),
        };
        self.figures.skipped = self.trace.stream.skipped();
        self.figures.cycles = self.trace.stream.cycles();
        match next {
            Ok(Some(row)) => {
                self.figures.rows += 1;
                let shard = (row.user % self.waiting.len() as u64) as usize;
                self.waiting[shard].push_back(row);
            }
            Ok(None) => self.is_over = true,
            Err(error) => {
                self.is_over = true;
                let what = format!("the trace could not be read on: {error}");
                self.figures.failure = Some(what);
            }
        }
    }
}
