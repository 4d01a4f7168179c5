use ringfall_core::key::Tier;
use ringfall_core::metrics::TierMetrics;
use serde_json::json;

use super::*;
use crate::document::ResultFile;
use crate::document::full_test::full;
use crate::facts::{FileCounts, FileOperations, SimulationFigures};
use crate::simulation::{Alternative, Alternatives, Binding};
use crate::testing::{busy, hold_in_seconds, judged, nothing, run};
use crate::{RunResult, SimulationReport};

fn of(value: Value) -> Vec<String> {
    let file = ResultFile::from_json(Path::new("a.json"), value).unwrap();
    contradictions(&file.document).iter().map(ToString::to_string).collect()
}

fn written() -> Value {
    serde_json::to_value(Document::of(&busy())).unwrap()
}

/// The storage tier alone, all of whose writes the write criterion and its key have.
fn without_a_cpu_tier() -> RunResult {
    let mut result = judged();
    let engine = &mut result.engine;
    engine.tiers[Tier::Cpu.index()] = TierMetrics::default();
    engine.evictions[Tier::Cpu.index()] = Default::default();
    // All that was read but for the prompts.
    let read = engine.tiers[Tier::Storage.index()].read.entry_bytes;
    (result.cache.decode_read_bytes, result.cache.own_turn_read_bytes) = (read, read);
    hold_in_seconds(&mut result);
    result
}

/// The contradictions that there are once the place has another value.
fn with(result: &RunResult, place: &str, value: Value) -> Vec<String> {
    let mut changed = serde_json::to_value(Document::of(result)).unwrap();
    *changed.pointer_mut(place).unwrap_or_else(|| panic!("no {place}")) = value;
    of(changed)
}

#[test]
fn decode_reads_are_no_more_than_all_reads() {
    let place = "/summary/cache_stats/decode_bytes_read_gb";
    // Both tiers have read a GiB.
    assert_eq!(with(&busy(), place, json!(2.0)), [""; 0]);
    assert_eq!(with(&busy(), place, json!(2.01)), [""; 0]);
    let found = with(&busy(), place, json!(2.1));
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].starts_with("`summary.cache_stats.decode_bytes_read_gb`"), "{found:?}");
}

/// Halved by hand they passed.
#[test]
fn decode_reads_are_no_less_than_what_only_they_can_have_read() {
    let place = "/summary/cache_stats/decode_bytes_read_gb";
    let (result, own) = (without_a_cpu_tier(), "/ringfall/cache/own_turn_read_bytes");
    assert_eq!(with(&result, place, json!(1.0)), [""; 0]);
    let halved = with(&result, place, json!(0.5));
    assert!(halved[0].starts_with("`ringfall.cache.own_turn_read_bytes` says"), "{halved:?}");
    assert!(halved[1].contains("total_read_bytes` without shared prompts says"), "{halved:?}");
    assert_eq!(halved.len(), 2, "{halved:?}");
    // Where prompts may be what the rest was, it is known from the reads of own turns alone.
    assert_eq!(with(&judged(), place, json!(0.5)), [""; 0]);
    assert_eq!(with(&judged(), own, json!(2_u64 << 30)).len(), 1);
}

#[test]
fn an_amount_below_0_contradicts_itself() {
    let place = "/summary/cache_stats/read_write_ratio";
    let found = with(&busy(), place, json!(-1.5));
    let told =
        "`summary.cache_stats.read_write_ratio` says -1.5, and the smallest possible value 0";
    assert!(found.iter().any(|text| text == told), "{found:?}");
}

#[test]
fn a_verdict_follows_from_its_criteria_and_they_from_the_latencies() {
    let health = "/summary/cache_stats/storage_health";
    for (result, place, value, told) in [
        (judged(), "overall_status", json!("FAIL"), "storage_health.overall_status`"),
        (judged(), "passed_count", json!(3), "`passed`"),
        (judged(), "total_count", json!(5), "the number of its `criteria`"),
        (judged(), "criteria/2/passed", json!(false), "`passed`"),
        (
            judged(),
            "criteria/1/actual",
            json!(1.5),
            "the P95 of `ringfall.histograms.storage_read_",
        ),
        (judged(), "criteria/0/actual", json!(1.5), "` and `evict_cpu_to_storage_write` and `"),
        (judged(), "criteria/0/target", json!(1.5), "its `actual` and `target` (1 if it was met)"),
        (judged(), "criteria/0/target", json!(900), "that of its name"),
        (judged(), "criteria/2/samples", json!(80), "the count of `ringfall.histograms.cpu_read_"),
        (judged(), "criteria/3/actual", json!(0.9), "`summary.cache_stats.cache_hit_rate`"),
    ] {
        let found = with(&result, &format!("{health}/{place}"), value);
        assert!(found.iter().any(|text| text.contains(told)), "{place}: {found:?}");
    }
}

