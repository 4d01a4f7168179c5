//! `ringfall merge`: of recorded results.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

use crate::support::{Scratch, assert_fails, assert_valid, ended_well, text};

fn merge(directory: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ringfall"));
    command.arg("merge").args(args).current_dir(directory).output().unwrap()
}

/// A result of a real run, and the same with something else in it, as `NAME.json`.
fn recorded(scratch: &Scratch) {
    ended_well(scratch.run(&["--max-requests", "8", "--duration", "60", "--quiet"]));
    let whole = std::fs::read(scratch.file("result.json")).unwrap();
    std::fs::write(scratch.file("a.json"), &whole).unwrap();
    std::fs::write(scratch.file("copy.json"), &whole).unwrap();
    let change = |name: &str, change: &dyn Fn(&mut Value)| {
        let mut document = scratch.json();
        change(&mut document);
        std::fs::write(scratch.file(name), document.to_string()).unwrap();
    };
    // So that it is no copy.
    let slower_by_1_ns = |d: &mut Value| {
        let sum_ns = &mut d["ringfall"]["histograms"]["prefill"]["sum_ns"];
        *sum_ns = (sum_ns.as_str().unwrap().parse::<u64>().unwrap() + 1).to_string().into();
    };
    change("b.json", &|d| {
        d["ringfall"]["window"]["start_unix_s"] = 1_700_000_000.into();
        slower_by_1_ns(d);
    });
    change("users.json", &|d| {
        slower_by_1_ns(d);
        let config = &mut d["ringfall"]["config"];
        config["settings"]["num_users"] = 7.into();
        config["num_users"] = 7.into();
        config["arrival"] = "open".into();
        config["model"] = "mistral-7b".into();
        config["origins"]["shards"] = "file".into();
        d["seed"] = 99.into();
        d["ringfall"]["engine"]["shards"] = serde_json::json!([]);
    });
    change("histogram.json", &|d| {
        d["ringfall"]["histograms"]["storage_read_total"]["hdr_v2"] = "HISTFAAAAAN42pNp".into();
    });
    change("reference.json", &|d| drop(d.as_object_mut().unwrap().remove("ringfall")));
}

#[test]
fn real_results_are_merged_and_what_can_t_be_is_named() {
    let scratch = Scratch::new("merge");
    recorded(&scratch);
    let output = ended_well(merge(&scratch.path, &["a.json", "b.json", "--output", "m.json"]));
    assert!(text(&output).contains("2 results"), "{}", text(&output));
    let report = ["report", "a.json", "b.json", "--output", "r.json"];
    let mut command = Command::new(env!("CARGO_BIN_EXE_ringfall"));
    let reported = ended_well(command.args(report).current_dir(&scratch.path).output().unwrap());
    assert_eq!(text(&reported), text(&output).replace("m.json", "r.json"));
    let one: Value =
        serde_json::from_slice(&std::fs::read(scratch.file("a.json")).unwrap()).unwrap();
    let two: Value =
        serde_json::from_slice(&std::fs::read(scratch.file("m.json")).unwrap()).unwrap();
    let output = merge(&scratch.path, &["a.json", "b.json", "--output", "-"]);
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(told.pointer("/summary"), two.pointer("/summary"), "to standard output");
    assert!(!scratch.file("-").exists());
    // Twice the same: twice the counts, the same percentiles and rates.
    let at = |document: &Value, place: &str| document.pointer(place).unwrap().as_f64().unwrap();
    for place in ["/requests_completed", "/summary/cache_stats/total_read_bytes"] {
        assert_eq!(at(&two, place), 2.0 * at(&one, place), "{place}");
    }
    for place in [
        "/summary/end_to_end_latency_ms/p99",
        "/summary/cache_stats/storage_read_device_p50_ms",
        "/ringfall/io/read/latency_ms/p999",
        "/ringfall/io/read/iops",
    ] {
        assert_eq!(at(&two, place), at(&one, place), "{place}");
    }

    let cases: &[(&[&str], &[&str])] = &[
        (&["a.json", "users.json"], &["users.json", "num_users", "6", "7", "--allow-different"]),
        (&["a.json", "histogram.json"], &["histogram.json", "storage_read_total"]),
        (&["a.json", "reference.json", "--allow-different"], &["reference.json", "histograms"]),
        (&["a.json", "a.json"], &["a.json", "twice"]),
        (&["a.json", "copy.json"], &["copy.json", "a copy of", "a.json"]),
        (&["a.json", "m.json"], &["m.json", "it holds the run", "counted twice"]),
        (&["m.json", "b.json"], &["b.json", "m.json", "counted twice"]),
        (&["a.json", "none.json"], &["none.json", "No such file"]),
        (&["a.json", "."], &["rank_N/*.json", "."]),
        (&["a.json", "b.json", "--output", "a.json"], &["overwrite", "a.json"]),
        (&["a.json"], &["2"]),
    ];
    for (args, words) in cases {
        assert_fails(&merge(&scratch.path, args), 2, words);
    }
    let output = merge(&scratch.path, &["a.json", "users.json", "--allow-different", "--json"]);
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["ringfall"]["merged"]["differences"][0]["key"], "num_users");
    assert_eq!(json["ringfall"]["config"]["settings"]["num_users"], Value::Null);
    // What differs is null, and such a result is one still.
    assert_eq!(json["ringfall"]["config"]["arrival"], Value::Null);
    assert_valid(&json);
    std::fs::write(scratch.file("m.json"), json.to_string()).unwrap();
    for output in ["m.html", "m.csv", "m.fio"] {
        let mut report = Command::new(env!("CARGO_BIN_EXE_ringfall"));
        report.args(["report", "m.json", "--output", output]).current_dir(&scratch.path);
        ended_well(report.output().unwrap());
    }
}
