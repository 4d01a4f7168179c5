//! `ringfall.config`: what was run, with every value in effect.

use std::collections::BTreeMap;

use ringfall_config::{Named as _, Plan, typed_places};
use ringfall_core::key::Tier;
use serde_json::{Map, Value};

use crate::RunResult;
use crate::figures::given::row;

row! {
/// Configuration of the run. A setting is null when it was not used, or when merged results differ
/// in it.
#[cfg_attr(any(test, feature = "testing"), schemars(transform = super::schema::described))]
#[expect(missing_docs, reason = "each is the setting of that name; the schema has its summary")]
pub struct ConfigReport of result: RunResult {
    /// Name of the model whose KV cache was simulated.
    pub model: Option<String> = result.plan.model.clone(),
    /// Number of simulated users; with the autoscaler, the number with which the run began.
    pub num_users: Option<u32> = result.plan.users,
    /// Requested length of the measurement, s.
    pub duration_s: Option<u64> = result.plan.duration_s,
    /// Length of the warm-up before the measurement, s.
    pub warmup_s: Option<u64> = result.plan.warmup_s,
    /// Capacity of the GPU tier, all GPUs together, bytes.
    pub gpu_memory_bytes: Option<u64> = result.plan.gpu_memory_bytes,
    /// Capacity of the CPU tier when the run began, bytes; `shortages` has what was asked for.
    pub cpu_memory_bytes: Option<u64> = result.plan.cpu_memory_bytes,
    /// Number of GPUs whose memory makes up the GPU tier.
    pub num_gpus: Option<u32> = result.plan.gpus,
    pub tensor_parallel: Option<u32> = result.plan.tensor_parallel,
    /// Directory or block device that held the data files, or several, separated by commas; null: a
    /// new directory under the system's temporary directory.
    pub cache_dir: Option<String> = cache_dir(&result.plan),
    /// Largest size that the storage tier could have at the end of the run, bytes: the same as when
    /// it was opened, unless `shortages` says otherwise.
    pub storage_capacity_bytes: Option<u64> = result.tiers[Tier::Storage.index()].capacity_bytes,
    pub generation_mode: Option<String> = result.plan.generation_mode.name().to_owned(),
    pub performance_profile: Option<String> = result.plan.performance_profile.name().to_owned(),
    /// Phases that requests had: both, prefill-only or decode-only.
    pub phases: Option<String> = result.plan.phases.name().to_owned(),
    /// Whether conversations had more than one turn.
    pub multi_turn: Option<bool> = !result.plan.disable_multi_turn,
    /// Whether requests shared system prompts.
    pub prefix_caching: Option<bool> = !result.plan.disable_prefix_caching,
    pub arrival: Option<String> = result.plan.arrival.name().to_owned(),
    /// Requests per second, all users together; 0: the users or the trace set the pace.
    pub request_rate_per_s: Option<f64> = result.plan.request_rate_per_s,
    /// Number of documents to ingest; 0: no retrieval.
    pub rag_documents: Option<u32> = result.plan.rag_documents,
    /// Where requests came from: synthetic, sharegpt, io_trace, or the format of a trace: burstgpt,
    /// mooncake, qwen, sessions, azure or copilot.
    pub source: Option<String> = result.source_name().to_owned(),
    /// Mode of the autoscaler: qos, slo or capacity; null: the number of users was fixed.
    pub autoscaler: Option<String> =
        result.plan.enable_autoscaling.then(|| result.plan.autoscaler_mode.name().to_owned()),
    /// Number of requests after which the run ended; null: it ended when its time was over.
    pub max_requests: Option<u64> = result.plan.max_requests,
    /// Largest number of prefill writes in progress at the same time; null: no limit.
    pub max_concurrent_allocs: Option<u32> = result.plan.max_concurrent_allocs,
    /// Largest number of requests served at the same time.
    pub max_inflight_requests: Option<u32> = result.plan.max_inflight_requests,
    /// Random seed of the run.
    pub seed: Option<u64> = result.plan.seed,
    pub durability: Option<String> = result.plan.durability.name().to_owned(),
    pub verify: Option<String> = result.plan.verify.name().to_owned(),
    /// Deduplication ratio of the content: total bytes ÷ unique bytes; 1: no duplicates.
    pub dedupe_ratio: Option<f64> = result.plan.dedupe_ratio,
    /// Compression ratio of the content: total bytes ÷ bytes after compressing each 4 KiB block on
    /// its own; 1: incompressible.
    pub compress_ratio: Option<f64> = result.plan.compress_ratio,
    pub preallocate: Option<String> = result.plan.preallocate.name().to_owned(),
    pub shards: Option<u16> = result.plan.shards,
    /// Whether each shard was pinned to its own core.
    pub pin: Option<bool> = result.plan.pin,
    /// Size of the largest single I/O, bytes.
    pub io_size_bytes: Option<u32> = result.plan.io_size_bytes,
    /// Largest number of I/Os in flight per shard on each drive; with --queue-depth auto, the one
    /// that the search chose.
    pub queue_depth: Option<u32> = result.depth(),
    /// Memory for the I/O buffers of all shards, bytes.
    pub io_buffer_bytes: Option<u64> = result.plan.io_buffer_bytes,
    /// Whether this was the small demonstration run that `ringfall run` makes when the flags say
    /// nothing about the workload or its size, and no plain DIR is given.
    pub demo: Option<bool> = result.plan.demo,
    /// Where each value came from, by its key in a configuration file: `default`, `computed`,
    /// `demo`, `file` or `command_line`; null: merged results differ in it.
    pub origins: BTreeMap<String, Option<String>> =
        origins(&result.plan),
    /// Every value in effect, under its key in a configuration file; with these values the run can
    /// be repeated.
    #[cfg_attr(
        any(test, feature = "testing"),
        schemars(schema_with = "super::schema::of_settings")
    )]
    pub settings: Map<String, Value> = settings(&result.plan),
}
}

