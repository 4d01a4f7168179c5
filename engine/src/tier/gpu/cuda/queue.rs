//! A shard's streams on each device: work that makes and checks content, copies in, copies out,
//! each in a stream of its own, timed by the device between two events.

#![allow(unsafe_code, reason = "calls of the driver")]

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::ffi::c_void;
use std::sync::Arc;

use super::super::{Bell, GpuFault, GpuQueue, GpuWork, JobId, Piece, WorkDone};
use super::driver::{Driver, Handle, NOT_READY};
use super::{Device, PORTABLE};
use crate::clock::Nanos;
use crate::error::ErrorKind;
use crate::fill::{VerifyMode, name_words};
use crate::units::BLOCK_BYTES;

/// Threads of a group: whole warps, and a multiple of a block's lanes.
const THREADS: u32 = 256;
/// Generators of a block of content, and outputs of each.
const LANES: u64 = 8;
const STEPS: u64 = 64;
/// Generators whose first output is a block's head, which a sample compares.
const HEAD_LANES: u64 = 2;
/// Groups of a launch at most: several for each processor of the largest device.
const GROUPS_MAX: u64 = 4_096;
/// Comparisons in flight at most: 256 KiB of page-locked memory.
const RESULTS: usize = 16_384;
/// `CU_STREAM_NON_BLOCKING`.
const NON_BLOCKING: u32 = 1;
/// `CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP`.
const MAPPED: u32 = PORTABLE | 2;

/// Result of a comparison, where device and host both see it: number of blocks that differ, and the
/// first.
type ResultWords = [u64; 2];
const NOTHING_FOUND: ResultWords = [0, u64::MAX];

/// Kinds of work that go on side by side.
#[derive(Clone, Copy)]
enum StreamKind {
    Compute,
    In,
    Out,
}

/// A part of a job on one device, in flight.
struct Part {
    job: JobId,
    begun: Handle,
    ended: Handle,
}

struct Stream {
    device: Arc<Device>,
    handle: Handle,
    /// A second stream, which waits for the end of each part and then rings the bell. The driver
    /// holds a stream up until its call of the host has returned, and the next part is not to wait
    /// for that.
    bell: Handle,
    parts: RefCell<VecDeque<Part>>,
}

#[derive(Default)]
struct Job {
    parts_left: u32,
    done: WorkDone,
    fault: Option<GpuFault>,
    /// Where its comparison's result is.
    result: Option<usize>,
}

struct Results {
    host: *mut ResultWords,
    device: u64,
    free: Vec<usize>,
}

pub(super) struct CudaQueue {
    driver: Arc<Driver>,
    /// By device, then by [`StreamKind`].
    streams: Vec<[Stream; 3]>,
    device_bytes: u64,
    events: RefCell<Vec<(usize, Handle)>>,
    results: RefCell<Results>,
    jobs: RefCell<BTreeMap<JobId, Job>>,
    /// Jobs of which every part has ended.
    over: RefCell<Vec<JobId>>,
    next: Cell<u64>,
    /// On the heap, where the driver's thread finds it until the last stream is empty.
    bell: Box<Bell>,
}

unsafe extern "C" fn ring(bell: *mut c_void) {
    // SAFETY: the queue's own bell, which outlives its streams' work (`finish`).
    let bell = unsafe { &*bell.cast::<Bell>() };
    bell.ring();
}

impl Stream {
    fn open(driver: &Driver, device: &Arc<Device>) -> Result<Stream, GpuFault> {
        let mut stream = Stream {
            device: Arc::clone(device),
            handle: std::ptr::null_mut(),
            bell: std::ptr::null_mut(),
            parts: RefCell::default(),
        };
        for handle in [&raw mut stream.handle, &raw mut stream.bell] {
            // SAFETY: writes a handle, which `drop` gives back.
            let code = unsafe { (driver.stream_create)(handle, NON_BLOCKING) };
            driver.check(code, &device.label)?;
        }
        Ok(stream)
    }

    /// Has the bell rung once `ended` has been reached. Should this fail, whoever looks every few
    /// milliseconds finds the end.
    fn ring_after(&self, driver: &Driver, ended: Handle, bell: &Bell) {
        let bell: *const Bell = bell;
        // SAFETY: a stream and an event of this queue, and the bell stays where it is until
        // `finish` has returned.
        unsafe {
            if (driver.stream_wait_event)(self.bell, ended, 0) == 0 {
                let _rung = (driver.launch_host)(self.bell, ring, bell.cast_mut().cast());
            }
        }
    }
}

