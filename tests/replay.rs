//! Logical traces on the real engine.

use std::process::{Command, Output, Stdio};

use crate::support::{Scratch, assert_fails, assert_valid, ended_well, output, text};

const HEADER: &str = "Timestamp,Operation,Object_Size_Bytes,Tier,Key,Phase\n";

fn ringfall(scratch: &Scratch, line: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ringfall"));
    command.args(line.split_whitespace()).current_dir(&scratch.path).stdin(Stdio::null());
    output(command)
}

fn replay(scratch: &Scratch, trace: &str, more: &str) -> Output {
    let small = "--cache-dir store --storage-capacity-gb 1 --queue-depth 8 --io-buffer-mb 16";
    ringfall(scratch, &format!("replay {trace} {small} --output result.json --seed 1 {more}"))
}

#[test]
fn a_trace_of_ours_is_replayed_operation_by_operation() {
    let scratch = Scratch::new("replay");
    let line = "run --io-trace-log t.csv.zst --output logical.json --quiet --model tiny-1b --seed \
                4 --num-users 6 --duration 20 --arrival closed --storage-capacity-gb 1 \
                --config SMALL --shards 1";
    let small = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/small.yaml");
    ended_well(ringfall(&scratch, &line.replace("SMALL", small)));
    let packed = std::fs::read(scratch.file("t.csv.zst")).unwrap();
    let trace = String::from_utf8(zstd::decode_all(&packed[..]).unwrap()).unwrap();
    let of = |operation: &str| {
        let rows = trace.lines().skip(1).filter(|line| line.contains(operation));
        rows.map(|line| line.split(',').nth(2).unwrap().parse::<u64>().unwrap()).collect::<Vec<_>>()
    };
    let (reads, writes) = (of(",Read,"), of(",Write,"));
    assert!(reads.len() > 100 && writes.len() > 20);
    for shards in ["1", "2"] {
        let ended = ended_well(replay(
            &scratch,
            "t.csv.zst",
            &format!("--trace-speedup 0 --shards {shards}"),
        ));
        let page = text(&ended).split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(page.contains(" operations/s "), "{page}");
        for word in ["tokens/s", "generated tokens", "generation realistic"] {
            assert!(!page.contains(word), "{word}: {page}");
        }
        let result = scratch.json();
        let source = &result["ringfall"]["source"];
        assert_eq!(source["kind"], "io_trace");
        assert_eq!(source["operations"].as_u64().unwrap(), (reads.len() + writes.len()) as u64);
        assert_eq!(source["arrived"], source["operations"]);
        assert_eq!(source["populated_objects"], 0);
        // Every read finds what the write before it left, however fast they come.
        let stats = &result["summary"]["cache_stats"];
        assert_eq!(stats["cache_misses"], 0, "{stats}");
        assert_eq!(stats["cache_hits"].as_u64().unwrap(), reads.len() as u64);
        let storage = &result["ringfall"]["histograms"];
        assert!(storage.is_object());
        assert_eq!(
            result["requests_completed"].as_u64().unwrap(),
            (reads.len() + writes.len()) as u64
        );
    }
    assert!(!scratch.store().join("ringfall.kv").exists());
}

#[test]
fn what_a_trace_reads_before_it_writes_is_there() {
    let scratch = Scratch::new("replay-populated");
    let rows: String = (0..40)
        .map(|n| format!("{}.25,Read,65536,Tier-2,seq_{},Decode\n", 1_704_067_200 + n / 20, n % 10))
        .collect();
    let written =
        "1704067203,Write,8192,Tier-2,new,Prefill\n1704067203.1,Read,8192,Tier-2,new,Decode\n";
    std::fs::write(scratch.file("t.csv"), format!("{HEADER}{rows}{written}")).unwrap();
    let ended = ended_well(replay(&scratch, "t.csv", "--trace-speedup 10"));
    let result = scratch.json();
    let source = &result["ringfall"]["source"];
    assert_eq!(source["populated_objects"], 10);
    assert_eq!(source["populated_bytes"], 655_360);
    let stats = &result["summary"]["cache_stats"];
    assert_eq!((&stats["cache_hits"], &stats["cache_misses"]), (&41.into(), &0.into()));
    assert!(text(&ended).contains("10 entries"), "{}", text(&ended));
    assert_valid(&result);
}

#[test]
fn a_trace_that_is_none_is_named_with_line_and_reason() {
    let scratch = Scratch::new("replay-wrong");
    let good = "1704067200,Write,4096,Tier-2,k,Prefill\n";
    for (name, content, words) in [
        ("bad.csv", format!("{HEADER}{good}1704067200,Write,lots,Tier-2,k,Prefill\n"), "line 3"),
        ("foreign.csv", "a,b\n1,2\n".to_owned(), "header"),
        ("empty.csv", String::new(), "empty"),
        ("none.csv", format!("{HEADER}1704067200,Write,4096,Tier-1,k,Prefill\n"), "--replay-tiers"),
        ("cut.csv.zst", good.to_owned(), "cut.csv.zst"),
    ] {
        std::fs::write(scratch.file(name), content).unwrap();
        assert_fails(&replay(&scratch, name, ""), 2, &[name, words]);
    }
    assert_fails(&replay(&scratch, "no.csv", ""), 2, &["no.csv", "no such file"]);
    assert_fails(&replay(&scratch, "/dev/zero", ""), 2, &["/dev/zero"]);
    std::fs::write(scratch.file("good.csv"), format!("{HEADER}{good}")).unwrap();
    assert_fails(&replay(&scratch, "good.csv", "--enable-rag"), 2, &["--enable-rag"]);
}

#[test]
fn nothing_begins_before_the_window_and_what_can_not_be_written_is_told() {
    let scratch = Scratch::new("replay-window");
    let rows: String = (0..50)
        .map(|n| {
            format!(
                "{n},Write,1048576,Tier-2,k{n},Prefill\n{n}.5,Read,1048576,Tier-2,k{n},Decode\n"
            )
        })
        .collect();
    std::fs::write(scratch.file("t.csv"), format!("{HEADER}{rows}")).unwrap();
    ended_well(replay(&scratch, "t.csv", "--trace-speedup 0 --duration 20"));
    let result = scratch.json();
    let stats = &result["summary"]["cache_stats"];
    assert_eq!(stats["total_write_bytes"], 50 << 20);
    assert_eq!(result["requests_completed"], 100);
    let sum = |name: &str| -> f64 {
        result[name].as_array().unwrap().iter().map(|value| value.as_f64().unwrap()).sum()
    };
    // A request takes as long as its I/O, at least.
    assert!(sum("end_to_end_latencies") >= sum("storage_latencies"));

    for (operation, word) in [("Read", "could not be written"), ("Write", "could not be served")] {
        let row = format!("1,{operation},2147483648,Tier-2,k,Prefill\n");
        std::fs::write(scratch.file("large.csv"), format!("{HEADER}{row}")).unwrap();
        let ended = replay(&scratch, "large.csv", "--trace-speedup 0 --duration 20");
        assert!(text(&ended).contains(word), "{operation}: {}", text(&ended));
        assert_eq!(ended.status.code(), Some(1));
    }
}
