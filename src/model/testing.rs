//! Results to try things with, here and in the tests of other packages.

#![allow(clippy::missing_panics_doc, clippy::unwrap_used, reason = "tests alone call them")]

use std::path::Path;

use ringfall_config::{Cores, Facts, Options, Rank, resolve};
use ringfall_core::clock::{MICROSECOND, MILLISECOND};
use ringfall_core::key::Tier;
use ringfall_core::metrics::CoarseLatencies;
use ringfall_core::units::GIB;
use ringfall_host::{
    BlockCounters, BlockDelta, ChainLink, ControllerFacts, Cost, DATA_UNIT_BYTES, DriveLook,
    HealthLog, Launcher, LogKind, Machine, MediaLog,
};
use ringfall_workloads::contract::{
    Class, Nanos as SinceStart, Outcome, Purpose, RequestEnd, RequestRecord,
};
use serde_json::Value;

use crate::document::ResultFile;
use crate::facts::{
    Best, DepthFigures, DepthReason, DriveAnswer, Limit, Measured, ROOFLINE_VERSION, Roofline,
    RunFigures, TimelineSecond, Window,
};
use crate::{Code, Document, RunResult, Warning, health};

/// JSON of a result, as it would be written.
pub fn to_json(result: &RunResult) -> Value {
    serde_json::to_value(Document::of(result)).unwrap()
}

/// A run that measured nothing.
pub fn nothing() -> RunResult {
    let facts = Facts {
        cores: 2,
        memory_available_bytes: Some(GIB),
        room: ringfall_host::Room::unknown(2),
        is_simulated: false,
        rank: None,
        unix_s: 1_000_000_000,
        random_seed: 1,
    };
    let options = Options { num_users: Some(4), ..Options::default() };
    RunResult {
        plan: resolve(&options, None, &facts).unwrap(),
        command_line: vec!["ringfall".into(), "run".into()],
        machine: Machine::default(),
        launcher: None,
        window: Window { start_unix_s: 1e9, seconds: 10.0, ..Window::default() },
        interrupted: false,
        failure: None,
        figures: RunFigures::default(),
        tiers: Default::default(),
        gpu: None,
        shortages: Vec::new(),
        source: crate::facts::SourceFacts::default(),
        validation: None,
        facts: Vec::new(),
        drives: Vec::new(),
        kernel_chain: Vec::new(),
        drive_accounts: Vec::new(),
        precondition: None,
        block_trace: None,
        simulation: None,
        roofline: None,
        kernel: None,
        kernel_seconds: Vec::new(),
        cost: Cost::default(),
        warnings: Vec::new(),
    }
}

pub(crate) const MILLISECOND_NS: u64 = 1_000_000;

/// A request of that class that took so many milliseconds.
pub fn request(class: Class, ms: u64) -> RequestRecord {
    RequestRecord {
        user: 0,
        class,
        arrived: SinceStart::from_ns(5),
        started: SinceStart::from_ns(5),
        finished: SinceStart::from_ns(5) + SinceStart::from_ms(ms),
        storage_io_ns: MILLISECOND_NS,
        room_ns: MILLISECOND_NS,
        permit_ns: 0,
        load_ns: Some(MILLISECOND_NS),
        prefill_ns: MILLISECOND_NS,
        decode_ns: 0,
        recompute_ns: 0,
        generation_ns: 0,
        context_tokens: 10,
        generated_tokens: 3,
        end: RequestEnd::Served,
    }
}

/// Records so many reads and writes of the CPU and the storage tier.
fn record_operations(result: &mut RunResult, count: u64) {
    for tier in [Tier::Cpu, Tier::Storage] {
        let tier = &mut result.engine.tiers[tier.index()];
        for direction in [&mut tier.read, &mut tier.write] {
            direction.entry_bytes = GIB;
            for _ in 0..count {
                direction.total.record(12 * MILLISECOND_NS);
                direction.device.record(10 * MILLISECOND_NS);
                direction.host.record(2 * MILLISECOND_NS);
            }
        }
    }
}

