//! Advice on the settings of this machine to change before anything is measured, and how.

use ringfall_core::units::MIB;
use ringfall_host::survey::{Disk, FileSystem, Survey};
use ringfall_host::{counted, escape, human};
use serde::Serialize;

use super::machine::{Engine, Place};

/// Importance of the advice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Weight {
    /// Nothing runs, or what is measured is not the drive.
    Needed,
    /// Figures would be lower, or could not be compared with others'.
    Matters,
    /// It may cost a little.
    Minor,
}

impl Weight {
    /// As it is printed.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Weight::Needed => "needed",
            Weight::Matters => "matters",
            Weight::Minor => "minor",
        }
    }
}

/// Something that should be configured differently.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct Advice {
    /// Importance of the advice.
    pub weight: Weight,
    /// Setting found, and why it should change: one sentence or two.
    pub what: String,
    /// The command that changes it; null where there is none. Most of them need root, and last
    /// until the next start of the machine.
    pub command: Option<String>,
}

/// Oldest kernel whose completions are worked off when a shard asks (`DEFER_TASKRUN`).
const KERNEL_MIN: (u32, u32) = (6, 1);
/// Share of a file system that should be free: below it, ext4 and XFS find no long extents.
const FREE_SHARE_MIN: f64 = 0.1;
/// Degrees below its limit at which a drive is close to slowing down.
const DEGREES_LEFT_MIN: f64 = 5.0;
/// Descriptors of a shard, and of the program besides (`config/bounds.rs`).
const FILES_A_SHARD: u64 = 8;
const OTHER_FILES: u64 = 64;

/// All advice for runs at this place, the most important first. `ring` is why no io_uring can be
/// made, or why its buffers can't be registered.
#[must_use]
pub fn advise(survey: &Survey, place: &Place, engine: &Engine, ring: &[Advice]) -> Vec<Advice> {
    let mut all = ring.to_vec();
    kernel(survey, &mut all);
    limits(survey, engine, &mut all);
    memory(survey, &mut all);
    processors(survey, place, &mut all);
    match place.file_system(survey) {
        Some(system) => file_system(survey, system, &mut all),
        None => all.push(advice(
            Weight::Matters,
            format!(
                "nothing is known of the file system of {}, so no drive can be named",
                place.directory.display()
            ),
        )),
    }
    for drive in place.drives(survey) {
        scheduling(drive, engine, &mut all);
        interrupts(drive, engine, &mut all);
        link(drive, &mut all);
        health(survey, drive, &mut all);
    }
    all.sort_by_key(|advice| advice.weight);
    all
}

fn advice(weight: Weight, what: impl Into<String>) -> Advice {
    Advice { weight, what: what.into(), command: None }
}

impl Advice {
    fn by(self, command: impl Into<String>) -> Advice {
        Advice { command: Some(command.into()), ..self }
    }
}

fn kernel(survey: &Survey, all: &mut Vec<Advice>) {
    let release = survey.kernel.as_deref().unwrap_or_default();
    let mut parts = release.split(['.', '-', '+']).map(str::parse::<u32>);
    if let (Some(Ok(major)), Some(Ok(minor))) = (parts.next(), parts.next())
        && (major, minor) < KERNEL_MIN
    {
        all.push(advice(
            Weight::Matters,
            format!(
                "the kernel, {release}, is older than {}.{}: completions interrupt the threads \
                 that wait for them, and each costs more",
                KERNEL_MIN.0, KERNEL_MIN.1
            ),
        ));
    }
    let disabled = survey.limits.io_uring_disabled.unwrap_or(0);
    if disabled > 0 {
        let who = match disabled {
            1 => "only root and the group kernel.io_uring_group may use io_uring",
            _ => "nobody may use io_uring",
        };
        let what = format!("kernel.io_uring_disabled is {disabled}: {who}");
        let weight = if disabled == 1 { Weight::Matters } else { Weight::Needed };
        all.push(advice(weight, what).by("sudo sysctl -w kernel.io_uring_disabled=0"));
    }
}

