//! Count of distinct blocks in bounded memory: all digests while they fit, and then a sample of
//! them that is halved whenever it grows too large.
//!
//! The sample is chosen by the digests themselves: of sampling bits 0, 1, 2 … only digests whose
//! bits are all zero are kept (adaptive sampling: Wegman 1984; Flajolet, "On adaptive sampling",
//! 1990). All copies of a block are in the sample or none, so its ratio of blocks to distinct
//! blocks is that of the data, give or take 1.2 / √(distinct blocks in the sample).

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Parts that are locked one by one.
const PARTS: usize = 64;
/// Bits of a digest that choose the part; the highest.
const PART_BITS: u32 = PARTS.trailing_zeros();
/// Bytes of a slot: digest and count.
const SLOT_BYTES: u64 = 20;
/// Slots of a part at first.
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
    /// 0 is a free slot.
    slots: Vec<u128>,
    counts: Vec<u32>,
    slots_max: usize,
    used: usize,
    sampled_bits: u32,
}

impl Digests {
    /// Takes at most so much memory, bytes, but at least a few KiB a part.
    pub(super) fn new(bytes_max: u64) -> Digests {
        let slots = bytes_max / PARTS as u64 * GROWING.0 / GROWING.1 / SLOT_BYTES;
        let slots_max = usize::try_from(slots.max(1)).unwrap_or(usize::MAX / 2);
        // A power of two, rounded down.
        let slots_max = (1_usize << slots_max.ilog2()).max(SLOTS_MIN);
        let part = || Mutex::new(Part::new(slots_max));
        Digests { parts: (0..PARTS).map(|_| part()).collect() }
    }

    /// Distinct blocks that surely fit.
    pub(super) fn capacity(&self) -> u64 {
        // Parts are not filled alike: a tenth is left.
        let part = lock(&self.parts[0]).slots_max as u64;
        part * 3 / 4 * PARTS as u64 * 9 / 10
    }

    /// Counts blocks. Digests of the same part are best beside each other: each change of part
    /// takes a lock.
    pub(super) fn add(&self, digests: &mut [u128]) {
        digests.sort_unstable();
        for same in digests.chunk_by(|a, b| part_of(*a) == part_of(*b)) {
            let mut part = lock(&self.parts[part_of(same[0])]);
            same.iter().for_each(|digest| part.add(*digest));
        }
    }

    /// Returns the counts so far.
    pub(super) fn counted(&self) -> Counted {
        let mut all = Counted::default();
        for part in &self.parts {
            let part = lock(part);
            let weight = (1_u64 << part.sampled_bits) as f64;
            let blocks: u64 = part.counts.iter().map(|count| u64::from(*count)).sum();
            all.blocks += blocks as f64 * weight;
            all.distinct += part.used as f64 * weight;
            all.known += part.used as u64;
            all.sampled_bits = all.sampled_bits.max(part.sampled_bits);
        }
        all
    }
}

fn lock(part: &Mutex<Part>) -> MutexGuard<'_, Part> {
    // A panic while it was locked is a bug that ends the program anyway.
    part.lock().unwrap_or_else(PoisonError::into_inner)
}

fn part_of(digest: u128) -> usize {
    (digest >> (u128::BITS - PART_BITS)) as usize
}

impl Part {
    fn new(slots_max: usize) -> Part {
        Part {
            slots: vec![0; SLOTS_MIN],
            counts: vec![0; SLOTS_MIN],
            slots_max,
            used: 0,
            sampled_bits: 0,
        }
    }

    /// Whether a digest is in the sample: its bits below those of the part are zero.
    fn is_sampled(&self, digest: u128) -> bool {
        (digest << PART_BITS).leading_zeros() >= self.sampled_bits
    }

    fn add(&mut self, digest: u128) {
        if !self.is_sampled(digest) {
            return;
        }
        // One digest in 2^128 is taken for another.
        let digest = digest.max(1);
        self.put(digest, 1);
        if self.used * 4 > self.slots.len() * 3 {
            self.make_room();
        }
    }

    fn put(&mut self, digest: u128, count: u32) {
        let mask = self.slots.len() - 1;
        let mut place = digest as usize & mask;
        loop {
            match self.slots[place] {
                0 => {
                    self.slots[place] = digest;
                    self.counts[place] = count;
                    self.used += 1;
                    return;
                }
                known if known == digest => {
                    self.counts[place] = self.counts[place].saturating_add(count);
                    return;
                }
                _ => place = (place + 1) & mask,
            }
        }
    }

    fn make_room(&mut self) {
        let length = match self.slots.len() < self.slots_max {
            true => self.slots.len() * 2,
            false => {
                self.sampled_bits += 1;
                self.slots.len()
            }
        };
        let slots = std::mem::replace(&mut self.slots, vec![0; length]);
        let counts = std::mem::replace(&mut self.counts, vec![0; length]);
        self.used = 0;
        for (digest, count) in slots.into_iter().zip(counts) {
            if digest != 0 && self.is_sampled(digest) {
                self.put(digest, count);
            }
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
