//! `ringfall`: all that the reference's keys lack.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::cache::CacheReport;
use super::config::ConfigReport;
use super::engine::{DeviceReport, EngineReport, EvictionsReport, IoReport, WaitsReport};
use super::figure::{Any, Derived, First, Max, Min, OfRun, Part, Same, Sum, shapes};
use super::histograms::EncodedHistograms;
use super::kept::Agreed;
use super::list::{ByKind, Timeline, Union};
use super::merge::figures;
use super::merged::MergedReport;
use super::rank::RankReport;
use super::requests::RequestsReport;
use super::timeline::SecondReport;
use crate::blocktrace::BlockTraceFigures;
use crate::host::Machine;
use crate::precondition::PreconditionReport;
use crate::remedy::told_io;
use crate::results::autoscaling::{self, AutoscalerReport};
use crate::results::source::{self, SourceReport};
use crate::results::{RunResult, SimulationReport, Warning};
use ringfall_engine::units::GIB;

shapes!(AutoscalerReport, BlockTraceFigures, PreconditionReport, RankReport, RooflineReport);
shapes!(SamplesReport);

/// Version of the layout of `ringfall`: readers refuse another one.
pub const SCHEMA_VERSION: u32 = 5;

figures! {
/// All that the reference's keys lack.
pub struct Ours {
    /// Of the program.
    pub version: Derived<String>,
    /// Of this layout.
    pub schema_version: Derived<u32>,
    /// As typed, the program's name first.
    pub command_line: Derived<Vec<String>>,
    /// All effective values.
    pub config: Agreed<ConfigReport>,
    /// Where it ran.
    pub machine: Part<Machine>,
    /// When it measured.
    pub window: Part<WindowReport>,
    /// One row a second.
    pub timeline: Timeline<SecondReport>,
    /// Histograms by name, to merge results exactly; null where nothing was measured.
    pub histograms: EncodedHistograms,
    /// Finished and unfinished requests, and the latencies of both together; null when a result
    /// that was merged did not count the unfinished ones.
    pub requests: Derived<Option<RequestsReport>>,
    /// What the cache did, by stricter definitions than those of the reference's keys.
    pub cache: Part<CacheReport>,
    /// Places under `summary` that hold zeros as in the reference because nothing was measured.
    pub not_measured: Derived<Vec<String>>,
    /// Single I/Os.
    pub io: Part<IoReport>,
    /// Waiting that is no I/O.
    pub waits: Part<WaitsReport>,
    /// Entries that left a tier.
    pub evictions: Part<EvictionsReport>,
    /// The kernel's counters beside ours.
    pub device: Part<DeviceReport>,
    /// What the window cost this process.
    pub cost: Part<CostReport>,
    /// The device's calibrated limit and the share reached; null: not calibrated.
    pub roofline: OfRun<RooflineReport>,
    /// What writing the device before the run came to; null: it was not.
    pub precondition: OfRun<PreconditionReport>,
    /// What the block layer did; null: not traced.
    pub block_trace: OfRun<BlockTraceFigures>,
    /// What a simulated run was bound by; null: it was a real one.
    pub simulation: Option<SimulationReport>,
    /// What failed.
    pub errors: Part<ErrorsReport>,
    /// What was compared with what had been written.
    pub verify: Part<VerifyReport>,
    /// How many of the requests the arrays of latencies hold.
    pub samples: Derived<SamplesReport>,
    /// What the autoscaler found; null without one.
    pub autoscaler: OfRun<AutoscalerReport>,
    /// Where requests came from.
    pub source: Part<SourceReport>,
    /// Whether the shards stayed alive.
    pub watchdog: Part<HeartbeatReport>,
    /// What the engine got from the kernel.
    pub engine: Part<EngineReport>,
    /// What the workload counted since the start.
    pub workload: Part<WorkloadReport>,
    /// Which of several processes of a launcher this was; null: it was alone.
    pub rank: OfRun<RankReport>,
    /// What a reader should know before trusting the numbers.
    pub warnings: Union<Warning>,
    /// What a merged result is made of; absent in the result of a single run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub merged: Option<MergedReport>,
}
}

