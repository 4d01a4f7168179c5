//! The bell that other threads ring to wake one that sleeps in its ring.
//!
//! Ringing is one atomic exchange, and a system call only where the thread sleeps. The thread asks
//! whether it has rung before it looks at what may have come ([`Doorbell::take`]), and goes to
//! sleep only if it has not rung since ([`Doorbell::sleep`]). What is sent before the bell is rung
//! is therefore seen before the thread sleeps, or ends its sleep.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::Wake;
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

use crate::error::SetupError;

/// Whether a thread sleeps, and whether somebody wants it awake.
#[derive(Debug, Default)]
struct State(AtomicU8);

/// The thread runs tasks, and nobody has rung.
const AWAKE: u8 = 0;
/// The thread sleeps, or is about to.
const ASLEEP: u8 = 1;
/// Somebody has rung since the thread last asked.
const RUNG: u8 = 2;

impl State {
    /// Notes that somebody has rung; whether the thread must be woken for it.
    fn ring(&self) -> bool {
        self.0.swap(RUNG, Ordering::AcqRel) == ASLEEP
    }

    /// Whether somebody has rung since the last call.
    fn take(&self) -> bool {
        // A plain look first: nearly always nobody has.
        self.0.load(Ordering::Relaxed) == RUNG && self.0.swap(AWAKE, Ordering::AcqRel) == RUNG
    }

    /// Notes that the thread is about to sleep; false if somebody has rung: then it must not.
    fn lie_down(&self) -> bool {
        self.0.compare_exchange(AWAKE, ASLEEP, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Notes that the thread is awake again. That somebody has rung stays to be taken.
    fn get_up(&self) {
        // It fails when somebody has rung.
        let _was_asleep =
            self.0.compare_exchange(ASLEEP, AWAKE, Ordering::AcqRel, Ordering::Relaxed);
    }
}

/// See the module. As a [`std::task::Waker`] it rings.
#[derive(Debug)]
pub struct Doorbell {
    state: State,
    /// Counted up by who rings while the thread sleeps; the thread's ring polls it.
    bell: OwnedFd,
}

impl Doorbell {
    /// The bell of a thread that is awake.
    pub fn new() -> Result<Arc<Doorbell>, SetupError> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(|errno| {
            SetupError::new(
                format!("no eventfd for a shard's doorbell: {errno}"),
                "raise the file descriptor limit with `ulimit -n 65536`",
            )
        })?;
        Ok(Arc::new(Doorbell { state: State::default(), bell }))
    }

    /// Wakes the thread, or has it look around before it next sleeps. For any thread.
    pub fn ring(&self) {
        if self.state.ring() {
            // It can't fail: the counter would have to reach 2^64 - 1.
            let _counted = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
        }
    }

    /// Whether it has rung since this was last called. For the thread that sleeps, as are the
    /// others below.
    #[must_use]
    pub fn take(&self) -> bool {
        self.state.take()
    }

    /// Calls `sleep`, unless it has rung since [`Doorbell::take`].
    pub fn sleep(&self, sleep: impl FnOnce(&Doorbell)) {
        if self.state.lie_down() {
            sleep(self);
            self.state.get_up();
        }
    }

    /// The descriptor to poll for input.
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }

    /// Makes the descriptor unreadable again after it was polled.
    pub(super) fn silence(&self) {
        // It fails when nobody has written: the write may still come, and wakes once for nothing.
        let _count = rustix::io::read(&self.bell, &mut [0; 8]);
    }

    /// Sleeps until it rings or `longest` is over, where there is no ring to sleep in.
    pub fn await_ring(&self, longest: Option<Duration>) {
        let longest = longest.and_then(|longest| Timespec::try_from(longest).ok());
        // Interrupted or out of memory, the caller looks around and comes back.
        let _woken = poll(&mut [PollFd::new(&self.bell, PollFlags::IN)], longest.as_ref());
        self.silence();
    }
}

impl Wake for Doorbell {
    fn wake(self: Arc<Self>) {
        self.ring();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.ring();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    /// Next step of a sender: it leaves its message, marks the bell as rung, and strikes it if
    /// the thread sleeps.
    #[derive(Clone, Copy, PartialEq)]
    enum Sender {
        Sends,
        Rings,
        Strikes,
        Done,
    }

    /// A shard's thread, its senders and its kernel, in which `schedule[n]` steps of senders, of
    /// which `order` says whose, and at most one completion or timer happen before its `n`th step.
    struct World<'a> {
        schedule: &'a [usize],
        order: VecDeque<usize>,
        senders: [Sender; 2],
        state: State,
        steps: usize,
        inbox: usize,
        bell: bool,
        heard: usize,
        /// The step of the thread before which an I/O completes or a timer is due.
        completes_at: usize,
        has_completed: bool,
    }

