//! A recording of an engine's calls on files, or of requests to drives as such calls, done again: a
//! thread for each lane, whose operations begin when those that they followed have ended, and as
//! much later as in the recording.
//!
//! Not here: what follows what (`ringfall_workloads::recording`).

use std::io::{self, IoSlice, IoSliceMut};
use std::num::NonZeroU64;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use ringfall_core::error::SetupError;
use ringfall_core::fill::{ContentName, fill};
use ringfall_core::held::HeldDirectory;
use ringfall_core::key::{EntryKey, mix64};
use ringfall_core::metrics::Histogram;
use ringfall_core::model::LatencySpread;
use ringfall_core::units::BLOCK_BYTES;
use ringfall_engine::buffer::AlignedBytes;
use ringfall_engine::files::{
    FileLoad, FileRequest, FileScript, FileStep, FileTile, FileWorkers, Marks, OpenHow, StepKind,
    close, run,
};
use ringfall_host::interrupt::Interrupt;
use ringfall_host::{BlockDelta, Machine};
use ringfall_model::facts::{CallsInFlight, ReplayLatency, ReplayedOperations};
use ringfall_workloads::recording::{
    After, FileAction, LaneOperation, OpenMode, Order, Part, RecordedOperation,
};
use rustix::fs::{AtFlags, Mode, OFlags, RenameFlags, fcntl_setfl, renameat_with};
use rustix::io::{Errno, ReadWriteFlags, preadv2, pwritev2};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::{LayoutError, told};
use crate::remedy::remedy;
use crate::saturate::Counted;
use crate::threads::{locked, on_threads};

/// Length of the writes that make files before the replay, bytes.
const SETUP_BYTES: u64 = 4 << 20;
const SETUP_THREADS: usize = 4;
/// Gaps below this are added up until they are worth a sleep, which takes longer than it is told.
const SLEEP_MIN_NS: i64 = 50_000;
/// Interval at which whoever waits looks whether a signal ends the replay.
const LOOK: Duration = Duration::from_millis(50);
/// Rights of what the replay makes: the owner's.
const FILE_MODE: u32 = 0o600;
const DIRECTORY_MODE: u32 = 0o700;

/// A recording, and the way in which it is done again.
#[derive(Clone, Debug)]
pub struct Replay<'a> {
    /// Operations, and what must be there before.
    pub part: &'a Part,
    /// Lanes of the operations.
    pub order: &'a Order,
    /// Factor by which gaps are shorter; none: there are none.
    pub speed: Option<f64>,
    /// LatencySpread that operations take at least, as of a slower store.
    pub injected: Option<LatencySpread>,
    /// Whether files are opened with `O_DIRECT` where they were.
    pub is_direct: bool,
    /// Random seed of contents and of injected latencies.
    pub seed: u64,
    /// Set when a signal ends the replay.
    pub interrupt: &'a Interrupt,
}

/// Outcome of a replay.
#[derive(Clone, Debug, Default)]
pub struct ReplayOutcome {
    /// Time from the begin of the first operation to the end of the last, s.
    pub elapsed_s: f64,
    /// Operations that ended as in the recording, by kind.
    pub operations: Vec<ReplayedOperations>,
    /// Number of operations that ended otherwise, or had no open file.
    pub differing: u64,
    /// Sentence about the first of them.
    pub first_differing: Option<String>,
    /// Sentence about reads that a cache served and not the drive.
    pub cached: Option<String>,
    /// Requests that the drive completed meanwhile, those of others too, as the kernel counts them.
    pub drive: Option<BlockDelta>,
    /// Calls in flight, as they were recorded.
    pub recorded_in_flight: CallsInFlight,
    /// The same of the replay.
    pub in_flight: CallsInFlight,
}

/// Open file with the marks of its blocks.
struct Open {
    file: OwnedFd,
    marks: Marks,
}

/// Number of operations of a lane that have ended.
#[derive(Default)]
struct Progress {
    ended: Mutex<usize>,
    more: Condvar,
}

/// Facts and files that all lanes see.
struct Shared<'a> {
    replay: &'a Replay<'a>,
    directory: &'a HeldDirectory,
    open: Vec<Mutex<Option<Arc<Open>>>>,
    progress: Vec<Progress>,
    began: Instant,
    /// Set when a thread is missing, on which others would wait.
    gives_up: AtomicBool,
}

