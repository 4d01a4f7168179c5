//! Real runs on a real file system: what they report adds up.

use serde_json::Value;

use crate::support::{Scratch, assert_fails, ended_well, finish, output, text};

fn number(value: &Value, path: &str) -> f64 {
    value.pointer(path).and_then(Value::as_f64).unwrap_or_else(|| panic!("{path} is no number"))
}

/// The next run would have deleted the results, or told the user to.
#[test]
fn an_output_with_the_name_of_a_runs_data_is_refused() {
    let scratch = Scratch::new("data-name");
    for (flag, name) in
        [("--html-output", "store/ringfall.kv"), ("--fio-output", "store/ringfall.lock")]
    {
        assert_fails(&scratch.run(&[flag, name]), 2, &[flag, name, "give to their data"]);
        assert!(!scratch.store().exists(), "{name}");
    }
}

#[test]
fn a_run_moves_bytes_verifies_them_and_its_sums_hold() {
    let scratch = Scratch::new("sums");
    ended_well(scratch.run(&["--max-requests", "24", "--duration", "60", "--verify", "full"]));
    let json = scratch.json();
    assert!(number(&json, "/requests_completed") > 0.0);
    assert_eq!(number(&json, "/ringfall/verify/blocks_bad"), 0.0);
    assert!(number(&json, "/ringfall/verify/blocks_checked") > 1_000.0);
    // Rule 1: bandwidth × window = bytes, and the seconds add up to the whole.
    let seconds = number(&json, "/ringfall/window/seconds");
    assert!(seconds > 0.0 && seconds < 61.0, "{seconds}");
    for direction in ["read", "write"] {
        let bytes = number(&json, &format!("/ringfall/io/{direction}/bytes"));
        let rate = number(&json, &format!("/ringfall/io/{direction}/bandwidth_gib_per_s"));
        assert!((rate * seconds * f64::from(1 << 30) - bytes).abs() < 1.0 + bytes * 1e-9);
        let timeline = json.pointer("/ringfall/timeline").unwrap().as_array().unwrap();
        let sum: f64 = timeline
            .iter()
            .map(|row| number(row, &format!("/tiers/storage/{direction}/bytes")))
            .sum();
        assert_eq!(sum, bytes, "{direction}");
    }
    // The tiers' sum is the total, and so is their bandwidth over the window.
    for (direction, written) in [("read", "read"), ("write", "written")] {
        let stats = "/summary/cache_stats";
        let tiers = ["gpu", "cpu", "storage"];
        let gib: f64 = tiers
            .iter()
            .map(|tier| number(&json, &format!("{stats}/tier_{tier}_kv_bytes_{written}_gb")))
            .sum();
        let total = number(&json, &format!("{stats}/total_{direction}_gb"));
        assert!(total > 0.0 && (gib - total).abs() < 1e-9 * total, "{gib} {total}");
        let rate: f64 = tiers
            .iter()
            .map(|tier| number(&json, &format!("{stats}/tier_{tier}_{direction}_bandwidth_gbps")))
            .sum();
        assert!((rate * seconds - total).abs() < 1e-9 * total, "{rate} {total}");
        let entries = number(&json, &format!("/ringfall/io/{direction}/entry_bytes"));
        let blocks = number(&json, &format!("/ringfall/io/{direction}/bytes"));
        assert!(entries > 0.0 && entries <= blocks, "{entries} {blocks}");
        let ios = number(&json, &format!("/ringfall/io/{direction}/count"));
        let timeline = json.pointer("/ringfall/timeline").unwrap().as_array().unwrap();
        let bucketed: f64 = timeline
            .iter()
            .flat_map(|row| row[format!("io_{direction}_buckets")].as_array().unwrap())
            .map(|pair| number(pair, "/1"))
            .sum();
        assert_eq!(bucketed, ios, "{direction}");
    }
    let sum = |key: &str| -> f64 {
        let timeline = json.pointer("/ringfall/timeline").unwrap().as_array().unwrap();
        timeline.iter().map(|row| number(row, key)).sum()
    };
    assert_eq!(sum("/requests_completed"), number(&json, "/requests_completed"));
    assert_eq!(sum("/generated_tokens"), number(&json, "/total_tokens_generated"));
    let classes = ["interactive", "responsive", "batch"];
    let by_class: f64 = classes
        .iter()
        .filter_map(|class| {
            json.pointer(&format!("/summary/qos_metrics/{class}/total_requests"))?.as_f64()
        })
        .sum();
    assert_eq!(by_class, number(&json, "/summary/total_requests"));
    assert_eq!(
        json["end_to_end_latencies"].as_array().unwrap().len() as f64,
        number(&json, "/requests_completed")
    );
    assert_eq!(scratch.leftovers(), [""; 0], "a run cleans up after itself");
}

