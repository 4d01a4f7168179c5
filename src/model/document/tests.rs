//! That no field of the schema is forgotten: each is merged by a rule of its own, or worked out.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::{Value, json};

use super::full_test::full;
use super::merge::Merge;
use super::*;
use crate::testing::nothing;

/// The rules of all fields, by their place.
fn rules() -> Vec<(String, &'static str)> {
    let mut rules = Vec::new();
    Document::rules("", &mut rules);
    rules
}

/// Follows the reference of a schema that may also be null.
fn resolved<'a>(schema: &'a Value, all: &'a Value) -> &'a Value {
    let reference = |schema: &'a Value| schema["$ref"].as_str()?.strip_prefix('#');
    let options = schema["anyOf"].as_array().into_iter().flatten();
    let found = std::iter::once(schema).chain(options).find_map(reference);
    found.map_or(schema, |place| all.pointer(place).unwrap())
}

/// All places of the schema down to those that have a rule; the others as they are.
fn places(schema: &Value, all: &Value, place: &str, rules: &BTreeSet<String>) -> BTreeSet<String> {
    let own = BTreeSet::from([place.to_owned()]);
    if rules.contains(place) {
        return own;
    }
    let schema = resolved(schema, all);
    if let Some(properties) = schema["properties"].as_object() {
        let below =
            |(name, part): (&String, &Value)| places(part, all, &format!("{place}/{name}"), rules);
        return properties.iter().flat_map(below).collect();
    }
    match schema["additionalProperties"].is_object() {
        true => places(&schema["additionalProperties"], all, &format!("{place}/*"), rules),
        false => own,
    }
}

#[test]
fn every_field_of_the_schema_is_merged_or_derived() {
    let rules: BTreeSet<String> = rules().into_iter().map(|(place, _)| place).collect();
    let schema = schema::schema();
    let places = places(&schema, &schema, "", &rules);
    assert_eq!(places, rules);
    assert!(places.len() > 150, "{}", places.len());
}

fn at<'a>(document: &'a Value, place: &str) -> &'a Value {
    // Any of those below a `*` will do.
    document.pointer(&place.replace('*', "4096")).unwrap_or(&Value::Null)
}

pub(super) fn runs_merged(documents: &[&Document], command_line: &[String]) -> Document {
    let mut fold = Fold::one_after_the_other();
    for &document in documents {
        let histograms = Histograms::read(document, Path::new("x")).unwrap_or_default();
        fold.add(document.clone(), &histograms);
    }
    fold.finish(command_line)
}

/// A document whose numbers that are merged are all different, `seed` and `step` apart.
fn numbered(seed: u64, step: u64) -> Document {
    let mut document = serde_json::to_value(Document::of(&full())).unwrap();
    let merged = |rule: &str| ["sum", "max", "min"].contains(&rule);
    for (n, (place, _)) in (0..).zip(rules().iter().filter(|(_, rule)| merged(rule))) {
        let place = place.replace('*', "4096");
        *document.pointer_mut(&place).unwrap_or_else(|| panic!("{place}")) = json!(seed + n * step);
    }
    ResultFile::from_json(Path::new("numbered"), document).unwrap().document
}

#[test]
fn no_number_of_a_merged_result_is_taken_from_one_side() {
    let (a, b) = (numbered(1_000, 3), numbered(500_000, 7));
    let merged = runs_merged(&[&a, &b], &[]);
    let [a, b, merged] = [a, b, merged].map(|document| serde_json::to_value(document).unwrap());
    let mut seen = BTreeMap::new();
    for (place, rule) in rules() {
        let figure = |document: &Value| at(document, &place).as_f64();
        let (got, one, other) = (figure(&merged), figure(&a), figure(&b));
        let numbers = one.zip(other);
        match rule {
            "sum" => assert_eq!(got, numbers.map(|(one, other)| one + other), "{place}"),
            "max" => assert_eq!(got, numbers.map(|(one, other)| one.max(other)), "{place}"),
            "min" => assert_eq!(got, numbers.map(|(one, other)| one.min(other)), "{place}"),
            "of one run" => assert_eq!(at(&merged, &place), &Value::Null, "{place}"),
            _ => {}
        }
        *seen.entry(rule).or_insert(0) += usize::from(numbers.is_some());
    }
    assert!(seen["sum"] > 80 && seen["max"] >= 5 && seen["min"] >= 1, "{seen:?}");
}

#[test]
fn whatever_is_derived_is_worked_out_for_a_run_and_for_merged_results() {
    let run = Document::of(&full());
    let mut merged = runs_merged(&[&run, &run], &["merge".to_owned()]);
    merged.ringfall.merged = Some(MergedReport::default());
    let (run, merged) = (serde_json::to_value(run).unwrap(), serde_json::to_value(merged).unwrap());
    let mut derived = 0;
    for (place, _) in rules().iter().filter(|(_, rule)| *rule == "derived") {
        assert!(!at(&merged, place).is_null(), "{place} of merged results is not worked out");
        if place != "/ringfall/merged" {
            assert!(!at(&run, place).is_null(), "{place} of a run is not worked out");
            derived += 1;
        }
    }
    assert!(derived > 50, "{derived}");
    let latencies = |document: &Value| {
        let stats = document["summary"]["cache_stats"].as_object().unwrap().clone();
        stats.into_iter().filter(|(key, _)| key.ends_with("_ms")).collect::<Vec<_>>()
    };
    // Of each tier and direction in all; of GPU memory and storage also the device's and the
    // host's.
    assert_eq!(latencies(&run).len(), (3 * 2 + 2 * 2 * 2) * 5);
    assert_eq!(latencies(&run), latencies(&merged));
}

#[test]
fn parts_that_are_not_there_are_unknown_and_stay_so() {
    let document: Document = serde_json::from_value(json!({ "summary": null })).unwrap();
    assert_eq!(document, Document::default());
    let whole = Document::of(&nothing());
    let both = runs_merged(&[&document, &whole], &[]);
    assert_eq!(both.summary.total_tokens, Sum::default());
    assert_eq!(both.ringfall.io.read.iops, Derived::default());
    assert_eq!(serde_json::to_value(&both).unwrap()["summary"]["total_tokens"], Value::Null);
}
