//! The block devices below a path: the disk, what it says of itself, and what it stands on in turn
//! (partition → disk, dm and md → members, loop → the disk of its file).

use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use ringfall_core::nvme::{block_directory, numbers, nvme_block_device};
use serde::{Deserialize, Serialize};

use crate::kernel::{in_brackets, is_pci_address};
use crate::root::Root;

/// A disk, as the kernel describes it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct DeviceFacts {
    /// Name of the disk under `/sys/block`.
    pub name: String,
    /// Device numbers of the whole disk, as `major:minor`.
    pub numbers: String,
    /// Model name that the disk reports.
    pub model: Option<String>,
    /// Revision of the disk's firmware.
    pub firmware: Option<String>,
    /// Transport of an NVMe disk: `pcie`, `tcp` …
    pub transport: Option<String>,
    /// Number of the NVMe namespace.
    pub namespace: Option<u64>,
    /// Number of hardware queues of the disk.
    pub queues: Option<u32>,
    /// Number of hardware queues that can be polled (`nvme.poll_queues`).
    pub poll_queues: Option<u32>,
    /// NUMA node that the disk is attached to; null when there is only one node or the kernel names
    /// none.
    pub numa_node: Option<u32>,
    /// Temperature that the disk reported when it was looked at, °C.
    pub temperature_c: Option<f64>,
    /// The kernel's I/O scheduler for the disk.
    pub scheduler: Option<String>,
    /// Size of the disk, bytes.
    pub size_bytes: Option<u64>,
    /// Whether the disk has rotating media.
    pub rotational: Option<bool>,
    /// Size of a logical block of the disk, bytes.
    pub logical_block_bytes: Option<u64>,
    /// Size of the largest request that the kernel sends to the disk, bytes.
    pub request_bytes_max: Option<u64>,
    /// Write cache of the disk as the kernel sees it: `write back` or `write through`.
    pub write_cache: Option<String>,
}

/// One of the block devices below the data files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct ChainLink {
    /// Name of the device under `/sys/block`, or of the partition.
    pub name: String,
    /// Device numbers, as `major:minor`.
    pub numbers: String,
    /// Kind of device: `partition`, `disk`, `dm`, `md`, `loop` or, for a loop device that bypasses
    /// the page cache, `loop_direct`; `memory` for a file system in memory that holds the file of a
    /// loop device, which `name` then names.
    pub kind: String,
    /// Name of the device that stands on this one; null for the topmost.
    pub above: Option<String>,
}

/// More devices than this below one path are a mistake of ours.
const LINKS_MAX: usize = 256;

/// `major:minor` of the block device that a path is on, or is.
pub fn device_numbers(path: &Path) -> Option<String> {
    let block_device = nvme_block_device(path);
    let metadata = std::fs::metadata(block_device.as_deref().unwrap_or(path)).ok()?;
    let device = match metadata.file_type().is_block_device() {
        true => metadata.rdev(),
        false => metadata.dev(),
    };
    Some(numbers(device))
}

impl DeviceFacts {
    /// The whole disk of a partition or disk; `None` for file systems without one (tmpfs).
    pub fn of(numbers: &str) -> Option<DeviceFacts> {
        DeviceFacts::below(&Root::machine(), numbers)
    }

    pub(super) fn below(root: &Root, numbers: &str) -> Option<DeviceFacts> {
        DeviceFacts::look(root, &whole_disk(root, numbers)?)
    }