fn limits(survey: &Survey, engine: &Engine, all: &mut Vec<Advice>) {
    let needed = u64::from(engine.shards) * FILES_A_SHARD + OTHER_FILES;
    if let Some(limit) = survey.limits.open_files.filter(|limit| *limit < needed) {
        let what = format!(
            "this process may have {limit} files open, and {} shards take about {needed}",
            engine.shards
        );
        all.push(advice(Weight::Needed, what).by(format!("ulimit -n {needed}")));
    }
    for throttle in &survey.limits.throttles {
        let disk = survey.disks.iter().find(|disk| disk.numbers == throttle.numbers);
        let name = disk.map_or(throttle.numbers.as_str(), |disk| disk.name.as_str());
        let what = format!(
            "a cgroup limits {name} ({} in {}): the limit would be measured instead of the drive",
            throttle.limit, throttle.file
        );
        let file = escape::shell(&throttle.file);
        let key = throttle.limit.split('=').next().unwrap_or_default();
        let line = match throttle.file.ends_with("io.max") {
            true => format!("{} {key}=max", throttle.numbers),
            false => format!("{} 0", throttle.numbers),
        };
        let command = format!("echo {} | sudo tee {file}", escape::shell(&line));
        all.push(advice(Weight::Needed, what).by(command));
    }
}

fn memory(survey: &Survey, all: &mut Vec<Advice>) {
    if survey.memory.transparent_huge_pages.as_deref() == Some("never")
        && survey.memory.huge_pages.iter().all(|pages| pages.free == 0)
    {
        let what = "transparent huge pages are switched off, and none are reserved: I/O buffers \
                    and the CPU tier then have pages of 4 KiB, of which an I/O of 1 MiB takes 256";
        let command = "echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled";
        all.push(advice(Weight::Matters, what).by(command));
    }
    if let Some(bytes) = survey.memory.swap_bytes.filter(|bytes| *bytes > 0) {
        let what = format!(
            "there are {} of swap space: a large CPU tier could be swapped out, and the drive that \
             holds it would then move more than the run does",
            human(bytes)
        );
        all.push(advice(Weight::Minor, what).by("sudo swapoff -a"));
    }
}

fn processors(survey: &Survey, place: &Place, all: &mut Vec<Advice>) {
    let slow: u32 = survey
        .processor
        .governors
        .iter()
        .filter(|(name, _)| name.as_str() != "performance")
        .map(|(_, threads)| threads)
        .sum();
    if slow > 0 {
        let what = format!(
            "the frequency governor of {slow} processors is not set to performance: they slow down \
             while they wait for the drive, and then respond late"
        );
        let command = "echo performance | sudo tee \
                       /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor";
        all.push(advice(Weight::Matters, what).by(command));
    }
    let nodes: Vec<_> = survey.numa_nodes.iter().filter(|node| node.thread_count > 0).collect();
    let drives = place.drives(survey);
    let near: Vec<u32> = drives.iter().filter_map(|drive| drive.numa_node).collect();
    if let ([first, rest @ ..], true) = (near.as_slice(), nodes.len() > 1)
        && rest.iter().all(|node| node == first)
    {
        let what = format!(
            "the machine has {} NUMA nodes, and the drive is attached to node {first}: threads and \
             memory of the others reach it through a link that they share",
            nodes.len()
        );
        let command = format!("numactl --cpunodebind={first} --membind={first} ringfall run ...");
        all.push(advice(Weight::Minor, what).by(command));
    }
}

