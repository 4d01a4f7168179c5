//! One entry to or from the storage device: cut in I/Os, kept deep on each of its drives, resumed,
//! retried, checked.

// A part of this module, in a file of its own; a folder for it would be in a circle with `direct`.
#[path = "single_read.rs"]
mod single;

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::{Context, Poll};

use super::EntryData;
use super::direct::DirectLane;
use super::drives::{DriveState, is_transient};
use super::gpu_path::GpuTransfer;
use super::hollow::Hollow;
use super::lanes::Lanes;
use super::measure::{Direction, Measure, Waiting};
use super::slab::Slab;
use crate::buffer::{Ticket, Tickets};
use crate::clock::{Clock, Nanos};
use crate::device::{Device, DeviceFuture};
use crate::drive::{DriveId, Durability};
use crate::error::{ErrorKind, IoError, Operation};
use crate::fill::{NamedContent, VerifyMode};
use crate::key::Tier;
use crate::placement::Extent;
use crate::ring::{Completion, CompletionQueue, IoKind, IoRequest};
use crate::tier::gpu::{GpuEntry, GpuLane};
use crate::tier::pages::HostPages;
use crate::units::{BLOCK_BYTES, MIB, blocks_for};

/// Bytes filled or copied before the other tasks get a turn, and made or compared by all of them
/// before the device is looked after: about 100 µs of work.
pub(super) const SLICE_BYTES: u64 = MIB;

/// Attempts at one I/O that makes no progress (`EAGAIN`, `EINTR`, less than a block moved).
pub(super) const ATTEMPTS_MAX: u32 = 1_000;

/// The request of something that is not about a place.
pub(super) const NOTHING: IoRequest =
    IoRequest { kind: IoKind::Flush, offset_bytes: 0, length_bytes: 0, buffer_offset: 0 };

/// Whether entries have bytes.
#[derive(Default)]
pub enum Content {
    /// They are made, moved and checked.
    #[default]
    Real,
    /// They have sizes only: nothing is made, copied or checked, no memory is touched; copying
    /// takes the time that this memory says. For runs on a simulated clock and drive.
    Hollow(Hollow),
}

pub(super) struct DataPathConfig {
    pub(super) device: Rc<dyn Device>,
    /// The jobs of the GPU tier; none where there is no such tier. Before the buffers, which its
    /// jobs may be reading when it is dropped.
    pub(super) gpu: Option<Rc<GpuLane>>,
    /// The buffers as the GPUs reach them.
    pub(super) _gpu_pages: Option<HostPages>,
    /// I/Os between GPU memory and storage that need no buffers; none where all go by way of them.
    pub(super) gpu_direct: Option<Rc<DirectLane>>,
    /// Buffers and queue places of each drive, at least one.
    pub(super) tickets: Box<[Rc<Tickets>]>,
    pub(super) clock: Clock,
    pub(super) measure: Rc<Measure>,
    /// Share of the data read that is checked.
    pub(super) verify: VerifyMode,
    /// Whether writes are flushed.
    pub(super) durability: Durability,
    /// Whether entries have bytes.
    pub(super) content: Content,
    /// GPU memory to which what is read goes, as a model would have it there: as long as a buffer.
    pub(super) gpu_landing: Option<Rc<GpuEntry>>,
    /// Queue places asked for, each drive: tells a wait for a buffer from one for a place.
    pub(super) queue_depth: u32,
}

/// The storage device with everything an operation on it needs.
pub(super) struct DataPath {
    pub(super) config: DataPathConfig,
    /// Set when the engine is stopping: transfers end as soon as nothing of theirs is in flight.
    pub(super) stopping: Cell<bool>,
    pub(super) drives: Box<[DriveState]>,
    /// Bytes that were made or compared since the device was looked after for it.
    pub(super) worked_on_bytes: Cell<u64>,
    /// Writes in flight of transfers just dropped.
    orphans: RefCell<Orphans>,
    /// Tables of I/Os in flight that no transfer uses now: transfers come and go, their memory
    /// stays. At most as many as transfers were under way at once.
    spare_tables: RefCell<Vec<InFlightTable>>,
}

