//! Whatever drive is slower in every figure is never the better one.

use proptest::prelude::*;
use ringfall_config::{Arrival, SETTINGS};
use ringfall_core::key::Tier;
use ringfall_model::RunResult;
use ringfall_model::configuration::Configuration;
use ringfall_model::document::{Agreed, ConfigReport};
use ringfall_model::facts::{Looks, TimelineSecond};
use ringfall_model::figures::figure::Sum;
use ringfall_model::metrics::REQUEST_P95;
use ringfall_model::testing::{file, nothing, request, to_json};
use ringfall_workloads::contract::{Class, Nanos as SinceStart, Outcome, Purpose, RequestRecord};

use super::hits::HitCounts;
use super::settings::is_load;
use super::tests::seeded;
use super::*;
use crate::analysis::collection::{Collection, Run};
use crate::analysis::over_pairs::Overall;
use crate::analysis::pairs::matched;

/// Length of the runs, ms.
const WINDOW_MS: u64 = 60_000;
const ENTRY_BYTES: u64 = 1_000_000;

/// A request of both drives.
#[derive(Clone, Copy, Debug)]
struct Asked {
    arrived_ms: u64,
    /// Latency on the faster drive, ms.
    fast_ms: u64,
    /// Latency on the slower one, ms: never less.
    slow_ms: u64,
}

fn asked() -> impl Strategy<Value = Asked> {
    (0..WINDOW_MS, 1..WINDOW_MS, 100u64..400).prop_map(|(arrived_ms, fast_ms, percent)| Asked {
        arrived_ms,
        fast_ms,
        slow_ms: fast_ms * percent / 100,
    })
}

/// A run in which requests of these arrivals and latencies, ms, finish or are cut off.
fn run_of(name: &str, requests: impl Iterator<Item = (u64, u64)>) -> ResultFile {
    run_within(WINDOW_MS, name, requests)
}

/// The same in a window of that length, ms, of requests that arrive in it.
fn run_within(
    window_ms: u64,
    name: &str,
    requests: impl Iterator<Item = (u64, u64)>,
) -> ResultFile {
    file(name, to_json(&result_within(window_ms, requests)))
}

fn result_within(window_ms: u64, requests: impl Iterator<Item = (u64, u64)>) -> RunResult {
    let without_tokens = |(arrived_ms, storage_ms)| Taken { arrived_ms, storage_ms, tokens_ms: 0 };
    result_of(window_ms, requests.map(without_tokens))
}

/// Time that a request took.
#[derive(Clone, Copy, Debug)]
struct Taken {
    arrived_ms: u64,
    /// Time at the storage, and in waits that come of it, ms.
    storage_ms: u64,
    /// Time in which its tokens were generated, ms.
    tokens_ms: u64,
}

/// A run of requests that wait for tokens too.
fn result_of(window_ms: u64, requests: impl Iterator<Item = Taken>) -> RunResult {
    let mut result = nothing();
    result.window.seconds = window_ms as f64 / 1e3;
    let mut timeline: Vec<TimelineSecond> = (1..=window_ms / 1_000)
        .map(|second| TimelineSecond { end_s: second as f64, seconds: 1.0, ..Default::default() })
        .collect();
    for Taken { arrived_ms, storage_ms, tokens_ms } in
        requests.filter(|one| one.arrived_ms < window_ms)
    {
        let takes_ms = storage_ms + tokens_ms;
        let storage_ns = storage_ms * 1_000_000;
        let storage = &mut result.engine.tiers[Tier::Storage.index()];
        storage.read.device.record(storage_ns / 10);
        storage.read.total.record(storage_ns / 9);
        let ends_ms = arrived_ms + takes_ms;
        let second = ends_ms.min(window_ms - 1) / 1_000;
        let second = &mut timeline[usize::try_from(second).unwrap()];
        second.tiers[Tier::Storage.index()].read.operations += 1;
        if ends_ms >= window_ms {
            let age_ns = (window_ms - arrived_ms) * 1_000_000;
            result.requests.record_unfinished(Class::Interactive, age_ns);
            continue;
        }
        result.engine.tiers[Tier::Storage.index()].read.entry_bytes += ENTRY_BYTES;
        let io = &mut result.engine.io_read;
        io.entry_bytes += ENTRY_BYTES;
        io.bytes += ENTRY_BYTES;
        io.sizes[0].bytes += ENTRY_BYTES;
        result.cache.record_read(Purpose::Decode, 1, Outcome::Hit, ENTRY_BYTES, false);
        result.requests.record(&RequestRecord {
            arrived: SinceStart::from_ms(arrived_ms),
            started: SinceStart::from_ms(arrived_ms),
            finished: SinceStart::from_ms(ends_ms),
            storage_io_ns: storage_ns / 2,
            generation_ns: tokens_ms * 1_000_000,
            ..request(Class::Interactive, takes_ms)
        });
        second.requests_completed += 1;
        second.generated_tokens += 3;
        second.tiers[Tier::Storage.index()].read.bytes += ENTRY_BYTES;
    }
    result.timeline = timeline;
    result
}

