use ringfall_model::configuration::Configuration;
use ringfall_model::metrics::{WALL_CLOCK, WRITE_BANDWIDTH};

use super::*;
use crate::analysis::collection::{Collection, Run};
use crate::analysis::compare::{HitRates, Load, Value};
use crate::analysis::pairs::matched;

/// Runs of one system, each of another number of users: their wall-clock throughputs, and their
/// loads as changed.
fn system(rates: &[f64], change: impl Fn(usize, &mut Load)) -> Collection {
    let run = |(at, rate): (usize, &f64)| {
        let configuration = Configuration {
            cpu_memory_mib: 0,
            model: "m".into(),
            users: at as u64 + 1,
            max_concurrent_allocs: 0,
            generation_mode: "none".into(),
        };
        let mut load = Load::of_configuration(&configuration);
        change(at, &mut load);
        let value = |metric: &Metric| (metric.key == WALL_CLOCK).then_some(Value::exact(*rate));
        let values = METRICS.iter().map(value).collect();
        Run { configuration: Some(configuration), values, load }
    };
    Collection { runs: rates.iter().enumerate().map(run).collect(), ..Collection::default() }
}

fn overall(fast: &Collection, slow: &Collection) -> Overall {
    Overall::of(&matched(fast, slow))
}

const FAST: [f64; 8] = [2.0, 2.2, 2.4, 2.6, 2.8, 3.0, 3.2, 3.4];
const SLOW: [f64; 8] = [1.0; 8];

fn as_is(_: usize, _: &mut Load) {}

#[test]
fn a_comparison_of_collections_ends_with_its_median_its_spread_and_its_pairs() {
    let (fast, slow) = (system(&FAST, as_is), system(&SLOW, as_is));
    let there = overall(&fast, &slow);
    assert_eq!(
        there.conclusion,
        "The first system is better: its wall-clock throughput is 2.70× the second system's \
         (median of 8 of 8 pairs, half of which lie between 2.35 and 3.05; 95 % interval of the \
         median 2.00 to 3.40)."
    );
    assert!(there.is_comparable && there.cautions.is_empty(), "{there:?}");
    let back = overall(&slow, &fast).conclusion;
    let begin = "The second system is better: the first system's wall-clock throughput is 0.3";
    assert!(back.starts_with(begin), "{back}");
    let same = overall(&fast, &fast).conclusion;
    assert!(same.starts_with("No difference is shown: the first system's "), "{same}");
    let few = overall(&system(&FAST[..3], as_is), &system(&SLOW[..3], as_is)).conclusion;
    assert!(few.starts_with("No difference is certain: "), "{few}");
    assert!(few.ends_with("no interval: fewer than six pairs)."), "{few}");
}

#[test]
fn pairs_of_two_loads_are_told_and_left_out() {
    let phases = |others: usize| {
        move |at: usize, load: &mut Load| {
            load.settings.insert("prefill_only".to_owned(), (at < others).into());
        }
    };
    let slow = system(&SLOW, phases(0));
    let fast = system(&FAST, phases(2));
    let pairs = matched(&fast, &slow);
    assert_eq!(pairs.iter().filter(|pair| pair.is_of_one_load()).count(), 6);
    let some = Overall::of(&pairs);
    let told = "in 2 of 8 pairs the settings of the load differ (prefill_only: true and false): \
                the two sides did not";
    assert!(some.cautions.len() == 1 && some.cautions[0].starts_with(told), "{some:?}");
    assert!(some.cautions[0].ends_with("; these pairs are left out"), "{some:?}");
    assert!(some.conclusion.contains("(median of 6 of 6 pairs, "), "{some:?}");
    let none = overall(&system(&FAST, phases(8)), &slow);
    assert_eq!(
        (none.conclusion.as_str(), none.is_comparable),
        (
            "The two can't be compared, since in 8 of 8 pairs the settings of the load differ \
             (prefill_only: true and false).",
            false
        )
    );
}