    /// Reads the directory of a whole disk.
    pub(super) fn look(root: &Root, disk: &Path) -> Option<DeviceFacts> {
        let text = |name: &str| root.text(disk.join(name));
        let number = |name: &str| text(name)?.parse::<u64>().ok();
        // -1: the kernel knows none.
        let node = |path: &str| text(path)?.parse::<u32>().ok();
        let name = disk.file_name()?.to_string_lossy().into_owned();
        let poll_queues = || root.text("/sys/module/nvme/parameters/poll_queues");
        let is_nvme = name.starts_with("nvme");
        let queues = u32::try_from(root.names(disk.join("mq")).len()).ok();
        Some(DeviceFacts {
            numbers: text("dev")?,
            model: text("device/model"),
            firmware: text("device/firmware_rev").or_else(|| text("device/rev")),
            transport: text("device/transport"),
            namespace: number("nsid"),
            queues: queues.filter(|&queues| queues > 0),
            poll_queues: is_nvme.then(poll_queues).flatten().and_then(|n| n.parse().ok()),
            numa_node: node("device/numa_node").or_else(|| node("device/device/numa_node")),
            temperature_c: sensor(root, disk, "temp1_input"),
            scheduler: text("queue/scheduler").map(|all| in_brackets(&all).unwrap_or(all)),
            // In sectors of 512 bytes, whatever the blocks.
            size_bytes: number("size").and_then(|sectors| sectors.checked_mul(512)),
            rotational: number("queue/rotational").map(|flag| flag != 0),
            logical_block_bytes: number("queue/logical_block_size"),
            request_bytes_max: number("queue/max_sectors_kb").and_then(|kib| kib.checked_mul(1024)),
            write_cache: text("queue/write_cache"),
            name,
        })
    }
}

/// The kernel's hwmon interface gives thousandths of a degree; `temp1` is the composite one.
pub(super) fn sensor(root: &Root, disk: &Path, file: &str) -> Option<f64> {
    ["device", "device/device", "device/hwmon"].iter().find_map(|place| {
        let place = disk.join(place);
        let names = root.names(&place).into_iter().filter(|name| name.starts_with("hwmon"));
        let mut values = names.filter_map(|name| root.text(place.join(name).join(file)));
        let millidegrees: f64 = values.next()?.parse().ok()?;
        // What is not set is the lowest or the highest that the drive's register holds.
        Some(millidegrees / 1000.0).filter(|degrees| (-50.0..200.0).contains(degrees))
    })
}

/// Every device below the one of these numbers, that one first, members in order of their names.
pub(super) fn chain_below(root: &Root, numbers: &str) -> Vec<ChainLink> {
    let mut links = Vec::new();
    walk(root, numbers, None, &mut links);
    links
}

fn walk(root: &Root, numbers: &str, above: Option<&str>, links: &mut Vec<ChainLink>) {
    let known = links.iter().any(|link| link.numbers == numbers);
    if known || links.len() >= LINKS_MAX {
        return;
    }
    let Some(directory) = directory_of(root, numbers) else { return };
    let Some(name) = directory.file_name().map(|name| name.to_string_lossy().into_owned()) else {
        return;
    };
    let mut kinds = ["partition", "dm", "md", "loop"].into_iter();
    let kind = match kinds.find(|file| root.exists(directory.join(file))) {
        Some("loop") if root.number(directory.join("loop/dio")) == Some(1) => "loop_direct",
        found => found.unwrap_or("disk"),
    };
    links.push(ChainLink {
        name: name.clone(),
        numbers: numbers.to_owned(),
        kind: kind.to_owned(),
        above: above.map(str::to_owned),
    });
    let mut below = Vec::new();
    if kind == "partition" {
        below.extend(directory.parent().and_then(|disk| root.text(disk.join("dev"))));
    }
    let slaves = directory.join("slaves");
    let members = root.names(&slaves).into_iter();
    below.extend(members.filter_map(|member| root.text(slaves.join(member).join("dev"))));
    if let Some(file) = root.text(directory.join("loop/backing_file")) {
        let file = Path::new(&file);
        match memory_file_system(file) {
            Some(kind) => links.push(ChainLink {
                name: kind.to_owned(),
                numbers: String::new(),
                kind: "memory".to_owned(),
                above: Some(name.clone()),
            }),
            None => below.extend(device_numbers(file)),
        }
    }
    for numbers in below {
        walk(root, &numbers, Some(&name), links);
    }
}

/// Those of the devices that stand on no other, each once: the drives, where there are any.
pub fn lowest_devices(links: &[ChainLink]) -> Vec<&ChainLink> {
    let mut lowest: Vec<&ChainLink> = Vec::new();
    for link in links.iter().filter(|link| link.kind != "memory") {
        let carries = |other: &ChainLink| other.above.as_ref() == Some(&link.name);
        if !links.iter().any(carries) && lowest.iter().all(|one| one.numbers != link.numbers) {
            lowest.push(link);
        }
    }
    lowest
}

