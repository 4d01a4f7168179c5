use std::collections::BTreeSet;
use std::path::Path;

use ringfall_core::units::GIB;
use serde_json::{Value, json};

use super::full_test::full;
use super::tests::runs_merged;
use super::{Document, ResultFile};

fn to_json(document: &Document) -> Value {
    serde_json::to_value(document).unwrap()
}

fn read(value: Value) -> Result<Document, String> {
    let file = ResultFile::from_json(Path::new("older.json"), value);
    file.map(|file| file.document).map_err(|error| error.to_string())
}

/// The places of all keys, those of a list by its first item.
fn keys(value: &Value, place: &str, into: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                let place = format!("{place}/{key}");
                keys(value, &place, into);
                into.push(place);
            }
        }
        Value::Array(list) => {
            if let Some(first) = list.first() {
                keys(first, &format!("{place}/0"), into);
            }
        }
        _ => {}
    }
}

fn cut(document: &mut Value, place: &str) {
    let (parent, key) = place.rsplit_once('/').unwrap();
    document.pointer_mut(parent).unwrap().as_object_mut().unwrap().remove(key).unwrap();
}

/// Whether it holds no figure.
fn says_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.values().all(says_nothing),
        _ => false,
    }
}

/// Without these there is no result, or it is another's.
const WHOLE: [&str; 3] = ["/summary", "/ringfall", "/ringfall/schema_version"];

/// Parts that must be whole: the key of a row, without which the row means nothing; a trace, of
/// which a part would mislead; a verdict, which is worked out anew when results are merged; and the
/// settings, without which it is not known what was run.
const STRICT: [&str; 13] = [
    "/throughput_timeline/0/timestamp",
    "/summary/autoscaling_stats/0/timestamp",
    "/ringfall/drives/0/path",
    "/device_latency_tracing/",
    "/ringfall/block_trace/",
    "/ringfall/precondition/",
    "/summary/qos_metrics/",
    "/summary/cache_stats/storage_health/",
    "/ringfall/requests/",
    "/ringfall/device/cold_reads/",
    "/ringfall/config/origins",
    "/ringfall/config/settings",
    "/ringfall/machine/device_chain",
];

/// A result of a version that did not know a figure is read, in a list's rows too, and the figure
/// is unknown in it: neither a reason to refuse the rest nor a zero.
#[test]
fn a_figure_that_an_older_result_lacks_is_unknown_in_it() {
    let mut whole = to_json(&Document::of(&full()));
    whole["ringfall"]["histograms"] = json!({});
    let mut places = Vec::new();
    keys(&whole, "", &mut places);
    assert!(places.len() > 600, "{}", places.len());
    let rows = places.iter().filter(|place| place.contains("/0/")).count();
    assert!(rows > 90, "{rows}");
    let (mut refused, mut made_up) = (Vec::new(), Vec::new());
    let mut strict = BTreeSet::new();
    for place in places.iter().filter(|place| !WHOLE.contains(&&***place)) {
        let mut older = whole.clone();
        cut(&mut older, place);
        match read(older) {
            Err(error) => match STRICT.iter().find(|part| place.starts_with(**part)) {
                Some(part) => drop(strict.insert(part)),
                None => refused.push(format!("{place}: {error}")),
            },
            Ok(document) => {
                let again = to_json(&document);
                if !again.pointer(place).is_none_or(says_nothing) {
                    made_up.push(place);
                }
            }
        }
    }
    assert!(refused.is_empty(), "refused: {refused:#?}");
    assert!(made_up.is_empty(), "made up: {made_up:#?}");
    assert_eq!(strict.len(), STRICT.len(), "no longer refused: {strict:?} is all that is");
}

