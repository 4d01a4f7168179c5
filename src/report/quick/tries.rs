//! Runs on the drive beside the same ones simulated at the speed that they showed: the answer that
//! they leave.

use ringfall_host::counted;

use super::{
    AVERAGE_LOADS_MIN, CONFIRMED_TO, LOADS_MIN, QuickPoint, QuickReport, QuickTry, Served,
    TURNS_MIN,
};

/// Precision of the answer, as a share of it.
const USERS_STEP: u32 = 16;
/// Ratio of a load's time to that simulated from which on, or inverted up to which, it is told of a
/// run: all of them together are as simulated.
const RATIO_FROM: f64 = 1.1;
/// Deviation of the drive's speed from that of its limits up to which it is that.
const SPEED_TO: f64 = 0.02;

/// Number halfway between one that is served and one that is too large; none where the two are as
/// near as an answer needs.
pub fn users_between(served: u32, too_many: u32) -> Option<u32> {
    let step = (too_many / USERS_STEP).max(1);
    (too_many.saturating_sub(served) > step).then(|| u32::midpoint(served, too_many))
}

/// Time of a run's loads in all, s, from which on it misses a target for their P95 whatever
/// follows: the remaining ones of the same run simulated could take no time. None where that has
/// too few loads for the run to be judged beside it, or nothing to be held against the target.
pub fn missed_from_s(predicted: &QuickPoint, p95_s: Option<f64>, target_s: f64) -> Option<f64> {
    let p95_s = p95_s.filter(|p95_s| *p95_s > 0.0 && predicted.loads >= AVERAGE_LOADS_MIN)?;
    // A percent above the target is no rounding.
    Some(predicted.load_mean_s? * predicted.loads as f64 * target_s * 1.01 / p95_s)
}

impl QuickReport {
    /// Users that the verdict names, 0 for not even one; none where there is no verdict. Of users
    /// whom the drive serves at the speed of its runs, those who were run on it, if there are any.
    pub fn answer(&self) -> Option<u32> {
        if self.speed.is_none() {
            return self.users;
        }
        if self.disturbance().is_some() {
            return None;
        }
        let served = self.served().users;
        let met = self.judged_users().filter(|users| *users <= served).max();
        Some(met.unwrap_or(if self.has_judged() { served } else { self.tried().users }))
    }

    /// Users that are served by simulation, and were tried on the drive last.
    pub(super) fn tried(&self) -> Served {
        let served = self.served();
        let users = served.users.min(self.measured.users);
        Served { users, is_largest_tried: served.is_largest_tried && users == served.users }
    }

    pub(crate) fn runs(&self) -> impl Iterator<Item = QuickTry> {
        let last = QuickTry { measured: self.measured.clone(), predicted: self.predicted.clone() };
        self.earlier.iter().cloned().chain([last])
    }

    /// Users of each run that has enough loads.
    fn judged_users(&self) -> impl Iterator<Item = u32> {
        self.runs().filter(QuickTry::is_judged).map(|run| run.measured.users)
    }

    fn has_judged(&self) -> bool {
        self.judged_users().next().is_some()
    }

    /// Whether so many users were run on the drive, and miss the rule at the speed that it showed.
    pub(crate) fn has_missed(&self, users: u32) -> bool {
        users > self.served().users && self.judged_users().any(|tried| tried == users)
    }

    /// Smallest number of users that missed the rule on the drive.
    pub(super) fn missed_users(&self) -> Option<u32> {
        self.judged_users().filter(|users| self.has_missed(*users)).min()
    }

    /// Whether all that was run on the drive missed the rule: no run of as many users as the answer
    /// bears it out.
    pub(super) fn is_carried(&self) -> bool {
        self.answer() != Some(0)
            && self.has_judged()
            && self.judged_users().all(|users| self.has_missed(users))
    }

    /// Run that the answer rests on: of its users, or else of the fewest that missed the rule, or
    /// else the one that can't be judged.
    pub(super) fn deciding(&self) -> QuickTry {
        let last = QuickTry { measured: self.measured.clone(), predicted: self.predicted.clone() };
        let of = |users: u32| {
            self.runs().filter(|run| run.is_judged() && run.measured.users == users).last()
        };
        let users = self.answer().or(self.missed_users());
        users.and_then(of).or_else(|| self.missed_users().and_then(of)).unwrap_or(last)
    }

    /// Users of the run that the answer rests on.
    pub fn deciding_users(&self) -> u32 {
        self.deciding().measured.users
    }

    /// Largest number of users, more than the answer, that is served at the speed of the runs, and
    /// was not run; none where none is.
    pub(super) fn most_open(&self) -> Option<u32> {
        let served = self.served().users;
        (self.has_judged() && served > self.answer()?).then_some(served)
    }

