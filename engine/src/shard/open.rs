//! Putting a shard together: the one place, whatever runs it. On a thread of its own, over a data
//! file ([`open_shard`]); or over any device, where somebody else carries its messages
//! ([`Blueprint::join`]).

#![allow(unsafe_code, reason = "registering the pool's memory with the ring and the GPUs")]

use std::cell::{Cell, RefCell};
use std::os::fd::RawFd;
use std::rc::{Rc, Weak};
use std::sync::Arc;

use super::arriving::ArrivingKeys;
use super::direct::DirectLane;
use super::executor;
use super::turns::Turns;
use super::{
    Content, DataPath, DataPathConfig, Durability, EngineShared, Links, LocalTask, Measure, Notify,
    Shard,
};
use crate::buffer::{BufferPool, PageKind, SMALL_PAGES, Ticket, Tickets};
use crate::clock::{Clock, Nanos, monotonic_now};
use crate::device::{
    DataFile, Device, FileDevice, ObjectDevice, ObjectParker, ObjectSpace, PolledDevice,
};
use crate::error::SetupError;
use crate::facts::{ShardFacts, buffers_a_shard};
use crate::fill::{Shape, VerifyMode};
use crate::key::ShardId;
use crate::model::LatencySpread;
use crate::placement::Placement;
use crate::ring::{
    CommandSetup, CommandTarget, Dialect, Polling, Ring, RingConfig, RingFeatures, RingSetup,
    command_span_bytes,
};
use crate::tier::gpu::{Bell, GpuFault, GpuKind, GpuLane, GpuSpace, ShardSpace};

/// Entries of a submission queue at most: what finds no place waits in the ring's own queue. The
/// kernel allows 32,768 (`IORING_MAX_ENTRIES`) and half as many where the completions have twice
/// as many places.
const RING_ENTRIES_MAX: u32 = 16_384;

/// Settings and state that all shards of one engine have in common.
#[derive(Clone, Debug)]
pub struct Blueprint {
    /// Number of shards of the engine.
    pub shards: u16,
    /// Names the content of entries.
    pub seed: u64,
    /// Reducibility of that content.
    pub shape: Shape,
    /// Budgets, memory and gates that they share.
    pub shared: Arc<EngineShared>,
    /// Size of an I/O and of a buffer, bytes, a multiple of 4 KiB.
    pub io_bytes: u64,
    /// I/Os in flight at most, each shard on each drive.
    pub queue_depth: u32,
    /// Whether a kernel thread takes each shard's submissions.
    pub submission_thread: bool,
    /// Whether each shard polls the drives for completed reads and writes.
    pub polled: bool,
    /// Whether reads, writes and flushes are NVMe commands.
    pub passthrough: bool,
    /// Least latencies of reads and writes on a drive; none: those that the drive has.
    pub injected: Option<LatencySpread>,
    /// Memory for buffers, all shards together, bytes.
    pub buffer_bytes: u64,
    /// Share of the data read that is checked.
    pub verify: VerifyMode,
    /// Whether writes are flushed.
    pub durability: Durability,
    /// Whether a hit below the fastest tier moves the entry up.
    pub promotes: bool,
    /// Whether a drive that fails is given up, so that the others go on; else its errors are all
    /// that is said of it.
    pub gives_drives_up: bool,
}

/// Parts that are each shard's own: the world around it, and its way to the others.
pub struct Seat {
    /// Number of the shard.
    pub id: ShardId,
    /// Storage device that the shard submits its I/Os to.
    pub device: Rc<dyn Device>,
    /// Clock that the shard reads; in a simulation, the simulated one.
    pub clock: Clock,
    /// Whether entries have bytes.
    pub content: Content,
    /// To the other shards.
    pub links: Box<dyn Links>,
    /// Runs a task on this thread.
    pub spawn: Box<dyn Fn(LocalTask)>,
}

impl Blueprint {
    fn drives(&self) -> u32 {
        self.shared.budgets.drives() as u32
    }

