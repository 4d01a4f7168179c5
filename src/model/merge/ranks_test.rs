use serde_json::Value;

use super::{lengths_differ, numbers, stragglers};

use crate::document::RankRow;
use crate::facts::{DepthFigures, DepthReason};
use crate::merge::merge;
use crate::testing::{depth, file, rank, rank_of_204, roofline, run, to_json};
use crate::{Code, RunResult};

/// As many ranks as the largest published launch: what they are together grows with the ranks only
/// by a few rows each, whatever they measured.
#[test]
fn two_hundred_and_four_ranks_stay_small() {
    let files: Vec<_> = (0..204).map(rank_of_204).collect();
    let bytes_of = |count: usize| {
        let merged = merge(&files[..count], &[], &["ringfall".into()]).unwrap();
        (serde_json::to_vec_pretty(&merged).unwrap().len(), merged)
    };
    let (few_bytes, _) = bytes_of(4);
    let (bytes, merged) = bytes_of(204);
    assert!(bytes < 20_000_000, "{bytes}");
    let a_rank_bytes = (bytes - few_bytes) / 200;
    assert!(a_rank_bytes < 20_000, "{a_rank_bytes} bytes more for each rank");
    assert_eq!(merged.requests_completed.known(), Some(204 * 40));
    let about = merged.ringfall.merged.as_ref().unwrap();
    assert_eq!((about.ranks.len(), about.hosts.len()), (204, 51));
    let warnings = merged.ringfall.warnings.iter();
    let told: Vec<_> = warnings.filter(|warning| warning.code == Code::Backlog).collect();
    let others = "(203 other ranks have a warning of this kind)";
    assert_eq!(told.len(), 1);
    assert_eq!(told[0].text, format!("rank 0: 0 were still queued {others}"));
}

fn merged(ranks: &[RunResult]) -> Value {
    let files = (0..).zip(ranks).map(|(at, one)| file(&format!("{at}.json"), to_json(one)));
    let merged = merge(&files.collect::<Vec<_>>(), &[], &["ringfall".into()]).unwrap();
    serde_json::to_value(merged).unwrap()
}

/// Tests that implausible claims in files cost neither unbounded memory nor an endless sum.
#[test]
fn ranks_that_claim_more_than_can_be_are_merged_all_the_same() {
    let mut ranks = [rank(0, 0..500, 0.0), rank(1, 500..1_000, 0.0)];
    for one in &mut ranks {
        one.plan.rank.as_mut().unwrap().launcher.size = Some(u32::MAX);
    }
    let files = (0..).zip(&ranks).map(|(at, one)| {
        let mut json = to_json(one);
        json["ringfall"]["io"]["read"]["bytes"] = u64::MAX.into();
        json["ringfall"]["io"]["write"]["bytes"] = u64::MAX.into();
        file(&format!("{at}.json"), json)
    });
    let merged = merge(&files.collect::<Vec<_>>(), &[], &["ringfall".into()]).unwrap();
    let about = merged.ringfall.merged.as_ref().unwrap();
    let host = &about.hosts[0];
    assert_eq!((host.ranks, host.engine_read_bytes), (2, u64::MAX));
    assert_eq!(host.engine_write_bytes, u64::MAX);
    let launch = about.launch.as_ref().unwrap();
    assert_eq!((launch.missing.len(), launch.missing[0]), (1_000, 2));
    let warnings = merged.ringfall.warnings.iter();
    let missing: Vec<_> = warnings.filter(|one| one.code == Code::RanksMissing).collect();
    let text = &missing[0].text;
    assert!(text.starts_with("4294967293 of 4294967295 ranks have no result"), "{text}");
    assert!(text.contains(" (2 to 1001 and 4294966293 more):"), "{text}");
}

