//! `ringfall`: all that the reference's keys lack.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::config::ConfigReport;
use super::engine::{
    DeviceReport, EncodedHistogram, EngineReport, EvictionsReport, IoReport, WaitsReport,
    histograms,
};
use super::timeline::SecondReport;
use crate::blocktrace::BlockTraceFigures;
use crate::facts::{SAMPLES_MAX, WatchdogReport};
use crate::host::Machine;
use crate::precondition::PreconditionReport;
use crate::remedy::told_io;
use crate::results::autoscaling::{self, AutoscalerReport};
use crate::results::source::{self, SourceReport};
use crate::results::{RunResult, SimulationReport, Warning};
use ringfall_engine::units::GIB;

/// Version of the layout of `ringfall`: readers refuse another one.
pub const SCHEMA_VERSION: u32 = 4;

/// All that the reference's keys lack.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Ours {
    /// Of the program.
    pub version: String,
    /// Of this layout.
    pub schema_version: u32,
    /// As typed, the program's name first.
    pub command_line: Vec<String>,
    /// All effective values.
    pub config: ConfigReport,
    /// Where it ran.
    pub machine: Machine,
    /// When it measured.
    pub window: WindowReport,
    /// One row a second.
    pub timeline: Vec<SecondReport>,
    /// Histograms by name, to merge results exactly; null where nothing was measured.
    pub histograms: BTreeMap<String, Option<EncodedHistogram>>,
    /// Single I/Os.
    pub io: IoReport,
    /// Waiting that is no I/O.
    pub waits: WaitsReport,
    /// Entries that left a tier.
    pub evictions: EvictionsReport,
    /// The kernel's counters beside ours.
    pub device: DeviceReport,
    /// What the window cost this process.
    pub cost: CostReport,
    /// The device's calibrated limit and the share reached; null: not calibrated.
    pub roofline: Option<RooflineReport>,
    /// What writing the device before the run came to; null: it was not.
    pub precondition: Option<PreconditionReport>,
    /// What the block layer did; null: not traced.
    pub block_trace: Option<BlockTraceFigures>,
    /// What a simulated run was bound by; null: it was a real one.
    pub simulation: Option<SimulationReport>,
    /// What failed.
    pub errors: ErrorsReport,
    /// What was compared with what had been written.
    pub verify: VerifyReport,
    /// How many of the requests the arrays of latencies hold.
    pub samples: SamplesReport,
    /// What the autoscaler found; null without one.
    pub autoscaler: Option<AutoscalerReport>,
    /// Where requests came from.
    pub source: SourceReport,
    /// Whether the shards stayed alive.
    pub watchdog: WatchdogReport,
    /// What the engine got from the kernel.
    pub engine: EngineReport,
    /// What the workload counted since the start.
    pub workload: WorkloadReport,
    /// What a reader should know before trusting the numbers.
    pub warnings: Vec<Warning>,
}

/// When it measured.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct WindowReport {
    /// Start, s since 1970.
    pub start_unix_s: f64,
    /// Length, s.
    pub seconds: f64,
    /// Ramp-up before it, s.
    pub warmup_seconds: f64,
    /// From its end until nothing was in flight, s.
    pub drain_seconds: f64,
    /// Whether a signal ended it early.
    pub interrupted: bool,
    /// What ended it early, if not a signal.
    pub failure: Option<String>,
}

/// What the window cost this process.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct CostReport {
    /// CPU time in user mode, s.
    pub cpu_user_s: Option<f64>,
    /// CPU time in the kernel, s.
    pub cpu_system_s: Option<f64>,
    /// Both, for each GiB that storage moved.
    pub cpu_s_per_gib: Option<f64>,
    /// Highest resident memory, bytes.
    pub peak_rss_bytes: Option<u64>,
    /// Context switches by waiting.
    pub context_switches_voluntary: Option<u64>,
    /// Context switches by force.
    pub context_switches_involuntary: Option<u64>,
}

/// The device's limits, and how near the run came to them.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct RooflineReport {
    /// The file it was read from, or `fresh`: measured just before the run.
    pub source: String,
    /// When it was measured, s since 1970.
    pub unix_s: f64,
    /// Most that reads alone reach, GiB/s.
    pub read_gib_per_s: Option<f64>,
    /// Most that writes alone reach, GiB/s.
    pub write_gib_per_s: Option<f64>,
    /// Share of the device that the run used: the time that it would need at those limits for what
    /// the run read and wrote, over the window.
    pub share: Option<f64>,
}

impl RooflineReport {
    fn of(result: &RunResult) -> Option<RooflineReport> {
        let (source, roofline) = result.roofline.as_ref()?;
        let seconds = result.window.seconds;
        let rate = |bytes: u64| (seconds > 0.0).then(|| bytes as f64 / seconds);
        let rates = rate(result.engine.io_read.bytes).zip(rate(result.engine.io_write.bytes));
        let in_gib = |percent| Some(roofline.bandwidth(percent)? / GIB as f64);
        Some(RooflineReport {
            source: source.clone(),
            unix_s: roofline.unix_s,
            read_gib_per_s: in_gib(100),
            write_gib_per_s: in_gib(0),
            share: rates.and_then(|(read, write)| roofline.share(read, write)),
        })
    }
}

