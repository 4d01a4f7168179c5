//! Cost of an I/O in our own code: I/Os a second and a core, and of each I/O its memory
//! allocations, looks at the clock and system calls. Over the null device, which moves no byte, and
//! over a ring and a file. Fails when an I/O of the steady state allocates.
//!
//! `cargo bench -p ringfall-engine --bench io_cost`; under `cargo test` a smoke. With `--case NAME
//! --ios N --counts` one case alone, and nothing that reads a real clock, which valgrind does not
//! bear: `valgrind --tool=callgrind` of two numbers of I/Os gives the instructions an I/O.

#![allow(unsafe_code, reason = "an allocator that counts")]
#![expect(clippy::unwrap_used, reason = "a bench that can't go on fails")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::{Cell, RefCell};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ringfall_doubles::MemoryDevice;
use ringfall_engine::buffer::Ticket;
use ringfall_engine::clock::{Clock, Nanos, monotonic_now};
use ringfall_engine::device::{DataFile, Device, FileDevice, Preallocate};
use ringfall_engine::engine::{Engine, LocalEngine, LocalParts};
use ringfall_engine::fill::VerifyMode;
use ringfall_engine::key::{EntryKey, mix64};
use ringfall_engine::ring::{Ring, RingConfig, RingSetup};
use ringfall_engine::shard::{Content, Durability, ReadOutcome, Shard, WriteMode, WriteOutcome};
use ringfall_engine::tier::cpu::CpuPool;
use ringfall_engine::units::BLOCK_BYTES;

/// The system's allocator, and how often it was asked.
struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: every call goes to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: what the caller promises is what it asks.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: what the caller promises is what it asks.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: what the caller promises is what it asks.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Allocations an I/O above which the bench fails: a second's histograms are made once a second,
/// and that alone may allocate.
const ALLOCATIONS_MAX: f64 = 0.001;
/// Entries of the storage tier.
const ENTRIES: u64 = 16_384;
/// Rounds of each case; the median is reported.
const ROUNDS: usize = 5;

#[derive(Clone, Copy, PartialEq)]
enum Medium {
    Null,
    File,
}

#[derive(Clone, Copy, PartialEq)]
enum Work {
    /// Entries are written, each in the place of the oldest, and read back.
    WriteRead,
    /// Entries that were written before are read, in any order.
    Read,
}

#[derive(Clone, Copy)]
struct Case {
    name: &'static str,
    medium: Medium,
    entry_blocks: u64,
    /// Operations at once.
    tasks: u32,
    work: Work,
    ios: u64,
}

/// `null-entry` is metadata alone: an entry of one block. `null-blocks` is the data path: an entry
/// of many I/Os.
const CASES: [Case; 5] = [
    Case::new("null-entry", Medium::Null, 1, 1, Work::WriteRead, 400_000),
    Case::new("null-read", Medium::Null, 1, 1, Work::Read, 1_000_000),
    Case::new("null-blocks", Medium::Null, 256, 1, Work::WriteRead, 2_000_000),
    Case::new("file-read-1", Medium::File, 1, 1, Work::Read, 5_000),
    Case::new("file-read-32", Medium::File, 1, 32, Work::Read, 40_000),
];

impl Case {
    const fn new(
        name: &'static str,
        medium: Medium,
        entry_blocks: u64,
        tasks: u32,
        work: Work,
        ios: u64,
    ) -> Case {
        Case { name, medium, entry_blocks, tasks, work, ios }
    }
}

