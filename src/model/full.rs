//! Resources of a run that had no more to give: the drive, and the tier in which room was waited
//! for.

use ringfall_core::key::Tier;
use ringfall_host::Machine;
use ringfall_host::survey::DeviceRates;

use crate::RunResult;
use crate::facts::quotient;
use crate::simulation::{Binding, percent};

/// Share of the drive's limits from which on its bandwidth is used up: the knee of `saturate`'s
/// search lies at 0.95, and a run's mix of sizes stays below what its best size reaches.
const ROOFLINE_FULL: f64 = 0.8;

/// Whether a drive is full of whose limits, its own and those of cgroups, these shares were used.
pub(crate) fn is_full(shares: [Option<f64>; 2]) -> bool {
    shares.into_iter().flatten().any(|share| share >= ROOFLINE_FULL)
}

/// Whether requests that waited for room waited for something else in truth, as for a drive that
/// had no more to give, or that wrote what was to leave no faster.
pub(crate) fn room_waits_follow(result: &RunResult) -> bool {
    let throttle_share = result.throttle().and_then(|throttle| throttle.share);
    let is_full = is_full([result.roofline_share(), throttle_share]);
    let binds = result.simulation.as_ref().and_then(|simulation| simulation.binds.known());
    (is_full && binds.is_none()) || Evicted::of(result).room_waits_follow(binds)
}

/// Counts of the kernel for a device over the window, reads before writes.
pub(crate) struct DeviceCounts<'a> {
    /// Name of the device.
    pub device: &'a str,
    /// Bytes that were moved.
    pub bytes: [u64; 2],
    /// Number of I/Os that were made.
    pub ios: [u64; 2],
}

/// Share of a cgroup's limit that a run used on average from which on it is told.
const THROTTLE_TOLD: f64 = 0.5;

/// Limit of a cgroup on the I/O of a device below the data files, and a run's use of it.
#[derive(Clone, Debug)]
pub(crate) struct ThrottleUse {
    /// The limit, as a sentence without its full stop.
    pub told: String,
    /// Share of it that the run used on average; none where that is not known.
    pub share: Option<f64>,
}

impl ThrottleUse {
    /// The one that was used most in so many seconds, by the kernel's counters of each device, in
    /// which others may have a part: all beyond the bytes that the engine moved.
    pub fn most(
        machine: &Machine,
        counts: &[DeviceCounts<'_>],
        moved_bytes: [u64; 2],
        seconds: f64,
    ) -> Option<ThrottleUse> {
        let rates = |name: &str| {
            let counts = counts.iter().find(|counts| counts.device == name)?;
            let part = |of: usize| quotient(moved_bytes[of], counts.bytes[of]);
            let own = |all: [u64; 2]| {
                [0, 1].map(|of| all[of] as f64 * part(of).unwrap_or(0.0).min(1.0) / seconds)
            };
            let rates = DeviceRates { bytes: own(counts.bytes), ios: Some(own(counts.ios)) };
            (seconds > 0.0).then_some(rates)
        };
        let order = |share: &Option<f64>| share.unwrap_or(0.0);
        let (throttle, share) = machine
            .throttle_shares(rates)
            .max_by(|(_, one), (_, other)| order(one).total_cmp(&order(other)))?;
        Some(ThrottleUse { told: machine.throttled([throttle])?, share })
    }

    /// Whether it may have held up I/Os: one that is met in moments alone is used by half.
    pub fn is_told(&self) -> bool {
        self.share.is_none_or(|share| share >= THROTTLE_TOLD)
    }

    /// The finding as a sentence without its full stop.
    pub fn sentence(&self) -> String {
        let ThrottleUse { told, share } = self;
        let used = |share| format!("{told}, {} of which the run used", percent(share));
        match *share {
            None => of_that_limit(told, "may be"),
            Some(share) if is_full([Some(share), None]) => of_that_limit(&used(share), "are"),
            Some(share) => format!("{} on average", used(share)),
        }
    }
}

fn of_that_limit(told: &str, are: &str) -> String {
    format!("{told}: the figures {are} of that limit rather than of the drive")
}

/// Sentence on the limits of cgroups that were found in place of a drive's, at these rates of each
/// device; none where they are far above them.
pub fn reached_throttles(
    machine: &Machine,
    rates: impl Fn(&str) -> Option<DeviceRates>,
) -> Option<String> {
    let is_reached = |share: Option<f64>| share.is_none() || is_full([share, None]);
    let reached = machine.throttle_shares(rates).filter(|(_, share)| is_reached(*share));
    let (reached, shares): (Vec<_>, Vec<_>) = reached.unzip();
    let are = if shares.iter().all(Option::is_some) { "are" } else { "may be" };
    machine.throttled(reached).map(|told| of_that_limit(&told, are))
}

/// Limit of a cgroup on the CPU time of a run, and what it cost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct CpuQuota {
    /// CPU time that is allowed for each second, s.
    pub cores: f64,
    /// Number of the quota's periods in which threads ran, and of those that it throttled.
    pub periods: [u64; 2],
    /// Time for which CPUs were kept from running threads, s: of several CPUs, the sum.
    pub throttled_s: f64,
    /// Length of the window, s, of all shards together.
    pub shards_s: f64,
}

/// Share of the requests' time that the quota took from which on it limits them.
const QUOTA_BINDS: f64 = 0.5;
/// Share of the window from which on a P95 may be that of requests whose threads were held back.
const QUOTA_TOLD: f64 = 0.05;

