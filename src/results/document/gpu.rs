//! `ringfall.gpu`: what stood behind the GPU tier, or why there was none.

use ringfall_engine::metrics::PromotionMetrics;
use ringfall_engine::tier::Tier;
use ringfall_engine::tier::gpu::GpuDevice;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::figure::{Sum, shapes};
use super::merge::figures;
use crate::facts::GpuBacking;
use crate::results::RunResult;

shapes!(GpuReport);

/// A GPU of the tier.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GpuDeviceReport {
    /// Number of the GPU, as the driver counts.
    pub index: u32,
    /// Name of the GPU, or of what stood in for it.
    pub name: String,
    /// Memory of the GPU, bytes.
    pub memory_bytes: u64,
    /// Memory of the GPU that was free before the run took its part, bytes.
    pub free_bytes: u64,
}

/// What stood behind the GPU tier, or why there was none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GpuReport {
    /// Capacity asked for, all GPUs together, bytes.
    pub asked_bytes: u64,
    /// Capacity that the tier had, all GPUs together, bytes; 0 when there was no tier.
    pub capacity_bytes: u64,
    /// What did the work: `cuda` (GPUs), `emulated` (host memory that stood in for them, whose
    /// figures say nothing of a GPU) or `simulated` (described GPUs on a simulated clock); null
    /// when there was no tier.
    pub backend: Option<String>,
    /// Whether the figures of the GPU tier are those of GPUs.
    pub is_gpu: bool,
    /// Version of the CUDA interface of the driver; null without a driver.
    pub driver: Option<String>,
    /// GPUs of the tier.
    pub devices: Vec<GpuDeviceReport>,
    /// Whether I/O buffers are page-locked for the GPUs, so that nothing is copied between the
    /// drive's reads and writes and the copies to and from the GPUs; null when there was no GPU.
    pub buffers_page_locked: Option<bool>,
    /// Why there was no tier, or a smaller one than was asked for; null when there was one of that
    /// size.
    pub why_not: Option<String>,
}

impl GpuReport {
    pub(super) fn of(result: &RunResult) -> Option<GpuReport> {
        let gpu = result.gpu.as_ref()?;
        let device = |device: &GpuDevice| GpuDeviceReport {
            index: device.index,
            name: device.name.clone(),
            memory_bytes: device.memory_bytes,
            free_bytes: device.free_bytes,
        };
        Some(GpuReport {
            asked_bytes: gpu.asked_bytes,
            capacity_bytes: result.tiers[Tier::Gpu.index()].capacity_bytes,
            backend: gpu.backing.map(|backing| backing.name().to_owned()),
            is_gpu: gpu.backing.is_some_and(GpuBacking::is_gpu),
            driver: gpu.driver.clone(),
            devices: gpu.devices.iter().map(device).collect(),
            buffers_page_locked: result
                .facts
                .iter()
                .filter_map(|facts| facts.gpu_reaches_buffers)
                .reduce(|all, one| all && one),
            why_not: gpu.why_not.clone(),
        })
    }
}

figures! {
/// Entries that a hit moved to a faster tier, with `--promotion on-hit`.
pub struct PromotionsReport {
    /// Number of entries that a hit moved up from the CPU tier.
    pub from_cpu_entries: Sum<u64>,
    /// Size of the entries that a hit moved up from the CPU tier, bytes.
    pub from_cpu_bytes: Sum<u64>,
    /// Number of entries that a hit moved up from the storage tier.
    pub from_storage_entries: Sum<u64>,
    /// Size of the entries that a hit moved up from the storage tier, bytes.
    pub from_storage_bytes: Sum<u64>,
}
}

impl PromotionsReport {
    pub(super) fn of(result: &RunResult) -> PromotionsReport {
        let of = |from: Tier| {
            let row = &result.engine.promotions[from.index()];
            let sum = |of: fn(&PromotionMetrics) -> u64| Sum::of(row.iter().map(of).sum());
            (sum(|to| to.entries), sum(|to| to.bytes))
        };
        let (cpu, storage) = (of(Tier::Cpu), of(Tier::Storage));
        PromotionsReport {
            from_cpu_entries: cpu.0,
            from_cpu_bytes: cpu.1,
            from_storage_entries: storage.0,
            from_storage_bytes: storage.1,
        }
    }
}
