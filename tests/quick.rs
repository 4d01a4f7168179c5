//! `ringfall quick`, from a directory to an answer.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

use crate::prometheus::{check_with_promtool, samples};
use crate::support::{Scratch, assert_fails, assert_valid_as, data_bytes, ended_well, text};

fn quick(scratch: &Scratch, place: &str, flags: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ringfall"));
    command.args(["quick", place]).args(flags).current_dir(&scratch.path);
    command.output().unwrap()
}

/// As short as it can be, on a small model.
const SHORT: [&str; 4] = ["--time=15s", "--space=1GiB", "--model=tiny-1b", "--output=q.json"];

#[test]
fn a_directory_gets_an_answer_that_a_run_confirms_and_another_one_stands_beside_it() {
    let scratch = Scratch::new("quick");
    let store = scratch.store().display().to_string();
    let more = ["--html-output=q.html", "--metrics-file=q.prom"];
    let told = ended_well(quick(&scratch, &store, &[&SHORT[..], &more].concat()));
    let page = text(&told);
    for part in ["verdict", "rule", "drive", "users", "loads", "load P95", "q.json", "q.html"] {
        assert!(page.contains(part), "{part}: {page}");
    }
    let bytes = std::fs::read(scratch.file("q.json")).unwrap();
    let document: Value = serde_json::from_slice(&bytes).unwrap();
    assert_valid_as("quick", &document);
    let curve = document["curve"].as_array().unwrap();
    let users: Vec<u64> = curve.iter().map(|point| point["users"].as_u64().unwrap()).collect();
    assert!(users.len() > 1 && users.is_sorted(), "{users:?}");
    assert!(document["measured"]["gib_per_s"].is_number(), "{document}");
    assert_eq!(document["time_s"], 15);
    // What the check is to find bears the answer out.
    let check = &document["check_predicted"];
    let found = check["reuse_share"].as_f64().unwrap_or(1.0);
    assert!(check["users"] == 1 || found >= 0.695, "{check}");
    assert!(document["entry_gib_max"].as_f64() > document["turn_gib"].as_f64());
    assert!(page.contains(document["verdict"].as_str().unwrap().split(':').next().unwrap()));
    assert_eq!(data_bytes(&scratch.store()), 0, "its data is left behind");
    let metrics = std::fs::read_to_string(scratch.file("q.prom")).unwrap();
    let told = samples(&metrics).get("ringfall_quick_users").map(|users| *users as u64);
    assert_eq!(told, document["users"].as_u64());
    check_with_promtool(&metrics);
    let html = std::fs::read_to_string(scratch.file("q.html")).unwrap();
    assert!(html.starts_with("<!doctype html>") && html.contains("P95 load of a context"));

    // An answer without a page gets it later, the same but for the name of the file.
    let report = |flags: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ringfall"));
        command.arg("report").args(flags).current_dir(&scratch.path).output().unwrap()
    };
    ended_well(report(&["q.json", "--output=later.html"]));
    assert_eq!(std::fs::read_to_string(scratch.file("later.html")).unwrap(), html);
    ended_well(report(&["q.json", "q.json", "--output=both.html"]));
    let both = std::fs::read_to_string(scratch.file("both.html")).unwrap();
    assert!(both.contains("users served"), "{both}");
    assert_fails(&report(&["q.json", "--output=q.csv"]), 2, &["becomes a page", ".html"]);

    // Without a space of its own it takes that of the other answer.
    let flags = [SHORT[0], SHORT[2], "--output=r.json", "--beside=q.json", "--json"];
    let told = ended_well(quick(&scratch, &store, &flags));
    // Nothing but the answer is on standard output.
    let beside: Value = serde_json::from_slice(&told.stdout).unwrap();
    assert_eq!(beside["space_gib"], document["space_gib"]);
    for part in ["users served", "Both answers are for", "ringfall compare"] {
        assert!(text(&told).contains(part), "{part}: {}", text(&told));
    }
}

/// An empty name was that of the current directory, one that was missing was made, and the advice
/// where no answer can be written made it a run with the defaults of the reference.
#[test]
fn a_bare_run_that_can_not_begin_says_what_helps() {
    let scratch = Scratch::new("quick-bare");
    let file = scratch.file("file");
    std::fs::write(&file, b"theirs").unwrap();
    let bare = |temporary: &Path, at: &Path| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ringfall"));
        command.arg("run").env("TMPDIR", temporary).current_dir(at).output().unwrap()
    };
    for (temporary, wrong) in [
        (Path::new(""), "(TMPDIR) has an empty name: set TMPDIR to a directory"),
        (&scratch.file("missing"), "missing: No such file or directory"),
        (&file, "(TMPDIR) is no directory: "),
    ] {
        assert_fails(&bare(temporary, &scratch.path), 1, &["error: ", wrong, "or name one for"]);
    }
    assert_eq!(scratch.leftovers(), ["file"]);
    let told = bare(&scratch.path, Path::new("/proc"));
    assert_fails(&told, 1, &["written to results/quick-", "give `ringfall quick --output` a file"]);
}

#[test]
fn what_can_give_no_answer_is_refused_before_anything_is_measured() {
    let scratch = Scratch::new("quick-refused");
    std::fs::write(scratch.file("x.json"), "{}").unwrap();
    for (flags, words) in [
        (&["--beside=x.json"][..], &["--beside x.json", "no answer"][..]),
        (&["--model=nothing"], &["nothing", "not a known model"]),
        (&["--slo=ttft=1s"], &["load-p95=TIME"]),
        (&["--output=."], &["is a directory"]),
        (&["--output=q.json", "--metrics-file=q.json"], &["--metrics-file", "same file"]),
        (&["--time=1"], &["--time"]),
        (&["--space=1GiB"], &["too little for entries of llama3.1-8b", "3.1 GiB"]),
        (&["--space=900TiB"], &["--space 900.0 TiB", "at most 90 % are used", "give --space "]),
    ] {
        let told = quick(&scratch, "kv", flags);
        assert_ne!(told.status.code(), Some(0), "{flags:?}");
        for word in words {
            assert!(text(&told).contains(word), "{word}: {}", text(&told));
        }
        assert!(!scratch.file("kv").exists(), "{flags:?}");
    }
    let told = quick(&scratch, "/dev/full", &[]);
    assert_fails(&told, 2, &["/dev/full belongs to the system: give another DIR"]);
    assert!(!text(&told).contains("limits of"), "{}", text(&told));
}
