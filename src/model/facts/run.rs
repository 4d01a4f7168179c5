//! Figures of a run, summed over its shards.

use ringfall_core::error::IoError;
use ringfall_core::metrics::{Histogram, Metrics};
use ringfall_core::placement::SpaceFigures;
use ringfall_workloads::WorkloadStats;
use ringfall_workloads::autoscale::Conclusion;

use super::{
    CacheStats, DepthFigures, FeedFigures, FileCounts, ObjectCounts, RequestStats, TimelineSecond,
    WatchdogReport,
};

/// Figures of a run, summed over its shards: the run adds them up, the result holds them.
#[derive(Clone, Debug, Default)]
pub struct RunFigures {
    /// Counters of the shards' engines in the window.
    pub engine: Metrics,
    /// Requests that finished in the window: their times and tokens.
    pub requests: RequestStats,
    /// Counters of the requests' reads from and writes to the cache.
    pub cache: CacheStats,
    /// Waits outside the engine's operations: for an allocation permit.
    pub allocation_wait: Histogram,
    /// The workload's own counters, since the start.
    pub workload: WorkloadStats,
    /// One row a second of the window.
    pub timeline: Vec<TimelineSecond>,
    /// Conclusion of the autoscaler.
    pub autoscale: Option<Conclusion>,
    /// Outcome of the search for a queue depth.
    pub queue_depth: Option<DepthFigures>,
    /// Counters of reading a trace.
    pub feed: Option<FeedFigures>,
    /// The storage space at the end, one row a shard.
    pub space: Vec<SpaceFigures>,
    /// Shortfalls of all shards together against what was asked for, a sentence each.
    pub shortfalls: Vec<String>,
    /// The first I/O errors of each shard since the start, in the window or not.
    pub errors: Vec<IoError>,
    /// Entries of the population that could not be written.
    pub population_failed: u64,
    /// Whether the shards stayed alive.
    pub watchdog: WatchdogReport,
    /// Counts of object store requests, where the storage tier was in an object store.
    pub objects: Option<ObjectCounts>,
    /// Counts of operations on files, where the storage tier was in an engine's layout.
    pub files: Option<FileCounts>,
}
