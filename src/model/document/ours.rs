//! `ringfall`: all that the reference's keys lack.

use std::collections::BTreeMap;

use ringfall_config::Named as _;
use ringfall_core::metrics::{Counts, ErrorRecord};
use ringfall_core::units::GIB;
use ringfall_host::remedy::told_io;
use ringfall_host::{Cost, Machine};
use ringfall_workloads::WorkloadStats;

use super::cache::CacheReport;
use super::config::ConfigReport;
use super::counted::Counted;
use super::depth::QueueDepthReport;
use super::drives::DriveReport;
use super::engine::{DeviceReport, EngineReport, EvictionsReport, IoReport, WaitsReport};
use super::figure::{
    Added, Any, Derived, Fact, First, Max, Min, OfRun, OverTime, Part, Same, Sum, shapes,
};
use super::gpu::{GpuMovesReport, GpuReport, PromotionsReport};
use super::histograms::EncodedHistograms;
use super::kept::Agreed;
use super::limit::RunLimit;
use super::list::{ByKind, Rows, Timeline, Union};
use super::merge::{Inputs, Merge, figures};
use super::merged::MergedReport;
use super::rank::RankReport;
use super::requests::RequestsReport;
use super::served::ServedReport;
use super::timeline::SecondReport;
use crate::autoscaling::AutoscalerReport;
use crate::facts::{
    BlockTraceFigures, FileCounts, ObjectCounts, PreconditionReport, Roofline, SAMPLES_MAX,
    TierShortage, WatchdogReport, share_of_limits,
};
use crate::figures::given::row;
use crate::source::{SourceReport, ValidationReport};
use crate::{RunResult, SimulationReport, SteadinessReport, Warning, autoscaling};

shapes!(
    BlockTraceFigures,
    FileCounts,
    ObjectCounts,
    PreconditionReport,
    RunLimit,
    SteadinessReport
);

/// Version of the layout of `ringfall`: readers refuse another one.
pub const SCHEMA_VERSION: u32 = 5;

impl Ours {
    /// Whether the storage tier kept entries in a data file, and not as objects or as an engine's
    /// files.
    pub fn has_data_file(&self) -> bool {
        self.objects.is_unknown() && self.files.is_unknown()
    }
}

