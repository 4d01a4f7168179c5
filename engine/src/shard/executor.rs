//! glommio's part: a pinned executor for each shard, its heartbeat, and the task that the
//! completion bell wakes. The only file that knows glommio.

#![allow(unsafe_code, reason = "handing an owned descriptor to glommio; a signal to a thread")]

use std::future::Future;
use std::os::fd::{FromRawFd, IntoRawFd};
use std::rc::Rc;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::sync::{Arc, Once, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use glommio::io::BufferedFile;
use glommio::{LocalExecutorBuilder, Placement, PoolPlacement};

use crate::clock::{Nanos, monotonic_now};
use crate::device::{Device, PolledDevice};
use crate::error::SetupError;
use crate::ring::{CompletionBell, check_allowed};

use super::notify::yield_now;
use super::thread::ThreadSample;

/// How often an executor gives a sign of life and looks around.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pulse {
    heartbeat: Duration,
}

impl Pulse {
    /// Period of the heartbeat where each shard has a core of its own. glommio 0.9.0 can park with
    /// runnable tasks and never wake (`run_task_queues` returns false both for "nothing to run" and
    /// "preempted before running anything"); a timer that is always outstanding bounds that sleep.
    const HEARTBEAT: Duration = Duration::from_millis(5);
    /// CPU time of a beat: three rings are parked and woken. Measured; 5 ms makes it 1 % of a core.
    const BEAT_COST: Duration = Duration::from_micros(50);
    /// The beats of all shards on a core may take this part of it, as a divisor.
    const CORE_SHARE: u32 = 20;
    /// Period of the spare timer over that of the heartbeat, as a fraction. The heartbeat's own
    /// timer is spent when it has fired but its task has not run: lost in that very moment, the
    /// executor would sleep until whatever timer comes next (seen: 1 s). Two periods that share no
    /// factor seldom fall due in the same pass.
    const SPARE: (u32, u32) = (37, 5);

    /// A pulse for so many shards on so many cores: 5 ms, and slower when many share a core, so
    /// that their beats together take at most 5 % of it.
    #[must_use]
    pub fn of(shards: u16, cores: usize) -> Pulse {
        let shards_a_core = u32::from(shards).div_ceil(u32::try_from(cores.max(1)).unwrap_or(1));
        let bearable = Pulse::BEAT_COST * shards_a_core * Pulse::CORE_SHARE;
        Pulse { heartbeat: Pulse::HEARTBEAT.max(bearable) }
    }

    /// Period of the heartbeat.
    #[must_use]
    pub fn heartbeat(self) -> Duration {
        self.heartbeat
    }

    fn spare(self) -> Duration {
        self.heartbeat * Pulse::SPARE.0 / Pulse::SPARE.1
    }
}

/// How often a shard looks at its device without having been told to. Nothing depends on it in
/// ordinary times; it ends what would wait for ever: I/Os that the kernel took back for want of
/// memory, and works that brought no completion ([`crate::ring`]).
const RETURN_LOOK: Duration = Duration::from_millis(250);

/// How long a shard polls its drives before its executor looks at timers and messages: well below
/// [`PREEMPT`], up to which they would wait otherwise.
const POLL_SPELL: Nanos = Nanos::from_us(100);

/// A sleep that is over when the executor looks at its timers, which takes longer.
const GLANCE: Duration = Duration::from_micros(1);

/// How often [`Executor::join_until`] looks whether a thread has ended.
const JOIN_LOOK: Duration = Duration::from_millis(1);

/// Longest the executor runs tasks before it looks at its timers and messages again: long transfers
/// reap their own I/O meanwhile. Each preemption is a chance for the fault above.
const PREEMPT: Duration = Duration::from_millis(10);

/// glommio's own rings carry a timer and an eventfd read, nothing else.
const GLOMMIO_RING_DEPTH: usize = 64;
/// Smallest that it accepts: our buffers are elsewhere.
const GLOMMIO_IO_MEMORY_BYTES: usize = 64 << 10;

/// Nobody else's signal: ignored unless somebody wants it.
const INTERRUPT: libc::c_int = libc::SIGURG;
static INTERRUPTIBLE: Once = Once::new();

extern "C" fn nothing(_signal: libc::c_int) {}

/// A signal that is ignored interrupts nothing: this one gets a handler that does nothing.
fn install_interrupt() {
    // SAFETY: all zeroes is an empty mask and no flags, so no system call is started again; the
    // handler touches nothing.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = nothing as extern "C" fn(libc::c_int) as libc::sighandler_t;
        // Fails for signals that don't exist only.
        libc::sigaction(INTERRUPT, &action, std::ptr::null_mut());
    }
}

