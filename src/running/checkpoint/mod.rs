//! Checkpoints of a training job: made, stored, restored and verified, as a stream of chunks whose
//! memory stays the same however large the checkpoint is.
//!
//! Here: the sizes and cutting of a checkpoint (`sizes`, `layout`), its place (`target`, `file`),
//! writing and reading it (`save`, `restore`, counted by `meter`), the point from which it counts
//! (`commit`), and a training job that does all that in turn (`train`). Not here: flags, and
//! displaying results.

mod commit;
mod file;
mod layout;
mod meter;
#[cfg(feature = "objects")]
mod objects;
mod restore;
mod save;
mod sizes;
mod target;
mod train;

pub use commit::{Begin, Commit, find, remove};
pub use file::{FileTarget, Io};
pub use layout::{BadBlock, FORMAT, FORMAT_VERSION, Layout, Manifest, RANKS_MAX};
pub use meter::{Doing, Meter, Progress, Transfer};
#[cfg(feature = "objects")]
pub use objects::{ObjectDraft, ObjectMover, ObjectTarget};
pub use restore::{Restored, restore};
pub use save::{SaveSettings, Saved, Stream, StreamError, StreamSettings, Way};
pub use sizes::{Job, MODELS, Model, Optimizer, Precision, even_shards};
pub use target::{
    ChunkPlace, FilePlan, Moved, Mover, Presence, Target, TargetCounters, TargetError, Version,
};
pub use train::{SaveMode, Trained, Training, train};
