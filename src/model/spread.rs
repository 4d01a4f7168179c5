//! Spread of the results of one configuration.

use crate::Document;
pub use crate::document::Spread;
use crate::metrics::{METRICS, Metric};
use crate::stats;

/// The metrics that at least one of the results has.
#[must_use]
pub fn spreads(documents: &[&Document]) -> Vec<Spread> {
    let spread = |metric: &Metric| {
        let values: Vec<Option<f64>> = documents.iter().map(|d| metric.of(d)).collect();
        let there: Vec<f64> = values.iter().copied().flatten().collect();
        let (min, max) = stats::range(&there)?;
        Some(Spread {
            metric: metric.key.to_owned(),
            values,
            median: stats::median(&there)?,
            min,
            max,
            cv: stats::coefficient_of_variation(&there),
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
#[must_use]
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
    use super::*;
    use crate::figures::figure::{Derived, Sum};

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
