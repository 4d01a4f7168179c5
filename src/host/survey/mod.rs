//! Survey of a machine: processors, memory, GPUs, drives and the way to them, file systems, limits.
//! It is read from a tree that may be another than this machine's.
//!
//! Judging it is `suite`'s business, not this folder's.

mod disk;
mod file_system;
mod gpu;
mod limits;
mod pci;
mod processor;

use serde::Serialize;

pub use disk::Disk;
pub use file_system::FileSystem;
pub use gpu::Gpu;
pub(crate) use limits::throttles;
pub use limits::{DeviceRates, Limits, Throttle};
pub use pci::{PciLink, PciPath};
pub use processor::{Cache, HugePages, Memory, NumaNode, Processor};

use super::Room;
pub use super::root::Root;

/// Everything that was found out about a machine; what is unknown is null.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct Survey {
    /// Name of the host; null when the kernel names none.
    pub host: Option<String>,
    /// Release of the Linux kernel.
    pub kernel: Option<String>,
    /// Processor model, cores and caches.
    pub processor: Processor,
    /// NUMA nodes with memory or cores, by number.
    pub numa_nodes: Vec<NumaNode>,
    /// Main memory, swap and huge pages.
    pub memory: Memory,
    /// Its GPUs and accelerators.
    pub gpus: Vec<Gpu>,
    /// Whole block devices, by name.
    pub disks: Vec<Disk>,
    /// File systems that could hold data.
    pub file_systems: Vec<FileSystem>,
    /// Limits of this process and of the kernel.
    pub limits: Limits,
}

impl Survey {
    /// Looks at a machine. `room` is what this process can have of it, where that is known.
    pub fn look(root: &Root, room: Option<&Room>) -> Survey {
        let disks = disk::disks(root);
        Survey {
            host: root.text("/proc/sys/kernel/hostname"),
            kernel: root.text("/proc/sys/kernel/osrelease"),
            processor: Processor::look(root),
            numa_nodes: processor::numa_nodes(root),
            memory: Memory::look(root, room.and_then(|room| room.memory.as_ref())),
            gpus: gpu::gpus(root),
            file_systems: file_system::file_systems(root, &disks),
            limits: Limits::look(root),
            disks,
        }
    }

    /// The disk of that name.
    pub fn disk(&self, name: &str) -> Option<&Disk> {
        self.disks.iter().find(|disk| disk.facts.name == name)
    }

    /// The drives that a file system's bytes end on.
    pub fn drives_of(&self, system: &FileSystem) -> Vec<&Disk> {
        system.drives.iter().filter_map(|name| self.disk(name)).collect()
    }

    /// The file system that a path is on, going by the mount points.
    pub fn file_system_of(&self, path: &std::path::Path) -> Option<&FileSystem> {
        let holding = self.file_systems.iter().filter(|system| system.holds(path));
        holding.max_by_key(|system| system.mount_point.len())
    }
}

#[cfg(test)]
mod survey_test;
