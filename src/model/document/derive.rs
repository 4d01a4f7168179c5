//! Figures computed from other figures: percentiles from the histograms, rates and shares from the
//! counters. The only place where that is done, for a run and for merged results alike; a figure
//! whose parts are unknown is unknown.

use ringfall_config::QosTargets;
use ringfall_core::metrics::Histogram;
use ringfall_core::units::GIB;
use ringfall_host::Machine;
use serde::Deserialize;

use super::Document;
use super::cache::CacheReport;
use super::cache_stats::{CacheStatsReport, TierLatencies};
use super::engine::{
    Agreement, DeviceReport, EngineReport, EvictionReport, EvictionsReport, IoDirection, IoReport,
    WaitsReport,
};
use super::figure::{Derived, Part, Shape, Sum};
use super::histograms::{CLASSES, Histograms};
use super::latency::{LatencyMs, LatencyMsMax};
use super::ours::{Ours, SCHEMA_VERSION, SamplesReport};
use super::requests::RequestsReport;
use super::served::{ServedReport, TimeReport};
use super::summary::{MultiTurnStats, QosMetrics, Summary};
use super::tracing::DeviceLatencyTracing;
use crate::cold::ColdReads;
use crate::sla::Sla;

/// `part / whole`; unknown when a part is, or there is nothing to divide by.
fn quotient(part: Option<f64>, whole: Option<f64>) -> Derived<Option<f64>> {
    let whole = whole.filter(|&whole| whole > 0.0);
    Derived::maybe(part.zip(whole).map(|(part, whole)| part / whole))
}

/// Both together, at most as much as 64 bits hold.
fn both<T: Shape<Value = u64>>(one: Sum<T>, other: Sum<T>) -> Option<f64> {
    Some(one.known()?.saturating_add(other.known()?) as f64)
}

/// As `quotient`, and 0 where there is nothing to divide by: what the reference puts there, whose
/// readers add and average these keys.
fn quotient_or_zero(part: Option<f64>, whole: Option<f64>) -> Derived<f64> {
    let ratio = |part, whole| if whole > 0.0 { part / whole } else { 0.0 };
    Derived::maybe(part.zip(whole).map(|(part, whole)| ratio(part, whole)))
}

fn gib(bytes: Option<f64>) -> Option<f64> {
    bytes.map(|bytes| bytes / GIB as f64)
}

/// Sum of a histogram's times, s.
fn seconds(histogram: Option<&Histogram>) -> Option<f64> {
    histogram.map(|histogram| histogram.sum_ns() as f64 / 1e9)
}

fn short(histogram: Option<&Histogram>) -> Derived<LatencyMs> {
    Derived::maybe(histogram.map(LatencyMs::of))
}

fn long(histogram: Option<&Histogram>) -> Derived<Option<LatencyMsMax>> {
    Derived::maybe(histogram.and_then(LatencyMsMax::of))
}