    /// Load P95 of so many users in the table, s.
    pub fn load_of(&self, users: u32) -> Option<f64> {
        self.curve.iter().find(|point| point.users == users)?.load_p95_s
    }

    /// Clause on the speed of the drive that is simulated, beside its limits.
    pub(crate) fn speed_told(&self) -> Option<String> {
        let speed = self.speed.filter(|speed| (speed - 1.0).abs() > SPEED_TO)?;
        Some(format!("{speed:.2} times as quick as its limits"))
    }

    /// Sentence on the runs on the drive, and how quick it was in them.
    pub fn runs_told(&self) -> String {
        let told: Vec<String> = self.runs().map(|run| self.run_told(&run)).collect();
        let speed = match (self.has_judged(), self.speed_told()) {
            (false, _) => String::new(),
            (true, Some(speed)) => format!(": the drive was {speed}, and is so in the table"),
            (true, None) => ": the drive was as quick as its limits".to_owned(),
        };
        told.join("; ") + &speed
    }

    fn run_told(&self, run: &QuickTry) -> String {
        let users = run.measured.users;
        let pauses = if run.measured.is_without_pauses { " without pauses" } else { "" };
        let loads = format!("{}{pauses}", counted(run.measured.loads, "load"));
        let apart = |ratio: &f64| ratio.max(1.0 / ratio) > RATIO_FROM;
        let ratio =
            run.load_ratio().filter(apart).map(|ratio| format!("took {ratio:.2} times as long"));
        // Users who do not pause load as others don't.
        let is_own = run.is_judged() && !run.measured.is_without_pauses;
        // The P95 of fewer loads is their largest.
        let load_p95_s = run.measured.load_p95_s.filter(|_| run.measured.loads >= LOADS_MIN);
        let measured = QuickPoint { load_p95_s, ..run.measured.clone() };
        let missed = self.missed(&measured).filter(|_| is_own);
        let outcome = match self.has_missed(users) {
            true => "missed the rule",
            false if missed.is_none() => "",
            false if self.has_few_turns(&measured) && !self.is_slow(&measured) => {
                "too few turns to judge"
            }
            false => "short of the rule",
        };
        let missed = missed.map(|missed| format!("with {missed}"));
        let few = if run.is_judged() { "" } else { "too few to judge" };
        let parts = [ratio.as_deref().unwrap_or(""), missed.as_deref().unwrap_or(""), outcome, few];
        let parts = parts.into_iter().filter(|part| !part.is_empty());
        let told: Vec<&str> = [loads.as_str()].into_iter().chain(parts).collect();
        format!("{} ({})", counted(users.into(), "user"), told.join(", "))
    }
}

impl QuickTry {
    /// Whether it has enough loads to tell how quick the drive is.
    pub(super) fn is_judged(&self) -> bool {
        self.measured.loads >= AVERAGE_LOADS_MIN
    }

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

