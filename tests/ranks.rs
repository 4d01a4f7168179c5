//! Ranks of one launch, as a launcher's variables make them: they begin together, and end together.

use std::path::Path;
use std::process::{Child, Command};
use std::time::{SystemTime, UNIX_EPOCH};

use ringfall_model::document::{Histograms, LatencyMsMax, ResultFile};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::support::{
    Scratch, assert_fails, assert_valid, ended_well, finish, spawn, text, wait_until,
};

/// Where the ranks of these tests meet, below the directory of their results.
const MEETING: &str = ".ringfall-ranks-test.1";

/// `ringfall run` as rank `rank` of `size`, all on this machine.
pub fn rank_command(scratch: &Scratch, rank: u32, size: u32, more: &[&str]) -> Command {
    let mut command = scratch.run_command(more);
    command.args(["--ranks", "directory"]);
    as_rank(command, rank, size)
}

/// The command with the variables of a launcher.
pub fn as_rank(mut command: Command, rank: u32, size: u32) -> Command {
    let (rank, size) = (rank.to_string(), size.to_string());
    for (name, value) in [
        ("OMPI_COMM_WORLD_RANK", &rank),
        ("OMPI_COMM_WORLD_SIZE", &size),
        ("OMPI_COMM_WORLD_LOCAL_RANK", &rank),
        ("OMPI_COMM_WORLD_LOCAL_SIZE", &size),
    ] {
        command.env(name, value);
    }
    command.env("PMIX_NAMESPACE", "test.1");
    command
}

/// The ranks of a launch, all started.
pub fn launch(scratch: &Scratch, size: u32, more: &[&str]) -> Vec<Child> {
    (0..size).map(|rank| spawn(rank_command(scratch, rank, size, more))).collect()
}

pub fn json(path: &Path) -> Value {
    let document = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    assert_valid(&document);
    document
}

pub fn result_of(scratch: &Scratch, rank: u32) -> Value {
    json(&scratch.file(&format!("rank_{rank}/result.json")))
}

/// Card of a rank where the ranks meet; none if it has shown none yet.
fn card(scratch: &Scratch, rank: u32) -> Option<Value> {
    let path = scratch.file(MEETING).join(format!("rank_{rank}.card"));
    serde_json::from_slice(&std::fs::read(path).ok()?).ok()
}

fn beat(scratch: &Scratch, rank: u32) -> u64 {
    card(scratch, rank).and_then(|card| card["beat"].as_u64()).unwrap_or(0)
}

fn now_unix_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64
}

/// Start and end of a window, s since 1970.
pub fn window(document: &Value) -> (f64, f64) {
    let window = &document["ringfall"]["window"];
    let start = window["start_unix_s"].as_f64().unwrap();
    (start, start + window["seconds"].as_f64().unwrap())
}

#[test]
fn ranks_begin_together_each_with_its_own_share() {
    let scratch = Scratch::new("ranks");
    let outputs: Vec<_> = launch(&scratch, 3, &[]).into_iter().map(finish).collect();
    for (rank, output) in (0..).zip(&outputs) {
        assert_eq!(output.status.code(), Some(0), "rank {rank}: {}", text(output));
        assert!(text(output).contains(&format!("rank      {rank} of 3 on")), "{}", text(output));
        let document = result_of(&scratch, rank);
        assert_eq!(document["seed"], 7 + rank);
        let of_rank = &document["ringfall"]["rank"];
        assert_eq!((&of_rank["rank"], &of_rank["size"]), (&rank.into(), &3.into()));
        assert_eq!(of_rank["launch"], "test.1");
        let directory = document["ringfall"]["config"]["cache_dir"].as_str().unwrap().to_owned();
        assert!(directory.ends_with(&format!("store/rank_{rank}")), "{directory}");
    }
    let windows: Vec<_> = (0..3).map(|rank| window(&result_of(&scratch, rank))).collect();
    let most = |pick: fn(&(f64, f64)) -> f64| windows.iter().map(pick).fold(f64::MIN, f64::max);
    let least = |pick: fn(&(f64, f64)) -> f64| windows.iter().map(pick).fold(f64::MAX, f64::min);
    let common = least(|window| window.1) - most(|window| window.0);
    let whole = most(|window| window.1) - least(|window| window.0);
    assert!(common / whole >= 0.99, "{windows:?}");
    assert!(!scratch.file(MEETING).exists(), "nothing is left of the meeting");
    // Rank 0 shows all of them, and nobody else shows anything of one.
    let shows = |rank: usize, words: &str| text(&outputs[rank]).contains(words);
    assert!(shows(0, "3 ranks side by side"), "{}", text(&outputs[0]));
    assert!(!shows(0, "Results over") && !shows(1, "Results over"), "{}", text(&outputs[1]));
    the_results_merge_to_one(&scratch);
}

