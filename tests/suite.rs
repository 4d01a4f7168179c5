//! `ringfall suite` with real runs of a second.

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::{Scratch, assert_fails, assert_valid, assert_valid_as, ended_well, text};

/// A suite of small runs in a scratch directory, with its data in `store`.
fn suite(scratch: &Scratch, store: &Path, workloads: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ringfall"));
    command.args(["suite", "-w", workloads, "-m", "tiny-1b", "-t", "1", "-u", "6", "-U", "6"]);
    command.args(["--storage-capacity-gb", "0.25", "-o", "out", "-c"]).arg(store);
    command.args(["--", "--arrival", "closed", "--generation-mode", "none", "--shards", "1"]);
    command.args(["--cpu-mem-gb", "0.0625", "--queue-depth", "8", "--config"]);
    command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/small.yaml"));
    command.current_dir(&scratch.path).stdin(Stdio::null());
    command
}

fn resumed(scratch: &Scratch) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ringfall"));
    command.args(["suite", "--resume", "out", "--json"]).current_dir(&scratch.path);
    command.stdin(Stdio::null()).output().unwrap()
}

fn read(scratch: &Scratch, name: &str) -> Value {
    serde_json::from_slice(&std::fs::read(scratch.file(name)).unwrap()).unwrap()
}

fn verdicts(table: &Value) -> Vec<(&str, &str)> {
    let rows = table["rows"].as_array().unwrap().iter();
    rows.map(|row| (row["name"].as_str().unwrap(), row["verdict"].as_str().unwrap())).collect()
}

#[test]
fn a_workload_that_fails_ends_no_other_and_tiers_left_out_are_absent() {
    let scratch = Scratch::new("suite");
    let output = suite(&scratch, Path::new("/proc/nowhere"), "cpu-only,gpu-cpu,storage-only")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    let table = read(&scratch, "out/table/table.json");
    assert_valid_as("suite", &table);
    let found = verdicts(&table);
    assert_eq!(found[1], ("storage-only", "error"), "{}", text(&output));
    assert_eq!(found[2], ("gpu-cpu", "impossible"));
    assert!(matches!(found[0], ("cpu-only", "pass" | "fail")), "{found:?}");
    assert!(table["rows"][1]["why"][0].as_str().unwrap().contains("/proc/nowhere"));
    let page = text(&output);
    for words in ["2 runs", "--disable-storage", "not possible", "ERROR", "suite --resume out"] {
        assert!(page.contains(words), "{words:?} is not in: {page}");
    }
    let html = std::fs::read_to_string(scratch.file("out/table.html")).unwrap();
    assert!(html.contains("cpu-only") && html.contains("/proc/nowhere"));
    assert!(html.contains("<a href=\"cpu-only.html\">") && !html.contains("storage-only.html"));
    assert!(scratch.file("out/cpu-only.html").exists());
    assert!(std::fs::read(scratch.file("out/table.xlsx")).unwrap().starts_with(b"PK"));
    let result = read(&scratch, "out/cpu-only.json");
    assert_valid(&result);
    assert!(result["requests_completed"].as_u64() > Some(0));
    assert_eq!(result["summary"]["cache_stats"]["storage_entries"], 0);
    assert_eq!(result["summary"]["cache_stats"]["tier_storage_kv_bytes_written_gb"], 0.0);
    assert!(result["ringfall"]["errors"]["entries_refused"].as_u64() > Some(0), "none dropped");
    assert_eq!(result["ringfall"]["errors"]["requests_refused"], 0);
    assert!(result["ringfall"]["machine"]["device"].is_null(), "no drive is named");
}