/// Records reads of an own entry, which is missed at last, of an earlier turn and of a prompt.
fn record_cache_reads(result: &mut RunResult) {
    result.cache.record_read(Purpose::Decode, 4, Outcome::Miss { reads_done: 3 }, 100, false);
    result.cache.record_read(Purpose::History, 1, Outcome::Hit, 100, false);
    result.cache.record_read(Purpose::Prefix, 1, Outcome::Hit, 7, true);
}

/// A run in which every tier but the GPU's and every class moved something.
pub fn busy() -> RunResult {
    let mut result = nothing();
    record_operations(&mut result, 1);
    result.engine.io_read.bytes = GIB;
    result.engine.io_read.entry_bytes = GIB;
    result.engine.io_write.bytes = 2 * GIB;
    result.engine.io_write.entry_bytes = 2 * GIB;
    result.engine.io_read.latency.record(MILLISECOND_NS);
    let engine = &mut result.engine;
    for io in [&mut engine.io_read, &mut engine.io_write] {
        (io.sizes[0].bytes, io.sizes[0].count) = (io.bytes, io.latency.count());
    }
    result.engine.evictions[Tier::Cpu.index()].entries = 1;
    result.engine.evictions[Tier::Cpu.index()].bytes = GIB;
    for class in Class::ALL {
        result.requests.record(&request(class, 60));
    }
    record_cache_reads(&mut result);
    result.cache.record_write(Purpose::Prefill, 100);
    result.tiers[Tier::Storage.index()].capacity_bytes = 4 * GIB;
    let mut second = TimelineSecond { end_s: 1.0, seconds: 1.0, ..Default::default() };
    (second.requests_completed, second.generated_tokens) = (3, 9);
    result.timeline.push(second);
    hold_in_seconds(&mut result);
    result.kernel = Some(BlockDelta {
        device: "nvme0n1".into(),
        reads: 1,
        read_bytes: GIB,
        writes: 1,
        write_bytes: 2 * GIB,
        busy_ms: 1,
        read_ms: 1,
        write_ms: 1,
        queue_ms: 2,
        flushes: None,
    });
    result
}

/// The same with as many samples of everything as are judged.
pub fn judged() -> RunResult {
    let mut result = busy();
    record_operations(&mut result, health::SAMPLES_MIN - 1);
    (0..3).for_each(|_| record_cache_reads(&mut result));
    hold_in_seconds(&mut result);
    result
}

/// Has the seconds of the run hold all that the engine counted, evenly.
pub fn hold_in_seconds(result: &mut RunResult) {
    let figures = &mut result.figures;
    let (engine, seconds) = (&figures.engine, figures.timeline.len() as u64);
    for (number, second) in (0..).zip(&mut figures.timeline) {
        let share = |all: u64| all * (number + 1) / seconds - all * number / seconds;
        for (tier, counted) in second.tiers.iter_mut().zip(&engine.tiers) {
            let ways = [(&mut tier.read, &counted.read), (&mut tier.write, &counted.write)];
            for (row, counted) in ways {
                row.operations = share(counted.total.count());
                row.bytes = share(counted.entry_bytes);
            }
        }
        let storage = &mut second.tiers[Tier::Storage.index()];
        storage.read.bytes = share(engine.io_read.bytes);
        storage.write.bytes = share(engine.io_write.bytes);
        for (latencies, io) in second.io.iter_mut().zip([&engine.io_read, &engine.io_write]) {
            *latencies = CoarseLatencies::default();
            (0..share(io.latency.count())).for_each(|_| latencies.record(MILLISECOND));
        }
    }
}