/// Writes in flight that nobody waits for, to be waited for before their blocks are used again: how
/// many complete in which queue.
#[derive(Default)]
pub(super) struct Orphans(pub(super) Vec<(usize, Rc<CompletionQueue<Ticket>>)>);

/// Times of a transfer.
#[derive(Clone, Copy, Debug)]
pub(super) struct TransferDone {
    /// First submit to last completion, and the flush.
    pub device: Nanos,
    /// Time spent copying from a source.
    pub copy: Nanos,
    /// When it ended; none where what its last I/O brought was compared, or went further.
    pub ended: Option<Nanos>,
}

pub(super) struct TransferSpec<'a> {
    pub direction: Direction,
    pub content: NamedContent,
    pub bytes: u64,
    pub extents: &'a [Extent],
    /// Where written bytes come from; `Elsewhere`: made afresh from the name.
    pub source: EntryData,
    /// Where bytes that are read go besides; `Elsewhere`: nowhere.
    pub sink: EntryData,
}

/// A device's own way to an entry, until this is dropped.
struct OpenWay<'a> {
    device: &'a dyn Device,
    extent: Extent,
}

impl<'a> OpenWay<'a> {
    fn of(device: &'a dyn Device, spec: &TransferSpec<'_>) -> Option<OpenWay<'a>> {
        let kind = match spec.direction {
            Direction::Read => IoKind::Read,
            Direction::Write => IoKind::Write,
        };
        let extent = device.open_entry(kind, spec.extents, blocks_for(spec.bytes))?;
        Some(OpenWay { device, extent })
    }
}

impl Drop for OpenWay<'_> {
    fn drop(&mut self) {
        self.device.close_entry(self.extent);
    }
}

/// An I/O that has its buffer.
pub(super) struct Begun {
    pub(super) request: IoRequest,
    /// Number of the request's first block in the entry.
    pub(super) first_block: u64,
    first_touch_bytes: u64,
    /// Time that it waited for its ticket.
    wait: Nanos,
}

/// An I/O in flight, besides what the device knows of it.
pub(super) struct InFlight {
    pub(super) request: IoRequest,
    /// Number of the request's first block in the entry.
    pub(super) first_block: u64,
    /// When the first attempt was submitted.
    submitted: Option<Nanos>,
    attempts: u32,
    /// Time that it waited for its ticket; none once that was counted.
    wait: Option<Nanos>,
    /// Bytes of a write in blocks that had never been written before; they count when it is done,
    /// as its other bytes do.
    first_touch_bytes: u64,
}

impl InFlight {
    /// The first attempt at an I/O.
    fn first(begun: Begun) -> InFlight {
        let Begun { request, first_block, first_touch_bytes, wait } = begun;
        let (submitted, wait) = (None, Some(wait));
        InFlight { request, first_block, submitted, attempts: 0, wait, first_touch_bytes }
    }
}

/// I/Os in flight of a transfer, by the number under which each completes.
#[derive(Default)]
struct InFlightTable {
    ios: Slab<InFlight>,
    completed: Rc<CompletionQueue<Ticket>>,
}

impl InFlightTable {
    fn insert(&mut self, io: InFlight, future: DeviceFuture) {
        let number = self.ios.insert(|_| io);
        future.queue_in(&self.completed, number);
    }

    /// Takes the I/O that completed first, with its end and its ticket.
    fn take_completed(&mut self) -> Option<(InFlight, Completion, Ticket)> {
        let (number, completion, ticket) = self.completed.pop()?;
        let io = self.ios.remove(number).expect("it completes once");
        Some((io, completion, ticket.expect("a read or write holds a ticket")))
    }

    fn is_empty(&self) -> bool {
        self.ios.len() == 0
    }
}

pub(super) struct Transfer<'a> {
    pub(super) path: &'a DataPath,
    pub(super) spec: &'a TransferSpec<'a>,
    lanes: Lanes,
    /// The lane whose turn it is.
    turn: usize,
    /// Blocks not started, all lanes together.
    left: u64,
    io_blocks: u64,
    in_flight: InFlightTable,
    first_submit: Option<Nanos>,
    last_completion: Nanos,
    pub(super) copy: Nanos,
    /// Copies to and from GPU memory under way.
    pub(super) gpu: GpuTransfer,
    /// Whether an I/O of it has been started.
    has_begun: bool,
    /// While it waits for its first I/O to start.
    waiting: Option<Waiting<'a>>,
    pub(super) error: Option<IoError>,
}

