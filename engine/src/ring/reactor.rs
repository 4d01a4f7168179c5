//! Submitting in batches, reaping, and sleeping until there is something to reap.

#![allow(unsafe_code, reason = "pushing entries whose buffers the slot table owns")]

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::os::fd::{AsRawFd, RawFd};
use std::rc::Rc;
use std::time::Duration;

use io_uring::squeue::EntryMarker as _;
use io_uring::{IoUring, cqueue, opcode, types};

use super::batch::is_batch;
use super::command::{CommandTarget, Commands};
use super::dialect::{AskedIo, Dialect, Files};
use super::doorbell::Doorbell;
use super::entrance::Entrance;
use super::op::{IoKind, IoRequest};
use super::patience::PAUSE;
use super::probe::RingFeatures;
use super::setup::{CommandSetup, RingSetup};
use super::slot::{IoFuture, SlotToken, Slots};
use crate::buffer::IoMemory;
use crate::clock::{Clock, Nanos, SECOND, monotonic_now};

/// Something that a thread looks at between its tasks, and sleeps in when it has none to run.
pub trait Parker {
    /// Works off what has completed, after a pass in which tasks ran; never blocks.
    fn poll(&self);

    /// Hands over what is queued, and blocks until an I/O has completed, `doorbell` rings, a signal
    /// comes or `longest` is over; works off what has completed.
    fn park(&self, doorbell: &Doorbell, longest: Option<Duration>);
}

/// Names the poll of a doorbell among the I/Os of a ring, none of which has so high a number.
const DOORBELL: u64 = u64::MAX;

/// I/O size from which on the drive has work for longer than the processor takes to queue a
/// deep queue of such I/Os: these go out with the next sleep. Smaller ones go out in batches.
const LARGE_IO_BYTES: u32 = 64 << 10;

/// How often a ring that ends looks whether the kernel has let go of its buffers.
const DROP_LOOK: Duration = Duration::from_millis(1);
/// How long it looks without any I/O completing: a device that is silent for longer keeps the
/// buffers, which are leaked rather than freed under it.
const DROP_PATIENCE: Nanos = Nanos::from_secs(30);

/// A ring and its in-flight table. `B` is what an I/O owns until its completion, `D` how the kernel
/// is asked for it.
pub struct Ring<B: 'static, D: Dialect = Files> {
    /// Before the ring, whose number it gives back.
    entrance: Entrance,
    ring: RefCell<IoUring<D::Entry, D::Answer>>,
    dialect: D,
    slots: Rc<Slots<B>>,
    features: RingFeatures,
    clock: Clock,
    /// Whether the kernel is asked to tell of the doorbell.
    hears_doorbell: Cell<bool>,
    /// I/Os in the submission queue that the kernel has not taken, oldest first. None where a
    /// kernel thread takes them: from then on they are the kernel's, whatever becomes of the ring.
    queued: RefCell<VecDeque<SlotToken>>,
    /// How many of them, the youngest, have not been handed over yet.
    fresh: Cell<usize>,
    /// I/Os for which the submission queue had no place, oldest first.
    waiting: RefCell<VecDeque<(SlotToken, D::Entry)>>,
    /// The errno with which the kernel refused to take any more I/O; 0 while it takes them.
    refusal: Cell<i32>,
    /// Whether anything was queued when a pass was last over: it has waited for a whole pass.
    lingers: Cell<bool>,
    /// Set while completions are worked off: waking a task may come back here.
    turning: Cell<bool>,
    /// Calls of `io_uring_enter` so far.
    enters: Cell<u64>,
}

impl<B: IoMemory + 'static> Ring<B> {
    /// Takes over a ring made on this thread. `file` is used when it could not be registered.
    #[must_use]
    pub fn new(setup: RingSetup, file: RawFd, clock: Clock) -> Ring<B> {
        Ring::over(setup, &[file], clock)
    }

    /// The same for several files, in the order in which they were registered.
    #[must_use]
    pub fn over(setup: RingSetup, files: &[RawFd], clock: Clock) -> Ring<B> {
        let dialect = Files::new(files, setup.features, setup.registered_span_bytes);
        Ring::speaking(dialect, setup, clock)
    }
}

