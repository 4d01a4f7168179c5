//! The search for peak throughput: climb until it stops paying, then back to the knee.

use super::step::{KNOWN_TO, PATIENT_REQUESTS_EACH, StepResult};
use super::usl::{UslFit, fit};
use super::{LEFT, Settings, Wish, between, counted};

/// More users must bring at least this much more, and more than the noise explains.
const GAIN_MIN: f64 = 0.03;
/// Steps up in a row that did not pay before it is a plateau: one may be an unlucky window.
const NOT_PAYING_MIN: u32 = 2;
/// Steps up in a row of which hardly anything is known, and which therefore do not count as ones
/// that did not pay: with more users a load is more even.
const HARDLY_KNOWN_MAX: u32 = 3;
/// Steps that reach this share of the best one, less what noise explains, are the peak's.
const PEAK_SHARE: f64 = 0.99;
/// Longer steps beyond the best one that reach this share of it are its plateau's, too: what moves
/// less would draw the mean down.
const PLATEAU_SHARE: f64 = 1.0 - GAIN_MIN - LONGER_NOISE_MAX;
/// The knee: the fewest users that reach this share of the peak, less what noise explains. Nearer
/// to it a curve is so level that the noise of longer steps, 1 to 2 %, would decide.
const KNEE_SHARE: f64 = 0.97;
/// Share of the peak that noise may explain in a longer step: its figure is told beside the peak.
const LONGER_NOISE_MAX: f64 = 0.01;
/// Short steps know the knee to this share.
const KNEE_TOLERANCE: f64 = 0.08;
/// A longer step that lacks the knee's throughput has at least the knee's users over this.
const KNEE_TIMES: f64 = 1.25;
/// Longer steps that confirm what short ones found, at most.
const PATIENT_MAX: u32 = 20;
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
    /// Fewest users that reach 97 % of the peak, or come so close to it that noise explains the
    /// rest: 96 % of it in a longer step, 92 % where only a short one was made.
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
    /// Whether the curve confirms the peak: there are several steps, throughput rises to the peak,
    /// no longer step is missing that the search would take next, `users_max` leaves room for a
    /// step of the climb beyond `peak_users`, the last longer step with them is known to 5 %, had
    /// eight requests of each user answered where users wait for answers, and began beside no
    /// requests of earlier steps, no memory stands before storage, and no step moved more than the
    /// peak by over 3 % and its own uncertainty, short ones left out where there is a longer one
    /// with as many users.
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
    /// Longer steps with as many users, up to this one.
    longer_steps: u32,
    too_short: bool,
    seconds: f64,
    /// Whether it is shown that its requests piled up.
    grows: bool,
}

/// Doubt about an answer that a longer step may settle.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Gap {
    /// Figures of some users follow from a short step, or from one much shorter than others.
    Unmeasured,
    /// More users may move more.
    More,
    /// Fewer users may reach the peak.
    Fewer,
    /// The answer follows from a single step.
    Once,
}

