//! Published results, rebuilt from their figures: the audit computes what was computed by hand.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ringfall_foreign::audit::{Audit, AuditSettings, Kind, Level, RankRow, audit};
use serde_json::{Value, json};

use crate::support::Scratch;

const GIB: f64 = 1_073_741_824.0;
const TABLE: &str = include_str!("data/published_ranks.tsv");

/// A row of the table by its columns' names.
pub type Row = BTreeMap<&'static str, &'static str>;

pub fn rows() -> Vec<Row> {
    let mut lines = TABLE.lines().filter(|line| !line.starts_with('#'));
    let header: Vec<&str> = lines.next().unwrap().split('\t').collect();
    lines.map(|line| header.iter().copied().zip(line.split('\t')).collect()).collect()
}

fn number(row: &Row, column: &str) -> f64 {
    row[column].parse().unwrap_or_else(|_| panic!("{column}: {:?}", row[column]))
}

/// The rank file that had these figures. Every second one has no raw latencies: their largest is
/// that of a class.
pub fn rank_json(row: &Row, has_raw: bool) -> Value {
    let read_gib = number(row, "tier_storage_kv_bytes_read_gb");
    let write_gib = number(row, "tier_storage_kv_bytes_written_gb");
    let elapsed = number(row, "elapsed_time_s");
    let class = |name: &str, max_ms: f64| {
        let of = |column: &str| number(row, &format!("{name}_{column}"));
        json!({
            "total_requests": of("requests"),
            "latency_ms": { "mean": max_ms / 2.0, "max": max_ms },
            "sla": { "target_p95_ms": 50, "compliance": of("compliance"),
                     "met": row[format!("{name}_met").as_str()] == "true" },
        })
    };
    let slowest_ms = number(row, "e2e_max_ms");
    let mut file = json!({
        "requests_completed": number(row, "total_requests"),
        "seed": 42,
        "summary": {
            "total_requests": number(row, "total_requests"),
            "elapsed_time": elapsed,
            "end_to_end_latency_ms": { "p50": number(row, "e2e_p50_ms"),
                "p95": number(row, "e2e_p95_ms"), "p99": number(row, "e2e_p99_ms") },
            "storage_io_latency_ms": { "p95": number(row, "storage_io_p95_ms") },
            "cache_stats": {
                "storage_entries": number(row, "prefill_writes"),
                "prefill_writes": number(row, "prefill_writes"),
                "storage_health": { "overall_status": row["storage_health"], "criteria": [] },
                "tier_storage_kv_bytes_read_gb": read_gib,
                "tier_storage_kv_bytes_written_gb": write_gib,
                "tier_storage_read_bandwidth_gbps": number(row, "reported_read_gib_s"),
                "tier_storage_write_bandwidth_gbps": number(row, "reported_write_gib_s"),
                "storage_write_device_p50_ms": number(row, "storage_write_device_p50_ms"),
                "storage_write_device_p95_ms": number(row, "storage_write_device_p95_ms"),
                "total_read_bytes": read_gib * GIB,
            },
            "qos_metrics": {
                "interactive": class("interactive", slowest_ms),
                "responsive": class("responsive", slowest_ms / 2.0),
                "batch": class("batch", slowest_ms / 3.0),
            },
        },
    });
    if has_raw {
        let slowest_s = slowest_ms / 1000.0;
        file["end_to_end_latencies"] = json!([0.5, slowest_s, slowest_s / 3.0]);
    }
    file
}

/// The directory of a run, below the tree.
pub fn leaf_of(file: &str) -> PathBuf {
    Path::new(file).ancestors().nth(4).unwrap().to_owned()
}

/// A second after which a trial began.
fn clock(seconds: f64) -> String {
    let seconds = seconds as u64;
    let (hour, minute) = (seconds / 3600, seconds / 60 % 60);
    format!("2026-07-24 {hour:02}:{minute:02}:{:02}", seconds % 60)
}

