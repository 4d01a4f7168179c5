//! GPUs and other accelerators, as the PCI bus lists them.

use serde::Serialize;

use super::pci::PciPath;
use crate::kernel::{is_pci_address, value_of};
use crate::root::Root;

/// Classes of PCI devices (PCI Code and ID Assignment Specification): 03 is a display controller,
/// 12 a processing accelerator.
const CLASSES: [&str; 2] = ["0x03", "0x12"];

/// A GPU or accelerator.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct Gpu {
    /// Address on the PCI bus, as `domain:bus:device.function`.
    pub address: String,
    /// Maker: `NVIDIA`, `AMD`, `Intel`, or its number.
    pub vendor: String,
    /// Name of the model, where its driver tells it.
    pub model: Option<String>,
    /// The driver that has it; null when none has.
    pub driver: Option<String>,
    /// Version of that driver.
    pub driver_version: Option<String>,
    /// Its memory, bytes, where its driver tells it in the file system.
    pub memory_bytes: Option<u64>,
    /// NUMA node that it is attached to; null when there is only one or the kernel names none.
    pub numa_node: Option<u32>,
    /// The way to it.
    pub pci: Option<PciPath>,
}

impl Gpu {
    /// Whether a workload could run on it: it has a driver that computes.
    pub fn computes(&self) -> bool {
        matches!(self.driver.as_deref(), Some("nvidia" | "amdgpu"))
    }
}

/// All of them, by address. Adapters that only show a picture (of a virtual machine, of a server's
/// management) are among them.
pub(super) fn gpus(root: &Root) -> Vec<Gpu> {
    let devices = "/sys/bus/pci/devices";
    let names = root.names(devices).into_iter().filter(|name| is_pci_address(name));
    names.filter_map(|address| look(root, &format!("{devices}/{address}"), address)).collect()
}

fn look(root: &Root, directory: &str, address: String) -> Option<Gpu> {
    let of = |name: &str| root.text(format!("{directory}/{name}"));
    let class = of("class")?;
    if !CLASSES.iter().any(|known| class.starts_with(known)) {
        return None;
    }
    let vendor = match of("vendor")?.as_str() {
        "0x10de" => "NVIDIA".to_owned(),
        "0x1002" => "AMD".to_owned(),
        "0x8086" => "Intel".to_owned(),
        other => other.to_owned(),
    };
    // The driver lists its GPUs by these addresses.
    let told = root.page(format!("/proc/driver/nvidia/gpus/{address}/information"));
    let model = told.as_deref().and_then(|text| value_of(text, "Model")).map(str::to_owned);
    let driver = root.linked_name(format!("{directory}/driver"));
    let version = driver.as_ref().and_then(|name| root.text(format!("/sys/module/{name}/version")));
    let path = root.resolved(directory);
    Some(Gpu {
        vendor,
        model: model.or_else(|| of("product_name")).or_else(|| of("label")),
        driver,
        driver_version: version,
        memory_bytes: of("mem_info_vram_total").and_then(|bytes| bytes.parse().ok()),
        numa_node: of("numa_node").and_then(|node| node.parse().ok()),
        pci: path.and_then(|path| PciPath::of(root, &path)),
        address,
    })
}
