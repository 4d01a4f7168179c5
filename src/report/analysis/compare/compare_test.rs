use ringfall_model::SimulationReport;
use ringfall_model::autoscaling::AutoscalerReport;
use ringfall_model::document::{
    Agreed, Claim, ConfigReport, Contradiction, Ours, told_contradictions,
};
use ringfall_model::facts::{SimulationFigures, TimelineSecond};
use ringfall_model::figures::figure::{Any, Derived, First, Same, Sum};
use ringfall_model::metrics::{DECISIVE, DECODE_READ, STORAGE_THROUGHPUT, WALL_CLOCK};
use ringfall_model::testing::{file, hold_in_seconds, nothing, run, to_json};
use ringfall_model::trust::{Situation, Trust, advise};
use serde_json::json;

use super::*;

/// Row of a metric that is twice the baseline's, as trials show.
fn doubled(metric: &'static str, better: Better, verdict: Verdict) -> Row {
    Row {
        metric,
        better,
        baseline: 1.0,
        baseline_is_bound: false,
        candidate: 2.0,
        candidate_is_bound: false,
        ratio: Some(2.0),
        interval: Some(Interval { low: 1.9, high: 2.1 }),
        basis: Some(Basis::Trials),
        no_interval: None,
        verdict,
    }
}

/// A result of 60 s in which each second did about `per_second` of everything.
fn result(name: &str, events: std::ops::Range<u64>, per_second: u64) -> ResultFile {
    lasting(60, name, events, per_second)
}

/// The same of so many seconds.
fn lasting(seconds: u64, name: &str, events: std::ops::Range<u64>, per_second: u64) -> ResultFile {
    let mut result = run(events.clone(), seconds as f64);
    let all = result.requests.completed();
    result.timeline = (0..seconds)
        .map(|second| {
            let amount = per_second * 1_000 + (second * 7_919 + events.start) % 97 * per_second;
            TimelineSecond {
                end_s: second as f64 + 1.0,
                seconds: 1.0,
                generated_tokens: amount,
                requests_completed: all * (second + 1) / seconds - all * second / seconds,
                ..Default::default()
            }
        })
        .collect();
    hold_in_seconds(&mut result);
    result.requests.generated_tokens = result.timeline.iter().map(|row| row.generated_tokens).sum();
    file(name, to_json(&result))
}

/// The same result of a run with that seed.
pub(super) fn seeded(mut file: ResultFile, seed: u64) -> ResultFile {
    let mut config = file.document.ringfall.config.as_ref().unwrap().clone();
    config.seed = Some(seed);
    config.settings.insert("seed".to_owned(), seed.into());
    file.document.ringfall.config = Agreed::of(config);
    file.document.seed = Same::of(seed);
    file
}

fn row<'a>(comparison: &'a Comparison, metric: &str) -> &'a Row {
    comparison.rows.iter().find(|row| row.metric == metric).unwrap()
}

#[test]
fn a_result_does_not_differ_from_itself() {
    let a = result("a", 0..3_000, 10);
    let comparison = compare(vec![a.clone()], vec![a]).unwrap();
    assert!(comparison.rows.len() > 15);
    for row in &comparison.rows {
        assert!(row.ratio.is_none_or(|ratio| ratio == 1.0), "{row:?}");
        assert!(row.interval.is_none_or(|interval| interval.contains(1.0)), "{row:?}");
        assert!(row.interval.is_some() != row.no_interval.is_some(), "{row:?}");
        assert!(matches!(row.verdict, Verdict::NotShown | Verdict::Unknown));
    }
    assert_eq!(row(&comparison, "end_to_end_p95_ms").basis, Some(Basis::Events));
    assert_eq!(row(&comparison, "request_p50_ms").basis, Some(Basis::Events));
    assert_eq!(row(&comparison, WALL_CLOCK).basis, Some(Basis::Seconds));
    assert!(row(&comparison, STORAGE_THROUGHPUT).no_interval.is_some());
    assert!(comparison.configuration_differences.is_empty());
    assert!(comparison.notes.iter().any(|note| note.contains("one run")));
}

#[test]
fn the_same_file_on_both_sides_is_told() {
    let (a, b) = (result("a", 0..900, 10), result("b", 0..900, 10));
    let cautions = |one: &[&ResultFile], other: &[&ResultFile]| {
        let all = |side: &[&ResultFile]| side.iter().map(|&file| file.clone()).collect();
        compare(all(one), all(other)).unwrap().cautions
    };
    assert_eq!(cautions(&[&a], &[&b]), [] as [String; 0]);
    let told = cautions(&[&a, &b], &[&b]);
    assert!(told.len() == 1 && told[0].contains("the same file (b)"), "{told:?}");
}

