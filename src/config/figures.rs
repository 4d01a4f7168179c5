//! Sections of a file below `workload`: figures, each with its default, what it may be and what it
//! comes to. Targets of the QoS classes and of the storage tier, what storage must do for a run to
//! pass, the autoscaler's steps, the tiers' limits, and the user's own limits on settings. None has
//! a flag.

use ringfall_core::clock::{MILLISECOND, Nanos};
use ringfall_core::placement::{StorageEviction, Watermarks};
use ringfall_workloads::autoscale::StorageTargets;
use ringfall_workloads::config::USERS_MAX;

use super::{Settings, WorkloadSection};

/// Longest target: a day.
pub const TARGET_MS_MAX: u64 = 86_400_000;
/// Most users of a run that moves data, and that an autoscaler tries: only on a simulated clock do
/// those who wait cost nothing.
pub(super) const USERS_SERVED_MAX: u32 = 100_000;
/// Longest queue that is a target: as many requests as an autoscaler may have users.
pub const WAITING_MAX: u64 = USERS_SERVED_MAX as u64;
const DAY_MS: f64 = TARGET_MS_MAX as f64;

/// Declares such a section: its figures, which a file may leave out, as fields.
macro_rules! figures {
    (
        $(#[$of_all:meta])*
        pub struct $name:ident {
            $($(#[doc = $doc:literal])+ pub $key:ident: $type:ty = $default:expr,)+
        }
    ) => {
        $(#[$of_all])*
        #[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
        #[serde(default, deny_unknown_fields)]
        pub struct $name {
            $($(#[doc = $doc])+ pub $key: $type,)+
        }

        impl Default for $name {
            fn default() -> Self {
                $name { $($key: $default,)+ }
            }
        }
    };
}

figures! {
    /// End-to-end latency that each class may take at P95, P99, P99.9 and P99.99, ms.
    ///
    /// By default: as in the reference benchmark's `config.yaml`.
    #[derive(Eq)]
    pub struct QosTargets {
        /// The most urgent class.
        pub interactive: [u64; 4] = [50, 100, 150, 200],
        /// Targets of the class between the two others.
        pub responsive: [u64; 4] = [100, 200, 350, 500],
        /// The class that can wait.
        pub batch: [u64; 4] = [1_000, 5_000, 7_500, 10_000],
    }
}

impl QosTargets {
    /// All of them, most urgent class first, ms.
    pub fn all_ms(&self) -> [[u64; 4]; 3] {
        [self.interactive, self.responsive, self.batch]
    }

    /// P95 target of each class, ns, at most a day.
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

figures! {
    /// Targets of the storage tier for the autoscaler in mode `qos`: a value at its target is a
    /// saturation of 1.
    ///
    /// By default: the latencies that the reference's documents ask of a drive, which its
    /// `storage_health` asks too, and the queue of its `config.yaml`.
    pub struct SaturationTargets {
        /// P95 of the time that the device takes to read an entry, ms.
        pub read_p95_ms: f64 = 200.0,
        /// P95 of the time that the device takes to write an entry, ms.
        pub write_p95_ms: f64 = 500.0,
        /// Entries that wait for the device on average, and likewise requests that wait to be
        /// served.
        pub queue_depth: u64 = 100,
    }
}

impl SaturationTargets {
    /// In the autoscaler's units.
    pub fn storage(&self) -> StorageTargets {
        let ns = |ms: f64| Nanos::from_ns_f64(ms * MILLISECOND.as_ns_f64()).as_ns();
        StorageTargets {
            read_p95_ns: ns(self.read_p95_ms),
            write_p95_ns: ns(self.write_p95_ms),
            queue_depth: self.queue_depth,
        }
    }
}

figures! {
    /// Steps of the autoscaler from one number of users to the next.
    pub struct AutoscalerSteps {
        /// Fewest users that it tries, 1 or more.
        pub users_min: u32 = 1,
        /// Most users that it tries.
        pub users_max: u32 = USERS_SERVED_MAX,
        /// While more users are served well, they are multiplied by this, above 1.
        pub scale_up_factor: f64 = 2.0,
        /// Until the first number of users that is served well, they are multiplied by this, below
        /// 1.
        pub scale_down_factor: f64 = 0.5,
    }
}

impl AutoscalerSteps {
    fn wrong(&self) -> Option<String> {
        let (least, most) = (self.users_min, self.users_max);
        (least < 1 || least > most || most > USERS_SERVED_MAX).then(|| {
            format!(
                "autoscaler.users_min is {least} and users_max {most}: give a range within 1 to \
                 {USERS_SERVED_MAX}"
            )
        })
    }
}

figures! {
    /// The most that a run may ask for, so that a slip of the keyboard is found before it costs a
    /// day. The program's own bounds hold besides.
    ///
    /// By default: the program's own bounds.
    pub struct Limits {
        /// Largest number of users that a run may ask for.
        pub users_max: u32 = USERS_MAX,
        /// Length of the measurement, s.
        pub duration_s_max: u64 = 86_400,
        /// Capacity of the GPU tier per GPU, GiB.
        pub gpu_mem_gb_max: f64 = 65_536.0,
        /// Capacity of the CPU tier, GiB.
        pub cpu_mem_gb_max: f64 = 131_072.0,
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
        let passed = rows.into_iter().filter(|(_, value, _, most)| {
            value.partial_cmp(most).is_none_or(std::cmp::Ordering::is_gt)
        });
        let told = passed.map(|(key, value, limit, most)| {
            (key, format!("{value} is more than workload.limits.{limit} allows, {most}"))
        });
        told.collect()
    }
}

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
    pub fn watermarks(&self) -> Watermarks {
        Watermarks {
            evict_target_permille: permille(self.target_usage_ratio),
            skip_permille: permille(self.large_entry_limit_ratio),
            storage: StorageEviction::default(),
        }
    }
}

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
    pub fn bytes_of(&self, memory_bytes: u64, free_bytes: u64) -> u64 {
        let share = |bytes: u64, ratio: f64| bytes / 1000 * u64::from(permille(ratio));
        let left = 1.0 - self.reserve_fraction.clamp(0.0, 1.0);
        share(memory_bytes, self.memory_fraction).min(share(free_bytes, left))
    }
}

/// In thousandths, rounded to the nearest; what is no share is held to one.
fn permille(ratio: f64) -> u16 {
    (ratio.clamp(0.0, 1.0) * 1000.0).round() as u16
}

/// Values that a figure may have: what to give, and whether a value is one.
type Range = (&'static str, fn(f64) -> bool);

const TIME: Range = ("a time above 0, to 86400000 ms", |ms| ms > 0.0 && ms <= DAY_MS);
const WAITING: Range =
    ("a number from 1 to 100000", |count| (1.0..=WAITING_MAX as f64).contains(&count));
const SHARE: Range = ("a share, 0 to 1", |share| (0.0..=1.0).contains(&share));
/// Far above any machine: it keeps slips of the keyboard out.
const RATE: Range = ("a rate from 0 to 1e12", |rate| (0.0..=1e12).contains(&rate));
const GROWTH: Range = ("a factor above 1, to 100", |factor| factor > 1.0 && factor <= 100.0);
const DECLINE: Range = ("a factor above 0 and below 1", |factor| factor > 0.0 && factor < 1.0);

impl WorkloadSection {
    /// Describes what makes no sense among the targets, the steps and the tiers' limits.
    pub(super) fn judging_is_wrong(&self) -> Option<String> {
        let (saturation, steps) = (&self.saturation_targets, &self.autoscaler);
        let (eviction, gpu, health) = (&self.eviction, &self.gpu, &self.health);
        let figures = [
            ("saturation_targets.read_p95_ms", saturation.read_p95_ms, TIME),
            ("saturation_targets.write_p95_ms", saturation.write_p95_ms, TIME),
            ("saturation_targets.queue_depth", saturation.queue_depth as f64, WAITING),
            ("autoscaler.scale_up_factor", steps.scale_up_factor, GROWTH),
            ("autoscaler.scale_down_factor", steps.scale_down_factor, DECLINE),
            ("eviction.target_usage_ratio", eviction.target_usage_ratio, SHARE),
            ("eviction.large_entry_limit_ratio", eviction.large_entry_limit_ratio, SHARE),
            ("gpu.memory_fraction", gpu.memory_fraction, SHARE),
            ("gpu.reserve_fraction", gpu.reserve_fraction, SHARE),
            ("health.write_device_p95_ms", health.write_device_p95_ms, TIME),
            ("health.read_device_p95_ms", health.read_device_p95_ms, TIME),
            ("health.cpu_p95_ms", health.cpu_p95_ms, TIME),
            ("health.hit_rate_min", health.hit_rate_min, SHARE),
            ("health.read_gib_per_s_min", health.read_gib_per_s_min, RATE),
            ("health.write_gib_per_s_min", health.write_gib_per_s_min, RATE),
            ("health.tokens_per_s_min", health.tokens_per_s_min, RATE),
        ];
        let mut figures = figures.into_iter();
        let figure = figures.find(|&(_, value, (_, holds))| !holds(value));
        let told = figure.map(|(name, value, (what, _))| format!("{name} is {value}: give {what}"));
        self.qos_targets_ms.wrong().or_else(|| self.autoscaler.wrong()).or(told)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
