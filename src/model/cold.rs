//! Whether what a run read came from the device: the kernel's counters beside the engine's own, and
//! what may lie below them that no counter of this machine shows.

use ringfall_core::named;
use ringfall_host::{BlockDelta, ChainLink, Machine};
use serde::{Deserialize, Serialize};

use super::RunResult;

/// Share of the bytes read from which on all of them count as having reached the device: what is in
/// flight at the window's edges is counted on one side alone.
const REACHED_SHARE: f64 = 0.99;
/// Share from which on the device did so much besides that it proves nothing.
const OTHERS_SHARE: f64 = 1.05;
/// File systems whose server has a memory of its own, and whose drives this machine doesn't see.
const REMOTE: [&str; 16] = [
    "9p",
    "afs",
    "beegfs",
    "ceph",
    "cifs",
    "fuse",
    "gfs2",
    "glusterfs",
    "gpfs",
    "lustre",
    "ncpfs",
    "nfs",
    "nfs4",
    "smb3",
    "virtiofs",
    "wekafs",
];
/// Model names, in lower case, of disks that hypervisors emulate.
const VIRTUAL_MODELS: [&str; 6] =
    ["qemu", "vbox", "virtual disk", "vmware", "msft", "google persistentdisk"];
/// The same of RAID controllers, which have a memory of their own.
const CONTROLLER_MODELS: [&str; 10] = [
    "avago",
    "logical volume",
    "logicaldrv",
    "megaraid",
    "mr9",
    "perc",
    "raid",
    "serveraid",
    "smart array",
    "smc3108",
];

named! {
/// Verdict of the counters on the reads.
#[derive(Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ColdVerdict {
    /// The devices read what the engine read.
    Reached = "all reached the device",
    /// The devices read clearly more: others used them too, which could hide reads from a cache.
    Shared = "others read too",
    /// The devices read less than the engine did: a cache served the rest.
    Cached = "not all reached the device",
    /// This machine has no counters that show what the devices read, or they are memory.
    Unseen = "can't be seen",
}
}

impl ColdVerdict {
    /// The verdict that follows from the share of the bytes read that reached the device.
    pub fn of(reached_share: Option<f64>) -> ColdVerdict {
        match reached_share {
            None => ColdVerdict::Unseen,
            Some(share) if share < REACHED_SHARE => ColdVerdict::Cached,
            Some(share) if share > OTHERS_SHARE => ColdVerdict::Shared,
            Some(_) => ColdVerdict::Reached,
        }
    }
}

/// Whether the bytes read in the window came from the device or from a cache above it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct ColdReads {
    /// Bytes that the kernel counted as read from the devices below the data files, divided by
    /// those that the engine read; of the level of devices that counted fewest. Null where there
    /// are no counters.
    pub reached_share: Option<f64>,
    /// Verdict drawn from that share: `reached` from 0.99 on, `shared` from 1.05 on, `cached` below
    /// 0.99, `unseen` without counters.
    pub verdict: ColdVerdict,
    /// The verdict as a sentence, with what may lie below the counters.
    pub told: String,
    /// Caches that may lie below what the kernel counts, and what suggests each.
    pub below: Vec<String>,
}

impl ColdReads {
    /// The same of a run; `None` for one that read nothing, or no real device.
    pub fn of_run(result: &RunResult) -> Option<ColdReads> {
        if result.simulation.is_some() {
            return None;
        }
        let kernel = result.kernel.as_ref();
        let reached = kernel
            .map(|top| reached_bytes(&result.machine.device_chain, &result.kernel_chain, top));
        let engine_bytes = result.engine.io_read.bytes;
        ColdReads::of(engine_bytes, reached, &result.machine, result.is_of_commands())
    }