impl Replay<'_> {
    /// Memory of the lanes' buffers, bytes.
    pub fn buffer_bytes(&self) -> u64 {
        self.order.lanes.iter().map(|lane| buffer_bytes(lane)).sum()
    }

    /// Makes the files and directories that the recording found, outside of the page cache; a
    /// sentence where that failed.
    pub fn set_up(&self, directory: &HeldDirectory) -> Result<Option<String>, LayoutError> {
        let before = self.part.directories_before.iter();
        let mut made =
            before.map(|path| vec![FileStep::MakeDirectories { path: Arc::clone(path) }]);
        let mut files = self.part.files_before.iter().map(|file| {
            let path = Arc::clone(&file.path);
            let how = OpenHow::Create { exclusive: true, truncate: false };
            let places = (0..file.bytes).step_by(SETUP_BYTES as usize);
            let writes = places.map(|offset_bytes| {
                let bytes = SETUP_BYTES.min(file.bytes - offset_bytes);
                FileStep::Write { offset_bytes, bytes }
            });
            let steps = [FileStep::Open { path, how, direct: false }].into_iter().chain(writes);
            steps.chain([FileStep::Sync, FileStep::DontNeed, FileStep::Close]).collect::<Vec<_>>()
        });
        let load = FileLoad {
            workers: FileWorkers::Calls { threads: SETUP_THREADS },
            in_flight: 2 * SETUP_THREADS,
            largest_bytes: SETUP_BYTES,
            seed: self.seed,
        };
        let phases: [&mut dyn Iterator<Item = Vec<FileStep>>; 2] = [&mut made, &mut files];
        for phase in phases {
            let mut next = || {
                let script = FileScript { steps: phase.next()? };
                Some(FileRequest { tiles: vec![FileTile { scripts: vec![script] }] })
            };
            let outcome = run(directory, &load, &mut next, self.interrupt.flag())?;
            if let Some(fault) = outcome.faults.first() {
                return Ok(Some(told("making the files that the recording found", fault)));
            }
        }
        Ok(None)
    }

    /// Does the operations on a drive of that machine; none where a signal ended that.
    ///
    /// # Errors
    /// A thread can't be started.
    pub fn run(
        &self,
        directory: &HeldDirectory,
        machine: &Machine,
    ) -> Result<Option<ReplayOutcome>, LayoutError> {
        let lanes = &self.order.lanes;
        raise_open_files();
        let shared = Shared {
            replay: self,
            directory,
            open: (0..self.part.handles).map(|_| Mutex::new(None)).collect(),
            progress: lanes.iter().map(|_| Progress::default()).collect(),
            began: Instant::now(),
            gives_up: AtomicBool::new(false),
        };
        // All begin when the last has its buffer.
        let ready = Progress::default();
        let work = |index: usize| {
            let _leaving = Leaving(&shared);
            let mut lane = Lane::new(&shared, index);
            ready.add();
            if shared.wait(&ready, lanes.len() as u32 - 1) {
                lane.run(&lanes[index]);
            }
            Ok(lane.counts)
        };
        let refused = |error: io::Error| {
            shared.gives_up.store(true, Ordering::Relaxed);
            SetupError::NoThread { reason: error.to_string() }
        };
        let before = Counted::now(machine, false);
        let found = on_threads("ringfall-replay", 0..lanes.len(), work, refused);
        let after = Counted::now(machine, false);
        let mut counts = Counts::default();
        for lane in found {
            counts.add(lane?);
        }
        let calls = self.part.operations.iter().filter(|operation| operation.is_call);
        let recorded = calls.map(|call| (call.begin_ns, call.end_ns())).collect();
        let read_bytes = counts.kinds[StepKind::Read as usize].bytes;
        let counted = before.zip(after);
        let cached =
            counted.as_ref().and_then(|(before, after)| before.warning(after, machine, read_bytes));
        let drive = counted.and_then(|(before, after)| before.disk(&after, machine));
        let outcome = ReplayOutcome { cached, drive, ..counts.outcome(recorded) };
        Ok((!self.interrupt.is_set()).then_some(outcome))
    }
}

/// Has the process open as many files as it may have, or as many as before where that is refused:
/// an opening that fails then is told.
fn raise_open_files() {
    let most = getrlimit(Resource::Nofile).maximum;
    let _best_effort = setrlimit(Resource::Nofile, Rlimit { current: most, maximum: most });
}

