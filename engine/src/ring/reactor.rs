//! The ring of a shard: futures that complete, submitting in batches, and sleeping until there is
//! something to reap.

#![allow(unsafe_code, reason = "pushing entries whose buffers the slot table owns")]

use std::cell::{Cell, RefCell};
use std::os::fd::RawFd;
use std::rc::Rc;
use std::time::Duration;

use super::batch::is_batch;
use super::command::{CommandTarget, Commands};
use super::dialect::{AskedIo, Dialect, Files};
use super::doorbell::Doorbell;
use super::op::{IoKind, IoRequest};
use super::probe::RingFeatures;
use super::raw::RawRing;
use super::setup::{CommandSetup, RingSetup};
use super::slot::{IoFuture, SlotToken, Slots};
use super::slowdown::Slowdown;
use crate::buffer::IoMemory;
use crate::clock::{Clock, Nanos, monotonic_now};
use crate::model::LatencySpread;

/// Something that a thread looks at between its tasks, and sleeps in when it has none to run.
pub trait Parker {
    /// Works off what has completed, after a pass in which tasks ran; never blocks.
    fn poll(&self);

    /// Hands over what is queued, and blocks until an I/O has completed, `doorbell` rings, a signal
    /// comes or `longest` is over; works off what has completed. Takes the time and returns that at
    /// which it woke, both of `CLOCK_MONOTONIC`, so that each is looked at once.
    fn park(&self, doorbell: &Doorbell, now: Nanos, longest: Option<Duration>) -> Nanos;
}

/// I/O size from which on the drive has work for longer than the processor takes to queue a
/// deep queue of such I/Os: these go out with the next sleep. Smaller ones go out in batches.
const LARGE_IO_BYTES: u32 = 64 << 10;
/// Passes over the tasks for which queued I/Os are kept for the next sleep, before they are handed
/// over without one. A task that has started a slice of large ones runs once more, and only then
/// does the thread sleep: with one pass, a read of 1 MiB at depth 1 cost 1.85 system calls.
const PASSES_OF_LARGE: u8 = 2;
/// The same where any of them is small.
const PASSES_OF_SMALL: u8 = 1;

/// A ring and its in-flight table. `B` is what an I/O owns until its completion, `D` how the kernel
/// is asked for it. I/Os that the kernel refuses complete with its errno; a device that is silent
/// shows in [`Ring::oldest_in_flight`].
pub struct Ring<B: 'static, D: Dialect = Files> {
    raw: RefCell<RawRing<D>>,
    dialect: D,
    slots: Rc<Slots<B>>,
    features: RingFeatures,
    clock: Clock,
    /// Passes for which what is queued is still kept.
    passes_left: Cell<u8>,
    /// Set while completions are worked off: waking a task may come back here.
    turning: Cell<bool>,
    slowdown: Option<Box<Slowdown>>,
}

impl<B: IoMemory + 'static> Ring<B> {
    /// Takes over a ring made on this thread, and its files in the order in which they were
    /// registered; they are used by their descriptors when they could not be.
    #[must_use]
    pub fn over(setup: RingSetup, files: &[RawFd], clock: Clock) -> Ring<B> {
        let dialect = Files::new(files, setup.features, setup.registered_span_bytes);
        Ring::speaking(dialect, setup, clock)
    }
}

