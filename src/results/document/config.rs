//! `ringfall.config`: what was run, with every value in effect.

use std::collections::BTreeMap;

use ringfall_engine::tier::Tier;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::results::RunResult;

/// What was run. Null: nothing of the kind was asked for, or merged results differ in it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[expect(missing_docs, reason = "each is the flag of the same name, with its unit")]
pub struct ConfigReport {
    pub model: Option<String>,
    pub num_users: Option<u32>,
    pub duration_s: Option<u64>,
    pub warmup_s: Option<u64>,
    pub gpu_memory_bytes: Option<u64>,
    pub cpu_memory_bytes: Option<u64>,
    pub num_gpus: Option<u32>,
    pub tensor_parallel: Option<u32>,
    pub cache_dir: Option<String>,
    pub storage_capacity_bytes: Option<u64>,
    pub generation_mode: Option<String>,
    pub performance_profile: Option<String>,
    pub phases: Option<String>,
    pub multi_turn: Option<bool>,
    pub prefix_caching: Option<bool>,
    pub arrival: Option<String>,
    pub request_rate_per_s: Option<f64>,
    pub rag_documents: Option<u32>,
    pub source: Option<String>,
    pub autoscaler: Option<String>,
    pub max_requests: Option<u64>,
    pub max_concurrent_allocs: Option<u32>,
    pub max_inflight_requests: Option<u32>,
    pub seed: Option<u64>,
    pub durability: Option<String>,
    pub verify: Option<String>,
    pub preallocate: Option<String>,
    pub shards: Option<u16>,
    pub pin: Option<bool>,
    pub io_size_bytes: Option<u32>,
    pub queue_depth: Option<u32>,
    pub io_buffer_bytes: Option<u64>,
    pub demo: Option<bool>,
    /// Where each value came from, by its YAML key; null: merged results differ in it.
    pub origins: BTreeMap<String, Option<String>>,
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
            ((*key).to_owned(), Some(origin.name().to_owned()))
        };
        ConfigReport {
            model: Some(plan.model.clone()),
            num_users: Some(plan.users),
            duration_s: Some(plan.duration_s),
            warmup_s: Some(plan.warmup_s),
            gpu_memory_bytes: Some(plan.gpu_memory_bytes),
            cpu_memory_bytes: Some(plan.cpu_memory_bytes),
            num_gpus: Some(plan.gpus),
            tensor_parallel: Some(plan.tensor_parallel),
            cache_dir: plan.cache_dir.as_ref().map(|path| path.display().to_string()),
            storage_capacity_bytes: Some(result.tiers[Tier::Storage.index()].capacity_bytes),
            generation_mode: Some(plan.generation_mode.name().to_owned()),
            performance_profile: Some(plan.performance_profile.name().to_owned()),
            phases: Some(plan.phases.name().to_owned()),
            multi_turn: Some(plan.multi_turn),
            prefix_caching: Some(plan.prefix_caching),
            arrival: Some(plan.arrival.name().to_owned()),
            request_rate_per_s: Some(plan.request_rate_per_s),
            rag_documents: Some(plan.rag_documents),
            source: Some(plan.traffic.name().to_owned()),
            autoscaler: plan.autoscaler.map(|scale| scale.mode.name().to_owned()),
            max_requests: plan.max_requests,
            max_concurrent_allocs: plan.max_concurrent_allocs,
            max_inflight_requests: Some(plan.max_inflight_requests),
            seed: Some(plan.seed),
            durability: Some(plan.durability.name().to_owned()),
            verify: Some(plan.verify.name().to_owned()),
            preallocate: Some(plan.preallocate.name().to_owned()),
            shards: Some(plan.shards),
            pin: Some(plan.pin),
            io_size_bytes: Some(plan.io_size_bytes),
            queue_depth: Some(plan.queue_depth),
            io_buffer_bytes: Some(plan.io_buffer_bytes),
            demo: Some(plan.demo),
            origins: plan.origins.iter().map(origin).collect(),
            settings,
        }
    }
}
