//! The order in which a ring is silenced, entered, reaped and armed again; no ring in it, so that
//! every interleaving with the kernel can be tested.
//!
//! # What the kernel does, and in which order
//!
//! On a `DEFER_TASKRUN` ring a completion is *work* on a list (`ctx->work_llist`) until this thread
//! enters the kernel, which runs the work and posts the completion. An interrupt that finishes an
//! I/O does three things, one after the other, on whatever core it came
//! (`io_req_local_work_add`, Linux 6.1 to 6.18):
//!
//! 1. it adds the work to the list; only if the list was empty before does it go on:
//! 2. it raises `IORING_SQ_TASKRUN` in the ring's flags;
//! 3. it rings the eventfd, unless the program has set `IORING_CQ_EVENTFD_DISABLED`.
//!
//! An enter lowers the flag, takes the whole list and runs it (`__io_run_local_work`); but one that
//! finds the list empty returns before it lowers anything. Two dangers follow.
//!
//! **The flag can be stale.** Between 1 and 2 an enter of ours, made for another reason, may take
//! and run the work. The interrupt then raises the flag over an empty list. If more I/O is in
//! flight, its completion repairs that. With none in flight no enter lowers the flag ever again,
//! and a loop that goes on "while the flag is up" enters without end: a shard that spins for ever
//! after the last of its I/Os. So the flag is a reason to enter, never a reason to go on: **an
//! enter after which nothing was there to reap ends the loop.**
//!
//! **The bell can be missed.** Step 3 happens for the first work on an *empty* list and at no other
//! time. Work that arrived while the bell was silenced will not ring it later, and neither will
//! what joins it on the list. So the last look at the flag comes after the bell was armed, with a
//! full fence between: either that look sees the flag of step 2, or the interrupt sees, in step 3,
//! that the bell is armed.
//!
//! An enter runs a bounded number of works and leaves the flag up when some are left; works that it
//! ran without a completion (an I/O that the kernel starts again by itself) look like no progress
//! here. The look that the shard takes at its ring now and then
//! ([`crate::shard::executor`], `RETURN_LOOK`) covers those.

/// What a turn needs of a ring.
pub(super) trait Turnable {
    /// The bell would ring for completions that this turn is about to see.
    fn silence_bell(&self);
    /// Has the bell ring again; what is looked at afterwards is seen in this order by the kernel.
    fn arm_bell(&self);
    /// Whether there is a reason to enter the kernel: entries to hand over, the kernel's flags.
    fn needs_enter(&self) -> bool;
    /// Hands over entries and has the kernel run what waits.
    fn enter(&self);
    /// Takes what has completed; how much that was.
    fn reap(&self) -> u32;
}

/// Works off what can be worked off now. Ends after at most two enters that brought nothing.
pub(super) fn turn(ring: &impl Turnable) {
    ring.silence_bell();
    work_off(ring);
    ring.arm_bell();
    work_off(ring);
}

