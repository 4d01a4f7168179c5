//! Block devices: what each is, how the kernel drives it, and what lies between it and a processor.

use std::path::Path;

use serde::Serialize;

use super::pci::PciPath;
use super::root::Root;
use crate::interrupts::interrupted_below;

/// A whole block device: a drive, or what is built of drives.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct Disk {
    /// Name of the device under `/sys/block`.
    pub name: String,
    /// Device numbers, as `major:minor`.
    pub numbers: String,
    /// `nvme`, `virtio`, `scsi`, `dm`, `md`, `loop`, `zram` or `other`.
    pub kind: String,
    /// Model name that the drive reports.
    pub model: Option<String>,
    /// Revision of the firmware.
    pub firmware: Option<String>,
    /// Transport of an NVMe drive: `pcie`, `tcp`, `rdma` …
    pub transport: Option<String>,
    /// Controllers of an NVMe drive; several when it has several ways to it.
    pub controllers: Vec<String>,
    /// Number of the NVMe namespace.
    pub namespace: Option<u64>,
    /// Other namespaces of the same drive, which share its bandwidth.
    pub sibling_namespaces: Vec<String>,
    /// Capacity of the device, bytes.
    pub size_bytes: u64,
    /// Size of a logical block, bytes.
    pub logical_block_bytes: Option<u64>,
    /// Size of a physical block, bytes.
    pub physical_block_bytes: Option<u64>,
    /// Whether the kernel takes it for rotating media.
    pub rotational: Option<bool>,
    /// Whether it can't be written.
    pub read_only: bool,
    /// The kernel's I/O scheduler in use.
    pub scheduler: Option<String>,
    /// All schedulers that could be used.
    pub schedulers: Vec<String>,
    /// Number of requests that each hardware queue takes.
    pub requests_per_queue: Option<u64>,
    /// Number of hardware queues.
    pub queues: Option<u32>,
    /// Number of hardware queues that can be polled (`nvme.poll_queues`).
    pub poll_queues: Option<u32>,
    /// Cores that its completions have interrupted; empty where the kernel does not say.
    pub interrupted_cores: Vec<usize>,
    /// Size of the largest request that the kernel sends, bytes.
    pub request_bytes_max: Option<u64>,
    /// Size of the largest request that the device and its driver would take, bytes.
    pub request_bytes_hardware_max: Option<u64>,
    /// Write cache as the kernel sees it: `write back` or `write through`.
    pub write_cache: Option<String>,
    /// NUMA node that it is attached to; null when there is only one or the kernel names none.
    pub numa_node: Option<u32>,
    /// Temperature that the drive reports, °C; null when it reports none.
    pub temperature_c: Option<f64>,
    /// Temperature from which the drive slows down, °C.
    pub temperature_max_c: Option<f64>,
    /// Devices that it is built of: members of md and dm, by name.
    pub members: Vec<String>,
    /// Whether it is encrypted by the kernel (dm-crypt).
    pub is_encrypted: bool,
    /// Its partitions, by name.
    pub partitions: Vec<String>,
    /// Device numbers of its partitions, in the same order.
    #[serde(skip)]
    pub partition_numbers: Vec<String>,
    /// File that a loop device shows as a disk.
    pub backing_file: Option<String>,
    /// The way over PCI Express to it; null when there is none, or none that the kernel shows.
    pub pci: Option<PciPath>,
}

/// All disks that hold anything, by name.
pub(super) fn disks(root: &Root) -> Vec<Disk> {
    root.names("/sys/block").into_iter().filter_map(|name| look(root, name)).collect()
}

