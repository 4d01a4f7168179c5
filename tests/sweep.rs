//! Sweeps: real runs that are killed and continued, and described drives straight into `compare`.

use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::support::{
    Scratch, assert_fails, assert_valid, data_bytes, finish, insist, output, spawn, text,
    wait_until,
};

fn ringfall(scratch: &Scratch, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ringfall"));
    command.args(arguments).current_dir(&scratch.path);
    command
}

fn read(path: &Path) -> Value {
    let document = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    assert_valid(&document);
    document
}

/// The results that are there and count.
fn done(results: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(results).into_iter().flatten();
    let results = entries.map(|entry| entry.unwrap().path());
    let is_done = |path: &PathBuf| {
        let name = path.file_stem().unwrap().to_str().unwrap();
        let mark = path.with_file_name(format!(".{name}.unfinished"));
        path.extension().is_some_and(|end| end == "json") && !mark.exists()
    };
    results.filter(is_done).collect()
}

#[test]
fn a_sweep_that_was_killed_goes_on_where_it_was() {
    let scratch = Scratch::new("sweep-killed");
    let small = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/small.yaml");
    let store = scratch.store();
    let config = format!("--config={small}");
    let cache_dir = format!("--cache-dir={}", store.display());
    let sweep = |more: &[&str]| {
        let flags =
            ["sweep", "--results=r", &config, &cache_dir, "--model=tiny-1b", "--duration=1"];
        let tiers = ["--storage-capacity-gb=0.25", "--generation-mode=none", "--arrival=closed"];
        let vary = ["--vary", "users=2,3,4", "--vary", "cpu-mem-gb=0"];
        ringfall(&scratch, &[&flags[..], &tiers, &vary, more].concat())
    };
    let results = scratch.file("r");
    let mut child = spawn(sweep(&[]));
    wait_until("the second run has its data", || {
        done(&results).len() == 1 && data_bytes(&store) > 0
    });
    child.kill().unwrap();
    child.wait().unwrap();
    let first = done(&results).remove(0);
    let before = std::fs::read(&first).unwrap();

    let refused = output(sweep(&["--io-size=64KiB"]));
    assert_fails(&refused, 2, &["holds another batch", "--io-size=64KiB", "begin anew"]);

    let resumed = output(sweep(&[]));
    let told = text(&resumed);
    assert_eq!(resumed.status.code(), Some(0), "{told}");
    assert!(told.contains("3 runs, 1 of them done before: about "), "{told}");
    assert!(told.contains("3 of 3 runs done; results in r"), "{told}");
    assert_eq!(std::fs::read(&first).unwrap(), before, "what was done was run again");
    let all = done(&results);
    assert_eq!(all.len(), 3);
    for result in &all {
        let document = read(result);
        assert_eq!(document.pointer("/ringfall/window/interrupted"), Some(&false.into()));
    }
    assert_eq!(data_bytes(&store), 0, "the run of the killed sweep has left its data");
    let analyzed = output(ringfall(&scratch, &["analyze", "r", "r"]));
    assert!(text(&analyzed).contains("3 configurations were run on both"), "{}", text(&analyzed));
}

/// Nothing was said of a signal where standard error was no terminal.
#[test]
fn an_interrupted_sweep_says_at_once_that_it_ends() {
    let scratch = Scratch::new("sweep-interrupted");
    let small = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/small.yaml");
    let config = format!("--config={small}");
    let cache_dir = format!("--cache-dir={}", scratch.store().display());
    let flags = ["sweep", "--results=r", "--quiet", "--vary", "users=2,3", &config, &cache_dir];
    let tiers = ["--model=tiny-1b", "--cpu-mem-gb=0", "--storage-capacity-gb=0.25"];
    let long = ["--duration=100", "--generation-mode=none", "--arrival=closed"];
    let child = spawn(ringfall(&scratch, &[&flags[..], &tiers, &long].concat()));
    wait_until("the first run has its data", || data_bytes(&scratch.store()) > 0);
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    let ended = finish(child);
    let told = text(&ended);
    assert_eq!(ended.status.code(), Some(130), "{told}");
    assert_eq!(told.matches("ending what runs, within 30 s").count(), 1, "{told}");
    assert_eq!(data_bytes(&scratch.store()), 0, "{told}");
}

