//! Futures that wait for whichever comes first, and for the others of a shard.

use std::rc::Rc;
use std::task::Poll;

use super::Driver;

/// Tasks begun inside of each other before the next one waits its turn: some tens of KiB of stack.
const NESTED_MAX: u32 = 8;

impl Driver {
    /// Runs a task beside the others of the shard. A real shard runs it at once, up to where it
    /// first waits, inside of this call; and as one that ends without waiting begins the next, it
    /// lets the others go first when too many are inside of each other.
    pub(super) fn begin(self: &Rc<Self>, task: impl Future<Output = ()> + 'static) {
        let depth = self.nested.get();
        self.nested.set(depth + 1);
        (self.spawn)(Box::pin(async move {
            if depth >= NESTED_MAX {
                a_turn_of_the_others().await;
            }
            task.await;
        }));
        self.nested.set(depth);
    }
}

/// Ends at the second look.
async fn a_turn_of_the_others() {
    let mut is_second = false;
    std::future::poll_fn(|cx| match std::mem::replace(&mut is_second, true) {
        true => Poll::Ready(()),
        false => {
            cx.waker().wake_by_ref();
            Poll::Pending
        }
    })
    .await;
}

/// Ready when either is.
pub(super) async fn either(a: impl Future<Output = ()>, b: impl Future<Output = ()>) {
    let (mut a, mut b) = (std::pin::pin!(a), std::pin::pin!(b));
    std::future::poll_fn(|cx| match a.as_mut().poll(cx) {
        Poll::Ready(()) => Poll::Ready(()),
        Poll::Pending => b.as_mut().poll(cx),
    })
    .await;
}
