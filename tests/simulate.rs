//! Simulated runs: logical traces, described drives.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::support::{
    Scratch, assert_fails, assert_valid, assert_valid_as, ended_well, finish, output, spawn, text,
    wait_until,
};

const DEVICES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/config/devices");

fn ringfall(scratch: &Scratch, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ringfall"));
    command.args(arguments).current_dir(&scratch.path).stdin(Stdio::null());
    command
}

/// The trace of a logical run.
fn trace(scratch: &Scratch, arguments: &str) -> String {
    let line = format!("run --io-trace-log t.csv --output result.json --quiet {arguments}");
    let words: Vec<&str> = line.split_whitespace().collect();
    let ended = output(ringfall(scratch, &words));
    assert_eq!(ended.status.code(), Some(0), "{line}: {}", text(&ended));
    std::fs::read_to_string(scratch.file("t.csv")).unwrap()
}

/// FNV-1a, 64 bits: enough to see a change.
fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    })
}

/// Closed users; a full storage tier below a CPU tier; everything else there is.
const GOLDEN: [(&str, u64); 3] = [
    (
        "--model tiny-1b --num-users 20 --duration 60 --seed 1 --arrival closed",
        0xd4fe_a05f_16e1_1d82,
    ),
    (
        "--model llama3.1-8b --num-users 50 --duration 30 --seed 2 --cpu-mem-gb 4 \
         --storage-capacity-gb 16 --shards 3 --max-concurrent-allocs 4",
        0x9bdd_7ca4_1025_abbf,
    ),
    (
        "--model llama3.1-8b --num-users 40 --duration 40 --seed 3 --enable-rag --rag-num-docs 5 \
         --arrival poisson --request-rate 20 --cpu-mem-gb 2 --generation-mode fast --shards 2 \
         --num-gpus 2 --tensor-parallel 2",
        0x0a3c_880e_46bf_20cf,
    ),
];

#[test]
fn the_same_run_is_the_same_trace_on_any_machine() {
    let found: Vec<u64> =
        GOLDEN.iter().map(|(line, _)| hash(&trace(&Scratch::new("golden"), line))).collect();
    let known: Vec<u64> = GOLDEN.iter().map(|(_, hash)| *hash).collect();
    assert_eq!(found, known, "decisions have changed: if that was meant, these are the new hashes");
}

#[test]
fn queued_turns_are_misses_only_when_they_are_to_be_counted() {
    let scratch = Scratch::new("queued");
    let file = scratch.file("counted.yaml");
    std::fs::write(&file, "workload: {history_counts_queued_turns: true}").unwrap();
    // Answers take seconds and users do not wait for them: the queue grows.
    let line = "--model llama3.1-8b --num-users 20 --duration 30 --seed 42 --cpu-mem-gb 4 \
                --storage-capacity-gb 200 --shards 2";
    let of = |more: &str| {
        let rows = trace(&scratch, &format!("{line} {more}"));
        let json = scratch.json();
        let number = |key: &str| json.pointer(key).and_then(Value::as_f64).unwrap();
        let rates = [
            number("/summary/multi_turn_stats/hit_rate"),
            number("/summary/cache_stats/cache_hit_rate"),
        ];
        assert_eq!(
            number("/multi_turn_cache_misses"),
            number("/summary/multi_turn_stats/cache_misses")
        );
        (rates, number("/summary/multi_turn_stats/cache_hits"), rows)
    };
    let ([turns, all], hits, rows) = of("");
    assert!(turns > 0.99 && all > 0.99, "{turns}, {all}");
    let ([turns, all], same, same_rows) = of("--config counted.yaml");
    // The reference, in runs of four seeds: 0.52 to 0.60, and 0.71 to 0.81.
    assert!((0.4..0.7).contains(&turns) && (0.6..0.9).contains(&all), "{turns}, {all}");
    assert_eq!((same, hash(&same_rows)), (hits, hash(&rows)), "the I/O is the same");
    let ([turns, _], ..) = of("--config counted.yaml --arrival closed");
    assert!(turns > 0.99, "{turns}: a user who waits has nothing in the queue");
}

