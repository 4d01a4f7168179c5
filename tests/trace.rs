//! `ringfall trace` by the real binary: traces of every format, what is no trace, plans, signals.

use std::collections::HashSet;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::support::{Scratch, assert_fails, assert_valid_as, finish, output, spawn, text};

const DATA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data");

fn command(subcommand: &str, directory: &Path, more: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ringfall"));
    command.args(["trace", subcommand]).args(more).current_dir(directory);
    command
}

fn info(directory: &Path, more: &[&str]) -> Output {
    output(command("info", directory, more))
}

fn plan(directory: &Path, more: &[&str]) -> Output {
    output(command("plan", directory, more))
}

/// The figures as JSON, which are of the schema.
fn figures(directory: &Path, more: &[&str]) -> Value {
    printed("trace", &info(directory, &[more, &["--json", "-"]].concat()))
}

/// The pairs of sizes as JSON, which are of the schema.
fn planned(directory: &Path, more: &[&str]) -> Value {
    printed("trace-plan", &plan(directory, &[more, &["--json", "-"]].concat()))
}

fn printed(schema: &str, output: &Output) -> Value {
    assert_eq!(output.status.code(), Some(0), "{}", text(output));
    let found = serde_json::from_slice(&output.stdout).unwrap();
    assert_valid_as(schema, &found);
    found
}

/// Cache sizes in MiB and the tokens that they find.
fn curve(found: &Value) -> Vec<(u64, u64)> {
    let number = |point: &Value, key: &str| point[key].as_u64().unwrap();
    let points = found["curve"].as_array().unwrap().iter();
    points.map(|p| (number(p, "cache_bytes") >> 20, number(p, "found_tokens"))).collect()
}

/// A request as the trace has it: the ids of its blocks and its tokens.
type Prompt = (Vec<u64>, u64);

fn mooncake() -> Vec<Prompt> {
    let text = std::fs::read_to_string(format!("{DATA}/mooncake_part.jsonl")).unwrap();
    let rows = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    rows.map(|row| {
        let ids = row["hash_ids"].as_array().unwrap().iter();
        (ids.map(|id| id.as_u64().unwrap()).collect(), row["input_length"].as_u64().unwrap())
    })
    .collect()
}

/// Tokens found by a cache of so many blocks of 512 tokens, which is a list.
fn by_list(prompts: &[Prompt], capacity: usize) -> u64 {
    let (mut cache, mut found) = (Vec::<u64>::new(), 0);
    for (ids, tokens) in prompts {
        let leading = ids.iter().take_while(|id| cache.contains(id)).count() as u64;
        found += (leading * 512).min(*tokens);
        for id in ids.iter().rev() {
            cache.retain(|other| other != id);
            cache.insert(0, *id);
        }
        cache.truncate(capacity);
    }
    found
}

#[test]
fn a_part_of_mooncake_s_trace_is_counted_as_a_list_counts_it() {
    let prompts = mooncake();
    let found = figures(Path::new(DATA), &["mooncake_part.jsonl", "--cache-size", "0.5,3.2GiB"]);
    let tokens: u64 = prompts.iter().map(|(_, tokens)| tokens).sum();
    assert_eq!(found["format"], "mooncake");
    assert_eq!(
        (&found["input_tokens"]["count"], &found["input_tokens"]["sum"]),
        (&json!(400), &json!(tokens))
    );
    let asked = found["curve"].as_array().unwrap().iter().filter(|point| point["is_asked"] == true);
    let asked: Vec<&Value> = asked.collect();
    // 64 MiB a block: 131,072 bytes a token.
    for (point, blocks) in asked.iter().zip([8, 51]) {
        assert_eq!(point["cache_blocks"], blocks, "{point}");
        assert_eq!(point["found_tokens"], by_list(&prompts, blocks), "{point}");
    }
    assert_eq!(asked.len(), 2);
    let (mut distinct, mut unbounded) = (HashSet::new(), 0);
    for (ids, tokens) in &prompts {
        let leading = ids.iter().take_while(|id| distinct.contains(*id)).count() as u64;
        unbounded += (leading * 512).min(*tokens);
        distinct.extend(ids.iter().copied());
    }
    assert_eq!(found["distinct_blocks"], distinct.len());
    assert_eq!(found["found_tokens_unbounded"], unbounded);
    assert_eq!(curve(&found).last().unwrap().1, unbounded, "the last one holds everything");
    assert_eq!(found["sessions"], Value::Null);
}

