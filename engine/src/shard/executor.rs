//! glommio's part: a pinned executor for each shard, its heartbeat, and the task that the
//! completion bell wakes. The only file that knows glommio.

#![allow(unsafe_code, reason = "handing an owned descriptor to glommio; a signal to a thread")]

use std::future::Future;
use std::os::fd::{FromRawFd, IntoRawFd};
use std::rc::Rc;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::sync::{Arc, Once};
use std::time::Duration;

use glommio::io::BufferedFile;
use glommio::{ExecutorJoinHandle, LocalExecutorBuilder, Placement, PoolPlacement};

use crate::clock::{Nanos, monotonic_now};
use crate::device::Device;
use crate::error::SetupError;
use crate::ring::CompletionBell;

/// Period of the heartbeat. glommio 0.9.0 can park with runnable tasks and never wake
/// (`run_task_queues` returns false both for "nothing to run" and "preempted before running
/// anything"); a timer that is always outstanding bounds that sleep. A beat costs about 50 µs of CPU
/// (its three rings are parked and woken), so 2 ms would be 2.5 % of an idle core; 5 ms is 1 %.
const HEARTBEAT: Duration = Duration::from_millis(5);

/// Period of a second timer. The heartbeat's own timer is spent when it has fired but its task has
/// not run: lost in that very moment, the executor would sleep until whatever timer comes next
/// (seen: 1 s). A period that shares no factor with the first seldom falls due in the same pass.
const SPARE_TIMER: Duration = Duration::from_millis(37);

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
    // SAFETY: all zeroes is an empty mask and no flags, so no system call is started again; the handler
    // touches nothing.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = nothing as extern "C" fn(libc::c_int) as libc::sighandler_t;
        // Fails for signals that don't exist only.
        libc::sigaction(INTERRUPT, &action, std::ptr::null_mut());
    }
}

/// Signs of life, read by the coordinator's watchdog.
#[derive(Debug, Default)]
pub struct Vitals {
    beats: AtomicU64,
    last_beat: AtomicU64,
    gap_max_ns: AtomicU64,
    /// The thread's number; 0 before its first heartbeat.
    thread: AtomicI32,
}

impl Vitals {
    /// Heartbeats so far.
    #[must_use]
    pub fn beats(&self) -> u64 {
        self.beats.load(Ordering::Relaxed)
    }

    /// Time of the last heartbeat; 0 before the first.
    #[must_use]
    pub fn last_beat(&self) -> Nanos {
        self.last_beat.load(Ordering::Relaxed)
    }

    /// Longest time between two heartbeats, ns.
    #[must_use]
    pub fn gap_max_ns(&self) -> Nanos {
        self.gap_max_ns.load(Ordering::Relaxed)
    }

    /// Forgets the longest gap so far: opening a shard blocks its thread, which is no stall.
    pub fn forget_gaps(&self) {
        self.gap_max_ns.store(0, Ordering::Relaxed);
    }

    /// What the kernel says of the thread: its state (`R`: it runs, `S`: it sleeps, `D`: it waits for a
    /// device), how much CPU time it has used, and where in the kernel it is, as far as one may know.
    #[must_use]
    pub fn thread_state(&self) -> String {
        let thread = self.thread.load(Ordering::Relaxed);
        let read = |name: &str| {
            std::fs::read_to_string(format!("/proc/self/task/{thread}/{name}")).unwrap_or_default()
        };
        let stat = read("stat");
        // After the name, which may hold anything: state, then the 11th and 12th are CPU time.
        let fields: Vec<&str> =
            stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
        let field = |place: usize| fields.get(place).copied().unwrap_or("?");
        let (state, user, system) = (field(0), field(11), field(12));
        let place = read("wchan");
        format!("state {state}, {user} + {system} ticks of CPU time, in {}", place.trim())
    }

    /// Has whatever the thread sleeps in return. The fault that [`HEARTBEAT`] is about can take every
    /// runnable task into the sleep, timers' and messages' included, when the thread did not get the
    /// processor for long; then no message wakes it any more, but a signal does: glommio takes the
    /// interrupted call for one that found nothing, and looks around.
    pub fn interrupt(&self) {
        let thread = self.thread.load(Ordering::Relaxed);
        if thread != 0 {
            INTERRUPTIBLE.call_once(install_interrupt);
            let process = rustix::process::getpid().as_raw_nonzero().get();
            // SAFETY: takes three numbers; a thread that is gone is an error, and needs no waking.
            unsafe { libc::syscall(libc::SYS_tgkill, process, thread, INTERRUPT) };
        }
    }

    fn beat(&self) {
        if self.beats() == 0 {
            let thread = rustix::thread::gettid().as_raw_nonzero().get();
            self.thread.store(thread, Ordering::Relaxed);
        }
        let now = monotonic_now();
        let last = self.last_beat.swap(now, Ordering::Relaxed);
        self.beats.fetch_add(1, Ordering::Relaxed);
        if last != 0 {
            self.gap_max_ns.fetch_max(now.saturating_sub(last), Ordering::Relaxed);
        }
    }
}

/// A running executor.
pub struct Executor<T: Send + 'static> {
    handle: ExecutorJoinHandle<T>,
}

impl<T: Send + 'static> Executor<T> {
    /// Starts a thread, pinned to `cpu` if one is given, that runs `main` to its end.
    ///
    /// # Errors
    /// When the thread or its rings can't be made.
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
        let placement = cpu.map_or(Placement::Unbound, Placement::Fixed);
        let handle = LocalExecutorBuilder::new(placement)
            .name(name)
            .io_memory(GLOMMIO_IO_MEMORY_BYTES)
            .ring_depth(GLOMMIO_RING_DEPTH)
            .preempt_timer(PREEMPT)
            // By default its helper thread would sit on the shard's own core.
            .blocking_thread_pool_placement(PoolPlacement::Unbound(1))
            .spawn(move || async move {
                let beating = glommio::spawn_local(async move {
                    loop {
                        vitals.beat();
                        glommio::timer::sleep(HEARTBEAT).await;
                    }
                });
                let spare = glommio::spawn_local(async {
                    loop {
                        glommio::timer::sleep(SPARE_TIMER).await;
                    }
                });
                let output = main().await;
                beating.cancel().await;
                spare.cancel().await;
                output
            })
            .map_err(|error| SetupError::Executor {
                name: name.to_owned(),
                reason: error.to_string(),
            })?;
        Ok(Executor { handle })
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// When it panicked.
    pub fn join(self) -> Result<T, String> {
        self.handle.join().map_err(|error| error.to_string())
    }
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

/// Sleeps on this executor until `deadline` (`CLOCK_MONOTONIC`).
pub async fn sleep_until(deadline: Nanos) {
    let now = monotonic_now();
    if deadline > now {
        glommio::timer::sleep(Duration::from_nanos(deadline - now)).await;
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    #[test]
    fn an_executor_lives_through_interruptions() {
        let vitals = Arc::new(Vitals::default());
        let over = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&over);
        let executor =
            Executor::spawn("interrupted", None, Arc::clone(&vitals), move || async move {
                while !seen.load(Ordering::Relaxed) {
                    glommio::timer::sleep(HEARTBEAT).await;
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
        assert!(vitals.thread_state().contains("ticks of CPU time"), "{}", vitals.thread_state());
        over.store(true, Ordering::Relaxed);
        executor.join().unwrap();
    }
}