fn cache_dir(plan: &Plan) -> Option<String> {
    (!plan.cache_dirs.is_empty()).then(|| typed_places(&plan.cache_dirs))
}

fn origins(plan: &Plan) -> BTreeMap<String, Option<String>> {
    let named = plan.origins.iter().map(|(key, origin)| (*key, origin.name()));
    named.map(|(key, name)| (key.to_owned(), Some(name.to_owned()))).collect()
}

fn settings(plan: &Plan) -> Map<String, Value> {
    match serde_json::to_value(&plan.effective) {
        Ok(Value::Object(settings)) => settings,
        // Settings are plain values, which always become an object.
        _ => Map::new(),
    }
}

/// Keys under which a result of the reference benchmark, or a program around it, may hold the
/// arguments of its run.
const RECORDED: [&str; 5] = ["args", "arguments", "parameters", "run_parameters", "config"];

impl ConfigReport {
    /// Reads the configuration that a result of the reference benchmark records of its own run,
    /// under the reference's names; `None` where it lacks the settings that tell runs apart.
    pub(super) fn recorded(object: &Map<String, Value>) -> Option<ConfigReport> {
        let args = RECORDED.iter().find_map(|key| object.get(*key)?.as_object())?;
        let number = |keys: [&str; 2]| keys.iter().find_map(|key| args.get(*key)?.as_f64());
        let text = |key: &str| args.get(key).and_then(Value::as_str).map(str::to_owned);
        let count = |keys: [&str; 2]| {
            let number = number(keys).filter(|n| n.fract() == 0.0 && *n <= f64::from(u32::MAX));
            // Whole, and within 32 bits.
            number.filter(|n| *n >= 0.0).map(|n| n as u32)
        };
        let gib =
            number(["cpu_mem_gb", "cpu_memory_gb"]).filter(|gib| (0.0..=1e6).contains(gib))?;
        Some(ConfigReport {
            model: Some(text("model")?),
            num_users: Some(count(["num_users", "users"])?),
            generation_mode: Some(text("generation_mode")?),
            // At most 10⁶ GiB, which is far below 2⁶³ bytes.
            cpu_memory_bytes: Some((gib * ringfall_core::units::GIB as f64).round() as u64),
            max_concurrent_allocs: count(["max_concurrent_allocs", "mca"]).filter(|n| *n > 0),
            duration_s: count(["duration", "duration_s"]).map(u64::from),
            ..ConfigReport::default()
        })
    }
}