    impl World<'_> {
        fn look(&mut self) {
            let due = self.schedule.get(self.steps).copied().unwrap_or(0);
            self.has_completed |= self.steps == self.completes_at;
            self.steps += 1;
            for _ in 0..due {
                let _has_stepped = self.step();
            }
        }

        fn step(&mut self) -> bool {
            let Some(whose) = self.order.pop_front() else { return false };
            self.senders[whose] = match self.senders[whose] {
                Sender::Sends => {
                    self.inbox += 1;
                    Sender::Rings
                }
                Sender::Rings if self.state.ring() => Sender::Strikes,
                Sender::Rings | Sender::Done => Sender::Done,
                Sender::Strikes => {
                    self.bell = true;
                    Sender::Done
                }
            };
            true
        }

        /// Sleeps as the kernel has it: until the bell, an I/O or a timer; the senders go on
        /// meanwhile. False when none of these comes any more.
        fn sleep(&mut self) -> bool {
            while !self.bell && !self.has_completed {
                if !self.step() {
                    return false;
                }
            }
            (self.bell, self.has_completed) = (false, false);
            true
        }

        /// The thread, as `executor` and [`Doorbell::sleep`] have it, until it has heard both.
        fn run(&mut self) -> Result<(), &'static str> {
            for _pass in 0..20 {
                self.look();
                let has_rung = self.state.take();
                self.look();
                if has_rung {
                    self.heard += std::mem::take(&mut self.inbox);
                    if self.heard == 2 {
                        return Ok(());
                    }
                    continue;
                }
                self.look();
                if self.state.lie_down() {
                    self.look();
                    if !self.sleep() {
                        return Err("it sleeps for ever");
                    }
                    self.look();
                    self.state.get_up();
                }
            }
            Err("it never sleeps, and hears nothing")
        }
    }

    /// Every way to place the steps of two senders and a completion among those of a thread: both
    /// messages are heard, and the thread neither sleeps for ever nor spins.
    #[test]
    fn no_interleaving_loses_a_message_or_spins() {
        const STEPS: usize = 10;
        let mut tried = 0u32;
        for mask in 0u32..1 << 6 {
            let order: VecDeque<usize> = (0..6).map(|bit| (mask >> bit & 1) as usize).collect();
            if order.iter().filter(|whose| **whose == 0).count() != 3 {
                continue;
            }
            for completes_at in 0..STEPS {
                place_steps(&mut vec![0; STEPS], 0, order.len(), &mut |schedule| {
                    let mut world = World {
                        schedule,
                        order: order.clone(),
                        senders: [Sender::Sends; 2],
                        state: State::default(),
                        steps: 0,
                        inbox: 0,
                        bell: false,
                        heard: 0,
                        completes_at,
                        has_completed: false,
                    };
                    if let Err(why) = world.run() {
                        panic!("{why}: {order:?} at {schedule:?}, completes {completes_at}");
                    }
                    tried += 1;
                });
            }
        }
        assert!(tried > 1_000_000, "only {tried} schedules");
    }

    fn place_steps(
        schedule: &mut Vec<usize>,
        from: usize,
        left: usize,
        look: &mut impl FnMut(&[usize]),
    ) {
        if from == schedule.len() {
            // Steps not placed happen while the thread sleeps.
            look(schedule);
            return;
        }
        for count in 0..=left {
            schedule[from] = count;
            place_steps(schedule, from + 1, left - count, look);
        }
        schedule[from] = 0;
    }

    #[test]
    fn a_ring_before_the_sleep_prevents_it_and_one_during_it_ends_it() {
        let doorbell = Doorbell::new().unwrap();
        doorbell.ring();
        doorbell.sleep(|_| panic!("it has rung"));
        assert!(doorbell.take() && !doorbell.take());
        let waker = std::task::Waker::from(Arc::clone(&doorbell));
        let ringer = std::thread::spawn(move || waker.wake());
        while !doorbell.take() {
            doorbell.sleep(|doorbell| doorbell.await_ring(Some(Duration::from_secs(60))));
        }
        ringer.join().unwrap();
        doorbell.sleep(|doorbell| doorbell.await_ring(Some(Duration::from_millis(1))));
        assert!(!doorbell.take(), "it was the time");
    }
}