impl Document {
    /// Works out all that is derived; the document was written by that command.
    pub(super) fn derive(&mut self, histograms: &Histograms, command_line: &[String]) {
        self.total_storage_io_latency = Derived::maybe(seconds(histograms.get("storage_io")));
        self.total_generation_latency = Derived::maybe(seconds(histograms.get("generation")));
        let window_s = self.seconds();
        let slas = self.slas();
        of_the_summary(&mut self.summary, window_s, histograms, slas.as_ref());
        of_the_cache(&mut self.summary.cache_stats, window_s, histograms);
        let has_drive = !self.is_without_drive();
        if !has_drive {
            self.take_no_time();
        }
        // What is said of a drive is said of none, though the program took its time to count.
        let (nothing, drive_window_s) = (Histograms::default(), window_s.filter(|_| has_drive));
        let of_the_drive = if has_drive { histograms } else { &nothing };
        let (kept, of) = (self.end_to_end_latencies.len(), self.requests_completed.known());
        let Ours {
            io, waits, evictions, device, cost, source, machine, simulation, engine, ..
        } = &mut *self.ringfall;
        of_single_ios(io, drive_window_s, of_the_drive);
        of_waits(waits, histograms);
        of_evictions(evictions, of_the_drive);
        of_the_device(device, window_s);
        device.cold_reads = Derived::maybe(match simulation {
            None => cold_reads(device, machine, engine),
            Some(_) => None,
        });
        let cpu_s = cost.cpu_user_s.known().zip(cost.cpu_system_s.known());
        let moved = gib(both(io.read.bytes, io.write.bytes)).filter(|_| has_drive);
        cost.cpu_s_per_gib = quotient(cpu_s.map(|(user, system)| user + system), moved);
        let hits = source.block_hits;
        source.block_hit_rate = quotient(hits.number(), both(hits, source.block_misses));
        self.device_latency_tracing = Derived::maybe(self.traced());
        let not_measured = self.not_measured();
        let (stats, turns) = (&self.summary.cache_stats, &self.summary.multi_turn_stats);
        let ours = &mut *self.ringfall;
        of_our_cache(&mut ours.cache, stats, turns);
        of_the_served(&mut ours.served, &self.summary, histograms, has_drive);
        ours.requests = Derived::maybe(RequestsReport::of(histograms, slas.as_ref()));
        ours.not_measured = Derived::of(not_measured);
        ours.samples = Derived::maybe(of.map(|of| SamplesReport::of(&(kept, of))));
        ours.version = Derived::of(env!("CARGO_PKG_VERSION").to_owned());
        ours.schema_version = Derived::of(SCHEMA_VERSION);
        ours.command_line = Derived::of(command_line.to_vec());
        ours.histograms = histograms.encoded();
    }
}

impl Document {
    /// Targets of each QoS class; `None` where they are unknown, or merged results differ in them:
    /// no single target then applies to the requests of all runs.
    fn slas(&self) -> Option<[Sla; 3]> {
        let config = self.ringfall.config.as_ref()?;
        let targets = config.settings.get("workload")?.get("qos_targets_ms")?;
        let targets = QosTargets::deserialize(targets).ok()?;
        Some(Sla::of(&targets))
    }

    /// The block layer's counts as the reference has them.
    fn traced(&self) -> Option<DeviceLatencyTracing> {
        let ours = &self.ringfall;
        let size_bytes = ours.machine.device.as_ref().and_then(|device| device.size_bytes);
        Some(DeviceLatencyTracing::of(ours.block_trace.as_ref()?, size_bytes))
    }

    /// As the reference has it of a run without a drive, whose backend takes no time: what the
    /// program took to work out which tier has what is no latency of storage.
    fn take_no_time(&mut self) {
        let summary = &mut self.summary;
        self.total_storage_io_latency = Derived::of(0.0);
        summary.total_storage_io_time = Derived::of(0.0);
        summary.storage_throughput_tokens_per_sec = Derived::of(0.0);
        summary.storage_io_latency_ms = Derived::of(LatencyMs::of(&Histogram::new()));
        summary.cache_stats.latencies_ms.set_to_zero();
        self.storage_latencies = self.storage_latencies.iter().map(|_| 0.0).collect();
    }

    /// Places of the reference's keys that hold a zero for want of anything to measure.
    fn not_measured(&self) -> Vec<String> {
        let (summary, stats) = (&self.summary, &self.summary.cache_stats);
        let turns = &summary.multi_turn_stats;
        let none = |one: Sum<u64>, other: Sum<u64>| both(one, other) == Some(0.0);
        let no_read = none(stats.cache_hits, stats.cache_misses);
        let no_turn = none(turns.cache_hits, turns.cache_misses);
        let no_byte = none(stats.total_read_bytes, stats.total_write_bytes);
        let no_request = summary.total_requests.known() == Some(0);
        let no_storage_time = summary.total_storage_io_time.known() == Some(0.0);
        let no_drive = self.is_without_drive();
        let places: [(&str, bool); 8] = [
            ("summary.end_to_end_latency_ms", no_request),
            ("summary.storage_io_latency_ms", no_request || no_drive),
            ("summary.total_storage_io_time", no_drive),
            ("summary.generation_latency_ms", no_request),
            ("summary.storage_throughput_tokens_per_sec", no_storage_time),
            ("summary.cache_stats.cache_hit_rate", no_read),
            ("summary.multi_turn_stats.hit_rate", no_turn),
            ("summary.cache_stats.read_write_ratio", no_byte),
        ];
        let places = places.into_iter().filter(|place| place.1).map(|place| place.0.to_owned());
        let latencies = stats.latencies_ms.keys().filter(|_| no_drive);
        places.chain(latencies.map(|key| format!("summary.cache_stats.{key}"))).collect()
    }
}

