//! What results say together: statistics, collections of runs, merging, comparing. Reads files and
//! computes; what must not be here: measuring anything, or writing to the terminal.

pub mod collection;
pub mod compare;
pub mod configuration;
pub mod differences;
pub mod document;
pub mod merge;
pub mod metrics;
pub mod pairs;
pub mod spread;
mod spreadsheet;
pub mod stats;

use std::path::{Path, PathBuf};

use crate::escape::{terminal, terminal_path};

/// A file that is not what it should be: named, with what is wrong and what would be right.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {}", terminal_path(path), terminal(what))]
pub struct FileProblem {
    /// The file.
    pub path: PathBuf,
    /// What is wrong with it, and what to do.
    pub what: String,
}

impl FileProblem {
    /// A problem with `path`.
    pub fn new(path: &Path, what: impl Into<String>) -> FileProblem {
        FileProblem { path: path.to_owned(), what: what.into() }
    }
}
