//! The machine that a run ran on: processor, memory, kernel, and the device below a path.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::device::{ChainLink, DeviceFacts, chain, device_numbers};
use crate::kernel::{self, Mount, kib_of, value_of};
use crate::root::Root;
use crate::survey::{Throttle, throttles};

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
    /// Limits that the cgroups of this process set on the I/O of those devices; empty in results of
    /// versions that did not look.
    #[serde(default)]
    pub throttles: Vec<Throttle>,
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
    pub fn in_memory(&self) -> Option<String> {
        let memory = self.memory()?;
        Some(format!("the data was in memory ({memory}): no drive was measured"))
    }

    /// Limits on the I/O of the devices below the data files, as a sentence without its full stop;
    /// none where there are none.
    pub fn throttled(&self) -> Option<String> {
        let told: Vec<String> = self
            .throttles
            .iter()
            .map(|throttle| throttle.told(self.name_of(&throttle.numbers).unwrap_or("the drive")))
            .collect();
        (!told.is_empty()).then(|| format!("a cgroup limits {}", told.join(" and ")))
    }

    /// Share of the closest of these limits on bandwidth that so many bytes a second, read and
    /// written, use; none where there is none.
    pub fn throttle_share(&self, rates: [f64; 2]) -> Option<f64> {
        let shares = self.throttles.iter().filter_map(|throttle| throttle.share_used(rates));
        shares.max_by(f64::total_cmp)
    }

    /// Name of the device of these numbers; none where it is not below the data files.
    fn name_of(&self, numbers: &str) -> Option<&str> {
        let disk = self.device.iter().filter(|disk| disk.numbers == numbers);
        let links = self.device_chain.iter().filter(|link| link.numbers == numbers);
        let mut names = disk.map(|disk| &*disk.name).chain(links.map(|link| &*link.name));
        names.next()
    }

    /// Reads the facts about this machine, for a run that keeps no data on any storage.
    pub fn look_without_store() -> Machine {
        Machine {
            cache_dir: None,
            mount: None,
            device: None,
            device_chain: Vec::new(),
            throttles: Vec::new(),
            ..Machine::look(Path::new("/"))
        }
    }

    /// Reads the facts about this machine, and about the storage below `path`, which exists.
    pub fn look(path: &Path) -> Machine {
        let root = Root::machine();
        let cpuinfo = root.page("/proc/cpuinfo").unwrap_or_default();
        let meminfo = root.page("/proc/meminfo").unwrap_or_default();
        let mounts = kernel::mounts(&root);
        let own = device_numbers(path);
        let mount = own.as_deref().and_then(|own| mount_of(&mounts, own, path));
        // A file system that spans devices (btrfs) has numbers of its own: its source says more.
        let numbers = own.map(|own| source_of(&mounts, &own).unwrap_or(own));
        let mut machine = Machine {
            cpu_model: value_of(&cpuinfo, "model name").map(str::to_owned),
            cores: std::thread::available_parallelism().ok().map(|n| n.get() as u32),
            memory_total_bytes: kib_of(&meminfo, "MemTotal"),
            memory_available_bytes: kib_of(&meminfo, "MemAvailable"),
            kernel: root.text("/proc/sys/kernel/osrelease"),
            numa_nodes: Some(kernel::numa_nodes(&root).len() as u32).filter(|&count| count > 0),
            gpu: None,
            cache_dir: Some(path.display().to_string()),
            mount,
            device: numbers.as_deref().and_then(DeviceFacts::of),
            device_chain: numbers.as_deref().map(chain).unwrap_or_default(),
            throttles: throttles(&root),
        };
        let is_below = |throttle: &Throttle| machine.name_of(&throttle.numbers).is_some();
        machine.throttles = machine.throttles.iter().filter(|one| is_below(one)).cloned().collect();
        machine
    }
}

/// Whether the kernel gives such a name to a block device that is memory: `zram0`, `ram0` (brd),
/// `nullb0`.
fn is_memory_name(name: &str) -> bool {
    let rests = ["nullb", "ram", "zram"].iter().filter_map(|start| name.strip_prefix(start));
    rests.into_iter().any(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
}

/// Numbers of the device that the file system `numbers` was mounted from, where it has others.
fn source_of(mounts: &[Mount], numbers: &str) -> Option<String> {
    let mount = mounts.iter().find(|mount| mount.numbers == numbers)?;
    let has_own = numbers.starts_with("0:") && mount.source.starts_with("/dev/");
    has_own.then(|| device_numbers(Path::new(&mount.source))).flatten()
}

/// The mount of device `numbers` that holds `path`: the deepest one.
fn mount_of(mounts: &[Mount], numbers: &str, path: &Path) -> Option<MountFacts> {
    let of_device = mounts.iter().filter(|mount| mount.numbers == numbers);
    let holding = of_device.filter(|mount| path.starts_with(&mount.mount_point));
    let deepest = holding.max_by_key(|mount| mount.mount_point.len())?;
    Some(MountFacts {
        file_system: deepest.kind.clone(),
        mount_point: deepest.mount_point.clone(),
        mount_options: deepest.options.clone(),
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
        let mounts: Vec<Mount> = text.lines().filter_map(Mount::parse).collect();
        let mount = mount_of(&mounts, "254:0", Path::new("/data a/b")).unwrap();
        assert_eq!((mount.file_system.as_str(), mount.mount_point.as_str()), ("xfs", "/data a"));
        let root = mount_of(&mounts, "254:0", Path::new("/home")).unwrap();
        assert_eq!(root.mount_options, "rw,relatime,rw,discard");
        assert_eq!(mount_of(&mounts, "9:9", Path::new("/")), None);
    }

    #[test]
    fn limits_of_cgroups_name_the_device_that_they_are_for() {
        let throttle = |limit: &str| Throttle {
            numbers: "254:0".to_owned(),
            file: "/sys/fs/cgroup/pod/io.max".to_owned(),
            limit: limit.to_owned(),
        };
        let (name, numbers) = ("vda".to_owned(), "254:0".to_owned());
        let device = Some(DeviceFacts { name, numbers, ..DeviceFacts::default() });
        let mut machine = Machine { device, ..Machine::default() };
        assert_eq!(machine.throttled(), None);
        machine.throttles = vec![throttle("rbps=314572800"), throttle("wiops=9")];
        let told = "a cgroup limits reads of vda to 300.0 MiB/s and writes of vda to 9 I/Os per \
                    second";
        assert_eq!(machine.throttled().as_deref(), Some(told));
        assert_eq!(machine.name_of("8:0"), None, "another drive's limit");
    }

    #[test]
    fn this_machine_says_something() {
        let machine = Machine::look(Path::new("/"));
        assert!(machine.cores > Some(0) && machine.memory_total_bytes > Some(1 << 20));
        assert!(machine.kernel.is_some());
    }
}
