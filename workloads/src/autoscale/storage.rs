//! The search for the most users at a target saturation of the storage tier.
//!
//! The saturation of a step is the largest of three figures:
//! - `min(1, latency) × use`: `latency` is the P95 of entries read from the device over its target,
//!   or of entries written, whichever is larger; `use` is the storage throughput over the highest
//!   of all steps. A large entry may take longer than the target on an idle drive, so a latency
//!   alone shows no saturation; neither does a drive at its limit that keeps its targets.
//! - `queue`: entries that waited for the device on average, or requests that waited to be served,
//!   whichever are more, over the target for both.
//! - `backlog`, where users do not wait for answers: requests that arrived over those that ended,
//!   once it is shown that there are ever more open ones. No target allows that.
//!
//! The `use` of a step is at least that of any step with fewer users: a drive that does less beyond
//! its peak is not less saturated. Once there are longer steps, only they count for other numbers
//! of users than their own: a short one may have moved more than its load does on average. A longer
//! step is not judged by itself alone, however: as long as there is no other, the short ones with
//! more users count.
//!
//! The first longer step, which has the users that moved the most, goes on until its throughput is
//! known to 2 %, and each later one until it shows on which side of the limit its `use` lies (95 %
//! confidence), for as long as one may be. Where that is not long enough, the answer is in doubt.
//! (A distance of one standard error was rejected: too many conclusive answers were wrong.)
//!
//! Users who wait for answers ask the less the longer these take. Of those who do not, what the
//! storage can do is seen only where their requests pile up at it: before a longer step shows that,
//! no number of users is too many for its `use` alone.

use super::late::STUDENT_T_95;
use super::step::{StepResult, StorageLoad, UNCERTAINTY_MAX};
use super::{
    LEFT, Part, QosAnswer, QosBreak, Settings, StorageTargets, Wish, between, capacity, counted,
};

/// The answer is known to this share.
const TOLERANCE: f64 = 0.05;
/// Longer steps at most: those that the answer rests on, and those that take one back.
const PATIENT_MAX: usize = 12;
/// Steps up in a row that brought no more throughput before that is believed ...
const NOT_PAYING_MIN: usize = 2;
/// ... at so many times the users of the best step.
const NOT_PAYING_FACTOR: u32 = 2;
/// Overload, which needs no further evidence: a latency of so many times its target, and of the
/// lowest seen ...
const OVERLOAD: f64 = 4.0;
/// ... while more users bring less than this share of what each brought before.
const OVERLOAD_GAIN: f64 = 0.25;

/// Two-sided 90 % quantile of Student's t distribution with as many degrees of freedom as
/// [`STUDENT_T_95`].
const STUDENT_T_90: f64 = 2.02;

/// A step, as far as it matters here.
#[derive(Clone, Copy, Debug)]
struct Point {
    users: u32,
    load: StorageLoad,
    uncertainty: f64,
    patient: bool,
    settled: bool,
    /// Requests at the storage, on average.
    at_storage: f64,
}

impl Point {
    /// Whether it is shown that its requests piled up.
    fn grows(&self) -> bool {
        self.load.backlog.is_some_and(|backlog| backlog.grows())
    }

    /// Whether it shows what the storage can do: requests pile up, and some of them are always at
    /// the storage. (Where none is, they wait for something else.)
    fn is_peak(&self) -> bool {
        self.patient && self.grows() && self.load.bytes_per_s > 0.0 && self.at_storage >= 1.0
    }
}

#[derive(Debug)]
pub(super) struct Storage {
    settings: Settings,
    /// In the order taken; the last one of a user count is what counts.
    points: Vec<Point>,
    climbing: bool,
    /// Whether the step under way is a patient one.
    patient: bool,
    is_over: bool,
}