/// A run whose requests look for so many earlier turns and shared prompts in a full tier.
fn looking(
    name: &str,
    requests: &[Asked],
    takes: fn(&Asked) -> u64,
    looks: HitCounts,
) -> ResultFile {
    let requests = requests.iter().map(|one| (one.arrived_ms, takes(one)));
    let mut result = result_within(WINDOW_MS, requests);
    let HitCounts { earlier_turns, others, .. } = looks;
    for (purpose, looks) in [(Purpose::History, earlier_turns), (Purpose::Prefix, others)] {
        for (found, count) in [(true, looks.found), (false, looks.missed)] {
            let outcome = if found { Outcome::Hit } else { Outcome::Miss { reads_done: 0 } };
            for _ in 0..count {
                result.cache.record_read(purpose, 1, outcome, 0, false);
                result.cache.record_look(purpose, found);
            }
        }
    }
    let mut file = file(name, to_json(&result));
    file.document.ringfall.evictions.storage_to_none.entries = Sum::of(1);
    file
}

fn both(requests: &[Asked]) -> [ResultFile; 2] {
    let of = |name: &str, takes: fn(&Asked) -> u64| {
        run_of(name, requests.iter().map(|one| (one.arrived_ms, takes(one))))
    };
    [of("fast.json", |one| one.fast_ms), of("slow.json", |one| one.slow_ms)]
}

/// Two sides of runs of each drive, as trials or merged.
fn sides(requests: &[Asked], seeds: [&[u64]; 2]) -> [Vec<Vec<ResultFile>>; 2] {
    let both = both(requests);
    let of = |side: usize| {
        let runs: Vec<ResultFile> =
            seeds[side].iter().map(|&seed| seeded(both[side].clone(), seed)).collect();
        let document = merge(&runs, &[], &[]).unwrap();
        let merged = ResultFile { path: format!("merged{side}.json").into(), document };
        vec![runs, vec![merged]]
    };
    [of(0), of(1)]
}

/// Collection in which as many numbers of users as a conclusion needs had that result.
fn collection(file: &ResultFile) -> Collection {
    let run = |users| Run {
        configuration: Configuration::from_result(&file.document)
            .map(|configuration| Configuration { users, ..configuration }),
        values: METRICS.iter().map(|metric| Value::of(metric, &file.document)).collect(),
        load: Load::of(file),
    };
    Collection { runs: (1..=6).map(run).collect(), ..Collection::default() }
}