#[test]
fn other_seeds_are_told_where_each_side_has_one() {
    let with = |name: &str, seed: u64| seeded(result(name, 0..900, 10), seed);
    let (one, other) = (with("a", 1), with("b", 2));
    let cautions = |a: &[&ResultFile], b: &[&ResultFile]| {
        let all = |side: &[&ResultFile]| side.iter().map(|&file| file.clone()).collect();
        compare(all(a), all(b)).unwrap().cautions
    };
    let told = cautions(&[&one], &[&other]);
    assert!(told.len() == 1 && told[0].contains("the seeds differ (1 and 2)"), "{told:?}");
    assert_eq!(cautions(&[&one], &[&with("c", 1)]), [] as [String; 0]);
    let of_two = compare(vec![one.clone()], vec![other.clone()]).unwrap();
    let why = "No conclusion can be drawn, since the seeds differ (1 and 2).";
    assert_eq!((of_two.conclusion.as_str(), of_two.is_comparable), (why, true));
    // Of several it is those of all, and as many runs of each.
    let both = [&one, &other];
    assert_eq!(cautions(&both, &[&with("c", 2), &with("d", 1)]), [] as [String; 0]);
    assert_eq!(cautions(&[&one], &[&with("c", 1), &with("d", 1)]), [] as [String; 0]);
    for (one, other, values) in [
        (&both[..], &[&with("c", 1)][..], "(1, 2 and 1)"),
        (&both, &[&with("c", 1), &with("d", 2), &with("e", 2)], "(1, 2 and 1, 2, 2)"),
        (&both, &[&with("c", 3), &with("d", 4)], "(1, 2 and 3, 4)"),
    ] {
        let told = cautions(one, other);
        assert!(told.len() == 1 && told[0].contains(values), "{values}: {told:?}");
    }
    // A merged result hides those of its runs.
    let merged = |name: &str, seeds: [u64; 2]| {
        let runs = seeds.map(|seed| with(&format!("{name}{seed}"), seed));
        let document = merge(&runs, &[], &[]).unwrap();
        ResultFile { path: name.into(), document }
    };
    let told = cautions(&[&merged("m", [1, 2])], &[&merged("n", [1, 3])]);
    assert!(told.len() == 1 && told[0].contains("(1, 2 and 1, 3)"), "{told:?}");
    assert_eq!(cautions(&[&merged("m", [1, 2])], &both), [] as [String; 0]);
}

/// Two runs of a drive of 2,700 MB/s had read 1.99 times as much as one of 3,000 MB/s.
#[test]
fn an_amount_of_several_runs_is_that_of_a_mean_run() {
    let named = |name: &str| preset(name, 10, 200);
    let two = || vec![named("b"), named("c")];
    let document = merge(&two(), &[], &[]).unwrap();
    let merged = || vec![ResultFile { path: "m".into(), document: document.clone() }];
    for candidate in [two(), merged(), [merged(), vec![named("d")]].concat()] {
        let there = compare(vec![named("a")], candidate).unwrap();
        for row in &there.rows {
            let is_equal = row.ratio.is_none_or(|ratio| (ratio - 1.0).abs() < 1e-9);
            assert!(is_equal && row.verdict != Verdict::Better, "{row:?}");
        }
        assert!(there.conclusion.starts_with("No difference is shown"), "{}", there.conclusion);
    }
    let mut nested = merged();
    nested.push(named("d"));
    let document = merge(&nested, &[], &[]).unwrap();
    let nested = vec![ResultFile { path: "n".into(), document }];
    let told = compare(vec![named("a")], nested).unwrap().conclusion;
    assert!(told.starts_with("No conclusion can be drawn, since the windows differ"), "{told}");
}

/// Means over different numbers of users were judged as if they were of the same load.
#[test]
fn searches_for_a_number_of_users_are_compared_by_their_answers() {
    let found = |name: &str, found: AutoscalerReport| {
        let mut file = result(name, 0..900, 10);
        file.document.ringfall.autoscaler = Some(found);
        file
    };
    let peak = AutoscalerReport {
        conclusive: Same::of(true),
        peak_gib_per_s: Same::of(4.6612),
        peak_users: Same::of(33),
        ..AutoscalerReport::default()
    };
    let within = AutoscalerReport {
        conclusive: Same::of(false),
        qos_users: Same::of(1),
        ..AutoscalerReport::default()
    };
    let peak = || found("a", peak.clone());
    // Other seeds have a caution of their own, after it.
    let told = |one, other| compare(vec![seeded(one, 1)], vec![seeded(other, 2)]).unwrap().cautions;
    let both = told(peak(), found("b", within));
    assert_eq!(both.len(), 2, "{both:?}");
    for part in [
        "means over all numbers of users",
        "(peak 4.66 GiB/s with 33 users against 1 user, not confirmed)",
        "--num-users",
    ] {
        assert!(both[0].contains(part), "{part}: {both:?}");
    }
    let one = told(result("b", 0..900, 10), peak());
    assert!(one[0].contains("(no search against peak 4.66 GiB/s"), "{one:?}");
}