impl<B: IoMemory + 'static> Ring<B, Commands> {
    /// One for NVMe commands to these namespaces, in the order in which their files were
    /// registered.
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
        let raw = RawRing::new(setup.ring);
        let features = RingFeatures { registered_ring: raw.is_registered(), ..setup.features };
        Ring {
            raw: RefCell::new(raw),
            dialect,
            slots: Slots::new(),
            features,
            clock,
            passes_left: Cell::new(PASSES_OF_LARGE),
            turning: Cell::new(false),
            slowdown: None,
        }
    }

    /// Has each read and write complete no earlier than a latency that is drawn for it, in the
    /// order in which they are pushed; flushes complete as they do.
    #[must_use]
    pub fn slowed_by(mut self, latencies: LatencySpread, seed: u64) -> Ring<B, D> {
        self.slowdown = Some(Box::new(Slowdown::new(latencies, seed)));
        self
    }

    /// Features that the ring was set up with.
    pub fn features(&self) -> RingFeatures {
        self.features
    }

    /// Number of I/Os of this ring that are submitted and not yet completed.
    pub fn in_flight(&self) -> u32 {
        self.slots.pending()
    }

    /// When the oldest of them was submitted.
    pub fn oldest_in_flight(&self) -> Option<Nanos> {
        self.slots.oldest()
    }

    /// Times so far that what was queued was handed to the kernel: an `io_uring_enter` each, but
    /// with a submission thread that is awake, which looks by itself, no system call.
    pub fn enters(&self) -> u64 {
        self.raw.borrow().enters
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
        if let Some(slowdown) = &self.slowdown {
            slowdown.draw(token, request.kind != IoKind::Flush);
        }
        let (mut raw, mut stamp) = (self.raw.borrow_mut(), self.stamp(None));
        self.dialect.encode(&AskedIo { file, request, place }, token, |entry| {
            // SAFETY: the buffer is owned by the slot until the token is reaped, and the pool that
            // it came from outlives the ring (see `Drop`); the ring's files stay open.
            unsafe { raw.push(token.0, entry, &mut stamp) };
        });
        if request.length_bytes < LARGE_IO_BYTES {
            self.passes_left.set(self.passes_left.get().min(PASSES_OF_SMALL));
            if is_batch(raw.fresh(), self.in_flight()) {
                self.passes_left.set(PASSES_OF_LARGE);
                raw.hand_over(stamp);
            }
        }
        future
    }

    /// Hands over what was pushed and works off what has completed. O(completions); no system
    /// call when there is nothing to do.
    ///
    /// The kernel's flag for deferred work is a reason to enter, and never one to go on: it can
    /// stay raised over an empty list, where an enter of ours ran the work between its being listed
    /// and the flag's being raised (`io_req_local_work_add`, Linux 6.1 to 6.18). So an enter after
    /// which there is nothing to reap is the last.
    pub fn turn(&self) {
        self.alone(|| {
            loop {
                let mut raw = self.raw.borrow_mut();
                if raw.has_untaken() || raw.has_flags() {
                    self.passes_left.set(PASSES_OF_LARGE);
                    raw.hand_over(self.stamp(None));
                }
                drop(raw);
                if self.take_completions(&mut None) == 0 {
                    return;
                }
            }
        });
    }

    /// Hands over what was pushed, and blocks until an I/O has completed, a signal comes or
    /// `longest` is over; works off what has completed. One system call, or none where something
    /// had completed before.
    pub fn wait(&self, longest: Option<Duration>) {
        self.sleep(None, None, longest);
    }

    /// Sleeps at `now`, if the time is known; when completions were found.
    fn sleep(
        &self,
        doorbell: Option<&Doorbell>,
        now: Option<Nanos>,
        longest: Option<Duration>,
    ) -> Option<Nanos> {
        let mut seen = None;
        self.alone(|| {
            if self.take_completions(&mut seen) == 0 {
                self.passes_left.set(PASSES_OF_LARGE);
                let mut raw = self.raw.borrow_mut();
                doorbell.into_iter().for_each(|doorbell| raw.hear(doorbell));
                let longest = match &self.slowdown {
                    Some(slow) => slow.at_most(longest, now.unwrap_or_else(|| self.clock.now())),
                    None => longest,
                };
                let _silent = raw.wait(longest, self.stamp(now));
                drop(raw);
                self.take_completions(&mut seen);
            }
        });
        seen
    }

    /// Hands over what was pushed, has the kernel look at the drives once, and works off what has
    /// completed: for a ring made to be polled, whose completions nobody else finds. One system
    /// call, which does not sleep; none when nothing is in flight.
    pub fn poll_drives(&self) {
        if self.in_flight() > 0 {
            self.alone(|| {
                self.raw.borrow_mut().look(self.stamp(None));
                self.take_completions(&mut None);
            });
        }
    }

    /// Does what must not be done while it is being done further up.
    fn alone(&self, work: impl FnOnce()) {
        if !self.turning.replace(true) {
            work();
            self.turning.set(false);
        }
    }

    /// Gives the registered files back when nothing is in flight.
    pub fn release_file(&self) {
        if self.in_flight() == 0 {
            self.raw.borrow().release_files();
        }
    }
}