/// Whether a ratio is better than 1 by more than histograms resolve.
fn is_better(row: &Row, ratio: f64) -> bool {
    match row.better {
        Better::Higher => ratio > 1.0 + 2.0 * RESOLUTION,
        Better::Lower => ratio < 1.0 - 2.0 * RESOLUTION,
        Better::Neither => false,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn a_drive_that_is_slower_in_every_figure_is_never_better_in_a_ratio(
        requests in proptest::collection::vec(asked(), 3..200),
    ) {
        let [fast, slow] = both(&requests);
        let there = compare(vec![fast.clone()], vec![slow.clone()]).unwrap();
        for row in &there.rows {
            prop_assert!(!row.ratio.is_some_and(|ratio| is_better(row, ratio)), "{row:?}");
            prop_assert!(row.verdict != Verdict::Better, "{row:?}");
        }
        let back = compare(vec![slow], vec![fast]).unwrap();
        for row in &back.rows {
            prop_assert!(!row.ratio.is_some_and(|ratio| is_better(row, 1.0 / ratio)), "{row:?}");
            prop_assert!(row.verdict != Verdict::Worse, "{row:?}");
        }
        prop_assert_eq!(&there.cautions, &[] as &[String]);
        prop_assert!(!there.conclusion.starts_with("The candidate is better"));
        prop_assert!(!back.conclusion.starts_with("The baseline is better"));
    }
}

// Several comparisons a case.
proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    /// A slower drive was better by 1.99 times where it had two runs, whose amounts were added up,
    /// and their seeds were not looked at.
    #[test]
    fn a_drive_that_is_slower_in_every_run_is_never_the_better_one(
        requests in proptest::collection::vec(asked(), 3..60),
        counts in (1usize..4, 1usize..4),
        seeds in proptest::collection::vec(1u64..3, 6),
    ) {
        let seeds = [&seeds[..counts.0], &seeds[3..3 + counts.1]];
        let shares = |one: u64| seeds.map(|side| {
            side.iter().filter(|seed| **seed == one).count() as f64 / side.len() as f64
        });
        let is_one_load = [1, 2].map(shares).iter().all(|[fast, slow]| fast == slow);
        let [fast, slow] = sides(&requests, seeds);
        for fast in &fast {
            for slow in &slow {
                let there = compare(fast.clone(), slow.clone()).unwrap();
                for row in &there.rows {
                    prop_assert!(!row.ratio.is_some_and(|ratio| is_better(row, ratio)), "{row:?}");
                }
                let there = there.conclusion;
                prop_assert!(!there.starts_with("The candidate is better"), "{there}");
                let back = compare(slow.clone(), fast.clone()).unwrap().conclusion;
                prop_assert!(!back.starts_with("The baseline is better"), "{back}");
                let why = "No conclusion can be drawn, since the seeds differ (";
                prop_assert_eq!(there.starts_with(why), !is_one_load, "{}", there);
                prop_assert_eq!(back.starts_with(why), !is_one_load, "{}", back);
            }
        }
    }

    /// A run of 30 s of the slower drive was better than one of 120 s of the faster.
    #[test]
    fn no_drive_wins_by_another_window_or_space(
        requests in proptest::collection::vec(asked(), 3..60),
        window_s in prop_oneof![20u64..54, 67u64..200],
        gib in 1u64..50,
    ) {
        let [fast, slow] = both(&requests);
        let of = |takes: fn(&Asked) -> u64| {
            let requests = requests.iter().map(|one| (one.arrived_ms, takes(one)));
            run_within(window_s * 1_000, "other.json", requests)
        };
        let in_space = |file: &ResultFile| {
            let mut file = file.clone();
            let ours = &mut file.document.ringfall;
            let config = ours.config.as_ref().unwrap().clone();
            let storage_capacity_bytes = Some(gib << 30);
            ours.config = Agreed::of(ConfigReport { storage_capacity_bytes, ..config });
            ours.evictions.storage_to_none.entries = Sum::of(1);
            file
        };
        let others = [
            (&slow, of(|one| one.fast_ms)),
            (&fast, of(|one| one.slow_ms)),
            (&slow, in_space(&fast)),
            (&fast, in_space(&slow)),
        ];
        for (one, other) in others {
            for [one, two] in [[one, &other], [&other, one]] {
                let alone = compare(vec![one.clone()], vec![two.clone()]).unwrap().conclusion;
                let pairs = matched(&collection(one), &collection(two));
                for told in [alone, Overall::of(&pairs).conclusion] {
                    prop_assert!(!told.contains("is better"), "{told}");
                    prop_assert!(!told.contains("No difference is"), "{told}");
                }
            }
        }
    }

    /// "The hit rates differ (84.2 % and 93.8 %)", as the slower disk had looked for one shared
    /// prompt and the faster for six.
    #[test]
    fn a_slower_drive_that_looks_less_often_and_loses_nothing_is_compared(
        requests in proptest::collection::vec(asked(), 3..60),
        turns in (1u64..200, 1u64..100),
        prompts in (0u64..12, 0u64..4),
    ) {
        let looks = |turns: u64, prompts: u64| HitCounts {
            earlier_turns: Looks { found: turns, missed: 0 },
            others: Looks { found: 0, missed: prompts },
            ..HitCounts::default()
        };
        let fast = looking("fast.json", &requests, |one| one.fast_ms, looks(turns.0, prompts.0));
        let slow = looking("slow.json", &requests, |one| one.slow_ms, looks(turns.1, prompts.1));
        let there = compare(vec![fast.clone()], vec![slow.clone()]).unwrap();
        prop_assert!(!there.cautions.iter().any(|told| told.contains("hit rates")), "{there:?}");
        prop_assert!(!there.conclusion.starts_with("The candidate is better"), "{there:?}");
        let back = compare(vec![slow], vec![fast]).unwrap().conclusion;
        prop_assert!(!back.starts_with("The baseline is better"), "{back}");
    }

    /// A miss costs no time, so that the side which lost entries looks faster than its drive is.
    #[test]
    fn no_drive_wins_by_entries_that_it_lost(
        requests in proptest::collection::vec(asked(), 3..60),
        turns in (30u64..200, 30u64..200),
        lost_percent in 40u64..100,
        prompts in (0u64..4, 0u64..4),
    ) {
        let lost = turns.1 * lost_percent / 100;
        let all = Looks { found: turns.0, missed: 0 };
        let some = Looks { found: turns.1 - lost, missed: lost };
        let [first, second] = [prompts.0, prompts.1].map(|missed| Looks { found: 0, missed });
        let of = |earlier_turns, others| {
            HitCounts { earlier_turns, others, ..HitCounts::default() }
        };
        let takes: [fn(&Asked) -> u64; 2] = [|one| one.fast_ms, |one| one.slow_ms];
        for [full, lossy] in [takes, [takes[1], takes[0]]] {
            // What was lost are earlier turns, or else shared prompts.
            for [whole, rest] in [
                [of(all, first), of(some, second)],
                [of(first, all), of(second, some)],
            ] {
                let full = looking("full.json", &requests, full, whole);
                let lossy = looking("lossy.json", &requests, lossy, rest);
                for [one, two] in [[&full, &lossy], [&lossy, &full]] {
                    let told = compare(vec![one.clone()], vec![two.clone()]).unwrap().conclusion;
                    let why = "No conclusion can be drawn, since the hit rates differ (";
                    prop_assert!(told.starts_with(why), "{told}");
                }
            }
        }
    }

    /// Tokens take equally long on both drives, so that a fast one is hardly waited for.
    #[test]
    fn a_slower_drive_is_never_the_better_one_where_tokens_are_waited_for(
        requests in proptest::collection::vec((asked(), 0u64..20_000), 3..200),
        percent in 1u64..100,
        has_tier in proptest::bool::ANY,
        users_wait in proptest::bool::ANY,
    ) {
        let of = |name: &str, takes: fn(&Asked) -> u64| {
            let taken = |(one, tokens_ms): &(Asked, u64)| Taken {
                arrived_ms: one.arrived_ms,
                storage_ms: takes(one) * percent / 100,
                tokens_ms: *tokens_ms,
            };
            let result = result_of(WINDOW_MS, requests.iter().map(taken));
            file(name, to_json(&planned(result, has_tier, users_wait)))
        };
        let (fast, slow) = (of("fast", |one| one.fast_ms), of("slow", |one| one.slow_ms));
        let there = compare(vec![fast.clone()], vec![slow.clone()]).unwrap().conclusion;
        prop_assert!(!there.starts_with("The candidate is better"), "{there}");
        let back = compare(vec![slow.clone()], vec![fast.clone()]).unwrap().conclusion;
        prop_assert!(!back.starts_with("The baseline is better"), "{back}");
        let [fast, slow] = [fast, slow].map(|file| collection(&file));
        let there = Overall::of(&matched(&fast, &slow)).conclusion;
        prop_assert!(!there.starts_with("The second system is better"), "{there}");
    }

    #[test]
    fn a_system_that_is_slower_in_every_pair_is_never_the_better_one(
        requests in proptest::collection::vec(asked(), 3..60),
    ) {
        let [fast, slow] = both(&requests).map(|file| collection(&file));
        let there = Overall::of(&matched(&fast, &slow)).conclusion;
        prop_assert!(!there.starts_with("The second system is better"), "{there}");
        let back = Overall::of(&matched(&slow, &fast)).conclusion;
        prop_assert!(!back.starts_with("The first system is better"), "{back}");
    }
}