/// Writes the trees that were published, as far as the figures go, with the lines of the logs that
/// the span was read from: with several ranks the line of a beginning says no rank, and the time
/// in the file's name and the wrapper's 90 s stand for it.
pub fn rebuild(tree: &Path, rows: &[Row]) {
    for (place, row) in rows.iter().enumerate() {
        let file = tree.join(row["rank_file"]);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, rank_json(row, place % 2 == 0).to_string()).unwrap();
        if row["span_at_most_s"].is_empty() {
            continue;
        }
        let name = file.file_stem().unwrap().to_str().unwrap();
        let time = name.rsplit('_').next().unwrap();
        let part = |at: usize| -> f64 { time[at..at + 2].parse().unwrap() };
        let started = part(0) * 3600.0 + part(2) * 60.0 + part(4) + 90.0;
        let is_one = !row["rank_file"].contains("HPE") && !row["rank_file"].contains("hickory");
        let began = if is_one { started + 1.0 } else { started };
        let saved = began + number(row, "span_at_most_s") - 1.0;
        // The name's date, which differs from run to run.
        let date = &name[name.len() - 15..name.len() - 7];
        let date = format!("{}-{}-{}", &date[..4], &date[4..6], &date[6..]);
        let line = |at: f64, text: &str| {
            let time = clock(at).replace("2026-07-24", &date);
            format!("{time} - kv_cache.cli - INFO - {text}\n")
        };
        let mut log = line(began, "Pre-generating 256MiB noise buffer...");
        if !is_one {
            log.insert_str(0, &line(began - 7.0, "Pre-generating 256MiB noise buffer..."));
        }
        let saved_to = format!("Results saved to /elsewhere/rank_0/{name}.json");
        log.push_str(&line(saved, &saved_to));
        let leaf = tree.join(leaf_of(row["rank_file"]));
        std::fs::write(leaf.join(format!("kvcache_{place}.stderr.log")), log).unwrap();
    }
}

fn ranks(audit: &Audit) -> BTreeMap<String, RankRow> {
    let groups = audit.runs.iter().flat_map(|run| &run.groups);
    let ranks = groups.flat_map(|group| group.ranks.clone());
    ranks.map(|rank| (rank.file.display().to_string(), rank)).collect()
}

/// The figure as it was printed: as many digits behind the point.
fn assert_printed(printed: &str, value: Option<f64>, what: &str) {
    let Some(value) = value else {
        assert_eq!(printed, "", "{what}");
        return;
    };
    let digits = printed.split('.').nth(1).map_or(0, str::len);
    assert_eq!(format!("{value:.digits$}"), printed, "{what}");
}

#[test]
fn the_computed_columns_of_19_published_rank_files_are_reproduced() {
    let scratch = Scratch::new("audit-published");
    let rows = rows();
    assert_eq!(rows.len(), 19);
    rebuild(&scratch.path, &rows);
    let found = audit(std::slice::from_ref(&scratch.path), &AuditSettings::default());
    assert_eq!((found.read.rank_files, found.read.logs, found.read.skipped), (19, 18, 0));
    let ranks = ranks(&found);
    for row in &rows {
        let file = row["rank_file"];
        let rank = &ranks[&scratch.path.join(file).display().to_string()];
        let (read, write) = (rank.read.unwrap(), rank.write.unwrap());
        let bounds = [
            ("span_at_least_s", rank.span_at_least_s),
            ("read_at_most_gib_s", read.at_most_gib_per_s),
            ("write_at_most_gib_s", write.at_most_gib_per_s),
            ("lower_bound_overstatement_percent", rank.overstatement_at_least_percent),
            ("span_at_most_s", rank.span_at_most_s),
            ("read_at_least_gib_s", read.at_least_gib_per_s),
            ("upper_bound_overstatement_percent", rank.overstatement_at_most_percent),
        ];
        for (column, value) in bounds {
            assert_printed(row[column], value, &format!("{file}: {column}"));
        }
        let reported = number(row, "reported_read_gib_s");
        // The JSON reader's last bit may be another than that of the figure as text.
        assert!((read.reported_gib_per_s / reported - 1.0).abs() < 1e-15, "{reported}");
    }
}

