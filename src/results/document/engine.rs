//! The parts of `ringfall` that come from the engine's counters.

use std::collections::BTreeMap;

use ringfall_engine::metrics::{EvictionMetrics, IoMetrics, SizeCount};
use ringfall_engine::tier::Tier;
use ringfall_engine::units::BLOCK_BYTES;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::figure::{Derived, OfRun, Part, Same, Sum, shapes};
use super::latency::LatencyMsMax;
use super::list::{Timed, Timeline};
use super::merge::figures;
use crate::facts::{KernelSecond, quotient};
use crate::host::BlockDelta;
use crate::results::RunResult;
use crate::results::correlation::{Correlation, correlate};

shapes!(Agreement, Correlation);

figures! {
/// Single I/Os on the storage device.
pub struct IoReport {
    /// Reads.
    pub read: Part<IoDirection>,
    /// Writes.
    pub write: Part<IoDirection>,
    /// Data syncs.
    pub flush: Part<FlushReport>,
    /// Transfers that moved less than asked, and were resumed.
    pub short_transfers: Sum<u64>,
    /// I/Os tried again after a transient error.
    pub retries: Sum<u64>,
    /// Bytes written that were the first to their blocks.
    pub first_touch_bytes: Sum<u64>,
    /// Their share of the bytes written.
    pub first_touch_share: Derived<Option<f64>>,
}
}

figures! {
/// One direction of single I/Os.
pub struct IoDirection {
    /// I/Os.
    pub count: Sum<u64>,
    /// Bytes that completed, whole blocks.
    pub bytes: Sum<u64>,
    /// Those that belong to entries, without the rest of an entry's last block.
    pub entry_bytes: Sum<u64>,
    /// Bytes over the window, GiB/s.
    pub bandwidth_gib_per_s: Derived<Option<f64>>,
    /// I/Os over the window.
    pub iops: Derived<Option<f64>>,
    /// Mean size, bytes.
    pub size_mean_bytes: Derived<Option<f64>>,
    /// Mean number in flight, by Little's law.
    pub depth_mean: Derived<Option<f64>>,
    /// Submit to completion.
    pub latency_ms: Derived<Option<LatencyMsMax>>,
    /// By size: the names are the smallest size of each octave, bytes.
    pub sizes: Part<BTreeMap<String, SizeReport>>,
}
}

figures! {
/// I/Os of one octave of sizes.
pub struct SizeReport {
    /// I/Os.
    pub count: Sum<u64>,
    /// Bytes they moved.
    pub bytes: Sum<u64>,
}
}

figures! {
/// Data syncs.
pub struct FlushReport {
    /// How many.
    pub count: Sum<u64>,
    /// Submit to completion.
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
/// Waiting that is no I/O.
pub struct WaitsReport {
    /// Wait of a write for its tier to have room, ms; null without writes. It is no part of the
    /// tiers' latencies nor of the requests' storage I/O time.
    pub room_ms: Derived<Option<LatencyMsMax>>,
    /// For an I/O buffer.
    pub buffer_ms: Derived<Option<LatencyMsMax>>,
    /// For a place in the queue.
    pub queue_place_ms: Derived<Option<LatencyMsMax>>,
    /// For an allocation permit.
    pub allocation_permit_ms: Derived<Option<LatencyMsMax>>,
    /// Of a request, to be served.
    pub request_queue_ms: Derived<Option<LatencyMsMax>>,
}
}

figures! {
/// Entries that left a tier, by where they went.
pub struct EvictionsReport {
    /// From GPU to CPU memory.
    pub gpu_to_cpu: Part<EvictionReport>,
    /// From CPU memory to storage.
    pub cpu_to_storage: Part<EvictionReport>,
    /// Deleted from storage.
    pub storage_to_none: Part<EvictionReport>,
}
}

figures! {
/// Entries that left a tier.
pub struct EvictionReport {
    /// How many.
    pub entries: Sum<u64>,
    /// Their bytes.
    pub bytes: Sum<u64>,
    /// Reading them from the upper tier.
    pub read_ms: Derived<Option<LatencyMsMax>>,
    /// Writing them to the lower one.
    pub write_ms: Derived<Option<LatencyMsMax>>,
}
}

impl EvictionsReport {
    pub(super) fn of(result: &RunResult) -> EvictionsReport {
        let row = |tier: Tier| {
            let row: &EvictionMetrics = &result.engine.evictions[tier.index()];
            Part(EvictionReport {
                entries: Sum::of(row.entries),
                bytes: Sum::of(row.bytes),
                ..EvictionReport::default()
            })
        };
        EvictionsReport {
            gpu_to_cpu: row(Tier::Gpu),
            cpu_to_storage: row(Tier::Cpu),
            storage_to_none: row(Tier::Storage),
        }
    }
}

figures! {
/// The kernel's counters beside ours.
pub struct DeviceReport {
    /// The kernel's, over the window; null where it does not say.
    pub kernel: Option<KernelCounters>,
    /// The kernel's, over the window, of every device below the store, the topmost first.
    pub chain: OfRun<Vec<BlockDelta>>,
    /// Ours: bytes read.
    pub engine_read_bytes: Sum<u64>,
    /// Ours: bytes written.
    pub engine_write_bytes: Sum<u64>,
    /// Ours over the kernel's.
    pub agreement: Derived<Option<Agreement>>,
    /// Share of the window in which the device had something to do.
    pub utilisation: Derived<Option<f64>>,
    /// The kernel's counters, a quarter of a second at a time; in runs above 10 minutes a second.
    pub series: Timeline<KernelSecondReport>,
    /// How that series goes together with ours; null when the window was too short.
    pub correlation: OfRun<Correlation>,
}
}

/// What the kernel counted between two readings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct KernelSecondReport {
    /// Its end, s since the window's start.
    pub end_s: f64,
    /// Its length, s.
    pub seconds: f64,
    /// Reads completed.
    pub reads: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Writes completed.
    pub writes: u64,
    /// Bytes written.
    pub write_bytes: u64,
    /// Mean size of a request, bytes.
    pub size_mean_bytes: Option<f64>,
    /// Mean time a completed read took, ms (iostat's r_await).
    pub read_await_ms: Option<f64>,
    /// Mean time a completed write took, ms (iostat's w_await).
    pub write_await_ms: Option<f64>,
    /// Mean number of requests in flight (iostat's aqu-sz).
    pub queue_depth: f64,
    /// Requests in flight at its end.
    pub in_flight: u64,
    /// Share of it in which the device had something to do.
    pub utilisation: f64,
}

