//! Ranks that decide together: the autoscaler and `saturate` over all of them.

use std::process::{Command, Stdio};

use serde_json::Value;

use crate::ranks::{as_rank, launch, result_of};
use crate::support::{Scratch, finish, spawn, text};

#[test]
fn one_autoscaler_sees_what_all_ranks_do_and_ends_all_of_them() {
    let scratch = Scratch::new("ranks-scaled");
    // Without what the other rank does, and without a word from rank 0, they would go on.
    let more = ["--enable-autoscaling", "--autoscaler-mode", "capacity", "--duration", "80"];
    let more = [&more[..], &["--max-requests", "40"]].concat();
    let outputs: Vec<_> = launch(&scratch, 2, &more).into_iter().map(finish).collect();
    for output in &outputs {
        assert_eq!(output.status.code(), Some(0), "{}", text(output));
    }
    let ranks = [0, 1].map(|rank| result_of(&scratch, rank));
    let requests = |document: &Value| document["requests_completed"].as_u64().unwrap();
    assert!(requests(&ranks[0]) + requests(&ranks[1]) >= 80, "40 of each");
    let seconds = |document: &Value| document["ringfall"]["window"]["seconds"].as_f64().unwrap();
    assert!(ranks.iter().all(|rank| seconds(rank) < 60.0));
    let merged = scratch.json();
    let found = &merged["ringfall"]["autoscaler"];
    assert_eq!((&found["ranks"], &found["mode"]), (&2.into(), &"capacity".into()), "{found}");
    assert_eq!(ranks[0]["ringfall"]["autoscaler"], *found);
    assert!(ranks[1]["ringfall"]["autoscaler"].is_null());
    assert_eq!(merged["summary"]["autoscaling_summary"]["initial_users"], 12, "6 of each");
    for rank in &ranks {
        assert_eq!(rank["ringfall"]["timeline"][0]["users"], 6);
    }
}

#[test]
fn limits_of_ranks_add_up() {
    let scratch = Scratch::new("ranks-limits");
    // Each rank warns of a directory that is missing on its machine.
    std::fs::create_dir(scratch.store()).unwrap();
    let command = |rank| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ringfall"));
        command.args(["saturate", "--size-gb", "0.0625", "--time-limit", "6", "--no-iops"]);
        command.args(["--read-percent", "100", "--threads", "1", "--depth-max", "8"]);
        command.args(["--ranks", "directory", "--output", "limits.json"]);
        command.arg("--cache-dir").arg(scratch.store());
        command.current_dir(&scratch.path).stdin(Stdio::null());
        spawn(as_rank(command, rank, 2))
    };
    let outputs: Vec<_> = [command(0), command(1)].into_iter().map(finish).collect();
    for output in &outputs {
        assert_eq!(output.status.code(), Some(0), "{}", text(output));
    }
    assert!(text(&outputs[0]).contains("2 ranks together"), "{}", text(&outputs[0]));
    assert_eq!(text(&outputs[1]), "", "rank 0 tells of both");
    let text = std::fs::read(scratch.file("limits.json")).unwrap();
    let limits: Value = serde_json::from_slice(&text).unwrap();
    assert_eq!(limits["ranks"].as_array().unwrap().len(), 2);
    assert_eq!((&limits["threads"], &limits["range_bytes"]), (&2.into(), &(128_u64 << 20).into()));
    let bandwidth = &limits["limits"][0]["bandwidth"];
    for point in bandwidth["probes"].as_array().unwrap().iter().chain([&bandwidth["best"]]) {
        let ranks = point["ranks_bytes_per_s"].as_array().unwrap();
        let rates: Vec<f64> = ranks.iter().map(|rate| rate.as_f64().unwrap()).collect();
        let sum = point["bytes_per_s"].as_f64().unwrap();
        assert!(rates.len() == 2 && (rates[0] + rates[1] - sum).abs() < 1e-6 * sum, "{point}");
        // One I/O in flight is one rank's.
        assert!(rates[0] > 0.0 && (rates[1] > 0.0) == (point["depth"].as_u64() > Some(1)));
    }
    assert!(!scratch.store().join("rank_1/ringfall.kv").exists());
}