fn of_our_cache(cache: &mut CacheReport, stats: &CacheStatsReport, turns: &MultiTurnStats) {
    let share = |hits: Sum<u64>, misses: Sum<u64>| quotient(hits.number(), both(hits, misses));
    cache.hit_rate = share(stats.cache_hits, stats.cache_misses);
    cache.multi_turn_hit_rate = share(turns.cache_hits, turns.cache_misses);
    cache.look_hit_rate = quotient(cache.looks_found.number(), cache.looks.number());
    cache.moved_read_write_ratio =
        quotient(cache.moved_read_bytes.number(), cache.moved_write_bytes.number());
}

fn of_the_served(
    served: &mut ServedReport,
    summary: &Summary,
    histograms: &Histograms,
    has_drive: bool,
) {
    let (tokens, requests) = (summary.total_tokens.number(), summary.total_requests.number());
    served.context_tokens_mean = quotient(served.context_tokens.number(), requests);
    served.generated_tokens_mean = quotient(tokens, requests);
    // Nothing was waited for where there was no drive.
    let is_timed = |name: &str| name != "storage_io" || has_drive;
    let part_s = |name: &str| {
        seconds(histograms.get(name)).map(|part_s| if is_timed(name) { part_s } else { 0.0 })
    };
    served.context_load_ms = long(histograms.get("context_load").filter(|_| has_drive));
    served.time = Part(TimeReport::of(seconds(histograms.sum(&CLASSES).as_ref()), part_s));
}

fn of_the_summary(
    summary: &mut Summary,
    window_s: Option<f64>,
    histograms: &Histograms,
    slas: Option<&[Sla; 3]>,
) {
    let (tokens, requests) = (summary.total_tokens.number(), summary.total_requests.number());
    let storage_s = seconds(histograms.get("storage_io"));
    summary.avg_throughput_tokens_per_sec = quotient_or_zero(tokens, window_s);
    summary.total_storage_io_time = Derived::maybe(storage_s);
    summary.storage_throughput_tokens_per_sec = quotient_or_zero(tokens, storage_s);
    summary.requests_per_second = quotient_or_zero(requests, window_s);
    summary.end_to_end_latency_ms = short(histograms.sum(&CLASSES).as_ref());
    summary.storage_io_latency_ms = short(histograms.get("storage_io"));
    summary.generation_latency_ms = short(histograms.get("generation"));
    summary.qos_metrics = match CLASSES.map(|name| histograms.get(name)) {
        [Some(a), Some(b), Some(c)] => Derived::of(QosMetrics::of([a, b, c], slas)),
        _ => Derived::default(),
    };
    let turns = &mut summary.multi_turn_stats;
    let looks = both(turns.cache_hits, turns.cache_misses);
    turns.hit_rate = quotient_or_zero(turns.cache_hits.number(), looks);
}

fn of_the_cache(stats: &mut CacheStatsReport, window_s: Option<f64>, histograms: &Histograms) {
    let looks = both(stats.cache_hits, stats.cache_misses);
    stats.cache_hit_rate = quotient_or_zero(stats.cache_hits.number(), looks);
    // As the reference has it: without writes, all that was read.
    let written = stats.total_write_bytes.number().map(|bytes| bytes.max(1.0));
    stats.read_write_ratio = quotient_or_zero(stats.total_read_bytes.number(), written);
    let rate = |gib: Option<f64>| quotient_or_zero(gib, window_s);
    stats.tier_gpu_read_bandwidth_gbps = rate(stats.tier_gpu_kv_bytes_read_gb.known());
    stats.tier_gpu_write_bandwidth_gbps = rate(stats.tier_gpu_kv_bytes_written_gb.known());
    stats.tier_cpu_read_bandwidth_gbps = rate(stats.tier_cpu_kv_bytes_read_gb.known());
    stats.tier_cpu_write_bandwidth_gbps = rate(stats.tier_cpu_kv_bytes_written_gb.known());
    stats.tier_storage_read_bandwidth_gbps = rate(stats.tier_storage_kv_bytes_read_gb.known());
    stats.tier_storage_write_bandwidth_gbps = rate(stats.tier_storage_kv_bytes_written_gb.known());
    stats.latencies_ms = TierLatencies::of(histograms);
}

