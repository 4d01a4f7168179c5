//! What a merged result holds that is no sum: percentiles from the merged histograms, rates from
//! the summed counters, and lists.

use std::collections::BTreeMap;

use ringfall_engine::metrics::{Histogram, TierMetrics};
use ringfall_engine::tier::Tier;
use ringfall_engine::units::GIB;
use serde_json::{Map, Value, json};

use super::{Histograms, rules};
use crate::facts::SAMPLES_MAX;
use crate::results::document::values::{
    EVICTION_PAIRS, latency_keys, latency_ms, latency_ms_max, qos,
};

/// Arrays of raw values, one a request.
const SAMPLES: [&str; 5] = [
    "end_to_end_latencies",
    "storage_latencies",
    "generation_latencies",
    "prefill_latencies",
    "decode_latencies",
];
const CLASSES: [&str; 3] = ["end_to_end_interactive", "end_to_end_responsive", "end_to_end_batch"];
const WAITS: [&str; 5] = ["room", "buffer", "queue_place", "allocation_permit", "request_queue"];

/// Sets the value at `path` (names by dots), making the objects on the way.
fn put(document: &mut Value, path: &str, value: Value) {
    let mut place = document;
    for name in path.split('.') {
        if !place.is_object() {
            *place = Value::Object(Map::new());
        }
        place = &mut place[name];
    }
    *place = value;
}

fn figure(document: &Value, path: &str) -> Option<f64> {
    document.pointer(&format!("/{}", path.replace('.', "/")))?.as_f64()
}

fn quotient(part: Option<f64>, whole: Option<f64>) -> Option<f64> {
    Some(part? / whole.filter(|&whole| whole > 0.0)?)
}

/// The raw samples, timelines and errors: one after the other.
pub(super) fn lists(merged: &mut Value, documents: &[&Value]) {
    let completed: Vec<u64> = documents
        .iter()
        .map(|document| document["requests_completed"].as_u64().unwrap_or(0))
        .collect();
    let mut kept = 0;
    for name in SAMPLES {
        let samples = samples(name, documents, &completed);
        kept = kept.max(samples.len());
        merged[name] = Value::Array(samples);
    }
    let of: u64 = completed.iter().fold(0, |sum, count| sum.saturating_add(*count));
    merged["ringfall"]["samples"] = json!({ "kept": kept, "of": of, "kept_max": SAMPLES_MAX,
        "sampled": of > kept as u64 });
    let rows = |place: &str| {
        let rows = documents.iter().filter_map(|d| d.pointer(place)?.as_array());
        rows.flatten().cloned().collect::<Vec<Value>>()
    };
    merged["throughput_timeline"] = Value::Array(rows("/throughput_timeline"));
    merged["ringfall"]["timeline"] = Value::Array(timeline(documents, "/ringfall/timeline"));
    let kernel = timeline(documents, "/ringfall/device/series");
    put(merged, "ringfall.device.series", Value::Array(kernel));
    let errors = by_kind(&rows("/ringfall/errors/by_kind"));
    put(merged, "ringfall.errors.by_kind", Value::Array(errors));
}

/// At most [`SAMPLES_MAX`] values; beyond, of each result a share as large as its share of the
/// requests, evenly picked from a list that is in no order.
fn samples(name: &str, documents: &[&Value], completed: &[u64]) -> Vec<Value> {
    let empty = Vec::new();
    let lists: Vec<&Vec<Value>> =
        documents.iter().map(|d| d[name].as_array().unwrap_or(&empty)).collect();
    let all: usize = lists.iter().map(|list| list.len()).sum();
    let sampled = lists
        .iter()
        .zip(completed)
        .any(|(list, &of)| list.len() >= SAMPLES_MAX && of > list.len() as u64);
    if all <= SAMPLES_MAX && !sampled {
        return lists.into_iter().flatten().cloned().collect();
    }
    let requests: u128 = completed.iter().map(|&count| u128::from(count)).sum();
    let mut kept = Vec::new();
    for (list, &of) in lists.iter().zip(completed) {
        let share = u128::from(of) * SAMPLES_MAX as u128 / requests.max(1);
        let quota = usize::try_from(share).unwrap_or(SAMPLES_MAX).min(list.len());
        kept.extend((0..quota).map(|at| list[at * list.len() / quota].clone()));
    }
    kept
}

