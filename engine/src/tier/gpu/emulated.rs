//! Host memory that stands in for a GPU's: the same entries in the same places, made, checked and
//! copied by this processor. Jobs are over when they are submitted. What it measures is this
//! machine's memory, and nothing of a GPU.

#![allow(unsafe_code, reason = "slices over pieces that exactly one entry owns")]

use std::cell::{Cell, RefCell};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use super::direct::{Mover, Part, PartEnded, ThreadQueue};
use super::{
    Bell, DirectQueue, DirectStorage, GpuDevice, GpuFacts, GpuFault, GpuKind, GpuMemory, GpuQueue,
    GpuWork, JobId, Piece, WorkDone,
};
use crate::buffer::Mapping;
use crate::clock::Clock;
use crate::error::SetupError;
use crate::fill;
use crate::tier::pages::PageLocker;
use crate::units::BLOCK_BYTES;

/// Host memory in the place of a GPU's; what it measures says nothing about a GPU.
#[derive(Debug)]
pub struct EmulatedMemory {
    mapping: Arc<Mapping>,
    bytes: u64,
    facts: GpuFacts,
}

impl EmulatedMemory {
    /// Stands in for `devices` GPUs that give `device_bytes` each. The kernel gives the memory when
    /// it is first used.
    pub fn new(devices: u32, device_bytes: u64) -> Result<Arc<EmulatedMemory>, SetupError> {
        let devices = devices.max(1);
        let too_large = || SetupError::BufferMemory { bytes: u64::MAX, errno: libc::ENOMEM };
        let bytes = device_bytes.checked_mul(u64::from(devices)).ok_or_else(too_large)?;
        let length = usize::try_from(bytes).map_err(|_| too_large())?;
        let device = |index| GpuDevice {
            index,
            name: "host memory".to_owned(),
            memory_bytes: device_bytes,
            free_bytes: device_bytes,
        };
        Ok(Arc::new(EmulatedMemory {
            mapping: Arc::new(Mapping::new(length, false)?),
            bytes,
            facts: GpuFacts {
                kind: GpuKind::Emulated,
                driver: None,
                devices: (0..devices).map(device).collect(),
            },
        }))
    }

    /// These data files, one a drive, as this memory reaches them without I/O buffers between.
    #[must_use]
    pub fn direct(&self, files: Vec<OwnedFd>) -> Arc<EmulatedDirect> {
        Arc::new(EmulatedDirect { mapping: Arc::clone(&self.mapping), files: files.into() })
    }

    /// The memory, for ways to it that are none of a run's.
    pub fn mapping(&self) -> &Arc<Mapping> {
        &self.mapping
    }
}

/// Data files read into and written from host memory that stands in for a GPU's, one I/O after the
/// other. It shows that what takes this way arrives, and nothing of GPUDirect Storage.
#[derive(Clone, Debug)]
pub struct EmulatedDirect {
    mapping: Arc<Mapping>,
    files: Arc<[OwnedFd]>,
}

impl DirectStorage for EmulatedDirect {
    fn open_queue(&self, bell: Bell) -> Result<Box<dyn DirectQueue>, SetupError> {
        let mover = self.clone();
        Ok(Box::new(ThreadQueue::start(bell, u64::MAX, move || Ok(mover))?))
    }
}

impl Mover for EmulatedDirect {
    fn room(&self) -> usize {
        1
    }

    fn begin(&mut self, parts: &[(u64, Part)], ended: &mut Vec<PartEnded>) {
        for (number, part) in parts {
            let length = part.memory.length_bytes as usize;
            let start = self.mapping.range_ptr(part.memory.offset_bytes as usize, length);
            let file = &self.files[part.drive];
            let moved = rustix::io::retry_on_intr(|| match part.is_write {
                true => {
                    // SAFETY: inside the mapping, which this keeps; the caller of `submit` promises
                    // that nobody writes to the piece.
                    let bytes = unsafe { std::slice::from_raw_parts(start, length) };
                    rustix::io::pwrite(file, bytes, part.offset_bytes)
                }
                false => {
                    // SAFETY: as above, and nobody reads it.
                    let bytes = unsafe { std::slice::from_raw_parts_mut(start, length) };
                    rustix::io::pread(file, bytes, part.offset_bytes)
                }
            });
            let result = match moved {
                Ok(bytes) => bytes as i64,
                Err(errno) => -i64::from(errno.raw_os_error()),
            };
            ended.push((*number, result));
        }
    }

    fn collect(&mut self, _: &mut Vec<PartEnded>) {}
}

impl PageLocker for EmulatedMemory {}

impl GpuMemory for EmulatedMemory {
    fn facts(&self) -> &GpuFacts {
        &self.facts
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn open_queue(&self, clock: Clock, _bell: Bell) -> Result<Box<dyn GpuQueue>, SetupError> {
        Ok(Box::new(EmulatedQueue {
            mapping: Arc::clone(&self.mapping),
            clock,
            next: Cell::new(0),
            ended: RefCell::default(),
        }))
    }
}

struct EmulatedQueue {
    mapping: Arc<Mapping>,
    clock: Clock,
    next: Cell<u64>,
    ended: RefCell<Vec<(JobId, WorkDone)>>,
}

impl EmulatedQueue {
    fn start(&self, piece: &Piece) -> *mut u8 {
        self.mapping.range_ptr(piece.offset_bytes as usize, piece.length_bytes as usize)
    }
}

impl GpuQueue for EmulatedQueue {
    unsafe fn submit(&self, work: &GpuWork, pieces: &[Piece]) -> Result<JobId, GpuFault> {
        let begun = self.clock.now();
        let (mut done, mut offset) = (WorkDone::default(), 0);
        for piece in pieces {
            let (start, length) = (self.start(piece), piece.length_bytes as usize);
            let block = |first_block: u64| first_block + offset as u64 / BLOCK_BYTES;
            match *work {
                GpuWork::Fill { name, first_block } => {
                    // SAFETY: inside the mapping, which this queue keeps; the caller promises that
                    // nobody else has the piece.
                    let bytes = unsafe { std::slice::from_raw_parts_mut(start, length) };
                    fill::fill(bytes, &name, block(first_block));
                }
                GpuWork::Check { name, first_block, mode } => {
                    // SAFETY: as above, and nobody writes to it.
                    let bytes = unsafe { std::slice::from_raw_parts(start, length) };
                    done.found.add(fill::verify(mode, bytes, &name, block(first_block)));
                }
                GpuWork::CopyIn { host } => {
                    // SAFETY: the caller promises host memory for all pieces, which lies elsewhere.
                    unsafe { std::ptr::copy_nonoverlapping(host.add(offset), start, length) };
                }
                GpuWork::CopyOut { host } => {
                    // SAFETY: as above.
                    unsafe { std::ptr::copy_nonoverlapping(start, host.add(offset), length) };
                }
            }
            offset += length;
        }
        done.device = self.clock.now() - begun;
        let id = JobId(self.next.get());
        self.next.set(id.0 + 1);
        self.ended.borrow_mut().push((id, done));
        Ok(id)
    }

    fn reap(&self, ended: &mut dyn FnMut(JobId, Result<WorkDone, GpuFault>)) {
        for (id, done) in self.ended.take() {
            ended(id, Ok(done));
        }
    }

    fn finish(&self) {}
}
