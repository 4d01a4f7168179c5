//! Checkpoints of a training job: made, stored, restored and verified, as a stream of chunks whose
//! memory stays the same however large the checkpoint is.
//!
//! What lives here: how large a checkpoint is and how it is cut (`sizes`, `layout`), where it is
//! kept (`target`, `file`), how it gets there and back (`save`, `restore`), and a training job that
//! does both in turn (`train`). What must not: flags, and how results are shown.

mod file;
#[cfg(feature = "objects")]
mod objects;
mod target;

pub use file::{FileTarget, Io};
#[cfg(feature = "objects")]
pub use objects::{ObjectDraft, ObjectMover, ObjectTarget, StoredObject};
pub use target::{
    ChunkPlace, FilePlan, Moved, Mover, Presence, Target, TargetCounters, TargetError, Version,
};
