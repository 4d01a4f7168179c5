//! Entries in GPU memory: made there, checked there, copied out and in; and I/Os whose bytes come
//! from it or go to it.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use super::data_path::{Begun, Content, InFlight, Transfer};
use super::operation::memory_corrupt;
use super::{EntryData, Shard};
use crate::buffer::Ticket;
use crate::clock::Nanos;
use crate::error::{ErrorKind, IoError, Operation};
use crate::fill::VerifyMode;
use crate::key::Tier;
use crate::metrics::GpuMoves;
use crate::placement::EntryView;
use crate::ring::IoRequest;
use crate::tier::cpu::CpuEntry;
use crate::tier::gpu::lane::Range;
use crate::tier::gpu::{GpuEntry, GpuFault, GpuJob, GpuLane, Holding, WorkDone};
use crate::units::{BLOCK_BYTES, MIB, round_up_to_block};

/// Bytes of one job: half a chunk of either memory, so that in both it lies in few pieces.
const JOB_BYTES: u64 = MIB;
/// Jobs of one operation in flight: enough to keep a device busy while the host prepares the next.
const JOBS_AT_ONCE: usize = 32;

/// Jobs that make, check or move an entry in GPU memory, a range after the other.
#[derive(Clone, Copy)]
pub(super) enum GpuTask<'a> {
    /// Makes its content.
    Fill,
    /// Compares its content.
    Check,
    /// Copies it to host memory that nobody reads yet.
    ToHost(&'a Rc<RefCell<CpuEntry>>),
    /// Copies it from host memory, to GPU memory that nobody reads yet.
    FromHost(&'a Rc<RefCell<CpuEntry>>),
    /// Copies it from host memory to where what is read goes, range upon range.
    Land(&'a Rc<RefCell<CpuEntry>>),
}

impl GpuTask<'_> {
    fn operation(self) -> Operation {
        match self {
            GpuTask::Check | GpuTask::ToHost(_) => Operation::Read,
            GpuTask::Fill | GpuTask::FromHost(_) | GpuTask::Land(_) => Operation::Write,
        }
    }
}

impl Shard {
    fn lane(&self) -> &Rc<GpuLane> {
        self.path.config.gpu.as_ref().expect("an entry in GPU memory came by the lane")
    }

    /// Makes or checks an entry where it is, as a model would write or read it: nothing is copied.
    /// The device's time.
    pub(super) async fn work_in_gpu(
        &self,
        view: &EntryView,
        task: GpuTask<'_>,
    ) -> Result<Nanos, IoError> {
        if let Content::Hollow(hollow) = &self.path.config.content {
            let begun = self.clock.now();
            hollow.gpu_memory.copy(view.bytes).await;
            return Ok(self.clock.now() - begun);
        }
        if matches!(task, GpuTask::Check) && self.path.config.verify == VerifyMode::Off {
            return Ok(Nanos::ZERO);
        }
        let EntryData::Gpu(entry) = self.data_of(view) else {
            unreachable!("an entry in the GPU tier is in GPU memory")
        };
        self.run_jobs(view, &entry, task).await
    }

    /// Copies an entry that was read from host memory to where the model would have it, if there is
    /// a GPU; the device's time.
    pub(super) async fn land_host(
        &self,
        view: &EntryView,
        from: &Rc<RefCell<CpuEntry>>,
    ) -> Result<Nanos, IoError> {
        let Some(landing) = &self.path.config.gpu_landing else { return Ok(Nanos::ZERO) };
        self.run_jobs(view, landing, GpuTask::Land(from)).await
    }

    /// Does a task on GPU memory, which is the entry's or what is read lands there; the device's
    /// time.
    pub(super) async fn run_jobs(
        &self,
        view: &EntryView,
        entry: &Rc<GpuEntry>,
        task: GpuTask<'_>,
    ) -> Result<Nanos, IoError> {
        let (lane, bytes) = (self.lane(), round_up_to_block(view.bytes));
        let (name, verify) = (self.content_name(view.key, view.version), self.path.config.verify);
        let most = JOB_BYTES.min(entry.bytes());
        let mut running: VecDeque<(Range, GpuJob)> = VecDeque::new();
        let (mut device, mut done, mut failure) = (Nanos::ZERO, 0, None);
        while done < bytes || !running.is_empty() {
            if done < bytes && failure.is_none() {
                failure = self.heed_stop(task.operation(), Tier::Gpu).err();
            }
            if done < bytes && failure.is_none() && running.len() < JOBS_AT_ONCE {
                let range = Range { offset_bytes: done, length_bytes: most.min(bytes - done) };
                let job = match task {
                    GpuTask::Fill => lane.fill(entry, range, name),
                    GpuTask::Check => {
                        lane.check((entry, range), name, range.first_block(), verify, None)
                    }
                    GpuTask::ToHost(host) => lane.copy_to_host(entry, range, host),
                    GpuTask::FromHost(host) => lane.copy_from_host(entry, range, host, range),
                    GpuTask::Land(host) => lane.copy_from_host(entry, range.landed(), host, range),
                };
                running.push_back((range, job));
                done += range.length_bytes;
                self.count_host_copy(task, range);
                // An emulated device works on this thread.
                self.breathe(done as usize).await;
                continue;
            }
            let Some((range, job)) = running.pop_front() else { break };
            let (result, _host) = job.await;
            match self.conclude_job(task, range, result) {
                Ok(job_device) => device += job_device,
                Err(error) => failure = Some(failure.unwrap_or(error)),
            }
        }
        failure.map_or(Ok(device), Err)
    }

    /// Counts a copy between GPU and host memory by what the host's is.
    fn count_host_copy(&self, task: GpuTask<'_>, range: Range) {
        let (GpuTask::ToHost(host) | GpuTask::FromHost(host) | GpuTask::Land(host)) = task else {
            return;
        };
        let is_locked = host.borrow().is_page_locked(range.offset_bytes as usize);
        self.measure.record(self.clock.now(), |metrics| {
            let moves = &mut metrics.gpu_moves;
            match is_locked {
                true => moves.host_locked_bytes += range.length_bytes,
                false => moves.host_pageable_bytes += range.length_bytes,
            }
        });
    }

    fn conclude_job(
        &self,
        task: GpuTask<'_>,
        range: Range,
        result: Result<WorkDone, GpuFault>,
    ) -> Result<Nanos, IoError> {
        let now = self.clock.now();
        let error = match result {
            Err(fault) => gpu_error(&fault, task.operation(), range),
            Ok(done) => {
                self.measure.verified(&done.found, now);
                let Some(block) = done.found.first_bad_block else { return Ok(done.device) };
                memory_corrupt(Tier::Gpu, "GPU memory", block)
            }
        };
        self.measure.error(&error, now);
        Err(error)
    }

    pub(super) fn data_of(&self, view: &EntryView) -> EntryData {
        self.placement.borrow().data(view.id).clone()
    }
}

fn gpu_error(fault: &GpuFault, operation: Operation, range: Range) -> IoError {
    IoError {
        kind: fault.kind,
        operation,
        tier: Tier::Gpu,
        file: fault.to_string(),
        offset_bytes: range.offset_bytes,
        length_bytes: range.length_bytes,
        errno: 0,
    }
}

/// Copies of a transfer between GPU memory and its buffers; no memory before the first.
#[derive(Default)]
pub(super) struct GpuTransfer(Option<Box<Copies>>);

#[derive(Default)]
struct Copies {
    /// Bytes on their way to a buffer, to be written then.
    fetching: Vec<(Begun, GpuJob)>,
    /// Bytes that were read, on their way to GPU memory, or being compared there.
    landing: Vec<(Landing, GpuJob)>,
}

/// Bytes that were read, in GPU memory.
pub(super) struct Landing {
    /// Range of their entry, or of the memory for what no entry wants.
    pub(super) range: Range,
    /// I/O whose bytes are compared; none for a copy.
    pub(super) compared: Option<Compared>,
}

/// An I/O whose bytes the GPU compares.
pub(super) struct Compared {
    pub(super) request: IoRequest,
    /// Number of the request's first block in the entry.
    pub(super) first_block: u64,
}

impl GpuTransfer {
    /// Whether nothing is on its way.
    pub(super) fn is_idle(&self) -> bool {
        self.0.as_ref().is_none_or(|copies| copies.fetching.is_empty() && copies.landing.is_empty())
    }

    fn copies(&mut self) -> &mut Copies {
        self.0.get_or_insert_default()
    }

    /// A job on what was read begins.
    pub(super) fn land(&mut self, landing: Landing, job: GpuJob) {
        self.copies().landing.push((landing, job));
    }

    /// Writes whose bytes are still on their way to a buffer.
    pub(super) fn fetched_requests(&self) -> impl Iterator<Item = IoRequest> {
        let fetching = self.0.iter().flat_map(|copies| &copies.fetching);
        fetching.map(|(begun, _)| begun.request)
    }
}

impl Begun {
    fn range(&self) -> Range {
        Range {
            offset_bytes: self.first_block * BLOCK_BYTES,
            length_bytes: u64::from(self.request.length_bytes),
        }
    }
}

/// Takes the next job that has ended, from `index` on, with its answer.
fn take_ended<T>(
    jobs: &mut Vec<(T, GpuJob)>,
    index: &mut usize,
    cx: &mut Context<'_>,
) -> Option<(T, <GpuJob as Future>::Output)> {
    while let Some((_, job)) = jobs.get_mut(*index) {
        match Pin::new(job).poll(cx) {
            Poll::Ready(answer) => return Some((jobs.swap_remove(*index).0, answer)),
            Poll::Pending => *index += 1,
        }
    }
    None
}

impl Transfer<'_> {
    /// Has the bytes of an I/O copied from GPU memory to its buffer.
    pub(super) fn fetch(&mut self, entry: &Rc<GpuEntry>, begun: Begun, ticket: Ticket) {
        if self.is_direct() {
            self.submit(begun, ticket);
            return;
        }
        let lane = self.path.config.gpu.as_ref().expect("an entry in GPU memory came by the lane");
        let job = lane.copy_to_buffer(entry, begun.range(), ticket);
        self.gpu.copies().fetching.push((begun, job));
    }

    /// Takes what was read from its buffer to where it is wanted besides.
    pub(super) fn land(&mut self, io: &InFlight, ticket: Ticket) {
        if matches!(self.path.config.content, Content::Hollow(_)) {
            return;
        }
        if self.is_direct() {
            // Also after an error, as what comes to a buffer is compared.
            self.check_landed(io, ticket);
            return;
        }
        if self.error.is_some() {
            return;
        }
        // An I/O that came in parts is complete now: all of it, from the buffer's beginning.
        let before = u64::from(io.request.buffer_offset);
        let range = Range {
            offset_bytes: io.first_block * BLOCK_BYTES - before,
            length_bytes: u64::from(io.request.length_bytes) + before,
        };
        let sink = &self.spec.sink;
        if let EntryData::Host(entry) = sink {
            let clock = &self.path.config.clock;
            let begun = clock.now();
            let buffer = &ticket.buffer().bytes()[..range.length_bytes as usize];
            entry.borrow_mut().copy_from(range.offset_bytes as usize, buffer);
            self.copy += clock.now() - begun;
        }
        let Some(lane) = &self.path.config.gpu else { return };
        let job = match (sink, &self.path.config.gpu_landing) {
            (EntryData::Gpu(entry), _) => lane.copy_from_buffer(entry, range, ticket),
            (_, Some(landing)) => lane.copy_from_buffer(landing, range.landed(), ticket),
            (_, None) => return,
        };
        self.gpu.land(Landing { range, compared: None }, job);
    }

    /// Takes the copies that have ended; whether there were any.
    pub(super) fn collect_copies(&mut self, cx: &mut Context<'_>) -> bool {
        self.reap_direct();
        let Some(mut copies) = self.gpu.0.take() else { return false };
        let collected = self.collect_fetched(&mut copies.fetching, cx);
        let landed = self.collect_landed(&mut copies.landing, cx);
        self.gpu.0 = Some(copies);
        collected || landed
    }

    fn collect_fetched(
        &mut self,
        fetching: &mut Vec<(Begun, GpuJob)>,
        cx: &mut Context<'_>,
    ) -> bool {
        let (mut collected, mut index) = (false, 0);
        while let Some((begun, (result, holding))) = take_ended(fetching, &mut index, cx) {
            collected = true;
            let Holding::Ticket(ticket) = holding else {
                unreachable!("the buffer comes back with the answer")
            };
            match result {
                // After a failure nothing more is begun, and this goes no further.
                Ok(_) if self.error.is_some() => {
                    self.path.moved(begun.request);
                    drop(ticket);
                }
                Ok(done) => {
                    self.copy += done.device;
                    let bytes = begun.range().length_bytes;
                    self.count_moves(|moves| moves.buffered_write_bytes += bytes);
                    self.submit(begun, ticket);
                }
                Err(fault) => {
                    self.path.moved(begun.request);
                    self.fail_gpu(&gpu_error(&fault, Operation::Read, begun.range()));
                }
            }
        }
        collected
    }

    fn collect_landed(
        &mut self,
        landing: &mut Vec<(Landing, GpuJob)>,
        cx: &mut Context<'_>,
    ) -> bool {
        let (mut collected, mut index) = (false, 0);
        while let Some((landed, (result, _buffer))) = take_ended(landing, &mut index, cx) {
            collected = true;
            match (result, landed.compared) {
                (Ok(done), None) => {
                    self.copy += done.device;
                    self.count_moves(|moves| {
                        moves.buffered_read_bytes += landed.range.length_bytes;
                    });
                }
                (Ok(done), Some(compared)) => self.count_compared(&compared, &done),
                // A model that does not get what it reads has not read it.
                (Err(fault), None) => {
                    self.fail_gpu(&gpu_error(&fault, Operation::Write, landed.range));
                }
                (Err(fault), Some(_)) => {
                    self.fail_gpu(&gpu_error(&fault, Operation::Read, landed.range));
                }
            }
        }
        collected
    }

    /// Counts what the GPU compared of an I/O that went past the host.
    fn count_compared(&mut self, compared: &Compared, done: &WorkDone) {
        let config = &self.path.config;
        let now = config.clock.now();
        config.measure.verified(&done.found, now);
        if let Some(bad) = done.found.first_bad_block {
            let request = compared.request;
            let offset_bytes = request.offset_bytes + (bad - compared.first_block) * BLOCK_BYTES;
            let length_bytes = BLOCK_BYTES as u32;
            let place = IoRequest { offset_bytes, length_bytes, ..request };
            self.fail(place, ErrorKind::Corrupt, 0, now);
        }
    }

    /// Counts bytes between GPU memory and storage or host memory.
    pub(super) fn count_moves(&self, count: impl FnOnce(&mut GpuMoves)) {
        let config = &self.path.config;
        config.measure.record(config.clock.now(), |metrics| count(&mut metrics.gpu_moves));
    }

    fn fail_gpu(&mut self, error: &IoError) {
        let config = &self.path.config;
        config.measure.error(error, config.clock.now());
        self.error.get_or_insert_with(|| error.clone());
    }
}