/// Calls in flight, of the beginning and end of each, ns.
fn in_flight(spans: Vec<(u64, u64)>) -> CallsInFlight {
    let edges =
        spans.iter().flat_map(|(begin, end)| [(*begin, true), ((*end).max(begin + 1), false)]);
    let mut edges: Vec<(u64, bool)> = edges.collect();
    // Of the same time ends first.
    edges.sort_unstable();
    let mut found = CallsInFlight::default();
    let (mut now, mut last_ns, mut busy_ns, mut calls_ns) = (0u64, 0, 0u64, 0u128);
    for (at_ns, begins) in edges {
        if now > 0 {
            busy_ns += at_ns - last_ns;
            calls_ns += u128::from(now) * u128::from(at_ns - last_ns);
        }
        last_ns = at_ns;
        now = if begins { now + 1 } else { now - 1 };
        found.most = found.most.max(now);
    }
    found.mean = calls_ns as f64 / busy_ns.max(1) as f64;
    found
}

/// Has the other lanes end when this one panics: they would wait for it for ever.
struct Leaving<'a>(&'a Shared<'a>);

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.gives_up.store(true, Ordering::Relaxed);
        }
    }
}

impl Progress {
    fn add(&self) {
        *locked(&self.ended) += 1;
        self.more.notify_all();
    }
}

impl Shared<'_> {
    fn is_over(&self) -> bool {
        self.replay.interrupt.is_set() || self.gives_up.load(Ordering::Relaxed)
    }

    /// Waits until so many have ended and one more; whether they have.
    fn wait(&self, progress: &Progress, place: u32) -> bool {
        let mut ended = locked(&progress.ended);
        while *ended <= place as usize {
            if self.is_over() {
                return false;
            }
            let waited = progress.more.wait_timeout(ended, LOOK);
            ended = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }
}

#[derive(Clone, Default)]
struct KindCounts {
    bytes: u64,
    /// Part of the recorded times that may be strace's, ns.
    strace_ns: u64,
    recorded: Histogram,
    replayed: Histogram,
}

#[derive(Clone, Default)]
struct Counts {
    kinds: [KindCounts; StepKind::ALL.len()],
    /// Beginning and end of each call since the replay's beginning, ns.
    spans: Vec<(u64, u64)>,
    differing: u64,
    /// The first that ended otherwise, by its end since the replay's beginning, ns.
    first_differing: Option<(u64, String)>,
    began: Option<Instant>,
    ended: Option<Instant>,
}

impl Counts {
    fn add(&mut self, mut other: Counts) {
        for (mine, theirs) in self.kinds.iter_mut().zip(&other.kinds) {
            mine.bytes += theirs.bytes;
            mine.strace_ns += theirs.strace_ns;
            mine.recorded.merge(&theirs.recorded);
            mine.replayed.merge(&theirs.replayed);
        }
        self.spans.append(&mut other.spans);
        self.differing += other.differing;
        let first = [self.first_differing.take(), other.first_differing];
        self.first_differing = first.into_iter().flatten().min();
        self.began = [self.began, other.began].into_iter().flatten().min();
        self.ended = self.ended.max(other.ended);
    }

    fn outcome(self, recorded: Vec<(u64, u64)>) -> ReplayOutcome {
        let elapsed = self.began.zip(self.ended).map(|(began, ended)| ended - began);
        let kinds = StepKind::ALL.into_iter().zip(&self.kinds);
        let kinds = kinds.filter(|(_, counts)| counts.replayed.count() > 0);
        ReplayOutcome {
            elapsed_s: elapsed.unwrap_or_default().as_secs_f64(),
            operations: kinds
                .map(|(kind, counts)| ReplayedOperations {
                    name: kind.name(),
                    count: counts.replayed.count(),
                    bytes: counts.bytes,
                    recorded: latency(&counts.recorded),
                    replayed: latency(&counts.replayed),
                    strace_s: counts.strace_ns as f64 / 1e9,
                })
                .collect(),
            differing: self.differing,
            first_differing: self.first_differing.map(|(_, told)| told),
            cached: None,
            drive: None,
            recorded_in_flight: in_flight(recorded),
            in_flight: in_flight(self.spans),
        }
    }
}

fn latency(of: &Histogram) -> ReplayLatency {
    let us = |quantile| of.quantile_ns(quantile).map(|ns| ns as f64 / 1e3);
    ReplayLatency { p50_us: us(0.5), p99_us: us(0.99), total_s: of.sum_ns() as f64 / 1e9 }
}

