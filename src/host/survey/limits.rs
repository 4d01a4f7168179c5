//! Limits of this process and of the kernel that a run can come up against.

use serde::{Deserialize, Serialize};

use crate::kernel::{cgroups, value_of};
use crate::room::human;
use crate::root::Root;

/// Limits that the kernel sets for this process and for the machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct Limits {
    /// Files that this process may have open (`ulimit -n`); null: any number.
    pub open_files: Option<u64>,
    /// Limit to which that may be raised without root; null: any number.
    pub open_files_hard: Option<u64>,
    /// Memory that this process may lock, bytes (`ulimit -l`); null: any amount.
    pub locked_memory_bytes: Option<u64>,
    /// Threads and processes that this user may have (`ulimit -u`); null: any number.
    pub processes: Option<u64>,
    /// Whether this process may lock any amount of memory, whatever the limit (CAP_IPC_LOCK).
    pub may_lock_memory: Option<bool>,
    /// Whether this process may change the settings of the kernel (CAP_SYS_ADMIN).
    pub is_admin: Option<bool>,
    /// `kernel.io_uring_disabled`: 0 anybody may use it, 1 only members of a group, 2 nobody.
    pub io_uring_disabled: Option<u64>,
    /// `kernel.io_uring_group`; null when none is set.
    pub io_uring_group: Option<u64>,
    /// Limits on I/O that a cgroup sets for a device.
    pub throttles: Vec<Throttle>,
}

/// Limit of a cgroup on the I/O of a device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct Throttle {
    /// Device numbers, as `major:minor`.
    pub numbers: String,
    /// The file that says so.
    pub file: String,
    /// Text of the limit: `rbps=104857600`.
    pub limit: String,
    /// Whether it was set, changed or lifted during the run; not there where it was not.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_changed: bool,
}

/// Bytes and I/Os that a device moves in a second, those that it reads before those that it writes.
#[derive(Clone, Copy, Debug, Default)]
pub struct DeviceRates {
    /// Bytes per second, in that order.
    pub bytes: [f64; 2],
    /// I/Os per second; none where they are not known.
    pub ios: Option<[f64; 2]>,
}

impl Throttle {
    /// Limit in words, for a device of that name: `reads of vda to 100.0 MiB/s`.
    pub fn told(&self, name: &str) -> String {
        let (what, value) = self.limit.split_once('=').unwrap_or(("", &self.limit));
        let direction = if what.starts_with('r') { "reads" } else { "writes" };
        let told = match value.parse() {
            Ok(bytes) if what.ends_with("bps") => {
                format!("{direction} of {name} to {}/s", human(bytes))
            }
            Ok(_) if what.ends_with("iops") => {
                format!("{direction} of {name} to {value} I/Os per second")
            }
            _ => format!("{name} to {}", self.limit),
        };
        if self.is_changed { told + " (changed during the run)" } else { told }
    }

    /// Share of the limit that a device of these rates uses; none of a limit of another kind, or
    /// of one that was not there all the time.
    #[must_use]
    pub fn share_used(&self, rates: DeviceRates) -> Option<f64> {
        if self.is_changed {
            return None;
        }
        let (what, value) = self.limit.split_once('=')?;
        let limit: u64 = value.parse().ok().filter(|limit| *limit > 0)?;
        let rates = match what {
            _ if what.ends_with("bps") => Some(rates.bytes),
            _ if what.ends_with("iops") => rates.ios,
            _ => None,
        };
        let [read, written] = rates?;
        Some(if what.starts_with('r') { read } else { written } / limit as f64)
    }
}

/// Numbers of capabilities (linux/capability.h).
const CAP_IPC_LOCK: u32 = 14;
const CAP_SYS_ADMIN: u32 = 21;

