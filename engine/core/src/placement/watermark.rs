//! The capacity rules of a tier above the last, as arithmetic.

use crate::key::{TIER_COUNT, Tier};

pub(super) const UPPER_COUNT: usize = TIER_COUNT - 1;

/// Budgets and watermarks of an engine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Watermarks {
    /// After an eviction a tier above the last is at most this full, in thousandths of its
    /// capacity; 800 by default.
    pub evict_target_permille: u16,
    /// An entry above this many thousandths of a tier's capacity skips that tier; 950 by default.
    pub skip_permille: u16,
}

impl Default for Watermarks {
    fn default() -> Self {
        Watermarks { evict_target_permille: 800, skip_permille: 950 }
    }
}

impl Watermarks {
    /// Whether an entry of `bytes` ≥ 1 skips a tier of `capacity_bytes`.
    pub(super) fn skips(self, capacity_bytes: u64, bytes: u64) -> bool {
        bytes > permille_of(capacity_bytes, self.skip_permille)
    }

    /// Bytes that a tier may hold after an eviction that makes room for `bytes`, those included.
    pub(super) fn target(self, capacity_bytes: u64, bytes: u64) -> u64 {
        permille_of(capacity_bytes, self.evict_target_permille).max(bytes)
    }
}

/// Rounded down: 800 ‰ of 1,001 bytes are 800 bytes.
fn permille_of(bytes: u64, permille: u16) -> u64 {
    assert!(permille <= 1000, "a watermark is at most the whole tier");
    u64::try_from(u128::from(bytes) * u128::from(permille) / 1000).expect("a part of a u64")
}

/// The tier below, if there is one.
pub(super) const fn below(tier: Tier) -> Option<Tier> {
    match tier {
        Tier::Gpu => Some(Tier::Cpu),
        Tier::Cpu => Some(Tier::Storage),
        Tier::Storage => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rules_hold_on_their_boundaries() {
        let rules = Watermarks::default();
        assert!(rules.skips(0, 1));
        assert!(!rules.skips(1000, 950));
        assert!(rules.skips(1000, 951));
        assert_eq!(rules.target(1001, 1), 800);
        assert_eq!(rules.target(1000, 900), 900);
        assert_eq!(rules.target(u64::MAX, 1), 14_757_395_258_967_641_292);
    }
}
