//! What a simulated run is made of: drivers on one thread, a clock that stands still while anything
//! can happen, a drive that all share, messages that arrive at once, in the order they were sent.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;

use ringfall_engine::buffer::{Admission, BufferPool};
use ringfall_engine::clock::{Nanos, SECOND};
use ringfall_engine::device::SimDrive;
use ringfall_engine::error::SetupError;
use ringfall_engine::fill::VerifyMode;
use ringfall_engine::key::ShardId;
use ringfall_engine::shard::local::{LocalRuntime, VirtualTime};
use ringfall_engine::shard::{
    Content, DataPath, DataPathConfig, EngineShared, Links, Measure, Message, Shard, ShardParts,
};
use ringfall_engine::tier::cpu::CpuPool;
use ringfall_engine::units::BLOCK_BYTES;
use ringfall_workloads::Workload;

use super::super::store::segment_bytes;
use super::super::{Load, RunSettings, shared_engine};
use crate::driver::Driver;

/// The simulated clock shows this when a run begins: zero would look like "never".
pub const BEGIN: Nanos = SECOND;
/// So many things happen at one instant only in a run that goes round in circles.
const STEPS_AT_ONCE_MAX: u64 = 100_000_000;

type Mail = Rc<RefCell<VecDeque<(ShardId, Message)>>>;

struct MailLinks(Mail);

impl Links for MailLinks {
    fn send(&self, to: ShardId, message: Message) -> bool {
        self.0.borrow_mut().push_back((to, message));
        true
    }
}

/// What differs between simulations.
pub struct WorldParts {
    /// Its clock.
    pub time: VirtualTime,
    /// Its drive.
    pub drive: Rc<SimDrive>,
    /// Memory of the CPU tier.
    pub cpu: Arc<CpuPool>,
    /// Whether entries have bytes; asked for each shard.
    pub content: Box<dyn Fn() -> Content>,
    /// How much of what is read is checked.
    pub verify: VerifyMode,
}

/// A simulated system.
pub struct World {
    /// Its tasks.
    pub runtime: LocalRuntime,
    /// Its time.
    pub time: VirtualTime,
    /// Its drive.
    pub drive: Rc<SimDrive>,
    /// One a shard.
    pub drivers: Vec<Rc<Driver>>,
    /// What the shards share.
    pub shared: Arc<EngineShared>,
    mail: Mail,
    steps_at_once: u64,
}

impl World {
    /// A system in which nothing has happened.
    ///
    /// # Errors
    /// Settings that no run can have.
    pub fn new(
        settings: &RunSettings,
        load: &Load,
        parts: WorldParts,
    ) -> Result<World, SetupError> {
        let WorldParts { time, drive, cpu, content, verify } = parts;
        let clock = time.clock();
        let runtime = LocalRuntime::default();
        let mail = Mail::default();
        let shards = settings.shards;
        let capacity_bytes = settings.storage_capacity_bytes;
        let segment_blocks = segment_bytes(capacity_bytes, shards) / BLOCK_BYTES;
        let shared = shared_engine(settings, capacity_bytes / BLOCK_BYTES, segment_blocks, cpu);
        let mut drivers = Vec::new();
        for index in 0..shards {
            let buffers = settings.io_buffer_bytes / u64::from(shards) / settings.io_size_bytes;
            let count = buffers.clamp(1, u64::from(settings.queue_depth)) as u32;
            // Address space only, where entries have no bytes: nobody touches it then.
            let pool = BufferPool::new(settings.io_size_bytes as usize, count)?;
            let path = DataPath::new(DataPathConfig {
                device: Rc::new(drive.attach()),
                admission: Admission::new(pool, settings.queue_depth),
                clock: clock.clone(),
                measure: Rc::new(Measure::default()),
                verify,
                durability: settings.durability,
                content: content(),
                queue_depth: settings.queue_depth,
            });
            let spawn = || {
                let runtime = runtime.clone();
                Box::new(move |task| {
                    runtime.spawn(task);
                })
            };
            let shard = Shard::new(ShardParts {
                id: ShardId(index),
                shards,
                seed: settings.seed,
                clock: clock.clone(),
                path,
                shared: Arc::clone(&shared),
                links: Box::new(MailLinks(Rc::clone(&mail))),
                spawn: spawn(),
            });
            let workload = Workload::new(
                Arc::clone(&load.config),
                load.source.clone(),
                settings.seed,
                u32::from(index),
                u32::from(shards),
            )
            .map_err(|error| {
                SetupError::new(error.to_string(), "change the workload's settings")
            })?;
            drivers.push(Driver::new(
                shard,
                workload,
                clock.clone(),
                spawn(),
                settings.max_concurrent_allocs > 0,
                settings.autoscale.is_some(),
            ));
        }
        Ok(World { runtime, time, drive, drivers, shared, mail, steps_at_once: 0 })
    }

    /// Lets each driver's clock run from now on, beginning with the workload's time 0.
    pub fn start(&self, origin: Nanos, window: (Nanos, Nanos)) {
        for driver in &self.drivers {
            driver.shard().measure().open(window.0, window.1);
        }
        self.start_clocks(origin, window);
    }

    /// The same, where what the engine does is measured already.
    pub fn start_clocks(&self, origin: Nanos, window: (Nanos, Nanos)) {
        for driver in &self.drivers {
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

    /// One thing that happens without time passing; false when there is none.
    pub fn step_now(&mut self) -> bool {
        let stepped = self.runtime.run_one() || self.deliver_one();
        self.steps_at_once += u64::from(stepped);
        stepped
    }

    /// Moves on to the next thing that happens by itself, if that is until `deadline`; false when it
    /// is not.
    pub fn advance(&mut self, deadline: Nanos) -> bool {
        // The workloads' clocks are read here, and need no task: most of what happens is arrivals.
        let clocks = self.drivers.iter().filter_map(|driver| driver.next_deadline()).min();
        let due = [clocks, self.time.next_deadline(), self.drive.next_completion()];
        match due.into_iter().flatten().min() {
            Some(at) if at <= deadline => {
                // A deadline may lie in the past, such as one of a clock that has just begun.
                if at > self.time.now() {
                    self.steps_at_once = 0;
                }
                self.time.advance_to(at.max(self.time.now()));
                self.drive.complete_due();
                let now = self.time.now();
                let is_due =
                    |driver: &&Rc<Driver>| driver.next_deadline().is_some_and(|at| at <= now);
                self.drivers.iter().filter(is_due).for_each(Driver::work_off_due);
                self.steps_at_once += 1;
                true
            }
            _ => false,
        }
    }

    /// Whether time has stopped for good.
    pub fn goes_round_in_circles(&self) -> bool {
        self.steps_at_once > STEPS_AT_ONCE_MAX
    }

    fn deliver_one(&self) -> bool {
        let next = self.mail.borrow_mut().pop_front();
        let Some((to, message)) = next else { return false };
        let driver = &self.drivers[to.index()];
        if driver.shard().deliver(message) {
            driver.slot_granted();
        }
        true
    }
}
