//! A drive that only keeps time: nothing is stored, every I/O ends when the model says. All shards
//! of a simulation share the drive; whoever runs the simulation moves its clock to
//! [`SimDrive::next_completion`] and lets what is due complete.

use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::rc::Rc;

use super::model::{DeviceModel, DeviceState};
use super::{Device, DeviceFuture, DeviceSlots};
use crate::buffer::Ticket;
use crate::clock::{Clock, Nanos};
use crate::ring::{IoRequest, SlotToken, Slots};

/// A completion to come: when, in the order submitted, whose, which, and what it will say.
type Due = Reverse<(Nanos, u64, usize, SlotToken, i32)>;

/// The drive.
pub struct SimDrive {
    model: DeviceModel,
    state: RefCell<DeviceState>,
    clock: Clock,
    due: RefCell<BinaryHeap<Due>>,
    submitted: Cell<u64>,
    shards: RefCell<Vec<Rc<DeviceSlots>>>,
}

impl SimDrive {
    /// A drive that does nothing yet.
    #[must_use]
    pub fn new(model: DeviceModel, clock: Clock) -> Rc<SimDrive> {
        Rc::new(SimDrive {
            model,
            state: RefCell::default(),
            clock,
            due: RefCell::default(),
            submitted: Cell::new(0),
            shards: RefCell::default(),
        })
    }

    /// The drive as one shard sees it.
    #[must_use]
    pub fn attach(self: &Rc<Self>) -> SimDevice {
        let slots = Slots::new();
        self.shards.borrow_mut().push(Rc::clone(&slots));
        let index = self.shards.borrow().len() - 1;
        SimDevice { drive: Rc::clone(self), slots, index }
    }

    /// When the next I/O ends; none while nothing is in flight.
    #[must_use]
    pub fn next_completion(&self) -> Option<Nanos> {
        self.due.borrow().peek().map(|Reverse((at, ..))| *at)
    }

    /// Completes what is due now, in the order of the times, then of submission; how many.
    pub fn complete_due(&self) -> u32 {
        let now = self.clock.now();
        let mut completed = 0;
        loop {
            let next = {
                let mut due = self.due.borrow_mut();
                match due.peek() {
                    Some(Reverse((at, ..))) if *at <= now => due.pop(),
                    _ => None,
                }
            };
            let Some(Reverse((at, _, shard, token, result))) = next else { return completed };
            let slots = Rc::clone(&self.shards.borrow()[shard]);
            slots.complete(token, result, at);
            completed += 1;
        }
    }

    /// Time that the drive was occupied so far, ns.
    #[must_use]
    pub fn busy_ns(&self) -> Nanos {
        self.state.borrow().busy_ns()
    }
}

/// One shard's view of a [`SimDrive`].
pub struct SimDevice {
    drive: Rc<SimDrive>,
    slots: Rc<DeviceSlots>,
    index: usize,
}

impl Device for SimDevice {
    fn submit(&self, request: IoRequest, ticket: Option<Ticket>) -> DeviceFuture {
        let drive = &self.drive;
        let now = drive.clock.now();
        let bytes = u64::from(request.length_bytes);
        let at = drive.model.serve(&mut drive.state.borrow_mut(), now, request.kind, bytes);
        let (token, future) = self.slots.insert(ticket, now);
        let number = drive.submitted.get();
        drive.submitted.set(number + 1);
        // A length is at most 64 MiB.
        let result = request.length_bytes as i32;
        drive.due.borrow_mut().push(Reverse((at, number, self.index, token, result)));
        future
    }

    fn kick(&self) {}

    fn in_flight(&self) -> u32 {
        self.slots.pending()
    }

    fn name(&self) -> &str {
        "simulated drive"
    }

    fn first_touch_bytes(&self, _start_block: u64, _blocks: u64) -> u64 {
        0
    }
}