    /// Judges reads of `engine_bytes` by the engine's count and, where the kernel counts,
    /// `kernel_bytes`; `are_commands`: the reads were NVMe commands, which bypass the kernel's
    /// counters. `None` when nothing was read.
    pub fn of(
        engine_bytes: u64,
        kernel_bytes: Option<u64>,
        machine: &Machine,
        are_commands: bool,
    ) -> Option<ColdReads> {
        if engine_bytes == 0 {
            return None;
        }
        // What the kernel counts of memory that looks like a drive is no read of a drive.
        let kernel_bytes = kernel_bytes.filter(|_| machine.memory().is_none());
        let share = kernel_bytes.map(|bytes| bytes as f64 / engine_bytes as f64);
        let verdict = ColdVerdict::of(share);
        let below = caches_below(machine);
        let device = lowest(machine).unwrap_or("the device");
        let percent = |share: f64| format!("{:.1} %", share * 100.0);
        let counted = match (verdict, share) {
            (ColdVerdict::Reached, Some(share)) => format!(
                "the kernel counted {} of the bytes read: every read reached {device}",
                percent(share)
            ),
            (ColdVerdict::Shared, Some(share)) => format!(
                "the kernel counted {} of the bytes read: others read from {device} too, so that \
                 it can't be told whether every read of this run reached it",
                percent(share)
            ),
            (ColdVerdict::Cached, Some(share)) => format!(
                "the kernel counted only {} of the bytes read: {}",
                percent(share),
                cached(machine)
            ),
            _ if are_commands => format!(
                "the reads were NVMe commands to {device}, which no cache of this machine answers \
                 and the kernel does not count"
            ),
            _ => unseen(machine),
        };
        let told = match below.is_empty() {
            true => counted,
            false => format!("{counted}; below it, {}", below.join("; ")),
        };
        Some(ColdReads { reached_share: share, verdict, told, below })
    }
}

/// Bytes read that came through all levels of the devices below the data files: of a device and
/// those that it stands on, whichever counted less. Below a loop device is the page cache, unless
/// it bypasses that, so what counts is the device below alone, also where others have it count
/// more. `top` is the disk itself, should the levels have no counters; of several drives, their
/// disks together, which the drives' levels may share and then don't count twice.
pub fn reached_bytes(links: &[ChainLink], deltas: &[BlockDelta], top: &BlockDelta) -> u64 {
    let tops = || links.iter().enumerate().filter(|(_, link)| link.above.is_none());
    if tops().count() < 2 {
        let first = links.first().and_then(|link| through(link, links, deltas));
        return first.unwrap_or(top.read_bytes);
    }
    let all: Option<Vec<u64>> =
        tops().map(|(place, link)| through(link, &links[place..], deltas)).collect();
    let sum = all.map(|all| all.into_iter().fold(0, u64::saturating_add));
    sum.map_or(top.read_bytes, |sum| sum.min(top.read_bytes))
}

/// Links are listed after the one that stands on them, each once: no circle.
fn through(link: &ChainLink, links: &[ChainLink], deltas: &[BlockDelta]) -> Option<u64> {
    let own = deltas.iter().find(|delta| delta.device == link.name).map(|delta| delta.read_bytes);
    let place = links.iter().position(|other| other.name == link.name)?;
    let below = links[place + 1..].iter().filter(|other| other.above.as_ref() == Some(&link.name));
    let below: Option<Vec<u64>> =
        below.map(|other| through(other, &links[place + 1..], deltas)).collect();
    let below = below.filter(|all| !all.is_empty());
    let below = below.map(|all| all.into_iter().fold(0, u64::saturating_add));
    match (own, below) {
        (Some(_), Some(below)) if link.kind == "loop" => Some(below),
        (Some(own), Some(below)) => Some(own.min(below)),
        (own, below) => own.or(below),
    }
}

/// The device that reads end at: the last of the levels, or the topmost where they divide.
fn lowest(machine: &Machine) -> Option<&str> {
    let links = &machine.device_chain;
    if links.iter().filter(|link| link.above.is_none()).count() > 1 {
        return Some("the drives");
    }
    let is_line = links.windows(2).all(|two| two[1].above.as_ref() == Some(&two[0].name));
    let last = links.last().filter(|_| is_line).map(|link| link.name.as_str());
    last.or(machine.device.as_ref().map(|device| device.name.as_str()))
}

/// Who may have served reads that the devices did not.
fn cached(machine: &Machine) -> String {
    let is_loop = machine.device_chain.iter().find(|link| link.kind == "loop");
    let file_system = machine.mount.as_ref().map_or("", |mount| mount.file_system.as_str());
    match (is_loop, file_system) {
        (Some(link), _) => format!(
            "the file behind {} is in the page cache (losetup --direct-io=on avoids that)",
            link.name
        ),
        (None, "btrfs" | "zfs" | "bcachefs") => format!(
            "the rest came from a cache of {file_system}, or from other devices of the file system"
        ),
        (None, _) => "the rest came from a cache, and was not read from the device".to_owned(),
    }
}

/// Why nothing was counted.
fn unseen(machine: &Machine) -> String {
    if let Some(memory) = machine.memory() {
        return format!("the data was in memory ({memory}): nothing was read from a drive");
    }
    let file_system = machine.mount.as_ref().map_or("", |mount| mount.file_system.as_str());
    match file_system {
        name if is_remote(name) => format!(
            "the data was on a network or user-space file system ({name}): this machine can't see \
             whether its server read from a drive or from memory"
        ),
        "" => "the kernel has no counters of what is below the data files".to_owned(),
        name => format!("the kernel has no counters of a device below {name}"),
    }
}