#[test]
fn what_differs_in_some_pairs_is_told_with_their_number() {
    let fast = system(&FAST, |at, load| {
        load.windows_s = vec![if at < 3 { 30.0 + at as f64 } else { 60.0 }];
        load.storage_gib = Some(if at == 0 { 4.0 } else { 8.0 });
    });
    let slow = system(&SLOW, |_, load| {
        (load.windows_s, load.storage_gib) = (vec![60.0], Some(8.0));
    });
    let there = overall(&fast, &slow);
    let few = "No difference is certain: the first system's wall-clock throughput is 3.00× the \
               second system's (median of 5 of 5 pairs";
    assert!(there.conclusion.starts_with(few), "{there:?}");
    let told = there.cautions;
    assert_eq!(told.len(), 2, "{told:?}");
    let space = "in 1 of 8 pairs the storage spaces differ (4.0 and 8.0 GiB): in a smaller one";
    assert!(told[0].starts_with(space), "{told:?}");
    let windows = "in 3 of 8 pairs the windows differ (30.0 and 60.0 s in one of them): amounts";
    assert!(told[1].starts_with(windows), "{told:?}");
}

/// Nothing is concluded from two results of other seeds; from eight such pairs a win was.
#[test]
fn pairs_of_other_seeds_decide_nothing() {
    let seeded = |others: usize| {
        move |at: usize, load: &mut Load| load.seeds = Some(vec![if at < others { 2 } else { 1 }])
    };
    let slow = system(&SLOW, seeded(0));
    let some = overall(&system(&FAST, seeded(2)), &slow);
    assert!(some.conclusion.contains("(median of 6 of 6 pairs, "), "{some:?}");
    let told = "in 2 of 8 pairs the seeds differ (2 and 1): other requests were drawn, ";
    assert!(some.cautions.len() == 1 && some.cautions[0].starts_with(told), "{some:?}");
    assert!(some.cautions[0].ends_with("; the conclusion leaves these pairs out"), "{some:?}");
    let none = overall(&system(&FAST, seeded(8)), &slow);
    let why =
        "No conclusion can be drawn, since in 8 of 8 pairs the seeds differ (2 and 1).".to_owned();
    assert_eq!((none.conclusion, none.is_comparable), (why, true));
}

#[test]
fn rows_of_a_table_are_told_to_hide_most_settings() {
    let row = |_: usize, load: &mut Load| load.is_row = true;
    let there = overall(&system(&FAST, row), &system(&SLOW, as_is));
    assert!(there.conclusion.starts_with("The first system is better: "), "{there:?}");
    let told = "in 8 of 8 pairs most settings of the load are not known (rows of a table have no \
                columns for them): whether both";
    assert!(there.cautions.len() == 1 && there.cautions[0].starts_with(told), "{there:?}");
}

#[test]
fn pairs_of_other_hit_rates_decide_nothing() {
    let hits = |reads: f64| {
        move |_: usize, load: &mut Load| {
            load.hit_rates = HitRates { reads: Some(reads), ..HitRates::default() };
        }
    };
    // Whichever side finds less: it reads less, and a miss costs no time.
    for [fast, slow] in [[0.2, 0.9], [0.9, 0.2]] {
        let there = overall(&system(&FAST, hits(fast)), &system(&SLOW, hits(slow)));
        let why = "No conclusion can be drawn, since in 8 of 8 pairs the hit rates differ (";
        assert!(there.conclusion.starts_with(why), "{there:?}");
    }
}

/// The better throughput of the slower system came with worse writes.
#[test]
fn a_system_that_is_worse_by_what_decides_is_not_the_better_one() {
    let with_writes = |rates: &[f64], writes: f64| {
        let mut system = system(rates, as_is);
        let place = METRICS.iter().position(|metric| metric.key == WRITE_BANDWIDTH).unwrap();
        system.runs.iter_mut().for_each(|run| run.values[place] = Some(Value::exact(writes)));
        system
    };
    let there = overall(&with_writes(&FAST, 1.0), &with_writes(&SLOW, 2.0)).conclusion;
    let begin = "Neither is better throughout: the first system is better by its wall-clock";
    assert!(there.starts_with(begin), "{there}");
    let same = overall(&with_writes(&FAST, 2.0), &with_writes(&SLOW, 2.0)).conclusion;
    assert!(same.starts_with("The first system is better: its wall-clock"), "{same}");
}
