//! Reuse of prompt blocks under LRU: exact hits for any number of capacities in one pass over the
//! requests.
//!
//! An unbounded list of blocks, the most recently used first, holds the content of a cache of each
//! capacity at once: one of C blocks holds the first C of the list, because every block of a prompt
//! is moved or inserted at the front, wherever it was found. The rules of a request are these:
//!
//! - All of its blocks are looked up before any of them is touched, so a request never finds what
//!   it brings itself, and a block that it names twice counts alike both times.
//! - A block is found with capacity C if it *and all before it in the request* stand within the
//!   first C of the list, as the KV of a block is of use only together with all before it. So the
//!   capacity that a block needs is the largest depth of the prefix that ends with it.
//! - Then the blocks are touched from the last to the first. Heads, which more requests share,
//!   outlive tails, and of a prompt longer than the cache its head stays.
//! - Nothing but blocks of prompts is stored: traces do not name those of answers.

use std::collections::BTreeMap;

use crate::tiers::PairCounts;

/// Places of touches before the first compaction.
const PLACES_MIN: u32 = 1 << 16;

/// Blocks that are told apart at most: places are 32 bits, and there are up to four times as many.
pub const BLOCKS_MAX: u64 = 1 << 30;

/// Memory of a block at worst, bytes. A leaf of the tree of blocks has 5 to 11 of them in 160
/// bytes, and the nodes above it add 9 bytes a block: 41 bytes. Its share of the places is 4 × 4
/// bytes, twice for a moment when they are doubled.
pub const BLOCK_BYTES: u64 = 73;

/// The list of blocks with the counts for each capacity. A block takes O(log n) steps, n being the
/// number of distinct ones.
#[derive(Debug)]
pub struct PrefixReuse {
    /// Counts for pairs of tiers, where they are wanted.
    pub tiers: Option<PairCounts>,
    block_tokens: u64,
    /// Place of the last touch of each block.
    places: BTreeMap<u64, u32>,
    touches: Touches,
    capacities: Vec<u64>,
    /// Tokens of which that capacity is the smallest that finds them; at the end, of which none is.
    found_tokens: Vec<u64>,
}

impl PrefixReuse {
    /// Creates the empty list; `block_tokens` is the size of a block, and `capacities`, in blocks
    /// and in any order, are those for which hits are counted.
    pub fn new(block_tokens: u32, capacities: Vec<u64>) -> PrefixReuse {
        PrefixReuse::with_places(PLACES_MIN, block_tokens, capacities)
    }

    fn with_places(places: u32, block_tokens: u32, mut capacities: Vec<u64>) -> PrefixReuse {
        capacities.sort_unstable();
        capacities.dedup();
        PrefixReuse {
            tiers: None,
            block_tokens: block_tokens.into(),
            places: BTreeMap::new(),
            touches: Touches::new(places),
            found_tokens: vec![0; capacities.len() + 1],
            capacities,
        }
    }

    /// Looks up the blocks of a prompt of so many tokens, counts what is found, and touches them.
    /// The last block may be a partial one: its tokens are those that are left.
    pub fn request(&mut self, blocks: &[u64], input_tokens: u64) {
        let (mut needed, mut left) = (0, input_tokens);
        for block in blocks {
            let Some(&place) = self.places.get(block) else { break };
            let depth = self.touches.depth(place);
            needed = depth.max(needed);
            let tokens = self.block_tokens.min(left);
            left -= tokens;
            let smallest = self.capacities.partition_point(|&capacity| capacity < needed);
            self.found_tokens[smallest] += tokens;
            if let Some(tiers) = &mut self.tiers {
                tiers.found(depth, needed, tokens);
            }
        }
        for &block in blocks.iter().rev() {
            if let Some(tiers) = &mut self.tiers {
                let depth = self.places.get(&block).map(|place| self.touches.depth(*place));
                tiers.stored(depth, self.places.len() as u64);
            }
            self.touch(block);
        }
    }

    /// Number of distinct blocks so far.
    pub fn distinct_blocks(&self) -> u64 {
        self.places.len() as u64
    }

    /// Tokens found by a cache that holds everything.
    pub fn found_unbounded(&self) -> u64 {
        self.found_tokens.iter().sum()
    }

    /// Tokens found by a cache of so many blocks; none where its hits were not counted.
    pub fn found_with(&self, capacity_blocks: u64) -> Option<u64> {
        let at = self.capacities.binary_search(&capacity_blocks).ok()?;
        Some(self.found_tokens[..=at].iter().sum())
    }

    fn touch(&mut self, block: u64) {
        if self.touches.is_full() {
            for place in self.places.values_mut() {
                *place = self.touches.rank(*place);
            }
            self.touches.restart(self.places.len() as u32);
        }
        let place = self.touches.push();
        if let Some(before) = self.places.insert(block, place) {
            self.touches.remove(before);
        }
    }
}

/// Touches in their order, of which those that are not the last of their block are removed: a
/// Fenwick tree (Fenwick 1994) over their places, from 1. When all places are taken, those that
/// remain are numbered anew, and the places doubled where that would free less than half of them.
#[derive(Debug)]
struct Touches {
    /// At i: the number that remain at the places above i - (i & -i), up to i.
    sums: Vec<u32>,
    last: u32,
    remaining: u32,
}

impl Touches {
    fn new(places: u32) -> Touches {
        Touches { sums: vec![0; places as usize + 1], last: 0, remaining: 0 }
    }

    fn is_full(&self) -> bool {
        self.last as usize + 1 == self.sums.len()
    }

