//! `ringfall.gpu`: what stood behind the GPU tier, or why there was none.

use ringfall_core::facts::GpuDevice;
use ringfall_core::key::Tier;
use ringfall_core::metrics::PromotionMetrics;

use super::figure::{Min, Same, Sum};
use super::list::{ByName, Named};
use super::merge::figures;
use crate::RunResult;
use crate::facts::GpuBacking;

figures! {
/// A GPU of the tier.
pub struct GpuDeviceReport {
    /// Number of the GPU, as the driver counts.
    pub index: Same<u32>,
    /// Name of the GPU, or of the host memory that emulated it.
    pub name: Same<String>,
    /// Memory of the GPU, bytes.
    pub memory_bytes: Same<u64>,
    /// Memory of the GPU that was free before the run took its part, bytes; of merged results, the
    /// least.
    pub free_bytes: Min<u64>,
    /// Memory of the GPU that the run took, for the tier and for what is read, bytes.
    pub taken_bytes: Same<u64>,
    /// Memory of the GPU in use by all processes at the end of the run, as its driver says (NVML),
    /// bytes; null where it says nothing.
    pub driver_used_bytes: Same<u64>,
    /// Part of `driver_used_bytes` that was in use by this process, bytes; null where the driver
    /// does not tell processes apart.
    pub driver_used_by_run_bytes: Same<u64>,
}
}

impl Named for GpuDeviceReport {
    fn name(&self) -> Option<String> {
        Some(format!("{} {}", self.index.known()?, self.name.as_ref()?))
    }
}

figures! {
/// Backend and devices of the GPU tier, or why there was none. In merged results a figure is
/// null where the results differ in it.
pub struct GpuReport {
    /// Capacity asked for, all GPUs together, bytes.
    pub asked_bytes: Same<u64>,
    /// Capacity that the tier had, all GPUs together, bytes; 0 when there was no tier.
    pub capacity_bytes: Same<u64>,
    /// Backend of the GPU tier: `cuda` (GPUs), `emulated` (host memory, whose figures say nothing
    /// about a GPU) or `simulated` (described GPUs on a simulated clock); null
    /// when there was no tier.
    pub backend: Same<String>,
    /// Whether the figures of the GPU tier are those of GPUs.
    pub is_gpu: Same<bool>,
    /// Version of the CUDA interface of the driver; null without a driver.
    pub driver: Same<String>,
    /// GPUs of the tier; of merged results, each number and name once.
    pub devices: ByName<GpuDeviceReport>,
    /// Whether I/O buffers are page-locked for the GPUs, so that nothing is copied between the
    /// drive's reads and writes and the copies to and from the GPUs; null when there was no GPU.
    pub buffers_page_locked: Same<bool>,
    /// Path of bytes between GPU memory and storage: `gds` (GPUDirect Storage, which bypasses host
    /// memory; an emulation of it where `is_gpu` is false) or `pinned` (through I/O buffers in host
    /// memory); null without a tier or without storage.
    pub transfer: Same<String>,
    /// Why GPUDirect Storage was not used; null where it was, or where it was not wanted.
    pub why_not_gds: Same<String>,
    /// Why there was no tier, or a smaller one than was asked for; null when there was one of that
    /// size.
    pub why_not: Same<String>,
}
}

impl GpuReport {
    pub(super) fn of(result: &RunResult) -> Option<GpuReport> {
        let gpu = result.gpu.as_ref()?;
        let device = |(place, device): (usize, &GpuDevice)| {
            let used = gpu.driver_use.get(place).copied().flatten();
            GpuDeviceReport {
                index: Same::of(device.index),
                name: Same::of(device.name.clone()),
                memory_bytes: Same::of(device.memory_bytes),
                free_bytes: Min::of(device.free_bytes),
                taken_bytes: Same::of(gpu.taken_bytes),
                driver_used_bytes: Same::maybe(used.map(|used| used.used_bytes)),
                driver_used_by_run_bytes: Same::maybe(used.and_then(|used| used.own_bytes)),
            }
        };
        let transfer = gpu.transfer.as_ref();
        let why_not_gds = transfer.and_then(|transfer| transfer.why_not_direct.clone());
        let reached = result.facts.iter().filter_map(|facts| facts.gpu_reaches_buffers);
        Some(GpuReport {
            asked_bytes: Same::of(gpu.asked_bytes),
            capacity_bytes: Same::of(result.tiers[Tier::Gpu.index()].capacity_bytes),
            backend: Same::maybe(gpu.backing.map(|backing| backing.name().to_owned())),
            is_gpu: Same::of(gpu.backing.is_some_and(GpuBacking::is_gpu)),
            driver: Same::maybe(gpu.driver.clone()),
            devices: gpu.devices.iter().enumerate().map(device).collect(),
            buffers_page_locked: Same::maybe(reached.reduce(|all, one| all && one)),
            transfer: Same::maybe(transfer.map(|transfer| transfer.name().to_owned())),
            why_not_gds: Same::maybe(why_not_gds),
            why_not: Same::maybe(gpu.why_not.clone()),
        })
    }
}

figures! {
/// Bytes moved between GPU memory and storage or the CPU tier, by the path that they took.
pub struct GpuMovesReport {
    /// Bytes read from storage into GPU memory by GPUDirect Storage, which bypasses host memory.
    pub direct_read_bytes: Sum<u64>,
    /// Bytes written from GPU memory to storage by GPUDirect Storage, which bypasses host memory.
    pub direct_write_bytes: Sum<u64>,
    /// Bytes read from storage and copied from the I/O buffers into GPU memory.
    pub buffered_read_bytes: Sum<u64>,
    /// Bytes copied from GPU memory to the I/O buffers and written to storage.
    pub buffered_write_bytes: Sum<u64>,
    /// Bytes copied between GPU memory and memory of the CPU tier that is page-locked for the GPUs:
    /// one asynchronous copy, with no buffer in between.
    pub host_locked_bytes: Sum<u64>,
    /// Bytes copied between GPU memory and memory of the CPU tier that is not page-locked: the
    /// last part of an entry when it is shorter than 2 MiB, and everything where page-locking
    /// failed.
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
