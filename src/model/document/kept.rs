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
    #[must_use]
    pub const fn of(facts: T) -> Agreed<T> {
        Agreed(Some(facts))
    }

    /// The facts, if the result says them.
    #[must_use]
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
    #[cfg(test)]
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

/// The fields of a plain struct, each by the function given.
macro_rules! by_field {
    ($name:ident, $all:expr, { $($field:ident: $rule:expr,)* }) => {
        $name { $($field: $rule(&mut $all.iter().map(|one| &one.$field)),)* }
    };
}

type Each<'a, T> = &'a mut dyn Iterator<Item = &'a T>;

fn agree<T: Clone + PartialEq>(all: Each<'_, Option<T>>) -> Option<T> {
    same(all).flatten()
}

/// A list, or nothing of it.
fn agree_list<T: Clone + PartialEq>(all: Each<'_, Vec<T>>) -> Vec<T> {
    same(all).unwrap_or_default()
}

fn least<T: Copy + Ord>(all: Each<'_, Option<T>>) -> Option<T> {
    all.filter_map(|one| *one).min()
}

impl Merge for Machine {
    #[cfg(test)]
    const RULE: &'static str = "same, part by part; the least memory";

    fn merged(all: &[&Self], _: &Inputs) -> Self {
        by_field!(Machine, all, {
            cpu_model: agree,
            cores: agree,
            memory_total_bytes: agree,
            memory_available_bytes: least,
            kernel: agree,
            numa_nodes: agree,
            gpu: agree,
            cache_dir: agree,
            mount: agree,
            device: agree,
            device_chain: agree_list,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn settings_stay_where_all_agree() {
        let (a, b) = (json!({ "n": 5, "m": 4, "o": { "x": [1] } }), json!({ "n": 6, "m": 4 }));
        let want = json!({ "n": null, "m": 4, "o": null });
        assert_eq!(agreed(&[&a, &b]), want);
        assert_eq!(agreed(&[&a, &a]), a);
    }

    #[test]
    fn a_machine_that_differs_is_not_made_up() {
        let of = |cpu: &str, free| Machine {
            cpu_model: Some(cpu.to_owned()),
            cores: Some(2),
            memory_available_bytes: free,
            ..Machine::default()
        };
        let (a, b) = (of("x", Some(9)), of("y", Some(7)));
        let merged = Machine::merged(&[&a, &b], &Inputs::default());
        assert_eq!(merged, Machine { cpu_model: None, ..of("", Some(7)) });
    }
}