fn look(root: &Root, name: String) -> Option<Disk> {
    let directory = format!("/sys/block/{name}");
    let of = |file: &str| root.text(format!("{directory}/{file}"));
    let number = |file: &str| of(file)?.parse::<u64>().ok();
    // In sectors of 512 bytes, whatever the blocks. Loop devices without a file have none.
    let size_bytes = number("size")?.checked_mul(512).filter(|&bytes| bytes > 0)?;
    let kind = kind_of(root, &directory, &name);
    let controllers = controllers(root, &directory, &name);
    let schedulers: Vec<String> =
        of("queue/scheduler").unwrap_or_default().split(' ').map(str::to_owned).collect();
    let chosen = |name: &&String| name.starts_with('[') || schedulers.len() == 1;
    let plain = |name: &String| name.trim_matches(['[', ']']).to_owned();
    let queues = root.names(format!("{directory}/mq")).len();
    let node = |path: &str| of(path)?.parse::<u32>().ok();
    let degrees = |file: &str| sensor(root, &directory, file);
    let is_partition = |part: &String| root.exists(format!("{directory}/{part}/partition"));
    let partitions: Vec<String> = root.names(&directory).into_iter().filter(is_partition).collect();
    let partition_numbers =
        partitions.iter().map(|part| of(&format!("{part}/dev")).unwrap_or_default()).collect();
    let numbers = of("dev")?;
    let cores = interrupted_below(&root.path("/sys"), &root.path("/proc"), &numbers);
    Some(Disk {
        interrupted_cores: cores.into_iter().collect(),
        numbers,
        model: of("device/model"),
        firmware: of("device/firmware_rev").or_else(|| of("device/rev")),
        transport: of("device/transport"),
        namespace: number("nsid"),
        sibling_namespaces: siblings(root, &controllers, &name),
        size_bytes,
        logical_block_bytes: number("queue/logical_block_size"),
        physical_block_bytes: number("queue/physical_block_size"),
        rotational: number("queue/rotational").map(|flag| flag != 0),
        read_only: number("ro") == Some(1),
        scheduler: schedulers.iter().find(chosen).map(plain).filter(|name| !name.is_empty()),
        schedulers: schedulers.iter().map(plain).filter(|name| !name.is_empty()).collect(),
        requests_per_queue: number("queue/nr_requests"),
        queues: u32::try_from(queues).ok().filter(|&queues| queues > 0),
        poll_queues: (kind == "nvme")
            .then(|| root.number("/sys/module/nvme/parameters/poll_queues"))
            .flatten()
            .and_then(|queues| u32::try_from(queues).ok()),
        request_bytes_max: kib(number("queue/max_sectors_kb")),
        request_bytes_hardware_max: kib(number("queue/max_hw_sectors_kb")),
        write_cache: of("queue/write_cache"),
        numa_node: node("device/numa_node").or_else(|| node("device/device/numa_node")),
        temperature_c: degrees("temp1_input"),
        temperature_max_c: degrees("temp1_max"),
        members: root.names(format!("{directory}/slaves")),
        is_encrypted: of("dm/uuid").is_some_and(|uuid| uuid.starts_with("CRYPT-")),
        partitions,
        partition_numbers,
        backing_file: of("loop/backing_file"),
        pci: pci(root, &directory, &controllers),
        controllers,
        kind: kind.to_owned(),
        name,
    })
}

fn kib(kib: Option<u64>) -> Option<u64> {
    kib?.checked_mul(1024)
}

fn kind_of(root: &Root, directory: &str, name: &str) -> &'static str {
    let begins = |with: &str| name.starts_with(with);
    match () {
        () if root.exists(format!("{directory}/dm")) => "dm",
        () if root.exists(format!("{directory}/md")) => "md",
        () if begins("loop") => "loop",
        () if begins("zram") => "zram",
        () if begins("nvme") => "nvme",
        () if begins("vd") => "virtio",
        () if begins("sd") => "scsi",
        () => "other",
    }
}

/// Controllers that lead to an NVMe drive: the one in whose directory it is, or all those of the
/// subsystem that it belongs to (native multipath).
fn controllers(root: &Root, directory: &str, name: &str) -> Vec<String> {
    let Some(above) = root.resolved(directory).filter(|_| name.starts_with("nvme")) else {
        return Vec::new();
    };
    let Some(above) = above.parent() else { return Vec::new() };
    let own = above.file_name().map(|own| own.to_string_lossy().into_owned()).unwrap_or_default();
    match is_controller(&own) {
        true => vec![own],
        false => root.names(above).into_iter().filter(|name| is_controller(name)).collect(),
    }
}

/// `nvme3`, not `nvme3n1`.
fn is_controller(name: &str) -> bool {
    super::root::numbered(name, "nvme").is_some()
}

/// Other disks on the same drive.
fn siblings(root: &Root, controllers: &[String], name: &str) -> Vec<String> {
    let Some(controller) = controllers.first() else { return Vec::new() };
    let Some(directory) = root.resolved(format!("/sys/class/nvme/{controller}")) else {
        return Vec::new();
    };
    let mut names = root.names(directory);
    // With native multipath the disks of a drive are in its subsystem's directory instead.
    if let Some(subsystem) = root.resolved(format!("/sys/block/{name}"))
        && let Some(subsystem) = subsystem.parent()
    {
        names.extend(root.names(subsystem));
    }
    let is_disk = |other: &String| root.is_dir(format!("/sys/block/{other}"));
    let mut names: Vec<String> =
        names.into_iter().filter(|other| other != name && is_disk(other)).collect();
    names.sort_by_cached_key(|name| super::root::by_number(name));
    names.dedup();
    names
}

/// Its own way, or the first controller's.
fn pci(root: &Root, directory: &str, controllers: &[String]) -> Option<PciPath> {
    let own = root.resolved(directory);
    let of = |path: &Path| PciPath::of(root, path);
    own.as_deref().and_then(of).or_else(|| {
        let path = root.resolved(format!("/sys/class/nvme/{}", controllers.first()?))?;
        of(&path)
    })
}

/// The kernel's hwmon interface gives thousandths of a degree; `temp1` is the composite one.
fn sensor(root: &Root, directory: &str, file: &str) -> Option<f64> {
    let places = ["device", "device/device", "device/hwmon"];
    places.iter().find_map(|place| {
        let names = root.names(format!("{directory}/{place}"));
        let sensor = names.into_iter().find(|name| {
            name.starts_with("hwmon") && root.exists(format!("{directory}/{place}/{name}/{file}"))
        })?;
        let text = root.text(format!("{directory}/{place}/{sensor}/{file}"))?;
        let millidegrees: f64 = text.parse().ok()?;
        // What is not set is the lowest or the highest that the drive's register holds.
        Some(millidegrees / 1000.0).filter(|degrees| (-50.0..200.0).contains(degrees))
    })
}