/// What failed.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ErrorsReport {
    /// I/O errors of the window.
    pub by_kind: Vec<ErrorRow>,
    /// Requests with a failed step.
    pub requests_failed: u64,
    /// Entries larger than the last tier.
    pub entries_refused: u64,
    /// Entries that could not be written before measuring.
    pub population_failed: u64,
    /// The first errors since the start.
    pub first_ever: Vec<String>,
}

/// I/O errors of one kind.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ErrorRow {
    /// What it means.
    pub kind: String,
    /// Read, write or flush.
    pub operation: String,
    /// The kernel's number; 0: none.
    pub errno: i32,
    /// How many.
    pub count: u64,
    /// The first, in words.
    pub first: String,
}

/// What was compared with what had been written.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct VerifyReport {
    /// `off`, `sample` or `full`.
    pub mode: String,
    /// Blocks of 4 KiB compared.
    pub blocks_checked: u64,
    /// Those that differed.
    pub blocks_bad: u64,
}

/// How many of the requests the arrays of latencies hold.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct SamplesReport {
    /// Held.
    pub kept: usize,
    /// Of how many.
    pub of: u64,
    /// At most.
    pub kept_max: usize,
    /// Whether they are a sample.
    pub sampled: bool,
}

/// What the workload counted since the start.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct WorkloadReport {
    /// Decode steps that found their entry evicted.
    pub decode_misses: u64,
    /// Entries written again because of that.
    pub decode_rewrites: u64,
    /// Conversations forgotten because too many were live.
    pub conversations_forgotten: u64,
    /// Requests whose entry no tier could hold.
    pub requests_refused: u64,
}

impl ErrorsReport {
    fn of(result: &RunResult) -> ErrorsReport {
        let engine = &result.engine;
        let errors = engine.errors.iter().map(|row| ErrorRow {
            kind: row.kind.name().to_owned(),
            operation: row.operation.name().to_owned(),
            errno: row.errno,
            count: row.count,
            first: row.first.to_string(),
        });
        ErrorsReport {
            by_kind: errors.collect(),
            requests_failed: result.requests.failed,
            entries_refused: engine.refused_entries,
            population_failed: result.population_failed,
            first_ever: result.errors.iter().map(told_io).collect(),
        }
    }
}

impl Ours {
    pub(super) fn of(result: &RunResult) -> Ours {
        let (engine, window, cost) = (&result.engine, &result.window, &result.cost);
        let completed = result.requests.completed();
        Ours {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            schema_version: SCHEMA_VERSION,
            command_line: result.command_line.clone(),
            config: ConfigReport::of(result),
            machine: result.machine.clone(),
            window: WindowReport {
                start_unix_s: window.start_unix_s,
                seconds: window.seconds,
                warmup_seconds: window.warmup_seconds,
                drain_seconds: window.drain_seconds,
                interrupted: result.interrupted,
                failure: result.failure.clone(),
            },
            timeline: SecondReport::all(result),
            histograms: histograms(result),
            io: IoReport::of(result),
            waits: WaitsReport::of(result),
            evictions: EvictionsReport::of(result),
            device: DeviceReport::of(result),
            cost: CostReport {
                cpu_user_s: cost.cpu_user_s,
                cpu_system_s: cost.cpu_system_s,
                cpu_s_per_gib: cost.cpu_s_per_gib(engine.io_read.bytes + engine.io_write.bytes),
                peak_rss_bytes: cost.peak_rss_bytes,
                context_switches_voluntary: cost.context_switches_voluntary,
                context_switches_involuntary: cost.context_switches_involuntary,
            },
            roofline: RooflineReport::of(result),
            precondition: result.precondition.clone(),
            simulation: result.simulation.clone(),
            block_trace: result.block_trace.as_ref().and_then(|trace| trace.as_ref().ok()).cloned(),
            errors: ErrorsReport::of(result),
            verify: VerifyReport {
                mode: result.plan.verify.name().to_owned(),
                blocks_checked: engine.verify.blocks_checked,
                blocks_bad: engine.verify.blocks_bad,
            },
            samples: SamplesReport {
                kept: result.requests.samples().len(),
                of: completed,
                kept_max: SAMPLES_MAX,
                sampled: completed > SAMPLES_MAX as u64,
            },
            autoscaler: autoscaling::report(result),
            source: source::report(result),
            watchdog: result.watchdog,
            engine: EngineReport::of(result),
            workload: WorkloadReport {
                decode_misses: result.workload.decode_misses,
                decode_rewrites: result.workload.decode_rewrites,
                conversations_forgotten: result.workload.conversations_forgotten,
                requests_refused: result.workload.refused_requests,
            },
            warnings: result.warnings.clone(),
        }
    }
}
