//! The in-flight table: the only owner of a buffer from submit to completion, whatever is dropped
//! meanwhile.
//!
//! A slot is *pending* (the kernel may touch the buffer), *abandoned* (pending, and nobody waits
//! any more: the completion frees the buffer) or *done* (the result waits to be collected). The
//! completion of an I/O that was given to a [`CompletionQueue`] waits there, and leaves the slot.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use crate::clock::Nanos;

/// End of an I/O.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Completion {
    /// Bytes transferred, or a negative errno, as the kernel reports it.
    pub result: i32,
    /// When it was handed to the device, with all that was handed over at once.
    pub submitted: Nanos,
    /// When its completion was seen.
    pub completed: Nanos,
}

enum State<B> {
    Free,
    Pending(Waiter<B>),
    Abandoned,
    Done(Completion),
}

enum Waiter<B> {
    Nobody,
    Task(Waker),
    /// The queue of one that waits for several I/Os, and the number of this one there.
    Queue(Rc<CompletionQueue<B>>, u64),
}

/// Completions that one task waits for, oldest first, each with the I/O's number and what it owned.
/// Each costs the same, however many I/Os are in flight.
pub struct CompletionQueue<B> {
    completed: RefCell<VecDeque<(u64, Completion, Option<B>)>>,
    waker: RefCell<Option<Waker>>,
    is_abandoned: Cell<bool>,
}

impl<B> Default for CompletionQueue<B> {
    fn default() -> Self {
        let (completed, waker) = (RefCell::default(), RefCell::default());
        CompletionQueue { completed, waker, is_abandoned: Cell::new(false) }
    }
}

impl<B> CompletionQueue<B> {
    /// The I/O that completed first, of those not taken yet.
    pub fn pop(&self) -> Option<(u64, Completion, Option<B>)> {
        self.completed.borrow_mut().pop_front()
    }

    /// Has the next completion wake the task, which has taken all before.
    pub fn register(&self, cx: &Context<'_>) {
        let mut waker = self.waker.borrow_mut();
        waker.get_or_insert_with(|| cx.waker().clone()).clone_from(cx.waker());
    }

    /// Waits for the next completion, and frees what it owned.
    pub async fn free_next(&self) {
        let next = std::future::poll_fn(|cx| {
            self.register(cx);
            self.pop().map_or(Poll::Pending, Poll::Ready)
        });
        drop(next.await);
    }

    /// Gives its I/Os up: what they own is freed when they complete.
    pub fn abandon(&self) {
        self.is_abandoned.set(true);
        // Outside the borrow: dropping a ticket wakes others, which may come back here.
        let completed = self.completed.take();
        drop(completed);
    }

