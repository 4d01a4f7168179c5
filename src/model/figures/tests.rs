//! Tests of the merging rule of each type of figure and list.

use std::collections::BTreeMap;

use super::figure::{Any, Derived, Max, Min, OfRun, OverTime, Same, Sum};
use super::list::{Buckets, ByName, Named, Samples, Timed, Timeline, Union};
use super::merge::{Inputs, Merge};
use crate::facts::SAMPLES_MAX;

fn inputs(seconds: &[f64], completed: &[u64]) -> Inputs {
    Inputs { seconds: seconds.to_vec(), completed: completed.to_vec() }
}

fn merged<T: Merge>(all: &[T], inputs: &Inputs) -> T {
    T::merged(&all.iter().collect::<Vec<_>>(), inputs)
}

#[test]
fn extremes_are_of_what_is_known_and_a_sum_of_all() {
    let none = Inputs::default();
    let maxima = [3u64, 9, 4].map(Max::<u64>::of);
    assert_eq!(merged(&maxima, &none).known(), Some(9));
    let minima = [3u64, 1, 4].map(Min::<u64>::of);
    assert_eq!(merged(&minima, &none).known(), Some(1));
    assert_eq!(merged(&[Max::<u64>::maybe(None), maxima[0]], &none).known(), Some(3));
    assert_eq!(merged(&[Min::<u64>::maybe(None); 2], &none).known(), None);
    let sums = [3u64, u64::MAX].map(Sum::<u64>::of);
    assert_eq!(merged(&sums, &none).known(), Some(u64::MAX));
    assert_eq!(merged(&[sums[0], Sum::maybe(None)], &none).known(), None);
    assert_eq!(merged(&[1.5, 2.0].map(Sum::<f64>::of), &none).number(), Some(3.5));
}

#[test]
fn what_differs_is_unknown_and_equal_counts_are_not_the_same() {
    let none = Inputs::default();
    let of = |word: &str| Same::<String>::of(word.to_owned());
    assert_eq!(merged(&[of("on"), of("on")], &none), of("on"));
    assert_eq!(merged(&[of("on"), of("off")], &none), Same::default());
    assert_eq!(merged(&[of("on"), Same::default()], &none), Same::default());
    assert_eq!(merged(&[OfRun::<u64>::of(5); 2], &none).known(), None);
    assert_eq!(merged(&[Derived::<u64>::of(5); 2], &none).known(), None);
}

#[test]
fn any_is_whether_it_is_true_of_one() {
    let any = |all: &[Option<bool>]| {
        let all: Vec<Any<bool>> = all.iter().map(|&one| Any::maybe(one)).collect();
        merged(&all, &Inputs::default()).known()
    };
    assert_eq!(any(&[Some(false), Some(true)]), Some(true));
    assert_eq!(any(&[Some(false), Some(false)]), Some(false));
    assert_eq!(any(&[Some(true), Some(true)]), Some(true));
    assert_eq!(any(&[None, Some(false)]), Some(false));
}

#[test]
fn a_mean_over_time_is_weighted_by_the_windows_and_needs_all_of_them() {
    let mean = |shares: &[Option<f64>], seconds: &[f64]| {
        let all: Vec<OverTime<f64>> = shares.iter().map(|&share| OverTime::maybe(share)).collect();
        merged(&all, &inputs(seconds, &[])).known()
    };
    assert_eq!(mean(&[Some(0.5), Some(1.0)], &[0.25, 0.75]), Some(0.875));
    assert_eq!(mean(&[Some(0.5), Some(1.0)], &[0.125, 0.125]), Some(0.75));
    assert_eq!(mean(&[Some(0.5), None], &[1.0, 1.0]), None);
    // Of windows of no length, or not known for each, nothing can be said; of one result all.
    assert_eq!(mean(&[Some(0.5), Some(1.0)], &[0.0, 0.0]), None);
    assert_eq!(mean(&[Some(0.5), Some(1.0)], &[1.0]), None);
    assert_eq!(mean(&[Some(0.1)], &[0.0]), Some(0.1));
}

/// Counters `0..count`, so that the picked ones show where they came from.
fn samples(from: u32, count: usize) -> Samples<u32> {
    (from..).take(count).collect()
}

#[test]
fn samples_that_are_all_there_and_few_enough_are_all_kept() {
    let lists = [samples(0, 40_000), samples(50_000, 60_000)];
    let all = merged(&lists, &inputs(&[], &[40_000, 60_000]));
    assert_eq!((all.len(), all[40_000], all[99_999]), (SAMPLES_MAX, 50_000, 109_999));
    // A list as long as can be is whole where no more requests ended.
    let lists = [samples(0, SAMPLES_MAX), samples(0, 0)];
    assert_eq!(merged(&lists, &inputs(&[], &[SAMPLES_MAX as u64, 0])).len(), SAMPLES_MAX);
    // A short list is all that there was of values, whatever was completed.
    let lists = [samples(0, 10), samples(50, 10)];
    assert_eq!(merged(&lists, &inputs(&[], &[10, 1_000])).len(), 20);
    assert_eq!(merged(&lists, &inputs(&[], &[0, 0])).len(), 20);
}

