//! Progress of a save or a restore, for display: counted by the threads that move chunks.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ringfall_core::clock::{Nanos, SECOND, monotonic_now};

/// Activity of a stream that its progress names.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Doing {
    /// Nothing yet.
    #[default]
    Preparing,
    /// Looking for what an earlier save has left.
    Looking,
    /// Storing a checkpoint.
    Saving,
    /// Reading one back.
    Restoring,
    /// Training goes on.
    Computing,
}

/// One look at a [`Meter`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Progress {
    /// Activity that it is in.
    pub doing: Doing,
    /// Step of the training job.
    pub step: u32,
    /// Bytes to be moved.
    pub total_bytes: u64,
    /// Number of bytes that have been moved so far.
    pub moved_bytes: u64,
    /// Time since the save or restore began.
    pub elapsed: Nanos,
}

#[derive(Debug, Default)]
struct State {
    doing: Doing,
    step: u32,
    total_bytes: u64,
    began: Nanos,
    /// Bytes moved in each second since it began.
    seconds: Vec<u64>,
    /// Whether all content of a save was taken over.
    is_taken: bool,
}

/// Counts what is moved. One thing is done at a time, by any number of threads.
#[derive(Debug, Default)]
pub struct Meter {
    state: Mutex<State>,
    /// Told when all content of a save was taken over.
    taken: Condvar,
    made_bytes: AtomicU64,
    last_made_ns: AtomicU64,
    moved_bytes: AtomicU64,
}

impl Meter {
    fn state(&self) -> MutexGuard<'_, State> {
        // Plain data: a panic elsewhere can't have left it half-changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Something new begins, and all counts with it; when it began.
    pub fn begin(&self, doing: Doing, step: u32, total_bytes: u64) -> Nanos {
        let began = monotonic_now();
        *self.state() = State { doing, step, total_bytes, began, ..State::default() };
        self.made_bytes.store(0, Ordering::Relaxed);
        self.last_made_ns.store(began.as_ns(), Ordering::Relaxed);
        self.moved_bytes.store(0, Ordering::Relaxed);
        began
    }

    /// Content was taken over from the training job: it may change its own from now on.
    pub fn made(&self, bytes: u64) {
        let made_bytes = self.made_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        self.last_made_ns.fetch_max(monotonic_now().as_ns(), Ordering::Relaxed);
        let mut state = self.state();
        if state.doing == Doing::Saving && made_bytes >= state.total_bytes {
            state.is_taken = true;
            self.taken.notify_all();
        }
    }

    /// Waits, for at most so long, until all content of the save that was begun last has been taken
    /// over from the training job; whether it has.
    #[must_use]
    pub fn wait_taken(&self, patience: Duration) -> bool {
        let waited = self.taken.wait_timeout_while(self.state(), patience, |state| !state.is_taken);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        state.is_taken
    }

    /// Content was stored, or read, at that time.
    pub fn moved(&self, bytes: u64, at: Nanos) {
        self.moved_bytes.fetch_add(bytes, Ordering::Relaxed);
        let mut state = self.state();
        let second = usize::try_from(at.saturating_sub(state.began) / SECOND).unwrap_or(usize::MAX);
        // A clock that jumped must not cost memory: a day has 86,400 seconds.
        let second = second.min(1 << 20);
        if state.seconds.len() <= second {
            state.seconds.resize(second + 1, 0);
        }
        state.seconds[second] += bytes;
    }

    /// When the last content was taken over.
    #[must_use]
    pub fn last_made(&self) -> Nanos {
        Nanos::from_ns(self.last_made_ns.load(Ordering::Relaxed))
    }

    /// Bytes moved in each second since it began.
    #[must_use]
    pub fn seconds(&self) -> Vec<u64> {
        self.state().seconds.clone()
    }

    /// Returns the progress so far.
    #[must_use]
    pub fn progress(&self) -> Progress {
        let state = self.state();
        Progress {
            doing: state.doing,
            step: state.step,
            total_bytes: state.total_bytes,
            moved_bytes: self.moved_bytes.load(Ordering::Relaxed),
            elapsed: monotonic_now().saturating_sub(state.began),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_counted_in_the_second_in_which_they_were_moved() {
        let meter = Meter::default();
        let began = meter.begin(Doing::Saving, 3, 100);
        meter.moved(1, began);
        meter.moved(2, began + SECOND - Nanos::from_ns(1));
        meter.moved(4, began + 2 * SECOND);
        assert_eq!(meter.seconds(), [3, 0, 4]);
        let progress = meter.progress();
        assert_eq!((progress.moved_bytes, progress.total_bytes, progress.step), (7, 100, 3));
        meter.begin(Doing::Restoring, 3, 100);
        assert_eq!((meter.progress().moved_bytes, meter.seconds().len()), (0, 0));
    }

    #[test]
    fn content_is_taken_over_when_all_of_a_save_was_made() {
        let meter = Meter::default();
        meter.begin(Doing::Saving, 1, 100);
        meter.made(60);
        assert!(!meter.wait_taken(Duration::ZERO));
        meter.made(40);
        assert!(meter.wait_taken(Duration::ZERO));
        // What begins next has taken over nothing, and what is only prepared has nothing to take.
        meter.begin(Doing::Preparing, 2, 0);
        assert!(!meter.wait_taken(Duration::ZERO));
    }
}
