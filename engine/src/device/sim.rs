//! A drive on a simulated clock: every I/O ends when the model says. It only keeps time, and no
//! bytes, unless it is made with a medium and its flaws. All shards of a simulation share the
//! drive; whoever runs the simulation moves its clock to [`SimDrive::next_completion`] and lets
//! what is due complete.

use std::cell::{Cell, RefCell};
use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::rc::Rc;

use super::flaws::{Flaw, FlawCounts, FlawRates, FlawedMedium};
use super::{Device, DeviceFuture, DeviceSlots};
use super::{DeviceModel, DeviceState};
use crate::buffer::Ticket;
use crate::clock::{Clock, Nanos};
use crate::ring::{IoRequest, SlotToken, Slots};

/// A completion to come.
struct Due {
    /// When, and, at the same time, in the order submitted.
    at: (Nanos, u64),
    shard: usize,
    whose: Whose,
    request: IoRequest,
    flaw: Flaw,
}

/// Whose memory an I/O moves.
enum Whose {
    /// A buffer of the shard's.
    Slot(SlotToken),
    /// Other memory.
    Other(Box<OtherMemory>),
}

/// Ends an I/O on other memory than a shard's buffers: to be given what moves the bytes between the
/// drive and that memory and says what the kernel would, bytes moved or a negative errno.
pub type OtherMemory = dyn FnOnce(&mut dyn FnMut(&mut [u8]) -> i32);

impl PartialEq for Due {
    fn eq(&self, other: &Self) -> bool {
        self.at == other.at
    }
}

impl Eq for Due {}

impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Due {
    fn cmp(&self, other: &Self) -> Ordering {
        self.at.cmp(&other.at)
    }
}

/// A simulated drive, which all shards of a simulation share.
pub struct SimDrive {
    model: DeviceModel,
    state: RefCell<DeviceState>,
    clock: Clock,
    due: RefCell<BinaryHeap<Reverse<Due>>>,
    /// Shards whose I/Os do not end for now, and what would have ended of theirs.
    silent: RefCell<Vec<usize>>,
    withheld: RefCell<Vec<Due>>,
    submitted: Cell<u64>,
    /// The latest submitted of those that have ended.
    latest_ended: Cell<u64>,
    shards: RefCell<Vec<Rc<DeviceSlots>>>,
    /// Whether I/Os on other memory than the shards' buffers fail.
    reaches_buffers_only: Cell<bool>,
    medium: Option<RefCell<FlawedMedium>>,
}

impl SimDrive {
    /// A drive that does nothing yet.
    #[must_use]
    pub fn new(model: DeviceModel, clock: Clock) -> Rc<SimDrive> {
        Rc::new(SimDrive::with(model, clock, None))
    }

    /// A drive of `blocks` that keeps what is written, as well as its flaws let it; they follow
    /// from
    /// `seed`.
    #[must_use]
    pub fn flawed(
        model: DeviceModel,
        clock: Clock,
        blocks: u64,
        rates: FlawRates,
        seed: u64,
    ) -> Rc<SimDrive> {
        Rc::new(SimDrive::with(model, clock, Some(FlawedMedium::new(blocks, rates, seed))))
    }

    fn with(model: DeviceModel, clock: Clock, medium: Option<FlawedMedium>) -> SimDrive {
        SimDrive {
            model,
            state: RefCell::default(),
            clock,
            due: RefCell::default(),
            silent: RefCell::default(),
            withheld: RefCell::default(),
            submitted: Cell::new(0),
            latest_ended: Cell::new(0),
            shards: RefCell::default(),
            reaches_buffers_only: Cell::new(false),
            medium: medium.map(RefCell::new),
        }
    }

    /// From now on every I/O on it fails, if it has a medium.
    pub fn die(&self) {
        if let Some(medium) = &self.medium {
            medium.borrow_mut().die();
        }
    }

    /// From now on no I/O of that shard ends, counted in the order in which they were attached: the
    /// drive does not answer, or the shard does not hear it.
    pub fn fall_silent(&self, shard: usize) {
        self.silent.borrow_mut().push(shard);
        let (kept, withheld): (Vec<_>, Vec<_>) =
            self.due.take().into_iter().partition(|Reverse(due)| due.shard != shard);
        self.due.replace(kept.into());
        self.withheld.borrow_mut().extend(withheld.into_iter().map(|Reverse(due)| due));
    }