struct Lane<'a> {
    shared: &'a Shared<'a>,
    index: usize,
    buffer: AlignedBytes,
    counts: Counts,
    /// Time by which gaps have been too short so far, or too long where it is negative, ns.
    owed_ns: i64,
}

impl<'a> Lane<'a> {
    fn new(shared: &'a Shared<'a>, index: usize) -> Lane<'a> {
        let bytes = buffer_bytes(&shared.replay.order.lanes[index]);
        let mut buffer = AlignedBytes::zeroed(bytes as usize);
        let name =
            ContentName { seed: shared.replay.seed, key: EntryKey(index as u128), version: 0 };
        fill(buffer.bytes_mut(), &name, 0);
        Lane { shared, index, buffer, counts: Counts::default(), owed_ns: 0 }
    }

    fn run(&mut self, operations: &[LaneOperation]) {
        // Sleeps end when they are told to, not up to 50 µs later. Where that can't be had, gaps
        // are owed to each other all the same.
        let _best_effort = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        self.counts.began = Some(Instant::now());
        for (place, LaneOperation { operation, gap_ns, after }) in operations.iter().enumerate() {
            let progress = &self.shared.progress;
            let has_ended =
                |after: &After| self.shared.wait(&progress[after.lane as usize], after.place);
            if !after.iter().all(has_ended) || !self.pause(*gap_ns) {
                return;
            }
            self.perform(operation, place);
            progress[self.index].add();
        }
        self.counts.ended = Some(Instant::now());
    }

    /// Waits for so long as the recording did, and the speed has it; whether the replay goes on.
    fn pause(&mut self, gap_ns: u64) -> bool {
        let Some(speed) = self.shared.replay.speed else { return !self.shared.is_over() };
        self.owed_ns = self.owed_ns.saturating_add((gap_ns as f64 / speed) as i64);
        while self.owed_ns >= SLEEP_MIN_NS && !self.shared.is_over() {
            let began = Instant::now();
            std::thread::sleep(Duration::from_nanos(self.owed_ns.unsigned_abs()).min(LOOK));
            let slept = i64::try_from(began.elapsed().as_nanos()).unwrap_or(i64::MAX);
            self.owed_ns = self.owed_ns.saturating_sub(slept);
        }
        !self.shared.is_over()
    }

    /// Waits until an operation has taken as long as is injected; the time that it took then.
    fn slowed(&self, took: Duration, place: usize) -> Duration {
        let Some(latencies) = self.shared.replay.injected else { return took };
        let draw = mix64(mix64(self.shared.replay.seed ^ self.index as u64) ^ place as u64);
        let least = Duration::from_nanos(latencies.at(draw).as_ns());
        let began = Instant::now();
        loop {
            let passed = took + began.elapsed();
            let left = least.saturating_sub(passed);
            if left.is_zero() || self.shared.is_over() {
                return passed;
            }
            std::thread::sleep(left.min(LOOK));
        }
    }

    fn perform(&mut self, recorded: &RecordedOperation, place: usize) {
        let kind = kind(recorded.action);
        let Called { answer, mut took } = self.act(recorded.action);
        let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        if recorded.is_call {
            took = self.slowed(took, place);
            let end = self.shared.began.elapsed();
            self.counts.spans.push((ns(end.saturating_sub(took)), ns(end)));
        } else if answer.is_ok() {
            return;
        }
        let differs = match answer {
            Ok(moved) if recorded.failure.is_some() => {
                Some(format!("it went well, with {moved} bytes,"))
            }
            Ok(moved) if moved != recorded.moved_bytes as usize => {
                Some(format!("it moved {moved} bytes in place of {}", recorded.moved_bytes))
            }
            Err(errno) if recorded.failure.is_none() => {
                let error = io::Error::from(errno);
                Some(format!("{error}; {}", remedy(&error)))
            }
            _ => None,
        };
        if let Some(differs) = differs {
            self.counts.differing += 1;
            let path = self.path(recorded.action);
            let end = ns(self.shared.began.elapsed());
            self.counts
                .first_differing
                .get_or_insert_with(|| (end, format!("{} of {path}: {differs}", kind.name())));
            return;
        }
        let counts = &mut self.counts.kinds[kind as usize];
        counts.bytes += u64::from(recorded.moved_bytes);
        let waits = u64::from(recorded.strace_waits);
        let strace_ns = self.shared.replay.part.strace_ns.saturating_mul(1 + waits);
        counts.strace_ns += strace_ns.min(recorded.took_ns);
        counts.recorded.record(recorded.took_ns);
        counts.replayed.record(ns(took));
    }

    fn path(&self, action: FileAction) -> String {
        let names = &self.shared.replay.part.names;
        match action {
            FileAction::Open { name, .. }
            | FileAction::Look { name, .. }
            | FileAction::MakeDirectory { name }
            | FileAction::Remove { name, .. }
            | FileAction::Rename { from: name, .. }
            | FileAction::Link { from: name, .. } => names[name as usize].to_string(),
            _ => "an open file".to_owned(),
        }
    }

    fn act(&mut self, action: FileAction) -> Called {
        let Shared { replay, directory, open, .. } = self.shared;
        let name = |name: u32| &*replay.part.names[name as usize];
        let file = |handle: u32| locked(&open[handle as usize]).clone().ok_or(Errno::BADF);
        let buffer = self.buffer.bytes_mut();
        match action {
            FileAction::Open { name: of, handle, mode } => {
                let flags = flags(mode, replay.is_direct);
                let (rights, mut opened) = (Mode::from_raw_mode(FILE_MODE), None);
                let called = timed(|| {
                    opened = Some(rustix::fs::openat(directory, name(of), flags, rights)?);
                    Ok(0)
                });
                if let Some((file, handle)) = opened.zip(handle) {
                    let marks = Marks::new(replay.seed, name(of));
                    *locked(&open[handle as usize]) = Some(Arc::new(Open { file, marks }));
                }
                called
            }
            FileAction::Read { handle, offset, bytes, flags } => on_file(file(handle), |open| {
                let buffer = &mut buffer[..bytes as usize];
                match flags {
                    0 => rustix::io::pread(&open.file, buffer, offset),
                    _ => preadv2(&open.file, &mut [IoSliceMut::new(buffer)], offset, rwf(flags)),
                }
            }),
            FileAction::Write { handle, offset, bytes, flags } => {
                let file = file(handle);
                let buffer = &mut buffer[..bytes as usize];
                if let Ok(open) = &file {
                    open.marks.write(buffer, offset);
                }
                on_file(file, |open| match flags {
                    0 => rustix::io::pwrite(&open.file, buffer, offset),
                    _ => pwritev2(&open.file, &[IoSlice::new(buffer)], offset, rwf(flags)),
                })
            }
            FileAction::SetFlags { handle, append, direct } => {
                let mode = OpenMode { append, direct, ..OpenMode::default() };
                let flags = flags(mode, replay.is_direct) & (OFlags::APPEND | OFlags::DIRECT);
                on_file(file(handle), |open| fcntl_setfl(&open.file, flags).map(|()| 0))
            }
            FileAction::Sync { handle, data_only } => {
                on_file(file(handle), |open| match data_only {
                    true => rustix::fs::fdatasync(&open.file).map(|()| 0),
                    false => rustix::fs::fsync(&open.file).map(|()| 0),
                })
            }
            FileAction::LookAtOpen { handle, .. } => {
                on_file(file(handle), |open| rustix::fs::fstat(&open.file).map(|_found| 0))
            }
            FileAction::Close { handle } => {
                let open = locked(&open[handle as usize]).take().ok_or(Errno::BADF);
                match open.map(Arc::try_unwrap) {
                    Ok(Ok(Open { file, .. })) => timed(|| close(file).map(|()| 0)),
                    // Another lane uses it still, and closes it then.
                    Ok(Err(_)) => Called { answer: Ok(0), took: Duration::ZERO },
                    Err(errno) => Called { answer: Err(errno), took: Duration::ZERO },
                }
            }
            FileAction::Look { name: of, .. } => timed(|| {
                let found = rustix::fs::statat(directory, name(of), AtFlags::SYMLINK_NOFOLLOW);
                found.map(|_found| 0)
            }),
            FileAction::MakeDirectory { name: of } => timed(|| {
                let mode = Mode::from_raw_mode(DIRECTORY_MODE);
                rustix::fs::mkdirat(directory, name(of), mode).map(|()| 0)
            }),
            FileAction::Rename { from, to, exclusive } => timed(|| {
                let (from, to) = (name(from), name(to));
                match exclusive {
                    true => renameat_with(directory, from, directory, to, RenameFlags::NOREPLACE),
                    false => rustix::fs::renameat(directory, from, directory, to),
                }
                .map(|()| 0)
            }),
            FileAction::Link { from, to } => timed(|| {
                let (from, to, flags) = (name(from), name(to), AtFlags::empty());
                rustix::fs::linkat(directory, from, directory, to, flags).map(|()| 0)
            }),
            FileAction::Remove { name: of, directory: is_directory } => timed(|| {
                let flags = if is_directory { AtFlags::REMOVEDIR } else { AtFlags::empty() };
                rustix::fs::unlinkat(directory, name(of), flags).map(|()| 0)
            }),
        }
    }
}

