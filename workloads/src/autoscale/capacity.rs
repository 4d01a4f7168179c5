//! The search for peak throughput: climb until it stops paying, then back to the knee.

use super::step::{KNOWN_TO, StepResult};
use super::usl::{UslFit, fit};
use super::{LEFT, Settings, Wish, between, counted};

/// More users must bring at least this much more, and more than the noise explains.
const GAIN_MIN: f64 = 0.03;
/// Steps up in a row that did not pay before it is a plateau: one may be an unlucky window.
const NOT_PAYING_MIN: u32 = 2;
/// Steps up in a row of which hardly anything is known, and which therefore do not count as ones
/// that did not pay: with more users a load is more even.
const HARDLY_KNOWN_MAX: u32 = 3;
/// The knee: the fewest users that reach this share of the peak, less what noise explains.
const KNEE_SHARE: f64 = 0.99;
/// Share that noise may explain of what a longer step lacks to the peak: what it moved is told as
/// the peak.
const KNEE_NOISE: f64 = 0.02;
/// The knee is known to this share.
const KNEE_TOLERANCE: f64 = 0.08;
/// Longer steps that confirm what short ones found, at most.
const PATIENT_MAX: usize = 8;
/// Times as long as the others that the longest of these steps may be.
const LONGER_TIMES: f64 = 4.0;
/// A summit between two counts is looked for until they are this close.
const SUMMIT_TOLERANCE: f64 = 0.2;
/// Share of the peak below which fewer users have to stay, beyond their noise, before throughput is
/// shown to rise with users.
const RISE_FROM: f64 = 0.95;
/// Goodness (R²) from which on a fit says something of the curve.
const FIT_MIN: f64 = 0.8;

/// Result of capacity mode.
#[derive(Clone, Debug)]
pub struct CapacityAnswer {
    /// Highest throughput that holds: the mean over all steps that are known to 5 % and reach 99 %
    /// of the best one (less what their noise explains), or that lie beyond it and are not clearly
    /// less, weighted by their time, bytes/s. Where no step is known so well, that of the best one.
    pub peak_bytes_per_s: f64,
    /// Fewest users that reach 99 % of the peak, or come so close to it that noise explains the
    /// rest: 97 % of it in a longer step, 94 % where only a short one was made.
    pub peak_users: u32,
    /// Throughput of the longest step with `peak_users`, bytes/s.
    pub knee_bytes_per_s: f64,
    /// Tokens/s of the longest step with `peak_users`.
    pub peak_tokens_per_s: f64,
    /// Fewest users tried, where throughput is not shown to rise from them to the peak, so that as
    /// many or fewer reach it.
    pub flat_from: Option<u32>,
    /// Universal scalability law fitted to the curve of all steps; none where no fit was possible,
    /// where its R² is below 0.8, and where the curve is flat.
    pub usl: Option<UslFit>,
    /// Whether the curve confirms the peak, if the search came to its end: there are several steps,
    /// throughput rises to the peak, a longer step with `peak_users` is known to 5 % and finished
    /// requests, and no step moved more than the peak by over 3 % and its own uncertainty, short
    /// ones left out where there is a longer one with as many users.
    pub confirmed: bool,
}

#[derive(Debug)]
pub(super) struct Capacity {
    settings: Settings,
    /// Users and throughput of every step; several steps of one count are averaged by time.
    points: Vec<Point>,
    not_paying: u32,
    /// Steps among these and before them of which hardly anything is known.
    hardly_known: u32,
    climbing: bool,
    plateau: bool,
}

#[derive(Clone, Copy, Debug)]
struct Point {
    users: u32,
    bytes_per_s: f64,
    uncertainty: f64,
    is_known: bool,
    patient: bool,
    seconds: f64,
    /// Whether it is shown that its requests piled up.
    grows: bool,
}

impl Capacity {
    pub(super) fn new(settings: Settings) -> Capacity {
        Capacity {
            settings,
            points: Vec::new(),
            not_paying: 0,
            hardly_known: 0,
            climbing: true,
            plateau: false,
        }
    }

    pub(super) fn after(&mut self, result: &StepResult) -> Wish {
        let best = self.best();
        if result.patient {
            // What a short step found with as many users was a part of the load.
            self.points.retain(|point| point.users != result.users);
        }
        self.points.push(Point {
            users: result.users,
            bytes_per_s: result.bytes_per_s,
            uncertainty: result.uncertainty,
            is_known: result.is_known(),
            patient: result.patient,
            seconds: result.window_s,
            grows: result.storage.backlog.is_some_and(|backlog| backlog.grows()),
        });
        if self.climbing {
            match best {
                // As long as nothing is moved, more users may not fit the tiers above any more.
                Some(best)
                    if best.bytes_per_s > 0.0
                        && !pays(best, &self.points[self.points.len() - 1]) =>
                {
                    // One that is hardly known may pay all the same.
                    self.hardly_known += u32::from(!result.is_known());
                    let may_pay = !result.is_known() && self.hardly_known <= HARDLY_KNOWN_MAX;
                    self.not_paying += u32::from(!may_pay);
                }
                _ => (self.not_paying, self.hardly_known) = (0, 0),
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
                None => self.fewest().unwrap_or_else(|| self.confirm()),
            },
            // The first step reached the peak already: the knee is below it.
            (None, Some(high)) => match self.settings.fewer(high) {
                Some(users) => Wish::Step { users, patient: false },
                None => self.confirm(),
            },
            _ => self.confirm(),
        }
    }