impl CudaQueue {
    pub(super) fn open(
        driver: &Arc<Driver>,
        devices: &[Arc<Device>],
        device_bytes: u64,
        bell: Bell,
    ) -> Result<CudaQueue, GpuFault> {
        let mut queue = CudaQueue {
            driver: Arc::clone(driver),
            streams: Vec::new(),
            device_bytes,
            events: RefCell::default(),
            results: RefCell::new(Results {
                host: std::ptr::null_mut(),
                device: 0,
                free: (0..RESULTS).rev().collect(),
            }),
            jobs: RefCell::default(),
            over: RefCell::default(),
            next: Cell::new(0),
            bell: Box::new(bell),
        };
        for device in devices {
            device.enter()?;
            queue.streams.push([
                Stream::open(driver, device)?,
                Stream::open(driver, device)?,
                Stream::open(driver, device)?,
            ]);
        }
        queue.take_results()?;
        Ok(queue)
    }

    fn take_results(&mut self) -> Result<(), GpuFault> {
        let Some([first, ..]) = self.streams.first() else { return Ok(()) };
        first.device.enter()?;
        let (results, label) = (self.results.get_mut(), &first.device.label);
        let mut host: *mut c_void = std::ptr::null_mut();
        let bytes = RESULTS * size_of::<ResultWords>();
        // SAFETY: writes an address, which `drop` gives back.
        let code = unsafe { (self.driver.host_alloc)(&raw mut host, bytes, MAPPED) };
        self.driver.check(code, label)?;
        results.host = host.cast();
        // SAFETY: just allocated; with unified addressing the address is the same on all devices.
        let code = unsafe { (self.driver.host_device_pointer)(&raw mut results.device, host, 0) };
        self.driver.check(code, label)
    }

    fn event(&self, device: usize) -> Result<Handle, GpuFault> {
        let mut events = self.events.borrow_mut();
        if let Some(place) = events.iter().rposition(|(of, _)| *of == device) {
            return Ok(events.swap_remove(place).1);
        }
        let mut event: Handle = std::ptr::null_mut();
        // SAFETY: writes a handle, which `drop` gives back; the context is the device's by now.
        let code = unsafe { (self.driver.event_create)(&raw mut event, 0) };
        self.driver.check(code, &self.streams[device][0].device.label)?;
        Ok(event)
    }

    /// Begins what of a job lies on one device.
    fn begin_part(
        &self,
        (id, job): (JobId, &Job),
        device: usize,
        kind: StreamKind,
        ranges: &[(Piece, u64)],
        work: &GpuWork,
    ) -> Result<(), GpuFault> {
        let stream = &self.streams[device][kind as usize];
        let label = &stream.device.label;
        stream.device.enter()?;
        let (begun, ended) = (self.event(device)?, self.event(device)?);
        let begin = || {
            // SAFETY: handles of this queue; the context is the device's.
            let code = unsafe { (self.driver.event_record)(begun, stream.handle) };
            self.driver.check(code, label)?;
            for (piece, offset) in ranges {
                self.begin_range(stream, job, *piece, *offset, work)?;
            }
            // SAFETY: as above.
            let code = unsafe { (self.driver.event_record)(ended, stream.handle) };
            self.driver.check(code, label)
        };
        if let Err(fault) = begin() {
            // Ranges that have begun must be over before anybody has their memory.
            // SAFETY: a stream of this queue.
            let _waited = unsafe { (self.driver.stream_wait)(stream.handle) };
            self.events.borrow_mut().extend([(device, begun), (device, ended)]);
            return Err(fault);
        }
        stream.parts.borrow_mut().push_back(Part { job: id, begun, ended });
        stream.ring_after(&self.driver, ended, &self.bell);
        Ok(())
    }

