//! The settings of a run, each declared here and nowhere else: the same names on the command line
//! and in YAML (`--num-users`, `num_users`). What a declaration may say: [`super::table`].

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::{ArgMatches, Args, Command, FromArgMatches};
use ringfall_core::fill::{COMPRESS_RATIO_MAX, DEDUPE_RATIO_MAX};
use ringfall_workloads::model::ModelSpec;
use serde::{Deserialize, Serialize};

use super::depth::Depth;
use super::kinds::{Factor, InjectedLatencies, IoSize, Kind, Limit, Optional, OrNone, Share, Time};
use super::listen::Listen;
use super::places::Places;
use super::table::{Compared, Setting, settings};
use super::values::{Auto, Gib, Mib, PrefillSpeed, Seed};
use super::words::{
    Arrival, AutoscalerMode, DecodeReads, Durability, EngineLayout, EntryLayout, GenerationMode,
    HistoryReads, Preallocate, RagIngestion, ReplayedRows, Tokenizer, VerifyMode,
};
use super::{
    Facts, GpuBackend, GpuTransfer, LayoutLimits, LogLevel, MergeRanks, OnDeviceFailure,
    PerformanceProfile, ProgressForm, Promotion, Ranks, RooflineFrom, ServedRule, TraceEpoch,
    Until, WorkloadSection, auto,
};
use crate::object_store::{
    Balance, CONCURRENCY_MAX, Checksum, PathStyle, RETRIES_MAX, TIMEOUT_S_MAX,
};

/// Longest duration and ramp-up: a day.
const SECONDS_MAX: i64 = 86_400;
pub(super) const USERS_MAX: i64 = 1_000_000;
/// Most requests served at the same time: each holds memory and a task.
const SERVING_MAX: i64 = 100_000;
pub(super) const SHARDS_MAX: i64 = 1_024;
pub(super) const QUEUE_DEPTH_MAX: i64 = 4_096;
/// Largest storage tier, GiB: 4 PiB.
const STORAGE_GIB_MAX: u32 = 1 << 22;

