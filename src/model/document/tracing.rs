//! The block layer's counts under the reference benchmark's own key: its histograms by name, each
//! with its buckets and with the lines that bpftrace would have printed for them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::figure::shapes;
use crate::facts::{BlockDirection, BlockTraceFigures, Bucket, SizeCell, counts_by_key};

/// Width of a bucket of places on the device, GiB, as in the reference's script.
const PLACE_BUCKET_GIB: u64 = 10;
/// Parts of the device that places are counted in ([`BlockTraceFigures::heat`]).
const PARTS: u64 = 256;
/// Characters of the longest bar.
const BAR_LENGTH: usize = 52;

/// Histograms of the block layer by name: `d2c_*_us` is the time from issue to the device until
/// completion, `q2d_*_us` the time in the I/O scheduler, `bssplit_*_kb` the sizes, `qd_*` the
/// requests in flight, and `lba_*_gb` the positions on the device. Differs from the reference,
/// which also traces calls of the file system (`vfs_*`, `fsync_us` and the gaps between them):
/// ringfall makes none of these calls.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct DeviceLatencyTracing(pub BTreeMap<String, TracedHistogram>);

/// One histogram of the block layer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct TracedHistogram {
    /// Buckets that are not empty, lowest first.
    pub buckets: Vec<TracedBucket>,
    /// The histogram as bpftrace prints it, one string per line.
    pub raw: Vec<String>,
}

/// One bucket of a histogram.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct TracedBucket {
    /// Lowest value of the bucket, and the first value above it, in the unit of the histogram's
    /// name, whatever the name of this key says.
    pub range_us: [u64; 2],
    /// Number of values in the bucket.
    pub count: u64,
}

shapes!(DeviceLatencyTracing);

impl DeviceLatencyTracing {
    /// Converts a trace of a device of `device_bytes`, if that is known.
    pub(super) fn of(trace: &BlockTraceFigures, device_bytes: Option<u64>) -> Self {
        let mut all = BTreeMap::new();
        for (name, of) in [("read", &trace.read), ("write", &trace.write)] {
            let times = |buckets: &[Bucket]| {
                let each = buckets.iter().map(|b| (b.low, b.high.saturating_add(1), b.count));
                histogram(each)
            };
            all.insert(format!("d2c_{name}_us"), times(&of.issue_to_complete_us));
            all.insert(format!("q2d_{name}_us"), times(&of.insert_to_issue_us));
            all.insert(format!("qd_{name}"), times(&of.depth));
            all.insert(format!("bssplit_{name}_kb"), sizes(of));
            if let Some(bytes) = device_bytes {
                let cells = trace.heat.iter().map(|cell| {
                    (u64::from(cell.part), if name == "read" { cell.reads } else { cell.writes })
                });
                all.insert(format!("lba_{name}_gb"), places(cells, bytes));
            }
        }
        all.retain(|_, histogram| !histogram.buckets.is_empty());
        DeviceLatencyTracing(all)
    }
}

/// Sizes by octaves of KiB, as the reference's script counts them.
fn sizes(of: &BlockDirection) -> TracedHistogram {
    let octave = |cell: &SizeCell| {
        let kib = cell.bytes / 1024;
        let low: u64 = kib.checked_ilog2().map_or(0, |octave| 1 << octave);
        let high = if low == 0 { 1 } else { low.saturating_mul(2) };
        ((low, high), cell.count)
    };
    let octaves = counts_by_key(of.sizes.iter().map(octave));
    histogram(octaves.into_iter().map(|((low, high), count)| (low, high, count)))
}

/// Places by 10 GiB: each part of the device counts where it begins.
fn places(cells: impl Iterator<Item = (u64, u64)>, device_bytes: u64) -> TracedHistogram {
    let place = |(part, count): (u64, u64)| {
        let begin = u128::from(part) * u128::from(device_bytes) / u128::from(PARTS);
        let gib = (begin >> 30) as u64;
        (gib / PLACE_BUCKET_GIB * PLACE_BUCKET_GIB, count)
    };
    let buckets = counts_by_key(cells.map(place));
    histogram(buckets.into_iter().map(|(low, count)| (low, low + PLACE_BUCKET_GIB, count)))
}

fn histogram(buckets: impl Iterator<Item = (u64, u64, u64)>) -> TracedHistogram {
    let buckets: Vec<TracedBucket> = buckets
        .filter(|&(_, _, count)| count > 0)
        .map(|(low, high, count)| TracedBucket { range_us: [low, high], count })
        .collect();
    let most = buckets.iter().map(|bucket| bucket.count).max().unwrap_or(1);
    let line = |bucket: &TracedBucket| {
        let [low, high] = bucket.range_us;
        // At most the length: the count is at most the largest.
        let marks = (u128::from(bucket.count) * BAR_LENGTH as u128 / u128::from(most)) as usize;
        let bar = "@".repeat(marks);
        format!("{:<16} {:>8} |{bar:<BAR_LENGTH$}|", format!("[{low}, {high})"), bucket.count)
    };
    let raw = buckets.iter().map(line).collect();
    TracedHistogram { buckets, raw }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::HeatCell;

    #[test]
    fn a_trace_has_the_references_histograms() {
        let bucket = |low, high, count| Bucket { low, high, count };
        let read = BlockDirection {
            issue_to_complete_us: vec![bucket(64, 127, 3), bucket(128, 255, 6)],
            sizes: vec![
                SizeCell { bytes: 512, count: 1 },
                SizeCell { bytes: 4096, count: 2 },
                SizeCell { bytes: 7 << 10, count: 5 },
            ],
            ..BlockDirection::default()
        };
        // Of 2,560 GiB each part is 10 GiB.
        let heat =
            [(0, 4), (255, 1)].map(|(part, reads)| HeatCell { part, reads, writes: 0 }).to_vec();
        let trace = BlockTraceFigures { read, heat, ..BlockTraceFigures::default() };
        let DeviceLatencyTracing(all) = DeviceLatencyTracing::of(&trace, Some(2_560 << 30));
        let rows = |name: &str| {
            let buckets = &all[name].buckets;
            buckets.iter().map(|b| (b.range_us, b.count)).collect::<Vec<_>>()
        };
        assert_eq!(rows("d2c_read_us"), [([64, 128], 3), ([128, 256], 6)]);
        assert_eq!(rows("bssplit_read_kb"), [([0, 1], 1), ([4, 8], 7)]);
        assert_eq!(rows("lba_read_gb"), [([0, 10], 4), ([2550, 2560], 1)]);
        assert_eq!(all.len(), 3, "what was not seen is not there: {:?}", all.keys());
        // As the reference reads bpftrace's lines: a range, a count, a bar.
        let lines = &all["d2c_read_us"].raw;
        assert_eq!(lines[0], format!("{:<16} {:>8} |{:<52}|", "[64, 128)", 3, "@".repeat(26)));
        assert!(lines[1].ends_with(&format!("|{}|", "@".repeat(52))));
        let without_size = DeviceLatencyTracing::of(&trace, None);
        assert!(!without_size.0.contains_key("lba_read_gb"));
    }
}
