//! `ringfall compare`: of a recorded result and what is none.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

use crate::support::{Scratch, assert_fails, assert_valid_as, text};

fn compare(directory: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ringfall"));
    command.arg("compare").args(args).current_dir(directory).output().unwrap()
}

#[test]
fn real_results_are_compared_and_what_is_none_is_named() {
    let scratch = Scratch::new("compare");
    let output = scratch.run(&["--max-requests", "40", "--duration", "60", "--quiet"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    let whole = std::fs::read(scratch.file("result.json")).unwrap();
    let mut slower = scratch.json();
    let summary = &mut slower["summary"];
    let rate = summary["avg_throughput_tokens_per_sec"].as_f64().unwrap();
    summary["avg_throughput_tokens_per_sec"] = (rate / 2.0).into();
    // A count is whole, or the result is damaged.
    summary["total_tokens"] = (summary["total_tokens"].as_u64().unwrap() / 2).into();
    slower["ringfall"]["config"]["settings"]["queue_depth"] = 3.into();
    std::fs::write(scratch.file("slower.json"), slower.to_string()).unwrap();
    let mut again: Value = serde_json::from_slice(&whole).unwrap();
    again["ringfall"]["window"]["start_unix_s"] = 1_700_000_000.into();
    std::fs::write(scratch.file("again.json"), again.to_string()).unwrap();
    std::fs::write(scratch.file("cut.json"), &whole[..whole.len() - 9]).unwrap();
    std::fs::write(scratch.file("empty.json"), b"").unwrap();
    std::fs::write(scratch.file("foreign.json"), b"[]").unwrap();
    std::fs::write(scratch.file("bytes.json"), b"\xff\x00\xfe").unwrap();

    let page = text(&compare(&scratch.path, &["result.json", "slower.json"]));
    let line = page.lines().find(|line| line.contains("wall-clock throughput")).unwrap();
    assert!(line.contains("0.50×"), "{page}");
    for words in ["differs    queue_depth (8 and 3)", "not by     decode bytes", "one run says"] {
        assert!(page.contains(words), "{words:?} is not in: {page}");
    }
    let trials = ["--baseline", "result.json", "again.json", "--candidate", "slower.json"];
    let output = compare(&scratch.path, &[&trials[..], &["--json"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_valid_as("comparison", &json);
    assert_eq!(json["baseline"].as_array().unwrap().len(), 2);
    assert_eq!(json["configuration_differences"][0]["key"], "queue_depth");
    assert!(json["trust"].as_array().unwrap().len() >= 3);

    let cases: &[(&[&str], &[&str])] = &[
        (&["result.json", "cut.json"], &["cut.json", "cut off"]),
        (&["empty.json", "result.json"], &["empty.json", "empty"]),
        (&["result.json", "foreign.json"], &["foreign.json", "not an object"]),
        (&["bytes.json", "result.json"], &["bytes.json", "not JSON"]),
        (&["result.json", "nowhere.json"], &["nowhere.json", "No such file"]),
        (&["result.json"], &["one result"]),
        (&["--baseline", "result.json"], &["--candidate"]),
        (&[], &["FILE"]),
        (&["--baseline", "again.json", "again.json", "--candidate", "result.json"], &["twice"]),
    ];
    for (args, words) in cases {
        assert_fails(&compare(&scratch.path, args), 2, words);
    }
}
