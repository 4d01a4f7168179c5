//! Where checkpoints are kept: what a file system and an object store have in common.
//!
//! A checkpoint is some large files, which are moved in chunks, and a few small ones, which are
//! written and read whole. A large file is a *draft* until it is published: nobody sees it under
//! its name before all of it is there. Names are relative to the target and may hold `/`.
//!
//! Everything runs on plain threads. Each thread that moves chunks has a [`Mover`] of its own with
//! a [`ChunkPool`] of its own, so a mover may register the pool's memory with whatever it drives; a
//! draft may be written by several threads at once. A chunk goes back to its pool by being dropped,
//! on any thread, and is used again then: that bounds the memory.

use ringfall_core::clock::Nanos;
use ringfall_engine::buffer::{Chunk, ChunkPool};

/// Error of a target: a sentence, and the remedy.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{what}: {remedy}")]
pub struct TargetError {
    /// Operation, its object and the reported error; ends without a full stop.
    pub what: String,
    /// The next step, an imperative.
    pub remedy: String,
    /// Whether what was asked for can't be meant (exit status 2), rather than having failed (1).
    pub is_input: bool,
}

impl TargetError {
    /// A failure that is not the user's mistake: what happened, and what would help.
    pub fn new(what: impl Into<String>, remedy: impl Into<String>) -> TargetError {
        TargetError { what: what.into(), remedy: remedy.into(), is_input: false }
    }

    /// Creates an error for a request that is invalid.
    pub fn input(what: impl Into<String>, remedy: impl Into<String>) -> TargetError {
        TargetError { is_input: true, ..TargetError::new(what, remedy) }
    }
}

/// A large file of a checkpoint.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FilePlan {
    /// Name under which the file can be found once it is complete.
    pub name: String,
    /// Its length, bytes; a multiple of 4 KiB, not 0.
    pub bytes: u64,
    /// Chunks begin at multiples of this, bytes, and all but the file's last are so long. A
    /// multiple of 4 KiB.
    pub chunk_bytes: u64,
}

/// State of the file under a name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Presence {
    /// Nothing.
    Absent,
    /// A draft that can be gone on with, so long. A target that can't go on with one, because it
    /// keeps nothing of it or can't look at it, says [`Presence::Absent`].
    Draft {
        /// Bytes.
        bytes: u64,
    },
    /// A draft that can be gone on with but not read: its parts that the storage has acknowledged,
    /// which are taken as they are.
    Parts {
        /// Number and length in bytes of each, in order.
        parts: Vec<(u64, u64)>,
    },
    /// A published file, so long.
    Published {
        /// Bytes.
        bytes: u64,
    },
}

/// Which of the two is opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Version {
    /// The file being written, or left unfinished by its writer.
    Draft,
    /// The published file.
    Published,
}

/// One chunk to move.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ChunkPlace {
    /// Where in the file, bytes; a multiple of the file's chunk.
    pub offset_bytes: u64,
    /// Length from the chunk's beginning, bytes; less than a whole chunk at the file's end.
    pub length_bytes: usize,
    /// Comes back with the outcome.
    pub tag: u64,
}

/// Outcome of moving a chunk.
#[derive(Debug)]
pub struct Moved {
    /// As it was given.
    pub tag: u64,
    /// For a read that succeeded the chunk, with what was read at its beginning; for a write
    /// nothing: its chunk is back in the pool, or will be when the last user lets go of it.
    pub outcome: Result<Option<Chunk>, TargetError>,
    /// When it was given.
    pub began: Nanos,
    /// When it was done.
    pub ended: Nanos,
}

/// Moves chunks, several at a time; made, used and dropped on one thread. Chunks complete in any
/// order. What is in flight when it is dropped is waited for or cancelled: nothing touches its
/// chunks afterwards.
pub trait Mover {
    /// Type returned by [`Target::create`].
    type Draft;
    /// Type returned by [`Target::open`].
    type Stored;

    /// Begins to write a chunk. Never waits for the storage.
    fn write(&mut self, draft: &std::sync::Arc<Self::Draft>, place: ChunkPlace, chunk: Chunk);

    /// Begins to read into a chunk. Never waits for the storage.
    fn read(&mut self, stored: &std::sync::Arc<Self::Stored>, place: ChunkPlace, chunk: Chunk);