figures! {
/// Everything that the reference benchmark does not report.
pub struct Ours of result: RunResult {
    /// Version of ringfall that wrote this result.
    pub version: Derived<String>,
    /// Version of the layout of `ringfall`; readers refuse any other.
    pub schema_version: Derived<u32>,
    /// Command line of the run as it was typed, the program's name first.
    pub command_line: Derived<Vec<String>>,
    /// The configuration of the run, with every value in effect.
    pub config: Agreed<ConfigReport> = ConfigReport::of(result),
    /// The machine on which it ran.
    pub machine: Part<Machine> = result.machine.clone(),
    /// Start, length and end of the measurement.
    pub window: Part<WindowReport> = WindowReport::of(result),
    /// The measurement second by second, one row each.
    pub timeline: Timeline<SecondReport> = result.timeline.iter().map(SecondReport::of),
    /// Histograms by name, from which results are merged exactly; null where nothing was measured.
    pub histograms: EncodedHistograms,
    /// Finished and unfinished requests, and the latencies of both together; null when one of the
    /// merged results did not count the unfinished ones.
    pub requests: Derived<Option<RequestsReport>>,
    /// Size of the requests that finished, and where their time went.
    pub served: Part<ServedReport> = ServedReport::of(&result.requests),
    /// Cache activity, by stricter definitions than those of the reference's keys.
    pub cache: Part<CacheReport> = CacheReport::of(result),
    /// Keys under `summary` that hold zeros, as in the reference, because nothing was measured.
    pub not_measured: Derived<Vec<String>>,
    /// Single I/Os on the storage device, as the engine counted them.
    pub io: Part<IoReport> = IoReport::of(&result.engine),
    /// Time spent waiting for something other than an I/O.
    pub waits: Part<WaitsReport>,
    /// Entries that left a tier, by where they went.
    pub evictions: Part<EvictionsReport> = EvictionsReport::of(&result.engine),
    /// Entries that a hit moved to a faster tier, with `--promotion on-hit`.
    #[serde(default)]
    pub promotions: Part<PromotionsReport> = PromotionsReport::of(&result.engine),
    /// Bytes moved between GPU memory and storage or the CPU tier, by the path that they took.
    #[serde(default)]
    pub gpu_moves: Part<GpuMovesReport> = GpuMovesReport::of(&result.engine.gpu_moves),
    /// Backend and devices of the GPU tier, or why there was none; null when none was asked for, by
    /// any of the merged results.
    pub gpu: Option<GpuReport> = result.gpu.as_ref().map(|gpu| GpuReport::of(&(gpu, result))),
    /// The kernel's counters for the storage device beside the engine's own.
    pub device: Part<DeviceReport> = DeviceReport::of(result),
    /// The drives of the storage tier, one row each; of merged results, those of each.
    #[serde(default)]
    pub drives: Rows<DriveReport> = DriveReport::all(result),
    /// Steps and outcome of the search for a queue depth; null without --queue-depth auto.
    pub queue_depth: Option<QueueDepthReport> =
        result.queue_depth.as_ref().map(QueueDepthReport::of),
    /// CPU time, memory and context switches of this process in the window.
    pub cost: Part<CostReport> = CostReport::of(&result.cost),
    /// Limits of the device from `--roofline`, and the share of them that the run used; null
    /// without them.
    pub roofline: Option<RooflineReport> = result
        .roofline
        .as_ref()
        .map(|(source, roofline)| RooflineReport::of(&(source, roofline, result))),
    /// Result of `--precondition`, the writing of the device before the run; null without it, and
    /// in merged results: each found the device as what came before had left it.
    pub precondition: OfRun<PreconditionReport> = result.precondition.clone(),
    /// Whether storage bandwidth was steady in the window; null where the window was too short to
    /// tell (less than 10 s), the run failed, nothing moved, or an autoscaler changed the load, and
    /// in merged results.
    #[serde(default)]
    pub steadiness: OfRun<SteadinessReport> = SteadinessReport::of(result),
    /// Requests to the object store since the start of the run; null unless --cache-dir names one,
    /// in which case there are no counters of a device.
    #[serde(default)]
    pub objects: Added<ObjectCounts> = result.objects.clone(),
    /// Operations on the files of an engine's layout since the start of the run; null without
    /// `--layout`, and in merged results where the layouts differ.
    #[serde(default)]
    pub files: Added<FileCounts> = result.files.clone(),
    /// Activity of the kernel's block layer; null when it was not traced. In merged results the
    /// counts add up; null when they were not all traced on a device of the same name, and for
    /// ranks that used several devices.
    pub block_trace: Added<BlockTraceFigures> = traced(result),
    /// Bottleneck of a simulated run; null for a real run.
    pub simulation: Option<SimulationReport> = result.simulation.clone(),
    /// I/O errors and requests that were not served.
    pub errors: Part<ErrorsReport> = ErrorsReport::of(result),
    /// Verification of the data read against what had been written.
    pub verify: Part<VerifyReport> = VerifyReport::of(result),
    /// Number of requests whose latencies the arrays at the top level hold.
    pub samples: Derived<SamplesReport>,
    /// Results of the autoscaler; null without an autoscaler. In merged results, the findings on
    /// which all of them agree; for ranks whose users it changed together, its findings for all.
    pub autoscaler: Option<AutoscalerReport> = autoscaling::report(result),
    /// Where requests came from, and how they arrived.
    pub source: Part<SourceReport> = SourceReport::of(result),
    /// The run compared with a recorded cache, from `--validation-trace`; absent without it, and in
    /// merged results: a recording is compared with a single run.
    #[serde(default, skip_serializing_if = "OfRun::is_unknown")]
    pub validation: OfRun<ValidationReport> =
        result.validation.as_ref().map(|trace| ValidationReport::of(&(result, trace))),
    /// Shards that were overdue, and for how long.
    pub watchdog: Part<OverdueReport> = OverdueReport::of(&result.watchdog),
    /// Resources that the engine got from the kernel, and the division of its space on storage.
    pub engine: Part<EngineReport> = EngineReport::of(result),
    /// Counters of the engine in the window that no other part holds.
    #[serde(default)]
    pub counters: Counted<Counts> = &result.engine.counts,
    /// Counters of the workload from the start of the run, warm-up included.
    pub workload: Part<WorkloadReport> = WorkloadReport::of(&result.workload),
    /// Tiers that got less space than they were meant to have.
    #[serde(default)]
    pub shortages: Union<ShortageReport> = result.shortages.iter().map(ShortageReport::of),
    /// Which of several processes of a launcher this run was; null when it was alone, and in merged
    /// results, which have a row for each in `merged.ranks`.
    pub rank: OfRun<RankReport> = result.plan.rank.as_ref().map(RankReport::of),
    /// Resource that limited the run, as far as its figures can tell; null where they can't, and in
    /// merged results.
    #[serde(default)]
    pub limit: OfRun<RunLimit>,
    /// Warnings to read before trusting the numbers.
    pub warnings: Union<Warning> = result.warnings.iter().cloned(),
    /// Inputs of a merged result; absent in the result of a single run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub merged: Option<MergedReport>,
}

/// Start, length and end of the measurement window.
pub struct WindowReport of result: RunResult {
    /// Start of the window, s since 1970-01-01T00:00:00Z.
    pub start_unix_s: Min<f64> = result.window.start_unix_s,
    /// Length of the window, s; of merged results, the sum.
    pub seconds: Sum<f64> = result.window.seconds,
    /// Length of the warm-up before the window, s.
    pub warmup_seconds: Sum<f64> = result.window.warmup_seconds,
    /// Time from the end of the window until no I/O was in flight, s.
    pub drain_seconds: Sum<f64> = result.window.drain_seconds,
    /// Whether a signal ended the run early.
    pub interrupted: Any<bool> = result.interrupted,
    /// Failure that ended the run early; null when there was none or a signal ended it.
    pub failure: First<String> = result.failure.clone(),
}

/// CPU time, memory and context switches of this process in the window.
pub struct CostReport from cost: Cost {
    /// CPU time that the process spent in user mode, s.
    pub cpu_user_s: Sum<Option<f64>>,
    /// CPU time that the process spent in the kernel, s.
    pub cpu_system_s: Sum<Option<f64>>,
    /// CPU time in user mode and in the kernel for each GiB that storage moved, s/GiB.
    pub cpu_s_per_gib: Derived<Option<f64>> = None::<f64>,
    /// CPU time that the closest quota of a cgroup allows for each second, in cores; null where no
    /// quota is known.
    #[serde(default)]
    pub cpu_quota_cores: Min<Option<f64>>,
    /// Number of the quota's periods in which threads of its cgroup ran: as the next two, counted
    /// once for all ranks of a machine, which share the cgroup.
    #[serde(default)]
    pub cpu_quota_periods: Sum<Option<u64>>,
    /// Number of those periods in which the quota kept threads from running.
    #[serde(default)]
    pub cpu_throttled_periods: Sum<Option<u64>>,
    /// Time for which the quota kept CPUs from running threads of its cgroup, s: of several CPUs,
    /// the sum.
    #[serde(default)]
    pub cpu_throttled_s: Sum<Option<f64>>,
    /// Largest resident set size of the process, with the most that it held in reserved huge pages,
    /// which the kernel counts apart, bytes.
    pub peak_rss_bytes: Max<Option<u64>>,
    /// Number of context switches because the process waited.
    pub context_switches_voluntary: Sum<Option<u64>>,
    /// Number of context switches that the scheduler forced on the process.
    pub context_switches_involuntary: Sum<Option<u64>>,
}

/// The device's limits, and the share of them that the run used. Of merged results, the limits are
/// null where they differ.
pub struct RooflineReport of (source, roofline, result): (&String, &Roofline, &RunResult) {
    /// File from which the limits were read, or `fresh`: measured just before the run.
    pub source: Same<String> = (*source).clone(),
    /// When the limits were measured, s since 1970-01-01T00:00:00Z.
    pub unix_s: Same<f64> = roofline.unix_s,
    /// Highest bandwidth that the device reaches with reads alone, GiB/s.
    pub read_gib_per_s: Same<f64> = roofline.bandwidth(100).map(|rate| rate / GIB as f64),
    /// Highest bandwidth that the device reaches with writes alone, GiB/s.
    pub write_gib_per_s: Same<f64> = roofline.bandwidth(0).map(|rate| rate / GIB as f64),
    /// Share of the device that the run used, from 0 to 1: the time that the device would need at
    /// its limits for what the run read and wrote, divided by the length of the window. Of merged
    /// results, each held against its own limits; of ranks, which used the device at the same time,
    /// what all of them read and wrote against limits that all of them know.
    pub share: OverTime<f64> = result.roofline_share(),
}

/// I/O errors and requests that were not served.
pub struct ErrorsReport of result: RunResult {
    /// I/O errors during the window, by kind.
    pub by_kind: ByKind<ErrorRow> = result.engine.errors.iter().map(ErrorRow::of),
    /// Number of requests that ended in the window with a failed step.
    pub requests_failed: Sum<u64> = result.requests.failed,
    /// Number of requests that ended in the window because no tier could hold their entry.
    pub requests_refused: Sum<u64> = result.requests.refused,
    /// Number of entries not stored because they were larger than the last tier. Without a storage
    /// tier (`disable_storage`) these are all entries that were dropped: those evicted from the
    /// last tier, and those that fitted in none.
    pub entries_refused: Sum<u64> = result.engine.refused_entries,
    /// Number of entries not stored because storage was full, and nothing leaves it in the layout
    /// of the run's engine.
    pub entries_not_stored: Sum<u64> = result.engine.counts.unstored_entries,
    /// Number of entries that should have been written before the measurement but could not be.
    pub population_failed: Sum<u64> = result.population_failed,
    /// The first I/O errors since the start of the run, as sentences.
    pub first_ever: Union<String> = result.errors.iter().map(told_io),
}

/// Verification of the data read against what had been written.
pub struct VerifyReport of result: RunResult {
    /// Mode of verification: `off`, `sample` (the first 16 bytes of each block) or `full`.
    pub mode: Same<String> = result.plan.verify.name().to_owned(),
    /// Number of 4 KiB blocks that were compared.
    pub blocks_checked: Sum<u64> = result.engine.verify.blocks_checked,
    /// Number of 4 KiB blocks that differed from what had been written.
    pub blocks_bad: Sum<u64> = result.engine.verify.blocks_bad,
}

/// Counters of the workload from the start of the run, warm-up included.
pub struct WorkloadReport from workload: WorkloadStats {
    /// Number of decode steps that found their entry evicted.
    pub decode_misses: Sum<u64>,
    /// Number of entries written again after a decode miss.
    pub decode_rewrites: Sum<u64>,
    /// Number of conversations forgotten because too many were live.
    pub conversations_forgotten: Sum<u64>,
    /// Number of requests whose entry no tier could hold.
    pub requests_refused: Sum<u64> = workload.refused_requests,
    /// Number of documents ingested while the load ran, with `--rag-ingestion beside`.
    pub documents_ingested: Sum<u64>,
    /// Number of documents deleted while the load ran because there were more than
    /// `workload.rag.max_documents`.
    pub documents_evicted: Sum<u64>,
    /// Number of chunks of documents that could not be written while the load ran.
    pub chunks_failed: Sum<u64>,
    /// Number of retrievals left out because no document was complete yet.
    pub retrievals_without_document: Sum<u64>,
}

/// Shards that were overdue, and for how long.
pub struct OverdueReport from watchdog: WatchdogReport {
    /// Number of times that a shard stalled: it was overdue for 1 s or more.
    pub stalls: Sum<u64>,
    /// Longest time within the window for which a shard was overdue, ns: between two of its looks
    /// at I/O, timers and messages while it had work, or after the timer that was to wake it.
    pub overdue_max_ns: Max<u64>,
}
}

