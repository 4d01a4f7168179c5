//! The machine that a run ran on: processor, memory, kernel, and the device below a path.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::device::{ChainLink, DeviceFacts, chain, device_numbers};

/// The machine that a run ran on, and the storage below its data files.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct Machine {
    /// Name of the processor model.
    pub cpu_model: Option<String>,
    /// Number of cores that this process may use.
    pub cores: Option<u32>,
    /// Size of main memory, bytes.
    pub memory_total_bytes: Option<u64>,
    /// Main memory available when the run began, bytes.
    pub memory_available_bytes: Option<u64>,
    /// Release of the Linux kernel.
    pub kernel: Option<String>,
    /// Number of NUMA nodes of the machine.
    pub numa_nodes: Option<u32>,
    /// Names of the GPUs that the run used; null when it used none.
    pub gpu: Option<String>,
    /// Directory or block device that holds the data files.
    pub cache_dir: Option<String>,
    /// File system that holds the data files.
    pub mount: Option<MountFacts>,
    /// Disk that holds the data files.
    pub device: Option<DeviceFacts>,
    /// All block devices below the data files, the topmost first: partition, disk, members of dm
    /// and md, and what a loop device is backed by.
    pub device_chain: Vec<ChainLink>,
}

/// A mounted file system.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct MountFacts {
    /// Type of the file system: `ext4`, `xfs`, `tmpfs` …
    pub file_system: String,
    /// Directory where the file system is mounted.
    pub mount_point: String,
    /// Options of the mount and of the file system, comma-separated.
    pub mount_options: String,
}

impl Machine {
    /// The memory of this machine that held the data in place of a drive: a file system in memory,
    /// or the block device of that kind that all others stand on; none where there is a drive.
    #[must_use]
    pub fn memory(&self) -> Option<&str> {
        let file_system = self.mount.as_ref().map_or("", |mount| mount.file_system.as_str());
        if matches!(file_system, "tmpfs" | "ramfs" | "devtmpfs") {
            return Some(file_system);
        }
        let links = &self.device_chain;
        let is_lowest =
            |link: &&ChainLink| links.iter().all(|other| other.above.as_ref() != Some(&link.name));
        let is_memory = |link: &ChainLink| link.kind == "memory" || is_memory_name(&link.name);
        let mut lowest = links.iter().filter(is_lowest);
        let first = lowest.next();
        match (first, &self.device) {
            (Some(link), _) => {
                (is_memory(link) && lowest.all(is_memory)).then_some(link.name.as_str())
            }
            (None, Some(device)) => is_memory_name(&device.name).then_some(device.name.as_str()),
            (None, None) => None,
        }
    }

    /// Sentence for a reader of figures, where memory held the data.
    #[must_use]
    pub fn in_memory(&self) -> Option<String> {
        let memory = self.memory()?;
        Some(format!("the data was in memory ({memory}): no drive was measured"))
    }

    /// Reads the facts about this machine, for a run that keeps no data on any storage.
    #[must_use]
    pub fn look_without_store() -> Machine {
        Machine {
            cache_dir: None,
            mount: None,
            device: None,
            device_chain: Vec::new(),
            ..Machine::look(Path::new("/"))
        }
    }

    /// Reads the facts about this machine, and about the storage below `path`, which exists.
    #[must_use]
    pub fn look(path: &Path) -> Machine {
        let cpuinfo = read("/proc/cpuinfo").unwrap_or_default();
        let meminfo = read("/proc/meminfo").unwrap_or_default();
        let mountinfo = read("/proc/self/mountinfo").unwrap_or_default();
        // A file system that spans devices (btrfs) has numbers of its own: its source says more.
        let numbers = device_numbers(path).map(|own| source_of(&mountinfo, &own).unwrap_or(own));
        Machine {
            cpu_model: value_of(&cpuinfo, "model name").map(str::to_owned),
            cores: std::thread::available_parallelism().ok().map(|n| n.get() as u32),
            memory_total_bytes: kib_of(&meminfo, "MemTotal"),
            memory_available_bytes: kib_of(&meminfo, "MemAvailable"),
            kernel: read("/proc/sys/kernel/osrelease").map(|text| text.trim().to_owned()),
            numa_nodes: numa_nodes(),
            gpu: None,
            cache_dir: Some(path.display().to_string()),
            mount: device_numbers(path).and_then(|own| find_mount(&mountinfo, &own, path)),
            device: numbers.as_deref().and_then(DeviceFacts::of),
            device_chain: numbers.as_deref().map(chain).unwrap_or_default(),
        }
    }
}

