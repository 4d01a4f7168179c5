//! MLPerf Storage: what its harness starts through the shim, and the sequence without it.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

use crate::support::{
    Scratch, assert_fails, assert_valid, ended_well, finish, output, skipped, spawn, text,
};

fn ringfall(scratch: &Scratch, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ringfall"));
    command.args(arguments).current_dir(&scratch.path);
    output(command)
}

fn json(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

/// The only result in a rank's directory.
fn result_in(directory: &Path) -> Value {
    let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let is_result = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_str().unwrap();
        name.starts_with("kvcache_results_") && name.ends_with(".json")
    };
    let results: Vec<PathBuf> = entries.filter(is_result).collect();
    assert_eq!(results.len(), 1, "{results:?}");
    let document = json(&results[0]);
    assert_valid(&document);
    document
}

/// As the harness passes them, small; and users with little to say who wait for their answers.
const SMALL: [&str; 16] = [
    "--model",
    "tiny-1b",
    "--num-users",
    "6",
    "--duration",
    "1",
    "--gpu-mem-gb",
    "0",
    "--cpu-mem-gb",
    "0",
    "--max-concurrent-allocs",
    "16",
    "--generation-mode",
    "none",
    "--config",
    concat!(env!("CARGO_MANIFEST_DIR"), "/tests/small.yaml"),
];
/// Flags that only a run takes.
const MORE: [&str; 4] = ["--storage-capacity-gb", "0.5", "--arrival", "closed"];

#[test]
fn the_harness_starts_ranks_through_the_shim() {
    let scratch = Scratch::new("shim");
    let program = env!("CARGO_BIN_EXE_ringfall");
    let told = text(&ringfall(&scratch, &["mlperf", "shim", "shim", "--ringfall", program]));
    assert!(told.contains("shim/kv-cache.py") && told.contains("CLOSED"), "{told}");
    let Ok(python) = Command::new("python3").arg("--version").output() else {
        return skipped("the_harness_starts_ranks_through_the_shim", "python3 is missing");
    };
    assert!(python.status.success(), "{python:?}");
    let rank = |rank: &str| {
        let mut command = Command::new("python3");
        command.args(["shim/mlperf_wrapper.py", "--rank-output-base", "out/option_1/trial_0"]);
        command.args(["--rank-cache-base", "kv", "--seed-base", "42"]);
        command.args(["--start-delay", "0", "--end-delay=0", "--config", "shim/config.yaml"]);
        command.args(SMALL).args(MORE).current_dir(&scratch.path);
        spawn(as_rank(command, rank))
    };
    for (number, child) in [rank("0"), rank("1")].into_iter().enumerate() {
        ended_well(finish(child));
        let directory = format!("out/option_1/trial_0/rank_{number}");
        let document = result_in(&scratch.file(&directory));
        assert_eq!(document["seed"], 42 + number);
        assert_eq!(document["ringfall"]["rank"]["rank"], number);
        // What the harness adds up must be numbers.
        for key in [
            "/summary/avg_throughput_tokens_per_sec",
            "/summary/storage_throughput_tokens_per_sec",
            "/summary/cache_stats/storage_entries",
            "/summary/cache_stats/tier_storage_read_bandwidth_gbps",
            "/summary/cache_stats/tier_storage_write_bandwidth_gbps",
            "/summary/storage_io_latency_ms/p95",
        ] {
            assert!(document.pointer(key).is_some_and(Value::is_number), "{key}");
        }
    }
    // What the ranks wrote is added up, of all ranks exactly.
    let added = ringfall(&scratch, &["mlperf", "report", "out", "--json"]);
    let added: Value = serde_json::from_slice(&added.stdout).unwrap();
    assert_eq!((&added["total_ranks"], &added["host_count"]), (&2.into(), &1.into()));
    let merged = &added["options"]["1"]["ringfall"]["merged"];
    assert!(merged["storage_read_ms"]["count"].as_u64() > Some(0), "{merged}");
}

