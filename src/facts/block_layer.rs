//! What the kernel's block layer did with the requests to a device, as counted by the kernel.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What the kernel's block layer did with the requests to the device.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BlockTraceFigures {
    /// Name of the disk under `/sys/block`.
    pub device: String,
    /// How long the trace ran, s: from before the shards began until the end of the window.
    pub seconds: f64,
    /// Read requests that the block layer handled while the trace ran.
    pub read: BlockDirection,
    /// Write requests that the block layer handled while the trace ran.
    pub write: BlockDirection,
    /// Requests by position on the device, which is divided into 256 equal parts; parts without
    /// requests are left out.
    pub heat: Vec<HeatCell>,
    /// Number of trace events that the kernel could not deliver; above 0 the other counts are too
    /// low.
    pub lost_events: u64,
}

/// Requests to the device in one direction, read or write.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BlockDirection {
    /// Number of requests sent to the device.
    pub requests: u64,
    /// Bytes of the requests sent to the device.
    pub bytes: u64,
    /// Mean time from issue to completion of a request, µs; null without requests.
    pub latency_mean_us: Option<f64>,
    /// Histogram of the time from issue to completion of a request, µs, in octaves.
    pub issue_to_complete_us: Vec<Bucket>,
    /// Histogram of the time that a request spent in the I/O scheduler, from insertion to issue,
    /// µs, in octaves; empty where requests bypass the scheduler.
    pub insert_to_issue_us: Vec<Bucket>,
    /// Number of requests by size, after the kernel's own splitting and merging.
    pub sizes: Vec<SizeCell>,
    /// Histogram of the number of requests in flight, sampled 100 times a second.
    pub depth: Vec<Bucket>,
}

/// Number of values from `low` to `high`, both included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Bucket {
    /// Smallest value of the bucket.
    pub low: u64,
    /// Largest value of the bucket.
    pub high: u64,
    /// Number of values in the bucket.
    pub count: u64,
}

/// Number of requests of one size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SizeCell {
    /// Size of these requests, bytes.
    pub bytes: u64,
    /// Number of requests of this size.
    pub count: u64,
}

/// Requests to one part of the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HeatCell {
    /// Number of the part of the device, from 0 to 255.
    pub part: u32,
    /// Number of reads from this part.
    pub reads: u64,
    /// Number of writes to this part.
    pub writes: u64,
}