/// Result of `ringfall merge` on the ranks' own files: its output and its JSON.
pub fn merge(scratch: &Scratch) -> (String, Value) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ringfall"));
    command.args(["merge", ".", "--output", "all.json"]).current_dir(&scratch.path);
    let output = ended_well(command.output().unwrap());
    (text(&output), json(&scratch.file("all.json")))
}

/// The merged result of three ranks is what adding up by hand gives.
fn the_results_merge_to_one(scratch: &Scratch) {
    let (shown, merged) = merge(scratch);
    assert!(shown.contains("3 ranks side by side"), "{shown}");
    // Rank 0 has made the same document by itself.
    let by_itself = scratch.json();
    for place in ["/summary", "/ringfall/histograms", "/ringfall/io", "/ringfall/merged/ranks"] {
        assert_eq!(by_itself.pointer(place), merged.pointer(place), "{place}");
    }
    is_sum_of_ranks(scratch, &merged, 3);
}

/// Bytes, percentiles and windows of a merged result are those of the ranks' own files, added by
/// hand.
pub fn is_sum_of_ranks(scratch: &Scratch, merged: &Value, size: u32) {
    let ranks: Vec<Value> = (0..size).map(|rank| result_of(scratch, rank)).collect();
    for place in [
        "/requests_completed",
        "/summary/total_tokens",
        "/summary/cache_stats/total_read_bytes",
        "/ringfall/io/read/bytes",
        "/ringfall/io/write/bytes",
    ] {
        let of = |document: &Value| document.pointer(place).unwrap().as_u64().unwrap();
        assert_eq!(of(merged), ranks.iter().map(of).sum::<u64>(), "{place}");
        assert!(of(merged) > 0, "{place}");
    }
    let mut by_hand = Histograms::default();
    for rank in 0..size {
        let file = ResultFile::read(&scratch.file(&format!("rank_{rank}/result.json"))).unwrap();
        let theirs = Histograms::read(&file.document, &file.path).unwrap();
        match rank {
            0 => by_hand = theirs,
            _ => by_hand.add(&theirs),
        }
    }
    for (name, place) in [("io_read", "read"), ("io_write", "write")] {
        let expected = LatencyMsMax::of(by_hand.get(name).unwrap()).unwrap();
        let expected = serde_json::to_value(expected).unwrap();
        assert!(expected["p95"].as_f64() > Some(0.0));
        assert_eq!(merged["ringfall"]["io"][place]["latency_ms"], expected, "{name}");
    }
    let launch = &merged["ringfall"]["merged"]["launch"];
    assert_eq!((&launch["partial"], &launch["size"]), (&false.into(), &size.into()));
    assert!(launch["overlap_share"].as_f64() >= Some(0.99), "{launch}");
    let hosts = merged["ringfall"]["merged"]["hosts"].as_array().unwrap();
    assert!(hosts.iter().all(|host| host["ranks"] == size), "one device for all: {hosts:?}");
}

#[test]
fn a_rank_that_is_killed_before_the_begin_ends_the_others() {
    let scratch = Scratch::new("ranks-before");
    // Rank 1 never comes: the others are there, and wait.
    let first = spawn(rank_command(&scratch, 0, 3, &[]));
    let mut last = spawn(rank_command(&scratch, 2, 3, &[]));
    for rank in [0, 2, 0, 2, 0] {
        let before = beat(&scratch, rank);
        wait_until("a rank has shown that it lives", || beat(&scratch, rank) >= before + 2);
    }
    last.kill().unwrap();
    let output = finish(first);
    assert_fails(&output, 1, &["rank 2 on", "was killed"]);
    last.wait().unwrap();
    assert_eq!(result_of(&scratch, 0)["requests_completed"], 0);
}

