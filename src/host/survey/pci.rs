//! The way over PCI Express from a root port to a device, and what its narrowest link carries.

use std::path::Path;

use serde::Serialize;

use crate::kernel::is_pci_address;
use crate::root::Root;

/// Lanes that a link may have (PCI Express Base Specification, "Link Width").
const LANES_MAX: u32 = 32;

/// One device on the way: a root port, a bridge of a switch, or the device at its end.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct PciLink {
    /// Address of the device, as `domain:bus:device.function`.
    pub address: String,
    /// Transfer rate of its link now, GT/s; null when the device names none.
    pub speed_gt_per_s: Option<f64>,
    /// Number of lanes of its link now.
    pub lanes: Option<u32>,
    /// Highest transfer rate that the device supports, GT/s.
    pub speed_max_gt_per_s: Option<f64>,
    /// Largest number of lanes that the device supports.
    pub lanes_max: Option<u32>,
    /// Vendor and device number, as `8086:0a54`.
    pub id: Option<String>,
    /// NUMA node that it is attached to; null when there is only one or the kernel names none.
    pub numa_node: Option<u32>,
}

/// The way from the root port to a device.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct PciPath {
    /// All devices on the way, the root port first and the device itself last.
    pub links: Vec<PciLink>,
    /// Bandwidth of the narrowest link on the way in each direction, bytes/s: lanes × transfer
    /// rate, less the line code, before packet headers. Null when no link says what it is.
    pub bandwidth_bytes_per_s: Option<u64>,
    /// Address of the device with the narrowest link.
    pub narrowest: Option<String>,
}

impl PciPath {
    /// The devices of PCI on a path below `/sys/devices`; none when there are none.
    pub(super) fn of(root: &Root, path: &Path) -> Option<PciPath> {
        let mut links = Vec::new();
        let mut at = std::path::PathBuf::new();
        for part in path.components() {
            at.push(part);
            let name = part.as_os_str().to_string_lossy();
            if is_pci_address(&name) {
                links.push(PciLink::of(root, &at, &name));
            }
        }
        let narrowest = links
            .iter()
            .filter_map(|link| Some((link.bandwidth_bytes_per_s()?, &link.address)))
            .min_by_key(|(bandwidth, _)| *bandwidth);
        let (bandwidth_bytes_per_s, narrowest) =
            narrowest.map(|(bandwidth, address)| (bandwidth, address.clone())).unzip();
        Some(PciPath { bandwidth_bytes_per_s, narrowest, links })
            .filter(|path| !path.links.is_empty())
    }

    /// The link of the device itself, which is the last of the path.
    pub fn device(&self) -> Option<&PciLink> {
        self.links.last()
    }

    /// Number of bridges that both ways have in common: with 2 or more, what passes between the
    /// two devices need not pass the root port.
    pub fn bridges_shared(&self, other: &PciPath) -> usize {
        let pairs = self.links.iter().zip(&other.links);
        pairs.take_while(|(own, theirs)| own.address == theirs.address).count()
    }
}

impl PciLink {
    pub(super) fn of(root: &Root, directory: &Path, address: &str) -> PciLink {
        let speed = |name: &str| speed(&root.text(directory.join(name))?);
        let lanes = |name: &str| lanes(&root.text(directory.join(name))?);
        let id = |name: &str| {
            let text = root.text(directory.join(name))?;
            let digits = text.strip_prefix("0x")?;
            (digits.len() == 4 && digits.bytes().all(|byte| byte.is_ascii_hexdigit()))
                .then(|| digits.to_owned())
        };
        PciLink {
            address: address.to_owned(),
            speed_gt_per_s: speed("current_link_speed"),
            lanes: lanes("current_link_width"),
            speed_max_gt_per_s: speed("max_link_speed"),
            lanes_max: lanes("max_link_width"),
            id: id("vendor").zip(id("device")).map(|(vendor, id)| format!("{vendor}:{id}")),
            numa_node: root.text(directory.join("numa_node")).and_then(|node| node.parse().ok()),
        }
    }

