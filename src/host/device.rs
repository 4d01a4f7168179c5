//! The block devices below a path: the disk, what it says of itself, and what it stands on in turn
//! (partition → disk, dm and md → members, loop → the disk of its file).

use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use ringfall_core::nvme::{numbers, nvme_block_device};
use serde::{Deserialize, Serialize};

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
    /// Temperature of the disk when the run began, °C.
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
    /// Kind of device: `partition`, `disk`, `dm`, `md` or `loop`; `memory` for a file system in
    /// memory that holds the file of a loop device, which `name` then names.
    pub kind: String,
    /// Name of the device that stands on this one; null for the topmost.
    pub above: Option<String>,
}

/// More devices than this below one path are a mistake of ours.
const LINKS_MAX: usize = 256;

/// `major:minor` of the block device that a path is on, or is.
#[must_use]
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
    #[must_use]
    pub fn of(numbers: &str) -> Option<DeviceFacts> {
        DeviceFacts::below(Path::new("/sys"), numbers)
    }

    pub(super) fn below(sys: &Path, numbers: &str) -> Option<DeviceFacts> {
        let disk = whole_disk(sys, numbers)?;
        let text = |name: &str| text(&disk.join(name));
        let number = |name: &str| text(name)?.parse::<u64>().ok();
        let scheduler = text("queue/scheduler").map(|all| {
            // All that there are, the one in use in brackets.
            let used = all.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
            used.map_or(all.clone(), |(used, _)| used.to_owned())
        });
        let name = disk.file_name()?.to_string_lossy().into_owned();
        let is_nvme = name.starts_with("nvme");
        let poll_queues = || self::text(&sys.join("module/nvme/parameters/poll_queues"));
        // -1: the kernel knows none.
        let node = |path: &str| text(path)?.parse::<u32>().ok();
        Some(DeviceFacts {
            numbers: text("dev")?,
            model: text("device/model"),
            firmware: text("device/firmware_rev").or_else(|| text("device/rev")),
            transport: text("device/transport"),
            namespace: number("nsid"),
            queues: std::fs::read_dir(disk.join("mq")).ok().map(|queues| queues.count() as u32),
            poll_queues: is_nvme.then(poll_queues).flatten().and_then(|n| n.parse().ok()),
            numa_node: node("device/numa_node").or_else(|| node("device/device/numa_node")),
            temperature_c: temperature_c(&disk),
            scheduler,
            size_bytes: number("size").and_then(|sectors| sectors.checked_mul(512)),
            rotational: number("queue/rotational").map(|flag| flag != 0),
            logical_block_bytes: number("queue/logical_block_size"),
            request_bytes_max: number("queue/max_sectors_kb").map(|kib| kib * 1024),
            write_cache: text("queue/write_cache"),
            name,
        })
    }
}

/// `0-3,8,10-11`.
pub(super) fn parse_list(text: &str) -> Option<Vec<usize>> {
    let mut all = Vec::new();
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let (low, high) = part.split_once('-').unwrap_or((part, part));
        let (low, high): (usize, usize) = (low.parse().ok()?, high.parse().ok()?);
        all.extend((low..=high).take(1 << 16));
    }
    Some(all)
}

/// Every device below the one of these numbers, that one first, members in order of their names.
#[must_use]
pub fn chain(numbers: &str) -> Vec<ChainLink> {
    let mut links = Vec::new();
    walk(Path::new("/sys"), numbers, None, &mut links);
    links
}

