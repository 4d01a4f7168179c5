//! The machine that a run ran on: processor, memory, kernel, and the device below a path.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What the report says of the machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Machine {
    /// The processor's name.
    pub cpu_model: Option<String>,
    /// Cores that this process may use.
    pub cores: Option<u32>,
    /// Main memory, bytes.
    pub memory_total_bytes: Option<u64>,
    /// Main memory available when the run began, bytes.
    pub memory_available_bytes: Option<u64>,
    /// Release of the kernel.
    pub kernel: Option<String>,
    /// NUMA nodes.
    pub numa_nodes: Option<u32>,
    /// The GPU; this version looks for none.
    pub gpu: Option<String>,
    /// Where the data files are.
    pub cache_dir: Option<String>,
    /// The file system there.
    pub mount: Option<MountFacts>,
    /// The disk below it.
    pub device: Option<DeviceFacts>,
}

/// A mounted file system.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MountFacts {
    /// `ext4`, `xfs`, `tmpfs` …
    pub file_system: String,
    /// Where it is mounted.
    pub mount_point: String,
    /// Options of the mount and of the file system, comma-separated.
    pub mount_options: String,
}

/// A disk.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DeviceFacts {
    /// As under `/sys/block`.
    pub name: String,
    /// Its numbers, `major:minor`, of the whole disk.
    pub numbers: String,
    /// What it says it is.
    pub model: Option<String>,
    /// The kernel's I/O scheduler for it.
    pub scheduler: Option<String>,
    /// Its size, bytes.
    pub size_bytes: Option<u64>,
    /// Whether it spins.
    pub rotational: Option<bool>,
    /// Bytes of its logical block.
    pub logical_block_bytes: Option<u64>,
}

impl Machine {
    /// What this machine says of itself, and of what is below `path`, which exists.
    #[must_use]
    pub fn look(path: &Path) -> Machine {
        let cpuinfo = read("/proc/cpuinfo").unwrap_or_default();
        let meminfo = read("/proc/meminfo").unwrap_or_default();
        let numbers = device_numbers(path);
        let mountinfo = read("/proc/self/mountinfo").unwrap_or_default();
        Machine {
            cpu_model: value_of(&cpuinfo, "model name").map(str::to_owned),
            cores: std::thread::available_parallelism().ok().map(|n| n.get() as u32),
            memory_total_bytes: kib_of(&meminfo, "MemTotal"),
            memory_available_bytes: kib_of(&meminfo, "MemAvailable"),
            kernel: read("/proc/sys/kernel/osrelease").map(|text| text.trim().to_owned()),
            numa_nodes: numa_nodes(),
            gpu: None,
            cache_dir: Some(path.display().to_string()),
            mount: numbers.as_deref().and_then(|numbers| find_mount(&mountinfo, numbers, path)),
            device: numbers.as_deref().and_then(disk_of),
        }
    }

    /// Main memory available now, bytes.
    #[must_use]
    pub fn available_memory_bytes() -> Option<u64> {
        kib_of(&read("/proc/meminfo")?, "MemAvailable")
    }
}

fn read(path: &str) -> Option<String> {
    std::fs::read_to_string(path).ok()
}

/// `major:minor` of the file system that `path` is on.
fn device_numbers(path: &Path) -> Option<String> {
    let device = std::fs::metadata(path).ok()?.dev();
    Some(format!("{}:{}", rustix::fs::major(device), rustix::fs::minor(device)))
}

/// The value of `name : value`.
fn value_of<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim())
    })
}

fn kib_of(meminfo: &str, name: &str) -> Option<u64> {
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

/// The whole disk of a partition or disk; `None` for file systems without one (tmpfs).
fn disk_of(numbers: &str) -> Option<DeviceFacts> {
    let linked = std::fs::canonicalize(format!("/sys/dev/block/{numbers}")).ok()?;
    let disk = match linked.join("partition").exists() {
        true => linked.parent()?.to_path_buf(),
        false => linked,
    };
    let text = |name: &str| {
        let text = std::fs::read_to_string(disk.join(name)).ok()?;
        Some(text.trim().to_owned()).filter(|text| !text.is_empty())
    };
    let number = |name: &str| text(name)?.parse::<u64>().ok();
    let scheduler = text("queue/scheduler").map(|all| {
        // All that there are, the one in use in brackets.
        let used = all.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
        used.map_or(all.clone(), |(used, _)| used.to_owned())
    });
    Some(DeviceFacts {
        name: disk.file_name()?.to_string_lossy().into_owned(),
        numbers: text("dev")?,
        model: text("device/model"),
        scheduler,
        size_bytes: number("size").and_then(|sectors| sectors.checked_mul(512)),
        rotational: number("queue/rotational").map(|flag| flag != 0),
        logical_block_bytes: number("queue/logical_block_size"),
    })
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
