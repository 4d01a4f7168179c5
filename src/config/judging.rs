//! Targets and bounds of a run: the targets of the QoS classes and of the storage tier, the
//! autoscaler's steps, and the user's own limits on settings. Numbers of a file; none has a flag.

use ringfall_core::clock::{MILLISECOND, Nanos};
use ringfall_workloads::autoscale::StorageTargets;
use ringfall_workloads::config::USERS_MAX;
use serde::{Deserialize, Serialize};

use super::{AutoscalerPlan, Settings, WorkloadSection};

/// Longest target: a day.
pub const TARGET_MS_MAX: u64 = 86_400_000;
/// Longest queue that is a target: as many requests as there may be users.
pub const WAITING_MAX: u64 = USERS_MAX as u64;
/// Largest factor between two numbers of users.
const SCALE_UP_MAX: f64 = 100.0;

/// End-to-end latency that each class may take at P95, P99, P99.9 and P99.99, ms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct QosTargets {
    /// The most urgent class.
    pub interactive: [u64; 4],
    /// Targets of the class between the two others.
    pub responsive: [u64; 4],
    /// The class that can wait.
    pub batch: [u64; 4],
}

impl Default for QosTargets {
    /// As in the reference benchmark's `config.yaml`.
    fn default() -> Self {
        QosTargets {
            interactive: [50, 100, 150, 200],
            responsive: [100, 200, 350, 500],
            batch: [1_000, 5_000, 7_500, 10_000],
        }
    }
}

impl QosTargets {
    /// All of them, most urgent class first, ms.
    #[must_use]
    pub fn all_ms(&self) -> [[u64; 4]; 3] {
        [self.interactive, self.responsive, self.batch]
    }

    /// P95 target of each class, ns, at most a day.
    #[must_use]
    pub fn p95_ns(&self) -> [u64; 3] {
        self.all_ms().map(|[p95, ..]| p95.min(TARGET_MS_MAX) * MILLISECOND.as_ns())
    }

    fn wrong(&self) -> Option<String> {
        let names = ["interactive", "responsive", "batch"];
        let mut classes = names.into_iter().zip(self.all_ms());
        let (name, targets) = classes.find(|(_, targets)| {
            let is_bounded = targets[0] >= 1 && targets[3] <= TARGET_MS_MAX;
            !is_bounded || !targets.is_sorted()
        })?;
        Some(format!(
            "qos_targets_ms.{name} is {targets:?}: give P95, P99, P99.9 and P99.99 in rising \
             order, 1 to {TARGET_MS_MAX} ms"
        ))
    }
}

/// Targets of the storage tier for the autoscaler in mode `qos`: a value at its target is a
/// saturation of 1.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SaturationTargets {
    /// P95 of the time that the device takes to read an entry, ms.
    pub read_p95_ms: f64,
    /// P95 of the time that the device takes to write an entry, ms.
    pub write_p95_ms: f64,
    /// Entries that wait for the device on average, and likewise requests that wait to be served.
    pub queue_depth: u64,
}

impl Default for SaturationTargets {
    /// The latencies that the reference's documents ask of a drive, which its `storage_health` asks
    /// too, and the queue of its `config.yaml`.
    fn default() -> Self {
        SaturationTargets { read_p95_ms: 200.0, write_p95_ms: 500.0, queue_depth: 100 }
    }
}

impl SaturationTargets {
    /// In the autoscaler's units.
    #[must_use]
    pub fn storage(&self) -> StorageTargets {
        let ns = |ms: f64| Nanos::from_ns_f64(ms * MILLISECOND.as_ns_f64()).as_ns();
        StorageTargets {
            read_p95_ns: ns(self.read_p95_ms),
            write_p95_ns: ns(self.write_p95_ms),
            queue_depth: self.queue_depth,
        }
    }

    fn wrong(&self) -> Option<String> {
        let times = [("read_p95_ms", self.read_p95_ms), ("write_p95_ms", self.write_p95_ms)];
        let is_wrong = |ms: f64| !(ms > 0.0 && ms <= TARGET_MS_MAX as f64);
        if let Some((name, ms)) = times.into_iter().find(|(_, ms)| is_wrong(*ms)) {
            return Some(format!(
                "saturation_targets.{name} is {ms}: give a time above 0, to {TARGET_MS_MAX} ms"
            ));
        }
        (!(1..=WAITING_MAX).contains(&self.queue_depth)).then(|| {
            format!(
                "saturation_targets.queue_depth is {}: give a number from 1 to {WAITING_MAX}",
                self.queue_depth
            )
        })
    }
}