/// Counters of one case, and the seconds it took.
#[derive(Clone, Copy, Default)]
struct Figures {
    ios: u64,
    seconds: f64,
    allocations: u64,
    looks: u64,
    enters: u64,
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let value = |name: &str| {
        let at = arguments.iter().position(|argument| argument == name)?;
        arguments.get(at + 1).cloned()
    };
    let full = arguments.iter().any(|argument| argument == "--bench");
    let only = value("--case");
    let ios = value("--ios").map(|ios| ios.parse::<u64>().unwrap());
    let counts_only = arguments.iter().any(|argument| argument == "--counts");
    let rounds = match (counts_only, full && ios.is_none()) {
        (true, _) => 0,
        (false, true) => ROUNDS,
        (false, false) => 1,
    };
    let mut failed = false;
    for case in CASES {
        if only.as_ref().is_some_and(|only| only != case.name) {
            continue;
        }
        let ios = ios.unwrap_or(if full { case.ios } else { case.ios / 100 });
        let case = Case { ios, ..case };
        let mut rates: Vec<f64> = (0..rounds)
            .map(|_| {
                let figures = run(&case, Clock::Os);
                figures.ios as f64 / figures.seconds / 1e6
            })
            .collect();
        rates.sort_by(f64::total_cmp);
        let counted = run(&case, Clock::Ticking(Rc::new(Cell::new(Nanos::from_ns(1)))));
        let each = |count: u64| count as f64 / counted.ios as f64;
        if let (Some(least), Some(most)) = (rates.first(), rates.last()) {
            let median = rates[rates.len() / 2];
            print!("{:<12} {median:.3} M I/Os/s a core ({least:.3}..{most:.3}); ", case.name);
        }
        println!(
            "an I/O: {:.4} allocations, {:.2} looks at the clock, {:.2} system calls",
            each(counted.allocations),
            each(counted.looks),
            each(counted.enters),
        );
        failed |= full && each(counted.allocations) >= ALLOCATIONS_MAX;
    }
    assert!(!failed, "an I/O of the steady state allocates memory");
}

/// Where the counters stood at a moment.
struct Marks {
    case: Case,
    clock: Clock,
    ring: Option<Rc<Ring<Ticket>>>,
    /// Operations begun so far, warm-up included.
    begun: Cell<u64>,
    start: Cell<Figures>,
    end: Cell<Figures>,
}

impl Marks {
    fn ops(&self) -> u64 {
        (self.case.ios / self.case.entry_blocks).max(4)
    }

    fn warm_ops(&self) -> u64 {
        // Every entry has its place, and every place has been used again.
        2 * self.entries() + 1
    }

    fn entries(&self) -> u64 {
        (ENTRIES / self.case.entry_blocks).max(2)
    }

    fn now(&self) -> Figures {
        Figures {
            ios: self.begun.get() * self.case.entry_blocks,
            seconds: match self.clock {
                Clock::Os => monotonic_now().as_secs_f64(),
                Clock::Ticking(_) | Clock::Simulated(_) => 0.0,
            },
            allocations: ALLOCATIONS.load(Ordering::Relaxed),
            looks: match &self.clock {
                Clock::Ticking(cell) => cell.get().as_ns(),
                Clock::Os | Clock::Simulated(_) => 0,
            },
            enters: self.ring.as_ref().map_or(0, |ring| ring.enters()),
        }
    }

    /// The number of the operation that may begin; none when there were enough.
    fn next(&self) -> Option<u64> {
        let number = self.begun.get();
        if number == self.warm_ops() {
            self.start.set(self.now());
        }
        if number == self.warm_ops() + self.ops() {
            self.end.set(self.now());
        }
        self.begun.set(number + 1);
        (number < self.warm_ops() + self.ops()).then_some(number)
    }

    fn figures(&self) -> Figures {
        let (start, end) = (self.start.get(), self.end.get());
        Figures {
            ios: end.ios - start.ios,
            seconds: end.seconds - start.seconds,
            allocations: end.allocations - start.allocations,
            looks: end.looks - start.looks,
            enters: end.enters - start.enters,
        }
    }
}

fn run(case: &Case, clock: Clock) -> Figures {
    match case.medium {
        Medium::Null => {
            let device: Rc<dyn Device> = Rc::new(MemoryDevice::null(clock.clone()));
            drive(case, clock, &device, None)
        }
        Medium::File => {
            let name = format!("ringfall-io-cost-{}", std::process::id());
            let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
            let mut options = std::fs::OpenOptions::new();
            options.read(true).write(true).create(true).truncate(true);
            let file = options.custom_flags(libc::O_DIRECT).open(&path).unwrap();
            let file = DataFile::new(file, path.clone(), Preallocate::Reserve).unwrap();
            file.prepare(ENTRIES).unwrap();
            let file = Arc::new(file);
            let mut setup =
                RingSetup::new(RingConfig { entries: 64, ..RingConfig::default() }).unwrap();
            setup.register_files(&[file.raw_fd()]).unwrap();
            let ring = Rc::new(Ring::over(setup, &[file.raw_fd()], clock.clone()));
            let files = [Arc::clone(&file)];
            let device: Rc<dyn Device> = Rc::new(FileDevice::new(Rc::clone(&ring), &files));
            let figures = drive(case, clock, &device, Some(ring));
            std::fs::remove_file(path).unwrap();
            figures
        }
    }
}

