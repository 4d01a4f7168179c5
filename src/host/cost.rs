//! Cost of the run for this process: CPU time, memory, context switches.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;

use crate::kernel::{cgroups, kib_of, value_of};
use crate::root::Root;

/// The difference of two [`CostSnapshot`]s.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Cost {
    /// CPU time in user mode, s.
    pub cpu_user_s: Option<f64>,
    /// CPU time in the kernel, s.
    pub cpu_system_s: Option<f64>,
    /// CPU time that the closest quota of a cgroup allows for each second, in cores.
    pub cpu_quota_cores: Option<f64>,
    /// Periods of that quota in which threads ran.
    pub cpu_quota_periods: Option<u64>,
    /// Those of them in which it kept threads from running.
    pub cpu_throttled_periods: Option<u64>,
    /// Time for which it kept CPUs from running threads, s: of several CPUs, the sum.
    pub cpu_throttled_s: Option<f64>,
    /// Context switches that we asked for by waiting.
    pub context_switches_voluntary: Option<u64>,
    /// Context switches that were forced on us.
    pub context_switches_involuntary: Option<u64>,
    /// Highest resident memory since the process began, bytes.
    pub peak_rss_bytes: Option<u64>,
}

/// Resources that this process has used since it began.
#[derive(Clone, Debug)]
pub struct CostSnapshot {
    /// CPU time to the nanosecond.
    cpu: Duration,
    /// CPU time as `/proc` has it, in ticks of 10 ms: good for its division alone.
    user_ticks: u64,
    system_ticks: u64,
    voluntary: u64,
    involuntary: u64,
    quotas: Vec<Quota>,
}

/// A cgroup's quota on CPU time, and how often it was reached.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Quota {
    /// Infinite where it is not set.
    cores: f64,
    periods: u64,
    throttled_periods: u64,
    throttled_s: f64,
}

/// Quotas of the cgroups that this process is in, from the top down: also those that are not set,
/// as they may be before the run ends.
fn quotas(root: &Root) -> Vec<Quota> {
    let number = |text: &str, name: &str| -> Option<u64> {
        let of_line = |line: &str| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok();
        text.lines().find_map(of_line)
    };
    let quota = |level: &String, limit_us: Option<(u64, u64)>, (name, a_second): (&str, f64)| {
        let cores = |(quota_us, period_us)| quota_us as f64 / period_us as f64;
        let limit_us = limit_us.filter(|(_, period_us): &(u64, u64)| *period_us > 0);
        let counted = root.page(format!("{level}/cpu.stat"))?;
        Some(Quota {
            cores: limit_us.map_or(f64::INFINITY, cores),
            periods: number(&counted, "nr_periods")?,
            throttled_periods: number(&counted, "nr_throttled")?,
            throttled_s: number(&counted, name)? as f64 / a_second,
        })
    };
    let new = cgroups(root, None);
    let new = new.iter().filter_map(|level| {
        let text = root.text(format!("{level}/cpu.max"))?;
        let (most, period) = text.split_once(' ')?;
        quota(level, most.parse().ok().zip(period.parse().ok()), ("throttled_usec", 1e6))
    });
    let old = cgroups(root, Some("cpu"));
    let old = old.iter().filter_map(|level| {
        // -1 where there is none.
        let [quota_us, period_us] =
            ["quota", "period"].map(|name| root.number(format!("{level}/cpu.cfs_{name}_us")));
        quota(level, quota_us.zip(period_us), ("throttled_time", 1e9))
    });
    new.chain(old).collect()
}

impl CostSnapshot {
    /// Now. `None` where the kernel doesn't say.
    pub fn now() -> Option<CostSnapshot> {
        let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
        // The executable's name, in parentheses, may hold blanks.
        let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace().skip(11);
        let mut ticks = || fields.next()?.parse::<u64>().ok();
        let (user_ticks, system_ticks) = (ticks()?, ticks()?);
        let cpu = Duration::try_from(clock_gettime(ClockId::ProcessCPUTime)).ok()?;
        let (voluntary, involuntary) = thread_switches()?;
        let quotas = quotas(&Root::machine());
        Some(CostSnapshot { cpu, user_ticks, system_ticks, voluntary, involuntary, quotas })
    }

    /// Resources used from `self` to `later`.
    pub fn until(&self, later: &CostSnapshot) -> Cost {
        let cpu_s = later.cpu.saturating_sub(self.cpu).as_secs_f64();
        let user = later.user_ticks.saturating_sub(self.user_ticks) as f64;
        let system = later.system_ticks.saturating_sub(self.system_ticks) as f64;
        let user_s = if user + system > 0.0 { cpu_s * user / (user + system) } else { 0.0 };
        let quota = closest(&self.quotas, &later.quotas);
        Cost {
            cpu_user_s: Some(user_s),
            cpu_system_s: Some(cpu_s - user_s),
            cpu_quota_cores: quota.map(|quota| quota.cores),
            cpu_quota_periods: quota.map(|quota| quota.periods),
            cpu_throttled_periods: quota.map(|quota| quota.throttled_periods),
            cpu_throttled_s: quota.map(|quota| quota.throttled_s),
            context_switches_voluntary: later.voluntary.checked_sub(self.voluntary),
            context_switches_involuntary: later.involuntary.checked_sub(self.involuntary),
            peak_rss_bytes: peak_rss_bytes(),
        }
    }
}

