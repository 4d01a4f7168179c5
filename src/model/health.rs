//! `storage_health`: does the storage meet what its profile asks?

use std::borrow::Cow;

use ringfall_config::{PerformanceProfile, PhaseMode};
use ringfall_core::key::Tier;
use ringfall_core::metrics::Histogram;
use ringfall_host::counted;
use serde::{Deserialize, Serialize};

use crate::RunResult;
use crate::simulation::is_without_drive;

/// One criterion that the storage has to meet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct Criterion {
    /// Requirement, in the reference's words. Same definition as the reference's.
    pub name: Cow<'static, str>,
    /// Limit for the measured value; for a bandwidth the string `>0`. Same definition as the
    /// reference's.
    pub target: Measure,
    /// Measured value; for a bandwidth a string of digits with two decimals. Same definition as the
    /// reference's.
    pub actual: Measure,
    /// Unit of `target` and `actual`. Same definition as the reference's.
    pub unit: Cow<'static, str>,
    /// Whether the criterion was met. Same definition as the reference's.
    pub passed: bool,
    /// Number of operations that `actual` was worked out from: for a percentile those of the tier,
    /// for a hit rate the reads; null for a rate over time.
    #[serde(default)]
    pub samples: Option<u64>,
}

impl Criterion {
    /// Text of the measured value, with its unit and number of samples; a ratio as a percentage,
    /// like its name.
    pub fn measured(&self) -> String {
        let actual = match (&self.actual, &*self.unit) {
            (Measure::Number(ratio), "ratio") => format!("{:.1} %", ratio * 100.0),
            (actual, unit) => format!("{actual} {unit}"),
        };
        match self.samples {
            Some(samples) => format!("{actual} of {}", counted(samples, "sample")),
            None => actual,
        }
    }

    /// The requirement, and what was measured.
    pub fn told(&self) -> String {
        format!("{}: {}", self.name, self.measured())
    }
}

/// A number, or the string that the reference has in its place.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum Measure {
    /// As a number.
    Number(f64),
    /// In words or digits.
    Words(Cow<'static, str>),
}

/// As people read it.
impl std::fmt::Display for Measure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Measure::Number(number) => write!(f, "{number:.2}"),
            Measure::Words(words) => f.write_str(words),
        }
    }
}

/// Verdict on the storage. A criterion for which nothing was measured is left out, and one with too
/// few samples is set aside. Differs from the reference in six ways: a run that measured nothing
/// passes nothing, one whose storage tier was hardly asked passes nothing either, fewer than 20
/// samples are not judged, writes of demotions are judged with those of prefills, a run in which
/// requests were refused has one more criterion, and so has the profile `throughput`, for tokens.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct Health {
    /// `PASS` when every criterion was met, `FAIL` otherwise; `NO DATA` when there was none,
    /// because nothing was measured, of all too few samples, or there was no drive to measure (a
    /// logical run); and when all that were met are about tiers above storage. Differs from the
    /// reference, which has `PASS` in place of `NO DATA`.
    pub overall_status: Cow<'static, str>,
    /// Criteria against which the storage was judged. Differs from the reference as
    /// `storage_health` does.
    pub criteria: Vec<Criterion>,
    /// Number of criteria that were met. Differs from the reference as `criteria` does.
    pub passed_count: usize,
    /// Number of criteria against which the storage was judged. Differs from the reference as
    /// `criteria` does.
    pub total_count: usize,
    /// Criteria with fewer than 20 samples, which were neither met nor not met (`passed` says how
    /// they would have been judged): the 95th percentile of so few is their largest value, so that
    /// one operation would decide.
    #[serde(default)]
    pub too_few: Vec<Criterion>,
}

impl Health {
    /// Why nothing was judged, where nothing was.
    pub fn why_no_data(&self) -> &'static str {
        match (self.criteria.is_empty(), self.too_few.is_empty()) {
            (false, _) => "the storage tier was asked for too little to judge it",
            (true, true) => "nothing was measured to judge",
            (true, false) => "too few samples to judge",
        }
    }
}

/// Fewest samples that are judged: of fewer the 95th percentile is the largest value, and one read
/// moves a hit rate by more than 5 %.
pub const SAMPLES_MIN: u64 = 20;

/// Share of a run's requests that may have been refused for want of room before the run has failed:
/// with more, what was measured is another workload than the one asked for.
pub const REFUSED_SHARE_MAX: f64 = 0.01;

