//! The parts of `ringfall` that come from the engine's counters.

use std::collections::BTreeMap;

use ringfall_core::key::Tier;
use ringfall_core::metrics::{EvictionMetrics, IoMetrics, SizeCount};
use ringfall_core::units::BLOCK_BYTES;
use ringfall_host::BlockDelta;
use serde::{Deserialize, Serialize};

use super::drives::DiskCounters;
use super::figure::{Derived, Fact, OfRun, Part, Same, Sum, shapes};
use super::latency::LatencyMsMax;
use super::list::{ByName, Timed, Timeline};
use super::merge::figures;
use crate::RunResult;
use crate::cold::{ColdReads, reached_bytes};
use crate::correlation::{Correlation, correlate};
use crate::facts::{KernelSecond, quotient};

shapes!(Agreement, ColdReads, Correlation);

figures! {
/// Single I/Os on the storage device, as the engine counted them.
pub struct IoReport {
    /// Single reads from the storage device.
    pub read: Part<IoDirection>,
    /// Single writes to the storage device.
    pub write: Part<IoDirection>,
    /// Data syncs (`fdatasync`) of the storage device.
    pub flush: Part<FlushReport>,
    /// Number of transfers that moved less than asked and were resumed.
    pub short_transfers: Sum<u64>,
    /// Number of I/Os tried again after a transient error (`EAGAIN` or `EINTR`).
    pub retries: Sum<u64>,
    /// Bytes of the first writes to blocks that had been allocated but never written.
    pub first_touch_bytes: Sum<u64>,
    /// Share of the bytes written that were the first to their blocks, from 0 to 1; null without
    /// writes.
    pub first_touch_share: Derived<Option<f64>>,
}
}

figures! {
/// Single I/Os in one direction, read or write.
pub struct IoDirection {
    /// Number of I/Os that completed in the window.
    pub count: Sum<u64>,
    /// Bytes of the I/Os that completed in the window, in whole blocks.
    pub bytes: Sum<u64>,
    /// Bytes of these I/Os that belong to entries: `bytes` without the padding of each entry's last
    /// block.
    pub entry_bytes: Sum<u64>,
    /// Bytes of the I/Os divided by the length of the window, GiB/s.
    pub bandwidth_gib_per_s: Derived<Option<f64>>,
    /// Number of I/Os divided by the length of the window, I/Os per second.
    pub iops: Derived<Option<f64>>,
    /// Mean size of an I/O, bytes; null without I/Os.
    pub size_mean_bytes: Derived<Option<f64>>,
    /// Mean number of I/Os in flight, by Little's law: the sum of their latencies divided by the
    /// length of the window.
    pub depth_mean: Derived<Option<f64>>,
    /// Time from submission to completion of an I/O, ms; null without I/Os.
    pub latency_ms: Derived<Option<LatencyMsMax>>,
    /// I/Os by size, in octaves: each name is the smallest size of its octave, in bytes.
    pub sizes: Part<BTreeMap<String, SizeReport>>,
}
}

figures! {
/// I/Os in one octave of sizes.
pub struct SizeReport {
    /// Number of I/Os in this octave.
    pub count: Sum<u64>,
    /// Bytes that the I/Os in this octave moved.
    pub bytes: Sum<u64>,
}
}

figures! {
/// Data syncs (`fdatasync`) of the storage device.
pub struct FlushReport {
    /// Number of data syncs that completed in the window.
    pub count: Sum<u64>,
    /// Time from submission to completion of a data sync, ms; null without syncs.
    pub latency_ms: Derived<Option<LatencyMsMax>>,
}
}

impl IoReport {
    pub(super) fn of(result: &RunResult) -> IoReport {
        let engine = &result.engine;
        let direction = |io: &IoMetrics| {
            Part(IoDirection {
                count: Sum::of(io.latency.count()),
                bytes: Sum::of(io.bytes),
                entry_bytes: Sum::of(io.entry_bytes),
                sizes: Part(sizes(io)),
                ..IoDirection::default()
            })
        };
        let count = Sum::of(engine.io_flush.latency.count());
        IoReport {
            read: direction(&engine.io_read),
            write: direction(&engine.io_write),
            flush: Part(FlushReport { count, ..FlushReport::default() }),
            short_transfers: Sum::of(engine.short_transfers),
            retries: Sum::of(engine.retries),
            first_touch_bytes: Sum::of(engine.first_touch_bytes),
            first_touch_share: Derived::default(),
        }
    }
}

