use proptest::prelude::*;
use ringfall_config::{PerformanceProfile, PhaseMode};
use ringfall_core::key::Tier;
use ringfall_core::units::GIB;
use ringfall_host::Launcher;
use ringfall_workloads::contract::{Class, Outcome, Purpose, RequestEnd, RequestRecord};
use serde_json::{Value, json};

use super::*;
use crate::facts::{CacheStats, RequestStats, SAMPLES_MAX, TimelineSecond};
use crate::testing::{MILLISECOND_NS, busy, judged, nothing, request, to_json};

/// `a.{x,y}.b` as `a.x.b` and `a.y.b`.
fn expanded(pattern: &str) -> Vec<String> {
    let Some((before, rest)) = pattern.split_once('{') else { return vec![pattern.to_owned()] };
    let (choices, after) = rest.split_once('}').unwrap();
    choices.split(',').flat_map(|choice| expanded(&format!("{before}{choice}{after}"))).collect()
}

fn missing(document: &Value, patterns: &[&str]) -> Vec<String> {
    let paths = patterns.iter().flat_map(|pattern| expanded(pattern));
    paths
        .filter(|path| document.pointer(&format!("/{}", path.replace('.', "/"))).is_none())
        .collect()
}

/// A full disk was answered with the advice to ask for a larger tier on it.
#[test]
fn a_tier_that_got_all_there_was_is_not_to_be_asked_larger() {
    let of = |asked_bytes, given_bytes| {
        let mut result = nothing();
        result.plan.storage_capacity_bytes = asked_bytes;
        result.tiers[Tier::Storage.index()].capacity_bytes = given_bytes;
        result.lacks_room()
    };
    assert!(of(64 * GIB, 2 * GIB) && of(0, 2 * GIB));
    assert!(!of(2 * GIB, 2 * GIB) && !of(2 * GIB, 2 * GIB - 4096));
}

/// Every key that readers of results rely on: it is there whatever was measured.
const KEYS: &[&str] = &[
    "{requests_completed,total_tokens_generated,total_storage_io_latency}",
    "{total_generation_latency,end_to_end_latencies,storage_latencies,generation_latencies}",
    "{prefill_latencies,decode_latencies,throughput_timeline,multi_turn_cache_hits}",
    "{multi_turn_cache_misses,seed,summary,ringfall}",
    "summary.{total_requests,total_tokens,elapsed_time,avg_throughput_tokens_per_sec}",
    "summary.{total_storage_io_time,storage_throughput_tokens_per_sec,requests_per_second}",
    "summary.{end_to_end_latency_ms,storage_io_latency_ms,generation_latency_ms,cache_stats}",
    "summary.{qos_metrics,prefix_cache_stats,autoscaling_stats,autoscaling_summary}",
    "summary.multi_turn_stats.{cache_hits,cache_misses,hit_rate}",
    "summary.cache_stats.{cache_hit_rate,cache_hits,cache_misses,offloads_cpu,offloads_storage}",
    "summary.cache_stats.{gpu,cpu,storage}_entries",
    "summary.cache_stats.{gpu,cpu}_memory_used_gb",
    "summary.cache_stats.storage_health.{overall_status,criteria,passed_count,total_count}",
    "summary.cache_stats.{prefill_writes,decode_reads}",
    "summary.cache_stats.tier_{gpu,cpu,storage}_kv_bytes_{written,read}_gb",
    "summary.cache_stats.tier_{gpu,cpu,storage}_{read,write}_bandwidth_gbps",
    "summary.cache_stats.{prefill_bytes_written_gb,decode_bytes_read_gb,system_prompt_hits}",
    "summary.cache_stats.{common_phrase_hits,user_cache_hits,multi_turn_hits}",
    "summary.cache_stats.total_{read,write}_{bytes,gb}",
    "summary.cache_stats.{read_write_ratio,read_iops,write_iops,storage_tokens_processed}",
    "summary.qos_metrics.{interactive,responsive,batch}",
    "summary.prefix_cache_stats.{prefix_hits,prefix_misses,system_prompt_reuse}",
    "summary.prefix_cache_stats.{common_phrase_reuse,bytes_saved}",
    "ringfall.{version,schema_version,command_line,config,machine,window,timeline,histograms}",
    "ringfall.{requests,cache,not_measured}",
    "ringfall.errors.{requests_failed,requests_refused}",
    "ringfall.{io,waits,evictions,device,cost,roofline,errors,verify,samples,warnings}",
];