#[test]
fn ranks_are_added_up_beside_each_other_and_not_one_after_the_other() {
    let whole = to_json(&run(0..2_000, 10.0));
    let ranks = [
        rank(0, 0..500, 0.0),
        rank(1, 500..1_000, 0.05),
        rank(2, 1_000..1_500, 0.1),
        rank(3, 1_500..2_000, 0.0),
    ];
    let merged = merged(&ranks);
    let ours = &merged["ringfall"];
    // The same requests in a window that is 0.1 s longer.
    let close = |value: &Value, expected: f64| {
        let value = value.as_f64().unwrap();
        assert!((value - expected).abs() < 1e-6 * expected, "{value} and {expected}");
    };
    close(&ours["window"]["seconds"], 10.1);
    close(&merged["summary"]["elapsed_time"], 10.1);
    for place in [
        "/requests_completed",
        "/summary/end_to_end_latency_ms",
        "/summary/cache_stats/storage_read_p95_ms",
        "/summary/cache_stats/total_read_bytes",
        "/ringfall/io/read/latency_ms",
        "/ringfall/io/write/bytes",
        "/ringfall/histograms",
    ] {
        assert_eq!(merged.pointer(place), whole.pointer(place), "{place}");
        assert!(whole.pointer(place).is_some_and(|value| !value.is_null()), "{place}");
    }
    let rate = |document: &Value| document["ringfall"]["io"]["read"]["iops"].as_f64().unwrap();
    assert!((rate(&merged) * 10.1 / (rate(&whole) * 10.0) - 1.0).abs() < 1e-6);
    // Two machines, each of whose devices two ranks have seen whole.
    let kernel = |result: &RunResult| result.kernel.as_ref().unwrap().read_bytes;
    let seen = kernel(&ranks[0]).max(kernel(&ranks[1])) + kernel(&ranks[2]).max(kernel(&ranks[3]));
    assert_eq!(ours["device"]["kernel"]["read_bytes"], seen);
    let hosts = ours["merged"]["hosts"].as_array().unwrap();
    assert_eq!(hosts.len(), 2);
    assert_eq!((&hosts[1]["host"], &hosts[1]["ranks"]), (&"node1".into(), &2.into()));
    let launch = &ours["merged"]["launch"];
    close(&launch["overlap_share"], 9.9 / 10.1);
    assert_eq!((&launch["partial"], &launch["size"]), (&false.into(), &4.into()));
    assert_eq!(launch["stragglers"], Value::Array(Vec::new()));
    assert_eq!(ours["merged"]["ranks"].as_array().unwrap().len(), 4);
    // Rows of a second of the wall clock.
    let timeline = ours["timeline"].as_array().unwrap();
    assert_eq!(timeline.len(), 10);
    assert!(timeline.iter().all(|row| row["requests_completed"] == 12 && row["users"] == 16));
    assert!(timeline.iter().all(|row| row["hit_rate"].is_null()));
}

/// It was the sum over ranks of what each had seen of all of them: more than the time there was.
#[test]
fn a_quota_that_ranks_of_a_machine_share_is_counted_once() {
    // Two on each of two machines.
    let mut ranks = [0, 1, 2, 3].map(|at| rank(at, 0..500, 0.0));
    for (one, throttled) in ranks.iter_mut().zip([50, 52, 7, 6]) {
        one.cost.cpu_quota_cores = Some(2.0);
        (one.cost.cpu_quota_periods, one.cost.cpu_throttled_periods) = (Some(100), Some(throttled));
        one.cost.cpu_throttled_s = Some(throttled as f64 / 2.0);
    }
    let cost = &merged(&ranks)["ringfall"]["cost"];
    assert_eq!((&cost["cpu_quota_periods"], &cost["cpu_quota_cores"]), (&200.into(), &2.0.into()));
    assert_eq!(
        (&cost["cpu_throttled_periods"], &cost["cpu_throttled_s"]),
        (&59.into(), &29.5.into())
    );
}

#[test]
fn missing_slow_and_late_ranks_are_named() {
    let mut broken = rank(3, 900..1_000, 5.0);
    broken.failure = Some("the drive is gone".into());
    let merged = merged(&[rank(0, 0..500, 0.0), rank(1, 500..900, 0.0), broken]);
    let ours = &merged["ringfall"];
    let launch = &ours["merged"]["launch"];
    assert_eq!(launch["missing"], serde_json::json!([2]));
    assert_eq!(launch["stragglers"], serde_json::json!([3]));
    assert_eq!(launch["partial"], true);
    assert!((launch["imbalance"].as_f64().unwrap() - 1.5).abs() < 0.1, "{launch}");
    let warnings = ours["warnings"].as_array().unwrap();
    let told: Vec<&str> = warnings.iter().map(|one| one["code"].as_str().unwrap()).collect();
    // Depths that differ have a test of their own.
    for code in Code::OF_RANKS.iter().filter(|code| **code != Code::DepthsDiffer) {
        assert!(told.contains(&code.name()), "{code} is declared, and nothing here raises it");
    }
    for (code, words) in [
        ("ranks_missing", "1 of 4 ranks have no result here (2)"),
        ("ranks_failed", "ended early: 3"),
        ("windows_apart", "33.3 %"),
        (
            "stragglers",
            "1 of 3 ranks moved less than 80 % of what the median rank moved: rank 3 on node1",
        ),
    ] {
        let warning = warnings.iter().find(|warning| warning["code"] == code);
        let text = warning.and_then(|warning| warning["text"].as_str()).unwrap_or_default();
        assert!(text.contains(words), "{code}: {text}");
    }
}

