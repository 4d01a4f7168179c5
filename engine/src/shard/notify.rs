//! "Something changed, look again": wakes all waiters of one shard.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

/// A broadcast within a shard. Waking is O(waiters).
#[derive(Debug, Default)]
pub struct Notify {
    generation: Cell<u64>,
    /// Whether there are any of them.
    is_awaited: Cell<bool>,
    wakers: RefCell<Vec<Waker>>,
}

impl Notify {
    /// Wakes everybody who waits now.
    #[inline]
    pub fn notify_all(&self) {
        self.generation.set(self.generation.get() + 1);
        if self.is_awaited.replace(false) {
            self.wake_all();
        }
    }

    #[cold]
    fn wake_all(&self) {
        let mut wakers = std::mem::take(&mut *self.wakers.borrow_mut());
        wakers.drain(..).for_each(Waker::wake);
        // Its memory is for the next ones, unless some have come meanwhile.
        let mut waiting = self.wakers.borrow_mut();
        if waiting.is_empty() {
            *waiting = wakers;
        }
    }

    /// Ready at the first notification after this call (not after the first poll), so that a
    /// check made after the call can't miss one.
    #[must_use]
    pub fn notified(&self) -> Notified<'_> {
        Notified { notify: self, generation: self.generation.get() }
    }
}

/// A future that is ready at the next notification; made by [`Notify::notified`].
#[derive(Debug)]
pub struct Notified<'a> {
    notify: &'a Notify,
    generation: u64,
}

impl Future for Notified<'_> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.notify.generation.get() != self.generation {
            return Poll::Ready(());
        }
        let wakers = &mut *self.notify.wakers.borrow_mut();
        // A task polled twice between notifications is queued once.
        if !wakers.iter().any(|waker| waker.will_wake(cx.waker())) {
            wakers.push(cx.waker().clone());
        }
        self.notify.is_awaited.set(true);
        Poll::Pending
    }
}

/// Lets the other tasks of the thread run once.
pub async fn yield_now() {
    let mut yielded = false;
    std::future::poll_fn(|cx| {
        if std::mem::replace(&mut yielded, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_notification_between_call_and_poll_is_not_lost() {
        let notify = Notify::default();
        let mut early = std::pin::pin!(notify.notified());
        notify.notify_all();
        let mut late = std::pin::pin!(notify.notified());
        let cx = &mut Context::from_waker(Waker::noop());
        assert!(early.as_mut().poll(cx).is_ready());
        assert!(late.as_mut().poll(cx).is_pending());
        notify.notify_all();
        assert!(late.as_mut().poll(cx).is_ready());
    }
}