fn file_system(survey: &Survey, system: &FileSystem, all: &mut Vec<Advice>) {
    let point = &system.mount_point;
    if system.is_in_memory() {
        let what = format!("{point} is {}, in memory: there is no drive to measure", system.kind);
        all.push(advice(Weight::Needed, what));
    }
    if system.is_remote() {
        let what = format!(
            "{point} is {}: its files are elsewhere, and what that machine keeps in memory is not \
             read from a drive",
            system.kind
        );
        all.push(advice(Weight::Matters, what));
    }
    if !system.is_writable {
        let what = format!("{point} can't be written by this process");
        all.push(advice(Weight::Needed, what));
    }
    mount_options(system, all);
    if system.kind == "btrfs" && !system.has("nodatacow") {
        let what = format!(
            "{point} is btrfs with copy-on-write: each block that is overwritten is allocated and \
             checksummed anew; a directory can be exempted while it is empty"
        );
        let command = format!("chattr +C {}/DIRECTORY", escape::shell(point));
        all.push(advice(Weight::Matters, what).by(command));
    }
    space_and_encryption(survey, system, all);
}

/// Options of the mount that change what is measured.
fn mount_options(system: &FileSystem, all: &mut Vec<Advice>) {
    let point = &system.mount_point;
    let remount = |option: &str| format!("sudo mount -o remount,{option} {}", escape::shell(point));
    if system.has("data=journal") {
        let what = format!(
            "{point} is mounted with data=journal: ext4 then writes all data twice, and through \
             the page cache"
        );
        all.push(advice(Weight::Needed, what));
    }
    for option in ["sync", "dirsync"].into_iter().filter(|option| system.has(option)) {
        let what =
            format!("{point} is mounted with {option}: each write waits for the drive's cache");
        all.push(advice(Weight::Matters, what).by(remount(&option.replace("sync", "async"))));
    }
    for option in ["nobarrier", "barrier=0"].into_iter().filter(|option| system.has(option)) {
        let what = format!(
            "{point} is mounted with {option}: flushes do not reach the drive, so writes count as \
             durable that are not"
        );
        all.push(advice(Weight::Matters, what).by(remount("barrier")));
    }
    if system.has("strictatime") {
        let what =
            format!("{point} is mounted with strictatime: each read also writes an access time");
        all.push(advice(Weight::Matters, what).by(remount("noatime")));
    }
}

fn space_and_encryption(survey: &Survey, system: &FileSystem, all: &mut Vec<Advice>) {
    let point = &system.mount_point;
    if let (Some(free), Some(size)) = (system.free_bytes, system.size_bytes)
        && (free as f64) < size as f64 * FREE_SHARE_MIN
    {
        let what = format!(
            "{point} has {} free of {}: a file system that is nearly full has no long extents \
             left, and its drive has few erased blocks",
            human(free),
            human(size)
        );
        all.push(advice(Weight::Matters, what));
    }
    let encrypted = survey
        .disks
        .iter()
        .find(|disk| disk.is_encrypted && system.disk.as_ref() == Some(&disk.name));
    if let Some(disk) = encrypted {
        let what = format!(
            "{point} is on {}, which the kernel encrypts: the processors' rate of encryption may \
             be measured instead of the drive",
            disk.name
        );
        all.push(advice(Weight::Matters, what));
    }
}

fn queue_file(drive: &Disk, name: &str) -> String {
    escape::shell(&format!("/sys/block/{}/queue/{name}", drive.name))
}

