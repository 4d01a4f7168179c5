//! Block devices: what each is, how the kernel drives it, and what lies between it and a processor.

use std::path::Path;

use serde::Serialize;

use super::pci::PciPath;
use crate::device::{DeviceFacts, sensor};
use crate::interrupts::interrupted_below;
use crate::root::{Root, by_number, numbered};

/// A whole block device: a drive, or what is built of drives.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct Disk {
    /// Facts that a result has of the disk below its data, too.
    #[serde(flatten)]
    pub facts: DeviceFacts,
    /// `nvme`, `virtio`, `scsi`, `dm`, `md`, `loop`, `zram` or `other`.
    pub kind: String,
    /// Controllers of an NVMe drive; several when it has several ways to it.
    pub controllers: Vec<String>,
    /// Other namespaces of the same drive, which share its bandwidth.
    pub sibling_namespaces: Vec<String>,
    /// Size of a physical block, bytes.
    pub physical_block_bytes: Option<u64>,
    /// Whether it can't be written.
    pub read_only: bool,
    /// All schedulers that could be used.
    pub schedulers: Vec<String>,
    /// Number of requests that each hardware queue takes.
    pub requests_per_queue: Option<u64>,
    /// Cores that its completions have interrupted; empty where the kernel does not say.
    pub interrupted_cores: Vec<usize>,
    /// Size of the largest request that the device and its driver would take, bytes.
    pub request_bytes_hardware_max: Option<u64>,
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
    root.names("/sys/block").into_iter().filter_map(|name| look(root, &name)).collect()
}

fn look(root: &Root, name: &str) -> Option<Disk> {
    let directory = format!("/sys/block/{name}");
    let of = |file: &str| root.text(format!("{directory}/{file}"));
    let number = |file: &str| of(file)?.parse::<u64>().ok();
    // Loop devices without a file have no size.
    let facts = DeviceFacts::look(root, Path::new(&directory))?;
    facts.size_bytes.filter(|&bytes| bytes > 0)?;
    let controllers = controllers(root, &directory, name);
    let schedulers = of("queue/scheduler").unwrap_or_default();
    let schedulers = schedulers.split_whitespace().map(|one| one.trim_matches(['[', ']']));
    let is_partition = |part: &String| root.exists(format!("{directory}/{part}/partition"));
    let partitions: Vec<String> = root.names(&directory).into_iter().filter(is_partition).collect();
    let partition_numbers =
        partitions.iter().map(|part| of(&format!("{part}/dev")).unwrap_or_default()).collect();
    Some(Disk {
        kind: kind_of(root, &directory, name).to_owned(),
        sibling_namespaces: siblings(root, &controllers, name),
        physical_block_bytes: number("queue/physical_block_size"),
        read_only: number("ro") == Some(1),
        schedulers: schedulers.map(str::to_owned).collect(),
        requests_per_queue: number("queue/nr_requests"),
        interrupted_cores: interrupted_below(root, &facts.numbers).into_iter().collect(),
        request_bytes_hardware_max: number("queue/max_hw_sectors_kb")
            .and_then(|kib| kib.checked_mul(1024)),
        temperature_max_c: sensor(root, Path::new(&directory), "temp1_max"),
        members: root.names(format!("{directory}/slaves")),
        is_encrypted: of("dm/uuid").is_some_and(|uuid| uuid.starts_with("CRYPT-")),
        partitions,
        partition_numbers,
        backing_file: of("loop/backing_file"),
        pci: pci(root, &directory, &controllers),
        controllers,
        facts,
    })
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
    let place = root.resolved(directory).filter(|_| name.starts_with("nvme"));
    let Some(above) = place.as_deref().and_then(Path::parent) else { return Vec::new() };
    let own = above.file_name().map(|own| own.to_string_lossy().into_owned()).unwrap_or_default();
    match is_controller(&own) {
        true => vec![own],
        false => root.names(above).into_iter().filter(|name| is_controller(name)).collect(),
    }
}

/// `nvme3`, not `nvme3n1`.
fn is_controller(name: &str) -> bool {
    numbered(name, "nvme").is_some()
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
    names.sort_by_cached_key(|name| by_number(name));
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
