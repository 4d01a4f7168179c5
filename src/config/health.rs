//! Targets that the storage must meet for a run to pass (`storage_health`). Numbers of a file; none
//! has a flag.

use serde::{Deserialize, Serialize};

/// Longest time asked for: a day.
const TIME_MS_MAX: f64 = 86_400_000.0;
/// Largest rate asked for, far above any machine: it keeps slips of the keyboard out.
const RATE_MAX: f64 = 1e12;

/// The criteria of both profiles. By default those of the reference benchmark; a rate of 0 asks for
/// more than none.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HealthCriteria {
    /// P95 of the device's time to write an entry, ms, to stay below. Profile `latency`.
    pub write_device_p95_ms: f64,
    /// P95 of the device's time to read an entry, ms, to stay below. Profile `latency`.
    pub read_device_p95_ms: f64,
    /// P95 of an operation of the CPU tier, ms, to stay below. Profile `latency`.
    pub cpu_p95_ms: f64,
    /// Share of the reads that must find their entry, to exceed. Profile `latency`.
    pub hit_rate_min: f64,
    /// Bandwidth of reads from storage, GiB/s, to exceed. Profile `throughput`.
    pub read_gib_per_s_min: f64,
    /// Bandwidth of writes to storage, GiB/s, to exceed. Profile `throughput`.
    pub write_gib_per_s_min: f64,
    /// Generated tokens per second of wall-clock time, to exceed. Profile `throughput`.
    pub tokens_per_s_min: f64,
}

impl Default for HealthCriteria {
    fn default() -> Self {
        HealthCriteria {
            write_device_p95_ms: 500.0,
            read_device_p95_ms: 200.0,
            cpu_p95_ms: 150.0,
            hit_rate_min: 0.3,
            read_gib_per_s_min: 0.0,
            write_gib_per_s_min: 0.0,
            tokens_per_s_min: 0.0,
        }
    }
}

impl HealthCriteria {
    pub(super) fn wrong(&self) -> Option<String> {
        let times = [
            ("write_device_p95_ms", self.write_device_p95_ms),
            ("read_device_p95_ms", self.read_device_p95_ms),
            ("cpu_p95_ms", self.cpu_p95_ms),
        ];
        if let Some((name, ms)) =
            times.into_iter().find(|(_, ms)| !(*ms > 0.0 && *ms <= TIME_MS_MAX))
        {
            return Some(format!(
                "health.{name} is {ms}: give a time above 0, to {TIME_MS_MAX} ms"
            ));
        }
        if !(0.0..=1.0).contains(&self.hit_rate_min) {
            let rate = self.hit_rate_min;
            return Some(format!("health.hit_rate_min is {rate}: give a share, 0 to 1"));
        }
        let rates = [
            ("read_gib_per_s_min", self.read_gib_per_s_min),
            ("write_gib_per_s_min", self.write_gib_per_s_min),
            ("tokens_per_s_min", self.tokens_per_s_min),
        ];
        let (name, rate) = rates.into_iter().find(|(_, rate)| !(0.0..=RATE_MAX).contains(rate))?;
        Some(format!("health.{name} is {rate}: give a rate from 0 to {RATE_MAX:e}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_storage_can_be_asked_is_named() {
        let good = HealthCriteria::default();
        assert_eq!(good.wrong(), None);
        for (wrong, name) in [
            (HealthCriteria { cpu_p95_ms: 0.0, ..good }, "health.cpu_p95_ms is 0"),
            (HealthCriteria { read_device_p95_ms: f64::NAN, ..good }, "read_device_p95_ms is NaN"),
            (HealthCriteria { hit_rate_min: 1.1, ..good }, "hit_rate_min is 1.1"),
            (HealthCriteria { tokens_per_s_min: -1.0, ..good }, "tokens_per_s_min is -1"),
            (HealthCriteria { read_gib_per_s_min: f64::INFINITY, ..good }, "is inf"),
        ] {
            assert!(wrong.wrong().is_some_and(|what| what.contains(name)), "{name}");
        }
    }
}