/// Whether the kernel gives such a name to a block device that is memory: `zram0`, `ram0` (brd),
/// `nullb0`.
fn is_memory_name(name: &str) -> bool {
    let rests = ["nullb", "ram", "zram"].iter().filter_map(|start| name.strip_prefix(start));
    rests.into_iter().any(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
}

fn read(path: &str) -> Option<String> {
    std::fs::read_to_string(path).ok()
}

/// The value of `name : value`.
fn value_of<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim())
    })
}

pub(super) fn kib_of(meminfo: &str, name: &str) -> Option<u64> {
    let kib: u64 = value_of(meminfo, name)?.split_ascii_whitespace().next()?.parse().ok()?;
    kib.checked_mul(1024)
}

fn numa_nodes() -> Option<u32> {
    let nodes = std::fs::read_dir("/sys/devices/system/node").ok()?.flatten().filter(|entry| {
        let name = entry.file_name();
        let digits = name.to_string_lossy().strip_prefix("node").map(str::to_owned);
        digits.is_some_and(|d| !d.is_empty() && d.bytes().all(|b| b.is_ascii_digit()))
    });
    Some(nodes.count() as u32).filter(|&count| count > 0)
}

/// Numbers of the device that the file system `numbers` was mounted from, where it has others.
fn source_of(mountinfo: &str, numbers: &str) -> Option<String> {
    let (_, right) = mountinfo
        .lines()
        .filter_map(|line| line.split_once(" - "))
        .find(|(left, _)| left.split(' ').nth(2) == Some(numbers))?;
    let source = right.split(' ').nth(1).filter(|source| source.starts_with("/dev/"))?;
    device_numbers(Path::new(source)).filter(|_| numbers.starts_with("0:"))
}

/// The mount of device `numbers` that holds `path`: the deepest one.
fn find_mount(mountinfo: &str, numbers: &str, path: &Path) -> Option<MountFacts> {
    let mut deepest: Option<MountFacts> = None;
    for line in mountinfo.lines() {
        let Some((left, right)) = line.split_once(" - ") else { continue };
        let left: Vec<&str> = left.split(' ').collect();
        let right: Vec<&str> = right.split(' ').collect();
        let (Some(&device), Some(&point), Some(&options)) = (left.get(2), left.get(4), left.get(5))
        else {
            continue;
        };
        // proc(5): blanks in paths are written as octal.
        let point = point.replace("\\040", " ");
        let deeper = deepest.as_ref().is_none_or(|m| m.mount_point.len() <= point.len());
        if device == numbers && path.starts_with(&point) && deeper {
            deepest = Some(MountFacts {
                file_system: (*right.first()?).to_owned(),
                mount_point: point,
                mount_options: [Some(options), right.get(2).copied()]
                    .into_iter()
                    .flatten()
                    .collect::<Vec<_>>()
                    .join(","),
            });
        }
    }
    deepest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_deepest_mount_of_the_device_is_found() {
        let text = "22 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard\n\
                    23 22 0:5 / /proc rw - proc proc rw\n\
                    24 22 254:0 /x /data\\040a rw,noatime shared:1 - xfs /dev/vda rw\n\
                    garbage\n1 2 - 3\n";
        let mount = find_mount(text, "254:0", Path::new("/data a/b")).unwrap();
        assert_eq!((mount.file_system.as_str(), mount.mount_point.as_str()), ("xfs", "/data a"));
        let root = find_mount(text, "254:0", Path::new("/home")).unwrap();
        assert_eq!(root.mount_options, "rw,relatime,rw,discard");
        assert_eq!(find_mount(text, "9:9", Path::new("/")), None);
    }

    #[test]
    fn this_machine_says_something() {
        let machine = Machine::look(Path::new("/"));
        assert!(machine.cores > Some(0) && machine.memory_total_bytes > Some(1 << 20));
        assert!(machine.kernel.is_some());
    }

    #[test]
    fn memory_is_read_in_kib() {
        assert_eq!(kib_of("MemTotal:       24 kB\nMemAvailable: x kB", "MemTotal"), Some(24_576));
        assert_eq!(kib_of("MemAvailable: x kB", "MemAvailable"), None);
    }
}
