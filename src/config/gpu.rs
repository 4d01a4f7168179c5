//! Limits of the GPU memory that the GPU tier may take. Numbers of a file; none has a flag.

use super::figures::figures;

figures! {
    /// Limits of the GPU tier on each of its real GPUs, in steps of a thousandth. A tier that was
    /// asked to be larger is made smaller. One that is emulated or simulated is as large as was
    /// asked for.
    ///
    /// By default none: the tier is as large as was asked for, or is not.
    pub struct GpuLimits {
        /// Largest share of a GPU's memory that the tier takes, 0 to 1.
        pub memory_fraction: f64 = 1.0,
        /// Share of the memory that is free on a GPU when the run begins that the tier leaves, 0 to
        /// 1.
        pub reserve_fraction: f64 = 0.0,
    }
}

impl GpuLimits {
    /// Memory that the tier may take on a GPU that has so much in all and so much free, bytes.
    #[must_use]
    pub fn bytes_of(&self, memory_bytes: u64, free_bytes: u64) -> u64 {
        let share = |bytes: u64, ratio: f64| bytes / 1000 * u64::from(permille(ratio));
        let left = 1.0 - self.reserve_fraction.clamp(0.0, 1.0);
        share(memory_bytes, self.memory_fraction).min(share(free_bytes, left))
    }
}

/// In thousandths, rounded to the nearest; what is no share is held to one.
pub(super) fn permille(ratio: f64) -> u16 {
    (ratio.clamp(0.0, 1.0) * 1000.0).round() as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::WorkloadSection;

    #[test]
    fn the_smaller_of_both_limits_holds_and_no_other_number_is_taken() {
        let limits = GpuLimits { memory_fraction: 0.8, reserve_fraction: 0.1 };
        let wrong = |gpu| WorkloadSection { gpu, ..WorkloadSection::default() }.judging_is_wrong();
        assert_eq!(wrong(limits), None);
        assert_eq!(limits.bytes_of(80_000, 80_000), 64_000);
        assert_eq!(limits.bytes_of(80_000, 50_000), 45_000);
        assert_eq!(limits.bytes_of(0, 0), 0);
        assert_eq!(GpuLimits::default().bytes_of(80_000, 50_000), 50_000);
        for ratio in [-0.1, 1.01, f64::NAN, f64::INFINITY] {
            let wrong = wrong(GpuLimits { reserve_fraction: ratio, ..limits });
            assert!(wrong.is_some_and(|what| what.contains("gpu.reserve_fraction")), "{ratio}");
        }
    }
}