/// Hits of the six requests by hand: 0, 32, 0 (the same blocks in another order), 64, 16, 40.
#[test]
fn a_qwen_trace_has_chained_blocks_and_conversations() {
    let found = figures(Path::new(DATA), &["qwen_made.jsonl"]);
    assert_eq!((&found["format"], &found["block_tokens"]), (&json!("qwen"), &json!(16)));
    let sum = [&found["input_tokens"]["sum"], &found["found_tokens_unbounded"]];
    assert_eq!(sum, [&json!(280), &json!(152)]);
    assert_eq!((&found["distinct_blocks"], &found["span_s"]), (&json!(9), &json!(12.0)));
    assert_eq!(curve(&found), [(2, 48), (4, 80), (8, 112), (16, 144), (32, 152)]);
    let expected = json!({"count": 4, "sum": 6, "mean": 1.5, "p50": 1, "p95": 3, "max": 3});
    assert_eq!(found["sessions"], expected);
}

/// Blocks mean the same for a session and its subagents, and something else in another session.
#[test]
fn sessions_have_ids_of_their_own_and_subagents_share_them() {
    let scratch = Scratch::new("sessions");
    let lines = std::fs::read_to_string(format!("{DATA}/sessions_made.jsonl")).unwrap();
    let compressed = zstd::encode_all(lines.as_bytes(), 3).unwrap();
    std::fs::write(scratch.file("s.jsonl.zst"), compressed).unwrap();
    // A file each, on many lines.
    std::fs::create_dir(scratch.file("d")).unwrap();
    for (name, line) in ["a.json", "b.json"].into_iter().zip(lines.lines()) {
        let session: Value = serde_json::from_str(line).unwrap();
        std::fs::write(scratch.file("d").join(name), format!("{session:#}\n")).unwrap();
    }
    std::fs::write(scratch.file("d/notes.md"), "no trace").unwrap();
    for given in ["s.jsonl.zst", "d"] {
        let found = figures(&scratch.path, &[given]);
        assert_eq!(found["format"], "sessions");
        assert_eq!(
            (&found["input_tokens"]["sum"], &found["skipped_rows"]),
            (&json!(998), &json!(0))
        );
        assert_eq!((&found["distinct_blocks"], &found["span_s"]), (&json!(7), &json!(9.5)));
        assert_eq!(curve(&found), [(8, 256), (16, 384), (32, 448), (64, 448)], "{given}");
        let expected = json!({"count": 2, "sum": 6, "mean": 3.0, "p50": 2, "p95": 4, "max": 4});
        assert_eq!(found["sessions"], expected);
    }
    let page = text(&info(&scratch.path, &["d"]));
    assert!(page.contains("2 files, the first d/a.json") && page.contains("no common"), "{page}");
}

/// Their requests, tokens and sessions are told, and that nobody can tell what a cache would find.
#[test]
fn traces_without_blocks_have_their_tokens_told() {
    let copilot = figures(Path::new(DATA), &["copilot_made.jsonl"]);
    let input =
        json!({"count": 5, "sum": 7000, "mean": 1400.0, "p50": 1500, "p95": 2000, "max": 2000});
    assert_eq!((&copilot["format"], &copilot["input_tokens"]), (&json!("copilot"), &input));
    assert_eq!(copilot["found_tokens_recorded"], 1000 + 1500 + 600);
    assert_eq!(copilot["hit_rate_recorded"], 3_100.0 / 7_000.0);
    assert_eq!(
        (&copilot["sessions"]["count"], &copilot["sessions"]["max"]),
        (&json!(2), &json!(4))
    );
    assert_eq!(copilot["span_s"], 5_409.0, "from 9:30 to 11:00:09");
    let azure = figures(Path::new(DATA), &["azure_made.csv"]);
    assert_eq!((&azure["format"], &azure["sessions"]), (&json!("azure"), &Value::Null));
    assert_eq!((&azure["input_tokens"]["sum"], &azure["span_s"]), (&json!(15_565), &json!(2.0201)));
    // One of its requests has no answer.
    assert_eq!(azure["output_tokens"]["sum"], json!(59));
    let burst = figures(Path::new(DATA), &["burst_sessions.csv"]);
    assert_eq!(
        (&burst["format"], &burst["input_tokens"]["count"]),
        (&json!("burstgpt"), &json!(300))
    );
    for found in [&azure, &burst, &copilot] {
        for key in ["block_tokens", "working_set_bytes", "distinct_blocks", "hit_rate_unbounded"] {
            assert_eq!(found[key], Value::Null, "{key}: {found}");
        }
        assert_eq!(found["curve"], json!([]));
    }
    let page = text(&info(Path::new(DATA), &["copilot_made.jsonl"]));
    for part in
        ["(copilot, without blocks)", "5 in 5409 s", "recorded  44.29 %", "reuse     unknown"]
    {
        assert!(page.contains(part), "{part}: {page}");
    }
    assert!(page.lines().all(|line| line.chars().count() <= 80), "{page}");
    let words = ["azure_made.csv: it is of the format azure", "traces of Mooncake", "trace info"];
    assert_fails(&plan(Path::new(DATA), &["azure_made.csv"]), 2, &words);
    let asked = info(Path::new(DATA), &["azure_made.csv", "--cache-size", "64"]);
    assert_fails(&asked, 2, &["it is of the format azure", "leave --cache-size out"]);
}