#[test]
fn a_rank_that_can_t_begin_the_sequence_tells_the_others() {
    // All at once: each waits until the failure that it found can't be of an earlier launch.
    let refuse = |wrong: &[&str], why: &str| {
        let scratch = Scratch::new("sequence-refused");
        let waits = spawn(as_rank(sequence_command(&scratch, &["--trials", "1"]), "0"));
        let refused = output(as_rank(sequence_command(&scratch, wrong), "1"));
        assert_fails(&refused, 2, &[why]);
        let told = finish(waits);
        assert_fails(&told, 1, &["rank 1", why]);
        let told = String::from_utf8_lossy(&told.stderr).into_owned();
        assert!(!told.contains("\\u{a}") && !told.contains("Usage"), "{told}");
    };
    std::thread::scope(|threads| {
        threads.spawn(|| refuse(&["--bogus", "1"], "unexpected argument '--bogus' found"));
        threads.spawn(|| refuse(&["--num-users", "0"], "--num-users"));
        threads.spawn(|| refuse(&["--", "--queue-depht", "4"], "--queue-depth"));
    });
}

#[test]
fn ranks_that_name_the_system_after_their_hosts_meet_all_the_same() {
    let scratch = Scratch::new("sequence-hosts");
    let start = |rank: &str| {
        let name = format!("node{rank}");
        let more = ["--trials", "1", "--systemname", &name];
        spawn(as_rank(sequence_command(&scratch, &more), rank))
    };
    for (rank, child) in [start("0"), start("1")].into_iter().enumerate() {
        let output = finish(child);
        assert_eq!(output.status.code(), Some(0), "rank {rank}: {}", text(&output));
    }
    let run = only_run_of(&scratch, "node0");
    assert_eq!(json(&run.join("summary.json"))["total_ranks"], 2);
    let others = scratch.file("out/open/local/results/node1");
    assert!(!others.exists(), "rank 0 names the system for all");
}

/// `ringfall mlperf run` of one short trial of option 1, or more.
fn sequence_command(scratch: &Scratch, more: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ringfall"));
    command.args(["mlperf", "run", "--cache-dir", "kv", "--results-dir", "out"]);
    command.args(["--systemname", "box", "--start-delay", "0", "--end-delay", "0"]);
    command.args(["--inter-option-delay", "0", "--options", "1"]);
    command.args(SMALL).args(more).current_dir(&scratch.path);
    if !more.contains(&"--") {
        command.arg("--").args(MORE);
    }
    command
}

fn sequence(scratch: &Scratch, more: &[&str]) -> Output {
    output(sequence_command(scratch, more))
}

/// As rank `rank` of two that a launcher has started.
fn as_rank(mut command: Command, rank: &str) -> Command {
    for (name, value) in [("RANK", rank), ("SIZE", "2")] {
        command.env(format!("OMPI_COMM_WORLD_{name}"), value);
        command.env(format!("OMPI_COMM_WORLD_LOCAL_{name}"), value);
    }
    command.env("PMIX_NAMESPACE", "mlperf");
    command
}

fn only_run(scratch: &Scratch) -> PathBuf {
    only_run_of(scratch, "box")
}

fn only_run_of(scratch: &Scratch, system: &str) -> PathBuf {
    let runs = format!("out/open/local/results/{system}/kv_cache/tiny-1b/run");
    let runs = scratch.file(&runs);
    let mut entries = std::fs::read_dir(runs).unwrap();
    let run = entries.next().unwrap().unwrap().path();
    assert!(entries.next().is_none());
    run
}