impl DataPath {
    pub(super) fn new(config: DataPathConfig) -> DataPath {
        let drives = (0..config.tickets.len()).map(|index| DriveState::new(DriveId::at(index)));
        DataPath {
            drives: drives.collect(),
            config,
            stopping: Cell::new(false),
            worked_on_bytes: Cell::new(0),
            orphans: RefCell::default(),
            spare_tables: RefCell::default(),
        }
    }

    /// Ends every transfer at its next I/O, as cancelled.
    pub(super) fn stop(&self) {
        self.stopping.set(true);
    }

    /// Lets go of the device, when nothing is in flight.
    pub(super) fn close(&self) {
        self.config.device.close();
    }

    /// Takes the writes that the transfer dropped just before this call left in flight.
    pub(super) fn take_orphans(&self) -> Orphans {
        self.orphans.take()
    }

    /// Moves one entry; a write is flushed as configured. Its times, or the first error, after
    /// everything that was in flight has come back.
    pub(super) async fn transfer(&self, spec: &TransferSpec<'_>) -> Result<TransferDone, IoError> {
        if let Some(way) = OpenWay::of(&*self.config.device, spec) {
            // In memory of its own, for which transfers to drives then need no room.
            return Box::pin(self.transfer_by(way, spec)).await;
        }
        if let Some((request, ticket)) = self.single_read(spec) {
            return self.read_single(spec, request, ticket).await;
        }
        let mut transfer = Transfer::new(self, spec);
        transfer.end().await
    }

    /// Moves one entry by the way that the device has to it, which is closed then.
    async fn transfer_by(
        &self,
        way: OpenWay<'_>,
        spec: &TransferSpec<'_>,
    ) -> Result<TransferDone, IoError> {
        let extents = [way.extent];
        let (source, sink) = (spec.source.clone(), spec.sink.clone());
        let spec = TransferSpec { extents: &extents, source, sink, ..*spec };
        let mut transfer = Transfer::new(self, &spec);
        transfer.end().await
    }

    /// Counts the wait of an I/O for its buffer and its queue place, when it ends.
    fn count_wait(&self, wait: Nanos, now: Nanos) {
        // All drives have the same depth, and as many buffers.
        let for_buffer = self.config.tickets[0].limited_by_buffers(self.config.queue_depth);
        self.config.measure.ticket_wait(wait, for_buffer, now);
    }

    pub(super) fn io_error(&self, request: IoRequest, kind: ErrorKind, errno: i32) -> IoError {
        let (file, offset_bytes) = self.config.device.place(request.offset_bytes);
        IoError {
            kind,
            operation: Operation::of(request.kind),
            tier: Tier::Storage,
            file,
            offset_bytes,
            length_bytes: u64::from(request.length_bytes),
            errno,
        }
    }
}

impl Drop for Transfer<'_> {
    fn drop(&mut self) {
        for lane in self.lanes.iter_mut() {
            self.path.no_more_wait_for(lane.drive, lane.left * BLOCK_BYTES);
        }
        for request in self.gpu.fetched_requests() {
            self.path.moved(request);
        }
        let ios = std::mem::take(&mut self.in_flight.ios);
        let completed = Rc::clone(&self.in_flight.completed);
        if ios.len() == 0 {
            self.path.spare_tables.borrow_mut().push(InFlightTable { ios, completed });
            return;
        }
        match self.spec.direction {
            Direction::Read => completed.abandon(),
            Direction::Write => self.path.orphans.borrow_mut().0.push((ios.len(), completed)),
        }
        ios.into_values().for_each(|io| self.path.moved(io.request));
    }
}

