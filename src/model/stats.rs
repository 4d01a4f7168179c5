//! Statistics, pure: every function of its arguments alone, a seed among them where it draws.

use rand::{RngExt, SeedableRng};
use rand_distr::{Beta, Distribution};
use rand_xoshiro::Xoshiro256PlusPlus;
use serde::Serialize;
use statrs::distribution::{Binomial, ContinuousCDF, DiscreteCDF, Normal, StudentsT};

/// Confidence of every interval.
pub const CONFIDENCE: f64 = 0.95;
/// Draws of a bootstrap: its 2.5th percentile then rests on 50 draws below it (Efron and
/// Tibshirani, An Introduction to the Bootstrap, 1993, section 19.3, asks for 1,000 or more).
pub const DRAWS: usize = 2_000;
/// Fewest rows whose variation says something of how rows vary.
const ROWS_MIN: usize = 10;

/// Fewest values of which P95 and P99 are printed: of fewer, both are the largest value or next to
/// it, and are no percentiles.
const TAIL_COUNT_MIN: u64 = 10;

/// Where a figure lies, with [`CONFIDENCE`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct Interval {
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
}

impl Interval {
    /// Whether the value lies inside or on an end.
    pub fn contains(&self, value: f64) -> bool {
        (self.low..=self.high).contains(&value)
    }
}

/// Part of independent events that had an outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Proportion {
    /// Number of events with the outcome, at most `of`.
    pub part: u64,
    /// Number of all events.
    pub of: u64,
}

impl Proportion {
    /// The part as a share, 0 to 1; `None` of no events.
    pub fn share(self) -> Option<f64> {
        (self.of > 0).then(|| self.part as f64 / self.of as f64)
    }

    /// The score interval of the share that the events were drawn with (Wilson 1927); `None` of no
    /// events.
    pub fn interval(self) -> Option<Interval> {
        let (share, n) = (self.share()?, self.of as f64);
        let z = Normal::new(0.0, 1.0).ok()?.inverse_cdf((1.0 + CONFIDENCE) / 2.0);
        let squared = z * z / n;
        let reach = z * ((share * (1.0 - share) + squared / 4.0) / n).sqrt();
        let at = |end: f64| ((share + squared / 2.0 + end) / (1.0 + squared)).clamp(0.0, 1.0);
        Some(Interval { low: at(-reach), high: at(reach) })
    }

    /// Whether the share is above another one by more than chance: whether the interval of their
    /// difference (Newcombe 1998, method 10: from the score intervals of both) leaves out 0.
    pub fn is_above(self, other: Proportion) -> bool {
        let is_beyond = || {
            let below = self.share()? - self.interval()?.low;
            let above = other.interval()?.high - other.share()?;
            Some(self.share()? - other.share()? > below.hypot(above))
        };
        is_beyond().unwrap_or(false)
    }
}

/// P95 or P99 of so many values; `None` of too few.
pub fn tail<T>(count: u64, percentile: Option<T>) -> Option<T> {
    percentile.filter(|_| count >= TAIL_COUNT_MIN)
}

/// Arithmetic mean; `None` of nothing.
pub fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Standard deviation of the population that the values are a sample of (divided by n − 1); `None`
/// of fewer than two.
pub fn standard_deviation(values: &[f64]) -> Option<f64> {
    let mean = mean(values).filter(|_| values.len() > 1)?;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    Some((squares / (values.len() - 1) as f64).sqrt())
}

/// Coefficient of variation: standard deviation over mean; `None` of fewer than two values or when
/// the mean is not positive.
pub fn coefficient_of_variation(values: &[f64]) -> Option<f64> {
    let mean = mean(values).filter(|&mean| mean > 0.0)?;
    Some(standard_deviation(values)? / mean)
}

/// The middle value, or the mean of the two in the middle; `None` of nothing.
pub fn median(values: &[f64]) -> Option<f64> {
    quantile(values, 0.5)
}

/// The value below which a `share` (0..=1) of the values lies, interpolated between neighbours
/// (Hyndman and Fan's type 7, as R and NumPy do it); `None` of nothing.
pub fn quantile(values: &[f64], share: f64) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let place = share.clamp(0.0, 1.0) * sorted.len().checked_sub(1)? as f64;
    // At most the last index: the share is at most 1.
    let below = place.floor() as usize;
    let (low, high) = (sorted.get(below)?, sorted.get(below + 1).or(sorted.last())?);
    Some(low + (high - low) * (place - place.floor()))
}