impl Gap {
    /// Reason why an answer does not stand without a longer step with so many users.
    fn doubt(self, users: u32, peak_users: u32) -> String {
        match self {
            Gap::Unmeasured => format!("{} were not measured for long enough", counted(users)),
            Gap::More => {
                format!("no longer window shows that {} do not move more", counted(users))
            }
            Gap::Fewer => format!(
                "no longer window shows that slightly fewer users than {peak_users} move less, \
                 and fewer may reach it too"
            ),
            Gap::Once => format!(
                "only one longer window shows that {} reach it, which may be chance",
                counted(users)
            ),
        }
    }
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
        let before = self.points.iter().filter(|point| point.users == result.users);
        let before = before.map(|point| point.longer_steps).max().unwrap_or(0);
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
            longer_steps: if result.patient { before + 1 } else { 0 },
            too_short: result.is_too_short(),
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
                // Longer steps are not put right by short ones, and a short one that left open on
                // which side it lies would do so again.
                Some(users) if self.is_patient(low, high) || self.has_tried(users) => {
                    self.confirm()
                }
                Some(users) => Wish::Step { users, patient: false },
                None => self.fewest().unwrap_or_else(|| self.confirm()),
            },
            // The first step reached the peak already: the knee is below it.
            (None, Some(high)) => match self.settings.fewer(high) {
                Some(users) if self.points.iter().all(|point| point.users >= high) => {
                    Wish::Step { users, patient: false }
                }
                _ => self.confirm(),
            },
            _ => self.confirm(),
        }
    }

    /// Whether there is a step with so many users.
    fn has_tried(&self, users: u32) -> bool {
        self.points.iter().any(|point| point.users == users)
    }

    /// Whether the points of both numbers of users are of longer steps.
    fn is_patient(&self, low: u32, high: u32) -> bool {
        let mut ends = self.points.iter().filter(|point| [low, high].contains(&point.users));
        ends.all(|point| point.patient)
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

    /// The next longer step; the end when none is left that an answer needs, or when as many were
    /// taken as may be.
    fn confirm(&self) -> Wish {
        if self.takes_no_more() || self.peak().is_none_or(|peak| peak <= 0.0) {
            return Wish::Stop;
        }
        // A longer step that left open on which side it lies would do so again.
        let next = self.missing().find(|(users, gap)| *gap != Gap::Fewer || self.is_new(users));
        next.map_or(Wish::Stop, |(users, _)| Wish::Step { users, patient: true })
    }

    /// Whether no longer step was taken with so many users.
    fn is_new(&self, users: &u32) -> bool {
        !self.points.iter().any(|point| point.patient && point.users == *users)
    }

    /// Whether as many longer steps were taken as may be.
    fn takes_no_more(&self) -> bool {
        self.points.iter().map(|point| point.longer_steps).sum::<u32>() >= PATIENT_MAX
    }

    /// Users whose longer steps an answer still needs, in the order of the search.
    fn missing(&self) -> impl Iterator<Item = (u32, Gap)> {
        [
            (self.unmeasured(), Gap::Unmeasured),
            (self.beyond(), Gap::More),
            (self.answered().filter(|users| self.is_new(users)), Gap::More),
            (self.below(), Gap::Fewer),
            (self.within(), Gap::More),
            (self.knee_once(), Gap::Once),
        ]
        .into_iter()
        .filter_map(|(users, gap)| Some((users?, gap)))
    }

    /// Users of the peak, of its knee, or of what seems to lie above it, without a longer step. So
    /// with fewer of users who do not wait: the search begins with them, while the tiers above
    /// storage take what they write. A step that ended long before another had to is none: a load
    /// swings as slowly with as many users, and half a minute may have been even by chance.
    fn unmeasured(&self) -> Option<u32> {
        let (best, peak) = (self.best()?, self.peak()?);
        let is_above = |point: &&Point| {
            !point.patient && is_more((peak, 0.0), (point.bytes_per_s, point.uncertainty))
        };
        let above = self.points.iter().filter(is_above);
        let above = above.max_by(|a, b| a.bytes_per_s.total_cmp(&b.bytes_per_s));
        let knee = self.knee_bracket().1;
        let knee = self.points.iter().find(|point| Some(point.users) == knee);
        let longest_s = self.points.iter().filter(|point| point.patient).map(|point| point.seconds);
        let enough_s = longest_s.fold(0.0, f64::max) / LONGER_TIMES;
        let is_short = |point: &&Point| !point.patient || point.seconds < enough_s;
        let low = self.low().filter(|_| !self.settings.users_wait).max_by_key(|low| low.users);
        [Some(&best), knee, above, low]
            .into_iter()
            .flatten()
            .find(is_short)
            .map(|point| point.users)
    }

    /// Reason why a peak near the most users allowed is none: no step of a climb fits beyond it.
    fn why_bounded(&self, peak_users: u32) -> Option<String> {
        let Settings { users_max, scale_up_factor, .. } = self.settings;
        (f64::from(peak_users) * scale_up_factor > f64::from(users_max)).then(|| {
            format!(
                "throughput is not shown to stop rising by {}, the most allowed; try a larger \
                 users_max in workload.autoscaler",
                counted(users_max)
            )
        })
    }

    /// Users of a longer step that goes on with the climb: the most of the short ones, which may
    /// have been over before memory was full and entries were read back, and more where they pay.
    fn beyond(&self) -> Option<u32> {
        if !self.settings.users_wait {
            return None;
        }
        let top = self.points.iter().max_by_key(|point| point.users)?;
        if !top.patient {
            return Some(top.users);
        }
        let fewer = self.points.iter().filter(|point| point.is_known && point.users < top.users);
        let best = fewer.max_by(|a, b| a.bytes_per_s.total_cmp(&b.bytes_per_s))?;
        let goes_on = top.is_known && top.users < self.settings.users_max && pays(*best, top);
        goes_on.then(|| self.settings.more(top.users))
    }

    /// Users of a longer step for whose answers it may have time, where it had too little for more
    /// who moved more, or for all: half way to the most of whom enough is known.
    fn answered(&self) -> Option<u32> {
        let (best, peak) = (self.best()?, self.peak()?);
        let known = self.points.iter().filter(|point| point.patient && point.is_known);
        let known = known.map(|point| point.users).max();
        let known = known.unwrap_or(self.settings.users_min.saturating_sub(1));
        let too_short =
            || self.points.iter().filter(|point| point.too_short && point.users > known);
        let is_more = |point: &Point| is_more((peak, 0.0), (point.bytes_per_s, point.uncertainty));
        let may_move_more = !best.is_known || too_short().any(is_more);
        let fewest = too_short().map(|point| point.users).min().filter(|_| may_move_more)?;
        between(known, fewest, SUMMIT_TOLERANCE)
    }

    /// Users of a longer step below the knee: half way to the most that lack its throughput, until
    /// a longer step that lacks it has nearly as many as the knee, and no short one with fewer says
    /// the opposite.
    fn below(&self) -> Option<u32> {
        let (peak, knee) = (self.peak()?, self.knee_bracket().1?);
        let least = self.settings.users_min.max(1);
        if knee <= least {
            return None;
        }
        let knee_point = self.points.iter().find(|point| point.users == knee)?;
        let fewer = || self.points.iter().filter(|point| point.users < knee);
        let most = |low: Option<u32>| low.unwrap_or(0);
        let lacks = || fewer().filter(|point| Self::lacks(point, peak));
        let shown = most(lacks().filter(|point| point.patient).map(|point| point.users).max());
        let seen = most(lacks().map(|point| point.users).max());
        let is_near = |low: u32| knee - low <= 1 || f64::from(knee) <= f64::from(low) * KNEE_TIMES;
        if is_near(shown) {
            let denies =
                |point: &&Point| !point.patient && point.bytes_per_s >= knee_point.bytes_per_s;
            return fewer().filter(denies).map(|point| point.users).max();
        }
        if is_near(seen) {
            let users = (f64::from(knee) / KNEE_TIMES).ceil() as u32;
            return Some(users.min(knee - 1).max(least));
        }
        between(seen, knee, 0.0).map(|users| users.max(least))
    }

    /// Users of a longer step between the knee and the most, where no such step told of a doubling:
    /// throughput may rise there by less than short steps show.
    fn within(&self) -> Option<u32> {
        let mut few = self.knee_bracket().1.filter(|_| self.settings.users_wait)?;
        let most = self.points.iter().map(|point| point.users).max()?;
        while few < most {
            let many = self.settings.more(few).min(most);
            let is_between = |point: &Point| few < point.users && point.users <= many;
            if !self.points.iter().any(|point| point.patient && is_between(point)) {
                return Some(many);
            }
            few = many;
        }
        None
    }

    /// Users of the knee while a single longer step tells of them: of several numbers of users that
    /// nearly reach the peak, the fewest that do are those of whom the step was lucky.
    fn knee_once(&self) -> Option<u32> {
        let knee = self.knee_bracket().1?;
        let is_once =
            |point: &Point| point.users == knee && point.patient && point.longer_steps == 1;
        self.points.iter().any(is_once).then_some(knee)
    }

    /// The point that moved the most, of those that are known if there are any, and of longer steps
    /// if there are any of these: an uncertain one may be the highest by chance.
    fn best(&self) -> Option<Point> {
        let trust = |point: &Point| (point.is_known, point.is_known && point.patient);
        self.points
            .iter()
            .copied()
            .max_by(|a, b| trust(a).cmp(&trust(b)).then(a.bytes_per_s.total_cmp(&b.bytes_per_s)))
    }

    /// Where to look for a higher point, in a system that falls again beyond its best: in the
    /// widest gap beside a point that is about as good as the best. Short steps say nothing against
    /// a longer one.
    fn summit(&self) -> Option<u32> {
        let best = self.best()?;
        let clearly_less =
            |point: &Point| (point.patient || !best.patient) && is_clearly_less(point, &best);
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

    /// Whether a point is as good as the best, as far as its noise lets one tell; one that is
    /// hardly known is not.
    fn is_as_good(point: &Point, best: &Point) -> bool {
        let noise = match point.patient {
            true => point.uncertainty.min(LONGER_NOISE_MAX),
            false => point.uncertainty,
        };
        point.is_known && point.bytes_per_s >= (PEAK_SHARE - noise) * best.bytes_per_s
    }

    /// Whether a point comes to the knee's share of the peak. All longer steps have the same
    /// margin: the peak has noise too, and no smaller number that moves more may be passed over.
    fn reaches(point: &Point, peak: f64) -> bool {
        let noise = if point.patient { LONGER_NOISE_MAX } else { point.uncertainty };
        point.is_known && point.bytes_per_s >= (KNEE_SHARE - noise) * peak
    }

    /// Whether a point lies below the knee's share of the peak, beyond its noise.
    fn lacks(point: &Point, peak: f64) -> bool {
        match point.patient && point.is_known {
            true => !Self::reaches(point, peak),
            false => point.bytes_per_s < (KNEE_SHARE - point.uncertainty) * peak,
        }
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
            let is_less = match best.patient {
                true => point.bytes_per_s < best.bytes_per_s * PLATEAU_SHARE,
                false => is_clearly_less(point, &best),
            };
            Self::is_as_good(point, &best) || is_beyond && !is_less
        });
        let (sum, seconds) = good.fold((0.0, 0.0), |(sum, seconds), point| {
            (sum + point.bytes_per_s * point.seconds, seconds + point.seconds)
        });
        (seconds > 0.0).then(|| sum / seconds)
    }

    /// The most users shown to lie below the knee, and the fewest at or above it, as far as
    /// measured.
    fn knee_bracket(&self) -> (Option<u32>, Option<u32>) {
        let Some(peak) = self.peak() else { return (None, None) };
        let good = self.points.iter().filter(|point| Self::reaches(point, peak));
        let high = good.map(|point| point.users).min();
        let low = self
            .points
            .iter()
            .filter(|point| Self::lacks(point, peak))
            .map(|point| point.users)
            .filter(|&users| high.is_none_or(|high| users < high))
            .max();
        (low, high)
    }

    pub(super) fn conclude(&self, results: &[&StepResult]) -> (Option<CapacityAnswer>, String) {
        let mut reason = match self.plateau {
            _ if self.takes_no_more() => {
                format!("the search took {PATIENT_MAX} longer steps, the most of one")
            }
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
            let missing = || self.missing().next().map(|(users, gap)| gap.doubt(users, peak_users));
            // Of a single step nobody knows whether more users would have moved more.
            let single = "a single number of users shows no peak";
            let doubt = (results.len() < 2)
                .then(|| single.to_owned())
                .or_else(missing)
                .or_else(|| flat_from.map(|fewest| self.why_flat(fewest)))
                .or_else(|| doubt(results, peak_bytes_per_s, peak_users))
                .or_else(|| self.why_bounded(peak_users))
                .or_else(|| self.settings.has_memory_tier.then(|| why_not_its_own(peak_users)));
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

/// Reason why the longer steps do not confirm a peak; none where they do. One that finished no
/// request has seen only a part of the load.
fn doubt(results: &[&StepResult], peak_bytes_per_s: f64, peak_users: u32) -> Option<String> {
    let step = results.iter().rev().find(|step| step.patient && step.users == peak_users)?;
    if !step.settled {
        return Some(format!("{LEFT} {}", counted(peak_users)));
    }
    if step.backlog_before > 0 {
        return Some(format!(
            "requests that earlier steps had left were still open beside {}",
            counted(peak_users)
        ));
    }
    if step.is_too_short() {
        return Some(too_short(step));
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
    // The last longer step of a number of users takes the place of the others.
    let last = |users: u32| results.iter().rfind(|step| step.patient && step.users == users);
    let counts =
        |step: &&&StepResult| last(step.users).is_none_or(|last| std::ptr::eq(*last, **step));
    let is_above = |step: &&&StepResult| {
        step.bytes_per_s > peak_bytes_per_s * (1.0 + GAIN_MIN + step.uncertainty)
    };
    let above = results.iter().filter(counts).find(is_above)?;
    let moved_more = format!("{} moved more", counted(above.users));
    Some(match above.is_too_short() {
        true => format!(
            "{moved_more}, but {}, so that throughput may be flat from {peak_users} to {} users, \
             or rise",
            too_short(above),
            above.users
        ),
        false => moved_more,
    })
}

/// Reason why steps behind a tier of memory confirm no peak: with as many users, later steps and
/// longer runs moved from a tenth less to a half more.
fn why_not_its_own(peak_users: u32) -> String {
    format!(
        "memory stands before storage and keeps entries of the users of earlier steps, so that \
         what {} move depends on who came before; search with --cpu-mem-gb 0 and without a GPU \
         tier, or run --num-users {peak_users} and more and compare",
        counted(peak_users)
    )
}

/// Clause on a longer step that had to end before each user had its answers.
fn too_short(step: &StepResult) -> String {
    format!(
        "{:.0} s were too short for {PATIENT_REQUESTS_EACH} requests of each of {}",
        step.window_s,
        counted(step.users)
    )
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
