//! A load on files: who makes the calls, how much is under way at a time, and its run.

use std::sync::atomic::{AtomicBool, Ordering};

use rustix::time::{ClockId, clock_gettime};

use super::outcome::FileOutcome;
use super::script::FileRequest;
use super::tile::Feed;
use super::{calls, ring};
use crate::buffer::ChunkPool;
use crate::clock::{Nanos, monotonic_now};
use crate::error::SetupError;
use crate::fill::{ContentName, fill};
use crate::held::HeldDirectory;
use crate::key::EntryKey;
use crate::units::BLOCK_BYTES;

/// Most bytes of one I/O: what Linux moves by one call (`MAX_RW_COUNT`).
const IO_BYTES_MAX: u64 = 0x7fff_f000;

/// Makers of a load's calls.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FileWorkers {
    /// Threads with plain system calls, one at a time each.
    Calls {
        /// Number of threads, each of which does one tile at a time.
        threads: usize,
    },
    /// The calling thread, with a ring.
    Ring {
        /// Number of tiles that are done at a time, one operation of each; at most 32,768.
        depth: usize,
    },
}

impl FileWorkers {
    /// Number of tiles that can be done at a time.
    #[must_use]
    pub fn count(self) -> usize {
        match self {
            FileWorkers::Calls { threads: count } | FileWorkers::Ring { depth: count } => count,
        }
    }
}

/// A load on files.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FileLoad {
    /// Makers of the calls.
    pub workers: FileWorkers,
    /// Number of requests under way at a time.
    pub in_flight: usize,
    /// Bytes of the largest read or write. Each worker has a buffer of so many.
    pub largest_bytes: u64,
    /// Random seed of the objects' content.
    pub seed: u64,
    /// Whether what is read is compared with what was written: 16 bytes of each 4 KiB block, which
    /// costs a cache miss a block.
    pub verifies: bool,
}

/// Facts and flags of a load that all of its workers see.
pub(super) struct Shared<'a> {
    pub(super) directory: &'a HeldDirectory,
    pub(super) load: &'a FileLoad,
    stop: &'a AtomicBool,
    /// Set when it would be vain to go on.
    pub(super) gives_up: AtomicBool,
}

impl<'a> Shared<'a> {
    pub(super) fn new(
        directory: &'a HeldDirectory,
        load: &'a FileLoad,
        stop: &'a AtomicBool,
    ) -> Shared<'a> {
        Shared { directory, load, stop, gives_up: AtomicBool::new(false) }
    }

    /// Whether no further script is to begin.
    pub(super) fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed) || self.gives_up.load(Ordering::Relaxed)
    }

    /// A buffer for each worker.
    pub(super) fn buffers(&self) -> Result<ChunkPool, SetupError> {
        let bytes = self.load.largest_bytes.next_multiple_of(BLOCK_BYTES);
        ChunkPool::new(bytes as usize, self.load.workers.count() as u32)
    }

    /// Fills a worker's buffer, so that what is written from it can't be compressed.
    pub(super) fn fill(&self, buffer: &mut [u8], worker: usize) {
        let key = EntryKey(worker as u128);
        fill(buffer, &ContentName { seed: self.load.seed, key, version: 0 }, 0);
    }
}

/// Runs requests as they come from `next`, on this thread, until that gives none or `stop` is set;
/// scripts that have begun are done then, and the others left.
///
/// # Errors
/// When a thread, a ring or the memory can't be had, the file system refuses O_DIRECT, or a request
/// makes no sense. Steps that fail are no error: the outcome counts them.
///
/// # Panics
/// On a load that no caller makes: no workers or too many, no requests under way at a time, or
/// I/Os of no bytes or of 2 GiB.
pub fn run(
    directory: &HeldDirectory,
    load: &FileLoad,
    next: &mut dyn FnMut() -> Option<FileRequest>,
    stop: &AtomicBool,
) -> Result<FileOutcome, SetupError> {
    assert!((1..=1 << 15).contains(&load.workers.count()) && load.in_flight > 0);
    assert!((1..=IO_BYTES_MAX).contains(&load.largest_bytes));
    let shared = Shared::new(directory, load, stop);
    let mut feed = Feed::new(&shared, next);
    let outcome = match load.workers {
        FileWorkers::Calls { threads } => calls::run(&shared, threads, &mut feed)?,
        FileWorkers::Ring { depth } => ring::run(&shared, depth, &mut feed)?,
    };
    if let Some(refusal) = feed.into_refusal() {
        return Err(refusal);
    }
    match outcome.refuses_direct {
        true => Err(SetupError::NoDirectIo { path: directory.path().to_path_buf() }),
        false => Ok(outcome),
    }
}

/// Beginning of the time that is measured.
pub(super) struct Stopwatch {
    began: Nanos,
    cpu_ns: u64,
}

impl Stopwatch {
    pub(super) fn start() -> Stopwatch {
        Stopwatch { began: monotonic_now(), cpu_ns: process_cpu_ns() }
    }

    /// Adds the time since the beginning.
    pub(super) fn stop(&self, outcome: &mut FileOutcome) {
        outcome.elapsed_ns += (monotonic_now() - self.began).as_ns();
        outcome.cpu_ns += process_cpu_ns() - self.cpu_ns;
    }
}

/// CPU time of the process, to which the kernel's threads count that work for its rings.
fn process_cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Nanos::from_secs(time.tv_sec.unsigned_abs()).as_ns() + time.tv_nsec.unsigned_abs()
}
