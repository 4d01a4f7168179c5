//! The plan: the whole effective configuration of a run, validated and typed.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::ValueEnum;
use ringfall_workloads::model::ModelSpec;
use serde::{Deserialize, Serialize};

/// Defines an enum whose values are spelled the same on the command line, in YAML and in JSON.
macro_rules! choice {
    (
        $(#[$doc:meta])*
        $name:ident { $($(#[$vdoc:meta])* $variant:ident = $text:literal),+ $(,)? }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum, Serialize, Deserialize)]
        pub enum $name {
            $($(#[$vdoc])* #[value(name = $text)] #[serde(rename = $text)] $variant),+
        }

        impl $name {
            /// As it is typed and reported.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $($name::$variant => $text),+ }
            }
        }
    };
}

choice! {
    /// How long a request waits for each token it generates.
    GenerationMode {
        /// Not at all.
        None = "none",
        /// 2 ms a token.
        Fast = "fast",
        /// 30 ms a token.
        Realistic = "realistic",
    }
}

choice! {
    /// What `storage_health` judges.
    PerformanceProfile {
        /// Latency targets and the hit rate.
        Latency = "latency",
        /// That every direction the mode uses moves bytes.
        Throughput = "throughput",
    }
}

choice! {
    /// When a user asks again.
    Arrival {
        /// After thinking, whether or not the last answer came.
        Open = "open",
        /// After the last answer, and thinking.
        Closed = "closed",
        /// At random times, `request_rate_per_s` in total.
        Poisson = "poisson",
    }
}

choice! {
    /// What the autoscaler looks for.
    AutoscalerMode {
        /// The most users that are served in time.
        Qos = "qos",
        /// The peak throughput.
        Capacity = "capacity",
    }
}

choice! {
    /// How a dataset's tokens are counted.
    Tokenizer {
        /// Exactly, by the vocabulary of GPT-4.
        Cl100k = "cl100k",
        /// Four characters a token.
        Estimate = "estimate",
    }
}

choice! {
    /// When a storage write counts as done.
    Durability {
        /// After a data sync.
        Flush = "flush",
        /// When the device has taken it.
        None = "none",
    }
}

choice! {
    /// How much of what is read is compared with what was written.
    Verify {
        /// Nothing.
        Off = "off",
        /// The first 16 bytes of each 4 KiB block.
        Sample = "sample",
        /// Every byte.
        Full = "full",
    }
}

choice! {
    /// What a hit below the fastest tier does to the entry.
    Promotion {
        /// Nothing.
        None = "none",
        /// Moves it to the fastest tier.
        OnHit = "on-hit",
    }
}

choice! {
    /// When preconditioning ends.
    PreconditionUntil {
        /// When all bytes are written.
        Size = "size",
        /// When write bandwidth is steady, at the latest when all bytes are written.
        Steady = "steady",
    }
}

/// What is written before the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PreconditionAsked {
    /// Bytes; 0: twice the capacity.
    pub bytes: u64,
    /// Threads; 0: one a shard.
    pub threads: u32,
    /// When it ends.
    pub until: PreconditionUntil,
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
    /// How the data files get their space.
    Preallocate {
        /// Space is reserved; the first write of each block is slower ("first touch").
        Reserve = "reserve",
        /// Every block is written once before the run.
        Write = "write",
    }
}

choice! {
    /// Which operations of a logical trace are replayed.
    ReplayTiers {
        /// Those that reached storage, evictions to it included.
        Storage = "storage",
        /// What was asked for, in any tier.
        All = "all",
    }
}

choice! {
    /// When the times of a logical trace begin.
    TraceEpoch {
        /// 2024-01-01T00:00:00Z.
        Fixed = "fixed",
        /// When the run begins.
        Now = "now",
    }
}

choice! {
    /// What is said on standard error about the program's own workings.
    LogLevel {
        /// Failures only.
        Error = "error",
        /// What a person should look at.
        Warn = "warn",
        /// Milestones.
        Info = "info",
        /// For finding out what the program does.
        Debug = "debug",
        /// Everything.
        Trace = "trace",
    }
}

/// Which phases the requests have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phases {
    /// Prefill, then decode.
    Both,
    /// `--prefill-only`: no decode reads.
    PrefillOnly,
    /// `--decode-only`: only reads, of entries populated before.
    DecodeOnly,
}

impl Phases {
    /// As it is reported.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Phases::Both => "both",
            Phases::PrefillOnly => "prefill-only",
            Phases::DecodeOnly => "decode-only",
        }
    }
}

/// Where a value came from; later ones win.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// `config/default.yaml`, built in.
    Default,
    /// Worked out from this machine or from other values.
    Computed,
    /// The small run that a bare `ringfall run` makes.
    Demo,
    /// The file given with `--config`.
    File,
    /// The command line.
    CommandLine,
}

impl Origin {
    /// As it is reported.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Origin::Default => "default",
            Origin::Computed => "computed",
            Origin::Demo => "demo",
            Origin::File => "file",
            Origin::CommandLine => "command_line",
        }
    }

    /// As the comments of `ringfall config` say it.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Origin::Default => "default",
            Origin::Computed => "worked out for this machine",
            Origin::Demo => "the demo's",
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
        /// Conversations taken; 0: all.
        conversations_max: u32,
        /// How its tokens are counted.
        tokenizer: Tokenizer,
    },
    /// A trace with times.
    Trace {
        /// Of which kind.
        kind: TraceKind,
        /// File, directory or pattern.
        path: PathBuf,
        /// Gaps are divided by this; 0: none.
        speedup: f64,
        /// How often; 0: until the time is over.
        cycles: u32,
    },
}

