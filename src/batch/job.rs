//! A job, and how it ended.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

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
}

impl Job {
    /// A job of these arguments.
    pub fn new<A: Into<String>>(
        name: impl Into<String>,
        arguments: impl IntoIterator<Item = A>,
        expected_s: f64,
    ) -> Job {
        let arguments = arguments.into_iter().map(Into::into).collect();
        Job { name: name.into(), arguments, expected_s }
    }
}

/// Outcome of a job that was not interrupted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum Outcome {
    /// With status 0 and a result.
    Done {
        /// Duration of the job, seconds.
        seconds: f64,
    },
    /// In any other way.
    Failed {
        /// Duration of the job, seconds.
        seconds: f64,
        /// Error message of the job, or the way in which it ended.
        why: String,
    },
}

impl Outcome {
    /// Whether it ended with status 0 and a result.
    #[must_use]
    pub const fn is_done(&self) -> bool {
        matches!(self, Outcome::Done { .. })
    }

    /// Duration of the job, seconds.
    #[must_use]
    pub const fn seconds(&self) -> f64 {
        match self {
            Outcome::Done { seconds } | Outcome::Failed { seconds, .. } => *seconds,
        }
    }
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
    /// Whether it ended in an earlier run of this batch.
    pub is_from_before: bool,
}
