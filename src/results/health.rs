//! `storage_health`: does the storage meet what its profile asks?

use std::borrow::Cow;

use ringfall_engine::metrics::Histogram;
use ringfall_engine::tier::Tier;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::{PerformanceProfile, Phases};
use crate::results::RunResult;
use crate::results::simulation::is_without_drive;

/// One thing asked of the storage.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Criterion {
    /// What, in the reference's words.
    pub name: Cow<'static, str>,
    /// The limit; of a bandwidth the words `>0`, as in the reference.
    pub target: Measure,
    /// What was measured; a bandwidth in digits with two decimals, as in the reference.
    pub actual: Measure,
    /// Of both.
    pub unit: Cow<'static, str>,
    /// Whether it was met.
    pub passed: bool,
}

/// A number, or the words that the reference has in its place.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
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

/// The verdict. A criterion that nothing was measured for is left out. Differs from the reference
/// in three things: a run that measured nothing passes nothing, one in which requests were refused
/// has a criterion more, and so has the profile `throughput`, for tokens.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Health {
    /// `PASS` when every criterion was met; `FAIL` otherwise; `NO DATA` without any: nothing was
    /// measured, or there was no drive to measure (a logical run).
    pub overall_status: Cow<'static, str>,
    /// What was asked.
    pub criteria: Vec<Criterion>,
    /// How many were met.
    pub passed_count: usize,
    /// Of how many.
    pub total_count: usize,
}

const STORAGE_WRITE_DEVICE_P95_MS: f64 = 500.0;
const STORAGE_READ_DEVICE_P95_MS: f64 = 200.0;
const CPU_P95_MS: f64 = 150.0;
const HIT_RATE: f64 = 0.3;

/// Share of a run's requests that may have been refused for want of room before the run has failed:
/// with more, what was measured is another workload than the one asked for.
pub const REFUSED_SHARE_MAX: f64 = 0.01;

/// Judges a run by its profile.
#[must_use]
pub fn judge(result: &RunResult) -> Health {
    let mut criteria = match result.plan.performance_profile {
        _ if is_unmeasured(result) => Vec::new(),
        PerformanceProfile::Latency => latency(result),
        PerformanceProfile::Throughput => throughput(result),
    };
    criteria.extend(refused(result));
    let passed_count = criteria.iter().filter(|criterion| criterion.passed).count();
    let total_count = criteria.len();
    let overall_status = match (passed_count, total_count) {
        (_, 0) => "NO DATA",
        (passed, total) if passed == total => "PASS",
        _ => "FAIL",
    };
    Health { overall_status: overall_status.into(), criteria, passed_count, total_count }
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
    })
}

fn latency(result: &RunResult) -> Vec<Criterion> {
    let storage = result.engine.tier(Tier::Storage);
    let mut cpu = result.engine.tier(Tier::Cpu).read.total.clone();
    cpu.merge(&result.engine.tier(Tier::Cpu).write.total);
    let below = |name: &'static str, target, histogram: &Histogram| {
        let actual = histogram.quantile_ns(0.95)? as f64 / 1e6;
        let (name, unit) = (name.into(), "ms".into());
        let (limit, found) = (Measure::Number(target), Measure::Number(actual));
        Some(Criterion { name, target: limit, actual: found, unit, passed: actual < target })
    };
    let hit_rate = result.cache.hit_rate().map(|actual| Criterion {
        name: "Cache Hit Rate > 30%".into(),
        target: Measure::Number(HIT_RATE),
        actual: Measure::Number(actual),
        unit: "ratio".into(),
        passed: actual > HIT_RATE,
    });
    let (write, read) = (&storage.write.device, &storage.read.device);
    [
        below("Storage Tier Write Device P95 < 500ms", STORAGE_WRITE_DEVICE_P95_MS, write),
        below("Storage Tier Read Device P95 < 200ms", STORAGE_READ_DEVICE_P95_MS, read),
        below("CPU RAM P95 < 150ms", CPU_P95_MS, &cpu),
        hit_rate,
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn throughput(result: &RunResult) -> Vec<Criterion> {
    let seconds = result.window.seconds;
    let more_than_none = |name: &'static str, count: f64, unit: &'static str| {
        let rate = if seconds > 0.0 { count / seconds } else { 0.0 };
        Criterion {
            name: name.into(),
            target: Measure::Words(">0".into()),
            actual: Measure::Words(format!("{rate:.2}").into()),
            unit: unit.into(),
            passed: count > 0.0,
        }
    };
    let bandwidth = |name: &'static str, bytes: u64| {
        more_than_none(name, ringfall_engine::units::gib(bytes), "GiB/s")
    };
    let mut criteria = Vec::new();
    if result.plan.phases != Phases::PrefillOnly {
        criteria.push(bandwidth("Storage KV Read Bandwidth", result.engine.io_read.bytes));
    }
    if result.plan.phases != Phases::DecodeOnly {
        criteria.push(bandwidth("Storage KV Write Bandwidth", result.engine.io_write.bytes));
    }
    let tokens = result.requests.generated_tokens as f64;
    criteria.push(more_than_none("Token Throughput", tokens, "tokens/s"));
    criteria
}
