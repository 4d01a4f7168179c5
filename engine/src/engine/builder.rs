//! Settings of an engine, checked before anything is opened.

use std::path::PathBuf;
use std::sync::Arc;

use super::error::{EngineError, SettingsError};
use super::local::{LocalEngine, LocalParts};
use super::place::{Drive, Place};
use super::threads::Engine;
use crate::device::{DataFile, ObjectIo, ObjectSpace, Preallocate};
use crate::drive::{DRIVE_BYTES_MAX, DRIVES_MAX};
use crate::fill::{Shape, VerifyMode};
use crate::key::ShardId;
use crate::model::LatencySpread;
use crate::placement::{
    BudgetConfig, DriveBudget, EntryLayout, SharedBudgets, SharedGate, Watermarks,
};
use crate::shard::{Blueprint, Durability, EngineShared, ShardSpec};
use crate::space::{Ground, Space, Steps};
use crate::tier::cpu::{CHUNK_BYTES, CpuPool, MemoryGauge};
use crate::tier::gpu::{DirectStorage, GpuMemory, GpuTier};
use crate::units::{BLOCK_BYTES, KIB, MIB};

/// Largest I/O: the largest that the metrics tell apart.
pub const IO_BYTES_MAX: u64 = 64 * MIB;
/// Smallest step in which space is leased to a shard, unless another is asked for.
pub const SEGMENT_BYTES_MIN: u64 = MIB;
/// Largest such step.
const SEGMENT_BYTES_MAX: u64 = 64 * MIB;
/// Segments a shard should have at least, so that leasing does not leave it short.
const SEGMENTS_A_SHARD: u64 = 64;