    /// Buffers that each shard gets, for all drives together.
    pub fn buffers(&self) -> u32 {
        let drives = self.drives();
        let bytes_a_drive = self.buffer_bytes / u64::from(drives);
        drives * buffers_a_shard(bytes_a_drive, self.shards, self.io_bytes, self.queue_depth)
    }

    /// A shard's ring, which is slowed down where latencies are injected.
    fn slowed<D: Dialect>(&self, ring: Ring<Ticket, D>, id: ShardId) -> Rc<Ring<Ticket, D>> {
        Rc::new(match self.injected {
            Some(latencies) => ring.slowed_by(latencies, self.seed ^ u64::from(id.0) << 48),
            None => ring,
        })
    }

    /// A shard in that seat.
    pub fn join(&self, seat: Seat) -> Result<Rc<Shard>, SetupError> {
        let pool = BufferPool::new(self.io_bytes as usize, self.buffers())?;
        Ok(self.join_with(pool, seat, Bell::silent())?.shard)
    }

    /// I/Os past host memory, where the GPU tier has a way to the drives and room for what is read:
    /// memory as long as all buffers.
    fn direct_lane(
        &self,
        (pool, space, clock): (&BufferPool, Option<&Rc<ShardSpace>>, &Clock),
        bell: Bell,
    ) -> Result<(Option<Rc<DirectLane>>, Option<String>), SetupError> {
        let direct = self.shared.gpu.as_ref().and_then(|tier| tier.direct.as_ref());
        let (Some(direct), Some(space)) = (direct, space) else { return Ok((None, None)) };
        let Some(landing) = space.allocate(pool.region().1 as u64) else {
            let what = "the GPU tier's memory has no room for direct I/O, which goes by way of \
                        buffers: give the GPU tier more memory";
            return Ok((None, Some(what.to_owned())));
        };
        Ok((Some(DirectLane::new(direct.open_queue(bell)?, landing, clock.clone())), None))
    }

    fn join_with(&self, pool: BufferPool, seat: Seat, bell: Bell) -> Result<Joined, SetupError> {
        let gpu = match &self.shared.gpu {
            Some(tier) => {
                Some(GpuLane::new(tier.memory.open_queue(seat.clock.clone(), bell.clone())?))
            }
            None => None,
        };
        let pages = self.shared.gpu.as_ref().map(|tier| {
            let (start, bytes) = pool.region();
            // SAFETY: the answer is kept beside the tickets, which hold the pool, and is dropped
            // before them.
            unsafe { tier.memory.lock_pages(start, bytes) }
        });
        let (gpu_pages, locked) = match pages.transpose() {
            Ok(pages) => (pages, Ok(())),
            Err(fault) => (None, Err(fault)),
        };
        let gpu_space =
            self.shared.gpu.as_ref().map(|tier| ShardSpace::new(Arc::clone(&tier.space)));
        let landing_bytes = GpuSpace::landing_bytes(self.io_bytes);
        let gpu_landing = gpu_space.as_ref().and_then(|space| space.allocate(landing_bytes));
        let (gpu_direct, without_direct) =
            self.direct_lane((&pool, gpu_space.as_ref(), &seat.clock), bell)?;
        // A queue for each drive, so that a slow one can't hold the places of the others.
        let drives = self.drives();
        let places = self.queue_depth.min(pool.count() / drives);
        let tickets = (0..drives).map(|_| Tickets::new(pool.clone(), places)).collect();
        let measure = Rc::new(Measure::default());
        let path = DataPath::new(DataPathConfig {
            device: seat.device,
            tickets,
            clock: seat.clock.clone(),
            measure: Rc::clone(&measure),
            verify: self.verify,
            durability: self.durability,
            content: seat.content,
            gpu,
            _gpu_pages: gpu_pages,
            gpu_direct,
            gpu_landing,
            queue_depth: self.queue_depth,
        });
        let placement = Placement::new(Arc::clone(&self.shared.budgets), seat.id);
        let shard = Rc::new(Shard {
            id: seat.id,
            shards: self.shards,
            seed: self.seed,
            shape: self.shape,
            clock: seat.clock,
            measure,
            path,
            placement: RefCell::new(placement),
            shared: Arc::clone(&self.shared),
            gpu_space,
            promotes: self.promotes,
            links: seat.links,
            asks: Rc::default(),
            turns: Turns::default(),
            changed: Notify::default(),
            arriving: ArrivingKeys::default(),
            spawn: seat.spawn,
            moves: Cell::new(0),
            gives_drives_up: self.gives_drives_up,
            losses_heeded: RefCell::default(),
            on_transition: RefCell::default(),
        });
        Ok(Joined { shard, locked, without_direct })
    }
}

