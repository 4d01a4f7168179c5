//! Submitting in batches, reaping, and the bell that wakes an executor.

#![allow(unsafe_code, reason = "pushing entries whose buffers the slot table owns")]

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::rc::Rc;
use std::sync::atomic::{Ordering, fence};
use std::time::Duration;

use io_uring::squeue::EntryMarker as _;
use io_uring::{IoUring, cqueue};
use rustix::event::{EventfdFlags, eventfd};

use super::batch::is_batch;
use super::command::{CommandTarget, Commands};
use super::dialect::{AskedIo, Dialect, Files};
use super::entrance::Entrance;
use super::op::{IoKind, IoRequest};
use super::patience::SILENCE_MAX;
use super::probe::RingFeatures;
use super::setup::{CommandSetup, RingSetup};
use super::slot::{IoFuture, SlotToken, Slots};
use super::turn::{Turnable, turn};
use crate::buffer::IoMemory;
use crate::clock::{Clock, Nanos, SECOND, monotonic_now};
use crate::error::SetupError;

/// The eventfd that the kernel counts up when completions are ready.
#[derive(Debug)]
pub struct CompletionBell(OwnedFd);

impl CompletionBell {
    /// The descriptor, to read 8 bytes from.
    #[must_use]
    pub fn fd(&self) -> &OwnedFd {
        &self.0
    }
}

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
    bell: CompletionBell,
    /// I/Os in the submission queue that the kernel has not taken, oldest first. None where a
    /// kernel thread takes them: from then on they are the kernel's, whatever becomes of the ring.
    queued: RefCell<VecDeque<SlotToken>>,
    /// How many of them, the youngest, have not been handed over yet.
    fresh: Cell<usize>,
    /// I/Os for which the submission queue had no place, oldest first.
    waiting: RefCell<VecDeque<(SlotToken, D::Entry)>>,
    /// The errno with which the kernel refused to take any more I/O; 0 while it takes them.
    refusal: Cell<i32>,
    /// Set while `turn` runs: waking a task may come back here.
    turning: Cell<bool>,
    /// Calls of `io_uring_enter` so far.
    enters: Cell<u64>,
}

impl<B: IoMemory + 'static> Ring<B> {
    /// Takes over a ring made on this thread. `file` is used when it could not be registered.
    ///
    /// # Errors
    /// When no eventfd can be had or registered.
    pub fn new(setup: RingSetup, file: RawFd, clock: Clock) -> Result<Ring<B>, SetupError> {
        Ring::over(setup, &[file], clock)
    }

    /// The same for several files, in the order in which they were registered.
    ///
    /// # Errors
    /// When no eventfd can be had or registered.
    pub fn over(setup: RingSetup, files: &[RawFd], clock: Clock) -> Result<Ring<B>, SetupError> {
        let dialect = Files::new(files, setup.features, setup.registered_span_bytes);
        Ring::speaking(dialect, setup, clock)
    }
}

impl<B: IoMemory + 'static> Ring<B, Commands> {
    /// One for NVMe commands to these namespaces, in the order in which their files were
    /// registered.
    ///
    /// # Errors
    /// When no eventfd can be had or registered.
    pub fn commanding(
        setup: CommandSetup,
        targets: &[CommandTarget],
        clock: Clock,
    ) -> Result<Ring<B, Commands>, SetupError> {
        let dialect = Commands::new(targets, setup.features, setup.registered_span_bytes);
        Ring::speaking(dialect, setup, clock)
    }
}

