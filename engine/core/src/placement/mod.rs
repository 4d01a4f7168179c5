//! Decisions only: where entries go and which must leave. The same steps in the same order decide
//! the same; what other shards have done meanwhile is seen through the atomics of `shared` and
//! `gate`.
//!
//! It contains the budgets of the tiers, the waterfall, pins, LRU order, and the free extents of
//! storage. It contains no I/O, no waiting, no messages, no clock. Every step is O(1) in entries; a
//! look at the other shards is O(shards).
//!
//! A write, as a shard runs it: `admit` until granted (holding the tier's baton while it evicts),
//! `enter` until its space is free, `insert_writing`, the bytes, `write_done`. A victim goes down
//! the same way, from `admit` for the tier below to `finish_move`. After `admit` and `enter` the
//! shard asks `take_growth` whether a tier is to get more space, and says by `end_growth` what of
//! it came.

mod admission;
mod allocator;
#[cfg(test)]
mod allocator_test;
#[cfg(test)]
mod decisions_test;
#[cfg(test)]
mod drives_test;
mod entry;
mod extent;
mod gate;
mod growth;
#[cfg(test)]
mod growth_test;
#[cfg(test)]
mod losses_test;
mod lru;
#[cfg(test)]
mod model_test;
mod pool;
#[cfg(test)]
mod scenario_test;
mod segment_set;
mod shared;
#[cfg(test)]
mod shared_test;
#[cfg(test)]
mod sim_test;
mod spaces;
mod spread;
mod state;
mod step;
mod watermark;

pub use allocator::SpaceFigures;
pub use entry::{EntryId, EntryState, EntryView};
pub use extent::{Extent, ExtentList};
pub use gate::{NOBODY, Published, SharedGate};
pub use growth::{Growth, Shortage};
pub use pool::SegmentLease;
pub use shared::{BudgetConfig, DriveBudget, SharedBudgets};
pub use spread::EntryLayout;
pub use state::{LocalSums, Placement, TierCounts, WakeReason, Wakeup};
pub use step::{Admission, AdmitState, Ask, Enter, ForOther, Grant, Victim};
pub use watermark::{StorageEviction, Watermarks};
