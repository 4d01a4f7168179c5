//! Cost of the run for this process: CPU time, memory, context switches.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;

use crate::kernel::{kib_of, value_of};

/// The difference of two [`CostSnapshot`]s.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Cost {
    /// CPU time in user mode, s.
    pub cpu_user_s: Option<f64>,
    /// CPU time in the kernel, s.
    pub cpu_system_s: Option<f64>,
    /// Context switches that we asked for by waiting.
    pub context_switches_voluntary: Option<u64>,
    /// Context switches that were forced on us.
    pub context_switches_involuntary: Option<u64>,
    /// Highest resident memory since the process began, bytes.
    pub peak_rss_bytes: Option<u64>,
}

/// Resources that this process has used since it began.
#[derive(Clone, Copy, Debug)]
pub struct CostSnapshot {
    /// CPU time to the nanosecond.
    cpu: Duration,
    /// CPU time as `/proc` has it, in ticks of 10 ms: good for its division alone.
    user_ticks: u64,
    system_ticks: u64,
    voluntary: u64,
    involuntary: u64,
}

impl CostSnapshot {
    /// Now. `None` where the kernel doesn't say.
    #[must_use]
    pub fn now() -> Option<CostSnapshot> {
        let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
        // The executable's name, in parentheses, may hold blanks.
        let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace().skip(11);
        let mut ticks = || fields.next()?.parse::<u64>().ok();
        let (user_ticks, system_ticks) = (ticks()?, ticks()?);
        let cpu = Duration::try_from(clock_gettime(ClockId::ProcessCPUTime)).ok()?;
        let (voluntary, involuntary) = thread_switches()?;
        Some(CostSnapshot { cpu, user_ticks, system_ticks, voluntary, involuntary })
    }

    /// Resources used from `self` to `later`.
    #[must_use]
    pub fn until(&self, later: &CostSnapshot) -> Cost {
        let cpu_s = later.cpu.saturating_sub(self.cpu).as_secs_f64();
        let user = later.user_ticks.saturating_sub(self.user_ticks) as f64;
        let system = later.system_ticks.saturating_sub(self.system_ticks) as f64;
        let user_s = if user + system > 0.0 { cpu_s * user / (user + system) } else { 0.0 };
        Cost {
            cpu_user_s: Some(user_s),
            cpu_system_s: Some(cpu_s - user_s),
            context_switches_voluntary: later.voluntary.checked_sub(self.voluntary),
            context_switches_involuntary: later.involuntary.checked_sub(self.involuntary),
            peak_rss_bytes: peak_rss_bytes(),
        }
    }
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
#[must_use]
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
    #[must_use]
    pub fn cpu_s_per_gib(&self, bytes: u64) -> Option<f64> {
        let gib = bytes as f64 / (1u64 << 30) as f64;
        (gib > 0.0).then_some((self.cpu_user_s? + self.cpu_system_s?) / gib)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
