//! Which blocks of a file have ever been written: a set of ranges that grow together.

use std::cell::RefCell;
use std::collections::BTreeMap;

/// A set of block ranges. Adding is O(log ranges); in use ranges merge, so there are few.
#[derive(Debug, Default)]
pub struct TouchedRanges {
    /// Start to end (exclusive), disjoint and not adjacent.
    ranges: RefCell<BTreeMap<u64, u64>>,
}

impl TouchedRanges {
    /// Adds `start..start + blocks`; returns how many of them were not in the set.
    pub fn touch(&self, start: u64, blocks: u64) -> u64 {
        if blocks == 0 {
            return 0;
        }
        let ranges = &mut *self.ranges.borrow_mut();
        let (mut low, mut high) = (start, start + blocks);
        if let Some((&before, &end)) = ranges.range(..=start).next_back()
            && end >= high
        {
            // The common case once the file is warm: already inside one range.
            debug_assert!(before <= start);
            return 0;
        }
        let mut new = blocks;
        let overlapping = |ranges: &BTreeMap<u64, u64>, low: u64, high: u64| {
            ranges.range(..=high).next_back().map(|(&s, &e)| (s, e)).filter(|&(_, e)| e >= low)
        };
        while let Some((other, end)) = overlapping(ranges, low, high) {
            let shared = end.min(start + blocks).saturating_sub(other.max(start));
            new -= shared;
            ranges.remove(&other);
            low = low.min(other);
            high = high.max(end);
        }
        ranges.insert(low, high);
        new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_each_block_once_against_a_bitmap() {
        let mut state = 0x9e37_79b9_u64;
        for _ in 0..50 {
            let (touched, mut bitmap) = (TouchedRanges::default(), [false; 512]);
            for _ in 0..80 {
                state = crate::key::mix64(state.wrapping_add(1));
                let start = state % 500;
                let blocks = (state >> 32) % 40 % (513 - start);
                let range = start as usize..(start + blocks) as usize;
                let expected = bitmap[range.clone()].iter().filter(|&&b| !b).count() as u64;
                bitmap[range].fill(true);
                assert_eq!(touched.touch(start, blocks), expected);
            }
        }
    }
}
