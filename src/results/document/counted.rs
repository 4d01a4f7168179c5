//! Counters that were declared where they are counted: their names, descriptions and sums are in
//! the document without another line about any of them.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use ringfall_engine::metrics::Counters;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value, json};

use super::figure::Sum;
use super::merge::{Inputs, Merge};

/// Counters by their names; of a result that lacks one it is unknown.
pub struct Counted<T> {
    counters: BTreeMap<String, Sum<u64>>,
    of: PhantomData<T>,
}

impl<T: Counters> Counted<T> {
    /// The values of those counters, by name.
    #[must_use]
    pub fn of(counters: &T) -> Counted<T> {
        let names = T::NAMES.iter().map(|(name, _)| (*name).to_owned());
        Counted::holding(names.zip(counters.values().into_iter().map(Sum::of)).collect())
    }
}

impl<T> Counted<T> {
    const fn holding(counters: BTreeMap<String, Sum<u64>>) -> Counted<T> {
        Counted { counters, of: PhantomData }
    }
}

impl<T> Clone for Counted<T> {
    fn clone(&self) -> Self {
        Counted::holding(self.counters.clone())
    }
}

impl<T> fmt::Debug for Counted<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.counters.fmt(f)
    }
}

impl<T> PartialEq for Counted<T> {
    fn eq(&self, other: &Self) -> bool {
        self.counters == other.counters
    }
}

impl<T> Default for Counted<T> {
    fn default() -> Self {
        Counted::holding(BTreeMap::new())
    }
}

impl<T> Serialize for Counted<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.counters.serialize(serializer)
    }
}

impl<'de, T> Deserialize<'de> for Counted<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let counters: Option<_> = Option::deserialize(deserializer)?;
        Ok(Counted::holding(counters.unwrap_or_default()))
    }
}

impl<T: Counters> JsonSchema for Counted<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Counted".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let property = |(name, description): &(&str, &str)| {
            let mut schema = generator.subschema_for::<Sum<u64>>();
            let text = description.split_whitespace().collect::<Vec<_>>().join(" ");
            schema.insert("description".to_owned(), json!(text));
            ((*name).to_owned(), Value::from(schema))
        };
        let properties: Map<String, Value> = T::NAMES.iter().map(property).collect();
        json_schema!({ "type": "object", "properties": properties })
    }
}

impl<T: Counters> Merge for Counted<T> {
    fn merged(all: &[&Self], inputs: &Inputs) -> Self {
        let all: Vec<_> = all.iter().map(|one| &one.counters).collect();
        Counted::holding(BTreeMap::merged(&all, inputs))
    }

    #[cfg(test)]
    fn rules(path: &str, into: &mut Vec<(String, &'static str)>) {
        for (name, _) in T::NAMES {
            Sum::<u64>::rules(&format!("{path}/{name}"), into);
        }
    }
}