figures! {
/// When it measured.
pub struct WindowReport {
    /// Start, s since 1970.
    pub start_unix_s: Min<f64>,
    /// Length, s.
    pub seconds: Sum<f64>,
    /// Ramp-up before it, s.
    pub warmup_seconds: Sum<f64>,
    /// From its end until nothing was in flight, s.
    pub drain_seconds: Sum<f64>,
    /// Whether a signal ended it early.
    pub interrupted: Any<bool>,
    /// What ended it early, if not a signal.
    pub failure: First<String>,
}
}

figures! {
/// What the window cost this process.
pub struct CostReport {
    /// CPU time in user mode, s.
    pub cpu_user_s: Sum<Option<f64>>,
    /// CPU time in the kernel, s.
    pub cpu_system_s: Sum<Option<f64>>,
    /// Both, for each GiB that storage moved.
    pub cpu_s_per_gib: Derived<Option<f64>>,
    /// Highest resident memory, bytes.
    pub peak_rss_bytes: Max<Option<u64>>,
    /// Context switches by waiting.
    pub context_switches_voluntary: Sum<Option<u64>>,
    /// Context switches by force.
    pub context_switches_involuntary: Sum<Option<u64>>,
}
}

/// The device's limits, and how near the run came to them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
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

figures! {
/// What failed.
pub struct ErrorsReport {
    /// I/O errors of the window.
    pub by_kind: ByKind<ErrorRow>,
    /// Number of requests that ended in the window with a failed step.
    pub requests_failed: Sum<u64>,
    /// Number of requests that ended in the window because no tier could hold their entry.
    pub requests_refused: Sum<u64>,
    /// Entries larger than the last tier.
    pub entries_refused: Sum<u64>,
    /// Entries that could not be written before measuring.
    pub population_failed: Sum<u64>,
    /// The first errors since the start.
    pub first_ever: Union<String>,
}
}

/// I/O errors of one kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
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

figures! {
/// What was compared with what had been written.
pub struct VerifyReport {
    /// `off`, `sample` or `full`.
    pub mode: Same<String>,
    /// Blocks of 4 KiB compared.
    pub blocks_checked: Sum<u64>,
    /// Those that differed.
    pub blocks_bad: Sum<u64>,
}
}

/// How many of the requests the arrays of latencies hold.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
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

figures! {
/// What the workload counted since the start.
pub struct WorkloadReport {
    /// Decode steps that found their entry evicted.
    pub decode_misses: Sum<u64>,
    /// Entries written again because of that.
    pub decode_rewrites: Sum<u64>,
    /// Conversations forgotten because too many were live.
    pub conversations_forgotten: Sum<u64>,
    /// Requests whose entry no tier could hold.
    pub requests_refused: Sum<u64>,
    /// Documents ingested while the load ran, with `--rag-ingestion beside`.
    pub documents_ingested: Sum<u64>,
    /// Documents deleted while the load ran because more than `workload.rag.max_documents` were
    /// there.
    pub documents_evicted: Sum<u64>,
    /// Chunks of documents that could not be written while the load ran.
    pub chunks_failed: Sum<u64>,
    /// Retrievals left out because no document was complete yet.
    pub retrievals_without_document: Sum<u64>,
}
}

figures! {
/// Whether the shards stayed alive.
pub struct HeartbeatReport {
    /// Times that a shard missed a second of heartbeats.
    pub stalls: Sum<u64>,
    /// Times that a shard was woken because a heartbeat was late by 50 ms.
    pub nudges: Sum<u64>,
    /// The longest gap between two heartbeats of a shard, ns (their period is 5 ms).
    pub heartbeat_gap_max_ns: Max<u64>,
    /// Heartbeats of all shards.
    pub heartbeats: Sum<u64>,
}
}