/// The file system in memory that a file is in; none for one on a device.
fn memory_file_system(file: &Path) -> Option<&'static str> {
    /// `TMPFS_MAGIC` and `RAMFS_MAGIC` of linux/magic.h.
    const KINDS: [(u64, &str); 2] = [(0x0102_1994, "tmpfs"), (0x8584_58f6, "ramfs")];
    let kind = rustix::fs::statfs(file).ok()?.f_type as u64;
    KINDS.iter().find(|(magic, _)| *magic == kind).map(|(_, name)| *name)
}

/// The PCIe port below which all of these disks (`major:minor`) are, if it is not a root of the
/// machine: the address of the last bridge that they have in common.
pub fn shared_port(disks: &[&str]) -> Option<String> {
    shared_port_below(&Root::machine(), disks)
}

fn shared_port_below(root: &Root, disks: &[&str]) -> Option<String> {
    let mut shared: Option<Vec<String>> = None;
    for numbers in disks {
        let path = directory_of(root, numbers)?;
        let parts = path.components().map(|part| part.as_os_str().to_string_lossy().into_owned());
        let parts: Vec<String> = parts.filter(|part| is_pci_address(part)).collect();
        shared = Some(match shared {
            None => parts,
            Some(before) => {
                let pairs = before.into_iter().zip(parts);
                pairs.take_while(|(a, b)| a == b).map(|(a, _)| a).collect()
            }
        });
    }
    shared?.pop()
}

/// Directory of the device with these numbers, all links followed.
fn directory_of(root: &Root, numbers: &str) -> Option<PathBuf> {
    let base = root.path("/");
    root.resolved(block_directory(&base, numbers).strip_prefix(&base).ok()?)
}

