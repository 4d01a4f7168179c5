//! Mutated results: whatever is in the files, an audit ends, and its bounds are bounds.

use proptest::prelude::*;
use ringfall_host::Scratch;
use serde_json::{Value, json};

use super::{Audit, AuditSettings, audit};

fn rank() -> Value {
    json!({
        "end_to_end_latencies": [1.5, 2, 75.25],
        "summary": {
            "total_requests": 3, "elapsed_time": 60.5,
            "end_to_end_latency_ms": { "p50": 1500.0, "p95": 70000.0 },
            "cache_stats": {
                "storage_entries": 3, "prefill_writes": 4,
                "tier_storage_kv_bytes_written_gb": 6.05,
                "tier_storage_kv_bytes_read_gb": 12.1,
                "tier_storage_read_bandwidth_gbps": 0.2,
                "tier_storage_write_bandwidth_gbps": 0.1,
                "storage_write_device_p50_ms": 0.007 },
            "qos_metrics": { "interactive": {
                "total_requests": 3, "latency_ms": { "max": 75250.0 },
                "sla": { "compliance": 0.25, "met": false } } } } })
}

/// Places of a value, from the root down.
fn pointers(value: &Value, at: &str, all: &mut Vec<String>) {
    all.push(at.to_owned());
    match value {
        Value::Object(map) => map.iter().for_each(|(k, v)| pointers(v, &format!("{at}/{k}"), all)),
        Value::Array(list) => {
            list.iter().enumerate().for_each(|(k, v)| pointers(v, &format!("{at}/{k}"), all));
        }
        _ => {}
    }
}

/// Values of wrong kinds and extreme sizes, to stand where something else belongs.
fn strange() -> impl Strategy<Value = Value> {
    let numbers = [0.0, -1.0, 1e308, -1e308, 1e-300, 5e-324, 1e15, 300.0, f64::MAX];
    prop_oneof![
        proptest::sample::select(numbers.to_vec()).prop_map(|number| json!(number)),
        any::<f64>().prop_map(|number| json!(number)),
        any::<String>().prop_map(Value::from),
        Just(json!(null)),
        Just(json!(true)),
        Just(json!([[], {}, [1e308]])),
        Just(json!({ "p50": { "p50": [] } })),
        Just(json!(u64::MAX)),
        Just(json!(i64::MIN)),
    ]
}

fn of(files: &[(&str, &[u8])]) -> Audit {
    let scratch = Scratch::new("audit");
    for (name, bytes) in files {
        scratch.file(name, bytes);
    }
    let settings =
        AuditSettings { drive_read_mb_per_s: Some(100.0), drive_write_mb_per_s: Some(1.0) };
    audit(&[scratch.to_path_buf()], &settings)
}

fn check(found: &Audit) {
    for finding in &found.findings {
        assert!(finding.weight.is_finite() && finding.weight >= 0.0, "{finding:?}");
        assert!(!finding.sentence.contains("NaN") && !finding.sentence.contains("inf "));
    }
    let order = found
        .findings
        .windows(2)
        .all(|two| (two[0].level, -two[0].weight) <= (two[1].level, -two[1].weight));
    assert!(order, "the heaviest first");
    for rank in found.runs.iter().flat_map(|run| &run.groups).flat_map(|group| &group.ranks) {
        if let (Some(least), Some(most)) = (rank.span_at_least_s, rank.span_at_most_s) {
            assert!(least <= most, "{rank:?}");
        }
        for rate in [rank.read, rank.write].into_iter().flatten() {
            if let (Some(least), Some(most)) = (rate.at_least_gib_per_s, rate.at_most_gib_per_s) {
                assert!(least <= most, "{rank:?}");
            }
        }
    }
    assert!(serde_json::to_string(found).is_ok());
}

