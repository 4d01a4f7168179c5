//! Verdict of an answer: what follows from the simulated curve, the run on the drive and the same
//! run simulated together, and what speaks against it.

use ringfall_config::ServedRule;
use ringfall_host::counted;
use ringfall_model::stats::Proportion;

use super::{
    AVERAGE_LOADS_MIN, CONFIRMED_TO, LOADS_APART, QuickLimits, QuickPoint, QuickReport, Served,
    TURNS_MIN, is_load_quick, is_reuse_enough, is_reuse_sure, others_used, time,
};

/// Share of the time in which the drive works from which on more bandwidth is what it lacks.
const BUSY_FROM: f64 = 0.9;

/// Ratio of a load to its target from which on it is told as such, rather than in percent.
const TIMES_FROM: f64 = 2.0;

/// Beginning of the verdict where nothing can be concluded.
const NO_VERDICT: &str = "no verdict";
/// Beginning of the verdict where the run on the drive does not bear the curve out.
const NOT_CONFIRMED: &str = "not confirmed";

impl QuickReport {
    /// Answer in a sentence, to be kept as `verdict`; that of an answer that does not have the
    /// drive's speed stays.
    pub fn judge(&self) -> String {
        if self.speed.is_none() {
            return self.verdict.clone();
        }
        if let Some(memory) = self.in_memory() {
            return format!("{NO_VERDICT}: {memory}; give a DIR on a drive");
        }
        if let Some(others) = self.others() {
            return format!("{NO_VERDICT}: {others}; repeat when it is idle");
        }
        if self.served_by_speed.users == 0 {
            return self.judge_too_slow();
        }
        if self.served_by_space.users == 0 {
            return format!(
                "{:.1} GiB are too little for one user, whose turns take {:.2} GiB each; with \
                 enough space the drive's speed serves {}",
                self.space_gib,
                self.turn_gib,
                users_of(self.served_by_speed)
            );
        }
        match self.objection() {
            Some(why) => format!("{NOT_CONFIRMED}: {why}"),
            None => self.judge_served(),
        }
    }

    /// Sentence on the smallest number of users of the curve that is too large; none where none is.
    pub fn limit(&self) -> Option<String> {
        let served = self.served().users;
        let mut larger = self.curve.iter().filter(|point| point.users > served);
        let is_near = |point: &QuickPoint| !is_reuse_sure(point, self.reuse_share);
        let point = larger.find(|point| self.missed(point).is_some() || is_near(point))?;
        let speed = self.is_slow(point).then(|| match point.drive_busy_share {
            Some(busy) if busy >= BUSY_FROM => {
                format!("bandwidth: the drive is {:.0} % busy", busy * 100.0)
            }
            busy => format!("load latency: {}", self.idle_load(busy)),
        });
        let space = point.reuse_share.filter(|_| is_near(point)).map(|share| {
            format!(
                "space: {:.0} % of earlier turns are found in {:.1} GiB",
                share * 100.0,
                self.space_gib
            )
        });
        let parts: Vec<String> = speed.into_iter().chain(space).collect();
        let users = counted(point.users.into(), "user");
        let verb = match (point.users, self.missed(point).is_some()) {
            (1, _) => "misses",
            (_, true) => "miss",
            (_, false) => "may miss",
        };
        Some(format!("{users} {verb} the rule by {}", parts.join(", and by ")))
    }

    /// Users that are served where the drive loads contexts slower, or quicker, by as much as a run
    /// may deviate from what its curve says, or one did; none where that changes nothing, or nobody
    /// is served.
    pub fn range(&self) -> Option<String> {
        let answer = self.answer().filter(|answer| *answer > 0 && self.objection().is_none())?;
        let last = self.curve.last()?.users;
        let off = 1.0 + CONFIRMED_TO;
        let ratios: Vec<f64> = self.runs().filter_map(|run| run.load_ratio()).collect();
        let slower = ratios.iter().copied().fold(off, f64::max);
        let quicker = ratios.into_iter().fold(1.0 / off, f64::min);
        let served_at = |times: f64| {
            let meets = |point: &&QuickPoint| {
                let load_p95_s = point.load_p95_s.map(|load| load * times);
                !self.is_slow(&QuickPoint { load_p95_s, ..(*point).clone() })
                    && is_reuse_sure(point, self.reuse_share)
                    && !self.has_missed(point.users)
            };
            self.curve.iter().filter(meets).map(|point| point.users).max().unwrap_or(0)
        };
        let least = served_at(slower).min(answer);
        let most = served_at(quicker).max(answer);
        (least < most).then(|| {
            format!(
                "about {least} to {}, should loads take {quicker:.2} to {slower:.2} times as long",
                users_of(Served { users: most, is_largest_tried: most == last })
            )
        })
    }

