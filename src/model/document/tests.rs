//! That no field of the schema is forgotten: each is merged by a rule of its own, or worked out.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::{Value, json};

use super::figure::{Any, Max, Min, OverTime, Sum};
use super::full_test::full;
use super::list::Union;
use super::merge::{Inputs, Merge};
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

fn merged<T: Merge>(all: &[&T]) -> T {
    T::merged(all, &Inputs { seconds: vec![1.0; all.len()], completed: vec![1; all.len()] })
}

#[test]
fn counts_add_up_and_what_one_did_not_count_is_unknown() {
    let of = Sum::<u64>::of;
    assert_eq!(merged(&[&of(3), &of(4)]), of(7));
    assert_eq!(merged(&[&of(3), &Sum::default()]), Sum::default());
    assert_eq!(merged(&[&Sum::default(), &of(3)]), Sum::default());
    assert_eq!(merged(&[&of(u64::MAX), &of(1)]), of(u64::MAX));
    assert_eq!(merged(&[&Sum::<f64>::of(1.5), &Sum::of(2.0)]), Sum::of(3.5));
}

#[test]
fn what_differs_is_unknown_and_equal_counts_are_not_the_same() {
    let of = |word: &str| Same::<String>::of(word.to_owned());
    assert_eq!(merged(&[&of("on"), &of("on")]), of("on"));
    assert_eq!(merged(&[&of("on"), &of("off")]), Same::default());
    assert_eq!(merged(&[&of("on"), &Same::default()]), Same::default());
    assert_eq!(merged(&[&OfRun::<u64>::of(5), &OfRun::of(5)]), OfRun::default());
    assert_eq!(merged(&[&Derived::<u64>::of(5), &Derived::of(5)]), Derived::default());
}

#[test]
fn extremes_are_of_those_that_know_and_lists_hold_an_item_once() {
    let unknown = Max::<Option<u64>>::default();
    assert_eq!(merged(&[&Max::of(2), &unknown, &Max::of(9)]), Max::of(9));
    assert_eq!(merged(&[&unknown, &unknown]), unknown);
    assert_eq!(merged(&[&Min::<f64>::of(2.5), &Min::of(2.0)]), Min::of(2.0));
    assert_eq!(merged(&[&Any::<bool>::of(false), &Any::of(true)]), Any::of(true));
    let share = |share: f64| OverTime::<f64>::of(share);
    assert_eq!(merged(&[&share(0.5), &share(1.0)]), share(0.75));
    assert_eq!(merged(&[&share(0.5), &OverTime::default()]), OverTime::default());
    let list = |items: &[u8]| Union(items.to_vec());
    assert_eq!(merged(&[&list(&[1, 2]), &list(&[3, 1])]), list(&[1, 2, 3]));
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
