//! Runs on the drive beside the same ones simulated: which numbers of users they bear out and rule
//! out, the answer that this leaves, and the number to try next.

use ringfall_host::counted;

use super::{
    AVERAGE_LOADS_MIN, CONFIRMED_TO, LOADS_APART, QuickPoint, QuickReport, QuickTry, Served,
    TURNS_MIN, time,
};

/// Precision of the answer, as a share of it.
const USERS_STEP: u32 = 16;
/// Share of the users that missed the rule on the drive, of whom as many or fewer are tried next
/// where nobody meets it once the curve is worsened as much.
const FEWER_SHARE: f64 = 0.8;
/// Ratio nearer to 1 than which a run is as good as the same one simulated, in words.
const RATIO_STEP: f64 = 0.005;

/// Number halfway between one that is served and one that is too large; none where the two are as
/// near as an answer needs.
#[must_use]
pub fn users_between(served: u32, too_many: u32) -> Option<u32> {
    let step = (too_many / USERS_STEP).max(1);
    (too_many.saturating_sub(served) > step).then(|| u32::midpoint(served, too_many))
}

/// Time of a run's loads in all, s, from which on it misses a target for their P95 whatever
/// follows: the remaining ones of the same run simulated could take no time. None where that has
/// too few loads for the run to be judged beside it, or nothing to be held against the target.
#[must_use]
pub fn missed_from_s(predicted: &QuickPoint, p95_s: Option<f64>, target_s: f64) -> Option<f64> {
    let p95_s = p95_s.filter(|p95_s| *p95_s > 0.0 && predicted.loads >= AVERAGE_LOADS_MIN)?;
    // A percent above the target is no rounding.
    Some(predicted.load_mean_s? * predicted.loads as f64 * target_s * 1.01 / p95_s)
}

impl QuickReport {
    /// Users that the verdict names, 0 for not even one; none where there is no verdict.
    #[must_use]
    pub fn answer(&self) -> Option<u32> {
        if self.disturbance().is_some() {
            return None;
        }
        Some(match self.missed_users() {
            None => self.tried().users,
            Some(_) => {
                let left = self.met_users().unwrap_or_else(|| self.carried());
                left.min(self.served().users)
            }
        })
    }

    /// Users that are served by simulation, and were tried on the drive last.
    pub(super) fn tried(&self) -> Served {
        let served = self.served();
        let users = served.users.min(self.measured.users);
        Served { users, is_largest_tried: served.is_largest_tried && users == served.users }
    }

    /// Number of users to try on the drive next: where loads of a run that missed the rule took far
    /// longer than simulated, the same again, as it may have been by chance, unless a repetition
    /// can't make up for it; then, between those that missed it and those that met it, a number
    /// that meets it once the curve is worsened as the run of either was. Where none does, far
    /// fewer, who may worsen it by less.
    #[must_use]
    pub fn next_try(&self) -> Option<u32> {
        let missed = self.missed_users().filter(|_| self.disturbance().is_none())?;
        let is_once = self.runs_of(missed).count() == 1;
        if is_once && self.run_of(missed).is_some_and(|run| self.may_be_by_chance(&run)) {
            return Some(missed);
        }
        let users = || self.curve.iter().map(|point| point.users);
        let next = match (self.met_users(), self.carried()) {
            (Some(met), most) => {
                let most = most.max(met);
                let middle = most - (most - met) / 2;
                users().find(|users| *users >= middle)
            }
            (None, 0) => {
                let most = (f64::from(missed) * FEWER_SHARE) as u32;
                users().rfind(|users| *users <= most)
            }
            (None, most) => Some(most),
        };
        next.filter(|users| self.runs_of(*users).next().is_none())
    }