/// A shard, and what its GPUs give it.
struct Joined {
    shard: Rc<Shard>,
    /// Whether its buffers are page-locked for the GPUs, where there are any.
    locked: Result<(), GpuFault>,
    /// Why none of its I/Os go past host memory, although there is a way.
    without_direct: Option<String>,
}

/// Specification of a shard on a thread of its own. Goes to that thread.
pub struct ShardSpec {
    /// Number of the shard.
    pub id: ShardId,
    /// The data files that all shards share, one a drive.
    pub files: Arc<[Arc<DataFile>]>,
    /// Objects in place of the one drive, whose file then holds nothing.
    pub objects: Option<Arc<ObjectSpace>>,
    /// Settings and state that all shards have in common.
    pub blueprint: Arc<Blueprint>,
}

/// Opens the shard on this glommio executor.
pub fn open_shard(
    spec: ShardSpec,
    links: Box<dyn Links>,
) -> Result<(Rc<Shard>, ShardFacts), SetupError> {
    let (id, blueprint) = (spec.id, &spec.blueprint);
    blueprint.shared.cpu.populate(id.0, blueprint.shards)?;
    let mut shortfalls = Vec::new();
    // One more place a drive for the flush that runs beside its reads and writes.
    let entries = (blueprint.drives() * (blueprint.queue_depth + 1)).min(RING_ENTRIES_MAX);
    let polling = match **blueprint {
        Blueprint { polled: true, .. } if spec.objects.is_none() => Polling::Completion,
        Blueprint { submission_thread: true, .. } => Polling::Submission,
        _ => Polling::None,
    };
    let config = RingConfig { entries, polling };
    let Opened { device, pool, features } = match blueprint.passthrough && spec.objects.is_none() {
        true => open_commands(&spec, config, &mut shortfalls)?,
        false => open_files(&spec, config, &mut shortfalls)?,
    };
    let mut facts = ShardFacts {
        ring: features,
        huge_pages: pool.page_kind() == PageKind::Huge,
        buffer_bytes: u64::from(pool.count()) * blueprint.io_bytes,
        gpu_reaches_buffers: None,
        shortfalls,
    };
    let seat = Seat {
        id,
        device,
        clock: Clock::Os,
        content: Content::Real,
        links,
        spawn: Box::new(executor::spawn_local),
    };
    let doorbell = executor::doorbell();
    let bell = Bell::new(move || doorbell.ring());
    let Joined { shard, locked, without_direct } = blueprint.join_with(pool, seat, bell)?;
    if shard.path.config.gpu.is_some() {
        let lanes = Lanes::of(&shard);
        executor::spawn_listener(move || lanes.reap());
        executor::spawn_local(look_after_gpu(Lanes::of(&shard)));
    }
    facts.shortfalls.extend(without_direct);
    let tier = blueprint.shared.gpu.as_ref();
    if tier.is_some_and(|tier| tier.memory.facts().kind == GpuKind::Cuda) {
        facts.gpu_reaches_buffers = Some(locked.is_ok());
    }
    if let Err(fault) = locked {
        facts.shortfalls.push(format!(
            "I/O buffers are not page-locked for the GPU, which makes copies slower ({fault})"
        ));
    }
    Ok((shard, facts))
}

/// A shard's way to its data.
struct Opened {
    device: Rc<dyn Device>,
    pool: BufferPool,
    features: RingFeatures,
}