/// Two findings told of a run that ended in its warm-up.
#[test]
fn a_window_of_an_interrupted_run_may_be_empty() {
    for (interrupted, kinds) in [(true, "Interrupted"), (false, "ImpossibleFigures")] {
        let mut value = rank();
        value["summary"]["elapsed_time"] = json!(0.0);
        for key in ["tier_storage_kv_bytes_written_gb", "tier_storage_kv_bytes_read_gb"] {
            value["summary"]["cache_stats"][key] = json!(0.0);
        }
        value["ringfall"] = json!({ "window": { "interrupted": interrupted } });
        let found = of(&[(RANK, value.to_string().as_bytes())]);
        let kinds_found: Vec<String> =
            found.findings.iter().map(|finding| format!("{:?}", finding.kind)).collect();
        assert!(kinds_found.iter().any(|kind| kind.contains(kinds)), "{kinds_found:?}");
        let are_without = kinds_found.iter().any(|kind| kind == "RanksWithoutStorage");
        assert_eq!(are_without, !interrupted, "{kinds_found:?}");
        let is_odd = kinds_found.iter().any(|kind| kind == "ImpossibleFigures");
        assert_eq!(is_odd, !interrupted, "{kinds_found:?}");
    }
}

#[test]
fn a_figure_next_to_nothing_makes_no_infinite_rate() {
    for number in [5e-324, 1e-300, 1e-61, 1e308, f64::MAX] {
        for place in
            ["/summary/elapsed_time", "/summary/cache_stats/tier_storage_read_bandwidth_gbps"]
        {
            let mut value = rank();
            *value.pointer_mut(place).unwrap() = json!(number);
            check(&of(&[(RANK, value.to_string().as_bytes())]));
        }
    }
}

#[test]
fn an_earlier_audit_is_no_file_that_figures_were_taken_from() {
    let rank = rank().to_string();
    let summary = json!({ "options": { "1": { "rank_count": 1 } } }).to_string();
    let found = of(&[
        (RANK, rank.as_bytes()),
        ("summary.json", summary.as_bytes()),
        ("earlier.json", br#"{ "audit_version": 1 }"#),
    ]);
    let is_used = |name: &str| found.files.iter().any(|file| file.ends_with(name));
    assert!(is_used(RANK) && is_used("summary.json") && !is_used("earlier.json"), "{found:?}");
    assert_eq!(found.read.other_json, 1);
}

const RANK: &str = "option_1/trial_0/rank_0/kvcache_results_20260712_182112.json";

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn figures_that_are_something_else_end_in_bounds_or_in_silence(
        changes in proptest::collection::vec((any::<prop::sample::Index>(), strange()), 1..4),
    ) {
        let mut value = rank();
        for (at, strange) in changes {
            let mut all = Vec::new();
            pointers(&value, "", &mut all);
            let place = at.get(&all[1.min(all.len() - 1)..]).clone();
            if let Some(found) = value.pointer_mut(&place) {
                *found = strange;
            }
        }
        let text = value.to_string();
        check(&of(&[(RANK, text.as_bytes()), ("a/b.json", text.as_bytes())]));
    }

    #[test]
    fn damaged_bytes_are_skipped_and_counted_or_read(
        at in any::<prop::sample::Index>(), byte in any::<u8>(), is_cut in any::<bool>(),
    ) {
        let mut bytes = rank().to_string().into_bytes();
        let place = at.index(bytes.len());
        if is_cut { bytes.truncate(place) } else { bytes[place] = byte }
        let found = of(&[(RANK, &bytes)]);
        check(&found);
        prop_assert_eq!(found.read.rank_files + found.read.skipped, 1);
    }

    #[test]
    fn summaries_metadata_and_logs_of_anything_are_read_or_skipped(text in any::<String>()) {
        let rank = rank().to_string();
        let summary = json!({ "options": { "1": { "rank_count": 3, "x": text }, "2": text } });
        let command = format!("mpirun {text} mlperf_wrapper.py --rank-output-base \
                               /option_1/trial_0 {text}");
        let metadata = json!({ "command_output_files": [{ "command": command }, text] });
        check(&of(&[
            (RANK, rank.as_bytes()),
            ("summary.json", summary.to_string().as_bytes()),
            ("kv_cache_x_metadata.json", metadata.to_string().as_bytes()),
            ("a.stderr.log", format!("2026-07-12 {text} noise buffer").as_bytes()),
            ("iostat.txt", format!("Device rkB/s wkB/s\n{text} 1 2\n").as_bytes()),
        ]));
    }
}
