//! The settings of a run as typed: the same names on the command line and in YAML
//! (`--num-users`, `num_users`). Nothing is checked here but the type.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::Args;
use ringfall_workloads::model::ModelSpec;
use serde::{Deserialize, Serialize};

use super::values::{Auto, Size};
use super::{
    Arrival, AutoscalerMode, Durability, GenerationMode, LogLevel, PerformanceProfile, Preallocate,
    PreconditionUntil, Promotion, ReplayTiers, Tokenizer, TraceEpoch, Verify, WorkloadSection,
};

/// Defines the settings once: a struct whose fields are all optional, so that one layer can lie
/// over another, and the list of their names.
macro_rules! options {
    ($($(#[$attribute:meta])* $name:ident: $type:ty,)+) => {
        /// One layer of settings; `None`: this layer says nothing about it.
        #[derive(Clone, Debug, Default, PartialEq, Args, Serialize, Deserialize)]
        #[serde(deny_unknown_fields)]
        pub struct Options {
            $($(#[$attribute])* #[serde(default)] pub $name: Option<$type>,)+
            /// Models by name; YAML only.
            #[arg(skip)]
            #[serde(default)]
            pub models: Option<BTreeMap<String, ModelSpec>>,
            /// The `workload` section; YAML only.
            #[arg(skip)]
            #[serde(default)]
            pub workload: Option<WorkloadSection>,
        }

        impl Options {
            /// All names, as in YAML.
            pub const KEYS: &'static [&'static str] =
                &[$(stringify!($name),)+ "models", "workload"];

            /// This layer, and `below` where this one says nothing.
            #[must_use]
            pub fn over(self, below: Options) -> Options {
                Options {
                    $($name: self.$name.or(below.$name),)+
                    models: self.models.or(below.models),
                    workload: self.workload.or(below.workload),
                }
            }

            /// Names that this layer says something about.
            #[must_use]
            pub fn given(&self) -> Vec<&'static str> {
                let mut names = Vec::new();
                $(if self.$name.is_some() { names.push(stringify!($name)); })+
                if self.models.is_some() { names.push("models"); }
                if self.workload.is_some() { names.push("workload"); }
                names
            }
        }
    };
}

options! {
    /// Model whose KV cache is simulated
    #[arg(long, value_name = "NAME", help_heading = "Workload")]
    model: String,
    /// Simulated users, 1 to 100000
    #[arg(
        long, alias = "users", value_name = "N", allow_negative_numbers = true,
        help_heading = "Workload"
    )]
    #[serde(alias = "users")]
    num_users: i64,
    /// Length of the measurement in seconds, 1 to 86400
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true, help_heading = "Workload")]
    duration: i64,
    /// Seconds of ramp-up before it that are not measured
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true, help_heading = "Workload")]
    warmup: i64,
    /// When a user asks again: open, closed or poisson
    #[arg(long, value_enum, value_name = "MODE", help_heading = "Workload")]
    arrival: Arrival,
    /// Arrivals a second in total, for --arrival poisson
    #[arg(
        long, value_name = "PER_SECOND", allow_negative_numbers = true, help_heading = "Workload"
    )]
    request_rate: f64,
    /// End after so many requests; 0: when the time is over
    #[arg(long, value_name = "N", allow_negative_numbers = true, help_heading = "Workload")]
    max_requests: i64,
    /// Requests being served at once; auto: min(users, 500)
    #[arg(long, value_name = "N", allow_negative_numbers = true, help_heading = "Workload")]
    max_inflight_requests: Auto<i64>,
    /// Prefill writes at once; 0: unbounded
    #[arg(long, value_name = "N", allow_negative_numbers = true, help_heading = "Workload")]
    max_concurrent_allocs: i64,
    /// Waiting for each generated token: none, fast (2 ms) or realistic (30 ms)
    #[arg(long, value_enum, value_name = "MODE", help_heading = "Workload")]
    generation_mode: GenerationMode,
    /// Conversations have one turn only
    #[arg(
        long, num_args = 0..=1, require_equals = true, default_missing_value = "true",
        value_name = "BOOL", help_heading = "Workload"
    )]
    disable_multi_turn: bool,
    /// No shared system prompts
    #[arg(
        long, num_args = 0..=1, require_equals = true, default_missing_value = "true",
        value_name = "BOOL", help_heading = "Workload"
    )]
    disable_prefix_caching: bool,
    /// Only write: no decode reads
    #[arg(
        long, num_args = 0..=1, require_equals = true, default_missing_value = "true",
        value_name = "BOOL", help_heading = "Workload"
    )]
    prefill_only: bool,
    /// Only read: entries are populated first
    #[arg(
        long, num_args = 0..=1, require_equals = true, default_missing_value = "true",
        value_name = "BOOL", help_heading = "Workload"
    )]
    decode_only: bool,
    /// Give some requests chunks of documents, which are ingested before the run
    #[arg(
        long, num_args = 0..=1, require_equals = true, default_missing_value = "true",
        value_name = "BOOL", help_heading = "Workload"
    )]
    enable_rag: bool,
    /// Documents, for --enable-rag
    #[arg(long, value_name = "N", allow_negative_numbers = true, help_heading = "Workload")]
    rag_num_docs: i64,
    /// Every draw follows from it; auto: drawn at random, and printed
    #[arg(long, value_name = "U64", help_heading = "Workload")]
    seed: Auto<u64>,

    /// Replay a BurstGPT trace instead of drawn users; needs --burst-trace-path
    #[arg(
        long, num_args = 0..=1, require_equals = true, default_missing_value = "true",
        value_name = "BOOL", help_heading = "Traces"
    )]
    use_burst_trace: bool,
    /// The BurstGPT CSV: a file, a directory or a pattern; also .gz and .zst
    #[arg(long, value_name = "PATH", help_heading = "Traces")]
    burst_trace_path: PathBuf,
    /// Replay a Mooncake JSONL trace: its prefix blocks are the cache's entries
    #[arg(long, value_name = "FILE", help_heading = "Traces")]
    mooncake_trace: PathBuf,
    /// Replay a logical trace: its operations on the real engine (`ringfall replay` is short for
    /// it)
    #[arg(long, value_name = "FILE", help_heading = "Traces")]
    replay_trace: PathBuf,
    /// Which of its operations: those that reached storage, or all that were asked for, in whatever
    /// tier
    #[arg(long, value_enum, value_name = "TIERS", help_heading = "Traces")]
    replay_tiers: ReplayTiers,
    /// Divide a trace's gaps by this; 0: no gaps
    #[arg(long, value_name = "FACTOR", allow_negative_numbers = true, help_heading = "Traces")]
    trace_speedup: f64,
    /// Replay a trace so often; 0: until the time is over
    #[arg(long, value_name = "N", allow_negative_numbers = true, help_heading = "Traces")]
    replay_cycles: i64,
    /// Users repeat the conversations of this ShareGPT JSON
    #[arg(long, value_name = "FILE", help_heading = "Traces")]
    dataset_path: PathBuf,
    /// Conversations taken of it; 0: all
    #[arg(long, value_name = "N", allow_negative_numbers = true, help_heading = "Traces")]
    max_conversations: i64,
    /// How its tokens are counted: cl100k, or estimate (4 characters a token)
    #[arg(long, value_enum, value_name = "NAME", help_heading = "Traces")]
    tokenizer: Tokenizer,
    /// Compare the hit rate with that of a recorded cache: rows with cache_hit
    #[arg(long, value_name = "FILE", help_heading = "Traces")]
    validation_trace: PathBuf,

    /// Add and remove users while it runs, to find out how many
    #[arg(
        long, num_args = 0..=1, require_equals = true, default_missing_value = "true",
        value_name = "BOOL", help_heading = "Autoscaler"
    )]
    enable_autoscaling: bool,
    /// qos: the most users that are served in time; capacity: the peak throughput
    #[arg(long, value_enum, value_name = "MODE", help_heading = "Autoscaler")]
    autoscaler_mode: AutoscalerMode,
    /// Mode qos: a class's P95 may be this share of its target, 0 to 1
    #[arg(long, value_name = "SHARE", allow_negative_numbers = true, help_heading = "Autoscaler")]
    target_saturation: f64,

    /// GPU tier, GiB a GPU; this version has none: 0
    #[arg(
        long, alias = "gpu-memory-gb", value_name = "GIB", allow_negative_numbers = true,
        help_heading = "Tiers"
    )]
    #[serde(alias = "gpu_memory_gb")]
    gpu_mem_gb: f64,
    /// CPU tier, GiB; auto: the smaller of 32 and half of the memory available
    #[arg(
        long, alias = "cpu-memory-gb", value_name = "GIB", allow_negative_numbers = true,
        help_heading = "Tiers"
    )]
    #[serde(alias = "cpu_memory_gb")]
    cpu_mem_gb: Auto<f64>,
    /// GPUs
    #[arg(long, value_name = "N", allow_negative_numbers = true, help_heading = "Tiers")]
    num_gpus: i64,
    /// GPUs that share an entry: its size is divided by this
    #[arg(long, value_name = "N", allow_negative_numbers = true, help_heading = "Tiers")]
    tensor_parallel: i64,
    /// Directory of the data files, or a block device; auto: a fresh directory under the system's
    /// temp
    #[arg(long, value_name = "DIR", help_heading = "Tiers")]
    cache_dir: PathBuf,
    /// Let a block device given as --cache-dir be written over
    #[arg(
        long, num_args = 0..=1, require_equals = true, default_missing_value = "true",
        value_name = "BOOL", help_heading = "Tiers"
    )]
    destroy_device_contents: bool,
    /// Storage tier, GiB; 0: 95 % of what is free there
    #[arg(long, value_name = "GIB", allow_negative_numbers = true, help_heading = "Tiers")]
    storage_capacity_gb: f64,
    /// Write the storage tier's capacity over before the run, as often as the next flags say
    #[arg(
        long, num_args = 0..=1, require_equals = true, default_missing_value = "true",
        value_name = "BOOL", help_heading = "Tiers"
    )]
    precondition: bool,
    /// Bytes written by --precondition, GiB; 0: twice the capacity
    #[arg(long, value_name = "GIB", allow_negative_numbers = true, help_heading = "Tiers")]
    precondition_size_gb: f64,
    /// Threads of --precondition; 0: one a shard
    #[arg(long, value_name = "N", allow_negative_numbers = true, help_heading = "Tiers")]
    precondition_threads: i64,
    /// When --precondition ends: size, or steady (when write bandwidth is, at the latest with size)
    #[arg(long, value_enum, value_name = "END", help_heading = "Tiers")]
    precondition_until: PreconditionUntil,
    /// What a hit below the fastest tier does to the entry: none or on-hit
    #[arg(long, value_enum, value_name = "MODE", help_heading = "Tiers")]
    promotion: Promotion,

    /// Executor threads; auto: one a core
    #[arg(long, value_name = "N", allow_negative_numbers = true, help_heading = "Engine")]
    shards: Auto<i64>,
    /// Bind each to a core
    #[arg(
        long, num_args = 0..=1, require_equals = true, default_missing_value = "true",
        value_name = "BOOL", help_heading = "Engine"
    )]
    pin: bool,
    /// Largest single I/O, such as 128k or 1MiB; a multiple of 4 KiB
    #[arg(long, value_name = "SIZE", help_heading = "Engine")]
    io_size: Size,
    /// I/Os in flight a shard; auto: 64, or less so that all shards have at most 1024
    #[arg(long, value_name = "N", allow_negative_numbers = true, help_heading = "Engine")]
    queue_depth: Auto<i64>,
    /// I/O buffers of the whole engine, MiB; auto: what the two above need, at most 1024
    #[arg(long, value_name = "MIB", allow_negative_numbers = true, help_heading = "Engine")]
    io_buffer_mb: Auto<i64>,
    /// When a storage write is done: flush (after a data sync) or none
    #[arg(long, value_enum, value_name = "MODE", help_heading = "Engine")]
    durability: Durability,
    /// How much of what is read is checked: off, sample or full
    #[arg(long, value_enum, value_name = "MODE", help_heading = "Engine")]
    verify: Verify,
    /// How data files get their space: reserve, or write (every block once, before the run)
    #[arg(long, value_enum, value_name = "MODE", help_heading = "Engine")]
    preallocate: Preallocate,

    /// What storage_health judges: latency or throughput
    #[arg(long, value_enum, value_name = "PROFILE", help_heading = "Results")]
    performance_profile: PerformanceProfile,
    /// Runs one after the other, 1 to 1000; each keeps its JSON, --output gets all of them merged
    #[arg(long, value_name = "N", allow_negative_numbers = true, help_heading = "Results")]
    trials: i64,
    /// Limits to hold the run against: a file of `ringfall saturate`, or fresh: measured before it
    #[arg(long, value_name = "FILE", help_heading = "Results")]
    roofline: PathBuf,
    /// The JSON results; auto: results/ringfall-TIME.json
    #[arg(long, value_name = "FILE", help_heading = "Results")]
    output: PathBuf,
    /// The results as a workbook; a path that ends in .csv gets one row of CSV
    #[arg(long, value_name = "FILE", help_heading = "Results")]
    xlsx_output: PathBuf,
    /// The results as a page that opens offline
    #[arg(long, value_name = "FILE", help_heading = "Results")]
    html_output: PathBuf,
    /// Have the kernel count what its block layer does (bpftrace, as root); without it the run goes
    /// on
    #[arg(
        long, num_args = 0..=1, require_equals = true, default_missing_value = "true",
        value_name = "BOOL", help_heading = "Results"
    )]
    enable_latency_tracing: bool,
    /// The run as a fio job: its sizes, mix and depth; beside --output with
    /// --enable-latency-tracing
    #[arg(long, value_name = "FILE", help_heading = "Results")]
    fio_output: PathBuf,
    /// Do no I/O: write every operation as a row, on a simulated clock (CSV; .zst: compressed)
    #[arg(long, value_name = "FILE", help_heading = "Results")]
    io_trace_log: PathBuf,
    /// When the rows' times begin: a fixed day, so that the same run is the same file, or now
    #[arg(long, value_enum, value_name = "EPOCH", help_heading = "Results")]
    trace_epoch: TraceEpoch,
    /// Exit status 1 when storage_health is FAIL
    #[arg(
        long, num_args = 0..=1, require_equals = true, default_missing_value = "true",
        value_name = "BOOL", help_heading = "Results"
    )]
    fail_on_health: bool,
    /// The JSON on standard output too; the rest then goes to standard error
    #[arg(
        long, num_args = 0..=1, require_equals = true, default_missing_value = "true",
        value_name = "BOOL", help_heading = "Results"
    )]
    json: bool,
    /// No banner, no progress, no summary
    #[arg(
        long, num_args = 0..=1, require_equals = true, default_missing_value = "true",
        value_name = "BOOL", help_heading = "Results"
    )]
    quiet: bool,
    /// error, warn, info, debug or trace
    #[arg(long, value_enum, value_name = "LEVEL", help_heading = "Results")]
    log_level: LogLevel,
}

/// What later versions will take, so that it is told apart from a slip of the keyboard. Names as
/// in YAML.
pub const NOT_YET: &[&str] = &["gpu_tier"];

/// What is said of a feature of a later version.
#[must_use]
pub fn not_yet(what: &str) -> String {
    format!("{what} is not in this version ({}); leave it out", env!("CARGO_PKG_VERSION"))
}
