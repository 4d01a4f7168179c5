//! Settings and facts of the machine in which two results differ.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use ringfall_config::{Compared, SETTINGS};
use ringfall_model::configuration::Configuration;
pub use ringfall_model::document::Difference;
use ringfall_model::document::{Kind, Ours, ResultFile};
use ringfall_model::{SimulationReport, distinct_by};

/// The setting that is compared by what came of it: 0 means "what is free".
const CAPACITY_SETTING: &str = "storage_capacity_gb";
/// Where that is.
const CAPACITY: &str = "storage_capacity_bytes";
/// Two capacities that were worked out from the free space are the same within this share.
const CAPACITY_TOLERANCE: f64 = 0.01;
/// Facts of the machine whose difference makes a different system.
fn facts(ours: &Ours) -> [(&'static str, Value); 10] {
    let machine = &ours.machine;
    let device = machine.device.as_ref();
    let simulated = ours.simulation.as_ref().map(SimulationReport::device_name);
    [
        ("machine.cpu_model", json!(machine.cpu_model)),
        ("machine.cores", json!(machine.cores)),
        ("machine.memory_total_bytes", json!(machine.memory_total_bytes)),
        ("machine.kernel", json!(machine.kernel)),
        ("machine.gpu", json!(machine.gpu)),
        ("machine.mount.file_system", json!(machine.mount.as_ref().map(|m| &m.file_system))),
        ("machine.device.name", json!(device.map(|device| &device.name))),
        ("machine.device.model", json!(device.map(|device| &device.model))),
        ("machine.device.scheduler", json!(device.map(|device| &device.scheduler))),
        ("machine.simulated_device", json!(simulated)),
    ]
}

/// The settings in which two results differ. Of the reference's results only what their names say
/// is known, and what one of two does not say is no difference.
pub fn configuration(first: &ResultFile, second: &ResultFile) -> Vec<Difference> {
    match (settings(first), settings(second)) {
        (Some(first), Some(second)) => between(&first, &second),
        _ => {
            let mut all = between(&few(first), &few(second));
            all.retain(|one| !one.first.is_null() && !one.second.is_null());
            all
        }
    }
}

/// The first of the differences of each key.
pub fn each_once(all: impl IntoIterator<Item = Difference>) -> Vec<Difference> {
    distinct_by(all, |one, other| one.key == other.key)
}

/// The facts of the machine in which two results differ.
pub fn machine(first: &ResultFile, second: &ResultFile) -> Vec<Difference> {
    let of = |result: &ResultFile| -> BTreeMap<String, Value> {
        let facts = facts(&result.document.ringfall).into_iter();
        facts.map(|(key, fact)| (key.to_owned(), fact)).collect()
    };
    between(&of(first), &of(second))
}

fn settings(result: &ResultFile) -> Option<BTreeMap<String, Value>> {
    // What the reference's results may say of their configuration is the few things below.
    let config = result.document.ringfall.config.as_ref();
    let config = config.filter(|_| result.kind() != Kind::Reference)?;
    let mut leaves = BTreeMap::new();
    for (key, value) in &config.settings {
        flatten(key, value, &mut leaves);
    }
    leaves.retain(|key, _| compared(key) != Compared::Nothing);
    leaves.remove(CAPACITY_SETTING);
    leaves.insert(CAPACITY.to_owned(), json!(config.storage_capacity_bytes));
    Some(leaves)
}

/// Weight of a difference in that setting.
pub(crate) fn compared(key: &str) -> Compared {
    let declared = SETTINGS.iter().find(|setting| setting.key == key);
    declared.map_or(Compared::Load, |setting| setting.compared)
}

/// Parts in which two values of one setting differ.
pub(super) fn of_setting(key: &str, first: &Value, second: &Value) -> Vec<Difference> {
    let leaves = |value: &Value| {
        let mut leaves = BTreeMap::new();
        flatten(key, value, &mut leaves);
        leaves
    };
    between(&leaves(first), &leaves(second))
}

/// The configuration that a result tells, or else the name of its file.
pub(super) fn told_by(result: &ResultFile) -> Option<Configuration> {
    let name = result.path.file_name().unwrap_or_default().to_string_lossy();
    Configuration::from_result(&result.document).or_else(|| Configuration::from_name(&name))
}

fn few(result: &ResultFile) -> BTreeMap<String, Value> {
    let Some(configuration) = told_by(result) else { return BTreeMap::new() };
    BTreeMap::from([
        ("model".to_owned(), configuration.model.clone().into()),
        ("num_users".to_owned(), configuration.users.into()),
        ("cpu_mem_gb".to_owned(), configuration.cpu_memory_gib().into()),
        ("max_concurrent_allocs".to_owned(), configuration.max_concurrent_allocs.into()),
        ("generation_mode".to_owned(), configuration.generation_mode.into()),
    ])
}

/// Objects within objects as `outer.inner`; lists are one value.
fn flatten(prefix: &str, value: &Value, leaves: &mut BTreeMap<String, Value>) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                flatten(&format!("{prefix}.{key}"), value, leaves);
            }
        }
        leaf => {
            leaves.insert(prefix.to_owned(), leaf.clone());
        }
    }
}