#[test]
fn a_setting_is_the_same_in_both_places() {
    for key in ["num_users", "seed", "duration_s"] {
        let place = format!("/ringfall/config/{key}");
        let found = with(&busy(), &place, json!(77));
        let told = format!("`ringfall.config.{key}` says 77");
        assert!(found.iter().any(|text| text.starts_with(&told)), "{key}: {found:?}");
    }
}

/// Multiplies all numbers at or below these places by ten.
fn tenfold(value: &mut Value) {
    match value {
        Value::Number(number) => {
            *value = match number.as_u64() {
                Some(count) => json!(count * 10),
                None => json!(number.as_f64().unwrap() * 10.0),
            }
        }
        Value::Array(rows) => rows.iter_mut().for_each(tenfold),
        Value::Object(rows) => rows.values_mut().for_each(tenfold),
        _ => {}
    }
}

#[test]
fn what_a_run_writes_does_not_contradict_itself() {
    for result in [nothing(), busy(), judged(), without_a_cpu_tier(), run(0..90, 10.0)] {
        assert_eq!(of(serde_json::to_value(Document::of(&result)).unwrap()), [""; 0]);
    }
    assert_eq!(of(json!({ "summary": written()["summary"] })), [""; 0], "the reference's");
}

#[test]
fn a_summary_that_was_changed_by_hand_contradicts_the_rest() {
    let mut changed = written();
    let stats = changed["summary"]["cache_stats"].as_object_mut().unwrap();
    for (key, value) in stats.iter_mut() {
        if key.contains("bandwidth") || key.contains("bytes") || key.ends_with("_gb") {
            tenfold(value);
        }
    }
    for key in ["avg_throughput_tokens_per_sec", "total_tokens"] {
        tenfold(&mut changed["summary"][key]);
    }
    let found = of(changed);
    for (key, figures) in [
        ("`summary.total_tokens`", "says 90, and `total_tokens_generated` 9"),
        ("`summary.cache_stats.tier_storage_kv_bytes_read_gb`", "`ringfall.io.read"),
        ("`summary.cache_stats.tier_storage_kv_bytes_written_gb`", "`ringfall.io.write"),
        ("`summary.cache_stats.total_read_bytes`", "`ringfall.cache.moved_read_bytes` at most"),
    ] {
        let told = found.iter().find(|text| text.starts_with(key));
        assert!(told.is_some_and(|text| text.contains(figures)), "{key}: {found:#?}");
    }
}

