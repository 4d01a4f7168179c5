//! A shard's thread: glommio's executor, pinned, and the one place in which it sleeps. The only
//! file that knows glommio.
//!
//! glommio runs one task, which runs all others from a queue of ours ([`LocalRuntime`]), so that
//! the thread knows when none of them is runnable: with glommio's queue, a task had to be woken to
//! end each pass, and one more that found nothing to run. When all that were runnable have run
//! once, which makes a pass, it works off I/O, timers and the doorbell. After a pass that leaves
//! none runnable it sleeps in the shard's ring, in one `io_uring_enter` that hands over what is
//! queued and ends with the first completion, the next timer, or the doorbell, which others ring to
//! be heard. glommio's own timers and wakers from other threads are therefore never looked at here:
//! [`sleep_until`] and [`hear`] stand in for them.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::mem::ManuallyDrop;
use std::pin::pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Waker};
use std::thread::JoinHandle;
use std::time::Duration;

use glommio::{LocalExecutorBuilder, Placement, PoolPlacement};

use crate::clock::{Nanos, monotonic_now};
use crate::error::SetupError;
use crate::ring::{Doorbell, Parker, check_allowed};

use super::local::LocalRuntime;
use super::notify::{Notify, yield_now};
use super::thread::ThreadSample;
use super::timers::Timers;

/// Time between two looks of [`Executor::join_until`] whether a thread has ended.
const JOIN_LOOK: Duration = Duration::from_millis(1);

/// Time after which glommio would look at its own rings, on which nothing ever happens: never
/// within the life of a process.
const PREEMPT: Duration = Duration::from_secs(1 << 30);

/// glommio's own rings carry nothing.
const GLOMMIO_RING_DEPTH: usize = 64;
/// Smallest that it accepts: our buffers are elsewhere.
const GLOMMIO_IO_MEMORY_BYTES: usize = 64 << 10;

/// Signs of life, read by whoever watches over it.
#[derive(Debug, Default)]
pub struct Vitals {
    /// The thread's number; 0 before it has begun.
    thread: AtomicI32,
    /// When its last pass was over, or its last sleep; 0 before the first.
    last_turn_ns: AtomicU64,
    /// Until when it sleeps, at the most; 0 while it is awake.
    sleeps_until_ns: AtomicU64,
    /// Start and end of the window within which the longest is looked for; none while both are 0.
    counts_from_ns: AtomicU64,
    counts_until_ns: AtomicU64,
    overdue_max_ns: AtomicU64,
}

impl Vitals {
    /// Whether the thread works: it has opened what it was to open.
    pub fn has_begun(&self) -> bool {
        self.last_turn_ns.load(Ordering::Acquire) != 0
    }

    /// Time for which the thread has been overdue: since its last pass began, or since the timer
    /// that was to wake it. 0 while it sleeps with nothing to do, and until it begins to work.
    pub fn overdue(&self, now: Nanos) -> Nanos {
        let until_ns = self.sleeps_until_ns.load(Ordering::Acquire);
        let since_ns = match until_ns {
            0 => self.last_turn_ns.load(Ordering::Acquire),
            until_ns => until_ns,
        };
        match since_ns {
            0 => Nanos::ZERO,
            since_ns => now.saturating_sub(Nanos::from_ns(since_ns)),
        }
    }

    /// Longest time within the window for which it was overdue: between two looks at I/O, timers
    /// and messages, or after the timer that was to wake it.
    pub fn overdue_max(&self) -> Nanos {
        Nanos::from_ns(self.overdue_max_ns.load(Ordering::Relaxed))
    }

    /// Sets the window: of a gap across its start or its end the part inside counts, and without a
    /// window none does.
    pub fn count_within(&self, from: Nanos, until: Nanos) {
        self.counts_from_ns.store(from.as_ns(), Ordering::Relaxed);
        self.counts_until_ns.store(until.as_ns(), Ordering::Relaxed);
    }

    /// Sample of the thread's state from the kernel; none before it has begun.
    pub fn thread_sample(&self) -> Option<ThreadSample> {
        let thread = self.thread.load(Ordering::Relaxed);
        (thread != 0).then(|| ThreadSample::take(thread))
    }

