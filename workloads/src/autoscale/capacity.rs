//! The search for peak throughput: climb until it stops paying, then back to the knee.

use super::step::StepResult;
use super::usl::{UslFit, fit};
use super::{Settings, Wish, between};

/// More users must bring at least this much more, and more than the noise explains.
const GAIN_MIN: f64 = 0.03;
/// Steps up in a row that did not pay before it is a plateau: one may be an unlucky window.
const NOT_PAYING_MIN: u32 = 2;
/// The knee: the fewest users that reach this share of the peak.
const KNEE_SHARE: f64 = 0.99;
/// The knee is known to this share.
const KNEE_TOLERANCE: f64 = 0.08;
/// A summit between two counts is looked for until they are this close.
const SUMMIT_TOLERANCE: f64 = 0.2;

/// Result of capacity mode.
#[derive(Clone, Debug)]
pub struct CapacityAnswer {
    /// Highest throughput that holds: the mean over all steps that reach 99 % of the best one
    /// (less what their noise explains), weighted by their time, bytes/s.
    pub peak_bytes_per_s: f64,
    /// Fewest users that reach 99 % of the peak.
    pub peak_users: u32,
    /// Tokens/s of the step with `peak_users` that moved the most bytes/s.
    pub peak_tokens_per_s: f64,
    /// Universal scalability law fitted to the curve of all steps; none where no fit was possible.
    pub usl: Option<UslFit>,
}

#[derive(Debug)]
pub(super) struct Capacity {
    settings: Settings,
    /// Users and throughput of every step; several steps of one count are averaged by time.
    points: Vec<Point>,
    not_paying: u32,
    climbing: bool,
    plateau: bool,
}

#[derive(Clone, Copy, Debug)]
struct Point {
    users: u32,
    bytes_per_s: f64,
    uncertainty: f64,
    seconds: f64,
}

impl Capacity {
    pub(super) fn new(settings: Settings) -> Capacity {
        Capacity { settings, points: Vec::new(), not_paying: 0, climbing: true, plateau: false }
    }

    pub(super) fn after(&mut self, result: &StepResult) -> Wish {
        let best = self.best();
        self.points.push(Point {
            users: result.users,
            bytes_per_s: result.bytes_per_s,
            uncertainty: result.uncertainty,
            seconds: result.window_s,
        });
        if self.climbing {
            match best {
                Some(best) if !pays(best, &self.points[self.points.len() - 1]) => {
                    self.not_paying += 1;
                }
                _ => self.not_paying = 0,
            }
            self.plateau = self.not_paying >= NOT_PAYING_MIN;
            if !self.plateau && result.users < self.settings.users_max {
                let users = self.settings.more(result.users);
                return Wish::Step { users, patient: false };
            }
            self.climbing = false;
        }
        if let Some(users) = self.summit() {
            return Wish::Step { users, patient: false };
        }
        match self.knee_bracket() {
            (Some(low), Some(high)) => match between(low, high, KNEE_TOLERANCE) {
                Some(users) => Wish::Step { users, patient: false },
                None => Wish::Stop,
            },
            // The first step reached the peak already: the knee is below it.
            (None, Some(high)) => match self.settings.fewer(high) {
                Some(users) => Wish::Step { users, patient: false },
                None => Wish::Stop,
            },
            _ => Wish::Stop,
        }
    }

    fn best(&self) -> Option<Point> {
        self.points.iter().copied().max_by(|a, b| a.bytes_per_s.total_cmp(&b.bytes_per_s))
    }

