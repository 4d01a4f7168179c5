//! The command lines of the benchmark's founding documents, run for real: each as published but for
//! a number of requests at which it ends, a directory, small contexts, and memory and storage that
//! are as much smaller.

use std::process::{Command, Stdio};

use serde_json::Value;

use crate::support::{Scratch, assert_valid, output, text};

/// The documents, as the table of published commands calls them, and how many commands each has.
const DOCUMENTS: [(&str, usize); 3] =
    [("results-summary", 2), ("user-guide", 8), ("invocations-by-model", 6)];
/// Requests after which a run ends: enough to evict from every tier but the largest.
const REQUESTS: u64 = 40;
/// By how much the CPU tiers are smaller than published, as contexts are by still more.
const SMALLER: f64 = 32.0;
/// Runs beside each other, so that the test takes half the time.
const AT_ONCE: usize = 2;

/// One published command line.
struct Published {
    source: &'static str,
    arguments: Vec<&'static str>,
}

impl Published {
    /// All that the table has of the documents.
    fn all() -> Vec<Published> {
        let table = include_str!("data/published_commands.tsv");
        let rows = table.lines().filter(|line| !line.starts_with('#'));
        let published = rows.map(|row| {
            let columns: Vec<&str> = row.split('\t').collect();
            let [_, source, arguments] = columns[..] else { panic!("{row}") };
            Published { source, arguments: arguments.split(' ').collect() }
        });
        // A single flag that a document names is no command.
        let is_asked = |one: &Published| {
            let is_theirs =
                DOCUMENTS.iter().any(|(name, _)| one.source.split(':').next() == Some(*name));
            is_theirs && one.has("--model")
        };
        published.filter(is_asked).collect()
    }

    fn has(&self, flag: &str) -> bool {
        self.arguments.contains(&flag)
    }

    /// The value of a flag, by either of its names.
    fn value(&self, names: &[&str]) -> Option<&'static str> {
        let at = self.arguments.iter().position(|word| names.contains(word))?;
        Some(self.arguments[at + 1])
    }

    fn number(&self, names: &[&str]) -> f64 {
        self.value(names).map_or(0.0, |value| value.parse().unwrap())
    }

    fn cpu_gib(&self) -> f64 {
        self.number(&["--cpu-mem-gb", "--cpu-memory-gb"])
    }

    fn users(&self) -> f64 {
        self.number(&["--num-users", "--users"])
    }
}

/// Runs it; its result, and what it printed.
fn ran(published: &Published) -> (Value, String) {
    let scratch = Scratch::new("invocation");
    let mut command = Command::new(env!("CARGO_BIN_EXE_ringfall"));
    // Of a flag that is given twice the last counts.
    command.arg("run").args(&published.arguments);
    command.args(["--max-requests", &REQUESTS.to_string(), "--storage-capacity-gb", "0.5"]);
    command.args(["--cpu-mem-gb", &(published.cpu_gib() / SMALLER).to_string()]);
    command.args(["--config", concat!(env!("CARGO_MANIFEST_DIR"), "/tests/published_runs.yaml")]);
    command.arg("--cache-dir").arg(scratch.store());
    // As on a machine without a GPU, also where there is one.
    command.env("CUDA_VISIBLE_DEVICES", "");
    command.current_dir(&scratch.path).stdin(Stdio::null());
    let ended = output(command);
    let printed = text(&ended);
    let source = published.source;
    assert_eq!(ended.status.code(), Some(0), "{source}: {printed}");
    assert!(!printed.contains("panicked"), "{source}: {printed}");
    let result = published.value(&["--output"]).unwrap();
    let result =
        std::fs::read(scratch.file(result)).unwrap_or_else(|why| panic!("{source}: {why}"));
    let json = serde_json::from_slice(&result).unwrap();
    assert_valid(&json);
    assert!(!scratch.store().join("ringfall.kv").exists(), "{source}: it left its data");
    (json, printed)
}