fn is_remote(file_system: &str) -> bool {
    let kind = file_system.split('.').next().unwrap_or_default();
    REMOTE.contains(&kind)
}

/// Caches below what the kernel of this machine counts, as far as it shows them.
pub fn caches_below(machine: &Machine) -> Vec<String> {
    let mut found = Vec::new();
    let Some(device) = &machine.device else { return found };
    let lowest = machine.device_chain.last().map_or(device.name.as_str(), |link| &link.name);
    if machine.device_chain.last().is_some_and(|link| link.kind == "loop") {
        found.push(format!("the file of {lowest} may be in the page cache unseen"));
    }
    let model = device.model.as_deref().unwrap_or_default().to_lowercase();
    let has = |names: &[&str]| names.iter().any(|name| model.contains(name));
    let is_virtual_name = ["vd", "xvd"].iter().any(|start| {
        let rest = lowest.strip_prefix(start);
        rest.is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_lowercase()))
    });
    if is_virtual_name || has(&VIRTUAL_MODELS) {
        found.push(format!(
            "{lowest} is a disk of a virtual machine, whose host may cache it unseen"
        ));
    }
    if has(&CONTROLLER_MODELS) {
        let model = device.model.as_deref().unwrap_or_default().trim();
        found.push(format!("{lowest} ({model}) is behind a RAID controller with its own memory"));
    }
    let transport = device.transport.as_deref().filter(|transport| *transport != "pcie");
    let is_network_name = ["nbd", "rbd", "drbd"].iter().any(|start| lowest.starts_with(start));
    if is_network_name || transport.is_some() {
        let how = transport.map_or(String::new(), |transport| format!(" (by {transport})"));
        found.push(format!("{lowest} is another machine's{how}, which may cache it unseen"));
    }
    found
}

#[cfg(test)]
mod tests {
    use ringfall_host::{DeviceFacts, MountFacts};

    use super::*;
    use crate::testing::{link, read_from};

    fn machine(device: &str, file_system: &str) -> Machine {
        let kind = if device.starts_with("loop") { "loop" } else { "disk" };
        Machine {
            device: (!device.is_empty())
                .then(|| DeviceFacts { name: device.to_owned(), ..DeviceFacts::default() }),
            device_chain: vec![link(device, kind, None)],
            mount: Some(MountFacts {
                file_system: file_system.to_owned(),
                ..MountFacts::default()
            }),
            ..Machine::default()
        }
    }

    #[test]
    fn the_verdict_is_that_of_the_counters() {
        let nvme = machine("nvme0n1", "ext4");
        let of = |kernel: Option<u64>| ColdReads::of(1000, kernel, &nvme, false).unwrap();
        for (kernel, verdict) in [
            (Some(1000), ColdVerdict::Reached),
            (Some(990), ColdVerdict::Reached),
            (Some(1050), ColdVerdict::Reached),
            (Some(1051), ColdVerdict::Shared),
            (Some(989), ColdVerdict::Cached),
            (Some(0), ColdVerdict::Cached),
            (None, ColdVerdict::Unseen),
        ] {
            assert_eq!(of(kernel).verdict, verdict, "{kernel:?}");
        }
        let reached = of(Some(1000));
        let told = "the kernel counted 100.0 % of the bytes read: every read reached nvme0n1";
        assert_eq!((reached.told.as_str(), reached.below.len()), (told, 0));
        assert_eq!(ColdReads::of(0, Some(5), &nvme, false), None);
        let commands = ColdReads::of(1000, None, &nvme, true).unwrap();
        assert_eq!(commands.verdict, ColdVerdict::Unseen);
        assert!(commands.told.starts_with("the reads were NVMe commands to nvme0n1, which no"));
        // Some kernels can be told to count them.
        assert_eq!(ColdReads::of(1000, Some(1000), &nvme, true), Some(reached));
    }