/// Keys of all settings, each part of the section `workload` being one.
fn setting_keys() -> Vec<String> {
    let config = nothing().plan.effective;
    let effective = serde_json::to_value(&config).unwrap();
    let section = effective["workload"].as_object().unwrap().keys();
    let own = SETTINGS.iter().map(|setting| setting.key.to_owned());
    own.chain(section.map(|key| format!("workload.{key}"))).collect()
}

/// The result, of a run with another value of that setting.
fn with_other(file: &ResultFile, key: &str) -> ResultFile {
    let mut file = file.clone();
    let mut config = file.document.ringfall.config.as_ref().unwrap().clone();
    let other = "another value".into();
    match key.strip_prefix("workload.") {
        Some(name) => config.settings["workload"][name] = other,
        None => drop(config.settings.insert(key.to_owned(), other)),
    }
    file.document.ringfall.config = Agreed::of(config);
    file
}

/// Lighter requests made a drive of 2,700 MB/s 3.72 times better than one of 3,000 MB/s.
#[test]
fn a_drive_does_not_win_by_any_setting_of_the_load() {
    let light = run_of("slow.json", (0..100).map(|n| (n * 500, 1_000)));
    let heavy = run_of("fast.json", (0..100).map(|n| (n * 500, 4_000)));
    let keys = setting_keys();
    let load: Vec<&String> = keys.iter().filter(|key| is_load(key)).collect();
    assert!(load.len() > 50, "{load:?}");
    let keys = load.into_iter().map(String::as_str).chain(["models"]);
    for (number, key) in keys.enumerate() {
        let mut other = with_other(&light, key);
        if key == "models" {
            let mut config = other.document.ringfall.config.as_ref().unwrap().clone();
            let name = config.model.clone().unwrap();
            config.settings["models"] = serde_json::json!({ name: { "layers": 1 } });
            other.document.ringfall.config = Agreed::of(config);
        }
        let mut sides = [&heavy, &other];
        sides.rotate_left(number % 2);
        let [one, two] = sides.map(|file| vec![file.clone()]);
        let told = compare(one, two).unwrap();
        assert!(!told.is_comparable, "{key}: {}", told.conclusion);
        assert!(told.conclusion.contains(key), "{key}: {}", told.conclusion);
        assert!(told.cautions.iter().any(|told| told.contains(key)), "{:?}", told.cautions);
        let pairs = matched(&collection(&other), &collection(&heavy));
        let overall = Overall::of(&pairs);
        assert!(!overall.is_comparable && overall.conclusion.contains(key), "{overall:?}");
    }
}

