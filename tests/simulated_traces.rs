//! Traces on simulated drives, and what a simulated run says that it is bound by.

use std::fmt::Write as _;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::support::{Scratch, assert_fails, ended_well, output, text};

const DEVICES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/config/devices");
const HEADER: &str = "Timestamp,Operation,Object_Size_Bytes,Tier,Key,Phase\n";

/// Runs the line, in which DEVICES stands for their directory.
fn ringfall(scratch: &Scratch, line: &str) -> Output {
    let line = line.replace("DEVICES", DEVICES);
    let mut command = Command::new(env!("CARGO_BIN_EXE_ringfall"));
    command.args(line.split_whitespace()).current_dir(&scratch.path).stdin(Stdio::null());
    output(command)
}

fn simulated(scratch: &Scratch, line: &str) -> Value {
    let ended = ringfall(scratch, &format!("simulate {line} --seed 7 --output result.json"));
    assert_eq!(ended.status.code(), Some(0), "{line}: {}", text(&ended));
    scratch.json()
}

/// A write a second, of 10 MiB each.
fn writes(count: u32, key: impl Fn(u32) -> String) -> String {
    let mut trace = HEADER.to_owned();
    for n in 0..count {
        let _infallible =
            writeln!(trace, "{}.0,Write,10485760,Tier-2,{},Prefill", 1_704_067_200 + n, key(n));
    }
    trace
}

#[test]
fn a_trace_without_gaps_ends_when_its_last_operation_does() {
    let scratch = Scratch::new("no-gaps");
    std::fs::write(scratch.file("t.csv"), writes(200, |n| format!("k{n}"))).unwrap();
    let line = "simulate --device DEVICES/slow-vmfs.yaml,DEVICES/fast-nvme.yaml --replay-trace \
                t.csv --trace-speedup 0 --seed 7 --output w.json";
    ended_well(ringfall(&scratch, line));
    let table: Value =
        serde_json::from_slice(&std::fs::read(scratch.file("w.json")).unwrap()).unwrap();
    let rates: Vec<f64> =
        (0..2).map(|row| table["rows"][row]["storage_gib_per_s"].as_f64().unwrap()).collect();
    assert!((rates[1] / rates[0] / (14.0 / 3.0) - 1.0).abs() < 0.03, "{rates:?}");
    assert_eq!(table["rows"][0]["binds"], "drive");
    // At its own pace, ten times faster, it lasts as long as its times say, and the last write.
    let result = simulated(
        &scratch,
        "--device DEVICES/fast-nvme.yaml --replay-trace t.csv --trace-speedup 10 --duration 100",
    );
    let seconds = result["ringfall"]["window"]["seconds"].as_f64().unwrap();
    assert!((19.9..19.91).contains(&seconds), "{seconds}");
    assert_eq!(result["requests_completed"], 200);
}

#[test]
fn rows_are_read_as_shards_take_them() {
    let scratch = Scratch::new("rows-ahead");
    std::fs::write(scratch.file("t.csv"), writes(50_000, |_| "one".to_owned())).unwrap();
    for shards in [1, 2] {
        let result = simulated(
            &scratch,
            &format!(
                "--device DEVICES/fast-nvme.yaml --replay-trace t.csv --duration 3 \
                 --shards {shards}"
            ),
        );
        let rows = result["ringfall"]["source"]["rows"].as_u64().unwrap();
        assert!((3..10_000).contains(&rows), "{rows} rows were read for 3 s of them");
    }
}

#[test]
fn a_trace_that_breaks_off_fails_the_run() {
    let scratch = Scratch::new("breaks-off");
    let mut rows =
        "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n".to_owned();
    for n in 0..20_000 {
        let _infallible =
            writeln!(rows, "{n},ChatGPT,{},{},{},API", 100 + n % 77, 50, 150 + n % 77);
    }
    let packed = zstd::encode_all(rows.as_bytes(), 3).unwrap();
    std::fs::write(scratch.file("cut.csv.zst"), &packed[..packed.len() / 2]).unwrap();
    let line = "--use-burst-trace --burst-trace-path cut.csv.zst --trace-speedup 1000 --seed 7 \
                --duration 60 --output result.json --model tiny-1b";
    let ended = ringfall(&scratch, &format!("simulate --device DEVICES/fast-nvme.yaml {line}"));
    assert_fails(&ended, 1, &["the rest of the trace could not be read", "cut.csv.zst"]);
    let failure = &scratch.json()["ringfall"]["window"]["failure"];
    assert!(
        failure.as_str().unwrap().contains("the rest of the trace could not be read"),
        "{failure}"
    );
}

