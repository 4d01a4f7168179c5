//! A drive on a simulated clock: every I/O ends when the model says. It only keeps time, and no
//! bytes, unless it is made with a medium. All shards of a simulation share the drive; whoever runs
//! the simulation moves its clock to [`SimDrive::next_completion`] and lets what is due complete.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use super::{Device, DeviceFuture, DeviceSlots};
use super::{DeviceModel, DeviceState};
use crate::buffer::Ticket;
use crate::clock::{Clock, Nanos};
use crate::ring::{IoRequest, SlotToken, Slots};

/// When an I/O ends, and, at the same time, its number in the order submitted.
type At = (Nanos, u64);

struct Due {
    at: At,
    shard: usize,
    whose: Whose,
    request: IoRequest,
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

/// Content of a simulated drive, and what goes wrong with its I/Os, each of which has a number, in
/// the order submitted.
pub trait SimMedium {
    /// Draws the extra time of the next I/O, and the time for which the drive stalls before it.
    fn delays(&mut self) -> (Nanos, Nanos);

    /// Begins that I/O; `is_on_buffer`: its memory is a buffer of a shard's.
    fn begin(&mut self, number: u64, request: IoRequest, is_on_buffer: bool);

    /// Does what is left of the I/O, into or out of its memory; returns what the kernel would.
    /// `is_live`: somebody waits for it.
    fn finish(
        &mut self,
        number: u64,
        request: IoRequest,
        memory: Option<&mut [u8]>,
        is_live: bool,
    ) -> i32;
}

/// A simulated drive, which all shards of a simulation share.
pub struct SimDrive {
    model: DeviceModel,
    state: RefCell<DeviceState>,
    clock: Clock,
    /// In order. Most I/Os end after all that were submitted before them, which a list takes at
    /// once.
    due: RefCell<VecDeque<Due>>,
    /// Shards whose I/Os do not end for now, and what would have ended of theirs.
    silent: RefCell<Vec<usize>>,
    withheld: RefCell<VecDeque<Due>>,
    submitted: Cell<u64>,
    shards: RefCell<Vec<Rc<DeviceSlots>>>,
    medium: Option<Rc<RefCell<dyn SimMedium>>>,
}

impl SimDrive {
    /// A drive that does nothing yet; without a medium it only keeps time.
    pub fn new(
        model: DeviceModel,
        clock: Clock,
        medium: Option<Rc<RefCell<dyn SimMedium>>>,
    ) -> Rc<SimDrive> {
        Rc::new(SimDrive {
            model,
            state: RefCell::default(),
            clock,
            due: RefCell::default(),
            silent: RefCell::default(),
            withheld: RefCell::default(),
            submitted: Cell::new(0),
            shards: RefCell::default(),
            medium,
        })
    }

    /// From now on no I/O of that shard ends, counted in the order in which they were attached: the
    /// drive does not answer, or the shard does not hear it.
    pub fn fall_silent(&self, shard: usize) {
        self.silent.borrow_mut().push(shard);
        let (kept, withheld): (VecDeque<_>, VecDeque<_>) =
            self.due.take().into_iter().partition(|due| due.shard != shard);
        self.due.replace(kept);
        self.withheld.borrow_mut().extend(withheld);
    }

    /// From now on the I/Os of all shards end again; those that should have ended meanwhile end at
    /// the next [`SimDrive::complete_due`].
    pub fn answer(&self) {
        self.silent.borrow_mut().clear();
        self.withheld.take().into_iter().for_each(|due| self.await_end(due));
    }

    fn await_end(&self, due: Due) {
        let mut all = self.due.borrow_mut();
        let place = all.partition_point(|other| other.at < due.at);
        all.insert(place, due);
    }

    /// From now on no I/O ends at all, until [`SimDrive::answer`].
    pub fn fall_silent_for_all(&self) {
        (0..self.shards.borrow().len()).for_each(|shard| self.fall_silent(shard));
    }

    /// Begins an I/O of that shard, counted as for [`SimDrive::fall_silent`], on memory that is
    /// none of its buffers: `memory` is called when the I/O ends. It counts as waited for.
    pub fn submit_for(&self, shard: usize, request: IoRequest, memory: Box<OtherMemory>) {
        self.begin(shard, request, Whose::Other(memory));
    }

