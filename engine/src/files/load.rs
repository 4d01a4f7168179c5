//! A load on files: who makes the calls, how much is under way at a time, and its run.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

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
}

/// Facts and flags of a load that all of its workers see.
pub(super) struct Shared<'a> {
    pub(super) directory: &'a HeldDirectory,
    pub(super) load: &'a FileLoad,
    stop: &'a AtomicBool,
    /// Set when it would be vain to go on.
    pub(super) gives_up: AtomicBool,
    /// Set when a request has failed.
    pub(super) has_failed: AtomicBool,
}

impl<'a> Shared<'a> {
    pub(super) fn new(
        directory: &'a HeldDirectory,
        load: &'a FileLoad,
        stop: &'a AtomicBool,
    ) -> Shared<'a> {
        let (gives_up, has_failed) = (AtomicBool::new(false), AtomicBool::new(false));
        Shared { directory, load, stop, gives_up, has_failed }
    }

    /// Whether no further script is to begin.
    pub(super) fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed) || self.gives_up.load(Ordering::Relaxed)
    }

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

/// Requests of one pass, in their order.
pub type FilePass<'p> = Box<dyn Iterator<Item = FileRequest> + 'p>;

/// Source of passes, which is given the time that those before have taken; none: the load is over.
pub(super) type Passes<'a, 'p> =
    &'a mut dyn FnMut(Duration) -> Result<Option<FilePass<'p>>, SetupError>;

/// Runs requests as they come from `next`, on this thread, until that gives none or `stop` is set;
/// scripts that have begun are done then, and the others left. The first is asked for when all
/// workers can begin.
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
    let mut once: Option<FilePass<'_>> = Some(Box::new(std::iter::from_fn(next)));
    run_passes(directory, load, &mut |_measured| Ok(once.take()), stop)
}

/// Runs the requests of one pass after the other, with the same workers and buffers, until there is
/// no pass, a request has failed or `stop` is set. `passes` is given the time that the passes
/// before have taken; what it does itself is not measured.
///
/// # Errors
/// As [`run`], and those of `passes`.
///
/// # Panics
/// As [`run`].
pub fn run_passes<'p>(
    directory: &HeldDirectory,
    load: &FileLoad,
    passes: &mut dyn FnMut(Duration) -> Result<Option<FilePass<'p>>, SetupError>,
    stop: &AtomicBool,
) -> Result<FileOutcome, SetupError> {
    assert!((1..=1 << 15).contains(&load.workers.count()) && load.in_flight > 0);
    assert!((1..=IO_BYTES_MAX).contains(&load.largest_bytes));
    let shared = Shared::new(directory, load, stop);
    let outcome = match load.workers {
        FileWorkers::Calls { threads } => calls::run(&shared, threads, passes)?,
        FileWorkers::Ring { depth } => ring::run(&shared, depth, passes)?,
    };
    match outcome.refuses_direct {
        true => Err(SetupError::NoDirectIo { path: directory.path().to_path_buf() }),
        false => Ok(outcome),
    }
}

/// Has `work` do the requests of each pass; an outcome with their times alone.
pub(super) fn each_pass<'a, 'p: 'a>(
    shared: &'a Shared<'a>,
    passes: Passes<'_, 'p>,
    mut work: impl FnMut(&mut Feed<'a>),
) -> Result<FileOutcome, SetupError> {
    let mut times = FileOutcome::default();
    while let Some(pass) = passes(Duration::from_nanos(times.elapsed_ns))? {
        let mut feed = Feed::new(shared, pass);
        let stopwatch = Stopwatch::start();
        work(&mut feed);
        stopwatch.stop(&mut times);
        feed.check()?;
        if shared.is_over() || shared.has_failed.load(Ordering::Relaxed) {
            break;
        }
    }
    Ok(times)
}

/// Beginning of the time that is measured.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch {
    began: Nanos,
    cpu_ns: u64,
}

impl Stopwatch {
    /// Begins the time now, and notes the CPU time of the process.
    pub fn start() -> Stopwatch {
        Stopwatch { began: monotonic_now(), cpu_ns: process_cpu_ns() }
    }

    /// Adds the time since the beginning, and the CPU time of the process.
    pub fn stop(&self, outcome: &mut FileOutcome) {
        outcome.elapsed_ns += (monotonic_now() - self.began).as_ns();
        outcome.cpu_ns += process_cpu_ns() - self.cpu_ns;
    }
}

/// CPU time of the process, to which the kernel's threads count that work for its rings.
fn process_cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Nanos::from_secs(time.tv_sec.unsigned_abs()).as_ns() + time.tv_nsec.unsigned_abs()
}