settings! {
    section "Workload" {
        /// Model whose KV cache is simulated
        ///
        /// A built-in model, or one of those defined under "models" in the configuration file. The
        /// beginning of a name is enough if no other model's name begins with it.
        model: String = "llama3.1-8b", "NAME", compared apart;
        /// Number of simulated users
        ///
        /// A run that moves data has at most 100,000.
        num_users: u32 = "100", "N", in 1..=USERS_MAX, alias "users", compared apart;
        /// Length of the measurement in seconds
        duration as duration_s: Time<u64> = "60", "SECONDS", in 1..=SECONDS_MAX, compared apart;
        /// Seconds of load before the measurement begins; they are not measured
        warmup as warmup_s: Time<u64> = "0", "SECONDS", in 0..=SECONDS_MAX;
        /// When a user sends the next request
        arrival: Arrival = "open", "MODE";
        /// Requests per second, all users together; required by --arrival poisson
        ///
        /// It also sets the pace of a trace or a dataset. With another --arrival, simulated users
        /// keep their own pace. 0 leaves the pace to the users or to the trace.
        request_rate as request_rate_per_s: f64 = "0", "PER_SECOND", in 0.0..=1e7;
        /// End the run after this many requests; 0 ends it when its time is up
        ///
        /// Simulated users have equal shares, so that slow ones end last. With
        /// --enable-autoscaling the search ends at this number, with an answer or without.
        max_requests: Limit<u64> = "0", "N", in 0..=i64::MAX;
        /// Number of requests served at the same time; further ones wait
        ///
        /// auto: as many as there are users, at most 500; with a trace or the autoscaler, 500.
        max_inflight_requests: Auto<u32> = "auto", "N", in 1..=SERVING_MAX,
            auto auto::max_inflight_requests;
        /// Number of prefill writes in progress at the same time; 0 means no limit
        ///
        /// The memory of writes is bounded by --io-buffer-mb whatever is given here. The published
        /// runs told two drives apart best with 0 where there was no CPU tier, and with 4 beside
        /// one of 4 GiB.
        max_concurrent_allocs: Limit<u32> = "0", "N", in 0..=1_000_000;
        /// Simulated time per generated token (TPOT)
        generation_mode: GenerationMode = "realistic", "MODE";
        /// Reads of a turn's own entry while it generates
        ///
        /// The reference benchmark reads it again for each batch of tokens
        /// (`workload.decode_batch_tokens`); serving stacks keep it in GPU memory once it is there.
        decode_reads: DecodeReads = "batch", "MODE";
        /// Earlier turns of its conversation that a request reads
        ///
        /// The reference benchmark reads each of them, an entry of its own; serving stacks extend
        /// the entry of the last turn, which holds the context so far.
        history_reads: HistoryReads = "all", "MODE";
        /// Prefill speed at which a request recomputes what it did not find, tokens per second
        ///
        /// Prompts, earlier turns, chunks and blocks that are no longer stored are computed before
        /// anything else is written or generated, those of one request after those of another. 0
        /// makes them free, as in the reference benchmark, so that a cache in which nothing is
        /// found looks fast. A GPU's name (a100,
        /// b200, h100, h200, l40s, mi300x) stands for half of the dense bfloat16 peak of
        /// --tensor-parallel GPUs, at two operations a token and active parameter. Attention over
        /// the context is left out: it adds half of the time at 32,768 tokens of llama3.1-8b.
        prefill_tokens_per_s: PrefillSpeed = "0", "PER_SECOND|GPU", in 0.0..=1e9,
            auto auto::prefill_tokens_per_s;
        /// End every conversation after one turn
        disable_multi_turn: bool = "false", "BOOL";
        /// Do not let requests share system prompts
        disable_prefix_caching: bool = "false", "BOOL";
        /// No decode phase: a request writes its entry, and reads only what came before it
        ///
        /// As in the reference benchmark, the earlier turns of a conversation and shared system
        /// prompts are read all the same; with --disable-multi-turn and --disable-prefix-caching
        /// nothing is. It cannot be combined with --decode-only.
        prefill_only: bool = "false", "BOOL";
        /// Read only: the entries are written before the measurement
        ///
        /// Every request reads an entry, whatever its context; in the reference benchmark those
        /// with a context of 10,000 tokens or more read nothing. It cannot be combined with
        /// --prefill-only.
        decode_only: bool = "false", "BOOL";
        /// Let some requests read chunks of documents, which are ingested before the run
        ///
        /// The reference benchmark also sends an additional request after one in ten, which reads
        /// an entry of its own.
        enable_rag: bool = "false", "BOOL";
        /// Number of documents to ingest, with --enable-rag
        rag_num_docs: u32 = "10", "N", in 0..=1_000_000;
        /// When documents are ingested, with --enable-rag
        rag_ingestion: RagIngestion = "before", "WHEN";
        /// Random seed; `random` draws one and prints it
        seed: Seed = "42", "U64", auto auto::seed, keeps demo, compared nothing;
    }

    section "Traces" {
        /// Replay a BurstGPT trace instead of simulating users; see --burst-trace-path
        ///
        /// At most one of --use-burst-trace, --mooncake-trace, --trace, --replay-trace and
        /// --dataset-path may be given, except that --dataset-path wins over --use-burst-trace.
        use_burst_trace: bool = "false", "BOOL";
        /// BurstGPT trace in CSV: a file, a directory of files or a pattern
        ///
        /// Files may be compressed (.gz or .zst). When not given, --use-burst-trace reads
        /// BurstGPT/data/BurstGPT_1.csv in the working directory.
        burst_trace_path: Optional = "none", "PATH", compared apart;
        /// Replay a Mooncake trace in JSONL; its prefix blocks are the entries of the cache
        mooncake_trace: Optional = "none", "FILE", compared apart;
        /// Replay a trace of any known format, which is recognised: a file, a directory of files or
        /// a pattern
        ///
        /// Mooncake's, Qwen-Bailian's, sessions of kv-cache-tester (cc-traces, AgentX), BurstGPT's,
        /// Azure's or Copilot's; files may be compressed (.gz or .zst). Where a trace has one
        /// session after the other, --num-users of them take place at once, and where one ends, the
        /// next one begins.
        trace: Optional = "none", "FILE", compared apart;
        /// Replay the operations of a logical trace, as `ringfall replay` does
        replay_trace: Optional = "none", "FILE", compared apart;
        /// Operations of the logical trace to replay
        replay_tiers: ReplayedRows = "storage", "TIERS";
        /// Simulate users who repeat the conversations of this ShareGPT dataset in JSON
        ///
        /// They read the earlier turns of their conversations and, without --request-rate, keep
        /// the pace of simulated users. The reference benchmark reads no earlier turns of a
        /// dataset, and without a rate it queues all requests at once.
        dataset_path: Optional = "none", "FILE", compared apart;
        /// Divide the gaps between the requests of a trace by this factor; 0 removes them
        ///
        /// With 0 a request arrives as soon as fewer than 64 wait on its shard, so that latencies
        /// are about that constant. Requests overlap then that did not in the trace, so that a
        /// cache which is smaller than what they reuse finds more of it than in their order: with
        /// 30 GiB, 12.9 % were found in place of 3.75 %. The reference benchmark queues the whole
        /// trace at once.
        trace_speedup: Factor = "1.0", "FACTOR";
        /// Number of times to replay a trace; 0 repeats it until the run ends
        replay_cycles: u32 = "0", "N", in 0..=i64::from(u32::MAX);
        /// Serve the requests of a trace by randomly assigned QoS classes, not first come, first
        /// served
        ///
        /// A trace has no classes. They are assigned at random so that latencies can be reported by
        /// class. When requests are also served by class, urgent ones overtake others, and the
        /// order is no longer the trace's.
        trace_classes: bool = "false", "BOOL";
        /// Number of conversations to use from the dataset; 0 uses all of them
        max_conversations: u32 = "500", "N", in 0..=i64::from(u32::MAX);
        /// Tokenizer that counts the tokens of a dataset
        tokenizer: Tokenizer = "cl100k", "NAME";
        /// Compare the hit rate with a recorded one; the file is CSV, JSONL or a JSON array with a
        /// cache_hit column
        validation_trace: Optional = "none", "FILE",
            compared nothing;
    }

    section "Autoscaler" {
        /// Add and remove users during the run to find out how many can be served
        ///
        /// The search begins with --num-users, or with two users per shard when that is not given.
        /// It ends when the answer is found or the time is up.
        enable_autoscaling: bool = "false", "BOOL";
        /// Goal of the autoscaler's search
        autoscaler_mode: AutoscalerMode = "qos", "MODE";
        /// Largest saturation that modes qos and slo allow when they search for the number of users
        ///
        /// In mode qos this is the saturation of the storage tier, the largest of three figures.
        /// One is the P95 of the device's time for an entry divided by its target (at most 1),
        /// times the tier's throughput divided by the highest reached. Another is the number of
        /// entries that wait for the device, or of requests that wait to be served, divided by its
        /// target. The third, where users do not wait for answers, is the number of requests that
        /// arrive divided by those that end, once it is shown that more arrive.
        /// In mode slo it is the share of its latency target that the P95 of a QoS class may take.
        /// The targets are set in the configuration file: workload.saturation_targets and
        /// workload.qos_targets_ms.
        target_saturation: Share = "0.8", "SHARE";
        /// Targets of mode slo in place of those of the QoS classes, such as
        /// load-p95=1s,reuse=70%, the rule of `ringfall quick`
        ///
        /// load-p95 is the largest P95 of the time in which a request loads what was there before
        /// it, and reuse the smallest share of earlier turns that are still found. One that is left
        /// out is 1s or 70%. Both are met or missed: --target-saturation has no effect on them.
        slo: OrNone<ServedRule> = "none", "TARGETS";
    }

    section "Tiers" {
        /// Capacity of the CPU tier (DRAM) in GiB
        ///
        /// auto: half of the available memory, at most 32. Memory is taken as the tier fills. The
        /// tier leaves the machine a tenth of its memory, and 2 GiB at least, and its cgroup a
        /// tenth of its limit. Where that is less than asked for, the tier is smaller and the
        /// results say so; --strict takes it all.
        cpu_mem_gb as cpu_memory_bytes: Auto<Gib> = "auto", "GIB", in 0..=131_072,
            alias "cpu_memory_gb", auto auto::cpu_mem_gb, compared apart;
        /// Directory for the data files, or a block device; several, separated by commas, are used
        /// together
        ///
        /// auto: a new directory under the system's temporary directory, which may be slow or in
        /// memory. Name a directory on the drive that you want to measure, or one on each of
        /// several drives. A comma in a path is written as `\,`.
        ///
        /// s3://BUCKET/PREFIX, az://CONTAINER/PREFIX or gs://BUCKET/PREFIX keeps the data in an
        /// object store, with nothing below the prefix; it needs --storage-capacity-gb.
        cache_dir as cache_dirs: Places = "auto", "DIR,...", keeps demo, compared nothing;
        /// Layout of an entry on several drives
        placement as layout: EntryLayout = "stripe", "LAYOUT", keeps demo, compared system;
        /// Action when one of several drives fails during the run
        on_device_failure: OnDeviceFailure = "stop", "ACTION", keeps demo, compared system;
        /// Layout in which the storage tier keeps entries, as `ringfall layouts` lists them
        ///
        /// With an engine's layout each I/O is a file with the engine's name, of the size of its
        /// chunk, stored and loaded by the engine's system calls in a directory in --cache-dir.
        /// With lmcache-raw and nixl it is a slot in one file. A full tier does
        /// as the engine's: entries leave, or nothing more is stored (--layout-option
        /// evict=never, lru or 85-70). --io-size follows from the
        /// layout, and --decode-reads is once unless it is given. An entry of
        /// llama3.1-70b-instruct or another large model may need a smaller chunk: --layout-option
        /// chunk_tokens=N.
        ///
        /// It works with one directory or one simulated drive, and without --tensor-parallel; only
        /// `ringfall layouts compare` has the layout mooncake. On a simulated drive only reads,
        /// writes and syncs of the files take time, and there is no page cache.
        layout as storage_layout: Option<EngineLayout> = "native", "NAME", keeps demo,
            compared system;
        /// Options in place of the engine's own, as KEY=VALUE, separated by commas; `ringfall
        /// layouts` lists them
        layout_option as layout_options: String = "none", "KEY=VALUE,...", keeps demo,
            compared system;
        /// Limits of whoever moves the objects of an engine's layout
        engine_limits: LayoutLimits = "theirs", "WHOSE", keeps demo, compared system;
        /// Allow a block device given as --cache-dir to be overwritten
        destroy_device_contents: bool = "false", "BOOL", keeps demo, compared nothing;
        /// Capacity of the storage tier (drives or an object store) in GiB; 0 allows 95 % of the
        /// free space
        ///
        /// Several drives share it in proportion to their free space. Space is taken as the run
        /// needs it; --preallocate reserve takes all of it before.
        storage_capacity_gb as storage_capacity_bytes: Gib = "0", "GIB", in 0..=STORAGE_GIB_MAX,
            compared apart;
        /// Leave the storage tier out: no drive is touched, and entries that fit in no other tier
        /// are dropped, and counted
        ///
        /// It needs a CPU or a GPU tier. An entry that is evicted from the last tier, or that is
        /// larger than any, is gone: reading it is a miss.
        disable_storage as is_without_storage: bool = "false", "BOOL";
        /// Refuse to run with a tier smaller than asked for, instead of reporting it in the results
        ///
        /// The CPU tier then takes what was asked for even where that leaves others little memory.
        /// The check is made once, when the run begins.
        strict: bool = "false", "BOOL", keeps demo, compared nothing;
        /// Effect of a hit below the fastest tier on the entry
        promotion: Promotion = "none", "MODE";
    }

    section "GPU" {
        /// Capacity of the GPU tier (HBM) in GiB per GPU; 0 means no GPU tier
        ///
        /// Where no GPU can be used, the run goes on without the tier, and its results say why.
        gpu_mem_gb as gpu_memory_bytes_each: Gib = "0", "GIB", in 0..=65_536, alias "gpu_memory_gb",
            compared apart;
        /// Number of GPUs whose memory makes up the GPU tier
        num_gpus as gpus: u32 = "1", "N", in 1..=1_024, compared apart;
        /// Number of GPUs that share an entry, at most --num-gpus; the size of entries is divided
        /// by this number, or their files are those of all ranks (--layout)
        tensor_parallel: u32 = "1", "N", in 1..=1_024, compared apart;
        /// Backend of the GPU tier
        gpu_backend: GpuBackend = "auto", "BACKEND", compared system;
        /// Numbers of the GPUs to use, such as 0,1; as many as --num-gpus says
        ///
        /// auto: the first ones, in the order of the driver.
        gpu_devices: String = "auto", "LIST", compared system;
        /// Path of bytes between GPU memory and storage
        gpu_transfer: GpuTransfer = "auto", "WAY", compared system;
    }

    section "Preconditioning" {
        /// Overwrite the storage tier before the run, so that a fresh drive behaves like a used one
        precondition as is_preconditioned: bool = "false", "BOOL", keeps demo;
        /// Amount of data that --precondition writes, in GiB; 0 writes twice the capacity
        precondition_size_gb as precondition_bytes: Gib = "0", "GIB", in 0..=STORAGE_GIB_MAX,
            keeps demo, compared system;
        /// Number of threads that --precondition writes with; 0 uses one per shard
        precondition_threads: u32 = "0", "N", in 0..=SHARDS_MAX, keeps demo, compared system;
        /// When --precondition ends; without --precondition it has no effect
        ///
        /// Bandwidth is steady when, after one whole capacity has been written, five rounds in a
        /// row lie within 20 % and neither rise nor fall by more than 10 %.
        precondition_until: Until = "size", "END", keeps demo;
    }

    section "Objects" {
        /// Address of the object store, such as http://127.0.0.1:9000; several, separated by
        /// commas, share the requests
        ///
        /// auto: the address that the environment or the profile gives, or else the provider's own.
        object_endpoint: String = "auto", "URL,...", keeps demo, compared system;
        /// Which of several endpoints the next request goes to
        object_balance: Balance = "least-in-flight", "HOW", keeps demo, compared system;
        /// Region of the bucket
        ///
        /// auto: the region that the environment or the profile gives, or else us-east-1.
        object_region: String = "auto", "NAME", keeps demo, compared system;
        /// Profile in the credentials file that AWS's tools share
        ///
        /// auto: credentials come from the environment, or else from the profile that AWS_PROFILE
        /// names.
        object_profile: String = "auto", "NAME", keeps demo, compared system;
        /// Send requests without credentials, to a bucket that is open to all
        object_anonymous: bool = "false", "BOOL", keeps demo, compared system;
        /// File of certificates (PEM) to trust besides the system's
        object_ca_file: Optional = "none", "FILE", keeps demo, compared system;
        /// Whether the bucket's name goes into the path or into the host name
        object_path_style: PathStyle = "auto", "WHEN", keeps demo, compared system;
        /// Checksum that protects data in transit
        object_checksum: Checksum = "sha256", "KIND", keeps demo, compared system;
        /// Largest number of requests in flight, all threads together
        object_concurrency: u32 = "64", "N", in 1..=i64::from(CONCURRENCY_MAX), keeps demo,
            compared system;
        /// Number of times to retry a request before it counts as failed
        object_retries: u32 = "10", "N", in 0..=i64::from(RETRIES_MAX), keeps demo, compared system;
        /// Time limit for one attempt at a request, in seconds
        object_timeout as object_timeout_s: Time<u32> = "60", "SECONDS",
            in 1..=i64::from(TIMEOUT_S_MAX), keeps demo, compared system;
        /// Time limit for making a connection, in seconds
        object_connect_timeout as object_connect_timeout_s: Time<u32> = "5", "SECONDS",
            in 1..=i64::from(TIMEOUT_S_MAX), keeps demo, compared system;
    }

    section "Engine" {
        /// Number of shards, each of which is one worker thread
        ///
        /// auto: one per core.
        shards: Auto<u16> = "auto", "N", in 1..=SHARDS_MAX, auto auto::shards, keeps demo,
            compared system;
        /// Pin each shard to its own core
        pin: bool = "true", "BOOL", keeps demo, compared system;
        /// Pin shards near the drives on a machine with several NUMA nodes
        ///
        /// The node of each drive gets cores in proportion to the drives there, and the results say
        /// how many bytes crossed between nodes. With --numa=false cores are taken by number, so
        /// that the two can be compared.
        numa: bool = "true", "BOOL", keeps demo, compared system;
        /// Size of the largest single I/O (block size)
        io_size as io_size_bytes: IoSize = "1MiB", "SIZE", keeps demo, compared system;
        /// Number of I/Os in flight (iodepth) per shard on each drive, or `auto` to find it
        ///
        /// standard: 64, or fewer so that all shards together have at most 1024. auto: the smallest
        /// depth that reaches 95 % of the best bandwidth with this run's own I/Os. It is found
        /// during the warm-up, which is then at least 20 seconds long, and lies between 1 and 64,
        /// or up to 512 with I/Os below 1 MiB.
        queue_depth as depth: Depth = "standard", "N", in 1..=QUEUE_DEPTH_MAX,
            auto auto::queue_depth, keeps demo, compared system;
        /// Let a kernel thread take each shard's I/Os (SQPOLL), which spares system calls
        ///
        /// The thread spins for as long as its shard is busy: it pays off only if there is an idle
        /// core for every shard, and slows the run down otherwise.
        sqpoll: bool = "false", "BOOL", keeps demo, compared system;
        /// Poll the drives for completions (IOPOLL) instead of waiting for interrupts
        ///
        /// Each shard keeps its core busy for as long as an I/O is in flight. Every drive needs a
        /// queue for polled I/O, which NVMe drives have when the nvme driver is loaded with
        /// poll_queues=N, and must take an I/O of --io-size in one piece; otherwise the run is
        /// refused. Flushes still complete by interrupt.
        ///
        /// Cannot be combined with --sqpoll.
        iopoll: bool = "false", "BOOL", keeps demo, compared system;
        /// Send NVMe commands to the drives (io_uring passthrough) instead of reads and writes
        ///
        /// Skips the kernel's block layer. Every drive in --cache-dir must be a whole NVMe
        /// namespace, named by its block device (/dev/nvme0n1) or its character device
        /// (/dev/ng0n1), and is written over; the run must be allowed to send commands (root). A
        /// namespace that is reached by NVMe multipath, zoned or formatted with metadata is
        /// refused.
        ///
        /// Cannot be combined with --iopoll.
        nvme_passthrough: bool = "false", "BOOL", keeps demo, compared system;
        /// Minimum latency of each read and write on the drives, as a slower drive would have it
        ///
        /// A time, up to 60s, such as 5ms, or a median and 99th percentile, such as
        /// p50=1ms,p99=20ms, drawn by --seed. An I/O keeps its place in the queue for as long.
        /// Flushes are not slowed. All figures of the run include it.
        inject_latency as injected: InjectedLatencies = "none", "TIME", keeps demo, compared system;
        /// Memory for the I/O buffers of all shards in MiB; at least one I/O per shard and drive
        ///
        /// auto: enough for --io-size × --queue-depth on every shard and drive, at most 1024.
        io_buffer_mb as io_buffer_bytes: Auto<Mib> = "auto", "MIB", in 1..=1 << 20,
            auto auto::io_buffer_mb, keeps demo, compared system;
        /// When a write to the storage tier counts as complete
        durability: Durability = "flush", "MODE", keeps demo;
        /// Share of the data read that is compared with what was written
        verify: VerifyMode = "sample", "MODE", keeps demo;
        /// Generate content that deduplicates N to 1; 1 generates no duplicates
        ///
        /// Duplicates are whole units of 64 KiB, each a copy of another in the same entry or file.
        ///
        /// Cannot be combined with --gpu-mem-gb: GPUs generate their own content.
        dedupe_ratio: f64 = "1", "N", in 1.0..=DEDUPE_RATIO_MAX, keeps demo;
        /// Generate content that compresses N to 1, each 4 KiB block on its own; 1 generates
        /// incompressible content
        compress_ratio: f64 = "1", "N", in 1.0..=COMPRESS_RATIO_MAX, keeps demo;
        /// Method by which the data files get their space
        ///
        /// A storage tier without a given capacity is limited to 95 % of the space that was free
        /// when the run began. With grow, space that others take in the meantime lowers that limit;
        /// with reserve and write, the space is the run's own until it ends.
        preallocate: Preallocate = "grow", "MODE", keeps demo, compared system;
    }

    section "Results" {
        /// Criteria by which storage_health judges the run
        performance_profile: PerformanceProfile = "latency", "PROFILE", keeps demo, compared apart;
        /// Number of times to repeat the run; --output then holds all results merged into one
        ///
        /// The result of each trial is kept beside it (NAME_trial1.json and so on), and the spread
        /// over the trials is printed.
        trials: u32 = "1", "N", in 1..=1_000, keeps demo, compared nothing;
        /// Limits of the drive to compare the run with: a file written by `ringfall saturate`, or
        /// `fresh` to measure them before the run
        roofline: RooflineFrom = "none", "FILE", keeps demo, compared nothing;
        /// File for the results in JSON
        ///
        /// auto: results/ringfall-TIME.json.
        output: PathBuf = "auto", "FILE", auto auto::output, keeps demo, compared nothing;
        /// File for the results as a workbook (.xlsx) or as one row of CSV (.csv)
        ///
        /// With any other ending it is CSV, and .csv is added to the name.
        xlsx_output: Optional = "none", "FILE", keeps demo, compared nothing;
        /// File for the results as an HTML page that opens offline
        html_output: Optional = "none", "FILE", keeps demo, compared nothing;
        /// Count latencies, sizes, queue depth and seek distances in the kernel's block layer
        ///
        /// It needs bpftrace and root; where they are missing, the run goes on without tracing.
        enable_latency_tracing as latency_tracing: bool = "false", "BOOL", keeps demo,
            compared system;
        /// File for a fio job with the run's I/O sizes, mix and queue depth
        ///
        /// With --enable-latency-tracing the job is always written, beside the JSON results if no
        /// file is named.
        fio_output: Optional = "none", "FILE", keeps demo, compared nothing;
        /// Do no I/O; write every operation to this CSV file, on a simulated clock
        ///
        /// A name that ends in .zst compresses the file.
        io_trace_log: Optional = "none", "FILE";
        /// Date at which the times in the --io-trace-log file begin
        trace_epoch: TraceEpoch = "fixed", "EPOCH";
        /// Exit with status 1 unless storage_health is PASS
        fail_on_health: bool = "false", "BOOL", keeps demo, compared nothing;
        /// Print the JSON results on standard output, and everything else on standard error
        json: bool = "false", "BOOL", keeps demo, compared nothing;
        /// Print the whole summary of the run, instead of its verdict and the figures that show it
        details: bool = "false", "BOOL", keeps demo, compared nothing;
        /// Form of the run's progress on a terminal
        ///
        /// In a file or a pipe, progress is one line every ten seconds.
        progress: ProgressForm = "auto", "FORM", keeps demo, compared nothing;
        /// Print no banner, no progress and no summary
        quiet: bool = "false", "BOOL", keeps demo, compared nothing;
        /// Least important kind of log message to print on standard error
        log_level: LogLevel = "warn", "LEVEL", keeps demo, compared nothing;
    }

    section "Monitoring" {
        /// Address at which Prometheus reads the run's metrics, such as 127.0.0.1:9464
        ///
        /// They are at http://ADDRESS/metrics, as text or as OpenMetrics. A port alone is one of
        /// 127.0.0.1, which only this machine reaches; 0.0.0.0:9464 is open to every machine. Port
        /// 0 takes a free one, which is printed. Several ranks on a machine use successive ports,
        /// from this one on.
        metrics_listen: OrNone<Listen> = "none", "ADDRESS", keeps demo, compared nothing;
        /// File for the run's metrics, replaced every second, for node_exporter's textfile
        /// collector
        ///
        /// The collector reads files of its directory whose names end in .prom. The file stays
        /// when the run ends, with the last figures.
        metrics_file: Optional = "none", "FILE", keeps demo, compared nothing;
    }

    section "Ranks" {
        /// Behavior when a launcher (mpirun, srun) has started several processes
        ///
        /// auto: each rank takes its share of its machine's cores, memory and free space, adds its
        /// number to the seed, keeps its data and results in directories rank_N, and waits for the
        /// others, so that all of them measure at the same time. They meet in the directory that
        /// holds the results of all, which each of them must see, or by MPI in a program that was
        /// built with it (cargo's feature mpi); `directory` and `mpi` choose one of the two.
        ranks: Ranks = "auto", "MODE", keeps demo, compared nothing;
        /// Merge the results of all ranks into one when they have ended
        ///
        /// Rank 0 writes the merged result to --output, beside the rank_N directories, and to
        /// --xlsx-output and --html-output if they are given. auto: unless a wrapper has given each
        /// rank paths of its own, with rank_N in them. With --start-at, ranks do not communicate,
        /// and `ringfall report DIR` merges their results into a .json file later.
        merge_ranks: MergeRanks = "auto", "MODE", keeps demo, compared nothing;
        /// Time at which the load begins, in seconds since 1970; 0 begins as soon as all is ready
        ///
        /// With it, ranks do not wait for each other. It may lie at most a day ahead.
        start_at as start_at_unix_s: Limit<u64> = "0", "UNIX_SECONDS", in 0..=i64::MAX, keeps demo,
            compared nothing;
    }
}