    fn push(&self, number: u64, completion: Completion, owned: Option<B>) {
        if !self.is_abandoned.get() {
            self.completed.borrow_mut().push_back((number, completion, owned));
        }
        let waker = self.waker.take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

struct Slot<B> {
    state: State<B>,
    /// Told apart from earlier users of the same slot.
    generation: u32,
    submitted: Nanos,
    owned: Option<B>,
}

/// Names an I/O in flight to the kernel (`user_data`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct SlotToken(pub u64);

impl SlotToken {
    fn new(index: u32, generation: u32) -> Self {
        SlotToken(u64::from(generation) << 32 | u64::from(index))
    }

    /// Number of its slot, which a later I/O may have again.
    pub(super) fn index(self) -> usize {
        (self.0 & 0xffff_ffff) as usize
    }

    fn generation(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

/// The table. `B` is what must live until the completion. All operations O(1).
pub struct Slots<B> {
    inner: RefCell<Inner<B>>,
}

struct Inner<B> {
    slots: Vec<Slot<B>>,
    free: Vec<u32>,
    pending: u32,
}

impl<B: 'static> Slots<B> {
    /// A table without slots; it grows as I/Os are submitted.
    pub fn new() -> Rc<Self> {
        let inner = Inner { slots: Vec::new(), free: Vec::new(), pending: 0 };
        Rc::new(Slots { inner: RefCell::new(inner) })
    }

    /// I/Os that the kernel has not completed, abandoned ones too.
    pub fn pending(&self) -> u32 {
        self.inner.borrow().pending
    }

    /// When the oldest of those that were handed over was. O(slots): for a look now and then.
    pub fn oldest(&self) -> Option<Nanos> {
        let inner = self.inner.borrow();
        let pending = |slot: &&Slot<B>| matches!(slot.state, State::Pending(_) | State::Abandoned);
        // Its time is 0 until an I/O is handed over.
        let submitted = inner.slots.iter().filter(pending).map(|slot| slot.submitted);
        submitted.filter(|submitted| *submitted > Nanos::ZERO).min()
    }

    /// Takes `owned` until [`Slots::complete`] is called with the token.
    pub fn insert(self: &Rc<Self>, owned: Option<B>, now: Nanos) -> (SlotToken, IoFuture<B>) {
        let inner = &mut *self.inner.borrow_mut();
        let index = inner.free.pop().unwrap_or_else(|| {
            inner.slots.push(Slot {
                state: State::Free,
                generation: 0,
                submitted: Nanos::ZERO,
                owned: None,
            });
            (inner.slots.len() - 1) as u32
        });
        let slot = &mut inner.slots[index as usize];
        assert!(matches!(slot.state, State::Free), "the free list holds free slots");
        slot.state = State::Pending(Waiter::Nobody);
        slot.submitted = now;
        slot.owned = owned;
        inner.pending += 1;
        let token = SlotToken::new(index, slot.generation);
        (token, IoFuture { slots: Rc::clone(self), token, collected: false })
    }

    /// Says when an I/O in flight was handed to the device, where that was after
    /// [`Slots::insert`].
    pub fn handed_over(&self, token: SlotToken, now: Nanos) {
        let inner = &mut *self.inner.borrow_mut();
        let slot = &mut inner.slots[token.index()];
        assert_eq!(slot.generation, token.generation(), "it is in flight");
        slot.submitted = now;
    }

    /// When an I/O in flight was handed to the device.
    pub fn submitted(&self, token: SlotToken) -> Nanos {
        let inner = &*self.inner.borrow();
        let slot = &inner.slots[token.index()];
        assert_eq!(slot.generation, token.generation(), "it is in flight");
        slot.submitted
    }

    /// Looks at what an I/O in flight owns, and whether anybody waits for it: for devices that move
    /// the data themselves.
    pub fn with_owned<T>(
        &self,
        token: SlotToken,
        look: impl FnOnce(Option<&mut B>, bool) -> T,
    ) -> T {
        let inner = &mut *self.inner.borrow_mut();
        let slot = &mut inner.slots[token.index()];
        assert_eq!(slot.generation, token.generation(), "it is in flight");
        let is_live = match &slot.state {
            State::Pending(Waiter::Queue(queue, _)) => !queue.is_abandoned.get(),
            state => matches!(state, State::Pending(_)),
        };
        look(slot.owned.as_mut(), is_live)
    }

    /// Counts a pending I/O from that time on, where it is later than that at which it was handed
    /// over: until then it waited in a queue of the device's own.
    pub fn begin_at(&self, token: SlotToken, begun: Nanos) {
        let slot = &mut self.inner.borrow_mut().slots[token.index()];
        slot.submitted = slot.submitted.max(begun);
    }

    /// The kernel is done with the I/O: wakes who waits, or frees what nobody waits for.
    pub fn complete(&self, token: SlotToken, result: i32, now: Nanos) {
        let (waiter, completion, owned) = {
            let inner = &mut *self.inner.borrow_mut();
            let slot = &mut inner.slots[token.index()];
            assert_eq!(slot.generation, token.generation(), "a completion comes once");
            let completion = Completion { result, submitted: slot.submitted, completed: now };
            inner.pending -= 1;
            match std::mem::replace(&mut slot.state, State::Done(completion)) {
                State::Pending(waiter @ Waiter::Queue(..)) => {
                    (waiter, completion, inner.release(token))
                }
                State::Pending(waiter) => (waiter, completion, None),
                State::Abandoned => (Waiter::Nobody, completion, inner.release(token)),
                State::Free | State::Done(_) => unreachable!("a completion comes once"),
            }
        };
        // Outside the borrow: dropping a ticket wakes others, which may come back here.
        match waiter {
            Waiter::Nobody => drop(owned),
            Waiter::Task(waker) => waker.wake(),
            Waiter::Queue(queue, number) => queue.push(number, completion, owned),
        }
    }
}

impl<B> Inner<B> {
    fn release(&mut self, token: SlotToken) -> Option<B> {
        let slot = &mut self.slots[token.index()];
        slot.state = State::Free;
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(token.index() as u32);
        slot.owned.take()
    }
}

/// Waits for one I/O and hands back what it owned. Dropping it early is safe: the table keeps the
/// buffer until the completion.
pub struct IoFuture<B: 'static> {
    slots: Rc<Slots<B>>,
    token: SlotToken,
    collected: bool,
}

impl<B: 'static> IoFuture<B> {
    /// Has the completion queued under that number, when it comes, instead of waking a task.
    pub fn queue_in(mut self, queue: &Rc<CompletionQueue<B>>, number: u64) {
        self.collected = true;
        let done = {
            let inner = &mut *self.slots.inner.borrow_mut();
            match &mut inner.slots[self.token.index()].state {
                State::Pending(waiter) => {
                    *waiter = Waiter::Queue(Rc::clone(queue), number);
                    None
                }
                State::Done(completion) => Some((*completion, inner.release(self.token))),
                State::Free | State::Abandoned => unreachable!("this future holds the slot"),
            }
        };
        if let Some((completion, owned)) = done {
            queue.push(number, completion, owned);
        }
    }
}

impl<B: 'static> Future for IoFuture<B> {
    type Output = (Completion, Option<B>);

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        assert!(!self.collected, "polled after it was ready");
        let token = self.token;
        let ready = {
            let inner = &mut *self.slots.inner.borrow_mut();
            let slot = &mut inner.slots[token.index()];
            match &mut slot.state {
                State::Done(completion) => {
                    let completion = *completion;
                    Some((completion, inner.release(token)))
                }
                State::Pending(waiter) => {
                    match waiter {
                        Waiter::Task(waker) => waker.clone_from(cx.waker()),
                        _ => *waiter = Waiter::Task(cx.waker().clone()),
                    }
                    None
                }
                State::Free | State::Abandoned => unreachable!("this future holds the slot"),
            }
        };
        match ready {
            Some(output) => {
                self.collected = true;
                Poll::Ready(output)
            }
            None => Poll::Pending,
        }
    }
}

