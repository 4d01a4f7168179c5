//! Requests from traces, datasets, documents and random arrivals; and files that are none of that.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::Value;

use crate::support::{Scratch, assert_fails, ended_well, text};

const DATA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data");
const MOONCAKE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/mooncake_part.jsonl");
const BURST: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/burst_sessions.csv");
const THIN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/thin.yaml");

fn number(value: &Value, path: &str) -> f64 {
    value.pointer(path).and_then(Value::as_f64).unwrap_or_else(|| panic!("{path} is no number"))
}

/// Runs to the end of the trace, one request at a time, entries of 4 KiB.
fn thin(name: &str, more: &[&str]) -> Value {
    let scratch = Scratch::new(name);
    let thin = ["--config", THIN, "--model", "thin", "--arrival", "open", "--shards", "1"];
    let one = ["--max-inflight-requests", "1", "--duration", "600", "--durability", "none"];
    ended_well(scratch.run(&[&thin[..], &one[..], more].concat()));
    scratch.json()
}

/// Hits and misses of the blocks of the trace with room for `capacity` blocks: the leading blocks
/// that are there are hits and become the newest; all others are misses, written unless there.
fn block_hits(capacity: usize) -> (u64, u64) {
    let trace = std::fs::read_to_string(MOONCAKE).unwrap();
    let (mut used, mut by_use) = (BTreeMap::<u64, u64>::new(), BTreeMap::<u64, u64>::new());
    let (mut clock, mut hits, mut misses) = (0, 0, 0);
    for line in trace.lines() {
        let row: Value = serde_json::from_str(line).unwrap();
        let ids = row["hash_ids"].as_array().unwrap().iter().map(|id| id.as_u64().unwrap());
        let mut leading = true;
        for id in ids {
            clock += 1;
            let there = used.get(&id).copied();
            leading &= there.is_some();
            if leading {
                hits += 1
            } else {
                misses += 1
            }
            if let Some(before) = there {
                if leading {
                    by_use.remove(&before);
                    by_use.insert(clock, id);
                    used.insert(id, clock);
                }
                continue;
            }
            if used.len() == capacity {
                let (_, oldest) = by_use.pop_first().unwrap();
                used.remove(&oldest);
            }
            used.insert(id, clock);
            by_use.insert(clock, id);
        }
    }
    (hits, misses)
}

#[test]
fn a_mooncake_trace_hits_exactly_the_blocks_that_it_must() {
    // 2 MiB hold 512 blocks of 4 KiB: evictions all the time. Requests draw classes to be reported
    // under; whatever is drawn, they are served in the trace's order.
    let bounded = "0.001953125";
    let cases = [("0.5", usize::MAX, "7"), (bounded, 512, "7"), (bounded, 512, "auto")];
    for (gib, capacity, seed) in cases {
        let trace = ["--mooncake-trace", MOONCAKE, "--trace-speedup", "0", "--replay-cycles", "1"];
        let more = ["--storage-capacity-gb", gib, "--seed", seed];
        let json = thin("mooncake", &[&trace[..], &more].concat());
        let (hits, misses) = block_hits(capacity);
        assert!(hits > 0 && misses > 0);
        assert_eq!(number(&json, "/ringfall/source/block_hits") as u64, hits, "{gib}");
        assert_eq!(number(&json, "/ringfall/source/block_misses") as u64, misses, "{gib}");
        let rate = hits as f64 / (hits + misses) as f64;
        assert_eq!(number(&json, "/ringfall/source/block_hit_rate"), rate);
        assert_eq!(number(&json, "/summary/cache_stats/cache_hit_rate"), rate);
        assert_eq!(number(&json, "/requests_completed"), 400.0);
        assert_eq!(number(&json, "/ringfall/verify/blocks_bad"), 0.0);
    }
}

