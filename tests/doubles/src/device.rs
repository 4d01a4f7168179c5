//! A device that fails on purpose: wraps any other.
//!
//! The engine must survive every errno, a short transfer (resumed), a transfer of nothing (typed),
//! silent corruption and a misdirected read (both seen by verification). It need not survive a
//! completion that never comes.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use ringfall_engine::buffer::Ticket;
use ringfall_engine::clock::Clock;
use ringfall_engine::device::{Device, DeviceFuture, DeviceSlots};
use ringfall_engine::ring::{IoKind, IoRequest, SlotToken, Slots};
use ringfall_engine::units::BLOCK_BYTES;

/// Fault of one I/O.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// Fails with this positive errno; nothing is transferred.
    Errno(i32),
    /// Transfers the first half, at least one block and in whole blocks, and says so.
    Short,
    /// Transfers nothing and says so.
    Nothing,
    /// Writes with one bit flipped; a read is not changed.
    Corrupt,
    /// Goes to the block after the one asked for.
    Misdirected,
}

/// Which I/Os fail, and how.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FaultPlan {
    /// None: counts only.
    Never,
    /// Exactly the `nth` (from 0) I/O of the device's life.
    Nth(u64, Fault),
    /// Every I/O whose number is a multiple of `every` (from `every` on).
    Every(u64, Fault),
}

/// A device that fails chosen I/Os of another device on purpose, for tests.
pub struct FaultDevice<D> {
    inner: D,
    plan: Cell<FaultPlan>,
    submitted: Cell<u64>,
    slots: Rc<DeviceSlots>,
    failed: RefCell<VecDeque<(SlotToken, i32)>>,
    clock: Clock,
}

impl<D: Device> FaultDevice<D> {
    /// Wraps `inner`, so that its I/Os fail as `plan` says.
    pub fn new(inner: D, plan: FaultPlan, clock: Clock) -> FaultDevice<D> {
        FaultDevice {
            inner,
            plan: Cell::new(plan),
            submitted: Cell::new(0),
            slots: Slots::new(),
            failed: RefCell::default(),
            clock,
        }
    }

    /// Changes the plan from the next I/O on.
    pub fn set_plan(&self, plan: FaultPlan) {
        self.plan.set(plan);
    }

    /// I/Os submitted so far, failed ones too.
    pub fn submitted(&self) -> u64 {
        self.submitted.get()
    }

    /// The wrapped device, for tests that look at what reached it.
    pub fn inner(&self) -> &D {
        &self.inner
    }

    fn next_fault(&self) -> Option<Fault> {
        let number = self.submitted.replace(self.submitted.get() + 1);
        match self.plan.get() {
            FaultPlan::Nth(nth, fault) if number == nth => Some(fault),
            FaultPlan::Every(every, fault) if number > 0 && number.is_multiple_of(every) => {
                Some(fault)
            }
            _ => None,
        }
    }

    fn fail(&self, ticket: Option<Ticket>, result: i32) -> DeviceFuture {
        let (token, future) = self.slots.insert(ticket, self.clock.now());
        self.failed.borrow_mut().push_back((token, result));
        future
    }
}

impl<D: Device> Device for FaultDevice<D> {
    fn submit(&self, mut request: IoRequest, mut ticket: Option<Ticket>) -> DeviceFuture {
        let block = BLOCK_BYTES as u32;
        match self.next_fault() {
            None => {}
            Some(Fault::Errno(errno)) => return self.fail(ticket, -errno),
            Some(Fault::Nothing) => return self.fail(ticket, 0),
            Some(Fault::Short) => {
                let half = request.length_bytes / 2 / block * block;
                request.length_bytes = half.max(block).min(request.length_bytes);
            }
            Some(Fault::Corrupt) => {
                if request.kind == IoKind::Write
                    && let Some(ticket) = &mut ticket
                {
                    let at = request.buffer_offset as usize;
                    ticket.buffer_mut().bytes_mut()[at] ^= 1;
                }
            }
            Some(Fault::Misdirected) => request.offset_bytes += BLOCK_BYTES,
        }
        self.inner.submit(request, ticket)
    }

    fn kick(&self) {
        loop {
            let Some((token, result)) = self.failed.borrow_mut().pop_front() else { break };
            self.slots.complete(token, result, self.clock.now());
        }
        self.inner.kick();
    }

    fn in_flight(&self) -> u32 {
        self.slots.pending() + self.inner.in_flight()
    }

    fn name(&self) -> &str {
        self.inner.name()
    }

    fn place(&self, offset_bytes: u64) -> (String, u64) {
        self.inner.place(offset_bytes)
    }

    fn first_touch_bytes(&self, start_block: u64, blocks: u64) -> u64 {
        self.inner.first_touch_bytes(start_block, blocks)
    }
}