impl Settings {
    /// The files that a run writes, by the keys of their settings.
    pub fn written(&self) -> Vec<(&'static str, &Path)> {
        let more = [
            ("xlsx_output", &self.xlsx_output),
            ("html_output", &self.html_output),
            ("fio_output", &self.fio_output),
            ("io_trace_log", &self.io_trace_log),
            ("metrics_file", &self.metrics_file),
        ];
        let more = more.into_iter().filter_map(|(key, path)| Some((key, path.as_deref()?)));
        [("output", self.output.as_path())].into_iter().chain(more).collect()
    }

    /// Hands out each of these files, to be changed.
    pub(super) fn change_written(&mut self, change: &mut dyn FnMut(&mut PathBuf)) {
        let Settings {
            output,
            xlsx_output,
            html_output,
            fio_output,
            io_trace_log,
            metrics_file,
            ..
        } = self;
        change(output);
        let more = [xlsx_output, html_output, fio_output, io_trace_log, metrics_file];
        more.into_iter().flatten().for_each(change);
    }
}

impl Args for Options {
    fn augment_args(command: Command) -> Command {
        command.args(SETTINGS.iter().map(Setting::to_arg))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Options::augment_args(command)
    }
}

impl FromArgMatches for Options {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        Ok(Options::of_matches(&mut matches.clone(), &|_| true))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Options::from_arg_matches(matches)?.over(std::mem::take(self));
        Ok(())
    }
}
