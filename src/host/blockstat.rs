//! The kernel's own counters of a block device, `/sys/dev/block/M:m/stat`, beside which ours stand.

use std::path::Path;

use ringfall_core::nvme::block_directory;

use super::device::ChainLink;

/// One reading. Fields as in the kernel's `Documentation/block/stat.rst`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockCounters {
    /// Number of read requests that the device completed since boot.
    pub reads: u64,
    /// Bytes read (the file counts sectors of 512 bytes, whatever the device's block).
    pub read_bytes: u64,
    /// Number of write requests that the device completed since boot.
    pub writes: u64,
    /// Number of bytes written to the device since boot.
    pub write_bytes: u64,
    /// Requests in flight at the reading.
    pub in_flight: u64,
    /// Time with at least one request in flight, ms.
    pub busy_ms: u64,
    /// Time that the completed reads took, added up, ms.
    pub read_ms: u64,
    /// Time that the completed writes took, added up, ms.
    pub write_ms: u64,
    /// Time of all requests, those in flight too, added up, ms: over the time it is the depth.
    pub queue_ms: u64,
    /// Flushes completed; `None` before Linux 5.5.
    pub flushes: Option<u64>,
}

/// Differences of the kernel's counters for a device between two readings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockDelta {
    /// Name of the device under `/sys/block` (the disk, not the partition).
    pub device: String,
    /// Number of reads that completed.
    pub reads: u64,
    /// Bytes of the reads that completed.
    pub read_bytes: u64,
    /// Number of writes that completed.
    pub writes: u64,
    /// Bytes of the writes that completed.
    pub write_bytes: u64,
    /// Time with at least one request in flight, ms.
    pub busy_ms: u64,
    /// Sum of the times that the completed reads took, ms.
    pub read_ms: u64,
    /// Sum of the times that the completed writes took, ms.
    pub write_ms: u64,
    /// Sum of the times of all requests, including those still in flight, ms.
    pub queue_ms: u64,
    /// Number of flushes that completed; null before Linux 5.5.
    pub flushes: Option<u64>,
}

/// Bytes of a sector in the kernel's counters, whatever the device's block.
const SECTOR_BYTES: u64 = 512;

impl BlockCounters {
    /// Reads the counters of the disk `numbers` (`major:minor`); `None` where there is none.
    pub fn read(numbers: &str) -> Option<BlockCounters> {
        let path = block_directory(Path::new("/"), numbers).join("stat");
        BlockCounters::parse(&std::fs::read_to_string(path).ok()?)
    }

    /// Reads the counters of each of these devices; `None` for one that has none.
    pub fn of_links(links: &[ChainLink]) -> Vec<Option<BlockCounters>> {
        links.iter().map(|link| BlockCounters::read(&link.numbers)).collect()
    }

    /// Whether the disk's counters have NVMe passthrough commands in them: where that was asked for
    /// (Linux 6.13, `queue/iostats_passthrough`).
    pub fn have_passthrough(numbers: &str) -> bool {
        let directory = block_directory(Path::new("/"), numbers);
        let path = directory.join("queue/iostats_passthrough");
        std::fs::read_to_string(path).is_ok_and(|text| text.trim() == "1")
    }

    fn parse(text: &str) -> Option<BlockCounters> {
        let fields = text.split_ascii_whitespace().map(str::parse::<u64>);
        let fields: Vec<u64> = fields.collect::<Result<_, _>>().ok()?;
        let bytes = |index: usize| fields.get(index)?.checked_mul(SECTOR_BYTES);
        Some(BlockCounters {
            reads: *fields.first()?,
            read_bytes: bytes(2)?,
            writes: *fields.get(4)?,
            write_bytes: bytes(6)?,
            in_flight: *fields.get(8)?,
            busy_ms: *fields.get(9)?,
            read_ms: *fields.get(3)?,
            write_ms: *fields.get(7)?,
            queue_ms: *fields.get(10)?,
            flushes: fields.get(15).copied(),
        })
    }

