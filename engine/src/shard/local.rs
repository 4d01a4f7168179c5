//! A deterministic executor on the calling thread: runs tasks in the order they were woken.
//!
//! For simulation and tests; a real shard runs on `executor`.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Wake, Waker};

use super::LocalTask;
use super::slab::Slab;

type Ready = Arc<Mutex<VecDeque<u64>>>;

struct TaskWaker {
    id: u64,
    /// In the queue already.
    queued: AtomicBool,
    ready: Ready,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        if !self.queued.swap(true, Ordering::Relaxed) {
            // The queue is plain data: a panic elsewhere can't have left it half-changed.
            let mut ready = self.ready.lock().unwrap_or_else(PoisonError::into_inner);
            ready.push_back(self.id);
        }
    }
}

struct Running {
    /// `None` while it is polled.
    task: Option<LocalTask>,
    waker: Arc<TaskWaker>,
}

/// Says whether the next task spawned runs at once.
type Draw = Box<dyn FnMut() -> bool>;

#[derive(Default)]
struct Inner {
    tasks: RefCell<Slab<Running>>,
    ready: Ready,
    draw: RefCell<Option<Draw>>,
}

/// See the module. Clones are the same executor.
#[derive(Clone, Default)]
pub struct LocalRuntime {
    inner: Rc<Inner>,
}

impl LocalRuntime {
    /// Adds a task; it first runs at the next [`LocalRuntime::run_ready`].
    pub fn spawn(&self, task: LocalTask) -> u64 {
        self.inner.tasks.borrow_mut().insert(|id| {
            let ready = Arc::clone(&self.inner.ready);
            let waker = Arc::new(TaskWaker { id, queued: AtomicBool::new(false), ready });
            Arc::clone(&waker).wake();
            Running { task: Some(task), waker }
        })
    }

    /// Adds a task of a shard, which on a real one runs at once, up to where it first waits, inside
    /// of this call; here it does so when the draw says so, and otherwise runs at the next
    /// [`LocalRuntime::run_ready`].
    pub fn spawn_of_shard(&self, task: LocalTask) -> u64 {
        let id = self.spawn(task);
        // Not borrowed while the task runs, which may spawn another.
        let runs_at_once = self.inner.draw.borrow_mut().as_mut().is_some_and(|draw| draw());
        if runs_at_once {
            self.poll(id);
        }
        id
    }

    /// Has `draw` decide about each of [`LocalRuntime::spawn_of_shard`]: what is right must be
    /// right in either order.
    pub fn draw_order_of_spawns(&self, draw: impl FnMut() -> bool + 'static) {
        *self.inner.draw.borrow_mut() = Some(Box::new(draw));
    }

    /// Drops a task where it is.
    pub fn cancel(&self, id: u64) {
        let task = self.inner.tasks.borrow_mut().remove(id);
        drop(task);
    }

    /// Whether the task has not ended.
    #[must_use]
    pub fn is_running(&self, id: u64) -> bool {
        self.inner.tasks.borrow_mut().get_mut(id).is_some()
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
        self.poll(id);
        true
    }

    /// Polls a task, unless it has ended or is being polled.
    fn poll(&self, id: u64) {
        let taken = {
            let mut tasks = self.inner.tasks.borrow_mut();
            let running = tasks.get_mut(id);
            running.and_then(|running| Some((running.task.take()?, Arc::clone(&running.waker))))
        };
        // Ended or cancelled since it was woken.
        let Some((mut task, waker)) = taken else { return };
        // Woken from here on, also by itself, it runs again.
        waker.queued.store(false, Ordering::Relaxed);
        let waker = Waker::from(waker);
        let ended = task.as_mut().poll(&mut Context::from_waker(&waker)).is_ready();
        let finished = {
            let mut tasks = self.inner.tasks.borrow_mut();
            match tasks.get_mut(id) {
                Some(_) if ended => {
                    tasks.remove(id);
                    Some(task)
                }
                Some(running) => running.task.replace(task),
                None => Some(task),
            }
        };
        drop(finished);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spawned_task_runs_at_once_when_the_draw_says_so() {
        let runtime = LocalRuntime::default();
        let order: Rc<RefCell<Vec<&str>>> = Rc::default();
        let mut draws = [true, false].into_iter();
        runtime.draw_order_of_spawns(move || draws.next().unwrap());
        let (inner, seen) = (runtime.clone(), Rc::clone(&order));
        runtime.spawn(Box::pin(async move {
            for name in ["at once", "later"] {
                let seen = Rc::clone(&seen);
                inner.spawn_of_shard(Box::pin(async move { seen.borrow_mut().push(name) }));
            }
            seen.borrow_mut().push("spawner");
        }));
        runtime.run_ready();
        assert_eq!(*order.borrow(), ["at once", "spawner", "later"]);
        assert_eq!(runtime.task_count(), 0);
    }
}
