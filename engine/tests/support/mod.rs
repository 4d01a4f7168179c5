//! An engine on the calling thread: memory devices that can fail, messages by a queue.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use ringfall_doubles::{FaultDevice, FaultPlan, FaultyMemory, GpuFlawPlan, MemoryDevice};
use ringfall_engine::clock::{Clock, MICROSECOND, Nanos};
use ringfall_engine::engine::{Engine, LocalEngine, LocalParts};
use ringfall_engine::fill::VerifyMode;
use ringfall_engine::key::EntryKey;
use ringfall_engine::placement::Watermarks;
use ringfall_engine::shard::local::LocalRuntime;
use ringfall_engine::shard::{Content, Durability, ReadOutcome, Shard, WriteMode, WriteOutcome};
use ringfall_engine::tier::cpu::CpuPool;
use ringfall_engine::tier::gpu::GpuSpace;
use ringfall_engine::tier::gpu::emulated::EmulatedMemory;
use ringfall_engine::units::{BLOCK_BYTES, MIB};

pub type TestDevice = FaultDevice<MemoryDevice>;

pub struct BedConfig {
    pub shards: u16,
    pub gpu_bytes: u64,
    pub promotes: bool,
    pub cpu_bytes: u64,
    pub watermarks: Watermarks,
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
            gpu_bytes: 0,
            promotes: false,
            cpu_bytes: 0,
            watermarks: Watermarks::default(),
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
    #[allow(dead_code, reason = "not every test goes wrong there")]
    pub gpu: Arc<FaultyMemory>,
    pub time: Rc<Cell<Nanos>>,
    pub engine: LocalEngine,
}

impl Bed {
    pub fn new(config: BedConfig) -> Bed {
        let time = Rc::new(Cell::new(MICROSECOND));
        let clock = Clock::Simulated(Rc::clone(&time));
        let cpu = CpuPool::new(config.cpu_bytes).unwrap();
        cpu.populate(0, 1).unwrap();
        let io_bytes = config.io_blocks * BLOCK_BYTES;
        let mut devices = Vec::new();
        let memory = GpuSpace::memory_bytes(config.gpu_bytes, 1, config.shards, io_bytes);
        let emulated = EmulatedMemory::new(1, memory).unwrap();
        let gpu = FaultyMemory::new(emulated, GpuFlawPlan::Never);
        let builder = match config.gpu_bytes {
            0 => Engine::builder(),
            bytes => Engine::builder().gpu_bytes(bytes).gpu_memory(gpu.clone()),
        };
        let engine = builder
            .promote_on_hit(config.promotes)
            .shards(config.shards)
            .seed(42)
            .storage_bytes(config.storage_blocks * BLOCK_BYTES)
            .segment_bytes(config.segment_blocks * BLOCK_BYTES)
            .cpu_bytes(config.cpu_bytes)
            .watermarks(config.watermarks)
            .io_bytes(io_bytes)
            .queue_depth(config.queue_depth)
            .verify(config.verify)
            .durability(config.durability)
            .allocations_max(Some(2))
            .local(LocalParts {
                clock: clock.clone(),
                cpu,
                device: &mut |_shard| {
                    let memory = MemoryDevice::new(config.storage_blocks, clock.clone());
                    let device = FaultDevice::new(memory, FaultPlan::Never, clock.clone());
                    let device = Rc::new(device);
                    devices.push(Rc::clone(&device));
                    device
                },
                content: &Content::default,
            })
            .unwrap();
        for shard in engine.shards() {
            shard.measure().open(Nanos::ZERO, Nanos::MAX);
        }
        let (runtime, shards) = (engine.runtime().clone(), engine.shards().to_vec());
        Bed { runtime, shards, devices, gpu, time, engine }
    }

    /// One step of the whole bed; false when nothing can move any more.
    pub fn step(&self) -> bool {
        self.time.set(self.time.get() + MICROSECOND);
        if self.runtime.run_one() || self.engine.deliver_one().is_some() {
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
            shard.write(home, EntryKey(key), bytes, WriteMode::Replace).await
        })
    }

    pub fn read(&self, shard: usize, key: u128) -> ReadOutcome {
        let shard = Rc::clone(&self.shards[shard]);
        self.run(async move {
            let home = shard.id();
            shard.read(home, EntryKey(key)).await
        })
    }

    /// Nothing is held and every sum is right.
    pub fn assert_at_rest(&self) {
        assert_eq!(self.runtime.task_count(), 0, "tasks hang");
        for shard in &self.shards {
            assert_eq!(shard.in_flight(), 0);
            assert_eq!(shard.tickets(), 0, "a buffer leaked");
            assert_eq!(shard.waiting_bytes(), 0, "bytes wait for a drive that has moved them");
            assert_eq!(shard.moves(), 0);
            assert_eq!(shard.gpu_in_flight(), 0, "a job leaked");
            shard.check_sums();
        }
    }
}

pub const ENTRY: u64 = MIB;
