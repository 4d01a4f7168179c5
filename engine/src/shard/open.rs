//! Opening a real shard on the thread that will run it: pool, ring, device.

#![allow(unsafe_code, reason = "registering the pool's memory with the ring")]

use std::rc::Rc;
use std::sync::Arc;

use super::executor;
use super::{
    Content, DataPath, DataPathConfig, Durability, EngineShared, Links, Measure, Shard, ShardParts,
};
use crate::buffer::{Admission, BufferPool, PageKind};
use crate::clock::Clock;
use crate::device::{DataFile, Device, FileDevice};
use crate::error::SetupError;
use crate::fill::VerifyMode;
use crate::key::ShardId;
use crate::ring::{Ring, RingConfig, RingFeatures, RingSetup};

/// What a real shard is opened with.
pub struct ShardSpec {
    /// Which one it is.
    pub id: ShardId,
    /// Of how many.
    pub shards: u16,
    /// Of the run.
    pub seed: u64,
    /// Its data file.
    pub file: Arc<DataFile>,
    /// Shared with the other shards.
    pub shared: Arc<EngineShared>,
    /// Size of an I/O and of a buffer, bytes, a multiple of 4 KiB.
    pub io_size_bytes: u64,
    /// I/Os in flight at most.
    pub queue_depth: u32,
    /// Memory for buffers, bytes.
    pub buffer_bytes: u64,
    /// How much of what is read is checked.
    pub verify: VerifyMode,
    /// Whether writes are flushed.
    pub durability: Durability,
}

/// What the shard got, for the report.
#[derive(Clone, Debug)]
pub struct ShardFacts {
    /// Ring features.
    pub ring: RingFeatures,
    /// Whether the buffers are in reserved huge pages.
    pub huge_pages: bool,
    /// Memory of the buffers, bytes.
    pub buffer_bytes: u64,
    /// What was less than asked for, in a sentence each.
    pub shortfalls: Vec<String>,
}

/// Opens the shard on this glommio executor.
///
/// # Errors
/// When this kernel, its limits or the memory do not allow it; the message has the remedy.
pub fn open_shard(
    spec: ShardSpec,
    links: Box<dyn Links>,
) -> Result<(Rc<Shard>, ShardFacts), SetupError> {
    spec.shared.cpu.populate(spec.id.0, spec.shards)?;
    let io_bytes = spec.io_size_bytes as usize;
    let wanted = (spec.buffer_bytes / spec.io_size_bytes).clamp(1, u64::from(spec.queue_depth));
    let mut shortfalls = Vec::new();
    // One more place for the flush that runs beside the reads and writes.
    let mut setup = RingSetup::new(RingConfig { entries: spec.queue_depth + 1 })?;
    let mut count = wanted as u32;
    let pool = loop {
        let pool = BufferPool::new(io_bytes, count)?;
        let (start, bytes) = pool.region();
        // SAFETY: the pool's mapping outlives the ring: every ticket in flight holds it, and the
        // admission, which lives beside the ring in the same shard, holds it too; the kernel
        // keeps the registered pages pinned whatever is unmapped.
        match unsafe { setup.register_buffers(start, bytes, io_bytes) } {
            Ok(()) => break pool,
            Err(error) if error.raw_os_error() == Some(libc::ENOMEM) && count > 1 => count /= 2,
            Err(error) => {
                shortfalls.push(format!(
                    "buffers are not registered with the kernel ({error}), which costs CPU: raise \
                     the locked-memory limit with `ulimit -l unlimited`"
                ));
                break pool;
            }
        }
    };
    if u64::from(count) < wanted {
        shortfalls.push(format!(
            "the locked-memory limit allows {count} of {wanted} buffers of {io_bytes} bytes a \
             shard: raise it with `ulimit -l unlimited`"
        ));
    }
    if let Err(error) = setup.register_file(spec.file.raw_fd()) {
        shortfalls.push(format!("the data file is not registered with the kernel ({error})"));
    }
    let features = setup.features();
    let ring = Rc::new(Ring::new(setup, spec.file.raw_fd(), Clock::Os)?);
    let device: Rc<dyn Device> = Rc::new(FileDevice::new(Rc::clone(&ring), spec.file));
    executor::spawn_reaper(ring.bell(), Rc::clone(&device))?;
    let facts = ShardFacts {
        ring: features,
        huge_pages: pool.page_kind() == PageKind::Huge,
        buffer_bytes: u64::from(pool.count()) * spec.io_size_bytes,
        shortfalls,
    };
    let path = DataPath::new(DataPathConfig {
        device,
        admission: Admission::new(pool, spec.queue_depth),
        clock: Clock::Os,
        measure: Rc::new(Measure::default()),
        verify: spec.verify,
        durability: spec.durability,
        content: Content::Real,
        queue_depth: spec.queue_depth,
    });
    let shard = Shard::new(ShardParts {
        id: spec.id,
        shards: spec.shards,
        seed: spec.seed,
        clock: Clock::Os,
        path,
        shared: spec.shared,
        links,
        spawn: Box::new(executor::spawn_local),
    });
    Ok((shard, facts))
}