#[test]
fn other_hit_rates_are_told_before_the_rows() {
    let with = |name: &str, looks: Option<(u64, u64)>| {
        let mut file = result(name, 0..900, 10);
        let cache = &mut file.document.ringfall.cache;
        let (found, of) = looks.unzip();
        (cache.looks, cache.looks_found) = (Sum::maybe(of), Sum::maybe(found));
        cache.look_hit_rate = Derived::maybe(looks.map(|(found, of)| found as f64 / of as f64));
        file
    };
    let told =
        |one, other| compare(vec![with("a", one)], vec![with("b", other)]).unwrap().cautions.pop();
    let text = told(Some((210, 1_000)), Some((995, 1_000))).unwrap();
    for part in ["not of the same work", "(21.0 % and 99.5 % of the looks"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert_eq!(told(Some((98, 100)), Some((96, 100))), None);
    // A result of another version or of the reference does not say.
    assert_eq!(told(None, Some((210, 1_000))), None);
}

#[test]
fn what_is_twice_as_fast_is_said_to_be_so_and_which_way() {
    let (a, b) = (result("a", 0..3_000, 10), result("b", 10..3_010, 20));
    let there = compare(vec![a.clone()], vec![b.clone()]).unwrap();
    let back = compare(vec![b], vec![a]).unwrap();
    let fast = row(&there, WALL_CLOCK);
    assert!((fast.ratio.unwrap() - 2.0).abs() < 0.05, "{fast:?}");
    assert!(fast.interval.unwrap().contains(fast.ratio.unwrap()), "{fast:?}");
    assert!(fast.interval.unwrap().low > 1.9);
    assert_eq!((fast.verdict, row(&back, WALL_CLOCK).verdict), (Verdict::Better, Verdict::Worse));
    // The same latencies but for the ten at the edges.
    assert_eq!(row(&there, "end_to_end_p50_ms").verdict, Verdict::NotShown);
}

#[test]
fn a_percentile_of_few_events_has_no_interval() {
    // As many of each had not finished.
    let (a, b) = (result("a", 0..98, 10), result("b", 98..196, 10));
    let comparison = compare(vec![a], vec![b]).unwrap();
    assert!(row(&comparison, "storage_io_p50_ms").interval.is_some());
    let p99 = row(&comparison, "storage_io_p99_ms");
    assert_eq!((p99.interval, p99.verdict), (None, Verdict::Unknown));
    assert!(p99.no_interval.unwrap().contains("few"));
}

#[test]
fn trials_speak_for_the_difference_between_runs() {
    let trials = |start: u64| -> Vec<ResultFile> {
        let of = |n: u64| result(&format!("t{n}"), n * 1_000..(n + 1) * 1_000, 10 + n);
        (start..start + 3).map(of).collect()
    };
    let comparison = compare(trials(0), trials(3)).unwrap();
    let tokens = row(&comparison, WALL_CLOCK);
    assert_eq!(tokens.basis, Some(Basis::Trials));
    // 13, 14, 15 to 10, 11, 12, of geometric means.
    let want = (13.0_f64 * 14.0 * 15.0 / (10.0 * 11.0 * 12.0)).cbrt();
    assert!((tokens.ratio.unwrap() - want).abs() < 0.03, "{tokens:?}");
    assert!(tokens.interval.unwrap().contains(want));
    assert!(row(&comparison, STORAGE_THROUGHPUT).interval.is_some());
    assert!(!comparison.notes.iter().any(|note| note.contains("one run")));
    // One trial against three: the runs' own variation, and it is said.
    let mixed = compare(trials(0), vec![result("x", 0..900, 10)]).unwrap();
    assert_eq!(row(&mixed, WALL_CLOCK).basis, Some(Basis::Seconds));
    assert!(mixed.notes.iter().any(|note| note.contains("one run")));
}

#[test]
fn differences_and_trust_are_told() {
    let a = result("a", 0..500, 10);
    let mut b = result("b", 500..1_000, 10);
    let ours = &mut b.document.ringfall;
    let mut config = ours.config.as_ref().unwrap().clone();
    config.settings.insert("io_size".to_owned(), "4k".into());
    ours.config = Agreed::of(config);
    ours.machine.cpu_model = Some("other".to_owned());
    let comparison = compare(vec![a], vec![b]).unwrap();
    assert_eq!(comparison.configuration_differences[0].key, "io_size");
    assert_eq!(comparison.machine_differences[0].key, "machine.cpu_model");
    assert!(comparison.trust.iter().all(|advice| !advice.why.is_empty()));
    let order: Vec<Trust> = comparison.trust.iter().map(|advice| advice.trust).collect();
    assert!(order.is_sorted() && !order.is_empty());
}

#[test]
fn the_reference_s_results_are_compared_without_intervals() {
    let of = |name: &str, tokens: f64| {
        file(
            name,
            json!({ "summary": { "avg_throughput_tokens_per_sec": tokens,
            "cache_stats": { "decode_bytes_read_gb": 3.0 } } }),
        )
    };
    let (a, b) = ("x_m_cpu0GB_qd0_gennone_users5.json", "y_m_cpu0GB_qd0_gennone_users5.json");
    let comparison = compare(vec![of(a, 10.0)], vec![of(b, 15.0)]).unwrap();
    let tokens = row(&comparison, WALL_CLOCK);
    assert_eq!((tokens.ratio, tokens.interval), (Some(1.5), None));
    assert_eq!(comparison.trust[0].metric, DECODE_READ);
    let trials = compare(vec![of(a, 10.0), of(a, 11.0)], vec![of(b, 20.0), of(b, 21.0)]).unwrap();
    assert_eq!(row(&trials, WALL_CLOCK).verdict, Verdict::Better);
}

#[test]
fn a_situation_is_read_from_where_a_result_has_it() {
    let situation = Situation::of(&result("a.json", 0..9, 3));
    assert!(situation.queued_at_end.is_some() && situation.seconds.is_some());
    assert!(situation.users.is_some() && situation.arrivals_open.is_some());
    assert!(situation.ended_by_requests.is_some() && situation.generation_waits.is_some());
}

#[test]
fn a_simulated_drive_is_told_as_one_and_not_compared_with_a_real_one() {
    let measured = Situation {
        cpu_memory_mib: Some(0),
        generation_waits: Some(false),
        ..Situation::default()
    };
    let simulated = Situation { simulated: Some("nvme".to_owned()), ..measured.clone() };
    let all = advise(&[simulated.clone(), simulated.clone()]);
    let primary = all.iter().find(|advice| advice.metric == DECODE_READ).unwrap();
    assert_eq!(primary.told(), "without a CPU tier every read is the simulated drive's");
    for advice in advise(&[measured, simulated]) {
        assert_eq!((advice.trust, advice.published), (Trust::No, None));
        assert!(advice.why.contains("(device description nvme)"), "{advice:?}");
    }
    let mut result = run(0..9, 60.0);
    let device = ("nvme".to_owned(), "measured".to_owned());
    let report = SimulationReport::of(
        device,
        SimulationFigures::default(),
        None,
        Err(String::new()),
        &result,
    );
    result.simulation = Some(report);
    let situation = Situation::of_document(&Document::of(&result));
    assert_eq!(situation.simulated.as_deref(), Some("nvme"));
}

#[test]
fn simulated_runs_with_one_seed_are_no_trials() {
    let simulated = |name: &str, seed: u64| {
        let mut file = result(name, 0..3_000, 100);
        let device = ("nvme".to_owned(), "measured".to_owned());
        let report = SimulationReport::of(
            device,
            SimulationFigures::default(),
            None,
            Err(String::new()),
            &nothing(),
        );
        file.document.ringfall.simulation = Some(report);
        seeded(file, seed)
    };
    let cautions = |seeds: [u64; 2]| {
        let side = vec![simulated("a.json", seeds[0]), simulated("b.json", seeds[1])];
        let all = compare(side, vec![result("c.json", 0..3_000, 100)]).unwrap().cautions;
        all.iter().filter(|caution| caution.contains("copies of one run")).count()
    };
    assert_eq!((cautions([1, 1]), cautions([1, 2])), (1, 0));
}

#[test]
fn a_contradiction_is_told_without_a_command_that_refuses_merged_results() {
    let claim = |value| Claim { place: "`a`".to_owned(), value };
    let one = Contradiction { one: claim(1.0), other: claim(2.0), is_bound: false };
    let told = told_contradictions(&[one]).unwrap();
    assert!(told.ends_with("run it again") && !told.contains("audit"), "{told}");
}

/// A run of a published preset, of so many users.
fn preset(name: &str, per_second: u64, users: u32) -> ResultFile {
    as_preset(result(name, 0..3_000, per_second), users)
}

fn as_preset(mut file: ResultFile, users: u32) -> ResultFile {
    let mut config = file.document.ringfall.config.as_ref().unwrap().clone();
    for (key, value) in [
        ("num_users", users.into()),
        ("generation_mode", "none".into()),
        ("arrival", "closed".into()),
    ] {
        config.settings.insert(key.to_owned(), value);
    }
    file.document.ringfall.config = Agreed::of(ConfigReport {
        model: Some("llama3.1-8b".to_owned()),
        cpu_memory_bytes: Some(0),
        num_users: Some(users),
        max_concurrent_allocs: None,
        generation_mode: Some("none".to_owned()),
        arrival: Some("closed".to_owned()),
        ..config
    });
    file
}

#[test]
fn the_last_sentence_says_which_is_better_and_for_how_much_of_the_load() {
    let of = |one, other| compare(vec![one], vec![other]).unwrap().conclusion;
    let better = of(preset("a", 10, 200), preset("b", 20, 200));
    for part in [
        "The candidate is better: its wall-clock throughput is 2.0",
        "× the baseline's (95 % interval ",
        "the baseline finished 3000 of 3429 requests (87 %), and the candidate 3000 of 3429",
    ] {
        assert!(better.contains(part), "{part}: {better}");
    }
    let worse = of(preset("a", 20, 200), preset("b", 10, 200));
    assert!(worse.starts_with("The baseline is better: the candidate's wall-clock"), "{worse}");
    let same = of(preset("a", 10, 200), preset("b", 10, 200));
    assert!(same.starts_with("No difference is shown: the candidate's "), "{same}");
    let other = of(preset("a", 10, 200), preset("b", 20, 100));
    assert_eq!(
        other,
        "The two can't be compared, since the numbers of users differ (200 and 100)."
    );
}

/// "Better by its decode bytes read is 2.00×", read one.
#[test]
fn a_conclusion_is_a_sentence_whatever_metric_it_names() {
    let go_by = |metrics: &[&'static str]| -> Vec<Advice> {
        let why = String::new;
        let advice =
            |&metric| Advice { metric, trust: Trust::Primary, why: why(), published: None };
        metrics.iter().map(advice).collect()
    };
    let (a, b) = (Side::of(vec![result("a", 0..9, 1)]), Side::of(vec![result("b", 0..9, 1)]));
    let (a, b) = (a.unwrap(), b.unwrap());
    let of = |rows: &[Row]| {
        let keys: Vec<&'static str> = rows.iter().map(|row| row.metric).collect();
        conclusion::of_two(rows, &go_by(&keys), &[], [&a, &b]).text
    };
    for metric in METRICS {
        let row = |verdict| doubled(metric.key, metric.better, verdict);
        let (noun, is) = (metric.noun, "is 2.00× the baseline's (95 % interval 1.90 to 2.10");
        for (verdict, begin) in [
            (Verdict::Better, "The candidate is better: its"),
            (Verdict::Worse, "The baseline is better: the candidate's"),
            (Verdict::NotShown, "No difference is shown: the candidate's"),
            (Verdict::Unknown, "No difference is certain: the candidate's"),
        ] {
            let told = of(&[row(verdict)]);
            assert!(told.starts_with(&format!("{begin} {noun} {is}")), "{told}");
        }
        let both = of(&[row(Verdict::Better), Row { metric: WALL_CLOCK, ..row(Verdict::Worse) }]);
        let begin = format!(
            "Neither is better throughout: the candidate is better by its {noun}, which {is} \
             between trials), and worse by its wall-clock throughput, which {is}"
        );
        assert!(metric.key == WALL_CLOCK || both.starts_with(&begin), "{both}");
    }
}

/// One that failed was judged as if it had run to its end.
#[test]
fn nothing_is_concluded_that_an_unfinished_run_could_have_turned_round() {
    let cut = |name: &str, seconds: u64, change: fn(&mut Ours)| {
        let mut file = as_preset(lasting(seconds, name, 0..3_000, 20), 200);
        let ours = &mut file.document.ringfall;
        let config = ours.config.as_ref().unwrap().clone();
        ours.config = Agreed::of(ConfigReport { duration_s: Some(60), ..config });
        change(ours);
        compare(vec![preset("a", 10, 200)], vec![file]).unwrap()
    };
    let failed = cut("b", 60, |ours| ours.window.failure = First::of("no space".to_owned()));
    let why = "No conclusion can be drawn, since a run failed (b: no space).";
    assert_eq!((failed.conclusion.as_str(), failed.is_comparable), (why, true));
    assert!(failed.cautions[0].ends_with("run it again"), "{:?}", failed.cautions);
    let early = cut("b", 30, |ours| ours.window.interrupted = Any::of(true));
    let why = "No conclusion can be drawn, since a run was interrupted (b after 30.0 of 60 s).";
    assert_eq!(early.conclusion, why);
    let late = cut("b", 59, |ours| ours.window.interrupted = Any::of(true));
    assert!(late.conclusion.starts_with("The candidate is better: its "), "{}", late.conclusion);
    let told = "a run was interrupted (b after 59.0 of 60 s): its figures leave out the end";
    assert!(late.cautions[0].starts_with(told), "{:?}", late.cautions);
    // One whose length is not known may have had nearly all of it before it.
    let unknown = cut("b", 59, |ours| {
        ours.window.interrupted = Any::of(true);
        let config = ours.config.as_ref().unwrap().clone();
        ours.config = Agreed::of(ConfigReport { duration_s: None, ..config });
    });
    assert!(unknown.conclusion.ends_with("interrupted (b after 59.0 s)."));
}

#[test]
fn what_is_no_figure_of_both_is_told_first() {
    let nothing = |name: &str| file(name, json!({ "summary": {} }));
    let empty = compare(vec![nothing("a")], vec![nothing("b")]).unwrap();
    assert_eq!(empty.conclusion, "The two can't be compared, since they have no figure in common.");
    assert!(!empty.is_comparable);
    let other = compare(vec![preset("a", 10, 200)], vec![preset("b", 20, 100)]).unwrap();
    assert!(!other.is_comparable && !other.rows.is_empty());
    assert!(compare(vec![nothing("a")], vec![preset("b", 20, 100)]).unwrap().rows.is_empty());
}

#[test]
fn the_reference_is_not_praised_for_what_it_counts_after_its_window() {
    let name = "x_llama3.1-8b_cpu0GB_qd0_gennone_users200.json";
    let of =
        |tokens: f64| file(name, json!({ "summary": { "avg_throughput_tokens_per_sec": tokens } }));
    let ours = vec![preset("a", 10, 200), preset("b", 11, 200)];
    let praised = compare(ours, vec![of(1e9), of(1.1e9)]).unwrap();
    assert!(praised.cautions[0].starts_with("the programs differ"), "{:?}", praised.cautions);
    let why = "which favours the side that looks better.";
    assert!(praised.conclusion.ends_with(why), "{}", praised.conclusion);
    let both = compare(vec![of(1.0)], vec![of(2.0)]).unwrap();
    assert_eq!(both.cautions.len(), 2, "{:?}", both.cautions);
    assert!(both.cautions[0].contains("the same file"), "{:?}", both.cautions);
    let told = "the load is known in part (2 results of the reference benchmark): model, users,";
    assert!(both.cautions[1].starts_with(told), "{:?}", both.cautions);
    assert!(both.conclusion.starts_with("No difference is certain"), "{}", both.conclusion);
    // A side of both has parts of which the one favours it.
    let mixed = compare(vec![preset("a", 10, 200)], vec![preset("b", 20, 200), of(1e9)]).unwrap();
    let why = "since the programs differ (ringfall and the reference benchmark).";
    assert!(mixed.conclusion.ends_with(why), "{}", mixed.conclusion);
}

#[test]
fn what_makes_another_load_is_told_with_what_it_does() {
    let with = |change: fn(&mut ConfigReport), seconds: u64| {
        let of = |seconds: u64, name: &str, change: fn(&mut ConfigReport)| {
            let mut file = as_preset(lasting(seconds, name, 0..3_000, 10), 200);
            let ours = &mut file.document.ringfall;
            let mut config = ours.config.as_ref().unwrap().clone();
            change(&mut config);
            ours.config = Agreed::of(config);
            ours.evictions.storage_to_none.entries = Sum::of(1);
            file
        };
        let (one, other) = (of(60, "a", |_| ()), of(seconds, "b", change));
        compare(vec![one], vec![other]).unwrap().cautions.join("; ")
    };
    assert_eq!(with(|_| (), 60), "");
    assert!(with(|_| (), 30).contains("the windows differ (60.0 and 30.0 s): amounts"));
    assert!(with(|_| (), 58).contains("the windows differ slightly (60.0 and 58.0 s): amounts"));
    let more = with(|config| config.cpu_memory_bytes = Some(4 << 30), 60);
    assert!(more.contains("the CPU tiers differ (0 and 4 GiB)"), "{more}");
    let space = with(|config| config.storage_capacity_bytes = Some(6 << 30), 60);
    assert!(space.contains("and 6.0 GiB): in a smaller one fewer entries"), "{space}");
    let reads = with(
        |config| {
            config.settings.insert("decode_reads".to_owned(), "once".into());
        },
        60,
    );
    assert!(reads.contains("of the load differ (decode_reads: batch and once)"), "{reads}");
    let phases = with(
        |config| {
            config.settings.insert("prefill_only".to_owned(), true.into());
        },
        60,
    );
    assert!(phases.contains("of the load differ (prefill_only: false and true)"), "{phases}");
    let gpus = with(
        |config| {
            config.settings.insert("gpu_mem_gb".to_owned(), 640.into());
            config.settings.insert("num_gpus".to_owned(), 1.into());
            config.settings.insert("tensor_parallel".to_owned(), 1.into());
        },
        60,
    );
    assert!(gpus.contains("the GPUs differ (none and 1 of 640 GiB"), "{gpus}");
    let users = with(
        |config| {
            config.num_users = Some(100);
            config.settings.insert("num_users".to_owned(), 100.into());
        },
        60,
    );
    assert!(users.contains("the numbers of users differ (200 and 100): throughput"), "{users}");
    let many = with(
        |config| {
            for key in ["arrival", "generation_mode", "history_reads", "request_rate"] {
                config.settings.insert(key.to_owned(), "other".into());
            }
        },
        60,
    );
    for part in ["arrival: closed and other; ", "history_reads: all and other; and 1 more)"] {
        assert!(many.contains(part), "{part}: {many}");
    }
}

/// Two spaces that kept everything are alike.
#[test]
fn a_space_that_was_never_full_is_as_good_as_a_larger_one() {
    let of = |gib: u64, dropped: u64| {
        let mut file = preset("b", 20, 200);
        let ours = &mut file.document.ringfall;
        let config = ours.config.as_ref().unwrap().clone();
        let capacity = Some(gib << 30);
        ours.config = Agreed::of(ConfigReport { storage_capacity_bytes: capacity, ..config });
        ours.evictions.storage_to_none.entries = Sum::of(dropped);
        let small = preset("a", 10, 200);
        compare(vec![small], vec![file]).unwrap().conclusion
    };
    assert!(of(6, 0).starts_with("The candidate is better: "), "{}", of(6, 0));
    let why = "No conclusion can be drawn, since the storage spaces differ (0.0 and 6.0 GiB).";
    assert_eq!(of(6, 1), why);
}

/// A result that told nothing of its load was taken to have that of the other side.
#[test]
fn nothing_is_concluded_from_a_load_that_is_not_known() {
    fn setting(document: &mut Document, change: fn(&mut ConfigReport)) {
        let mut config = document.ringfall.config.as_ref().unwrap().clone();
        change(&mut config);
        document.ringfall.config = Agreed::of(config);
    }

    let of = |change: fn(&mut Document)| {
        let mut file = preset("b", 20, 200);
        change(&mut file.document);
        compare(vec![preset("a", 10, 200)], vec![file]).unwrap().conclusion
    };
    type Change = fn(&mut Document);
    let cases: [(Change, &str); 6] = [
        (|document| document.ringfall.config = Agreed::default(), "no `ringfall.config`"),
        (
            |document| setting(document, |config| config.settings.clear()),
            "no `ringfall.config.settings.workload`",
        ),
        (
            |document| setting(document, |config| drop(config.settings.remove("workload"))),
            "no `ringfall.config.settings.workload`",
        ),
        (
            |document| setting(document, |config| config.num_users = None),
            "no model or number of users in `ringfall.config`",
        ),
        (
            |document| {
                document.seed = Same::default();
                setting(document, |config| drop(config.settings.remove("seed")));
            },
            "no seed",
        ),
        (
            |document| {
                document.summary.elapsed_time = Sum::default();
                document.ringfall.window.seconds = Sum::default();
            },
            "no length of its window",
        ),
    ];
    for (change, told) in cases {
        let begin = "No conclusion can be drawn, since the load of a result is not known (b: ";
        assert_eq!(of(change), format!("{begin}{told})."));
    }
    let runs = [preset("b", 20, 200), preset("c", 20, 100)];
    let differences = differences::configuration(&runs[0], &runs[1]);
    let document = merge(&runs, &differences, &[]).unwrap();
    let merged = ResultFile { path: "m".into(), document };
    let told = compare(vec![preset("a", 10, 200)], vec![merged]).unwrap();
    assert!(told.cautions[0].contains("not known (m: no model or number of users"), "{told:?}");
}

/// A drive of half the speed was better (0.50×): its trace of that name asked for a quarter.
#[test]
fn a_trace_is_known_by_its_rows_and_not_by_its_name() {
    let of = |name: &str, per_second: u64, digests: &[&str]| {
        let mut file = preset(name, per_second, 200);
        let source = &mut file.document.ringfall.source;
        source.kind = Same::of("burstgpt".to_owned());
        source.digests = digests.iter().map(|&digest| digest.to_owned()).collect();
        file
    };
    let rows = ["first 1: 0a", "first 2: 0b", "first 3: 0c"];
    let baseline = of("a", 10, &rows);
    let told = |candidate: ResultFile| {
        let back = compare(vec![candidate.clone()], vec![baseline.clone()]).unwrap();
        let there = compare(vec![baseline.clone()], vec![candidate]).unwrap();
        assert_eq!(there.is_comparable, back.is_comparable);
        there.conclusion
    };
    let other = "The two can't be compared, since the traces or datasets differ ";
    let cases: [(&[&str], String); 5] = [
        (&rows[..2], "The candidate is better: ".to_owned()),
        (
            &["first 1: 0a", "first 2: 0d", "first 3: 0e"],
            format!("{other}(first 2 rows or turns are not the same)."),
        ),
        (
            &["first 1: 0a", "first 2: 0b", "all 2: 0b"],
            format!("{other}(one ends after 2 rows or turns, and another does not)."),
        ),
        (&["all 3: 0c"], "The candidate is better: ".to_owned()),
        (
            &[],
            "No conclusion can be drawn, since the load of a result is not known (b: no \
             `ringfall.source.digests` of the trace or dataset)."
                .to_owned(),
        ),
    ];
    for (digests, conclusion) in cases {
        let there = told(of("b", 20, digests));
        assert!(there.starts_with(&conclusion), "{digests:?}: {there}");
    }
    let mut elsewhere = of("b", 20, &rows);
    let mut config = elsewhere.document.ringfall.config.as_ref().unwrap().clone();
    config.settings.insert("burst_trace_path".to_owned(), "elsewhere.csv".into());
    elsewhere.document.ringfall.config = Agreed::of(config);
    assert!(told(elsewhere).starts_with("The candidate is better: "));
    let drawn = told(preset("b", 20, 200));
    assert!(drawn.contains("the sources of requests differ (burstgpt and synthetic)"), "{drawn}");
    let runs = [of("b", 20, &rows), of("c", 20, &["first 1: 0d"])];
    let document = merge(&runs, &[], &[]).unwrap();
    let merged = told(ResultFile { path: "m".into(), document });
    assert_eq!(merged, format!("{other}(first 1 rows or turns are not the same)."));
}

/// A drive with flushes of 3 ms was better than one without by a shorter queue of reads alone.
#[test]
fn what_is_only_gone_by_besides_makes_no_win_alone() {
    const LATENCY: &str = "storage_read_device_p95_ms";
    let (a, b) = (Side::of(vec![result("a", 0..9, 1)]), Side::of(vec![result("b", 0..9, 1)]));
    let (a, b) = (a.unwrap(), b.unwrap());
    let of = |first: Trust, verdicts: [Verdict; 3]| {
        let keys = [WALL_CLOCK, STORAGE_THROUGHPUT, LATENCY];
        let trust = [first, Trust::Secondary, Trust::Secondary];
        let advice: Vec<Advice> = keys
            .into_iter()
            .zip(trust)
            .map(|(metric, trust)| Advice { metric, trust, why: String::new(), published: None })
            .collect();
        let better = [Better::Higher, Better::Higher, Better::Lower];
        let rows: Vec<Row> = keys
            .into_iter()
            .zip(better)
            .zip(verdicts)
            .map(|((metric, better), verdict)| doubled(metric, better, verdict))
            .collect();
        conclusion::of_two(&rows, &advice, &[], [&a, &b]).text
    };
    use Verdict::{Better as Wins, NotShown, Unknown, Worse as Loses};
    let (none, win, both) = ("No difference is ", "The candidate is better: ", "Neither is better");
    for (first, verdicts, begin) in [
        (Trust::Primary, [NotShown, Unknown, Wins], none),
        (Trust::Primary, [NotShown, Wins, Wins], none),
        // Without an interval it decides nothing, unless it says the opposite.
        (Trust::Primary, [Unknown, Wins, Wins], win),
        (Trust::Primary, [Unknown, Loses, Loses], none),
        (Trust::Primary, [Unknown, Wins, NotShown], none),
        (Trust::Primary, [Wins, Unknown, NotShown], win),
        (Trust::Primary, [Wins, Unknown, Loses], both),
        (Trust::Secondary, [NotShown, Unknown, Wins], none),
        (Trust::Secondary, [Wins, Unknown, Wins], win),
        (Trust::Secondary, [Wins, Wins, Loses], both),
    ] {
        let told = of(first, verdicts);
        assert!(told.starts_with(begin), "{first:?} {verdicts:?}: {told}");
    }
    // "No difference is certain" was said of an interval of 0.65 to 0.95, and not by which rule.
    let why = ", and this metric decides only where a second one agrees";
    for one in [Wins, Loses] {
        let told = of(Trust::Secondary, [one, Unknown, NotShown]);
        assert!(told.starts_with("No difference is certain: ") && told.contains(why), "{told}");
    }
    assert!(!of(Trust::Secondary, [Unknown, Wins, NotShown]).contains(why));
}

/// "The candidate is better: read device P95 0.86×", above reads of 0.93× and writes of 0.71×.
#[test]
fn a_better_system_is_not_worse_by_what_decides() {
    let (a, b) = (Side::of(vec![result("a", 0..9, 1)]), Side::of(vec![result("b", 0..9, 1)]));
    let (a, b) = (a.unwrap(), b.unwrap());
    let of = |rows: &[(&'static str, Verdict)]| {
        let row =
            |&(metric, verdict): &(&'static str, Verdict)| doubled(metric, Better::Higher, verdict);
        let rows: Vec<Row> = rows.iter().map(row).collect();
        let go_by = Advice {
            metric: WALL_CLOCK,
            trust: Trust::Primary,
            why: String::new(),
            published: None,
        };
        conclusion::of_two(&rows, &[go_by], &[], [&a, &b]).text
    };
    for key in DECISIVE {
        for (one, other) in [(Verdict::Better, Verdict::Worse), (Verdict::Worse, Verdict::Better)] {
            let told = of(&[(WALL_CLOCK, one), (key, other)]);
            assert!(told.starts_with("Neither is better throughout: "), "{key}: {told}");
            let told = of(&[(WALL_CLOCK, one), (key, one)]);
            assert!(told.starts_with("The ") && told.contains("is better: "), "{key}: {told}");
            let told = of(&[(WALL_CLOCK, Verdict::NotShown), (key, one)]);
            assert!(told.starts_with("No difference is shown"), "{key}: {told}");
        }
    }
    let told = of(&[(WALL_CLOCK, Verdict::Better), ("end_to_end_mean_ms", Verdict::Worse)]);
    assert!(told.starts_with("The candidate is better: "), "{told}");
}

/// A drive was better by figures of which its own result said another value, or by data that it
/// had lost.
#[test]
fn nothing_is_concluded_from_a_result_that_is_wrong() {
    let of = |change: fn(&mut Document)| {
        let mut file = preset("b", 20, 200);
        change(&mut file.document);
        let there = compare(vec![preset("a", 10, 200)], vec![file.clone()]).unwrap();
        let back = compare(vec![file], vec![preset("a", 10, 200)]).unwrap();
        assert_eq!((&there.conclusion, there.is_comparable), (&back.conclusion, true));
        assert_eq!(there.cautions, back.cautions);
        there
    };
    let whole = compare(vec![preset("a", 10, 200)], vec![preset("b", 20, 200)]).unwrap();
    assert_eq!(whole.cautions, [""; 0], "the results themselves are sound");
    let changed = of(|document| document.total_tokens_generated = Sum::of(7));
    let begin = "No conclusion can be drawn, since a result contradicts itself (b: `summary.";
    assert!(changed.conclusion.starts_with(begin), "{}", changed.conclusion);
    assert!(changed.cautions[0].contains("believe neither figure"), "{:?}", changed.cautions);
    let lost = of(|document| {
        let verify = &mut document.ringfall.verify;
        (verify.blocks_checked, verify.blocks_bad) = (Sum::of(9), Sum::of(3));
    });
    let why = "No conclusion can be drawn, since blocks were read back wrong (b: 3 blocks).";
    assert_eq!(lost.conclusion, why);
    assert!(lost.cautions[0].starts_with("blocks were read back wrong"), "{:?}", lost.cautions);
}

#[test]
fn what_was_published_of_a_preset_stands_beside_the_ratio_of_whoever_ran_it() {
    let (slow, fast) = (preset("a", 10, 200), preset("b", 20, 200));
    for (one, other) in [(&slow, &fast), (&fast, &slow)] {
        let found = compare(vec![one.clone()], vec![other.clone()]).unwrap().published;
        assert_eq!((found.len(), found[0].preset), (1, "llama3.1-8b-stress"));
        assert_eq!((found[0].metric, found[0].published), (WALL_CLOCK, 2.70));
        assert!((found[0].here.unwrap() - 2.0).abs() < 0.05, "{found:?}");
    }
    let other = preset("c", 20, 100);
    assert!(compare(vec![slow], vec![other]).unwrap().published.is_empty());
}
