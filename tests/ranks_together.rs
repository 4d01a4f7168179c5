//! Ranks that decide together: the autoscaler and `saturate` over all of them.

use std::process::{Command, Stdio};

use crate::ranks::{as_rank, launch, result_of};
use crate::support::{Scratch, finish, spawn, text};

#[test]
fn one_autoscaler_decides_for_all_ranks() {
    let scratch = Scratch::new("ranks-scaled");
    let more = ["--enable-autoscaling", "--autoscaler-mode", "capacity", "--duration", "12"];
    let outputs: Vec<_> = launch(&scratch, 2, &more).into_iter().map(finish).collect();
    for output in &outputs {
        assert_eq!(output.status.code(), Some(0), "{}", text(output));
    }
    let merged = scratch.json();
    let found = &merged["ringfall"]["autoscaler"];
    assert_eq!(found["ranks"], 2, "{found}");
    let curve = found["curve"].as_array().unwrap();
    assert_eq!(curve[0]["users"], 12, "six of each rank");
    assert!(curve.len() >= 2, "{found}");
    assert_eq!(result_of(&scratch, 0)["ringfall"]["autoscaler"], *found);
    assert!(result_of(&scratch, 1)["ringfall"]["autoscaler"].is_null());
    // Both had their share of the users of each step in its window.
    let users_of = |rank: u32| {
        let document = result_of(&scratch, rank);
        let rows = document["ringfall"]["timeline"].as_array().unwrap().clone();
        rows.iter().map(|row| row["users"].as_u64().unwrap()).max().unwrap()
    };
    let most = curve.iter().map(|step| step["users"].as_u64().unwrap()).max().unwrap();
    assert!(most >= 24 && users_of(0) + users_of(1) >= most, "{found}");
}

#[test]
fn limits_of_ranks_add_up() {
    let scratch = Scratch::new("ranks-limits");
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
    let limits: serde_json::Value = serde_json::from_slice(&text).unwrap();
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