/// Signs of life, read by whoever watches over it.
#[derive(Debug, Default)]
pub struct Vitals {
    beats: AtomicU64,
    last_beat_ns: AtomicU64,
    gap_max_ns: AtomicU64,
    /// The thread's number; 0 before it has begun.
    thread: AtomicI32,
}

impl Vitals {
    /// Number of heartbeats that the thread has given; 0 until it begins to work.
    #[must_use]
    pub fn beats(&self) -> u64 {
        self.beats.load(Ordering::Relaxed)
    }

    /// Time of the last heartbeat; 0 before the first.
    #[must_use]
    pub fn last_beat(&self) -> Nanos {
        Nanos::from_ns(self.last_beat_ns.load(Ordering::Relaxed))
    }

    /// Longest time between two heartbeats.
    #[must_use]
    pub fn gap_max(&self) -> Nanos {
        Nanos::from_ns(self.gap_max_ns.load(Ordering::Relaxed))
    }

    /// Forgets the longest gap so far: opening a shard blocks its thread, which is no stall.
    pub fn forget_gaps(&self) {
        self.gap_max_ns.store(0, Ordering::Relaxed);
    }

    /// What the kernel says of the thread; none before it has begun.
    #[must_use]
    pub fn thread_sample(&self) -> Option<ThreadSample> {
        let thread = self.thread.load(Ordering::Relaxed);
        (thread != 0).then(|| ThreadSample::take(thread))
    }

    fn is_thread_alive(&self) -> bool {
        let thread = self.thread.load(Ordering::Relaxed);
        thread != 0 && std::fs::exists(format!("/proc/self/task/{thread}")).unwrap_or(true)
    }