/// Those that are there only when something was measured.
const MEASURED: &[&str] = &[
    "summary.{end_to_end,storage_io,generation}_latency_ms.{mean,p50,p95,p99,p999,p9999}",
    "summary.cache_stats.{cpu,storage}_{read,write}_{p50,p95,p99,p999,p9999}_ms",
    "summary.cache_stats.storage_{read,write}_{device,host}_{p50,p95,p99,p999,p9999}_ms",
    "summary.qos_metrics.{interactive,responsive,batch}.total_requests",
    "summary.qos_metrics.{interactive,responsive,batch}.latency_ms.{mean,p50,p95,p99}",
    "summary.qos_metrics.{interactive,responsive,batch}.latency_ms.{p999,p9999,max}",
    "summary.qos_metrics.{interactive,responsive,batch}.sla.{target_p95_ms,actual_p95_ms}",
    "summary.qos_metrics.{interactive,responsive,batch}.sla.{compliance,met}",
    "summary.cache_stats.storage_health.criteria.0.{name,target,actual,unit,passed}",
    "throughput_timeline.0.{timestamp,throughput_tokens_per_sec}",
];

#[test]
fn documents_read_back() {
    for result in [nothing(), busy()] {
        let document = to_json(&result);
        let back: Document = serde_json::from_value(document.clone()).unwrap();
        assert_eq!(serde_json::to_value(back).unwrap(), document);
    }
}

#[test]
fn every_key_of_the_specification_is_there() {
    let document = to_json(&judged());
    assert_eq!(missing(&document, KEYS), Vec::<String>::new());
    assert_eq!(missing(&document, MEASURED), Vec::<String>::new());
}

#[test]
fn what_was_not_measured_is_zero_in_the_references_keys_and_null_or_absent_in_ours() {
    let document = to_json(&nothing());
    assert_eq!(missing(&document, KEYS), Vec::<String>::new());
    let at = |path: &str| document.pointer(path).cloned().unwrap_or_default();
    assert_eq!(at("/summary/end_to_end_latency_ms/p95"), json!(0.0));
    assert_eq!(at("/summary/cache_stats/cache_hit_rate"), json!(0.0));
    assert_eq!(at("/summary/storage_throughput_tokens_per_sec"), json!(0.0));
    let unmeasured = at("/ringfall/not_measured");
    assert!(unmeasured.as_array().unwrap().contains(&json!("summary.end_to_end_latency_ms")));
    assert_eq!(at("/ringfall/cache/hit_rate"), Value::Null);
    assert_eq!(at("/ringfall/requests/all/p95"), Value::Null);
    assert_eq!(at("/summary/qos_metrics/batch/no_data"), Value::Bool(true));
    assert_eq!(at("/ringfall/device/kernel"), Value::Null);
    assert_eq!(at("/ringfall/cost/peak_rss_bytes"), Value::Null);
    let stats = at("/summary/cache_stats");
    let latencies = stats.as_object().unwrap().keys().filter(|key| key.ends_with("_ms"));
    assert_eq!(latencies.count(), 0, "a tier with no operation has no latency keys");
    let busy = to_json(&busy());
    let stats = busy.pointer("/summary/cache_stats").unwrap().as_object().unwrap();
    assert!(!stats.keys().any(|key| key.starts_with("gpu_") && key.ends_with("_ms")));
}

/// The nulls of the reference's keys that are null in the reference too, or say nothing that its
/// harness adds or averages.
const NULLS: [&str; 1] = ["/summary/autoscaling_summary"];

