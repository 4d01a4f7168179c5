//! Layouts in which inference engines keep KV cache on storage: the objects that a prefix becomes,
//! and the file operations that store, look up and load them, in the engine's own order.
//!
//! Names have each engine's pattern and length; the digests in them are ours, which no engine would
//! recognise. Not here: carrying the operations out.

mod choices;
mod engine;
mod entry;
mod names;
mod operations;
mod options;
mod plan;

pub use engine::EngineLayout;
pub use entry::{EntryPart, OURS_IN_FLIGHT};
pub use operations::{EngineRequest, EngineWorkers, FileOperation, ObjectScript, WorkerTile};
pub use options::{LayoutOption, LayoutOptions};
pub use plan::{KvObject, LayoutPlan, LayoutWork, shuffled};

#[cfg(test)]
mod tests;