#[test]
fn no_output_takes_the_place_of_an_input() {
    let scratch = Scratch::new("over-input");
    let trace = writes(20, |n| format!("k{n}"));
    std::fs::write(scratch.file("t.csv"), &trace).unwrap();
    std::fs::copy(format!("{DEVICES}/fast-nvme.yaml"), scratch.file("d.yaml")).unwrap();
    let device = std::fs::read(scratch.file("d.yaml")).unwrap();
    std::fs::hard_link(scratch.file("t.csv"), scratch.file("other.csv")).unwrap();
    std::fs::create_dir(scratch.file("s")).unwrap();
    std::fs::write(scratch.file("c.yaml"), "num_users: 3\n").unwrap();
    for (line, words) in [
        ("run --replay-trace t.csv --io-trace-log t.csv", &["--io-trace-log", "overwrite"][..]),
        ("run --replay-trace t.csv --io-trace-log other.csv", &["--io-trace-log", "t.csv"]),
        ("replay t.csv --html-output s/../t.csv", &["--html-output", "overwrite"]),
        ("simulate --device d.yaml --output d.yaml", &["--output", "overwrite", "d.yaml"]),
        ("run --config c.yaml --output c.yaml", &["c.yaml", "overwrite"]),
        ("run --io-trace-log s/x --output s/../s/x", &["--output", "--io-trace-log", "same file"]),
        ("run --io-trace-log x.csv.gz", &["x.csv.gz", ".csv.zst"]),
        ("replay t.csv --replay-trace t.csv", &["--replay-trace", "replay"]),
        ("simulate --device /dev/zero", &["/dev/zero", "too many"]),
    ] {
        assert_fails(&ringfall(&scratch, line), 2, words);
    }
    assert_eq!(std::fs::read_to_string(scratch.file("t.csv")).unwrap(), trace);
    assert_eq!(std::fs::read(scratch.file("d.yaml")).unwrap(), device);
}

#[test]
fn a_run_says_what_more_of_would_make_it_faster() {
    let scratch = Scratch::new("binds");
    let one_at_a_time = "name: one at a time\n\
                         read: {mb_per_s: 5000, iops: 1000000, latency_us: 5000}\n\
                         write: {mb_per_s: 5000, iops: 1000000, latency_us: 5000}\n\
                         parallel_ios: 1\n";
    std::fs::write(scratch.file("one.yaml"), one_at_a_time).unwrap();
    let slow = one_at_a_time.replace("parallel_ios: 1\n", "");
    std::fs::write(scratch.file("far.yaml"), slow.replace(": 5000}", ": 50000}")).unwrap();
    std::fs::write(scratch.file("slow.yaml"), slow).unwrap();
    let base = "--model tiny-1b --cpu-mem-gb 0 --generation-mode none --duration 120 --shards 2";
    for (line, binds) in [
        ("--device DEVICES/slow-vmfs.yaml --num-users 50 --arrival closed", "drive"),
        ("--device one.yaml --num-users 20 --arrival closed", "drive_parallelism"),
        ("--device slow.yaml --num-users 30 --arrival closed --queue-depth 1", "queue_depth"),
        ("--device far.yaml --num-users 1 --arrival closed --queue-depth 64", "drive_latency"),
        (
            "--device slow.yaml --num-users 20 --arrival closed --max-inflight-requests 1 \
             --generation-mode realistic",
            "serving_slots",
        ),
        // Requests at set times are faster as well where their I/Os are.
        ("--device slow.yaml --num-users 2 --arrival poisson --request-rate 1", "drive_latency"),
        (
            "--device slow.yaml --num-users 4 --arrival closed --generation-mode realistic",
            "generation",
        ),
        (
            "--device DEVICES/fast-nvme.yaml --num-users 40 --arrival closed --cpu-mem-gb 64",
            "shards",
        ),
    ] {
        let result = simulated(&scratch, &format!("{base} {line}"));
        let simulation = &result["ringfall"]["simulation"];
        assert_eq!(simulation["binds"], binds, "{line}: {simulation}");
    }
}

/// A logical run of a trace was announced as one of 60 s and 100 users, which are the defaults of
/// settings that it does not heed.
#[test]
fn a_logical_run_of_a_trace_announces_the_trace_and_no_users() {
    let scratch = Scratch::new("announced");
    let burst = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/burst_sessions.csv");
    let run = |more: &str| {
        let line = format!("run --model tiny-1b --io-trace-log t.csv --output result.json {more}");
        text(&ringfall(&scratch, &line))
    };
    let trace = format!("--use-burst-trace --burst-trace-path {burst}");
    let told = run(&format!("{trace} --trace-speedup 20 --replay-cycles 1"));
    assert!(told.contains("simulating at most 60 s: burstgpt trace "), "{told}");
    assert!(told.contains("20 times its speed, seed ") && !told.contains("users, seed"), "{told}");
    let told = run("--num-users 3 --duration 2");
    assert!(told.contains("simulating 2 s: 3 users, open loop, seed "), "{told}");
}