impl WindowReport {
    fn of(result: &RunResult) -> WindowReport {
        let window = &result.window;
        WindowReport {
            start_unix_s: Min::of(window.start_unix_s),
            seconds: Sum::of(window.seconds),
            warmup_seconds: Sum::of(window.warmup_seconds),
            drain_seconds: Sum::of(window.drain_seconds),
            interrupted: Any::of(result.interrupted),
            failure: First::maybe(result.failure.clone()),
        }
    }
}

impl CostReport {
    fn of(result: &RunResult) -> CostReport {
        let cost = &result.cost;
        CostReport {
            cpu_user_s: Sum::maybe(cost.cpu_user_s),
            cpu_system_s: Sum::maybe(cost.cpu_system_s),
            cpu_s_per_gib: Derived::default(),
            peak_rss_bytes: Max::maybe(cost.peak_rss_bytes),
            context_switches_voluntary: Sum::maybe(cost.context_switches_voluntary),
            context_switches_involuntary: Sum::maybe(cost.context_switches_involuntary),
        }
    }
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
            requests_failed: Sum::of(result.requests.failed),
            requests_refused: Sum::of(result.requests.refused),
            entries_refused: Sum::of(engine.refused_entries),
            population_failed: Sum::of(result.population_failed),
            first_ever: result.errors.iter().map(told_io).collect(),
        }
    }
}

impl Ours {
    /// The counters and facts; what is derived is set by [`derive`](super::derive).
    pub(super) fn of(result: &RunResult) -> Ours {
        let (verify, watchdog, workload) =
            (&result.engine.verify, &result.watchdog, &result.workload);
        let traced = result.block_trace.as_ref().and_then(|trace| trace.as_ref().ok());
        Ours {
            config: Agreed::of(ConfigReport::of(result)),
            machine: Part(result.machine.clone()),
            window: Part(WindowReport::of(result)),
            timeline: SecondReport::all(result),
            cache: Part(CacheReport::of(result)),
            io: Part(IoReport::of(result)),
            evictions: Part(EvictionsReport::of(result)),
            device: Part(DeviceReport::of(result)),
            cost: Part(CostReport::of(result)),
            roofline: OfRun::maybe(RooflineReport::of(result)),
            precondition: OfRun::maybe(result.precondition.clone()),
            simulation: result.simulation.clone(),
            block_trace: OfRun::maybe(traced.cloned()),
            errors: Part(ErrorsReport::of(result)),
            verify: Part(VerifyReport {
                mode: Same::of(result.plan.verify.name().to_owned()),
                blocks_checked: Sum::of(verify.blocks_checked),
                blocks_bad: Sum::of(verify.blocks_bad),
            }),
            autoscaler: OfRun::maybe(autoscaling::report(result)),
            source: Part(source::report(result)),
            watchdog: Part(HeartbeatReport {
                stalls: Sum::of(watchdog.stalls),
                nudges: Sum::of(watchdog.nudges),
                heartbeat_gap_max_ns: Max::of(watchdog.heartbeat_gap_max_ns),
                heartbeats: Sum::of(watchdog.heartbeats),
            }),
            engine: Part(EngineReport::of(result)),
            workload: Part(WorkloadReport {
                decode_misses: Sum::of(workload.decode_misses),
                decode_rewrites: Sum::of(workload.decode_rewrites),
                conversations_forgotten: Sum::of(workload.conversations_forgotten),
                requests_refused: Sum::of(workload.refused_requests),
                documents_ingested: Sum::of(workload.documents_ingested),
                documents_evicted: Sum::of(workload.documents_evicted),
                chunks_failed: Sum::of(workload.chunks_failed),
                retrievals_without_document: Sum::of(workload.retrievals_without_document),
            }),
            rank: OfRun::maybe(result.plan.rank.as_ref().map(RankReport::of)),
            warnings: result.warnings.iter().cloned().collect(),
            ..Ours::default()
        }
    }
}