    /// Where to look for a higher point, in a system that falls again beyond its best: in the
    /// widest gap beside a point that is about as good as the best.
    fn summit(&self) -> Option<u32> {
        let best = self.best()?;
        let clearly_less = |point: &Point| {
            let explained = best.uncertainty.hypot(point.uncertainty);
            point.bytes_per_s < best.bytes_per_s * (1.0 - GAIN_MIN - explained)
        };
        if !self.points.iter().any(|point| point.users > best.users && clearly_less(point)) {
            return None;
        }
        let mut by_users = self.points.clone();
        by_users.sort_by_key(|point| point.users);
        let gaps = by_users.windows(2).filter(|gap| !gap.iter().all(clearly_less));
        let ratio = |gap: &[Point]| f64::from(gap[1].users) / f64::from(gap[0].users);
        let widest = gaps.max_by(|a, b| ratio(a).total_cmp(&ratio(b)))?;
        between(widest[0].users, widest[1].users, SUMMIT_TOLERANCE)
    }

    /// Whether a point is as good as `bytes_per_s`, as far as its noise lets one tell.
    fn reaches(point: &Point, bytes_per_s: f64) -> bool {
        point.bytes_per_s >= (KNEE_SHARE - point.uncertainty) * bytes_per_s
    }

    /// Time-weighted mean of what is as good as the best.
    fn peak(&self) -> Option<f64> {
        let best = self.best()?.bytes_per_s;
        let good = self.points.iter().filter(|point| Self::reaches(point, best));
        let (sum, seconds) = good.fold((0.0, 0.0), |(sum, seconds), point| {
            (sum + point.bytes_per_s * point.seconds, seconds + point.seconds)
        });
        (seconds > 0.0).then(|| sum / seconds)
    }

    /// The most users below the knee, and the fewest at or above it, as far as measured.
    fn knee_bracket(&self) -> (Option<u32>, Option<u32>) {
        let Some(peak) = self.peak() else { return (None, None) };
        let reaches = |point: &&Point| Self::reaches(point, peak);
        let high = self.points.iter().filter(reaches).map(|point| point.users).min();
        let low = self
            .points
            .iter()
            .filter(|point| !reaches(point) && high.is_none_or(|high| point.users < high))
            .map(|point| point.users)
            .max();
        (low, high)
    }

    pub(super) fn conclude(&self, results: &[&StepResult]) -> (Option<CapacityAnswer>, String) {
        let reason = match self.plateau {
            true => format!(
                "{NOT_PAYING_MIN} doublings in a row brought less than {:.0} % more",
                GAIN_MIN * 100.0
            ),
            false => format!("{} users are the most allowed", self.settings.users_max),
        };
        let best = most_bytes(results.iter());
        let answer = best.zip(self.peak()).map(|(best, peak_bytes_per_s)| {
            let points: Vec<(u32, f64)> =
                results.iter().map(|result| (result.users, result.bytes_per_s)).collect();
            let peak_users = self.knee_bracket().1.unwrap_or(best.users);
            let at_knee = most_bytes(results.iter().filter(|step| step.users == peak_users));
            CapacityAnswer {
                peak_bytes_per_s,
                peak_users,
                peak_tokens_per_s: at_knee.unwrap_or(best).tokens_per_s,
                usl: fit(&points),
            }
        });
        (answer, reason)
    }
}

/// The step that moved the most bytes/s.
fn most_bytes<'a: 'b, 'b>(
    steps: impl Iterator<Item = &'b &'a StepResult>,
) -> Option<&'a StepResult> {
    steps.copied().max_by(|a, b| a.bytes_per_s.total_cmp(&b.bytes_per_s))
}

/// Whether a step is better than the best before it, beyond noise.
fn pays(best: Point, now: &Point) -> bool {
    is_more((best.bytes_per_s, best.uncertainty), (now.bytes_per_s, now.uncertainty))
}

/// Whether a throughput is higher than the one before it, beyond noise; each with its uncertainty
/// as a share of it.
pub(super) fn is_more(before: (f64, f64), now: (f64, f64)) -> bool {
    if before.0 <= 0.0 {
        return now.0 > 0.0;
    }
    now.0 / before.0 - 1.0 > GAIN_MIN.max(before.1.hypot(now.1))
}

#[cfg(test)]
#[path = "capacity_test.rs"]
mod tests;
