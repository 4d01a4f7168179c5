//! Spread of the results of one configuration.

use crate::Document;
pub use crate::document::Spread;
use crate::metrics::{METRICS, Metric, MetricValue};
use crate::stats;

/// The metrics of which at least one of the results has a value or a bound.
pub fn spreads(documents: &[&Document]) -> Vec<Spread> {
    let spread = |metric: &Metric| {
        let measured: Vec<Option<MetricValue>> =
            documents.iter().map(|document| metric.measured(document)).collect();
        let there: Vec<MetricValue> = measured.iter().copied().flatten().collect();
        let lowest: Vec<f64> = there.iter().map(|one| one.number).collect();
        // What is known as a bound may exceed it by any amount.
        let most = |one: &MetricValue| if one.is_bound { f64::MAX } else { one.number };
        let highest: Vec<f64> = there.iter().map(most).collect();
        let [(min, max), (min_most, max_most)] = [stats::range(&lowest)?, stats::range(&highest)?];
        let [median, median_most] = [stats::median(&lowest)?, stats::median(&highest)?];
        let of = |is_bound: bool| {
            let number =
                |one: &Option<MetricValue>| Some(one.filter(|m| m.is_bound == is_bound)?.number);
            measured.iter().map(number).collect()
        };
        let cv = (lowest == highest).then(|| stats::coefficient_of_variation(&lowest)).flatten();
        Some(Spread {
            metric: metric.key.to_owned(),
            values: of(false),
            bounds: of(true),
            median,
            median_is_bound: median < median_most,
            min,
            min_is_bound: min < min_most,
            max,
            max_is_bound: max < max_most,
            cv,
        })
    };
    METRICS.iter().filter_map(spread).collect()
}

/// The difference between two systems that trials should be able to show.
pub const DIFFERENCE: f64 = 0.1;

/// A metric whose trials lie too far apart to show [`DIFFERENCE`].
#[derive(Clone, Debug, PartialEq)]
pub struct TooWide {
    /// Key of the metric, as in `Metric::key`.
    pub metric: String,
    /// Coefficient of variation of the trials: standard deviation over mean.
    pub cv: f64,
    /// Number of trials that there are.
    pub trials: usize,
    /// Trials that would do, if they spread alike ([`stats::trials_needed`]).
    pub needed: u64,
}

/// Finds the given metric that needs the most trials, if the trials made are too few for it.
pub fn widest(spreads: &[Spread], metrics: &[&str]) -> Option<TooWide> {
    let of = |spread: &Spread| {
        let trials = spread.values.iter().flatten().count();
        let cv = spread.cv.filter(|_| metrics.contains(&&*spread.metric))?;
        let needed = stats::trials_needed(cv, DIFFERENCE);
        let metric = spread.metric.clone();
        (needed > trials as u64).then_some(TooWide { metric, cv, trials, needed })
    };
    spreads.iter().filter_map(of).max_by_key(|too_wide| too_wide.needed)
}

#[cfg(test)]
mod tests {
    use ringfall_workloads::contract::Class;

    use super::*;
    use crate::facts::RequestStats;
    use crate::figures::figure::{Derived, Sum};
    use crate::metrics::REQUEST_P95;
    use crate::testing::request;

    #[test]
    fn what_was_not_measured_is_null_and_not_zero() {
        let of = |tokens: Option<u64>| {
            let mut document = Document::default();
            document.summary.total_tokens = Sum::maybe(tokens);
            document
        };
        let documents = [of(Some(10)), of(None), of(Some(30))];
        let all = spreads(&documents.iter().collect::<Vec<_>>());
        assert_eq!(all.len(), 1);
        assert_eq!(all[0].values, [Some(10.0), None, Some(30.0)]);
        assert_eq!((all[0].median, all[0].min, all[0].max), (20.0, 10.0, 30.0));
        assert!((all[0].cv.unwrap() - 200.0_f64.sqrt() / 20.0).abs() < 1e-12);
    }

    /// The median, the largest and the CV were of the results that had finished most requests.
    #[test]
    fn an_unknown_latency_counts_as_at_least_its_bound() {
        let of = |finished_ms: u64, unfinished: u64| {
            let mut run = crate::testing::busy();
            run.requests = RequestStats::default();
            (0..40).for_each(|_| run.requests.record(&request(Class::Batch, finished_ms)));
            (0..unfinished).for_each(|_| {
                run.requests.record_unfinished(Class::Batch, 9_000_000_000);
            });
            Document::of(&run)
        };
        let row = |documents: &[Document]| {
            let all = spreads(&documents.iter().collect::<Vec<_>>());
            all.into_iter().find(|row| row.metric == REQUEST_P95).unwrap()
        };
        let (fast, slow, over) = (of(10, 0), of(20, 0), of(10, 50));
        let told = row(&[fast.clone(), slow.clone(), over.clone()]);
        assert_eq!((told.values[2], told.bounds[..2].to_vec()), (None, vec![None, None]));
        let bound = told.bounds[2].unwrap();
        assert!(bound > 8_000.0 && told.max == bound && told.max_is_bound, "{told:?}");
        assert_eq!(Some(told.median), told.values[1], "half of them took no longer");
        assert!(!told.median_is_bound && !told.min_is_bound && told.cv.is_none(), "{told:?}");
        // A bound decides the middle.
        let told = row(&[slow, over.clone(), over.clone()]);
        assert!(told.median == bound && told.median_is_bound && !told.min_is_bound, "{told:?}");
        let told = row(&[over.clone(), over]);
        assert!(told.min == bound && told.min_is_bound, "{told:?}");
        assert!(row(&[fast.clone(), fast]).cv.is_some());
    }

    #[test]
    fn trials_that_can_t_show_a_tenth_are_told_with_how_many_could() {
        fn of(speed: f64) -> Document {
            let mut document = Document::default();
            document.summary.avg_throughput_tokens_per_sec = Derived::of(speed);
            document.summary.total_tokens = Sum::of(5);
            document
        }
        let near = [of(100.0), of(101.0), of(99.0)];
        let far = [of(100.0), of(130.0), of(70.0)];
        let metrics = [crate::metrics::WALL_CLOCK, "tokens"];
        let widest_of = |documents: &[Document], metrics: &[&str]| {
            widest(&spreads(&documents.iter().collect::<Vec<_>>()), metrics)
        };
        assert_eq!(widest_of(&near, &metrics), None);
        let told = widest_of(&far, &metrics).unwrap();
        assert_eq!((&*told.metric, told.trials), (metrics[0], 3));
        // 16 (0.3 / 0.1)²
        assert_eq!(told.needed, 144);
        assert_eq!(widest_of(&far, &["tokens"]), None);
    }
}
