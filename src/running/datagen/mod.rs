//! Content as data: its reducibility by storage that removes duplicates or compresses, and files of
//! it.
//!
//! Here: the analysis of any data (`source`, `digests`, `analyze`), files of content (`file`). Not
//! here: the content itself (`ringfall_core::fill`), flags, and displaying results.

mod analyze;
mod digests;
mod file;
mod source;

pub use analyze::{Analysis, AnalyzeSettings, DuplicateFigures, PackedFigures, analyze};
pub use file::{verify_file, write_file};
pub use source::{Item, items_of};

use crate::remedy::remedy;

/// Why there is no figure.
#[derive(Debug, thiserror::Error)]
pub enum DatagenError {
    /// A file could not be read or written: what was tried, and why it failed.
    #[error("{what}: {error}; {}", remedy(.error))]
    File {
        /// Operation that was tried, and its file.
        what: String,
        /// Error of the operating system.
        error: std::io::Error,
    },
    /// There is too little of something: a sentence with its remedy.
    #[error("{0}")]
    Lacks(String),
    /// It was told to end.
    #[error("interrupted")]
    Interrupted,
}

impl DatagenError {
    fn file(what: impl Into<String>, error: std::io::Error) -> DatagenError {
        DatagenError::File { what: what.into(), error }
    }
}

#[cfg(test)]
mod tests {
    use ringfall_core::held::NoInodes;
    use rustix::io::Errno;

    use super::*;

    /// It was told as a lack of space.
    #[test]
    fn inodes_that_are_used_up_are_told_with_their_remedy() {
        let error = std::io::Error::new(std::io::ErrorKind::StorageFull, NoInodes);
        let told = DatagenError::file("can't write /x", error).to_string();
        assert!(told.starts_with("can't write /x: its file system has no inodes left"), "{told}");
        assert!(told.ends_with("; give a place on another file system"), "{told}");
    }

    /// The remedy was to look up the error.
    #[test]
    fn a_read_only_file_system_is_told_with_its_remedy() {
        let told = DatagenError::file("can't write /x", Errno::ROFS.into()).to_string();
        assert!(told.starts_with("can't write /x: Read-only file system"), "{told}");
        assert!(told.ends_with("; mount it for writing, or give another directory"), "{told}");
    }
}
