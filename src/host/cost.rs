//! Cost of the run for this process: CPU time, memory, context switches.

use serde::Serialize;

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
    user_s: f64,
    system_s: f64,
    voluntary: u64,
    involuntary: u64,
}

impl CostSnapshot {
    /// Now. `None` where the kernel doesn't say.
    #[must_use]
    pub fn now() -> Option<CostSnapshot> {
        let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
        let status = std::fs::read_to_string("/proc/self/status").ok()?;
        // The executable's name, in parentheses, may hold blanks.
        let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace().skip(11);
        let ticks_per_s = rustix::param::clock_ticks_per_second() as f64;
        let mut ticks = || Some(fields.next()?.parse::<u64>().ok()? as f64 / ticks_per_s);
        let (user_s, system_s) = (ticks()?, ticks()?);
        let (voluntary, involuntary) = thread_switches().unwrap_or((
            number_after(&status, "voluntary_ctxt_switches:")?,
            number_after(&status, "nonvoluntary_ctxt_switches:")?,
        ));
        Some(CostSnapshot { user_s, system_s, voluntary, involuntary })
    }

    /// Resources used from `self` to `later`.
    #[must_use]
    pub fn until(&self, later: &CostSnapshot) -> Cost {
        Cost {
            cpu_user_s: Some(later.user_s - self.user_s),
            cpu_system_s: Some(later.system_s - self.system_s),
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
        sums.0 += number_after(&status, "voluntary_ctxt_switches:")?;
        sums.1 += number_after(&status, "nonvoluntary_ctxt_switches:")?;
    }
    Some(sums)
}

/// Highest resident memory since the process began.
#[must_use]
pub fn peak_rss_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    number_after(&status, "VmHWM:").map(|kib| kib * 1024)
}

/// Has [`peak_rss_bytes`] count from now on (`/proc/self/clear_refs`, proc(5)); whether it does.
pub fn reset_peak_rss() -> bool {
    std::fs::write("/proc/self/clear_refs", "5").is_ok()
}

/// The number on the line that begins with `name`.
fn number_after(text: &str, name: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
    rest.split_ascii_whitespace().next()?.parse().ok()
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

    #[test]
    fn numbers_are_found_by_their_names() {
        let text = "VmHWM:\t  123 kB\nnonvoluntary_ctxt_switches:\t4\n";
        assert_eq!(number_after(text, "VmHWM:"), Some(123));
        assert_eq!(number_after(text, "voluntary_ctxt_switches:"), None);
    }
}