#[test]
fn a_suite_that_was_killed_goes_on_where_it_was() {
    let scratch = Scratch::new("suite-killed");
    let store = scratch.store();
    let mut command = suite(&scratch, &store, "storage-only,cpu-storage");
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let first = scratch.file("out/storage-only.json");
    let mark = scratch.file("out/.storage-only.unfinished");
    let is_done = || first.exists() && !mark.exists();
    let begun = Instant::now();
    while !is_done() {
        assert!(begun.elapsed() < Duration::from_secs(90), "the first run never ended");
        std::thread::sleep(Duration::from_millis(10));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let before = std::fs::metadata(&first).unwrap().modified().unwrap();
    let output = ended_well(resumed(&scratch));
    let table: Value = serde_json::from_slice(&output.stdout).unwrap();
    let found = verdicts(&table);
    let names: Vec<&str> = found.iter().map(|(name, _)| *name).collect();
    assert_eq!(names, ["storage-only", "cpu-storage"]);
    let is_judged = |verdict: &str| matches!(verdict, "pass" | "fail" | "no_data");
    assert!(found.iter().all(|(_, verdict)| is_judged(verdict)), "{found:?}");
    let after = std::fs::metadata(&first).unwrap().modified().unwrap();
    assert_eq!(before, after, "what was done is not run again");
    let again = suite(&scratch, &store, "storage-only").output().unwrap();
    assert_fails(&again, 2, &["begun with other settings", "-w (", "--resume out"]);
}

#[test]
fn workloads_with_a_gpu_run_where_its_emulation_is_asked_for() {
    let scratch = Scratch::new("suite-gpu");
    let mut command = suite(&scratch, &scratch.store(), "gpu-only,gpu-cpu,gpu-cpu-storage");
    let output = command.args(["--gpu-backend", "emulated", "--gpu-mem-gb", "0.125"]).output();
    let output = output.unwrap();
    let table = read(&scratch, "out/table/table.json");
    for (name, verdict) in verdicts(&table) {
        assert!(matches!(verdict, "pass" | "fail"), "{name}: {verdict}: {}", text(&output));
        let result = read(&scratch, &format!("out/{name}.json"));
        assert_eq!(result["ringfall"]["gpu"]["backend"], "emulated", "{name}");
        let bytes = result["ringfall"]["gpu"]["capacity_bytes"].as_u64();
        assert_eq!(bytes, Some(1 << 27), "{name}");
    }
    assert_eq!(verdicts(&table).len(), 3);
    assert!(text(&output).contains("the GPU is emulated in host memory"), "{}", text(&output));
}

#[test]
fn what_no_suite_can_be_is_refused_before_anything_runs() {
    let scratch = Scratch::new("suite-refused");
    let store = scratch.store();
    assert_fails(
        &suite(&scratch, &store, "cpu-onli").output().unwrap(),
        2,
        &["cpu-onli", "did you mean cpu-only"],
    );
    assert_fails(&resumed(&scratch), 2, &["--resume out", "no suite was begun"]);
    let mut wrong = suite(&scratch, &store, "cpu-only");
    assert_fails(&wrong.arg("--durability=never").output().unwrap(), 2, &["cpu-only", "never"]);
    let mut dry = Command::new(env!("CARGO_BIN_EXE_ringfall"));
    dry.args(["suite", "--dry-run"]).current_dir(&scratch.path);
    let output = ended_well(dry.output().unwrap());
    assert!(text(&output).contains("mlperf_stress_70b"), "{}", text(&output));
    assert!(text(&output).contains("  each run takes       at most "), "{}", text(&output));
    assert!(scratch.leftovers().is_empty(), "{:?}", scratch.leftovers());
}

#[test]
fn presets_are_listed_and_flags_take_precedence_over_them() {
    let ringfall = |arguments: &[&str]| {
        Command::new(env!("CARGO_BIN_EXE_ringfall")).args(arguments).output().unwrap()
    };
    let list = text(&ringfall(&["run", "--preset", "list"]));
    assert!(list.contains("llama2-7b-stress") && list.contains("4.64"), "{list}");
    let page = text(&ringfall(&["config", "--preset", "llama3.1-70b-tput", "--num-users", "3"]));
    for line in ["model: llama3.1-70b-instruct", "num_users: 3", "max_concurrent_allocs: 4"] {
        assert!(page.lines().any(|found| found.starts_with(line)), "{line} is not in:\n{page}");
    }
    assert_fails(&ringfall(&["run", "--preset", "fast"]), 2, &["fast", "--preset list"]);
}

#[test]
fn a_run_without_storage_needs_another_tier_and_takes_nothing_that_is_of_storage() {
    let ringfall = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ringfall"));
        command.args(["config", "--disable-storage"]).args(arguments).output().unwrap()
    };
    assert_fails(&ringfall(&["--cpu-mem-gb", "0"]), 2, &["--disable-storage", "no tier at all"]);
    let small = ["--cpu-mem-gb", "0.0001", "--model", "llama3.1-70b"];
    assert_fails(&ringfall(&small), 2, &["--disable-storage", "smallest entry"]);
    for flag in ["--precondition", "--storage-capacity-gb=4", "--roofline=fresh"] {
        let name = flag.split('=').next().unwrap();
        let words = [name, "has no effect with --disable-storage"];
        assert_fails(&ringfall(&["--cpu-mem-gb", "8", flag]), 2, &words);
    }
}

#[test]
fn a_baseline_that_can_not_be_read_is_refused_before_anything_runs() {
    let scratch = Scratch::new("suite-baseline");
    let store = scratch.store();
    let refused = |words: &[&str]| {
        let mut command = suite(&scratch, &store, "cpu-only,storage-only");
        // Its own flags come before those that are handed on.
        let own: Vec<_> = command.get_args().map(ToOwned::to_owned).collect();
        command = Command::new(env!("CARGO_BIN_EXE_ringfall"));
        command.args(["suite", "--baseline", "other"]).args(&own[1..]);
        command.current_dir(&scratch.path).stdin(Stdio::null());
        assert_fails(&command.output().unwrap(), 2, words);
        assert!(!scratch.file("out").exists());
    };
    refused(&["--baseline other: it has no result", "storage-only.json"]);
    std::fs::create_dir(scratch.file("other")).unwrap();
    std::fs::write(scratch.file("other/cpu-only.json"), "{\"ringfall\": 1").unwrap();
    refused(&["cpu-only.json", "ends too early"]);
}