/// The seconds of all runs as if each had begun when the one before it ended.
fn timeline(documents: &[&Value], pointer: &str) -> Vec<Value> {
    let mut rows = Vec::new();
    let mut began_s = 0.0;
    for document in documents {
        for row in document.pointer(pointer).and_then(Value::as_array).into_iter().flatten() {
            let mut row = row.clone();
            if let Some(end_s) = row["end_s"].as_f64() {
                row["end_s"] = json!(began_s + end_s);
            }
            rows.push(row);
        }
        began_s += figure(document, "ringfall.window.seconds").unwrap_or(0.0);
    }
    rows
}

/// Rows of the same kind, operation and errno as one.
fn by_kind(rows: &[Value]) -> Vec<Value> {
    let mut merged: BTreeMap<String, Value> = BTreeMap::new();
    for row in rows {
        let key = format!("{} {} {}", row["kind"], row["operation"], row["errno"]);
        match merged.get_mut(&key) {
            Some(there) if there.is_object() => {
                there["count"] = rules::sum(&[&there["count"].clone(), &row["count"]]);
            }
            _ => {
                merged.insert(key, row.clone());
            }
        }
    }
    merged.into_values().collect()
}

/// Everything that percentiles and summed times are made from.
pub(super) fn from_histograms(merged: &mut Value, histograms: &Histograms) {
    let seconds =
        |name: &str| histograms.get(name).map_or(Value::Null, |h| json!(h.sum_ns() as f64 / 1e9));
    let (storage_s, generation_s) = (seconds("storage_io"), seconds("generation"));
    put(merged, "total_storage_io_latency", storage_s.clone());
    put(merged, "summary.total_storage_io_time", storage_s);
    put(merged, "total_generation_latency", generation_s);
    let end_to_end = histograms.sum(&CLASSES);
    let short = |histogram: Option<&Histogram>| histogram.map_or(Value::Null, latency_ms);
    let long = |name: &str| histograms.get(name).map_or(Value::Null, latency_ms_max);
    put(merged, "summary.end_to_end_latency_ms", short(end_to_end.as_ref()));
    put(merged, "summary.storage_io_latency_ms", short(histograms.get("storage_io")));
    put(merged, "summary.generation_latency_ms", short(histograms.get("generation")));
    let classes = CLASSES.map(|name| histograms.get(name).cloned());
    let quality = match classes {
        [Some(a), Some(b), Some(c)] => qos(&[a, b, c]),
        _ => Value::Null,
    };
    put(merged, "summary.qos_metrics", quality);
    // What was to be met is judged for a run.
    put(merged, "summary.cache_stats.storage_health", Value::Null);
    tiers(merged, histograms);
    for direction in ["read", "write", "flush"] {
        let latency = long(&format!("io_{direction}"));
        put(merged, &format!("ringfall.io.{direction}.latency_ms"), latency);
    }
    for wait in WAITS {
        put(merged, &format!("ringfall.waits.{wait}_ms"), long(&format!("wait_{wait}")));
    }
    for pair in EVICTION_PAIRS {
        for direction in ["read", "write"] {
            let latency = long(&format!("evict_{pair}_{direction}"));
            put(merged, &format!("ringfall.evictions.{pair}.{direction}_ms"), latency);
        }
    }
}

/// The latency keys of `cache_stats`: a tier with no operation has none.
fn tiers(merged: &mut Value, histograms: &Histograms) {
    let Some(stats) = merged["summary"]["cache_stats"].as_object_mut() else { return };
    stats.retain(|key, _| !key.ends_with("_ms"));
    for tier in Tier::ALL {
        let mut metrics = TierMetrics::default();
        for (direction, into) in [("read", &mut metrics.read), ("write", &mut metrics.write)] {
            let of = |part: &str| {
                let name = format!("{}_{direction}_{part}", tier.name());
                histograms.get(&name).cloned().unwrap_or_default()
            };
            (into.total, into.device, into.host) = (of("total"), of("device"), of("host"));
        }
        stats.extend(latency_keys(tier, &metrics));
    }
}