/// Declares the settings of an engine: each field of the builder with its default, and the method
/// that sets it. What is `own` has methods written by hand.
macro_rules! settings {
    (
        own { $($own:ident: $own_type:ty = $own_default:expr;)+ }
        given { $($(#[$given_doc:meta])+ $given:ident: $given_type:ty = $default:expr;)+ }
        optional { $($(#[$optional_doc:meta])+ $optional:ident: $optional_type:ty;)+ }
    ) => {
        /// The settings of an engine. Start from [`super::Engine::builder`]; what is not set has
        /// the default that its method names.
        #[derive(Clone, Debug)]
        pub struct EngineBuilder {
            $(pub(super) $own: $own_type,)+
            $(pub(super) $given: $given_type,)+
            $(pub(super) $optional: Option<$optional_type>,)+
        }

        impl Default for EngineBuilder {
            fn default() -> Self {
                EngineBuilder {
                    $($own: $own_default,)+
                    $($given: $default,)+
                    $($optional: None,)+
                }
            }
        }

        impl EngineBuilder {
            $(
                $(#[$given_doc])+
                #[must_use]
                pub fn $given(mut self, $given: $given_type) -> Self {
                    self.$given = $given;
                    self
                }
            )+
            $(
                $(#[$optional_doc])+
                #[must_use]
                pub fn $optional(mut self, $optional: $optional_type) -> Self {
                    self.$optional = Some($optional);
                    self
                }
            )+
        }
    };
}

settings! {
    own {
        drives: Vec<Drive> = Vec::new();
        has_storage: bool = true;
    }
    given {
        /// Preallocation of a file that the engine makes; by default its space is reserved when the
        /// engine starts.
        preallocate: Preallocate = Preallocate::Reserve;
        /// Size of the storage tier, bytes; has no default. Rounded down to whole blocks.
        storage_bytes: u64 = 0;
        /// Layout of an entry on several drives; by default a part of it on each.
        layout: EntryLayout = EntryLayout::default();
        /// Whether a drive of several whose I/Os fail one after the other is given up: its entries
        /// are lost, and the engine goes on with the others. By default it is not, and each of its
        /// I/Os fails.
        gives_drives_up: bool = false;
        /// Size of the tier in GPU memory, bytes; by default there is none.
        gpu_bytes: u64 = 0;
        /// Whether reading an entry that is not in the fastest tier moves it there, or to the
        /// fastest that can hold it, evicting others; by default it stays where it is.
        promote_on_hit: bool = false;
        /// Size of the tier in host memory, bytes; by default there is none. Memory is taken in
        /// steps while the tier fills; when no more can be had, the tier stays as large as it is.
        cpu_bytes: u64 = 0;
        /// When the tier in host memory makes room, and which entries pass it by; by default an
        /// eviction leaves it 80 % full and entries above 95 % of it go to storage at once.
        watermarks: Watermarks = Watermarks::default();
        /// Number of shards, each with a thread and a ring; by default one.
        shards: u16 = 1;
        /// Size of one I/O and of one buffer, bytes, a multiple of 4 KiB; by default 128 KiB.
        io_bytes: u64 = 128 * KIB;
        /// Whether an entry takes the space of whole I/Os on storage, for a store whose objects are
        /// slots of one size; by default it takes whole blocks.
        whole_ios: bool = false;
        /// I/Os in flight at most, each shard on each drive; by default 32.
        queue_depth: u32 = 32;
        /// Whether a kernel thread takes each shard's submissions (`SQPOLL`), so that handing over
        /// an I/O is no system call; by default none does. Each such thread spins while its shard
        /// is busy, and for 100 ms after: it wants a core of its own.
        submission_thread: bool = false;
        /// Whether each shard polls the drives for completed reads and writes (`IOPOLL`) instead of
        /// being interrupted; by default none does. A shard then keeps its core busy for as long as
        /// an I/O is in flight. Each drive must have a queue for it (`nvme.poll_queues`), which is
        /// found out before the shards start. Has no effect on an object store, and excludes
        /// [`EngineBuilder::submission_thread`].
        polled: bool = false;
        /// Whether reads, writes and flushes are NVMe commands that the kernel hands to the drives
        /// as they are (`IORING_OP_URING_CMD`), past its block layer; by default they are not. Each
        /// drive must be a whole NVMe namespace, given as a device, and take such commands, which
        /// is found out before the shards start. Has no effect on an object store, and excludes
        /// [`EngineBuilder::polled`].
        passthrough: bool = false;
        /// Whether an entry is flushed before it counts as written; by default it is.
        durability: Durability = Durability::Flush;
        /// Share of the data read that is checked; by default the head of each block.
        verify: VerifyMode = VerifyMode::default();
        /// Writes that may allocate at once, all shards together; by default any number.
        allocations_max: Option<u32> = None;
        /// Requests that may be served at once, for callers that serve some on the shards' threads;
        /// by default any number.
        requests_max: Option<u32> = None;
        /// Names the content of entries; by default 0.
        seed: u64 = 0;
        /// To which degree the content of entries can be reduced by storage that deduplicates or
        /// compresses; by default not at all. Memory of GPUs holds only content that can't be.
        shape: Shape = Shape::default();
    }
    optional {
        /// Stores entries in objects, each I/O in one of its own ([`ObjectSpace`]), for
        /// [`Self::specs`]. Takes the place of the one drive; the shards want a file all the same,
        /// as for [`Self::without_storage`]. By default entries are on drives.
        objects: Arc<dyn ObjectIo>;
        /// Latencies of a slower drive: each read and write on a drive completes no earlier than
        /// one that is drawn from them, by the seed, the shard and the order of its I/Os, and keeps
        /// its place in the queue until then. Flushes, objects and I/Os past host memory are not
        /// slowed. By default the drive's own latencies are all.
        injected_latency: LatencySpread;
        /// Step in which storage is leased to shards, bytes, a multiple of 4 KiB; by default a
        /// power of two from 1 to 64 MiB of which each shard can have many.
        segment_bytes: u64;
        /// Memory of the tier on GPUs, at least [`crate::tier::gpu::GpuSpace::memory_bytes`] on
        /// each device; by default there is none, which only entries without bytes can do with.
        gpu_memory: Arc<dyn GpuMemory>;
        /// The data files as GPU memory reaches them with no host memory between, for
        /// [`Self::specs`]; the memory then needs room for all I/O buffers besides. By default
        /// bytes go by way of the buffers.
        gpu_direct: Arc<dyn DirectStorage>;
        /// Says how much memory may still be taken, before each step of the tier in host memory; by
        /// default the kernel's refusal alone ends its growth.
        memory_gauge: MemoryGauge;
        /// Pins the shards to these cores in turn; by default the system places them.
        cpus: Vec<usize>;
        /// Memory for I/O buffers, all shards together, bytes; by default a buffer for every place
        /// in the queues. A shard has at least one buffer.
        buffer_bytes: u64;
    }
}

impl EngineBuilder {
    /// Stores entries in a file below this directory, which is made if it is not there, locked, and
    /// cleaned of what the engine made when it stops.
    ///
    /// Called again, or beside [`Self::file`], it adds a drive: entries are stored on all of them.
    /// Each has an equal part of [`Self::storage_bytes`], unless [`Self::drive_bytes`] says
    /// otherwise.
    #[must_use]
    pub fn directory(self, path: impl Into<PathBuf>) -> Self {
        self.drive(Place::Directory(path.into()))
    }

    /// Stores entries in a file that the caller has opened and prepared, and deletes itself. Adds a
    /// drive, as [`Self::directory`].
    #[must_use]
    pub fn file(self, file: Arc<DataFile>) -> Self {
        self.drive(Place::File(file))
    }

    fn drive(mut self, place: Place) -> Self {
        self.drives.push(Drive { place: Some(place), bytes: None });
        self
    }

    /// Size of the drive added last, bytes. Once it is given for one drive, it must be for all, and
    /// [`Self::storage_bytes`] has no effect.
    ///
    /// Where there is no drive yet, it adds one without a place, for [`Self::local`] and
    /// [`Self::specs`].
    #[must_use]
    pub fn drive_bytes(mut self, bytes: u64) -> Self {
        match self.drives.last_mut().filter(|drive| drive.bytes.is_none()) {
            Some(drive) => drive.bytes = Some(bytes),
            None => self.drives.push(Drive { place: None, bytes: Some(bytes) }),
        }
        self
    }

    /// Leaves storage out: an entry that fits in no tier of memory is dropped, and counted among
    /// [`crate::metrics::Metrics::refused_entries`]. The shards want a file all the same:
    /// [`DataFile::of_no_blocks`].
    #[must_use]
    pub fn without_storage(mut self) -> Self {
        self.storage_bytes = 0;
        self.has_storage = false;
        self
    }

    /// Opens the storage and starts a thread for each shard; returns when all are open.
    ///
    /// # Errors
    /// A setting that no engine can have, or what the system does not allow.
    pub fn start(self) -> Result<Engine, EngineError> {
        Engine::start(self)
    }

    /// An engine on the calling thread, whose devices and clock are the caller's: for simulations
    /// and tests.
    ///
    /// # Errors
    /// A setting that no engine can have, or no memory for buffers.
    pub fn local(&self, parts: LocalParts<'_>) -> Result<LocalEngine, EngineError> {
        let drives = self.drive_sizes().into_iter();
        let whole = |bytes| {
            (DriveBudget { blocks: bytes / BLOCK_BYTES, grown_blocks: u64::MAX }, Ground::Whole)
        };
        let grounds = (u64::MAX, Ground::Whole, drives.map(whole).unzip());
        let blueprint = self.blueprint(Arc::clone(&parts.cpu), grounds)?;
        Ok(LocalEngine::new(&blueprint, parts)?)
    }

    /// Specifications from which [`crate::shard::open_shard`] opens each shard, for callers that
    /// run the shards' threads themselves: a program whose users live on the shards' own threads.
    /// `files` are those of the drives, in the order of their sizes.
    ///
    /// # Errors
    /// A setting that no engine can have, no address space for the CPU tier, or a drive on which
    /// polling or NVMe commands were asked for and are not possible.
    pub fn specs(&self, files: &[Arc<DataFile>]) -> Result<Vec<ShardSpec>, EngineError> {
        let sizes = self.drive_sizes();
        if sizes.len() != files.len() || self.objects.is_some() && files.len() != 1 {
            return Err(SettingsError::Drives { sizes: sizes.len(), drives: files.len() }.into());
        }
        if self.has_storage && self.objects.is_none() {
            self.probe_drives(files)?;
        }
        let unit_bytes = CHUNK_BYTES as u64;
        let first_bytes = Steps::MEMORY.step_bytes(0, self.cpu_bytes, unit_bytes);
        let cpu = CpuPool::growing(
            self.cpu_bytes,
            first_bytes,
            self.memory_gauge.clone(),
            self.gpu_memory.clone().map(|gpu| gpu as _),
        )?;
        let memory: Arc<dyn Space> = Arc::clone(&cpu) as _;
        let memory = match first_bytes < self.cpu_bytes {
            true => Ground::thread("ringfall-memory", Arc::downgrade(&memory))?,
            false => Ground::Whole,
        };
        let (mut budgets, mut grounds) = (Vec::new(), Vec::new());
        for (file, bytes) in files.iter().zip(sizes) {
            let storage: Arc<dyn Space> = Arc::clone(file) as _;
            grounds.push(match file.is_growing() {
                true => Ground::thread("ringfall-space", Arc::downgrade(&storage))?,
                false => Ground::Whole,
            });
            let grown_blocks = file.prepared_blocks();
            budgets.push(DriveBudget { blocks: bytes / BLOCK_BYTES, grown_blocks });
        }
        let blueprint = Arc::new(self.blueprint(cpu, (first_bytes, memory, (budgets, grounds)))?);
        let files: Arc<[Arc<DataFile>]> = files.into();
        let objects = self.objects.clone().map(|io| Arc::new(ObjectSpace::new(io)));
        let spec = |index| ShardSpec {
            id: ShardId(index),
            files: Arc::clone(&files),
            objects: objects.clone(),
            blueprint: Arc::clone(&blueprint),
        };
        Ok((0..self.shards).map(spec).collect())
    }

    /// Whether reads and writes on drives are held back until a latency has passed
    /// ([`Self::injected_latency`]).
    pub fn is_slowed(&self) -> bool {
        self.injected_latency.is_some()
    }

    /// Sizes of the drives, bytes; of one, where none was added.
    pub(super) fn drive_sizes(&self) -> Vec<u64> {
        match &self.drives[..] {
            [] => vec![self.storage_bytes],
            drives if drives.iter().all(|drive| drive.bytes.is_none()) => {
                let part = self.storage_bytes / drives.len() as u64;
                vec![
                    if drives.len() == 1 { part } else { part / BLOCK_BYTES * BLOCK_BYTES };
                    drives.len()
                ]
            }
            drives => drives.iter().map(|drive| drive.bytes.unwrap_or(0)).collect(),
        }
    }

    /// Assembles the shards' common part, with the memory of the CPU tier, the space that the tiers
    /// have already, and the grounds where host memory and each drive take the rest.
    fn blueprint(
        &self,
        cpu: Arc<CpuPool>,
        (grown_cpu_bytes, memory_ground, drives): (u64, Ground, (Vec<DriveBudget>, Vec<Ground>)),
    ) -> Result<Blueprint, SettingsError> {
        self.check()?;
        let (drives, storage_grounds) = drives;
        let storage_bytes = drives.iter().map(|drive| drive.blocks * BLOCK_BYTES).sum();
        let segment_bytes =
            self.segment_bytes.unwrap_or_else(|| segment_bytes(storage_bytes, self.shards));
        let config = BudgetConfig {
            shards: self.shards,
            gpu_bytes: self.gpu_bytes,
            cpu_bytes: self.cpu_bytes,
            storage_blocks: storage_bytes / BLOCK_BYTES,
            segment_blocks: segment_bytes / BLOCK_BYTES,
            slot_blocks: if self.whole_ios { self.io_bytes / BLOCK_BYTES } else { 1 },
            watermarks: self.watermarks,
        };
        let gate = |permits: Option<u32>| match permits {
            None => SharedGate::unbounded(self.shards),
            Some(permits) => SharedGate::new(permits, self.shards),
        };
        let queues = u64::from(self.shards) * drives.len() as u64;
        let places = queues * u64::from(self.queue_depth);
        Ok(Blueprint {
            shards: self.shards,
            seed: self.seed,
            shape: self.shape,
            shared: Arc::new(EngineShared {
                budgets: SharedBudgets::on_drives(
                    &config,
                    grown_cpu_bytes,
                    &drives,
                    self.layout,
                    self.io_bytes / BLOCK_BYTES,
                ),
                gpu: self.gpu_memory.clone().map(|memory| GpuTier {
                    direct: self.gpu_direct.clone(),
                    ..GpuTier::new(memory)
                }),
                cpu,
                memory_ground,
                storage_grounds: storage_grounds.into_boxed_slice(),
                growth_times: Default::default(),
                allocations: gate(self.allocations_max),
                requests: Arc::new(gate(self.requests_max)),
            }),
            io_bytes: self.io_bytes,
            queue_depth: self.queue_depth,
            submission_thread: self.submission_thread,
            polled: self.polled && self.has_storage,
            passthrough: self.passthrough && self.has_storage,
            injected: self.injected_latency,
            buffer_bytes: self.buffer_bytes.unwrap_or(places * self.io_bytes),
            verify: self.verify,
            durability: self.durability,
            promotes: self.promote_on_hit,
            gives_drives_up: self.gives_drives_up && drives.len() > 1,
        })
    }

    /// Checks the conditions that `assert`s further in take for granted.
    pub(super) fn check(&self) -> Result<(), SettingsError> {
        let is_blocks = |bytes: u64| bytes > 0 && bytes.is_multiple_of(BLOCK_BYTES);
        if self.shards == 0 {
            return Err(SettingsError::Shards);
        }
        if self.queue_depth == 0 {
            return Err(SettingsError::QueueDepth);
        }
        if !is_blocks(self.io_bytes) || self.io_bytes > IO_BYTES_MAX {
            return Err(SettingsError::IoBytes { bytes: self.io_bytes });
        }
        let sizes = self.drive_sizes();
        if sizes.len() > DRIVES_MAX {
            return Err(SettingsError::TooManyDrives { drives: sizes.len() });
        }
        for bytes in sizes {
            if self.has_storage && bytes < BLOCK_BYTES {
                return Err(SettingsError::StorageBytes { bytes });
            }
            if bytes > DRIVE_BYTES_MAX {
                return Err(SettingsError::DriveBytes { bytes });
            }
        }
        if let Some(bytes) = self.segment_bytes.filter(|&bytes| !is_blocks(bytes)) {
            return Err(SettingsError::SegmentBytes { bytes });
        }
        if self.allocations_max == Some(0) || self.requests_max == Some(0) {
            return Err(SettingsError::Permits);
        }
        if self.cpus.as_ref().is_some_and(Vec::is_empty) {
            return Err(SettingsError::Cpus);
        }
        if !self.shape.is_possible() {
            return Err(SettingsError::Shape);
        }
        self.check_reach()?;
        if self.gpu_memory.is_some() && self.shape != Shape::default() {
            return Err(SettingsError::ShapeInGpu);
        }
        Ok(())
    }
}

/// A power of two such that each shard has many, within bounds.
fn segment_bytes(storage_bytes: u64, shards: u16) -> u64 {
    let even = storage_bytes / (u64::from(shards) * SEGMENTS_A_SHARD);
    let power = even.max(1).next_power_of_two() / 2;
    power.clamp(SEGMENT_BYTES_MIN, SEGMENT_BYTES_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::GIB;

    #[test]
    fn segments_are_many_and_bounded() {
        assert_eq!(segment_bytes(4 * GIB, 2), 16 * MIB);
        assert_eq!(segment_bytes(100 * GIB, 2), 64 * MIB);
        assert_eq!(segment_bytes(8 * MIB, 2), MIB);
    }

    #[test]
    fn settings_that_no_engine_can_have_are_errors_and_not_panics() {
        let good = || EngineBuilder::default().storage_bytes(MIB);
        let error = |builder: EngineBuilder| builder.check().unwrap_err();
        assert_eq!(good().check(), Ok(()));
        assert_eq!(error(good().shards(0)), SettingsError::Shards);
        assert_eq!(error(good().queue_depth(0)), SettingsError::QueueDepth);
        for bytes in [0, 4095, 6000, 2 * IO_BYTES_MAX] {
            assert_eq!(error(good().io_bytes(bytes)), SettingsError::IoBytes { bytes });
        }
        let bytes = 4095;
        assert_eq!(error(good().storage_bytes(bytes)), SettingsError::StorageBytes { bytes });
        assert_eq!(good().without_storage().check(), Ok(()));
        assert_eq!(error(good().segment_bytes(bytes)), SettingsError::SegmentBytes { bytes });
        assert_eq!(error(good().allocations_max(Some(0))), SettingsError::Permits);
        assert_eq!(error(good().requests_max(Some(0))), SettingsError::Permits);
        assert_eq!(error(good().cpus(Vec::new())), SettingsError::Cpus);
        let shape = Shape { dedupe_ratio: 0.5, ..Shape::default() };
        assert_eq!(error(good().shape(shape)), SettingsError::Shape);
    }
}