/// The only process that a process has started.
fn child_of(process: u32) -> Pid {
    let tasks = std::fs::read_dir(format!("/proc/{process}/task")).unwrap();
    let children = tasks.map(|task| {
        std::fs::read_to_string(task.unwrap().path().join("children")).unwrap_or_default()
    });
    let child = children.collect::<String>().trim().parse().ok();
    child.and_then(Pid::from_raw).expect("one process was started")
}

/// A terminal tells every process, but `kill` the sweep alone.
#[test]
fn a_sweep_that_is_told_twice_ends_its_run_and_names_what_that_leaves() {
    let scratch = Scratch::new("sweep-told-twice");
    let small = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/small.yaml");
    let config = format!("--config={small}");
    let cache_dir = format!("--cache-dir={}", scratch.store().display());
    let flags = ["sweep", "--results=r", "--quiet", "--vary", "users=2", &config, &cache_dir];
    let tiers = ["--model=tiny-1b", "--cpu-mem-gb=0", "--storage-capacity-gb=0.25"];
    let long = ["--duration=100", "--generation-mode=none", "--arrival=closed"];
    let child = spawn(ringfall(&scratch, &[&flags[..], &tiers, &long].concat()));
    wait_until("the run has its data", || data_bytes(&scratch.store()) > 0);
    let run = child_of(child.id());
    // The run can't end after the first signal.
    kill_process(run, Signal::STOP).unwrap();
    let insisting = insist(&child);
    let ended = finish(child);
    insisting.join().unwrap();
    let told = text(&ended);
    assert_eq!(ended.status.code(), Some(130), "{told}");
    let named = format!("(process {}) is told to end as well, and r/", run.as_raw_nonzero());
    assert!(told.contains(&named) && told.contains(".log says what it leaves"), "{told}");
    kill_process(run, Signal::CONT).unwrap();
    wait_until("the run's data is gone", || data_bytes(&scratch.store()) == 0);
}

#[test]
fn described_drives_are_swept_into_analyze_with_their_true_ratio() {
    let scratch = Scratch::new("sweep-described");
    let device = |name: &str| format!("{}/config/devices/{name}", env!("CARGO_MANIFEST_DIR"));
    let devices = format!("--device={},{}", device("slow-vmfs.yaml"), device("fast-nvme.yaml"));
    let sweep = |more: &[&str]| {
        let flags = ["sweep", &devices, "--results=r", "--space=discovery", "--duration=4"];
        let vary = ["model=llama3.1-8b", "users=200", "cpu-mem-gb=0", "generation-mode=none"];
        let allocs = ["--vary", "max-concurrent-allocs=0,16", "--jobs=2"];
        let vary: Vec<&str> = vary.iter().flat_map(|vary| ["--vary", vary]).collect();
        output(ringfall(&scratch, &[&flags[..], &vary, &allocs, more].concat()))
    };
    let listed = text(&sweep(&["--dry-run"]));
    assert!(listed.contains("4 runs, about ") && !scratch.file("r").exists(), "{listed}");
    assert_eq!(listed.matches("  ringfall simulate --device=").count(), 4, "{listed}");

    let told = text(&sweep(&[]));
    assert!(told.contains("4 of 4 runs done"), "{told}");
    let (_, ordered) = told.split_once("In order of the varied values").unwrap();
    let is_row = |line: &&str| !line.is_empty() && !line.starts_with("  note");
    let mut rows = ordered.lines().skip(1).take_while(is_row);
    let head = rows.next().unwrap();
    assert!(head.contains("reuse") && head.contains("load P95"), "{head}");
    let cells =
        rows.map(|row| row.split_whitespace().skip(3).take(3).collect::<Vec<_>>().join(" "));
    let of = |allocs: u32, drive: &str| format!("{allocs} none {drive}");
    let expected = [0, 16].map(|allocs| [of(allocs, "slow-vmfs"), of(allocs, "fast-nvme")]);
    assert_eq!(cells.collect::<Vec<_>>(), expected.concat(), "{ordered}");
    assert!(told.contains("ringfall compare r/fast-nvme r/slow-vmfs"), "{told}");
    for allocs in ["qd0", "qd16"] {
        let gib_per_s = |drive: &str| {
            let name = format!("r/{drive}/llama3.1-8b_cpu0GB_{allocs}_gennone_users200.json");
            let document = read(&scratch.file(&name));
            let io = document.pointer("/ringfall/io").unwrap();
            let of = |direction: &str| io[direction]["bandwidth_gib_per_s"].as_f64().unwrap();
            of("read") + of("write")
        };
        let ratio = gib_per_s("fast-nvme") / gib_per_s("slow-vmfs");
        assert!((4.6..4.72).contains(&ratio), "{allocs}: {ratio}");
    }
    let analyzed = output(ringfall(&scratch, &["compare", "r/fast-nvme", "r/slow-vmfs"]));
    assert!(text(&analyzed).contains("2 configurations were run on both"), "{}", text(&analyzed));
}