/// Directory of the disk with these device numbers, or on which the partition is that has them.
pub(super) fn whole_disk(root: &Root, numbers: &str) -> Option<PathBuf> {
    let linked = directory_of(root, numbers)?;
    match root.exists(linked.join("partition")) {
        true => Some(linked.parent()?.to_path_buf()),
        false => Some(linked),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A root with a `/sys` of its own.
    struct Sys(PathBuf);

    impl Sys {
        fn new(name: &str) -> Sys {
            let path = std::env::temp_dir().join(format!("ringfall-{name}-{}", std::process::id()));
            std::fs::create_dir_all(path.join("sys/dev/block")).unwrap();
            Sys(path)
        }

        fn root(&self) -> Root {
            Root::at(&self.0)
        }

        fn device(&self, path: &str, numbers: &str, files: &[(&str, &str)]) {
            let directory = self.0.join("sys/devices").join(path);
            for (name, text) in files.iter().chain([&("dev", numbers)]) {
                let file = directory.join(name);
                std::fs::create_dir_all(file.parent().unwrap()).unwrap();
                std::fs::write(file, format!("{text}\n")).unwrap();
            }
            let link = self.0.join("sys/dev/block").join(numbers);
            std::os::unix::fs::symlink(directory, link).unwrap();
        }
    }

    impl Drop for Sys {
        fn drop(&mut self) {
            let _cleanup = std::fs::remove_dir_all(&self.0);
        }
    }

    /// As in a container of Podman.
    #[test]
    fn a_partition_is_found_where_the_folder_of_numbers_is_hidden() {
        let sys = Sys::new("hidden");
        sys.device("sda", "8:0", &[("size", "2048")]);
        sys.device("sda/sda1", "8:1", &[("partition", "1")]);
        let class = sys.0.join("sys/class");
        std::fs::create_dir(&class).unwrap();
        std::fs::rename(sys.0.join("sys/dev/block"), class.join("block")).unwrap();
        let disk = DeviceFacts::below(&sys.root(), "8:1").unwrap();
        assert_eq!((disk.name.as_str(), disk.numbers.as_str()), ("sda", "8:0"));
        assert_eq!(DeviceFacts::below(&sys.root(), "8:2"), None);
    }

    #[test]
    fn a_volume_on_two_drives_is_followed_down_to_both() {
        let sys = Sys::new("chain");
        sys.device("nvme0n1", "259:0", &[("nsid", "1"), ("size", "2048"), ("mq/0/x", "")]);
        sys.device("nvme0n1/nvme0n1p1", "259:1", &[("partition", "1")]);
        sys.device("nvme1n1", "259:2", &[("device/numa_node", "-1")]);
        let member = |numbers| [("partition", "1"), ("dev", numbers)];
        sys.device("md0", "9:0", &[("md/level", "raid0"), ("slaves/nvme1n1/dev", "259:2")]);
        let slave = sys.0.join("sys/devices/md0/slaves/nvme0n1p1");
        std::fs::create_dir_all(&slave).unwrap();
        for (name, text) in member("259:1") {
            std::fs::write(slave.join(name), text).unwrap();
        }
        sys.device("dm-0", "253:0", &[("dm/name", "vg"), ("slaves/md0/dev", "9:0")]);
        let links = chain_below(&sys.root(), "253:0");
        let told: Vec<_> = links.iter().map(|l| (l.name.as_str(), l.kind.as_str())).collect();
        let expected = [
            ("dm-0", "dm"),
            ("md0", "md"),
            ("nvme0n1p1", "partition"),
            ("nvme0n1", "disk"),
            ("nvme1n1", "disk"),
        ];
        assert_eq!(told, expected);
        assert_eq!(links[3].above.as_deref(), Some("nvme0n1p1"));
        let lowest = |links: &[ChainLink]| -> Vec<String> {
            lowest_devices(links).iter().map(|link| link.name.clone()).collect()
        };
        assert_eq!(lowest(&links), ["nvme0n1", "nvme1n1"]);
        assert_eq!(lowest(&[links.clone(), links.clone()].concat()), ["nvme0n1", "nvme1n1"]);
        assert_eq!(lowest(&links[..2]), ["md0"], "what a volume stands on is not known");
        let facts = DeviceFacts::below(&sys.root(), "259:1").unwrap();
        assert_eq!((facts.name.as_str(), facts.namespace), ("nvme0n1", Some(1)));
        assert_eq!((facts.queues, facts.size_bytes), (Some(1), Some(1 << 20)));
        assert_eq!(DeviceFacts::below(&sys.root(), "259:2").unwrap().numa_node, None);
        assert_eq!(DeviceFacts::below(&sys.root(), "1:1"), None);
    }

    #[test]
    fn a_loop_device_says_whether_it_bypasses_the_page_cache() {
        let sys = Sys::new("loop");
        for (numbers, dio, kind) in [("7:0", "0", "loop"), ("7:1", "1", "loop_direct")] {
            sys.device(&format!("loop{dio}"), numbers, &[("loop/dio", dio)]);
            let links = chain_below(&sys.root(), numbers);
            assert_eq!((links.len(), &*links[0].kind), (1, kind));
        }
    }

    #[test]
    fn drives_behind_one_switch_share_its_port() {
        let sys = Sys::new("ports");
        let switch = "pci0000:00/0000:00:01.0/0000:01:00.0";
        sys.device(&format!("{switch}/0000:02:00.0/nvme/nvme0/nvme0n1"), "259:0", &[]);
        sys.device(&format!("{switch}/0000:03:00.0/nvme/nvme1/nvme1n1"), "259:1", &[]);
        sys.device("pci0000:80/0000:80:01.0/0000:81:00.0/nvme/nvme2/nvme2n1", "259:2", &[]);
        let port = |disks: &[&str]| shared_port_below(&sys.root(), disks);
        assert_eq!(port(&["259:0", "259:1"]).as_deref(), Some("0000:01:00.0"));
        assert_eq!(port(&["259:0", "259:1", "259:2"]), None);
        assert_eq!(port(&["259:0", "1:1"]), None);
        assert_eq!(port(&[]), None);
    }

    #[test]
    fn an_nvme_drive_says_what_it_is() {
        let sys = Sys::new("nvme");
        let files = [
            ("device/model", "X 1"),
            ("device/firmware_rev", "F2"),
            ("device/transport", "pcie"),
            ("device/numa_node", "1"),
            ("device/hwmon3/temp1_input", "41850"),
            ("queue/scheduler", "[none] mq-deadline"),
        ];
        sys.device("nvme0n1", "259:0", &files);
        let facts = DeviceFacts::below(&sys.root(), "259:0").unwrap();
        assert_eq!(facts.firmware.as_deref(), Some("F2"));
        assert_eq!((facts.numa_node, facts.temperature_c), (Some(1), Some(41.85)));
        assert_eq!(facts.scheduler.as_deref(), Some("none"));
    }
}