#[test]
fn rows_that_cannot_be_read_are_counted_and_the_first_is_named() {
    let scratch = Scratch::new("skipped-rows");
    let good = std::fs::read_to_string(format!("{DATA}/qwen_made.jsonl")).unwrap();
    let more = "{\"chat_id\": 7, \"parent_chat_id\": -1, \"timestamp\": 13, \"input_length\": 16, \
                \"output_length\": 1, \"hash_ids\": [1, 2]}\nnonsense\n";
    std::fs::write(scratch.file("q.jsonl"), format!("{good}{more}")).unwrap();
    let found = figures(&scratch.path, &["q.jsonl", "--model", "tiny-1b"]);
    assert_eq!((&found["input_tokens"]["count"], &found["skipped_rows"]), (&json!(6), &json!(2)));
    assert_eq!((&found["model"], &found["token_bytes"]), (&json!("tiny-1b"), &json!(24_576)));
    let first = found["first_skipped"].as_str().unwrap();
    assert!(first.starts_with("q.jsonl: line 7: input_length is 16, but 2 hash_ids"), "{first}");
    let page = text(&info(&scratch.path, &["q.jsonl"]));
    assert!(page.contains("2 rows; the first: q.jsonl: line 7:"), "{page}");
}

#[test]
fn what_is_no_trace_is_refused() {
    let scratch = Scratch::new("no-trace");
    std::fs::write(scratch.file("garbage.jsonl"), vec![0xff; 100_000]).unwrap();
    std::fs::write(scratch.file("empty.jsonl"), "\n\n").unwrap();
    let azure = "TIMESTAMP,Tokens\n2023-11-16 18:15:46.6,374\n";
    std::fs::write(scratch.file("azure.csv"), azure).unwrap();
    let named = "{\"chat_id\": \"a\", \"hash_ids\": []}\n";
    std::fs::write(scratch.file("named.jsonl"), named).unwrap();
    std::fs::create_dir(scratch.file("none")).unwrap();
    std::fs::copy(format!("{DATA}/qwen_made.jsonl"), scratch.file("q.jsonl")).unwrap();
    let burst = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/burst_sessions.csv");
    let sessions = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/sessions_made.jsonl");
    let cases: &[(&[&str], &[&str])] = &[
        (&[], &["FILE"]),
        (&["no-such-file"], &["no-such-file: there is no such file: check the path"]),
        (&["none"], &["none: the directory has no .csv or .json or .jsonl file"]),
        (&["empty.jsonl"], &["empty.jsonl: it is empty", "Mooncake", "Qwen", "kv-cache-tester"]),
        (&["garbage.jsonl"], &["of no known format", "traces of Mooncake"]),
        (&["azure.csv"], &["of no known format", "TIMESTAMP,Tokens"]),
        (&["azure.csv", "--format", "azure"], &["line 1 is \"TIMESTAMP,Tokens\"", "ContextTokens"]),
        (&[sessions, "--format", "mooncake"], &["none of its rows", "trace of kv-cache-tester"]),
        (
            &["q.jsonl", "--format", "sessions"],
            &["none of its rows can be read (", "missing field"],
        ),
        (&[burst, "--format", "qwen"], &["none of its rows", "format qwen"]),
        (&["named.jsonl"], &["none of its rows", "format qwen, by its first row", "--format"]),
        (&["q.jsonl", "--model", "no-such"], &["--model", "no-such"]),
        (&["q.jsonl", "--cache-size", "0"], &["--cache-size", "GiB"]),
        (&["q.jsonl", "--format", "burst"], &["--format", "mooncake, qwen, sessions"]),
        (&["q.jsonl", "--json", "q.jsonl"], &["--json q.jsonl would overwrite the input"]),
    ];
    for (args, words) in cases {
        assert_fails(&info(&scratch.path, args), 2, words);
    }
    let full = info(&scratch.path, &["q.jsonl", "--json", "/dev/full"]);
    assert_fails(&full, 1, &["can't be written to /dev/full", "hit rate"]);
}