#[test]
fn documents_ingested_beside_the_load_are_prefill_writes_and_go_when_there_are_too_many() {
    let scratch = Scratch::new("ingestion");
    let config = scratch.file("small.yaml");
    std::fs::write(&config, "workload: {rag: {max_documents: 2, probability: 0.5}}").unwrap();
    let line = "--model tiny-1b --num-users 20 --duration 30 --seed 4 --arrival closed \
                --storage-capacity-gb 200 --enable-rag --rag-num-docs 6 --shards 3 \
                --config small.yaml";
    let counts = |when: &str| {
        let rows = trace(&scratch, &format!("{line} --rag-ingestion {when}"));
        let json = scratch.json();
        let workload = json.pointer("/ringfall/workload").unwrap();
        let of_workload = |key: &str| workload[key].as_u64().unwrap();
        let documents = (of_workload("documents_ingested"), of_workload("documents_evicted"));
        let stats = json.pointer("/summary/cache_stats").unwrap();
        let counted = ["prefill_writes", "write_iops", "total_write_bytes"]
            .map(|key| stats[key].as_u64().unwrap());
        let bytes = |row: &str| row.split(',').nth(2).unwrap().parse::<u64>().unwrap();
        let writes: Vec<u64> = rows.lines().filter(|r| r.contains(",Write,")).map(bytes).collect();
        let chunks = json.pointer("/ringfall/cache/ingested_chunks").unwrap().as_u64().unwrap();
        let rows = [writes.len() as u64, writes.len() as u64, writes.iter().sum()];
        (documents, counted, rows, chunks)
    };
    let (documents, counted, rows, chunks) = counts("beside");
    assert_eq!(documents, (6, 4));
    // The window is the whole run, and nothing is demoted: a row is one write of an entry.
    assert_eq!(counted, rows);
    assert!(chunks > 0);
    // All were ingested in the warm-up, which no window has: they count all the same.
    let (warm_documents, _, _, warm_chunks) = counts("beside --warmup 20");
    assert_eq!((warm_documents, warm_chunks), (documents, chunks));
    let (documents, counted, rows, chunks) = counts("before");
    assert_eq!(documents, (0, 0), "they were there when the load began");
    // Those of before are counted, and are no rows.
    assert_eq!([counted[0] - rows[0], counted[1] - rows[1]], [chunks; 2]);
    assert!(counted[2] > rows[2]);
}

#[test]
fn without_a_drive_no_time_goes_to_storage() {
    let scratch = Scratch::new("no-drive");
    let line = "--model tiny-1b --num-users 5 --duration 30 --seed 6 --cpu-mem-gb 0 \
                --generation-mode realistic";
    trace(&scratch, line);
    let json = scratch.json();
    let time = &json["ringfall"]["served"]["time"];
    let share = |name: &str| time[format!("{name}_share")].as_f64().unwrap();
    assert!(json["requests_completed"].as_u64().unwrap() > 0);
    assert_eq!(share("storage"), 0.0, "{time}");
    assert!(share("generation") > 0.1, "{time}");
    let parts = ["queue", "space", "storage", "generation", "permit", "rest"];
    assert!((parts.map(share).iter().sum::<f64>() - 1.0).abs() < 1e-9, "{time}");
    assert!(json["ringfall"]["not_measured"].to_string().contains("total_storage_io_time"));
}

#[test]
fn where_no_tier_is_full_the_trace_is_the_same_at_any_shard_count() {
    let base = "--model tiny-1b --num-users 30 --duration 30 --seed 5 --enable-rag \
                --max-inflight-requests 30 --arrival closed";
    let traces = ["1", "2", "5"]
        .map(|shards| trace(&Scratch::new("shards"), &format!("{base} --shards {shards}")));
    assert!(traces[0].lines().count() > 500, "{}", traces[0].lines().count());
    assert!(traces[0] == traces[1] && traces[0] == traces[2]);
}