/// Smallest and largest; `None` of nothing.
pub fn range(values: &[f64]) -> Option<(f64, f64)> {
    let min = values.iter().copied().min_by(f64::total_cmp)?;
    let max = values.iter().copied().max_by(f64::total_cmp)?;
    Some((min, max))
}

/// Where the quantile of what `count` independent values were drawn from may lie among them: draws
/// of the share of the values below it. The k-th smallest of n uniform values follows
/// Beta(k, n + 1 − k) (David and Nagaraja, Order Statistics, 3rd ed., section 2.3), whatever the
/// values' own distribution.
///
/// `None` with so few values that the quantile may, at [`CONFIDENCE`], be beyond all of them.
pub fn quantile_draws(count: u64, quantile: f64, seed: u64) -> Option<Vec<f64>> {
    let tail = (1.0 - CONFIDENCE) / 2.0;
    let beyond = quantile.powf(count as f64).max((1.0 - quantile).powf(count as f64));
    if count == 0 || beyond > tail {
        return None;
    }
    let rank = (count as f64 * quantile).ceil().clamp(1.0, count as f64);
    let beta = Beta::new(rank, count as f64 + 1.0 - rank).ok()?;
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    Some((0..DRAWS).map(|_| beta.sample(&mut rng)).collect())
}

/// Ranks, from 1, of two of `count` independent values between which the quantile of what they were
/// drawn from lies with [`CONFIDENCE`], whatever its distribution: the number of values below it is
/// binomial (David and Nagaraja, Order Statistics, 3rd ed., section 7.1). `None` at an end where
/// the quantile may lie beyond all of them.
pub fn quantile_ranks(count: u64, quantile: f64) -> [Option<u64>; 2] {
    let Ok(below) = Binomial::new(quantile, count) else { return [None, None] };
    // Fewest values below the quantile that so much of the binomial has at most.
    let fewest = |share: f64| {
        let (mut low, mut high) = (0, count);
        while low < high {
            let middle = u64::midpoint(low, high);
            match below.cdf(middle) >= share {
                true => high = middle,
                false => low = middle + 1,
            }
        }
        low
    };
    let tail = (1.0 - CONFIDENCE) / 2.0;
    let (low, high) = (fewest(tail), fewest(1.0 - tail));
    [(low > 0).then_some(low), (high < count).then(|| high + 1)]
}

/// The interval of the median of what these independent values were drawn from.
///
/// `None` of fewer than six values, which may all lie on one side of the median.
pub fn median_interval(values: &[f64]) -> Option<Interval> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let [low, high] = quantile_ranks(sorted.len() as u64, 0.5)
        .map(|rank| sorted.get(usize::try_from(rank?).ok()?.checked_sub(1)?).copied());
    Some(Interval { low: low?, high: high? })
}

/// One row of a series: how much, in how long.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Slice {
    /// Amount counted in the row, such as bytes or requests.
    pub amount: f64,
    /// Length of the row's time, s.
    pub seconds: f64,
}

/// Draws of the rate (amount a second) of a series whose neighbouring rows depend on each other:
/// the circular block bootstrap (Politis and Romano 1992), blocks of the cube root of the number of
/// rows (the order that Hall, Horowitz and Jing 1995 give for estimating a variance).
///
/// `None` with fewer than ten rows, or of no length.
pub fn rate_draws(series: &[Slice], seed: u64) -> Option<Vec<f64>> {
    let rows = series.len();
    let length: f64 = series.iter().map(|slice| slice.seconds).sum();
    if rows < ROWS_MIN || length <= 0.0 {
        return None;
    }
    // Its rounding up makes at least 1 and at most `rows`.
    let block = (rows as f64).cbrt().ceil() as usize;
    // Sums of the first rows, the series twice over: any block is one subtraction, and a day's
    // timeline costs no more than the blocks drawn.
    let mut sums = vec![(0.0, 0.0)];
    for slice in series.iter().chain(series) {
        let (amount, seconds) = sums[sums.len() - 1];
        sums.push((amount + slice.amount, seconds + slice.seconds));
    }
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut draw = || {
        let (mut amount, mut seconds, mut taken) = (0.0, 0.0, 0);
        while taken < rows {
            let start = rng.random_range(0..rows);
            let end = start + block.min(rows - taken);
            amount += sums[end].0 - sums[start].0;
            seconds += sums[end].1 - sums[start].1;
            taken += block;
        }
        (seconds > 0.0).then(|| amount / seconds)
    };
    (0..DRAWS).map(|_| draw()).collect()
}