/// A run with a CPU tier or without, whose users wait for answers or do not.
fn planned(mut result: RunResult, has_tier: bool, users_wait: bool) -> RunResult {
    result.plan.cpu_memory_bytes = if has_tier { 4 << 30 } else { 0 };
    result.plan.max_concurrent_allocs = None;
    result.plan.arrival = if users_wait { Arrival::Closed } else { Arrival::Open };
    result
}

/// A run of eight users who ask again at once, each request taking so long.
fn in_turn(name: &str, has_tier: bool, storage_ms: u64, tokens_ms: u64) -> ResultFile {
    let each_ms = storage_ms + tokens_ms;
    let of_user = |user: u64| {
        let arrivals = (0..WINDOW_MS / each_ms).map(move |n| user + n * each_ms);
        arrivals.map(move |arrived_ms| Taken { arrived_ms, storage_ms, tokens_ms })
    };
    let result = result_of(WINDOW_MS, (0..8).flat_map(of_user));
    file(name, to_json(&planned(result, has_tier, true)))
}

/// "No difference is certain" was said of a fifth of the tokens per second, as the faster side's
/// requests waited for tokens; and with a CPU tier of any two runs, as no second tells the storage
/// time.
#[test]
fn a_fifth_of_the_tokens_per_second_is_a_conclusion() {
    for (has_tier, tokens_ms, waited) in
        [(false, 400, true), (true, 400, true), (true, 0, false), (false, 0, false)]
    {
        let fast = in_turn("fast.json", has_tier, 100, tokens_ms);
        let slow = in_turn("slow.json", has_tier, 2_400, tokens_ms);
        let there = compare(vec![fast.clone()], vec![slow.clone()]).unwrap().conclusion;
        let begin = "The baseline is better: the candidate's ";
        assert!(there.starts_with(begin), "{has_tier} {tokens_ms}: {there}");
        let waits = "; the candidate's requests waited for storage for 43 % of their time, and \
                     the baseline's for tokens for 80 %; ";
        assert_eq!(there.contains(waits), waited, "{has_tier} {tokens_ms}: {there}");
        let back = compare(vec![slow], vec![fast]).unwrap().conclusion;
        assert!(back.starts_with("The candidate is better: "), "{has_tier} {tokens_ms}: {back}");
    }
}