impl Traffic {
    /// As it is reported.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Traffic::Drawn => "synthetic",
            Traffic::ShareGpt { .. } => "sharegpt",
            Traffic::Trace { kind: TraceKind::BurstGpt, .. } => "burstgpt",
            Traffic::Trace { kind: TraceKind::Mooncake, .. } => "mooncake",
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
    /// Operations on entries.
    Io(ReplayTiers),
}

/// How users are added and removed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AutoscalerPlan {
    /// What is looked for.
    pub mode: AutoscalerMode,
    /// Users to begin with.
    pub initial_users: u32,
    /// Share of its target that a class's P95 may take.
    pub target_saturation: f64,
}

/// Everything a run needs to know; every field is within its bounds and consistent with the
/// others. Made by [`super::resolve`].
#[derive(Clone, Debug)]
pub struct Plan {
    /// Name of a known model.
    pub model: String,
    /// That model.
    pub model_spec: ModelSpec,
    /// Simulated users, 1..=100,000.
    pub users: u32,
    /// Length of the measurement window, s.
    pub duration_s: u64,
    /// Ramp-up before it, not measured, s.
    pub warmup_s: u64,
    /// GPU tier, all GPUs together; 0: no such tier.
    pub gpu_memory_bytes: u64,
    /// CPU tier; 0: no such tier.
    pub cpu_memory_bytes: u64,
    /// GPUs, ≥ 1.
    pub gpus: u32,
    /// An entry is divided by this, 1..=`gpus`.
    pub tensor_parallel: u32,
    /// Where the data files go; `None`: a fresh directory under the system's temp.
    pub cache_dir: Option<PathBuf>,
    /// Whether a block device there may be written over.
    pub destroy_device_contents: bool,
    /// Storage tier; 0: 95 % of what the file system has free.
    pub storage_capacity_bytes: u64,
    /// Waiting for generated tokens.
    pub generation_mode: GenerationMode,
    /// What `storage_health` judges.
    pub performance_profile: PerformanceProfile,
    /// Whether conversations have more than one turn.
    pub multi_turn: bool,
    /// Whether requests share system prompts.
    pub prefix_caching: bool,
    /// Prefill, decode, or both.
    pub phases: Phases,
    /// When users ask again.
    pub arrival: Arrival,
    /// Arrivals a second in total; 0: users or the trace decide.
    pub request_rate_per_s: f64,
    /// The run ends after so many requests; `None`: with its time.
    pub max_requests: Option<u64>,
    /// Prefill writes at once; `None`: unbounded.
    pub max_concurrent_allocs: Option<u32>,
    /// Requests being served at once, ≥ 1.
    pub max_inflight_requests: u32,
    /// Documents ingested before the run; 0: no retrieval.
    pub rag_documents: u32,
    /// Where requests come from.
    pub traffic: Traffic,
    /// A recorded cache's fate, to compare with.
    pub validation_trace: Option<PathBuf>,
    /// Whether and how users are added and removed.
    pub autoscaler: Option<AutoscalerPlan>,
    /// Every draw follows from it.
    pub seed: u64,
    /// Whether the seed was drawn at random because none was given.
    pub seed_drawn: bool,
    /// When a storage write counts as done.
    pub durability: Durability,
    /// How much is verified.
    pub verify: Verify,
    /// Whether hits move up.
    pub promotion: Promotion,
    /// How space is allocated.
    pub preallocate: Preallocate,
    /// What is written before the run, if anything.
    pub precondition: Option<PreconditionAsked>,
    /// Limits to hold the run against.
    pub roofline: Option<RooflineFrom>,
    /// Executors, ≥ 1.
    pub shards: u16,
    /// Whether each is bound to a core.
    pub pin: bool,
    /// Entries are cut in I/Os of at most this, a multiple of 4 KiB.
    pub io_size_bytes: u32,
    /// I/Os in flight a shard, ≥ 1.
    pub queue_depth: u32,
    /// Registered I/O buffers of the whole engine; at least one I/O a shard.
    pub io_buffer_bytes: u64,
    /// Runs one after the other, ≥ 1.
    pub trials: u32,
    /// Where the JSON goes.
    pub output: PathBuf,
    /// Where the workbook or CSV goes.
    pub xlsx_output: Option<PathBuf>,
    /// Where the page goes.
    pub html_output: Option<PathBuf>,
    /// Whether the block layer is traced.
    pub latency_tracing: bool,
    /// Where the fio job goes.
    pub fio_output: Option<PathBuf>,
    /// Where the logical trace goes; then no I/O is done.
    pub io_trace_log: Option<PathBuf>,
    /// When its times begin.
    pub trace_epoch: TraceEpoch,
    /// Whether a FAIL of `storage_health` fails the run.
    pub fail_on_health: bool,
    /// No banner, no progress, no summary.
    pub quiet: bool,
    /// The JSON on standard output too; everything else then goes to standard error.
    pub json: bool,
    /// What is logged.
    pub log_level: LogLevel,
    /// Whether this is the small run that a bare `ringfall run` makes.
    pub demo: bool,
    /// The `workload` section.
    pub workload: super::WorkloadSection,
    /// Where each value came from, by its YAML key (`num_users`; `workload` as a whole).
    pub origins: BTreeMap<&'static str, Origin>,
    /// All layers merged, as typed: what is worked out here is still `auto` there.
    pub settings: super::Options,
}