    fn is_thread_alive(&self) -> bool {
        let thread = self.thread.load(Ordering::Relaxed);
        thread != 0 && std::fs::exists(format!("/proc/self/task/{thread}")).unwrap_or(true)
    }

    /// Whether the thread had begun and is gone.
    pub fn has_ended(&self) -> bool {
        self.thread.load(Ordering::Relaxed) != 0 && !self.is_thread_alive()
    }

    /// Notes which thread it is: the one that calls.
    fn begin(&self) {
        let thread = rustix::thread::gettid().as_raw_nonzero().get();
        self.thread.store(thread, Ordering::Relaxed);
    }

    /// A pass is over. What is written here has one writer, the thread.
    fn turn(&self, now: Nanos) {
        let last_ns = self.last_turn_ns.load(Ordering::Relaxed);
        self.last_turn_ns.store(now.as_ns(), Ordering::Release);
        if last_ns != 0 {
            self.note_overdue(last_ns, now);
        }
    }

    fn note_overdue(&self, since_ns: u64, now: Nanos) {
        let from_ns = since_ns.max(self.counts_from_ns.load(Ordering::Relaxed));
        let until_ns = now.as_ns().min(self.counts_until_ns.load(Ordering::Relaxed));
        let overdue_ns = until_ns.saturating_sub(from_ns);
        if overdue_ns > self.overdue_max_ns.load(Ordering::Relaxed) {
            self.overdue_max_ns.store(overdue_ns, Ordering::Relaxed);
        }
    }

    fn sleeps_until(&self, deadline: Option<Nanos>) {
        let until_ns = deadline.map_or(u64::MAX, |deadline| deadline.as_ns().max(1));
        self.sleeps_until_ns.store(until_ns, Ordering::Release);
    }

    fn wakes(&self, now: Nanos) {
        self.note_overdue(self.sleeps_until_ns.load(Ordering::Relaxed), now);
        self.last_turn_ns.store(now.as_ns(), Ordering::Release);
        self.sleeps_until_ns.store(0, Ordering::Release);
    }
}

/// A running thread that drives one task, and those it spawns, to its end.
pub struct Executor<T: Send + 'static> {
    handle: JoinHandle<Result<T, String>>,
    vitals: Arc<Vitals>,
    /// Owned by the thread: gone with it, also when it never began.
    running: Weak<()>,
}

/// Why there is nothing from an executor.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum JoinError {
    /// It panicked, or could not begin.
    #[error("{0}")]
    Died(String),
    /// It still runs; its thread was left alone.
    #[error("its thread did not end")]
    StillRuns,
}

impl<T: Send + 'static> Executor<T> {
    /// Starts a thread, pinned to `cpu` if one is given, that runs `main` to its end.
    ///
    /// # Errors
    /// When the thread can't be made. That its rings can't is told when it is joined.
    pub fn spawn<F, Fut>(
        name: &str,
        cpu: Option<usize>,
        vitals: Arc<Vitals>,
        main: F,
    ) -> Result<Executor<T>, SetupError>
    where
        F: FnOnce() -> Fut + Send + 'static,
        Fut: Future<Output = T> + 'static,
    {
        check_locked_memory_limit()?;
        check_sysfs()?;
        check_allowed()?;
        let shown_vitals = Arc::clone(&vitals);
        let alive = Arc::new(());
        let running = Arc::downgrade(&alive);
        let run = move || {
            let _alive = alive;
            shown_vitals.begin();
            let thread = ThreadState::new(shown_vitals).map_err(|error| error.to_string())?;
            CURRENT.set(Some(Rc::clone(&thread)));
            let executor = builder(cpu).make().map_err(|error| error.to_string())?;
            let output = executor.run(async move { thread.run(main()) });
            // Its ring ends here, where it was made.
            CURRENT.set(None);
            Ok(output)
        };
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(run);
        let handle = thread.map_err(|error| SetupError::NoThread { reason: error.to_string() })?;
        Ok(Executor { handle, vitals, running })
    }

    /// Waits for its end, until `deadline` (`CLOCK_MONOTONIC`) at the most. A thread that has not
    /// ended by then goes on by itself until the process ends.
    ///
    /// # Errors
    /// When it panicked, could not begin, or has not ended.
    pub fn join_until(self, deadline: Nanos) -> Result<T, JoinError> {
        let has_begun = || self.vitals.thread.load(Ordering::Relaxed) != 0;
        while self.running.strong_count() > 0 && !has_begun() || self.vitals.is_thread_alive() {
            if monotonic_now() >= deadline {
                return Err(JoinError::StillRuns);
            }
            std::thread::sleep(JOIN_LOOK);
        }
        match self.handle.join() {
            Ok(output) => output.map_err(JoinError::Died),
            Err(panic) => Err(JoinError::Died(message_of(panic.as_ref()))),
        }
    }
}