fn sizes(io: &IoMetrics) -> BTreeMap<String, SizeReport> {
    let row = |(class, size): (usize, &SizeCount)| {
        let report = SizeReport { count: Sum::of(size.count), bytes: Sum::of(size.bytes) };
        ((BLOCK_BYTES << class).to_string(), report)
    };
    io.sizes.iter().enumerate().map(row).collect()
}

figures! {
/// Time spent waiting for something other than an I/O, ms. Each is null when nothing of the kind
/// was measured.
pub struct WaitsReport {
    /// Wait of a write for its tier to have room, ms; null without writes. It is part neither of
    /// the tiers' latencies nor of the requests' storage I/O time.
    pub room_ms: Derived<Option<LatencyMsMax>>,
    /// Wait of a storage operation for an I/O buffer, ms.
    pub buffer_ms: Derived<Option<LatencyMsMax>>,
    /// Wait of an I/O for a place in the device's queue, ms.
    pub queue_place_ms: Derived<Option<LatencyMsMax>>,
    /// Wait of a prefill write for an allocation permit (`--max-concurrent-allocs`), ms.
    pub allocation_permit_ms: Derived<Option<LatencyMsMax>>,
    /// Wait of a request to be served, from intended arrival to start, ms.
    pub request_queue_ms: Derived<Option<LatencyMsMax>>,
}
}

figures! {
/// Entries that left a tier, by where they went.
pub struct EvictionsReport {
    /// Entries demoted from the GPU tier to the CPU tier.
    pub gpu_to_cpu: Part<EvictionReport>,
    /// Entries demoted from the GPU tier to storage, since the CPU tier could not hold them.
    #[serde(default)]
    pub gpu_to_storage: Part<EvictionReport>,
    /// Entries demoted from the CPU tier to storage.
    pub cpu_to_storage: Part<EvictionReport>,
    /// Entries deleted from storage to make room.
    pub storage_to_none: Part<EvictionReport>,
}
}

figures! {
/// Entries that left one tier.
pub struct EvictionReport {
    /// Number of entries that left the tier.
    pub entries: Sum<u64>,
    /// Bytes of the entries that left the tier.
    pub bytes: Sum<u64>,
    /// Time to read an evicted entry from the upper tier, ms; null without such reads.
    pub read_ms: Derived<Option<LatencyMsMax>>,
    /// Time to write an evicted entry to the lower tier, ms; null without such writes.
    pub write_ms: Derived<Option<LatencyMsMax>>,
}
}

impl EvictionsReport {
    pub(super) fn of(result: &RunResult) -> EvictionsReport {
        let evictions = &result.engine.evictions;
        let row = |row: &EvictionMetrics| {
            Part(EvictionReport {
                entries: Sum::of(row.entries),
                bytes: Sum::of(row.bytes),
                ..EvictionReport::default()
            })
        };
        EvictionsReport {
            gpu_to_cpu: row(&evictions[Tier::Gpu.index()]),
            gpu_to_storage: row(&result.engine.evictions_gpu_to_storage),
            cpu_to_storage: row(&evictions[Tier::Cpu.index()]),
            storage_to_none: row(&evictions[Tier::Storage.index()]),
        }
    }
}

figures! {
/// The kernel's counters for the storage device beside the engine's own.
pub struct DeviceReport {
    /// Kernel counters of the device over the window; null where it has none.
    pub kernel: Option<KernelCounters>,
    /// Kernel counters over the window for every device below the data files, the topmost first; in
    /// merged results the counts add up by device, and ranks have none when they used several.
    pub chain: ByName<DiskCounters>,
    /// Bytes that the engine read from the device in the window.
    pub engine_read_bytes: Sum<u64>,
    /// Bytes that the engine wrote to the device in the window.
    pub engine_write_bytes: Sum<u64>,
    /// Whether the bytes read in the window came from the device or from a cache above it; null
    /// when nothing was read, and for simulated runs.
    pub cold_reads: Derived<Option<ColdReads>>,
    /// The engine's byte counts divided by the kernel's.
    pub agreement: Derived<Option<Agreement>>,
    /// Share of the window in which the device had at least one request in flight, from 0 to 1.
    pub utilisation: Derived<Option<f64>>,
    /// The kernel's counters over the window, one row per quarter of a second, or per second in
    /// runs longer than 10 minutes.
    pub series: Timeline<KernelSecondReport>,
    /// Agreement between `series` and the engine's own timeline; null when the window was too short
    /// to tell, and in merged results, whose windows were each compared by themselves.
    pub correlation: OfRun<Correlation>,
}
}

