//! Results in formats other than JSON, and reports from results that are read back.

use std::process::Command;

use serde_json::Value;

use crate::support::{Scratch, assert_fails, ended_well, text};

/// `ringfall` with these arguments, in the scratch directory.
fn ringfall(scratch: &Scratch, args: &[&str]) -> std::process::Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ringfall"));
    // Reads while it runs: the schema is longer than a pipe.
    command.args(args).current_dir(&scratch.path).output().unwrap()
}

#[test]
fn one_run_gives_json_workbook_page_and_all_of_them_again_from_the_json() {
    let scratch = Scratch::new("forms");
    let bounded = ["--max-requests", "12", "--duration", "60"];
    let forms = ["--xlsx-output", "deep/a.xlsx", "--html-output", "deep/a.html"];
    let ran = ended_well(scratch.run(&[&bounded[..], &forms].concat()));
    assert!(text(&ran).contains("deep/a.xlsx") && text(&ran).contains("deep/a.html"));
    let _valid = scratch.json();
    assert!(std::fs::read(scratch.file("deep/a.xlsx")).unwrap().starts_with(b"PK"));
    let page = std::fs::read_to_string(scratch.file("deep/a.html")).unwrap();
    assert!(page.starts_with("<!doctype html>") && page.contains("<polyline"));
    for (name, begin) in [("b.html", "<!doctype html>"), ("b.csv", "Filename,"), ("b.xlsx", "PK")] {
        let made = ended_well(ringfall(&scratch, &["report", "result.json", "--output", name]));
        assert!(text(&made).contains(&format!("1 result in {name}")), "{}", text(&made));
        assert!(std::fs::read(scratch.file(name)).unwrap().starts_with(begin.as_bytes()));
    }
    // The run's own page and the one from its JSON differ in the result's name alone.
    let again = std::fs::read_to_string(scratch.file("b.html")).unwrap();
    assert_eq!(again, page);
    std::fs::copy(scratch.file("result.json"), scratch.file("other.json")).unwrap();
    ended_well(ringfall(
        &scratch,
        &["report", "result.json", "other.json", "--output", "two.html"],
    ));
    let two = std::fs::read_to_string(scratch.file("two.html")).unwrap();
    assert!(two.contains("other") && two.contains("What differs is bold"));
}

#[test]
fn a_merged_result_has_a_page_too() {
    let scratch = Scratch::new("merged");
    ended_well(scratch.run(&["--max-requests", "6", "--duration", "60", "--trials", "2"]));
    ended_well(ringfall(&scratch, &["report", "result.json", "result_trial1.json"]));
    let page = std::fs::read_to_string(scratch.file("report.html")).unwrap();
    // Both are on it by name.
    for name in ["result.json", "result_trial1.json"] {
        assert!(page.contains(name), "{name} is not on the page");
    }
    let requests = |name: &str| {
        let text = std::fs::read(scratch.file(name)).unwrap();
        let json: Value = serde_json::from_slice(&text).unwrap();
        json["summary"]["total_requests"].as_u64().unwrap()
    };
    assert_eq!(
        requests("result.json"),
        2 * requests("result_trial1.json"),
        "both trials are in it"
    );
    assert!(page.ends_with("</html>\n") && page.contains("<svg"), "a whole page with charts");
}

/// Content that a clone without Git LFS has in the place of a large file.
const LFS_POINTER: &str = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n";

#[test]
fn a_pointer_of_git_lfs_is_named_wherever_a_file_is_read() {
    let scratch = Scratch::new("pointer");
    std::fs::write(scratch.file("p.csv.gz"), LFS_POINTER).unwrap();
    for flags in [
        &["--mooncake-trace", "p.csv.gz"][..],
        &["--trace", "p.csv.gz"],
        &["--use-burst-trace", "--burst-trace-path", "p.csv.gz"],
        &["--dataset-path", "p.csv.gz"],
        &["--validation-trace", "p.csv.gz"],
        &["--replay-trace", "p.csv.gz"],
        &["--config", "p.csv.gz"],
    ] {
        let ran = ringfall(&scratch, &[&["run", "--model", "tiny-1b"], flags].concat());
        assert_fails(&ran, 2, &["p.csv.gz", "a Git LFS pointer", "`git lfs pull`"]);
    }
}