/// Counts of the block layer; none where it was not traced, or could not be.
fn traced(result: &RunResult) -> Option<BlockTraceFigures> {
    result.block_trace.as_ref()?.as_ref().ok().cloned()
}

row! {
/// A tier that got less space than it was meant to have.
pub struct ShortageReport from shortage: TierShortage {
    /// Tier that got less: gpu, cpu or storage.
    pub tier: String = shortage.tier.name().to_owned(),
    /// Capacity that the tier was meant to have, bytes.
    pub wanted_bytes: u64,
    /// Capacity that the tier had from `since_s` on, bytes.
    pub given_bytes: u64,
    /// Time from which the tier had that capacity, s after the start of the measurement window
    /// (negative: before it); null: from the start of the run.
    pub since_s: Option<f64>,
    /// Time at which the tier began to grow again, by the same clock; null: it did not.
    #[serde(default)]
    pub until_s: Option<f64>,
    /// Why the tier got no more.
    pub why: String,
}

/// I/O errors of one kind, on one operation, with one error number.
pub struct ErrorRow from record: ErrorRecord {
    /// Name of the kind of error.
    pub kind: String = record.kind.name().to_owned(),
    /// Operation that failed: read, write or flush.
    pub operation: String = record.operation.name().to_owned(),
    /// The kernel's error number (errno); 0 when there was none. From 65,536 on, the status that an
    /// NVMe drive answered a command with, and 65,536 (with `nvme_passthrough`).
    pub errno: i32,
    /// Number of these errors during the measurement window.
    pub count: u64,
    /// The first of these errors, as a sentence.
    pub first: String = record.first.to_string(),
}

/// Number of requests whose latencies the arrays at the top level hold.
pub struct SamplesReport of (kept, of): (usize, u64) {
    /// Number of requests whose latencies the arrays hold.
    pub kept: Fact<usize> = *kept,
    /// Number of requests that finished in the window.
    pub of: Fact<u64> = *of,
    /// Largest number of requests whose latencies the arrays can hold.
    pub kept_max: Fact<usize> = SAMPLES_MAX,
    /// Whether the arrays hold a sample of the requests instead of all of them.
    pub sampled: Fact<bool> = *of > *kept as u64,
}
}