    /// Whether a run that missed the rule had loads so slow that it may have been by chance, and
    /// would meet it together with one that is as lucky.
    fn may_be_by_chance(&self, run: &QuickTry) -> bool {
        let slower = run.load_ratio().filter(|ratio| *ratio > LOADS_APART);
        let point = self.curve.iter().find(|point| point.users == run.measured.users);
        slower.zip(point).is_some_and(|(slower, point)| {
            let slower = f64::midpoint(slower, 1.0 / LOADS_APART).max(1.0);
            !self.is_slow(&Worse { slower, kept: 1.0 }.applied_to(point))
        })
    }

    /// Number of users that the curve lacks for the next number to be known: halfway between the
    /// most that meet the rule, worsened as the drive showed, and the next of the curve.
    #[must_use]
    pub fn lacking(&self) -> Option<u32> {
        self.missed_users()?;
        let carried = self.carried();
        let next = self.curve.iter().map(|point| point.users).find(|users| *users > carried)?;
        users_between(carried, next)
    }

    /// Runs on the drive in their order.
    pub(crate) fn runs(&self) -> impl Iterator<Item = QuickTry> {
        let last = QuickTry { measured: self.measured.clone(), predicted: self.predicted.clone() };
        self.earlier.iter().cloned().chain([last])
    }

    fn runs_of(&self, users: u32) -> impl Iterator<Item = QuickTry> {
        self.runs().filter(move |run| run.measured.users == users)
    }

    /// Run of so many users on the drive, with the loads of all where there are several; none where
    /// so many were not tried.
    pub(super) fn run_of(&self, users: u32) -> Option<QuickTry> {
        self.runs_of(users).reduce(|one, two| QuickTry {
            measured: one.measured.with(&two.measured),
            predicted: one.predicted.with(&two.predicted),
        })
    }

    /// Whether the runs of so many users on the drive missed the rule.
    pub(crate) fn has_missed(&self, users: u32) -> bool {
        self.run_of(users).is_some_and(|run| self.missed_by(&run).is_some())
    }

    /// Smallest number of users that missed the rule on the drive.
    pub(super) fn missed_users(&self) -> Option<u32> {
        let tried = self.runs().map(|run| run.measured.users);
        tried.filter(|users| self.has_missed(*users)).min()
    }

    /// Largest number of users, fewer than those that missed the rule, that met it on the drive.
    fn met_users(&self) -> Option<u32> {
        let missed = self.missed_users().unwrap_or(u32::MAX);
        let is_judged = |users: &u32| {
            let run = self.run_of(*users);
            run.is_some_and(|run| run.measured.loads >= AVERAGE_LOADS_MIN)
        };
        let tried = self.runs().map(|run| run.measured.users).filter(|users| *users < missed);
        tried.filter(is_judged).max()
    }

    /// Whether the answer is carried over from a run of more users, which missed the rule: no run
    /// of as many bears it out.
    pub(super) fn is_carried(&self) -> bool {
        self.missed_users().is_some() && self.met_users().is_none()
    }

    /// Run that the answer rests on: of the most users that met the rule, or else of the fewest
    /// that missed it, or else the one that can't be judged.
    pub(super) fn deciding(&self) -> QuickTry {
        let users = self.met_users().or_else(|| self.missed_users());
        let run = self.run_of(users.unwrap_or(self.measured.users));
        run.unwrap_or_else(|| QuickTry {
            measured: self.measured.clone(),
            predicted: self.predicted.clone(),
        })
    }

    /// Users of the run that the answer rests on.
    #[must_use]
    pub fn deciding_users(&self) -> u32 {
        self.deciding().measured.users
    }

    /// Largest number of users, fewer than those that missed the rule, that the curve serves after
    /// each of its figures is worsened as the run that decides is worse than simulated; 0: none.
    fn carried(&self) -> u32 {
        let run = self.deciding();
        let point = self.curve.iter().find(|point| point.users == run.measured.users);
        point.map_or(0, |point| self.most_served(&Worse::of(&run, point)))
    }

