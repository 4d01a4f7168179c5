//! Logical traces: every operation on an entry as a row, for other tools and for replaying.

mod writer;

use ringfall_core::key::Tier;

pub use writer::{FIXED_EPOCH_S, TraceWriter};

/// Header line of a logical trace, which names its columns.
pub const HEADER: &str = "Timestamp,Operation,Object_Size_Bytes,Tier,Key,Phase";

/// Phase to which an operation belongs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum TracePhase {
    /// Up to the end of the turn's own write.
    Prefill,
    /// Generating.
    Decode,
    /// Moving to a slower tier.
    Evict,
}

/// One operation, when it ended. The order of the fields is the order of rows of the same time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct TraceRow {
    /// Key of the entry that the operation was on.
    pub key: u128,
    /// A write, or a read.
    pub is_write: bool,
    /// Tier that the entry was read from or written to.
    pub tier: Tier,
    /// Phase of the request that the operation belonged to.
    pub phase: TracePhase,
    /// Size of the entry, bytes.
    pub bytes: u64,
}