fn nulls(value: &Value, path: &str, into: &mut Vec<String>) {
    match value {
        Value::Null => into.push(path.to_owned()),
        Value::Object(map) => {
            map.iter().for_each(|(key, value)| nulls(value, &format!("{path}/{key}"), into));
        }
        _ => {}
    }
}

#[test]
fn keys_of_the_reference_hold_numbers_when_no_request_finished() {
    for result in [nothing(), busy()] {
        let mut document = to_json(&result);
        document.as_object_mut().unwrap().remove("ringfall");
        let mut found = Vec::new();
        nulls(&document, "", &mut found);
        assert_eq!(found, NULLS);
    }
}

#[test]
fn own_turns_of_requests_with_a_prompt_are_system_prompt_hits() {
    let mut cache = CacheStats::default();
    cache.record_read(Purpose::Prefix, 1, Outcome::Hit, 7, true);
    cache.record_read(Purpose::Decode, 5, Outcome::Hit, 10, true);
    cache.record_read(Purpose::Decode, 3, Outcome::Hit, 10, false);
    cache.record_read(Purpose::History, 2, Outcome::Hit, 10, true);
    cache.record_read(Purpose::Rag, 1, Outcome::Hit, 10, true);
    assert_eq!((cache.system_prompt_hits, cache.prefix_hits), (6, 1));
    assert_eq!((cache.user_cache_hits, cache.multi_turn_hits, cache.hits), (4, 2, 12));
    assert_eq!((cache.decode_reads, cache.decode_read_bytes), (11, 110));
    assert_eq!((cache.own_turn_reads, cache.own_turn_read_bytes), (8, 80));
}

#[test]
fn ingested_chunks_are_prefill_writes_as_in_the_reference() {
    let mut result = busy();
    let before = to_json(&result);
    result.cache.record_ingested_before(GIB);
    let after = to_json(&result);
    let difference = |key: &str| {
        let of = |document: &Value| document["summary"]["cache_stats"][key].as_f64().unwrap();
        of(&after) - of(&before)
    };
    for key in ["prefill_writes", "write_iops", "prefill_bytes_written_gb", "total_write_gb"] {
        assert!((difference(key) - 1.0).abs() < 1e-9, "{key}: {}", difference(key));
    }
    assert_eq!(after["ringfall"]["cache"]["writes"], before["ringfall"]["cache"]["writes"]);
    assert_eq!(difference("tier_storage_kv_bytes_written_gb"), 0.0);

    // One that is written in the window is among the tiers' writes already.
    let mut result = busy();
    result.cache.record_write(Purpose::Rag, GIB);
    let beside = to_json(&result);
    let stats = |document: &Value, key: &str| document["summary"]["cache_stats"][key].clone();
    for key in ["write_iops", "total_write_bytes", "total_write_gb", "read_write_ratio"] {
        assert_eq!(stats(&beside, key), stats(&before, key), "{key}");
    }
    for key in ["prefill_writes", "prefill_bytes_written_gb"] {
        assert_eq!(stats(&beside, key), stats(&after, key), "{key}");
    }
    assert_eq!(beside["ringfall"]["cache"]["ingested_chunks"], json!(1));
}

#[test]
fn requests_that_did_not_finish_are_told_and_warned_of() {
    let mut result = busy();
    for ms in 0..30 {
        result.requests.record_unfinished(Class::Batch, (1_000 + ms) * MILLISECOND_NS);
    }
    let warnings = warnings_of(&result);
    let told: Vec<&Warning> = warnings.iter().filter(|w| w.code == Code::Unfinished).collect();
    assert_eq!(told.len(), 1, "{warnings:?}");
    assert!(told[0].text.contains("30 of 31 batch") && told[0].flag_to_try.is_some());
    let document = to_json(&result);
    let requests = &document["ringfall"]["requests"];
    let counts = |class: &str| (&requests[class]["finished"], &requests[class]["unfinished"]);
    assert_eq!(counts("all"), (&json!(3), &json!(30)));
    assert_eq!(counts("batch"), (&json!(1), &json!(30)));
    assert_eq!(requests["batch"]["p95"]["estimate_ms"], Value::Null);
    assert!(requests["batch"]["p95"]["at_least_ms"].as_f64().unwrap() > 1_000.0);
    assert_eq!(
        requests["interactive"]["p95"]["estimate_ms"],
        requests["interactive"]["p95"]["at_most_ms"]
    );
    assert_eq!(document["ringfall"]["histograms"]["unfinished_batch"]["count"], 30);
    assert_eq!(document["summary"]["qos_metrics"]["batch"]["total_requests"], 1);
}