/// Every figure of which a change by hand is seen: the place to change, and the place told.
#[test]
fn each_figure_that_stands_twice_is_held_against_the_other() {
    for (place, told) in [
        ("/summary/total_requests", "`requests_completed`"),
        ("/summary/elapsed_time", "`ringfall.window.seconds`"),
        ("/summary/end_to_end_latency_ms/p95", "counts and histograms"),
        ("/summary/cache_stats/storage_read_device_p95_ms", "counts and histograms"),
        ("/summary/cache_stats/total_read_gb", "`summary.cache_stats.total_read_bytes`"),
        ("/summary/avg_throughput_tokens_per_sec", "counts and histograms"),
        ("/summary/cache_stats/tier_storage_read_bandwidth_gbps", "counts and histograms"),
        ("/ringfall/io/read/bytes", "`ringfall.device.engine_read_bytes`"),
        ("/ringfall/io/write/count", "`ringfall.histograms.io_write`"),
        ("/ringfall/device/kernel/write_bytes", "counts and histograms"),
        ("/ringfall/device/agreement/total_ratio", "counts and histograms"),
        ("/ringfall/cost/cpu_s_per_gib", "counts and histograms"),
        ("/summary/cache_stats/read_iops", "`ringfall.histograms.storage_read_total` together"),
        ("/summary/cache_stats/write_iops", "`ringfall.cache.ingested_chunks` together at most"),
        ("/summary/cache_stats/offloads_cpu", "`ringfall.evictions.gpu_to_cpu.entries` together"),
        ("/summary/cache_stats/offloads_storage", "cpu_to_storage.entries` and"),
        ("/summary/cache_stats/tier_cpu_kv_bytes_read_gb", "`ringfall.cache.cpu_read_bytes` and"),
        ("/summary/prefix_cache_stats/prefix_hits", "`ringfall.cache.prompt_hits`"),
        ("/ringfall/cache/writes", "`ringfall.histograms.cpu_write_total` and"),
        ("/ringfall/io/read/entry_bytes", "`ringfall.io.read.bytes`"),
        ("/ringfall/io/read/sizes/4096/count", "the sum of `count` over `ringfall.io.read.sizes`"),
        ("/ringfall/io/flush/count", "`ringfall.histograms.io_flush`"),
        ("/ringfall/timeline/0/io_read_buckets/0/1", "`io_read_buckets.*.1` over"),
        ("/ringfall/timeline/0/tiers/cpu/write/operations", "`ringfall.histograms.cpu_write_"),
        ("/ringfall/device/series/0/read_bytes", "its `size_mean_bytes` by `reads` and `writes`"),
        ("/summary/autoscaling_stats/1/read_latency_p95_ms", "`ringfall.autoscaler.curve.1.read_"),
        ("/throughput_timeline/0/throughput_tokens_per_sec", "counts and histograms"),
    ] {
        let mut changed = serde_json::to_value(Document::of(&full())).unwrap();
        let before = of(changed.clone());
        let there = changed.pointer_mut(place).unwrap_or_else(|| panic!("no {place}"));
        assert!(there.as_f64().is_some_and(|value| value != 0.0), "{place} is {there}");
        tenfold(there);
        let found = of(changed);
        let new: Vec<_> = found.iter().filter(|text| !before.contains(text)).collect();
        assert!(new.iter().any(|text| text.contains(told)), "{place}: {found:#?}");
    }
}

/// Nothing held them against anything.
#[test]
fn waits_for_growth_and_throttled_periods_are_parts_of_others() {
    let found = with(&full(), "/ringfall/cost/cpu_throttled_periods", json!(11));
    let told = |words: &str| found.iter().any(|text| text.contains(words));
    assert!(told("and `ringfall.cost.cpu_quota_periods` at most 10"), "{found:#?}");
    let mut result = busy();
    let waits = &mut result.engine.waits;
    (0..=waits.room.count()).for_each(|_| waits.growth.record(1));
    let found = of(serde_json::to_value(Document::of(&result)).unwrap());
    assert_eq!(found.len(), 1, "{found:#?}");
    assert!(found[0].contains("`ringfall.histograms.wait_growth` says"), "{found:#?}");
}

#[test]
fn rates_of_a_drive_are_held_against_its_counts() {
    for (key, value) in [("gib_per_s", 1.0), ("per_s", 9.0)] {
        let place = format!("/ringfall/drives/0/read/{key}");
        let words = format!("its `read.{key}` by `ringfall.window.seconds`");
        assert_eq!(told_of(&full(), &place, json!(value), &words), 1, "{key}");
    }
}

/// With `simulation` set to null by hand it passed as a run on a drive.
#[test]
fn a_simulated_run_without_its_simulation_contradicts_itself() {
    let mut run = busy();
    run.command_line[1] = "simulate".to_owned();
    run.simulation = Some(SimulationReport::default());
    run.warnings = crate::warnings_of(&run);
    assert_eq!(of(serde_json::to_value(Document::of(&run)).unwrap()), [""; 0]);
    let found = with(&run, "/ringfall/simulation", json!(null));
    let all = ["`simulate` in `ringfall.command_line` 1", "`ringfall.warnings` 1"];
    for (words, told) in all.iter().zip(&found) {
        assert!(told.starts_with("`ringfall.simulation`") && told.ends_with(words), "{found:?}");
    }
    assert_eq!(found.len(), all.len(), "{found:?}");
}

