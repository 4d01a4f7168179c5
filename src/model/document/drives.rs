//! `ringfall.drives`: the drives of the storage tier, one row each, and what the kernel counted for
//! a disk.

use ringfall_core::metrics::{DriveMetrics, IoMetrics};
use ringfall_core::units::gib;
use ringfall_host::BlockDelta;
use serde::{Deserialize, Serialize};

use super::figure::{Fact, Part, Same, Sum};
use super::list::{Named, Rows};
use super::merge::figures;
use crate::RunResult;
use crate::facts::{DriveOutcome, metrics_by_drive};

/// One drive of the storage tier: what the engine did on it in the window, and what the kernel
/// counted for it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct DriveReport {
    /// Directory or block device that held this drive's part of the data.
    pub path: String,
    /// Name of the disk under `/sys/block`; null where none is known.
    pub device: Option<String>,
    /// Model of the disk; null where none is known.
    pub model: Option<String>,
    /// NUMA node of the disk; null where none is known.
    pub numa_node: Option<u32>,
    /// Part of the storage tier that this drive could hold when the run began, bytes.
    pub capacity_bytes: Fact<u64>,
    /// Bytes that were moved in the window between this drive and shards on cores of other NUMA
    /// nodes than the drive's; null on a machine with one node, where the node of the disk is not
    /// known, and where shards were not pinned to cores.
    pub remote_bytes: Option<u64>,
    /// Share of all bytes read and written in the window that this drive moved, from 0 to 1; null
    /// when nothing was moved.
    pub share: Option<f64>,
    /// Mean number of I/Os in flight on this drive: the sum of their latencies divided by the
    /// length of the window; null for a window without length.
    pub mean_depth: Option<f64>,
    /// Read I/Os on this drive that completed in the window.
    pub read: Part<DriveDirection>,
    /// Write I/Os on this drive that completed in the window.
    pub write: Part<DriveDirection>,
    /// Number of flushes (`fdatasync`) of this drive that completed.
    pub flushes: Fact<u64>,
    /// Number of I/Os on this drive that failed.
    pub errors: Fact<u64>,
    /// The kernel's counters of the disk over the window; null where there are none.
    pub kernel: Option<DiskCounters>,
    /// Time at which the drive failed and was given up, s from the start of the window (negative
    /// before it); null for a drive that did not fail.
    pub failed_s: Option<f64>,
}

/// I/Os of one kind on one drive.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct DriveDirection {
    /// Number of I/Os of this kind that completed in the window.
    pub count: Fact<u64>,
    /// Bytes that these I/Os moved.
    pub bytes: Fact<u64>,
    /// Bandwidth over the window, GiB/s; null for a window without length.
    pub gib_per_s: Option<f64>,
    /// I/Os per second over the window; null for a window without length.
    pub per_s: Option<f64>,
    /// Mean latency of an I/O, µs; null without I/Os.
    pub latency_mean_us: Option<f64>,
    /// Median latency of an I/O, µs; null without I/Os.
    pub latency_p50_us: Option<f64>,
    /// 95th percentile of the latency of an I/O, µs; null without I/Os.
    pub latency_p95_us: Option<f64>,
    /// 99th percentile of the latency of an I/O, µs; null without I/Os.
    pub latency_p99_us: Option<f64>,
}

figures! {
/// Kernel counters of a disk over the window.
pub struct DiskCounters {
    /// Name of the disk (not the partition) under `/sys/block`.
    pub device: Same<String>,
    /// Number of reads that completed.
    pub reads: Sum<u64>,
    /// Bytes of the reads that completed.
    pub read_bytes: Sum<u64>,
    /// Number of writes that completed.
    pub writes: Sum<u64>,
    /// Bytes of the writes that completed.
    pub write_bytes: Sum<u64>,
    /// Time with at least one request in flight, ms.
    pub busy_ms: Sum<u64>,
    /// Sum of the times that the completed reads took, ms.
    pub read_ms: Sum<u64>,
    /// Sum of the times that the completed writes took, ms.
    pub write_ms: Sum<u64>,
    /// Sum of the times of all requests, including those still in flight, ms.
    pub queue_ms: Sum<u64>,
    /// Number of flushes that completed; null before Linux 5.5.
    pub flushes: Sum<Option<u64>>,
}
}