    /// A step with fewer users than any before it, as long as the curve is flat.
    fn fewest(&self) -> Option<Wish> {
        let users = self.settings.fewer(self.flat_from()?)?;
        Some(Wish::Step { users, patient: false })
    }

    /// Fewest users tried, where throughput is not shown to rise from them to the peak. A single
    /// user who waits for answers is the least load there is, and may well reach the peak.
    fn flat_from(&self) -> Option<u32> {
        self.peak()?;
        let fewest = self.points.iter().map(|point| point.users).min()?;
        self.knee_bracket().1?;
        let is_least = fewest == 1 && self.settings.users_wait;
        (!is_least && self.low().next().is_none()).then_some(fewest)
    }

    /// Points below the knee that stay under the peak, beyond their noise.
    fn low(&self) -> impl Iterator<Item = &Point> {
        let bounds = self.peak().zip(self.knee_bracket().1);
        self.points.iter().filter(move |point| {
            bounds.is_some_and(|(peak, knee)| {
                point.users < knee && point.bytes_per_s < peak * (RISE_FROM - point.uncertainty)
            })
        })
    }

    /// Reason why a curve that is flat from so many users shows no peak, with what to try.
    fn why_flat(&self, fewest: u32) -> String {
        let users = counted(fewest);
        let piles_up = self.points.iter().any(|point| point.users == fewest && point.grows);
        let limit = match (self.settings.users_wait, piles_up) {
            (true, _) => "so that fewer may reach it too",
            (false, true) => {
                "and their requests pile up, so that storage, or how many requests are served at \
                 a time, is the limit"
            }
            (false, false) => {
                "and their requests are not shown to pile up, so that the rate at which they \
                 arrive may be the limit"
            }
        };
        let mut ways = Vec::new();
        if !self.settings.users_wait {
            ways.push("--arrival closed");
        }
        if fewest > 1 {
            ways.push("a smaller users_min in workload.autoscaler");
        }
        let ways = ways.join(", or ");
        format!(
            "throughput is flat: {users}, the fewest tried, moved as much as more did, {limit}; \
             try {ways}"
        )
    }

    /// A longer step with the users of the peak, of its knee, and of what seems to lie above it,
    /// one after the other; the end when none is left. So with fewer of users who do not wait: the
    /// search begins with them, while the tiers above storage take what they write. One that ended
    /// long before another had to is taken again: a load swings as slowly with as many users, and
    /// half a minute may have been even by chance.
    fn confirm(&self) -> Wish {
        let taken = self.points.iter().filter(|point| point.patient).count();
        let (Some(best), Some(peak)) = (self.best(), self.peak()) else { return Wish::Stop };
        if best.bytes_per_s <= 0.0 || taken >= PATIENT_MAX {
            return Wish::Stop;
        }
        let above = self.points.iter().filter(|point| point.bytes_per_s > peak);
        let above = above.max_by(|a, b| a.bytes_per_s.total_cmp(&b.bytes_per_s));
        let knee = self.knee_bracket().1;
        let knee = self.points.iter().find(|point| Some(point.users) == knee);
        let longest_s = self.points.iter().filter(|point| point.patient).map(|point| point.seconds);
        let enough_s = longest_s.fold(0.0, f64::max) / LONGER_TIMES;
        let is_short = |point: &&Point| !point.patient || point.seconds < enough_s;
        let low = self.low().filter(|_| !self.settings.users_wait).max_by_key(|low| low.users);
        let next = [Some(&best), knee, above, low].into_iter().flatten().find(is_short);
        next.map_or(Wish::Stop, |point| Wish::Step { users: point.users, patient: true })
    }

    /// The point that moved the most, of those that are known if there are any: an uncertain one
    /// may be the highest by chance.
    fn best(&self) -> Option<Point> {
        self.points.iter().copied().max_by(|a, b| {
            a.is_known.cmp(&b.is_known).then(a.bytes_per_s.total_cmp(&b.bytes_per_s))
        })
    }