/// The larger latency over its target; 0 where nothing was moved.
fn latency(load: &StorageLoad, targets: &StorageTargets) -> (f64, Part) {
    let over = |p95_ns: Option<u64>, target_ns: u64| {
        p95_ns.map_or(0.0, |p95_ns| p95_ns as f64 / target_ns.max(1) as f64)
    };
    let read = (over(load.read_device_p95_ns, targets.read_p95_ns), Part::StorageRead);
    let write = (over(load.write_device_p95_ns, targets.write_p95_ns), Part::StorageWrite);
    larger(read, write)
}

/// The longer queue over the target, or how a queue grows.
fn queue(load: &StorageLoad, targets: &StorageTargets) -> (f64, Part) {
    let target = targets.queue_depth.max(1) as f64;
    let entries = (load.entries_waiting / target, Part::StorageQueue);
    let queue = larger(entries, (load.requests_waiting / target, Part::RequestQueue));
    match load.backlog {
        Some(backlog) if backlog.grows() => larger(queue, (backlog.ratio, Part::RequestBacklog)),
        _ => queue,
    }
}

/// The larger one; the first where they are equal.
fn larger(first: (f64, Part), second: (f64, Part)) -> (f64, Part) {
    if second.0 > first.0 { second } else { first }
}

/// See the module. `share_used` is the `use` there.
fn saturation(load: &StorageLoad, targets: &StorageTargets, share_used: f64) -> (f64, Part) {
    let (latency, part) = latency(load, targets);
    larger((latency.min(1.0) * share_used, part), queue(load, targets))
}

/// Highest throughput of steps, bytes/s; 0 without any.
fn most<'a>(steps: impl Iterator<Item = &'a (u32, f64, bool)>) -> f64 {
    steps.map(|step| step.1).fold(0.0, f64::max)
}

/// Storage throughput by number of users, by which each step is judged.
struct Rates {
    /// Users, bytes a second, and whether it was a longer step: the last of each number of users.
    all: Vec<(u32, f64, bool)>,
    has_longer: bool,
}

impl Rates {
    /// Those of steps, in the order taken: users, bytes a second, and whether it was a longer one.
    fn of(steps: impl IntoIterator<Item = (u32, f64, bool)>) -> Rates {
        let mut last: Vec<(u32, f64, bool)> = Vec::new();
        for step in steps {
            last.retain(|other| other.0 != step.0);
            last.push(step);
        }
        let has_longer = last.iter().any(|step| step.2);
        Rates { all: last, has_longer }
    }

    /// Throughput of a step with so many users, bytes/s, or that with fewer where it is higher,
    /// over the highest of all; 0 without any.
    fn share_used(&self, users: u32, bytes_per_s: f64) -> f64 {
        let counts = |one: &(u32, f64, bool)| one.2 || !self.has_longer;
        let is_alone = self.all.iter().filter(|one| one.2).all(|one| one.0 == users);
        let of_peak = |one: &&(u32, f64, bool)| counts(one) || is_alone && one.0 > users;
        let fewer = |one: &&(u32, f64, bool)| one.0 < users && counts(one);
        let peak = most(self.all.iter().filter(of_peak));
        let used = most(self.all.iter().filter(fewer)).max(bytes_per_s);
        if peak > 0.0 { (used / peak).min(1.0) } else { 0.0 }
    }
}

/// Highest throughput that steps are judged by.
#[derive(Clone, Copy, Debug)]
pub(super) struct Peak {
    pub(super) users: u32,
    pub(super) bytes_per_s: f64,
    /// Half the width of its 95 % confidence interval, as a share of it.
    pub(super) uncertainty: f64,
}

/// Part of its highest throughput that the storage moved, with the 90 % confidence interval: each
/// end bounds it with 95 %.
#[derive(Clone, Copy, Debug)]
pub(super) struct ShareUsed {
    share: f64,
    low: f64,
    high: f64,
}

impl ShareUsed {
    /// Share of the peak; the 95 % confidence interval of the throughput has half so large a width.
    /// That nothing moved more is no figure with noise.
    pub(super) fn of(share: f64, uncertainty: f64, peak: Peak) -> ShareUsed {
        let is_known = share >= 1.0;
        let off = uncertainty.hypot(peak.uncertainty) * STUDENT_T_90 / STUDENT_T_95;
        let off = if is_known { 0.0 } else { share * off.min(1.0) };
        ShareUsed { share, low: share - off, high: (share + off).min(1.0) }
    }