    /// Whether the thread had begun and is gone.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.thread.load(Ordering::Relaxed) != 0 && !self.is_thread_alive()
    }

    /// Notes which thread it is: the one that calls. Before the executor is made: its very first
    /// pass can go to sleep with its task not begun, and who is to wake it must know whom.
    fn begin(&self) {
        let thread = rustix::thread::gettid().as_raw_nonzero().get();
        self.thread.store(thread, Ordering::Relaxed);
    }

    /// Has whatever the thread sleeps in return. The fault that [`Pulse`] is about can take every
    /// runnable task into the sleep, timers' and messages' included, when the thread did not get
    /// the processor for long; then no message wakes it any more, but a signal does: glommio takes
    /// the interrupted call for one that found nothing, and looks around.
    pub fn interrupt(&self) {
        let thread = self.thread.load(Ordering::Relaxed);
        if thread != 0 {
            INTERRUPTIBLE.call_once(install_interrupt);
            let process = rustix::process::getpid().as_raw_nonzero().get();
            // SAFETY: takes three numbers; a thread that is gone is an error, and needs no waking.
            unsafe { libc::syscall(libc::SYS_tgkill, process, thread, INTERRUPT) };
        }
    }

    /// Wakes a thread that has given no heartbeat yet. The fault that [`Pulse`] is about strikes
    /// the first pass too, where there is neither heartbeat nor spare timer: off its core for
    /// longer than the preemption timer between arming it and asking for it, the executor sleeps
    /// with the main task not begun, until a signal comes. (strace makes it so, with
    /// `inject=io_uring_enter:delay_exit=20000:when=3`.) Whoever starts executors calls this until
    /// they beat, every [`Vitals::BEGIN_LOOK`] or so.
    pub fn wake_unless_begun(&self) {
        if self.beats() == 0 {
            self.interrupt();
        }
    }

    /// How often to look whether a thread has begun: several preemption times, so that a thread on
    /// a busy machine is not kept from beginning by being woken.
    pub const BEGIN_LOOK: Duration = Duration::from_millis(50);

    fn beat(&self) {
        let now_ns = monotonic_now().as_ns();
        let last_ns = self.last_beat_ns.swap(now_ns, Ordering::Relaxed);
        self.beats.fetch_add(1, Ordering::Relaxed);
        if last_ns != 0 {
            self.gap_max_ns.fetch_max(now_ns.saturating_sub(last_ns), Ordering::Relaxed);
        }
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
    /// Starts a thread, pinned to `cpu` if one is given, that runs `main` to its end. Until it has
    /// given its first heartbeat somebody must look after it: [`Vitals::wake_unless_begun`].
    ///
    /// # Errors
    /// When the thread can't be made. That its rings can't is told when it is joined.
    pub fn spawn<F, Fut>(
        name: &str,
        cpu: Option<usize>,
        pulse: Pulse,
        vitals: Arc<Vitals>,
        main: F,
    ) -> Result<Executor<T>, SetupError>
    where
        F: FnOnce() -> Fut + Send + 'static,
        Fut: Future<Output = T> + 'static,
    {
        check_locked_memory_limit()?;
        check_allowed()?;
        let beating_vitals = Arc::clone(&vitals);
        let alive = Arc::new(());
        let running = Arc::downgrade(&alive);
        let run = move || {
            let _alive = alive;
            beating_vitals.begin();
            let executor = builder(cpu).make().map_err(|error| error.to_string())?;
            Ok(executor.run(async move {
                let beating = glommio::spawn_local(async move {
                    loop {
                        beating_vitals.beat();
                        glommio::timer::sleep(pulse.heartbeat()).await;
                    }
                });
                let spare = glommio::spawn_local(async move {
                    loop {
                        glommio::timer::sleep(pulse.spare()).await;
                    }
                });
                let output = main().await;
                beating.cancel().await;
                spare.cancel().await;
                output
            }))
        };
        let handle =
            std::thread::Builder::new().name(name.to_owned()).spawn(run).map_err(|error| {
                SetupError::Executor { name: name.to_owned(), reason: error.to_string() }
            })?;
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
            self.vitals.wake_unless_begun();
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
        // By default its helper thread would sit on the shard's own core.
        .blocking_thread_pool_placement(PoolPlacement::Unbound(1))
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

/// Runs `task` on this executor beside the others.
pub fn spawn_local(task: impl Future<Output = ()> + 'static) {
    glommio::spawn_local(task).detach();
}

/// Sleeps on this executor until `deadline` (`CLOCK_MONOTONIC`). One that has passed still lets
/// the others of the shard have their turn, so that whoever is always late can be stopped.
pub async fn sleep_until(deadline: Nanos) {
    let now = monotonic_now();
    if deadline > now {
        glommio::timer::sleep((deadline - now).as_duration()).await;
    } else {
        glommio::executor().yield_task_queue_now().await;
    }
}

/// Turns the device whenever the bell rings. Ends when the bell can't be read.
///
/// # Errors
/// When the bell's descriptor can't be duplicated.
pub fn spawn_reaper(bell: &CompletionBell, device: Rc<dyn Device>) -> Result<(), SetupError> {
    let owned = bell.fd().try_clone().map_err(|error| {
        SetupError::new(
            format!("no file descriptor for the completion bell: {error}"),
            "raise the limit with `ulimit -n 65536`",
        )
    })?;
    // SAFETY: the descriptor is ours alone, and its ownership moves into the file.
    let file = unsafe { BufferedFile::from_raw_fd(owned.into_raw_fd()) };
    let looking = Rc::clone(&device);
    spawn_local(async move {
        loop {
            glommio::timer::sleep(RETURN_LOOK).await;
            looking.kick();
        }
    });
    spawn_local(async move {
        loop {
            match file.read_at(0, 8).await {
                Ok(_count) => device.kick(),
                Err(error) => {
                    tracing::error!(%error, "the completion bell can't be read any more");
                    break;
                }
            }
        }
    });
    Ok(())
}

/// Polls the device for as long as it has I/Os in flight. The other tasks of the shard have their
/// turn between any two looks, its timers and messages after each 100 µs.
pub fn spawn_poller(device: Rc<PolledDevice>) {
    spawn_local(async move {
        let mut spell_ends = Nanos::ZERO;
        loop {
            device.is_wanted().await;
            device.poll();
            if monotonic_now() < spell_ends {
                yield_now().await;
                continue;
            }
            // Runnable all the time, this task would keep the executor from its timers.
            glommio::timer::sleep(GLANCE).await;
            spell_ends = monotonic_now() + POLL_SPELL;
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffer::{BufferPool, Tickets};
    use crate::clock::{Clock, SECOND};
    use crate::device::{DataFile, Preallocate};
    use crate::ring::{IoKind, IoRequest, Ring, RingConfig, RingSetup};
    use std::fs::File;
    use std::io::Write;
    use std::os::fd::OwnedFd;
    use std::sync::atomic::AtomicBool;

    /// It was told by heartbeats that did not come, seconds after.
    #[test]
    fn a_thread_that_panicked_is_known_to_have_ended_at_once() {
        let (vitals, pulse) = (Arc::<Vitals>::default(), Pulse::of(1, 1));
        assert!(!vitals.has_ended(), "it has not begun");
        let executor = Executor::spawn("panics", None, pulse, Arc::clone(&vitals), || async {
            glommio::spawn_local(async { panic!("as told") }).await
        });
        let executor: Executor<()> = executor.unwrap();
        let deadline = monotonic_now() + Nanos::from_secs(60);
        while !vitals.has_ended() {
            assert!(monotonic_now() < deadline, "it never ends");
            std::thread::yield_now();
        }
        assert!(matches!(executor.join_until(deadline), Err(JoinError::Died(_))));
    }

    #[test]
    fn an_executor_lives_through_interruptions() {
        let vitals = Arc::new(Vitals::default());
        let pulse = Pulse::of(1, 1);
        let over = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&over);
        let executor =
            Executor::spawn("interrupted", None, pulse, Arc::clone(&vitals), move || async move {
                while !seen.load(Ordering::Relaxed) {
                    glommio::timer::sleep(pulse.heartbeat()).await;
                }
            })
            .unwrap();
        while vitals.beats() == 0 {
            std::thread::yield_now();
        }
        let before = vitals.beats();
        for _ in 0..2_000 {
            vitals.interrupt();
            std::thread::sleep(Duration::from_micros(20));
        }
        while vitals.beats() < before + 3 {
            std::thread::yield_now();
        }
        assert!(vitals.thread_sample().is_some());
        over.store(true, Ordering::Relaxed);
        executor.join_until(monotonic_now() + 60 * SECOND).unwrap();
    }

    /// On rings that nobody hears of, as those that are polled, with a pipe for a drive: an I/O is
    /// in flight for as long as the test likes.
    #[test]
    fn a_polled_device_completes_its_ios_and_timers_come_while_it_is_polled() {
        let main = || async {
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
                Rc::new(Ring::over(setup, &[files[0].raw_fd()], Clock::Os).unwrap())
            };
            let (polled, flushes) = (ring(2), ring(1));
            let device = Rc::new(PolledDevice::new(polled, Rc::clone(&flushes), &files));
            spawn_poller(Rc::clone(&device));
            spawn_reaper(flushes.bell(), Rc::clone(&device) as _).unwrap();
            let tickets = Tickets::new(BufferPool::new(4096, 1).unwrap(), 1);
            let of = |kind, length_bytes| IoRequest {
                kind,
                offset_bytes: 0,
                length_bytes,
                buffer_offset: 0,
            };
            // It goes to sleep between two I/Os, and is woken by the second.
            for text in [b"first  ", b"second "] {
                let read = device.submit(of(IoKind::Read, 4096), tickets.take());
                device.kick();
                for _ in 0..5 {
                    glommio::timer::sleep(Duration::from_millis(1)).await;
                }
                assert_eq!(device.in_flight(), 1, "the pipe is empty");
                writer.write_all(text).unwrap();
                assert_eq!(read.await.0.result, text.len() as i32);
                assert_eq!(device.in_flight(), 0);
                glommio::timer::sleep(Duration::from_millis(1)).await;
            }
            let flush = device.submit(of(IoKind::Flush, 0), None);
            device.kick();
            assert_eq!(flush.await.0.result, -libc::EINVAL, "a pipe can't be flushed");
        };
        let vitals = Arc::<Vitals>::default();
        let executor =
            Executor::spawn("polled", None, Pulse::of(1, 1), Arc::clone(&vitals), main).unwrap();
        executor.join_until(monotonic_now() + 60 * SECOND).unwrap();
    }

    #[test]
    fn a_thread_that_does_not_end_is_left_alone() {
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let (began, begun) = std::sync::mpsc::channel();
        let executor =
            Executor::spawn("held", None, Pulse::of(1, 1), Arc::default(), move || async move {
                began.send(()).unwrap();
                let _end_of_the_test = ended.recv();
            })
            .unwrap();
        begun.recv().unwrap();
        assert_eq!(executor.join_until(monotonic_now()), Err(JoinError::StillRuns));
        end.send(()).unwrap();
    }

    #[test]
    fn many_shards_on_a_core_beat_more_slowly() {
        assert_eq!(Pulse::of(2, 2).heartbeat(), Duration::from_millis(5));
        assert_eq!(Pulse::of(10, 2).heartbeat(), Duration::from_millis(5));
        assert_eq!(Pulse::of(1024, 2).heartbeat(), Duration::from_millis(512));
        assert_eq!(Pulse::of(1, 0).heartbeat(), Duration::from_millis(5));
    }
}
