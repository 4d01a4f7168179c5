//! Waiting for a permit that belongs to the whole engine: the local queue of each shared gate.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use super::message::GateName;
use super::{EngineShared, Message, Shard};
use crate::key::{TIER_COUNT, Tier};
use crate::placement::{NOBODY, Published, SharedGate};

/// Gates that operations of a shard wait at; requests wait in the driver.
const GATE_COUNT: usize = 2 * TIER_COUNT + 1;

fn index_of(name: GateName) -> usize {
    match name {
        GateName::Baton(tier) => tier.index(),
        GateName::Door(tier) => TIER_COUNT + tier.index(),
        GateName::Allocation => 2 * TIER_COUNT,
        GateName::Request => unreachable!("requests wait in the driver"),
    }
}

#[derive(Debug, Default)]
struct Waiter {
    granted: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

/// Who waits at one gate on this shard, in the order of asking.
#[derive(Debug, Default)]
struct Queue {
    waiters: BTreeMap<(u64, u64), Rc<Waiter>>,
    next_sequence: u64,
}

/// The local queues of all gates.
#[derive(Debug, Default)]
pub(super) struct Turns {
    queues: [RefCell<Queue>; GATE_COUNT],
}

impl EngineShared {
    fn gate(&self, name: GateName) -> &SharedGate {
        match name {
            GateName::Baton(tier) => self.budgets.baton(tier),
            GateName::Door(Tier::Storage) => unreachable!("storage has no door"),
            GateName::Door(tier) => self.budgets.door(tier),
            GateName::Allocation => &self.allocations,
            GateName::Request => &self.requests,
        }
    }
}

impl Shard {
    /// A permit of `name`, in the order of asking over all shards.
    pub(super) fn take_turn(self: &Rc<Self>, name: GateName) -> TakeTurn {
        TakeTurn { shard: Rc::clone(self), name, waiting: None }
    }

    /// A permit came by message: it is the best local waiter's, or nobody's.
    pub(super) fn turn_granted(self: &Rc<Self>, name: GateName) {
        if !self.wake_best(name) {
            self.release_turn(name);
        }
        self.publish_best(name);
    }

    fn release_turn(self: &Rc<Self>, name: GateName) {
        match self.shared.gate(name).release() {
            None => {}
            Some(next) if next == self.id => self.turn_granted(name),
            // A shard that has ended waits for nothing.
            Some(next) => {
                let _delivered = self.links.send(next, Message::Granted(name));
            }
        }
    }

    fn wake_best(&self, name: GateName) -> bool {
        let first = self.turns.queues[index_of(name)].borrow_mut().waiters.pop_first();
        let Some((_, waiter)) = first else { return false };
        waiter.granted.set(true);
        let waker = waiter.waker.borrow_mut().take();
        if let Some(waker) = waker {
            waker.wake();
        }
        true
    }

    fn publish_best(self: &Rc<Self>, name: GateName) {
        loop {
            let best = {
                let queue = self.turns.queues[index_of(name)].borrow();
                queue.waiters.first_key_value().map_or(NOBODY, |(&(asked_ns, _), _)| asked_ns)
            };
            match self.shared.gate(name).publish(self.id, best) {
                Published::Waiting => return,
                Published::Acquired => {
                    let woken = self.wake_best(name);
                    assert!(woken, "somebody waits where a time was published");
                }
            }
        }
    }
}

/// A permit; given back on drop.
pub struct TurnPermit {
    shard: Rc<Shard>,
    name: GateName,
}

impl Drop for TurnPermit {
    fn drop(&mut self) {
        self.shard.release_turn(self.name);
    }
}

/// The future of a [`TurnPermit`]. Dropping it leaves the queue.
pub(super) struct TakeTurn {
    shard: Rc<Shard>,
    name: GateName,
    waiting: Option<((u64, u64), Rc<Waiter>)>,
}

impl Future for TakeTurn {
    type Output = TurnPermit;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<TurnPermit> {
        let shard = Rc::clone(&self.shard);
        let name = self.name;
        if self.waiting.is_none() {
            let nobody_before_us = {
                let queue = shard.turns.queues[index_of(name)].borrow();
                queue.waiters.is_empty()
            };
            if nobody_before_us && shard.shared.gate(name).try_acquire() {
                return Poll::Ready(TurnPermit { shard, name });
            }
            let asked_ns = shard.clock.now().as_ns();
            let waiter = Rc::new(Waiter::default());
            let key = {
                let queue = &mut *shard.turns.queues[index_of(name)].borrow_mut();
                queue.next_sequence += 1;
                // Never the word that means nobody.
                let key = (asked_ns.min(NOBODY - 1), queue.next_sequence);
                queue.waiters.insert(key, Rc::clone(&waiter));
                key
            };
            self.waiting = Some((key, waiter));
            shard.publish_best(name);
        }
        let granted = {
            let (_, waiter) = self.waiting.as_ref().expect("set just above");
            if !waiter.granted.get() {
                *waiter.waker.borrow_mut() = Some(cx.waker().clone());
            }
            waiter.granted.get()
        };
        if granted {
            self.waiting = None;
            return Poll::Ready(TurnPermit { shard, name });
        }
        Poll::Pending
    }
}

impl Drop for TakeTurn {
    fn drop(&mut self) {
        let Some((key, waiter)) = self.waiting.take() else { return };
        if waiter.granted.get() {
            self.shard.release_turn(self.name);
        } else {
            let index = index_of(self.name);
            self.shard.turns.queues[index].borrow_mut().waiters.remove(&key);
            self.shard.publish_best(self.name);
        }
    }
}