/// System, and the bounds that were published for option 1: GiB/s, and percent overstated.
const BOUNDS: [(&str, [f64; 2], [f64; 2]); 12] = [
    ("seahorse-storage", [2.57, 2.60], [77.0, 79.0]),
    ("K3000-kvcache", [2.61, 2.64], [64.0, 66.0]),
    ("mayanas-lustre", [6.36, 6.46], [43.0, 45.0]),
    ("Everpure_FBEXA", [7.05, 7.05], [28.0, 28.0]),
    ("D5-P5336", [6.01, 6.31], [25.0, 34.0]),
    ("MEMORY_AE", [11.64, 12.12], [12.0, 17.0]),
    ("UbiPower", [11.57, 12.79], [8.0, 20.0]),
    ("D7-PS1010", [12.36, 13.56], [7.0, 17.0]),
    ("hickory", [13.15, 14.70], [6.0, 18.0]),
    ("potato1-", [30.55, 32.68], [0.0, 7.0]),
    ("1Tier0", [70.80, 73.11], [0.0, 3.0]),
    ("tnf-u400", [3.90, 4.01], [205.0, 213.0]),
];

#[test]
fn the_bounds_of_each_published_system_are_those_of_its_trials() {
    let scratch = Scratch::new("audit-bounds");
    rebuild(&scratch.path, &rows());
    let found = audit(std::slice::from_ref(&scratch.path), &AuditSettings::default());
    for (system, real, over) in BOUNDS {
        let all = ranks(&found);
        let of_option_1 =
            all.iter().filter(|(file, _)| file.contains(system) && file.contains("option_1"));
        let ranks: Vec<&RankRow> = of_option_1.map(|(_, rank)| rank).collect();
        assert!(!ranks.is_empty(), "{system}");
        let least = ranks.iter().filter_map(|rank| rank.read?.at_least_gib_per_s);
        let most = ranks.iter().filter_map(|rank| rank.read?.at_most_gib_per_s).fold(0.0, f64::max);
        let least = least.fold(most, f64::min);
        assert_eq!([least, most].map(|rate| format!("{rate:.2}")), real.map(|r| format!("{r:.2}")));
        let shares = ranks.iter().flat_map(|rank| {
            [rank.overstatement_at_least_percent, rank.overstatement_at_most_percent]
        });
        let shares: Vec<f64> = shares.flatten().collect();
        let lowest = shares.iter().copied().fold(f64::INFINITY, f64::min);
        let highest = shares.iter().copied().fold(0.0, f64::max);
        assert_eq!([lowest, highest].map(|share| share.round() + 0.0), over, "{system}");
    }
}

#[test]
fn the_heaviest_finding_of_the_published_tree_is_the_largest_overstatement() {
    let scratch = Scratch::new("audit-heaviest");
    rebuild(&scratch.path, &rows());
    let found = audit(std::slice::from_ref(&scratch.path), &AuditSettings::default());
    let over: Vec<_> = found
        .findings
        .iter()
        .filter(|f| f.kind == Kind::CountedAfterTheRun && f.level == Level::Finding)
        .collect();
    assert!(over[0].run.display().to_string().contains("tnf-u400"), "{:?}", over[0].run);
    assert!((over[0].weight - 2.049).abs() < 0.001, "{}", over[0].weight);
    assert!(over.windows(2).all(|two| two[0].weight >= two[1].weight));
    // Every input is of a file that is there, or of the run's directory.
    for input in found.findings.iter().flat_map(|finding| &finding.inputs) {
        assert!(input.file.exists(), "{:?}", input.file);
    }
    // Nothing is said of the two whose slowest request lay within the run and whose log leaves
    // little open.
    let said = |system: &str| over.iter().any(|f| f.run.display().to_string().contains(system));
    assert!(!said("1Tier0") && !said("potato1-") && said("seahorse"));
}

