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
    /// Name of the GPU, or of the host memory that emulated it.
    pub name: String,
    /// Memory of the GPU, bytes.
    pub memory_bytes: u64,
    /// Memory of the GPU that was free before the run took its part, bytes.
    pub free_bytes: u64,
    /// Memory of the GPU that the run took, for the tier and for what is read, bytes.
    #[serde(default)]
    pub taken_bytes: Option<u64>,
    /// Memory of the GPU in use by all processes at the end of the run, as its driver says (NVML),
    /// bytes; null where it says nothing.
    #[serde(default)]
    pub driver_used_bytes: Option<u64>,
    /// Of that, memory in use by this process, bytes; null where the driver does not tell processes
    /// apart.
    #[serde(default)]
    pub driver_used_by_run_bytes: Option<u64>,
}

/// Backend and devices of the GPU tier, or why there was none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GpuReport {
    /// Capacity asked for, all GPUs together, bytes.
    pub asked_bytes: u64,
    /// Capacity that the tier had, all GPUs together, bytes; 0 when there was no tier.
    pub capacity_bytes: u64,
    /// Backend of the GPU tier: `cuda` (GPUs), `emulated` (host memory, whose figures say nothing
    /// about a GPU) or `simulated` (described GPUs on a simulated clock); null
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
    /// Way of the bytes between GPU memory and storage: `gds` (past host memory, by GPUDirect
    /// Storage, or by what stands in for it where `is_gpu` is false) or `pinned` (through I/O
    /// buffers); null without a tier or without storage.
    #[serde(default)]
    pub transfer: Option<String>,
    /// Why the bytes do not go past host memory; null where they do, or where that was not wanted.
    #[serde(default)]
    pub why_not_gds: Option<String>,
    /// Why there was no tier, or a smaller one than was asked for; null when there was one of that
    /// size.
    pub why_not: Option<String>,
}

impl GpuReport {
    pub(super) fn of(result: &RunResult) -> Option<GpuReport> {
        let gpu = result.gpu.as_ref()?;
        let device = |(place, device): (usize, &GpuDevice)| {
            let used = gpu.driver_use.get(place).copied().flatten();
            GpuDeviceReport {
                index: device.index,
                name: device.name.clone(),
                memory_bytes: device.memory_bytes,
                free_bytes: device.free_bytes,
                taken_bytes: Some(gpu.taken_bytes),
                driver_used_bytes: used.map(|used| used.used_bytes),
                driver_used_by_run_bytes: used.and_then(|used| used.own_bytes),
            }
        };
        let transfer = gpu.transfer.as_ref();
        Some(GpuReport {
            asked_bytes: gpu.asked_bytes,
            capacity_bytes: result.tiers[Tier::Gpu.index()].capacity_bytes,
            backend: gpu.backing.map(|backing| backing.name().to_owned()),
            is_gpu: gpu.backing.is_some_and(GpuBacking::is_gpu),
            driver: gpu.driver.clone(),
            devices: gpu.devices.iter().enumerate().map(device).collect(),
            buffers_page_locked: result
                .facts
                .iter()
                .filter_map(|facts| facts.gpu_reaches_buffers)
                .reduce(|all, one| all && one),
            transfer: transfer.map(|transfer| transfer.name().to_owned()),
            why_not_gds: transfer.and_then(|transfer| transfer.why_not_direct.clone()),
            why_not: gpu.why_not.clone(),
        })
    }
}

figures! {
/// Bytes between GPU memory and the rest, by the way they took.
pub struct GpuMovesReport {
    /// Bytes read from storage into GPU memory past host memory, by GPUDirect Storage.
    pub direct_read_bytes: Sum<u64>,
    /// Bytes written from GPU memory to storage past host memory, by GPUDirect Storage.
    pub direct_write_bytes: Sum<u64>,
    /// Bytes read from storage and copied from the I/O buffers into GPU memory.
    pub buffered_read_bytes: Sum<u64>,
    /// Bytes copied from GPU memory to the I/O buffers and written to storage.
    pub buffered_write_bytes: Sum<u64>,
    /// Bytes copied between GPU memory and memory of the CPU tier that is page-locked for the GPUs:
    /// one asynchronous copy, with no other memory between.
    pub host_locked_bytes: Sum<u64>,
    /// Bytes copied between GPU memory and memory of the CPU tier that is not page-locked: of
    /// entries the rests that are shorter than 2 MiB, and all of it where page-locking failed.
    pub host_pageable_bytes: Sum<u64>,
}
}

impl GpuMovesReport {
    pub(super) fn of(result: &RunResult) -> GpuMovesReport {
        let moves = result.engine.gpu_moves;
        GpuMovesReport {
            direct_read_bytes: Sum::of(moves.direct_read_bytes),
            direct_write_bytes: Sum::of(moves.direct_write_bytes),
            buffered_read_bytes: Sum::of(moves.buffered_read_bytes),
            buffered_write_bytes: Sum::of(moves.buffered_write_bytes),
            host_locked_bytes: Sum::of(moves.host_locked_bytes),
            host_pageable_bytes: Sum::of(moves.host_pageable_bytes),
        }
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