    /// From now on the I/Os of all shards end again; those that should have ended meanwhile end at
    /// the next [`SimDrive::complete_due`].
    pub fn answer(&self) {
        self.silent.borrow_mut().clear();
        self.due.borrow_mut().extend(self.withheld.take().into_iter().map(Reverse));
    }

    /// From now on no I/O ends at all, until [`SimDrive::answer`].
    pub fn fall_silent_for_all(&self) {
        (0..self.shards.borrow().len()).for_each(|shard| self.fall_silent(shard));
    }

    /// From now on every I/O on other memory than the shards' buffers fails, if the drive has a
    /// medium: whose memory it is was lost.
    pub fn lose_other_memory(&self) {
        self.reaches_buffers_only.set(true);
    }

    /// Begins an I/O of that shard, counted as for [`SimDrive::fall_silent`], on memory that is
    /// none of its buffers: `memory` is called when the I/O ends. It counts as waited for.
    pub fn submit_for(&self, shard: usize, request: IoRequest, memory: Box<OtherMemory>) {
        self.begin(shard, request, Whose::Other(memory));
    }

    /// Decides when an I/O ends and what goes wrong with it.
    fn begin(&self, shard: usize, request: IoRequest, whose: Whose) {
        let now = self.clock.now();
        let bytes = u64::from(request.length_bytes);
        let state = &mut *self.state.borrow_mut();
        let (mut flaw, late) = match &self.medium {
            None => (Flaw::None, Nanos::ZERO),
            Some(medium) => {
                let medium = &mut *medium.borrow_mut();
                let (late, stall) = medium.delays();
                state.stall(now, stall);
                (medium.draw(request), late)
            }
        };
        let at = self.model.serve(state, now, request.kind, bytes) + late;
        if matches!(whose, Whose::Other(_)) && self.reaches_buffers_only.get() {
            flaw = Flaw::Errno(libc::EIO);
        }
        let number = self.submitted.get();
        self.submitted.set(number + 1);
        let due = Due { at: (at, number), shard, whose, request, flaw };
        match self.silent.borrow().contains(&shard) {
            true => self.withheld.borrow_mut().push(due),
            false => self.due.borrow_mut().push(Reverse(due)),
        }
    }

    /// Flaws so far, if it has a medium.
    #[must_use]
    pub fn flaws(&self) -> Option<FlawCounts> {
        self.medium.as_ref().map(|medium| medium.borrow().counts())
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
        self.due.borrow().peek().map(|Reverse(due)| due.at.0)
    }

    /// Completes what is due now, in the order of the times, then of submission; how many.
    pub fn complete_due(&self) -> u32 {
        let now = self.clock.now();
        let mut completed = 0;
        loop {
            let next = {
                let mut due = self.due.borrow_mut();
                match due.peek() {
                    Some(Reverse(next)) if next.at.0 <= now => due.pop(),
                    _ => None,
                }
            };
            let Some(Reverse(due)) = next else { return completed };
            if let Some(medium) = &self.medium
                && due.at.1 < self.latest_ended.get()
            {
                medium.borrow_mut().note_overtaken();
            }
            self.latest_ended.set(self.latest_ended.get().max(due.at.1));
            self.end(due);
            completed += 1;
        }
    }

    fn end(&self, due: Due) {
        let (request, flaw) = (due.request, due.flaw);
        let token = match due.whose {
            Whose::Slot(token) => token,
            Whose::Other(memory) => {
                return memory(&mut |bytes| match &self.medium {
                    None => request.length_bytes as i32,
                    Some(medium) => medium.borrow_mut().finish(request, flaw, Some(bytes), true),
                });
            }
        };
        let slots = Rc::clone(&self.shards.borrow()[due.shard]);
        let result = match &self.medium {
            // A length is at most 64 MiB.
            None => request.length_bytes as i32,
            Some(medium) => slots.with_owned(token, |ticket, is_live| {
                let buffer = ticket.map(|ticket| ticket.buffer_mut().bytes_mut());
                medium.borrow_mut().finish(request, flaw, buffer, is_live)
            }),
        };
        slots.complete(token, result, due.at.0);
    }

    /// Time that the drive was occupied so far.
    #[must_use]
    pub fn busy(&self) -> Nanos {
        self.state.borrow().busy(self.clock.now())
    }

    /// Time that I/Os waited for one of its parallel places so far.
    #[must_use]
    pub fn crowded(&self) -> Nanos {
        self.state.borrow().crowded(self.clock.now())
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
        let (token, future) = self.slots.insert(ticket, self.drive.clock.now());
        self.drive.begin(self.index, request, Whose::Slot(token));
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