fn walk(sys: &Path, numbers: &str, above: Option<&str>, links: &mut Vec<ChainLink>) {
    let known = links.iter().any(|link| link.numbers == numbers);
    if known || links.len() >= LINKS_MAX {
        return;
    }
    let Ok(directory) = sys.join("dev/block").join(numbers).canonicalize() else { return };
    let Some(name) = directory.file_name().map(|name| name.to_string_lossy().into_owned()) else {
        return;
    };
    let is_partition = directory.join("partition").exists();
    let kind = match () {
        () if is_partition => "partition",
        () if directory.join("dm").exists() => "dm",
        () if directory.join("md").exists() => "md",
        () if directory.join("loop").exists() => "loop",
        () => "disk",
    };
    links.push(ChainLink {
        name: name.clone(),
        numbers: numbers.to_owned(),
        kind: kind.to_owned(),
        above: above.map(str::to_owned),
    });
    let mut below = Vec::new();
    if is_partition {
        below.extend(directory.parent().and_then(|disk| text(&disk.join("dev"))));
    }
    if let Ok(members) = std::fs::read_dir(directory.join("slaves")) {
        let mut members: Vec<PathBuf> = members.flatten().map(|member| member.path()).collect();
        members.sort();
        below.extend(members.iter().filter_map(|member| text(&member.join("dev"))));
    }
    if let Some(file) = text(&directory.join("loop/backing_file")) {
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
        walk(sys, &numbers, Some(&name), links);
    }
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
#[must_use]
pub fn shared_port(disks: &[&str]) -> Option<String> {
    shared_port_below(Path::new("/sys"), disks)
}

fn shared_port_below(sys: &Path, disks: &[&str]) -> Option<String> {
    let mut shared: Option<Vec<String>> = None;
    for numbers in disks {
        let path = sys.join("dev/block").join(numbers).canonicalize().ok()?;
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

/// `0000:3b:00.0`
fn is_pci_address(part: &str) -> bool {
    let is_hex = |text: &str, length| {
        text.len() == length && text.chars().all(|letter| letter.is_ascii_hexdigit())
    };
    let mut fields = part.split([':', '.']);
    let mut next = |length| fields.next().is_some_and(|field| is_hex(field, length));
    next(4) && next(2) && next(2) && next(1) && part.len() == 12
}

/// Directory of the disk with these device numbers, or on which the partition is that has them.
pub(super) fn whole_disk(sys: &Path, numbers: &str) -> Option<PathBuf> {
    let linked = sys.join("dev/block").join(numbers).canonicalize().ok()?;
    match linked.join("partition").exists() {
        true => Some(linked.parent()?.to_path_buf()),
        false => Some(linked),
    }
}

/// The kernel's hwmon interface gives thousandths of a degree; `temp1` is the composite one.
fn temperature_c(disk: &Path) -> Option<f64> {
    let device = disk.join("device");
    let places = [device.clone(), device.join("device"), device.join("hwmon")];
    let sensors = places.iter().filter_map(|place| std::fs::read_dir(place).ok()).flatten();
    sensors.flatten().find_map(|entry| {
        let is_sensor = entry.file_name().to_string_lossy().starts_with("hwmon");
        let millidegrees: f64 =
            text(&entry.path().join("temp1_input")).filter(|_| is_sensor)?.parse().ok()?;
        Some(millidegrees / 1000.0)
    })
}

pub(super) fn text(path: &Path) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Sys(PathBuf);

    impl Sys {
        fn new(name: &str) -> Sys {
            let path = std::env::temp_dir().join(format!("ringfall-{name}-{}", std::process::id()));
            std::fs::create_dir_all(path.join("dev/block")).unwrap();
            Sys(path)
        }

        fn device(&self, path: &str, numbers: &str, files: &[(&str, &str)]) {
            let directory = self.0.join("devices").join(path);
            for (name, text) in files.iter().chain([&("dev", numbers)]) {
                let file = directory.join(name);
                std::fs::create_dir_all(file.parent().unwrap()).unwrap();
                std::fs::write(file, format!("{text}\n")).unwrap();
            }
            let link = self.0.join("dev/block").join(numbers);
            std::os::unix::fs::symlink(directory, link).unwrap();
        }
    }

    impl Drop for Sys {
        fn drop(&mut self) {
            let _cleanup = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_volume_on_two_drives_is_followed_down_to_both() {
        let sys = Sys::new("chain");
        sys.device("nvme0n1", "259:0", &[("nsid", "1"), ("size", "2048"), ("mq/0/x", "")]);
        sys.device("nvme0n1/nvme0n1p1", "259:1", &[("partition", "1")]);
        sys.device("nvme1n1", "259:2", &[("device/numa_node", "-1")]);
        let member = |numbers| [("partition", "1"), ("dev", numbers)];
        sys.device("md0", "9:0", &[("md/level", "raid0"), ("slaves/nvme1n1/dev", "259:2")]);
        let slave = sys.0.join("devices/md0/slaves/nvme0n1p1");
        std::fs::create_dir_all(&slave).unwrap();
        for (name, text) in member("259:1") {
            std::fs::write(slave.join(name), text).unwrap();
        }
        sys.device("dm-0", "253:0", &[("dm/name", "vg"), ("slaves/md0/dev", "9:0")]);
        let mut links = Vec::new();
        walk(&sys.0, "253:0", None, &mut links);
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
        let facts = DeviceFacts::below(&sys.0, "259:1").unwrap();
        assert_eq!((facts.name.as_str(), facts.namespace), ("nvme0n1", Some(1)));
        assert_eq!((facts.queues, facts.size_bytes), (Some(1), Some(1 << 20)));
        assert_eq!(DeviceFacts::below(&sys.0, "259:2").unwrap().numa_node, None);
        assert_eq!(DeviceFacts::below(&sys.0, "1:1"), None);
    }

    #[test]
    fn drives_behind_one_switch_share_its_port() {
        let sys = Sys::new("ports");
        let switch = "pci0000:00/0000:00:01.0/0000:01:00.0";
        sys.device(&format!("{switch}/0000:02:00.0/nvme/nvme0/nvme0n1"), "259:0", &[]);
        sys.device(&format!("{switch}/0000:03:00.0/nvme/nvme1/nvme1n1"), "259:1", &[]);
        sys.device("pci0000:80/0000:80:01.0/0000:81:00.0/nvme/nvme2/nvme2n1", "259:2", &[]);
        let port = |disks: &[&str]| shared_port_below(&sys.0, disks);
        assert_eq!(port(&["259:0", "259:1"]).as_deref(), Some("0000:01:00.0"));
        assert_eq!(port(&["259:0", "259:1", "259:2"]), None);
        assert_eq!(port(&["259:0", "1:1"]), None);
        assert_eq!(port(&[]), None);
        assert!(!is_pci_address("pci0000:00") && !is_pci_address("0000:zz:00.0"));
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
        let facts = DeviceFacts::below(&sys.0, "259:0").unwrap();
        assert_eq!(facts.firmware.as_deref(), Some("F2"));
        assert_eq!((facts.numa_node, facts.temperature_c), (Some(1), Some(41.85)));
        assert_eq!(facts.scheduler.as_deref(), Some("none"));
    }

    #[test]
    fn lists_of_cores_are_those_of_the_kernel() {
        assert_eq!(parse_list("0-2,8,10-11"), Some(vec![0, 1, 2, 8, 10, 11]));
        assert_eq!(parse_list(""), Some(vec![]));
        assert_eq!(parse_list("x-3"), None);
    }
}