    /// Clauses on loads that are slow on a drive that is not busy all the time.
    fn idle_load(&self, busy_share: Option<f64>) -> String {
        let busy = busy_share.map(|busy| format!("the drive is {:.0} % busy", busy * 100.0));
        let read_s = |gib: f64| time(gib / self.read_gib_per_s().max(1e-9));
        let entry = self
            .entry_gib_max
            .map(|gib| format!("the largest entry, {gib:.1} GiB, takes {} to read", read_s(gib)));
        let clauses: Vec<String> = busy.into_iter().chain(entry).collect();
        match clauses.is_empty() {
            true => "the drive is not busy all the time".to_owned(),
            false => clauses.join(", and "),
        }
    }

    /// Bandwidth of reads alone at the speed that is simulated, GiB/s.
    fn read_gib_per_s(&self) -> f64 {
        self.limits.read_gib_per_s * self.speed.unwrap_or(1.0)
    }

    /// Whether the verdict is one that a run of as many users on the drive bears out.
    pub fn is_borne_out(&self) -> bool {
        !self.is_carried()
            && !self.verdict.starts_with(NO_VERDICT)
            && !self.verdict.starts_with(NOT_CONFIRMED)
    }

    /// Sentences on why the answer is not to be relied on, but for what its verdict says.
    pub fn doubts(&self) -> Vec<String> {
        let mut doubts: Vec<String> = self.loads_apart().into_iter().collect();
        doubts.extend(self.fast_writes());
        doubts.extend(self.doubt.iter().chain(&self.notes).cloned());
        doubts
    }

    /// Sentence on writes faster than all that reads; none where they were not.
    fn fast_writes(&self) -> Option<String> {
        let QuickLimits { read_gib_per_s, write_gib_per_s, mixed_gib_per_s } = self.limits;
        let others = read_gib_per_s.max(mixed_gib_per_s?);
        (write_gib_per_s > others * (1.0 + CONFIRMED_TO)).then(|| {
            "writes were faster than reads and than both at once: a cache may have taken them, and \
             may be slower once it is full"
                .to_owned()
        })
    }

    /// Reason why the answer can't be held against another; none where it says something of its
    /// drive.
    pub fn why_inconclusive(&self) -> Option<String> {
        self.contradiction().or_else(|| self.disturbance()).or_else(|| self.misprediction())
    }

    /// Reason why the curve says nothing of the drive; none where the run on it went about as
    /// predicted, as far as it can be judged.
    fn misprediction(&self) -> Option<String> {
        let run = self.deciding();
        if let Some(deviation) = run.deviation() {
            return Some(format!(
                "the run on the drive moved {:+.0} % of the bandwidth predicted",
                deviation * 100.0
            ));
        }
        if let Some([found, expected]) = run.found_apart() {
            return Some(format!(
                "the run on the drive found {:.0} % of earlier turns, and {:.0} % by simulation",
                found * 100.0,
                expected * 100.0
            ));
        }
        self.loads_apart()
    }

    /// Sentence on loads of the deciding run that no speed of the drive explains, or not one that
    /// it had in the other runs; none where one does, or they are too few.
    fn loads_apart(&self) -> Option<String> {
        let apart = |ratio: &f64| ratio.max(1.0 / ratio) > LOADS_APART;
        let ratio = self.deciding().load_ratio().filter(apart)?;
        Some(format!("loads took {ratio:.1} times as long as simulated"))
    }

    /// Users that the answer says are served, and of whom its own curve says otherwise.
    pub(super) fn contradiction(&self) -> Option<String> {
        let missed = |served: Served, of: fn(&QuickPoint) -> QuickPoint| {
            if served.users == 0 {
                return None;
            }
            let point = self.curve.iter().find(|point| point.users == served.users);
            let has = match point {
                Some(point) => self.missed(&of(point))?,
                None => "nothing".to_owned(),
            };
            let users = counted(served.users.into(), "user");
            Some(format!(
                "the answer contradicts itself: {users} are said to be served, and its curve has \
                 {has} for them; it was changed after the run, or is damaged"
            ))
        };
        let of_speed = |point: &QuickPoint| QuickPoint { reuse_share: None, ..point.clone() };
        let of_space = |point: &QuickPoint| QuickPoint { load_p95_s: None, ..point.clone() };
        missed(self.served_by_speed, of_speed).or_else(|| missed(self.served_by_space, of_space))
    }

