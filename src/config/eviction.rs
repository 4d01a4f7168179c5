//! When a tier above the last makes room, and which entries pass it by. Numbers of a file; none has
//! a flag.

use ringfall_core::placement::Watermarks;

use super::figures::figures;
use super::gpu::permille;

figures! {
    /// Shares of a tier's capacity, 0 to 1, in steps of a thousandth. Storage, the last tier, is
    /// filled whatever they are.
    ///
    /// By default: as in the reference benchmark's `config.yaml`.
    pub struct Eviction {
        /// An eviction from a tier leaves it at most this full.
        pub target_usage_ratio: f64 = 0.8,
        /// An entry above this share of a tier skips it.
        pub large_entry_limit_ratio: f64 = 0.95,
    }
}

impl Eviction {
    /// The same limits as the engine takes them, in thousandths.
    #[must_use]
    pub fn watermarks(&self) -> Watermarks {
        Watermarks {
            evict_target_permille: permille(self.target_usage_ratio),
            skip_permille: permille(self.large_entry_limit_ratio),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::WorkloadSection;

    #[test]
    fn shares_are_thousandths_and_no_other_number_is_taken() {
        assert_eq!(Eviction::default().watermarks(), Watermarks::default());
        let wrong = |eviction| {
            WorkloadSection { eviction, ..WorkloadSection::default() }.judging_is_wrong()
        };
        let eviction = Eviction { target_usage_ratio: 0.5, large_entry_limit_ratio: 1.0 };
        assert_eq!(wrong(eviction), None);
        let rules = eviction.watermarks();
        assert_eq!((rules.evict_target_permille, rules.skip_permille), (500, 1000));
        for ratio in [-0.1, 1.01, f64::NAN, f64::INFINITY] {
            let wrong = wrong(Eviction { target_usage_ratio: ratio, ..Eviction::default() });
            assert!(wrong.is_some_and(|what| what.contains("target_usage_ratio")), "{ratio}");
        }
    }
}