/// Kernel counters of the device between two readings.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct KernelSecondReport {
    /// Time of the second reading, s after the start of the window.
    pub end_s: Fact<f64>,
    /// Time between the two readings, s.
    pub seconds: Fact<f64>,
    /// Number of reads that completed.
    pub reads: Fact<u64>,
    /// Bytes of the reads that completed.
    pub read_bytes: Fact<u64>,
    /// Number of writes that completed.
    pub writes: Fact<u64>,
    /// Bytes of the writes that completed.
    pub write_bytes: Fact<u64>,
    /// Mean size of a request, bytes; null without requests.
    pub size_mean_bytes: Option<f64>,
    /// Mean time that a completed read took, ms (iostat's r_await); null without reads.
    pub read_await_ms: Option<f64>,
    /// Mean time that a completed write took, ms (iostat's w_await); null without writes.
    pub write_await_ms: Option<f64>,
    /// Mean number of requests in flight (iostat's aqu-sz).
    pub queue_depth: Fact<f64>,
    /// Number of requests in flight at the second reading.
    pub in_flight: Fact<u64>,
    /// Share of the time in which the device had at least one request in flight, from 0 to 1.
    pub utilisation: Fact<f64>,
}

impl KernelSecondReport {
    fn of(second: &KernelSecond) -> KernelSecondReport {
        let (delta, length_s) = (&second.delta, second.seconds.max(1e-9));
        KernelSecondReport {
            end_s: Fact::of(second.end_s),
            seconds: Fact::of(second.seconds),
            reads: Fact::of(delta.reads),
            read_bytes: Fact::of(delta.read_bytes),
            writes: Fact::of(delta.writes),
            write_bytes: Fact::of(delta.write_bytes),
            size_mean_bytes: quotient(
                delta.read_bytes + delta.write_bytes,
                delta.reads + delta.writes,
            ),
            read_await_ms: quotient(delta.read_ms, delta.reads),
            write_await_ms: quotient(delta.write_ms, delta.writes),
            queue_depth: Fact::of(delta.queue_ms as f64 / 1e3 / length_s),
            in_flight: Fact::of(second.in_flight),
            // Counted in ticks: a second may seem to have a little more than all of it.
            utilisation: Fact::of((delta.busy_ms as f64 / 1e3 / length_s).min(1.0)),
        }
    }
}

/// The engine's byte counts divided by the kernel's: 1 when both counted the same.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
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

figures! {
/// Kernel counters of the storage device over the window.
pub struct KernelCounters {
    /// Name of the disk (not the partition) under `/sys/block`.
    pub device: Same<String>,
    /// Number of reads that completed.
    pub reads: Sum<u64>,
    /// Bytes of the reads that completed.
    pub read_bytes: Sum<u64>,
    /// Bytes read that came through every level of devices below the data files: less than
    /// `read_bytes` when a cache in between served some of them, as below a loop device. Null in
    /// results of versions that did not count them.
    #[serde(default)]
    pub reached_bytes: Sum<Option<u64>>,
    /// Number of writes that completed.
    pub writes: Sum<u64>,
    /// Bytes of the writes that completed.
    pub write_bytes: Sum<u64>,
    /// Time with at least one request in flight, ms.
    pub busy_ms: Sum<u64>,
    /// Sum of the times that the completed reads took, ms.
    pub read_ms: Sum<u64>,
    /// Sum of the times that the completed writes took, ms.
    pub write_ms: Sum<u64>,
    /// Sum of the times of all requests, including those still in flight, ms; divided by the
    /// elapsed time it is the mean queue depth.
    pub queue_ms: Sum<u64>,
    /// Number of flushes that completed; null before Linux 5.5.
    pub flushes: Sum<Option<u64>>,
}
}

impl KernelCounters {
    fn of(delta: &BlockDelta, result: &RunResult) -> KernelCounters {
        let (links, chain) = (&result.machine.device_chain, &result.kernel_chain);
        KernelCounters {
            reached_bytes: Sum::of(reached_bytes(links, chain, delta)),
            device: Same::of(delta.device.clone()),
            reads: Sum::of(delta.reads),
            read_bytes: Sum::of(delta.read_bytes),
            writes: Sum::of(delta.writes),
            write_bytes: Sum::of(delta.write_bytes),
            busy_ms: Sum::of(delta.busy_ms),
            read_ms: Sum::of(delta.read_ms),
            write_ms: Sum::of(delta.write_ms),
            queue_ms: Sum::of(delta.queue_ms),
            flushes: Sum::maybe(delta.flushes),
        }
    }
}