impl<B: IoMemory + 'static, D: Dialect> Ring<B, D> {
    fn speaking(
        dialect: D,
        setup: RingSetup<D::Entry, D::Answer>,
        clock: Clock,
    ) -> Result<Ring<B, D>, SetupError> {
        let failed = |error: std::io::Error| {
            SetupError::new(
                format!("no eventfd for the io_uring: {error}"),
                "raise the file descriptor limit with `ulimit -n 65536`",
            )
        };
        let bell = eventfd(0, EventfdFlags::CLOEXEC).map_err(|errno| failed(errno.into()))?;
        setup.ring.submitter().register_eventfd(bell.as_raw_fd()).map_err(failed)?;
        let entrance = Entrance::of(&setup.ring);
        let features = RingFeatures { registered_ring: entrance.is_registered(), ..setup.features };
        Ok(Ring {
            entrance,
            ring: RefCell::new(setup.ring),
            dialect,
            slots: Slots::new(),
            features,
            clock,
            bell: CompletionBell(bell),
            queued: RefCell::default(),
            fresh: Cell::new(0),
            waiting: RefCell::default(),
            refusal: Cell::new(0),
            turning: Cell::new(false),
            enters: Cell::new(0),
        })
    }

    /// What the ring got.
    #[must_use]
    pub fn features(&self) -> RingFeatures {
        self.features
    }

    /// The bell to await.
    #[must_use]
    pub fn bell(&self) -> &CompletionBell {
        &self.bell
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

    /// Queues one I/O on the first file; `owned` belongs to the slot table until it completes.
    /// Never enters the kernel: [`Ring::turn`] does.
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
    /// call when there is nothing to do. The order of its steps is `super::turn`'s.
    pub fn turn(&self) {
        if self.turning.replace(true) {
            return;
        }
        turn(self);
        self.turning.set(false);
    }

    /// Hands over what was pushed, once that is a batch: 4 I/Os, and a quarter of those in flight.
    /// For plain threads that push one for each that has completed; what is less waits for
    /// [`Ring::wait`].
    pub fn feed(&self) {
        if is_batch(self.fresh.get(), self.in_flight()) {
            self.enter();
        }
    }

    /// Hands over what was pushed, blocks until at least one I/O has completed, and works off what
    /// has: one system call where nothing has completed before. Returns early when a signal comes.
    ///
    /// For plain threads, which do not listen to the bell: it is silent until the next
    /// [`Ring::turn`].
    ///
    /// # Errors
    /// What `io_uring_enter` reports: `ETIME` when nothing has completed for [`SILENCE_MAX`].
    pub fn wait(&self) -> std::io::Result<()> {
        self.silence_bell();
        if self.in_flight() == 0 {
            return Ok(());
        }
        if self.take_completions() > 0 {
            // More may follow at once: they come with what is handed over now.
            if self.needs_enter() {
                self.enter();
            }
            return Ok(());
        }
        if self.refusal.get() != 0 {
            // The submission queue names buffers that are free by now: it is not handed over again.
            self.enter_without_submitting();
            let refused = std::io::Error::from_raw_os_error(self.refusal.get());
            return if self.take_completions() > 0 { Ok(()) } else { Err(refused) };
        }
        self.fill_queue();
        self.stamp();
        self.count_enter();
        let result = self.entrance.submit_and_wait(&mut self.ring.borrow_mut(), SILENCE_MAX);
        let result = self.handed_over(result);
        self.take_completions();
        result
    }

    /// Has the kernel look at the drives once for what has completed, and works that off: for a
    /// ring made to be polled, whose completions nobody else finds. One system call, which does not
    /// sleep; none when nothing is in flight. Hands nothing over: [`Ring::turn`] does.
    ///
    /// Returns the number of completions worked off.
    pub fn poll(&self) -> u32 {
        if self.in_flight() == 0 || self.turning.replace(true) {
            return 0;
        }
        self.enter_without_submitting();
        let reaped = self.take_completions();
        self.turning.set(false);
        reaped
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
}

impl<B: IoMemory + 'static, D: Dialect> Turnable for Ring<B, D> {
    fn silence_bell(&self) {
        self.ring.borrow_mut().completion().disable_eventfd();
    }

    fn arm_bell(&self) {
        self.ring.borrow_mut().completion().enable_eventfd();
        // The kernel raises its flag, then looks whether the bell is armed: see `turn`.
        fence(Ordering::SeqCst);
    }

    fn needs_enter(&self) -> bool {
        if !self.queued.borrow().is_empty() || !self.waiting.borrow().is_empty() {
            return true;
        }
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
            // A refusal has ended what it concerns; there is nobody else to tell.
            let handed_over = self.handed_over(result);
            let taken = before - self.queued.borrow().len();
            // More only where the last enter made room for it.
            if handed_over.is_err() || taken == 0 || self.waiting.borrow().is_empty() {
                return;
            }
        }
    }

    fn reap(&self) -> u32 {
        self.take_completions()
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
        self.enters.set(self.enters.get() + 1);
    }

    /// Takes note of what the kernel said of the entries in the submission queue.
    fn handed_over(&self, result: std::io::Result<usize>) -> std::io::Result<()> {
        match result {
            Ok(taken) => {
                let mut queued = self.queued.borrow_mut();
                let taken = taken.min(queued.len());
                drop(queued.drain(..taken));
                Ok(())
            }
            Err(error) => match error.raw_os_error() {
                // EBUSY: completions overflowed, reaping comes first. EAGAIN: the kernel is short
                // of memory. EINTR: a signal. The next turn tries again.
                Some(libc::EBUSY | libc::EAGAIN | libc::EINTR) => Ok(()),
                errno => {
                    self.refuse(errno.unwrap_or(libc::EIO));
                    Err(error)
                }
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
            // One clock read a batch: completions reaped together are seen together.
            let now = *now.get_or_insert_with(|| self.clock.now());
            let entry: cqueue::Entry = entry.into();
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
        queued.into_iter().chain(waiting).for_each(|token| {
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
            if let Err(error) = self.handed_over(result) {
                tracing::debug!(%error, "what was queued when the ring ended was refused");
            }
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