impl KernelSecondReport {
    fn of(second: &KernelSecond) -> KernelSecondReport {
        let delta = &second.delta;
        KernelSecondReport {
            end_s: second.end_s,
            seconds: second.seconds,
            reads: delta.reads,
            read_bytes: delta.read_bytes,
            writes: delta.writes,
            write_bytes: delta.write_bytes,
            size_mean_bytes: quotient(
                delta.read_bytes + delta.write_bytes,
                delta.reads + delta.writes,
            ),
            read_await_ms: quotient(delta.read_ms, delta.reads),
            write_await_ms: quotient(delta.write_ms, delta.writes),
            queue_depth: delta.queue_ms as f64 / 1e3 / second.seconds.max(1e-9),
            in_flight: second.in_flight,
            // Counted in ticks: a second may seem to have a little more than all of it.
            utilisation: (delta.busy_ms as f64 / 1e3 / second.seconds.max(1e-9)).min(1.0),
        }
    }
}

/// Our bytes over the kernel's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Agreement {
    /// Bytes read.
    pub read_ratio: Option<f64>,
    /// Bytes written.
    pub write_ratio: Option<f64>,
    /// Both.
    pub total_ratio: Option<f64>,
}

figures! {
/// What the kernel counted for the device.
pub struct KernelCounters {
    /// The disk (not the partition), as under `/sys/block`.
    pub device: Same<String>,
    /// Reads completed.
    pub reads: Sum<u64>,
    /// Bytes read.
    pub read_bytes: Sum<u64>,
    /// Writes completed.
    pub writes: Sum<u64>,
    /// Bytes written.
    pub write_bytes: Sum<u64>,
    /// Time with at least one request in flight, ms.
    pub busy_ms: Sum<u64>,
    /// Time that the completed reads took, added up, ms.
    pub read_ms: Sum<u64>,
    /// Time that the completed writes took, added up, ms.
    pub write_ms: Sum<u64>,
    /// Time of all requests, those in flight too, added up, ms.
    pub queue_ms: Sum<u64>,
    /// Flushes completed.
    pub flushes: Sum<Option<u64>>,
}
}

impl KernelCounters {
    fn of(delta: &BlockDelta) -> KernelCounters {
        KernelCounters {
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
    fn end_s(&mut self) -> &mut f64 {
        &mut self.end_s
    }
}

impl DeviceReport {
    pub(super) fn of(result: &RunResult) -> DeviceReport {
        let engine = &result.engine;
        DeviceReport {
            kernel: result.kernel.as_ref().map(KernelCounters::of),
            chain: OfRun::of(result.kernel_chain.clone()),
            engine_read_bytes: Sum::of(engine.io_read.bytes),
            engine_write_bytes: Sum::of(engine.io_write.bytes),
            series: result.kernel_seconds.iter().map(KernelSecondReport::of).collect(),
            correlation: OfRun::maybe(correlate(&result.timeline, &result.kernel_seconds)),
            ..DeviceReport::default()
        }
    }
}

figures! {
/// What the engine got from the kernel, and how its space is cut.
pub struct EngineReport {
    /// How content is made: `avx512`, `avx2` or `portable`; null: merged results differ in it.
    pub fill: Same<String>,
    /// One row a shard; null: merged results had different numbers of them.
    pub shards: Same<Vec<ShardReport>>,
}
}

/// A shard's ring, buffers and space.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ShardReport {
    pub defer_taskrun: bool,
    pub registered_buffers: bool,
    pub registered_file: bool,
    pub huge_pages: bool,
    pub buffer_bytes: u64,
    pub free_blocks: u64,
    pub free_extents: u64,
    pub largest_free_blocks: u64,
    pub live_extents: u64,
    pub leased_blocks: u64,
}

impl EngineReport {
    pub(super) fn of(result: &RunResult) -> EngineReport {
        let shards = result.facts.iter().zip(&result.space).map(|(facts, space)| ShardReport {
            defer_taskrun: facts.ring.defer_taskrun,
            registered_buffers: facts.ring.registered_buffers,
            registered_file: facts.ring.registered_file,
            huge_pages: facts.huge_pages,
            buffer_bytes: facts.buffer_bytes,
            free_blocks: space.free_blocks,
            free_extents: space.free_extents,
            largest_free_blocks: space.largest_free_blocks,
            live_extents: space.live_extents,
            leased_blocks: space.leased_blocks,
        });
        EngineReport {
            fill: Same::of(ringfall_engine::fill::implementation().to_owned()),
            shards: Same::of(shards.collect()),
        }
    }
}
