//! Settings that make a load: all that a result says, but for the system under comparison.

use std::collections::BTreeMap;

use ringfall_model::configuration::Configuration;
use ringfall_model::document::ConfigReport;
use serde_json::Value;

use crate::analysis::differences::is_measured;

/// Settings whose difference makes no other load. All others are load, so that a new setting is
/// compared as load until it is named here.
pub(super) const NOT_LOAD: &[&str] = &[
    // Differences that have a caution of their own.
    "model",
    "num_users",
    "duration",
    "cpu_mem_gb",
    "storage_capacity_gb",
    "gpu_mem_gb",
    "num_gpus",
    "tensor_parallel",
    // The system under comparison, and the way in which its drive is accessed.
    "gpu_backend",
    "gpu_devices",
    "gpu_transfer",
    "placement",
    "on_device_failure",
    "precondition_size_gb",
    "precondition_threads",
    "object_endpoint",
    "object_balance",
    "object_region",
    "object_profile",
    "object_anonymous",
    "object_ca_file",
    "object_path_style",
    "object_checksum",
    "object_concurrency",
    "object_retries",
    "object_timeout",
    "object_connect_timeout",
    "shards",
    "pin",
    "numa",
    "io_size",
    "queue_depth",
    "sqpoll",
    "iopoll",
    "nvme_passthrough",
    "io_buffer_mb",
    "preallocate",
    "enable_latency_tracing",
    // Criteria by which a run is judged, and bounds of what may be asked for.
    "performance_profile",
    "workload.health",
    "workload.limits",
    "workload.qos_targets_ms",
];

/// Settings of the load in a result's configuration, each whole. Those of the section `workload`
/// have keys of their own, and of the `models` only the one that was run counts.
pub(super) fn of_load(config: &ConfigReport) -> BTreeMap<String, Value> {
    let mut all = BTreeMap::new();
    for (key, value) in &config.settings {
        match (key.as_str(), value) {
            ("workload", Value::Object(section)) => {
                let key = |name: &String| format!("workload.{name}");
                all.extend(section.iter().map(|(name, value)| (key(name), value.clone())));
            }
            ("models", Value::Object(models)) => {
                if let Some(model) = &config.model {
                    let own = models.get(model).cloned().unwrap_or_default();
                    all.insert(format!("models.{model}"), own);
                }
            }
            _ => {
                all.insert(key.clone(), value.clone());
            }
        }
    }
    all.retain(|key, _| is_load(key));
    all
}

/// Settings of the load that a configuration alone says.
pub(super) fn of_configuration(configuration: &Configuration) -> BTreeMap<String, Value> {
    BTreeMap::from([
        ("max_concurrent_allocs".to_owned(), configuration.max_concurrent_allocs.into()),
        ("generation_mode".to_owned(), configuration.generation_mode.clone().into()),
    ])
}

/// Whether a difference of that setting makes another load.
pub(super) fn is_load(key: &str) -> bool {
    is_measured(key) && !NOT_LOAD.contains(&key)
}
