//! `ringfall audit` on small trees: what is found, what is skipped, what a script learns.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output};

use ringfall_foreign::audit::{Audit, AuditSettings, Finding, Kind, Level, Value as Given, audit};
use serde_json::{Value, json};

use crate::audit_published::{leaf_of, rank_json, rows};
use crate::support::{Scratch, assert_fails, assert_valid_as, ended_well, output, text};

/// A run in the published layout whose ranks are copies of one rank file.
struct Tree {
    scratch: Scratch,
}

const LEAF: &str = "closed/Org/results/Sys/kv_cache/llama3.1-8b/run/20260712_182110";

impl Tree {
    fn new(name: &str) -> Tree {
        Tree { scratch: Scratch::new(name) }
    }

    fn write(&self, file: &str, content: impl AsRef<[u8]>) {
        let path = self.scratch.file(LEAF).join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    fn rank(&self, option: u32, trial: u32, rank: u32, change: impl FnOnce(&mut Value)) {
        let mut file = rank_json(&rows()[0], true);
        change(&mut file);
        let name = "kvcache_results_20260712_182112.json";
        let path = format!("option_{option}/trial_{trial}/rank_{rank}/{name}");
        self.write(&path, file.to_string());
    }

    fn metadata(&self, launcher: &str, parameters: &str, mode: &str) {
        let command = |trial: u32| {
            format!(
                "mpirun {launcher} --bind-to none /v/python3 /r/mlperf_wrapper.py \
                 --rank-output-base /run/option_1/trial_{trial} --rank-cache-base /c --seed-base \
                 42 --config /r/config.yaml --model llama3.1-8b --num-users 200 --gpu-mem-gb 0 \
                 --cpu-mem-gb 0 --max-concurrent-allocs 16 --generation-mode none {parameters}"
            )
        };
        let commands: Vec<Value> =
            (0..3).map(|trial| json!({ "command": command(trial) })).collect();
        let metadata = json!({ "args": { "mode": mode, "mpi_params": null },
                               "command_output_files": commands });
        self.write("kv_cache_20260712_182110_metadata.json", metadata.to_string());
    }

    fn audit(&self) -> Audit {
        self.audit_with(AuditSettings::default())
    }

    fn audit_with(&self, settings: AuditSettings) -> Audit {
        audit(std::slice::from_ref(&self.scratch.path), &settings)
    }

    fn ringfall(&self, args: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ringfall"));
        command.arg("audit").args(args).current_dir(&self.scratch.path);
        output(command)
    }
}

fn of(found: &Audit, kind: Kind) -> Vec<&Finding> {
    found.findings.iter().filter(|finding| finding.kind == kind).collect()
}

fn one(found: &Audit, kind: Kind) -> &Finding {
    let all = of(found, kind);
    assert_eq!(all.len(), 1, "{kind:?}: {all:#?}");
    all[0]
}

#[test]
fn lost_ranks_are_counted_against_the_summary() {
    let tree = Tree::new("audit-lost");
    for rank in 0..24 {
        tree.rank(1, 0, rank, |_| ());
    }
    let option = json!({ "rank_count": 48, "trial_count": 1, "partial_failure": true,
                         "missing_files": vec!["x"; 24] });
    let empty = json!({ "rank_count": 48, "trial_count": 1, "partial_failure": true });
    let summary = json!({ "host_count": 8, "options": { "1": option, "2": empty } });
    tree.write("summary.json", summary.to_string());
    tree.write("option_1/trial_0/rank_24/kvcache_results_x.json", "{\"summary\":");
    let found = tree.audit();
    let lost = of(&found, Kind::LostRanks);
    // Of option 2, which was published, there is no file at all.
    assert_eq!(lost.iter().map(|f| f.weight).collect::<Vec<_>>(), [1.0, 0.5]);
    assert!(lost[1].sentence.contains("24 of 48 rank files are missing"), "{}", lost[1].sentence);
    assert!(lost[1].sentence.contains("1 can't be read"), "{}", lost[1].sentence);
    assert_eq!(found.read.skipped, 1);
    assert!(found.skipped[0].why.contains("cut off"), "{:?}", found.skipped);
    // A part of the run says nothing of what is elsewhere.
    let part = tree.scratch.file(LEAF).join("option_1/trial_0/rank_3");
    let found = audit(&[part], &AuditSettings::default());
    assert_eq!(found.read.rank_files, 1);
    assert!(of(&found, Kind::SummaryDiffers).is_empty());
    assert_eq!(one(&found, Kind::LostRanks).weight, 0.0);
}

#[test]
fn ranks_that_never_touched_storage_and_several_files_of_one_are_named() {
    let tree = Tree::new("audit-cpu-tier");
    for rank in 0..4 {
        tree.rank(2, 0, rank, |file| {
            let stats = &mut file["summary"]["cache_stats"];
            if rank == 3 {
                stats["storage_entries"] = json!(0);
            } else if rank == 2 {
                for key in ["tier_storage_kv_bytes_read_gb", "tier_storage_kv_bytes_written_gb"] {
                    stats[key] = json!(0.0);
                }
                stats["tier_storage_read_bandwidth_gbps"] = json!(0.0);
                stats["tier_storage_write_bandwidth_gbps"] = json!(0.0);
            }
        });
    }
    tree.write("option_2/trial_0/rank_1/kvcache_results_20260713_000000.json", "{}");
    let found = tree.audit();
    let without = one(&found, Kind::RanksWithoutStorage);
    assert_eq!(without.weight, 0.5);
    assert!(without.sentence.starts_with("Option 2: 2 of 4 rank files"), "{}", without.sentence);
    let several = one(&found, Kind::SeveralFilesOfARank);
    assert_eq!((several.weight, several.inputs.len()), (0.2, 1));
    assert!(several.inputs[0].file.ends_with("rank_1/kvcache_results_20260713_000000.json"));
}

#[test]
fn what_a_result_of_ours_says_of_its_run_is_told() {
    let tree = Tree::new("audit-outcome");
    let of_run = |ringfall: Value| {
        tree.rank(1, 0, 0, |file| {
            let stats = &mut file["summary"]["cache_stats"];
            for key in ["tier_storage_kv_bytes_read_gb", "tier_storage_kv_bytes_written_gb"] {
                stats[key] = json!(0.0);
            }
            file["ringfall"] = ringfall;
        });
        tree.audit()
    };
    let config = json!({ "storage_capacity_bytes": 0 });
    let found = of_run(json!({ "schema_version": 5, "config": config }));
    // That it has no storage tier is what the result says of itself.
    let without = one(&found, Kind::RanksWithoutStorage);
    assert_eq!((without.level, without.weight), (Level::Note, 0.0));
    assert!(without.sentence.contains("--disable-storage"), "{}", without.sentence);
    for kind in [Kind::Simulated, Kind::Interrupted, Kind::RequestsFailed, Kind::BlocksBad] {
        assert!(of(&found, kind).is_empty(), "{kind:?}");
    }
    let found = of_run(json!({
        "schema_version": 5, "config": { "storage_capacity_bytes": 1 },
        "simulation": { "device": "nvme" }, "window": { "interrupted": true },
        "errors": { "requests_failed": 3 }, "verify": { "blocks_bad": 2 } }));
    assert_eq!(one(&found, Kind::RanksWithoutStorage).level, Level::Finding);
    for (kind, words, result) in [
        (Kind::Simulated, "the device description \"nvme\"", 1.0),
        (Kind::Interrupted, "1 of 1 rank files are of runs that a signal", 1.0),
        (Kind::RequestsFailed, "3 requests ended", 3.0),
        (Kind::BlocksBad, "2 blocks differed", 2.0),
    ] {
        let finding = one(&found, kind);
        assert!(finding.sentence.contains(words), "{}", finding.sentence);
        assert_eq!((finding.level, finding.weight), (Level::Finding, 1.0));
        assert_eq!(finding.result, Some(result));
    }
    assert_valid_as("audit", &serde_json::to_value(&found).unwrap());
    let found = of_run(json!({ "schema_version": 5, "simulation": { "device": null } }));
    assert_eq!(one(&found, Kind::Simulated).result, Some(1.0));
}

#[test]
fn preloads_are_weighed_by_what_they_change() {
    let tree = Tree::new("audit-preload");
    tree.rank(1, 0, 0, |_| ());
    let libraries = "/usr/lib/libtcmalloc_minimal.so.4:/opt/libnofadvise.so:/opt/libeatmydata.so";
    tree.metadata(&format!("-n 1 -x LD_PRELOAD={libraries}"), "--duration 300", "closed");
    let found = tree.audit();
    let preloads = of(&found, Kind::PreloadedLibraries);
    let told: Vec<_> = preloads.iter().map(|f| (f.level, f.weight, f.inputs.len())).collect();
    let heavy = (Level::Finding, 1.0, 3);
    assert_eq!(told, [heavy, heavy, (Level::Note, 0.0, 3)]);
    assert!(preloads[0].sentence.contains("libeatmydata.so in 3 of 3 trials"));
    assert_eq!(preloads[0].inputs[0].key, "command_output_files.0.command");
    let value = Given::Text("/opt/libeatmydata.so".to_owned());
    assert_eq!(preloads[0].inputs[0].value, value);
    assert!(of(&found, Kind::ChangedParameters).is_empty());
}

#[test]
fn changed_parameters_are_findings_of_closed_runs_and_notes_of_open_ones() {
    let tree = Tree::new("audit-parameters");
    tree.rank(1, 0, 0, |_| ());
    tree.metadata("-n 1", "--duration 60 --disable-multi-turn", "closed");
    let found = tree.audit();
    let changed = one(&found, Kind::ChangedParameters);
    assert_eq!((changed.level, changed.weight), (Level::Finding, 1.0));
    for words in ["--duration is 60 (300 in the table)", "--disable-multi-turn is true (not in"] {
        assert!(changed.sentence.contains(words), "{}", changed.sentence);
    }
    tree.metadata("-n 1", "--duration 60", "open");
    let found = tree.audit();
    let changed = one(&found, Kind::ChangedParameters);
    assert_eq!((changed.level, changed.weight, changed.result), (Level::Note, 0.0, Some(0.8)));
    assert!(changed.sentence.contains("OPEN division may do so"), "{}", changed.sentence);
}

#[test]
fn rates_are_summed_over_ranks_and_averaged_over_trials_as_the_harness_does() {
    let tree = Tree::new("audit-sums");
    // (GiB, slowest request in s) of two trials of two ranks, of 100 s each.
    for (trial, rank, gib, slowest_s) in
        [(0, 0, 100.0, 125.0), (0, 1, 300.0, 200.0), (1, 0, 200.0, 100.0), (1, 1, 400.0, 160.0)]
    {
        tree.rank(1, trial, rank, |file| {
            file["summary"]["elapsed_time"] = json!(100.0);
            file["end_to_end_latencies"] = json!([slowest_s]);
            let stats = &mut file["summary"]["cache_stats"];
            stats["tier_storage_kv_bytes_read_gb"] = json!(gib);
            stats["tier_storage_read_bandwidth_gbps"] = json!(gib / 100.0);
        });
    }
    let found = tree.audit();
    let read = found.runs[0].groups[0].read.unwrap();
    // (1 + 3 + 2 + 4) / 2, and (100/125 + 300/200 + 200/100 + 400/160) / 2.
    assert_eq!((read.reported_gib_per_s, read.at_most_gib_per_s), (5.0, Some(3.4)));
    assert_eq!(read.at_least_gib_per_s, None);
    let finding = one(&found, Kind::CountedAfterTheRun);
    assert!((finding.weight - (5.0 / 3.4 - 1.0)).abs() < 1e-12);
    assert_eq!(finding.at_most, None);
    // Sums of 4 and 6 lie 2 apart, of a mean of 5.
    assert_eq!(one(&found, Kind::TrialSpread).result, Some(0.4));
    // The writes are those of 300 s still, which is not 100.
    assert!(one(&found, Kind::RateIsNotBytesByTime).weight > 0.6);
}

#[test]
fn counters_of_the_kernel_beside_a_trial_are_held_against_it() {
    let tree = Tree::new("audit-iostat");
    tree.rank(1, 0, 0, |_| ());
    // 2,356.6 GiB were read: 376 reports of a second, of 6,000 MiB each, are 2,203.
    let mut page = String::from("Linux\n\n");
    for second in 0..376 {
        let (minute, second) = (second / 60, second % 60);
        page.push_str(&format!(
            "11/22/26 05:{minute:02}:{second:02}\nDevice r/s rMB/s wMB/s\nnvme0n1 1 6000 1500\n\n"
        ));
    }
    tree.write("option_1/trial_0/host1.iostat.txt", &page);
    let found = tree.audit();
    let more = one(&found, Kind::MoreThanTheKernelCounted);
    let share = 1.0 - 376.0 * 6000.0 / 1024.0 / 2356.6094970703125;
    assert!((more.weight - share).abs() < 1e-9, "{} {share}", more.weight);
    assert!(more.sentence.contains("of reads"), "{}", more.sentence);
    let by_kernel = one(&found, Kind::RateByTheKernel);
    let over = 7.855362461867494 / (6000.0 / 1024.0) - 1.0;
    assert!((by_kernel.result.unwrap() - over).abs() < 1e-9, "{}", by_kernel.sentence);
    // Counters of one host of two say nothing of the other's bytes.
    tree.metadata("-n 2 -host a:1,b:1", "--duration 300", "closed");
    assert!(of(&tree.audit(), Kind::MoreThanTheKernelCounted).is_empty());
}

#[test]
fn a_drive_s_specification_is_a_bound_on_each_host() {
    let tree = Tree::new("audit-drive");
    tree.rank(1, 0, 0, |_| ());
    let with = |read, write| {
        let settings = AuditSettings { drive_read_mb_per_s: read, drive_write_mb_per_s: write };
        tree.audit_with(settings)
    };
    // 7.86 GiB/s are 8,435 MB/s, and at most 6.27 GiB/s over the real span 6,731.
    let found = with(Some(7000.0), Some(3000.0));
    let above = one(&found, Kind::AboveTheDrive);
    assert!((above.weight - 0.205).abs() < 0.001, "{}", above.weight);
    assert!(above.sentence.ends_with("Over the time that really passed it is not."));
    let found = with(Some(6000.0), None);
    assert!(one(&found, Kind::AboveTheDrive).sentence.contains("may or may not"));
    tree.metadata("-n 2 -host a:1,b:1", "--duration 300", "closed");
    assert!(of(&with(Some(7000.0), None), Kind::AboveTheDrive).is_empty());
}

#[test]
fn malformed_files_of_every_kind_are_named_skipped_and_counted() {
    let tree = Tree::new("audit-malformed");
    tree.rank(1, 0, 0, |_| ());
    let whole = rank_json(&rows()[0], true).to_string();
    let bad = |number: u32, content: &[u8]| {
        tree.write(&format!("option_1/trial_0/rank_{number}/kvcache_results_x.json"), content);
    };
    bad(1, &whole.as_bytes()[..whole.len() / 2]);
    bad(2, b"[1, 2]");
    bad(3, whole.replacen("300.00009655952454", "NaN", 1).as_bytes());
    bad(4, b"");
    bad(5, b"{\"summary\": {\"cache_stats\": [1]}}");
    bad(6, b"{\"end_to_end_latencies\": [], \"seed\": 1}");
    bad(7, b"\xff\xfe");
    tree.rank(1, 0, 8, |file| file["summary"]["elapsed_time"] = json!(-3.0));
    tree.rank(1, 0, 9, |file| file["end_to_end_latencies"] = json!([-1.0, 1e308]));
    tree.rank(1, 0, 10, |file| {
        file["summary"]["cache_stats"]["tier_storage_kv_bytes_read_gb"] = json!(1e308);
        file["summary"]["qos_metrics"] = json!([1]);
    });
    tree.write("summary.json", "{\"options\": []}");
    tree.write("kv_cache_x_metadata.json", "nonsense");
    tree.write("iostat.txt", "nothing");
    std::fs::create_dir_all(tree.scratch.file("empty/option_1/trial_0/rank_0")).unwrap();
    symlink(tree.scratch.path.as_path(), tree.scratch.file("loop")).unwrap();
    symlink("/nonexistent", tree.scratch.file("dangling.json")).unwrap();
    std::fs::create_dir_all(tree.scratch.file(&"d/".repeat(40))).unwrap();
    let giant = std::fs::File::create(tree.scratch.file("giant.json")).unwrap();
    giant.set_len(600 << 20).unwrap();
    let found = tree.audit();
    assert_eq!((found.read.rank_files, found.read.skipped), (4, 14), "{:#?}", found.skipped);
    for why in [
        "cut off",
        "not an object",
        "not readable JSON",
        "is empty",
        "`cache_stats`",
        "no `summary`",
        "symbolic link",
        "directories deep",
        "600 MiB, and at most 128 MiB",
        "`options` is an array",
        "no report of iostat",
    ] {
        assert!(found.skipped.iter().any(|skipped| skipped.why.contains(why)), "{why}");
    }
    let odd = one(&found, Kind::ImpossibleFigures);
    let keys: Vec<&str> = odd.inputs.iter().map(|input| input.key.as_str()).collect();
    for key in [
        "summary.elapsed_time",
        "end_to_end_latencies",
        "summary.cache_stats.tier_storage_kv_bytes_read_gb",
    ] {
        assert!(keys.contains(&key), "{key}: {keys:?}");
    }
    assert_eq!(one(&found, Kind::LostRanks).weight, 7.0 / 11.0);
}

#[test]
fn nothing_readable_is_an_input_error_and_findings_fail_only_when_asked_to() {
    let tree = Tree::new("audit-status");
    assert_fails(&tree.ringfall(&[]), 2, &["PATH"]);
    assert_fails(&tree.ringfall(&["."]), 2, &["no result can be read", "kvcache_results_"]);
    assert_fails(&tree.ringfall(&["/no/such/tree"]), 2, &["/no/such/tree", "No such file"]);
    tree.write("option_1/trial_0/rank_0/kvcache_results_x.json", "{");
    assert_fails(&tree.ringfall(&["."]), 2, &["no result can be read", "cut off"]);
    tree.rank(1, 0, 0, |_| ());
    std::fs::remove_file(
        tree.scratch.file(LEAF).join("option_1/trial_0/rank_0/kvcache_results_x.json"),
    )
    .unwrap();
    assert_fails(&tree.ringfall(&[".", "--drive-read-mb-s", "-4"]), 2, &["-4"]);
    assert_fails(&tree.ringfall(&[".", "--drive-read-mb-s", "0"]), 2, &["14000"]);
    let done = ended_well(tree.ringfall(&["."]));
    let failed = tree.ringfall(&[".", "--fail-on-findings"]);
    assert_eq!((failed.status.code(), &failed.stdout), (Some(1), &done.stdout));
    let input = format!("{LEAF}/option_1/trial_0/rank_0/kvcache_results_20260712_182112.json");
    // A result is one that was named, or is found in a directory.
    for place in [&*input, "."] {
        for flag in ["--json", "--html-output", "--csv-output"] {
            let refused = tree.ringfall(&[place, flag, &input]);
            assert_fails(&refused, 2, &[flag, "overwrite"]);
        }
    }
    // An audit itself is none.
    for _ in 0..2 {
        ended_well(tree.ringfall(&[".", "--json", "audit.json"]));
    }
    assert_fails(&tree.ringfall(&["audit.json", "--json", "audit.json"]), 2, &["no result"]);
}

#[test]
fn the_terminal_keeps_to_80_columns_and_every_output_says_the_same() {
    let tree = Tree::new("audit-outputs");
    for trial in 0..3 {
        tree.rank(1, trial, 0, |_| ());
    }
    let outputs = ["--json", "a.json", "--html-output", "p/a.html", "--csv-output", "a.csv"];
    let done = ended_well(tree.ringfall(&[&["closed"][..], &outputs].concat()));
    let page = String::from_utf8(done.stdout).unwrap();
    let line = page.lines().find(|line| line.contains("option 1")).unwrap();
    for cell in ["read    ", "3/3", "7.86", "≤ 6.27", "≥ 25.3 %"] {
        assert!(line.contains(cell), "{cell} is not in {line:?}");
    }
    // A path is one word, which can't be broken.
    let wide = page.lines().filter(|line| !line.contains("20260712_182110"));
    for line in wide {
        assert!(line.chars().count() <= 80, "{line}");
    }
    let json: Value =
        serde_json::from_slice(&std::fs::read(tree.scratch.file("a.json")).unwrap()).unwrap();
    let printed = tree.ringfall(&["closed", "--json", "-"]);
    assert_eq!(serde_json::from_slice::<Value>(&printed.stdout).unwrap(), json);
    assert_eq!((&json["audit_version"], &json["read"]["rank_files"]), (&json!(1), &json!(3)));
    let first = &json["findings"][0];
    assert_eq!(
        (&first["kind"], &first["level"]),
        (&json!("counted_after_the_run"), &json!("finding"))
    );
    let group = &json["runs"][0]["groups"][0];
    assert_eq!(group["ranks"].as_array().unwrap().len(), 3);
    assert_eq!(group["ranks"][0]["span_at_least_s"], json!(375.91765537399624));
    let html = std::fs::read_to_string(tree.scratch.file("p/a.html")).unwrap();
    assert!(html.contains("≥ 25.3 %") && html.contains("closed · "), "{html}");
    let csv = std::fs::read_to_string(tree.scratch.file("a.csv")).unwrap();
    let rows: Vec<&str> = csv.lines().collect();
    assert_eq!((rows.len(), rows[0].split(',').count()), (4, rows[1].split(',').count()));
}

#[test]
fn texts_of_files_reach_no_terminal_page_or_spreadsheet_as_they_are() {
    let tree = Tree::new("audit-hostile");
    tree.rank(1, 0, 0, |file| {
        file["summary"]["cache_stats"]["storage_health"]["overall_status"] =
            json!("=1+1<script>\u{1b}[2J");
        file["summary"]["elapsed_time"] = json!("<b>\u{1b}[31m");
    });
    tree.metadata("-n 1 -x LD_PRELOAD=\u{1b}[2J<i>.so", "--model <script>\u{202e}", "closed");
    let name = "x\u{1b}[2J<script>.json";
    std::fs::write(tree.scratch.file(name), rank_json(&rows()[1], false).to_string()).unwrap();
    let all = [".", "--all-findings", "--html-output", "a.html", "--csv-output", "a.csv"];
    let done = ended_well(tree.ringfall(&all));
    assert!(!text(&done).contains(['\u{1b}', '\u{202e}']), "{}", text(&done));
    let json = tree.ringfall(&[".", "--json", "-"]);
    assert!(!text(&json).contains('\u{1b}'));
    let html = std::fs::read_to_string(tree.scratch.file("a.html")).unwrap();
    for word in ["<script>", "<i>", "<b>", "\u{1b}", "\u{202e}"] {
        assert!(!html.contains(word), "{word:?}");
    }
    let csv = std::fs::read_to_string(tree.scratch.file("a.csv")).unwrap();
    assert!(!csv.contains(",=1") && csv.contains("'=1+1"), "{csv}");
}

#[test]
fn single_results_are_read_by_themselves_also_ours() {
    let scratch = Scratch::new("audit-single");
    ended_well(scratch.run(&["--max-requests", "8", "--duration", "60"]));
    let reference = scratch.file("reference.json");
    std::fs::write(&reference, rank_json(&rows()[9], true).to_string()).unwrap();
    std::fs::write(scratch.file("note.json"), "{\"a\": 1}").unwrap();
    for name in ["rank_samples.csv", "more.CSV", "LICENSE"] {
        std::fs::write(scratch.file(name), "a").unwrap();
    }
    let found = audit(std::slice::from_ref(&scratch.path), &AuditSettings::default());
    assert_eq!((found.read.rank_files, found.read.other_json), (2, 1), "{:#?}", found.skipped);
    // What is no part of a run is named, not said to be nothing.
    let csv = found.passed_over.iter().find(|others| others.ending == "csv").unwrap();
    assert_eq!((csv.files, csv.first.file_name().unwrap()), (2, "more.CSV".as_ref()));
    assert!(found.passed_over.iter().any(|others| others.ending.is_empty()));
    let page = ringfall_report::show::audit_page(&found, false);
    assert!(page.contains("Passed over") && !page.contains("skipped none"), "{page}");
    assert_valid_as("audit", &serde_json::to_value(&found).unwrap());
    let contradicting = of(&found, Kind::ContradictsItself);
    assert!(contradicting.is_empty(), "{contradicting:#?}");
    let groups = &found.runs[0].groups;
    let labels: Vec<&str> = groups.iter().map(|group| group.label.as_str()).collect();
    assert_eq!(labels, ["reference.json", "result.json"]);
    // One that was changed by hand: all rates of the summary are ten times what they were.
    let changed = scratch.file("changed.json");
    let mut file = scratch.json();
    let rate = &mut file["summary"]["avg_throughput_tokens_per_sec"];
    *rate = json!(rate.as_f64().unwrap() * 10.0);
    std::fs::write(&changed, file.to_string()).unwrap();
    let changed = audit(&[changed], &AuditSettings::default());
    let finding = one(&changed, Kind::ContradictsItself);
    let place = "`summary.avg_throughput_tokens_per_sec` says ";
    assert!(finding.sentence.contains(place), "{}", finding.sentence);
    assert!((finding.weight - 0.9).abs() < 1e-6, "{finding:#?}");
    // What can't be checked is told: a file of another version, with a key that is none, with a
    // damaged histogram.
    let edits: [fn(&mut Value); 4] = [
        |file| file["ringfall"]["schema_version"] = json!(4),
        |file| file["ringfall"] = Value::Null,
        |file| file["ringfall"]["histograms"]["io_write"]["count"] = json!(1),
        |file| file["ringfall"]["histograms"] = Value::Null,
    ];
    for edit in edits {
        let mut file = scratch.json();
        edit(&mut file);
        let changed = scratch.file("changed.json");
        std::fs::write(&changed, file.to_string()).unwrap();
        let found = audit(&[changed], &AuditSettings::default());
        assert_eq!(one(&found, Kind::Unchecked).weight, 1.0, "{:?}", file["ringfall"]);
    }
    assert!(of(&found, Kind::Unchecked).is_empty(), "{:#?}", found.findings);
    // Without our key, what the reference has twice.
    let mut file = scratch.json();
    file.as_object_mut().unwrap().remove("ringfall");
    file["summary"]["total_requests"] = json!(80);
    let changed = scratch.file("changed.json");
    std::fs::write(&changed, file.to_string()).unwrap();
    let finding = audit(&[changed], &AuditSettings::default());
    let finding = one(&finding, Kind::ContradictsItself);
    assert!(finding.sentence.contains("`summary.total_requests`"), "{}", finding.sentence);
    // Our bytes are those of the window, by its length.
    let ours = &groups[1].ranks[0];
    assert!(ours.is_ringfall && ours.span_at_least_s == ours.elapsed_s);
    assert_eq!(ours.overstatement_at_most_percent, Some(0.0));
    let about_ours = of(&found, Kind::CountedAfterTheRun);
    assert!(about_ours.iter().all(|f| f.group.as_deref() == Some("reference.json")));
    // The same by the file itself.
    let alone = audit(&[reference], &AuditSettings::default());
    assert_eq!(alone.findings.len(), of(&alone, Kind::CountedAfterTheRun).len() + 4);
}

#[test]
fn raw_latencies_of_a_long_run_are_not_kept() {
    let tree = Tree::new("audit-raw");
    tree.rank(1, 0, 0, |file| {
        let many: Vec<f64> = (0..400_000).map(|n| f64::from(n) / 1000.0).collect();
        file["end_to_end_latencies"] = json!(many);
        file["storage_latencies"] = json!([[[1]], "x"]);
    });
    let found = tree.audit();
    let rank = &found.runs[0].groups[0].ranks[0];
    assert_eq!(rank.slowest_request_s, Some(399.999));
    assert_eq!(leaf_of("a/option_1/trial_0/rank_0/x.json"), Path::new("a"));
}