impl Limits {
    pub(super) fn look(root: &Root) -> Limits {
        let limits = root.page("/proc/self/limits").unwrap_or_default();
        let soft = |name| limit(&limits, name, 0);
        let status = root.page("/proc/self/status").unwrap_or_default();
        let effective =
            value_of(&status, "CapEff").and_then(|mask| u64::from_str_radix(mask, 16).ok());
        let capable = |number: u32| effective.map(|mask| mask & (1 << number) != 0);
        Limits {
            open_files: soft("Max open files"),
            open_files_hard: limit(&limits, "Max open files", 1),
            locked_memory_bytes: soft("Max locked memory"),
            processes: soft("Max processes"),
            may_lock_memory: capable(CAP_IPC_LOCK),
            is_admin: capable(CAP_SYS_ADMIN),
            io_uring_disabled: root.number("/proc/sys/kernel/io_uring_disabled"),
            // -1: none.
            io_uring_group: root.number("/proc/sys/kernel/io_uring_group"),
            throttles: throttles(root),
        }
    }
}

/// The columns of a row of `/proc/self/limits` after its name; `unlimited` is none.
fn limit(page: &str, name: &str, column: usize) -> Option<u64> {
    let row = page.lines().find_map(|line| line.strip_prefix(name))?;
    row.split_ascii_whitespace().nth(column)?.parse().ok()
}

/// Limits that the cgroups of this process, from the root down to its own, set on devices.
pub(crate) fn throttles(root: &Root) -> Vec<Throttle> {
    let mut found = Vec::new();
    for directory in cgroups(root, None) {
        read(root, &format!("{directory}/io.max"), None, &mut found);
    }
    for directory in cgroups(root, Some("blkio")) {
        for what in ["read_bps", "write_bps", "read_iops", "write_iops"] {
            let file = format!("{directory}/blkio.throttle.{what}_device");
            read(root, &file, Some(what), &mut found);
        }
    }
    found
}

/// A line a device: `8:0 rbps=1048576 wbps=max`, or in version 1 `8:0 1048576`.
fn read(root: &Root, file: &str, what: Option<&str>, found: &mut Vec<Throttle>) {
    for line in root.page(file).unwrap_or_default().lines() {
        let Some((numbers, limits)) = line.split_once(' ') else { continue };
        for limit in limits.split_ascii_whitespace().filter(|limit| !limit.ends_with("=max")) {
            found.push(Throttle {
                numbers: numbers.to_owned(),
                file: file.to_owned(),
                limit: what.map_or_else(|| limit.to_owned(), |what| format!("{what}={limit}")),
                is_changed: false,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_read_by_column() {
        let page = "Limit                     Soft Limit           Hard Limit           Units\n\
                    Max locked memory         8388608              unlimited            bytes\n\
                    Max open files            1024                 524288               files\n";
        assert_eq!(limit(page, "Max open files", 0), Some(1024));
        assert_eq!(limit(page, "Max open files", 1), Some(524_288));
        assert_eq!(limit(page, "Max locked memory", 1), None);
        assert_eq!(limit(page, "Max processes", 0), None);
    }
    #[test]
    fn limits_of_both_versions_of_cgroups_are_told_in_words() {
        for (limit, told, used) in [
            ("rbps=104857600", "reads of vda to 100.0 MiB/s", Some(0.25)),
            ("write_bps=1073741824", "writes of vda to 1.0 GiB/s", Some(0.5)),
            ("wbps=0", "writes of vda to 0 KiB/s", None),
            ("riops=500", "reads of vda to 500 I/Os per second", Some(0.5)),
            ("write_iops=20", "writes of vda to 20 I/Os per second", Some(1.0)),
            ("latency=5ms", "vda to latency=5ms", None),
        ] {
            let (numbers, file) = ("254:0".to_owned(), "/io.max".to_owned());
            let limit = limit.to_owned();
            let throttle = Throttle { numbers, file, limit, is_changed: false };
            assert_eq!(throttle.told("vda"), told);
            let bytes = [f64::from(25 << 20), f64::from(512 << 20)];
            let rates = DeviceRates { bytes, ios: Some([250.0, 20.0]) };
            assert_eq!(throttle.share_used(rates), used);
            let changed = Throttle { is_changed: true, ..throttle };
            assert_eq!(changed.told("vda"), format!("{told} (changed during the run)"));
            assert_eq!(changed.share_used(rates), None);
        }
    }
}
