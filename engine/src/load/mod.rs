//! A plain load on a file or device, by pinned threads with rings of their own: what a device does
//! when nothing but I/O is asked of it. Saturation and preconditioning use it. Beside it a load
//! between GPU memory, host memory and a file ([`measure_vram`]).
//!
//! Lives here: keeping a number of I/Os of one kind in flight, and counting them. Must not: which
//! load is tried when (`src/running/saturate`), users, tiers.

mod vram;
mod worker;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::JoinHandle;

use crate::clock::monotonic_now;
use crate::device::DataFile;
use crate::error::{ErrorKind, IoError, Operation, SetupError};
use crate::key::Tier;
use crate::metrics::Histogram;
use crate::ring::{IoKind, Polling};
use crate::units::BLOCK_BYTES;
pub use vram::{VramEnds, VramFigures, VramPlan, VramWay, measure_vram};
use worker::Worker;

/// Order in which a load's I/Os go through the file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// One after the other over all threads, from the start again at the end.
    Sequential,
    /// Anywhere, a multiple of the I/O's size.
    Random,
}

/// Load that is put on the device.
#[derive(Clone, Debug)]
pub struct LoadPlan {
    /// Part of the I/Os that read, percent.
    pub read_percent: u32,
    /// Size of each I/O, bytes, a multiple of 4 KiB.
    pub io_bytes: u32,
    /// I/Os in flight, over all threads.
    pub depth: u32,
    /// The first so many bytes of the file are used.
    pub range_bytes: u64,
    /// Order in which I/Os go through the file.
    pub access: Access,
    /// Way in which I/Os reach the kernel and come back: system calls and interrupts, or polling.
    pub polling: Polling,
    /// A thread for each, on that core.
    pub cpus: Vec<Option<usize>>,
    /// Ends by itself after so many bytes; none: when stopped.
    pub bytes_max: Option<u64>,
    /// Random seed of offsets and directions.
    pub seed: u64,
    /// Whether buffers are in pages of 4 KiB, also where there are huge ones; NVMe commands have
    /// theirs in huge ones all the same.
    pub small_pages: bool,
}

/// Why a load ended early.
#[derive(Clone, Debug, thiserror::Error)]
pub enum LoadError {
    /// It could not begin.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// An I/O failed.
    #[error(transparent)]
    Io(#[from] IoError),
    /// A GPU, or the way to its memory, failed or never answered.
    #[error("{what}")]
    Gpu {
        /// Which, and what became of it.
        what: String,
    },
}

/// Figures of one direction, or of one way, in the window.
#[derive(Clone, Debug, Default)]
pub struct DirectionFigures {
    /// Number of I/Os or copies that completed in the window.
    pub ios: u64,
    /// Bytes that these moved, made or compared.
    pub bytes: u64,
    /// From the beginning of each to its end.
    pub latency: Histogram,
}

impl DirectionFigures {
    fn count(&mut self, bytes: u32, latency_ns: u64) {
        self.ios += 1;
        self.bytes += u64::from(bytes);
        self.latency.record(latency_ns);
    }

    fn add(&mut self, other: &DirectionFigures) {
        self.ios += other.ios;
        self.bytes += other.bytes;
        self.latency.merge(&other.latency);
    }
}

/// Figures of a load in its window.
#[derive(Clone, Debug, Default)]
pub struct LoadFigures {
    /// Reads that completed in the window.
    pub read: DirectionFigures,
    /// Writes that completed in the window.
    pub write: DirectionFigures,
    /// Bytes of all reads that completed, also those before and after the window: what the kernel's
    /// counters, read before the load and after it, are held against.
    pub all_read_bytes: u64,
    /// Length of the window.
    pub window_ns: u64,
    /// CPU time of the threads in it; a polling kernel thread's is not among it.
    pub cpu_ns: u64,
    /// Whether every thread's buffers were registered with the kernel.
    pub registered_buffers: bool,
    /// Whether every thread's buffers were in huge pages; none where the kernel does not say.
    pub huge_buffers: Option<bool>,
}

impl LoadFigures {
    fn add(&mut self, other: &LoadFigures) {
        self.read.add(&other.read);
        self.write.add(&other.write);
        self.all_read_bytes += other.all_read_bytes;
        self.cpu_ns += other.cpu_ns;
        self.registered_buffers &= other.registered_buffers;
        let both = self.huge_buffers.zip(other.huge_buffers);
        self.huge_buffers = both.map(|(mine, theirs)| mine && theirs);
    }

