//! Progress of a save or a restore, for display: counted by the threads that move chunks.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use ringfall_core::clock::{Nanos, SECOND, monotonic_now};
use ringfall_core::metrics::Histogram;

use crate::threads::locked;

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

/// Chunks that a save or restore has moved.
#[derive(Clone, Debug, Default)]
pub struct Transfer {
    /// Number of bytes stored at the target, or read from it.
    pub bytes: u64,
    /// Latency of each chunk, from being given to the target until it was done.
    pub chunk_latency: Histogram,
    /// Bytes moved in each second.
    pub seconds: Vec<u64>,
}

#[derive(Debug, Default)]
struct State {
    /// As it is shown, but for the time and what was moved.
    progress: Progress,
    began: Nanos,
    made_bytes: u64,
    last_made: Nanos,
    transfer: Transfer,
}

impl State {
    /// Whether all content of a save was taken over.
    fn is_taken(&self) -> bool {
        self.progress.doing == Doing::Saving && self.made_bytes >= self.progress.total_bytes
    }
}

/// Counts what is moved. One thing is done at a time, by any number of threads.
#[derive(Debug, Default)]
pub struct Meter {
    state: Mutex<State>,
    /// Told when all content of a save was taken over.
    taken: Condvar,
}

impl Meter {
    /// Something new begins, and all counts with it; when it began.
    pub fn begin(&self, doing: Doing, step: u32, total_bytes: u64) -> Nanos {
        let began = monotonic_now();
        let progress = Progress { doing, step, total_bytes, ..Progress::default() };
        *locked(&self.state) = State { progress, began, last_made: began, ..State::default() };
        began
    }

    /// Content was taken over from the training job: it may change its own from now on.
    pub fn made(&self, bytes: u64) {
        let mut state = locked(&self.state);
        state.made_bytes += bytes;
        state.last_made = monotonic_now();
        if state.is_taken() {
            self.taken.notify_all();
        }
    }

    /// Waits, for at most so long, until all content of the save that was begun last has been taken
    /// over from the training job; whether it has.
    #[must_use]
    pub fn wait_taken(&self, patience: Duration) -> bool {
        let waited =
            self.taken.wait_timeout_while(locked(&self.state), patience, |state| !state.is_taken());
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        state.is_taken()
    }

    /// A chunk was stored, or read, between these moments.
    pub fn moved(&self, bytes: u64, from: Nanos, to: Nanos) {
        let mut state = locked(&self.state);
        let second = usize::try_from(to.saturating_sub(state.began) / SECOND).unwrap_or(usize::MAX);
        // A clock that jumped must not cost memory: a day has 86,400 seconds.
        let second = second.min(1 << 20);
        let Transfer { bytes: all_bytes, chunk_latency, seconds } = &mut state.transfer;
        *all_bytes += bytes;
        chunk_latency.record(to.saturating_sub(from).as_ns());
        if seconds.len() <= second {
            seconds.resize(second + 1, 0);
        }
        seconds[second] += bytes;
    }

    /// When the last content was taken over.
    pub fn last_made(&self) -> Nanos {
        locked(&self.state).last_made
    }

    /// Chunks moved since it began.
    pub fn transfer(&self) -> Transfer {
        locked(&self.state).transfer.clone()
    }

    /// Returns the progress so far.
    pub fn progress(&self) -> Progress {
        let state = locked(&self.state);
        let elapsed = monotonic_now().saturating_sub(state.began);
        Progress { elapsed, moved_bytes: state.transfer.bytes, ..state.progress }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_counted_in_the_second_in_which_they_were_moved() {
        let meter = Meter::default();
        let began = meter.begin(Doing::Saving, 3, 100);
        meter.moved(1, began, began);
        meter.moved(2, began, began + SECOND - Nanos::from_ns(1));
        meter.moved(4, began, began + 2 * SECOND);
        let moved = meter.transfer();
        assert_eq!(
            (moved.bytes, moved.seconds, moved.chunk_latency.count()),
            (7, vec![3, 0, 4], 3)
        );
        let progress = meter.progress();
        assert_eq!((progress.moved_bytes, progress.total_bytes, progress.step), (7, 100, 3));
        meter.begin(Doing::Restoring, 3, 100);
        let moved = meter.transfer();
        assert_eq!((meter.progress().moved_bytes, moved.bytes, moved.seconds.len()), (0, 0, 0));
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
