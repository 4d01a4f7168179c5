//! Names that everything shares: of an entry, of the shard that owns it, of the tier it is in.

use crate::named;

/// Name of an entry: 128 bits, chosen by the caller, unique within a run.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct EntryKey(pub u128);

/// Index of a shard, dense from 0.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct ShardId(pub u16);

impl ShardId {
    /// As an index into per-shard arrays.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

impl EntryKey {
    /// The key folded to 64 well-mixed bits (`splitmix64`'s finaliser over both halves).
    pub fn hash64(self) -> u64 {
        let low = self.0 as u64;
        let high = (self.0 >> 64) as u64;
        mix64(low ^ mix64(high ^ 0x9e37_79b9_7f4a_7c15))
    }

    /// The shard whose name this key hashes to, for keys no user owns. `shards` ≥ 1.
    pub fn home_shard(self, shards: u16) -> ShardId {
        assert!(shards > 0, "an engine has at least one shard");
        ShardId((self.hash64() % u64::from(shards)) as u16)
    }
}

named! {
/// A tier of the waterfall, fastest first.
#[derive(Hash, PartialOrd, Ord)]
pub enum Tier {
    /// GPU memory.
    Gpu = "gpu",
    /// Host memory.
    Cpu = "cpu",
    /// NVMe, through O_DIRECT; always present, always last.
    Storage = "storage",
}
}

/// Number of tiers: GPU, CPU and storage.
pub const TIER_COUNT: usize = 3;

impl Tier {
    /// As an index into per-tier arrays.
    pub const fn index(self) -> usize {
        self as usize
    }
}

/// The finaliser of `splitmix64` (Steele, Lea, Flood 2014): a bijection with full avalanche.
pub const fn mix64(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequential_keys_spread_evenly_over_shards() {
        let mut counts = [0u32; 7];
        for key in 0..70_000u128 {
            counts[EntryKey(key << 64 | 1).home_shard(7).index()] += 1;
        }
        // Binomial(70000, 1/7): sigma = 92.6; five sigma.
        assert!(counts.iter().all(|&n| n.abs_diff(10_000) < 463), "{counts:?}");
    }
}
