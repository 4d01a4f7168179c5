//! A plain load between GPU memory, host memory and a data file: what the ways between them give
//! when nothing but copies and I/O is asked of them. Saturation uses it.

#![allow(unsafe_code, reason = "jobs on buffers that the worker keeps until they have ended")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::{DirectionFigures, LoadError, io_failure, result_of};
use crate::clock::{Clock, Nanos, monotonic_now};
use crate::device::DataFile;
use crate::error::SetupError;
use crate::fill::{ContentName, VerifyMode};
use crate::key::{EntryKey, mix64};
use crate::ring::{IoKind, LaneIo, LaneRing, Polling};
use crate::tier::gpu::{
    Bell, DirectIo, DirectQueue, DirectStorage, GpuFault, GpuMemory, GpuQueue, GpuWork, JobId,
    Piece, WorkDone,
};
use crate::tier::pages::HostPages;

/// Time that a thread waits for a bell before it looks itself.
const LOOK: Duration = Duration::from_micros(50);
/// Divisor of the patience with I/Os that do not end, once the load is to end early.
const PATIENCE_PART: u64 = 12;

/// Way that the bytes of a load take.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum VramWay {
    /// Host memory, page-locked where that can be done, to GPU memory.
    HostToVram,
    /// GPU memory to host memory.
    VramToHost,
    /// The file to an I/O buffer, from there to GPU memory.
    ReadBuffered,
    /// GPU memory to an I/O buffer, from there to the file.
    WriteBuffered,
    /// The file to GPU memory, past host memory.
    ReadDirect,
    /// GPU memory to the file, past host memory.
    WriteDirect,
    /// Content made in GPU memory by the GPU.
    Fill,
    /// Content compared in GPU memory by the GPU.
    Check,
}

impl VramWay {
    fn is_direct(self) -> bool {
        matches!(self, VramWay::ReadDirect | VramWay::WriteDirect)
    }
}

/// Load that is put on the GPU, the drive and the ways between.
#[derive(Clone, Debug)]
pub struct VramPlan {
    /// Way that the bytes take.
    pub way: VramWay,
    /// Size of each I/O or copy, bytes, a multiple of 4 KiB.
    pub io_bytes: u32,
    /// Number of I/Os or copies in flight on each thread, at least 1.
    pub depth: u32,
    /// Number of threads, at least 1.
    pub threads: u32,
    /// The first so many bytes of the file are used, at least one I/O.
    pub range_bytes: u64,
    /// Left out of the figures at the beginning.
    pub ramp: Duration,
    /// Length of the measurement after that.
    pub window: Duration,
    /// Random seed of the offsets.
    pub seed: u64,
    /// Time in which a GPU, or the way to its memory, ends something, or the load is given up; a
    /// twelfth of it once the load is to end early.
    pub silence_max: Duration,
}

impl VramPlan {
    /// GPU memory that it needs, bytes.
    pub fn memory_bytes(&self) -> u64 {
        u64::from(self.threads) * u64::from(self.depth) * u64::from(self.io_bytes)
    }
}

/// Between what the bytes go.
#[derive(Clone, Debug)]
pub struct VramEnds {
    /// GPU memory in which nothing is.
    pub memory: Arc<dyn GpuMemory>,
    /// The file, written once over the range.
    pub file: Arc<DataFile>,
    /// The way between the two past host memory, where there is one.
    pub direct: Option<Arc<dyn DirectStorage>>,
}

/// Figures of a load in its window.
#[derive(Clone, Debug, Default)]
pub struct VramFigures {
    /// I/Os or copies that ended in the window.
    pub ended: DirectionFigures,
    /// Length of the window.
    pub window_ns: u64,
    /// Whether the host memory was page-locked for the GPU.
    pub is_page_locked: bool,
}