impl<'a> Transfer<'a> {
    /// A transfer of which nothing has been started.
    fn new(path: &'a DataPath, spec: &'a TransferSpec<'a>) -> Transfer<'a> {
        let mut lanes = Lanes::of(spec.extents, blocks_for(spec.bytes));
        for lane in lanes.iter_mut() {
            path.wait_for(lane.drive, lane.left * BLOCK_BYTES);
        }
        Transfer {
            path,
            lanes,
            turn: 0,
            left: blocks_for(spec.bytes),
            io_blocks: path.config.tickets[0].pool().buffer_bytes() as u64 / BLOCK_BYTES,
            in_flight: path.spare_tables.borrow_mut().pop().unwrap_or_default(),
            first_submit: None,
            last_completion: Nanos::ZERO,
            copy: Nanos::ZERO,
            gpu: GpuTransfer::default(),
            has_begun: false,
            waiting: None,
            error: None,
            spec,
        }
    }

    /// Moves what is left, and flushes what was written, as configured.
    async fn end(&mut self) -> Result<TransferDone, IoError> {
        let (path, direction) = (self.path, self.spec.direction);
        std::future::poll_fn(|cx| self.poll(cx)).await?;
        let mut done = self.last_completion;
        if direction == Direction::Write && path.config.durability == Durability::Flush {
            done = path.flush(self.lanes.drives()).await?;
        }
        let first_submit = self.first_submit.unwrap_or(done);
        let device = done.saturating_sub(first_submit);
        path.config.measure.transfer(direction, device, done);
        let ended = path.ends_with_io(self.spec).then_some(done);
        Ok(TransferDone { device, copy: self.copy, ended })
    }
}

impl Transfer<'_> {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), IoError>> {
        loop {
            let started_bytes = self.start_ios(cx);
            // What came from GPU memory is written now.
            let copied = self.collect_copies(cx);
            let collected = self.collect() | copied;
            if self.in_flight.is_empty()
                && self.gpu.is_idle()
                && (self.is_all_started() || self.error.is_some())
            {
                return Poll::Ready(match self.error.take() {
                    Some(error) => Err(error),
                    None => Ok(()),
                });
            }
            if started_bytes >= SLICE_BYTES && !self.is_all_started() {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            if !collected {
                self.in_flight.completed.register(cx);
                return Poll::Pending;
            }
        }
    }

    fn is_all_started(&self) -> bool {
        self.left == 0
    }

    /// Starts I/Os while there are tickets, up to a slice; returns the bytes started.
    fn start_ios(&mut self, cx: &mut Context<'_>) -> u64 {
        if self.path.stopping.get() && !self.is_all_started() && self.error.is_none() {
            // On purpose, hence not counted as a failure.
            let error = self.path.io_error(NOTHING, ErrorKind::Cancelled, libc::ECANCELED);
            self.error = Some(error);
            self.lanes.iter_mut().for_each(|lane| lane.acquire = None);
        }
        let (mut started, mut refused, lanes) = (0, 0, self.lanes.len());
        // Looked at when something waits, and again after what takes time.
        let mut now = None;
        // Lanes take turns, until none of them gets a ticket.
        while self.error.is_none() && self.left > 0 && started < SLICE_BYTES && refused < lanes {
            let turn = self.turn;
            self.turn = if turn + 1 == lanes { 0 } else { turn + 1 };
            refused += 1;
            let path = self.path;
            let lane = self.lanes.get_mut(turn);
            if lane.left == 0 {
                continue;
            }
            let tickets = &path.config.tickets[lane.drive.index()];
            let look = || *now.get_or_insert_with(|| path.config.clock.now());
            let (ticket, wait) = match lane.take_ticket(tickets, cx, look) {
                Some(taken) => taken,
                None => {
                    self.note_waiting();
                    continue;
                }
            };
            refused = 0;
            self.waiting = None;
            self.has_begun = true;
            started += self.start_io(turn, ticket, wait);
            if self.spec.direction == Direction::Write {
                now = None;
            }
        }
        started
    }

    /// Before its first I/O, a transfer waits for the device.
    fn note_waiting(&mut self) {
        if !self.has_begun && self.waiting.is_none() {
            let config = &self.path.config;
            self.waiting = Some(config.measure.wait(&config.clock));
        }
    }