#[test]
fn a_reading_that_goes_on_is_interrupted() {
    let mut command = command("info", Path::new(DATA), &["/dev/stdin"]);
    command.stdin(Stdio::piped());
    let mut child = spawn(command);
    let mut writer = child.stdin.take().unwrap();
    // More than a pipe holds: when all is written, it has begun to read.
    let rows = std::fs::read(format!("{DATA}/mooncake_part.jsonl")).unwrap();
    writer.write_all(&rows.repeat(10)).unwrap();
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let ended = finish(child);
    assert_fails(&ended, 130, &["interrupted: nothing was written"]);
    drop(writer);
}

#[test]
fn a_plan_without_a_drive_says_what_is_missing() {
    let shown = plan(Path::new(DATA), &["mooncake_part.jsonl", "--dram-size", "8GiB"]);
    let page = text(&shown);
    assert_eq!(shown.status.code(), Some(0), "{page}");
    assert!(page.lines().count() <= 40, "{page}");
    assert!(page.lines().all(|line| line.chars().count() <= 80), "{page}");
    for part in ["--prefill-tokens-per-s", "beside 8.0 GiB of DRAM, an SSD of", "DWPD"] {
        assert!(page.contains(part), "{part}: {page}");
    }
    let device = concat!(env!("CARGO_MANIFEST_DIR"), "/config/devices/fast-nvme.yaml");
    let speeds = ["--device", device, "--prefill-tokens-per-s", "20000"];
    let found = planned(Path::new(DATA), &[&speeds[..], &["mooncake_part.jsonl"]].concat());
    assert_eq!(found["drive"]["read_latency_us"], 70.0);
    assert_eq!(found["crossover"]["compute_us_per_token"], 50.0);
}

/// Times count from the beginning of each session: there is no busiest minute.
#[test]
fn a_plan_of_sessions_has_no_rates() {
    let more = ["sessions_made.jsonl", "--dram-size", "0.0", "--write-policy", "through"];
    let found = planned(Path::new(DATA), &more);
    let points = found["points"].as_array().unwrap();
    assert_eq!((&found["span_s"], points.is_empty()), (&Value::Null, false));
    assert!(points.iter().all(|point| point["rates"].is_null()), "{found}");
    // All seven blocks of 8 MiB, and all that trace info finds.
    let last = points.last().unwrap();
    let told = [&last["ssd_bytes"], &last["written_bytes"], &last["ssd_tokens"]];
    assert_eq!(told, [&json!(64 << 20), &json!(56 << 20), &json!(448)]);
    let page = text(&plan(Path::new(DATA), &more));
    assert!(page.contains("without a common clock"), "{page}");
}

#[test]
fn what_no_plan_can_be_made_of_is_refused() {
    let cases: [(&[&str], &[&str]); 6] = [
        (&["--dram-size", "1,2,3,4,5"], &["--dram-size has 5 sizes: give up to 4"]),
        (&["--ssd-size", "0"], &["--ssd-size", "GiB"]),
        (&["--speed", "0"], &["--speed", "number above 0"]),
        (&["--device", "no-such.yaml"], &["--device no-such.yaml"]),
        (&["--device", "d.yaml", "--read-gib-per-s", "7"], &["--read-gib-per-s"]),
        (&["--prefill-tokens-per-s", "abacus"], &["neither a number nor a GPU", "h100"]),
    ];
    for (args, words) in cases {
        assert_fails(&plan(Path::new(DATA), &[args, &["mooncake_part.jsonl"]].concat()), 2, words);
    }
}
