//! A deterministic executor on the calling thread: runs tasks in the order they were woken.
//!
//! For simulation and tests; a real shard runs on `executor`.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Wake, Waker};

use super::LocalTask;

type Ready = Arc<Mutex<VecDeque<u64>>>;

struct TaskWaker {
    id: u64,
    ready: Ready,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        // The queue is plain data: a panic elsewhere can't have left it half-changed.
        let mut ready = self.ready.lock().unwrap_or_else(PoisonError::into_inner);
        if !ready.contains(&self.id) {
            ready.push_back(self.id);
        }
    }
}

#[derive(Default)]
struct Inner {
    tasks: RefCell<BTreeMap<u64, Option<LocalTask>>>,
    next_id: RefCell<u64>,
    ready: Ready,
}

/// See the module. Clones are the same executor.
#[derive(Clone, Default)]
pub struct LocalRuntime {
    inner: Rc<Inner>,
}

impl LocalRuntime {
    /// Adds a task; it first runs at the next [`LocalRuntime::run_ready`].
    pub fn spawn(&self, task: LocalTask) -> u64 {
        let id = {
            let mut next = self.inner.next_id.borrow_mut();
            *next += 1;
            *next
        };
        self.inner.tasks.borrow_mut().insert(id, Some(task));
        self.inner.ready.lock().unwrap_or_else(PoisonError::into_inner).push_back(id);
        id
    }

    /// Drops a task where it is.
    pub fn cancel(&self, id: u64) {
        let task = self.inner.tasks.borrow_mut().remove(&id);
        drop(task);
    }

    /// Whether the task has not ended.
    #[must_use]
    pub fn is_running(&self, id: u64) -> bool {
        self.inner.tasks.borrow().contains_key(&id)
    }

    /// Tasks that have not ended.
    #[must_use]
    pub fn task_count(&self) -> usize {
        self.inner.tasks.borrow().len()
    }

    /// Polls the task that was woken first; false when none is ready.
    pub fn run_one(&self) -> bool {
        let next = self.inner.ready.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        let Some(id) = next else { return false };
        let taken = self.inner.tasks.borrow_mut().get_mut(&id).and_then(Option::take);
        // Ended or cancelled since it was woken.
        let Some(mut task) = taken else { return true };
        let waker = Waker::from(Arc::new(TaskWaker { id, ready: Arc::clone(&self.inner.ready) }));
        let ended = task.as_mut().poll(&mut Context::from_waker(&waker)).is_ready();
        let finished = {
            let mut tasks = self.inner.tasks.borrow_mut();
            match tasks.get_mut(&id) {
                Some(_) if ended => tasks.remove(&id).flatten(),
                Some(slot) => slot.replace(task),
                None => Some(task),
            }
        };
        drop(finished);
        true
    }

    /// Runs tasks until none is ready; returns how many polls that took.
    pub fn run_ready(&self) -> u64 {
        let mut polls = 0;
        while self.run_one() {
            polls += 1;
        }
        polls
    }
}
