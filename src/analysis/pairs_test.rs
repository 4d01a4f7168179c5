use std::path::Path;

use super::*;
use crate::results::metrics::{DECODE_READ, STORAGE_THROUGHPUT, WALL_CLOCK};

fn published(name: &str) -> Collection {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    Collection::read(&data.join(name)).unwrap()
}

fn collection(rows: &[(u64, &[f64])]) -> Collection {
    let run = |users: u64, value: f64| Run {
        configuration: Configuration {
            cpu_memory_mib: 0,
            model: "m".into(),
            users,
            max_concurrent_allocs: 0,
            generation_mode: "none".into(),
        },
        values: METRICS.iter().map(|m| (m.key == "end_to_end_p95_ms").then_some(value)).collect(),
    };
    let runs = rows.iter().flat_map(|(users, trials)| trials.iter().map(|&v| run(*users, v)));
    Collection { path: "x".into(), runs: runs.collect(), left_out: Vec::new() }
}

fn rounded(value: Option<f64>, digits: i32) -> f64 {
    let scale = 10_f64.powi(digits);
    (value.unwrap() * scale).round() / scale
}

/// The published analysis of the same runs: 220 matched configurations, and these figures.
#[test]
fn the_published_findings_are_found_again() {
    let pairs = matched(&published("discovery_fast.xlsx"), &published("discovery_slow.xlsx"));
    assert_eq!(pairs.len(), 220);
    let groups = groups(&pairs, &[Dimension::CpuMemory]);
    assert_eq!(
        groups.iter().map(|g| g.label.as_str()).collect::<Vec<_>>(),
        ["CPU memory 0 GiB", "CPU memory 4 GiB"]
    );
    let row = |group: usize, metric: &str| groups[group].row(metric).unwrap();
    assert_eq!((row(0, DECODE_READ).pairs, row(1, DECODE_READ).pairs), (111, 109));
    assert_eq!(rounded(row(0, DECODE_READ).mean_of_ratios, 2), 2.62);
    assert_eq!(row(0, DECODE_READ).win_rate, Some(1.0));
    assert_eq!(rounded(row(0, WALL_CLOCK).mean_of_ratios, 2), 2.43);
    assert_eq!(row(0, WALL_CLOCK).win_rate, Some(1.0));
    assert_eq!(rounded(row(0, STORAGE_THROUGHPUT).win_rate, 3), 0.622);
    assert_eq!(rounded(row(1, STORAGE_THROUGHPUT).ratio_of_means, 2), 2.23);
    assert_eq!(rounded(row(1, STORAGE_THROUGHPUT).win_rate, 3), 0.972);
}

#[test]
fn trials_are_averaged_before_anything_else() {
    let fast = collection(&[(1, &[1.0, 3.0]), (2, &[8.0]), (9, &[5.0])]);
    let slow = collection(&[(1, &[4.0]), (2, &[4.0, 4.0]), (7, &[5.0])]);
    let pairs = matched(&fast, &slow);
    assert_eq!(pairs.len(), 2);
    let all = groups(&pairs, &[]);
    assert_eq!((all.len(), all[0].label.as_str()), (1, "all configurations"));
    let row = all[0].row("end_to_end_p95_ms").unwrap();
    assert_eq!(row.ratio_of_means, Some(10.0 / 8.0));
    assert_eq!(row.mean_of_ratios, Some((0.5 + 2.0) / 2.0));
    // Of a latency the lower wins.
    assert_eq!(row.win_rate, Some(0.5));
    assert_eq!(row.fast_trial_cv, Some(2.0_f64.sqrt() / 2.0));
    assert_eq!(row.slow_trial_cv, Some(0.0));
    assert_eq!(all[0].rows.len(), 1, "metrics that nobody measured have no row");
    let users = groups(&pairs, &[Dimension::CpuMemory, Dimension::Users]);
    assert_eq!(users[1].label, "CPU memory 0 GiB, 2 users");
}

#[test]
fn a_zero_has_no_ratio() {
    let pairs = matched(&collection(&[(1, &[1.0])]), &collection(&[(1, &[0.0])]));
    let all = groups(&pairs, &[]);
    let row = all[0].row("end_to_end_p95_ms").unwrap();
    assert_eq!((row.ratio_of_means, row.mean_of_ratios), (None, None));
    assert_eq!(row.win_rate, Some(0.0));
}