#[test]
fn ranks_that_were_given_different_durations_are_told_so() {
    let of = |seconds, failure: Option<&str>| RankRow {
        seconds: Some(seconds),
        failure: failure.map(str::to_owned),
        ..RankRow::default()
    };
    let told = lengths_differ(&[of(4.0, None), of(8.0, None)]);
    assert_eq!(told, "; the ranks measured for 4.0 to 8.0 s: give all of them the same --duration");
    assert_eq!(lengths_differ(&[of(4.0, Some("gone")), of(8.0, None)]), "");
    assert_eq!(lengths_differ(&[of(8.0, None), of(8.01, None)]), "");
}

/// Two hundred ranks are told of in a sentence that can be read.
#[test]
fn many_ranks_are_named_in_short() {
    assert_eq!(numbers(&[0, 1, 2, 5, 7, 8, u32::MAX]), format!("0 to 2, 5, 7, 8, {}", u32::MAX));
    let rows: Vec<RankRow> = (0..30)
        .map(|rank| RankRow {
            rank,
            host: "node0".to_owned(),
            read_bytes: Some(u64::from(100 - rank)),
            ..RankRow::default()
        })
        .collect();
    let told = stragglers(&(10..30).collect::<Vec<_>>(), &rows);
    assert!(told.starts_with("20 of 30 ranks moved less"), "{told}");
    assert!(told.contains(": rank 29 on node0, rank 28 on"), "{told}");
    assert!(told.ends_with("rank 22 on node0 and 12 more"), "{told}");
}

#[test]
fn runs_that_are_no_ranks_of_one_launch_follow_one_another() {
    let again = merged(&[rank(1, 0..500, 0.0), rank(1, 500..900, 20.0)]);
    assert_eq!(again["ringfall"]["window"]["seconds"], 20.0);
    assert_eq!(again["ringfall"]["merged"]["launch"], Value::Null);
    // Without a launcher's name for the launch, only the clock says so.
    let nameless = |number, later_s| {
        let mut result = rank(number, 0..500, later_s);
        if let Some(rank) = &mut result.plan.rank {
            rank.launcher.launch = None;
        }
        result
    };
    let apart = merged(&[nameless(0, 0.0), nameless(1, 60.0)]);
    assert_eq!(apart["ringfall"]["merged"]["launch"], Value::Null);
    let together = merged(&[nameless(0, 0.0), nameless(1, 1.0)]);
    assert_eq!(together["ringfall"]["window"]["seconds"], 11.0);
}

/// A rank that searched for its queue depth, with so many others.
fn with_depth(number: u32, chosen: u32, ranks: Option<u32>) -> RunResult {
    let mut result = rank(number, 0..500, 0.0);
    let found = depth(chosen, DepthReason::OutOfTime);
    result.queue_depth = Some(DepthFigures { ranks, ..found });
    result
}

#[test]
fn a_depth_that_ranks_searched_for_together_is_theirs_and_others_are_told_apart() {
    let together = merged(&[with_depth(0, 8, Some(4)), with_depth(1, 8, Some(4))]);
    let found = &together["ringfall"]["queue_depth"];
    assert_eq!((&found["chosen"], &found["ranks"]), (&8.into(), &4.into()));
    let apart = merged(&[with_depth(0, 8, None), with_depth(1, 16, None)]);
    assert_eq!(apart["ringfall"]["queue_depth"]["chosen"], Value::Null);
    assert_eq!(apart["ringfall"]["merged"]["ranks"][1]["queue_depth"], 16);
    let warnings = apart["ringfall"]["warnings"].as_array().unwrap();
    let warning = warnings.iter().find(|warning| warning["code"] == "depths_differ").unwrap();
    assert!(warning["text"].as_str().unwrap().contains("8 (rank 0), 16 (rank 1)"), "{warning}");
}

#[test]
fn what_all_ranks_moved_is_held_against_the_limits_that_all_know() {
    let with_limits = |number: u32, read: f64| {
        let mut result = rank(number, 0..500, 0.0);
        result.roofline = Some(("limits.json".to_owned(), roofline(read, 1e9)));
        result
    };
    // Rank 1 was not told, as by a search before the run.
    let all = merged(&[with_limits(0, 2e9), rank(1, 0..500, 0.0)]);
    let ours = &all["ringfall"];
    let rate = |kind: &str| {
        let bytes = ours["io"][kind]["bytes"].as_f64().unwrap();
        bytes / ours["window"]["seconds"].as_f64().unwrap()
    };
    let share = ours["roofline"]["share"].as_f64().unwrap();
    let expected = rate("read") / 2e9 + rate("write") / 1e9;
    assert!(share > 0.0 && (share / expected - 1.0).abs() < 1e-9, "{share} {expected}");
    let unlike = merged(&[with_limits(0, 2e9), with_limits(1, 3e9)]);
    assert_eq!(unlike["ringfall"]["roofline"], Value::Null);
}