    /// Whether it is known on which side of the target saturation so many users lie, to the whole
    /// users by which an answer may be off, where their queue does not decide.
    pub(super) fn decides(&self, users: u32, load: &StorageLoad, settings: &Settings) -> bool {
        let (target, targets) = (settings.target_saturation, &settings.storage);
        let over = latency(load, targets).0.min(1.0);
        let users = f64::from(users.max(1));
        let off = (users * TOLERANCE).floor() / users;
        let is_known = match over * self.share > target {
            true => over * self.low > target * (1.0 - off),
            false => over * self.high <= target * (1.0 + off),
        };
        is_known || queue(load, targets).0 > target
    }
}

/// Sets the saturation of steps by what all of them show.
pub(super) fn judge(results: &mut [&mut StepResult], targets: &StorageTargets) {
    let of = |result: &&mut StepResult| (result.users, result.storage.bytes_per_s, result.patient);
    let rates = Rates::of(results.iter().map(of));
    for result in results {
        let used = rates.share_used(result.users, result.storage.bytes_per_s);
        let (saturation, part) = saturation(&result.storage, targets, used);
        (result.saturation, result.worst) = (Some(saturation), Some(part));
        result.used_share = Some(used);
    }
}

impl Storage {
    pub(super) fn new(settings: Settings) -> Storage {
        Storage { settings, points: Vec::new(), climbing: true, patient: false, is_over: false }
    }

    pub(super) fn after(&mut self, result: &StepResult) -> Wish {
        self.points.push(Point {
            users: result.users,
            load: result.storage,
            uncertainty: result.uncertainty,
            patient: self.patient,
            settled: result.settled,
            at_storage: result.time.storage_ns as f64 / (result.window_s * 1e9),
        });
        let wish = self.next(result.users);
        self.is_over = wish == Wish::Stop;
        wish
    }

    /// Next step after one with so many users, or the end.
    fn next(&mut self, users: u32) -> Wish {
        self.climbing &= users < self.settings.users_max && !self.is_limited();
        if self.climbing {
            return self.step(self.settings.more(users), false);
        }
        match self.bracket() {
            (Some(good), Some(bad)) => match between(good.users, bad.users, TOLERANCE) {
                Some(users) => self.step(users, false),
                None => self.confirm(Some(good), Some(bad)),
            },
            // A longer step has taken back what seemed too many.
            (Some(good), None) if good.users < self.settings.users_max && self.has_taken_back() => {
                self.step(self.settings.more(good.users), false)
            }
            (Some(good), None) => self.confirm(Some(good), None),
            (None, Some(bad)) => match self.settings.fewer(bad.users) {
                Some(users) => self.step(users, false),
                None => self.confirm(None, Some(bad)),
            },
            (None, None) => Wish::Stop,
        }
    }

    fn step(&mut self, users: u32, patient: bool) -> Wish {
        self.patient = patient;
        Wish::Step { users, patient }
    }

    /// Whether a longer step was taken with users beyond whom there was a shorter one.
    fn has_taken_back(&self) -> bool {
        let most = self.points.iter().map(|point| point.users).max();
        let is_longer = |point: &Point| Some(point.users) == most && point.patient;
        self.patient_taken() < PATIENT_MAX && self.points.iter().any(is_longer)
    }

    /// Highest throughput of longer steps so far; none where they moved nothing.
    pub(super) fn peak(&self) -> Option<Peak> {
        let longer = self.latest().into_iter().filter(|point| point.patient);
        let best = longer.max_by(|a, b| a.load.bytes_per_s.total_cmp(&b.load.bytes_per_s))?;
        let Point { users, uncertainty, load: StorageLoad { bytes_per_s, .. }, .. } = best;
        (bytes_per_s > 0.0).then_some(Peak { users, bytes_per_s, uncertainty })
    }