    /// Number of those that remain at this place and before it.
    fn rank(&self, place: u32) -> u32 {
        let (mut at, mut sum) = (place as usize, 0);
        while at > 0 {
            sum += self.sums[at];
            at &= at - 1;
        }
        sum
    }

    /// Number of those that remain from this place on: 1 at the last one.
    fn depth(&self, place: u32) -> u64 {
        u64::from(self.remaining - self.rank(place - 1))
    }

    /// Takes the next place, of which there is one.
    fn push(&mut self) -> u32 {
        self.last += 1;
        self.remaining += 1;
        self.each_above(self.last, |sum| *sum += 1);
        self.last
    }

    fn remove(&mut self, place: u32) {
        self.remaining -= 1;
        self.each_above(place, |sum| *sum -= 1);
    }

    fn each_above(&mut self, place: u32, change: impl Fn(&mut u32)) {
        let mut at = place as usize;
        while let Some(sum) = self.sums.get_mut(at) {
            change(sum);
            at += at & at.wrapping_neg();
        }
    }

    /// Begins anew with so many that remain, at the first places.
    fn restart(&mut self, remaining: u32) {
        assert_eq!(remaining, self.remaining, "each block has one place that remains");
        let places = self.sums.len() - 1;
        let places = if remaining as usize > places / 2 { 2 * places } else { places };
        self.sums.clear();
        let within = |place: usize| remaining.min(place as u32);
        let sum = |at: usize| within(at) - within(at - (at & at.wrapping_neg()));
        self.sums.extend((0..=places).map(sum));
        self.last = remaining;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Tokens found by a cache of so many blocks that is a list, searched from its front.
    fn by_list(requests: &[(Vec<u64>, u64)], block_tokens: u64, capacity: usize) -> u64 {
        let (mut cache, mut found) = (Vec::<u64>::new(), 0);
        for (blocks, input_tokens) in requests {
            let leading = blocks.iter().take_while(|block| cache.contains(block)).count() as u64;
            found += (leading * block_tokens).min(*input_tokens);
            for block in blocks.iter().rev() {
                cache.retain(|other| other != block);
                cache.insert(0, *block);
                cache.truncate(capacity);
            }
        }
        found
    }

    fn counted(reuse: &mut PrefixReuse, requests: &[(Vec<u64>, u64)]) {
        for (blocks, input_tokens) in requests {
            reuse.request(blocks, *input_tokens);
        }
    }

    proptest! {
        /// Prompts are longer than some of the caches, name blocks twice, and end with partial
        /// ones; a list of four places is compacted every few touches.
        #[test]
        fn every_capacity_finds_what_a_list_finds(
            prompts in prop::collection::vec(
                (prop::collection::vec(0_u64..24, 0..14), 1_u64..8),
                0..60,
            ),
            places in 1_u32..9,
        ) {
            const BLOCK: u64 = 8;
            let requests: Vec<(Vec<u64>, u64)> = prompts
                .into_iter()
                .map(|(blocks, last)| {
                    let tokens = (blocks.len() as u64 * BLOCK).saturating_sub(BLOCK - last);
                    (blocks, tokens)
                })
                .collect();
            let capacities: Vec<u64> = (0..30).collect();
            let mut reuse = PrefixReuse::with_places(places, BLOCK as u32, capacities.clone());
            counted(&mut reuse, &requests);
            for capacity in capacities {
                let expected = by_list(&requests, BLOCK, capacity as usize);
                prop_assert_eq!(reuse.found_with(capacity), Some(expected), "{}", capacity);
            }
            prop_assert_eq!(reuse.found_unbounded(), by_list(&requests, BLOCK, usize::MAX));
            let distinct: std::collections::BTreeSet<u64> =
                requests.iter().flat_map(|(blocks, _)| blocks).copied().collect();
            prop_assert_eq!(reuse.distinct_blocks(), distinct.len() as u64);
        }
    }

    #[test]
    fn a_first_touch_finds_nothing_and_a_partial_last_block_counts_its_tokens() {
        let mut reuse = PrefixReuse::new(16, vec![3, 2, 0, 3]);
        // The second 7 is looked up before the first one is touched.
        reuse.request(&[7, 7, 9], 40);
        assert_eq!((reuse.found_unbounded(), reuse.distinct_blocks()), (0, 2));
        reuse.request(&[7, 9, 5], 40);
        assert_eq!(reuse.found_unbounded(), 32);
        // 16 + 16 + 8: the last block has the eight tokens that are left.
        reuse.request(&[7, 9, 5], 40);
        let found: Vec<Option<u64>> = (0..5).map(|blocks| reuse.found_with(blocks)).collect();
        assert_eq!(found, [Some(0), None, Some(32 + 32), Some(32 + 40), None]);
    }

    #[test]
    fn the_head_of_a_prompt_longer_than_the_cache_stays() {
        let mut reuse = PrefixReuse::new(1, vec![2, 3, 4]);
        counted(&mut reuse, &[(vec![1, 2, 3, 4], 4), (vec![1, 2, 3, 4], 4)]);
        assert_eq!([2, 3, 4].map(|blocks| reuse.found_with(blocks)), [2, 3, 4].map(Some));
    }

    #[test]
    fn blocks_behind_one_that_is_gone_are_not_found() {
        let mut reuse = PrefixReuse::new(1, vec![1, 2, 3]);
        // From the front: 3, 1, 2. The prefix 2, 3 needs three blocks, though 3 is the first.
        counted(&mut reuse, &[(vec![1, 2], 2), (vec![3], 1), (vec![2, 3], 2)]);
        assert_eq!([1, 2, 3].map(|blocks| reuse.found_with(blocks)), [0, 0, 2].map(Some));
    }
}
