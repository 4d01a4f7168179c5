//! Facts that are kept where all merged results agree in them: the configuration and the machine.

use ringfall_host::Machine;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::figure::same;
use super::merge::{Inputs, Merge};
use crate::figures::given::Given;

/// Facts each of which is kept where all results agree in it, and null otherwise. All of its
/// fields, and what is in them, may be null.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Agreed<T>(Option<T>);

impl<T> Agreed<T> {
    /// Holds the facts of a single result, with which nothing disagrees.
    pub const fn of(facts: T) -> Agreed<T> {
        Agreed(Some(facts))
    }

    /// The facts, if the result says them.
    pub const fn as_ref(&self) -> Option<&T> {
        self.0.as_ref()
    }
}

impl<T> Given<T> for Agreed<T> {
    fn given(facts: T) -> Self {
        Agreed::of(facts)
    }
}

impl<T> Default for Agreed<T> {
    fn default() -> Self {
        Agreed(None)
    }
}

impl<T: Serialize + DeserializeOwned> Merge for Agreed<T> {
    const RULE: &'static str = "same, part by part";

    fn merged(all: &[&Self], _: &Inputs) -> Self {
        let values: Option<Vec<Value>> =
            all.iter().map(|one| serde_json::to_value(one.0.as_ref()?).ok()).collect();
        let merged = values.map(|values| agreed(&values.iter().collect::<Vec<_>>()));
        Agreed(merged.and_then(|merged| T::deserialize(&merged).ok()))
    }
}

/// Values that all results share; objects are compared part by part.
fn agreed(all: &[&Value]) -> Value {
    let objects: Option<Vec<&Map<String, Value>>> =
        all.iter().map(|value| value.as_object()).collect();
    let Some(objects) = objects else {
        return same(all.iter().copied()).unwrap_or_default();
    };
    let mut merged = Map::new();
    for key in objects.iter().flat_map(|object| object.keys()) {
        if !merged.contains_key(key) {
            let parts: Vec<&Value> =
                objects.iter().map(|object| object.get(key).unwrap_or(&Value::Null)).collect();
            merged.insert(key.clone(), agreed(&parts));
        }
    }
    Value::Object(merged)
}

/// The value on which all machines agree in that field.
fn agree<T: Clone + PartialEq>(all: &[&Machine], field: fn(&Machine) -> &T) -> Option<T> {
    same(all.iter().map(|one| field(one)))
}

impl Merge for Machine {
    const RULE: &'static str = "same, part by part; the least memory";

    fn merged(all: &[&Self], _: &Inputs) -> Self {
        Machine {
            cpu_model: agree(all, |one| &one.cpu_model).flatten(),
            cores: agree(all, |one| &one.cores).flatten(),
            memory_total_bytes: agree(all, |one| &one.memory_total_bytes).flatten(),
            memory_available_bytes: all.iter().filter_map(|one| one.memory_available_bytes).min(),
            kernel: agree(all, |one| &one.kernel).flatten(),
            numa_nodes: agree(all, |one| &one.numa_nodes).flatten(),
            gpu: agree(all, |one| &one.gpu).flatten(),
            cache_dir: agree(all, |one| &one.cache_dir).flatten(),
            mount: agree(all, |one| &one.mount).flatten(),
            device: agree(all, |one| &one.device).flatten(),
            device_chain: agree(all, |one| &one.device_chain).unwrap_or_default(),
            throttles: agree(all, |one| &one.throttles).unwrap_or_default(),
        }
    }
}
