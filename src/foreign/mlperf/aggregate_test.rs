use ringfall_config::{Cores, Rank};
use ringfall_host::{Launcher, Scratch};
use ringfall_model::RunResult;
use ringfall_model::testing::to_json;
use ringfall_model::testing::{file, run};

use super::*;

/// A run as rank `rank` of two, each on its own machine.
fn rank(rank: u32, events: std::ops::Range<u64>) -> RunResult {
    let mut result = run(events, 10.0);
    let launcher = Launcher {
        rank,
        size: Some(2),
        local_rank: Some(0),
        local_size: Some(1),
        launch: Some("job".into()),
    };
    let host = format!("node{rank}");
    result.plan.rank = Some(Rank {
        launcher,
        host,
        cores: Cores::All,
        common_output: None,
        merged: None,
        is_by_mpi: false,
    });
    result
}

/// The tree of a run with these results: option, trial, rank.
fn tree(name: &str, results: &[(u32, u32, u32, RunResult)]) -> Scratch {
    let run = Scratch::new(name);
    for (option, trial, rank, result) in results {
        let directory = trial_directory(&run, *option, *trial).join(rank_name(*rank));
        std::fs::create_dir_all(&directory).unwrap();
        let bytes = serde_json::to_vec(&to_json(result)).unwrap();
        std::fs::write(directory.join("kvcache_results_a.json"), bytes).unwrap();
    }
    run
}

#[test]
fn rates_are_the_harness_s_and_percentiles_those_of_all_together() {
    let trials = [(0, 0..500, 500..1_000), (1, 1_000..1_500, 1_500..2_000)];
    let results: Vec<_> = trials
        .into_iter()
        .flat_map(|(trial, one, two)| [(1, trial, 0, rank(0, one)), (1, trial, 1, rank(1, two))])
        .collect();
    let directory = tree("aggregate", &results);
    let shape = Shape::found(&directory);
    assert_eq!(shape, Shape { options: vec![1], trials: 2, ranks: 2 });
    let is_result = |file: &PathBuf| file.ends_with("rank_1/kvcache_results_a.json");
    assert_eq!(shape.files(&directory).iter().filter(|file| is_result(file)).count(), 2);
    let added = add_up(&directory, &shape, &["ringfall".to_owned()]);
    let summary = &added.summary;
    assert_eq!((summary.total_ranks, summary.host_count, summary.npernode), (2, 2, 1));
    assert_eq!((summary.partial_failure, summary.trial_failures.len()), (false, 0));
    let option = &summary.options["1"];
    let of = |result: &RunResult| {
        let document = file("x.json", to_json(result)).document;
        document.summary.avg_throughput_tokens_per_sec.known().unwrap()
    };
    let sum: f64 = results.iter().map(|(_, _, _, result)| of(result)).sum();
    let close = |is: f64, expected: f64| {
        assert!((is - expected).abs() < 1e-9 * expected, "{is} and {expected}");
    };
    close(option.aggregated_avg_throughput_tokens_per_sec, sum / 2.0);
    // All ranks measured for the same 10 s of each trial.
    let merged = option.ringfall.merged.as_ref().unwrap();
    close(merged.seconds.unwrap(), 20.0);
    close(merged.tokens_per_s.unwrap(), sum / 2.0);
    let whole = file("whole.json", to_json(&run(0..2_000, 10.0)));
    let whole = Histograms::read(&whole.document, &whole.path).unwrap();
    for (name, is) in [
        ("storage_read_total", &merged.storage_read_ms),
        ("storage_write_device", &merged.storage_write_device_ms),
        ("storage_io", &merged.storage_io_ms),
    ] {
        assert_eq!(*is, LatencyMsMax::of(whole.get(name).unwrap()), "{name}");
    }
    // The largest P95 of the ranks is another figure.
    let exact = merged.storage_read_ms.as_ref().unwrap().percentiles.p95.known().unwrap();
    assert!(option.aggregated_storage_read_p95_ms >= exact);
    assert_eq!(added.merged.len(), 1);
}

#[test]
fn what_is_missing_is_named_and_the_rest_added_up() {
    let results = [(2, 0, 0, rank(0, 0..100)), (2, 0, 1, rank(1, 100..200))];
    let directory = tree("missing", &results);
    let lost = trial_directory(&directory, 2, 0).join("rank_1/kvcache_results_a.json");
    std::fs::write(&lost, "{ \"summary\":").unwrap();
    let shape = Shape { options: vec![2], trials: 2, ranks: 2 };
    let added = add_up(&directory, &shape, &[]);
    let option = &added.summary.options["2"];
    assert!(added.summary.partial_failure && option.partial_failure);
    let empty = trial_directory(&directory, 2, 1);
    let missing = [lost, empty.join("rank_0"), empty.join("rank_1")];
    assert_eq!(option.missing_files, missing.map(|path| path.display().to_string()));
    assert_eq!(added.summary.trial_failures["option_2/trial_0"], "1 of 2 ranks have a result");
    // An empty trial counts as 0, as in the harness.
    let rows = &option.ringfall.trials;
    assert_eq!((rows[0].ranks, rows[1].ranks), (1, 0));
    let mean = option.aggregated_avg_throughput_tokens_per_sec;
    assert_eq!(mean, rows[0].tokens_per_s / 2.0);
    assert!(option.ringfall.merged.is_none(), "a trial is missing");
}

#[test]
fn results_of_the_reference_are_added_up_without_exact_figures() {
    let run = Scratch::new("foreign");
    let result = serde_json::json!({
        "requests_completed": 4,
        "summary": {
            "avg_throughput_tokens_per_sec": 12.5,
            "storage_io_latency_ms": { "p95": 7.0 },
            "cache_stats": {
                "storage_entries": 0,
                "tier_storage_read_bandwidth_gbps": 2.5,
                "storage_read_device_p95_ms": 3.5
            }
        }
    });
    run.file("option_1/trial_0/rank_0/kvcache_results_a.json", result.to_string());
    let added = add_up(&run, &Shape::found(&run), &[]);
    let option = &added.summary.options["1"];
    assert_eq!(option.aggregated_read_bandwidth_gbps, 2.5);
    assert_eq!(option.aggregated_avg_throughput_tokens_per_sec, 12.5);
    assert_eq!(option.aggregated_p95_latency_ms, 7.0);
    assert_eq!(option.aggregated_device_read_p95_ms, 3.5);
    assert_eq!(option.cpu_tier_ranks.len(), 1);
    assert!(option.ringfall.merged.is_none());
    assert!(option.ringfall.notes[0].contains("reference benchmark"), "{:?}", option.ringfall);
}
