//! The space of one drive for the whole engine, leased to shards in segments. Space may come in
//! steps:
//! what has not come yet belongs to nobody, and the limit falls when no more can be had.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

use super::growth::Lack;
use crate::drive::DriveId;

/// A segment a shard holds. Dropping it without giving it back loses its space for the run.
#[must_use]
#[derive(PartialEq, Eq, Debug)]
pub struct SegmentLease {
    /// The drive it lies on.
    pub drive: DriveId,
    /// Its number in the data file or on the device, which all shards share.
    pub number: u64,
    /// Its blocks; only a drive's last segment is shorter than the rest.
    pub blocks: u64,
}

/// Number of full and of short segments in a lease.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Lot {
    pub(super) full: u64,
    pub(super) short: bool,
}

/// Passes over the bitmap in search of a bit that was counted. Each pass that finds none was
/// crossed by another shard that took one and gave one back meanwhile: a few in a row are rare.
const CLAIM_PASSES_MAX: u32 = 10_000;

/// The segments nobody holds. `available` is the authority: its low bit says whether the short last
/// segment is free, the bits above count the full ones. The bitmap says which; a bit is set before
/// it is counted, so whoever has counted down finds a bit.
#[derive(Debug)]
pub(super) struct StoragePool {
    /// Blocks that it may come to have: what it has, while no more can be had.
    limit_blocks: AtomicU64,
    /// Blocks that have space, from block 0 on: whole segments, or all of the limit. Changed by one
    /// shard at a time (`SharedBudgets::begin_growth`).
    grown_blocks: AtomicU64,
    segment_blocks: u64,
    /// Whole segments in the limit at first.
    full_segments: u64,
    /// Blocks of the limit at first beyond these: the short segment.
    short_blocks: u64,
    available: AtomicU64,
    bitmap: Box<[AtomicU64]>,
    /// Whether a shard takes a step of growth.
    pub(super) is_growing: AtomicBool,
    pub(super) lack: Lack,
    /// The drive is lost: nothing of it is given out any more.
    is_lost: AtomicBool,
}

impl StoragePool {
    /// A pool for `capacity_blocks`, of which `grown_blocks` (rounded down to whole segments) have
    /// space already.
    pub(super) fn new(capacity_blocks: u64, segment_blocks: u64, grown_blocks: u64) -> Self {
        assert!(segment_blocks > 0, "a segment holds at least one block");
        let full_segments = capacity_blocks / segment_blocks;
        let pool = StoragePool {
            limit_blocks: AtomicU64::new(capacity_blocks),
            grown_blocks: AtomicU64::new(0),
            segment_blocks,
            full_segments,
            short_blocks: capacity_blocks % segment_blocks,
            available: AtomicU64::new(0),
            bitmap: (0..full_segments.div_ceil(64)).map(|_| AtomicU64::new(0)).collect(),
            is_growing: AtomicBool::new(false),
            lack: Lack::default(),
            is_lost: AtomicBool::new(false),
        };
        pool.grow_to(grown_blocks);
        pool
    }

    pub(super) fn wanted_blocks(&self) -> u64 {
        self.full_segments * self.segment_blocks + self.short_blocks
    }

    /// The blocks up to `blocks` have space, and more may come. One caller at a time.
    pub(super) fn grow_to(&self, blocks: u64) {
        let before = self.grown_blocks.load(SeqCst);
        let limit = self.wanted_blocks();
        self.limit_blocks.store(limit, SeqCst);
        let is_all = blocks >= limit;
        let blocks =
            if is_all { limit } else { blocks / self.segment_blocks * self.segment_blocks };
        if blocks <= before {
            return;
        }
        let full = |blocks: u64| blocks / self.segment_blocks;
        for number in full(before)..full(blocks) {
            self.word(number / 64).fetch_or(1 << (number % 64), SeqCst);
        }
        // Ahead of the count, so that whoever has counted down looks far enough for a bit.
        self.grown_blocks.store(blocks, SeqCst);
        let short = u64::from(blocks % self.segment_blocks > 0);
        self.available.fetch_add((full(blocks) - full(before)) << 1 | short, SeqCst);
    }

    /// No more can be had: what it has is all there is, until it grows again.
    pub(super) fn stop_growing(&self) {
        self.limit_blocks.store(self.grown_blocks.load(SeqCst), SeqCst);
    }

