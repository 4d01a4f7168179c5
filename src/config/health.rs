//! Targets that the storage must meet for a run to pass (`storage_health`). Numbers of a file; none
//! has a flag.

use super::figures::figures;

figures! {
    /// The criteria of both profiles. By default those of the reference benchmark; a rate of 0 asks
    /// for more than none.
    pub struct HealthCriteria {
        /// P95 of the device's time to write an entry, ms, to stay below. Profile `latency`.
        pub write_device_p95_ms: f64 = 500.0,
        /// P95 of the device's time to read an entry, ms, to stay below. Profile `latency`.
        pub read_device_p95_ms: f64 = 200.0,
        /// P95 of an operation of the CPU tier, ms, to stay below. Profile `latency`.
        pub cpu_p95_ms: f64 = 150.0,
        /// Share of the reads that must find their entry, to exceed. Profile `latency`.
        pub hit_rate_min: f64 = 0.3,
        /// Bandwidth of reads from storage, GiB/s, to exceed. Profile `throughput`.
        pub read_gib_per_s_min: f64 = 0.0,
        /// Bandwidth of writes to storage, GiB/s, to exceed. Profile `throughput`.
        pub write_gib_per_s_min: f64 = 0.0,
        /// Generated tokens per second of wall-clock time, to exceed. Profile `throughput`.
        pub tokens_per_s_min: f64 = 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::WorkloadSection;

    #[test]
    fn what_no_storage_can_be_asked_is_named() {
        let good = HealthCriteria::default();
        let wrong =
            |health| WorkloadSection { health, ..WorkloadSection::default() }.judging_is_wrong();
        assert_eq!(wrong(good), None);
        for (health, name) in [
            (HealthCriteria { cpu_p95_ms: 0.0, ..good }, "health.cpu_p95_ms is 0"),
            (HealthCriteria { read_device_p95_ms: f64::NAN, ..good }, "read_device_p95_ms is NaN"),
            (HealthCriteria { hit_rate_min: 1.1, ..good }, "hit_rate_min is 1.1"),
            (HealthCriteria { tokens_per_s_min: -1.0, ..good }, "tokens_per_s_min is -1"),
            (HealthCriteria { read_gib_per_s_min: f64::INFINITY, ..good }, "is inf"),
        ] {
            assert!(wrong(health).is_some_and(|what| what.contains(name)), "{name}");
        }
    }
}
