//! Samples of a thread from the kernel: whether it runs, sleeps or waits for a device, and what it
//! has used. Two samples tell a spin from a sleep.

use crate::clock::{Nanos, SECOND};

/// State of a thread, as `/proc/PID/task/TID/stat` puts it (proc_pid_stat(5)).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ThreadState {
    /// It runs, or waits for a core (`R`).
    Running,
    /// It sleeps and can be woken (`S`).
    Sleeping,
    /// It waits for the kernel, usually for a device, and can't be interrupted (`D`).
    Held,
    /// Somebody has stopped it: `SIGSTOP`, a debugger (`T`, `t`).
    Stopped,
    /// It has ended, or can't be looked at.
    Gone,
}

/// A thread at a moment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ThreadSample {
    /// Whether the thread runs, sleeps, is held by the kernel, is stopped or has ended.
    pub state: ThreadState,
    /// CPU time used by its own code, in the kernel's ticks (usually 10 ms).
    pub user: Nanos,
    /// CPU time used by the kernel on its behalf, in the kernel's ticks.
    pub system: Nanos,
    /// Time it was ready to run and had no core (`schedstat`).
    pub waited_for_core: Nanos,
    /// Page faults so far: what grows while memory is touched for the first time.
    pub page_faults: u64,
    /// Function of the kernel that it sleeps in; empty where the kernel does not say.
    pub kernel_function: String,
}

impl ThreadSample {
    /// Looks at a thread of this process.
    pub fn take(thread: i32) -> ThreadSample {
        let read = |name: &str| {
            std::fs::read_to_string(format!("/proc/self/task/{thread}/{name}")).unwrap_or_default()
        };
        let wchan = read("wchan");
        let function = wchan.trim();
        ThreadSample {
            kernel_function: if function == "0" { String::new() } else { function.to_owned() },
            ..ThreadSample::parse(&read("stat"), &read("schedstat"))
        }
    }

    fn parse(stat: &str, schedstat: &str) -> ThreadSample {
        // After the name, which may hold anything: the state is number 0, page faults are 7 and 9,
        // CPU time in ticks is 11 and 12.
        let fields: Vec<&str> =
            stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
        let number = |place: usize| -> u64 {
            fields.get(place).and_then(|field| field.parse().ok()).unwrap_or(0)
        };
        let tick = SECOND / rustix::param::clock_ticks_per_second().max(1);
        let state = match fields.first().copied() {
            Some("R") => ThreadState::Running,
            Some("D") => ThreadState::Held,
            Some("T" | "t") => ThreadState::Stopped,
            Some("S" | "I") => ThreadState::Sleeping,
            _ => ThreadState::Gone,
        };
        // Time on a core, time waited for one, turns (Documentation/scheduler/sched-stats.rst).
        let waited = schedstat.split_whitespace().nth(1).and_then(|field| field.parse().ok());
        ThreadSample {
            state,
            user: number(11) * tick,
            system: number(12) * tick,
            waited_for_core: Nanos::from_ns(waited.unwrap_or(0)),
            page_faults: number(7) + number(9),
            kernel_function: String::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_looks_like_fields_is_no_field() {
        let stat = "17 (S) R 1 (x) D 1 2 3 4 5 6 7 8 9 10 250 50 0 0 20 0 3";
        let sample = ThreadSample::parse(stat, "900 7000 12\n");
        assert_eq!(sample.state, ThreadState::Held);
        let tick = SECOND / rustix::param::clock_ticks_per_second();
        assert_eq!((sample.user, sample.system), (250 * tick, 50 * tick));
        assert_eq!((sample.waited_for_core.as_ns(), sample.page_faults), (7_000, 7 + 9));
    }

    #[test]
    fn what_cant_be_read_is_gone() {
        assert_eq!(ThreadSample::parse("", "").state, ThreadState::Gone);
        assert_eq!(ThreadSample::take(i32::MAX).state, ThreadState::Gone);
    }

    #[test]
    fn a_spin_runs_and_a_sleep_does_not() {
        let (sender, receiver) = std::sync::mpsc::channel();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let sleeper = std::thread::spawn(move || {
            sender.send(rustix::thread::gettid().as_raw_nonzero().get()).unwrap();
            let _end_of_the_test = ended.recv();
        });
        let thread = receiver.recv().unwrap();
        while ThreadSample::take(thread).state != ThreadState::Sleeping {
            std::thread::yield_now();
        }
        let me = rustix::thread::gettid().as_raw_nonzero().get();
        assert_eq!(ThreadSample::take(me).state, ThreadState::Running);
        end.send(()).unwrap();
        sleeper.join().unwrap();
        assert_eq!(ThreadSample::take(thread).state, ThreadState::Gone);
    }
}
