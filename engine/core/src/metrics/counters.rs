//! Everything a shard counts in a measurement window.

use super::counts::counters;
use super::{Counts, Histogram};
use crate::error::{ErrorKind, IoError, Operation};
use crate::key::{TIER_COUNT, Tier};
use crate::units::BLOCK_BYTES;

/// Operations (one entry read or written) of one tier in one direction.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DirectionMetrics {
    /// Bytes of entries whose operation finished in the window (KV bytes, not rounded to blocks).
    pub entry_bytes: u64,
    /// From asking to done, less a write's wait for its tier to have room; its count is the number
    /// of operations.
    pub total: Histogram,
    /// First submit to last completion (CPU tier: making the bytes in its memory, or reading them).
    pub device: Histogram,
    /// Total minus device: buffers, queue places, filling, verifying.
    pub host: Histogram,
}

/// Both directions of a tier.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TierMetrics {
    /// Reads of entries from this tier.
    pub read: DirectionMetrics,
    /// Writes of entries to this tier.
    pub write: DirectionMetrics,
}

/// Single I/Os of one direction on the storage device.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct IoMetrics {
    /// Bytes completed in the window, counted when each I/O completed (whole blocks).
    pub bytes: u64,
    /// Those of `bytes` that belong to an entry: without the rest of its last block.
    pub entry_bytes: u64,
    /// Submit to completion; its count is the number of I/Os.
    pub latency: Histogram,
    /// I/Os and their bytes by size: [`size_class`].
    pub sizes: [SizeCount; SIZE_CLASSES],
}

/// I/Os of one size class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SizeCount {
    /// Number of I/Os of this class that completed.
    pub count: u64,
    /// Bytes that these I/Os moved.
    pub bytes: u64,
}

/// Classes of sizes, each an octave: from 4 KiB to 64 MiB, the largest I/O there is.
pub const SIZE_CLASSES: usize = 15;

/// The class of a size: 0 from 4 KiB (and below), 1 from 8 KiB …
pub fn size_class(bytes: u64) -> usize {
    ((bytes / BLOCK_BYTES).max(1).ilog2() as usize).min(SIZE_CLASSES - 1)
}

/// Demotions between a tier and the next one down, or deletions from the last.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EvictionMetrics {
    /// Bytes of the entries moved or deleted.
    pub bytes: u64,
    /// Entries moved or deleted.
    pub entries: u64,
    /// For the lower tier to have room, before the read.
    pub room: Histogram,
    /// The read from the upper tier.
    pub read: Histogram,
    /// The write to the lower tier.
    pub write: Histogram,
}

/// Entries moved up from a tier after a hit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PromotionMetrics {
    /// Number of entries that were moved.
    pub entries: u64,
    /// Sum of the sizes of these entries, bytes.
    pub bytes: u64,
}

/// Time spent waiting for something of the engine.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WaitMetrics {
    /// For a tier to have room.
    pub room: Histogram,
    /// Part of that in which the tier took memory or space for the first time; of those writes
    /// alone that had to wait for it.
    pub growth: Histogram,
    /// For a buffer of the pool.
    pub buffer: Histogram,
    /// For a place in the device queue.
    pub queue_place: Histogram,
}

/// Blocks that verification compared with what was written, and how many differed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VerifyMetrics {
    /// 4 KiB blocks compared with what was written.
    pub blocks_checked: u64,
    /// Number of compared 4 KiB blocks that differed from what was written.
    pub blocks_bad: u64,
}

/// Failures of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorRecord {
    /// Class of the failure.
    pub kind: ErrorKind,
    /// Operation in which the error came.
    pub operation: Operation,
    /// Positive errno, or 0.
    pub errno: i32,
    /// Number of failures of this kind, 1 or more.
    pub count: u64,
    /// The first of them, whole.
    pub first: IoError,
}