    fn start_io(&mut self, lane: usize, mut ticket: Ticket, wait: Nanos) -> u64 {
        let lane = self.lanes.get_mut(lane);
        let (index, done) = lane.extent;
        let extent = self.spec.extents[index];
        let blocks = (extent.blocks - done).min(self.io_blocks).min(lane.left);
        let (start_block, first_block) = (extent.start_block + done, lane.next_block);
        lane.next_block += blocks;
        lane.left -= blocks;
        lane.extent =
            if done + blocks == extent.blocks { (index + 1, 0) } else { (index, done + blocks) };
        self.left -= blocks;
        let bytes = blocks * BLOCK_BYTES;
        let mut first_touch_bytes = 0;
        let kind = match self.spec.direction {
            Direction::Read => IoKind::Read,
            Direction::Write => {
                match &self.spec.source {
                    _ if matches!(self.path.config.content, Content::Hollow(_)) => {}
                    EntryData::Gpu(_) => {}
                    EntryData::Host(entry) => {
                        let (offset, length) = (first_block * BLOCK_BYTES, bytes as usize);
                        let lender = Rc::clone(entry);
                        if !ticket.lend(lender, offset as usize, length) {
                            self.path.before_work(bytes);
                            let buffer = &mut ticket.buffer_mut().bytes_mut()[..length];
                            let before = self.path.config.clock.now();
                            entry.borrow().copy_to(offset as usize, buffer);
                            self.copy += self.path.config.clock.now() - before;
                        }
                    }
                    EntryData::Elsewhere => {
                        self.path.before_work(bytes);
                        let buffer = &mut ticket.buffer_mut().bytes_mut()[..bytes as usize];
                        self.spec.content.fill(buffer, first_block * BLOCK_BYTES);
                    }
                }
                first_touch_bytes = self.path.config.device.first_touch_bytes(start_block, blocks);
                IoKind::Write
            }
        };
        let request = IoRequest {
            kind,
            offset_bytes: start_block * BLOCK_BYTES,
            length_bytes: bytes as u32,
            buffer_offset: 0,
        };
        let begun = Begun { request, first_block, first_touch_bytes, wait };
        match &self.spec.source {
            EntryData::Gpu(entry) => self.fetch(entry, begun, ticket),
            EntryData::Elsewhere | EntryData::Host(_) => self.submit(begun, ticket),
        }
        bytes
    }

    /// Gives the device a whole I/O.
    pub(super) fn submit(&mut self, begun: Begun, ticket: Ticket) {
        let future = self.hand_over(begun.request, begun.first_block, ticket);
        self.in_flight.insert(InFlight::first(begun), future);
    }

    /// Takes what has completed; whether there was anything.
    fn collect(&mut self) -> bool {
        let mut collected = false;
        while let Some((io, completion, ticket)) = self.in_flight.take_completed() {
            collected = true;
            self.path.moved(io.request);
            self.complete(io, completion, ticket);
        }
        collected
    }

