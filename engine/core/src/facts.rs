//! Resources that an engine got of the machine, as plain values for reports.

use crate::named;

/// Set-up flags the ring got, for the report.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RingFeatures {
    /// `SINGLE_ISSUER` + `DEFER_TASKRUN` + `TASKRUN_FLAG` (6.1): completions are worked off when
    /// this thread asks, not by interrupting it.
    pub defer_taskrun: bool,
    /// `COOP_TASKRUN` + `TASKRUN_FLAG` (5.19), where `DEFER_TASKRUN` is not there.
    pub coop_taskrun: bool,
    /// `SQPOLL`: a kernel thread takes submissions, so that handing one over is no system call.
    pub submission_thread: bool,
    /// `IOPOLL`: the thread looks for completions on the drive instead of being interrupted.
    pub polled: bool,
    /// Entries of 128 bytes and answers of 32 (`SQE128`, `CQE32`): what it takes are NVMe commands.
    pub passthrough: bool,
    /// The ring registered with its thread, so that entering the kernel looks up no descriptor.
    pub registered_ring: bool,
    /// Buffers registered with the kernel, so that pages are not pinned for each I/O.
    pub registered_buffers: bool,
    /// The data files registered, so that its reference count is not touched for each I/O.
    pub registered_file: bool,
}

/// Facts about an opened shard, for the report.
#[derive(Clone, Debug)]
pub struct ShardFacts {
    /// Features of io_uring that the kernel granted to the shard's ring.
    pub ring: RingFeatures,
    /// Whether the buffers are in reserved huge pages.
    pub huge_pages: bool,
    /// Memory of the buffers, bytes.
    pub buffer_bytes: u64,
    /// Whether GPUs reach the buffers without a copy between; none where there is no GPU.
    pub gpu_reaches_buffers: Option<bool>,
    /// Shortfalls, a sentence each.
    pub shortfalls: Vec<String>,
}

/// Buffers of one shard, at least one: as many as its part of `buffer_bytes` holds, and no more
/// than its queue has places. `shards`, `io_bytes` and `queue_depth` ≥ 1.
pub fn buffers_a_shard(buffer_bytes: u64, shards: u16, io_bytes: u64, queue_depth: u32) -> u32 {
    let fitting = buffer_bytes / u64::from(shards) / io_bytes;
    fitting.clamp(1, u64::from(queue_depth)) as u32
}

named! {
/// Who does the work of a GPU tier.
pub enum GpuKind {
    /// GPUs, by way of the CUDA driver.
    Cuda = "cuda",
    /// Host memory and this processor. Its figures say nothing of any GPU.
    Emulated = "emulated",
}
}

/// One device of a GPU tier.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GpuDevice {
    /// As the driver numbers it.
    pub index: u32,
    /// As the driver calls it.
    pub name: String,
    /// Total memory of the device, bytes.
    pub memory_bytes: u64,
    /// Part of it that was free before the tier took its own, bytes.
    pub free_bytes: u64,
}

/// Kind and devices of a GPU tier, for reports.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GpuFacts {
    /// Who does the work.
    pub kind: GpuKind,
    /// Version of the driver's interface, such as 12.4; none where there is no driver.
    pub driver: Option<String>,
    /// The devices, in the order of their parts of the memory.
    pub devices: Vec<GpuDevice>,
}

/// Memory of a device that is in use, as its driver tells it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DriverUse {
    /// In use by all processes and by the driver itself, bytes.
    pub used_bytes: u64,
    /// Part in use by this process, bytes; none where the driver does not tell processes apart.
    pub own_bytes: Option<u64>,
}