/// A disk 13 times slower was "0.95×" of the other, as seven of its 57 requests had finished.
#[test]
fn a_slow_drive_is_not_praised_for_the_few_requests_that_finished() {
    let unfinished_ms = 2 * WINDOW_MS;
    let fast = |n: u64| (n * 100, if n < 67 { 1_000 + 700 * n } else { unfinished_ms });
    let slow = |n: u64| (n * 100, if n < 7 { 20_000 + 1_000 * n } else { unfinished_ms });
    let fast = run_of("fast.json", (0..116).map(fast));
    let slow = run_of("slow.json", (0..57).map(slow));
    let comparison = compare(vec![fast], vec![slow]).unwrap();
    let row = |key: &str| comparison.rows.iter().find(|row| row.metric == key).unwrap();
    let finished = row("end_to_end_p95_ms");
    assert!(finished.candidate < finished.baseline, "{finished:?}");
    assert_eq!((finished.ratio, finished.verdict), (None, Verdict::Unknown));
    let all = row(REQUEST_P95);
    assert!(all.baseline_is_bound && all.candidate_is_bound && all.ratio.is_none(), "{all:?}");
    let load = "and the candidate 7 of 57 requests (12 %).";
    assert!(comparison.conclusion.ends_with(load), "{}", comparison.conclusion);
}

/// All that finish on the one drive in 1 s are still waited for on the other.
#[test]
fn a_lower_bound_shows_what_it_is_above() {
    let fast = run_of("fast.json", (0..100).map(|n| (n * 100, 1_000)));
    let slow = run_of("slow.json", (0..100).map(|n| (n * 100, 2 * WINDOW_MS)));
    let there = compare(vec![fast.clone()], vec![slow.clone()]).unwrap();
    let row = there.rows.iter().find(|row| row.metric == REQUEST_P95).unwrap();
    assert!(row.candidate_is_bound && !row.baseline_is_bound, "{row:?}");
    assert!(row.ratio.is_some_and(|ratio| ratio > 50.0), "{row:?}");
    assert_eq!((row.verdict, row.interval), (Verdict::Worse, None));
    let back = compare(vec![slow], vec![fast]).unwrap();
    let row = back.rows.iter().find(|row| row.metric == REQUEST_P95).unwrap();
    assert_eq!(row.verdict, Verdict::Better);
}

/// Writes of a drive of 2,700 MB/s took a fifth of the time, as fewer of the long ones had ended.
#[test]
fn latencies_of_entries_do_not_praise_the_drive_that_left_more_requests_unfinished() {
    let metric = Metric::by_key("storage_write_device_p95_ms").unwrap();
    let of = |ms: f64, unfinished: f64| Measurement {
        value: Value::exact(ms),
        unfinished_share: Some(unfinished),
    };
    assert!(fair_ratio(metric, of(13.4, 0.50), of(67.0, 0.46)).is_err());
    assert!(fair_ratio(metric, of(67.0, 0.46), of(13.4, 0.50)).is_err());
    assert_eq!(fair_ratio(metric, of(13.4, 0.46), of(67.0, 0.50)).map(f64::round), Ok(5.0));
}
