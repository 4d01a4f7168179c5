//! How far the results of one configuration lie apart.

use serde::Serialize;
use serde_json::Value;

use super::metrics::METRICS;
use super::stats;

/// One metric over several results.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// `Metric::key`.
    pub metric: &'static str,
    /// One a result, in their order; null where it was not measured.
    pub values: Vec<Option<f64>>,
    /// Of the values that there are.
    pub median: f64,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
    /// Standard deviation over mean; `None` of fewer than two values, or of zeros.
    pub cv: Option<f64>,
}

/// The metrics that at least one of the results has.
#[must_use]
pub fn spreads(documents: &[&Value]) -> Vec<Spread> {
    let spread = |metric: &super::metrics::Metric| {
        let values: Vec<Option<f64>> = documents.iter().map(|d| metric.of(d)).collect();
        let there: Vec<f64> = values.iter().copied().flatten().collect();
        let (min, max) = stats::range(&there)?;
        Some(Spread {
            metric: metric.key,
            values,
            median: stats::median(&there)?,
            min,
            max,
            cv: stats::coefficient_of_variation(&there),
        })
    };
    METRICS.iter().filter_map(spread).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_was_not_measured_is_null_and_not_zero() {
        let of = |tokens: Option<u64>| json!({ "summary": { "total_tokens": tokens } });
        let documents = [of(Some(10)), of(None), of(Some(30))];
        let all = spreads(&documents.iter().collect::<Vec<_>>());
        assert_eq!(all.len(), 1);
        assert_eq!(all[0].values, [Some(10.0), None, Some(30.0)]);
        assert_eq!((all[0].median, all[0].min, all[0].max), (20.0, 10.0, 30.0));
        assert!((all[0].cv.unwrap() - 200.0_f64.sqrt() / 20.0).abs() < 1e-12);
    }
}