impl<B: IoMemory + 'static> Ring<B, Commands> {
    /// One for NVMe commands to these namespaces, in the order in which their files were
    /// registered.
    #[must_use]
    pub fn commanding(
        setup: CommandSetup,
        targets: &[CommandTarget],
        clock: Clock,
    ) -> Ring<B, Commands> {
        let dialect = Commands::new(targets, setup.features, setup.registered_span_bytes);
        Ring::speaking(dialect, setup, clock)
    }
}

impl<B: IoMemory + 'static, D: Dialect> Ring<B, D> {
    fn speaking(dialect: D, setup: RingSetup<D::Entry, D::Answer>, clock: Clock) -> Ring<B, D> {
        let entrance = Entrance::of(&setup.ring);
        let features = RingFeatures { registered_ring: entrance.is_registered(), ..setup.features };
        Ring {
            entrance,
            ring: RefCell::new(setup.ring),
            dialect,
            slots: Slots::new(),
            features,
            clock,
            hears_doorbell: Cell::new(false),
            queued: RefCell::default(),
            fresh: Cell::new(0),
            waiting: RefCell::default(),
            refusal: Cell::new(0),
            lingers: Cell::new(false),
            turning: Cell::new(false),
            enters: Cell::new(0),
        }
    }

    /// What the ring got.
    #[must_use]
    pub fn features(&self) -> RingFeatures {
        self.features
    }

    /// Number of I/Os of this ring that are submitted and not yet completed.
    #[must_use]
    pub fn in_flight(&self) -> u32 {
        self.slots.pending()
    }

    /// When the oldest of them was submitted.
    #[must_use]
    pub fn oldest_in_flight(&self) -> Option<Nanos> {
        self.slots.oldest()
    }

    /// Times so far that what was queued was handed to the kernel: an `io_uring_enter` each, but
    /// with a submission thread that is awake, which looks by itself, no system call.
    #[must_use]
    pub fn enters(&self) -> u64 {
        self.enters.get()
    }

    /// Queues one I/O on the first file; `owned` belongs to the slot table until it completes. It
    /// is handed over by [`Ring::turn`] or [`Ring::wait`]; small ones as soon as they are a batch.
    pub fn push(&self, request: IoRequest, owned: Option<B>) -> IoFuture<B> {
        self.push_to(0, request, owned)
    }

    /// The same on the file of that number, which must be one of the ring's.
    pub fn push_to(&self, file: usize, request: IoRequest, owned: Option<B>) -> IoFuture<B> {
        let memory =
            |owned: &B| owned.place(request.buffer_offset as usize, request.length_bytes as usize);
        let place = owned.as_ref().filter(|_| request.kind != IoKind::Flush).map(memory);
        // Its time comes with the batch that it is handed over with.
        let (token, future) = self.slots.insert(owned, Nanos::ZERO);
        if self.refusal.get() != 0 {
            let now = self.clock.now();
            self.slots.handed_over(token, now);
            self.slots.complete(token, -self.refusal.get(), now);
            return future;
        }
        self.dialect.encode(&AskedIo { file, request, place }, token, |mut entry| {
            entry.set_user_data(token.0);
            // None overtakes those that wait.
            if !self.waiting.borrow().is_empty() || !self.queue(token, &entry) {
                self.waiting.borrow_mut().push_back((token, entry));
            }
        });
        if request.length_bytes < LARGE_IO_BYTES && is_batch(self.fresh.get(), self.in_flight()) {
            self.enter();
        }
        future
    }

    /// Puts an entry in the submission queue; false when that is full.
    // Once for all I/O, and for those that have waited: left to itself the compiler calls it.
    #[inline(always)]
    fn queue(&self, token: SlotToken, entry: &D::Entry) -> bool {
        if self.features.submission_thread {
            // The kernel may have it before we look again.
            self.hand_over(token, self.clock.now());
        }
        // SAFETY: the buffer is owned by the slot until the completion carrying this token, and the
        // pool that it came from outlives the ring (see `Drop`).
        let pushed = unsafe { self.ring.borrow_mut().submission().push(entry) }.is_ok();
        if pushed && !self.features.submission_thread {
            self.queued.borrow_mut().push_back(token);
            self.fresh.set(self.fresh.get() + 1);
        }
        pushed
    }

    /// Hands over what was pushed and works off what has completed. O(completions); no system
    /// call when there is nothing to do.
    ///
    /// The kernel's flag for deferred work is a reason to enter, and never one to go on: it can
    /// stay raised over an empty list, where an enter of ours ran the work between its being listed
    /// and the flag's being raised (`io_req_local_work_add`, Linux 6.1 to 6.18). So an enter after
    /// which there is nothing to reap is the last.
    pub fn turn(&self) {
        if self.turning.replace(true) {
            return;
        }
        loop {
            if self.needs_enter() {
                self.enter();
            }
            if self.take_completions() == 0 {
                break;
            }
        }
        self.turning.set(false);
    }

    /// Hands over what was pushed, and blocks until an I/O has completed, a signal comes or
    /// `longest` is over; works off what has completed. One system call, or none where something
    /// had completed before.
    pub fn wait(&self, longest: Option<Duration>) {
        if self.turning.replace(true) {
            return;
        }
        if self.take_completions() == 0 {
            self.wait_in_kernel(longest);
            self.take_completions();
        }
        self.turning.set(false);
    }

    /// Has the kernel look at the drives once for what has completed, and works that off: for a
    /// ring made to be polled, whose completions nobody else finds. One system call, which does not
    /// sleep; none when nothing is in flight. Hands nothing over: [`Ring::turn`] does.
    ///
    /// Returns the number of completions worked off.
    pub fn poll_drives(&self) -> u32 {
        if self.in_flight() == 0 || self.turning.replace(true) {
            return 0;
        }
        self.enter_without_submitting();
        let reaped = self.take_completions();
        self.turning.set(false);
        reaped
    }

    fn wait_in_kernel(&self, longest: Option<Duration>) {
        if self.refusal.get() != 0 {
            // The submission queue names buffers that are free by now: it is not handed over again.
            self.enter_without_submitting();
            return std::thread::sleep(longest.map_or(PAUSE, |longest| longest.min(PAUSE)));
        }
        self.fill_queue();
        self.stamp();
        self.count_enter();
        let result = self.entrance.submit_and_wait(&mut self.ring.borrow_mut(), longest);
        match result.as_ref().err().and_then(std::io::Error::raw_os_error) {
            // Nothing was queued, and nothing has come.
            Some(libc::ETIME | libc::EINTR) => {}
            // Short of memory, or of room for completions: soon again, and not at once.
            Some(libc::EAGAIN | libc::EBUSY) => std::thread::sleep(PAUSE),
            _ => self.handed_over(result),
        }
    }

    /// Asks the kernel to complete when the doorbell rings, unless it is asked already; false where
    /// the submission queue has no place for that.
    fn hear(&self, doorbell: &Doorbell) -> bool {
        if self.refusal.get() != 0 || self.hears_doorbell.get() {
            return true;
        }
        // Those before it in the queue are the youngest for a moment more.
        self.stamp();
        let fd = types::Fd(doorbell.fd().as_raw_fd());
        let mut entry = D::Entry::from(opcode::PollAdd::new(fd, libc::POLLIN as u32).build());
        entry.set_user_data(DOORBELL);
        // SAFETY: the entry refers to no memory.
        if unsafe { self.ring.borrow_mut().submission().push(&entry) }.is_err() {
            return false;
        }
        self.hears_doorbell.set(true);
        if !self.features.submission_thread {
            self.queued.borrow_mut().push_back(SlotToken(DOORBELL));
        }
        true
    }

    /// Moves those that wait into the submission queue, as far as it has room.
    fn fill_queue(&self) {
        loop {
            // Not held across `queue`.
            let next = self.waiting.borrow().front().cloned();
            let Some((token, _)) = next.filter(|(token, entry)| self.queue(*token, entry)) else {
                return;
            };
            let taken = self.waiting.borrow_mut().pop_front();
            debug_assert_eq!(taken.map(|(taken, _)| taken), Some(token));
        }
    }

    /// Whether there is a reason to enter the kernel: entries to hand over, the kernel's flags.
    fn needs_enter(&self) -> bool {
        if !self.queued.borrow().is_empty() || !self.waiting.borrow().is_empty() {
            return true;
        }
        self.has_flags()
    }

    /// Whether the kernel has work for this thread that only an enter does.
    fn has_flags(&self) -> bool {
        let mut ring = self.ring.borrow_mut();
        let queue = ring.submission();
        let sleeps = self.features.submission_thread && !queue.is_empty() && queue.need_wakeup();
        sleeps || queue.taskrun() || queue.cq_overflow()
    }

    fn enter(&self) {
        if self.refusal.get() != 0 {
            self.enter_without_submitting();
            return;
        }
        loop {
            self.fill_queue();
            let before = self.queued.borrow().len();
            self.stamp();
            self.count_enter();
            let result = self.entrance.submit(&mut self.ring.borrow_mut());
            self.handed_over(result);
            let taken = before - self.queued.borrow().len();
            // More only where the last enter made room for it.
            if self.refusal.get() != 0 || taken == 0 || self.waiting.borrow().is_empty() {
                return;
            }
        }
    }
}