    pub(super) fn grown_blocks(&self) -> u64 {
        self.grown_blocks.load(SeqCst)
    }

    /// Nothing of it is given out from now on. Whether that is news.
    pub(super) fn lose(&self) -> bool {
        !self.is_lost.swap(true, SeqCst)
    }

    pub(super) fn is_lost(&self) -> bool {
        self.is_lost.load(SeqCst)
    }

    /// Whether more may come.
    pub(super) fn can_grow(&self) -> bool {
        !self.is_lost() && self.grown_blocks.load(SeqCst) < self.limit_blocks.load(SeqCst)
    }

    /// Blocks that it may come to have: none, once its drive is lost.
    pub(super) fn capacity_blocks(&self) -> u64 {
        if self.is_lost() { 0 } else { self.limit_blocks.load(SeqCst) }
    }

    /// Blocks that may still come.
    pub(super) fn blocks_to_come(&self) -> u64 {
        self.capacity_blocks().saturating_sub(self.grown_blocks())
    }

    fn word(&self, index: u64) -> &AtomicU64 {
        &self.bitmap[usize::try_from(index).expect("it indexes memory")]
    }

    pub(super) fn segment_blocks(&self) -> u64 {
        self.segment_blocks
    }

    pub(super) fn short_blocks(&self) -> u64 {
        self.short_blocks
    }

    /// The number of the short segment: the last.
    pub(super) fn short_number(&self) -> u64 {
        self.full_segments
    }

    /// Blocks that have space and that nobody holds.
    pub(super) fn available_blocks(&self) -> u64 {
        self.blocks_in(self.available.load(SeqCst))
    }

    fn blocks_in(&self, available: u64) -> u64 {
        (available >> 1) * self.segment_blocks + (available & 1) * self.short_blocks
    }

    /// The fewest segments that hold `blocks`, all or none.
    pub(super) fn try_lease(&self, blocks: u64) -> Option<Lot> {
        if self.is_lost() {
            return None;
        }
        let mut lot = None;
        self.available
            .fetch_update(SeqCst, SeqCst, |available| {
                lot = self.choose(blocks, available);
                lot.map(|lot| available - (lot.full << 1) - u64::from(lot.short))
            })
            .ok()?;
        lot
    }

    fn choose(&self, blocks: u64, available: u64) -> Option<Lot> {
        let full = blocks.div_ceil(self.segment_blocks);
        if full <= available >> 1 {
            return Some(Lot { full, short: false });
        }
        if self.blocks_in(available) < blocks {
            return None;
        }
        // All full ones together do not do, so the short one is free and needed.
        Some(Lot { full: available >> 1, short: true })
    }

    /// Picks the number of one full segment of a lot, near `part` 0..`parts` of the space, so that
    /// a shard's segments lie together.
    ///
    /// # Panics
    /// When the space has fewer free segments than were counted, which our own code never does: no
    /// pass of [`CLAIM_PASSES_MAX`] has found one.
    pub(super) fn claim_number(&self, part: u64, parts: u64) -> u64 {
        for _pass in 0..CLAIM_PASSES_MAX {
            let words = (self.grown_blocks() / self.segment_blocks).div_ceil(64);
            let first = words * part / parts;
            for index in (first..words).chain(0..first) {
                let cleared = self
                    .word(index)
                    .fetch_update(SeqCst, SeqCst, |bits| (bits != 0).then(|| bits & (bits - 1)));
                if let Ok(bits) = cleared {
                    return index * 64 + u64::from(bits.trailing_zeros());
                }
            }
            // The counter promised a bit; it was set ahead of a word already looked at.
            std::thread::yield_now();
        }
        panic!(
            "{} blocks of {} are counted as free, and no segment is",
            self.available_blocks(),
            self.grown_blocks()
        );
    }

    /// Takes a segment back.
    pub(super) fn put_back(&self, lease: &SegmentLease) {
        let short = lease.blocks < self.segment_blocks;
        if !short {
            let bit = 1 << (lease.number % 64);
            let before = self.word(lease.number / 64).fetch_or(bit, SeqCst);
            assert!(before & bit == 0, "segment {} was given back twice", lease.number);
        }
        self.available.fetch_add(if short { 1 } else { 2 }, SeqCst);
    }
}