    /// Bandwidth of the link in each direction now, bytes/s.
    pub fn bandwidth_bytes_per_s(&self) -> Option<u64> {
        bandwidth_bytes_per_s(self.speed_gt_per_s?, self.lanes?)
    }

    /// Bandwidth at the best of the device, bytes/s.
    pub fn bandwidth_max_bytes_per_s(&self) -> Option<u64> {
        bandwidth_bytes_per_s(self.speed_max_gt_per_s?, self.lanes_max?)
    }

    /// `Gen4 x4`, or `–`.
    pub fn told(speed_gt_per_s: Option<f64>, lanes: Option<u32>) -> String {
        match (speed_gt_per_s.and_then(known).map(|(_, generation, _)| generation), lanes) {
            (Some(generation), Some(lanes)) => format!("Gen{generation} x{lanes}"),
            (None, Some(lanes)) => format!("x{lanes}"),
            (Some(generation), None) => format!("Gen{generation}"),
            (None, None) => "–".to_owned(),
        }
    }
}

/// Transfer rates and the share of the bits that carries data (PCI Express Base Specification:
/// 8b/10b up to generation 2, 128b/130b up to 5, from 6 on 236 of the 256 bytes of a flit).
const GENERATIONS: [(f64, u32, f64); 7] = [
    (2.5, 1, 0.8),
    (5.0, 2, 0.8),
    (8.0, 3, 128.0 / 130.0),
    (16.0, 4, 128.0 / 130.0),
    (32.0, 5, 128.0 / 130.0),
    (64.0, 6, 236.0 / 256.0),
    (128.0, 7, 236.0 / 256.0),
];

fn known(speed_gt_per_s: f64) -> Option<&'static (f64, u32, f64)> {
    GENERATIONS.iter().find(|(speed, ..)| (speed - speed_gt_per_s).abs() < 0.01)
}

/// Rounded down: 7.877 GB/s of Gen4 x4.
fn bandwidth_bytes_per_s(speed_gt_per_s: f64, lanes: u32) -> Option<u64> {
    let (speed, _, share) = known(speed_gt_per_s)?;
    // At most 128e9 × 32 / 8: fits.
    Some((speed * 1e9 * f64::from(lanes) * share / 8.0) as u64)
}

/// `16.0 GT/s PCIe`; none of `Unknown`.
fn speed(text: &str) -> Option<f64> {
    let (number, _) = text.split_once(" GT/s")?;
    let speed: f64 = number.parse().ok()?;
    known(speed).map(|(speed, ..)| *speed)
}

/// None of 0 and of 255, with which a device says that it has no link.
fn lanes(text: &str) -> Option<u32> {
    text.parse().ok().filter(|lanes| (1..=LANES_MAX).contains(lanes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_carry_what_their_generation_and_lanes_give() {
        let carried = |speed, lanes| bandwidth_bytes_per_s(speed, lanes).unwrap() / 1_000_000;
        assert_eq!(carried(2.5, 1), 250);
        assert_eq!(carried(8.0, 4), 3_938);
        assert_eq!(carried(16.0, 4), 7_876);
        assert_eq!(carried(32.0, 16), 63_015);
        assert_eq!(carried(64.0, 4), 29_500);
        assert_eq!(bandwidth_bytes_per_s(7.0, 4), None);
        assert_eq!((speed("16.0 GT/s PCIe"), speed("5 GT/s")), (Some(16.0), Some(5.0)));
        assert_eq!((speed("Unknown"), speed("inf GT/s"), speed("")), (None, None, None));
        assert_eq!(
            (lanes("16"), lanes("0"), lanes("255"), lanes("-1")),
            (Some(16), None, None, None)
        );
        assert_eq!(PciLink::told(Some(16.0), Some(4)), "Gen4 x4");
        assert_eq!(PciLink::told(None, None), "–");
    }
}