fn builder(cpu: Option<usize>) -> LocalExecutorBuilder {
    LocalExecutorBuilder::new(cpu.map_or(Placement::Unbound, Placement::Fixed))
        .io_memory(GLOMMIO_IO_MEMORY_BYTES)
        .ring_depth(GLOMMIO_RING_DEPTH)
        .preempt_timer(PREEMPT)
        // No helper threads: nothing here blocks, and glommio panics where it can't start one.
        .blocking_thread_pool_placement(PoolPlacement::Custom(Vec::new()))
}

fn message_of(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    text.map_or_else(|| "it panicked".to_owned(), |text| format!("it panicked: {text}"))
}

/// glommio refuses to start below this limit, also for a process that may lock what it likes.
const LOCKED_MEMORY_MIN_BYTES: u64 = 512 << 10;

fn check_locked_memory_limit() -> Result<(), SetupError> {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Memlock);
    match limit.current {
        Some(bytes) if bytes < LOCKED_MEMORY_MIN_BYTES => Err(SetupError::new(
            format!("the locked-memory limit is {} KiB, less than 512 KiB", bytes >> 10),
            "raise it with `ulimit -l unlimited` (systemd: LimitMEMLOCK=infinity)",
        )),
        _ => Ok(()),
    }
}

/// File in which glommio looks up the cores, without which it panics.
const CORES_ONLINE: &str = "/sys/devices/system/cpu/online";

fn check_sysfs() -> Result<(), SetupError> {
    match std::fs::metadata(CORES_ONLINE) {
        Ok(_) => Ok(()),
        Err(error) => Err(SetupError::new(
            format!("{CORES_ONLINE}: {error}"),
            "mount sysfs: `mount -t sysfs none /sys` (a container: run it with its own /sys)",
        )),
    }
}

thread_local! {
    /// State of this thread's executor besides glommio's, while it runs.
    static CURRENT: RefCell<Option<Rc<ThreadState>>> = const { RefCell::new(None) };
}

struct ThreadState {
    vitals: Arc<Vitals>,
    timers: Timers,
    doorbell: Arc<Doorbell>,
    /// Told when the doorbell has rung.
    rung: Notify,
    /// Place in which the thread sleeps.
    parker: RefCell<Rc<dyn Parker>>,
    /// Never dropped: what is left of the tasks would go on when the thread is no more.
    tasks: ManuallyDrop<LocalRuntime>,
}

/// Where a thread sleeps that has no ring.
struct NoRing;

impl Parker for NoRing {
    fn poll(&self) {}

    fn park(&self, doorbell: &Doorbell, _now: Nanos, longest: Option<Duration>) -> Nanos {
        doorbell.await_ring(longest);
        monotonic_now()
    }
}

impl ThreadState {
    fn new(vitals: Arc<Vitals>) -> Result<Rc<ThreadState>, SetupError> {
        Ok(Rc::new(ThreadState {
            vitals,
            timers: Timers::starting_at(monotonic_now()),
            doorbell: Doorbell::new()?,
            rung: Notify::default(),
            parker: RefCell::new(Rc::new(NoRing)),
            tasks: ManuallyDrop::default(),
        }))
    }