/// I/Os of one of several drives.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DriveMetrics {
    /// Single reads from it.
    pub read: IoMetrics,
    /// Single writes to it.
    pub write: IoMetrics,
    /// `fdatasync` calls on it.
    pub flush: IoMetrics,
    /// I/Os on it that failed for good.
    pub errors: u64,
}

counters! {
    /// Bytes between GPU memory and storage or host memory, by the way they took.
    pub struct GpuMoves {
        /// Read from storage into GPU memory with no host memory between.
        direct_read_bytes,
        /// Written from GPU memory to storage with no host memory between.
        direct_write_bytes,
        /// Read from storage and copied from the I/O buffers into GPU memory.
        buffered_read_bytes,
        /// Copied from GPU memory to the I/O buffers and written to storage.
        buffered_write_bytes,
        /// Copied between GPU memory and the CPU tier, whose memory was page-locked there.
        host_locked_bytes,
        /// Copied between GPU memory and the CPU tier where its memory was not page-locked.
        host_pageable_bytes,
    }
}

/// One shard's window, or the sum of several.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Metrics {
    /// Reads and writes of entries in each tier, by [`Tier::index`].
    pub tiers: [TierMetrics; TIER_COUNT],
    /// Single reads from the storage device.
    pub io_read: IoMetrics,
    /// Single writes to the storage device.
    pub io_write: IoMetrics,
    /// Flushes (`fdatasync`) of the storage device; they move no bytes of their own.
    pub io_flush: IoMetrics,
    /// The same by drive where there are several; empty where there is one.
    pub drives: Vec<DriveMetrics>,
    /// By the tier evicted from, [`Tier::index`], to the next one down.
    pub evictions: [EvictionMetrics; TIER_COUNT],
    /// From the GPU tier past the CPU tier, which did not hold them, to storage.
    pub evictions_gpu_to_storage: EvictionMetrics,
    /// By the tier promoted from, then the one promoted to, [`Tier::index`].
    pub promotions: [[PromotionMetrics; TIER_COUNT]; TIER_COUNT],
    /// Bytes between GPU memory and the rest, by their way.
    pub gpu_moves: GpuMoves,
    /// Time that operations waited for room, buffers and places in the device queue.
    pub waits: WaitMetrics,
    /// Counters of verification: data compared after reading, and differences found.
    pub verify: VerifyMetrics,
    /// Bytes written to storage blocks that had been preallocated but never written before.
    pub first_touch_bytes: u64,
    /// Entries refused because they were larger than the last tier.
    pub refused_entries: u64,
    /// All other counters, by name.
    pub counts: Counts,
    /// Short transfers that were resumed.
    pub short_transfers: u64,
    /// I/Os retried after `EAGAIN` or `EINTR`.
    pub retries: u64,
    /// Failures by kind, operation, errno and tier: at most a handful of rows.
    pub errors: Vec<ErrorRecord>,
}

/// Sums to which others' are added.
trait Merge {
    /// Adds what another shard or run counted.
    fn merge(&mut self, other: &Self);
}

impl Merge for u64 {
    fn merge(&mut self, other: &Self) {
        *self += other;
    }
}

impl Merge for Histogram {
    fn merge(&mut self, other: &Self) {
        Histogram::merge(self, other);
    }
}

impl<T: Merge, const N: usize> Merge for [T; N] {
    fn merge(&mut self, other: &Self) {
        self.iter_mut().zip(other).for_each(|(mine, theirs)| mine.merge(theirs));
    }
}

macro_rules! merge_fields {
    ($mine:ident, $theirs:ident: $($field:ident),+) => {
        $(Merge::merge(&mut $mine.$field, &$theirs.$field);)+
    };
}

/// Has structs merged field by field.
macro_rules! merge_structs {
    ($($name:ident: $($field:ident),+;)+) => {
        $(impl Merge for $name {
            fn merge(&mut self, other: &Self) {
                merge_fields!(self, other: $($field),+);
            }
        })+
    };
}