fn drive(
    case: &Case,
    clock: Clock,
    device: &Rc<dyn Device>,
    ring: Option<Rc<Ring<Ticket>>>,
) -> Figures {
    let marks = Rc::new(Marks {
        case: *case,
        clock: clock.clone(),
        ring: ring.clone(),
        begun: Cell::new(0),
        start: Cell::default(),
        end: Cell::default(),
    });
    let engine = engine(case, &marks, clock, device);
    let (runtime, shard) = (engine.runtime(), &engine.shards()[0]);
    shard.measure().open(Nanos::ZERO, Nanos::MAX);
    let failure: Rc<RefCell<Option<String>>> = Rc::default();
    for _ in 0..case.tasks {
        let (shard, marks) = (Rc::clone(shard), Rc::clone(&marks));
        let failure = Rc::clone(&failure);
        runtime.spawn(Box::pin(async move {
            // Each begins when the one before has ended, as the operations of a request do.
            let mut begun = marks.clock.now();
            while let Some(number) = marks.next() {
                match operate(&shard, &marks, number, begun).await {
                    Ok(ended) => begun = ended,
                    Err(why) => {
                        failure.borrow_mut().get_or_insert(why);
                    }
                }
            }
        }));
    }
    match ring {
        None => engine.run_ready(),
        // As an executor does: one wait once no task is ready.
        Some(ring) => {
            runtime.run_ready();
            while runtime.task_count() > 0 {
                ring.wait(None);
                runtime.run_ready();
            }
        }
    }
    assert_eq!(runtime.task_count(), 0, "all operations ended");
    assert_eq!(*failure.borrow(), None, "every operation worked");
    marks.figures()
}

/// One operation; when it ended. At first each entry is written once.
async fn operate(
    shard: &Rc<Shard>,
    marks: &Marks,
    number: u64,
    begun: Nanos,
) -> Result<Nanos, String> {
    let case = &marks.case;
    let (home, entries) = (shard.id(), marks.entries());
    let (is_write, key) = match case.work {
        _ if number < entries => (true, number),
        Work::WriteRead if number.is_multiple_of(2) => (true, number),
        Work::WriteRead => (false, number - 1),
        Work::Read => (false, mix64(number) % entries),
    };
    let key = EntryKey(u128::from(key));
    if is_write {
        let bytes = case.entry_blocks * BLOCK_BYTES;
        let (named, mode) = ((key, bytes), WriteMode::Replace);
        match shard.write_from(begun, home, named, mode).await {
            WriteOutcome::Written { times, .. } => Ok(times.ended),
            other => Err(format!("{other:?}")),
        }
    } else {
        match shard.read_from(begun, home, key).await {
            ReadOutcome::Hit { times, .. } => Ok(times.ended),
            other => Err(format!("{other:?}")),
        }
    }
}

fn engine(case: &Case, marks: &Marks, clock: Clock, device: &Rc<dyn Device>) -> LocalEngine {
    let blocks = marks.entries() * case.entry_blocks;
    Engine::builder()
        .seed(1)
        .storage_bytes(blocks * BLOCK_BYTES)
        .segment_bytes(256 * BLOCK_BYTES)
        .io_bytes(BLOCK_BYTES)
        .queue_depth(64)
        .verify(VerifyMode::Off)
        .durability(Durability::None)
        .local(LocalParts {
            clock,
            cpu: CpuPool::new(0).unwrap(),
            device: &mut |_shard| Rc::clone(device),
            content: &Content::default,
        })
        .unwrap()
}