    /// That of this thread.
    ///
    /// # Panics
    /// On a thread that runs no [`Executor`].
    fn current() -> Rc<ThreadState> {
        let current = CURRENT.with_borrow(Clone::clone);
        current.expect("called by a task of an executor")
    }

    /// Runs all tasks until the main one has ended; see the module.
    fn run<T: 'static>(&self, main: impl Future<Output = T> + 'static) -> T {
        let ended = Rc::new(Cell::new(None));
        let output = Rc::clone(&ended);
        self.tasks.spawn(Box::pin(async move { output.set(Some(main.await)) }));
        loop {
            self.tasks.run_pass();
            if let Some(output) = ended.take() {
                return output;
            }
            let now = monotonic_now();
            self.vitals.turn(now);
            self.timers.advance_to(now);
            if self.doorbell.take() {
                self.rung.notify_all();
            }
            let parker = Rc::clone(&self.parker.borrow());
            parker.poll();
            if !self.tasks.is_ready() {
                self.doorbell.sleep(|doorbell| {
                    let deadline = self.timers.next_deadline();
                    self.vitals.sleeps_until(deadline);
                    let longest = deadline.map(|deadline| (deadline - now).as_duration());
                    self.vitals.wakes(parker.park(doorbell, now, longest));
                });
            }
        }
    }
}

/// Runs `task` on this executor beside the others: at once, up to where it first waits.
pub fn spawn_local(task: impl Future<Output = ()> + 'static) {
    ThreadState::current().tasks.run_at_once(Box::pin(task));
}

/// Sleeps on this executor until `deadline` (`CLOCK_MONOTONIC`). One that has passed still lets
/// the others of the shard have their turn, so that whoever is always late can be stopped.
pub async fn sleep_until(deadline: Nanos) {
    if deadline > monotonic_now() {
        ThreadState::current().timers.sleep_until(deadline).await;
    } else {
        yield_now().await;
    }
}

/// Awaits what another thread makes ready. It is looked at whenever this executor's doorbell has
/// rung, as its waker does; a waker of a task is not heard from elsewhere.
///
/// On a thread without an executor, as in a simulation, it is awaited as it is.
pub async fn hear<F: Future>(future: F) -> F::Output {
    let Some(thread) = CURRENT.with_borrow(Clone::clone) else { return future.await };
    let waker = Waker::from(Arc::clone(&thread.doorbell));
    let mut future = pin!(future);
    loop {
        let rung = thread.rung.notified();
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        rung.await;
    }
}

/// Calls `look` now, and whenever this executor's doorbell has rung, until it says false.
pub fn spawn_listener(mut look: impl FnMut() -> bool + 'static) {
    let thread = ThreadState::current();
    spawn_local(async move {
        loop {
            let rung = thread.rung.notified();
            if !look() {
                return;
            }
            rung.await;
        }
    });
}

/// Doorbell of this executor, which any thread may ring.
pub fn doorbell() -> Arc<Doorbell> {
    Arc::clone(&ThreadState::current().doorbell)
}