#[test]
fn the_rows_of_a_trace_are_what_its_results_count() {
    let scratch = Scratch::new("rows");
    let line = "--model llama3.1-8b --num-users 20 --duration 30 --seed 2 --cpu-mem-gb 2 \
                --storage-capacity-gb 8 --generation-mode fast";
    let plain = trace(&scratch, line);
    let result = scratch.json();
    let mut rows: BTreeMap<(String, String), (u64, u64)> = BTreeMap::new();
    let mut before = 0.0;
    let mut written = BTreeMap::new();
    for line in plain.lines().skip(1) {
        let fields: Vec<&str> = line.split(',').collect();
        let [time, operation, bytes, tier, key, phase] = fields[..] else { panic!("{line}") };
        let time: f64 = time.parse().unwrap();
        assert!(time >= before && (1_704_067_200.0..1_704_067_240.0).contains(&time), "{line}");
        before = time;
        let bytes: u64 = bytes.parse().unwrap();
        match operation {
            "Write" => drop(written.insert(key.to_owned(), bytes)),
            _ => assert_eq!(written.get(key), Some(&bytes), "read before it was written: {line}"),
        }
        if phase == "Evict" {
            assert!(
                matches!((operation, tier), ("Read", "Tier-1") | ("Write", "Tier-2")),
                "{line}"
            );
        }
        let sums = rows.entry((tier.to_owned(), phase.to_owned())).or_default();
        if operation == "Read" { sums.0 += 1 } else { sums.1 += 1 }
    }
    let of = |tier: &str, phase: &str| {
        rows.get(&(tier.to_owned(), phase.to_owned())).copied().unwrap_or_default()
    };
    assert!(of("Tier-1", "Evict").0 > 0, "nothing was demoted: {rows:?}");
    assert_eq!(of("Tier-1", "Evict").0, of("Tier-2", "Evict").1);
    let stats = &result["summary"]["cache_stats"];
    let decode = of("Tier-1", "Decode").0 + of("Tier-2", "Decode").0;
    // Rows go on while the last operations end; the results end with the window.
    let counted = stats["decode_reads"].as_u64().unwrap();
    // Reads of prompts are rows of that phase too.
    let prompts = result["ringfall"]["cache"]["prompt_hits"].as_u64().unwrap();
    let all = counted + prompts;
    assert!(counted > 0 && decode >= all && decode <= all + 100, "{decode} {counted} {prompts}");
    let hits = stats["cache_hits"].as_u64().unwrap();
    assert_eq!(all, hits, "every read is one of the decode phase or of a prompt");
    let told = &result["ringfall"]["simulation"]["io_trace"]["rows"];
    assert_eq!(told.as_u64().unwrap() as usize, plain.lines().count() - 1);

    let packed = line.replace("--seed 2", "--seed 2 --io-trace-log t.csv.zst");
    trace(&scratch, &packed);
    let packed = std::fs::read(scratch.file("t.csv.zst")).unwrap();
    assert!(packed.len() * 3 < plain.len());
    assert_eq!(zstd::decode_all(&packed[..]).unwrap(), plain.as_bytes());
}

/// Tables were lost together with the file.
#[test]
fn tables_that_can_t_be_written_are_shown() {
    let scratch = Scratch::new("full-tables");
    let device = format!("{DEVICES}/fast-nvme.yaml");
    let simulate = format!("simulate --device {device} --model tiny-1b --duration 5");
    for seed in ["1", "2"] {
        let line = format!("{simulate} --seed {seed} --output {seed}.json --quiet");
        let words: Vec<&str> = line.split_whitespace().collect();
        assert_eq!(output(ringfall(&scratch, &words)).status.code(), Some(0));
    }
    let what_if = format!("{simulate} --what-if-users 1,2 --output w.json --html-output /dev/full");
    for (line, shown) in [
        (&*what_if, "What if: 5 s simulated"),
        ("merge 1.json 2.json --allow-different --output /dev/full", "2 results, "),
        ("audit 1.json --csv-output /dev/full --html-output a.html", "reported, GiB/s"),
    ] {
        let words: Vec<&str> = line.split_whitespace().collect();
        let ended = output(ringfall(&scratch, &words));
        assert_fails(&ended, 1, &["can't be written to /dev/full: No space left"]);
        let page = String::from_utf8(ended.stdout).unwrap();
        assert!(page.contains(shown) && !page.contains("/dev/full"), "{line}: {page}");
    }
    // The others are written all the same.
    assert!(scratch.file("w.json").exists() && scratch.file("a.html").exists());
}

