//! Formats of the kernel's files in `/proc` and `/sys`: lists, tables, mounts, cgroups.

use crate::root::{Root, numbered};

/// The value of `name : value`.
pub(crate) fn value_of<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim())
    })
}

/// The value of `name : 24 kB`, bytes.
pub(crate) fn kib_of(text: &str, name: &str) -> Option<u64> {
    let kib: u64 = value_of(text, name)?.split_ascii_whitespace().next()?.parse().ok()?;
    kib.checked_mul(1024)
}

/// Most numbers of one list: Linux has no more processors (`NR_CPUS`).
const NUMBERS_MAX: usize = 8192;

/// The numbers of a list: `0-3,8,10-11`.
pub(crate) fn parse_list(text: &str) -> Option<Vec<usize>> {
    let mut all = Vec::new();
    for part in text.trim().split(',').filter(|part| !part.is_empty()) {
        let (low, high) = part.split_once('-').unwrap_or((part, part));
        let (low, high): (usize, usize) = (low.parse().ok()?, high.parse().ok()?);
        if low > high {
            return None;
        }
        all.extend((low..=high).take(NUMBERS_MAX.saturating_sub(all.len())));
    }
    Some(all)
}

/// The word in use among all that there are: `always [madvise] never`.
pub(crate) fn in_brackets(all: &str) -> Option<String> {
    Some(all.split_once('[')?.1.split_once(']')?.0.to_owned())
}

/// Numbers of the NUMA nodes, ascending.
pub(crate) fn numa_nodes(root: &Root) -> Vec<u32> {
    let names = root.names("/sys/devices/system/node");
    names.into_iter().filter_map(|name| numbered(&name, "node")).collect()
}

/// A line of `/proc/self/mountinfo` (proc(5)).
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Mount {
    /// Device numbers, as `major:minor`.
    pub(crate) numbers: String,
    pub(crate) mount_point: String,
    /// Options of the mount and of the file system, comma-separated.
    pub(crate) options: String,
    /// Type of the file system.
    pub(crate) kind: String,
    pub(crate) source: String,
}

/// All mounts that this process sees, in the order in which they were made.
pub(crate) fn mounts(root: &Root) -> Vec<Mount> {
    let mountinfo = root.page("/proc/self/mountinfo").unwrap_or_default();
    mountinfo.lines().filter_map(Mount::parse).collect()
}

impl Mount {
    pub(crate) fn parse(line: &str) -> Option<Mount> {
        let (left, right) = line.split_once(" - ")?;
        let left: Vec<&str> = left.split(' ').collect();
        let right: Vec<&str> = right.split(' ').collect();
        let options = [Some(*left.get(5)?), right.get(2).copied()];
        Some(Mount {
            numbers: (*left.get(2)?).to_owned(),
            mount_point: unescape(left.get(4)?),
            options: options.into_iter().flatten().collect::<Vec<_>>().join(","),
            kind: (*right.first()?).to_owned(),
            source: unescape(right.get(1)?),
        })
    }
}