    /// Sentence on the memory that held the data; none where a drive did, or it is not known.
    pub(super) fn in_memory(&self) -> Option<String> {
        self.machine.as_ref()?.in_memory()
    }

    /// Reason why nothing can be concluded; none where a drive was measured, and was ours.
    pub(super) fn disturbance(&self) -> Option<String> {
        self.in_memory().or_else(|| self.others())
    }

    /// Sentence on others that used the drive; none where they moved little.
    fn others(&self) -> Option<String> {
        others_used(self.kernel_share)
    }

    /// Reason why the answer does not hold; none where the run on the drive bears it out.
    fn objection(&self) -> Option<String> {
        if self.is_carried() {
            return None;
        }
        let run = self.deciding();
        if let Some(why) = self.shortage(&run.measured) {
            return Some(format!("{} by simulation, but {why}", users_of(self.tried())));
        }
        let users = counted(run.measured.users.into(), "user");
        if let Some([found, expected]) = run.found_apart() {
            return Some(format!(
                "{users} by simulation, but the run found {:.0} % of earlier turns, and {:.0} % \
                 were expected",
                found * 100.0,
                expected * 100.0
            ));
        }
        run.deviation().map(|deviation| {
            format!(
                "{users} by simulation, but the run moved {:+.0} % of the bandwidth predicted: \
                 something else uses the drive, or its speed varies; repeat when it is idle",
                deviation * 100.0
            )
        })
    }