/// The device over the shard's files, or over objects in their place.
fn open_files(
    spec: &ShardSpec,
    config: RingConfig,
    shortfalls: &mut Vec<String>,
) -> Result<Opened, SetupError> {
    let ShardSpec { id, files, objects, blueprint } = spec;
    let mut setup = RingSetup::new(config)?;
    let buffer_bytes = blueprint.io_bytes as usize;
    let pool = registered_pool(blueprint, shortfalls, |(start, bytes)| {
        // SAFETY: the pool's mapping outlives the ring: every ticket in flight holds it, and the
        // tickets, which lives beside the ring in the same shard, holds it too; the kernel
        // keeps the registered pages pinned whatever is unmapped.
        unsafe { setup.register_buffers(start, bytes, buffer_bytes) }
    })?;
    let descriptors: Vec<RawFd> = files.iter().map(|file| file.raw_fd()).collect();
    if let Err(error) = setup.register_files(&descriptors) {
        shortfalls.push(format!("the data file is not registered with the kernel ({error})"));
    }
    let ring = blueprint.slowed(Ring::over(setup, &descriptors, Clock::Os), *id);
    let features = ring.features();
    let device: Rc<dyn Device> = match objects {
        Some(space) => open_objects(Arc::clone(space), ring),
        None if config.polling == Polling::Completion => open_polled(ring, files)?,
        None => {
            executor::sleep_in(Rc::clone(&ring) as _);
            Rc::new(FileDevice::new(ring, files))
        }
    };
    Ok(Opened { device, pool, features })
}

/// The device that hands NVMe commands to the namespaces of the shard's files.
fn open_commands(
    spec: &ShardSpec,
    config: RingConfig,
    shortfalls: &mut Vec<String>,
) -> Result<Opened, SetupError> {
    let ShardSpec { id, files, blueprint, .. } = spec;
    let targets: Vec<CommandTarget> = files
        .iter()
        .map(|file| file.command_target().expect("it was opened before the shards start"))
        .collect();
    let command_bytes = targets.iter().map(|target| target.command_bytes_max).min();
    let command_bytes = command_bytes.map_or(blueprint.io_bytes, u64::from);
    // An I/O that is more than one command has that many entries in flight.
    let commands = u32::try_from(blueprint.io_bytes.div_ceil(command_bytes)).unwrap_or(u32::MAX);
    let entries = config.entries.saturating_mul(commands).min(RING_ENTRIES_MAX);
    let mut setup = CommandSetup::sized(RingConfig { entries, ..config })?;
    let span_bytes = command_span_bytes(blueprint.io_bytes, command_bytes) as usize;
    let pool = registered_pool(blueprint, shortfalls, |(start, bytes)| {
        // SAFETY: as in `open_files`.
        unsafe { setup.register_spans(start, bytes, span_bytes) }
    })?;
    let descriptors: Vec<RawFd> = targets.iter().map(|target| target.file).collect();
    if let Err(error) = setup.register_files(&descriptors) {
        shortfalls.push(format!("the namespace is not registered with the kernel ({error})"));
    }
    if setup.features().registered_buffers && targets.iter().any(|target| !target.takes_registered)
    {
        shortfalls.push(
            "NVMe commands can't name registered buffers here, which costs CPU: use Linux 6.1 or \
             newer"
                .to_owned(),
        );
    }
    let ring = blueprint.slowed(Ring::commanding(setup, &targets, Clock::Os), *id);
    let features = ring.features();
    executor::sleep_in(Rc::clone(&ring) as _);
    // The files, which it holds, keep the namespaces open.
    Ok(Opened { device: Rc::new(FileDevice::new(ring, files)), pool, features })
}

