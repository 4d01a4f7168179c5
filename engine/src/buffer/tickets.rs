//! Who may start the next I/O: fair between operations, in the order of asking.
//!
//! Classes of users do not come before one another here, as they do not in the reference benchmark
//! either; completions of a drive come in groups, and then an order of classes would hold or not by
//! the size of a group.
//!
//! A [`Ticket`] is a buffer and a place in the device queue at once. There are as many as the
//! smaller of the two, so a holder never waits for the other half.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use super::memory::Lent;
use super::{Buffer, BufferPool, IoMemory, Lender, MemoryPlace};

enum Waiter {
    Free,
    Waiting(Waker),
    Granted(Buffer),
}

struct State {
    out: u32,
    /// Tickets that may be out at once now, 1 to all places.
    limit: u32,
    queue: VecDeque<u32>,
    waiters: Vec<Waiter>,
    waiters_free: Vec<u32>,
}

/// Hands out [`Ticket`]s. All operations O(1).
pub struct Tickets {
    pool: BufferPool,
    places: u32,
    state: RefCell<State>,
}

impl Tickets {
    /// At most `queue_depth` tickets at once, fewer when the pool has fewer buffers.
    pub fn new(pool: BufferPool, queue_depth: u32) -> Rc<Tickets> {
        let places = queue_depth.min(pool.count());
        assert!(places > 0, "an engine with no place in its queue never moves a byte");
        let state = State {
            out: 0,
            limit: places,
            queue: VecDeque::new(),
            waiters: Vec::new(),
            waiters_free: Vec::new(),
        };
        Rc::new(Tickets { pool, places, state: RefCell::new(state) })
    }

    /// Whether it is the pool, not the queue depth or a lower limit, that limits the tickets now.
    pub fn limited_by_buffers(&self, queue_depth: u32) -> bool {
        self.places < queue_depth && self.state.borrow().limit == self.places
    }

    /// Number of tickets that are given out and not yet returned.
    pub fn in_flight(&self) -> u32 {
        self.state.borrow().out
    }

    /// Lets at most `tickets` be out at once from now on, at least 1 and no more than there are
    /// places. Those that are out beyond that stay until they are given back.
    pub fn set_limit(&self, tickets: u32) {
        self.state.borrow_mut().limit = tickets.clamp(1, self.places);
        self.grant();
    }

    /// The pool the buffers come from.
    pub fn pool(&self) -> &BufferPool {
        &self.pool
    }

    /// A ticket now, or in turn.
    #[must_use]
    pub fn acquire(self: &Rc<Self>) -> Acquire {
        Acquire { tickets: Rc::clone(self), waiter: None }
    }

    /// A ticket, if one is free and nobody is in line for it.
    #[must_use]
    #[inline]
    pub fn take(self: &Rc<Self>) -> Option<Ticket> {
        Some(Ticket::new(self.take_buffer()?, Rc::clone(self)))
    }

    fn take_buffer(&self) -> Option<Buffer> {
        let mut state = self.state.borrow_mut();
        if state.out >= state.limit || !state.queue.is_empty() {
            return None;
        }
        let buffer = self.pool.take()?;
        state.out += 1;
        Some(buffer)
    }

    /// Gives free places to whoever is first in line.
    #[inline]
    fn grant(&self) {
        if !self.state.borrow().queue.is_empty() {
            self.grant_in_turn();
        }
    }

    #[inline(never)]
    fn grant_in_turn(&self) {
        loop {
            let waker = {
                let mut state = self.state.borrow_mut();
                if state.out >= state.limit || state.queue.is_empty() {
                    return;
                }
                let Some(buffer) = self.pool.take() else { return };
                let Some(index) = state.queue.pop_front() else { return };
                state.out += 1;
                let slot = &mut state.waiters[index as usize];
                let Waiter::Waiting(waker) = std::mem::replace(slot, Waiter::Granted(buffer))
                else {
                    unreachable!("only waiting waiters are queued");
                };
                waker
            };
            waker.wake();
        }
    }
}

/// The right to one I/O in flight, with its buffer. Given back on drop.
pub struct Ticket {
    /// Taken only while being dropped.
    buffer: Option<Buffer>,
    /// Memory that a write takes its bytes from, if not the buffer.
    lent: Option<Lent>,
    tickets: Rc<Tickets>,
}

impl Ticket {
    fn new(buffer: Buffer, tickets: Rc<Tickets>) -> Ticket {
        Ticket { buffer: Some(buffer), lent: None, tickets }
    }