impl<B: 'static> Drop for IoFuture<B> {
    fn drop(&mut self) {
        if self.collected {
            return;
        }
        let freed = {
            let inner = &mut *self.slots.inner.borrow_mut();
            let slot = &mut inner.slots[self.token.index()];
            match slot.state {
                State::Pending(_) => {
                    slot.state = State::Abandoned;
                    None
                }
                State::Done(_) => inner.release(self.token),
                State::Free | State::Abandoned => unreachable!("this future holds the slot"),
            }
        };
        drop(freed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ns: u64) -> Nanos {
        Nanos::from_ns(ns)
    }

    fn poll<B>(future: &mut IoFuture<B>) -> Poll<(Completion, Option<B>)> {
        Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn a_dropped_future_keeps_its_buffer_until_the_completion() {
        let slots = Slots::new();
        let buffer = Rc::new(());
        let (token, future) = slots.insert(Some(Rc::clone(&buffer)), at(1));
        drop(future);
        assert_eq!(Rc::strong_count(&buffer), 2, "the kernel may still write to it");
        assert_eq!(slots.pending(), 1);
        slots.complete(token, 4096, at(2));
        assert_eq!(Rc::strong_count(&buffer), 1);
        assert_eq!(slots.pending(), 0);
    }

    /// Waits for a thread of a layout were told as the time of its I/Os.
    #[test]
    fn an_io_is_counted_from_when_its_device_began_with_it() {
        let slots = Slots::<()>::new();
        for (begun, submitted) in [(25, 25), (5, 10)] {
            let (token, mut future) = slots.insert(None, at(10));
            slots.begin_at(token, at(begun));
            slots.complete(token, 4096, at(30));
            let Poll::Ready((completion, _)) = poll(&mut future) else { panic!("it is done") };
            assert_eq!((completion.submitted, completion.completed), (at(submitted), at(30)));
        }
    }

    #[test]
    fn a_done_but_uncollected_future_frees_on_drop() {
        let slots = Slots::new();
        let buffer = Rc::new(());
        let (token, future) = slots.insert(Some(Rc::clone(&buffer)), at(1));
        slots.complete(token, 0, at(2));
        drop(future);
        assert_eq!(Rc::strong_count(&buffer), 1);
    }

    /// Its time was 0, so that it was told to wait since the machine was started.
    #[test]
    fn an_io_that_is_not_handed_over_yet_is_not_the_oldest() {
        let slots = Slots::new();
        let (queued, _first) = slots.insert(Some(()), Nanos::ZERO);
        assert_eq!(slots.oldest(), None);
        let (_, _second) = slots.insert(Some(()), at(7));
        assert_eq!(slots.oldest(), Some(at(7)));
        slots.handed_over(queued, at(3));
        assert_eq!(slots.oldest(), Some(at(3)));
    }

    #[test]
    fn a_reused_slot_is_another_token() {
        let slots = Slots::new();
        let (first, mut future) = slots.insert(Some(()), at(1));
        assert!(poll(&mut future).is_pending());
        slots.complete(first, 7, at(5));
        let Poll::Ready((completion, Some(()))) = poll(&mut future) else { panic!() };
        assert_eq!(completion, Completion { result: 7, submitted: at(1), completed: at(5) });
        assert_eq!(slots.oldest(), None);
        let (second, _future) = slots.insert(Some(()), at(2));
        assert_ne!(first, second);
        assert_eq!(first.index(), second.index());
    }

    #[test]
    #[should_panic(expected = "a completion comes once")]
    fn a_second_completion_is_a_bug_that_shows() {
        let slots = Slots::<()>::new();
        let (token, future) = slots.insert(None, at(1));
        slots.complete(token, 0, at(2));
        drop(future);
        slots.complete(token, 0, at(3));
    }

    #[derive(Default)]
    struct Woken(std::sync::atomic::AtomicU32);

    impl std::task::Wake for Woken {
        fn wake(self: std::sync::Arc<Self>) {
            self.0.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        }
    }

    #[test]
    fn the_completion_wakes_whoever_polled_last() {
        let slots = Slots::new();
        let (token, mut future) = slots.insert(Some(()), at(1));
        let woken: [std::sync::Arc<Woken>; 2] = Default::default();
        // Twice the same, then another.
        for index in [0, 0, 1] {
            let waker = Waker::from(std::sync::Arc::clone(&woken[index]));
            let polled = Pin::new(&mut future).poll(&mut Context::from_waker(&waker));
            assert!(polled.is_pending());
        }
        slots.complete(token, 1, at(2));
        let count = |woken: &Woken| woken.0.load(std::sync::atomic::Ordering::SeqCst);
        assert_eq!([count(&woken[0]), count(&woken[1])], [0, 1]);
        assert!(poll(&mut future).is_ready());
    }

    #[test]
    fn a_task_that_waits_for_several_ios_takes_their_completions_in_order_and_is_woken_once() {
        let (slots, queue) = (Slots::new(), Rc::<CompletionQueue<()>>::default());
        let all: Vec<_> = (0..3).map(|_| slots.insert(Some(()), at(1))).collect();
        let [first, second, early] = [0, 1, 2].map(|index: usize| all[index].0);
        // One has completed before anybody says where.
        slots.complete(early, 22, at(2));
        for (number, (_, future)) in (0..).zip(all) {
            future.queue_in(&queue, number);
        }
        let pop = || queue.pop().map(|(number, completion, _)| (number, completion.result));
        let woken = std::sync::Arc::<Woken>::default();
        let waker = Waker::from(std::sync::Arc::clone(&woken));
        let cx = Context::from_waker(&waker);
        assert_eq!((pop(), pop()), (Some((2, 22)), None));
        queue.register(&cx);
        slots.complete(second, 11, at(3));
        slots.complete(first, 10, at(4));
        assert_eq!(woken.0.load(std::sync::atomic::Ordering::SeqCst), 1);
        assert_eq!([pop(), pop(), pop()], [Some((1, 11)), Some((0, 10)), None]);
    }

    #[test]
    fn ios_of_a_queue_that_is_given_up_keep_their_buffers_until_they_complete() {
        let (slots, queue) = (Slots::new(), Rc::<CompletionQueue<_>>::default());
        let buffer = Rc::new(());
        let [done, pending] = [0, 1].map(|number| {
            let (token, future) = slots.insert(Some(Rc::clone(&buffer)), at(1));
            future.queue_in(&queue, number);
            token
        });
        assert!(slots.with_owned(pending, |_, is_live| is_live));
        slots.complete(done, 1, at(2));
        queue.abandon();
        assert_eq!(Rc::strong_count(&buffer), 2, "the kernel may still write to one");
        assert!(!slots.with_owned(pending, |_, is_live| is_live));
        slots.complete(pending, 1, at(2));
        assert!(queue.pop().is_none());
        assert_eq!((Rc::strong_count(&buffer), slots.pending()), (1, 0));
    }

    #[test]
    fn ios_in_flight_together_have_slots_of_their_own() {
        let slots = Slots::new();
        let (first, mut one) = slots.insert(Some("one"), at(1));
        let (second, mut two) = slots.insert(Some("two"), at(2));
        slots.handed_over(second, at(3));
        assert_eq!(
            slots.with_owned(first, |owned, is_live| (owned.copied(), is_live)),
            (Some("one"), true)
        );
        slots.complete(second, 22, at(5));
        assert!(poll(&mut one).is_pending());
        slots.complete(first, 11, at(4));
        let completion = |result, submitted, completed| Completion {
            result,
            submitted: at(submitted),
            completed: at(completed),
        };
        assert_eq!(poll(&mut one), Poll::Ready((completion(11, 1, 4), Some("one"))));
        assert_eq!(poll(&mut two), Poll::Ready((completion(22, 3, 5), Some("two"))));
        // The slots are used again, by I/Os that end as the first ones did.
        let (third, mut three) = slots.insert(Some("three"), at(6));
        slots.complete(third, 33, at(7));
        assert_eq!(poll(&mut three), Poll::Ready((completion(33, 6, 7), Some("three"))));
    }

    #[test]
    #[should_panic(expected = "a completion comes once")]
    fn a_completion_of_the_slots_user_before_is_a_bug_that_shows() {
        let slots = Slots::<()>::new();
        let (first, future) = slots.insert(None, at(1));
        slots.complete(first, 0, at(2));
        drop(future);
        let (second, _pending) = slots.insert(None, at(3));
        assert_eq!(first.index(), second.index());
        slots.complete(first, 0, at(4));
    }
}
