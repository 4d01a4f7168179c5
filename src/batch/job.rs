//! Jobs, the batch of them, and how they end.

use std::path::{Path, PathBuf};

/// This executable, also when its file has been replaced since it was started.
const THIS_PROGRAM: &str = "/proc/self/exe";

/// One invocation of ringfall.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// Tells it from the others, and names its files: letters, digits, `.`, `_`, `-` and `=`, and
    /// `/` before the name in a directory below the batch's.
    pub name: String,
    /// The arguments, beginning with the subcommand, without `--output`.
    pub arguments: Vec<String>,
    /// Duration that it is expected to take, seconds.
    pub expected_s: f64,
    /// Whether it is ended when it takes far longer. What it writes before its load may take hours
    /// that nobody can tell beforehand.
    pub is_bounded: bool,
}

impl Job {
    /// A job of these arguments, which is ended when it takes far longer than expected.
    pub fn new<A: Into<String>>(
        name: impl Into<String>,
        arguments: impl IntoIterator<Item = A>,
        expected_s: f64,
    ) -> Job {
        let arguments = arguments.into_iter().map(Into::into).collect();
        Job { name: name.into(), arguments, expected_s, is_bounded: true }
    }

    /// File of its result below the directory of its batch.
    pub fn output(&self, directory: &Path) -> PathBuf {
        directory.join(format!("{}.json", self.name))
    }

    /// File of what it prints, there too.
    pub fn log(&self, directory: &Path) -> PathBuf {
        directory.join(format!("{}.log", self.name))
    }

    /// Directory of its files below the batch's own, and their name without an ending.
    pub(super) fn place(&self) -> (&Path, &str) {
        let (parent, name) = self.name.rsplit_once('/').unwrap_or(("", self.name.as_str()));
        (Path::new(parent), name)
    }
}

/// Jobs to be run in a directory.
pub struct Batch {
    /// The command that they belong to, for the journal: `sweep`.
    pub what: String,
    /// Where results, logs and the journal are; made if it is not there.
    pub directory: PathBuf,
    /// The jobs in the order in which they begin.
    pub jobs: Vec<Job>,
    /// Largest number of jobs that run at the same time, at least 1. Jobs on a real drive disturb
    /// each other.
    pub at_once: usize,
    /// Executable that is run: this program.
    pub(super) program: PathBuf,
    /// When a job counts as one that hangs.
    pub(super) limits: Limits,
}

impl Batch {
    /// Jobs that run one after the other.
    pub fn new(what: impl Into<String>, directory: impl Into<PathBuf>, jobs: Vec<Job>) -> Batch {
        let (what, directory) = (what.into(), directory.into());
        let (program, limits) = (PathBuf::from(THIS_PROGRAM), Limits::default());
        Batch { what, directory, jobs, at_once: 1, program, limits }
    }

    /// Expected duration of all jobs together, seconds.
    pub fn expected_s(&self) -> f64 {
        self.jobs.iter().map(|job| job.expected_s).sum::<f64>() / self.at_once.max(1) as f64
    }
}

/// When a job counts as one that hangs.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Limits {
    /// It is late after so many times what was expected...
    pub(super) factor: f64,
    /// ...and so many seconds more.
    pub(super) more_s: f64,
    /// It has so long to end once it is told to, seconds.
    pub(super) end_s: f64,
}

impl Default for Limits {
    /// Generous to slow machines. A run itself waits a minute for a drive that moves nothing (the
    /// engine's `SILENCE_MAX`).
    fn default() -> Limits {
        Limits { factor: 3.0, more_s: 600.0, end_s: 60.0 }
    }
}

/// Outcome of a job that was not interrupted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It ended with status 0 and a result.
    Done,
    /// It ended in any other way: its error message, or that way.
    Failed(String),
}

/// A job that has ended, for the caller's table.
#[derive(Debug)]
pub struct Ended<'a> {
    /// The job, as it was planned.
    pub job: &'a Job,
    /// Its place in the batch, from 0.
    pub place: usize,
    /// Whether the job ended with a result, and if not, why.
    pub outcome: &'a Outcome,
    /// Its result; there when it is done, and perhaps when it failed.
    pub output: PathBuf,
    /// File that holds what the job printed.
    pub log: PathBuf,
    /// Duration of the job, seconds; none: it was done in an earlier run of this batch.
    pub took_s: Option<f64>,
}
