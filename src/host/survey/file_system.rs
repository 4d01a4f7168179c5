//! File systems that could hold a run's data: where they are mounted, on what, and how.

use std::path::Path;

use serde::Serialize;

use super::disk::Disk;
use crate::kernel::{Mount, mounts};
use crate::root::Root;

/// A mounted file system that holds files.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct FileSystem {
    /// Directory where it is mounted.
    pub mount_point: String,
    /// Its type: `ext4`, `xfs`, `nfs4` …
    pub kind: String,
    /// Source of the mount: a device, `host:/path` …
    pub source: String,
    /// Device numbers, as `major:minor`.
    pub numbers: String,
    /// Options of the mount and of the file system.
    pub options: Vec<String>,
    /// Name of the disk that it is on; null when it is on none, or on several.
    pub disk: Option<String>,
    /// Drives that its bytes end on, through partitions and whatever is built of drives.
    pub drives: Vec<String>,
    /// Size of the file system, bytes; null when it can't be asked.
    pub size_bytes: Option<u64>,
    /// Space that this process may still take, bytes.
    pub free_bytes: Option<u64>,
    /// Whether this process may make files at the mount point.
    pub is_writable: bool,
}

/// Types that keep their files on other machines.
const REMOTE: [&str; 10] =
    ["nfs", "nfs4", "cifs", "smb3", "ceph", "9p", "virtiofs", "lustre", "beegfs", "gpfs"];
/// Types that keep their files in memory.
const IN_MEMORY: [&str; 2] = ["tmpfs", "ramfs"];

impl FileSystem {
    /// Whether its files are in memory, with no drive below.
    pub fn is_in_memory(&self) -> bool {
        IN_MEMORY.contains(&self.kind.as_str())
    }

    /// Whether its files are on another machine, or with a program (FUSE).
    pub fn is_remote(&self) -> bool {
        REMOTE.contains(&self.kind.as_str()) || self.kind.starts_with("fuse")
    }

    /// Whether an option is set: `sync`, or `data=journal`.
    pub fn has(&self, option: &str) -> bool {
        self.options.iter().any(|own| own == option)
    }

    /// Whether a path is on it, going by the mount point alone.
    pub fn holds(&self, path: &Path) -> bool {
        path.starts_with(&self.mount_point)
    }
}

/// Parts of the system where nobody keeps data: what is mounted below them is left out.
const SYSTEM: [&str; 6] = ["/proc", "/sys", "/run", "/boot", "/snap", "/dev"];

/// All that hold files, in the order in which they were mounted.
pub(super) fn file_systems(root: &Root, disks: &[Disk]) -> Vec<FileSystem> {
    let mut all: Vec<FileSystem> = Vec::new();
    for found in mounts(root).into_iter().map(of_mount) {
        let place = Path::new(&found.mount_point);
        let is_system =
            SYSTEM.iter().any(|part| found.holds(part.as_ref()) || place.starts_with(part));
        let is_memory = found.mount_point == "/dev/shm";
        let is_kept = found.source.starts_with('/') || found.is_in_memory() || found.is_remote();
        let is_place = root.is_dir(&found.mount_point);
        if !is_kept || !is_place || (is_system && !is_memory && found.mount_point != "/") {
            continue;
        }
        // A later mount hides an earlier one at the same place.
        all.retain(|earlier| earlier.mount_point != found.mount_point);
        all.push(complete(root, disks, found));
    }
    all
}

/// Options that stand twice, of the mount and of the file system, are named once.
fn of_mount(mount: Mount) -> FileSystem {
    let mut options: Vec<String> = Vec::new();
    for option in mount.options.split(',').filter(|option| !option.is_empty()) {
        if !options.iter().any(|known| known == option) {
            options.push(option.to_owned());
        }
    }
    let Mount { mount_point, kind, source, numbers, .. } = mount;
    FileSystem { mount_point, kind, source, numbers, options, ..FileSystem::default() }
}

fn complete(root: &Root, disks: &[Disk], found: FileSystem) -> FileSystem {
    let space = rustix::fs::statvfs(root.path(&found.mount_point)).ok();
    let bytes = |blocks: fn(&rustix::fs::StatVfs) -> u64| {
        let space = space.as_ref()?;
        blocks(space).checked_mul(space.f_frsize)
    };
    let on = |numbers: &str| {
        disks.iter().find(|disk| {
            disk.facts.numbers == numbers
                || disk.partition_numbers.iter().any(|part| part == numbers)
        })
    };
    // A file system that spans devices (btrfs) has numbers of its own: its source says more.
    let by_source = || {
        let source = root.linked_name(&found.source);
        let name = source.or_else(|| found.source.rsplit('/').next().map(str::to_owned))?;
        disks.iter().find(|disk| disk.facts.name == name || disk.partitions.contains(&name))
    };
    let disk = on(&found.numbers).or_else(by_source);
    let mut drives = Vec::new();
    if let Some(disk) = disk {
        drives_below(disks, disk, &mut drives, 0);
    }
    FileSystem {
        disk: disk.map(|disk| disk.facts.name.clone()),
        drives,
        size_bytes: bytes(|space| space.f_blocks),
        free_bytes: bytes(|space| space.f_bavail),
        is_writable: root.is_writable(&found.mount_point) && !found.has("ro"),
        ..found
    }
}

/// Follows what is built of drives down to them.
fn drives_below(disks: &[Disk], disk: &Disk, drives: &mut Vec<String>, depth: u32) {
    // dm on md on partitions is three; more than this is a circle.
    const DEPTH_MAX: u32 = 16;
    if disk.members.is_empty() || depth > DEPTH_MAX {
        if !drives.contains(&disk.facts.name) {
            drives.push(disk.facts.name.clone());
        }
        return;
    }
    for member in &disk.members {
        let found = disks
            .iter()
            .find(|disk| disk.facts.name == *member || disk.partitions.contains(member));
        match found {
            Some(below) => drives_below(disks, below, drives, depth + 1),
            None if !drives.contains(member) => drives.push(member.clone()),
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_those_of_the_mount_and_of_the_file_system() {
        let line = "36 35 98:0 /m1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=c";
        let found = of_mount(Mount::parse(line).unwrap());
        assert_eq!(found.options, ["rw", "noatime", "errors=c"]);
        assert!(found.has("noatime") && !found.has("atime"));
    }
}