    /// Largest number of users of the curve, fewer than those that missed the rule on the drive,
    /// that meets it worsened by so much; 0: none.
    fn most_served(&self, worse: &Worse) -> u32 {
        let missed = self.missed_users().unwrap_or(u32::MAX);
        let is_served = |point: &&QuickPoint| {
            point.users < missed && self.missed(&worse.applied_to(point)).is_none()
        };
        self.curve.iter().filter(is_served).map(|point| point.users).max().unwrap_or(0)
    }

    /// Largest number of users, more than the answer and fewer than missed the rule, that may meet
    /// it: by the run of the answer, or by simulation where there is none; none where none may.
    pub(crate) fn most_open(&self) -> Option<u32> {
        self.missed_users()?;
        let most = if self.is_carried() { self.most_served(&Worse::NOT) } else { self.carried() };
        (most > self.answer()?).then_some(most)
    }

    /// Whether so many users miss the rule by what a run of other users showed of the drive.
    pub(crate) fn is_ruled_out(&self, users: u32) -> bool {
        let most = self.runs().map(|run| run.measured.users).max().unwrap_or(0);
        let answer = self.answer().filter(|_| self.missed_users().is_some());
        let left = self.most_open().or(answer);
        left.is_some_and(|left| left < users && users <= most)
    }

    /// Load P95 of so many users: the curve's, worsened as the deciding run is worse than
    /// simulated.
    #[must_use]
    pub fn load_of(&self, users: u32) -> Option<f64> {
        let point_of = |users| self.curve.iter().find(|point| point.users == users);
        let run = self.deciding();
        let judged =
            point_of(run.measured.users).filter(|_| run.measured.loads >= AVERAGE_LOADS_MIN);
        let slower = judged.map_or(1.0, |point| Worse::of(&run, point).slower);
        point_of(users)?.load_p95_s.map(|load| load * slower)
    }

    /// Sentence on the answer's load P95 where it is not that of the table; none where it is, or
    /// nobody is served.
    #[must_use]
    pub fn load_p95(&self) -> Option<String> {
        let users = self.answer().filter(|users| *users > 0)?;
        let load = self.load_of(users)?;
        let simulated = self.curve.iter().find(|point| point.users == users)?.load_p95_s?;
        let slower = load / simulated.max(1e-9);
        (slower > 1.0 + RATIO_STEP).then(|| {
            format!(
                "{}: the table's {} × {slower:.2}, as the run of {} showed",
                time(load),
                time(simulated),
                counted(self.deciding_users().into(), "user")
            )
        })
    }

    /// Sentence on how long loads took in the runs on the drive.
    #[must_use]
    pub fn runs_told(&self) -> String {
        let mut tried: Vec<u32> = Vec::new();
        for run in self.runs() {
            if !tried.contains(&run.measured.users) {
                tried.push(run.measured.users);
            }
        }
        let mut told: Vec<String> = Vec::new();
        for users in tried {
            let runs: Vec<QuickTry> = self.runs_of(users).collect();
            let ratios: Vec<String> =
                runs.iter().filter_map(|run| Some(format!("{:.2}", run.load_ratio()?))).collect();
            let ratios = ratios.join(" and ");
            let loads = runs.iter().fold(0, |all: u64, run| all.saturating_add(run.measured.loads));
            let loads = counted(loads, "load");
            let pauses = match runs.iter().any(|run| run.measured.is_without_pauses) {
                true => " without pauses between requests",
                false => "",
            };
            let outcome = match (self.has_missed(users), self.missed_users()) {
                (true, _) => "; missed",
                (false, Some(_)) if !ratios.is_empty() => "; met",
                _ => "",
            };
            let users = counted(users.into(), "user");
            told.push(match (ratios.is_empty(), told.is_empty()) {
                (true, _) => format!("{users}: {loads}, too few to judge"),
                (false, true) => format!(
                    "{users}: loads took {ratios} times as long as simulated \
                     ({loads}{pauses}{outcome})"
                ),
                (false, false) => format!("{users}: {ratios} times ({loads}{outcome})"),
            });
        }
        told.join("; ")
    }
}