/// One event of everything that a run records, different for each `at`.
fn record(result: &mut RunResult, at: u64) {
    // Spread over three decades, in no order.
    let ns = 100 * MICROSECOND.as_ns() + (at * 7_919 % 1_000).pow(2) * 300 + at;
    for tier in [Tier::Cpu, Tier::Storage] {
        let tier = &mut result.engine.tiers[tier.index()];
        for (direction, factor) in [(&mut tier.read, 1), (&mut tier.write, 3)] {
            direction.entry_bytes += 1_000 * factor;
            direction.total.record(ns * factor);
            direction.device.record(ns * factor * 9 / 10);
            direction.host.record(ns * factor / 10);
        }
    }
    result.engine.io_read.add(4096, 0, ns / 7);
    result.engine.io_write.add(8192, 0, ns / 5);
    result.engine.io_flush.latency.record(ns / 6);
    result.engine.waits.buffer.record(ns / 2);
    result.engine.evictions[Tier::Cpu.index()].entries += 1;
    result.engine.evictions[Tier::Cpu.index()].write.record(ns);
    result.requests.record(&RequestRecord {
        started: SinceStart::from_ns(5 + ns / 3),
        finished: SinceStart::from_ns(5 + ns * 4),
        storage_io_ns: ns * 2,
        room_ns: ns / 3,
        permit_ns: ns / 4,
        load_ns: at.is_multiple_of(3).then_some(ns),
        prefill_ns: ns,
        decode_ns: if at.is_multiple_of(4) { 0 } else { ns },
        recompute_ns: ns / 5,
        generation_ns: MILLISECOND.as_ns(),
        generated_tokens: 3 + at as u32 % 5,
        ..request(Class::ALL[at as usize % 3], 0)
    });
    if at.is_multiple_of(7) {
        result.requests.record_unfinished(Class::ALL[at as usize % 3], ns * 3);
    }
    result.cache.record_read(
        Purpose::Decode,
        4,
        Outcome::Miss { reads_done: 3 },
        100,
        at.is_multiple_of(3),
    );
    result.cache.record_write(Purpose::Prefill, 100);
    result.workload.arrived += 1;
}

/// A run of so many seconds in which these events happened.
pub fn run(events: std::ops::Range<u64>, seconds: f64) -> RunResult {
    let mut result = nothing();
    result.window.seconds = seconds;
    result.window.start_unix_s = 1e9;
    for at in events {
        record(&mut result, at);
    }
    let moved = result.requests.completed();
    result.kernel = Some(BlockDelta {
        device: "nvme0n1".into(),
        reads: moved,
        read_bytes: moved * 4096,
        writes: moved,
        write_bytes: moved * 8192,
        busy_ms: (seconds * 500.0) as u64,
        read_ms: moved * 2,
        write_ms: moved * 3,
        queue_ms: moved * 5,
        flushes: Some(moved),
    });
    result.cost.cpu_user_s = Some(seconds);
    let mut row = TimelineSecond { end_s: seconds, seconds, ..Default::default() };
    (row.requests_completed, row.generated_tokens) = (moved, result.requests.generated_tokens);
    result.timeline.push(row);
    hold_in_seconds(&mut result);
    result
}

/// A result file of that name.
pub fn file(name: &str, document: Value) -> ResultFile {
    ResultFile::from_json(Path::new(name), document).unwrap()
}

/// A run as rank `rank` of four on one of two machines; it began `later_s` after the first.
pub fn rank(rank: u32, events: std::ops::Range<u64>, later_s: f64) -> RunResult {
    let mut result = run(events, 10.0);
    let launcher = Launcher {
        rank,
        size: Some(4),
        local_rank: Some(rank % 2),
        local_size: Some(2),
        launch: Some("job".into()),
    };
    let host = format!("node{}", rank / 2);
    result.plan.rank = Some(Rank {
        launcher,
        host,
        cores: Cores::All,
        common_output: None,
        is_by_mpi: false,
        merged: None,
    });
    result.window.start_unix_s += later_s;
    result.timeline = (1..=10)
        .map(|second| TimelineSecond {
            end_s: f64::from(second),
            seconds: 1.0,
            requests_completed: 3,
            users: 4,
            hits: 1,
            ..TimelineSecond::default()
        })
        .collect();
    result
}