/// Rates and ratios, from what was summed.
pub(super) fn rates(merged: &mut Value, histograms: &Histograms) {
    let seconds = "ringfall.window.seconds";
    let stats = "summary.cache_stats";
    let of = |merged: &Value, path: &str| figure(merged, path);
    let mut ratio = |path: &str, part: &str, whole: &str| {
        let value = quotient(of(merged, part), of(merged, whole));
        put(merged, path, json!(value));
    };
    ratio("summary.avg_throughput_tokens_per_sec", "summary.total_tokens", seconds);
    ratio("summary.requests_per_second", "summary.total_requests", seconds);
    ratio(
        "summary.storage_throughput_tokens_per_sec",
        "summary.total_tokens",
        "summary.total_storage_io_time",
    );
    ratio(
        &format!("{stats}.read_write_ratio"),
        &format!("{stats}.total_read_bytes"),
        &format!("{stats}.total_write_bytes"),
    );
    for tier in Tier::ALL.map(Tier::name) {
        for (direction, done) in [("read", "read"), ("write", "written")] {
            let rate = format!("{stats}.tier_{tier}_{direction}_bandwidth_gbps");
            ratio(&rate, &format!("{stats}.tier_{tier}_kv_bytes_{done}_gb"), seconds);
        }
    }
    for direction in ["read", "write"] {
        let io = format!("ringfall.io.{direction}");
        ratio(&format!("{io}.iops"), &format!("{io}.count"), seconds);
        ratio(&format!("{io}.size_mean_bytes"), &format!("{io}.bytes"), &format!("{io}.count"));
    }
    ratio(
        "ringfall.io.first_touch_share",
        "ringfall.io.first_touch_bytes",
        "ringfall.io.write.bytes",
    );
    shares_of_hits(merged);
    io_and_device(merged, histograms);
}

fn shares_of_hits(merged: &mut Value) {
    for (path, place) in [
        ("summary.cache_stats.cache_hit_rate", "summary.cache_stats"),
        ("summary.multi_turn_stats.hit_rate", "summary.multi_turn_stats"),
    ] {
        let hits = figure(merged, &format!("{place}.cache_hits"));
        let misses = figure(merged, &format!("{place}.cache_misses"));
        let all = hits.zip(misses).map(|(hits, misses)| hits + misses);
        put(merged, path, json!(quotient(hits, all)));
    }
}

fn io_and_device(merged: &mut Value, histograms: &Histograms) {
    let seconds = figure(merged, "ringfall.window.seconds");
    let gib = |bytes: Option<f64>| bytes.map(|bytes| bytes / GIB as f64);
    let mut moved = Some(0.0);
    for direction in ["read", "write"] {
        let io = format!("ringfall.io.{direction}");
        let bytes = figure(merged, &format!("{io}.bytes"));
        moved = moved.zip(bytes).map(|(sum, bytes)| sum + bytes);
        put(merged, &format!("{io}.bandwidth_gib_per_s"), json!(quotient(gib(bytes), seconds)));
        // Little's law, as for a run.
        let busy_s = histograms.get(&format!("io_{direction}")).map(|h| h.sum_ns() as f64 / 1e9);
        put(merged, &format!("{io}.depth_mean"), json!(quotient(busy_s, seconds)));
    }
    let cpu_s = figure(merged, "ringfall.cost.cpu_user_s")
        .zip(figure(merged, "ringfall.cost.cpu_system_s"))
        .map(|(user, system)| user + system);
    put(merged, "ringfall.cost.cpu_s_per_gib", json!(quotient(cpu_s, gib(moved))));
    let ours = |d: &str| figure(merged, &format!("ringfall.device.engine_{d}_bytes"));
    let kernels = |d: &str| figure(merged, &format!("ringfall.device.kernel.{d}_bytes"));
    let both = |of: &dyn Fn(&str) -> Option<f64>| Some(of("read")? + of("write")?);
    let agreement = json!({
        "read_ratio": quotient(ours("read"), kernels("read")),
        "write_ratio": quotient(ours("write"), kernels("write")),
        "total_ratio": quotient(both(&ours), both(&kernels)),
    });
    let busy_s = figure(merged, "ringfall.device.kernel.busy_ms").map(|ms| ms / 1e3);
    let known = kernels("read").is_some();
    put(merged, "ringfall.device.agreement", if known { agreement } else { Value::Null });
    put(merged, "ringfall.device.utilisation", json!(quotient(busy_s, seconds)));
}