    /// Decides when an I/O ends.
    fn begin(&self, shard: usize, request: IoRequest, whose: Whose) {
        let now = self.clock.now();
        let bytes = u64::from(request.length_bytes);
        let state = &mut *self.state.borrow_mut();
        let number = self.submitted.replace(self.submitted.get() + 1);
        let late = self.medium.as_ref().map_or(Nanos::ZERO, |medium| {
            let medium = &mut *medium.borrow_mut();
            let (late, stall) = medium.delays();
            state.stall(now, stall);
            medium.begin(number, request, matches!(whose, Whose::Slot(_)));
            late
        });
        let at = self.model.serve(state, now, request.kind, bytes) + late;
        let due = Due { at: (at, number), shard, whose, request };
        match self.silent.borrow().contains(&shard) {
            true => self.withheld.borrow_mut().push_back(due),
            false => self.await_end(due),
        }
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
    pub fn next_completion(&self) -> Option<Nanos> {
        self.due.borrow().front().map(|due| due.at.0)
    }

    /// Completes what is due now, in the order of the times, then of submission; how many.
    pub fn complete_due(&self) -> u32 {
        let now = self.clock.now();
        let mut completed = 0;
        loop {
            let next = match &mut *self.due.borrow_mut() {
                due if due.front().is_some_and(|next| next.at.0 <= now) => due.pop_front(),
                _ => None,
            };
            let Some(due) = next else { return completed };
            self.end(due);
            completed += 1;
        }
    }

    fn end(&self, due: Due) {
        let (request, (at, number)) = (due.request, due.at);
        let token = match due.whose {
            Whose::Slot(token) => token,
            Whose::Other(memory) => {
                return memory(&mut |bytes| match &self.medium {
                    None => request.length_bytes as i32,
                    Some(medium) => medium.borrow_mut().finish(number, request, Some(bytes), true),
                });
            }
        };
        let slots = Rc::clone(&self.shards.borrow()[due.shard]);
        let result = match &self.medium {
            // A length is at most 64 MiB.
            None => request.length_bytes as i32,
            Some(medium) => slots.with_owned(token, |ticket, is_live| {
                let buffer = ticket.map(|ticket| ticket.buffer_mut().bytes_mut());
                medium.borrow_mut().finish(number, request, buffer, is_live)
            }),
        };
        slots.complete(token, result, at);
    }

    /// Time that the drive was occupied so far; of reads, writes and both, if each has a part.
    pub fn busy(&self) -> [Nanos; 3] {
        self.state.borrow().busy(self.clock.now())
    }

    /// Time that I/Os taken so far occupy it by their number rather than their bytes.
    pub fn by_number(&self) -> Nanos {
        self.state.borrow().by_number()
    }

    /// Time that I/Os taken so far occupy it besides, as so many are in flight.
    pub fn slowed(&self) -> Nanos {
        self.state.borrow().slowed()
    }

    /// Time that I/Os waited for one of its parallel places so far.
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

    fn in_flight(&self) -> u32 {
        self.slots.pending()
    }

    fn name(&self) -> &str {
        "simulated drive"
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ring::IoKind;

    #[test]
    fn ios_end_in_the_order_of_their_times_and_then_of_submission() {
        let now = Rc::new(Cell::new(Nanos::ZERO));
        let mut model = DeviceModel::ideal(Nanos::from_us(10));
        (model.read.latency, model.read.latency_p99) = (Nanos::from_us(30), Nanos::from_us(30));
        let drive = SimDrive::new(model, Clock::Simulated(Rc::clone(&now)), None);
        let ended: Rc<RefCell<Vec<u64>>> = Rc::default();
        let submit = |shard, kind, number: u64| {
            let offset_bytes = number * 4096;
            let request = IoRequest { kind, offset_bytes, length_bytes: 4096, buffer_offset: 0 };
            let ended = Rc::clone(&ended);
            let memory = move |_: &mut dyn FnMut(&mut [u8]) -> i32| ended.borrow_mut().push(number);
            drive.submit_for(shard, request, Box::new(memory));
        };
        let (read, write) = (IoKind::Read, IoKind::Write);
        let ios = [(0, read), (1, read), (0, write), (1, write), (0, read), (1, write)];
        for (number, (shard, kind)) in ios.into_iter().enumerate() {
            submit(shard, kind, number as u64);
        }
        drive.fall_silent(1);
        submit(1, write, 6);
        assert_eq!(drive.next_completion(), Some(Nanos::from_us(10)));
        now.set(Nanos::from_us(30));
        assert_eq!((drive.complete_due(), ended.take()), (3, vec![2, 0, 4]));
        assert_eq!(drive.next_completion(), None);
        drive.answer();
        assert_eq!((drive.complete_due(), ended.take()), (4, vec![3, 5, 6, 1]));
    }
}