#[test]
fn one_unfinished_request_among_many_is_no_warning() {
    let mut result = nothing();
    (0..1_000).for_each(|_| result.requests.record(&request(Class::Batch, 60)));
    result.requests.record_unfinished(Class::Batch, 30 * MILLISECOND_NS);
    assert!(warnings_of(&result).iter().all(|warning| warning.code != Code::Unfinished));
}

#[test]
fn the_throughput_timeline_is_cumulative_since_the_windows_start() {
    let mut result = nothing();
    for (end_s, generated_tokens) in [(1.0, 10), (2.0, 30)] {
        let second = TimelineSecond { end_s, seconds: 1.0, generated_tokens, ..Default::default() };
        result.timeline.push(second);
    }
    let rows = to_json(&result)["throughput_timeline"].clone();
    assert_eq!(
        rows,
        json!([
            { "timestamp": 1.0, "throughput_tokens_per_sec": 10.0 },
            { "timestamp": 2.0, "throughput_tokens_per_sec": 20.0 },
        ])
    );
}

#[test]
fn units_and_sums_are_right() {
    let document = to_json(&busy());
    let number = |path: &str| document.pointer(path).and_then(Value::as_f64).unwrap();
    let stat = |name: &str| number(&format!("/summary/cache_stats/{name}"));
    let near = |a: f64, b: f64| (a - b).abs() < 1e-3 * b.abs();
    assert!(near(stat("storage_read_p95_ms"), 12.0) && near(stat("storage_read_host_p50_ms"), 2.0));
    assert!(near(stat("tier_storage_read_bandwidth_gbps"), 0.1));
    assert!(near(stat("total_read_gb"), 2.0) && near(stat("total_write_bytes"), 2.0 * GIB as f64));
    // What was demoted was read in the CPU tier and written to storage once more.
    assert!(near(stat("tier_cpu_kv_bytes_read_gb"), 2.0));
    let ours = |name: &str| number(&format!("/ringfall/cache/{name}"));
    assert!(near(ours("moved_read_bytes"), 3.0 * GIB as f64));
    assert!(near(ours("moved_write_bytes"), 3.0 * GIB as f64));
    assert!(near(ours("cpu_read_bytes"), GIB as f64));
    assert_eq!((stat("decode_reads"), ours("own_turn_reads")), (4.0, 3.0));
    assert_eq!((stat("system_prompt_hits"), ours("prompt_hits")), (1.0, 1.0));
    assert!(near(stat("cache_hit_rate"), 5.0 / 6.0));
    assert_eq!((stat("cache_hits"), stat("cache_misses")), (5.0, 1.0));
    assert_eq!((stat("offloads_cpu"), stat("offloads_storage")), (1.0, 2.0));
    // 3 GiB at 128 KiB a token.
    assert_eq!(stat("storage_tokens_processed"), 3.0 * 8192.0);
    assert_eq!(number("/summary/prefix_cache_stats/bytes_saved"), 7.0);
    assert!(near(number("/total_storage_io_latency"), 0.003));
    assert!(near(number("/end_to_end_latencies/0"), 0.060));
    assert_eq!(number("/ringfall/device/agreement/total_ratio"), 1.0);
    assert_eq!(document.pointer("/decode_latencies").unwrap(), &Value::Array(vec![]));
}

#[test]
fn a_class_meets_its_target_when_95_percent_do() {
    let mut result = nothing();
    for n in 0..100 {
        let ms = if n < 95 { 40 } else { 70 };
        result.requests.record(&request(Class::Interactive, ms));
        result.requests.record(&request(Class::Responsive, if n < 94 { 40 } else { 170 }));
    }
    let document = to_json(&result);
    let met = |class: &str| document.pointer(&format!("/summary/qos_metrics/{class}/sla/met"));
    assert_eq!(met("interactive"), Some(&Value::Bool(true)));
    assert_eq!(met("responsive"), Some(&Value::Bool(false)));
}