    /// Figures of a run that miss the rule, as part of a sentence; none where it meets the rule.
    pub(super) fn missed(&self, run: &QuickPoint) -> Option<String> {
        let load = run.load_p95_s.filter(|_| self.is_slow(run));
        let reuse = run.reuse_share.filter(|_| self.is_lost(run));
        let few = run.earlier_turns.filter(|turns| *turns < TURNS_MIN);
        let turns = few.map_or("earlier turns".to_owned(), |few| counted(few, "earlier turn"));
        let parts = [
            load.map(|load| format!("a load P95 of {}", time(load))),
            reuse.map(|share| format!("{:.0} % of {turns} found", share * 100.0)),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        (!parts.is_empty()).then(|| parts.join(" and "))
    }

    /// Whether loads take longer than the rule allows.
    pub(crate) fn is_slow(&self, point: &QuickPoint) -> bool {
        point.load_p95_s.is_some_and(|load| !is_load_quick(load, self.load_p95_s))
    }

    /// Whether fewer of the earlier turns are found than the rule asks for.
    pub(crate) fn is_lost(&self, point: &QuickPoint) -> bool {
        point.reuse_share.is_some_and(|share| !is_reuse_enough(share, self.reuse_share))
    }

    /// Whether a run looked for so few turns that it may have found fewer than the rule asks for by
    /// chance.
    pub(super) fn has_few_turns(&self, run: &QuickPoint) -> bool {
        let is_chance = || {
            let turns = run.earlier_turns.filter(|turns| *turns < TURNS_MIN)?;
            let found = (run.reuse_share? * turns as f64).round() as u64;
            Some(Proportion { part: found, of: turns }.interval()?.contains(self.reuse_share))
        };
        self.is_lost(run) && is_chance().unwrap_or(false)
    }

    /// Sentence on a measured run with too few loads, with the remedy; none where there are enough.
    /// A longer `--time` would search for the limits again, and have fewer loads than the check.
    fn shortage(&self, measured: &QuickPoint) -> Option<String> {
        (measured.loads < AVERAGE_LOADS_MIN).then(|| {
            format!(
                "the run on the drive had {}, and {AVERAGE_LOADS_MIN} are needed to judge it: run \
                 the check, whose {} min bring them",
                counted(measured.loads, "load"),
                self.check_minutes()
            )
        })
    }

    /// Verdict where the simulated drive is too slow for one user.
    fn judge_too_slow(&self) -> String {
        let target = self.load_p95_s;
        let Some(simulated) = self.curve.first().and_then(|point| point.load_p95_s) else {
            return format!(
                "not good enough for one user: the load P95 is above the target of {}",
                time(target)
            );
        };
        let met = met_target(simulated).filter(|_| self.served_by_space.users > 0);
        let speed = self.speed_told().map(|speed| format!(" of a drive {speed}, as its runs were"));
        let limit = self.entry_gib_max.map(|entry| {
            let read = self.read_gib_per_s();
            format!(
                "; the largest entry, {entry:.1} GiB, takes {} to read at {read:.2} GiB/s",
                time(entry / read.max(1e-9))
            )
        });
        let ratio = simulated / target;
        let apart = match ratio < TIMES_FROM {
            true => format!("{:.0} % above", (ratio - 1.0) * 100.0),
            false => format!("{ratio:.1} times"),
        };
        format!(
            "not good enough for one user: its load P95 is {} by simulation{}, {apart} the target \
             of {}{}{}",
            time(simulated),
            speed.unwrap_or_default(),
            time(target),
            limit.unwrap_or_default(),
            met.map(|met| format!("; --slo load-p95={met} should be met by one"))
                .unwrap_or_default()
        )
    }

    /// Verdict where nothing speaks against the curve.
    fn judge_served(&self) -> String {
        let (speed, space) = (self.served_by_speed, self.served_by_space);
        let missed = self.missed_users();
        let good = |served: Served| {
            let load = self.load_of(served.users);
            let load = load.map(|load| format!(", load P95 {}", time(load))).unwrap_or_default();
            format!("good for {}{load}", users_of(served))
        };
        if space.users < speed.users && self.tried() == space && missed.is_none() {
            // The table's loads are those with space for every turn.
            let load = self.load_of(space.users);
            let load = load.map(|load| format!("the load P95 is {}, and ", time(load)));
            return format!(
                "good for {} in {:.1} GiB (--space): that space is the limit; with space for every \
                 turn {}the drive's speed serves {}",
                users_of(space),
                self.space_gib,
                load.unwrap_or_default(),
                users_of(speed)
            );
        }
        let tried = self.tried();
        let users = self.answer().unwrap_or(tried.users);
        if let Some(missed) = missed {
            let answer = Served { users, is_largest_tried: false };
            return format!("{}: {}", good(answer), self.told_of_missed(users, missed));
        }
        let answer = Served { users, ..tried };
        if let Some(open) = self.open_told(users) {
            return format!("{}: {open}", good(answer));
        }
        let limit = match speed.is_largest_tried {
            true => "no larger number was tried",
            false => "the drive's speed is the limit",
        };
        format!("{}: {limit}", good(answer))
    }

    /// Clauses on users more than the answer, the fewest of whom missed the rule.
    fn told_of_missed(&self, users: u32, missed: u32) -> String {
        let open = self.open_told(users).map(|open| format!(", and {open}")).unwrap_or_default();
        let carried = match self.is_carried() {
            true => format!("; no run of {users} bears this out"),
            false => String::new(),
        };
        format!("{missed} missed the rule on the drive{open}{carried}")
    }

    /// Clause on numbers of users, more than so many, that were not run and may meet the rule; none
    /// where there are none.
    fn open_told(&self, users: u32) -> Option<String> {
        let most = self.most_open()?;
        Some(match most == users + 1 {
            true => format!("{most} may meet it"),
            false => format!("{} to {most} may meet it", users + 1),
        })
    }
}

/// Number of users that are served, in words.
fn users_of(served: Served) -> String {
    let more = if served.is_largest_tried { " or more" } else { "" };
    format!("{}{more}", counted(served.users.into(), "user"))
}

/// Value of `--slo load-p95` that a load of so many seconds meets with a tenth to spare, rounded up
/// to two digits; none where `--slo` takes none so long.
fn met_target(load_s: f64) -> Option<String> {
    // Not 1.1 times, which is more than 1100 for 1000.
    let ms = (load_s * 1e3).max(1.0) * 11.0 / 10.0;
    let step = 10f64.powf(ms.log10().floor() - 1.0).max(1.0);
    let ms = (ms / step).ceil() * step;
    let is_short = ms < 1e3;
    (ms / 1e3 <= ServedRule::LOAD_S_MAX)
        .then(|| if is_short { format!("{ms:.0}ms") } else { format!("{:.1}s", ms / 1e3) })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::TURNS_MIN;
    use super::super::tests::{machine, report};
    use super::*;

    type Change = fn(&mut QuickReport);

    /// Verdict of 4 served users, their runs changed.
    fn verdict(change: Change) -> String {
        let mut report = report(4, 4);
        change(&mut report);
        report.judge()
    }

    #[test]
    fn the_smaller_of_speed_and_space_is_the_answer_and_its_limit_is_named() {
        for (speed, space, parts) in [
            (4, 0, &["6.0 GiB are too little for one user", "speed serves 4 users"][..]),
            (
                12,
                4,
                &[
                    "good for 4 users in 6.0 GiB (--space): that space is the limit; with space",
                    "for every turn the load P95 is 1.00 s, and the drive's speed serves 12 users",
                ][..],
            ),
            (4, 12, &["good for 4 users, load P95 1.00 s: the drive's speed is the limit"][..]),
            (1, 1, &["good for 1 user, load P95 250 ms:"][..]),
        ] {
            let report = report(speed, space);
            for part in parts {
                assert!(report.verdict.contains(part), "{part}: {}", report.verdict);
            }
            assert_eq!(report.served().users, speed.min(space));
        }
    }

    /// The drive's speed was the limit of the largest number that is ever tried.
    #[test]
    fn a_drive_that_serves_the_largest_number_tried_has_shown_no_limit() {
        let verdict = verdict(|report| {
            report.served_by_speed.is_largest_tried = true;
            report.served_by_space.is_largest_tried = true;
        });
        assert_eq!(
            verdict,
            "good for 4 users or more, load P95 1.00 s: no larger number was tried"
        );
    }

    #[test]
    fn a_verdict_follows_from_the_curve_and_both_runs() {
        let cases: [(Change, &str); 8] = [
            (
                |report| report.machine = Some(machine("/mnt/kv", "tmpfs", "memory")),
                "no verdict: the data was in memory (tmpfs): no drive was measured; give a DIR on \
                 a drive",
            ),
            (|_| (), "good for 4 users, load P95 1.00 s: the drive's speed"),
            (
                |report| report.measured.reuse_share = Some(0.5),
                "not confirmed: 4 users by simulation, but the run found 50 % of earlier turns, \
                 and 80 % were expected",
            ),
            (
                |report| {
                    report.measured.reuse_share = Some(0.5);
                    report.measured.earlier_turns = Some(TURNS_MIN - 1);
                },
                "good for 4 users, load P95 1.00 s: the drive's speed is the limit",
            ),
            (
                |report| report.measured.loads = 5,
                "not confirmed: 4 users by simulation, but the run on the drive had 5 loads, and \
                 10 are needed to judge it: run the check, whose 5 min bring them",
            ),
            (
                |report| report.measured.gib_per_s *= 0.8,
                "not confirmed: 4 users by simulation, but the run moved -20 % of the bandwidth",
            ),
            (
                |report| {
                    report.measured.gib_per_s *= 0.8;
                    report.measured.is_without_pauses = true;
                },
                "good for 4 users, load P95 1.00 s: the drive's speed is the limit",
            ),
            (
                |report| report.kernel_share = Some(4.68),
                "no verdict: others used the drive (the kernel counted 468 % of what ringfall \
                 moved); repeat when it is idle",
            ),
        ];
        for (change, told) in cases {
            let verdict = verdict(change);
            assert!(verdict.contains(told), "{told}: {verdict}");
        }
    }

    #[test]
    fn a_limit_names_what_the_first_number_too_large_misses_the_rule_by() {
        let cases: [(Change, &str); 5] = [
            (
                |report| report.curve[3].drive_busy_share = Some(0.57),
                "8 users miss the rule by load latency: the drive is 57 % busy, and the largest \
                 entry, 2.4 GiB, takes 800 ms to read, and by space: 60 % of earlier turns are \
                 found in 6.0 GiB",
            ),
            (
                |report| {
                    report.curve[3].drive_busy_share = Some(0.97);
                    report.curve[3].reuse_share = Some(0.9);
                },
                "8 users miss the rule by bandwidth: the drive is 97 % busy",
            ),
            (
                |report| report.curve[3].load_p95_s = Some(0.5),
                "8 users miss the rule by space: 60 % of earlier turns are found in 6.0 GiB",
            ),
            (
                |report| {
                    (report.curve[3].drive_busy_share, report.entry_gib_max) = (None, None);
                    report.curve[3].reuse_share = None;
                },
                "8 users miss the rule by load latency: the drive is not busy all the time",
            ),
            (|report| report.curve.truncate(3), ""),
        ];
        for (change, told) in cases {
            let mut report = report(4, 4);
            change(&mut report);
            assert_eq!(report.limit().unwrap_or_default(), told);
        }
        let mut slow = report(0, 4);
        (slow.curve[0].load_p95_s, slow.curve[0].reuse_share) = (Some(5.9), None);
        let told = slow.limit().unwrap_or_default();
        assert!(told.starts_with("1 user misses the rule by load latency: "), "{told}");
    }

    /// An answer of 4 users did not say that 1 to 6 were as likely on a drive of varying speed.
    #[test]
    fn an_answer_says_which_users_are_served_at_other_speeds() {
        let mut report = report(4, 4);
        assert_eq!(
            report.range().unwrap_or_default(),
            "about 2 to 4 users, should loads take 0.87 to 1.15 times as long"
        );
        report.curve[3].load_p95_s = Some(1.1);
        // Space does not depend on the speed.
        assert!(report.range().unwrap_or_default().starts_with("about 2 to 4 users"));
        report.curve[3].reuse_share = Some(0.9);
        let told = report.range().unwrap_or_default();
        assert!(told.starts_with("about 2 to 8 users or more, should"), "{told}");
        report.curve[2].load_p95_s = Some(0.5);
        report.curve[3].load_p95_s = Some(5.0);
        assert_eq!(report.range(), None);
        // Those that a run missed the rule with are served at no speed.
        let mut missed = super::super::tests::report(4, 4);
        missed.measured = missed.curve[3].clone();
        missed.curve[3].load_p95_s = Some(1.1);
        let told = missed.range().unwrap_or_default();
        assert!(told.starts_with("about 2 to 4 users, should"), "{told}");
        // A run of three was as much slower as one of the others was quicker.
        missed.predicted.load_p95_s = Some(0.5);
        let told = missed.range().unwrap_or_default();
        assert_eq!(told, "about 1 to 4 users, should loads take 0.87 to 4.00 times as long");
    }

    #[test]
    fn a_drive_that_others_used_is_not_given_more_time() {
        let mut report = report(4, 4);
        (report.kernel_share, report.measured.loads) = (Some(4.68), 5);
        assert!(!report.judge().contains("run the check"), "{}", report.judge());
        assert!(report.doubts().is_empty(), "{:?}", report.doubts());
        // A few percent are the file system's own.
        report.kernel_share = Some(1.07);
        assert!(report.judge().contains("run the check"), "{}", report.judge());
    }

    #[test]
    fn a_miss_by_one_user_tells_by_how_much_why_and_which_target_is_met() {
        let mut report = report(0, 4);
        report.curve[0].load_p95_s = Some(1.04);
        (report.measured, report.predicted) = (report.curve[0].clone(), report.curve[0].clone());
        assert_eq!(
            report.judge(),
            "not good enough for one user: its load P95 is 1.04 s by simulation, 4 % above the \
             target of 1.00 s; the largest entry, 2.4 GiB, takes 800 ms to read at 3.00 GiB/s; \
             --slo load-p95=1.2s should be met by one"
        );
        let mut slow = report.clone();
        (slow.curve[0].load_p95_s, slow.speed) = (Some(6.4), Some(0.5));
        let told = "its load P95 is 6.40 s by simulation of a drive 0.50 times as quick as its \
                    limits, as its runs were, 6.4 times the target of 1.00 s; the largest entry, \
                    2.4 GiB, takes 1.60 s to read at 1.50 GiB/s";
        assert!(slow.judge().contains(told), "{}", slow.judge());
        assert!(
            slow.judge().ends_with("--slo load-p95=7.1s should be met by one"),
            "{}",
            slow.judge()
        );
        // Where not even one user's turns are kept, no target for loads is enough.
        let small = QuickReport { served_by_space: report.served_by_speed, ..report.clone() };
        assert!(!small.judge().contains("--slo"), "{}", small.judge());
        report.measured.loads = 1;
        let page = crate::show::quick_page(&report, None, Path::new("one.json"));
        assert!(page.contains("runs       1 user (1 load, too few to judge)"), "{page}");
    }

    #[test]
    fn a_target_that_is_met_has_a_tenth_to_spare_and_two_digits() {
        let met = |load_s| met_target(load_s).unwrap_or_default();
        assert_eq!(
            [met(0.574), met(0.999), met(1.0), met(1.04), met(12.3), met(4_000.0)],
            ["640ms", "1.1s", "1.1s", "1.2s", "14.0s", ""]
        );
    }
}
