//! Count of distinct blocks in bounded memory: all digests while they fit, and then a sample of
//! them that is halved whenever it grows too large.
//!
//! The sample is chosen by the digests themselves: of sampling bits 0, 1, 2 … only digests whose
//! bits are all zero are kept (adaptive sampling: Wegman 1984; Flajolet, "On adaptive sampling",
//! 1990). All copies of a block are in the sample or none, so its ratio of blocks to distinct
//! blocks is that of the data, give or take 1.2 / √(distinct blocks in the sample).

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Mutex;

use crate::threads::locked;

/// Parts that are locked one by one.
const PARTS: usize = 64;
/// Bits of a digest that choose the part; the highest.
const PART_BITS: u32 = PARTS.trailing_zeros();
/// Bytes of a slot: digest and count, and what the table notes of it.
const SLOT_BYTES: u64 = 21;
/// Slots that a part may have at the least.
const SLOTS_MIN: usize = 64;
/// A part that is doubled exists twice for a moment: of what it may take, only two thirds count.
const GROWING: (u64, u64) = (2, 3);

/// Digests of blocks of one size, with how often each has come.
#[derive(Debug)]
pub(super) struct Digests {
    parts: Vec<Mutex<Part>>,
}

/// Counts of blocks, or estimates.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(super) struct Counted {
    /// Blocks, or an estimate.
    pub blocks: f64,
    /// Blocks that differ, or an estimate.
    pub distinct: f64,
    /// Distinct blocks that are known.
    pub known: u64,
    /// One in 2^this was looked at, at the least; 0 where the counts are exact.
    pub sampled_bits: u32,
}

#[derive(Debug)]
struct Part {
    /// Number of times that each digest has come. As bytes it takes no more than its length.
    counts: HashMap<[u8; 16], u32, BuildHasherDefault<OwnHash>>,
    distinct_max: usize,
    sampled_bits: u32,
}

/// Hash of a digest, which is one already: its second half, whose bits choose no part.
#[derive(Default)]
struct OwnHash(u64);

impl Hasher for OwnHash {
    fn write(&mut self, bytes: &[u8]) {
        // The length comes before the digest itself.
        if let Some(last) = bytes.last_chunk() {
            self.0 = u64::from_be_bytes(*last);
        }
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

impl Digests {
    /// Takes at most so much memory, bytes, but at least a few KiB a part.
    pub(super) fn new(bytes_max: u64) -> Digests {
        let slots = bytes_max / PARTS as u64 * GROWING.0 / GROWING.1 / SLOT_BYTES;
        let slots_max = usize::try_from(slots.max(1)).unwrap_or(usize::MAX / 2);
        // A power of two, rounded down.
        let slots_max = (1_usize << slots_max.ilog2()).max(SLOTS_MIN);
        // What a table of so many slots holds before it is doubled.
        let distinct_max = slots_max * 3 / 4;
        let part = || Part { counts: HashMap::default(), distinct_max, sampled_bits: 0 };
        Digests { parts: (0..PARTS).map(|_| Mutex::new(part())).collect() }
    }

    /// Distinct blocks that surely fit.
    pub(super) fn capacity(&self) -> u64 {
        // Parts are not filled alike: a tenth is left.
        locked(&self.parts[0]).distinct_max as u64 * PARTS as u64 * 9 / 10
    }

    /// Counts blocks. Digests of the same part are best beside each other: each change of part
    /// takes a lock.
    pub(super) fn add(&self, digests: &mut [u128]) {
        digests.sort_unstable();
        for same in digests.chunk_by(|a, b| part_of(*a) == part_of(*b)) {
            let mut part = locked(&self.parts[part_of(same[0])]);
            same.iter().for_each(|digest| part.add(*digest));
        }
    }

    pub(super) fn counted(&self) -> Counted {
        let mut all = Counted::default();
        for part in &self.parts {
            let part = locked(part);
            let weight = (1_u64 << part.sampled_bits) as f64;
            let blocks: u64 = part.counts.values().map(|count| u64::from(*count)).sum();
            all.blocks += blocks as f64 * weight;
            all.distinct += part.counts.len() as f64 * weight;
            all.known += part.counts.len() as u64;
            all.sampled_bits = all.sampled_bits.max(part.sampled_bits);
        }
        all
    }
}

fn part_of(digest: u128) -> usize {
    (digest >> (u128::BITS - PART_BITS)) as usize
}

/// Whether a digest is in a sample of so many bits: those below the bits of the part are zero.
fn is_sampled(digest: u128, sampled_bits: u32) -> bool {
    (digest << PART_BITS).leading_zeros() >= sampled_bits
}

impl Part {
    fn add(&mut self, digest: u128) {
        if !is_sampled(digest, self.sampled_bits) {
            return;
        }
        let count = self.counts.entry(digest.to_be_bytes()).or_default();
        *count = count.saturating_add(1);
        if self.counts.len() > self.distinct_max {
            self.sampled_bits += 1;
            let bits = self.sampled_bits;
            self.counts.retain(|digest, _| is_sampled(u128::from_be_bytes(*digest), bits));
        }
    }
}

#[cfg(test)]
mod tests {
    use ringfall_core::key::mix64;

    use super::*;

    fn digest(value: u64) -> u128 {
        u128::from(mix64(value ^ 0x5555)) << 64 | u128::from(mix64(value))
    }

    fn add(digests: &Digests, values: impl Iterator<Item = u64>) {
        let mut batch: Vec<u128> = values.map(digest).collect();
        digests.add(&mut batch);
    }

    #[test]
    fn counts_are_exact_while_they_fit() {
        let digests = Digests::new(64 << 20);
        add(&digests, (0..100_000).chain(0..50_000).chain(0..1));
        let counted = digests.counted();
        assert_eq!((counted.blocks, counted.distinct), (150_001.0, 100_000.0));
        assert_eq!((counted.known, counted.sampled_bits), (100_000, 0));
        assert!(digests.capacity() > 1_000_000);
    }

    #[test]
    fn a_sample_keeps_the_ratio_in_a_hundredth_of_the_memory() {
        let digests = Digests::new(400 << 10);
        for _ in 0..3 {
            add(&digests, 0..200_000);
        }
        add(&digests, 200_000..400_000);
        let counted = digests.counted();
        assert!(counted.sampled_bits >= 4 && counted.known < 12_000, "{counted:?}");
        // 800,000 blocks of which 400,000 differ: 2.
        let ratio = counted.blocks / counted.distinct;
        assert!((ratio - 2.0).abs() < 0.1, "{counted:?}");
        assert!((counted.distinct / 400_000.0 - 1.0).abs() < 0.1, "{counted:?}");
    }

    #[test]
    fn data_without_duplicates_has_none_in_any_sample() {
        let digests = Digests::new(100 << 10);
        add(&digests, 0..300_000);
        let counted = digests.counted();
        assert!(counted.sampled_bits > 0);
        assert!((counted.blocks - counted.distinct).abs() < f64::EPSILON, "{counted:?}");
    }
}