struct Called {
    answer: Result<usize, Errno>,
    took: Duration,
}

fn timed(call: impl FnOnce() -> Result<usize, Errno>) -> Called {
    let began = Instant::now();
    let answer = call();
    Called { answer, took: began.elapsed() }
}

/// Makes a call on a file, if it is open.
fn on_file(
    file: Result<Arc<Open>, Errno>,
    call: impl FnOnce(&Open) -> Result<usize, Errno>,
) -> Called {
    match file {
        Ok(open) => timed(|| call(&open)),
        Err(errno) => Called { answer: Err(errno), took: Duration::ZERO },
    }
}

/// Memory for the longest read or write of a lane, a whole number of blocks, at least one.
fn buffer_bytes(lane: &[LaneOperation]) -> u64 {
    let bytes = lane.iter().map(|one| match one.operation.action {
        FileAction::Read { bytes, .. } | FileAction::Write { bytes, .. } => u64::from(bytes),
        _ => 0,
    });
    bytes.max().unwrap_or(0).max(1).next_multiple_of(BLOCK_BYTES)
}

fn kind(action: FileAction) -> StepKind {
    match action {
        FileAction::Open { mode, .. } if mode.create => StepKind::Create,
        FileAction::Open { .. } | FileAction::SetFlags { .. } => StepKind::Open,
        FileAction::Read { .. } => StepKind::Read,
        FileAction::Write { .. } => StepKind::Write,
        FileAction::Sync { .. } => StepKind::Sync,
        FileAction::Look { .. } | FileAction::LookAtOpen { .. } => StepKind::Stat,
        FileAction::MakeDirectory { .. } => StepKind::MakeDirectories,
        FileAction::Rename { .. } => StepKind::Rename,
        FileAction::Link { .. } => StepKind::Link,
        FileAction::Remove { .. } => StepKind::Unlink,
        FileAction::Close { .. } => StepKind::Close,
    }
}

