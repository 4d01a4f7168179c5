//! Schemas of the document's types that have none of their own.

use std::borrow::Cow;
use std::collections::BTreeMap;

use ringfall_config::{SETTINGS, Setting};
use ringfall_core::metrics::Counters;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Map, Value, json};

#[cfg(test)]
use super::Document;
use super::cache_stats::TierLatencies;
use super::counted::Counted;
use super::figure::{Part, Sum};
use super::histograms::{EncodedHistogram, EncodedHistograms};
use super::kept::Agreed;
use super::latency_keys;
use crate::Code;
use crate::figures::described::schema_as;

schema_as!({ T: JsonSchema } Part<T> => T);
schema_as!({ T: JsonSchema } Agreed<T> => T);
schema_as!({} EncodedHistograms => BTreeMap<String, Option<EncodedHistogram>>);
// Any text: a reader must not refuse the warnings of other versions.
schema_as!({} Code => String);

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

impl JsonSchema for TierLatencies {
    fn schema_name() -> Cow<'static, str> {
        "TierLatencies".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let properties = latency_keys::all().map(|key| {
            let description = key.description();
            (key.name(), json!({"description": description, "type": "number", "format": "double"}))
        });
        let properties: Map<String, Value> = properties.collect();
        json_schema!({"type": "object", "properties": properties})
    }
}

/// Gives each property that is a setting as it was typed the setting's own summary.
pub(super) fn described(schema: &mut Schema) {
    let properties = schema.get_mut("properties").and_then(Value::as_object_mut);
    for (name, property) in properties.into_iter().flatten() {
        let setting = SETTINGS.iter().find(|setting| setting.field == name);
        if let (Some(property), Some(setting)) = (property.as_object_mut(), setting) {
            let summary = || Value::String(format!("{}.", setting.summary()));
            property.entry("description").or_insert_with(summary);
        }
    }
}

/// A property for each setting, as it is declared.
pub(super) fn of_settings(_: &mut SchemaGenerator) -> Schema {
    let property = |setting: &Setting| (setting.key.to_owned(), or_null(setting.schema()));
    let properties: Map<String, Value> = SETTINGS.iter().map(property).collect();
    json_schema!({ "type": "object", "properties": properties, "additionalProperties": true })
}

/// The same, which is null where merged results differ in it.
fn or_null(mut schema: Value) -> Value {
    schema["type"] = match schema["type"].take() {
        Value::Array(names) => names.into_iter().chain([json!("null")]).collect(),
        name => json!([name, "null"]),
    };
    if let Some(names) = schema.get_mut("enum").and_then(Value::as_array_mut) {
        names.push(Value::Null);
    }
    schema
}

/// The schema of these types, as JSON Schema 2020-12.
#[cfg(test)]
pub(super) fn schema() -> Value {
    schemars::schema_for!(Document).into()
}