#[test]
fn a_rank_whose_command_line_is_wrong_ends_the_others_with_its_sentence() {
    // With a start at 0, which is none, ranks meet as they do without one.
    let launches = [&[][..], &["--start-at", "0"]].map(|start| {
        let scratch = Scratch::new(&format!("ranks-misspelled-{}", start.len()));
        let mut wrong = rank_command(&scratch, 1, 2, start);
        wrong.args(["--num-userz", "3"]);
        let ranks = [spawn(rank_command(&scratch, 0, 2, start)), spawn(wrong)];
        (scratch, ranks)
    });
    for (scratch, ranks) in launches {
        let outputs = ranks.map(finish);
        assert_fails(&outputs[1], 2, &["--num-userz", "did you mean --num-users?"]);
        assert_fails(&outputs[0], 1, &["rank 1 on", "ended early", "--num-userz"]);
        assert!(!scratch.file(MEETING).exists(), "nothing is left of the meeting");
    }
}

fn wait_until_they_measure(scratch: &Scratch) {
    wait_until("the ranks measure", || {
        let start =
            card(scratch, 0).and_then(|card| card["start"]["moment"]["unix"]["secs"].as_u64());
        start.is_some_and(|start_s| now_unix_ns() > (start_s + 2) * 1_000_000_000)
    });
}

#[test]
fn a_rank_that_is_killed_in_the_window_ends_the_others_with_what_they_measured() {
    let scratch = Scratch::new("ranks-after");
    let mut ranks = launch(&scratch, 3, &["--duration", "80"]);
    wait_until_they_measure(&scratch);
    let mut killed = ranks.remove(1);
    killed.kill().unwrap();
    for (rank, child) in [0, 2].into_iter().zip(ranks) {
        let output = finish(child);
        assert_fails(&output, 1, &["rank 1 on", "killed"]);
        let document = result_of(&scratch, rank);
        assert!(document["requests_completed"].as_u64() > Some(0), "rank {rank} kept nothing");
        assert!(document["ringfall"]["window"]["seconds"].as_f64() < Some(70.0));
        let failure = document["ringfall"]["window"]["failure"].as_str().unwrap().to_owned();
        assert!(failure.contains("rank 1 on") && failure.contains("killed"), "{failure}");
    }
    killed.wait().unwrap();
    let (shown, merged) = merge(&scratch);
    assert!(shown.contains("2 of 3 ranks side by side"), "{shown}");
    for merged in [merged, scratch.json()] {
        let launch = &merged["ringfall"]["merged"]["launch"];
        assert_eq!((&launch["partial"], &launch["missing"]), (&true.into(), &vec![1].into()));
    }
    assert!(!scratch.file(MEETING).exists(), "nothing is left of the meeting");
}

/// It was merged without that rank, with status 0.
#[test]
fn a_rank_that_is_stopped_and_hands_nothing_over_fails_the_launch() {
    let scratch = Scratch::new("ranks-stopped");
    let mut ranks = launch(&scratch, 3, &["--duration", "4"]);
    wait_until_they_measure(&scratch);
    let mut stopped = ranks.remove(1);
    kill_process(Pid::from_child(&stopped), Signal::STOP).unwrap();
    let [first, last] = [0, 2].map(|_| finish(ranks.remove(0)));
    stopped.kill().unwrap();
    stopped.wait().unwrap();
    assert_fails(&first, 1, &["1 of 3 ranks handed over no result (1)", "stopped"]);
    assert_fails(&last, 1, &["rank 0 did not get the results of all ranks"]);
    let merged = scratch.json();
    let of_launch = &merged["ringfall"]["merged"]["launch"];
    assert_eq!((&of_launch["partial"], &of_launch["missing"]), (&true.into(), &vec![1].into()));
    let warnings = merged["ringfall"]["warnings"].as_array().unwrap();
    assert!(warnings.iter().any(|warning| warning["code"] == "ranks_missing"), "{warnings:?}");
}

#[test]
fn a_run_begins_at_the_time_that_it_is_given() {
    let scratch = Scratch::new("start-at");
    let start_s = now_unix_ns() / 1_000_000_000 + 6;
    ended_well(scratch.run(&["--start-at", &start_s.to_string(), "--duration", "1"]));
    let (began, _) = window(&scratch.json());
    assert!((began - start_s as f64).abs() < 0.2, "{began} and {start_s}");
    // No time of its own: it begins when it is ready.
    ended_well(scratch.run(&["--start-at", "0", "--duration", "1"]));
    let past = scratch.run(&["--start-at", "1700000000"]);
    assert_fails(&past, 2, &["--start-at 1700000000", "s ago", "date -d"]);
    let far = scratch.run(&["--start-at", &(start_s + 100_000).to_string()]);
    assert_fails(&far, 2, &["s ahead"]);
}