/// Steps of the autoscaler from one number of users to the next.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AutoscalerSteps {
    /// Fewest users that it tries, 1 or more.
    pub users_min: u32,
    /// Most users that it tries.
    pub users_max: u32,
    /// While more users are served well, they are multiplied by this, above 1.
    pub scale_up_factor: f64,
    /// Until the first number of users that is served well, they are multiplied by this, below 1.
    pub scale_down_factor: f64,
}

impl Default for AutoscalerSteps {
    fn default() -> Self {
        AutoscalerSteps {
            users_min: 1,
            users_max: USERS_MAX,
            scale_up_factor: 2.0,
            scale_down_factor: 0.5,
        }
    }
}

impl AutoscalerSteps {
    fn wrong(&self) -> Option<String> {
        let (least, most) = (self.users_min, self.users_max);
        if least < 1 || least > most || most > USERS_MAX {
            return Some(format!(
                "autoscaler.users_min is {least} and users_max {most}: give a range within 1 to \
                 {USERS_MAX}"
            ));
        }
        let (up, down) = (self.scale_up_factor, self.scale_down_factor);
        if !(up > 1.0 && up <= SCALE_UP_MAX) {
            return Some(format!(
                "autoscaler.scale_up_factor is {up}: give a factor above 1, to {SCALE_UP_MAX}"
            ));
        }
        (!(down > 0.0 && down < 1.0)).then(|| {
            format!("autoscaler.scale_down_factor is {down}: give a factor above 0 and below 1")
        })
    }
}

/// The most that a run may ask for, so that a slip of the keyboard is found before it costs a day.
/// The program's own bounds hold besides.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Largest number of users that a run may ask for.
    pub users_max: u32,
    /// Length of the measurement, s.
    pub duration_s_max: u64,
    /// Capacity of the GPU tier per GPU, GiB.
    pub gpu_mem_gb_max: f64,
    /// Capacity of the CPU tier, GiB.
    pub cpu_mem_gb_max: f64,
}

impl Default for Limits {
    /// The program's own bounds.
    fn default() -> Self {
        Limits {
            users_max: USERS_MAX,
            duration_s_max: 86_400,
            gpu_mem_gb_max: 65_536.0,
            cpu_mem_gb_max: 131_072.0,
        }
    }
}

impl Limits {
    /// Settings beyond a limit: the setting's key, its value, and the limit by name.
    pub(super) fn passed(&self, settings: &Settings) -> Vec<(&'static str, String)> {
        let gib = ringfall_core::units::gib;
        let rows = [
            ("num_users", f64::from(settings.num_users), "users_max", f64::from(self.users_max)),
            ("duration", settings.duration_s as f64, "duration_s_max", self.duration_s_max as f64),
            (
                "gpu_mem_gb",
                gib(settings.gpu_memory_bytes_each),
                "gpu_mem_gb_max",
                self.gpu_mem_gb_max,
            ),
            ("cpu_mem_gb", gib(settings.cpu_memory_bytes), "cpu_mem_gb_max", self.cpu_mem_gb_max),
        ];
        // A limit that is no number bounds nothing, and is a mistake.
        let is_passed =
            |value: f64, most: f64| value.partial_cmp(&most).is_none_or(std::cmp::Ordering::is_gt);
        let passed = rows.into_iter().filter(|row| is_passed(row.1, row.3));
        passed
            .map(|(key, value, limit, most)| {
                let what = format!("{value} is more than workload.limits.{limit} allows, {most}");
                (key, what)
            })
            .collect()
    }
}

impl WorkloadSection {
    /// Describes what makes no sense among the targets and the steps.
    pub(super) fn judging_is_wrong(&self) -> Option<String> {
        let targets = self.qos_targets_ms.wrong().or_else(|| self.saturation_targets.wrong());
        let judged = targets.or_else(|| self.autoscaler.wrong());
        let tiers = self.eviction.wrong().or_else(|| self.gpu.wrong());
        judged.or(tiers).or_else(|| self.health.wrong())
    }
}

impl AutoscalerPlan {
    /// With the users to begin with inside the range that may be tried.
    pub(super) fn within(self, steps: &AutoscalerSteps) -> AutoscalerPlan {
        let least = self.initial_users.max(steps.users_min);
        AutoscalerPlan { initial_users: least.min(steps.users_max), ..self }
    }
}
