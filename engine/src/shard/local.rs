//! The tasks of a thread, run in the order in which they were woken: those of a real shard
//! ([`super::executor`]), and, deterministic as it is, of simulations and tests.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Wake, Waker};

use super::LocalTask;
use super::slab::Slab;

/// Tasks to be run, by their ids: any thread may wake one.
#[derive(Default)]
struct Ready {
    queue: Mutex<VecDeque<u64>>,
    /// Number of them: nobody locks an empty queue.
    count: AtomicUsize,
}

impl Ready {
    fn count(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }

    fn change<T>(&self, change: impl FnOnce(&mut VecDeque<u64>) -> T) -> T {
        // The queue is plain data: a panic elsewhere can't have left it half-changed.
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let changed = change(&mut queue);
        self.count.store(queue.len(), Ordering::Release);
        changed
    }

    fn push(&self, id: u64) {
        self.change(|queue| queue.push_back(id));
    }

    fn pop(&self) -> Option<u64> {
        if self.count() == 0 { None } else { self.change(VecDeque::pop_front) }
    }
}

struct TaskWaker {
    id: u64,
    /// In the queue already.
    queued: AtomicBool,
    ready: Arc<Ready>,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.queued.swap(true, Ordering::AcqRel) {
            self.ready.push(self.id);
        }
    }
}

struct Running {
    /// The task and its waker; `None` while it is polled.
    task: Option<(LocalTask, Waker)>,
    waker: Arc<TaskWaker>,
}

/// Says whether the next task spawned runs at once.
type Draw = Box<dyn FnMut() -> bool>;

#[derive(Default)]
struct Inner {
    tasks: RefCell<Slab<Running>>,
    ready: Arc<Ready>,
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
        let id = self.insert(task, true);
        self.inner.ready.push(id);
        id
    }

    /// Adds a task, and runs it up to where it first waits, inside of this call.
    pub fn run_at_once(&self, task: LocalTask) -> u64 {
        let id = self.insert(task, false);
        self.poll(id);
        id
    }

    fn insert(&self, task: LocalTask, is_queued: bool) -> u64 {
        self.inner.tasks.borrow_mut().insert(|id| {
            let (queued, ready) = (AtomicBool::new(is_queued), Arc::clone(&self.inner.ready));
            let waker = Arc::new(TaskWaker { id, queued, ready });
            Running { task: Some((task, Waker::from(Arc::clone(&waker)))), waker }
        })
    }

    /// Adds a task of a shard, which runs at once, as on a real one; where there is a draw, only if
    /// this says so, and otherwise at the next [`LocalRuntime::run_ready`].
    pub fn spawn_of_shard(&self, task: LocalTask) -> u64 {
        // Not borrowed while the task runs, which may spawn another.
        let runs_at_once = self.inner.draw.borrow_mut().as_mut().is_none_or(|draw| draw());
        if runs_at_once { self.run_at_once(task) } else { self.spawn(task) }
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
    pub fn is_running(&self, id: u64) -> bool {
        self.inner.tasks.borrow_mut().get_mut(id).is_some()
    }

    /// Tasks that have not ended.
    pub fn task_count(&self) -> usize {
        self.inner.tasks.borrow().len()
    }

    /// Polls the task that was woken first; false when none is ready.
    pub fn run_one(&self) -> bool {
        let Some(id) = self.inner.ready.pop() else { return false };
        self.poll(id);
        true
    }

    /// Polls a task, unless it has ended or is being polled.
    fn poll(&self, id: u64) {
        let taken = {
            let mut tasks = self.inner.tasks.borrow_mut();
            let running = tasks.get_mut(id);
            running.and_then(|running| {
                let task = running.task.take()?;
                // Woken from here on, also by itself, it runs again. A swap, so that the poll sees
                // what another thread wrote before it found the task queued.
                running.waker.queued.swap(false, Ordering::AcqRel);
                Some(task)
            })
        };
        // Ended or cancelled since it was woken.
        let Some((mut task, waker)) = taken else { return };
        let ended = task.as_mut().poll(&mut Context::from_waker(&waker)).is_ready();
        let finished = {
            let mut tasks = self.inner.tasks.borrow_mut();
            match tasks.get_mut(id) {
                Some(running) if !ended => running.task.replace((task, waker)),
                _ => {
                    tasks.remove(id);
                    Some((task, waker))
                }
            }
        };
        drop(finished);
    }

    /// Whether a task is to be run.
    pub fn is_ready(&self) -> bool {
        self.inner.ready.count() > 0
    }

    /// Polls each task once that is ready now.
    pub fn run_pass(&self) {
        for _ in 0..self.inner.ready.count() {
            self.run_one();
        }
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
    use crate::shard::notify::yield_now;

    #[test]
    fn a_pass_runs_what_is_ready_once_and_what_it_wakes_belongs_to_the_next() {
        let (runtime, polls) = (LocalRuntime::default(), Rc::new(RefCell::new(Vec::new())));
        for name in ["one", "two"] {
            let (inner, polls) = (runtime.clone(), Rc::clone(&polls));
            runtime.spawn(Box::pin(async move {
                polls.borrow_mut().push(name);
                let seen = Rc::clone(&polls);
                inner.run_at_once(Box::pin(async move {
                    seen.borrow_mut().push("at once");
                    yield_now().await;
                    seen.borrow_mut().push("later");
                }));
                polls.borrow_mut().push("spawner");
            }));
        }
        let passes = std::iter::from_fn(|| {
            runtime.is_ready().then(|| runtime.run_pass());
            Some(polls.take()).filter(|polls| !polls.is_empty())
        });
        let first = vec!["one", "at once", "spawner", "two", "at once", "spawner"];
        assert_eq!(Vec::from_iter(passes), [first, vec!["later", "later"]]);
        assert_eq!(runtime.task_count(), 0);
    }

    #[test]
    fn a_spawned_task_runs_at_once_unless_the_draw_says_otherwise() {
        let order: Rc<RefCell<Vec<&str>>> = Rc::default();
        LocalRuntime::default().spawn_of_shard(Box::pin({
            let seen = Rc::clone(&order);
            async move { seen.borrow_mut().push("as on a real shard") }
        }));
        assert_eq!(order.take(), ["as on a real shard"]);
        let runtime = LocalRuntime::default();
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