    /// Bytes of both directions.
    pub fn bytes(&self) -> u64 {
        self.read.bytes + self.write.bytes
    }

    /// I/Os of both directions.
    pub fn ios(&self) -> u64 {
        self.read.ios + self.write.ios
    }
}

/// The error of an I/O on `file` that ended with `result`: a negative errno, or fewer bytes than
/// were asked for.
fn io_failure(
    file: &DataFile,
    kind: IoKind,
    offset_bytes: u64,
    length_bytes: u32,
    result: i32,
) -> LoadError {
    let (kind_of_failure, errno) = match result {
        0.. => (ErrorKind::Truncated, 0),
        errno => (ErrorKind::of_errno(-errno), -errno),
    };
    LoadError::Io(IoError {
        kind: kind_of_failure,
        operation: Operation::of(kind),
        tier: Tier::Storage,
        file: file.path().display().to_string(),
        offset_bytes,
        length_bytes: length_bytes.into(),
        errno,
    })
}

/// The result of an I/O that the kernel could not be asked for.
fn result_of(error: &std::io::Error) -> i32 {
    -error.raw_os_error().unwrap_or(libc::EIO)
}

/// Seen by all threads.
#[derive(Debug)]
struct Shared {
    stop: AtomicBool,
    /// I/Os completed in the window count: those from its start until its end.
    window_start_ns: AtomicU64,
    window_end_ns: AtomicU64,
    /// Since the load began, for whoever watches.
    ios: AtomicU64,
    bytes: AtomicU64,
    /// Bytes that may still be asked for.
    left: AtomicU64,
    /// I/Os begun, where they go in order.
    cursor: AtomicU64,
    running: AtomicU64,
}

/// A load that runs.
pub struct Load {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<Result<LoadFigures, LoadError>>>,
}

impl Load {
    /// Starts the threads; returns when each has its ring. Of a file whose NVMe namespace is open
    /// ([`DataFile::open_namespace`]) the I/Os are NVMe commands to that.
    ///
    /// # Errors
    /// The first thread's that could not begin.
    ///
    /// # Panics
    /// On a plan that no caller makes: no threads, a size that is no multiple of 4 KiB, a range
    /// that does not hold one I/O a thread.
    pub fn start(file: &Arc<DataFile>, plan: &LoadPlan) -> Result<Load, LoadError> {
        let count = plan.cpus.len().clamp(1, plan.depth.max(1) as usize);
        assert!(u64::from(plan.io_bytes).is_multiple_of(BLOCK_BYTES) && plan.io_bytes > 0);
        assert!(plan.range_bytes >= u64::from(plan.io_bytes) * count as u64 && plan.depth > 0);
        let shared = Arc::new(Shared {
            stop: AtomicBool::new(false),
            window_start_ns: AtomicU64::new(u64::MAX),
            window_end_ns: AtomicU64::new(u64::MAX),
            ios: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            cursor: AtomicU64::new(0),
            left: AtomicU64::new(plan.bytes_max.unwrap_or(u64::MAX)),
            running: AtomicU64::new(count as u64),
        });
        let (ready_sender, ready) = sync_channel(count);
        let mut load = Load { shared: Arc::clone(&shared), threads: Vec::new() };
        for index in 0..count {
            let worker = Worker::new(plan, index, count, Arc::clone(file), Arc::clone(&shared));
            let ready = ready_sender.clone();
            let thread = std::thread::Builder::new()
                .name(format!("ringfall-load-{index}"))
                .spawn(move || worker.run(&ready))
                .map_err(|error| SetupError::NoThread { reason: error.to_string() });
            match thread {
                Ok(thread) => load.threads.push(thread),
                Err(error) => {
                    let _ended = load.stop();
                    return Err(error.into());
                }
            }
        }
        drop(ready_sender);
        load.await_ready(&ready, count)
    }