    /// The counters of several disks as those of one: sums, and of the time with requests in flight
    /// the mean.
    pub fn together(all: &[BlockCounters]) -> Option<BlockCounters> {
        let sum = |of: fn(&BlockCounters) -> u64| all.iter().map(of).sum::<u64>();
        let count = u64::try_from(all.len()).ok().filter(|count| *count > 0)?;
        Some(BlockCounters {
            reads: sum(|one| one.reads),
            read_bytes: sum(|one| one.read_bytes),
            writes: sum(|one| one.writes),
            write_bytes: sum(|one| one.write_bytes),
            in_flight: sum(|one| one.in_flight),
            busy_ms: sum(|one| one.busy_ms) / count,
            read_ms: sum(|one| one.read_ms),
            write_ms: sum(|one| one.write_ms),
            queue_ms: sum(|one| one.queue_ms),
            flushes: all.iter().map(|one| one.flushes).sum(),
        })
    }
}

impl BlockDelta {
    /// Subtracts `before` from `after` for the disk of this name.
    pub fn between(device: &str, before: BlockCounters, after: BlockCounters) -> BlockDelta {
        let flushes = before.flushes.zip(after.flushes);
        BlockDelta {
            device: device.to_owned(),
            reads: after.reads.wrapping_sub(before.reads),
            read_bytes: after.read_bytes.wrapping_sub(before.read_bytes),
            writes: after.writes.wrapping_sub(before.writes),
            write_bytes: after.write_bytes.wrapping_sub(before.write_bytes),
            busy_ms: after.busy_ms.wrapping_sub(before.busy_ms),
            read_ms: after.read_ms.wrapping_sub(before.read_ms),
            write_ms: after.write_ms.wrapping_sub(before.write_ms),
            queue_ms: after.queue_ms.wrapping_sub(before.queue_ms),
            flushes: flushes.map(|(before, after)| after.wrapping_sub(before)),
        }
    }

    /// Subtracts one reading of all these devices from a later one; without those that either has
    /// no counters of.
    pub fn of_links(
        links: &[ChainLink],
        before: &[Option<BlockCounters>],
        after: &[Option<BlockCounters>],
    ) -> Vec<BlockDelta> {
        let pairs = before.iter().zip(after).zip(links);
        let deltas = pairs.filter_map(|((before, after), link)| {
            Some(BlockDelta::between(&link.name, (*before)?, (*after)?))
        });
        deltas.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_those_of_the_kernels_documentation() {
        let line = " 10 1 2048 7 20 2 4096 9 3 55 66 0 0 0 0 8 1\n";
        let counters = BlockCounters::parse(line).unwrap();
        assert_eq!((counters.reads, counters.read_bytes), (10, 2048 * 512));
        assert_eq!((counters.writes, counters.write_bytes), (20, 4096 * 512));
        assert_eq!((counters.in_flight, counters.busy_ms, counters.flushes), (3, 55, Some(8)));
        assert_eq!((counters.read_ms, counters.write_ms, counters.queue_ms), (7, 9, 66));
        let old = BlockCounters::parse("1 2 3 4 5 6 7 8 9 10 11").unwrap();
        assert_eq!(old.flushes, None);
        let delta = BlockDelta::between("sda", old, counters);
        assert_eq!((delta.reads, delta.flushes), (9, None));
    }

    #[test]
    fn disks_together_have_their_sums_and_the_mean_of_their_busy_time() {
        let one = BlockCounters { reads: 3, busy_ms: 10, flushes: Some(1), ..Default::default() };
        let other = BlockCounters { reads: 4, busy_ms: 30, flushes: None, ..Default::default() };
        let both = BlockCounters::together(&[one, other]).unwrap();
        assert_eq!((both.reads, both.busy_ms, both.flushes), (7, 20, None));
        assert_eq!(BlockCounters::together(&[one]), Some(one));
        assert_eq!(BlockCounters::together(&[]), None);
    }

    #[test]
    fn garbage_is_nothing() {
        for text in ["", "x", "1 2 3", "-1 2 3 4 5 6 7 8 9 10", "99999999999999999999"] {
            assert_eq!(BlockCounters::parse(text), None, "{text}");
        }
    }
}
