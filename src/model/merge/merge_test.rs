use std::collections::BTreeMap;

use ringfall_core::units::GIB;
use serde_json::{Value, json};

use super::*;
use crate::metrics::{METRICS, WALL_CLOCK};
use crate::testing::{file, run, to_json};

fn written(inputs: &[ResultFile]) -> Value {
    serde_json::to_value(merge(inputs, &[], &["ringfall".into()]).unwrap()).unwrap()
}

/// All leaves, by their path; lists are one.
fn leaves(path: &str, value: &Value, into: &mut BTreeMap<String, Value>) {
    match value.as_object() {
        Some(map) => {
            map.iter().for_each(|(key, value)| leaves(&format!("{path}.{key}"), value, into))
        }
        None => drop(into.insert(path.to_owned(), value.clone())),
    }
}

/// A run split in two and merged is the unsplit run: every percentile, count and rate the same, to
/// the last bit; and everything else is null, not wrong.
#[test]
fn the_halves_of_a_run_merge_to_the_whole() {
    let whole = to_json(&run(0..3_000, 10.0));
    let halves = [
        file("a.json", to_json(&run(0..1_700, 4.0))),
        file("b.json", to_json(&run(1_700..3_000, 6.0))),
    ];
    let merged = written(&halves);
    let (mut want, mut got) = (BTreeMap::new(), BTreeMap::new());
    leaves("", &whole, &mut want);
    leaves("", &merged, &mut got);
    // Of a run only: the verdict, and what it holds of this program and of the two windows.
    let own = [
        "storage_health",
        "timeline",
        "command_line",
        "ringfall.engine",
        "ringfall.steadiness",
        "ringfall.merged",
        "device.chain",
    ];
    let of_a_run = |path: &str| own.iter().any(|own| path.contains(own));
    let mut percentiles = 0;
    for (path, want) in &want {
        let Some(got) = got.get(path) else {
            assert!(of_a_run(path), "{path} is missing");
            continue;
        };
        if of_a_run(path)
            || got.is_null() && path.ends_with("_entries")
            || got.is_null() && path.ends_with("_memory_used_gb")
        {
            continue;
        }
        if path.ends_with("storage_tokens_processed") {
            assert!((want.as_f64().unwrap() - got.as_f64().unwrap()).abs() < 1e-6);
            continue;
        }
        assert_eq!(got, want, "{path}");
        percentiles += usize::from(path.contains("p9"));
    }
    assert!(percentiles > 90, "{percentiles}");
    for path in got.keys().filter(|path| !path.contains(".merged.")) {
        assert!(want.contains_key(path) || of_a_run(path), "{path} is in the merged one only");
    }
}

#[test]
fn the_spread_and_the_inputs_are_kept() {
    let inputs = [
        file("a.json", to_json(&run(0..100, 10.0))),
        file("b.json", to_json(&run(100..400, 10.0))),
        file("c.json", to_json(&run(400..600, 10.0))),
    ];
    let merged = written(&inputs);
    let about = &merged["ringfall"]["merged"];
    assert_eq!(about["inputs"][1]["file"], "b.json");
    assert_eq!(about["inputs"][1]["requests_completed"], 300);
    let spread = about["spread"].as_array().unwrap();
    assert!(spread.len() > 15 && spread.len() <= METRICS.len());
    let row = spread.iter().find(|row| row["metric"] == WALL_CLOCK).unwrap();
    let values: Vec<f64> =
        row["values"].as_array().unwrap().iter().map(|v| v.as_f64().unwrap()).collect();
    assert_eq!(values.len(), 3);
    assert_eq!(row["median"].as_f64(), Some(values[2]));
    assert_eq!(row["max"].as_f64(), Some(values[1]));
    let timeline = merged["ringfall"]["timeline"].as_array().unwrap();
    let ends: Vec<_> = timeline.iter().map(|row| row["end_s"].as_f64().unwrap()).collect();
    assert_eq!(ends, [10.0, 20.0, 30.0]);
    // A merged result is a result.
    let again = written(&[file("m.json", merged), inputs[0].clone()]);
    assert_eq!(again["requests_completed"], 700);
}

#[test]
fn a_histogram_that_one_lacks_is_not_made_up() {
    let (mut a, b) = (to_json(&run(0..50, 1.0)), to_json(&run(50..90, 1.0)));
    a["ringfall"]["histograms"].as_object_mut().unwrap().remove("storage_io");
    let merged = written(&[file("a", a.clone()), file("b", b.clone())]);
    assert_eq!(merged["summary"]["storage_io_latency_ms"], Value::Null);
    assert_eq!(merged["summary"]["storage_throughput_tokens_per_sec"], Value::Null);
    assert!(merged["summary"]["end_to_end_latency_ms"]["p99"].is_number());
    a["ringfall"].as_object_mut().unwrap().remove("histograms");
    let error = merge(&[file("b", b), file("a", a)], &[], &[]).unwrap_err();
    assert!(error.to_string().starts_with("a: ") && error.to_string().contains("histograms"));
}

#[test]
fn errors_of_a_kind_add_up() {
    let mut result = run(0..5, 1.0);
    result.cost.peak_rss_bytes = Some(GIB);
    let mut a = to_json(&result);
    let row = |count: u64| {
        let first = "x";
        json!([{ "kind": "io", "operation": "read", "errno": 5, "count": count, "first": first }])
    };
    let mut b = a.clone();
    a["ringfall"]["errors"]["by_kind"] = row(2);
    b["ringfall"]["errors"]["by_kind"] = row(3);
    let merged = written(&[file("a", a), file("b", b)]);
    assert_eq!(merged["ringfall"]["errors"]["by_kind"], row(5));
    assert_eq!(merged["ringfall"]["cost"]["peak_rss_bytes"], GIB);
}