    #[test]
    fn what_reached_the_devices_is_what_came_through_every_level() {
        // A volume on two drives, of which one has a partition.
        let links = [
            link("md0", "md", None),
            link("p1", "partition", Some("md0")),
            link("a", "disk", Some("p1")),
            link("b", "disk", Some("md0")),
        ];
        let of = |counts: &[(&str, u64)]| {
            let deltas: Vec<_> =
                counts.iter().map(|(name, bytes)| read_from(name, *bytes)).collect();
            reached_bytes(&links, &deltas, &read_from("md0", 100))
        };
        // Others use the drives too, or not.
        assert_eq!(of(&[("md0", 100), ("p1", 50), ("a", 500), ("b", 50)]), 100);
        assert_eq!(of(&[("md0", 100), ("p1", 50), ("a", 20), ("b", 50)]), 70);
        assert_eq!(of(&[("md0", 100), ("b", 30)]), 100, "not all of a level is known");
        assert_eq!(of(&[]), 100);
        let on_loop = [link("loop0", "loop", None), link("vda", "disk", Some("loop0"))];
        let deltas = [read_from("loop0", 100), read_from("vda", 3)];
        assert_eq!(reached_bytes(&on_loop, &deltas, &read_from("loop0", 100)), 3);
        // Others read from the disk: it proves nothing of the reads of the loop device.
        let deltas = [read_from("loop0", 100), read_from("vda", 500)];
        assert_eq!(reached_bytes(&on_loop, &deltas, &read_from("loop0", 100)), 500);
    }

    #[test]
    fn of_several_drives_the_sum_reached_them() {
        let links = [
            link("loop0", "loop", None),
            link("a", "disk", Some("loop0")),
            link("loop1", "loop", None),
            link("a", "disk", Some("loop1")),
            link("b", "disk", None),
        ];
        let of = |a, b| {
            let deltas = [
                read_from("loop0", 100),
                read_from("a", a),
                read_from("loop1", 100),
                read_from("b", b),
            ];
            reached_bytes(&links, &deltas, &read_from("loop0+loop1+b", 200 + b))
        };
        assert_eq!(of(200, 50), 250, "the disk below two of them counts once");
        assert_eq!(of(30, 50), 110, "what the page cache served did not reach it");
    }

    #[test]
    fn a_cache_is_named_where_it_shows() {
        let told =
            |machine: &Machine, kernel| ColdReads::of(1000, kernel, machine, false).unwrap().told;
        let on_loop = told(&machine("loop3", "ext4"), Some(20));
        assert!(on_loop.contains("the file of loop3 may be in the page cache unseen"));
        assert!(on_loop.contains("only 2.0 %") && on_loop.contains("the file behind loop3"));
        let mut direct = machine("loop3", "ext4");
        direct.device_chain[0].kind = "loop_direct".to_owned();
        let direct = told(&direct, Some(20));
        assert!(direct.contains("only 2.0 %") && !direct.contains("page cache"), "{direct}");
        assert!(told(&machine("sda", "btrfs"), Some(500)).contains("other devices of the file"));
        assert!(told(&machine("", "nfs4"), None).contains("file system (nfs4)"));
        assert!(told(&machine("", "fuse.sshfs"), None).contains("file system (fuse.sshfs)"));
        assert!(told(&machine("", "tmpfs"), None).contains("in memory (tmpfs)"));
        let virtio = told(&machine("vda", "ext4"), Some(1000));
        assert!(virtio.contains("below it, vda is a disk of a virtual machine"), "{virtio}");
        let mut raid = machine("sda", "xfs");
        raid.device.as_mut().unwrap().model = Some("PERC H755 Front".to_owned());
        assert!(told(&raid, Some(1000)).contains("sda (PERC H755 Front) is behind a RAID"));
        let mut far = machine("nvme1n1", "xfs");
        far.device.as_mut().unwrap().transport = Some("tcp".to_owned());
        assert!(told(&far, Some(1000)).contains("nvme1n1 is another machine's (by tcp)"));
    }

    #[test]
    fn memory_that_looks_like_a_drive_is_none() {
        for name in ["zram0", "ram1", "nullb0"] {
            let machine = machine(name, "ext4");
            let cold = ColdReads::of(1000, Some(1000), &machine, false).unwrap();
            assert_eq!((cold.verdict, cold.reached_share), (ColdVerdict::Unseen, None), "{name}");
            let told = format!("the data was in memory ({name}): nothing was read from a drive");
            assert_eq!(cold.told, told);
            assert_eq!(machine.memory(), Some(name));
        }
        // A loop device over tmpfs; one of two members; and what only sounds like it.
        let mut chain = machine("loop0", "ext4");
        chain.device_chain.push(link("tmpfs", "memory", Some("loop0")));
        assert_eq!(chain.memory(), Some("tmpfs"));
        let mut raid = machine("md0", "xfs");
        raid.device_chain.push(link("ram0", "disk", Some("md0")));
        assert_eq!(raid.memory(), Some("ram0"));
        raid.device_chain.push(link("sda", "disk", Some("md0")));
        assert_eq!(raid.memory(), None);
        for name in ["ramdisk", "nvme0n1", "loop0", ""] {
            assert_eq!(machine(name, "ext4").memory(), None, "{name}");
        }
    }
}
