//! The parts of `ringfall` that come from the engine's counters.

use std::collections::BTreeMap;

use ringfall_engine::metrics::{EvictionMetrics, Histogram, IoMetrics, SizeCount};
use ringfall_engine::tier::Tier;
use ringfall_engine::units::{BLOCK_BYTES, gib};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::latency::LatencyMsMax;
use super::values::EVICTION_PAIRS;
use crate::facts::{KernelSecond, quotient};
use crate::host::BlockDelta;
use crate::results::RunResult;
use crate::results::correlation::{Correlation, correlate};

/// A histogram that merges exactly with others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EncodedHistogram {
    /// Values.
    pub count: u64,
    /// Their exact sum, ns, in digits: more than a JSON number holds.
    pub sum_ns: String,
    /// HDR histogram, V2 format, base64; 1 µs to 1 h in ns, 3 digits.
    pub hdr_v2: String,
}

impl EncodedHistogram {
    /// Of a histogram; none when it is empty.
    #[must_use]
    pub fn of(histogram: &Histogram) -> Option<EncodedHistogram> {
        (histogram.count() > 0).then(|| EncodedHistogram {
            count: histogram.count(),
            sum_ns: histogram.sum_ns().to_string(),
            hdr_v2: histogram.to_base64_v2(),
        })
    }

    /// The histogram again.
    ///
    /// # Errors
    /// The text is no such histogram.
    pub fn decode(&self) -> Result<Histogram, String> {
        let sum_ns = self.sum_ns.parse().map_err(|_| format!("sum_ns is {:?}", self.sum_ns))?;
        Histogram::from_base64_v2(&self.hdr_v2, sum_ns).map_err(|error| error.to_string())
    }
}

/// `ringfall.histograms`, by name; null where nothing was measured.
pub(super) fn histograms(result: &RunResult) -> BTreeMap<String, Option<EncodedHistogram>> {
    let (engine, requests) = (&result.engine, &result.requests);
    let mut all = BTreeMap::new();
    let mut put = |name: String, histogram: &Histogram| {
        all.insert(name, EncodedHistogram::of(histogram));
    };
    for tier in Tier::ALL {
        let metrics = engine.tier(tier);
        for (direction, metrics) in [("read", &metrics.read), ("write", &metrics.write)] {
            let name = format!("{}_{direction}", tier.name());
            put(format!("{name}_total"), &metrics.total);
            put(format!("{name}_device"), &metrics.device);
            put(format!("{name}_host"), &metrics.host);
        }
    }
    put("io_read".into(), &engine.io_read.latency);
    put("io_write".into(), &engine.io_write.latency);
    put("io_flush".into(), &engine.io_flush.latency);
    for (name, histogram) in ["interactive", "responsive", "batch"].iter().zip(&requests.end_to_end)
    {
        put(format!("end_to_end_{name}"), histogram);
    }
    put("storage_io".into(), &requests.storage_io);
    put("generation".into(), &requests.generation);
    put("prefill".into(), &requests.prefill);
    put("decode".into(), &requests.decode);
    let waits = &engine.waits;
    put("wait_room".into(), &waits.room);
    put("wait_buffer".into(), &waits.buffer);
    put("wait_queue_place".into(), &waits.queue_place);
    put("wait_allocation_permit".into(), &result.allocation_wait);
    put("wait_request_queue".into(), &requests.queued);
    for (name, row) in EVICTION_PAIRS.iter().zip(&engine.evictions) {
        put(format!("evict_{name}_read"), &row.read);
        put(format!("evict_{name}_write"), &row.write);
    }
    all
}

/// Single I/Os on the storage device.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct IoReport {
    /// Reads.
    pub read: IoDirection,
    /// Writes.
    pub write: IoDirection,
    /// Data syncs.
    pub flush: FlushReport,
    /// Transfers that moved less than asked, and were resumed.
    pub short_transfers: u64,
    /// I/Os tried again after a transient error.
    pub retries: u64,
    /// Bytes written that were the first to their blocks.
    pub first_touch_bytes: u64,
    /// Their share of the bytes written.
    pub first_touch_share: Option<f64>,
}