    /// Shares of turns found on the drive and by simulation, where they are further apart than that
    /// confirms the curve; none where they are not, or the turns are too few.
    pub(super) fn found_apart(&self) -> Option<[f64; 2]> {
        let has_turns = self.measured.earlier_turns.is_some_and(|turns| turns >= TURNS_MIN);
        let found = self.measured.reuse_share.filter(|_| has_turns)?;
        let expected = self.predicted.reuse_share?;
        ((found - expected).abs() > CONFIRMED_TO * expected).then_some([found, expected])
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::report;
    use super::*;

    /// A report of 1, 2, 4 and 8 users of whom `served` are served, after runs of so many.
    fn after(served: u32, runs: &[u32]) -> QuickReport {
        let mut report = report(served, 8);
        let point = |users: &u32| QuickPoint { users: *users, ..report.curve[2].clone() };
        let run = |users: &u32| QuickTry { measured: point(users), predicted: point(users) };
        let mut runs: Vec<QuickTry> = runs.iter().map(run).collect();
        let last = runs.pop().unwrap();
        (report.measured, report.predicted) = (last.measured, last.predicted);
        report.earlier = runs;
        report.judged()
    }

    /// One run of 29 loads at 1.83 times as long made the answer 4 rather than 8, without a try of
    /// 5 to 7; and one at 0.66 times left the answer as it was.
    #[test]
    fn the_answer_is_the_most_users_of_a_run_who_are_served_at_the_speed_of_all_runs() {
        for (served, runs, answer, told) in [
            (4, &[4][..], 4, "good for 4 users, load P95 1.00 s: the drive's speed is the limit"),
            (2, &[4, 2], 2, "good for 2 users, load P95 500 ms: 4 missed the rule on the drive"),
            (
                2,
                &[4],
                2,
                "good for 2 users, load P95 500 ms: 4 missed the rule on the drive; no run of 2 \
                 bears this out",
            ),
            (
                2,
                &[4, 1],
                1,
                "good for 1 user, load P95 250 ms: 4 missed the rule on the drive, and 2 may meet \
                 it",
            ),
            (4, &[2, 4], 4, "good for 4 users, load P95 1.00 s: the drive's speed is the limit"),
            (4, &[2], 2, "good for 2 users, load P95 500 ms: 3 to 4 may meet it"),
            (4, &[1, 2], 2, "good for 2 users, load P95 500 ms: 3 to 4 may meet it"),
        ] {
            let report = after(served, runs);
            assert_eq!((report.users, report.verdict.as_str()), (Some(answer), told), "{runs:?}");
            assert_eq!(report.is_borne_out(), runs.contains(&answer), "{runs:?}");
            let missed: Vec<u32> =
                runs.iter().copied().filter(|users| report.has_missed(*users)).collect();
            assert!(missed.iter().all(|users| *users > served), "{missed:?}");
            assert_eq!(report.checked_users(), answer);
        }
    }

    #[test]
    fn runs_are_told_with_the_speed_that_they_showed() {
        let mut report = after(2, &[4, 2]);
        assert_eq!(
            report.runs_told(),
            "4 users (100 loads, missed the rule); 2 users (100 loads): the drive was as quick as \
             its limits"
        );
        report.speed = Some(1.45);
        report.earlier[0].measured.load_mean_s = Some(0.6);
        report.earlier[0].predicted.load_mean_s = Some(0.5);
        assert_eq!(
            report.runs_told(),
            "4 users (100 loads, took 1.20 times as long, missed the rule); 2 users (100 loads): \
             the drive was 1.45 times as quick as its limits, and is so in the table"
        );
        // What a run had that misses the rule was in the JSON alone.
        report.measured.reuse_share = Some(0.63);
        let told = "2 users (100 loads, with 63 % of earlier turns found, short of the rule)";
        assert!(report.runs_told().contains(told), "{}", report.runs_told());
        // 67 % of 45 turns stood there alone, under a rule of 70 %.
        (report.measured.reuse_share, report.measured.earlier_turns) = (Some(0.67), Some(45));
        let told = "(100 loads, with 67 % of 45 earlier turns found, too few turns to judge)";
        assert!(report.runs_told().contains(told), "{}", report.runs_told());
        // So is the P95 of few loads.
        (report.measured.reuse_share, report.measured.load_p95_s) = (Some(0.9), Some(1.2));
        let told = "as long, with a load P95 of 1.20 s, short of the rule)";
        assert!(report.runs_told().contains(told), "{}", report.runs_told());
        report.measured.loads = LOADS_MIN - 1;
        let told = "2 users (19 loads, took 1.20 times as long):";
        assert!(report.runs_told().contains(told), "{}", report.runs_told());
        (report.measured.loads, report.measured.load_p95_s) = (100, report.predicted.load_p95_s);
        report.measured.is_without_pauses = true;
        assert!(report.runs_told().contains("2 users (100 loads without pauses):"));
        let mut few = after(4, &[4]);
        few.measured.loads = 3;
        assert_eq!(few.runs_told(), "4 users (3 loads, too few to judge)");
        assert_eq!((few.answer(), few.missed_users()), (Some(4), None));
    }

    /// A run of one user went on for 65 s, 6 times above the target from its beginning on.
    #[test]
    fn a_run_misses_the_rule_for_certain_once_no_further_load_can_make_up_for_it() {
        let predicted = QuickPoint { load_mean_s: Some(0.2), loads: 29, ..report(4, 4).predicted };
        let missed_s = missed_from_s(&predicted, Some(0.8), 1.0).unwrap();
        // 29 loads of 0.2 s; the rule allows 1.25 times as long.
        assert!((missed_s - 29.0 * 0.2 * 1.25 * 1.01).abs() < 1e-9, "{missed_s}");
        assert_eq!(missed_from_s(&predicted, None, 1.0), None);
        let few = QuickPoint { loads: 9, ..predicted };
        assert_eq!(missed_from_s(&few, Some(0.8), 1.0), None);
    }

    #[test]
    fn numbers_are_halved_until_they_are_as_near_as_the_answer_needs() {
        let between = |served, too_many| users_between(served, too_many);
        assert_eq!([between(0, 1), between(4, 8), between(4, 5)], [None, Some(6), None]);
        assert_eq!([between(60, 64), between(59, 64), between(9, 8)], [None, Some(61), None]);
    }
}
