use std::path::Path;

use ringfall_model::metrics::{DECODE_READ, STORAGE_THROUGHPUT, WALL_CLOCK};

use super::*;

fn published(name: &str) -> Collection {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data");
    Collection::read(&data.join(name)).unwrap()
}

fn collection(rows: &[(u64, &[f64])]) -> Collection {
    let run = |users: u64, value: f64| {
        let configuration = Configuration {
            cpu_memory_mib: 0,
            model: "m".into(),
            users,
            max_concurrent_allocs: 0,
            generation_mode: "none".into(),
        };
        let is_it = |metric: &Metric| metric.key == "end_to_end_p95_ms";
        let value = |metric| is_it(metric).then_some(Value::exact(value));
        Run {
            load: Load::of_configuration(&configuration),
            configuration: Some(configuration),
            values: METRICS.iter().map(value).collect(),
        }
    };
    let runs = rows.iter().flat_map(|(users, trials)| trials.iter().map(|&v| run(*users, v)));
    Collection { path: "x".into(), runs: runs.collect(), ..Collection::default() }
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

/// Medians, the order of the models, and the six published expected ratios.
#[test]
fn the_published_medians_orders_and_expected_ratios_are_found_again() {
    let pairs = matched(&published("discovery_fast.xlsx"), &published("discovery_slow.xlsx"));
    let by = groups(&pairs, &[Dimension::CpuMemory, Dimension::Generation]);
    let none = by.iter().find(|group| group.label == "CPU memory 0 GiB, generation none").unwrap();
    let storage = none.row(STORAGE_THROUGHPUT).unwrap();
    assert!((storage.median_of_ratios.unwrap() - 1.125).abs() < 5e-4, "published: 1.12");
    assert_eq!(rounded(storage.ratio_of_medians, 2), 1.26);
    let mut models = groups(&pairs, &[Dimension::Model]);
    let labels = |groups: &[Group]| -> Vec<String> {
        groups.iter().map(|group| group.label.clone()).collect()
    };
    Order::StorageThroughput.sort(&mut models);
    let want = ["llama3.1-8b", "mistral-7b", "llama2-7b", "llama3.1-70b-instruct"];
    assert_eq!(labels(&models), want);
    Order::DecodeRead.sort(&mut models);
    assert_eq!(labels(&models)[0], "llama3.1-70b-instruct");
    let expected = [
        ("llama2-7b", 0, 150, 0, WALL_CLOCK, 4.64),
        ("llama2-7b", 4, 200, 4, STORAGE_THROUGHPUT, 2.34),
        ("llama3.1-8b", 0, 200, 0, WALL_CLOCK, 2.70),
        ("llama3.1-8b", 4, 150, 0, STORAGE_THROUGHPUT, 2.87),
        ("llama3.1-70b-instruct", 0, 70, 0, WALL_CLOCK, 2.44),
        ("llama3.1-70b-instruct", 4, 20, 4, STORAGE_THROUGHPUT, 3.25),
    ];
    for (model, gib, users, max_concurrent_allocs, metric, ratio) in expected {
        let configuration = Configuration {
            cpu_memory_mib: gib * 1024,
            model: model.to_owned(),
            users,
            max_concurrent_allocs,
            generation_mode: "none".to_owned(),
        };
        let pair = pairs.iter().find(|p| p.configuration.as_ref() == Some(&configuration)).unwrap();
        let metric = Metric::by_key(metric).unwrap();
        assert_eq!(rounded(pair.ratio(metric), 2), ratio, "{configuration}");
    }
}

/// Three of the six expected ratios (4.64, 2.87 and 3.25) are the best of their model; the others
/// are surpassed by another configuration.
#[test]
fn the_best_configuration_of_a_model_is_found_by_a_metric_to_go_by() {
    let pairs = matched(&published("discovery_fast.xlsx"), &published("discovery_slow.xlsx"));
    let best = crate::analysis::best::best(&pairs);
    let of = |model: &str, gib: u64, metric: &str| {
        let is_it = |row: &&crate::analysis::best::Best| {
            row.configuration.model == model
                && row.configuration.cpu_memory_mib == gib * 1024
                && row.metric == metric
        };
        let row = best.iter().find(is_it).unwrap();
        let configuration = &row.configuration;
        (rounded(Some(row.ratio), 2), configuration.users, configuration.max_concurrent_allocs)
    };
    assert_eq!(of("llama2-7b", 0, WALL_CLOCK), (4.64, 150, 0));
    assert_eq!(of("llama2-7b", 4, STORAGE_THROUGHPUT), (2.93, 200, 2));
    assert_eq!(of("llama3.1-8b", 4, STORAGE_THROUGHPUT), (2.87, 150, 0));
    assert_eq!(of("llama3.1-70b-instruct", 4, STORAGE_THROUGHPUT), (3.25, 20, 4));
    assert!(best.iter().all(|row| row.configuration.generation_mode == "none"));
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