/// With its bottleneck, reason or gains changed by hand it passed.
#[test]
fn what_bound_a_simulated_run_is_held_against_its_alternatives() {
    let mut run = busy();
    let of = |resource, times_faster| Alternative {
        resource,
        with: "more of it".to_owned(),
        times_faster,
    };
    let tried = vec![of(Binding::Drive, 1.25), of(Binding::QueueDepth, 1.5)];
    let figures = SimulationFigures { drive_busy_share: 0.4, ..SimulationFigures::default() };
    let named = ("nvme".to_owned(), "measured".to_owned());
    let alternatives = Alternatives { tried, window_s: 20, requests: 31 };
    run.simulation = Some(SimulationReport::of(named, figures, None, Ok(alternatives), &run));
    run.warnings = crate::warnings_of(&run);
    let place = "/ringfall/simulation";
    let is_told = |key: &str, value| told_of(&run, &format!("{place}/{key}"), value, "") > 0;
    assert!(!is_told("binds", json!("queue_depth")));
    for (key, value) in [
        ("binds", json!("drive")),
        ("binds", json!("shards")),
        ("binds", json!("users")),
        ("because", json!("requests would be 1.70 times as fast with more of it")),
        ("because", json!("the drive was busy 90 % of the time")),
        ("alternatives/0/times_faster", json!(2.5)),
        ("alternatives/1/times_faster", json!(3.0)),
        ("drive_busy_share", json!(0.8)),
    ] {
        assert!(is_told(key, value.clone()), "{key} {value}");
    }
}

/// Contradictions in a result with another value there, of a key that has these words.
fn told_of(result: &RunResult, place: &str, value: Value, words: &str) -> usize {
    with(result, place, value).iter().filter(|text| text.contains(words)).count()
}

#[test]
fn what_a_search_found_is_held_against_its_steps() {
    let search = "/ringfall/autoscaler";
    for (key, value, is_told) in [
        ("peak_gib_per_s", json!(1.0), false),
        ("peak_gib_per_s", json!(0.5), false),
        ("peak_gib_per_s", json!(1.2), true),
        ("peak_users", json!(9), true),
    ] {
        let words = format!("`ringfall.autoscaler.{key}` says");
        let found = told_of(&full(), &format!("{search}/{key}"), value, &words);
        assert_eq!(found > 0, is_told, "{key}");
    }
}

#[test]
fn the_spread_of_trials_is_held_against_their_values() {
    let merged = |key: &str, value: f64| {
        let mut spread = json!({ "metric": "m", "values": [1.0, 2.0, null, null], "median": 2.0,
                                 "min": 1.0, "max": 3.0, "cv": 0.5 });
        spread["bounds"] = json!([null, null, null, 3.0]);
        spread[key] = json!(value);
        let mut document = written();
        document["ringfall"]["merged"] = json!({ "inputs": [], "spread": [spread] });
        of(document)
    };
    assert_eq!(merged("cv", 0.5), [""; 0]);
    for (key, value) in [("min", 1.9), ("max", 2.1), ("median", 3.5), ("median", 0.5), ("cv", 0.1)]
    {
        let found = merged(key, value);
        let told = found.iter().any(|text| text.contains(&format!("the `{key}` of `m`")));
        assert!(told, "{key}: {found:?}");
    }
}

/// A run of 20 s whose storage was fast in the first half and slow in the second.
fn uneven() -> RunResult {
    let mut result = busy();
    let second = result.timeline[0].clone();
    result.timeline = (1..=20)
        .map(|end_s| {
            let mut row = second.clone();
            row.end_s = f64::from(end_s);
            row.tiers[Tier::Storage.index()].read.bytes /= if end_s > 10 { 8 } else { 1 };
            row
        })
        .collect();
    result
}

#[test]
fn bandwidth_that_is_said_to_be_steady_is_held_against_the_timeline() {
    let place = "/ringfall/steadiness";
    let flat = json!([1.0, 1.0, 1.0, 1.0, 1.0]);
    for (key, value) in [
        ("fifths_gib_per_s", flat),
        ("range_share", json!(0.01)),
        ("trend_share", json!(0.0)),
        ("steady", json!(true)),
    ] {
        let words = format!("`ringfall.steadiness.{key}");
        let as_written = of(serde_json::to_value(Document::of(&uneven())).unwrap());
        assert!(as_written.iter().all(|text| !text.contains("steadiness")), "{as_written:?}");
        assert!(told_of(&uneven(), &format!("{place}/{key}"), value, &words) > 0, "{key}");
    }
}