#[test]
fn a_run_with_a_cpu_tier_demotes_and_reads_back_from_both() {
    let scratch = Scratch::new("tiers");
    let bounded = ["--max-requests", "90", "--duration", "60", "--shards", "2"];
    let output =
        scratch.run(&[&["--cpu-mem-gb", "0.25", "--verify", "full"], &bounded[..]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    let json = scratch.json();
    let stats = "/summary/cache_stats";
    assert!(number(&json, &format!("{stats}/offloads_storage")) > 0.0);
    assert!(number(&json, &format!("{stats}/tier_cpu_kv_bytes_read_gb")) > 0.0);
    assert!(number(&json, &format!("{stats}/tier_storage_kv_bytes_written_gb")) > 0.0);
    assert!(number(&json, &format!("{stats}/cpu_memory_used_gb")) <= 0.25);
    assert_eq!(number(&json, "/ringfall/verify/blocks_bad"), 0.0);
    assert!(json.pointer("/ringfall/evictions/cpu_to_storage/write_ms/p95").is_some());
}

#[test]
fn decode_only_reads_what_was_populated_and_nothing_of_that_counts() {
    let scratch = Scratch::new("decode");
    let output =
        scratch.run(&["--decode-only", "--users", "1", "--max-requests", "5", "--duration", "60"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    let json = scratch.json();
    assert_eq!(number(&json, "/summary/cache_stats/prefill_writes"), 0.0);
    assert!(number(&json, "/summary/cache_stats/decode_reads") > 0.0);
    assert_eq!(number(&json, "/summary/cache_stats/cache_misses"), 0.0);
    assert_eq!(number(&json, "/ringfall/io/write/bytes"), 0.0);
}

#[test]
fn preallocated_content_is_no_first_touch_and_reserved_space_is() {
    for (mode, touched) in [("write", false), ("reserve", true), ("grow", true)] {
        let scratch = Scratch::new(mode);
        let output =
            scratch.run(&["--preallocate", mode, "--max-requests", "6", "--duration", "60"]);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output));
        let bytes = number(&scratch.json(), "/ringfall/io/first_touch_bytes");
        assert_eq!(bytes > 0.0, touched, "{mode}: {bytes}");
    }
}

#[test]
fn many_allocation_permits_and_few_end_all_the_same() {
    let scratch = Scratch::new("permits");
    let more =
        ["--max-concurrent-allocs", "1", "--shards", "2", "--warmup", "1", "--duration", "6"];
    ended_well(scratch.run(&more));
    let json = scratch.json();
    assert!(number(&json, "/ringfall/waits/allocation_permit_ms/count") > 0.0);
    assert_eq!(number(&json, "/ringfall/window/warmup_seconds"), 1.0);
}

#[test]
fn a_reader_that_leaves_early_is_no_failure() {
    let scratch = Scratch::new("pipe");
    let mut child = scratch.start(&["--max-requests", "3", "--duration", "60"]);
    drop(child.stdout.take());
    ended_well(finish(child));
    assert!(number(&scratch.json(), "/requests_completed") > 0.0);
}

#[test]
fn injected_latencies_are_in_each_read_and_write_of_the_drive() {
    let scratch = Scratch::new("inject-latency");
    for layout in ["native", "lmcache"] {
        // Verification in full: what is held back is still the I/O's own.
        let more = ["--inject-latency", "20ms", "--verify", "full", "--max-requests", "8"];
        ended_well(scratch.run(&[&more[..], &["--layout", layout]].concat()));
        let json = scratch.json();
        for direction in ["read", "write"] {
            let at = |what: &str| number(&json, &format!("/ringfall/io/{direction}/{what}"));
            assert!(at("count") > 0.0, "{layout} {direction}");
            // Histograms have three digits.
            assert!(at("latency_ms/p50") >= 19.9, "{direction}: {}", at("latency_ms/p50"));
            assert!(at("latency_ms/mean") >= 19.9, "{direction}: {}", at("latency_ms/mean"));
        }
        assert_eq!(json["ringfall"]["verify"]["blocks_bad"], 0);
        let warnings = json["ringfall"]["warnings"].as_array().unwrap();
        assert!(warnings.iter().any(|one| one["code"] == "latency_injected"), "{warnings:?}");
    }
    let refused =
        output(scratch.run_command(&["--inject-latency", "20ms", "--io-trace-log", "t.csv"]));
    assert_fails(&refused, 2, &["--inject-latency", "has no effect"]);
}

/// Both outcomes are told apart by what the run says, as no test can choose the drive.
#[test]
fn completions_are_polled_for_or_the_run_is_refused_before_it_begins() {
    let scratch = Scratch::new("iopoll");
    let ran = output(scratch.run_command(&["--iopoll", "--duration", "1"]));
    let told = text(&ran);
    if ran.status.code() == Some(0) {
        assert!(told.contains("completions polled"), "{told}");
        let ours = &scratch.json()["ringfall"];
        let shards = ours["engine"]["shards"].as_array().unwrap();
        assert!(shards.iter().all(|shard| shard["iopoll"] == true), "{shards:?}");
        assert_eq!(ours["verify"]["blocks_bad"], 0);
    } else {
        let store = scratch.store().display().to_string();
        assert_fails(&ran, 1, &["IOPOLL does not work", &store, "--iopoll", "nvme.poll_queues=N"]);
        assert!(!scratch.file("result.json").exists(), "nothing was measured");
    }
    assert!(!scratch.store().exists(), "its data is deleted");
}

#[test]
fn nvme_commands_go_to_namespaces_alone_and_nothing_is_made_elsewhere() {
    let scratch = Scratch::new("nvme-commands");
    let ran = output(scratch.run_command(&["--nvme-passthrough", "--duration", "1"]));
    let store = scratch.store().display().to_string();
    // What is not there could be a device, until it is opened.
    assert_fails(&ran, 1, &["NVMe passthrough does not work", &store, "leave --nvme-passthrough"]);
    assert!(!scratch.store().exists(), "its data is deleted");
    assert!(!scratch.file("result.json").exists(), "nothing was measured");
    let there = scratch.file("there");
    std::fs::create_dir(&there).unwrap();
    let there = there.display().to_string();
    let ran = output(scratch.run_command(&["--nvme-passthrough", "--cache-dir", &there]));
    assert_fails(&ran, 2, &["--nvme-passthrough", &there, "is no drive", "/dev/nvme0n1"]);
    assert_eq!(std::fs::read_dir(&there).unwrap().count(), 0, "nothing was made there");
    let ran = output(scratch.run_command(&["--nvme-passthrough", "--iopoll"]));
    assert_fails(&ran, 2, &["--iopoll and --nvme-passthrough cannot be combined"]);
}

/// Nothing was said at any level but of failures.
#[test]
fn each_log_level_says_more_than_the_one_before() {
    let said = |level: &str| {
        let scratch = Scratch::new("log-level");
        let ran = ended_well(scratch.run(&["--log-level", level, "--duration", "2"]));
        String::from_utf8_lossy(&ran.stderr).into_owned()
    };
    let parts: [(&str, &[&str]); 3] = [
        (" INFO ", &["opening the store", "opened ", "defer_taskrun", "window begins"]),
        (" DEBUG ", &["shard 0: core ", " MiB of buffers, ", "measuring took "]),
        (" TRACE ", &["a second of a shard", "in_flight: "]),
    ];
    for (place, level) in ["warn", "info", "debug", "trace"].into_iter().enumerate() {
        let log = said(level);
        for (index, (name, words)) in parts.iter().enumerate() {
            let is_said = index < place;
            assert_eq!(log.contains(name), is_said, "{name}at {level}: {log}");
            let lines = || log.lines().filter(|line| line.contains(name));
            for word in words.iter().filter(|_| is_said) {
                assert!(lines().any(|line| line.contains(word)), "{word} at {level}: {log}");
            }
        }
    }
}