fn rwf(flags: u32) -> ReadWriteFlags {
    ReadWriteFlags::from_bits_retain(flags)
}

fn flags(mode: OpenMode, is_direct: bool) -> OFlags {
    let mut flags = OFlags::NOFOLLOW | OFlags::CLOEXEC;
    flags |= match (mode.read, mode.write) {
        (_, false) => OFlags::RDONLY,
        (false, true) => OFlags::WRONLY,
        (true, true) => OFlags::RDWR,
    };
    flags.set(OFlags::CREATE, mode.create);
    flags.set(OFlags::EXCL, mode.exclusive);
    flags.set(OFlags::TRUNC, mode.truncate);
    flags.set(OFlags::APPEND, mode.append);
    flags.set(OFlags::DIRECT, mode.direct && is_direct);
    // The first has the bit of the second.
    flags.set(OFlags::DSYNC, mode.data_sync);
    if mode.sync {
        flags |= OFlags::SYNC;
    }
    flags.set(OFlags::DIRECTORY, mode.directory);
    flags
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_in_flight_are_those_while_there_is_any() {
        let found = |spans: &[(u64, u64)]| {
            let CallsInFlight { mean, most } = in_flight(spans.to_vec());
            (mean, most)
        };
        assert_eq!(found(&[]), (0.0, 0));
        assert_eq!(found(&[(10, 20), (90, 100)]), (1.0, 1));
        // One begins when the other ends.
        assert_eq!(found(&[(20, 30), (10, 20)]), (1.0, 1));
        assert_eq!(found(&[(10, 20), (10, 20), (15, 20), (15, 15)]), (26.0 / 10.0, 4));
    }
}