#[test]
fn health_judges_by_its_profile() {
    let names = |result: &RunResult| -> Vec<String> {
        health::judge(result).criteria.iter().map(|c| c.name.to_string()).collect()
    };
    assert_eq!(health::judge(&nothing()).overall_status, "NO DATA");
    let mut result = judged();
    assert_eq!(health::judge(&result).overall_status, "PASS");
    assert_eq!(names(&result).len(), 4);
    let reads = &mut result.engine.tiers[Tier::Storage.index()].read.device;
    (0..2).for_each(|_| reads.record(200 * MILLISECOND_NS));
    let verdict = health::judge(&result);
    assert_eq!((&*verdict.overall_status, verdict.passed_count), ("FAIL", 3));
    result.plan.performance_profile = PerformanceProfile::Throughput;
    assert_eq!(health::judge(&result).overall_status, "PASS");
    let bandwidths = ["Storage KV Read Bandwidth", "Storage KV Write Bandwidth"];
    assert_eq!(names(&result), [&bandwidths[..], &["Token Throughput"]].concat());
    assert_eq!(health::judge(&nothing()).criteria, []);
    let tokens = std::mem::take(&mut result.requests.generated_tokens);
    assert!(tokens > 0 && health::judge(&result).overall_status == "FAIL", "no tokens/s");
    result.requests.generated_tokens = tokens;
    result.engine.io_write.bytes = 0;
    assert_eq!(health::judge(&result).overall_status, "FAIL");
    result.plan.phases = PhaseMode::DecodeOnly;
    let verdict = health::judge(&result);
    assert_eq!(verdict.overall_status, "PASS", "this mode never writes");
    let criterion = serde_json::to_value(&verdict.criteria[0]).unwrap();
    assert_eq!((&criterion["target"], &criterion["actual"]), (&json!(">0"), &json!("0.10")));
}

#[test]
fn a_run_whose_requests_were_refused_can_not_pass() {
    let mut result = judged();
    for _ in 0..1_000 {
        result.requests.record(&request(Class::Batch, 60));
    }
    let refused = RequestRecord { end: RequestEnd::Refused, ..request(Class::Batch, 60) };
    for (count, status) in [(10, "PASS"), (1, "FAIL")] {
        (0..count).for_each(|_| result.requests.record(&refused));
        let verdict = health::judge(&result);
        assert_eq!((&*verdict.overall_status, verdict.total_count), (status, 5));
    }
    let mut none = nothing();
    none.requests.record(&refused);
    assert_eq!(health::judge(&none).overall_status, "FAIL");
}

#[test]
fn other_ranks_of_the_same_launch_are_no_strangers_on_the_device() {
    let warned = |launcher: Option<Launcher>, theirs: u64| {
        let mut result = busy();
        result.launcher = launcher;
        if let Some(kernel) = &mut result.kernel {
            (kernel.read_bytes, kernel.write_bytes) = (GIB, theirs - GIB);
        }
        warnings_of(&result).iter().any(|warning| warning.code == Code::KernelDisagrees)
    };
    let rank = |local_size| Launcher {
        rank: 1,
        size: Some(4),
        local_rank: Some(1),
        local_size,
        launch: None,
    };
    assert!(warned(None, 9 * GIB) && warned(None, 2 * GIB));
    assert!(!warned(Some(rank(Some(4))), 9 * GIB) && !warned(Some(rank(None)), 9 * GIB));
    assert!(warned(Some(rank(Some(1))), 9 * GIB), "the only one on this machine");
    assert!(warned(Some(rank(Some(4))), 2 * GIB), "others can't make it less");
}