#[test]
fn what_is_no_result_is_named_with_status_2() {
    let scratch = Scratch::new("foreign");
    ended_well(scratch.run(&["--max-requests", "6", "--duration", "60"]));
    let whole = std::fs::read(scratch.file("result.json")).unwrap();
    let cut = &whole[..whole.len() / 2];
    for (name, bytes, word) in [
        ("cut.json", cut, "cut off"),
        ("empty.json", b"", "empty"),
        ("foreign.json", b"{\"a\": 1}", "no `summary`"),
        ("list.json", b"[1]", "not an object"),
        ("pointer.json", LFS_POINTER.as_bytes(), "Git LFS pointer"),
        ("noise.json", b"\x00\xff", "not JSON"),
        ("hollow.json", b"{\"ringfall\": {\"schema_version\": 5}}", "no `summary`"),
        ("older.json", b"{\"ringfall\": {\"schema_version\": 1}}", "its layout is version 1"),
        ("reference.json", b"{\"summary\": {\"total_tokens\": 5}}", "the reference benchmark's"),
    ] {
        std::fs::write(scratch.file(name), bytes).unwrap();
        let made = ringfall(&scratch, &["report", "result.json", name, "--output", "x.html"]);
        assert_fails(&made, 2, &["error: ", name, word]);
    }
    let missing = ringfall(&scratch, &["report", "nothing.json"]);
    assert_fails(&missing, 2, &["nothing.json", "No such file"]);
    let two = ["report", "result.json", "result.json", "--output", "x.fio"];
    assert_fails(&ringfall(&scratch, &two), 2, &["x.fio", "one result"]);
    let ending = ["report", "result.json", "--output", "x.pdf"];
    assert_fails(&ringfall(&scratch, &ending), 2, &["x.pdf", ".html"]);
}

#[test]
fn results_that_can_not_be_written_are_told_before_the_run() {
    let scratch = Scratch::new("unwritable");
    for flag in ["--xlsx-output", "--html-output"] {
        let ran = scratch.run(&[flag, "/proc/nowhere/x"]);
        assert_fails(&ran, 1, &["/proc/nowhere/x", flag]);
        assert!(!scratch.store().exists(), "nothing was begun");
    }
}

#[test]
fn a_failed_health_is_a_status_only_when_asked() {
    let scratch = Scratch::new("health");
    // Of this trace 13 % of the blocks are found: less than the 30 % that the latency profile asks.
    let thin = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/thin.yaml");
    let trace = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/mooncake_part.jsonl");
    let flags = ["--config", thin, "--model", "thin", "--arrival", "open", "--duration", "80"];
    let replay = ["--mooncake-trace", trace, "--trace-speedup", "0", "--replay-cycles", "1"];
    ended_well(scratch.run(&[&flags[..], &replay].concat()));
    let health = &scratch.json()["summary"]["cache_stats"]["storage_health"];
    assert_eq!(health["overall_status"], "FAIL");
    let asked = scratch.run(&[&flags[..], &replay, &["--fail-on-health"]].concat());
    assert_eq!(asked.status.code(), Some(1), "{}", text(&asked));
}

/// Each named property of a schema and of what is in it, with the place where it stands.
fn properties<'a>(schema: &'a Value, place: &str, into: &mut Vec<(String, &'a Value)>) {
    match schema {
        Value::Object(parts) => {
            for (key, part) in parts {
                let place = format!("{place}/{key}");
                if place.ends_with("/properties") {
                    let named = part.as_object().into_iter().flatten();
                    into.extend(named.map(|(name, one)| (format!("{place}/{name}"), one)));
                }
                properties(part, &place, into);
            }
        }
        Value::Array(parts) => parts.iter().for_each(|part| properties(part, place, into)),
        _ => {}
    }
}

/// A schema is read a property at a time: "How many." says nothing there.
#[test]
fn each_property_of_the_schema_is_described_in_four_words_or_more() {
    let published = include_str!("../config/results.schema.json");
    let schema: Value = serde_json::from_str(published).unwrap();
    let mut all = Vec::new();
    properties(&schema, "", &mut all);
    assert!(all.len() > 500, "{} properties: not all were found", all.len());
    let words = |one: &Value| one["description"].as_str().map_or(0, |s| s.split(' ').count());
    let short: Vec<&String> =
        all.iter().filter(|(_, one)| words(one) < 4).map(|(place, _)| place).collect();
    assert!(short.is_empty(), "without a description that stands by itself: {short:#?}");
}