#[test]
fn what_makes_no_sweep_is_refused_before_anything_runs() {
    let scratch = Scratch::new("sweep-refused");
    for (flags, words) in [
        (&["--vary", "users=5", "--jobs=2"][..], &["--jobs 2", "would disturb each other"][..]),
        (&["--vary", "users=5", "--device=none.yaml"], &["none.yaml"]),
        (&["--space=other"], &["discovery"]),
    ] {
        let refused = output(ringfall(&scratch, &[&["sweep", "--results=r"], flags].concat()));
        assert_fails(&refused, 2, words);
    }
    assert!(!scratch.file("r").exists());
}

#[test]
fn a_run_that_fails_is_told_and_does_not_end_the_sweep() {
    let scratch = Scratch::new("sweep-fails");
    let flags = ["sweep", "--results=r", "--model=tiny-1b", "--duration=1", "--cpu-mem-gb=0"];
    // Not even a directory.
    let cache_dir = format!("--cache-dir={}", scratch.file("file").display());
    std::fs::write(scratch.file("file"), "").unwrap();
    let vary = ["--vary", "users=1,2", "--storage-capacity-gb=0.25"];
    let failed = finish(spawn(ringfall(&scratch, &[&flags[..], &vary, &[&cache_dir]].concat())));
    let words = ["0 of 2 runs done", "failed", "_users1.log", "the same command runs what is not"];
    assert_fails(&failed, 1, &words);
}

/// It told the last line of the log in place of the reason: where the results are.
#[test]
fn a_run_that_ends_with_status_1_and_a_result_says_why() {
    let scratch = Scratch::new("sweep-refused-requests");
    let device = concat!(env!("CARGO_MANIFEST_DIR"), "/config/devices/fast-nvme.yaml");
    let flags = ["sweep", "--results=r", "--device", device, "--vary=users=2", "--duration=20"];
    let small = ["--model=llama3.1-8b", "--cpu-mem-gb=0", "--storage-capacity-gb=0.5"];
    let more = ["--generation-mode=none"];
    let failed = output(ringfall(&scratch, &[&flags[..], &small, &more].concat()));
    let words = ["exit status 1: ", "% of the requests could not be served", "0 of 1 runs done"];
    assert_fails(&failed, 1, &words);
    let log = std::fs::read_to_string(scratch.file("r/llama3.1-8b_cpu0GB_qd0_gennone_users2.log"));
    let log = log.unwrap();
    assert!(log.lines().last().is_some_and(|line| line.starts_with("error: ")), "{log}");
}