    /// Number of longer steps.
    fn patient_taken(&self) -> usize {
        self.points.iter().filter(|point| point.patient).count()
    }

    /// Longer steps with the most users that were not too many, and with the fewest that were: a
    /// short one may have met an unusual part of its load in either case.
    fn confirm(&mut self, good: Option<Point>, bad: Option<Point>) -> Wish {
        let Some(decisive) = good.or(bad) else { return Wish::Stop };
        if let Some(wish) = self.look_for_peak(decisive, bad) {
            return wish;
        }
        if self.patient_taken() >= PATIENT_MAX {
            return Wish::Stop;
        }
        let is_short = |point: &Point| !point.patient;
        let next = self.unconfirmed_peak(decisive.users).or(good.filter(is_short));
        let next = next.or(bad.filter(is_short));
        next.map_or(Wish::Stop, |point| self.step(point.users, true))
    }

    /// Whether so many users were too many for the use of the storage alone, and no step has shown
    /// what it can do.
    fn lacks_peak(&self, bad: &Point) -> bool {
        self.settings.measures_backlog()
            && queue(&bad.load, &self.settings.storage).0 <= self.settings.target_saturation
            && !self.points.iter().any(Point::is_peak)
    }

    /// Next step on the way to the storage's peak, if it is lacking: a longer one with users beyond
    /// `above` whose requests piled up in a short step, and then more users. None once requests
    /// pile up in a longer step, for whatever reason: more users would change nothing.
    fn look_for_peak(&mut self, above: Point, bad: Option<Point>) -> Option<Wish> {
        let lacks_peak = bad.is_some_and(|bad| self.lacks_peak(&bad));
        let is_full = self.points.iter().any(|point| point.patient && point.grows());
        if !lacks_peak || is_full || self.patient_taken() >= PATIENT_MAX {
            return None;
        }
        let longer = self.points.iter().filter(|point| point.patient).map(|point| point.users);
        let above = longer.fold(above.users, u32::max);
        if let Some(best) = self.busiest(above).filter(|best| best.load.bytes_per_s > 0.0) {
            return Some(self.step(best.users, true));
        }
        let most = self.points.iter().map(|point| point.users).fold(above, u32::max);
        self.climbing = most < self.settings.users_max;
        self.climbing.then(|| self.step(self.settings.more(most), false))
    }

    /// Short step by which it would be judged how much of the storage is used: that with more users
    /// than so many that moved the most, and more than all longer ones by what the first of these
    /// is known to; or, where there is none, beyond noise more than as many users.
    fn unconfirmed_peak(&self, users: u32) -> Option<Point> {
        let busiest = self.busiest(users).filter(|best| !best.patient)?;
        let latest = self.latest();
        let is_more = match self.peak() {
            // A short step's noise would hide most of what a search has yet to find.
            Some(peak) => busiest.load.bytes_per_s > peak.bytes_per_s * (1.0 + UNCERTAINTY_MAX),
            None => latest.iter().filter(|one| one.users == users).all(|one| pays(one, &busiest)),
        };
        is_more.then_some(busiest)
    }

    /// Step with more users than `above` that shows what the storage can do: the one that moved the
    /// most. Where requests piled up, the storage never rested, and more users would only leave a
    /// longer backlog: it is the one with the fewest of those that moved as much.
    fn busiest(&self, above: u32) -> Option<Point> {
        let by_rate = |a: &Point, b: &Point| a.load.bytes_per_s.total_cmp(&b.load.bytes_per_s);
        let more = self.latest().into_iter().filter(|point| point.users > above);
        let growing = more.clone().filter(Point::grows);
        let Some(best) = growing.clone().max_by(by_rate) else { return more.max_by(by_rate) };
        growing.into_iter().find(|point| !pays(point, &best))
    }

