//! The plan: the whole effective configuration of a run, validated and typed.

use std::collections::BTreeMap;
use std::path::PathBuf;

use ringfall_workloads::layout::LayoutPlan;
use ringfall_workloads::model::ModelSpec;

use super::rules::real_only;
use super::words::{PhaseMode, ReplayedRows, choice};
use super::{Options, Rank, Settings, WorkloadSection};

choice! {
    /// Limits of whoever moves the objects of an engine's layout.
    LayoutLimits {
        /// The engine's threads, each with one system call at a time.
        Theirs = "theirs",
        /// The same calls with 64 objects in flight.
        Ours = "ours",
    }
}

choice! {
    /// Goal that `storage_health` judges a run by.
    PerformanceProfile {
        /// Whether latencies are within their targets, and the cache's hit rate high enough.
        Latency = "latency",
        /// Whether tokens are generated, and bytes moved in every direction that the mode uses.
        Throughput = "throughput",
    }
}

choice! {
    /// Behavior of a run when one of several drives fails.
    OnDeviceFailure {
        /// The run ends as failed, with what was measured so far.
        Stop = "stop",
        /// The run loses the data on the drive, and goes on with the others.
        Continue = "continue",
    }
}

choice! {
    /// Backend of the GPU tier.
    GpuBackend {
        /// NVIDIA GPUs, through their driver, where they can be used; otherwise the run goes on
        /// without the tier.
        Auto = "auto",
        /// NVIDIA GPUs, through their driver; the run ends where they cannot be used.
        Cuda = "cuda",
        /// Host memory in place of a GPU's; its figures say nothing about a GPU.
        Emulated = "emulated",
        /// No backend; the run goes on without the tier.
        None = "none",
    }
}

choice! {
    /// Path of bytes between GPU memory and storage.
    GpuTransfer {
        /// Past host memory where a trial write and read show that it works; otherwise as `pinned`.
        Auto = "auto",
        /// Through I/O buffers that are page-locked for the GPUs.
        Pinned = "pinned",
        /// Past host memory, by GPUDirect Storage; where it does not work, as `pinned`, which the
        /// results report, or not at all with --strict.
        Gds = "gds",
    }
}

choice! {
    /// Effect of a hit below the fastest tier on the entry.
    Promotion {
        /// The entry stays where it is.
        None = "none",
        /// The entry moves to the fastest tier.
        OnHit = "on-hit",
    }
}

/// Buffers of each thread that preconditions, bytes: 16 writes of 1 MiB in flight.
pub const PRECONDITION_THREAD_BYTES: u64 = 16 << 20;

choice! {
    /// Condition that ends preconditioning.
    Until {
        /// When all of --precondition-size-gb is written.
        Bytes = "size",
        /// When write bandwidth is steady; at the latest when all of that size is written.
        Steady = "steady",
    }
}

/// Where the limits come from that a run is held against.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RooflineFrom {
    /// Measured before the run.
    Fresh,
    /// A file of `ringfall saturate`.
    File(PathBuf),
}

choice! {
    /// Relation between the processes that a launcher started.
    Ranks {
        /// Each process is a rank: it takes its share of the machine, and all of them measure at
        /// the same time. They meet by MPI if the program was built with it, and otherwise in a
        /// directory.
        Auto = "auto",
        /// As with auto, but ranks always meet in the directory of their results.
        Directory = "directory",
        /// As with auto, but ranks always meet by MPI.
        Mpi = "mpi",
        /// Each process runs on its own and ignores the others.
        Off = "off",
    }
}

choice! {
    /// Whether rank 0 merges the results of all ranks when they have ended.
    MergeRanks {
        /// Results are merged unless a wrapper has given each rank paths of its own.
        Auto = "auto",
        /// Results are merged.
        On = "on",
        /// Each rank keeps its own results; none are merged.
        Off = "off",
    }
}

choice! {
    /// When the times of a logical trace begin.
    TraceEpoch {
        /// 2024-01-01T00:00:00Z, so that the same run always makes the same file.
        Fixed = "fixed",
        /// The time at which the run begins.
        Now = "now",
    }
}

choice! {
    /// Level of the program's own log on standard error.
    LogLevel {
        /// Only failures; `critical` means the same.
        Error = "error" | "critical" | "ERROR" | "CRITICAL",
        /// Also problems that someone should look at.
        Warn = "warn" | "warning" | "WARN" | "WARNING",
        /// Also milestones of the run.
        Info = "info" | "INFO",
        /// Also details that explain what the program does.
        Debug = "debug" | "DEBUG",
        /// Also every single step.
        Trace = "trace",
    }
}

choice! {
    /// Form of a run's progress on a terminal.
    ProgressForm {
        /// Five lines, rewritten in place, on a terminal that has at least 12 rows and 60 columns
        /// and can move its cursor; otherwise as `line`.
        Auto = "auto",
        /// One line, rewritten in place.
        Line = "line",
    }
}

ringfall_core::named! {
/// Where a value came from; later ones win.
#[derive(PartialOrd, Ord)]
pub enum Origin {
    /// `config/default.yaml`, built in.
    Default = "default",
    /// Worked out from this machine or from other values.
    Computed = "computed",
    /// The small demonstration of a run that is asked for no workload and no size.
    Demo = "demo",
    /// The defaults of a run with a plain DIR.
    Own = "own",
    /// The file given with `--config`.
    File = "file",
    /// The command line.
    CommandLine = "command_line",
}
}

impl Origin {
    /// As the comments of `ringfall config` say it.
    pub const fn text(self) -> &'static str {
        match self {
            Origin::Default => "default",
            Origin::Computed => "worked out for this machine",
            Origin::Demo => "the demo's",
            Origin::Own => "default with DIR",
            Origin::File => "configuration file",
            Origin::CommandLine => "command line",
        }
    }
}