    fn complete(&mut self, mut io: InFlight, completion: Completion, ticket: Ticket) {
        if let Some(wait) = io.wait.take() {
            self.path.count_wait(wait, completion.completed);
        }
        let submitted = *self.first_submit.get_or_insert(completion.submitted);
        self.first_submit = Some(submitted.min(completion.submitted));
        self.last_completion = self.last_completion.max(completion.completed);
        let request = io.request;
        let length = i64::from(request.length_bytes);
        match i64::from(completion.result) {
            result if result == length => {
                let first_submit = io.submitted.unwrap_or(completion.submitted);
                let whole = Completion { submitted: first_submit, ..completion };
                let bytes = u64::from(request.length_bytes);
                let entry_bytes = self.entry_bytes(io.first_block, bytes);
                let drive = self.path.drive_of(request);
                self.path.worked(request);
                self.path.config.measure.io(request.kind, drive, bytes, entry_bytes, whole);
                self.touched(io.first_touch_bytes, completion.completed);
                self.count_direct(request);
                if request.kind == IoKind::Read {
                    self.check(&io, &ticket, completion.completed);
                    self.land(&io, ticket);
                }
            }
            result if result < 0 => {
                let errno = -completion.result;
                if is_transient(errno) && io.attempts < ATTEMPTS_MAX {
                    let now = completion.completed;
                    self.path.config.measure.record(now, |metrics| metrics.retries += 1);
                    self.resubmit(io, completion, ticket, 0);
                } else {
                    self.fail(request, ErrorKind::of_errno(errno), errno, completion.completed);
                }
            }
            0 => self.fail(request, ErrorKind::Truncated, 0, completion.completed),
            moved => {
                // O_DIRECT goes on at a block boundary only.
                let whole_bytes = moved as u32 / BLOCK_BYTES as u32 * BLOCK_BYTES as u32;
                if moved > length || (whole_bytes == 0 && io.attempts >= ATTEMPTS_MAX) {
                    self.fail(request, ErrorKind::Truncated, 0, completion.completed);
                    return;
                }
                let now = completion.completed;
                self.path.config.measure.record(now, |metrics| metrics.short_transfers += 1);
                if whole_bytes > 0 {
                    let bytes = u64::from(whole_bytes);
                    let entry_bytes = self.entry_bytes(io.first_block, bytes);
                    let drive = self.path.drive_of(request);
                    let path = self.path;
                    path.config.measure.io(request.kind, drive, bytes, entry_bytes, completion);
                    let first_touch_bytes = io.first_touch_bytes.min(bytes);
                    self.touched(first_touch_bytes, now);
                    let part = InFlight {
                        request: IoRequest { length_bytes: whole_bytes, ..request },
                        first_touch_bytes: io.first_touch_bytes - first_touch_bytes,
                        ..io
                    };
                    self.count_direct(part.request);
                    if request.kind == IoKind::Read {
                        self.check(&part, &ticket, now);
                    }
                    let io = InFlight { request, submitted: None, attempts: 0, ..part };
                    self.resubmit(io, completion, ticket, whole_bytes);
                } else {
                    self.resubmit(io, completion, ticket, 0);
                }
            }
        }
    }

    /// Counts bytes that were the first to their blocks.
    fn touched(&self, bytes: u64, now: Nanos) {
        if bytes > 0 {
            self.path.config.measure.record(now, |metrics| metrics.first_touch_bytes += bytes);
        }
    }

    /// Bytes of the entry among the `bytes` from `first_block` on: its last block may be padded.
    fn entry_bytes(&self, first_block: u64, bytes: u64) -> u64 {
        bytes.min(self.spec.bytes.saturating_sub(first_block * BLOCK_BYTES))
    }

    /// Goes on with what is left of an I/O after `done_bytes`.
    fn resubmit(&mut self, io: InFlight, completion: Completion, ticket: Ticket, done_bytes: u32) {
        let request = IoRequest {
            kind: io.request.kind,
            offset_bytes: io.request.offset_bytes + u64::from(done_bytes),
            length_bytes: io.request.length_bytes - done_bytes,
            buffer_offset: io.request.buffer_offset + done_bytes,
        };
        self.path.comes(request);
        let first_block = io.first_block + u64::from(done_bytes) / BLOCK_BYTES;
        let future = self.hand_over(request, first_block, ticket);
        let io = InFlight {
            request,
            first_block,
            // A retry's latency counts from the first attempt; a resumed rest from its own.
            submitted: (done_bytes == 0).then(|| io.submitted.unwrap_or(completion.submitted)),
            attempts: if done_bytes == 0 { io.attempts + 1 } else { 0 },
            wait: None,
            first_touch_bytes: io.first_touch_bytes,
        };
        self.in_flight.insert(io, future);
    }

    fn check(&mut self, io: &InFlight, ticket: &Ticket, now: Nanos) {
        // What went past the host is compared where it is (`check_landed`).
        if self.is_direct() {
            return;
        }
        if let Some(bad) = self.path.compare(self.spec, io.request, io.first_block, ticket, now) {
            self.fail(bad, ErrorKind::Corrupt, 0, now);
        }
    }

    pub(super) fn fail(&mut self, request: IoRequest, kind: ErrorKind, errno: i32, now: Nanos) {
        let error = self.path.io_error(request, kind, errno);
        self.path.failed(request, &error, now);
        self.error.get_or_insert(error);
    }
}
