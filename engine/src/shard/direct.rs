//! I/Os between GPU memory and storage with no host memory between, beside those of the ring: a
//! transfer hands them over here, and hears of them as of any other.

#![allow(unsafe_code, reason = "submitting I/O on memory that the lane's table holds")]

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use super::EntryData;
use super::data_path::{InFlight, Transfer};
use super::gpu_path::{Compared, Landing};
use super::measure::Direction;
use crate::buffer::Ticket;
use crate::clock::Clock;
use crate::device::{DeviceFuture, DeviceSlots};
use crate::drive::DriveId;
use crate::fill::VerifyMode;
use crate::ring::{IoKind, IoRequest, SlotToken, Slots};
use crate::tier::gpu::lane::Range;
use crate::tier::gpu::{DirectIo, DirectQueue, GpuEntry};
use crate::units::BLOCK_BYTES;

/// A shard's direct I/Os in flight, with the GPU memory that they read or write.
pub(super) struct DirectLane {
    queue: Box<dyn DirectQueue>,
    slots: Rc<DeviceSlots>,
    held: RefCell<BTreeMap<SlotToken, Rc<GpuEntry>>>,
    /// Where what is read goes when no entry wants it: each I/O to the place that its buffer has
    /// among the buffers, so that no two of them land on each other.
    landing: Rc<GpuEntry>,
    clock: Clock,
}

impl DirectLane {
    /// A lane on `queue`; `landing` is as long as all buffers of the shard together.
    pub(super) fn new(
        queue: Box<dyn DirectQueue>,
        landing: Rc<GpuEntry>,
        clock: Clock,
    ) -> Rc<DirectLane> {
        let (slots, held) = (Slots::new(), RefCell::default());
        Rc::new(DirectLane { queue, slots, held, landing, clock })
    }

    /// Number of I/Os that are submitted and not yet completed.
    pub(super) fn in_flight(&self) -> u32 {
        self.slots.pending()
    }

    /// Memory in which it lands what it reads and no entry wants, bytes.
    pub(super) fn landing_bytes(&self) -> u64 {
        self.landing.bytes()
    }

    fn submit(
        &self,
        request: IoRequest,
        (entry, range): (&Rc<GpuEntry>, Range),
        ticket: Ticket,
    ) -> DeviceFuture {
        let (token, future) = self.slots.insert(Some(ticket), self.clock.now());
        let pieces = entry.range(range.offset_bytes, range.length_bytes);
        self.held.borrow_mut().insert(token, Rc::clone(entry));
        let (drive, offset_bytes) = DriveId::of_byte(request.offset_bytes);
        let is_write = request.kind == IoKind::Write;
        let io = DirectIo { drive: drive.index(), offset_bytes, is_write };
        // SAFETY: the table holds the entry, whose pieces nobody else has, until the I/O is reaped,
        // and `Drop` waits for those that are not. Writers of an entry are alone with it, by
        // placement's pins and states; a place of the landing belongs to who has its buffer, which
        // the slot keeps.
        unsafe { self.queue.submit(token.0, io, &pieces) };
        future
    }

    /// Looks for I/Os that have ended, and wakes who waits for them. Cheap when there are none.
    pub(super) fn reap(&self) {
        if self.held.borrow().is_empty() {
            return;
        }
        let mut ended = Vec::new();
        self.queue.reap(&mut |token, result| ended.push((SlotToken(token), result)));
        let now = self.clock.now();
        for (token, result) in ended {
            let entry = self.held.borrow_mut().remove(&token);
            self.slots.complete(token, result, now);
            drop(entry);
        }
    }
}

impl Drop for DirectLane {
    fn drop(&mut self) {
        // Before the memory that the I/Os use is anybody else's.
        self.queue.finish();
    }
}

impl Transfer<'_> {
    /// The lane for this transfer's I/Os, if they go between GPU memory and the drives alone: what
    /// is read for the host goes by way of buffers.
    fn direct(&self) -> Option<&Rc<DirectLane>> {
        let lane = self.path.config.gpu_direct.as_ref()?;
        let is_direct = match self.spec.direction {
            Direction::Write => matches!(self.spec.source, EntryData::Gpu(_)),
            Direction::Read => !matches!(self.spec.sink, EntryData::Host(_)),
        };
        is_direct.then_some(lane)
    }

    /// Whether its I/Os go past host memory.
    pub(super) fn is_direct(&self) -> bool {
        self.direct().is_some()
    }

    /// The GPU memory of an I/O: a range of the entry, or its place of the landing.
    fn place_of<'a>(
        &'a self,
        lane: &'a DirectLane,
        (request, first_block): (IoRequest, u64),
        ticket: &Ticket,
    ) -> (&'a Rc<GpuEntry>, Range) {
        let length_bytes = u64::from(request.length_bytes);
        let entry = match (self.spec.direction, &self.spec.source, &self.spec.sink) {
            (Direction::Write, EntryData::Gpu(entry), _)
            | (Direction::Read, _, EntryData::Gpu(entry)) => entry,
            _ => {
                let buffer = ticket.buffer().region_offset() as u64;
                let offset_bytes = buffer + u64::from(request.buffer_offset);
                return (&lane.landing, Range { offset_bytes, length_bytes });
            }
        };
        (entry, Range { offset_bytes: first_block * BLOCK_BYTES, length_bytes })
    }

    /// Gives an I/O to the device, or to the lane past host memory.
    pub(super) fn hand_over(
        &self,
        request: IoRequest,
        first_block: u64,
        ticket: Ticket,
    ) -> DeviceFuture {
        match self.direct() {
            None => self.path.config.device.submit(request, Some(ticket)),
            Some(lane) => {
                let place = self.place_of(lane, (request, first_block), &ticket);
                lane.submit(request, place, ticket)
            }
        }
    }

    /// Collects direct I/Os that have ended, where there may be some.
    pub(super) fn reap_direct(&self) {
        if let Some(lane) = self.direct() {
            lane.reap();
        }
    }

    /// Counts an I/O that went past the host.
    pub(super) fn count_direct(&self, request: IoRequest) {
        if !self.is_direct() {
            return;
        }
        let bytes = u64::from(request.length_bytes);
        self.count_moves(|moves| match request.kind {
            IoKind::Read => moves.direct_read_bytes += bytes,
            IoKind::Write => moves.direct_write_bytes += bytes,
            IoKind::Flush => {}
        });
    }

    /// Has the GPU compare what a direct read brought, all of an I/O that came in parts.
    pub(super) fn check_landed(&mut self, io: &InFlight, ticket: Ticket) {
        let config = &self.path.config;
        let (Some(lane), Some(jobs)) = (self.direct(), &config.gpu) else { return };
        if config.verify == VerifyMode::Off {
            return;
        }
        let before = io.request.buffer_offset;
        let request = IoRequest {
            offset_bytes: io.request.offset_bytes - u64::from(before),
            length_bytes: io.request.length_bytes + before,
            buffer_offset: 0,
            ..io.request
        };
        let first_block = io.first_block - u64::from(before) / BLOCK_BYTES;
        let place = self.place_of(lane, (request, first_block), &ticket);
        let (range, name) = (place.1, self.spec.content.name());
        let job = jobs.check(place, name, first_block, config.verify, Some(ticket));
        let compared = Some(Compared { request, first_block });
        self.gpu.land(Landing { range, compared }, job);
    }
}
