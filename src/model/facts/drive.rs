//! State of one drive of the storage tier, beside the engine's own counters.

use ringfall_core::key::Tier;
use ringfall_core::metrics::{DriveMetrics, Metrics};

use ringfall_host::{BlockDelta, DeviceFacts};

/// Description of one drive of the storage tier, and its kernel counters in the window.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DriveOutcome {
    /// Its directory or device, as the user would name it.
    pub path: String,
    /// The disk, as far as known.
    pub device: Option<DeviceFacts>,
    /// Capacity when the run began, bytes.
    pub capacity_bytes: u64,
    /// The kernel's counters of the disk over the window.
    pub kernel: Option<BlockDelta>,
    /// Bytes between it and shards on cores of other NUMA nodes than its own; none where that can't
    /// be told.
    pub remote_bytes: Option<u64>,
    /// When it failed and was given up, s after the start of the window (negative: before it).
    pub failed_s: Option<f64>,
}

/// A drive counts as slow when the typical one moves so many times the bytes in the time that each
/// has I/Os in flight.
const SLOW_TIMES: f64 = 2.0;
/// Least time with I/Os in flight by which a drive is judged, ms: the kernel counts it in ticks of
/// up to 10 ms.
const BUSY_MS_MIN: u64 = 100;

/// Counters of the engine on each drive; for a single drive, the totals.
pub fn metrics_by_drive(engine: &Metrics, drives: usize) -> Vec<DriveMetrics> {
    if drives == 1 {
        let storage_errors = engine.errors.iter().filter(|row| row.first.tier == Tier::Storage);
        return vec![DriveMetrics {
            read: engine.io_read.clone(),
            write: engine.io_write.clone(),
            flush: engine.io_flush.clone(),
            errors: storage_errors.map(|row| row.count).sum(),
        }];
    }
    let mut rows = engine.drives.clone();
    rows.resize_with(drives, DriveMetrics::default);
    rows
}

/// Bytes that the engine read from and wrote to each drive; of a run on one drive, all there are.
pub fn bytes_by_drive(engine: &Metrics) -> Vec<u64> {
    if engine.drives.is_empty() {
        return vec![engine.io_read.bytes + engine.io_write.bytes];
    }
    engine.drives.iter().map(moved_bytes).collect()
}

/// Bytes that the engine read from a drive and wrote to it.
pub(crate) fn moved_bytes(drive: &DriveMetrics) -> u64 {
    drive.read.bytes + drive.write.bytes
}

/// Sum of the latencies of a drive's reads and writes, ns.
pub(crate) fn busy_ns(drive: &DriveMetrics) -> u128 {
    drive.read.latency.sum_ns() + drive.write.latency.sum_ns()
}

/// Drive that moves bytes much more slowly than the others.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SlowDrive<'a> {
    /// Its directory or device.
    pub path: &'a str,
    /// Bytes per second of the time in which it had I/Os in flight.
    pub bytes_per_s: f64,
    /// Those of the median drive.
    pub median_bytes_per_s: f64,
    /// Sum of the latencies of its I/Os, ns.
    in_flight_ns: u128,
}