impl Timed for KernelSecondReport {
    fn delay(&mut self, by_s: f64) {
        self.end_s = self.end_s.map(|end_s| end_s + by_s);
    }
}

impl DeviceReport {
    pub(super) fn of(result: &RunResult) -> DeviceReport {
        let engine = &result.engine;
        DeviceReport {
            kernel: result.kernel.as_ref().map(|delta| KernelCounters::of(delta, result)),
            chain: result.kernel_chain.iter().map(DiskCounters::of).collect(),
            engine_read_bytes: Sum::of(engine.io_read.bytes),
            engine_write_bytes: Sum::of(engine.io_write.bytes),
            series: result.kernel_seconds.iter().map(KernelSecondReport::of).collect(),
            correlation: OfRun::maybe(correlate(&result.timeline, &result.kernel_seconds)),
            ..DeviceReport::default()
        }
    }
}

figures! {
/// Resources that the engine got from the kernel, and the division of its space on storage.
pub struct EngineReport {
    /// Implementation that generates the content of entries: `avx512`, `avx2` or `portable`; null:
    /// merged results differ in it.
    pub fill: Same<String>,
    /// One row per shard; null: merged results differ in a row.
    pub shards: Same<Vec<ShardReport>>,
}
}

/// Ring, buffers and storage space of one shard.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct ShardReport {
    /// Whether the ring runs completions only when its thread asks for them
    /// (`IORING_SETUP_DEFER_TASKRUN`, Linux 6.1).
    pub defer_taskrun: Fact<bool>,
    /// Whether a kernel thread took the I/Os of this shard (`IORING_SETUP_SQPOLL`).
    pub sqpoll: Fact<bool>,
    /// Whether the shard polled the drives for completed reads and writes (`IORING_SETUP_IOPOLL`).
    pub iopoll: Fact<bool>,
    /// Whether the reads, writes and flushes of this shard were NVMe commands, which the kernel
    /// hands to the drive past its block layer (`IORING_OP_URING_CMD`).
    pub nvme_passthrough: Fact<bool>,
    /// Whether the ring is registered with its thread, so that a system call for it looks up no
    /// descriptor (Linux 5.18).
    pub registered_ring: Fact<bool>,
    /// Whether the I/O buffers are registered with the kernel.
    pub registered_buffers: Fact<bool>,
    /// Whether the data file is registered with the kernel.
    pub registered_file: Fact<bool>,
    /// Whether the I/O buffers are in huge pages.
    pub huge_pages: Fact<bool>,
    /// Memory for the I/O buffers of this shard, bytes.
    pub buffer_bytes: Fact<u64>,
    /// Number of free 4 KiB blocks among `leased_blocks`.
    pub free_blocks: Fact<u64>,
    /// Number of pieces that the free space is in; a segment that is wholly free counts as one.
    pub free_extents: Fact<u64>,
    /// Size of the largest free piece within one segment, in 4 KiB blocks.
    pub largest_free_blocks: Fact<u64>,
    /// Number of extents in which the entries of this shard are stored.
    pub live_extents: Fact<u64>,
    /// Size of the storage segments that this shard holds at the end, in 4 KiB blocks.
    pub leased_blocks: Fact<u64>,
}

impl EngineReport {
    pub(super) fn of(result: &RunResult) -> EngineReport {
        let shards = result.facts.iter().zip(&result.space).map(|(facts, space)| ShardReport {
            defer_taskrun: Fact::of(facts.ring.defer_taskrun),
            sqpoll: Fact::of(facts.ring.submission_thread),
            iopoll: Fact::of(facts.ring.polled),
            nvme_passthrough: Fact::of(facts.ring.passthrough),
            registered_ring: Fact::of(facts.ring.registered_ring),
            registered_buffers: Fact::of(facts.ring.registered_buffers),
            registered_file: Fact::of(facts.ring.registered_file),
            huge_pages: Fact::of(facts.huge_pages),
            buffer_bytes: Fact::of(facts.buffer_bytes),
            free_blocks: Fact::of(space.free_blocks),
            free_extents: Fact::of(space.free_extents),
            largest_free_blocks: Fact::of(space.largest_free_blocks),
            live_extents: Fact::of(space.live_extents),
            leased_blocks: Fact::of(space.leased_blocks),
        });
        EngineReport {
            fill: Same::of(ringfall_core::fill::implementation().to_owned()),
            shards: Same::of(shards.collect()),
        }
    }
}
