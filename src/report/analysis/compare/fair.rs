//! Ratio of a metric that no unfinished request can turn round, and the verdict on it.

use ringfall_model::Document;
use ringfall_model::metrics::{Metric, MetricValue};
use ringfall_model::stats::Interval;

use super::Verdict;

/// Deviation of a ratio that is within the resolution of two histograms, of 0.1 % each.
pub(in crate::analysis) const RESOLUTION: f64 = 0.002;
/// Deviation of a ratio that adding up the same figures in another order may make.
const ROUNDING: f64 = 1e-9;
/// Reason for a missing ratio where the unfinished requests decide it.
const UNDECIDED: &str = "the requests that had not finished decide it";
/// Reason for a missing ratio of finished requests, where it praises the side that has fewer.
const PRAISES_SURVIVORS: &str = "it praises the side that left more requests unfinished";

#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::analysis) struct Value {
    /// The number to tell.
    pub number: f64,
    /// Lower bound that holds whatever becomes of the unfinished requests; the number itself of a
    /// metric that they are no part of.
    pub at_least: f64,
    /// Whether the number is no more than that bound.
    pub is_bound: bool,
}

impl Value {
    /// A value that is no bound.
    pub fn exact(number: f64) -> Value {
        Value { number, at_least: number, is_bound: false }
    }

    /// Value of a metric in a result, of an amount the mean a run; `None` when it was not measured.
    pub fn of(metric: &Metric, document: &Document) -> Option<Value> {
        let MetricValue { number, is_bound } = metric.measured(document)?;
        if let Some(at_least) = metric.at_least(document) {
            return Some(Value { number, at_least, is_bound });
        }
        let runs = if metric.is_amount { runs(document) } else { 1 };
        Some(Value::exact(number / runs as f64))
    }

    /// Average of several, by that function; a bound where one of them is.
    pub fn average(values: &[Value], average: fn(&[f64]) -> Option<f64>) -> Option<Value> {
        let of = |pick: fn(&Value) -> f64| {
            let values: Vec<f64> = values.iter().map(pick).collect();
            average(&values)
        };
        Some(Value {
            number: of(|value| value.number)?,
            at_least: of(|value| value.at_least)?,
            is_bound: values.iter().any(|value| value.is_bound),
        })
    }

    /// The number where it is no bound.
    pub fn known(&self) -> Option<f64> {
        (!self.is_bound).then_some(self.number)
    }
}

/// Number of runs that followed one another in a result: ranks ran together.
fn runs(document: &Document) -> usize {
    let merged = document.ringfall.merged.as_ref();
    merged.filter(|merged| merged.launch.is_none()).map_or(1, |merged| merged.inputs.len().max(1))
}

/// Value of a metric on one side, beside what says whom it praises.
#[derive(Clone, Copy, Debug)]
pub(in crate::analysis) struct Measurement {
    /// The value of the metric.
    pub value: Value,
    /// Share of the side's requests that had not finished; `None` where it does not say.
    pub unfinished_share: Option<f64>,
}

/// Ratio of one side to the baseline; or why there is none, where unfinished requests could make
/// the slower of the two look like the faster one.
pub(in crate::analysis) fn fair_ratio(
    metric: &Metric,
    baseline: Measurement,
    other: Measurement,
) -> Result<f64, &'static str> {
    let (a, b) = (baseline.value, other.value);
    if a.number == 0.0 {
        return Err("the baseline is 0");
    }
    let ratio = b.number / a.number;
    let is_decided = match (a.is_bound, b.is_bound) {
        (true, true) => false,
        // A lower bound of the ratio says something above 1 alone, and an upper one below.
        (false, true) => ratio > 1.0,
        (true, false) => ratio < 1.0,
        // An estimate takes unfinished requests to be like others; the bounds take nothing for
        // granted, and have to show the same.
        (false, false) => {
            let (told, sure) = (ratio - 1.0, b.at_least / a.at_least - 1.0);
            sure * told.signum() > RESOLUTION || (told - sure).abs() <= RESOLUTION
        }
    };
    if !is_decided {
        return Err(UNDECIDED);
    }
    if metric.is_of_finished
        && let (Some(of_a), Some(of_b)) = (baseline.unfinished_share, other.unfinished_share)
    {
        let b_is_praised = of_b > of_a && metric.wins(b.number, a.number) == Some(true);
        let a_is_praised = of_a > of_b && metric.wins(a.number, b.number) == Some(true);
        if a_is_praised || b_is_praised {
            return Err(PRAISES_SURVIVORS);
        }
    }
    Ok(ratio)
}

pub(in crate::analysis) fn verdict(metric: &Metric, interval: Interval, ratio: f64) -> Verdict {
    let is_above = interval.low > 1.0 + ROUNDING && ratio > 1.0;
    let is_shown = is_above || (interval.high < 1.0 - ROUNDING && ratio < 1.0);
    match metric.wins(ratio, 1.0) {
        _ if !is_shown => Verdict::NotShown,
        Some(true) => Verdict::Better,
        Some(false) => Verdict::Worse,
        None => Verdict::Different,
    }
}