merge_structs! {
    DirectionMetrics: entry_bytes, total, device, host;
    TierMetrics: read, write;
    IoMetrics: bytes, entry_bytes, latency, sizes;
    SizeCount: count, bytes;
    DriveMetrics: read, write, flush, errors;
    EvictionMetrics: bytes, entries, room, read, write;
    PromotionMetrics: entries, bytes;
    WaitMetrics: room, growth, buffer, queue_place;
    VerifyMetrics: blocks_checked, blocks_bad;
}

impl IoMetrics {
    /// Counts an I/O of `bytes`, of which `entry_bytes` belong to an entry.
    pub fn add(&mut self, bytes: u64, entry_bytes: u64, latency_ns: u64) {
        self.bytes += bytes;
        self.entry_bytes += entry_bytes;
        self.latency.record(latency_ns);
        let size = &mut self.sizes[size_class(bytes)];
        size.count += 1;
        size.bytes += bytes;
    }
}

impl Metrics {
    /// Counts a failed I/O under its kind, operation, errno and tier, and keeps the first of each
    /// whole.
    pub fn record_error(&mut self, error: &IoError) {
        let first = error.clone();
        let IoError { kind, operation, errno, .. } = *error;
        self.add_errors(&ErrorRecord { kind, operation, errno, count: 1, first });
    }

    fn add_errors(&mut self, row: &ErrorRecord) {
        let found = self.errors.iter_mut().find(|mine| {
            (mine.kind, mine.operation, mine.errno) == (row.kind, row.operation, row.errno)
                && mine.first.tier == row.first.tier
        });
        match found {
            Some(mine) => mine.count += row.count,
            None => self.errors.push(row.clone()),
        }
    }

    /// Number of I/Os that failed, of all kinds.
    pub fn error_count(&self) -> u64 {
        self.errors.iter().map(|row| row.count).sum()
    }

    /// Entries that left the tier to make room.
    pub fn evicted_entries(&self, from: Tier) -> u64 {
        let past = if from == Tier::Gpu { self.evictions_gpu_to_storage.entries } else { 0 };
        self.evictions[from.index()].entries + past
    }

    /// Bytes of the entries that left the tier to make room.
    pub fn evicted_bytes(&self, from: Tier) -> u64 {
        let past = if from == Tier::Gpu { self.evictions_gpu_to_storage.bytes } else { 0 };
        self.evictions[from.index()].bytes + past
    }

    /// Promotions to the tier by hits.
    pub fn promoted_to(&self, tier: Tier) -> PromotionMetrics {
        let rows = self.promotions.iter().map(|row| row[tier.index()]);
        rows.fold(PromotionMetrics::default(), |sum, row| PromotionMetrics {
            entries: sum.entries + row.entries,
            bytes: sum.bytes + row.bytes,
        })
    }

    /// The counters of that one of several drives.
    pub fn drive(&mut self, index: usize) -> &mut DriveMetrics {
        if self.drives.len() <= index {
            self.drives.resize_with(index + 1, DriveMetrics::default);
        }
        &mut self.drives[index]
    }

    /// Reads and writes of entries in one tier.
    pub fn tier(&self, tier: Tier) -> &TierMetrics {
        &self.tiers[tier.index()]
    }

    /// Adds another shard's window.
    pub fn merge(&mut self, other: &Metrics) {
        for (index, theirs) in other.drives.iter().enumerate() {
            self.drive(index).merge(theirs);
        }
        other.errors.iter().for_each(|row| self.add_errors(row));
        self.gpu_moves.merge(&other.gpu_moves);
        self.counts.merge(&other.counts);
        merge_fields!(
            self, other: tiers, io_read, io_write, io_flush, evictions, evictions_gpu_to_storage,
            promotions, waits, verify, first_touch_bytes, refused_entries, short_transfers, retries
        );
    }
}
