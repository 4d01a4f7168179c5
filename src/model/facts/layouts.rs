//! Figures of a layout in which an engine keeps KV cache: what storing its objects and fetching
//! prefixes came to.

use ringfall_core::named;
use serde::Serialize;

named! {
/// Workers that move the objects of a layout.
#[derive(Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum EngineLimits {
    /// The engine's own: its threads, each with one system call at a time, or its queue.
    Theirs = "theirs",
    /// The same objects and operations through io_uring, with many in flight.
    Ours = "ours",
}
}

/// A layout as it was measured with workers of one kind.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct LayoutRun {
    /// Name of the layout.
    pub layout: &'static str,
    /// Workers that moved its objects: the engine's own, or io_uring with many in flight.
    pub limits: EngineLimits,
    /// Options that differ from the engine's own, each as `key=value`.
    pub changed_options: Vec<String>,
    /// Number of objects that a prefix has.
    pub objects_per_prefix: u64,
    /// Size of the first object of a prefix with header and padding, bytes.
    pub object_bytes: u64,
    /// Size of all objects of a prefix, bytes.
    pub prefix_bytes: u64,
    /// KV bytes that a fetch of a prefix brings, each token's counted once.
    pub useful_bytes: u64,
    /// Stores until the last write returned, which the page cache may have taken.
    pub store: LayoutPhase,
    /// Time after that until the file system had written what the page cache held, s.
    pub settle_s: f64,
    /// Rate of stored KV bytes until all of them were on the drive, GiB/s.
    pub durable_gib_per_s: Option<f64>,
    /// Number of prefixes that were stored whole, and among which fetches chose.
    pub prefixes: u64,
    /// Fetches of prefixes that were not in the page cache; null where storing failed.
    pub fetch: Option<LayoutPhase>,
    /// Reason why the layout was not measured to its end; null where it was.
    pub failure: Option<String>,
    /// Sentences that a reader of the figures must know.
    pub notes: Vec<String>,
}

/// Figures of stores or of fetches.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct LayoutPhase {
    /// Number of threads that can have work, or of objects in flight where `is_queue`.
    pub workers: u64,
    /// Whether the workers are places of an io_uring rather than threads.
    pub is_queue: bool,
    /// Largest number of prefixes that were worked on at a time.
    pub requests: u64,
    /// Mean number of prefixes that were worked on: the sum of their times over the duration.
    pub requests_in_flight: Option<f64>,
    /// Duration from the first request to the end of the last, s.
    pub seconds: f64,
    /// Number of prefixes that were moved.
    pub prefixes: u64,
    /// Bytes that were read or written, with headers and padding.
    pub bytes: u64,
    /// Rate of KV bytes, GiB/s.
    pub useful_gib_per_s: Option<f64>,
    /// Rate of operations of all kinds, 1/s.
    pub operations_per_s: Option<f64>,
    /// Median time of a prefix from its request to the end of its last operation, ms; null where
    /// prefixes are stored together, as in Mooncake's buckets.
    pub p50_ms: Option<f64>,
    /// 99th percentile of the same, ms.
    pub p99_ms: Option<f64>,
    /// CPU time of the process with the kernel's workers for it, s for each GiB moved.
    pub cpu_s_per_gib: Option<f64>,
    /// Number of cores that this kept busy on average.
    pub cpu_cores: Option<f64>,
    /// Operations of each kind that was done.
    pub operations: Vec<OperationFigures>,
}

/// Operations of one kind.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct OperationFigures {
    /// Name of the system call, or the nearest: `stat`, `open`, `write`, `rename`, `fsync` … One
    /// `mkdir` is a whole path: a look whether its directory is there, and each one that is missing
    /// on the way to it made.
    pub name: &'static str,
    /// Number of operations that succeeded.
    pub count: u64,
    /// Median of their latency, us.
    pub p50_us: Option<f64>,
    /// Sum of their latencies, s.
    pub total_s: f64,
}

impl LayoutPhase {
    /// Share of the time of all operations that those of these names took.
    pub fn time_share(&self, names: &[&str]) -> f64 {
        let sum = |of: &dyn Fn(&str) -> bool| -> f64 {
            self.operations.iter().filter(|one| of(one.name)).map(|one| one.total_s).sum()
        };
        sum(&|name| names.contains(&name)) / sum(&|_| true).max(f64::MIN_POSITIVE)
    }
}