impl<B: IoMemory + 'static, D: Dialect> Parker for Ring<B, D> {
    fn poll(&self) {
        let (has_queued, has_flags) = {
            let mut raw = self.raw.borrow_mut();
            (raw.has_untaken(), raw.has_flags())
        };
        let passes_left = self.passes_left.get();
        if has_flags || (has_queued && passes_left == 0) {
            self.turn();
        } else {
            self.passes_left.set(if has_queued { passes_left - 1 } else { PASSES_OF_LARGE });
            self.alone(|| {
                self.take_completions(&mut None);
            });
        }
    }

    fn park(&self, doorbell: &Doorbell, now: Nanos, longest: Option<Duration>) -> Nanos {
        let mut seen = None;
        if self.raw.borrow().is_refused() && self.in_flight() == 0 {
            doorbell.await_ring(longest);
        } else {
            seen = self.sleep(Some(doorbell), Some(now), longest);
            if !self.raw.borrow().hears_doorbell {
                doorbell.silence();
            }
        }
        seen.unwrap_or_else(monotonic_now)
    }
}

impl<B: 'static, D: Dialect> Ring<B, D> {
    /// Notes of each I/O when it is handed over: at `now`, or at one look at the clock for all.
    fn stamp(&self, mut now: Option<Nanos>) -> impl FnMut(u64) {
        move |token| {
            let (token, now) = (SlotToken(token), *now.get_or_insert_with(|| self.clock.now()));
            // Its first entry: the others say nothing new.
            if self.dialect.begins(token) {
                self.slots.handed_over(token, now);
            }
        }
    }

    /// Ends what has completed; `now` becomes when that was seen.
    fn take_completions(&self, now: &mut Option<Nanos>) -> u32 {
        let mut reaped = 0;
        loop {
            // Not held across `complete`, which wakes tasks that may push.
            let Some((token, result)) = self.raw.borrow_mut().reap() else { break };
            // One clock read a batch: completions reaped together are seen together.
            let now = *now.get_or_insert_with(|| self.clock.now());
            self.complete(token, result, now);
            reaped += 1;
        }
        match &self.slowdown {
            Some(slowdown) if slowdown.holds_any() => {
                reaped + self.end_due(*now.get_or_insert_with(|| self.clock.now()))
            }
            _ => reaped,
        }
    }

    /// Ends what was held back until `now`; how many.
    fn end_due(&self, now: Nanos) -> u32 {
        let next = || self.slowdown.as_ref()?.next_due(now);
        let due = std::iter::from_fn(next);
        due.map(|(token, result)| self.slots.complete(token, result, now)).count() as u32
    }

    /// Ends an I/O, if that was the last of its entries.
    #[inline]
    fn complete(&self, token: u64, result: i32, now: Nanos) {
        let token = SlotToken(token);
        if let Some(result) = self.dialect.answered(token, result) {
            match &self.slowdown {
                Some(slow) => slow.hold(token, result, self.slots.submitted(token)),
                None => self.slots.complete(token, result, now),
            }
        }
    }
}

impl<B: 'static, D: Dialect> Drop for Ring<B, D> {
    fn drop(&mut self) {
        // The kernel may still write to buffers that the table owns: all of it is waited for.
        let was_drained = self.raw.borrow_mut().drain(self.stamp(None), |token, result| {
            self.complete(token, result, self.clock.now());
        });
        self.end_due(Nanos::MAX);
        if !was_drained {
            // Freeing the buffers now could corrupt memory; leaking them can't.
            std::mem::forget(Rc::clone(&self.slots));
        }
    }
}
