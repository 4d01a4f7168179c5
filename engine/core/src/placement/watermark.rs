//! The capacity rules of the tiers, as arithmetic.

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
    /// Rule by which entries leave storage.
    pub storage: StorageEviction,
}

/// Rule by which entries leave the last tier.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StorageEviction {
    /// None does: what finds no room is not stored.
    Never,
    /// The least recently used leave when the tier would be fuller than `from_permille` thousandths
    /// of its capacity, until it is at most `to_permille` full with what is to be stored; 1,000
    /// each by default. They leave for one that finds no room in one piece in any case.
    Oldest {
        /// Fill from which on they leave.
        from_permille: u16,
        /// Fill at which that ends; at most `from_permille`.
        to_permille: u16,
    },
}

impl Default for StorageEviction {
    fn default() -> Self {
        StorageEviction::LRU
    }
}

impl StorageEviction {
    /// The least recently used leave for what finds no room.
    pub const LRU: StorageEviction =
        StorageEviction::Oldest { from_permille: 1000, to_permille: 1000 };

    /// Blocks that must leave a tier of `capacity` blocks before `blocks` more are stored in it
    /// beside those `stored`; `is_evicting`: entries leave already.
    pub(super) fn excess(self, capacity: u64, stored: u64, blocks: u64, is_evicting: bool) -> u64 {
        let StorageEviction::Oldest { from_permille, to_permille } = self else { return 0 };
        if self == StorageEviction::LRU {
            // What finds no room decides.
            return 0;
        }
        let limit = permille_of(capacity, if is_evicting { to_permille } else { from_permille });
        let after = stored.saturating_add(blocks);
        let target = permille_of(capacity, to_permille).max(blocks);
        if after > limit { after.saturating_sub(target) } else { 0 }
    }
}

impl Default for Watermarks {
    fn default() -> Self {
        let storage = StorageEviction::default();
        Watermarks { evict_target_permille: 800, skip_permille: 950, storage }
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

    #[test]
    fn entries_leave_storage_from_one_watermark_to_the_other() {
        let rule = StorageEviction::Oldest { from_permille: 800, to_permille: 640 };
        assert_eq!(rule.excess(100, 79, 1, false), 0);
        assert_eq!(rule.excess(100, 80, 1, false), 17);
        assert_eq!(rule.excess(100, 64, 1, true), 1);
        assert_eq!(rule.excess(100, 63, 1, true), 0);
        // One that is larger than that needs an empty tier.
        assert_eq!(rule.excess(100, 5, 90, false), 5);
        assert_eq!(StorageEviction::LRU.excess(100, 100, 1, false), 0);
        assert_eq!(StorageEviction::Never.excess(100, 100, 9, true), 0);
    }
}