/// Where requests come from.
#[derive(Clone, Debug, PartialEq)]
pub enum Traffic {
    /// Users with drawn conversations.
    Drawn,
    /// Users who repeat a ShareGPT dataset's conversations.
    ShareGpt {
        /// The file.
        path: PathBuf,
    },
    /// A trace with times.
    Trace {
        /// Format of the trace.
        kind: TraceKind,
        /// File, directory or pattern.
        path: PathBuf,
    },
}

impl Traffic {
    /// As it is reported.
    pub const fn name(&self) -> &'static str {
        match self {
            Traffic::Drawn => "synthetic",
            Traffic::ShareGpt { .. } => "sharegpt",
            Traffic::Trace { kind: TraceKind::BurstGpt, .. } => "burstgpt",
            Traffic::Trace { kind: TraceKind::Mooncake, .. } => "mooncake",
            Traffic::Trace { kind: TraceKind::Recorded, .. } => "recorded",
            Traffic::Trace { kind: TraceKind::Io(_), .. } => "io_trace",
        }
    }
}

/// A published form of trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceKind {
    /// CSV, a request a row.
    BurstGpt,
    /// JSONL with prefix blocks.
    Mooncake,
    /// A format that is recognised when the trace is opened.
    Recorded,
    /// Operations on entries.
    Io(ReplayedRows),
}

/// Everything a run needs to know; every field is within its bounds and consistent with the
/// others. Made by [`super::resolve`]. What a setting says by itself is read as if it were a field
/// here: `plan.trials`.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Each setting by itself, checked.
    pub settings: Settings,
    /// The model that the settings name.
    pub model_spec: ModelSpec,
    /// Layout of an engine in which the storage tier keeps entries; none: ringfall's own.
    pub layout_plan: Option<LayoutPlan>,
    /// Simulated users when the run begins, 1..=1,000,000; in a run that moves data 1..=100,000.
    pub users: u32,
    /// I/Os in flight at most, each shard on each drive: what rings and buffers are made for.
    pub queue_depth: u32,
    /// Whether the warm-up finds a smaller depth that is enough; and the depth where it can't.
    pub depth_search: Option<u32>,
    /// GPU tier, all GPUs together, as asked for or, once a run has begun, as it is; 0: no such
    /// tier.
    pub gpu_memory_bytes: u64,
    /// Numbers of the GPUs to use; none: the first ones.
    pub gpu_indices: Option<Vec<u32>>,
    /// Prefill, decode, or both.
    pub phases: PhaseMode,
    /// Documents ingested before the run; 0: no retrieval.
    pub rag_documents: u32,
    /// Where requests come from.
    pub traffic: Traffic,
    /// Whether this is the small demonstration of a run that is asked for no workload and no size.
    pub demo: bool,
    /// Its place among the processes of a launcher, and its share; none when it is no rank.
    pub rank: Option<Rank>,
    /// Settings of the file's `workload` section, which have no flags, with their defaults.
    pub workload: WorkloadSection,
    /// The CPU tier that was asked for, bytes, where this machine has less memory; and what says
    /// so.
    pub cpu_memory_wanted: Option<(u64, String)>,
    /// Sentences about what was asked for and has no effect, or another than it seems.
    pub told: Vec<String>,
    /// Where each value came from, by its YAML key (`num_users`; `workload` as a whole).
    pub origins: BTreeMap<&'static str, Origin>,
    /// All layers merged, as typed: what is worked out for this machine is still `auto` there.
    pub typed: Options,
    /// The same with every `auto` replaced by what it came to.
    pub effective: Options,
}

impl std::ops::Deref for Plan {
    type Target = Settings;

    fn deref(&self) -> &Settings {
        &self.settings
    }
}

impl std::ops::DerefMut for Plan {
    fn deref_mut(&mut self) -> &mut Settings {
        &mut self.settings
    }
}

impl Plan {
    /// Largest saturation that a search allows: 1 with `--slo`, whose targets are met or missed.
    #[must_use]
    pub fn saturation_max(&self) -> f64 {
        if self.slo.is_some() { 1.0 } else { self.target_saturation }
    }

    /// Settings given that need a real drive: the flags, and why each has no effect without one.
    pub fn asked_of_a_drive(&self) -> Vec<(String, &'static str)> {
        let is_given =
            |key: &&str| matches!(self.origins.get(*key), Some(Origin::CommandLine | Origin::File));
        let asked = self.typed.changed().into_iter().filter(is_given);
        let flag = |key: &str| format!("--{}", key.replace('_', "-"));
        asked.filter_map(|key| Some((flag(key), real_only(key)?))).collect()
    }

    /// Number of ranks that wait for each other and measure together; none where this run is alone,
    /// or where ranks begin at a time that each was given.
    pub fn group_size(&self) -> Option<u32> {
        let (size, _) = self.rank.as_ref().and_then(Rank::meeting)?;
        self.start_at_unix_s.is_none().then_some(size)
    }

    /// Whether the run ends when its requests do: those asked for, or those of a trace.
    pub fn ends_when_exhausted(&self) -> bool {
        let has_trace = matches!(self.traffic, Traffic::Trace { .. });
        self.max_requests.is_some() || (has_trace && self.replay_cycles > 0)
    }

    /// One of the plan's trials: the same run once, with a result file of its own.
    pub fn trial(&self, output: PathBuf) -> Plan {
        let mut trial = self.clone();
        trial.settings.trials = 1;
        trial.settings.output.clone_from(&output);
        trial.typed.trials = Some(1);
        trial.effective.trials = Some(1);
        trial.effective.output = Some(output);
        trial
    }
}