/// Judges a run by its profile.
pub fn judge(result: &RunResult) -> Health {
    let mut criteria = match result.plan.performance_profile {
        _ if is_unmeasured(result) => Vec::new(),
        PerformanceProfile::Latency => latency(result),
        PerformanceProfile::Throughput => throughput(result),
    };
    criteria.extend(refused(result));
    let is_enough =
        |criterion: &Criterion| criterion.samples.is_none_or(|samples| samples >= SAMPLES_MIN);
    let (criteria, too_few): (Vec<_>, Vec<_>) = criteria.into_iter().partition(is_enough);
    let passed_count = criteria.iter().filter(|criterion| criterion.passed).count();
    let total_count = criteria.len();
    let overall_status = match (passed_count, total_count) {
        (_, 0) => "NO DATA",
        (passed, total) if passed == total && !has_judged_storage(result, &criteria) => "NO DATA",
        (passed, total) if passed == total => "PASS",
        _ => "FAIL",
    };
    Health { overall_status: overall_status.into(), criteria, passed_count, total_count, too_few }
}

/// Whether the storage tier was judged, or the run has no such tier.
fn has_judged_storage(result: &RunResult, criteria: &[Criterion]) -> bool {
    let is_about = |criterion: &Criterion| criterion.name.starts_with("Storage ");
    result.plan.is_without_storage || criteria.iter().any(is_about)
}

/// Whether nothing was measured that a drive could be judged by.
fn is_unmeasured(result: &RunResult) -> bool {
    let engine = &result.engine;
    let tiers = Tier::ALL.map(|tier| engine.tier(tier));
    let operations: u64 =
        tiers.iter().map(|tier| tier.read.total.count() + tier.write.total.count()).sum();
    let moved = engine.io_read.bytes + engine.io_write.bytes;
    is_without_drive(result) || (result.requests.completed() + operations + moved == 0)
}

/// Only where some were: in the reference every entry finds room.
fn refused(result: &RunResult) -> Option<Criterion> {
    let share = result.requests.refused_share();
    (result.requests.refused > 0).then(|| Criterion {
        name: "Requests Refused <= 1%".into(),
        target: Measure::Number(REFUSED_SHARE_MAX),
        actual: Measure::Number(share),
        unit: "ratio".into(),
        passed: share <= REFUSED_SHARE_MAX,
        // Every request was counted, and how many is not a matter of chance.
        samples: None,
    })
}

