//! Cores that a drive interrupts when its I/Os complete: a thread on one of them is woken without a
//! detour by another core, which costs microseconds where few I/Os are in flight.

use std::collections::BTreeSet;

use crate::device::whole_disk;
use crate::kernel::parse_list;
use crate::root::Root;

/// Directories above a disk's own in which its interrupts may be listed: of an NVMe drive that of
/// its controller's PCI device, of a virtio disk that of the device which carries it.
const LEVELS: usize = 4;

/// The cores that the disk with these device numbers interrupts; none where the kernel does not
/// say, and of disks without interrupts of their own, as loop devices and volumes.
pub fn interrupted_cores(numbers: &str) -> BTreeSet<usize> {
    interrupted_below(&Root::machine(), numbers)
}

/// The same, of another machine.
pub(super) fn interrupted_below(root: &Root, numbers: &str) -> BTreeSet<usize> {
    let device = whole_disk(root, numbers).and_then(|disk| root.resolved(disk.join("device")));
    let Some(device) = device else { return BTreeSet::new() };
    let mut lists = device.ancestors().take(LEVELS).map(|directory| directory.join("msi_irqs"));
    let Some(list) = lists.find(|list| root.is_dir(list)) else { return BTreeSet::new() };
    let counters = root.page("/proc/interrupts").unwrap_or_default();
    let cores_of = |irq: &str| {
        let row = counters.lines().find_map(|line| line.trim().strip_prefix(&format!("{irq}:")))?;
        if !is_of_queue(row) {
            return None;
        }
        let affinity = |name: &str| root.text(format!("/proc/irq/{irq}/{name}"));
        // The one that the kernel chose, among those that it may choose.
        let list = affinity("effective_affinity_list").or_else(|| affinity("smp_affinity_list"));
        parse_list(&list?)
    };
    root.names(list).iter().filter_map(|irq| cores_of(irq)).flatten().collect()
}

/// Whether a row of `/proc/interrupts`, without its number, is that of a queue which has completed
/// anything: not of the device's configuration (`virtio1-config`) or administration (`nvme0q0`).
fn is_of_queue(row: &str) -> bool {
    let mut words = row.split_whitespace();
    let name = words.next_back().unwrap_or_default();
    let has_come = words.map_while(|word| word.parse::<u64>().ok()).any(|count| count > 0);
    has_come && !name.ends_with("config") && !name.ends_with("q0")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Scratch;

    #[test]
    fn the_cores_of_a_disk_are_those_of_its_queues_interrupts() {
        let root = Scratch::new("interrupts");
        for (disk, device, numbers) in [
            ("sys/devices/pci0/02.0/virtio1/block/vda", "pci0/02.0/virtio1", "254:0"),
            ("sys/devices/pci0/03.0/nvme/nvme0/nvme0n1", "pci0/03.0/nvme/nvme0", "259:0"),
            ("sys/devices/virtual/block/loop0", "", "7:0"),
        ] {
            root.file(&format!("{disk}/dev"), numbers);
            root.link(&format!("sys/dev/block/{numbers}"), disk);
            if !device.is_empty() {
                root.link(&format!("{disk}/device"), &format!("sys/devices/{device}"));
            }
        }
        for (device, irqs) in [("02.0", 35..=36), ("03.0", 40..=43)] {
            for irq in irqs {
                root.file(&format!("sys/devices/pci0/{device}/msi_irqs/{irq}"), "msix");
            }
        }
        let interrupts = "           CPU0       CPU1\n \
             35:          3          0 PCI-MSIX-0000:00:02.0   0-edge      virtio1-config\n \
             36:          0    2375139 PCI-MSIX-0000:00:02.0   1-edge      virtio1-req.0\n \
             40:          9          9 PCI-MSIX-0000:00:03.0   0-edge      nvme0q0\n \
             41:        100          0 PCI-MSIX-0000:00:03.0   1-edge      nvme0q1\n \
             42:          0        100 PCI-MSIX-0000:00:03.0   2-edge      nvme0q2\n \
             43:          0          0 PCI-MSIX-0000:00:03.0   3-edge      nvme0q3\n";
        root.file("proc/interrupts", interrupts);
        for (irq, cores) in [(35, "0"), (36, "1"), (40, "0"), (41, "4"), (43, "6")] {
            root.file(&format!("proc/irq/{irq}/effective_affinity_list"), cores);
        }
        root.file("proc/irq/42/smp_affinity_list", "2-3");
        let of = |numbers| interrupted_below(&Root::at(&root), numbers);
        assert_eq!(of("254:0"), BTreeSet::from([1]));
        assert_eq!(of("259:0"), BTreeSet::from([2, 3, 4]), "43 has completed nothing");
        assert_eq!(of("7:0"), BTreeSet::new());
        assert_eq!(of("8:0"), BTreeSet::new());
    }
}