fn between(first: &BTreeMap<String, Value>, second: &BTreeMap<String, Value>) -> Vec<Difference> {
    let keys: std::collections::BTreeSet<&String> = first.keys().chain(second.keys()).collect();
    let difference = |key: &String| {
        let of = |side: &BTreeMap<String, Value>| side.get(key).cloned().unwrap_or_default();
        let (first, second) = (of(first), of(second));
        (!same(key, &first, &second)).then(|| Difference { key: key.clone(), first, second })
    };
    keys.into_iter().filter_map(difference).collect()
}

fn same(key: &str, first: &Value, second: &Value) -> bool {
    match (first.as_f64(), second.as_f64()) {
        (Some(first), Some(second)) if key == CAPACITY => {
            (first - second).abs() <= CAPACITY_TOLERANCE * first.max(second)
        }
        _ => is_alike(first, second),
    }
}

/// Whether two values mean the same: 4 is 4.0, in lists too, as other programs that have rewritten
/// a result may have it.
fn is_alike(first: &Value, second: &Value) -> bool {
    match (first, second) {
        (Value::Number(first), Value::Number(second)) => first.as_f64() == second.as_f64(),
        (Value::Array(first), Value::Array(second)) => {
            first.len() == second.len()
                && first.iter().zip(second).all(|(first, second)| is_alike(first, second))
        }
        _ => first == second,
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use ringfall_host::DeviceFacts;
    use ringfall_model::Document;
    use ringfall_model::document::Agreed;
    use ringfall_model::testing::nothing;

    use super::*;

    fn result(name: &str, settings: Value, capacity: u64, device: &str) -> ResultFile {
        let mut document = Document::of(&nothing());
        let ours = &mut document.ringfall;
        let mut config = ours.config.as_ref().unwrap().clone();
        config.settings = settings.as_object().unwrap().clone();
        config.storage_capacity_bytes = Some(capacity);
        ours.config = Agreed::of(config);
        ours.machine.device =
            Some(DeviceFacts { name: device.to_owned(), ..DeviceFacts::default() });
        ResultFile { path: Path::new(name).to_owned(), document }
    }

    #[test]
    fn only_what_was_measured_counts() {
        let a = json!({ "num_users": 4, "seed": 1, "output": "a", "range": [0.2, 1],
                        "workload": { "x": [1, 2] },
                        "cpu_mem_gb": 4, "fail_on_health": true, "ranks": "off",
                        "strict": true });
        let b = json!({ "num_users": 8, "seed": 2, "output": "b", "range": [0.2, 1.0],
                        "workload": { "x": [1, 3] },
                        "cpu_mem_gb": 4.0 });
        let (a, b) = (result("a", a, 1000, "sda"), result("b", b, 1009, "sdb"));
        let keys: Vec<String> = configuration(&a, &b).into_iter().map(|d| d.key).collect();
        assert_eq!(keys, ["num_users", "workload.x"]);
        assert_eq!(configuration(&a, &b)[0].to_string(), "num_users (4 and 8)");
        assert_eq!(machine(&a, &b)[0].to_string(), "machine.device.name (\"sda\" and \"sdb\")");
        assert!(configuration(&a, &a).is_empty() && machine(&a, &a).is_empty());
    }

    #[test]
    fn results_with_other_pages_and_tables_were_configured_differently() {
        let of = |file: &str| {
            let settings = json!({ "html_output": file, "xlsx_output": file, "fio_output": file });
            result("a", settings, 1000, "sda")
        };
        assert_eq!(configuration(&of("none"), &of("b")), []);
    }

    #[test]
    fn a_capacity_may_differ_a_little_where_it_is_what_was_free() {
        let of = |capacity| result("a", json!({ "storage_capacity_gb": 0 }), capacity, "sda");
        assert!(configuration(&of(1_000_000), &of(1_009_000)).is_empty());
        let keys = configuration(&of(1_000_000), &of(1_020_000));
        assert_eq!(keys[0].key, "storage_capacity_bytes");
    }

    #[test]
    fn the_reference_s_results_say_it_by_their_names() {
        let of = |name: &str| ResultFile {
            path: Path::new(name).to_owned(),
            document: Document::default(),
        };
        let a = of("r_m_cpu0GB_qd0_gennone_users5.json");
        let b = of("r_m_cpu4GB_qd0_gennone_users5_trial2.json");
        let keys: Vec<String> = configuration(&a, &b).into_iter().map(|d| d.key).collect();
        assert_eq!(keys, ["cpu_mem_gb"]);
        // A name that says nothing says nothing else either.
        assert_eq!(configuration(&a, &of("result.json")), []);
        let ours = json!({ "model": "m", "num_users": 5, "cpu_mem_gb": 0.0 });
        assert_eq!(configuration(&result("ours.json", ours, 1000, "sda"), &of("x.json")), []);
    }
}