/// Every round but the last reaps something, and only what is in flight can be reaped.
fn work_off(ring: &impl Turnable) {
    loop {
        if ring.needs_enter() {
            ring.enter();
        }
        if ring.reap() == 0 {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::{Cell, RefCell};

    /// One step of an interrupt that finishes an I/O, as the module's first lines number them.
    #[derive(Clone, Copy, PartialEq, Debug)]
    enum Interrupt {
        Adds,
        Raises,
        Rings,
    }

    /// The kernel's half, step by step: `schedule[n]` interrupts' steps happen before the program's
    /// `n`th look at anything shared.
    struct Kernel {
        schedule: Vec<usize>,
        looks: Cell<usize>,
        /// Steps to come of each interrupt, the next one last.
        interrupts: RefCell<Vec<Vec<Interrupt>>>,
        /// Whose step is next, in turn.
        order: RefCell<Vec<usize>>,
        list: Cell<u32>,
        flag: Cell<bool>,
        armed: Cell<bool>,
        rung: Cell<bool>,
        posted: Cell<u32>,
        reaped: Cell<u32>,
        enters: Cell<u32>,
    }

    impl Kernel {
        /// `order` names the interrupt that takes each step.
        fn new(interrupts: usize, order: &[usize], schedule: &[usize]) -> Kernel {
            Kernel {
                schedule: schedule.to_vec(),
                looks: Cell::new(0),
                interrupts: RefCell::new(vec![vec![Interrupt::Adds]; interrupts]),
                order: RefCell::new(order.iter().rev().copied().collect()),
                list: Cell::new(0),
                flag: Cell::new(false),
                armed: Cell::new(true),
                rung: Cell::new(false),
                posted: Cell::new(0),
                reaped: Cell::new(0),
                enters: Cell::new(0),
            }
        }

        fn look(&self) {
            let due = self.schedule.get(self.looks.get()).copied().unwrap_or(0);
            self.looks.set(self.looks.get() + 1);
            (0..due).for_each(|_| self.step());
        }

        fn step(&self) {
            let Some(whose) = self.order.borrow_mut().pop() else { return };
            let steps = &mut self.interrupts.borrow_mut()[whose];
            match steps.pop() {
                Some(Interrupt::Adds) => {
                    let is_first = self.list.replace(self.list.get() + 1) == 0;
                    let later = [Interrupt::Rings, Interrupt::Raises];
                    steps.extend(later.into_iter().filter(|_| is_first));
                }
                Some(Interrupt::Raises) => self.flag.set(true),
                Some(Interrupt::Rings) => self.rung.set(self.rung.get() | self.armed.get()),
                None => {}
            }
        }

        fn finish(&self) {
            self.order.borrow_mut().clear();
            let interrupts = self.interrupts.borrow().len();
            for whose in 0..interrupts {
                for _ in 0..3 {
                    self.order.borrow_mut().push(whose);
                    self.step();
                }
            }
        }
    }

    impl Turnable for Kernel {
        fn silence_bell(&self) {
            self.look();
            self.armed.set(false);
        }

        fn arm_bell(&self) {
            self.look();
            self.armed.set(true);
        }

        fn needs_enter(&self) -> bool {
            self.look();
            self.flag.get()
        }

        fn enter(&self) {
            assert!(self.enters.replace(self.enters.get() + 1) < 100, "it spins");
            self.look();
            if self.list.get() == 0 {
                return;
            }
            self.flag.set(false);
            self.look();
            self.posted.set(self.posted.get() + self.list.take());
        }

        fn reap(&self) -> u32 {
            self.look();
            let reaped = self.posted.take();
            self.reaped.set(self.reaped.get() + reaped);
            reaped
        }
    }

    #[test]
    fn a_stale_flag_with_nothing_in_flight_does_not_spin() {
        let kernel = Kernel::new(0, &[], &[]);
        kernel.flag.set(true);
        turn(&kernel);
        assert_eq!(kernel.enters.get(), 2, "one look with the bell silent, one with it armed");
        assert!(kernel.flag.get(), "nothing lowers it: the state that must not matter");
    }

    /// Every way to place the steps of two interrupts between the looks of a turn, and every order
    /// of their steps: the turn ends, and no completion is left that neither the turn has seen nor
    /// the bell tells of.
    #[test]
    fn no_interleaving_spins_or_loses_a_completion() {
        const LOOKS: usize = 12;
        let mut tried = 0u32;
        for mask in 0u32..1 << 6 {
            let order: Vec<usize> = (0..6).map(|bit| (mask >> bit & 1) as usize).collect();
            if order.iter().filter(|whose| **whose == 0).count() != 3 {
                continue;
            }
            place_steps(&mut vec![0; LOOKS], 0, order.len(), &mut |schedule| {
                let kernel = Kernel::new(2, &order, schedule);
                turn(&kernel);
                kernel.finish();
                let left = kernel.list.get() + kernel.posted.get();
                assert!(
                    left == 0 || kernel.rung.get(),
                    "{left} completions wait and no bell rang: {order:?} at {schedule:?}"
                );
                assert_eq!(kernel.reaped.get() + left, 2, "{order:?} at {schedule:?}");
                tried += 1;
            });
        }
        assert!(tried > 100_000, "only {tried} schedules");
    }

    fn place_steps(
        schedule: &mut Vec<usize>,
        from: usize,
        left: usize,
        look: &mut impl FnMut(&[usize]),
    ) {
        if from == schedule.len() {
            // Steps not placed happen after the turn.
            look(schedule);
            return;
        }
        for count in 0..=left {
            schedule[from] = count;
            place_steps(schedule, from + 1, left - count, look);
        }
        schedule[from] = 0;
    }
}