/// The interval of a ratio, from independent draws of what is divided; `None` where a draw of the
/// divisor is 0, or the two are not as many.
pub fn ratio_interval(dividend: &[f64], divisor: &[f64]) -> Option<Interval> {
    if dividend.len() != divisor.len() || divisor.iter().any(|&value| value <= 0.0) {
        return None;
    }
    let ratios: Vec<f64> = dividend.iter().zip(divisor).map(|(a, b)| a / b).collect();
    let tail = (1.0 - CONFIDENCE) / 2.0;
    Some(Interval { low: quantile(&ratios, tail)?, high: quantile(&ratios, 1.0 - tail)? })
}

/// Geometric mean; `None` of nothing or where a value is not positive.
pub fn geometric_mean(values: &[f64]) -> Option<f64> {
    mean(&logarithms(values)?).map(f64::exp)
}

fn logarithms(values: &[f64]) -> Option<Vec<f64>> {
    values.iter().map(|&value| (value > 0.0).then(|| value.ln())).collect()
}

/// The interval of the ratio of two geometric means, from repeated trials of each: Welch's t
/// interval (Welch 1947) of the logarithms, since trials spread by factors. `None` with fewer than
/// two trials of a side or a value that is not positive.
pub fn trials_interval(dividend: &[f64], divisor: &[f64]) -> Option<Interval> {
    let (a, b) = (logarithms(dividend)?, logarithms(divisor)?);
    let difference = mean(&a)? - mean(&b)?;
    let share = |logs: &[f64]| Some(standard_deviation(logs)?.powi(2) / logs.len() as f64);
    let (a_share, b_share) = (share(&a)?, share(&b)?);
    let error = a_share + b_share;
    let reach = match error > 0.0 {
        // No trial differed from another of its side: counts that the configuration fixes.
        false => 0.0,
        true => {
            let part = |share: f64, n: usize| share.powi(2) / (n - 1) as f64;
            let freedom = error.powi(2) / (part(a_share, a.len()) + part(b_share, b.len()));
            let t = StudentsT::new(0.0, 1.0, freedom).ok()?;
            t.inverse_cdf((1.0 + CONFIDENCE) / 2.0) * error.sqrt()
        }
    };
    Some(Interval { low: (difference - reach).exp(), high: (difference + reach).exp() })
}

/// The interval of one further value of what these were drawn from, by the t distribution of the
/// logarithms (Hahn and Meeker, Statistical Intervals, section 4.2.1). `None` with fewer than two
/// values, or one that is not positive.
pub fn further_interval(values: &[f64]) -> Option<Interval> {
    let logs = logarithms(values)?;
    let (middle, spread, count) = (mean(&logs)?, standard_deviation(&logs)?, logs.len() as f64);
    let t = StudentsT::new(0.0, 1.0, count - 1.0).ok()?;
    let reach = t.inverse_cdf((1.0 + CONFIDENCE) / 2.0) * spread * (1.0 + 1.0 / count).sqrt();
    Some(Interval { low: (middle - reach).exp(), high: (middle + reach).exp() })
}

/// Trials a side that show a relative `difference` at 5 % significance with a power of 80 %, when
/// trials spread with the coefficient of variation `cv`: n = 16 (cv / difference)² (Lehr, Sixteen
/// S-squared over D-squared, Statistics in Medicine 11, 1992). At least 2, without which there is
/// no spread to speak of.
pub fn trials_needed(cv: f64, difference: f64) -> u64 {
    let trials = 16.0 * (cv / difference).powi(2);
    // Saturates: a spread that large is told by any large number. The part of a billionth keeps
    // 16.000000000000004 from being 17.
    ((trials - 1e-9).ceil() as u64).max(2)
}

#[cfg(test)]
#[path = "stats_test.rs"]
mod tests;
