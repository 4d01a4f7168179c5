//! Time as a shard's tasks see it: it moves when their executor says so, and wakes sleepers in the
//! order of their deadlines. A real executor moves it to the clock's time between two passes; in a
//! simulation it moves when nothing else can happen, and is the clock.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use crate::clock::{Clock, Nanos};

#[derive(Default)]
struct Sleepers {
    next: u64,
    /// By deadline, then by who went to sleep first.
    wakers: BTreeMap<(Nanos, u64), Waker>,
}

/// The time of a shard's tasks. Clones are the same time.
#[derive(Clone, Default)]
pub struct Timers {
    now: Rc<Cell<Nanos>>,
    sleepers: Rc<RefCell<Sleepers>>,
}

impl Timers {
    /// Time that begins at `now`.
    pub fn starting_at(now: Nanos) -> Timers {
        Timers { now: Rc::new(Cell::new(now)), sleepers: Rc::default() }
    }

    /// The clock that shows it, for a simulation, in which nothing else moves it.
    pub fn clock(&self) -> Clock {
        Clock::Simulated(Rc::clone(&self.now))
    }

    /// The time to which it was last moved.
    pub fn now(&self) -> Nanos {
        self.now.get()
    }

    /// A future that is ready once the time has been moved to `deadline`.
    pub fn sleep_until(&self, deadline: Nanos) -> Sleep {
        Sleep { time: self.clone(), deadline, place: None }
    }

    /// When the next sleeper is due.
    pub fn next_deadline(&self) -> Option<Nanos> {
        self.sleepers.borrow().wakers.first_key_value().map(|((deadline, _), _)| *deadline)
    }

    /// Moves on to `now`, which is not before the present, and wakes who is due.
    pub fn advance_to(&self, now: Nanos) {
        debug_assert!(now >= self.now.get(), "time does not go back");
        self.now.set(now);
        loop {
            let waker = {
                let mut sleepers = self.sleepers.borrow_mut();
                match sleepers.wakers.first_entry() {
                    Some(first) if first.key().0 <= now => first.remove(),
                    _ => return,
                }
            };
            waker.wake();
        }
    }
}

/// A future that is ready at a time; made by [`Timers::sleep_until`].
pub struct Sleep {
    time: Timers,
    deadline: Nanos,
    place: Option<u64>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.time.now() >= self.deadline {
            return Poll::Ready(());
        }
        let place = {
            let sleepers = &mut *self.time.sleepers.borrow_mut();
            let place = self.place.unwrap_or_else(|| {
                sleepers.next += 1;
                sleepers.next
            });
            sleepers.wakers.insert((self.deadline, place), cx.waker().clone());
            place
        };
        self.place = Some(place);
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(place) = self.place {
            let waker = self.time.sleepers.borrow_mut().wakers.remove(&(self.deadline, place));
            drop(waker);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shard::local::LocalRuntime;

    #[test]
    fn sleepers_wake_in_the_order_of_their_deadlines() {
        let (runtime, time) = (LocalRuntime::default(), Timers::starting_at(Nanos::from_ns(5)));
        let order = Rc::new(RefCell::new(Vec::new()));
        for deadline in [30, 10, 20, 10].map(Nanos::from_ns) {
            let (sleeper, order) = (time.clone(), Rc::clone(&order));
            runtime.spawn(Box::pin(async move {
                sleeper.sleep_until(deadline).await;
                order.borrow_mut().push((deadline, sleeper.now()));
            }));
        }
        runtime.run_ready();
        while let Some(next) = time.next_deadline() {
            time.advance_to(next);
            runtime.run_ready();
        }
        let both = |ns| (Nanos::from_ns(ns), Nanos::from_ns(ns));
        assert_eq!(*order.borrow(), [10, 10, 20, 30].map(both));
        assert_eq!(runtime.task_count(), 0);
    }

    #[test]
    fn a_dropped_sleep_is_forgotten() {
        let (runtime, time) = (LocalRuntime::default(), Timers::starting_at(Nanos::ZERO));
        let sleeper = time.clone();
        let id =
            runtime.spawn(Box::pin(async move { sleeper.sleep_until(Nanos::from_ns(9)).await }));
        runtime.run_ready();
        assert_eq!(time.next_deadline(), Some(Nanos::from_ns(9)));
        runtime.cancel(id);
        assert_eq!(time.next_deadline(), None);
    }
}
