//! The KV cache workload of the MLPerf Storage harness (`mlpstorage`), and ringfall's two ways to
//! run it: in the place of the reference benchmark, started by the harness (`shim`, `place`), or
//! doing the whole `sequence` of `options` and trials by itself, with the same `tree` of files and
//! the same `summary` of what the ranks measured (`aggregate`).
//!
//! The contract is that of the public repository mlcommons/storage, version 3.0.26:
//! `mlpstorage_py/benchmarks/kvcache.py` and `kv_cache_benchmark/mlperf_wrapper.py`.

pub mod aggregate;
pub mod metadata;
pub mod options;
pub mod place;
pub mod published;
pub mod sequence;
pub mod shim;
pub mod summary;
pub mod tree;

use jiff::Timestamp;

/// Notice printed wherever results of this kind are made or shown.
pub const NOT_CLOSED: &str = "A CLOSED submission to MLPerf Storage must run the reference \
                              benchmark's own engine; results of ringfall are for the OPEN \
                              division, where its rules allow them, and for finding out.";

/// Seconds before and after each trial that the harness's launcher waits
/// (`mlperf_wrapper.py`, `TEST_DELAY`).
pub const TRIAL_DELAY_S: u64 = 90;
/// Seed of rank 0 (`mlperf_wrapper.py`, `BASE_SEED`); each rank adds its number.
pub const SEED_BASE: u64 = 42;

/// A time as the harness has it in names of files and directories: `20250131_235959`, in UTC.
pub fn stamp(unix_s: u64) -> String {
    // A clock beyond the year 9999 is as wrong as one before 1970.
    let time = i64::try_from(unix_s).ok().and_then(|unix_s| Timestamp::from_second(unix_s).ok());
    time.unwrap_or(Timestamp::MAX).strftime("%Y%m%d_%H%M%S").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_named_as_the_harness_names_them() {
        assert_eq!(stamp(1_738_367_999), "20250131_235959");
        assert_eq!(stamp(u64::MAX), "99991230_220000");
    }
}