/// Tests that merging adds up parts that describe a whole run, or keeps them where all agree.
#[test]
fn parts_of_a_run_are_added_up_or_kept_where_all_agree() {
    let (mut one, mut other) = (full(), full());
    other.window.seconds = 30.0;
    if let Some(gpu) = &mut other.gpu {
        gpu.devices[0].free_bytes = GIB;
        gpu.why_not = Some("it was in use".to_owned());
    }
    if let Some(Ok(trace)) = &mut other.block_trace {
        trace.read.latency_mean_us = Some(400.0);
        trace.read.issue_to_complete_us[0].count = 12;
    }
    if let Some(depth) = &mut other.queue_depth {
        (depth.deepest, depth.seconds) = (128, 5.0);
    }
    if let Some(found) = &mut other.autoscale {
        found.initial_users = 5;
    }
    for result in [&mut one, &mut other] {
        result.machine.device =
            Some(ringfall_host::DeviceFacts { size_bytes: Some(GIB), ..Default::default() });
    }
    let documents = [&one, &other].map(Document::of);
    let shares = documents
        .each_ref()
        .map(|document| document.ringfall.roofline.as_ref().unwrap().share.known().unwrap());
    let merged = runs_merged(&[&documents[0], &documents[1]], &[]);
    let ours = &merged.ringfall;
    let gpu = ours.gpu.as_ref().unwrap();
    assert_eq!((gpu.asked_bytes.known(), gpu.why_not.as_ref()), (Some(2 * GIB), None));
    assert_eq!((gpu.devices.len(), gpu.devices[0].free_bytes.known()), (1, Some(GIB)));
    let trace = ours.block_trace.as_ref().unwrap();
    assert_eq!((trace.seconds, trace.read.requests, trace.heat[0].reads), (20.0, 8, 8));
    // 4 of 100 µs and 12 of 400 µs.
    assert_eq!(trace.read.latency_mean_us, Some(325.0));
    let traced = &merged.device_latency_tracing.as_ref().unwrap().0;
    assert_eq!(traced["d2c_read_us"].buckets[0].count, 16);
    let depth = ours.queue_depth.as_ref().unwrap();
    assert_eq!((depth.chosen.known(), depth.deepest.known()), (Some(16), None));
    assert_eq!((depth.seconds.known(), depth.steps.len()), (Some(5.0), 2));
    let roofline = ours.roofline.as_ref().unwrap();
    assert_eq!(roofline.source.as_ref().map(String::as_str), Some("limits.json"));
    let share = roofline.share.known().unwrap();
    // 10 s of the one and 30 s of the other.
    assert!((share - (shares[0] + 3.0 * shares[1]) / 4.0).abs() < 1e-12, "{share} of {shares:?}");
    let found = ours.autoscaler.as_ref().unwrap();
    assert_eq!((found.peak_users.known(), found.curve.len()), (Some(8), 4));
    let summary = merged.summary.autoscaling_summary.as_ref().unwrap();
    assert_eq!((summary.initial_users.known(), summary.final_users.known()), (None, Some(8)));
    assert_eq!(summary.total_scale_events.known(), Some(2));
    assert_eq!(merged.summary.autoscaling_stats.len(), 4);
    let read = |document: &Document| document.ringfall.device.chain[0].read_bytes.known();
    assert_eq!((ours.device.chain.len(), read(&merged)), (1, Some(2 * GIB)));
}

#[test]
fn parts_that_one_result_lacks_or_that_are_of_different_things_are_null() {
    let (whole, mut other) = (full(), full());
    (other.gpu, other.autoscale, other.roofline) = (None, None, None);
    if let Some(Ok(trace)) = &mut other.block_trace {
        trace.device = "sda".to_owned();
    }
    let merged = runs_merged(&[&Document::of(&whole), &Document::of(&other)], &[]);
    let ours = &merged.ringfall;
    assert!(ours.gpu.is_none() && ours.autoscaler.is_none() && ours.roofline.is_none());
    assert!(ours.block_trace.is_unknown() && merged.device_latency_tracing.is_unknown());
    assert!(ours.queue_depth.is_some());
}

/// No target holds for requests that were promised different things.
#[test]
fn merged_results_with_different_targets_are_held_against_none() {
    let (one, mut other) = (Document::of(&full()), Document::of(&full()));
    let sla = |document: &Document| {
        let class = &to_json(document)["summary"]["qos_metrics"]["batch"];
        let within = &to_json(document)["ringfall"]["requests"]["batch"];
        [&class["sla"]["met"], &class["targets_ms"], &within["share_within_target"]]
            .map(Value::clone)
    };
    let alike = runs_merged(&[&one, &other], &[]);
    assert!(sla(&alike).iter().all(|value| !value.is_null()), "{:?}", sla(&alike));
    let mut json = to_json(&other);
    json["ringfall"]["config"]["settings"]["workload"]["qos_targets_ms"]["batch"][0] = json!(77);
    other = read(json).unwrap();
    let merged = runs_merged(&[&one, &other], &[]);
    assert_eq!(sla(&merged), [Value::Null, Value::Null, Value::Null]);
    let batch = &to_json(&merged)["summary"]["qos_metrics"]["batch"];
    assert_eq!(batch["total_requests"], 2, "what needs no target stays: {batch}");
    assert!(batch["latency_ms"]["p95"].is_number());
}