/// The result is of the run that was asked for, and its main figures fit together.
fn assert_plausible(published: &Published, json: &Value, printed: &str) {
    let source = published.source;
    let number = |path: &str| {
        let found = json.pointer(path).and_then(Value::as_f64);
        found.unwrap_or_else(|| panic!("{source}: {path} is no number"))
    };
    let config = |key: &str| &json["ringfall"]["config"][key];
    assert_eq!(config("model").as_str(), published.value(&["--model"]), "{source}");
    assert_eq!(config("duration_s").as_f64(), Some(published.number(&["--duration"])), "{source}");
    let mode = published.value(&["--generation-mode"]);
    assert_eq!(config("generation_mode").as_str(), mode, "{source}");
    let allocations = published.number(&["--max-concurrent-allocs"]);
    assert_eq!(config("max_concurrent_allocs").as_f64().unwrap_or(0.0), allocations, "{source}");
    if let Some(seed) = published.value(&["--seed"]) {
        assert_eq!(json["seed"].to_string(), seed, "{source}");
    }
    let is_autoscaled = published.has("--enable-autoscaling");
    let requests = number("/summary/total_requests");
    assert_eq!(requests, number("/requests_completed"), "{source}");
    if is_autoscaled {
        assert!(requests >= 1.0, "{source}: {requests}");
        assert!(json["summary"]["autoscaling_stats"].is_array(), "{source}");
    } else {
        assert_eq!(config("num_users").as_f64(), Some(published.users()), "{source}");
        assert_eq!(requests, REQUESTS as f64, "{source}");
    }
    let (tokens, seconds) = (number("/summary/total_tokens"), number("/summary/elapsed_time"));
    // A turn's answer is from a quarter of its user's length, which is of 5 to 20 tokens, and where
    // tokens take time the short ones are over first.
    assert!((1.0..=20.0).contains(&(tokens / requests)), "{source}: {tokens} tokens");
    assert!(0.0 < seconds && seconds <= published.number(&["--duration"]), "{source}: {seconds}");
    let rate = number("/summary/avg_throughput_tokens_per_sec");
    assert!((rate * seconds / tokens - 1.0).abs() < 1e-6, "{source}: {rate}");
    let stats = |key: &str| number(&format!("/summary/cache_stats/{key}"));
    assert!((0.0..=1.0).contains(&stats("cache_hit_rate")), "{source}");
    assert!(stats("decode_bytes_read_gb") > 0.0, "{source}");
    assert!(stats("prefill_bytes_written_gb") > 0.0, "{source}");
    let of_storage = stats("tier_storage_kv_bytes_read_gb");
    // Without a CPU tier every read is the drive's; what was published with 4 GiB overflows.
    if published.cpu_gib() == 0.0 {
        assert!((of_storage / stats("total_read_gb") - 1.0).abs() < 1e-9, "{source}");
    }
    if published.cpu_gib() <= 4.0 && !is_autoscaled {
        assert!(stats("tier_storage_kv_bytes_written_gb") > 0.0, "{source}");
    }
    let classes = ["interactive", "responsive", "batch"].into_iter().filter_map(|class| {
        json.pointer(&format!("/summary/qos_metrics/{class}/total_requests"))?.as_f64()
    });
    assert_eq!(classes.sum::<f64>(), requests, "{source}");
    let profile = published.value(&["--performance-profile"]).unwrap_or("latency");
    assert_eq!(config("performance_profile").as_str(), Some(profile), "{source}");
    let judged = number("/summary/cache_stats/storage_health/total_count");
    assert!(judged >= 1.0, "{source}: nothing was judged");
    if published.has("--enable-rag") {
        assert!(number("/ringfall/cache/ingested_chunks") > 0.0, "{source}");
    }
    let warnings = json["ringfall"]["warnings"].as_array().unwrap();
    let is_left_out = warnings.iter().any(|warning| warning["code"] == "gpu_left_out");
    let asked_for_gpu = published.number(&["--gpu-mem-gb", "--gpu-memory-gb"]) > 0.0;
    assert_eq!(is_left_out, asked_for_gpu, "{source}: {warnings:?}");
    let told = printed.contains("16.0 GiB left out");
    assert_eq!(told, asked_for_gpu, "{source}: {printed}");
}

#[test]
fn the_founding_documents_command_lines_run_for_real() {
    let all = Published::all();
    for (document, count) in DOCUMENTS {
        let of_it = all.iter().filter(|one| one.source.starts_with(document)).count();
        assert_eq!(of_it, count, "{document}");
    }
    let with_gpu = all.iter().filter(|one| one.number(&["--gpu-mem-gb"]) > 0.0).count();
    assert_eq!((all.len(), with_gpu), (16, 3));
    std::thread::scope(|threads| {
        let lanes = (0..AT_ONCE).map(|lane| {
            let of_lane = all.iter().skip(lane).step_by(AT_ONCE);
            threads.spawn(move || {
                for published in of_lane {
                    let (json, printed) = ran(published);
                    assert_plausible(published, &json, &printed);
                }
            })
        });
        let lanes: Vec<_> = lanes.collect();
        for lane in lanes {
            if let Err(panic) = lane.join() {
                std::panic::resume_unwind(panic);
            }
        }
    });
}
