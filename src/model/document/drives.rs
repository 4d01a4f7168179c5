//! `ringfall.drives`: the drives of the storage tier, one row each, and what the kernel counted for
//! a disk.

use ringfall_core::metrics::{DriveMetrics, IoMetrics};
use ringfall_core::units::gib;
use ringfall_host::BlockDelta;

use super::figure::{Fact, Part, Same, Sum};
use super::list::Named;
use super::merge::figures;
use crate::RunResult;
use crate::facts::{DriveOutcome, busy_ns, metrics_by_drive, moved_bytes, quotient};
use crate::figures::given::row;

row! {
/// One drive of the storage tier: what the engine did on it in the window, and what the kernel
/// counted for it.
pub struct DriveReport of (drive, metrics, all_bytes, seconds): DriveInWindow<'_> {
    /// Directory or block device that held this drive's part of the data.
    pub path: String = drive.path.clone(),
    /// Name of the disk under `/sys/block`; null where none is known.
    pub device: Option<String> = drive.device.as_ref().map(|device| device.name.clone()),
    /// Model of the disk; null where none is known.
    pub model: Option<String> = drive.device.as_ref().and_then(|device| device.model.clone()),
    /// NUMA node of the disk; null where none is known.
    pub numa_node: Option<u32> = drive.device.as_ref().and_then(|device| device.numa_node),
    /// Part of the storage tier that this drive could hold when the run began, bytes.
    pub capacity_bytes: Fact<u64> = drive.capacity_bytes,
    /// Bytes that were moved in the window between this drive and shards on cores of other NUMA
    /// nodes than the drive's; null on a machine with one node, where the node of the disk is not
    /// known, and where shards were not pinned to cores.
    pub remote_bytes: Option<u64> = drive.remote_bytes,
    /// Share of all bytes read and written in the window that this drive moved, from 0 to 1; null
    /// when nothing was moved.
    pub share: Option<f64> = quotient(moved_bytes(metrics), *all_bytes),
    /// Mean number of I/Os in flight on this drive: the sum of their latencies divided by the
    /// length of the window; null for a window without length.
    pub mean_depth: Option<f64> = seconds.map(|seconds| busy_ns(metrics) as f64 / 1e9 / seconds),
    /// Read I/Os on this drive that completed in the window.
    pub read: Part<DriveDirection> = DriveDirection::of(&(&metrics.read, *seconds)),
    /// Write I/Os on this drive that completed in the window.
    pub write: Part<DriveDirection> = DriveDirection::of(&(&metrics.write, *seconds)),
    /// Number of flushes (`fdatasync`) of this drive that completed.
    pub flushes: Fact<u64> = metrics.flush.latency.count(),
    /// Number of I/Os on this drive that failed.
    pub errors: Fact<u64> = metrics.errors,
    /// The kernel's counters of the disk over the window; null where there are none.
    pub kernel: Option<DiskCounters> = drive.kernel.as_ref().map(DiskCounters::of),
    /// Time at which the drive failed and was given up, s from the start of the window (negative
    /// before it); null for a drive that did not fail.
    pub failed_s: Option<f64> = drive.failed_s,
}

/// I/Os of one kind on one drive.
pub struct DriveDirection of (io, seconds): (&IoMetrics, Option<f64>) {
    /// Number of I/Os of this kind that completed in the window.
    pub count: Fact<u64> = io.latency.count(),
    /// Bytes that these I/Os moved.
    pub bytes: Fact<u64> = io.bytes,
    /// Bandwidth over the window, GiB/s; null for a window without length.
    pub gib_per_s: Option<f64> = seconds.map(|seconds| gib(io.bytes) / seconds),
    /// I/Os per second over the window; null for a window without length.
    pub per_s: Option<f64> = seconds.map(|seconds| io.latency.count() as f64 / seconds),
    /// Mean latency of an I/O, µs; null without I/Os.
    pub latency_mean_us: Option<f64> = io.latency.mean_ns().map(|ns| ns / 1e3),
    /// Median latency of an I/O, µs; null without I/Os.
    pub latency_p50_us: Option<f64> = quantile_us(io, 0.5),
    /// 95th percentile of the latency of an I/O, µs; null without I/Os.
    pub latency_p95_us: Option<f64> = quantile_us(io, 0.95),
    /// 99th percentile of the latency of an I/O, µs; null without I/Os.
    pub latency_p99_us: Option<f64> = quantile_us(io, 0.99),
}
}

/// Declares figures of what the kernel counted for a disk, with what else the part has.
macro_rules! disk_counters {
    ($(#[$meta:meta])* $name:ident { $($more:tt)* }) => {
        figures! {
            $(#[$meta])*
            pub struct $name from delta: BlockDelta {
                /// Name of the disk (not the partition) under `/sys/block`.
                pub device: Same<String>,
                /// Number of reads that completed.
                pub reads: Sum<u64>,
                /// Bytes of the reads that completed.
                pub read_bytes: Sum<u64>,
                $($more)*
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
                /// Sum of the times of all requests, including those still in flight, ms; divided
                /// by the elapsed time it is the mean queue depth.
                pub queue_ms: Sum<u64>,
                /// Number of flushes that completed; null before Linux 5.5.
                pub flushes: Sum<Option<u64>>,
            }
        }
    };
}

disk_counters! {
/// Kernel counters of a disk over the window.
DiskCounters {}
}

disk_counters! {
/// Kernel counters of the storage device over the window.
KernelCounters {
    /// Bytes read that came through every level of devices below the data files: less than
    /// `read_bytes` when a cache in between served some of them, as below a loop device. Null in
    /// results of versions that did not count them.
    #[serde(default)]
    pub reached_bytes: Sum<Option<u64>> = None::<u64>,
}
}

/// A drive, the engine's counters of it, the bytes of all drives, and the length of the window, s.
type DriveInWindow<'a> = (&'a DriveOutcome, &'a DriveMetrics, u64, Option<f64>);

fn quantile_us(io: &IoMetrics, quantile: f64) -> Option<f64> {
    io.latency.quantile_ns(quantile).map(|ns| ns as f64 / 1e3)
}

impl Named for DiskCounters {
    fn name(&self) -> Option<String> {
        self.device.as_ref().cloned()
    }
}

impl DriveReport {
    /// Part of the bytes of the window that went between this drive and other NUMA nodes, from 0 to
    /// 1; none where that is not known or nothing was moved.
    pub fn remote_share(&self) -> Option<f64> {
        quotient(self.remote_bytes?, self.read.bytes.known()? + self.write.bytes.known()?)
    }

    /// A row for each drive.
    pub(super) fn all(result: &RunResult) -> Vec<DriveReport> {
        let metrics = metrics_by_drive(&result.engine, result.drives.len());
        let all_bytes = metrics.iter().map(moved_bytes).sum();
        let seconds = Some(result.window.seconds).filter(|seconds| *seconds > 0.0);
        let rows = result.drives.iter().zip(&metrics);
        let row = |(drive, metrics)| DriveReport::of(&(drive, metrics, all_bytes, seconds));
        rows.map(row).collect()
    }
}
