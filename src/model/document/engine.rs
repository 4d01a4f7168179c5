//! The parts of `ringfall` that come from the engine's counters.

use std::collections::BTreeMap;

use ringfall_core::facts::ShardFacts;
use ringfall_core::key::Tier;
use ringfall_core::metrics::{EvictionMetrics, IoMetrics, Metrics, SizeCount};
use ringfall_core::placement::SpaceFigures;
use ringfall_core::units::BLOCK_BYTES;
use ringfall_host::BlockDelta;

use super::drive_logs::DriveLogReport;
use super::drives::{DiskCounters, KernelCounters};
use super::figure::{Derived, Fact, OfRun, Part, Same, Sum, shapes};
use super::latency::LatencyMsMax;
use super::list::{ByName, Rows, Timed, Timeline};
use super::merge::figures;
use crate::RunResult;
use crate::cold::{ColdReads, reached_bytes};
use crate::correlation::{Correlation, correlate};
use crate::facts::{KernelSecond, quotient};
use crate::figures::given::row;

shapes!(ColdReads, Correlation);

figures! {
/// Single I/Os on the storage device, as the engine counted them.
pub struct IoReport of engine: Metrics {
    /// Single reads from the storage device.
    pub read: Part<IoDirection> = IoDirection::of(&engine.io_read),
    /// Single writes to the storage device.
    pub write: Part<IoDirection> = IoDirection::of(&engine.io_write),
    /// Data syncs (`fdatasync`) of the storage device.
    pub flush: Part<FlushReport> = FlushReport::of(&engine.io_flush),
    /// Number of transfers that moved less than asked and were resumed.
    pub short_transfers: Sum<u64> = engine.short_transfers,
    /// Number of I/Os tried again after a transient error (`EAGAIN` or `EINTR`).
    pub retries: Sum<u64> = engine.retries,
    /// Bytes of the first writes to blocks that had been allocated but never written.
    pub first_touch_bytes: Sum<u64> = engine.first_touch_bytes,
    /// Share of the bytes written that were the first to their blocks, from 0 to 1; null without
    /// writes.
    pub first_touch_share: Derived<Option<f64>>,
}

/// Single I/Os in one direction, read or write.
pub struct IoDirection of io: IoMetrics {
    /// Number of I/Os that completed in the window.
    pub count: Sum<u64> = io.latency.count(),
    /// Bytes of the I/Os that completed in the window, in whole blocks.
    pub bytes: Sum<u64> = io.bytes,
    /// Bytes of these I/Os that belong to entries: `bytes` without the padding of each entry's last
    /// block.
    pub entry_bytes: Sum<u64> = io.entry_bytes,
    /// Bytes of the I/Os divided by the length of the window, GiB/s.
    pub bandwidth_gib_per_s: Derived<Option<f64>>,
    /// Number of I/Os divided by the length of the window, I/Os per second.
    pub iops: Derived<Option<f64>>,
    /// Mean size of an I/O, bytes; null without I/Os.
    pub size_mean_bytes: Derived<Option<f64>>,
    /// Mean number of I/Os in flight, by Little's law: the sum of their latencies divided by the
    /// length of the window.
    pub depth_mean: Derived<Option<f64>>,
    /// Time from submission to completion of an I/O, ms; null without I/Os. With `--layout` that of
    /// an entry's file or slot, from when one of the layout's threads begins with it.
    pub latency_ms: Derived<Option<LatencyMsMax>>,
    /// I/Os by size, in octaves: each name is the smallest size of its octave, in bytes.
    pub sizes: Part<BTreeMap<String, SizeReport>> = sizes(io),
}

/// I/Os in one octave of sizes.
pub struct SizeReport from size: SizeCount {
    /// Number of I/Os in this octave.
    pub count: Sum<u64>,
    /// Bytes that the I/Os in this octave moved.
    pub bytes: Sum<u64>,
}

/// Data syncs (`fdatasync`) of the storage device.
pub struct FlushReport of io: IoMetrics {
    /// Number of data syncs that completed in the window.
    pub count: Sum<u64> = io.latency.count(),
    /// Time from submission to completion of a data sync, ms; null without syncs.
    pub latency_ms: Derived<Option<LatencyMsMax>>,
}

/// Time spent waiting for something other than an I/O, ms. Each is null when nothing of the kind
/// was measured.
pub struct WaitsReport {
    /// Wait of a write for its tier to have room, ms; null without writes. It is part neither of
    /// the tiers' latencies nor of the requests' storage I/O time.
    pub room_ms: Derived<Option<LatencyMsMax>>,
    /// Part of a write's wait for room in which its tier took memory or space for the first time,
    /// ms; null where no write waited for that, and in results of versions that did not count it.
    #[serde(default)]
    pub growth_ms: Derived<Option<LatencyMsMax>>,
    /// Wait of a storage operation for an I/O buffer, ms.
    pub buffer_ms: Derived<Option<LatencyMsMax>>,
    /// Wait of an I/O for a place in the device's queue, ms.
    pub queue_place_ms: Derived<Option<LatencyMsMax>>,
    /// Wait of a prefill write for an allocation permit (`--max-concurrent-allocs`), ms.
    pub allocation_permit_ms: Derived<Option<LatencyMsMax>>,
    /// Wait of a request to be served, from intended arrival to start, ms.
    pub request_queue_ms: Derived<Option<LatencyMsMax>>,
}

/// Entries that left a tier, by where they went.
pub struct EvictionsReport of engine: Metrics {
    /// Entries demoted from the GPU tier to the CPU tier.
    pub gpu_to_cpu: Part<EvictionReport> = EvictionReport::of(&engine.evictions[Tier::Gpu.index()]),
    /// Entries demoted from the GPU tier to storage, since the CPU tier could not hold them.
    #[serde(default)]
    pub gpu_to_storage: Part<EvictionReport> = EvictionReport::of(&engine.evictions_gpu_to_storage),
    /// Entries demoted from the CPU tier to storage.
    pub cpu_to_storage: Part<EvictionReport> =
        EvictionReport::of(&engine.evictions[Tier::Cpu.index()]),
    /// Entries deleted from storage to make room.
    pub storage_to_none: Part<EvictionReport> =
        EvictionReport::of(&engine.evictions[Tier::Storage.index()]),
}

/// Entries that left one tier.
pub struct EvictionReport of row: EvictionMetrics {
    /// Number of entries that left the tier.
    pub entries: Sum<u64> = row.entries,
    /// Bytes of the entries that left the tier.
    pub bytes: Sum<u64> = row.bytes,
    /// Wait of an evicted entry for the lower tier to have room, ms; null without such waits, and
    /// in results of versions that did not count them.
    #[serde(default)]
    pub room_ms: Derived<Option<LatencyMsMax>>,
    /// Time to read an evicted entry from the upper tier, ms; null without such reads.
    pub read_ms: Derived<Option<LatencyMsMax>>,
    /// Time to write an evicted entry to the lower tier, ms; null without such writes.
    pub write_ms: Derived<Option<LatencyMsMax>>,
}

/// The kernel's counters for the storage device beside the engine's own.
pub struct DeviceReport of result: RunResult {
    /// Kernel counters of the device over the window; null where it has none.
    pub kernel: Option<KernelCounters> = result.kernel.as_ref().map(|delta| kernel(delta, result)),
    /// Kernel counters over the window for every device below the data files, the topmost first; in
    /// merged results the counts add up by device, and ranks have none when they used several.
    pub chain: ByName<DiskCounters> = result.kernel_chain.iter().map(DiskCounters::of),
    /// Accounts of the drives below the data files, from their own logs, one row each; of merged
    /// results, those of each. Absent where no drive was asked: in simulated runs, and in results
    /// of versions that did not ask.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub drive_logs: Rows<DriveLogReport> = DriveLogReport::all(result),
    /// Bytes that the engine read from the device in the window.
    pub engine_read_bytes: Sum<u64> = result.engine.io_read.bytes,
    /// Bytes that the engine wrote to the device in the window.
    pub engine_write_bytes: Sum<u64> = result.engine.io_write.bytes,
    /// Whether the bytes read in the window came from the device or from a cache above it; null
    /// when nothing was read, and for simulated runs.
    pub cold_reads: Derived<Option<ColdReads>>,
    /// The engine's byte counts divided by the kernel's.
    pub agreement: Derived<Option<Agreement>>,
    /// Share of the window in which the device had at least one request in flight, from 0 to 1.
    pub utilisation: Derived<Option<f64>>,
    /// The kernel's counters over the window, one row per quarter of a second, or per second in
    /// runs longer than 10 minutes.
    pub series: Timeline<KernelSecondReport> =
        result.kernel_seconds.iter().map(KernelSecondReport::of),
    /// Agreement between `series` and the engine's own timeline; null when the window was too short
    /// to tell, and in merged results, whose windows were each compared by themselves.
    pub correlation: OfRun<Correlation> = correlate(&result.timeline, &result.kernel_seconds),
}

/// Resources that the engine got from the kernel, and the division of its space on storage.
pub struct EngineReport of result: RunResult {
    /// Implementation that generates the content of entries: `avx512`, `avx2` or `portable`; null:
    /// merged results differ in it.
    pub fill: Same<String> = ringfall_core::fill::implementation().to_owned(),
    /// One row per shard; null: merged results differ in a row.
    pub shards: Same<Vec<ShardReport>> = shards(result),
}
}