/// One direction of single I/Os.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct IoDirection {
    /// I/Os.
    pub count: u64,
    /// Bytes that completed, whole blocks.
    pub bytes: u64,
    /// Those that belong to entries, without the rest of an entry's last block.
    pub entry_bytes: u64,
    /// Bytes over the window, GiB/s.
    pub bandwidth_gib_per_s: Option<f64>,
    /// I/Os over the window.
    pub iops: Option<f64>,
    /// Mean size, bytes.
    pub size_mean_bytes: Option<f64>,
    /// Mean number in flight, by Little's law.
    pub depth_mean: Option<f64>,
    /// Submit to completion.
    pub latency_ms: Option<LatencyMsMax>,
    /// By size: the names are the smallest size of each octave, bytes.
    pub sizes: BTreeMap<String, SizeReport>,
}

/// I/Os of one octave of sizes.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct SizeReport {
    /// I/Os.
    pub count: u64,
    /// Bytes they moved.
    pub bytes: u64,
}

/// Data syncs.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct FlushReport {
    /// How many.
    pub count: u64,
    /// Submit to completion.
    pub latency_ms: Option<LatencyMsMax>,
}

impl IoReport {
    pub(super) fn of(result: &RunResult) -> IoReport {
        let (engine, seconds) = (&result.engine, result.window.seconds);
        let direction = |io: &IoMetrics| {
            let count = io.latency.count();
            IoDirection {
                count,
                bytes: io.bytes,
                entry_bytes: io.entry_bytes,
                bandwidth_gib_per_s: (seconds > 0.0).then(|| gib(io.bytes) / seconds),
                iops: (seconds > 0.0).then(|| count as f64 / seconds),
                size_mean_bytes: quotient(io.bytes, count),
                depth_mean: (seconds > 0.0).then(|| io.latency.sum_ns() as f64 / 1e9 / seconds),
                latency_ms: LatencyMsMax::of(&io.latency),
                sizes: sizes(io),
            }
        };
        let flush = &engine.io_flush.latency;
        IoReport {
            read: direction(&engine.io_read),
            write: direction(&engine.io_write),
            flush: FlushReport { count: flush.count(), latency_ms: LatencyMsMax::of(flush) },
            short_transfers: engine.short_transfers,
            retries: engine.retries,
            first_touch_bytes: engine.first_touch_bytes,
            first_touch_share: quotient(engine.first_touch_bytes, engine.io_write.bytes),
        }
    }
}

fn sizes(io: &IoMetrics) -> BTreeMap<String, SizeReport> {
    let row = |(class, size): (usize, &SizeCount)| {
        let report = SizeReport { count: size.count, bytes: size.bytes };
        ((BLOCK_BYTES << class).to_string(), report)
    };
    io.sizes.iter().enumerate().map(row).collect()
}

/// Waiting that is no I/O.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct WaitsReport {
    /// For a tier to have room.
    pub room_ms: Option<LatencyMsMax>,
    /// For an I/O buffer.
    pub buffer_ms: Option<LatencyMsMax>,
    /// For a place in the queue.
    pub queue_place_ms: Option<LatencyMsMax>,
    /// For an allocation permit.
    pub allocation_permit_ms: Option<LatencyMsMax>,
    /// Of a request, to be served.
    pub request_queue_ms: Option<LatencyMsMax>,
}

impl WaitsReport {
    pub(super) fn of(result: &RunResult) -> WaitsReport {
        let waits = &result.engine.waits;
        WaitsReport {
            room_ms: LatencyMsMax::of(&waits.room),
            buffer_ms: LatencyMsMax::of(&waits.buffer),
            queue_place_ms: LatencyMsMax::of(&waits.queue_place),
            allocation_permit_ms: LatencyMsMax::of(&result.allocation_wait),
            request_queue_ms: LatencyMsMax::of(&result.requests.queued),
        }
    }
}

