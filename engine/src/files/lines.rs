//! Jobs that wait for workers: those of one line are done one after the other, as they came.

use std::collections::{HashMap, VecDeque};

/// Line of jobs: each waits for the one before it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct FileLine {
    /// Number of the request that the jobs are of.
    pub request: u64,
    /// Number of the line in that request.
    pub number: u64,
}

/// Jobs that wait. They are as many as whoever asks has in flight.
pub(super) struct Lines<J> {
    /// The first of each line that no worker is on.
    ready: VecDeque<J>,
    /// Those that wait for the one before them, by their lines.
    behind: HashMap<FileLine, VecDeque<J>>,
}

impl<J> Default for Lines<J> {
    fn default() -> Self {
        Lines { ready: VecDeque::new(), behind: HashMap::new() }
    }
}

impl<J> Lines<J> {
    /// Adds a job at the end of its line; whether it is the first there, which any worker may take.
    pub(super) fn add(&mut self, line: FileLine, job: J) -> bool {
        match self.behind.get_mut(&line) {
            Some(behind) => behind.push_back(job),
            None => {
                self.behind.insert(line, VecDeque::new());
                self.ready.push_back(job);
                return true;
            }
        }
        false
    }

    /// Takes the first job of the line that has waited longest for a worker.
    pub(super) fn next(&mut self) -> Option<J> {
        self.ready.pop_front()
    }

    /// Takes the job behind the one of that line that has ended; none where the line ends with it.
    pub(super) fn behind(&mut self, line: FileLine) -> Option<J> {
        let next = self.behind.get_mut(&line).and_then(VecDeque::pop_front);
        if next.is_none() {
            self.behind.remove(&line);
        }
        next
    }
}