    /// Waits until one of them is done. Only while some are in flight.
    ///
    /// # Errors
    /// When no chunk can be moved any more; a chunk's own failure is in its [`Moved`].
    fn wait(&mut self) -> Result<Moved, TargetError>;

    /// Chunks that were given and have not come out of [`Mover::wait`].
    fn in_flight(&self) -> usize;
}

/// Counters of a target since it was opened; zeros where it counts nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TargetCounters {
    /// Requests sent over a network.
    pub requests: u64,
    /// Those of them that were sent again.
    pub retries: u64,
}

/// A place for checkpoints.
pub trait Target: Send + Sync {
    /// A large file that is being written.
    type Draft: Send + Sync;
    /// A large file that is open for reading.
    type Stored: Send + Sync;
    /// Moves chunks on one thread.
    type Mover: Mover<Draft = Self::Draft, Stored = Self::Stored>;

    /// As the user would name it: a directory, a URL without any credentials.
    fn name(&self) -> String;

    /// Its kind in reports: `file`, `s3` and so on.
    fn kind(&self) -> &'static str;

    /// Whether content goes through the page cache, which may then serve reads from memory.
    fn is_cached(&self) -> bool {
        false
    }

    /// Sentence for a reader of figures, where memory is in the place of a drive.
    fn in_memory(&self) -> Option<String> {
        None
    }

    /// Bytes that can still be stored there; none where nothing says so.
    fn room_bytes(&self) -> Result<Option<u64>, TargetError> {
        Ok(None)
    }

    /// A mover for the calling thread, which uses the chunks of this pool and no others.
    fn mover(&self, pool: &ChunkPool) -> Result<Self::Mover, TargetError>;

    /// Returns the state of the large file under a name.
    fn presence(&self, name: &str) -> Result<Presence, TargetError>;

    /// Name under which people find the draft of a file: that of the file, unless it has another.
    fn draft_name(&self, name: &str) -> String {
        name.to_owned()
    }

    /// Whether it can store such a file at all; asked before anything is written.
    ///
    /// # Errors
    /// It can't, such as for the size of the file's chunks.
    fn check(&self, _file: &FilePlan) -> Result<(), TargetError> {
        Ok(())
    }

    /// Begins a large file, or goes on with its draft, which [`Target::presence`] has shown to be
    /// there. A published file of that name stays as it is until the draft is published.
    fn create(&self, file: &FilePlan, goes_on: bool) -> Result<Self::Draft, TargetError>;

    /// Gives a draft its final name, at once and whole. All its chunks have been written before.
    /// `durable`: it survives a power cut once this returns.
    ///
    /// # Errors
    /// It could not be made durable, or the storage lacks a part of it; it has no final name then.
    fn publish(&self, draft: &Self::Draft, durable: bool) -> Result<(), TargetError>;

    /// Ends a draft that is not published: it is kept for a later [`Target::create`] that goes on
    /// with it, where the target can do that, or removed.
    fn abandon(&self, _draft: &Self::Draft) -> Result<(), TargetError> {
        Ok(())
    }

    /// Opens a large file for reading.
    fn open(&self, name: &str, version: Version) -> Result<Self::Stored, TargetError>;

    /// Writes a small file whole: its name means the old content or the new one, never a part.
    fn put(&self, name: &str, content: &[u8]) -> Result<(), TargetError>;

    /// Reads a small file whole, if it is there.
    ///
    /// # Errors
    /// It can't be read, or is larger than `bytes_max`.
    fn get(&self, name: &str, bytes_max: u64) -> Result<Option<Vec<u8>>, TargetError>;

    /// Removes a file, small or published, if it is there; also a draft of that name. A directory
    /// below the target that it leaves empty goes with it.
    fn remove(&self, name: &str) -> Result<(), TargetError>;

    /// Removes a small file, if it is there.
    fn remove_small(&self, name: &str) -> Result<(), TargetError> {
        self.remove(name)
    }

    /// Removes what is left of the draft of a file that is published, where a save ended between
    /// the two.
    fn forget_draft(&self, _name: &str) -> Result<(), TargetError> {
        Ok(())
    }

    /// Returns the target's counters.
    fn counters(&self) -> TargetCounters {
        TargetCounters::default()
    }
}