impl RooflineReport {
    /// Whether both are what one search has found, or one file says.
    pub(super) fn is_of_the_same_search(&self, other: &RooflineReport) -> bool {
        *other == RooflineReport { share: other.share, ..self.clone() }
    }

    /// The same limits, of which reads and writes of so many bytes a second use a part.
    pub(super) fn used(self, bytes_per_s: Option<(f64, f64)>) -> RooflineReport {
        let limits = [self.read_gib_per_s, self.write_gib_per_s]
            .map(|gib_per_s| Some(gib_per_s.known()? * GIB as f64));
        let share = bytes_per_s.and_then(|rates| share_of_limits(rates.into(), limits));
        RooflineReport { share: OverTime::maybe(share), ..self }
    }
}

impl Merge for ByKind<ErrorRow> {
    const RULE: &'static str = "by kind";

    fn merged(all: &[&Self], _: &Inputs) -> Self {
        let mut merged: BTreeMap<(String, String, String), ErrorRow> = BTreeMap::new();
        for row in all.iter().flat_map(|list| list.iter()) {
            // By the number's digits, as merged results have always been ordered.
            let key = (row.kind.clone(), row.operation.clone(), row.errno.to_string());
            merged
                .entry(key)
                .and_modify(|there| there.count = there.count.saturating_add(row.count))
                .or_insert_with(|| row.clone());
        }
        merged.into_values().collect()
    }
}