fn latency(result: &RunResult) -> Vec<Criterion> {
    let storage = result.engine.tier(Tier::Storage);
    let mut cpu = result.engine.tier(Tier::Cpu).read.total.clone();
    cpu.merge(&result.engine.tier(Tier::Cpu).write.total);
    let asked = &result.plan.workload.health;
    let below = |what: &str, target: f64, histogram: &Histogram| {
        let actual = histogram.quantile_ns(0.95)? as f64 / 1e6;
        Some(Criterion {
            name: format!("{what} P95 < {target}ms").into(),
            target: Measure::Number(target),
            actual: Measure::Number(actual),
            unit: "ms".into(),
            passed: actual < target,
            samples: Some(histogram.count()),
        })
    };
    let hit_rate = result.cache.hit_rate().map(|actual| Criterion {
        name: format!("Cache Hit Rate > {}%", in_percent(asked.hit_rate_min)).into(),
        target: Measure::Number(asked.hit_rate_min),
        actual: Measure::Number(actual),
        unit: "ratio".into(),
        passed: actual > asked.hit_rate_min,
        samples: Some(result.cache.hits + result.cache.misses),
    });
    // With a tier above, nearly all that is written to storage are entries demoted from there.
    let mut write = storage.write.device.clone();
    write.merge(&result.engine.evictions[Tier::Cpu.index()].write);
    write.merge(&result.engine.evictions_gpu_to_storage.write);
    [
        below("Storage Tier Write Device", asked.write_device_p95_ms, &write),
        below("Storage Tier Read Device", asked.read_device_p95_ms, &storage.read.device),
        below("CPU RAM", asked.cpu_p95_ms, &cpu),
        hit_rate,
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// A share in percent, without the noise of its product: 30, not 30.000000000000004.
fn in_percent(share: f64) -> f64 {
    (share * 1e6).round() / 1e4
}

fn throughput(result: &RunResult) -> Vec<Criterion> {
    let seconds = result.window.seconds;
    let asked = &result.plan.workload.health;
    let above = |name: &'static str, min: f64, count: f64, unit: &'static str| {
        let rate = if seconds > 0.0 { count / seconds } else { 0.0 };
        Criterion {
            name: name.into(),
            target: Measure::Words(format!(">{min}").into()),
            actual: Measure::Words(format!("{rate:.2}").into()),
            unit: unit.into(),
            passed: count > 0.0 && rate > min,
            samples: None,
        }
    };
    let bandwidth = |name: &'static str, min: f64, bytes: u64| {
        above(name, min, ringfall_core::units::gib(bytes), "GiB/s")
    };
    let (reads, writes) = (result.engine.io_read.bytes, result.engine.io_write.bytes);
    let mut criteria = Vec::new();
    if result.plan.phases != PhaseMode::PrefillOnly {
        criteria.push(bandwidth("Storage KV Read Bandwidth", asked.read_gib_per_s_min, reads));
    }
    if result.plan.phases != PhaseMode::DecodeOnly {
        criteria.push(bandwidth("Storage KV Write Bandwidth", asked.write_gib_per_s_min, writes));
    }
    let tokens = result.requests.generated_tokens as f64;
    criteria.push(above("Token Throughput", asked.tokens_per_s_min, tokens, "tokens/s"));
    criteria
}

#[cfg(test)]
mod tests {
    use ringfall_core::units::GIB;

    use super::*;
    use crate::testing::judged;

    const MILLISECOND_NS: u64 = 1_000_000;

    #[test]
    fn few_samples_are_neither_met_nor_not_met() {
        let mut result = judged();
        let storage = &mut result.engine.tiers[Tier::Storage.index()];
        // One write of 1,281 ms, as with a CPU tier, where nearly all others are demotions.
        storage.write.device = Histogram::new();
        storage.write.device.record(1_281 * MILLISECOND_NS);
        let verdict = judge(&result);
        assert_eq!((&*verdict.overall_status, verdict.total_count), ("PASS", 3), "{verdict:?}");
        let [few] = &verdict.too_few[..] else { panic!("{verdict:?}") };
        assert_eq!((&*few.name, few.samples), ("Storage Tier Write Device P95 < 500ms", Some(1)));
        assert_eq!(
            verdict.criteria.iter().map(|c| c.samples).collect::<Vec<_>>(),
            [Some(20), Some(40), Some(24)]
        );
    }

    /// A CPU tier that held everything had a drive of 1 MB/s pass that nobody had asked.
    #[test]
    fn criteria_of_tiers_above_say_nothing_of_storage() {
        let mut result = judged();
        let storage = &mut result.engine.tiers[Tier::Storage.index()];
        (storage.read.device, storage.write.device) = (Histogram::new(), Histogram::new());
        let verdict = judge(&result);
        assert_eq!((&*verdict.overall_status, verdict.passed_count), ("NO DATA", 2));
        assert!(verdict.why_no_data().contains("storage tier"), "{verdict:?}");
        result.plan.settings.is_without_storage = true;
        assert_eq!(judge(&result).overall_status, "PASS");
    }

    #[test]
    fn demotions_to_storage_are_writes_that_are_judged() {
        let mut result = judged();
        result.engine.tiers[Tier::Storage.index()].write.device = Histogram::new();
        let demoted = &mut result.engine.evictions[Tier::Cpu.index()].write;
        (0..30).for_each(|_| demoted.record(600 * MILLISECOND_NS));
        let past_the_cpu = &mut result.engine.evictions_gpu_to_storage.write;
        (0..10).for_each(|_| past_the_cpu.record(600 * MILLISECOND_NS));
        let verdict = judge(&result);
        let write = &verdict.criteria[0];
        assert_eq!(&*write.name, "Storage Tier Write Device P95 < 500ms");
        assert_eq!((write.passed, write.samples), (false, Some(40)));
        // One to another tier is none of them.
        result.engine.evictions[Tier::Gpu.index()].write.record(1);
        assert_eq!(judge(&result).criteria[0].samples, Some(40));
    }

    #[test]
    fn criteria_of_ones_own_are_named_and_judged_by_their_values() {
        let mut result = judged();
        let verdict = judge(&result);
        let names: Vec<&str> = verdict.criteria.iter().map(|c| &*c.name).collect();
        // To the letter as the reference has them.
        assert_eq!(
            names,
            [
                "Storage Tier Write Device P95 < 500ms",
                "Storage Tier Read Device P95 < 200ms",
                "CPU RAM P95 < 150ms",
                "Cache Hit Rate > 30%"
            ]
        );
        result.plan.workload.health.read_device_p95_ms = 0.5;
        result.plan.workload.health.hit_rate_min = 0.07;
        let verdict = judge(&result);
        assert_eq!(&*verdict.criteria[1].name, "Storage Tier Read Device P95 < 0.5ms");
        assert_eq!(&*verdict.criteria[3].name, "Cache Hit Rate > 7%");
        result.plan.performance_profile = PerformanceProfile::Throughput;
        let read = result.engine.io_read.bytes as f64 / GIB as f64 / result.window.seconds;
        for (asked, passed) in [(read * 0.99, true), (read * 1.01, false)] {
            result.plan.workload.health.read_gib_per_s_min = asked;
            let verdict = judge(&result);
            assert_eq!(verdict.criteria[0].passed, passed, "{asked} of {read}");
            assert_eq!(verdict.overall_status == "PASS", passed);
        }
    }
}