impl QuickTry {
    /// Ratio of the average load on the drive to the predicted one; none where there are too few.
    pub(super) fn load_ratio(&self) -> Option<f64> {
        let (is, was) = (&self.measured, &self.predicted);
        let is_judged = is.loads >= AVERAGE_LOADS_MIN && was.loads >= AVERAGE_LOADS_MIN;
        let load = |point: &QuickPoint| point.load_mean_s.or(point.load_p95_s);
        let both = load(is).zip(load(was)).filter(|_| is_judged);
        both.map(|(is, was)| is / was.max(1e-9))
    }

    /// Deviation of the measured bandwidth from the predicted one, as a share of that, where it is
    /// too large for the run to confirm the curve; none also where users did not pause: then it is
    /// that of the loads.
    pub(super) fn deviation(&self) -> Option<f64> {
        let (is, was) = (self.measured.gib_per_s, self.predicted.gib_per_s);
        let deviation = if was > 0.0 { is / was - 1.0 } else { 0.0 };
        let is_own = !self.measured.is_without_pauses;
        (is_own && deviation.abs() > CONFIRMED_TO).then_some(deviation)
    }
}

impl QuickPoint {
    /// Figures of two runs of one load together, without quantiles, which can't be merged.
    fn with(&self, other: &QuickPoint) -> QuickPoint {
        let turns = |point: &QuickPoint| point.earlier_turns.unwrap_or(0);
        QuickPoint {
            gib_per_s: f64::midpoint(self.gib_per_s, other.gib_per_s),
            load_p50_s: None,
            load_p95_s: None,
            kv_io_p95_s: None,
            load_mean_s: mean([(self.load_mean_s, self.loads), (other.load_mean_s, other.loads)]),
            loads: self.loads.saturating_add(other.loads),
            reuse_share: mean([(self.reuse_share, turns(self)), (other.reuse_share, turns(other))]),
            earlier_turns: Some(turns(self).saturating_add(turns(other))),
            ..self.clone()
        }
    }
}

/// Mean of the values that are there, each of so many; none where none is.
fn mean(parts: [(Option<f64>, u64); 2]) -> Option<f64> {
    let known = parts.into_iter().filter_map(|(value, count)| Some((value?, count as f64)));
    let (sum, count) =
        known.fold((0.0, 0.0), |(sum, all), (value, count)| (sum + value * count, all + count));
    (count > 0.0).then(|| sum / count)
}

/// Ratios by which a run on the drive is worse than the same one simulated.
pub(super) struct Worse {
    /// That of the mean load, at least 1. The P95 of a short run's few loads is one of them, and
    /// varies by far more.
    pub(super) slower: f64,
    /// That of the share of earlier turns found, at most 1; 1 where they are too few to tell.
    pub(super) kept: f64,
}

impl Worse {
    /// Those of a run that is as good as simulated.
    const NOT: Worse = Worse { slower: 1.0, kept: 1.0 };

    /// Those of a run; beside the curve's figures for as many users where the simulated run has too
    /// few loads.
    pub(super) fn of(run: &QuickTry, point: &QuickPoint) -> Worse {
        let is_judged = run.predicted.loads >= AVERAGE_LOADS_MIN;
        let beside = if is_judged { &run.predicted } else { point };
        let has_turns = run.measured.earlier_turns.is_none_or(|turns| turns >= TURNS_MIN);
        let ratio = |of: fn(&QuickPoint) -> Option<f64>| {
            of(&run.measured).zip(of(beside)).map_or(1.0, |(is, was)| is / was.max(1e-9))
        };
        Worse {
            slower: ratio(|point| point.load_mean_s.or(point.load_p95_s)).max(1.0),
            kept: if has_turns { ratio(|point| point.reuse_share).min(1.0) } else { 1.0 },
        }
    }