/// Runs the load to its end, or until `is_over`. What a GPU, or the way to its memory, does not end
/// in time keeps its memory and its file for as long as the process lives.
///
/// # Errors
/// It could not begin, an I/O or a copy failed, or the GPU found wrong content.
///
/// # Panics
/// On a plan that no caller makes: no threads or depth, GPU memory that is too small, a direct way
/// where there is none.
pub fn measure_vram(
    ends: &VramEnds,
    plan: &VramPlan,
    is_over: &(dyn Fn() -> bool + Sync),
) -> Result<VramFigures, LoadError> {
    assert!(plan.threads > 0 && plan.depth > 0 && ends.memory.bytes() >= plan.memory_bytes());
    assert!(plan.range_bytes >= u64::from(plan.io_bytes) && plan.io_bytes > 0);
    let stop = AtomicBool::new(false);
    let start = monotonic_now() + Nanos::from_ns(plan.ramp.as_nanos() as u64);
    let window = (start, start + Nanos::from_ns(plan.window.as_nanos() as u64));
    let work = |index: u32| {
        let worked = Worker::new(ends, plan, index, window).and_then(|mut worker| {
            let worked = worker.run(&|| stop.load(Ordering::Relaxed) || is_over());
            if worker.is_silent {
                worker.abandon(ends);
            }
            worked
        });
        if worked.is_err() {
            // One that can't go on must not leave the others alone with the figures.
            stop.store(true, Ordering::Relaxed);
        }
        worked
    };
    let mut sum = VramFigures { is_page_locked: true, ..VramFigures::default() };
    sum.window_ns = (window.1 - window.0).as_ns();
    let mut failure = None;
    std::thread::scope(|scope| {
        let mut threads = Vec::new();
        for index in 0..plan.threads {
            let builder = std::thread::Builder::new().name("ringfall-vram".to_owned());
            match builder.spawn_scoped(scope, move || work(index)) {
                Ok(thread) => threads.push(thread),
                Err(error) => {
                    stop.store(true, Ordering::Relaxed);
                    let reason = error.to_string();
                    failure = Some(SetupError::NoThread { reason }.into());
                    break;
                }
            }
        }
        for thread in threads {
            match thread.join() {
                Ok(Ok(one)) => {
                    sum.ended.add(&one.ended);
                    sum.is_page_locked &= one.is_page_locked;
                }
                Ok(Err(error)) => failure = failure.take().or(Some(error)),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
    });
    failure.map_or(Ok(sum), Err)
}

/// One thread of a load. What is in flight ends before its memory is given back: queues first.
struct Worker<'a> {
    queue: Box<dyn GpuQueue>,
    direct: Option<Box<dyn DirectQueue>>,
    _pages: Option<HostPages>,
    ring: LaneRing,
    plan: &'a VramPlan,
    file: &'a DataFile,
    /// Where its part of the GPU memory begins, bytes.
    first_byte: u64,
    window: (Nanos, Nanos),
    /// By lane: where in the file, and since when.
    lanes: Vec<(u64, Nanos)>,
    jobs: BTreeMap<JobId, u32>,
    /// Direct I/Os in flight.
    directs: u32,
    /// Whether it was given up, with something in flight that may end at any time or never.
    is_silent: bool,
    drawn: u64,
    seed: u64,
    figures: VramFigures,
}

enum Ended {
    Io(u32, i32),
    Job(u32, Result<WorkDone, GpuFault>),
    Direct(u32, i32),
}

fn fault(fault: &GpuFault) -> LoadError {
    LoadError::Gpu { what: fault.to_string() }
}

impl<'a> Worker<'a> {
    fn new(
        ends: &'a VramEnds,
        plan: &'a VramPlan,
        index: u32,
        window: (Nanos, Nanos),
    ) -> Result<Worker<'a>, LoadError> {
        let this = std::thread::current();
        let bell = Bell::new(move || this.unpark());
        let mut ring =
            LaneRing::new(ends.file.raw_fd(), plan.depth, plan.io_bytes as usize, Polling::None)?;
        let (start, bytes) = ring.region();
        // SAFETY: the ring keeps the region, and is dropped after the answer.
        let pages = unsafe { ends.memory.lock_pages(start, bytes) }.ok();
        let direct = match (plan.way.is_direct(), &ends.direct) {
            (true, Some(direct)) => Some(direct.open_queue(bell.clone())?),
            (true, None) => panic!("a direct load was asked for where there is no such way"),
            (false, _) => None,
        };
        for lane in 0..plan.depth {
            ring.buffer(lane).fill(lane as u8);
        }
        let first_byte = u64::from(index) * u64::from(plan.depth) * u64::from(plan.io_bytes);
        Ok(Worker {
            queue: ends.memory.open_queue(Clock::Os, bell)?,
            direct,
            figures: VramFigures { is_page_locked: pages.is_some(), ..VramFigures::default() },
            _pages: pages,
            ring,
            plan,
            file: &ends.file,
            first_byte,
            window,
            lanes: vec![(0, Nanos::ZERO); plan.depth as usize],
            jobs: BTreeMap::new(),
            directs: 0,
            is_silent: false,
            drawn: 0,
            seed: mix64(plan.seed ^ mix64(u64::from(index) + 1)),
        })
    }

    fn run(&mut self, is_over: &dyn Fn() -> bool) -> Result<VramFigures, LoadError> {
        if self.plan.way == VramWay::Check {
            for lane in 0..self.plan.depth {
                self.start_job(lane, &GpuWork::Fill { name: self.name(lane), first_block: 0 })?;
            }
            self.queue.finish();
            self.queue.reap(&mut |_, _| {});
            self.jobs.clear();
        }
        for lane in 0..self.plan.depth {
            self.begin(lane)?;
        }
        let (mut ended, mut heard) = (Vec::new(), monotonic_now());
        while self.ring.in_flight() > 0 || !self.jobs.is_empty() || self.directs > 0 {
            self.collect(&mut ended);
            let now = monotonic_now();
            if ended.is_empty() {
                self.expect_an_end(now - heard, is_over)?;
                self.wait()?;
                continue;
            }
            heard = now;
            let goes_on = now < self.window.1 && !is_over();
            for one in ended.drain(..) {
                if let Some(lane) = self.conclude(one)? {
                    self.count(lane, now);
                    if goes_on {
                        self.begin(lane)?;
                    }
                }
            }
        }
        Ok(std::mem::take(&mut self.figures))
    }

    fn name(&self, lane: u32) -> ContentName {
        ContentName { seed: self.seed, key: EntryKey(u128::from(lane)), version: 0 }
    }

    fn piece(&self, lane: u32) -> Piece {
        let length_bytes = u64::from(self.plan.io_bytes);
        Piece { offset_bytes: self.first_byte + u64::from(lane) * length_bytes, length_bytes }
    }

    fn begin(&mut self, lane: u32) -> Result<(), LoadError> {
        self.drawn += 1;
        let ios = self.plan.range_bytes / u64::from(self.plan.io_bytes);
        let draw = mix64(self.seed.wrapping_sub(self.drawn));
        let place = ((u128::from(draw) * u128::from(ios)) >> 64) as u64;
        let offset_bytes = place * u64::from(self.plan.io_bytes);
        self.lanes[lane as usize] = (offset_bytes, monotonic_now());
        match self.plan.way {
            VramWay::ReadBuffered => {
                self.push(lane, IoKind::Read);
                Ok(())
            }
            VramWay::HostToVram => self.copy(lane, true),
            VramWay::VramToHost | VramWay::WriteBuffered => self.copy(lane, false),
            VramWay::ReadDirect | VramWay::WriteDirect => {
                let is_write = self.plan.way == VramWay::WriteDirect;
                let io = DirectIo { drive: 0, offset_bytes, is_write };
                let piece = self.piece(lane);
                let direct = self.direct.as_ref().expect("a direct load has its queue");
                // SAFETY: the lane's own piece, which nothing else uses until this has ended; the
                // queue is dropped, and so finished, before the worker is gone.
                unsafe { direct.submit(u64::from(lane), io, &[piece]) };
                self.directs += 1;
                Ok(())
            }
            VramWay::Fill => {
                self.start_job(lane, &GpuWork::Fill { name: self.name(lane), first_block: 0 })
            }
            VramWay::Check => {
                let (name, mode) = (self.name(lane), VerifyMode::Full);
                self.start_job(lane, &GpuWork::Check { name, first_block: 0, mode })
            }
        }
    }

    fn copy(&mut self, lane: u32, is_in: bool) -> Result<(), LoadError> {
        let host = self.ring.buffer(lane).as_mut_ptr();
        let work = match is_in {
            true => GpuWork::CopyIn { host },
            false => GpuWork::CopyOut { host },
        };
        self.start_job(lane, &work)
    }

    fn start_job(&mut self, lane: u32, work: &GpuWork) -> Result<(), LoadError> {
        let piece = self.piece(lane);
        // SAFETY: the lane's own piece and its own buffer, on which no I/O is in flight, and which
        // nothing else uses until this has ended; the queue is finished before the ring is dropped.
        let id = unsafe { self.queue.submit(work, &[piece]) }.map_err(|error| fault(&error))?;
        self.jobs.insert(id, lane);
        Ok(())
    }

    fn push(&mut self, lane: u32, kind: IoKind) {
        let (offset_bytes, length_bytes) = (self.lanes[lane as usize].0, self.plan.io_bytes);
        let io = LaneIo { lane, kind, offset_bytes, length_bytes };
        self.ring.push(io);
    }

    /// Kind of its I/Os to the drive.
    fn kind(&self) -> IoKind {
        match self.plan.way {
            VramWay::ReadBuffered | VramWay::ReadDirect => IoKind::Read,
            _ => IoKind::Write,
        }
    }

    /// Adds the I/Os and copies that have ended since the last look.
    fn collect(&mut self, ended: &mut Vec<Ended>) {
        if self.ring.in_flight() > 0 {
            self.ring.look();
            while let Some((lane, result)) = self.ring.next_completion() {
                ended.push(Ended::Io(lane, result));
            }
        }
        let jobs = &mut self.jobs;
        self.queue.reap(&mut |id, result| {
            if let Some(lane) = jobs.remove(&id) {
                ended.push(Ended::Job(lane, result));
            }
        });
        if let Some(direct) = &self.direct {
            direct.reap(&mut |lane, result| ended.push(Ended::Direct(lane as u32, result)));
        }
    }

    /// Gives the load up when a GPU, or the way to its memory, has ended nothing for too long.
    fn expect_an_end(
        &mut self,
        silence: Nanos,
        is_over: &dyn Fn() -> bool,
    ) -> Result<(), LoadError> {
        let all = Nanos::from_ns(self.plan.silence_max.as_nanos() as u64);
        let hurried = Nanos::from_ns(all.as_ns() / PATIENCE_PART);
        let is_too_long = silence >= all || (silence >= hurried && is_over());
        if !is_too_long || (self.jobs.is_empty() && self.directs == 0) {
            return Ok(());
        }
        self.is_silent = true;
        let (seconds, directs) = (silence.as_secs_f64(), self.directs);
        let what = match directs {
            0 => {
                format!("none of {} jobs of the GPU has ended for {seconds:.1} s", self.jobs.len())
            }
            _ => format!(
                "none of {directs} I/Os between GPU memory and storage has ended for {seconds:.1} s"
            ),
        };
        Err(LoadError::Gpu { what })
    }

    /// Leaves all that is in flight its memory and its file: waiting for it might take for ever.
    fn abandon(self, ends: &VramEnds) {
        let kept = (Arc::clone(&ends.memory), Arc::clone(&ends.file), ends.direct.clone());
        std::mem::forget((self, kept));
    }

    fn wait(&mut self) -> Result<(), LoadError> {
        if self.jobs.is_empty() && self.directs == 0 {
            let waited = self.ring.submit_and_wait();
            return waited.map_err(|error| self.failed(0, result_of(&error)));
        }
        std::thread::park_timeout(LOOK);
        Ok(())
    }

    /// Goes on with what has ended; the lane, if it is done.
    fn conclude(&mut self, ended: Ended) -> Result<Option<u32>, LoadError> {
        let whole = self.plan.io_bytes as i32;
        match (ended, self.plan.way) {
            (Ended::Io(lane, result), _) => {
                if result != whole {
                    return Err(self.failed(lane, result));
                }
                match self.kind() {
                    IoKind::Read => self.copy(lane, true).map(|()| None),
                    IoKind::Write | IoKind::Flush => Ok(Some(lane)),
                }
            }
            (Ended::Job(_, Err(error)), _) => Err(fault(&error)),
            (Ended::Job(_, Ok(done)), _) if done.found.blocks_bad > 0 => {
                let what = format!("the GPU found {} wrong blocks", done.found.blocks_bad);
                Err(LoadError::Gpu { what })
            }
            (Ended::Job(lane, Ok(_)), VramWay::WriteBuffered) => {
                self.push(lane, IoKind::Write);
                Ok(None)
            }
            (Ended::Job(lane, Ok(_)), _) => Ok(Some(lane)),
            (Ended::Direct(lane, result), _) => {
                self.directs -= 1;
                if result == whole { Ok(Some(lane)) } else { Err(self.failed(lane, result)) }
            }
        }
    }

    fn count(&mut self, lane: u32, now: Nanos) {
        if self.window.0 <= now && now < self.window.1 {
            let latency = now - self.lanes[lane as usize].1;
            self.figures.ended.count(self.plan.io_bytes, latency.as_ns());
        }
    }

    fn failed(&self, lane: u32, result: i32) -> LoadError {
        let offset_bytes = self.lanes[lane as usize].0;
        io_failure(self.file, self.kind(), offset_bytes, self.plan.io_bytes, result)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::{CacheDir, Preallocate};
    use crate::tier::gpu::emulated::EmulatedMemory;
    use crate::units::{BLOCK_BYTES, MIB};

    #[test]
    fn every_way_moves_whole_ios_and_counts_those_of_its_window() {
        let path = std::env::temp_dir().join(format!("ringfall-vram-{}", std::process::id()));
        let mut directory = CacheDir::open(&path).unwrap();
        let (file, file_path) = directory.create_data_file().unwrap();
        let file = DataFile::new(file, file_path, Preallocate::Write).unwrap();
        file.prepare(16 * MIB / BLOCK_BYTES).unwrap();
        let file = Arc::new(file);
        let memory = EmulatedMemory::new(1, 4 * MIB).unwrap();
        let direct: Arc<dyn DirectStorage> = memory.direct(vec![file.descriptor().unwrap()]);
        let ends = VramEnds { memory, file: Arc::clone(&file), direct: Some(direct) };
        for way in [
            VramWay::HostToVram,
            VramWay::VramToHost,
            VramWay::WriteBuffered,
            VramWay::ReadBuffered,
            VramWay::WriteDirect,
            VramWay::ReadDirect,
            VramWay::Fill,
            VramWay::Check,
        ] {
            let plan = VramPlan {
                way,
                io_bytes: 64 << 10,
                depth: 4,
                threads: 2,
                range_bytes: 16 * MIB,
                ramp: Duration::ZERO,
                window: Duration::from_secs(3_600),
                seed: 7,
                silence_max: Duration::from_secs(60),
            };
            let looks = std::sync::atomic::AtomicU32::new(0);
            let figures =
                measure_vram(&ends, &plan, &|| looks.fetch_add(1, Ordering::Relaxed) > 20).unwrap();
            let ended = figures.ended;
            assert!(ended.ios >= 8, "{way:?}: {ended:?}");
            assert_eq!(ended.bytes, ended.ios * (64 << 10), "{way:?}");
            assert_eq!(ended.latency.count(), ended.ios, "{way:?}");
        }
        drop((ends, file));
        directory.remove().unwrap();
    }
}