    /// The buffer that comes with the ticket.
    pub fn buffer(&self) -> &Buffer {
        debug_assert!(self.lent.is_none(), "who lends memory writes from there, and reads nothing");
        self.buffer.as_ref().expect("a ticket has its buffer until it is dropped")
    }

    /// The buffer, to fill. What was lent is copied to its beginning first, and not lent any more.
    pub fn buffer_mut(&mut self) -> &mut Buffer {
        let buffer = self.buffer.as_mut().expect("a ticket has its buffer until it is dropped");
        if let Some(lent) = self.lent.take() {
            lent.copy_to(buffer.bytes_mut());
        }
        buffer
    }

    /// Has the I/O write `length` bytes, at most a buffer's, from where they are, at `offset` of
    /// `from`. False, and nothing has changed, where they do not lie side by side or do not begin
    /// at a page.
    pub fn lend(&mut self, from: Rc<dyn Lender>, offset: usize, length: usize) -> bool {
        assert!(length <= self.buffer().bytes().len(), "an I/O is no longer than a buffer");
        self.lent = Lent::of(from, offset, length);
        self.lent.is_some()
    }
}

impl IoMemory for Ticket {
    fn place(&self, offset: usize, length: usize) -> MemoryPlace {
        match &self.lent {
            Some(lent) => lent.place(offset, length),
            None => self.buffer().place(offset, length),
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        drop(self.buffer.take());
        self.tickets.state.borrow_mut().out -= 1;
        self.tickets.grant();
    }
}

/// Waits for a ticket. Dropping it leaves the queue.
pub struct Acquire {
    tickets: Rc<Tickets>,
    waiter: Option<u32>,
}

impl Future for Acquire {
    type Output = Ticket;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Ticket> {
        let Some(index) = self.waiter else {
            if let Some(ticket) = self.tickets.take() {
                return Poll::Ready(ticket);
            }
            let tickets = Rc::clone(&self.tickets);
            let state = &mut *tickets.state.borrow_mut();
            let index = state.waiters_free.pop().unwrap_or_else(|| {
                state.waiters.push(Waiter::Free);
                (state.waiters.len() - 1) as u32
            });
            state.waiters[index as usize] = Waiter::Waiting(cx.waker().clone());
            state.queue.push_back(index);
            self.waiter = Some(index);
            return Poll::Pending;
        };
        let tickets = Rc::clone(&self.tickets);
        let state = &mut *tickets.state.borrow_mut();
        let slot = &mut state.waiters[index as usize];
        if let Waiter::Waiting(waker) = slot {
            waker.clone_from(cx.waker());
            return Poll::Pending;
        }
        let Waiter::Granted(buffer) = std::mem::replace(slot, Waiter::Free) else {
            unreachable!("it waits, or was granted a buffer")
        };
        state.waiters_free.push(index);
        self.waiter = None;
        Poll::Ready(Ticket::new(buffer, Rc::clone(&tickets)))
    }
}

impl Drop for Acquire {
    fn drop(&mut self) {
        let Some(index) = self.waiter else { return };
        let granted = {
            let state = &mut *self.tickets.state.borrow_mut();
            let waiter = std::mem::replace(&mut state.waiters[index as usize], Waiter::Free);
            state.waiters_free.push(index);
            match waiter {
                Waiter::Granted(buffer) => Some(buffer),
                _ => {
                    state.queue.retain(|&queued| queued != index);
                    None
                }
            }
        };
        if let Some(buffer) = granted {
            drop(Ticket::new(buffer, Rc::clone(&self.tickets)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffer::AlignedBytes;

    fn poll(acquire: &mut Acquire) -> Poll<Ticket> {
        Pin::new(acquire).poll(&mut Context::from_waker(Waker::noop()))
    }

    fn pool_of(places: u32) -> Rc<Tickets> {
        Tickets::new(BufferPool::new(4096, places).unwrap(), places)
    }

    #[test]
    fn who_writes_to_the_buffer_of_a_ticket_finds_what_was_lent() {
        struct Page(AlignedBytes);
        impl Lender for Page {
            fn show(&self, offset: usize, length: usize, look: &mut dyn FnMut(&[u8])) {
                look(&self.0.bytes()[offset..offset + length]);
            }
        }
        let all = pool_of(1);
        let Poll::Ready(mut ticket) = poll(&mut all.acquire()) else { panic!() };
        ticket.buffer_mut().bytes_mut().fill(1);
        let mut page = AlignedBytes::zeroed(4096);
        page.bytes_mut().fill(2);
        let page = Rc::new(Page(page));
        assert!(ticket.lend(Rc::clone(&page) as Rc<dyn Lender>, 0, 4096));
        assert_eq!(ticket.place(0, 4096).region_offset, None);
        assert!(ticket.buffer_mut().bytes().iter().all(|&byte| byte == 2));
        assert_eq!(ticket.place(0, 4096).region_offset, Some(0));
        assert_eq!(Rc::strong_count(&page), 1);
    }

    #[test]
    fn waiters_are_served_in_the_order_of_asking() {
        let all = pool_of(1);
        let Poll::Ready(held) = poll(&mut all.acquire()) else { panic!() };
        let mut waiting: Vec<Acquire> = (0..3).map(|_| all.acquire()).collect();
        assert!(waiting.iter_mut().all(|acquire| poll(acquire).is_pending()));
        drop(held);
        for next in 0..3 {
            assert!(waiting[next + 1..].iter_mut().all(|acquire| poll(acquire).is_pending()));
            assert!(poll(&mut waiting[next]).is_ready(), "{next}");
        }
    }

    #[test]
    fn nobody_overtakes_a_queue() {
        let all = pool_of(1);
        let Poll::Ready(held) = poll(&mut all.acquire()) else { panic!() };
        let mut first = all.acquire();
        assert!(poll(&mut first).is_pending());
        drop(held);
        // Granted to `first`, which has not been polled yet: a newcomer must not take it.
        assert!(poll(&mut all.acquire()).is_pending());
        assert!(poll(&mut first).is_ready());
    }

    #[test]
    fn a_lower_limit_waits_for_tickets_to_come_back_and_a_higher_one_serves_who_waits() {
        let all = pool_of(4);
        let take = |all: &Rc<Tickets>| match poll(&mut all.acquire()) {
            Poll::Ready(ticket) => Some(ticket),
            Poll::Pending => None,
        };
        let mut out: Vec<Ticket> = std::iter::from_fn(|| take(&all)).collect();
        assert_eq!(out.len(), 4);
        all.set_limit(2);
        let mut waiting: Vec<Acquire> = (0..4).map(|_| all.acquire()).collect();
        assert!(waiting.iter_mut().all(|acquire| poll(acquire).is_pending()));
        out.truncate(2);
        assert!(waiting.iter_mut().all(|acquire| poll(acquire).is_pending()), "2 are out");
        out.truncate(1);
        assert_eq!(all.in_flight(), 2, "the first that waits has the place");
        all.set_limit(99);
        assert_eq!(all.in_flight(), 4, "no more than there are places");
        let ready = |acquire: &mut Acquire| match poll(acquire) {
            Poll::Ready(ticket) => Some(ticket),
            Poll::Pending => None,
        };
        let served: Vec<Ticket> = waiting.iter_mut().filter_map(ready).collect();
        assert_eq!(served.len(), 3);
        all.set_limit(0);
        drop((out, served, waiting));
        let held = take(&all);
        assert!(held.is_some() && take(&all).is_none(), "a limit is never below 1");
    }

    #[test]
    fn what_limits_the_tickets_is_the_smaller_of_limit_and_pool() {
        let few = Tickets::new(BufferPool::new(4096, 4).unwrap(), 8);
        assert!(few.limited_by_buffers(8));
        few.set_limit(2);
        assert!(!few.limited_by_buffers(8), "there are buffers to spare");
        few.set_limit(8);
        assert!(few.limited_by_buffers(8));
        assert!(!pool_of(4).limited_by_buffers(4));
    }

    #[test]
    fn dropping_waiting_and_granted_futures_leaks_nothing() {
        let all = pool_of(2);
        let tickets: Vec<Ticket> = (0..2)
            .map(|_| match poll(&mut all.acquire()) {
                Poll::Ready(ticket) => ticket,
                Poll::Pending => panic!("two places are free"),
            })
            .collect();
        let mut queued: Vec<Acquire> = (0..6).map(|_| all.acquire()).collect();
        assert!(queued.iter_mut().all(|acquire| poll(acquire).is_pending()));
        queued.swap_remove(3);
        drop(tickets);
        // Two of the queued now hold a grant they never collected.
        assert_eq!(all.in_flight(), 2);
        drop(queued);
        assert_eq!(all.in_flight(), 0);
        assert_eq!(all.pool().free_count(), 2);
    }
}