/// Blanks and the like in paths are written as `\040`.
fn unescape(text: &str) -> String {
    let mut parts = text.split('\\');
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        let octal = part.split_at_checked(3);
        let meant =
            octal.and_then(|(digits, rest)| Some((u8::from_str_radix(digits, 8).ok()?, rest)));
        let (byte, rest) = meant.unwrap_or((b'\\', part));
        bytes.push(byte);
        bytes.extend_from_slice(rest.as_bytes());
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Directories of this process's cgroup and of all above it, the outermost first: of the unified
/// tree (version 2), or of the tree of a controller of version 1. None where there is no such tree,
/// or where it shows only a part of the path (in a container).
pub(crate) fn cgroups(root: &Root, controller: Option<&str>) -> Vec<String> {
    let has = |list: &str| list.split(',').any(|one| Some(one) == controller);
    let own = root.page("/proc/self/cgroup").unwrap_or_default();
    let own = own.lines().find_map(|line| {
        // `0::/a/b`, or `9:memory:/a/b`.
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        let is_meant = match controller {
            None => line.starts_with("0::"),
            Some(_) => has(controllers),
        };
        is_meant.then_some(path)
    });
    let is_tree = |mount: &Mount| match controller {
        None => mount.kind == "cgroup2",
        Some(_) => mount.kind == "cgroup" && has(&mount.options),
    };
    let (Some(path), Some(top)) = (own, mounts(root).into_iter().find(is_tree)) else {
        return Vec::new();
    };
    if path.contains("..") {
        return Vec::new();
    }
    let mut levels = vec![top.mount_point];
    for part in path.split('/').filter(|part| !part.is_empty()) {
        levels.push(format!("{}/{part}", levels[levels.len() - 1]));
    }
    levels
}

/// Whether a name is an address of the PCI bus: `0000:3d:00.0`.
pub(crate) fn is_pci_address(name: &str) -> bool {
    let is_hex = |text: &str, digits: std::ops::RangeInclusive<usize>| {
        digits.contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
    };
    let parts: Vec<&str> = name.split([':', '.']).collect();
    let [domain, bus, device, function] = parts[..] else { return false };
    name.matches(':').count() == 2
        && is_hex(domain, 4..=8)
        && is_hex(bus, 2..=2)
        && is_hex(device, 2..=2)
        && is_hex(function, 1..=1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Scratch;

    #[test]
    fn lists_of_cores_are_those_of_the_kernel() {
        assert_eq!(parse_list("0-2,8,10-11\n"), Some(vec![0, 1, 2, 8, 10, 11]));
        assert_eq!((parse_list("\n"), parse_list("7")), (Some(vec![]), Some(vec![7])));
        assert_eq!((parse_list("x-3"), parse_list("3-1")), (None, None));
        assert_eq!(parse_list("0-99999999,0-99999999").map(|list| list.len()), Some(NUMBERS_MAX));
    }

    #[test]
    fn memory_is_read_in_kib() {
        assert_eq!(kib_of("MemTotal:       24 kB\nMemAvailable: x kB", "MemTotal"), Some(24_576));
        assert_eq!(kib_of("MemAvailable: x kB", "MemAvailable"), None);
        let status = "VmHWM:\t  123 kB\nnonvoluntary_ctxt_switches:\t4\n";
        assert_eq!(value_of(status, "nonvoluntary_ctxt_switches"), Some("4"));
        assert_eq!(value_of(status, "voluntary_ctxt_switches"), None);
    }

    #[test]
    fn mount_points_are_read_whatever_is_in_their_names() {
        assert_eq!(unescape("/a\\040b\\134\\011c"), "/a b\\\tc");
        assert_eq!(unescape("/a\\04"), "/a\\04");
        assert_eq!(unescape("/a\\999\\"), "/a\\999\\");
        let line = "36 35 98:0 /m1 /mnt2\\012x rw,noatime master:1 - ext3 /dev/root rw,errors=c";
        let found = Mount::parse(line).unwrap();
        assert_eq!((found.mount_point.as_str(), found.kind.as_str()), ("/mnt2\nx", "ext3"));
        assert_eq!(found.options, "rw,noatime,rw,errors=c");
        for line in ["garbage - ", "1 2 - 3", ""] {
            assert_eq!(Mount::parse(line), None);
        }
    }

    #[test]
    fn cgroups_are_found_in_their_trees_up_to_the_root() {
        let scratch = Scratch::new("cgroups");
        let root = Root::at(&scratch);
        let mounts = "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n\
                      35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
                      36 31 0:33 / /sys/fs/cgroup/unified rw shared:1 - cgroup2 cgroup2 rw\n";
        scratch.file("proc/self/mountinfo", mounts);
        let of_process = "proc/self/cgroup";
        scratch.file(of_process, "9:name=systemd:/x\n5:cpuset,memory:/a/b\n0::/c\n");
        let (old, unified) = ("/sys/fs/cgroup/memory", "/sys/fs/cgroup/unified");
        let levels = [old.to_owned(), format!("{old}/a"), format!("{old}/a/b")];
        assert_eq!(cgroups(&root, Some("memory")), levels);
        assert_eq!(cgroups(&root, None), [unified.to_owned(), format!("{unified}/c")]);
        assert!(cgroups(&root, Some("blkio")).is_empty());
        scratch.file(of_process, "5:memoryless:/a\n0::/../other\n");
        assert!(cgroups(&root, Some("memory")).is_empty() && cgroups(&root, None).is_empty());
    }

    #[test]
    fn addresses_are_told_from_other_names() {
        for name in ["0000:3d:00.0", "10000:e1:00.0"] {
            assert!(is_pci_address(name), "{name}");
        }
        for name in ["pci0000:00", "0000:3d:00", "0000:3d:00.0:pcie", "nvme0", "", "::.", "0:0:0:0"]
        {
            assert!(!is_pci_address(name), "{name}");
        }
    }
}
