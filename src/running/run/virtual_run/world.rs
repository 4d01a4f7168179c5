//! Parts of a simulated run: drivers on one thread, a clock that stands still while anything can
//! happen, drives that all share, messages that arrive at once, in the order they were sent.

use std::rc::Rc;
use std::sync::Arc;

use ringfall_core::clock::{Nanos, SECOND};
use ringfall_core::error::SetupError;
use ringfall_core::fill::VerifyMode;
use ringfall_engine::device::{SeveralDrives, SimDrive};
use ringfall_engine::engine::{LocalEngine, LocalParts};
use ringfall_engine::files::SimFiles;
use ringfall_engine::shard::Content;
use ringfall_engine::shard::local::LocalRuntime;
use ringfall_engine::shard::timers::Timers;
use ringfall_engine::tier::cpu::CpuPool;
use ringfall_workloads::SharedParts;

use super::super::{Assignment, RunSettings, engine_of, refused};
use crate::driver::Driver;

/// The simulated clock shows this when a run begins: zero would look like "never".
pub const BEGIN: Nanos = SECOND;
/// So many things happen at one instant only in a run that goes round in circles.
const STEPS_AT_ONCE_MAX: u64 = 100_000_000;

/// Parts in which simulations differ.
pub struct WorldParts {
    /// The simulated clock that everything in it reads.
    pub time: Timers,
    /// Its drives, at least one.
    pub drives: Vec<Rc<SimDrive>>,
    /// Sizes of the drives, in the same order, bytes.
    pub drives_bytes: Vec<u64>,
    /// Memory of the CPU tier.
    pub cpu: Arc<CpuPool>,
    /// Whether entries have bytes; asked for each shard.
    pub content: Box<dyn Fn() -> Content>,
    /// Share of the reads that is verified.
    pub verify: VerifyMode,
}

/// A simulated system: shards with their drivers, on drives that all share.
pub struct World {
    /// Runs the tasks of all shards, one at a time.
    pub runtime: LocalRuntime,
    /// The simulated time, which passes only when nothing else can happen.
    pub time: Timers,
    /// The drives, which all shards share.
    pub drives: Vec<Rc<SimDrive>>,
    /// Files of an engine's layout on the first drive; none where the data is not in files.
    pub files: Option<Rc<SimFiles>>,
    /// The driver of each shard, by the number of the shard.
    pub drivers: Vec<Rc<Driver>>,
    /// The engine, whose messages the world delivers.
    pub engine: LocalEngine,
    /// Shards that are stuck for now, by index: nothing of their users comes due.
    pub stuck: Vec<bool>,
    steps_at_once: u64,
}

impl World {
    /// A system in which nothing has happened.
    pub fn new(
        settings: &RunSettings,
        assignment: &Assignment,
        parts: WorldParts,
    ) -> Result<World, SetupError> {
        let WorldParts { time, drives, drives_bytes, cpu, content, verify } = parts;
        let clock = time.clock();
        // A layout's files are on one drive.
        let layout = settings.layout.as_ref();
        let files = layout.map(|layout| layout.simulated(Rc::clone(&drives[0]), clock.clone()));
        let engine = engine_of(settings, &drives_bytes)
            .verify(verify)
            .local(LocalParts {
                clock: clock.clone(),
                cpu,
                // Where entries have no bytes its buffers are address space only: nobody touches
                // it.
                device: &mut |shard| match (&files, &drives[..]) {
                    (Some(files), _) => Rc::new(files.attach(shard.index())),
                    (None, [drive]) => Rc::new(drive.attach()),
                    (None, drives) => {
                        let attached = drives.iter().map(|drive| Rc::new(drive.attach()) as _);
                        Rc::new(SeveralDrives::new(attached.collect()))
                    }
                },
                content: &*content,
            })
            .map_err(refused)?;
        let runtime = engine.runtime().clone();
        let spawn = || {
            let runtime = runtime.clone();
            Box::new(move |task| {
                runtime.spawn_of_shard(task);
            })
        };
        let (mut drivers, shared) = (Vec::new(), Arc::new(SharedParts::default()));
        for shard in engine.shards() {
            let workload = assignment.workload(settings, shard.id(), &shared)?;
            drivers.push(Driver::new(
                Rc::clone(shard),
                // An autoscaler wants to know every second.
                match settings.autoscale {
                    None => workload.counting_later(),
                    Some(_) => workload,
                },
                clock.clone(),
                spawn(),
                settings.max_concurrent_allocs > 0,
                settings.autoscale.map(|bounds| bounds.mode),
            ));
        }
        let stuck = vec![false; drivers.len()];
        Ok(World { runtime, time, drives, files, drivers, engine, stuck, steps_at_once: 0 })
    }

    /// Lets each driver's clock run from now on, beginning with the workload's time 0.
    pub fn start(&self, origin: Nanos, window: (Nanos, Nanos)) {
        for driver in &self.drivers {
            driver.shard().measure().open(window.0, window.1);
            driver.start(origin, window);
        }
    }

    /// Ends it: what is in flight ends at its next step, nothing new begins.
    pub fn stop(&self, end: Nanos) {
        for driver in &self.drivers {
            driver.shard().measure().close(end);
            driver.stop(end);
            driver.shard().stop();
        }
    }

    fn awake(&self) -> impl Iterator<Item = &Rc<Driver>> {
        let all = self.drivers.iter().zip(&self.stuck);
        all.filter(|(_, is_stuck)| !**is_stuck).map(|(driver, _)| driver)
    }

    /// One thing that happens without time passing; false when there is none.
    pub fn step_now(&mut self) -> bool {
        let stepped = self.runtime.run_one() || self.deliver_one();
        self.steps_at_once += u64::from(stepped);
        stepped
    }

    /// Moves on to the next thing that happens by itself, if that is until `deadline`; false when
    /// it is not.
    pub fn advance(&mut self, deadline: Nanos) -> bool {
        // The workloads' clocks are read here, and need no task: most of what happens is arrivals.
        let clocks = self.awake().filter_map(|driver| driver.next_deadline()).min();
        let completion = self.drives.iter().filter_map(|drive| drive.next_completion()).min();
        let due = [clocks, self.time.next_deadline(), completion];
        let due = due.into_iter().flatten().min().filter(|at| *at <= deadline);
        let Some(at) = due else { return false };
        // A deadline may lie in the past, such as one of a clock that has just begun.
        if at > self.time.now() {
            self.steps_at_once = 0;
        }
        self.time.advance_to(at.max(self.time.now()));
        for drive in &self.drives {
            drive.complete_due();
        }
        let now = self.time.now();
        let is_due = |driver: &&Rc<Driver>| driver.next_deadline().is_some_and(|at| at <= now);
        if clocks.is_some_and(|at| at <= now) {
            self.awake().filter(is_due).for_each(Driver::work_off_due);
        }
        self.steps_at_once += 1;
        true
    }

    /// Whether time has stopped for good.
    pub fn goes_round_in_circles(&self) -> bool {
        self.steps_at_once > STEPS_AT_ONCE_MAX
    }

    fn deliver_one(&self) -> bool {
        let Some(delivered) = self.engine.deliver_one() else { return false };
        if delivered.is_request_permit {
            self.drivers[delivered.to.index()].slot_granted();
        }
        true
    }
}
