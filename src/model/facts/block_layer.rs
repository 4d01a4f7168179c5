//! Activity of the kernel's block layer for a device, as counted by the kernel.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Adds, counts_by_key};

/// Activity of the kernel's block layer for the device.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct BlockTraceFigures {
    /// Name of the disk under `/sys/block`.
    pub device: String,
    /// Duration of the trace, s: from before the shards began until the end of the window.
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

impl Adds for BlockTraceFigures {
    /// The counts of both traces; none where they are of different devices.
    fn plus(self, other: &BlockTraceFigures) -> Option<BlockTraceFigures> {
        let mut parts: BTreeMap<u32, HeatCell> = BTreeMap::new();
        for cell in self.heat.iter().chain(&other.heat) {
            let none = HeatCell { part: cell.part, reads: 0, writes: 0 };
            let there = parts.entry(cell.part).or_insert(none);
            there.reads = there.reads.saturating_add(cell.reads);
            there.writes = there.writes.saturating_add(cell.writes);
        }
        (self.device == other.device).then(|| BlockTraceFigures {
            device: self.device,
            seconds: self.seconds + other.seconds,
            read: self.read.plus(&other.read),
            write: self.write.plus(&other.write),
            heat: parts.into_values().collect(),
            lost_events: self.lost_events.saturating_add(other.lost_events),
        })
    }
}

/// Requests to the device in one direction, read or write.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
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

impl BlockDirection {
    fn plus(&self, other: &BlockDirection) -> BlockDirection {
        let sizes = self.sizes.iter().chain(&other.sizes);
        BlockDirection {
            requests: self.requests.saturating_add(other.requests),
            bytes: self.bytes.saturating_add(other.bytes),
            latency_mean_us: self.mean_with(other),
            issue_to_complete_us: both(&self.issue_to_complete_us, &other.issue_to_complete_us),
            insert_to_issue_us: both(&self.insert_to_issue_us, &other.insert_to_issue_us),
            sizes: counts_by_key(sizes.map(|size| (size.bytes, size.count)))
                .into_iter()
                .map(|(bytes, count)| SizeCell { bytes, count })
                .collect(),
            depth: both(&self.depth, &other.depth),
        }
    }

    /// The mean of both, each weighed with the requests that completed.
    fn mean_with(&self, other: &BlockDirection) -> Option<f64> {
        let (Some(ours), Some(theirs)) = (self.latency_mean_us, other.latency_mean_us) else {
            return self.latency_mean_us.or(other.latency_mean_us);
        };
        let of = |direction: &BlockDirection| {
            direction.issue_to_complete_us.iter().map(|bucket| bucket.count as f64).sum::<f64>()
        };
        let (us, them) = (of(self), of(other));
        (us + them > 0.0).then(|| (ours * us + theirs * them) / (us + them))
    }
}

fn both(one: &[Bucket], other: &[Bucket]) -> Vec<Bucket> {
    let buckets = one.iter().chain(other);
    counts_by_key(buckets.map(|bucket| ((bucket.low, bucket.high), bucket.count)))
        .into_iter()
        .map(|((low, high), count)| Bucket { low, high, count })
        .collect()
}

/// Number of values from `low` to `high`, both included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct Bucket {
    /// Smallest value of the bucket.
    pub low: u64,
    /// Largest value of the bucket.
    pub high: u64,
    /// Number of values in the bucket.
    pub count: u64,
}

/// Number of requests of one size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct SizeCell {
    /// Size of these requests, bytes.
    pub bytes: u64,
    /// Number of requests of this size.
    pub count: u64,
}

/// Requests to one part of the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct HeatCell {
    /// Number of the part of the device, from 0 to 255.
    pub part: u32,
    /// Number of reads from this part.
    pub reads: u64,
    /// Number of writes to this part.
    pub writes: u64,
}