    /// Queues a piece, which lies `offset` bytes into the job's range.
    fn begin_range(
        &self,
        stream: &Stream,
        job: &Job,
        piece: Piece,
        offset: u64,
        work: &GpuWork,
    ) -> Result<(), GpuFault> {
        let at = stream.device.start + piece.offset_bytes % self.device_bytes;
        let (bytes, blocks) = (piece.length_bytes as usize, piece.length_bytes / BLOCK_BYTES);
        let ahead = offset / BLOCK_BYTES;
        let code = match *work {
            GpuWork::CopyIn { host } => {
                // SAFETY: the caller of `submit` promises the host memory, all of it.
                let from = unsafe { host.add(offset as usize) };
                // SAFETY: the same, and the piece.
                unsafe { (self.driver.copy_in)(at, from.cast(), bytes, stream.handle) }
            }
            GpuWork::CopyOut { host } => {
                // SAFETY: as above.
                let to = unsafe { host.add(offset as usize) };
                // SAFETY: as above.
                unsafe { (self.driver.copy_out)(to.cast(), at, bytes, stream.handle) }
            }
            GpuWork::Fill { name, first_block } => {
                let (low, high) = name_words(&name);
                let mut words = [at, low, high, first_block + ahead, blocks];
                self.launch(stream, stream.device.fill, blocks, &mut words)
            }
            GpuWork::Check { name, first_block, mode } => {
                let (low, high) = name_words(&name);
                let (steps, lanes) = match mode {
                    VerifyMode::Full => (STEPS, LANES),
                    VerifyMode::Sample | VerifyMode::Off => (1, HEAD_LANES),
                };
                let place = job.result.unwrap_or(0) * size_of::<ResultWords>();
                let result = self.results.borrow().device + place as u64;
                let first = first_block + ahead;
                let mut words = [at, low, high, first, blocks, steps, lanes, result];
                self.launch(stream, stream.device.check, blocks, &mut words)
            }
        };
        self.driver.check(code, &stream.device.label)
    }

    /// Launches a kernel whose parameters are all words, over so many blocks of content.
    fn launch(&self, stream: &Stream, kernel: Handle, blocks: u64, words: &mut [u64]) -> i32 {
        let groups = (blocks * LANES).div_ceil(u64::from(THREADS)).clamp(1, GROUPS_MAX) as u32;
        let mut parameters = [std::ptr::null_mut::<c_void>(); 8];
        for (parameter, word) in parameters.iter_mut().zip(words) {
            *parameter = std::ptr::from_mut(word).cast();
        }
        let none = std::ptr::null_mut();
        // SAFETY: the kernel takes as many words as there are; the driver copies them before it
        // returns.
        unsafe {
            (self.driver.launch)(
                kernel,
                groups,
                1,
                1,
                THREADS,
                1,
                1,
                0,
                stream.handle,
                parameters.as_mut_ptr(),
                none,
            )
        }
    }

    /// Begins a job's parts; how many began.
    fn begin(
        &self,
        id: JobId,
        job: &mut Job,
        work: &GpuWork,
        pieces: &[Piece],
    ) -> Result<(), GpuFault> {
        let kind = match work {
            GpuWork::Fill { .. } | GpuWork::Check { .. } => StreamKind::Compute,
            GpuWork::CopyIn { .. } => StreamKind::In,
            GpuWork::CopyOut { .. } => StreamKind::Out,
        };
        let mut offset = 0;
        let ranges: Vec<(Piece, u64)> = pieces
            .iter()
            .map(|piece| {
                let range = (*piece, offset);
                offset += piece.length_bytes;
                range
            })
            .collect();
        let device_of = |piece: &Piece| (piece.offset_bytes / self.device_bytes) as usize;
        for part in ranges.chunk_by(|(a, _), (b, _)| device_of(a) == device_of(b)) {
            self.begin_part((id, job), device_of(&part[0].0), kind, part, work)?;
            job.parts_left += 1;
        }
        Ok(())
    }

    /// Takes the parts of a stream that have ended.
    fn reap_stream(&self, device: usize, stream: &Stream) {
        loop {
            let Some((id, begun, ended)) =
                stream.parts.borrow().front().map(|part| (part.job, part.begun, part.ended))
            else {
                return;
            };
            // SAFETY: an event of this queue.
            let code = unsafe { (self.driver.event_query)(ended) };
            if code == NOT_READY {
                return;
            }
            let mut ms = 0f32;
            // SAFETY: both were recorded, and have ended where the first call said so.
            let timed =
                code == 0 && unsafe { (self.driver.event_elapsed)(&raw mut ms, begun, ended) } == 0;
            stream.parts.borrow_mut().pop_front();
            self.events.borrow_mut().extend([(device, begun), (device, ended)]);
            let mut jobs = self.jobs.borrow_mut();
            let Some(job) = jobs.get_mut(&id) else { continue };
            job.parts_left -= 1;
            if job.parts_left == 0 {
                self.over.borrow_mut().push(id);
            }
            if timed {
                // Half a microsecond is the events' resolution.
                job.done.device += Nanos::from_ns((f64::from(ms) * 1e6) as u64);
            }
            if code != 0 {
                let fault = self.driver.fault(code, &stream.device.label);
                job.fault.get_or_insert(fault);
            }
        }
    }