#[test]
fn fsync_times_that_no_drive_has_are_those_of_three_systems() {
    let scratch = Scratch::new("audit-fsync");
    rebuild(&scratch.path, &rows());
    let found = audit(std::slice::from_ref(&scratch.path), &AuditSettings::default());
    let mut systems: Vec<String> = found
        .findings
        .iter()
        .filter(|finding| finding.kind == Kind::FsyncTooFast)
        .map(|f| f.run.strip_prefix(scratch.path.join("closed")).unwrap().display().to_string())
        .map(|run| run.split('/').next().unwrap().to_owned())
        .collect();
    systems.sort();
    assert_eq!(systems, ["FarmGPU", "HPE", "Suzhou_Zishan_Longlin"]);
    let hickory = found.findings.iter().find(|finding| {
        finding.kind == Kind::FsyncTooFast && finding.run.ends_with("20260724_130034")
    });
    let hickory = hickory.unwrap();
    // P50 and P95 are below: at least 95 % of the fsyncs.
    assert_eq!(hickory.weight, 0.95);
    assert!(hickory.sentence.contains("0.0068 ms"), "{}", hickory.sentence);
    assert!(hickory.sentence.contains("607.5 MiB"), "{}", hickory.sentence);
}

/// The harness's own sums over the three trials of the two NewFW systems, as published.
const PUBLISHED: [(&str, f64, f64, f64); 2] = [
    ("20260712_182110", 7.981766983503692, 1.7671206324114408, 63367.98124656415),
    ("20260713_173041", 14.526329449351467, 3.0877900834075813, 20884.016203401003),
];

#[test]
fn summaries_are_recomputed_from_their_ranks_and_differences_named() {
    let scratch = Scratch::new("audit-summary");
    let rows: Vec<Row> =
        rows().into_iter().filter(|row| row["rank_file"].contains("NewFW")).collect();
    rebuild(&scratch.path, &rows);
    let summary = |run: &str, read: f64, write: f64, p95: f64| {
        let row = rows.iter().find(|row| row["rank_file"].contains(run)).unwrap();
        let option = json!({
            "aggregated_read_bandwidth_gbps": read, "aggregated_write_bandwidth_gbps": write,
            "aggregated_p95_latency_ms": p95, "rank_count": 1, "trial_count": 3,
            "partial_failure": false, "missing_files": [], "cpu_tier_ranks": [] });
        let summary = json!({ "host_count": 1, "npernode": 1, "options": { "1": option } });
        let leaf = scratch.path.join(leaf_of(row["rank_file"]));
        std::fs::write(leaf.join("summary.json"), summary.to_string()).unwrap();
    };
    let differing = || {
        let found = audit(std::slice::from_ref(&scratch.path), &AuditSettings::default());
        assert_eq!(found.read.summaries, 2);
        found.findings.into_iter().filter(|f| f.kind == Kind::SummaryDiffers).collect::<Vec<_>>()
    };
    for (run, read, write, p95) in PUBLISHED {
        summary(run, read, write, p95);
    }
    assert_eq!(differing(), []);
    let (run, read, write, p95) = PUBLISHED[0];
    summary(run, read * 1.25, write, p95);
    let found = differing();
    assert_eq!(found.len(), 1);
    assert!((found[0].weight - 0.2).abs() < 1e-9, "{}", found[0].weight);
    let keys: Vec<&str> = found[0].inputs.iter().map(|input| input.key.as_str()).collect();
    assert_eq!(keys[0], "options.1.aggregated_read_bandwidth_gbps");
    assert_eq!(keys.len(), 2);
}