/// Result of rank `number` of a launch of 204, four on each machine.
pub fn rank_of_204(number: u32) -> ResultFile {
    let from = u64::from(number) * 40;
    let mut result = rank(number, from..from + 40, 0.0);
    if let Some(rank) = &mut result.plan.rank {
        rank.launcher.size = Some(204);
        rank.launcher.local_rank = Some(number % 4);
        rank.launcher.local_size = Some(4);
        rank.host = format!("node{}", number / 4);
    }
    result.warnings = vec![Warning {
        code: Code::Backlog,
        text: format!("{number} were still queued"),
        flag_to_try: None,
    }];
    file(&format!("rank_{number}/result.json"), to_json(&result))
}

/// Answers of a drive of 1 TiB that wrote 1.25 times what its host did, slowed down twice and met
/// an error.
pub fn drive_answer() -> DriveAnswer {
    let look = |count: u32| {
        let (wide, units) = (u128::from(count), 10_000 * u128::from(count));
        let unit_bytes = u128::from(DATA_UNIT_BYTES);
        let health = HealthLog {
            temperature_c: Some(41 + 22 * count as i32),
            spare_percent: Some(100),
            spare_threshold_percent: Some(10),
            used_percent: Some(3),
            read_bytes: Some(unit_bytes * (1 + units / 2)),
            written_bytes: Some(unit_bytes * (1 + units)),
            media_errors: Some(wide),
            light_throttles: Some(2 * wide),
            ..HealthLog::default()
        };
        let written_bytes = units * unit_bytes * 5 / 4;
        let media = MediaLog { written_bytes, read_bytes: wide, ..MediaLog::default() };
        let controller = ControllerFacts {
            model: Some("DRIVE 9000".into()),
            firmware: Some("1.2".into()),
            capacity_bytes: Some(GIB << 10),
            command_bytes_max: Some(1 << 20),
            rotation_rpm: None,
            warning_temperature_c: Some(80),
            critical_temperature_c: Some(85),
        };
        DriveLook { kind: LogKind::Nvme, controller, health, media: Some(media) }
    };
    let (before, after) = (look(0), look(1));
    DriveAnswer { before, after, seconds: 12.0, kernel: busy().kernel, size_bytes: Some(GIB << 10) }
}

/// A device of that kind in a machine's chain, below another.
pub fn link(name: &str, kind: &str, above: Option<&str>) -> ChainLink {
    let (name, kind, above) = (name.to_owned(), kind.to_owned(), above.map(str::to_owned));
    ChainLink { name, numbers: String::new(), kind, above }
}

/// Counters of a device of which so many bytes were read, and of nothing else.
pub fn read_from(device: &str, read_bytes: u64) -> BlockDelta {
    let none = BlockCounters::default();
    BlockDelta { read_bytes, ..BlockDelta::between(device, none, none) }
}

/// A search for the queue depth of four shards, which ended so.
pub fn depth(chosen: u32, reason: DepthReason) -> DepthFigures {
    DepthFigures {
        chosen,
        deepest: 64,
        lacks_buffers: false,
        queues: 4,
        ranks: None,
        reason,
        steps: Vec::new(),
        seconds: 20.0,
    }
}

/// Limits of a drive that reads and writes so many bytes a second.
pub fn roofline(read: f64, write: f64) -> Roofline {
    let limit = |read_percent, bytes_per_s| {
        let best = Measured { bytes_per_s, ..Measured::default() };
        let best = Best { best: best.clone(), knee: best, probes: Vec::new(), settled: true };
        Limit { read_percent, bandwidth: best, ..Limit::default() }
    };
    Roofline {
        ringfall_roofline: ROOFLINE_VERSION,
        version: "0".into(),
        range_bytes: 1,
        threads: 1,
        polling: "none".into(),
        seconds: 1.0,
        limits: vec![limit(100, read), limit(0, write)],
        ..Roofline::default()
    }
}