    /// Takes the result of a comparison; its place is free again.
    fn take_result(&self, place: usize) -> ResultWords {
        let results = &mut *self.results.borrow_mut();
        results.free.push(place);
        // SAFETY: inside the allocation; the job that wrote there has ended.
        unsafe { results.host.add(place).read_volatile() }
    }

    /// A place for a comparison's result.
    fn place_result(&self) -> Result<usize, GpuFault> {
        let results = &mut *self.results.borrow_mut();
        let place = results.free.pop().ok_or_else(|| GpuFault {
            kind: ErrorKind::Resources,
            device: "GPU".to_owned(),
            what: format!("{RESULTS} comparisons are in flight, and no more can be"),
        })?;
        // SAFETY: inside the allocation; no job uses the place.
        unsafe { results.host.add(place).write_volatile(NOTHING_FOUND) };
        Ok(place)
    }
}

impl GpuQueue for CudaQueue {
    unsafe fn submit(&self, work: &GpuWork, pieces: &[Piece]) -> Result<JobId, GpuFault> {
        let id = JobId(self.next.get());
        self.next.set(id.0 + 1);
        let mut job = Job::default();
        if let GpuWork::Check { .. } = work {
            job.result = Some(self.place_result()?);
            job.done.found.blocks_checked =
                pieces.iter().map(|piece| piece.length_bytes / BLOCK_BYTES).sum();
        }
        // Parts that have begun end first: until then nobody may have the memory.
        job.fault = self.begin(id, &mut job, work, pieces).err();
        if job.parts_left == 0 {
            self.over.borrow_mut().push(id);
        }
        self.jobs.borrow_mut().insert(id, job);
        Ok(id)
    }

    fn reap(&self, ended: &mut dyn FnMut(JobId, Result<WorkDone, GpuFault>)) {
        for (device, streams) in self.streams.iter().enumerate() {
            streams.iter().for_each(|stream| self.reap_stream(device, stream));
        }
        for id in self.over.take() {
            let Some(mut job) = self.jobs.borrow_mut().remove(&id) else { continue };
            if let Some(place) = job.result {
                let [bad, first] = self.take_result(place);
                job.done.found.blocks_bad = bad;
                job.done.found.first_bad_block = (bad > 0).then_some(first);
            }
            ended(id, job.fault.map_or(Ok(job.done), Err));
        }
    }

    fn finish(&self) {
        for stream in self.streams.iter().flatten() {
            let _entered = stream.device.enter();
            for handle in [stream.handle, stream.bell] {
                // SAFETY: a stream of this queue. An error says that the device is lost, and then
                // nothing is in flight on it either.
                let _waited = unsafe { (self.driver.stream_wait)(handle) };
            }
        }
    }
}

impl Drop for CudaQueue {
    fn drop(&mut self) {
        self.finish();
        for (device, streams) in self.streams.iter().enumerate() {
            let _entered = streams[0].device.enter();
            for stream in streams {
                let parts = stream.parts.borrow_mut().drain(..).collect::<Vec<_>>();
                let events = parts.iter().flat_map(|part| [part.begun, part.ended]);
                self.events.borrow_mut().extend(events.map(|event| (device, event)));
                for handle in [stream.handle, stream.bell] {
                    // SAFETY: made by `open`, empty, given back once.
                    let _destroyed = unsafe { (self.driver.stream_destroy)(handle) };
                }
            }
            for (_, event) in self.events.borrow().iter().filter(|(of, _)| *of == device) {
                // SAFETY: made by `event`, given back once.
                let _destroyed = unsafe { (self.driver.event_destroy)(*event) };
            }
        }
        let host = self.results.borrow().host;
        if !host.is_null() {
            // SAFETY: allocated by `take_results`, given back once; no kernel runs any more.
            let _freed = unsafe { (self.driver.host_free)(host.cast()) };
        }
    }
}
