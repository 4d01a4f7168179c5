//! Settings that make a load: all that a result says, but for the system under comparison.

use std::collections::BTreeMap;

use ringfall_config::Compared;
use ringfall_model::configuration::Configuration;
use ringfall_model::document::ConfigReport;
use serde_json::Value;

use crate::analysis::differences::compared;

/// Criteria among the keys of the section `workload`, by which a run is judged. All other keys are
/// load, and so is each setting whose declaration says nothing else.
const CRITERIA: [&str; 3] = ["workload.health", "workload.limits", "workload.qos_targets_ms"];

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
    compared(key) == Compared::Load && !CRITERIA.contains(&key)
}

/// Whether what a difference is told by, which may be a part of a setting, is no fact of the
/// machine and no setting of the system under comparison.
pub(super) fn is_of_run(key: &str) -> bool {
    let setting = key.split('.').next().unwrap_or(key);
    let is_run = matches!(compared(setting), Compared::Load | Compared::Apart);
    is_run && setting != "machine" && !CRITERIA.iter().any(|of| key.starts_with(of))
}
