//! An engine on the calling thread: memory devices that can fail, messages by a queue.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;

use ringfall_engine::buffer::{Admission, BufferPool, Urgency};
use ringfall_engine::clock::{Clock, Nanos};
use ringfall_engine::device::{FaultDevice, FaultPlan, MemoryDevice};
use ringfall_engine::fill::VerifyMode;
use ringfall_engine::key::{EntryKey, ShardId};
use ringfall_engine::placement::{BudgetConfig, SharedBudgets, SharedGate, Watermarks};
use ringfall_engine::shard::local::LocalRuntime;
use ringfall_engine::shard::{
    DataPath, DataPathConfig, Durability, EngineShared, Links, Measure, Message, ReadOutcome,
    Shard, ShardParts, WriteMode, WriteOutcome,
};
use ringfall_engine::tier::cpu::CpuPool;
use ringfall_engine::units::{BLOCK_BYTES, MIB};

pub type TestDevice = FaultDevice<MemoryDevice>;
type Mail = Rc<RefCell<VecDeque<(ShardId, Message)>>>;

pub struct BedConfig {
    pub shards: u16,
    pub cpu_bytes: u64,
    pub storage_blocks: u64,
    pub segment_blocks: u64,
    pub io_blocks: u64,
    pub queue_depth: u32,
    pub verify: VerifyMode,
    pub durability: Durability,
}

impl Default for BedConfig {
    fn default() -> Self {
        BedConfig {
            shards: 1,
            cpu_bytes: 0,
            storage_blocks: 1024,
            segment_blocks: 64,
            io_blocks: 4,
            queue_depth: 4,
            verify: VerifyMode::Full,
            durability: Durability::Flush,
        }
    }
}

pub struct Bed {
    pub runtime: LocalRuntime,
    pub shards: Vec<Rc<Shard>>,
    pub devices: Vec<Rc<TestDevice>>,
    pub time: Rc<Cell<Nanos>>,
    mail: Mail,
}

struct MailLinks(Mail);

impl Links for MailLinks {
    fn send(&self, to: ShardId, message: Message) -> bool {
        self.0.borrow_mut().push_back((to, message));
        true
    }
}

impl Bed {
    pub fn new(config: BedConfig) -> Bed {
        let time = Rc::new(Cell::new(1_000));
        let clock = Clock::Simulated(Rc::clone(&time));
        let runtime = LocalRuntime::default();
        let mail = Mail::default();
        let budgets = SharedBudgets::new(&BudgetConfig {
            shards: config.shards,
            gpu_bytes: 0,
            cpu_bytes: config.cpu_bytes,
            storage_blocks: config.storage_blocks,
            segment_blocks: config.segment_blocks,
            watermarks: Watermarks::default(),
        });
        let cpu = CpuPool::new(config.cpu_bytes).unwrap();
        cpu.populate(0, 1).unwrap();
        let shared = Arc::new(EngineShared {
            budgets,
            cpu,
            allocations: SharedGate::new(2, config.shards),
            requests: Arc::new(SharedGate::unbounded(config.shards)),
        });
        let (mut shards, mut devices) = (Vec::new(), Vec::new());
        for index in 0..config.shards {
            let memory = MemoryDevice::new(config.storage_blocks, clock.clone());
            let device = Rc::new(FaultDevice::new(memory, FaultPlan::Never, clock.clone()));
            let buffer_bytes = (config.io_blocks * BLOCK_BYTES) as usize;
            let pool = BufferPool::new(buffer_bytes, config.queue_depth).unwrap();
            let path = DataPath::new(DataPathConfig {
                device: device.clone(),
                admission: Admission::new(pool, config.queue_depth),
                clock: clock.clone(),
                measure: Rc::new(Measure::default()),
                verify: config.verify,
                durability: config.durability,
                content: Default::default(),
                queue_depth: config.queue_depth,
            });
            let spawner = runtime.clone();
            let shard = Shard::new(ShardParts {
                id: ShardId(index),
                shards: config.shards,
                seed: 42,
                clock: clock.clone(),
                path,
                shared: Arc::clone(&shared),
                links: Box::new(MailLinks(Rc::clone(&mail))),
                spawn: Box::new(move |task| {
                    spawner.spawn(task);
                }),
            });
            shard.measure().open(0, Nanos::MAX);
            shards.push(shard);
            devices.push(device);
        }
        Bed { runtime, shards, devices, time, mail }
    }

    /// Delivers one message; false when there is none.
    fn deliver_one(&self) -> bool {
        let next = self.mail.borrow_mut().pop_front();
        let Some((to, message)) = next else { return false };
        let _for_the_driver = self.shards[to.index()].deliver(message);
        true
    }

    /// One step of the whole bed; false when nothing can move any more.
    pub fn step(&self) -> bool {
        self.time.set(self.time.get() + 1_000);
        if self.runtime.run_one() || self.deliver_one() {
            return true;
        }
        let busy = self.shards.iter().any(|shard| shard.in_flight() > 0);
        for device in &self.devices {
            ringfall_engine::device::Device::kick(&**device);
        }
        busy
    }

    /// Runs until nothing moves.
    pub fn settle(&self) {
        let mut steps = 0u64;
        while self.step() {
            steps += 1;
            assert!(steps < 50_000_000, "the engine never settles");
        }
    }

    pub fn run<T: 'static>(&self, future: impl Future<Output = T> + 'static) -> T {
        let slot = Rc::new(RefCell::new(None));
        let result = Rc::clone(&slot);
        self.runtime.spawn(Box::pin(async move {
            let output = future.await;
            *result.borrow_mut() = Some(output);
        }));
        self.settle();
        slot.borrow_mut().take().expect("the operation hangs")
    }

    pub fn write(&self, shard: usize, key: u128, bytes: u64) -> WriteOutcome {
        let shard = Rc::clone(&self.shards[shard]);
        self.run(async move {
            let home = shard.id();
            shard.write(home, EntryKey(key), bytes, Urgency(1), WriteMode::Replace).await
        })
    }

    pub fn read(&self, shard: usize, key: u128) -> ReadOutcome {
        let shard = Rc::clone(&self.shards[shard]);
        self.run(async move {
            let home = shard.id();
            shard.read(home, EntryKey(key), Urgency(1)).await
        })
    }

    /// Nothing is held and every sum is right.
    pub fn assert_at_rest(&self) {
        assert_eq!(self.runtime.task_count(), 0, "tasks hang");
        for shard in &self.shards {
            assert_eq!(shard.in_flight(), 0);
            assert_eq!(shard.tickets(), 0, "a buffer leaked");
            assert_eq!(shard.moves(), 0);
            shard.check_sums();
        }
    }
}

pub const ENTRY: u64 = MIB;