    /// The curve's figures, worsened.
    pub(super) fn applied_to(&self, point: &QuickPoint) -> QuickPoint {
        QuickPoint {
            load_p95_s: point.load_p95_s.map(|load| load * self.slower),
            reuse_share: point.reuse_share.map(|share| share * self.kept),
            ..point.clone()
        }
    }

    /// Clauses on the ratios that worsen anything; none where neither does.
    pub(super) fn told(&self) -> Option<String> {
        let slower = (self.slower > 1.0 + RATIO_STEP)
            .then(|| format!("loads took {:.2} times as long as simulated", self.slower));
        let kept = (self.kept < 1.0 - RATIO_STEP)
            .then(|| format!("{:.2} times as many turns were found as simulated", self.kept));
        let told: Vec<String> = slower.into_iter().chain(kept).collect();
        (!told.is_empty()).then(|| told.join(", and "))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::report;
    use super::*;

    /// A report whose curve has these P95s of 1, 2, 4, 8 and 16 users, 8 of whom were tried.
    fn of_eight(loads_s: [f64; 5]) -> QuickReport {
        let mut report = report(8, 8);
        let last = QuickPoint { users: 16, ..report.curve[3].clone() };
        report.curve.push(last);
        for (point, load_s) in report.curve.iter_mut().zip(loads_s) {
            (point.load_p95_s, point.reuse_share) = (Some(load_s), Some(1.0));
        }
        (report.predicted, report.measured) = (report.curve[3].clone(), report.curve[3].clone());
        report
    }

    /// Makes a run of so many users, whose loads take so many times as long as simulated, the last.
    fn run(report: &mut QuickReport, users: u32, slower: f64) {
        let point = report.curve.iter().find(|point| point.users == users).unwrap();
        let predicted = QuickPoint { load_mean_s: Some(0.2), loads: 29, ..point.clone() };
        let measured = QuickPoint { load_mean_s: Some(0.2 * slower), ..predicted.clone() };
        let last =
            QuickTry { measured: report.measured.clone(), predicted: report.predicted.clone() };
        if report.measured.load_mean_s.is_some() {
            report.earlier.push(last);
        }
        (report.measured, report.predicted) = (measured, predicted);
    }

    /// Adds what the curve lacks, a P95 of a tenth of a second for each user.
    fn refine(report: &mut QuickReport) {
        while let Some(users) = report.lacking() {
            let at = report.curve.partition_point(|point| point.users < users);
            let point = QuickPoint {
                users,
                load_p95_s: Some(f64::from(users) / 10.0),
                ..report.curve[at].clone()
            };
            report.curve.insert(at, point);
        }
    }

    /// One run of 29 loads at 1.83 times as long made the answer 4 rather than 8, without a try of
    /// 5 to 7; the check then had 1.18 times.
    #[test]
    fn one_slow_run_is_repeated_and_the_numbers_below_it_are_simulated_and_tried() {
        let mut report = of_eight([0.1, 0.2, 0.4, 0.8, 1.6]);
        run(&mut report, 8, 1.2);
        assert_eq!((report.lacking(), report.next_try(), report.answer()), (None, None, Some(8)));
        let mut report = of_eight([0.1, 0.2, 0.4, 0.8, 1.6]);
        run(&mut report, 8, 1.83);
        assert_eq!(report.lacking(), Some(6));
        refine(&mut report);
        assert_eq!((report.answer(), report.next_try()), (Some(5), Some(8)));
        let mut lucky = report.clone();
        run(&mut lucky, 8, 0.6);
        // Both runs together: 1.215 times.
        assert_eq!((lucky.next_try(), lucky.answer()), (None, Some(8)));
        assert!(lucky.judge().starts_with("good for 8 users, load P95 972 ms: "), "{lucky:?}");
        run(&mut report, 8, 1.17);
        refine(&mut report);
        assert_eq!((report.answer(), report.next_try()), (Some(6), Some(6)));
        assert!(!report.clone().judged().is_borne_out());
        assert_eq!(
            report.judge(),
            "good for 6 users, load P95 900 ms: 8 missed the rule on the drive, and 7 may meet it; \
             no run of 6 bears this out"
        );
        run(&mut report, 6, 1.3);
        refine(&mut report);
        assert_eq!(
            report.judge(),
            "good for 6 users, load P95 780 ms: 8 missed the rule on the drive, and 7 may meet it"
        );
        assert!(report.clone().judged().is_borne_out());
        assert_eq!((report.next_try(), report.most_open()), (Some(7), Some(7)));
        assert_eq!(
            report.runs_told(),
            "8 users: loads took 1.83 and 1.17 times as long as simulated (58 loads; missed); 6 \
             users: 1.30 times (29 loads; met)"
        );
        run(&mut report, 7, 2.0);
        assert_eq!((report.answer(), report.next_try()), (Some(6), Some(7)));
        assert_eq!((report.deciding_users(), report.measured.users), (6, 7));
        assert!(report.judge().ends_with(": 7 missed the rule on the drive"), "{}", report.judge());
        assert!([7, 8].map(|users| report.has_missed(users)) == [true, true]);
    }

    #[test]
    fn a_number_that_a_run_of_fewer_users_leaves_open_is_tried_halfway() {
        let mut report = of_eight([0.1, 0.2, 0.3, 0.9, 1.6]);
        run(&mut report, 8, 1.4);
        refine(&mut report);
        assert_eq!((report.answer(), report.next_try()), (Some(7), Some(7)));
        run(&mut report, 7, 1.45);
        assert_eq!((report.answer(), report.next_try()), (Some(6), Some(6)));
        let mut few = report.clone();
        run(&mut few, 6, 1.0);
        few.measured.loads = 5;
        assert_eq!((few.next_try(), few.answer(), few.is_carried()), (None, Some(6), true));
        assert!(few.runs_told().ends_with("; 6 users: 5 loads, too few to judge"), "{few:?}");
        let mut report = of_eight([0.1, 0.2, 0.4, 0.9, 1.6]);
        run(&mut report, 8, 1.2);
        run(&mut report, 4, 1.0);
        refine(&mut report);
        assert_eq!((report.answer(), report.next_try()), (Some(4), Some(6)));
        assert!(report.judge().ends_with("drive, and 5 to 7 may meet it"), "{}", report.judge());
        assert!(report.is_ruled_out(8) && !report.is_ruled_out(6));
    }

    /// "Not even one user is sure to be served", where 1 was well within the rule and not tried.
    #[test]
    fn fewer_users_are_tried_where_a_run_misses_the_rule_and_the_last_one_is_the_answer() {
        let mut report = report(4, 4);
        assert_eq!(report.next_try(), None);
        report.measured.load_p95_s = Some(1.4);
        assert_eq!((report.lacking(), report.next_try()), (Some(3), Some(2)));
        assert_eq!(report.answer(), Some(2));
        assert_eq!([2, 4, 8].map(|users| report.is_ruled_out(users)), [false, true, false]);
        report.measured.load_p95_s = Some(9.0);
        // Each load took as long as simulated, but for one.
        (report.measured.load_mean_s, report.predicted.load_mean_s) = (Some(0.51), Some(0.5));
        report.curve[2].load_p95_s = Some(0.97);
        assert_eq!(report.next_try(), None);
        // No repetition makes up for it, unless there is more room to the target.
        report.measured.load_mean_s = Some(0.9);
        assert_eq!(report.next_try(), Some(2));
        report.curve[2].load_p95_s = Some(0.8);
        assert_eq!(report.next_try(), Some(4));
        report.curve[2].load_p95_s = Some(0.97);
        // Worsened as much, nobody is served: fewer are tried all the same.
        report.measured.load_mean_s = Some(4.5);
        assert_eq!((report.next_try(), report.answer()), (Some(2), Some(0)));
        let missed = report.deciding();
        report.earlier.push(missed.clone());
        assert_eq!((report.next_try(), report.answer()), (Some(2), Some(0)));
        report.earlier.push(missed);
        report.measured = report.curve[1].clone();
        report.predicted = report.curve[1].clone();
        assert_eq!(report.next_try(), None);
        let report = report.judged();
        assert_eq!(
            report.verdict,
            "good for 2 users, load P95 500 ms: 4 missed the rule on the drive"
        );
        assert_eq!(report.users, Some(2));
        let limit = report.limit().unwrap();
        assert!(limit.ends_with("have a load P95 of 8.73 s"), "{limit}");
        assert!(report.has_missed(4) && !report.has_missed(2));
        let mut few = report.clone();
        few.measured.loads = 3;
        let few = few.judged();
        assert!(few.verdict.starts_with("not confirmed: 0 to 2 users, as 4 users"), "{few:?}");
        let told = "the run of 2 users had 3 loads, too few to judge it; 4 users should meet --slo";
        assert!(few.verdict.contains(told), "{}", few.verdict);
        assert_eq!((few.users, few.checked_users()), (Some(0), 1));
        let mut one = report;
        (one.measured, one.predicted) = (one.curve[0].clone(), one.curve[0].clone());
        (one.measured.load_mean_s, one.predicted.load_mean_s) = (Some(9.0), Some(0.2));
        assert_eq!((one.next_try(), one.answer()), (None, Some(0)));
    }

    /// A run of one user went on for 65 s, 6 times above the target from its beginning on.
    #[test]
    fn a_run_misses_the_rule_for_certain_once_no_further_load_can_make_up_for_it() {
        let mut report = of_eight([0.1, 0.2, 0.4, 0.8, 1.6]);
        run(&mut report, 8, 1.0);
        let (predicted, p95_s) = (report.predicted.clone(), report.curve[3].load_p95_s);
        let missed_s = missed_from_s(&predicted, p95_s, 1.0).unwrap();
        // 29 loads of 0.2 s; the rule allows 1.25 times as long.
        assert!((missed_s - 29.0 * 0.2 * 1.25 * 1.01).abs() < 1e-9, "{missed_s}");
        report.measured.load_mean_s = Some(missed_s / 29.0);
        assert!(report.has_missed(8));
        report.measured.load_mean_s = Some(missed_s / 29.0 / 1.02);
        assert!(!report.has_missed(8));
        assert_eq!(missed_from_s(&predicted, None, 1.0), None);
        let few = QuickPoint { loads: 9, ..predicted };
        assert_eq!(missed_from_s(&few, p95_s, 1.0), None);
    }

    #[test]
    fn numbers_are_halved_until_they_are_as_near_as_the_answer_needs() {
        let between = |served, too_many| users_between(served, too_many);
        assert_eq!([between(0, 1), between(4, 8), between(4, 5)], [None, Some(6), None]);
        assert_eq!([between(60, 64), between(59, 64), between(9, 8)], [None, Some(61), None]);
    }

    #[test]
    fn one_load_p95_is_the_answer_s_and_is_explained_where_it_is_not_the_table_s() {
        let mut report = of_eight([0.1, 0.2, 0.4, 0.8, 1.6]);
        report.check_predicted =
            Some(QuickPoint { load_p95_s: Some(0.447), ..report.curve[3].clone() });
        run(&mut report, 8, 1.0);
        report.measured.load_p95_s = Some(0.436);
        assert_eq!(report.load_p95(), None);
        run(&mut report, 8, 1.2);
        (report.measured.loads, report.check_predicted) = (29, None);
        assert_eq!(
            report.load_p95().unwrap(),
            "880 ms: the table's 800 ms × 1.10, as the run of 8 users showed"
        );
        report.kernel_share = Some(2.0);
        assert_eq!(report.load_p95(), None);
    }
}