#[test]
fn flushed_writes_are_held_against_the_flushes() {
    let words = "`ringfall.io.flush.count` 0";
    let place = "/ringfall/config/settings/durability";
    let count = |entries, durability: &str, flushes| {
        let mut result = busy();
        result.engine.evictions[Tier::Cpu.index()].entries = entries;
        (0..flushes).for_each(|_| result.engine.io_flush.latency.record(1_000_000));
        told_of(&result, place, json!(durability), words)
    };
    assert_eq!(count(500, "flush", 0), 1);
    for (entries, durability, flushes) in [(500, "none", 0), (500, "flush", 1), (5, "flush", 0)] {
        assert_eq!(count(entries, durability, flushes), 0, "{entries} {durability} {flushes}");
    }
}

/// All counts of operations tripled by hand they passed.
#[test]
fn operations_on_files_are_held_against_the_ios_and_each_other() {
    let mut result = busy();
    let operation = |(name, count): (&str, u64)| FileOperations {
        name: name.to_owned(),
        count,
        ..FileOperations::default()
    };
    let engine = &mut result.engine;
    (0..999).for_each(|_| engine.io_read.latency.record(1_000_000));
    let done = [("open", 1_000), ("read", 1_000), ("close", 1_000)];
    result.files = Some(FileCounts {
        file_bytes: 2 << 20,
        read_bytes: engine.io_read.bytes,
        operations: done.into_iter().map(operation).collect(),
        ..FileCounts::default()
    });
    let files = "/ringfall/files";
    for (place, value, is_told) in [
        ("operations/1/count", 1_000, false),
        ("operations/1/count", 3_000, true),
        ("operations/1/count", 500, true),
        ("operations/2/count", 1_001, true),
        ("read_bytes", 5_u64 << 30, true),
    ] {
        let found = with(&result, &format!("{files}/{place}"), json!(value));
        let told = found.iter().any(|text| text.contains("`ringfall.files"));
        assert_eq!(told, is_told, "{place} {value}: {found:?}");
    }
}

#[test]
fn the_verdict_on_cold_reads_is_held_against_its_share() {
    let place = "/ringfall/device/cold_reads/verdict";
    assert_eq!(with(&busy(), place, json!("reached")), [""; 0]);
    let found = with(&busy(), place, json!("cached"));
    assert!(found[0].contains("cold_reads.verdict"), "{found:?}");
}

#[test]
fn a_figure_that_is_not_there_contradicts_nothing() {
    let mut older = written();
    for place in ["/ringfall/io", "/ringfall/device", "/ringfall/cache"] {
        let parts = older.pointer_mut(place).unwrap().as_object_mut().unwrap();
        parts.values_mut().for_each(|value| {
            if value.is_number() {
                *value = Value::Null;
            }
        });
    }
    older["ringfall"]["histograms"] = Value::Null;
    assert_eq!(of(older), [""; 0]);
}

#[test]
fn a_result_of_another_version_is_held_against_itself_like_ours() {
    let mut other = written();
    other["ringfall"]["version"] = json!("0.0.1");
    assert_eq!(of(other.clone()), [""; 0]);
    tenfold(&mut other["summary"]["end_to_end_latency_ms"]["p95"]);
    let found = of(other);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].starts_with("`summary.end_to_end_latency_ms.p95` says"), "{found:?}");
}

/// The counters of a disk are read one after the other, and somebody may have read from it between.
#[test]
fn few_bytes_of_others_between_two_readings_are_no_contradiction() {
    for (bytes, seconds, differences) in
        [(1_060_864, 10.0, 0), (1 << 30, 10.0, 1), (1 << 30, 0.9, 0)]
    {
        let mut changed = serde_json::to_value(Document::of(&full())).unwrap();
        changed["ringfall"]["window"]["seconds"] = seconds.into();
        let device = &mut changed["ringfall"]["device"];
        device["kernel"]["read_bytes"] = bytes.into();
        let mut link = device["kernel"].clone();
        link["read_bytes"] = 0.into();
        device["chain"] = json!([link]);
        let of_chain = |told: &&String| told.contains("`ringfall.device.chain`");
        assert_eq!(
            of(changed).iter().filter(of_chain).count(),
            differences,
            "{bytes} in {seconds} s"
        );
    }
}
