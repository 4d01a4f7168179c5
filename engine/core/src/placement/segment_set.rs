//! A set of small integers with O(1) lowest and highest member: a bitmap of three levels.

const BITS: usize = u64::BITS as usize;
const LEVELS: usize = 3;

/// A growing set of segment numbers. The top level has a bit for each 4,096 numbers and is scanned
/// word by word: one word up to 262,144 segments.
#[derive(Clone, Debug, Default)]
pub(super) struct SegmentSet {
    levels: [Vec<u64>; LEVELS],
    count: u64,
}

impl SegmentSet {
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    pub(super) fn contains(&self, number: u64) -> bool {
        let at = index(number);
        self.levels[0].get(at / BITS).is_some_and(|word| word & (1 << (at % BITS)) != 0)
    }

    /// Adds `number`, which must not be in the set.
    pub(super) fn insert(&mut self, number: u64) {
        assert!(!self.contains(number), "segment {number} is in the set already");
        let mut at = index(number);
        for level in &mut self.levels {
            if level.len() <= at / BITS {
                level.resize(at / BITS + 1, 0);
            }
            level[at / BITS] |= 1 << (at % BITS);
            at /= BITS;
        }
        self.count += 1;
    }

    /// Takes `number` out, which must be in the set.
    pub(super) fn remove(&mut self, number: u64) {
        assert!(self.contains(number), "segment {number} is not in the set");
        let mut at = index(number);
        for level in &mut self.levels {
            level[at / BITS] &= !(1 << (at % BITS));
            if level[at / BITS] != 0 {
                break;
            }
            at /= BITS;
        }
        self.count -= 1;
    }

    pub(super) fn first(&self) -> Option<u64> {
        let top = self.levels[LEVELS - 1].iter().position(|&word| word != 0)?;
        Some(self.descend(top, |word| word.trailing_zeros() as usize))
    }

    pub(super) fn last(&self) -> Option<u64> {
        let top = self.levels[LEVELS - 1].iter().rposition(|&word| word != 0)?;
        Some(self.descend(top, |word| BITS - 1 - word.leading_zeros() as usize))
    }

    fn descend(&self, top: usize, pick: impl Fn(u64) -> usize) -> u64 {
        let mut at = top;
        for level in self.levels.iter().rev() {
            at = at * BITS + pick(level[at]);
        }
        at as u64
    }
}

fn index(number: u64) -> usize {
    usize::try_from(number).expect("segment numbers index memory")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn it_equals_a_tree_under_random_operations() {
        let mut set = SegmentSet::default();
        let mut model = BTreeSet::new();
        let mut state = 3u64;
        for step in 0..50_000u64 {
            state = crate::key::mix64(state.wrapping_add(0x9e37_79b9_7f4a_7c15));
            // A few far numbers cross the levels, near ones collide often.
            let number = if step % 2 == 0 { state % 600_000 } else { state % 300 };
            if model.remove(&number) {
                set.remove(number);
            } else {
                model.insert(number);
                set.insert(number);
            }
            assert_eq!(set.first(), model.first().copied());
            assert_eq!(set.last(), model.last().copied());
            assert_eq!(set.count(), model.len() as u64);
        }
    }
}
