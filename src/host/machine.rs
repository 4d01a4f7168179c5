//! The machine that a run ran on: processor, memory, kernel, and the device below a path.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::device::{ChainLink, DeviceFacts, chain_below, device_numbers};
use crate::kernel::{self, Mount, kib_of, value_of};
use crate::root::Root;
use crate::survey::{DeviceRates, Throttle, throttles};

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

    /// These of the limits on the I/O of the devices below the data files, as a sentence without
    /// its full stop; none where there are none.
    #[must_use]
    pub fn throttled<'a>(&self, by: impl IntoIterator<Item = &'a Throttle>) -> Option<String> {
        let name = |throttle: &Throttle| self.name_of(&throttle.numbers).unwrap_or("the drive");
        let told: Vec<String> =
            by.into_iter().map(|throttle| throttle.told(name(throttle))).collect();
        (!told.is_empty()).then(|| format!("a cgroup limits {}", told.join(" and ")))
    }

    /// The limits, each with the share of it that its device uses at the rates of the device of
    /// that name; none where that is not known.
    pub fn throttle_shares(
        &self,
        rates: impl Fn(&str) -> Option<DeviceRates>,
    ) -> impl Iterator<Item = (&Throttle, Option<f64>)> {
        self.throttles.iter().map(move |throttle| {
            let rates = self.name_of(&throttle.numbers).and_then(&rates);
            (throttle, rates.and_then(|rates| throttle.share_used(rates)))
        })
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
            device_chain: Vec::new(),
            throttles: Vec::new(),
        };
        machine.add_below(&root, numbers.as_deref());
        machine
    }

    /// Adds the devices below further disks, given by their numbers, and the limits on these.
    pub fn add_disks<'a>(&mut self, disks: impl IntoIterator<Item = &'a str>) {
        self.add_below(&Root::machine(), disks);
    }

    fn add_below<'a>(&mut self, root: &Root, tops: impl IntoIterator<Item = &'a str>) {
        self.device_chain.extend(tops.into_iter().flat_map(|top| chain_below(root, top)));
        self.throttles = self.throttles_below(root);
    }

    fn throttles_below(&self, root: &Root) -> Vec<Throttle> {
        let is_below = |throttle: &Throttle| self.name_of(&throttle.numbers).is_some();
        throttles(root).into_iter().filter(is_below).collect()
    }

    /// Marks the limits on the devices' I/O that are no more what they were, and adds new ones.
    pub fn note_changed_limits(&mut self) {
        self.note_changed(&Root::machine());
    }

    fn note_changed(&mut self, root: &Root) {
        let now = self.throttles_below(root);
        let fresh = now.iter().filter(|one| !self.throttles.contains(one)).cloned();
        let fresh: Vec<Throttle> = fresh.map(|one| Throttle { is_changed: true, ..one }).collect();
        for before in &mut self.throttles {
            before.is_changed = !now.contains(before);
        }
        self.throttles.extend(fresh);
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
    use crate::Scratch;

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
            is_changed: false,
        };
        let (name, numbers) = ("vda".to_owned(), "254:0".to_owned());
        let device = Some(DeviceFacts { name, numbers, ..DeviceFacts::default() });
        let mut machine = Machine { device, ..Machine::default() };
        assert_eq!(machine.throttled(&machine.throttles), None);
        machine.throttles = vec![throttle("rbps=314572800"), throttle("wiops=9")];
        let told = "a cgroup limits reads of vda to 300.0 MiB/s and writes of vda to 9 I/Os per \
                    second";
        assert_eq!(machine.throttled(&machine.throttles).as_deref(), Some(told));
        assert_eq!(machine.name_of("8:0"), None, "another drive's limit");
    }

    /// Those of the first drive alone were read, and each was held against what all drives moved.
    #[test]
    fn limits_of_all_drives_are_read_and_each_is_held_against_its_own_drive() {
        let scratch = Scratch::new("limits");
        let root = Root::at(&scratch);
        scratch.file("proc/self/mountinfo", "1 0 0:1 / /cg rw - cgroup2 cgroup2 rw\n");
        scratch.file("proc/self/cgroup", "0::/\n");
        scratch.file("cg/io.max", "8:0 rbps=100\n8:16 rbps=50 wiops=9\n8:32 rbps=1\n");
        for (name, numbers) in [("sda", "8:0"), ("sdb", "8:16")] {
            scratch.file(&format!("sys/block/{name}/dev"), numbers);
            scratch.link(&format!("sys/dev/block/{numbers}"), &format!("sys/block/{name}"));
        }
        let mut machine = Machine::default();
        machine.add_below(&root, ["8:0"]);
        assert_eq!(machine.throttles.len(), 1);
        machine.add_below(&root, ["8:16"]);
        let rates = |name: &str| {
            let bytes = [if name == "sda" { 64.0 } else { 48.0 }, 0.0];
            Some(DeviceRates { bytes, ios: None })
        };
        let shares: Vec<_> = machine.throttle_shares(rates).map(|(_, share)| share).collect();
        assert_eq!(shares, [Some(0.64), Some(0.96), None]);
        // They were read when the run began, and not again.
        scratch.file("cg/io.max", "8:0 rbps=100\n8:16 rbps=50\n8:0 wiops=7\n");
        machine.note_changed(&root);
        let told: Vec<(&str, bool)> =
            machine.throttles.iter().map(|one| (&*one.limit, one.is_changed)).collect();
        let [lifted, set] = [("wiops=9", true), ("wiops=7", true)];
        assert_eq!(told, [("rbps=100", false), ("rbps=50", false), lifted, set]);
    }

    #[test]
    fn this_machine_says_something() {
        let machine = Machine::look(Path::new("/"));
        assert!(machine.cores > Some(0) && machine.memory_total_bytes > Some(1 << 20));
        assert!(machine.kernel.is_some());
    }
}