    fn await_ready(self, ready: &Receiver<()>, count: usize) -> Result<Load, LoadError> {
        for _ in 0..count {
            // A thread that fails drops its sender: the others are told to stop, and it says why.
            if ready.recv().is_err() {
                return match self.stop() {
                    Err(error) => Err(error),
                    Ok(_) => unreachable!("a thread that is not ready has failed"),
                };
            }
        }
        Ok(self)
    }

    /// Counts I/Os and latencies from now on: the ramp-up is over.
    pub fn open_window(&self) {
        self.shared.window_start_ns.store(monotonic_now().as_ns(), Ordering::Relaxed);
    }

    /// I/Os and bytes completed since the load began.
    pub fn progress(&self) -> (u64, u64) {
        (self.shared.ios.load(Ordering::Relaxed), self.shared.bytes.load(Ordering::Relaxed))
    }

    /// Whether every thread has ended by itself: its bytes are moved, or it failed.
    pub fn is_over(&self) -> bool {
        self.shared.running.load(Ordering::Relaxed) == 0
    }

    /// Closes the window, stops the threads, and adds up what they counted.
    pub fn stop(self) -> Result<LoadFigures, LoadError> {
        let end_ns = monotonic_now().as_ns();
        self.shared.window_end_ns.store(end_ns, Ordering::Relaxed);
        self.shared.stop.store(true, Ordering::Relaxed);
        let start_ns = self.shared.window_start_ns.load(Ordering::Relaxed);
        let mut figures = LoadFigures {
            registered_buffers: true,
            huge_buffers: Some(true),
            ..LoadFigures::default()
        };
        let mut first_failure = None;
        for thread in self.threads {
            match thread.join() {
                Ok(Ok(one)) => figures.add(&one),
                Ok(Err(error)) => first_failure = first_failure.or(Some(error)),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        figures.window_ns = end_ns.saturating_sub(start_ns);
        first_failure.map_or(Ok(figures), Err)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::{CacheDir, Preallocate};

    fn scratch(name: &str, blocks: u64) -> (CacheDir, Arc<DataFile>) {
        let path =
            std::env::temp_dir().join(format!("ringfall-load-{}-{name}", std::process::id()));
        let mut directory = CacheDir::open(&path).unwrap();
        let (file, path) = directory.create_data_file().unwrap();
        let file = DataFile::new(file, path, Preallocate::Write).unwrap();
        file.prepare(blocks).unwrap();
        (directory, Arc::new(file))
    }

    fn plan(read_percent: u32) -> LoadPlan {
        LoadPlan {
            read_percent,
            io_bytes: 64 << 10,
            depth: 8,
            range_bytes: 16 << 20,
            access: Access::Random,
            polling: Polling::None,
            cpus: vec![None, None],
            bytes_max: None,
            seed: 7,
            small_pages: false,
        }
    }

    #[test]
    fn one_pass_in_order_leaves_no_gap_however_unlike_the_threads_are() {
        let (directory, file) = scratch("pass", 4096);
        let plan = LoadPlan {
            access: Access::Sequential,
            bytes_max: Some(16 << 20),
            depth: 7,
            cpus: vec![None; 5],
            ..plan(0)
        };
        let load = Load::start(&file, &plan).unwrap();
        while !load.is_over() {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        load.stop().unwrap();
        let bytes = std::fs::read(file.path()).unwrap();
        assert!(bytes.chunks(4096).all(|block| block.iter().any(|&byte| byte != 0)));
        directory.remove().unwrap();
    }

    #[test]
    fn buffers_are_in_small_pages_where_that_is_asked_for() {
        let (directory, file) = scratch("small", 4096);
        let plan = LoadPlan { small_pages: true, bytes_max: Some(1 << 20), ..plan(100) };
        let load = Load::start(&file, &plan).unwrap();
        load.open_window();
        assert_eq!(load.stop().unwrap().huge_buffers, Some(false));
        directory.remove().unwrap();
    }

    #[test]
    fn writes_exactly_what_it_was_told_to_in_order() {
        let (directory, file) = scratch("exact", 4096);
        let plan = LoadPlan { access: Access::Sequential, bytes_max: Some(40 << 20), ..plan(0) };
        let load = Load::start(&file, &plan).unwrap();
        load.open_window();
        while !load.is_over() {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        assert_eq!(load.progress().1, 40 << 20);
        let figures = load.stop().unwrap();
        assert_eq!(figures.read.ios, 0);
        assert!(figures.write.bytes <= 40 << 20);
        // Every block of the range was written: none is zeros any more.
        let bytes = std::fs::read(file.path()).unwrap();
        assert!(bytes.chunks(4096).all(|block| block.iter().any(|&byte| byte != 0)));
        directory.remove().unwrap();
    }

    /// Regression: FUSE ends an I/O as it is handed over, and a thread that found more each time it
    /// looked told nobody of them: the search for limits never ended.
    #[test]
    fn what_ends_at_once_is_told_while_the_load_goes_on() {
        let (directory, file) = scratch("at-once", 4096);
        // What the page cache holds is read at once.
        std::fs::read(file.path()).unwrap();
        let cached = std::fs::File::open(file.path()).unwrap();
        let file = DataFile::new(cached, file.path().to_owned(), Preallocate::Write).unwrap();
        let file = Arc::new(file);
        let plan = LoadPlan { depth: 4, cpus: vec![None], ..plan(100) };
        let load = Load::start(&file, &plan).unwrap();
        let told = (0..5_000).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(1));
            load.progress().0 > 0
        });
        load.stop().unwrap();
        directory.remove().unwrap();
        assert!(told);
    }

    #[test]
    fn reads_outside_of_the_window_are_counted_for_themselves() {
        let (directory, file) = scratch("outside", 4096);
        let plan = LoadPlan { bytes_max: Some(1 << 20), ..plan(100) };
        let load = Load::start(&file, &plan).unwrap();
        while !load.is_over() {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        let figures = load.stop().unwrap();
        assert_eq!((figures.read.bytes, figures.all_read_bytes), (0, 1 << 20));
        directory.remove().unwrap();
    }

    #[test]
    fn a_mix_is_the_mix_and_the_window_counts_what_completed_in_it() {
        let (directory, file) = scratch("mix", 4096);
        let load = Load::start(&file, &plan(70)).unwrap();
        load.open_window();
        while load.progress().0 < 2_000 {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        let figures = load.stop().unwrap();
        let share = figures.read.ios as f64 / figures.ios() as f64;
        // Four standard deviations of 1,900 draws.
        assert!((share - 0.7).abs() < 0.05, "{share}");
        assert_eq!(figures.bytes(), figures.ios() * (64 << 10));
        assert_eq!(figures.read.latency.count(), figures.read.ios);
        assert!(figures.window_ns > 0 && figures.cpu_ns > 0);
        directory.remove().unwrap();
    }

    #[test]
    fn a_file_that_is_shorter_than_it_was_is_an_error() {
        let (directory, file) = scratch("short", 4096);
        std::fs::OpenOptions::new().write(true).open(file.path()).unwrap().set_len(4096).unwrap();
        let load = Load::start(&file, &plan(100)).unwrap();
        while !load.is_over() {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        let error = load.stop().unwrap_err().to_string();
        assert!(error.contains("ringfall.kv"), "{error}");
        directory.remove().unwrap();
    }
}
