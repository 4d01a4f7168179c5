//! Cores: those that this process may use, and those of the machine or container that it is in.

use rustix::thread::{CpuSet, sched_getaffinity};

use crate::kernel::{cgroups, parse_list};
use crate::root::Root;

/// Cores that this process may use, by number, ascending; empty where the kernel does not say.
pub fn allowed_cpus() -> Vec<usize> {
    let Ok(set) = sched_getaffinity(None) else { return Vec::new() };
    (0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect()
}

/// Number of cores that a process here has when nobody has bound it: those of its cgroup, or all
/// that are online. None where nothing says so.
pub fn unbound_cpu_count() -> Option<usize> {
    let root = Root::machine();
    let own = cgroups(&root, None).pop();
    let of_cgroup = own.and_then(|own| root.text(format!("{own}/cpuset.cpus.effective")));
    let list = of_cgroup.or_else(|| root.text("/sys/devices/system/cpu/online"))?;
    parse_list(&list).map(|list| list.len()).filter(|&count| count > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_may_use_some_of_the_cores() {
        let allowed = allowed_cpus();
        assert!(!allowed.is_empty() && allowed.is_sorted());
        assert!(unbound_cpu_count() >= Some(allowed.len()), "{allowed:?}");
    }
}