#[test]
fn samples_too_many_are_picked_evenly_by_each_results_share_of_the_requests() {
    let lists = [samples(0, 80_000), samples(100_000, 80_000)];
    let picked = merged(&lists, &inputs(&[], &[80_000, 80_000]));
    assert_eq!(picked.len(), SAMPLES_MAX);
    // 50,000 of 80,000: 0, 1, 3, 4, 6, 8 …
    assert_eq!(picked[..6], [0, 1, 3, 4, 6, 8]);
    assert_eq!((picked[49_999], picked[50_000], picked[99_999]), (79_998, 100_000, 179_998));
    // One that is a sample itself stands for what it was taken from.
    let lists = [samples(0, SAMPLES_MAX), samples(200_000, 1_000)];
    let picked = merged(&lists, &inputs(&[], &[999_000, 1_000]));
    assert_eq!(picked.len(), SAMPLES_MAX);
    assert_eq!(picked.iter().filter(|&&sample| sample >= 200_000).count(), 100);
    // Nor has any more to give than it has.
    let lists = [samples(0, SAMPLES_MAX), samples(200_000, 1_000)];
    let picked = merged(&lists, &inputs(&[], &[SAMPLES_MAX as u64, 900_000]));
    assert_eq!(picked.iter().filter(|&&sample| sample >= 200_000).count(), 1_000);
    assert_eq!(picked.len(), 10_000 + 1_000);
    // Nothing is divided by the requests of results that do not say how many they had.
    assert_eq!(merged(&[samples(0, 80_000), samples(0, 80_000)], &inputs(&[], &[0, 0])).len(), 0);
    assert_eq!(
        merged(&[samples(0, 80_000), samples(0, 80_000)], &inputs(&[], &[1, 0])).len(),
        80_000
    );
}

#[derive(Clone, PartialEq, Debug)]
struct Row {
    name: Option<&'static str>,
    count: u64,
    end_s: f64,
}

fn row(name: &'static str, count: u64) -> Row {
    Row { name: Some(name), count, end_s: 0.0 }
}

impl Named for Row {
    fn name(&self) -> Option<String> {
        self.name.map(str::to_owned)
    }
}

impl Timed for Row {
    fn delay(&mut self, by_s: f64) {
        self.end_s += by_s;
    }
}

impl Merge for Row {
    fn merged(all: &[&Self], _: &Inputs) -> Self {
        Row { count: all.iter().map(|row| row.count).sum(), ..all[0].clone() }
    }

    fn rules(_: &str, _: &mut Vec<(String, &'static str)>) {}
}

#[test]
fn rows_of_the_same_name_become_one_and_rows_without_a_name_stay_apart() {
    let unnamed = Row { name: None, ..row("", 5) };
    let lists = [
        ByName(vec![row("a", 1), unnamed.clone(), row("b", 2)]),
        ByName(vec![row("b", 10), unnamed.clone(), row("c", 20)]),
    ];
    let rows = merged(&lists, &Inputs::default());
    let expected = [row("a", 1), unnamed.clone(), row("b", 12), unnamed, row("c", 20)];
    assert_eq!(rows.0, expected);
}

#[test]
fn a_timeline_goes_on_where_the_one_before_it_ended() {
    let at = |end_s: f64| Row { end_s, ..row("", 1) };
    let lists = [vec![at(1.0), at(2.0)], vec![at(1.0)], vec![at(0.5)]].map(Timeline);
    let rows = merged(&lists, &inputs(&[2.5, 4.0, 9.0], &[]));
    let ends: Vec<f64> = rows.iter().map(|row| row.end_s).collect();
    assert_eq!(ends, [1.0, 2.0, 3.5, 7.0]);
}

#[test]
fn the_counts_of_a_bucket_add_up_to_the_largest_number_at_most() {
    let lists = [Buckets(vec![(3, 5), (1, 2)]), Buckets(vec![(3, u32::MAX - 1), (2, 7), (1, 1)])];
    let expected = [(1, 3), (2, 7), (3, u32::MAX)];
    assert_eq!(merged(&lists, &Inputs::default()).0, expected);
}

#[test]
fn an_item_of_several_lists_is_in_their_union_once() {
    let lists = [Union(vec!["b", "a"]), Union(vec!["a", "c", "b"])];
    assert_eq!(merged(&lists, &Inputs::default()).0, ["b", "a", "c"]);
}

#[test]
fn what_one_map_lacks_is_unknown_under_its_name() {
    let sum = Sum::<u64>::of;
    let maps = [
        BTreeMap::from([("a".to_owned(), sum(1)), ("b".to_owned(), sum(2))]),
        BTreeMap::from([("b".to_owned(), sum(3)), ("c".to_owned(), sum(4))]),
    ];
    let both = merged(&maps, &Inputs::default());
    let known: Vec<_> = both.iter().map(|(name, sum)| (name.as_str(), sum.known())).collect();
    assert_eq!(known, [("a", None), ("b", Some(5)), ("c", None)]);
}