fn scheduling(drive: &Disk, engine: &Engine, all: &mut Vec<Advice>) {
    let name = &drive.name;
    let is_fast = matches!(drive.kind.as_str(), "nvme" | "virtio");
    if let Some(scheduler) = drive.scheduler.as_deref()
        && is_fast
        && scheduler != "none"
        && drive.schedulers.iter().any(|one| one == "none")
    {
        let what = format!(
            "{name} has the scheduler {scheduler}: it orders requests that the drive orders better \
             itself, under a lock"
        );
        let command = format!("echo none | sudo tee {}", queue_file(drive, "scheduler"));
        all.push(advice(Weight::Matters, what).by(command));
    }
    let depth = u64::from(engine.shards) * u64::from(engine.queue_depth);
    if let Some(most) = drive.requests_max().filter(|most| *most < depth) {
        let what = format!(
            "{name} takes {most} requests at a time, and a run keeps up to {depth} in flight: the \
             rest wait in the kernel, and their latency is the queue's"
        );
        all.push(advice(Weight::Minor, what).by(format!(
            "ringfall run --queue-depth {} ...",
            (most / u64::from(engine.shards.max(1))).max(1)
        )));
    }
    if let (Some(now), Some(most)) = (drive.request_bytes_max, drive.request_bytes_hardware_max)
        && now < engine.io_bytes
        && most > now
    {
        let what = format!(
            "{name} gets requests of {} at most, so that each I/O of {} MiB is cut, and it could \
             take {}",
            human(now),
            engine.io_bytes / MIB,
            human(most)
        );
        let kib = most.min(engine.io_bytes) / 1024;
        let command = format!("echo {kib} | sudo tee {}", queue_file(drive, "max_sectors_kb"));
        all.push(advice(Weight::Minor, what).by(command));
    }
    if drive.rotational == Some(true) && is_fast {
        let what = format!(
            "the kernel takes {name} for rotating media: where it is not, entropy is gathered from \
             its requests and file systems spread data as on a disk"
        );
        let command = format!("echo 0 | sudo tee {}", queue_file(drive, "rotational"));
        all.push(advice(Weight::Minor, what).by(command));
    }
}

/// Advises on shards that the drive does not interrupt: they are woken by way of a core that it
/// does. Shards are pinned to the latter first, so this concerns those for which there are too few.
fn interrupts(drive: &Disk, engine: &Engine, all: &mut Vec<Advice>) {
    let cores = &drive.interrupted_cores;
    let apart = (engine.shards as usize).saturating_sub(cores.len());
    if cores.is_empty() || apart == 0 {
        return;
    }
    let named: Vec<String> = cores.iter().map(usize::to_string).collect();
    let what = format!(
        "{} interrupts {} only ({}), and a run has {}: the others are woken by way of another \
         core, which costs microseconds an I/O; where few are in flight, --shards {} may be faster",
        drive.name,
        counted(cores.len() as u64, "core"),
        named.join(", "),
        counted(u64::from(engine.shards), "shard"),
        cores.len()
    );
    all.push(advice(Weight::Minor, what));
}

fn link(drive: &Disk, all: &mut Vec<Advice>) {
    let Some(device) = drive.pci.as_ref().and_then(|path| path.device()) else { return };
    let (now, most) = (device.bandwidth_bytes_per_s(), device.bandwidth_max_bytes_per_s());
    if let (Some(now), Some(most)) = (now, most)
        && now < most
    {
        let shown = |speed, lanes| ringfall_host::survey::PciLink::told(speed, lanes);
        let what = format!(
            "{} is linked with {}, and could be with {}: at most {:.2} GB/s instead of {:.2}. A \
             slot with fewer lanes, an extension, or saving power (idle) can be the reason",
            drive.name,
            shown(device.speed_gt_per_s, device.lanes),
            shown(device.speed_max_gt_per_s, device.lanes_max),
            now as f64 / 1e9,
            most as f64 / 1e9
        );
        let command = format!("sudo lspci -vv -s {}", escape::shell(&device.address));
        all.push(advice(Weight::Matters, what).by(command));
    }
}

fn health(survey: &Survey, drive: &Disk, all: &mut Vec<Advice>) {
    if let (Some(now), Some(most)) = (drive.temperature_c, drive.temperature_max_c)
        && most > 0.0
        && now > most - DEGREES_LEFT_MIN
    {
        let what = format!(
            "{} has {now:.0} °C, and slows down from {most:.0} °C: cool it before measuring",
            drive.name
        );
        all.push(advice(Weight::Matters, what));
    }
    let shared: Vec<&str> = drive
        .sibling_namespaces
        .iter()
        .filter(|name| survey.file_systems.iter().any(|system| system.drives.contains(*name)))
        .map(String::as_str)
        .collect();
    if !shared.is_empty() {
        let what = format!(
            "{} shares its drive with {}, on which there are file systems: what others do there \
             takes from what is measured",
            drive.name,
            shared.join(", ")
        );
        all.push(advice(Weight::Minor, what));
    }
}