/// Has this executor's thread sleep in `parker` from now on.
pub fn sleep_in(parker: Rc<dyn Parker>) {
    *ThreadState::current().parker.borrow_mut() = parker;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffer::{BufferPool, Tickets};
    use crate::clock::{Clock, SECOND};
    use crate::device::{DataFile, Device, PolledDevice, Preallocate};
    use crate::ring::{IoKind, IoRequest, Ring, RingConfig, RingSetup};
    use std::fs::File;
    use std::io::Write;
    use std::os::fd::OwnedFd;

    fn spawn<T: Send, Fut: Future<Output = T> + 'static>(
        main: impl FnOnce() -> Fut + Send + 'static,
    ) -> Executor<T> {
        Executor::spawn("test", None, Arc::default(), main).unwrap()
    }

    fn join<T: Send>(executor: Executor<T>) -> T {
        executor.join_until(monotonic_now() + 60 * SECOND).unwrap()
    }

    /// It was told by heartbeats that did not come, seconds after.
    #[test]
    fn a_thread_that_panicked_is_known_to_have_ended_at_once() {
        let vitals = Arc::<Vitals>::default();
        assert!(!vitals.has_ended(), "it has not begun");
        let executor: Executor<()> =
            Executor::spawn("panics", None, Arc::clone(&vitals), || async {
                spawn_local(async { panic!("as told") });
                std::future::pending().await
            })
            .unwrap();
        let deadline = monotonic_now() + Nanos::from_secs(60);
        while !vitals.has_ended() {
            assert!(monotonic_now() < deadline, "it never ends");
            std::thread::yield_now();
        }
        assert!(matches!(executor.join_until(deadline), Err(JoinError::Died(_))));
    }

    #[test]
    fn tasks_run_in_turn_sleepers_wake_in_order_and_the_thread_sleeps_meanwhile() {
        let vitals = Arc::<Vitals>::default();
        let seen = Arc::clone(&vitals);
        let executor = Executor::spawn("sleeps", None, Arc::clone(&vitals), move || async move {
            let order = Rc::new(RefCell::new(Vec::new()));
            let now = monotonic_now();
            for delay_ms in [30, 10, 20] {
                let order = Rc::clone(&order);
                spawn_local(async move {
                    sleep_until(now + Nanos::from_ms(delay_ms)).await;
                    order.borrow_mut().push(delay_ms);
                });
            }
            sleep_until(now + Nanos::from_ms(40)).await;
            assert!(monotonic_now() >= now + Nanos::from_ms(40));
            assert!(seen.has_begun());
            order.take()
        });
        assert_eq!(join(executor.unwrap()), [10, 20, 30]);
        assert!(vitals.has_ended());
    }

    /// Messages from another thread, to a thread with a ring and to one without, asleep or not.
    #[test]
    fn each_message_of_another_thread_is_heard() {
        for has_ring in [false, true] {
            let (sender, inbox) = flume::unbounded::<u32>();
            let (answers, answered) = flume::unbounded::<u32>();
            let executor = spawn(move || async move {
                if has_ring {
                    let setup = RingSetup::new(RingConfig { entries: 1, ..RingConfig::default() });
                    let ring: Ring<crate::buffer::Ticket> =
                        Ring::over(setup.unwrap(), &[], Clock::Os);
                    sleep_in(Rc::new(ring));
                }
                while let Ok(number) = hear(inbox.recv_async()).await {
                    answers.send(number).unwrap();
                }
            });
            // Each waits for the answer to the one before: it often finds the thread asleep.
            for number in 0..5_000 {
                sender.send(number).unwrap();
                let answer = answered.recv_timeout(Duration::from_secs(60));
                assert_eq!(answer, Ok(number), "a message was not heard");
            }
            // And all at once.
            (0..5_000).for_each(|number| sender.send(number).unwrap());
            for number in 0..5_000 {
                assert_eq!(answered.recv_timeout(Duration::from_secs(60)), Ok(number));
            }
            drop(sender);
            join(executor);
        }
    }

    #[test]
    fn a_thread_that_works_on_one_task_for_long_is_overdue_and_one_that_sleeps_is_not() {
        let vitals = Arc::<Vitals>::default();
        vitals.count_within(Nanos::ZERO, Nanos::MAX);
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let (tell, told) = std::sync::mpsc::channel::<()>();
        let executor = Executor::spawn("held", None, Arc::clone(&vitals), move || async move {
            sleep_until(monotonic_now() + Nanos::from_ms(1)).await;
            tell.send(()).unwrap();
            let _end_of_the_work = ended.recv();
            sleep_until(monotonic_now() + Nanos::from_ms(50)).await;
        });
        told.recv().unwrap();
        while vitals.overdue(monotonic_now()) < Nanos::from_ms(20) {
            std::thread::yield_now();
        }
        end.send(()).unwrap();
        join(executor.unwrap());
        assert!(vitals.overdue_max() >= Nanos::from_ms(20));
        let idle = Vitals::default();
        idle.count_within(Nanos::ZERO, Nanos::MAX);
        idle.turn(SECOND);
        idle.sleeps_until(None);
        assert_eq!(idle.overdue(1_000 * SECOND), Nanos::ZERO, "nothing is due");
        idle.sleeps_until(Some(3 * SECOND));
        assert_eq!(idle.overdue(2 * SECOND), Nanos::ZERO);
        assert_eq!(idle.overdue(5 * SECOND), 2 * SECOND, "its timer was to wake it");
        idle.wakes(6 * SECOND);
        assert_eq!((idle.overdue(6 * SECOND), idle.overdue_max()), (Nanos::ZERO, 3 * SECOND));
        idle.turn(7 * SECOND);
        assert_eq!(idle.overdue_max(), 3 * SECOND, "sleep is no work");
    }

    /// A gap that began in the warm-up was told as 123 % of the window.
    #[test]
    fn of_a_gap_across_an_edge_of_the_window_the_part_inside_counts() {
        let overdue_max = |turns_s: &[u64]| {
            let vitals = Vitals::default();
            vitals.count_within(10 * SECOND, 20 * SECOND);
            turns_s.iter().for_each(|second| vitals.turn(*second * SECOND));
            vitals.overdue_max()
        };
        assert_eq!(overdue_max(&[1, 9]), Nanos::ZERO);
        assert_eq!(overdue_max(&[8, 13]), 3 * SECOND);
        assert_eq!(overdue_max(&[8, 13, 18, 40]), 5 * SECOND);
        assert_eq!(overdue_max(&[8, 40]), 10 * SECOND, "all of the window");
        assert_eq!(overdue_max(&[21, 40]), Nanos::ZERO);
        let before = Vitals::default();
        [1, 9].into_iter().for_each(|second| before.turn(second * SECOND));
        assert_eq!(before.overdue_max(), Nanos::ZERO, "there is no window yet");
    }

    /// On rings that nobody hears of, as those that are polled, with a pipe for a drive: an I/O is
    /// in flight for as long as the test likes.
    #[test]
    fn a_polled_device_completes_its_ios_and_timers_come_while_it_is_polled() {
        join(spawn(|| async {
            let (reader, mut writer) = std::io::pipe().unwrap();
            let file = DataFile::new(
                File::from(OwnedFd::from(reader)),
                "pipe".into(),
                Preallocate::Reserve,
            );
            let files = [Arc::new(file.unwrap())];
            let ring = |entries| {
                let config = RingConfig { entries, ..RingConfig::default() };
                let setup = RingSetup::new(config).unwrap();
                Rc::new(Ring::over(setup, &[files[0].raw_fd()], Clock::Os))
            };
            let device = Rc::new(PolledDevice::new(ring(2), ring(1), &files));
            sleep_in(Rc::clone(&device) as _);
            let tickets = Tickets::new(BufferPool::new(4096, 1).unwrap(), 1);
            let of = |kind, length_bytes| IoRequest {
                kind,
                offset_bytes: 0,
                length_bytes,
                buffer_offset: 0,
            };
            let pause = || sleep_until(monotonic_now() + Nanos::from_ms(1));
            // It goes to sleep between two I/Os, and is woken by the second.
            for text in [b"first  ", b"second "] {
                let read = device.submit(of(IoKind::Read, 4096), tickets.take());
                for _ in 0..5 {
                    pause().await;
                }
                assert_eq!(device.in_flight(), 1, "the pipe is empty");
                writer.write_all(text).unwrap();
                assert_eq!(read.await.0.result, text.len() as i32);
                assert_eq!(device.in_flight(), 0);
                pause().await;
            }
            let flush = device.submit(of(IoKind::Flush, 0), None);
            assert_eq!(flush.await.0.result, -libc::EINVAL, "a pipe can't be flushed");
        }));
    }

    #[test]
    fn a_thread_that_does_not_end_is_left_alone() {
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let (began, begun) = std::sync::mpsc::channel();
        let executor = spawn(move || async move {
            began.send(()).unwrap();
            let _end_of_the_test = ended.recv();
        });
        begun.recv().unwrap();
        assert_eq!(executor.join_until(monotonic_now()), Err(JoinError::StillRuns));
        end.send(()).unwrap();
    }
}