    /// Whether more users would show nothing new of what the storage can do.
    fn is_limited(&self) -> bool {
        let points = self.latest();
        let Some((last, before)) = points.split_last() else { return false };
        let targets = &self.settings.storage;
        let target = self.settings.target_saturation;
        if queue(&last.load, targets).0 > target {
            return true;
        }
        let of = |point: &Point| latency(&point.load, targets).0;
        if of(last) <= target {
            return false;
        }
        let lowest = before.iter().map(of).fold(f64::INFINITY, f64::min);
        let rate = |point: &Point| point.load.bytes_per_s;
        let is_gaining = before.last().is_none_or(|before| {
            let more_users = f64::from(last.users) / f64::from(before.users.max(1)) - 1.0;
            rate(last) >= rate(before) * (1.0 + OVERLOAD_GAIN * more_users)
        });
        if of(last) >= OVERLOAD * lowest.max(1.0) && !is_gaining {
            return true;
        }
        let Some(best) =
            before.iter().reduce(|best, point| if pays(best, point) { point } else { best })
        else {
            return false;
        };
        let since = points.iter().skip_while(|point| point.users <= best.users);
        let not_paying = since.clone().count();
        rate(best) > 0.0
            && since.clone().all(|point| !pays(best, point))
            && not_paying >= NOT_PAYING_MIN
            && last.users >= best.users.saturating_mul(NOT_PAYING_FACTOR)
    }

    /// The last step of each user count, fewest users first.
    fn latest(&self) -> Vec<Point> {
        let mut last: Vec<Point> = Vec::new();
        for point in &self.points {
            last.retain(|other| other.users != point.users);
            last.push(*point);
        }
        last.sort_by_key(|point| point.users);
        last
    }

    /// The same, each with its use of the storage and its saturation.
    fn judged(&self) -> Vec<(Point, f64, f64)> {
        let last = self.latest();
        let of = |point: &Point| (point.users, point.load.bytes_per_s, point.patient);
        let rates = Rates::of(last.iter().map(of));
        let judge = |point: Point| {
            let used = rates.share_used(point.users, point.load.bytes_per_s);
            (point, used, saturation(&point.load, &self.settings.storage, used).0)
        };
        last.into_iter().map(judge).collect()
    }

    /// The fewest users that were too many, and the most below them that were not.
    fn bracket(&self) -> (Option<Point>, Option<Point>) {
        let (mut good, mut bad) = (None, None);
        for (point, _, saturation) in self.judged() {
            if saturation > self.settings.target_saturation {
                bad = Some(point);
                break;
            }
            good = Some(point);
        }
        (good, bad)
    }

    pub(super) fn conclude(&self, results: &[&StepResult]) -> (QosAnswer, String) {
        let (good, bad) = self.bracket();
        let step_of = |point: Point| results.iter().rev().find(|step| step.users == point.users);
        let broke = bad.and_then(step_of).map(|step| QosBreak::at(step));
        let users = good.map_or(0, |point| point.users);
        let decisive = good.or(bad);
        let doubt = decisive.and_then(|point| {
            self.doubt(&point, bad.as_ref()).or_else(|| self.undecided(good.as_ref(), bad.as_ref()))
        });
        let confirmed = self.is_over && decisive.is_some() && doubt.is_none();
        let missed =
            good.and_then(step_of).map(|step| self.missed(step, results)).unwrap_or_default();
        let told = match users {
            0 => "even the fewest users saturated the storage tier beyond the target".to_owned(),
            users => {
                format!("{} kept the storage tier within the target saturation", counted(users))
            }
        };
        let reason = match (users, doubt) {
            (_, Some(doubt)) => format!("{told}{missed}, which is not confirmed: {doubt}"),
            (0, None) => told,
            (users, None) if users >= self.settings.users_max => format!(
                "the search reached its limit of {}, and the storage tier was within the target \
                 saturation{missed}",
                counted(users)
            ),
            (_, None) => format!("{told} over a longer window too{missed}"),
        };
        (QosAnswer { users, confirmed, broke }, reason)
    }