#[test]
fn a_sequence_is_run_added_up_and_continued() {
    let scratch = Scratch::new("sequence");
    ended_well(sequence(&scratch, &["--trials", "2"]));
    let run = only_run(&scratch);
    let check = || {
        let summary = json(&run.join("summary.json"));
        let option = &summary["options"]["1"];
        let ranks =
            [0, 1].map(|trial| result_in(&run.join(format!("option_1/trial_{trial}/rank_0"))));
        let rate = |rank: &Value| {
            rank.pointer("/summary/cache_stats/tier_storage_read_bandwidth_gbps").unwrap().as_f64()
        };
        let mean = (rate(&ranks[0]).unwrap() + rate(&ranks[1]).unwrap()) / 2.0;
        let added = option["aggregated_read_bandwidth_gbps"].as_f64().unwrap();
        assert!(mean > 0.0 && (mean - added).abs() < 1e-9 * mean, "{mean} and {added}");
        let reads = |rank: &Value| {
            rank.pointer("/ringfall/histograms/storage_read_total/count").unwrap().as_u64()
        };
        let sum: u64 = ranks.iter().filter_map(reads).sum();
        assert_eq!(option["ringfall"]["merged"]["storage_read_ms"]["count"], sum);
        assert_eq!(summary["partial_failure"], false);
        assert_valid(&json(&run.join("ringfall_option_1.json")));
        ranks
    };
    let before = check();
    let page = std::fs::read_to_string(run.join("ringfall.html")).unwrap();
    for words in ["OPEN", "--num-users 6 instead of 200", "Solidigm", "2.62×", "this run"] {
        assert!(page.contains(words), "{words} is not on the page");
    }
    // The audit finds the tree as the harness would have left it.
    let audit = ringfall(&scratch, &["audit", "out", "--json", "-"]);
    let audit: Value = serde_json::from_slice(&audit.stdout).unwrap();
    assert_eq!(audit["read"]["rank_files"], 2, "{audit:#}");
    let differs = |finding: &Value| finding["kind"] == "summary_differs";
    assert!(!audit["findings"].as_array().unwrap().iter().any(differs), "{audit:#}");
    // As if it had been killed in the second trial.
    std::fs::remove_file(run.join("summary.json")).unwrap();
    std::fs::remove_file(run.join(".ringfall/rank_0/opt1_trial1.json")).unwrap();
    let other = ["--resume", "--trials", "3"];
    assert_fails(&sequence(&scratch, &other), 2, &["opt1_trial2 is new"]);
    let again = ["--resume", "--trials", "2"];
    let second = ended_well(sequence(&scratch, &again));
    assert!(text(&second).contains("1 of them done before"), "{}", text(&second));
    let after = check();
    assert_eq!(before[0], after[0], "what was done stays");
    assert_ne!(before[1], after[1], "what was not is done again");
    assert_fails(&sequence(&scratch, &again), 2, &["--resume", "has not ended"]);
}

#[test]
fn what_a_sequence_can_t_run_is_said_before_it_begins() {
    let scratch = Scratch::new("sequence-wrong");
    assert_fails(&sequence(&scratch, &["--num-users", "none"]), 2, &["--num-users"]);
    assert_fails(&sequence(&scratch, &["--", "--queue-depht", "4"]), 2, &["--queue-depth"]);
    assert_fails(&sequence(&scratch, &["--systemname", "a/b"]), 2, &["--systemname"]);
    assert_fails(&sequence(&scratch, &["--options", "1,1"]), 2, &["twice"]);
    assert_fails(&ringfall(&scratch, &["mlperf", "report", "."]), 2, &["option_1/trial_0"]);
    assert!(!scratch.file("out").exists());
    let dry = sequence(&scratch, &["--dry-run", "--trials", "2"]);
    let dry = text(&dry);
    assert!(dry.contains("mlperf rank") && dry.contains("2 runs, about"), "{dry}");
    assert!(!scratch.file("out").exists(), "a dry run makes nothing");
}

#[test]
fn ranks_of_a_launch_run_the_sequence_together() {
    let scratch = Scratch::new("sequence-ranks");
    let start = |rank| spawn(as_rank(sequence_command(&scratch, &["--trials", "1"]), rank));
    let ranks = [start("0"), start("1")];
    for (rank, child) in ranks.into_iter().enumerate() {
        let output = finish(child);
        assert_eq!(output.status.code(), Some(0), "rank {rank}: {}", text(&output));
        let shows = text(&output).contains("as the harness adds up");
        assert_eq!(shows, rank == 0, "rank {rank}: {}", text(&output));
    }
    let run = only_run(&scratch);
    let summary = json(&run.join("summary.json"));
    assert_eq!((&summary["total_ranks"], &summary["partial_failure"]), (&2.into(), &false.into()));
    let option = &summary["options"]["1"];
    let results = [0, 1].map(|rank| result_in(&run.join(format!("option_1/trial_0/rank_{rank}"))));
    let sum = |place: &str| -> f64 {
        results.iter().map(|result| result.pointer(place).unwrap().as_f64().unwrap()).sum()
    };
    let tokens = sum("/summary/avg_throughput_tokens_per_sec");
    let added = option["aggregated_avg_throughput_tokens_per_sec"].as_f64().unwrap();
    assert!(tokens > 0.0 && (tokens - added).abs() < 1e-9 * tokens, "{tokens} and {added}");
    let reads = sum("/ringfall/histograms/storage_read_total/count");
    assert_eq!(option["ringfall"]["merged"]["storage_read_ms"]["count"].as_f64(), Some(reads));
    let seeds = results.map(|result| result["seed"].as_u64());
    assert_eq!(seeds, [Some(42), Some(43)]);
}