/// Drives that by the kernel's counters move at most half the bytes of the median drive in the time
/// that each has I/Os in flight, with no fewer of them; of at least two drives.
///
/// Latencies tell nothing: entries in stripes have all drives move their bytes in the same time, so
/// that the whole queue stands at the slowest, however little slower it is. Nor does the rate of a
/// drive with the fewer I/Os in flight: it may do more with more of them. Where the kernel holds
/// I/Os back for a cgroup, they are not in flight.
#[must_use]
pub fn slow_drives<'a>(drives: &'a [DriveOutcome], metrics: &[DriveMetrics]) -> Vec<SlowDrive<'a>> {
    let pace = |(drive, metrics): (&'a DriveOutcome, &DriveMetrics)| {
        let kernel = drive.kernel.as_ref().filter(|kernel| kernel.busy_ms > 0)?;
        let bytes = (kernel.read_bytes + kernel.write_bytes) as f64;
        let bytes_per_s = bytes * 1e3 / kernel.busy_ms.max(BUSY_MS_MIN) as f64;
        let in_flight_ns = busy_ns(metrics);
        Some(SlowDrive { path: &drive.path, bytes_per_s, median_bytes_per_s: 0.0, in_flight_ns })
    };
    let mut paces: Vec<SlowDrive<'_>> = drives.iter().zip(metrics).filter_map(pace).collect();
    paces.sort_by(|one, other| other.bytes_per_s.total_cmp(&one.bytes_per_s));
    // The faster of the two in the middle: of two drives, it is the measure.
    let Some(&median) = paces.get(paces.len().saturating_sub(1) / 2) else { return Vec::new() };
    let is_slow = |drive: &SlowDrive<'_>| {
        median.bytes_per_s >= SLOW_TIMES * drive.bytes_per_s
            && drive.in_flight_ns >= median.in_flight_ns
    };
    let slow = paces.into_iter().filter(is_slow);
    slow.map(|drive| SlowDrive { median_bytes_per_s: median.bytes_per_s, ..drive }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::read_from;

    fn metrics(ios: u32, latency_us: u64) -> DriveMetrics {
        let mut metrics = DriveMetrics::default();
        (0..ios).for_each(|_| metrics.read.add(1 << 20, 1 << 20, latency_us * 1_000));
        metrics
    }

    /// Paths of those that are slow among drives of so many MiB, busy for so many ms, whose I/Os of
    /// 1 MiB took so many µs each.
    fn slow(of: &[(u32, u64, u64)]) -> Vec<String> {
        let outcome = |(index, (mib, busy_ms, _)): (usize, &(u32, u64, u64))| DriveOutcome {
            path: index.to_string(),
            kernel: Some(BlockDelta { busy_ms: *busy_ms, ..read_from("", u64::from(*mib) << 20) }),
            ..DriveOutcome::default()
        };
        let drives: Vec<_> = of.iter().enumerate().map(outcome).collect();
        let metrics: Vec<_> = of.iter().map(|(mib, _, us)| metrics(*mib, *us)).collect();
        slow_drives(&drives, &metrics).iter().map(|slow| slow.path.to_owned()).collect()
    }

    #[test]
    fn a_drive_that_moves_few_bytes_while_it_is_busy_is_slow_and_an_idle_one_is_not() {
        let drives = [(100, 100, 1_000), (90, 100, 1_100), (30, 110, 4_000), (0, 0, 0)];
        assert_eq!(slow(&drives), ["2"]);
        assert_eq!(slow(&[(10, 100, 1_000), (10, 300, 3_000)]), ["1"]);
        assert_eq!(slow(&drives[..2]), [""; 0]);
        assert_eq!(
            slow(&[(10, 4, 1_000), (10, 12, 3_000)]),
            [""; 0],
            "three ticks in place of one"
        );
        assert_eq!(slow(&[]), [""; 0]);
    }

    /// "A byte takes 80 times as long there", of limits of 200, 200 and 180 MB/s.
    #[test]
    fn a_drive_at_which_the_queue_of_a_stripe_stands_is_not_slow_for_that() {
        assert_eq!(slow(&[(100, 900, 500), (100, 900, 500), (100, 1_000, 40_000)]), [""; 0]);
        // The larger of two equal drives, whose queue was sixteen times as deep, was called slow.
        assert_eq!(slow(&[(100, 100, 1_000), (560, 500, 2_900)]), [""; 0]);
        // Nor is the smaller one, at which few I/Os are in flight.
        assert_eq!(slow(&[(100, 400, 1_000), (560, 500, 2_900)]), [""; 0]);
    }

    #[test]
    fn one_drive_did_all_there_was() {
        let mut engine = Metrics::default();
        engine.io_read.add(4096, 4096, 1_000);
        assert_eq!(metrics_by_drive(&engine, 1)[0].read, engine.io_read);
        assert_eq!(metrics_by_drive(&engine, 3).len(), 3);
        assert_eq!(bytes_by_drive(&engine), [4096]);
        engine.drives = vec![DriveMetrics::default(), metrics(2, 1_000)];
        assert_eq!(bytes_by_drive(&engine), [0, 2 << 20]);
    }
}
