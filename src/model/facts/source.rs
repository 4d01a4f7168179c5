//! Facts about the source of requests, and counters of reading it.

use ringfall_workloads::digest::Digest;
use ringfall_workloads::source::{Skipped, TraceFormat};

/// Facts about the source of requests.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SourceFacts {
    /// Files, in the order read.
    pub files: Vec<String>,
    /// Format of a trace, where it was recognised.
    pub format: Option<TraceFormat>,
    /// Conversations of a dataset.
    pub conversations: Option<u64>,
    /// Number of turns in all conversations of a dataset; none for other sources.
    pub turns: Option<u64>,
    /// Digest of all conversations of a dataset.
    pub digest: Option<Digest>,
    /// Operations of a logical trace.
    pub operations: Option<u64>,
    /// Entries that it reads before it writes them, and their bytes: they were written before.
    pub populated: Option<(u64, u64)>,
    /// Parts of a dataset that were skipped.
    pub skipped: Skipped,
}

/// Counters of the reading so far.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FeedFigures {
    /// Requests given to the shards.
    pub rows: u64,
    /// Digest of those rows.
    pub digest: Digest,
    /// Digests of the first rows at some depths, as a result has them.
    pub digests: Vec<String>,
    /// Whether there are no more rows.
    pub is_over: bool,
    /// Rows that did not parse.
    pub skipped: Skipped,
    /// Rows of the first pass that are earlier than the row before them.
    pub disordered: u64,
    /// Whole passes over the trace.
    pub cycles: u32,
    /// File that was replaced or written to before it was read to its end, in words.
    pub changed: Option<String>,
    /// Why reading ended early.
    pub failure: Option<String>,
}
