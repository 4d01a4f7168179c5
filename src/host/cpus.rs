//! Cores: those that this process may use, and those of the machine or container that it is in.

use rustix::thread::{CpuSet, sched_getaffinity};

/// Cores that this process may use, by number, ascending; empty where the kernel does not say.
#[must_use]
pub fn allowed_cpus() -> Vec<usize> {
    let Ok(set) = sched_getaffinity(None) else { return Vec::new() };
    (0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect()
}

/// Number of cores that a process here has when nobody has bound it: those of its cgroup, or all
/// that are online. None where nothing says so.
#[must_use]
pub fn unbound_cpu_count() -> Option<usize> {
    let read = |path: &str| std::fs::read_to_string(path).ok();
    let own = read("/proc/self/cgroup").unwrap_or_default();
    let own = own.lines().find_map(|line| line.strip_prefix("0::")).unwrap_or("/").to_owned();
    let of_cgroup = read(&format!("/sys/fs/cgroup{own}/cpuset.cpus.effective"));
    let list = of_cgroup.or_else(|| read("/sys/devices/system/cpu/online"))?;
    count(&list).filter(|&count| count > 0)
}

/// Number of entries of a list such as `0-3,8`.
fn count(list: &str) -> Option<usize> {
    let parts = list.trim().split(',').filter(|part| !part.is_empty());
    let length = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        Some(last.checked_sub(first)? + 1)
    };
    parts.map(length).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_cores_are_counted() {
        assert_eq!(count("0-3,8\n"), Some(5));
        assert_eq!(count("7"), Some(1));
        assert_eq!(count("\n"), Some(0));
        assert_eq!((count("3-1"), count("x")), (None, None));
    }

    #[test]
    fn this_process_may_use_some_of_the_cores() {
        let allowed = allowed_cpus();
        assert!(!allowed.is_empty() && allowed.is_sorted());
        assert!(unbound_cpu_count() >= Some(allowed.len()), "{allowed:?}");
    }
}