    /// Where to look for a higher point, in a system that falls again beyond its best: in the
    /// widest gap beside a point that is about as good as the best.
    fn summit(&self) -> Option<u32> {
        let best = self.best()?;
        let clearly_less = |point: &Point| is_clearly_less(point, &best);
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

    /// Whether a point is as good as `bytes_per_s`, as far as its noise lets one tell; one that is
    /// hardly known is not.
    fn reaches(point: &Point, bytes_per_s: f64) -> bool {
        let noise =
            if point.patient { point.uncertainty.min(KNEE_NOISE) } else { point.uncertainty };
        point.is_known && point.bytes_per_s >= (KNEE_SHARE - noise) * bytes_per_s
    }

    /// Time-weighted mean of what is as good as the best. What lies beyond it and is not clearly
    /// less is the same plateau, of which the best is the highest by chance.
    fn peak(&self) -> Option<f64> {
        let best = self.best()?;
        if !best.is_known {
            return Some(best.bytes_per_s);
        }
        let good = self.points.iter().filter(|point| {
            if best.patient && !point.patient {
                return false;
            }
            let is_beyond = point.is_known && point.users >= best.users;
            Self::reaches(point, best.bytes_per_s) || is_beyond && !is_clearly_less(point, &best)
        });
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
        let mut reason = match self.plateau {
            true => format!(
                "{NOT_PAYING_MIN} doublings in a row brought less than {:.0} % more, or less than \
                 the noise explains",
                GAIN_MIN * 100.0
            ),
            false => {
                format!("the search reached its limit of {}", counted(self.settings.users_max))
            }
        };
        let best = most_bytes(results.iter()).filter(|best| best.bytes_per_s > 0.0);
        if best.is_none() && !results.is_empty() {
            reason.push_str("; storage moved nothing, and so there is no peak");
        }
        let answer = best.zip(self.peak()).map(|(best, peak_bytes_per_s)| {
            let moved = results.iter().filter(|result| result.bytes_per_s > 0.0);
            let points: Vec<(u32, f64)> =
                moved.map(|result| (result.users, result.bytes_per_s)).collect();
            let peak_users = self.knee_bracket().1.unwrap_or(best.users);
            let of_knee = || results.iter().filter(|step| step.users == peak_users);
            let longer = of_knee().rev().find(|step| step.patient).copied();
            let at_knee = longer.or_else(|| most_bytes(of_knee()));
            let at_knee = at_knee.unwrap_or(best);
            let flat_from = self.flat_from().filter(|_| results.len() > 1);
            let doubt = flat_from
                .map(|fewest| self.why_flat(fewest))
                .or_else(|| doubt(results, peak_bytes_per_s, peak_users));
            let is_told = |fit: &UslFit| flat_from.is_none() && fit.r_squared >= FIT_MIN;
            if let Some(doubt) = &doubt {
                reason = format!("{reason}; the peak is not confirmed: {doubt}");
            }
            CapacityAnswer {
                peak_bytes_per_s,
                peak_users,
                knee_bytes_per_s: at_knee.bytes_per_s,
                peak_tokens_per_s: at_knee.tokens_per_s,
                flat_from,
                usl: fit(&points).filter(is_told),
                confirmed: doubt.is_none(),
            }
        });
        (answer, reason)
    }
}

/// Why the steps do not confirm a peak; none where they do. Of a single step nobody knows whether
/// more users would have moved more; one that finished no request has seen only a part of the load.
fn doubt(results: &[&StepResult], peak_bytes_per_s: f64, peak_users: u32) -> Option<String> {
    if results.len() < 2 {
        return Some("a single number of users shows no peak".to_owned());
    }
    let is_longer = |step: &&&StepResult| step.patient && step.users == peak_users;
    let Some(step) = results.iter().find(is_longer) else {
        let users = counted(peak_users);
        return Some(format!("{users} were not measured over a longer window"));
    };
    if !step.settled {
        return Some(format!("{LEFT} {}", counted(peak_users)));
    }
    if !step.is_known() {
        return Some(format!(
            "the throughput of {} is known only to {:.1} % after {:.0} s, where a peak takes \
             {:.0} %; measure it without the autoscaler, by --num-users {peak_users} and a long \
             --duration",
            counted(peak_users),
            step.uncertainty * 100.0,
            step.window_s,
            KNOWN_TO * 100.0
        ));
    }
    if step.requests_per_s <= 0.0 {
        return Some(format!("no request of {} finished", counted(peak_users)));
    }
    let has_longer = |users: u32| results.iter().any(|step| step.patient && step.users == users);
    let counts = |step: &&&StepResult| step.patient || !has_longer(step.users);
    let is_above = |step: &&&StepResult| {
        step.bytes_per_s > peak_bytes_per_s * (1.0 + GAIN_MIN + step.uncertainty)
    };
    let above = results.iter().filter(counts).find(is_above);
    above.map(|step| format!("{} moved more", counted(step.users)))
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

/// Whether a point lies below the best, beyond noise.
fn is_clearly_less(point: &Point, best: &Point) -> bool {
    let explained = best.uncertainty.hypot(point.uncertainty);
    point.bytes_per_s < best.bytes_per_s * (1.0 - GAIN_MIN - explained)
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