#[test]
fn the_two_systems_of_the_validation_differ_by_what_their_drives_do() {
    let scratch = Scratch::new("what-if");
    let devices = format!("{DEVICES}/slow-vmfs.yaml,{DEVICES}/fast-nvme.yaml");
    let line = "--seed 7 --duration 30 --cpu-mem-gb 0 --generation-mode none --what-if-users \
                50,200 --what-if-models llama3.1-8b,mistral-7b --output w.json \
                --html-output w.html";
    let mut arguments = vec!["simulate", "--device", &devices];
    arguments.extend(line.split_whitespace());
    let ended = ended_well(output(ringfall(&scratch, &arguments)));
    let table: Value =
        serde_json::from_slice(&std::fs::read(scratch.file("w.json")).unwrap()).unwrap();
    let rows = table["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 8);
    for pair in rows.chunks(2) {
        let rate = |row: &Value| row["storage_gib_per_s"].as_f64().unwrap();
        let ratio = rate(&pair[1]) / rate(&pair[0]);
        assert!((ratio / (14.0 / 3.0) - 1.0).abs() < 0.03, "{ratio}");
        assert!(pair.iter().all(|row| row["binds"] == "drive"), "{pair:?}");
    }
    assert!(text(&ended).contains("4.67"), "{}", text(&ended));
    let page = std::fs::read_to_string(scratch.file("w.html")).unwrap();
    assert!(page.contains("<svg") && !page.contains("http"));
}

#[test]
fn a_logical_run_has_no_health_to_judge() {
    let scratch = Scratch::new("logical-health");
    let line = "run --io-trace-log t.csv --output result.json --html-output page.html --details \
                --model tiny-1b --num-users 5 --duration 20 --seed 1 --arrival closed";
    let ended = output(ringfall(&scratch, &line.split_whitespace().collect::<Vec<_>>()));
    let json = scratch.json();
    let health = &json["summary"]["cache_stats"]["storage_health"];
    assert_eq!((&health["overall_status"], &health["total_count"]), (&"NO DATA".into(), &0.into()));
    let told = text(&ended);
    assert!(told.contains("GiB asked for") && told.contains("none moved"), "{told}");
    for figure in ["GiB/s", "bound by", "storage read", "storage I/O", "single I/O", "verified"] {
        assert!(!told.contains(figure), "{figure} of a drive that is not there: {told}");
    }
    // The reference's keys hold zeros, as the reference's own do, and are said to.
    let unmeasured: Vec<&str> = json["ringfall"]["not_measured"]
        .as_array()
        .unwrap()
        .iter()
        .map(|key| key.as_str().unwrap())
        .collect();
    for key in [
        "summary.storage_throughput_tokens_per_sec",
        "summary.total_storage_io_time",
        "summary.cache_stats.storage_read_device_p95_ms",
    ] {
        let value = json.pointer(&format!("/{}", key.replace('.', "/"))).unwrap();
        assert_eq!(value, 0.0, "{key}");
        assert!(unmeasured.contains(&key), "{key}: {unmeasured:?}");
    }
    assert_eq!(json["summary"]["storage_io_latency_ms"]["p95"], 0.0);
    assert_eq!(json["ringfall"]["io"]["read"]["latency_ms"], Value::Null);
    assert_eq!(json["ringfall"]["io"]["read"]["bandwidth_gib_per_s"], Value::Null);
    assert!(json["summary"]["cache_stats"]["total_read_gb"].as_f64().unwrap() > 0.0);
    let page = std::fs::read_to_string(scratch.file("page.html")).unwrap();
    for figure in ["storage tokens/s", "entry read P95, ms", "storage read"] {
        assert!(!page.contains(&format!("<span>{figure}</span>")), "{figure}");
    }
    assert!(!page.contains("Single I/Os, submit") && !page.contains("Storage bandwidth"));
    let compared = output(ringfall(&scratch, &["compare", "result.json", "result.json"]));
    let compared = text(&compared);
    assert!(compared.contains("wall-clock throughput"), "{compared}");
    assert!(!compared.contains("storage throughput"), "{compared}");
    assert!(!compared.contains("go by"), "{compared}");
    assert!(!compared.contains("storage read"), "{compared}");
    assert!(told.contains("health       NO DATA: nothing was measured to judge"), "{told}");
    assert!(!told.contains("go by"), "no figure of a drive that is not there: {told}");
}

#[test]
fn classes_are_held_against_the_targets_of_the_run() {
    let scratch = Scratch::new("targets");
    let targets = "workload: {qos_targets_ms: {interactive: [70000, 80000, 90000, 100000]}}\n";
    std::fs::write(scratch.file("targets.yaml"), targets).unwrap();
    let simulate = |seed: u32, result: &str| {
        let line = format!(
            "simulate --device {DEVICES}/fast-nvme.yaml --config targets.yaml --output {result} \
             --model tiny-1b --num-users 40 --duration 30 --seed {seed} --arrival closed --details"
        );
        ended_well(output(ringfall(&scratch, &line.split_whitespace().collect::<Vec<_>>())))
    };
    let ended = simulate(1, "result.json");
    let result = scratch.json();
    let class = &result["summary"]["qos_metrics"]["interactive"];
    assert_eq!(class["sla"]["target_p95_ms"], 70_000);
    assert_eq!(class["targets_ms"]["p9999"], 100_000);
    // Generation takes seconds, which is far from the built-in 50 ms.
    assert_eq!(class["sla"]["met"], true, "{class}");
    assert_eq!(result["ringfall"]["requests"]["interactive"]["target_p95_ms"], 70_000);
    assert_eq!(result["summary"]["qos_metrics"]["batch"]["sla"]["target_p95_ms"], 1000);
    assert!(text(&ended).contains("interactive 100 / "), "{}", text(&ended));
    // And so they are when the results are read again.
    simulate(2, "second.json");
    let merged = ["merge", "result.json", "second.json", "--output", "merged.json"];
    ended_well(output(ringfall(&scratch, &merged)));
    let merged: Value =
        serde_json::from_slice(&std::fs::read(scratch.file("merged.json")).unwrap()).unwrap();
    let merged = &merged["summary"]["qos_metrics"]["interactive"];
    assert_eq!(
        (&merged["sla"]["target_p95_ms"], &merged["sla"]["met"]),
        (&70_000.into(), &true.into())
    );
}

/// Requests of a single write each, to host memory that has no room until older entries were
/// written to a slow drive.
#[test]
fn waiting_for_room_is_no_storage_time_of_a_request_and_has_a_figure_of_its_own() {
    let scratch = Scratch::new("room");
    let line = format!(
        "simulate --device {DEVICES}/slow-vmfs.yaml --output result.json --model llama3.1-8b \
         --num-users 12 --duration 200 --seed 1 --arrival closed --cpu-mem-gb 8 --prefill-only \
         --disable-multi-turn --disable-prefix-caching --generation-mode none --shards 1"
    );
    ended_well(output(ringfall(&scratch, &line.split_whitespace().collect::<Vec<_>>())));
    let result = scratch.json();
    let mean = |pointer: &str| result.pointer(pointer).unwrap()["mean"].as_f64().unwrap();
    let (all, io) =
        (mean("/summary/end_to_end_latency_ms"), mean("/summary/storage_io_latency_ms"));
    let waits = &result["ringfall"]["waits"];
    let (room, queued) = (&waits["room_ms"], &waits["request_queue_ms"]);
    let (room, queued) = (room["mean"].as_f64().unwrap(), queued["mean"].as_f64().unwrap());
    assert!(room > 100.0, "{waits}");
    assert!(((io + room + queued) / all - 1.0).abs() < 0.03, "{all}: {io}, {room}, {queued}");
    let requests = result["requests_completed"].as_f64().unwrap();
    let summed_s = result["summary"]["total_storage_io_time"].as_f64().unwrap();
    assert!((summed_s * 1e3 / (requests * io) - 1.0).abs() < 0.01, "{summed_s}");
    // Nor is it in the tier's latency.
    let write = result["summary"]["cache_stats"]["cpu_write_p95_ms"].as_f64().unwrap();
    let waited = waits["room_ms"]["p95"].as_f64().unwrap();
    assert!(write < waited, "{write}, {waited}");
}

/// Each request recomputed on GPUs of its own, and a cache that held next to nothing won.
#[test]
fn a_cache_in_which_little_is_found_loses_where_a_miss_costs() {
    let scratch = Scratch::new("miss-costs");
    let tokens_per_s = |gib: u32| {
        let line = format!(
            "simulate --device {DEVICES}/fast-nvme.yaml --model llama3.1-8b --num-users 64 \
             --storage-capacity-gb {gib} --cpu-mem-gb 0 --arrival closed --decode-reads once \
             --history-reads last --prefill-tokens-per-s 1000 --duration 120 --output result.json"
        );
        ended_well(output(ringfall(&scratch, &line.split_whitespace().collect::<Vec<_>>())));
        scratch.json()["summary"]["avg_throughput_tokens_per_sec"].as_f64().unwrap()
    };
    let (little, plenty) = (tokens_per_s(6), tokens_per_s(60));
    assert!(plenty > 2.0 * little, "{little} {plenty}");
}

#[test]
fn a_drive_that_does_not_bind_is_said_not_to() {
    let scratch = Scratch::new("users-bind");
    let devices = format!("{DEVICES}/fast-nvme.yaml");
    let line = "--seed 7 --duration 90 --cpu-mem-gb 0 --num-users 2 --model tiny-1b --arrival \
                closed --generation-mode realistic --output result.json";
    let mut arguments = vec!["simulate", "--device", &devices];
    arguments.extend(line.split_whitespace());
    let ended = ended_well(output(ringfall(&scratch, &arguments)));
    let result = scratch.json();
    assert_valid(&result);
    let simulation = &result["ringfall"]["simulation"];
    assert_eq!(simulation["binds"], "generation", "{simulation}");
    assert!(simulation["drive_busy_share"].as_f64().unwrap() < 0.5);
    let told = text(&ended);
    assert!(told.contains("  verdict      "), "{told}");
    assert_eq!(told.matches("the drive was busy").count(), 1, "{told}");
}

#[test]
fn what_no_simulation_can_do_is_refused_with_status_2() {
    let scratch = Scratch::new("refused");
    std::fs::write(
        scratch.file("bad.yaml"),
        "name: x\nread: {mb_per_s: 0, iops: 1, latency_us: 1}\n",
    )
    .unwrap();
    let good = format!("{DEVICES}/fast-nvme.yaml");
    for (line, words) in [
        ("simulate --device none.yaml", &["none.yaml", "No such file"][..]),
        ("simulate --device bad.yaml", &["bad.yaml", "missing"]),
        ("simulate --device GOOD --precondition", &["--precondition", "leave it out"]),
        ("simulate --device GOOD --trials 3", &["--trials", "seed"]),
        ("simulate --device GOOD,GOOD --xlsx-output x.xlsx", &["--xlsx-output"]),
        ("simulate --device GOOD --what-if-users 0,3", &["--what-if-users 0", "out of bounds"]),
        ("simulate --device GOOD --what-if-models gpt-9", &["gpt-9"]),
        ("run --io-trace-log x.csv --roofline fresh", &["--roofline"]),
        ("run ./DIR --io-trace-log x.csv", &["--io-trace-log, with which", "DIR is --cache-dir"]),
        ("run --io-trace-log x.csv --output x.csv", &["--output", "same file"]),
    ] {
        let line = line.replace("GOOD", &good);
        let words_of: Vec<&str> = line.split_whitespace().collect();
        assert_fails(&output(ringfall(&scratch, &words_of)), 2, words);
    }
    let full = ["run", "--io-trace-log", "/dev/full", "--output", "result.json", "--seed", "1"];
    assert_fails(&output(ringfall(&scratch, &full)), 1, &["/dev/full", "space"]);
}

#[test]
fn traces_and_the_autoscaler_work_without_a_drive() {
    let scratch = Scratch::new("sources");
    let devices = format!("{DEVICES}/fast-nvme.yaml");
    let mooncake = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/mooncake_part.jsonl");
    let burst = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/burst_sessions.csv");
    for (line, shards) in [
        (format!("--mooncake-trace {mooncake} --trace-speedup 0 --replay-cycles 1"), "1"),
        (format!("--mooncake-trace {mooncake} --trace-speedup 0 --replay-cycles 1"), "3"),
        (format!("--use-burst-trace --burst-trace-path {burst} --replay-cycles 1"), "2"),
    ] {
        let line = format!(
            "simulate --device {devices} --duration 4000 --seed 1 --output result.json {line} \
             --shards {shards} --generation-mode fast"
        );
        let ended = output(ringfall(&scratch, &line.split_whitespace().collect::<Vec<_>>()));
        assert_eq!(ended.status.code(), Some(0), "{line}: {}", text(&ended));
        let result = scratch.json();
        let source = &result["ringfall"]["source"];
        assert!(source["rows"].as_u64().unwrap() > 10, "{source}");
        // It ended with the trace, and everything in it was served.
        assert_eq!(source["rows"], source["arrived"], "{source}");
        assert_eq!(result["requests_completed"], source["rows"], "{line}");
        assert!(result["ringfall"]["window"]["seconds"].as_f64().unwrap() < 4000.0);
    }
    let line = format!(
        "simulate --device {DEVICES}/slow-vmfs.yaml --duration 3000 --seed 1 --output result.json \
         --enable-autoscaling --autoscaler-mode capacity --arrival closed --cpu-mem-gb 0 \
         --generation-mode none --model tiny-1b"
    );
    ended_well(output(ringfall(&scratch, &line.split_whitespace().collect::<Vec<_>>())));
    let found = &scratch.json()["ringfall"]["autoscaler"];
    let peak = found["peak_gib_per_s"].as_f64().unwrap();
    assert!((peak * 1.073_741_824 / 3.0 - 1.0).abs() < 0.05, "{found}");
}

#[test]
fn an_interrupted_simulation_keeps_what_it_has() {
    // What is compressed shows when a block of it is full, which takes long: it is interrupted
    // when it has been opened.
    for (name, bytes_until) in [("t.csv", 1_000), ("t.csv.zst", 0)] {
        let scratch = Scratch::new("interrupted");
        let line = format!(
            "simulate --device {DEVICES}/fast-nvme.yaml --duration 86400 --num-users 500 --seed 1 \
             --output result.json --io-trace-log {name}"
        );
        let command = ringfall(&scratch, &line.split_whitespace().collect::<Vec<_>>());
        let child = spawn(command);
        let trace = scratch.file(name);
        wait_until("it writes its trace", || {
            std::fs::metadata(&trace).is_ok_and(|metadata| metadata.len() >= bytes_until)
        });
        kill_process(Pid::from_child(&child), Signal::INT).unwrap();
        let ended = finish(child);
        assert_eq!(ended.status.code(), Some(130), "{}", text(&ended));
        let result = scratch.json();
        assert_eq!(result["ringfall"]["window"]["interrupted"], true);
        let mut rows = std::fs::read(&trace).unwrap();
        if name.ends_with(".zst") {
            rows = zstd::decode_all(&rows[..]).unwrap();
        }
        let lines = rows.iter().filter(|byte| **byte == b'\n').count() as u64;
        let told = &result["ringfall"]["simulation"]["io_trace"]["rows"];
        assert_eq!(told.as_u64().unwrap(), lines - 1, "{name}");
    }
}

/// A search on each described drive: it is no slower than the usual depth, its single I/Os are no
/// later, and it says what it tried.
#[test]
fn a_searched_depth_reaches_the_bandwidth_of_the_usual_one_with_less_in_flight() {
    let scratch = Scratch::new("depth");
    for device in ["fast-nvme.yaml", "slow-vmfs.yaml"] {
        let run = |depth: &str| -> Value {
            let device = format!("{DEVICES}/{device}");
            let line = format!(
                "simulate --device {device} --model tiny-1b --num-users 60 --duration 20 --warmup \
                 20 --arrival closed --generation-mode none --cpu-mem-gb 0 --shards 2 --seed 5 \
                 --storage-capacity-gb 500 --output result.json --html-output r.html --queue-depth \
                 {depth}"
            );
            let words: Vec<&str> = line.split_whitespace().collect();
            let ended = output(ringfall(&scratch, &words));
            assert_eq!(ended.status.code(), Some(0), "{line}: {}", text(&ended));
            let json = scratch.json();
            assert_valid(&json);
            if depth == "auto" {
                assert!(text(&ended).contains("queue depth  "), "{}", text(&ended));
                let page = std::fs::read_to_string(scratch.file("r.html")).unwrap();
                assert!(page.contains("<h2>Queue depth</h2>"));
            }
            json
        };
        let (usual, found) = (run("standard"), run("auto"));
        assert!(usual["ringfall"]["queue_depth"].is_null());
        let search = &found["ringfall"]["queue_depth"];
        assert_eq!(search["reason"], "knee", "{device}: {search:#}");
        let chosen = search["chosen"].as_u64().unwrap();
        assert!((1..64).contains(&chosen), "{device}: {search:#}");
        assert_eq!(found["ringfall"]["config"]["queue_depth"].as_u64(), Some(chosen));
        assert!(search["steps"].as_array().unwrap().len() >= 4);
        let of = |json: &Value, pointer: &str| json.pointer(pointer).unwrap().as_f64().unwrap();
        let moved = |json: &Value| {
            let of_io = |io: &str| of(json, &format!("/ringfall/io/{io}/bandwidth_gib_per_s"));
            of_io("read") + of_io("write")
        };
        let share = moved(&found) / moved(&usual);
        assert!(share >= 0.93, "{device}: {share} of the bandwidth at depth {chosen}");
        let p50 = |json: &Value| of(json, "/ringfall/io/write/latency_ms/p50");
        assert!(p50(&found) <= p50(&usual), "{device}: {} and {}", p50(&found), p50(&usual));
    }
}

#[test]
fn a_doubtful_drive_is_told_in_the_output_and_the_json() {
    let scratch = Scratch::new("doubtful");
    let drive = "name: shaky\ndoubt: >-\n  Its speed varied: don't expect\n  much of this\nread: \
                 {mb_per_s: 900, iops: 9000, latency_us: 9}\nwrite: {mb_per_s: 900, iops: 9000, \
                 latency_us: 9}\n";
    std::fs::write(scratch.file("d.yaml"), drive).unwrap();
    let doubt = "Its speed varied: don't expect much of this";
    let of = |arguments: &str| {
        let line = format!("simulate --device d.yaml --model tiny-1b --duration 3 {arguments}");
        let words: Vec<&str> = line.split_whitespace().collect();
        let ended = output(ringfall(&scratch, &words));
        assert_eq!(ended.status.code(), Some(0), "{line}: {}", text(&ended));
        let shown = text(&ended).split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(shown.contains(doubt), "{line}: {shown}");
    };
    of("--num-users 2 --output result.json");
    let warnings = scratch.json()["ringfall"]["warnings"].clone();
    let warnings = warnings.as_array().unwrap();
    let found = warnings.iter().find(|warning| warning["code"] == "device_doubtful").unwrap();
    assert!(found["text"].as_str().unwrap().ends_with(doubt), "{found}");
    assert!(warnings.iter().any(|warning| warning["code"] == "simulated"), "{warnings:?}");
    // No other command takes it for what a drive did.
    for (words, told) in [
        (&["compare", "result.json", "result.json"][..], "simulated with the device description"),
        (&["audit", "result.json"][..], "1 of 1 rank files are of simulated runs"),
    ] {
        let shown = text(&output(ringfall(&scratch, words)));
        let shown = shown.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(shown.contains(told), "{words:?}: {shown}");
    }
    of("--what-if-users 1,2 --output result.json --html-output t.html");
    let table = std::fs::read(scratch.file("result.json")).unwrap();
    let table: Value = serde_json::from_slice(&table).unwrap();
    assert_valid_as("what-if", &table);
    assert_eq!(table["doubts"], serde_json::json!([format!("shaky: {doubt}")]));
    let page = std::fs::read_to_string(scratch.file("t.html")).unwrap();
    assert!(page.contains("much of this</li>"), "{page}");
}
