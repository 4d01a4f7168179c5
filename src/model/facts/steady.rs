//! When is a device steady? The rule of SNIA's Solid State Storage Performance Test Specification
//! (PTS 2.0, "Steady State"): over a window of five rounds the figure stays within ±10 % of its
//! mean, and its straight-line trend over the window is at most 10 % of the mean.

use crate::stats;

/// Number of the latest rounds that must agree for bandwidth to count as steady.
pub const WINDOW: usize = 5;
/// Largest minus smallest round, of the mean.
pub const RANGE_MAX: f64 = 0.20;
/// Rise or fall of the fitted line over the window, of the mean.
const SLOPE_MAX: f64 = 0.10;

/// The rule in words, for the report.
pub const RULE: &str = "the last 5 rounds lie within 20 % of their mean from lowest to highest, \
                        and their fitted line rises or falls by at most 10 % of it (SNIA PTS)";

/// Spread of the rounds, and their trend.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RoundsSpread {
    /// Mean of the rounds, in their unit.
    pub mean: f64,
    /// Highest minus lowest round, as a share of the mean.
    pub range: f64,
    /// Rise of the fitted line from the first round to the last, as a share of the mean; negative
    /// where it falls.
    pub trend: f64,
}

impl RoundsSpread {
    /// The spread of rounds; none of fewer than two, and of those whose mean is not positive.
    pub fn of(rounds: &[f64]) -> Option<RoundsSpread> {
        let mean = stats::mean(rounds).filter(|&mean| rounds.len() > 1 && mean > 0.0)?;
        let (low, high) = stats::range(rounds)?;
        Some(RoundsSpread { mean, range: (high - low) / mean, trend: trend(rounds, mean) / mean })
    }

    /// Whether rounds with this spread are level and even.
    pub fn is_steady(&self) -> bool {
        self.range <= RANGE_MAX && self.is_level()
    }

    /// Whether their fitted line is level.
    pub fn is_level(&self) -> bool {
        self.trend.abs() <= SLOPE_MAX
    }
}

/// Mean of the last five rounds, if they are steady.
pub fn steady_mean(rounds: &[f64]) -> Option<f64> {
    let window = &rounds[rounds.len().checked_sub(WINDOW)?..];
    RoundsSpread::of(window).filter(RoundsSpread::is_steady).map(|spread| spread.mean)
}

/// Rise of the least-squares line from the first round to the last, which have that mean.
fn trend(window: &[f64], y_mean: f64) -> f64 {
    let n = window.len() as f64;
    let x_mean = (n - 1.0) / 2.0;
    let (mut xy, mut xx) = (0.0, 0.0);
    for (x, y) in window.iter().enumerate() {
        let x = x as f64 - x_mean;
        xy += x * (y - y_mean);
        xx += x * x;
    }
    xy / xx * (n - 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steady_is_level_and_even() {
        assert_eq!(steady_mean(&[1.0, 100.0, 100.0, 100.0, 100.0, 100.0]), Some(100.0));
        assert!(steady_mean(&[95.0, 104.0, 99.0, 103.0, 97.0]).is_some());
        // One round out of range.
        assert_eq!(steady_mean(&[100.0, 100.0, 121.0, 100.0, 100.0]), None);
        // In range, but it still rises: 91 to 109 is a trend of 18 %.
        assert_eq!(steady_mean(&[91.0, 95.5, 100.0, 104.5, 109.0]), None);
        assert_eq!(steady_mean(&[100.0; 4]), None);
        assert_eq!(steady_mean(&[0.0; 9]), None);
    }
}