/// Blocks that are found and those that are not in a cache that holds everything. A block is what
/// is in it and before it, in a session of its own or in all of the trace.
fn block_hits_unbounded(requests: &[(String, Vec<u64>)]) -> (u64, u64) {
    let (mut seen, mut hits, mut misses) = (BTreeSet::new(), 0, 0);
    for (scope, ids) in requests {
        let prefixes = || (1..=ids.len()).map(|count| (scope.clone(), ids[..count].to_vec()));
        let leading = prefixes().take_while(|prefix| seen.contains(prefix)).count() as u64;
        hits += leading;
        misses += ids.len() as u64 - leading;
        seen.extend(prefixes());
    }
    (hits, misses)
}

fn ids(request: &Value) -> Vec<u64> {
    request["hash_ids"].as_array().unwrap().iter().map(|id| id.as_u64().unwrap()).collect()
}

fn lines(name: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(format!("{DATA}/{name}")).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_trace_of_any_format_is_recognised_and_replayed() {
    let qwen: Vec<_> =
        lines("qwen_made.jsonl").iter().map(|row| (String::new(), ids(row))).collect();
    let mut sessions = Vec::new();
    for session in lines("sessions_made.jsonl") {
        let name = session["id"].as_str().unwrap().to_owned();
        for request in session["requests"].as_array().unwrap() {
            let own = std::slice::from_ref(request);
            let requests = request["requests"].as_array().map_or(own, Vec::as_slice);
            sessions.extend(requests.iter().map(|request| (name.clone(), ids(request))));
        }
    }
    for (file, format, rows, blocks) in [
        ("mooncake_part.jsonl", "mooncake", 400, Some(block_hits(usize::MAX))),
        ("qwen_made.jsonl", "qwen", 6, Some(block_hits_unbounded(&qwen))),
        ("sessions_made.jsonl", "sessions", 6, Some(block_hits_unbounded(&sessions))),
        ("burst_sessions.csv", "burstgpt", 300, None),
        ("azure_made.csv", "azure", 5, None),
        ("copilot_made.jsonl", "copilot", 5, None),
    ] {
        let path = format!("{DATA}/{file}");
        let trace = ["--trace", &path, "--trace-speedup", "0", "--replay-cycles", "1"];
        let json = thin("any-format", &[&trace[..], &["--num-users", "2"]].concat());
        let source = &json["ringfall"]["source"];
        assert_eq!((&source["kind"], &source["rows"]), (&format.into(), &rows.into()), "{source}");
        assert_eq!(number(&json, "/requests_completed") as u64, rows, "{file}");
        if let Some((hits, misses)) = blocks {
            let found = (&source["block_hits"], &source["block_misses"]);
            assert_eq!(found, (&hits.into(), &misses.into()), "{file}");
        }
    }
}

#[test]
fn a_burst_trace_runs_from_a_compressed_directory_and_its_bad_rows_are_counted() {
    let scratch = Scratch::new("burst");
    let directory = scratch.file("traces");
    std::fs::create_dir(&directory).unwrap();
    let good = std::fs::read_to_string(BURST).unwrap();
    let bad = format!("{good}12,s1,1,GPT-4,-7,3,4,x\nnonsense\n");
    std::fs::write(directory.join("a.csv.zst"), zstd::encode_all(good.as_bytes(), 3).unwrap())
        .unwrap();
    std::fs::write(directory.join("b.csv"), bad).unwrap();
    std::fs::write(directory.join("notes.md"), "no trace").unwrap();
    let path = directory.to_string_lossy().into_owned();
    let json = thin(
        "burst-run",
        &["--use-burst-trace", "--burst-trace-path", &path, "--trace-speedup", "1000"]
            .into_iter()
            .chain(["--replay-cycles", "1"])
            .collect::<Vec<_>>(),
    );
    assert_eq!(number(&json, "/requests_completed"), 600.0);
    assert_eq!(number(&json, "/ringfall/source/rows"), 600.0);
    assert_eq!(number(&json, "/ringfall/source/skipped"), 2.0);
    let digests = json["ringfall"]["source"]["digests"].as_array().unwrap();
    for rows in ["first 1: ", "first 512: ", "first 600: ", "all 600: "] {
        let count = digests.iter().filter(|told| told.as_str().unwrap().starts_with(rows)).count();
        assert_eq!(count, 1, "{rows}: {digests:?}");
    }
    assert_eq!(json["ringfall"]["source"]["files"].as_array().unwrap().len(), 2);
    let first = json["ringfall"]["source"]["first_skipped"].as_str().unwrap();
    assert!(first.contains("line 302") && first.contains("-7"), "{first}");
    let warned = json["ringfall"]["warnings"].as_array().unwrap();
    assert!(warned.iter().any(|warning| warning["code"] == "skipped_rows"), "{warned:?}");
    // Sessions are conversations.
    assert!(number(&json, "/summary/multi_turn_stats/cache_hits") > 300.0);
}

#[test]
fn the_same_rows_are_served_at_one_two_and_four_shards() {
    let sums: BTreeSet<String> = ["1", "2", "4"]
        .iter()
        .map(|shards| {
            let paced = ["--use-burst-trace", "--burst-trace-path", BURST, "--request-rate", "400"];
            let limits = ["--max-requests", "450", "--shards", shards];
            let json = thin("burst-shards", &[&paced[..], &limits].concat());
            let keys = [
                "/requests_completed",
                "/total_tokens_generated",
                "/summary/cache_stats/prefill_writes",
                "/summary/cache_stats/prefill_bytes_written_gb",
                "/summary/cache_stats/decode_reads",
                "/summary/multi_turn_stats/cache_hits",
            ];
            format!("{:?}", keys.map(|key| number(&json, key)))
        })
        .collect();
    assert_eq!(sums.len(), 1, "{sums:?}");
}

#[test]
fn a_sharegpt_dataset_gives_its_own_lengths() {
    let scratch = Scratch::new("sharegpt");
    let path = scratch.file("share.json");
    // "hello world" is 2 tokens of cl100k.
    let turn = r#"{"from":"human","value":"hello world"},{"from":"gpt","value":"hello world"}"#;
    let text = format!(r#"[{{"id":"1","conversations":[{turn},{turn}]}},{{"id":"2"}}]"#);
    std::fs::write(&path, text).unwrap();
    let json = thin(
        "sharegpt-run",
        &[
            "--dataset-path",
            &path.to_string_lossy(),
            "--max-requests",
            "40",
            "--request-rate",
            "1000",
        ],
    );
    assert_eq!(number(&json, "/requests_completed"), 40.0);
    assert_eq!(number(&json, "/total_tokens_generated"), 80.0);
    assert_eq!(number(&json, "/ringfall/source/conversations"), 1.0);
    assert_eq!(number(&json, "/ringfall/source/turns"), 2.0);
    assert_eq!(number(&json, "/ringfall/source/skipped"), 1.0);
}

#[test]
fn documents_are_ingested_before_and_found_during_the_run() {
    let json = thin(
        "rag",
        &[
            "--enable-rag",
            "--rag-num-docs",
            "7",
            "--max-requests",
            "400",
            "--arrival",
            "poisson",
            "--request-rate",
            "2000",
            "--disable-multi-turn",
            "--prefill-only",
            "--disable-prefix-caching",
        ],
    );
    assert_eq!(number(&json, "/requests_completed"), 400.0);
    // Binomial(400, 0.1) requests, five sigma, 5 chunks each; nothing else reads.
    let hits = number(&json, "/summary/cache_stats/user_cache_hits");
    assert!((50.0..=350.0).contains(&hits), "{hits}");
    assert_eq!(number(&json, "/summary/cache_stats/cache_misses"), 0.0);
}

#[test]
fn a_validation_trace_is_compared_with_the_hit_rate() {
    let scratch = Scratch::new("validation");
    let path = scratch.file("recorded.csv");
    for (rows, passed) in [("true\ntrue\n", true), ("true\nfalse\nfalse\n", false)] {
        let rows = rows.replace('\n', ",300,50,4000,500\n");
        let header = "cache_hit,context_tokens,generation_tokens,read_bytes,write_bytes";
        std::fs::write(&path, format!("{header}\n{rows}")).unwrap();
        let trace = path.to_string_lossy().into_owned();
        let json = thin(
            "validation-run",
            &[
                "--validation-trace",
                &trace,
                "--decode-only",
                "--max-requests",
                "20",
                "--arrival",
                "closed",
            ],
        );
        // Everything was populated: all reads hit.
        let ours = &json["ringfall"]["validation"];
        assert_eq!(number(ours, "/measured_hit_rate"), 1.0);
        assert_eq!(
            number(ours, "/recorded_read_bytes"),
            4000.0 * number(ours, "/recorded_requests")
        );
        assert_eq!(ours["passed"], passed);
        // The reference's keys, all of them.
        let validation = &json["validation"];
        let recorded = if passed { 1.0 } else { 1.0 / 3.0 };
        let rate = &validation["comparison"]["cache_hit_rate"];
        assert_eq!((number(rate, "/benchmark"), number(rate, "/trace")), (1.0, recorded));
        let error = if passed { 0.0 } else { 200.0 };
        assert!((number(rate, "/error_pct") - error).abs() < 1e-9, "{validation}");
        assert_eq!(validation["avg_error_pct"], rate["error_pct"]);
        assert_eq!((&validation["passed"], &rate["within_5pct"]), (&passed.into(), &passed.into()));
        let stats = &validation["trace_stats"];
        assert_eq!(number(stats, "/total_requests"), if passed { 2.0 } else { 3.0 });
        assert_eq!(number(stats, "/cache_hit_rate"), recorded);
        assert_eq!(number(stats, "/read_write_ratio"), 8.0);
        assert_eq!(number(stats, "/context_tokens_mean"), 300.0);
        assert_eq!(number(stats, "/generation_tokens_mean"), 50.0);
    }
}

#[test]
fn a_run_that_read_nothing_agrees_with_no_recording() {
    let scratch = Scratch::new("validation-none");
    let path = scratch.file("recorded.csv");
    // Nor with one that has no hits, as whose its hit rate of 0 would pass.
    for rows in ["true\ntrue\n", "false\n"] {
        std::fs::write(&path, format!("cache_hit\n{rows}")).unwrap();
        let trace = path.to_string_lossy().into_owned();
        let nothing_to_read =
            ["--prefill-only", "--disable-multi-turn", "--disable-prefix-caching"];
        let more = ["--validation-trace", &trace, "--max-requests", "6", "--duration", "60"];
        let output = ended_well(scratch.run(&[&nothing_to_read[..], &more].concat()));
        let json = scratch.json();
        let ours = &json["ringfall"]["validation"];
        for unknown in ["measured_hit_rate", "relative_error", "passed"] {
            assert!(ours[unknown].is_null(), "{unknown}: {ours}");
        }
        assert_eq!(json["validation"]["passed"], false, "{}", json["validation"]);
        let printed = text(&output);
        assert!(printed.contains("nothing to compare"), "{printed}");
        let requests = if rows.len() > 6 { "2 recorded requests" } else { "1 recorded request" };
        // The recording has no means and no bytes, so nothing is printed in their place.
        assert!(printed.lines().any(|line| line.trim() == requests), "{printed}");
    }
}

#[test]
fn urgent_classes_are_served_first_when_there_is_too_much_to_do() {
    let scratch = Scratch::new("qos");
    let crowd = ["--users", "150", "--arrival", "open", "--max-requests", "450"];
    let few = ["--max-inflight-requests", "2", "--duration", "80", "--disable-multi-turn"];
    ended_well(scratch.run(&[&crowd[..], &few].concat()));
    let json = scratch.json();
    let p95 = |class: &str| number(&json, &format!("/summary/qos_metrics/{class}/latency_ms/p95"));
    let (first, second, third) = (p95("interactive"), p95("responsive"), p95("batch"));
    assert!(first < second && second < third, "{first} {second} {third}");
}

#[test]
fn an_autoscaled_run_that_is_too_short_says_so_and_keeps_its_curve() {
    let scratch = Scratch::new("autoscale");
    let capacity = ["--enable-autoscaling", "--autoscaler-mode", "capacity", "--users", "2"];
    let output = ended_well(scratch.run(&[&capacity[..], &["--duration", "40"]].concat()));
    let json = scratch.json();
    let rows = json["summary"]["autoscaling_stats"].as_array().unwrap();
    assert!(!rows.is_empty());
    assert_eq!((&rows[0]["users"], &rows[0]["mode"]), (&2.into(), &"capacity".into()));
    assert_eq!(number(&json, "/summary/autoscaling_summary/initial_users"), 2.0);
    let curve = json["ringfall"]["autoscaler"]["curve"].as_array().unwrap();
    assert_eq!(curve.len(), rows.len());
    assert!(number(&curve[0], "/gib_per_s") > 0.0);
    // The users of the timeline are those that there were.
    let users: BTreeSet<u64> = json["ringfall"]["timeline"]
        .as_array()
        .unwrap()
        .iter()
        .map(|second| second["users"].as_u64().unwrap())
        .collect();
    assert!(users.contains(&2), "{users:?}");
    if json["ringfall"]["autoscaler"]["conclusive"] == false {
        assert!(text(&output).contains("--duration"), "{}", text(&output));
    }
}

#[test]
fn a_bad_file_is_told_by_name_and_line_with_status_2() {
    let scratch = Scratch::new("bad");
    let write = |name: &str, bytes: &[u8]| {
        std::fs::write(scratch.file(name), bytes).unwrap();
        scratch.file(name).to_string_lossy().into_owned()
    };
    let missing = scratch.file("missing").to_string_lossy().into_owned();
    let binary: Vec<u8> = (0..=255).cycle().take(200_000).collect();
    let long = vec![b'7'; 10 << 20];
    let files = [
        (missing.clone(), "no such file"),
        (write("empty", b""), "empty"),
        (write("binary", &binary), ""),
        (write("long", &long), ""),
        (write("cut.json", br#"[{"id":"a","conversations":[{"from":"hu"#), ""),
        (
            write(
                "negative.jsonl",
                b"{\"timestamp\":0,\"input_length\":-5,\"output_length\":1,\"hash_ids\":[1]}\n",
            ),
            "",
        ),
        (write("huge.csv", b"Timestamp,Request tokens,Response tokens\n1,1e99,1\n"), ""),
        (write("header.csv", b"Time,Prompt\n1,2\n"), ""),
        (write("cut.zst", &[0x28, 0xb5, 0x2f, 0xfd, 0, 1]), ""),
    ];
    let sources: [&[&str]; 5] = [
        &["--use-burst-trace", "--burst-trace-path"],
        &["--mooncake-trace"],
        &["--trace"],
        &["--dataset-path"],
        &["--validation-trace"],
    ];
    for (file, word) in &files {
        for source in sources {
            let flags: Vec<&str> =
                source.iter().copied().chain([file.as_str(), "--arrival", "open"]).collect();
            let output = scratch.run(&flags);
            let name = Path::new(file).file_name().unwrap().to_string_lossy();
            assert_fails(&output, 2, &["error: ", source[source.len() - 1], &name, word]);
            let said = text(&output);
            assert!(said.len() < 1_200 && said.lines().count() <= 2, "{said}");
        }
    }
    // Where the reference has a default, and it is not there.
    let output = scratch.run(&["--use-burst-trace", "--arrival", "open"]);
    assert_fails(&output, 2, &["BurstGPT/data/BurstGPT_1.csv", "give --burst-trace-path"]);
    assert!(!scratch.store().exists(), "nothing was begun");
}