impl CpuQuota {
    /// That of a run; none without one.
    pub fn of(result: &RunResult) -> Option<CpuQuota> {
        let cost = &result.cost;
        Some(CpuQuota {
            cores: cost.cpu_quota_cores?,
            periods: [cost.cpu_quota_periods?, cost.cpu_throttled_periods?],
            throttled_s: cost.cpu_throttled_s?,
            shards_s: f64::from(result.plan.shards) * result.window.seconds,
        })
    }

    /// Share of the window in which a shard could not run: of a period that is throttled, that may
    /// be next to nothing.
    fn held_share(&self) -> f64 {
        (self.throttled_s / self.shards_s.max(f64::MIN_POSITIVE)).min(1.0)
    }

    /// Whether the quota took most of the requests' time, so much of which went to generation and
    /// passes whether or not a thread runs.
    pub fn has_bound(&self, generation_share: f64) -> bool {
        self.held_share() * (1.0 - generation_share) >= QUOTA_BINDS
    }

    /// Whether the quota shows in latencies.
    pub fn is_told(&self) -> bool {
        self.held_share() >= QUOTA_TOLD
    }

    /// The finding as a sentence without its full stop.
    pub fn told(&self) -> String {
        let ([all, throttled], cores) = (self.periods, self.cores);
        let allowed = match cores < 1.0 {
            true => format!("{cores:.2} of a core"),
            false => format!("{cores:.1} cores"),
        };
        format!(
            "the cgroup of this run is allowed {allowed}, and was throttled in {throttled} of \
             {all} periods ({:.1} s, all CPUs together)",
            self.throttled_s
        )
    }
}

/// Entries that each tier was emptied of to make room.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Evicted {
    /// Number of entries that left the GPU tier, for either tier below.
    pub gpu: u64,
    /// Number of entries that left the CPU tier for storage.
    pub cpu: u64,
    /// Number of entries that storage dropped.
    pub storage: u64,
    /// Time that those on their way to storage took; none where it is not known.
    pub descent: Option<Descent>,
}

/// Time that entries took from a tier above storage to it, all together.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Descent {
    /// Waits for storage to have room, ms.
    pub room_ms: f64,
    /// Writes to storage, ms.
    pub write_ms: f64,
}

impl Evicted {
    /// Counts those of a run.
    pub fn of(result: &RunResult) -> Evicted {
        let engine = &result.engine;
        let [gpu, cpu, storage] = Tier::ALL.map(|tier| engine.evicted_entries(tier));
        let to_storage = [&engine.evictions[Tier::Cpu.index()], &engine.evictions_gpu_to_storage];
        let sum_ms = |ns: [u128; 2]| ns.iter().sum::<u128>() as f64 / 1e6;
        let descent = Descent {
            room_ms: sum_ms(to_storage.map(|row| row.room.sum_ns())),
            write_ms: sum_ms(to_storage.map(|row| row.write.sum_ns())),
        };
        Evicted { gpu, cpu, storage, descent: Some(descent) }
    }

    /// The tier in which room was waited for; none where none was emptied. Where entries are
    /// written to the tier below to make room, that takes time, unless it takes longer until there
    /// is room for them; dropping them takes none.
    pub fn tier_waited_for(self) -> Option<Tier> {
        if self.descent.is_some_and(|descent| descent.room_ms > descent.write_ms) {
            return Some(Tier::Storage);
        }
        let tiers = [(Tier::Cpu, self.cpu), (Tier::Gpu, self.gpu), (Tier::Storage, self.storage)];
        tiers.into_iter().find(|(_, entries)| *entries > 0).map(|(tier, _)| tier)
    }

    /// Whether room in a tier above storage came free as its entries were written to storage, which
    /// took longer than until there was room for them.
    fn are_written(self) -> bool {
        let are = |descent: Descent| descent.write_ms > 0.0 && descent.write_ms >= descent.room_ms;
        self.descent.is_some_and(are)
    }

    /// Whether waits for room follow from something else, given what bound a simulated run.
    pub fn room_waits_follow(self, binds: Option<Binding>) -> bool {
        match binds {
            Some(Binding::GpuTier | Binding::CpuTier | Binding::StorageTier) => false,
            Some(_) => true,
            None => self.are_written(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The storage tier was named of a run that waited for its CPU tier to be written to it.
    #[test]
    fn room_is_waited_for_where_entries_are_written_down() {
        assert_eq!(Evicted::default().tier_waited_for(), None);
        let storage = Evicted { storage: 9, ..Evicted::default() };
        assert_eq!(storage.tier_waited_for(), Some(Tier::Storage));
        assert_eq!(Evicted { cpu: 9, ..storage }.tier_waited_for(), Some(Tier::Cpu));
    }

    /// The CPU tier was named of runs that only a larger storage tier would have made faster.
    #[test]
    fn room_is_waited_for_below_where_entries_wait_for_it_longer_than_they_are_written() {
        let of = |room_ms, write_ms| Evicted {
            cpu: 9,
            storage: 9,
            descent: Some(Descent { room_ms, write_ms }),
            ..Evicted::default()
        };
        assert_eq!(of(80.0, 20.0).tier_waited_for(), Some(Tier::Storage));
        assert_eq!(of(20.0, 80.0).tier_waited_for(), Some(Tier::Cpu));
        for (binds, scarce, slow) in [
            (None, false, true),
            (Some(Binding::DriveLatency), true, true),
            (Some(Binding::CpuTier), false, false),
            (Some(Binding::StorageTier), false, false),
        ] {
            let held = [of(80.0, 20.0), of(20.0, 80.0)].map(|one| one.room_waits_follow(binds));
            assert_eq!(held, [scarce, slow], "{binds:?}");
        }
        assert!(!Evicted { cpu: 9, ..Evicted::default() }.room_waits_follow(None));
    }
}