fn sizes(io: &IoMetrics) -> BTreeMap<String, SizeReport> {
    let row = |(class, size): (usize, &SizeCount)| {
        ((BLOCK_BYTES << class).to_string(), SizeReport::of(size))
    };
    io.sizes.iter().enumerate().map(row).collect()
}

row! {
/// Kernel counters of the device between two readings.
pub struct KernelSecondReport of second: KernelSecond {
    /// Time of the second reading, s after the start of the window.
    pub end_s: Fact<f64> = second.end_s,
    /// Time between the two readings, s.
    pub seconds: Fact<f64> = second.seconds,
    /// Number of reads that completed.
    pub reads: Fact<u64> = second.delta.reads,
    /// Bytes of the reads that completed.
    pub read_bytes: Fact<u64> = second.delta.read_bytes,
    /// Number of writes that completed.
    pub writes: Fact<u64> = second.delta.writes,
    /// Bytes of the writes that completed.
    pub write_bytes: Fact<u64> = second.delta.write_bytes,
    /// Mean size of a request, bytes; null without requests.
    pub size_mean_bytes: Option<f64> = quotient(
        second.delta.read_bytes + second.delta.write_bytes,
        second.delta.reads + second.delta.writes,
    ),
    /// Mean time that a completed read took, ms (iostat's r_await); null without reads.
    pub read_await_ms: Option<f64> = quotient(second.delta.read_ms, second.delta.reads),
    /// Mean time that a completed write took, ms (iostat's w_await); null without writes.
    pub write_await_ms: Option<f64> = quotient(second.delta.write_ms, second.delta.writes),
    /// Mean number of requests in flight (iostat's aqu-sz).
    pub queue_depth: Fact<f64> = per_time(second, second.delta.queue_ms),
    /// Number of requests in flight at the second reading.
    pub in_flight: Fact<u64> = second.in_flight,
    /// Share of the time in which the device had at least one request in flight, from 0 to 1.
    pub utilisation: Fact<f64> = per_time(second, second.delta.busy_ms).min(1.0),
}

/// The engine's byte counts divided by the kernel's: 1 when both counted the same.
pub struct Agreement {
    /// Bytes that the engine read divided by those that the kernel counted; null without the
    /// latter.
    pub read_ratio: Option<f64>,
    /// Bytes that the engine wrote divided by those that the kernel counted; null without the
    /// latter.
    pub write_ratio: Option<f64>,
    /// Bytes that the engine read and wrote divided by those that the kernel counted; null without
    /// the latter.
    pub total_ratio: Option<f64>,
}

/// Ring, buffers and storage space of one shard.
pub struct ShardReport of (facts, space): (&ShardFacts, &SpaceFigures) {
    /// Whether the ring runs completions only when its thread asks for them
    /// (`IORING_SETUP_DEFER_TASKRUN`, Linux 6.1).
    pub defer_taskrun: Fact<bool> = facts.ring.defer_taskrun,
    /// Whether a kernel thread took the I/Os of this shard (`IORING_SETUP_SQPOLL`).
    pub sqpoll: Fact<bool> = facts.ring.submission_thread,
    /// Whether the shard polled the drives for completed reads and writes (`IORING_SETUP_IOPOLL`).
    pub iopoll: Fact<bool> = facts.ring.polled,
    /// Whether the reads, writes and flushes of this shard were NVMe commands, which the kernel
    /// hands to the drive past its block layer (`IORING_OP_URING_CMD`).
    pub nvme_passthrough: Fact<bool> = facts.ring.passthrough,
    /// Whether the ring is registered with its thread, so that a system call for it looks up no
    /// descriptor (Linux 5.18).
    pub registered_ring: Fact<bool> = facts.ring.registered_ring,
    /// Whether the I/O buffers are registered with the kernel.
    pub registered_buffers: Fact<bool> = facts.ring.registered_buffers,
    /// Whether the data file is registered with the kernel.
    pub registered_file: Fact<bool> = facts.ring.registered_file,
    /// Whether the I/O buffers are in huge pages.
    pub huge_pages: Fact<bool> = facts.huge_pages,
    /// Memory for the I/O buffers of this shard, bytes.
    pub buffer_bytes: Fact<u64> = facts.buffer_bytes,
    /// Number of free 4 KiB blocks among `leased_blocks`.
    pub free_blocks: Fact<u64> = space.free_blocks,
    /// Number of pieces that the free space is in; a segment that is wholly free counts as one.
    pub free_extents: Fact<u64> = space.free_extents,
    /// Size of the largest free piece within one segment, in 4 KiB blocks.
    pub largest_free_blocks: Fact<u64> = space.largest_free_blocks,
    /// Number of extents in which the entries of this shard are stored.
    pub live_extents: Fact<u64> = space.live_extents,
    /// Size of the storage segments that this shard holds at the end, in 4 KiB blocks.
    pub leased_blocks: Fact<u64> = space.leased_blocks,
}
}

/// Time that was counted in a second, divided by the length of the second. It is counted in ticks:
/// there may seem to be a little more of it than the second is long.
fn per_time(second: &KernelSecond, ms: u64) -> f64 {
    ms as f64 / 1e3 / second.seconds.max(1e-9)
}

/// The counters of the device, and the bytes read that came through all that lies below the store.
fn kernel(delta: &BlockDelta, result: &RunResult) -> KernelCounters {
    let (links, chain) = (&result.machine.device_chain, &result.kernel_chain);
    let reached_bytes = Sum::of(reached_bytes(links, chain, delta));
    KernelCounters { reached_bytes, ..KernelCounters::of(delta) }
}

impl Timed for KernelSecondReport {
    fn delay(&mut self, by_s: f64) {
        self.end_s = self.end_s.map(|end_s| end_s + by_s);
    }
}

fn shards(result: &RunResult) -> Vec<ShardReport> {
    result.facts.iter().zip(&result.space).map(|shard| ShardReport::of(&shard)).collect()
}
