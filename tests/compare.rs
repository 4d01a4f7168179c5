//! `ringfall compare`: of a recorded result and what is none.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::{Value, json};

use crate::support::{Scratch, assert_fails, assert_valid_as, ended_well, text};

fn compare(directory: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ringfall"));
    command.arg("compare").args(args).current_dir(directory).output().unwrap()
}

#[test]
fn real_results_are_compared_and_what_is_none_is_named() {
    let scratch = Scratch::new("compare");
    ended_well(scratch.run(&["--max-requests", "40", "--duration", "60", "--quiet"]));
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

    let page = text(&compare(&scratch.path, &["result.json", "slower.json"]));
    let line = page.lines().find(|line| line.contains("wall-clock throughput")).unwrap();
    assert!(line.contains("0.50×"), "{page}");
    for words in [
        "CAUTION    a result contradicts itself (slower.json: ",
        "differs    queue_depth (8 and 3)",
        "one run says",
    ] {
        assert!(page.contains(words), "{words:?} is not in: {page}");
    }
    let whole = text(&compare(&scratch.path, &["result.json", "slower.json", "--details"]));
    for words in ["\nnot by     decode bytes", "\nwords      go by: the conclusion rests on it; "] {
        assert!(whole.contains(words) && !page.contains(words), "{words:?}: {page} or {whole}");
    }
    assert!(!page.contains("(published: "), "{page}");
    assert!(page.split("\n\n").last().unwrap().starts_with("conclusion "), "{page}");
    let mut other = scratch.json();
    other["ringfall"]["config"]["model"] = "other".into();
    std::fs::write(scratch.file("other.json"), other.to_string()).unwrap();
    let page = text(&compare(&scratch.path, &["result.json", "other.json"]));
    let third = page.lines().nth(2).unwrap();
    assert!(third.starts_with("conclusion The two can't be compared, since the models"), "{page}");
    assert!(!page.contains("wall-clock throughput") && page.contains("--details"), "{page}");
    let all = text(&compare(&scratch.path, &["result.json", "other.json", "--all-metrics"]));
    assert!(all.contains("wall-clock throughput, tokens/s"), "{all}");
    let trials = ["--baseline", "result.json", "again.json", "--candidate", "slower.json"];
    let output = ended_well(compare(&scratch.path, &[&trials[..], &["--json"]].concat()));
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_valid_as("comparison", &json);
    assert_eq!(json["baseline"].as_array().unwrap().len(), 2);
    assert!(json["conclusion"].as_str().unwrap().ends_with('.'), "{json}");
    assert_eq!(json["configuration_differences"][0]["key"], "queue_depth");
    assert!(json["trust"].as_array().unwrap().len() >= 3);

    let config = &scratch.json()["ringfall"]["config"];
    let users = u32::try_from(config["num_users"].as_u64().unwrap()).unwrap();
    let mut checked = answer("/mnt/a", users);
    let space_gib = config["storage_capacity_bytes"].as_f64().unwrap() / f64::from(1 << 30);
    checked["space_gib"] = space_gib.into();
    // Flags of the test's own run, as if they were those of the answer's check.
    let words = checked["run"].as_array_mut().unwrap();
    let is_given = |origin: &Value| origin == "command_line" || origin == "file";
    let origins = config["origins"].as_object().unwrap();
    for (key, _) in origins.iter().filter(|(_, origin)| is_given(origin)) {
        let value = config["settings"][key].to_string();
        words.push(format!("--{}={}", key.replace('_', "-"), value.trim_matches('"')).into());
    }
    std::fs::write(scratch.file("one.json"), checked.to_string()).unwrap();
    for pair in [["one.json", "result.json"], ["result.json", "one.json"]] {
        let output = ended_well(compare(&scratch.path, &pair));
        let page = text(&output);
        for words in ["  check      ", "expected", "measured", "load P95, at most 1.00 s"] {
            assert!(page.contains(words), "{words:?} is not in: {page}");
        }
        let found = ["check      borne out: ", "check      not borne out: ", "check      open: "];
        assert_eq!(found.iter().filter(|words| page.contains(**words)).count(), 1, "{page}");
    }
    checked["space_gib"] = (space_gib + 1.0).into();
    std::fs::write(scratch.file("two.json"), checked.to_string()).unwrap();

    let cases: &[(&[&str], &[&str])] = &[
        (&["two.json", "result.json"], &["result.json is not of the check of two.json: it has "]),
        (&["two.json", "cut.json"], &["cut.json", "cut off"]),
        (&["result.json", "cut.json"], &["cut.json", "cut off"]),
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

/// Answer of `ringfall quick` for a drive whose speed serves so many users.
fn answer(place: &str, users: u32) -> Value {
    let served = json!({ "users": users, "is_largest_tried": false });
    let point = |of: u32| {
        json!({
            "users": of, "gib_per_s": 0.5, "load_p50_s": 0.1,
            "load_p95_s": f64::from(of) / f64::from(users), "loads": 100, "kv_io_p95_s": 0.5,
            "drive_busy_share": null, "reuse_share": 0.9,
        })
    };
    json!({
        "ringfall_quick": 1, "version": "0", "place": place, "drive": "vda", "start_unix_s": 0.0,
        "model": "tiny-1b", "seed": 42, "load_p95_s": 1.0, "reuse_share": 0.7, "space_gib": 6.0,
        "turn_gib": 0.1, "limits": { "read_gib_per_s": 3.0, "write_gib_per_s": 2.0 },
        "doubt": null, "curve": [point(4), point(8)],
        "served_by_speed": served, "served_by_space": served,
        "measured": point(users), "predicted": point(users), "notes": [], "run": [],
        "verdict": format!("good for {users} users"),
    })
}

#[test]
fn answers_of_quick_are_set_side_by_side() {
    let scratch = Scratch::new("compare-quick");
    for (name, users) in [("a", 4), ("b", 8)] {
        let answer = answer(&format!("/mnt/{name}"), users).to_string();
        std::fs::write(scratch.file(&format!("{name}.json")), answer).unwrap();
    }
    std::fs::write(scratch.file("other.json"), "{\"summary\": {}}").unwrap();
    let output = ended_well(compare(&scratch.path, &["a.json", "b.json"]));
    let page = text(&output);
    for words in ["/mnt/a: good for 4 users", "/mnt/b: good for 8 users", "users served"] {
        assert!(page.contains(words), "{words:?} is not in: {page}");
    }
    let row = page.lines().rfind(|line| line.contains("load P95 of 4 users")).unwrap();
    assert!(row.ends_with("0.50×"), "{page}");
    for (args, words) in [
        (
            &["a.json", "other.json"][..],
            &["other.json is no answer of `ringfall quick`, and a.json is one: compare two"][..],
        ),
        (&["other.json", "b.json"], &["other.json is no answer", "and b.json is one"]),
        (&["a.json", "b.json", "--json"], &["--json", "as text alone"]),
    ] {
        assert_fails(&compare(&scratch.path, args), 2, words);
    }
}