/// Entries that left a tier, by where they went.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct EvictionsReport {
    /// From GPU to CPU memory.
    pub gpu_to_cpu: EvictionReport,
    /// From CPU memory to storage.
    pub cpu_to_storage: EvictionReport,
    /// Deleted from storage.
    pub storage_to_none: EvictionReport,
}

/// Entries that left a tier.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct EvictionReport {
    /// How many.
    pub entries: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Reading them from the upper tier.
    pub read_ms: Option<LatencyMsMax>,
    /// Writing them to the lower one.
    pub write_ms: Option<LatencyMsMax>,
}

impl EvictionsReport {
    pub(super) fn of(result: &RunResult) -> EvictionsReport {
        let row = |tier: Tier| {
            let row: &EvictionMetrics = &result.engine.evictions[tier.index()];
            EvictionReport {
                entries: row.entries,
                bytes: row.bytes,
                read_ms: LatencyMsMax::of(&row.read),
                write_ms: LatencyMsMax::of(&row.write),
            }
        };
        EvictionsReport {
            gpu_to_cpu: row(Tier::Gpu),
            cpu_to_storage: row(Tier::Cpu),
            storage_to_none: row(Tier::Storage),
        }
    }
}

/// The kernel's counters beside ours.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct DeviceReport {
    /// The kernel's, over the window; null where it does not say.
    pub kernel: Option<BlockDelta>,
    /// The kernel's, over the window, of every device below the store, the topmost first.
    pub chain: Option<Vec<BlockDelta>>,
    /// Ours: bytes read.
    pub engine_read_bytes: u64,
    /// Ours: bytes written.
    pub engine_write_bytes: u64,
    /// Ours over the kernel's.
    pub agreement: Option<Agreement>,
    /// Share of the window in which the device had something to do.
    pub utilisation: Option<f64>,
    /// The kernel's counters, a quarter of a second at a time; in runs above 10 minutes a second.
    pub series: Vec<KernelSecondReport>,
    /// How that series goes together with ours; null when the window was too short.
    pub correlation: Option<Correlation>,
}

/// What the kernel counted between two readings.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
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
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Agreement {
    /// Bytes read.
    pub read_ratio: Option<f64>,
    /// Bytes written.
    pub write_ratio: Option<f64>,
    /// Both.
    pub total_ratio: Option<f64>,
}

impl DeviceReport {
    pub(super) fn of(result: &RunResult) -> DeviceReport {
        let engine = &result.engine;
        let (read, written) = (engine.io_read.bytes, engine.io_write.bytes);
        let kernel = result.kernel.as_ref();
        let seconds = result.window.seconds;
        DeviceReport {
            kernel: kernel.cloned(),
            chain: Some(result.kernel_chain.clone()),
            engine_read_bytes: read,
            engine_write_bytes: written,
            agreement: kernel.map(|kernel| Agreement {
                read_ratio: quotient(read, kernel.read_bytes),
                write_ratio: quotient(written, kernel.write_bytes),
                total_ratio: quotient(read + written, kernel.read_bytes + kernel.write_bytes),
            }),
            utilisation: kernel
                .filter(|_| seconds > 0.0)
                .map(|kernel| kernel.busy_ms as f64 / 1e3 / seconds),
            series: result.kernel_seconds.iter().map(KernelSecondReport::of).collect(),
            correlation: correlate(&result.timeline, &result.kernel_seconds),
        }
    }
}

/// What the engine got from the kernel, and how its space is cut.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct EngineReport {
    /// How content is made: `avx512`, `avx2` or `portable`; null: merged results differ in it.
    pub fill: Option<String>,
    /// One row a shard; null: merged results had different numbers of them.
    pub shards: Option<Vec<ShardReport>>,
}

/// A shard's ring, buffers and space.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
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
            fill: Some(ringfall_engine::fill::implementation().to_owned()),
            shards: Some(shards.collect()),
        }
    }
}
