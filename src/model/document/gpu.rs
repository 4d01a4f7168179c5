//! `ringfall.gpu`: what stood behind the GPU tier, or why there was none.

use ringfall_core::facts::DriverUse;
use ringfall_core::key::Tier;
use ringfall_core::metrics::{GpuMoves, Metrics, PromotionMetrics};

use super::figure::{Min, Same, Sum};
use super::list::{ByName, Named};
use super::merge::figures;
use crate::RunResult;
use crate::facts::{GpuBacking, GpuOutcome};

figures! {
/// A GPU of the tier.
pub struct GpuDeviceReport of (gpu, place): (&GpuOutcome, usize) {
    /// Number of the GPU, as the driver counts.
    pub index: Same<u32> = gpu.devices[*place].index,
    /// Name of the GPU, or of the host memory that emulated it.
    pub name: Same<String> = gpu.devices[*place].name.clone(),
    /// Memory of the GPU, bytes.
    pub memory_bytes: Same<u64> = gpu.devices[*place].memory_bytes,
    /// Memory of the GPU that was free before the run took its part, bytes; of merged results, the
    /// least.
    pub free_bytes: Min<u64> = gpu.devices[*place].free_bytes,
    /// Memory of the GPU that the run took, for the tier and for what is read, bytes.
    pub taken_bytes: Same<u64> = gpu.taken_bytes,
    /// Memory of the GPU in use by all processes at the end of the run, as its driver says (NVML),
    /// bytes; null where it says nothing.
    pub driver_used_bytes: Same<u64> = driver_use(gpu, *place).map(|used| used.used_bytes),
    /// Part of `driver_used_bytes` that was in use by this process, bytes; null where the driver
    /// does not tell processes apart.
    pub driver_used_by_run_bytes: Same<u64> =
        driver_use(gpu, *place).and_then(|used| used.own_bytes),
}

/// Backend and devices of the GPU tier, or why there was none. In merged results a figure is
/// null where the results differ in it.
pub struct GpuReport of (gpu, result): (&GpuOutcome, &RunResult) {
    /// Capacity asked for, all GPUs together, bytes.
    pub asked_bytes: Same<u64> = gpu.asked_bytes,
    /// Capacity that the tier had, all GPUs together, bytes; 0 when there was no tier.
    pub capacity_bytes: Same<u64> = result.tiers[Tier::Gpu.index()].capacity_bytes,
    /// Backend of the GPU tier: `cuda` (GPUs), `emulated` (host memory, whose figures say nothing
    /// about a GPU) or `simulated` (described GPUs on a simulated clock); null
    /// when there was no tier.
    pub backend: Same<String> = gpu.backing.map(|backing| backing.name().to_owned()),
    /// Whether the figures of the GPU tier are those of GPUs.
    pub is_gpu: Same<bool> = gpu.backing.is_some_and(GpuBacking::is_gpu),
    /// Version of the CUDA interface of the driver; null without a driver.
    pub driver: Same<String> = gpu.driver.clone(),
    /// GPUs of the tier; of merged results, each number and name once.
    pub devices: ByName<GpuDeviceReport> =
        (0..gpu.devices.len()).map(|place| GpuDeviceReport::of(&(*gpu, place))),
    /// Whether I/O buffers are page-locked for the GPUs, so that nothing is copied between the
    /// drive's reads and writes and the copies to and from the GPUs; null when there was no GPU.
    pub buffers_page_locked: Same<bool> = buffers_page_locked(result),
    /// Path of bytes between GPU memory and storage: `gds` (GPUDirect Storage, which bypasses host
    /// memory; an emulation of it where `is_gpu` is false) or `pinned` (through I/O buffers in host
    /// memory); null without a tier or without storage.
    pub transfer: Same<String> = gpu.transfer.as_ref().map(|transfer| transfer.name().to_owned()),
    /// Why GPUDirect Storage was not used; null where it was, or where it was not wanted.
    pub why_not_gds: Same<String> =
        gpu.transfer.as_ref().and_then(|transfer| transfer.why_not_direct.clone()),
    /// Why there was no tier, or a smaller one than was asked for; null when there was one of that
    /// size.
    pub why_not: Same<String> = gpu.why_not.clone(),
}

/// Bytes moved between GPU memory and storage or the CPU tier, by the path that they took.
pub struct GpuMovesReport from moves: GpuMoves {
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

/// Entries that a hit moved to a faster tier, with `--promotion on-hit`.
pub struct PromotionsReport of engine: Metrics {
    /// Number of entries that a hit moved up from the CPU tier.
    pub from_cpu_entries: Sum<u64> = promoted(engine, Tier::Cpu, |to| to.entries),
    /// Size of the entries that a hit moved up from the CPU tier, bytes.
    pub from_cpu_bytes: Sum<u64> = promoted(engine, Tier::Cpu, |to| to.bytes),
    /// Number of entries that a hit moved up from the storage tier.
    pub from_storage_entries: Sum<u64> = promoted(engine, Tier::Storage, |to| to.entries),
    /// Size of the entries that a hit moved up from the storage tier, bytes.
    pub from_storage_bytes: Sum<u64> = promoted(engine, Tier::Storage, |to| to.bytes),
}
}

fn driver_use(gpu: &GpuOutcome, place: usize) -> Option<DriverUse> {
    gpu.driver_use.get(place).copied().flatten()
}

/// Whether the I/O buffers of all shards are page-locked; none where no shard has a GPU.
fn buffers_page_locked(result: &RunResult) -> Option<bool> {
    let reached = result.facts.iter().filter_map(|facts| facts.gpu_reaches_buffers);
    reached.reduce(|all, one| all && one)
}

impl Named for GpuDeviceReport {
    fn name(&self) -> Option<String> {
        Some(format!("{} {}", self.index.known()?, self.name.as_ref()?))
    }
}

/// Sum over the tiers to which hits moved entries up from that one.
fn promoted(engine: &Metrics, from: Tier, of: fn(&PromotionMetrics) -> u64) -> u64 {
    engine.promotions[from.index()].iter().map(of).sum()
}