/// Counts of the quota that was reached most often, of those that were set at either time; none
/// where their number changed, or there are none.
fn closest(before: &[Quota], after: &[Quota]) -> Option<Quota> {
    let counted = |(before, after): (&Quota, &Quota)| Quota {
        cores: before.cores.min(after.cores),
        periods: after.periods.saturating_sub(before.periods),
        throttled_periods: after.throttled_periods.saturating_sub(before.throttled_periods),
        throttled_s: (after.throttled_s - before.throttled_s).max(0.0),
    };
    let all = before.iter().zip(after).filter(|_| before.len() == after.len()).map(counted);
    all.filter(|quota| quota.cores.is_finite()).max_by_key(|quota| quota.throttled_periods)
}

/// `/proc/self/status` speaks of the main thread alone: the sum over all threads.
fn thread_switches() -> Option<(u64, u64)> {
    let mut sums = (0, 0);
    for task in std::fs::read_dir("/proc/self/task").ok()?.flatten() {
        // A thread may end between the listing and the reading.
        let Ok(status) = std::fs::read_to_string(task.path().join("status")) else { continue };
        sums.0 += value_of(&status, "voluntary_ctxt_switches")?.parse::<u64>().ok()?;
        sums.1 += value_of(&status, "nonvoluntary_ctxt_switches")?.parse::<u64>().ok()?;
    }
    Some(sums)
}

/// Highest resident memory since the process began.
pub fn peak_rss_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    kib_of(&status, "VmHWM")
}

/// Has [`peak_rss_bytes`] count from now on (`/proc/self/clear_refs`, proc(5)); whether it does.
pub fn reset_peak_rss() -> bool {
    std::fs::write("/proc/self/clear_refs", "5").is_ok()
}

impl Cost {
    /// CPU seconds for each GiB of `bytes` moved.
    pub fn cpu_s_per_gib(&self, bytes: u64) -> Option<f64> {
        let gib = bytes as f64 / (1u64 << 30) as f64;
        (gib > 0.0).then_some((self.cpu_user_s? + self.cpu_system_s?) / gib)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Scratch;

    #[test]
    fn a_quota_of_a_cgroup_is_counted_in_both_hierarchies() {
        for (mounts, own, limits, counted) in [
            (
                "35 31 0:32 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
                "0::/a\n",
                vec![("cpu.max", "10000 100000\n")],
                "usage_usec 9\nnr_periods 60\nnr_throttled 57\nthrottled_usec 4800000\n",
            ),
            (
                "35 31 0:32 / /sys/fs/cgroup rw - cgroup cgroup rw,cpu\n",
                "1:cpu:/a\n0::/\n",
                vec![("cpu.cfs_quota_us", "10000\n"), ("cpu.cfs_period_us", "100000\n")],
                "nr_periods 60\nnr_throttled 57\nthrottled_time 4800000000\n",
            ),
        ] {
            let scratch = Scratch::new("quota");
            let root = Root::at(&scratch);
            scratch.file("proc/self/mountinfo", mounts);
            scratch.file("proc/self/cgroup", own);
            assert!(quotas(&root).is_empty());
            for (name, text) in limits {
                scratch.file(&format!("sys/fs/cgroup/a/{name}"), text);
            }
            scratch.file("sys/fs/cgroup/a/cpu.stat", counted);
            let want = Quota { cores: 0.1, periods: 60, throttled_periods: 57, throttled_s: 4.8 };
            assert_eq!(quotas(&root), [want]);
            let before = Quota { periods: 20, throttled_periods: 20, throttled_s: 0.8, ..want };
            let told = closest(&[before], &[want]).unwrap();
            assert_eq!((told.periods, told.throttled_periods, told.cores), (40, 37, 0.1));
            assert!((told.throttled_s - 4.0).abs() < 1e-9);
            assert_eq!(closest(&[], &[want]), None);
            for unlimited in ["cpu.max", "cpu.cfs_quota_us"] {
                let text = if unlimited == "cpu.max" { "max 100000" } else { "-1" };
                scratch.file(&format!("sys/fs/cgroup/a/{unlimited}"), text);
            }
            let unset = Quota { cores: f64::INFINITY, ..want };
            assert_eq!(quotas(&root), [unset], "there is no limit");
            assert_eq!(closest(&[unset], &[unset]), None);
            // One that was set during the run was not seen.
            let begun = Quota { cores: f64::INFINITY, ..before };
            assert_eq!(closest(&[begun], &[want]).unwrap().throttled_periods, 37);
        }
    }

    #[test]
    fn work_shows_as_cpu_time_and_memory_as_rss() {
        let before = CostSnapshot::now().unwrap();
        let mut sum = 0u64;
        while before.until(&CostSnapshot::now().unwrap()).cpu_user_s < Some(0.03) {
            sum = (0..100_000u64).fold(sum, |a, b| a ^ b.wrapping_mul(a | 1));
        }
        let cost = before.until(&CostSnapshot::now().unwrap());
        assert!(cost.peak_rss_bytes > Some(1 << 20), "{cost:?} {sum}");
        let per_gib = cost.cpu_s_per_gib(1 << 29).unwrap();
        assert!(per_gib >= 0.06, "{per_gib}");
        assert_eq!(cost.cpu_s_per_gib(0), None);
    }
}
