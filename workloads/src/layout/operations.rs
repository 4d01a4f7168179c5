//! File operations in the words of no program: whoever carries them out maps them to its own.

use std::sync::Arc;

/// Operation on the files below one directory; paths are relative to it. Those without a path are
/// of the file that the last operation before them opened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FileOperation {
    /// Asks whether a file is there (stat, access).
    Look {
        /// Path of the file.
        path: Arc<str>,
        /// Whether the object needs nothing more where it is there.
        ends_if_found: bool,
    },
    /// Makes a directory and those above it.
    MakeDirectories {
        /// Path of the deepest directory.
        path: Arc<str>,
    },
    /// Opens a file that is there.
    OpenToRead {
        /// Path of the file.
        path: Arc<str>,
        /// Whether I/O bypasses the page cache.
        direct: bool,
    },
    /// Opens a file to write, and makes it where it is missing.
    Create {
        /// Path of the file.
        path: Arc<str>,
        /// Whether it must not be there yet.
        exclusive: bool,
        /// Whether what is in it goes.
        truncate: bool,
        /// Whether I/O bypasses the page cache.
        direct: bool,
    },
    /// Writes in one call.
    Write {
        /// Place in the file, bytes.
        offset: u64,
        /// Length, bytes.
        bytes: u64,
    },
    /// Reads in one call.
    Read {
        /// Place in the file, bytes.
        offset: u64,
        /// Length, bytes.
        bytes: u64,
    },
    /// Makes the file durable.
    Sync,
    /// Tells the kernel to forget the pages of the file.
    DropCache,
    /// Closes the file.
    Close,
    /// Gives a file its final name.
    Rename {
        /// Name that it has.
        from: Arc<str>,
        /// Name that it gets.
        to: Arc<str>,
    },
}

/// Operations on one object, one after the other.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ObjectScript {
    /// The operations, in their order.
    pub operations: Vec<FileOperation>,
}

/// Objects that one worker takes one after the other.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct WorkerTile {
    /// Scripts of the objects.
    pub scripts: Vec<ObjectScript>,
}

/// Work for one prefix: its tiles go to as many workers as are free, side by side.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct EngineRequest {
    /// Parts that go to a worker each.
    pub tiles: Vec<WorkerTile>,
}

/// Workers of an engine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EngineWorkers {
    /// So many threads, each with one system call at a time.
    Threads(u64),
    /// A queue of the kernel of that depth (libaio, io_uring).
    Queue(u64),
}

impl EngineRequest {
    /// The same objects with a tile each: as many side by side as there are.
    #[must_use]
    pub fn spread(self) -> EngineRequest {
        let scripts = self.tiles.into_iter().flat_map(|tile| tile.scripts);
        EngineRequest {
            tiles: scripts.map(|script| WorkerTile { scripts: vec![script] }).collect(),
        }
    }

    /// Its operations in the order of its tiles.
    pub fn operations(&self) -> impl Iterator<Item = &FileOperation> {
        let scripts = self.tiles.iter().flat_map(|tile| &tile.scripts);
        scripts.flat_map(|script| &script.operations)
    }

    /// The longest write or read in it, bytes.
    pub fn largest_bytes(&self) -> u64 {
        let bytes = self.operations().map(|operation| match operation {
            FileOperation::Write { bytes, .. } | FileOperation::Read { bytes, .. } => *bytes,
            _ => 0,
        });
        bytes.max().unwrap_or(0)
    }
}