impl<B: IoMemory + 'static, D: Dialect> Parker for Ring<B, D> {
    fn poll(&self) {
        let has_queued = !self.queued.borrow().is_empty();
        let lingered = self.lingers.replace(has_queued) && has_queued;
        if lingered || self.has_flags() {
            self.turn();
        } else if !self.turning.replace(true) {
            self.take_completions();
            self.turning.set(false);
        }
    }

    fn park(&self, doorbell: &Doorbell, longest: Option<Duration>) {
        if !self.hear(doorbell) {
            // Handed over, the queue has room when this thread next wants to sleep.
            return self.turn();
        }
        if self.refusal.get() != 0 && self.in_flight() == 0 {
            return doorbell.await_ring(longest);
        }
        let was_heard = self.hears_doorbell.get();
        self.wait(longest);
        if was_heard && !self.hears_doorbell.get() {
            doorbell.silence();
        }
    }
}

impl<B: 'static, D: Dialect> Ring<B, D> {
    /// Notes when what is new in the submission queue is handed over: one look at the clock for all
    /// of it.
    fn stamp(&self) {
        let fresh = self.fresh.take();
        if fresh > 0 {
            let now = self.clock.now();
            let queued = self.queued.borrow();
            for token in queued.iter().rev().take(fresh) {
                self.hand_over(*token, now);
            }
        }
    }

    fn count_enter(&self) {
        self.lingers.set(false);
        self.enters.set(self.enters.get() + 1);
    }

    /// Takes note of what the kernel said of the entries in the submission queue. A refusal ends
    /// what it concerns; there is nobody else to tell.
    fn handed_over(&self, result: std::io::Result<usize>) {
        match result {
            Ok(taken) => {
                let mut queued = self.queued.borrow_mut();
                let taken = taken.min(queued.len());
                drop(queued.drain(..taken));
            }
            Err(error) => match error.raw_os_error() {
                // EBUSY: completions overflowed, reaping comes first. EAGAIN: the kernel is short
                // of memory. EINTR: a signal. The next turn tries again.
                Some(libc::EBUSY | libc::EAGAIN | libc::EINTR) => {}
                errno => self.refuse(errno.unwrap_or(libc::EIO)),
            },
        }
    }

    /// The kernel takes no more I/O: what it has not taken ends with its errno, and so does all
    /// that is asked for later. What it has taken still completes.
    fn refuse(&self, errno: i32) {
        self.refusal.set(errno);
        self.end_untaken(-errno);
    }

    /// Has the kernel run what waits for this thread, and look for completions once.
    fn enter_without_submitting(&self) {
        self.count_enter();
        if let Err(error) = self.entrance.look(&self.ring.borrow()) {
            tracing::debug!(%error, "io_uring_enter without entries");
        }
    }

    fn take_completions(&self) -> u32 {
        let mut reaped = 0;
        let mut now = None;
        loop {
            // Not held across `complete`, which wakes tasks that may push.
            let Some(entry) = self.ring.borrow_mut().completion().next() else { break };
            let entry: cqueue::Entry = entry.into();
            if entry.user_data() == DOORBELL {
                self.hears_doorbell.set(false);
                continue;
            }
            // One clock read a batch: completions reaped together are seen together.
            let now = *now.get_or_insert_with(|| self.clock.now());
            self.answered(SlotToken(entry.user_data()), entry.result(), now);
            reaped += 1;
        }
        reaped
    }

    /// One entry of an I/O is handed over, and with its first the I/O.
    #[inline]
    fn hand_over(&self, token: SlotToken, now: Nanos) {
        if self.dialect.begins(token) {
            self.slots.handed_over(token, now);
        }
    }

    /// One entry of an I/O has ended, and with its last the I/O.
    #[inline]
    fn answered(&self, token: SlotToken, result: i32, now: Nanos) {
        if let Some(result) = self.dialect.answered(token, result) {
            self.slots.complete(token, result, now);
        }
    }

    /// Ends the I/Os that the kernel has not taken, with `result`. The submission queue may not be
    /// handed over any more afterwards: their buffers are free.
    fn end_untaken(&self, result: i32) {
        let queued = self.queued.take();
        let waiting = self.waiting.take();
        if queued.is_empty() && waiting.is_empty() {
            return;
        }
        let now = self.clock.now();
        let waiting = waiting.into_iter().map(|(token, _)| token);
        let ios = queued.into_iter().chain(waiting).filter(|token| token.0 != DOORBELL);
        ios.for_each(|token| {
            self.hand_over(token, now);
            self.answered(token, result, now);
        });
        self.fresh.set(0);
    }

    /// Gives the registered files back when nothing is in flight. The kernel ends a ring in the
    /// background, and a file system can't be unmounted while it holds a file there.
    pub fn release_file(&self) {
        if self.features.registered_file && self.slots.pending() == 0 {
            // It can only fail for want of a registered file: then there is nothing to give back.
            let _released = self.ring.borrow().submitter().unregister_files();
        }
    }
}

impl<B: 'static, D: Dialect> Drop for Ring<B, D> {
    fn drop(&mut self) {
        // What was asked for is done, if the kernel takes it; the rest ends as cancelled.
        if self.refusal.get() == 0 {
            self.stamp();
            self.count_enter();
            let result = self.entrance.submit(&mut self.ring.borrow_mut());
            self.handed_over(result);
        }
        self.end_untaken(-libc::ECANCELED);
        // The kernel may still write to buffers that the table owns: wait for every one, as long as
        // the device gives signs of life.
        let mut silent_since = monotonic_now();
        while self.slots.pending() > 0 {
            self.enter_without_submitting();
            if self.take_completions() > 0 {
                silent_since = monotonic_now();
            } else if monotonic_now() - silent_since > DROP_PATIENCE {
                // Freeing the buffers now could corrupt memory; leaking them can't.
                tracing::error!(
                    in_flight = self.slots.pending(),
                    "the device has completed nothing for {} s; the buffers of what is in flight \
                     are leaked",
                    DROP_PATIENCE / SECOND
                );
                std::mem::forget(Rc::clone(&self.slots));
                return;
            } else {
                std::thread::sleep(DROP_LOOK);
            }
        }
        self.release_file();
    }
}