impl Named for DiskCounters {
    fn name(&self) -> Option<String> {
        self.device.as_ref().cloned()
    }
}

impl DiskCounters {
    pub(super) fn of(delta: &BlockDelta) -> DiskCounters {
        DiskCounters {
            device: Same::of(delta.device.clone()),
            reads: Sum::of(delta.reads),
            read_bytes: Sum::of(delta.read_bytes),
            writes: Sum::of(delta.writes),
            write_bytes: Sum::of(delta.write_bytes),
            busy_ms: Sum::of(delta.busy_ms),
            read_ms: Sum::of(delta.read_ms),
            write_ms: Sum::of(delta.write_ms),
            queue_ms: Sum::of(delta.queue_ms),
            flushes: Sum::maybe(delta.flushes),
        }
    }
}

impl DriveDirection {
    fn of(metrics: &IoMetrics, seconds: Option<f64>) -> DriveDirection {
        let count = metrics.latency.count();
        let quantile = |quantile| metrics.latency.quantile_ns(quantile).map(|ns| ns as f64 / 1e3);
        DriveDirection {
            count: Fact::of(count),
            bytes: Fact::of(metrics.bytes),
            gib_per_s: seconds.map(|seconds| gib(metrics.bytes) / seconds),
            per_s: seconds.map(|seconds| count as f64 / seconds),
            latency_mean_us: metrics.latency.mean_ns().map(|ns| ns / 1e3),
            latency_p50_us: quantile(0.5),
            latency_p95_us: quantile(0.95),
            latency_p99_us: quantile(0.99),
        }
    }
}

impl DriveReport {
    fn of(
        drive: &DriveOutcome,
        metrics: &DriveMetrics,
        all_bytes: u64,
        seconds: Option<f64>,
    ) -> DriveReport {
        let device = drive.device.as_ref();
        let own_bytes = metrics.read.bytes + metrics.write.bytes;
        let busy_ns = metrics.read.latency.sum_ns() + metrics.write.latency.sum_ns();
        DriveReport {
            path: drive.path.clone(),
            device: device.map(|device| device.name.clone()),
            model: device.and_then(|device| device.model.clone()),
            numa_node: device.and_then(|device| device.numa_node),
            capacity_bytes: Fact::of(drive.capacity_bytes),
            remote_bytes: drive.remote_bytes,
            share: crate::facts::quotient(own_bytes, all_bytes),
            mean_depth: seconds.map(|seconds| busy_ns as f64 / 1e9 / seconds),
            read: Part(DriveDirection::of(&metrics.read, seconds)),
            write: Part(DriveDirection::of(&metrics.write, seconds)),
            flushes: Fact::of(metrics.flush.latency.count()),
            errors: Fact::of(metrics.errors),
            kernel: drive.kernel.as_ref().map(DiskCounters::of),
            failed_s: drive.failed_s,
        }
    }

    /// Part of the bytes of the window that went between this drive and other NUMA nodes, from 0 to
    /// 1; none where that is not known or nothing was moved.
    #[must_use]
    pub fn remote_share(&self) -> Option<f64> {
        let bytes = |direction: &DriveDirection| direction.bytes.known();
        crate::facts::quotient(self.remote_bytes?, bytes(&self.read)? + bytes(&self.write)?)
    }

    /// A row for each drive.
    pub(super) fn all(result: &RunResult) -> Rows<DriveReport> {
        let metrics = metrics_by_drive(&result.engine, result.drives.len());
        let all_bytes = metrics.iter().map(|drive| drive.read.bytes + drive.write.bytes).sum();
        let seconds = Some(result.window.seconds).filter(|seconds| *seconds > 0.0);
        let rows = result.drives.iter().zip(&metrics);
        rows.map(|(drive, metrics)| DriveReport::of(drive, metrics, all_bytes, seconds)).collect()
    }
}
