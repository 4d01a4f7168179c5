//! Keys that were seen before, in bounded memory: whoever is seen by another's mark is forgotten,
//! as an engine forgets what has left its own cache.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::contract::Key;
use crate::rng::mix64;

/// Keys remembered at most, a power of two: 8 MiB of marks. Of so many that were seen since, a
/// share of `n / 2^20` is forgotten.
const MARKS_BITS: u32 = 20;

/// Keys that all shards of a run have seen; takes no memory before the first.
#[derive(Debug, Default)]
pub(crate) struct Sightings {
    marks: OnceLock<Box<[AtomicU64]>>,
}

impl Sightings {
    /// Whether the key was seen before; it is from now on. O(1).
    pub(crate) fn see(&self, key: Key) -> bool {
        let marks = self.marks.get_or_init(|| (0..1 << MARKS_BITS).map(|_| 0.into()).collect());
        let Key(name) = key;
        // The last bit is no part of the place, and no mark is 0.
        let mark = mix64((name >> 64) as u64 ^ mix64(name as u64)) | 1;
        let place: &AtomicU64 = &marks[(mark >> (u64::BITS - MARKS_BITS)) as usize];
        place.swap(mark, Ordering::Relaxed) == mark
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_seen_before_from_its_second_time_on_and_few_are_forgotten() {
        let sightings = Sightings::default();
        let seen =
            |keys: std::ops::Range<u128>| keys.filter(|key| sightings.see(Key(*key))).count();
        assert_eq!(seen(0..10_000), 0);
        assert!(seen(0..10_000) > 9_900);
        // Others have taken the places of a tenth of them.
        assert_eq!(seen(10_000..110_000), 0);
        assert!((8_700..9_500).contains(&seen(0..10_000)));
    }
}
