//! The GPU tier: entries in GPU memory, whose content is made and checked by the GPU itself.
//!
//! It contains the abilities of GPU memory ([`GpuMemory`], [`GpuQueue`]) and who provides them; its
//! space, taken once and handed out in pieces ([`space`]); and a shard's jobs in flight ([`lane`]).
//! It does not decide which entry goes where.
//!
//! | | memory | for |
//! |---|---|---|
//! | [`cuda`] | NVIDIA GPUs' | runs |
//! | [`emulated`] | host memory that stands in for a GPU's | tests, and people who ask for it |
//!
//! [`direct`] is the way between that memory and the data files without host memory between.
//!
//! *Why one allocation.* What a driver gives away at the start nobody can take in the middle of a
//! run, and an allocation from the driver can wait for all that the device is doing.

#![allow(unsafe_code, reason = "a method whose caller promises who owns the memory")]

pub mod cuda;
pub mod direct;
pub mod emulated;
pub mod lane;
pub mod space;

use std::fmt::Debug;
use std::sync::Arc;

use crate::clock::{Clock, Nanos};
use crate::error::SetupError;
use crate::fill::{ContentName, VerifyMode, VerifyReport};
use crate::tier::pages::PageLocker;

pub use crate::error::GpuFault;
pub use crate::facts::{DriverUse, GpuDevice, GpuFacts, GpuKind};
pub use direct::{DirectIo, DirectQueue, DirectStorage, NoDirect};
pub use lane::{GpuJob, GpuLane, Holding};
pub use space::{CHUNK_BYTES, GpuEntry, GpuSpace, Piece, ShardSpace};

/// Memory of one or more GPUs, taken once: addresses `0..bytes()`, in equal parts on each device.
pub trait GpuMemory: PageLocker {
    /// Kind and devices, for reports.
    fn facts(&self) -> &GpuFacts;

    /// Its size, bytes: whole chunks on each device.
    fn bytes(&self) -> u64;

    /// A queue for the thread that calls, which alone uses it. `bell` is rung, from any thread,
    /// whenever a job may have ended.
    fn open_queue(&self, clock: Clock, bell: Bell) -> Result<Box<dyn GpuQueue>, SetupError>;

    /// Memory in use on each device according to the driver, in their order; empty where nobody
    /// says.
    fn driver_use(&self) -> Vec<Option<DriverUse>> {
        Vec::new()
    }
}

/// Rung when a job may have ended.
#[derive(Clone)]
pub struct Bell(Arc<dyn Fn() + Send + Sync>);

impl Bell {
    /// A bell that calls `ring`.
    pub fn new(ring: impl Fn() + Send + Sync + 'static) -> Bell {
        Bell(Arc::new(ring))
    }

    /// A bell that nobody hears, for queues whose jobs end at once or that are polled.
    pub fn silent() -> Bell {
        Bell::new(|| {})
    }

    /// Calls what the bell was made with, to say that a job may have ended.
    pub fn ring(&self) {
        (self.0)();
    }
}

impl Debug for Bell {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Bell")
    }
}

/// Names a job of one queue; never used twice.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct JobId(pub u64);

/// Something to do with a range of an entry, which lies in the pieces given beside it.
#[derive(Clone, Copy, Debug)]
pub enum GpuWork {
    /// Make the entry's blocks from `first_block` on.
    Fill {
        /// The entry's name.
        name: ContentName,
        /// Number of the range's first block in the entry.
        first_block: u64,
    },
    /// Compare the range with the entry's blocks from `first_block` on.
    Check {
        /// The entry's name.
        name: ContentName,
        /// Number of the range's first block in the entry.
        first_block: u64,
        /// Share of each block that is compared.
        mode: VerifyMode,
    },
    /// Copy from host memory.
    CopyIn {
        /// As many bytes as the pieces hold.
        host: *const u8,
    },
    /// Copy to host memory.
    CopyOut {
        /// Room for as many bytes as the pieces hold.
        host: *mut u8,
    },
}

/// Result of a job.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct WorkDone {
    /// Time by the device's own clock.
    pub device: Nanos,
    /// Outcome of the comparison, if the job was one.
    pub found: VerifyReport,
}

/// One thread's way to the devices. Jobs may end in any order.
pub trait GpuQueue {
    /// Begins a job on `pieces`, whole blocks in the order of the entry's bytes.
    ///
    /// # Safety
    /// The pieces belong to the caller, and nobody else reads or writes them or the host memory
    /// that the work names, which stays where it is, until [`GpuQueue::reap`] has reported the job
    /// or [`GpuQueue::finish`] has returned. (Several jobs may read the same pieces.)
    ///
    /// # Errors
    /// It could not begin; nothing of it will happen any more.
    unsafe fn submit(&self, work: &GpuWork, pieces: &[Piece]) -> Result<JobId, GpuFault>;

    /// Reports what has ended since the last call, each job once.
    fn reap(&self, ended: &mut dyn FnMut(JobId, Result<WorkDone, GpuFault>));

    /// Waits until nothing is in flight.
    fn finish(&self);

    /// Whether no bell rings when a job ends, so that whoever waits has to ask again.
    fn must_be_polled(&self) -> bool {
        false
    }
}

/// A GPU tier: its memory and who has which part of it.
#[derive(Debug)]
pub struct GpuTier {
    /// The memory that holds the entries' bytes.
    pub memory: Arc<dyn GpuMemory>,
    /// Which shard has which part of that memory.
    pub space: Arc<GpuSpace>,
    /// The data files as that memory reaches them without host memory between; none where bytes go
    /// by way of I/O buffers.
    pub direct: Option<Arc<dyn DirectStorage>>,
}

impl GpuTier {
    /// A tier in which nothing is.
    pub fn new(memory: Arc<dyn GpuMemory>) -> GpuTier {
        let devices = memory.facts().devices.len().max(1) as u64;
        let space = GpuSpace::new(memory.bytes(), memory.bytes() / devices);
        GpuTier { memory, space: Arc::new(space), direct: None }
    }
}