/// The device over these files whose completions `ring` is polled for.
fn open_polled(
    ring: Rc<Ring<Ticket>>,
    files: &[Arc<DataFile>],
) -> Result<Rc<dyn Device>, SetupError> {
    let entries = u32::try_from(files.len()).unwrap_or(RING_ENTRIES_MAX);
    let mut setup = RingSetup::new(RingConfig { entries, ..RingConfig::default() })?;
    let descriptors: Vec<RawFd> = files.iter().map(|file| file.raw_fd()).collect();
    if let Err(error) = setup.register_files(&descriptors) {
        // A flush a file now and then: a look at its descriptor costs nothing beside it.
        tracing::debug!(%error, "the data files are not registered for flushes");
    }
    let flushes = Rc::new(Ring::over(setup, &descriptors, Clock::Os));
    let device = Rc::new(PolledDevice::new(ring, flushes, files));
    executor::sleep_in(Rc::clone(&device) as _);
    Ok(device)
}

/// The device over these objects, whose answers ring the shard's doorbell.
fn open_objects(space: Arc<ObjectSpace>, ring: Rc<Ring<Ticket>>) -> Rc<dyn Device> {
    let doorbell = executor::doorbell();
    let bell = Box::new(move || doorbell.ring());
    let device = Rc::new(ObjectDevice::new(space, bell, Clock::Os));
    executor::sleep_in(Rc::new(ObjectParker { device: Rc::clone(&device), ring }));
    device
}

/// Between two looks at jobs whose bell did not ring, as when the device was lost.
const GPU_LOOK: Nanos = Nanos::from_ms(5);

/// Lanes of a shard to its GPUs, for as long as the shard is there.
struct Lanes {
    jobs: Weak<GpuLane>,
    direct: Weak<DirectLane>,
}

impl Lanes {
    fn of(shard: &Shard) -> Lanes {
        let config = &shard.path.config;
        Lanes {
            jobs: config.gpu.as_ref().map(Rc::downgrade).unwrap_or_default(),
            direct: config.gpu_direct.as_ref().map(Rc::downgrade).unwrap_or_default(),
        }
    }

    /// Looks for what has ended; whether the shard is still there.
    fn reap(&self) -> bool {
        if let Some(direct) = self.direct.upgrade() {
            direct.reap();
        }
        let jobs = self.jobs.upgrade();
        if let Some(jobs) = &jobs {
            jobs.reap();
        }
        jobs.is_some()
    }
}

/// Looks for jobs and I/Os that have ended every few milliseconds.
async fn look_after_gpu(lanes: Lanes) {
    while lanes.reap() {
        executor::sleep_until(monotonic_now() + GPU_LOOK).await;
    }
}

/// The shard's buffers, registered with the ring: as many of them as the limits allow, or all of
/// them unregistered when it is not the limit that forbids it.
fn registered_pool(
    blueprint: &Blueprint,
    shortfalls: &mut Vec<String>,
    mut register: impl FnMut((*mut u8, usize)) -> std::io::Result<()>,
) -> Result<BufferPool, SetupError> {
    let io_bytes = blueprint.io_bytes as usize;
    let wanted = blueprint.buffers();
    let least = blueprint.drives();
    let mut count = wanted;
    let (pool, is_huge) = loop {
        let pool = BufferPool::new(io_bytes, count)?;
        let is_huge = pool.make_huge();
        match register(pool.region()) {
            Ok(()) => break (pool, is_huge),
            Err(error) if error.raw_os_error() == Some(libc::ENOMEM) && count > least => {
                count = (count / 2).max(least);
            }
            Err(error) => {
                shortfalls.push(format!(
                    "buffers are not registered with the kernel ({error}), which costs CPU: raise \
                     the locked-memory limit with `ulimit -l unlimited` (containers: the \
                     capability IPC_LOCK)"
                ));
                break (pool, is_huge);
            }
        }
    };
    if is_huge == Some(false) {
        shortfalls.push(SMALL_PAGES.to_owned());
    }
    if count < wanted {
        shortfalls.push(format!(
            "the locked-memory limit allows {count} of {wanted} buffers of {io_bytes} bytes a \
             shard: raise it with `ulimit -l unlimited` (containers: the capability IPC_LOCK)"
        ));
    }
    Ok(pool)
}
