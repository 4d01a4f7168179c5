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

/// A drive counts as slow when a byte is so many times as long on its way as on the typical one.
const SLOW_TIMES: f64 = 2.0;
/// Times the bytes of another drive up to which a drive is asked for as much as that: entries are
/// dealt out in whole, so that equal drives do not get equal numbers of bytes.
const LIKE_LOAD: f64 = 1.1;

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

/// Drives on which a byte is at least twice as long on its way as on the median drive, although
/// they move no more of them, and how many times as long; of at least two drives.
///
/// A drive that keeps up answers soon and one that lags has a full queue, though both be asked for
/// as much: so it is the time per byte that tells, and not the bandwidth. That of a drive which
/// moves more bytes tells nothing: its queue may be deep because more is asked of it.
pub fn slow_drives(metrics: &[DriveMetrics]) -> Vec<(usize, f64)> {
    let pace = |drive: &DriveMetrics| {
        let bytes = moved_bytes(drive) as f64;
        (bytes > 0.0).then(|| (busy_ns(drive) as f64 / bytes, bytes))
    };
    let paces: Vec<(usize, (f64, f64))> = metrics
        .iter()
        .enumerate()
        .filter_map(|(index, drive)| Some((index, pace(drive)?)))
        .collect();
    let mut sorted: Vec<(f64, f64)> = paces.iter().map(|(_, pace)| *pace).collect();
    sorted.sort_unstable_by(|one, other| one.0.total_cmp(&other.0));
    // The lower of the two in the middle: of two drives, the faster one is the measure.
    let middle = sorted.get(sorted.len().saturating_sub(1) / 2);
    let Some(&(median, median_bytes)) = middle else { return Vec::new() };
    let is_asked_for_more = |bytes: f64| bytes > LIKE_LOAD * median_bytes;
    let times = |(index, (pace, bytes)): (usize, (f64, f64))| {
        let times = pace / median.max(f64::MIN_POSITIVE);
        (times >= SLOW_TIMES && !is_asked_for_more(bytes)).then_some((index, times))
    };
    paces.into_iter().filter_map(times).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drive(ios: u32, latency_us: u64) -> DriveMetrics {
        let mut metrics = DriveMetrics::default();
        (0..ios).for_each(|_| metrics.read.add(1 << 20, 1 << 20, latency_us * 1_000));
        metrics
    }

    #[test]
    fn a_drive_on_which_bytes_take_long_is_slow_and_an_idle_one_is_not() {
        let drives = [drive(100, 1_000), drive(90, 1_100), drive(30, 4_000), drive(0, 0)];
        let slow = slow_drives(&drives);
        assert_eq!(slow.len(), 1, "{slow:?}");
        assert_eq!(slow[0].0, 2);
        assert!((3.5..4.5).contains(&slow[0].1), "{slow:?}");
        assert_eq!(slow_drives(&[drive(10, 1_000), drive(10, 3_000)])[0].0, 1);
        assert!(slow_drives(&drives[..2]).is_empty());
        assert!(slow_drives(&[]).is_empty());
    }

    /// The larger of two equal drives, whose queue was sixteen times as deep, was called slow.
    #[test]
    fn a_drive_that_is_asked_for_more_is_not_slow_for_its_queue() {
        let asked_for = |ios| [drive(100, 1_000), drive(ios, 2_900)];
        assert!(slow_drives(&asked_for(560)).is_empty());
        assert!(slow_drives(&asked_for(120)).is_empty());
        assert_eq!(slow_drives(&asked_for(104))[0].0, 1);
        assert_eq!(slow_drives(&asked_for(20))[0].0, 1);
    }

    #[test]
    fn one_drive_did_all_there_was() {
        let mut engine = Metrics::default();
        engine.io_read.add(4096, 4096, 1_000);
        assert_eq!(metrics_by_drive(&engine, 1)[0].read, engine.io_read);
        assert_eq!(metrics_by_drive(&engine, 3).len(), 3);
        assert_eq!(bytes_by_drive(&engine), [4096]);
        engine.drives = vec![DriveMetrics::default(), drive(2, 1_000)];
        assert_eq!(bytes_by_drive(&engine), [0, 2 << 20]);
    }
}