fn of_single_ios(io: &mut IoReport, window_s: Option<f64>, histograms: &Histograms) {
    let direction = |io: &mut IoDirection, histogram: Option<&Histogram>| {
        io.bandwidth_gib_per_s = quotient(gib(io.bytes.number()), window_s);
        io.iops = quotient(io.count.number(), window_s);
        io.size_mean_bytes = quotient(io.bytes.number(), io.count.number());
        io.depth_mean = quotient(seconds(histogram), window_s);
        io.latency_ms = long(histogram);
    };
    direction(&mut io.read, histograms.get("io_read"));
    direction(&mut io.write, histograms.get("io_write"));
    io.flush.latency_ms = long(histograms.get("io_flush"));
    io.first_touch_share = quotient(io.first_touch_bytes.number(), io.write.bytes.number());
}

fn of_waits(waits: &mut WaitsReport, histograms: &Histograms) {
    let of = |name: &str| long(histograms.get(name));
    *waits = WaitsReport {
        room_ms: of("wait_room"),
        growth_ms: of("wait_growth"),
        buffer_ms: of("wait_buffer"),
        queue_place_ms: of("wait_queue_place"),
        allocation_permit_ms: of("wait_allocation_permit"),
        request_queue_ms: of("wait_request_queue"),
    };
}

fn of_evictions(evictions: &mut EvictionsReport, histograms: &Histograms) {
    let set = |row: &mut Part<EvictionReport>, pair: &str| {
        row.room_ms = long(histograms.get(&format!("evict_{pair}_room")));
        row.read_ms = long(histograms.get(&format!("evict_{pair}_read")));
        row.write_ms = long(histograms.get(&format!("evict_{pair}_write")));
    };
    set(&mut evictions.gpu_to_cpu, "gpu_to_cpu");
    set(&mut evictions.gpu_to_storage, "gpu_to_storage");
    set(&mut evictions.cpu_to_storage, "cpu_to_storage");
    set(&mut evictions.storage_to_none, "storage_to_none");
}

/// Judges the cold reads; in merged results the machine is the part on which they agree.
fn cold_reads(
    device: &DeviceReport,
    machine: &Machine,
    engine: &EngineReport,
) -> Option<ColdReads> {
    let kernel = device.kernel.as_ref();
    let reached = kernel.and_then(|k| k.reached_bytes.known().or(k.read_bytes.known()));
    let mut shards = engine.shards.as_ref().into_iter().flatten();
    let are_commands = shards.any(|shard| shard.nvme_passthrough.known() == Some(true));
    ColdReads::of(device.engine_read_bytes.known()?, reached, machine, are_commands)
}

fn of_the_device(device: &mut DeviceReport, window_s: Option<f64>) {
    let (read, written) = (device.engine_read_bytes, device.engine_write_bytes);
    let ratio = |ours, theirs| quotient(ours, theirs).known();
    let kernel = device.kernel.as_ref();
    device.agreement = Derived::maybe(kernel.map(|kernel| Agreement {
        read_ratio: ratio(read.number(), kernel.read_bytes.number()),
        write_ratio: ratio(written.number(), kernel.write_bytes.number()),
        total_ratio: ratio(both(read, written), both(kernel.read_bytes, kernel.write_bytes)),
    }));
    let busy_s = kernel.and_then(|kernel| kernel.busy_ms.number()).map(|ms| ms / 1e3);
    device.utilisation = quotient(busy_s, window_s);
}
