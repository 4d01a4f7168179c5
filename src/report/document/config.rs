//! `ringfall.config`: what was run, with every value in effect.

use std::collections::BTreeMap;

use ringfall_engine::tier::Tier;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::report::RunResult;

/// What was run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[expect(missing_docs, reason = "each is the flag of the same name, with its unit")]
pub struct ConfigReport {
    pub model: String,
    pub num_users: u32,
    pub duration_s: u64,
    pub warmup_s: u64,
    pub gpu_memory_bytes: u64,
    pub cpu_memory_bytes: u64,
    pub num_gpus: u32,
    pub tensor_parallel: u32,
    pub cache_dir: Option<String>,
    pub storage_capacity_bytes: u64,
    pub generation_mode: String,
    pub performance_profile: String,
    pub phases: String,
    pub multi_turn: bool,
    pub prefix_caching: bool,
    pub arrival: String,
    pub request_rate_per_s: f64,
    pub rag_documents: u32,
    pub source: String,
    pub autoscaler: Option<String>,
    pub max_requests: Option<u64>,
    pub max_concurrent_allocs: Option<u32>,
    pub max_inflight_requests: u32,
    pub seed: u64,
    pub durability: String,
    pub verify: String,
    pub preallocate: String,
    pub shards: u16,
    pub pin: bool,
    pub io_size_bytes: u32,
    pub queue_depth: u32,
    pub io_buffer_bytes: u64,
    pub demo: bool,
    /// Where each value came from, by its YAML key.
    pub origins: BTreeMap<String, String>,
    /// As in a configuration file: the run again.
    pub settings: Map<String, Value>,
}

impl ConfigReport {
    pub(super) fn of(result: &RunResult) -> ConfigReport {
        let plan = &result.plan;
        let settings = match serde_json::to_value(plan.effective()) {
            Ok(Value::Object(settings)) => settings,
            // Settings are plain values, which always become an object.
            _ => Map::new(),
        };
        let origin = |(key, origin): (&&'static str, &crate::config::Origin)| {
            ((*key).to_owned(), origin.name().to_owned())
        };
        ConfigReport {
            model: plan.model.clone(),
            num_users: plan.users,
            duration_s: plan.duration_s,
            warmup_s: plan.warmup_s,
            gpu_memory_bytes: plan.gpu_memory_bytes,
            cpu_memory_bytes: plan.cpu_memory_bytes,
            num_gpus: plan.gpus,
            tensor_parallel: plan.tensor_parallel,
            cache_dir: plan.cache_dir.as_ref().map(|path| path.display().to_string()),
            storage_capacity_bytes: result.tiers[Tier::Storage.index()].capacity_bytes,
            generation_mode: plan.generation_mode.name().to_owned(),
            performance_profile: plan.performance_profile.name().to_owned(),
            phases: plan.phases.name().to_owned(),
            multi_turn: plan.multi_turn,
            prefix_caching: plan.prefix_caching,
            arrival: plan.arrival.name().to_owned(),
            request_rate_per_s: plan.request_rate_per_s,
            rag_documents: plan.rag_documents,
            source: plan.traffic.name().to_owned(),
            autoscaler: plan.autoscaler.map(|scale| scale.mode.name().to_owned()),
            max_requests: plan.max_requests,
            max_concurrent_allocs: plan.max_concurrent_allocs,
            max_inflight_requests: plan.max_inflight_requests,
            seed: plan.seed,
            durability: plan.durability.name().to_owned(),
            verify: plan.verify.name().to_owned(),
            preallocate: plan.preallocate.name().to_owned(),
            shards: plan.shards,
            pin: plan.pin,
            io_size_bytes: plan.io_size_bytes,
            queue_depth: plan.queue_depth,
            io_buffer_bytes: plan.io_buffer_bytes,
            demo: plan.demo,
            origins: plan.origins.iter().map(origin).collect(),
            settings,
        }
    }
}