    /// Clause on a step within the target saturation whose latency misses its target, so that its
    /// throughput decided; empty where none misses it.
    fn missed(&self, step: &StepResult, results: &[&StepResult]) -> String {
        let targets = &self.settings.storage;
        let (over, part) = latency(&step.storage, targets);
        let (verb, target_ns) = match part {
            Part::StorageWrite => ("write", targets.write_p95_ns),
            _ => ("read", targets.read_p95_ns),
        };
        let Some(used) = step.used_share.filter(|_| over > 1.0) else { return String::new() };
        let is_missed = |result: &&StepResult| latency(&result.storage, targets).0 > 1.0;
        let ever = match results.iter().all(is_missed) {
            true => ", as with every other number of users tried",
            false => "",
        };
        let target_ms = target_ns as f64 / 1e6;
        format!(
            ", moving {:.1} % of its highest throughput ({:.0} % allowed beyond a latency target): \
             the device needed {:.0} ms (P95) to {verb} an entry and missed the target of \
             {target_ms:.0} ms{ever}",
            used * 100.0,
            self.settings.target_saturation * 100.0,
            over * target_ms,
        )
    }

    /// Why the step that the answer rests on does not confirm it; none where it does.
    fn doubt(&self, decisive: &Point, bad: Option<&Point>) -> Option<String> {
        let users = counted(decisive.users);
        if self.points.iter().all(|point| point.load.bytes_per_s <= 0.0) {
            return Some(
                "storage moved nothing, and so nothing shows how many users it can serve".into(),
            );
        }
        if !decisive.patient {
            return Some(format!("there was no longer window with {users}"));
        }
        if !decisive.settled {
            return Some(format!("{LEFT} {users}"));
        }
        if bad.is_some_and(|bad| self.lacks_peak(bad)) {
            return Some(format!(
                "requests did not pile up at the storage tier with up to {}, so that it is not \
                 known what it can do, and more users may be within the target",
                counted(self.points.iter().map(|point| point.users).fold(0, u32::max))
            ));
        }
        if let Some(busiest) = self.unconfirmed_peak(decisive.users) {
            return Some(format!(
                "{} moved more in a short window than any number of users in a longer one",
                counted(busiest.users)
            ));
        }
        let backlog = decisive.load.backlog?;
        let is_known = backlog.grows() || backlog.is_held();
        (!is_known).then(|| {
            format!(
                "with {users} {:.2} to {:.2} requests arrived for each that ended (95 % \
                 confidence), so that they may pile up; --num-users {} without the autoscaler and \
                 a long --duration shows whether they do",
                backlog.ratio - backlog.uncertainty,
                backlog.ratio + backlog.uncertainty,
                decisive.users
            )
        })
    }

    /// Words for the first of two steps of which it is not known whether it is within the target
    /// saturation; none where it is known of both.
    fn undecided(&self, good: Option<&Point>, bad: Option<&Point>) -> Option<String> {
        let peak = self.peak()?;
        let judged = self.judged();
        let of = |point: &Point| {
            let (_, used, _) = judged.iter().find(|(one, ..)| one.users == point.users)?;
            Some((point.users, ShareUsed::of(*used, point.uncertainty, peak), point.load))
        };
        let is_open = |(users, used, load): &(u32, ShareUsed, StorageLoad)| {
            !used.decides(*users, load, &self.settings)
        };
        let all = [good, bad].into_iter().flatten();
        let (users, used, load) = all.filter_map(of).find(is_open)?;
        let over = latency(&load, &self.settings.storage).0.clamp(f64::MIN_POSITIVE, 1.0);
        Some(format!(
            "with {} storage moved {:.1} to {:.1} % of its highest throughput (90 % confidence), \
             where {:.1} % may be moved; runs of --num-users {users} and of --num-users {} \
             without the autoscaler and with a long --duration know it better",
            counted(users),
            used.low * 100.0,
            used.high * 100.0,
            self.settings.target_saturation / over * 100.0,
            peak.users,
        ))
    }
}

/// Whether a step moved more than the best before it, beyond noise.
fn pays(best: &Point, now: &Point) -> bool {
    let of = |point: &Point| (point.load.bytes_per_s, point.uncertainty);
    capacity::is_more(of(best), of(now))
}

#[cfg(test)]
#[path = "storage_test.rs"]
mod tests;