#[test]
fn results_are_written_whole_or_not_at_all() {
    let name = format!("ringfall-report-test-{}", std::process::id());
    let directory = std::env::temp_dir().join(name);
    let path = directory.join("deep/a.json");
    let document = to_json(&busy());
    write_json(&document, &path).unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text == format!("{document:#}\n"), "not what was to be written");
    let files = std::fs::read_dir(path.parent().unwrap()).unwrap().count();
    assert_eq!(files, 1, "no temporary file stays");
    let occupied = directory.join("deep");
    assert!(write_json(&document, &occupied).is_err(), "a directory is in the way");
    std::fs::remove_dir_all(&directory).unwrap();
}

#[test]
fn a_sample_is_everything_until_it_is_a_fair_share() {
    let mut few = RequestStats::default();
    let mut other = RequestStats::default();
    few.record(&request(Class::Batch, 1));
    other.record(&request(Class::Batch, 2));
    few.merge(&other);
    assert_eq!((few.samples().len(), few.completed()), (2, 2));

    // 150,000 of 1 ms here, 50,000 of 2 ms there: a fair sample holds three of one to one.
    let (mut left, mut right) = (RequestStats::default(), RequestStats::default());
    for _ in 0..150_000 {
        left.record(&request(Class::Batch, 1));
    }
    for _ in 0..50_000 {
        right.record(&request(Class::Batch, 2));
    }
    left.merge(&right);
    assert_eq!((left.samples().len(), left.completed()), (SAMPLES_MAX, 200_000));
    let ones = left.samples().iter().filter(|s| s.end_to_end_ns == MILLISECOND_NS).count();
    // Hypergeometric: mean 75,000, sigma 97; six sigma.
    assert!(ones.abs_diff(75_000) < 600, "{ones}");
}

#[test]
fn a_request_that_was_not_served_is_counted_and_nothing_else() {
    let mut stats = RequestStats::default();
    stats.record(&RequestRecord { end: RequestEnd::Failed, ..request(Class::Batch, 1) });
    stats.record(&RequestRecord { end: RequestEnd::Refused, ..request(Class::Batch, 1) });
    assert_eq!((stats.failed, stats.refused), (1, 1));
    assert_eq!((stats.completed(), stats.generated_tokens), (0, 0));
    assert!(stats.samples().is_empty());
    assert_eq!(stats.refused_share(), 0.5);
}

proptest! {
    #[test]
    fn merged_requests_have_the_percentiles_of_all(
        latencies in proptest::collection::vec(1u64..5_000, 1..200), cut in 0usize..200,
    ) {
        let cut = cut.min(latencies.len());
        let of = |part: &[u64]| {
            let mut stats = RequestStats::default();
            part.iter().for_each(|&ms| stats.record(&request(Class::Responsive, ms)));
            stats
        };
        let mut merged = of(&latencies[..cut]);
        merged.merge(&of(&latencies[cut..]));
        let whole = of(&latencies);
        for quantile in [0.5, 0.95, 0.999, 1.0] {
            prop_assert_eq!(
                merged.end_to_end_all().quantile_ns(quantile),
                whole.end_to_end_all().quantile_ns(quantile)
            );
        }
        prop_assert_eq!(merged.samples().len(), latencies.len());
    }

    #[test]
    fn hits_add_up_over_purposes(
        steps in proptest::collection::vec((0usize..5, 1u32..9, 0u32..9), 0..50),
    ) {
        let purposes =
            [Purpose::Prefix, Purpose::History, Purpose::Decode, Purpose::Rag, Purpose::Populate];
        let mut cache = CacheStats::default();
        for (purpose, times, done) in steps {
            let outcome = match done < times {
                true => Outcome::Miss { reads_done: done },
                false => Outcome::Hit,
            };
            cache.record_read(purposes[purpose], times, outcome, 10, done % 2 == 0);
        }
        let by_kind = cache.system_prompt_hits + cache.user_cache_hits + cache.multi_turn_hits;
        prop_assert_eq!(cache.hits, by_kind);
        let mut twice = cache;
        twice += cache;
        prop_assert_eq!((twice.hits, twice.misses), (2 * cache.hits, 2 * cache.misses));
    }
}
