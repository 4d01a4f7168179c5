//! Check of an answer: a longer run of its users, held against what was expected of it and against
//! the answer's own rule.

use ringfall_config::Compared;
use ringfall_core::units::gib;
use ringfall_host::counted;
use ringfall_model::Document;
use ringfall_model::document::{contradictions, told_contradictions};
use ringfall_model::stats::{Interval, further_interval, geometric_mean};
use serde_json::Value;

use crate::analysis::differences::compared;

use super::{
    LOADS_MIN, QuickPoint, QuickReport, RUN_DEFAULTS, SPACE_FLAG, USERS_FLAG, is_load_quick,
    is_one_disk, limits_of_cgroups, others_used, time,
};

/// Difference of two spaces from which on they are not the same, GiB: a check has whole MiB.
const SPACE_STEP_GIB: f64 = 1.0 / 1024.0;
/// Deviation of a check's figure from the expected one up to which it is told as near, beside
/// whether it lies within its interval.
const NEAR_TO: f64 = 0.1;
/// Places of a figure beside the expected one and its interval, as heads of lists of names.
const PLACES: [&str; 4] = [WITHIN_CHANCE, BEYOND_CHANCE, NEAR, FURTHER_OFF];
const WITHIN_CHANCE: &str = "within chance";
const BEYOND_CHANCE: &str = "beyond chance, but within 10 %";
/// The same in an answer without intervals.
const NEAR: &str = "within 10 %";
const FURTHER_OFF: &str = "further off";
/// Share by which a value beyond an interval counts as inside: the interval of equal values comes
/// from their logarithms, and may leave them out.
const ROUNDING: f64 = 1e-9;
/// Share by which a run may be shorter or longer than the check that was simulated.
const LENGTH_TO: f64 = 0.01;

/// Result of a check.
#[derive(Clone, Debug)]
pub struct Check {
    /// Figures of the run beside those expected of it; none of a result that contradicts itself.
    pub figures: Vec<CheckFigure>,
    /// Finding in a sentence, which begins with `borne out`, `not borne out` or `open`.
    pub finding: String,
}

/// Figure of a check beside the one expected of it.
#[derive(Clone, Debug)]
pub struct CheckFigure {
    /// Name of the figure.
    pub name: &'static str,
    /// Target that the rule sets for it, in words; none where it sets none.
    pub target: Option<String>,
    /// Figure of the same run simulated, the geometric mean of several simulations; none in answers
    /// that do not have it, and of a run of another length.
    pub expected: Option<f64>,
    /// Figure of the check; none without loads, or without turns looked for.
    pub measured: Option<f64>,
    /// Writer of the figure with its unit.
    pub unit: fn(f64) -> String,
    /// Interval at 95 % in which these simulations expect it; none in answers of one simulation.
    pub interval: Option<Interval>,
}

impl CheckFigure {
    /// Deviation from the expected figure, as a share of that; none where either is unknown.
    pub fn deviation(&self) -> Option<f64> {
        let (expected, measured) = (self.expected.filter(|value| *value > 0.0)?, self.measured?);
        Some(measured / expected - 1.0)
    }

    /// Interval in words; empty where the figure has none.
    pub fn interval_told(&self) -> String {
        let told = |Interval { low, high }| {
            let [low, high] = [low, high].map(self.unit);
            let alone =
                low.rsplit_once(' ').filter(|(_, unit)| high.ends_with(&format!(" {unit}")));
            format!("{} to {high}", alone.map_or(&*low, |(number, _)| number))
        };
        self.interval.map(told).unwrap_or_default()
    }

    /// Place of the figure beside what is expected of it, one of [`PLACES`]; none where nothing is.
    fn place(&self) -> Option<&'static str> {
        let is_near = self.deviation()?.abs() <= NEAR_TO;
        let is_inside = |Interval { low, high }, value| {
            (low * (1.0 - ROUNDING)..=high * (1.0 + ROUNDING)).contains(&value)
        };
        let both = self.interval.zip(self.measured);
        Some(match both.map(|(interval, value)| is_inside(interval, value)) {
            Some(true) => WITHIN_CHANCE,
            Some(false) if is_near => BEYOND_CHANCE,
            None if is_near => NEAR,
            _ => FURTHER_OFF,
        })
    }
}

impl QuickReport {
    /// Holds the result of a check against this answer.
    ///
    /// # Errors
    /// The result is of another run; the differences, as the end of a sentence.
    pub fn checked_by(&self, document: &Document) -> Result<Check, String> {
        let differences = self.unlike_check(document);
        if !differences.is_empty() {
            return Err(differences.join(", "));
        }
        if let Some(contradiction) = told_contradictions(&contradictions(document)) {
            return Ok(Check { figures: Vec::new(), finding: format!("open: {contradiction}") });
        }
        let measured = QuickPoint::of(document);
        let (length, told) = self.length(document);
        let is_as_long = (length - 1.0).abs() <= LENGTH_TO;
        let figures = self.figures(&measured, is_as_long);
        let finding = match self.why_open(document, &measured) {
            Some(why) => format!("open: {why}"),
            None if is_as_long => self.found(&measured) + &borne_out(&figures),
            // It was longer.
            None => format!("{}; {told}: its figures were not simulated", self.found(&measured)),
        };
        Ok(Check { figures, finding })
    }

    /// Figures of a check beside those expected of it, where a run as long was simulated.
    pub(super) fn figures(&self, measured: &QuickPoint, is_as_long: bool) -> Vec<CheckFigure> {
        let figure = |name, of: fn(&QuickPoint) -> Option<f64>, unit| {
            let simulated = self.check_predicted.iter().chain(&self.check_repeated);
            let values: Vec<f64> = simulated.filter(|_| is_as_long).filter_map(of).collect();
            CheckFigure {
                name,
                target: None,
                expected: geometric_mean(&values).or(values.first().copied()),
                measured: of(measured),
                unit,
                interval: further_interval(&values),
            }
        };
        vec![
            figure("bandwidth", |of| Some(of.gib_per_s), |rate| format!("{rate:.2} GiB/s")),
            figure("loads", |of| Some(of.loads as f64), |count| format!("{count:.0}")),
            figure("load P50", |of| of.load_p50_s, time),
            CheckFigure {
                target: Some(format!("at most {}", time(self.load_p95_s))),
                ..figure("load P95", |of| of.load_p95_s, time)
            },
            CheckFigure {
                target: Some(format!("at least {:.0} %", self.reuse_share * 100.0)),
                ..figure(
                    "turns found",
                    |of| of.reuse_share,
                    |share| format!("{:.1} %", share * 100.0),
                )
            },
        ]
    }

    /// Length of a run as a multiple of that of this answer's check, and a clause with both.
    fn length(&self, document: &Document) -> (f64, String) {
        let (ran_s, minutes) = (document.seconds().unwrap_or(0.0), self.check_minutes());
        let ran = time(ran_s);
        let told = format!("the run measured {ran}, and the answer's check takes {minutes} min");
        (ran_s / (60.0 * minutes as f64), told)
    }

    /// Settings of a run that are not those of this answer's check, each as a clause.
    fn unlike_check(&self, document: &Document) -> Vec<String> {
        let ours = &document.ringfall;
        let Some(config) = ours.config.as_ref() else {
            return vec!["it does not say what was run".to_owned()];
        };
        let mut differences = Vec::new();
        let users = format!("{USERS_FLAG}{}", self.checked_users());
        let is_own = |word: &&str| word.starts_with(USERS_FLAG) || word.starts_with(SPACE_FLAG);
        let words = self.run.iter().map(String::as_str).filter(|word| !is_own(word));
        let value = |key: &str| match config.settings.get(key) {
            Some(Value::String(text)) => Some(text.clone()),
            Some(Value::Number(number)) => Some(number.to_string()),
            _ => None,
        };
        for (flag, wanted) in words.chain([users.as_str()]).filter_map(|word| word.split_once('='))
        {
            let Some(has) = value(&flag.trim_start_matches('-').replace('-', "_")) else {
                continue;
            };
            let number = |text: &str| text.parse::<f64>().ok();
            if has != wanted && (number(&has).is_none() || number(&has) != number(wanted)) {
                differences.push(format!("{flag} is {has} in place of {wanted}"));
            }
        }
        for (key, origin) in &config.origins {
            let flag = format!("--{}=", key.replace('_', "-"));
            let is_given = matches!(origin.as_deref(), Some("command_line" | "file"));
            let is_load = matches!(compared(key), Compared::Load | Compared::System);
            let default = value(key).map(|value| format!("{flag}{value}"));
            let is_known = is_own(&&*flag)
                || self.run.iter().any(|word| word.starts_with(&flag))
                || default.is_some_and(|default| RUN_DEFAULTS.contains(&&*default));
            if is_given && is_load && !is_known {
                let flag = flag.trim_end_matches('=');
                differences.push(format!("it was given {flag}, which the check does without"));
            }
        }
        let has_gib = config.storage_capacity_bytes.map_or(0.0, gib);
        if (has_gib - self.space_gib).abs() >= SPACE_STEP_GIB {
            differences.push(format!(
                "it has {has_gib:.2} GiB of space in place of {:.2} GiB",
                self.space_gib
            ));
        }
        if let Some(machine) = &self.machine {
            if ours.simulation.is_some() || !is_one_disk(machine, &ours.machine) {
                differences.push("it was on another drive".to_owned());
            } else if limits_of_cgroups(machine) != limits_of_cgroups(&ours.machine) {
                differences.push("its cgroup had other limits".to_owned());
            }
        }
        differences
    }

    /// Reason why a check says nothing of the answer; none where it does.
    fn why_open(&self, document: &Document, measured: &QuickPoint) -> Option<String> {
        let ours = &document.ringfall;
        if let Some(failure) = ours.window.failure.as_ref() {
            return Some(format!("the run failed: {failure}"));
        }
        if let Some(why) = self.contradiction().or_else(|| self.in_memory()) {
            return Some(why);
        }
        if let Some(bad @ 1..) = ours.verify.blocks_bad.known() {
            return Some(format!(
                "the drive returned other data than was written ({}); find the cause first",
                counted(bad, "block")
            ));
        }
        let agreement = ours.device.agreement.as_ref();
        let ratio = agreement.and_then(|agreement| agreement.total_ratio);
        let share = ratio.filter(|ratio| *ratio > 0.0).map(|ratio| 1.0 / ratio);
        if let Some(others) = others_used(share) {
            return Some(format!("{others}; repeat the check when it is idle"));
        }
        let (length, told) = self.length(document);
        if length < 1.0 - LENGTH_TO {
            return Some(format!("{told}; run it in full"));
        }
        (measured.loads < LOADS_MIN).then(|| {
            format!(
                "the run had {}, and {LOADS_MIN} are needed to judge it; give it a longer \
                 --duration",
                counted(measured.loads, "load")
            )
        })
    }

    /// Finding of a check that can be judged.
    fn found(&self, measured: &QuickPoint) -> String {
        let users = counted(measured.users.into(), "user");
        let [meet, miss, have] = match measured.users {
            1 => ["meets", "misses", "has"],
            _ => ["meet", "miss", "have"],
        };
        let is_nobody = self.answer() == Some(0);
        let Some(missed) = self.missed(measured) else {
            let not = if is_nobody { "not " } else { "" };
            return format!("{not}borne out: {users} {meet} the rule");
        };
        match self.by_chance(measured) {
            Some(why) => {
                format!("open: {users} {have} {missed}, {why}; give the run a longer --duration")
            }
            None if is_nobody => {
                format!("borne out: not even {users} {meet} the rule, with {missed}")
            }
            None => format!("not borne out: {users} {miss} the rule, with {missed}"),
        }
    }

    /// Clauses on why each miss of the rule by a check may be by chance; none where one is not.
    fn by_chance(&self, measured: &QuickPoint) -> Option<String> {
        let expected_s = self.check_predicted.as_ref().and_then(|expected| expected.load_mean_s);
        let both = measured.load_mean_s.zip(expected_s).zip(self.load_of(measured.users));
        let is_quick = both.is_some_and(|((measured_s, expected_s), p95_s)| {
            is_load_quick(p95_s * measured_s / expected_s.max(1e-9), self.load_p95_s)
        });
        let (is_slow, is_lost) = (self.is_slow(measured), self.is_lost(measured));
        if (is_slow && !is_quick) || (is_lost && !self.has_few_turns(measured)) {
            return None;
        }
        let slow = is_slow.then(|| {
            format!(
                "where the rule allows {}, but the average load is as quick as the rule needs",
                time(self.load_p95_s)
            )
        });
        let lost = is_lost.then(|| {
            format!(
                "where the rule asks for {:.0} %, but so few turns may miss it by chance",
                self.reuse_share * 100.0
            )
        });
        Some(slow.into_iter().chain(lost).collect::<Vec<_>>().join(", and "))
    }
}

/// Clauses on where the figures of a check lie; empty where nothing was expected.
fn borne_out(figures: &[CheckFigure]) -> String {
    let named = |place: &str| {
        let told = figures.iter().filter(|figure| figure.place() == Some(place));
        let told = told.map(|figure| match figure.deviation().filter(|_| place == FURTHER_OFF) {
            Some(deviation) => format!("{} ({:+.0} %)", figure.name, deviation * 100.0),
            None => figure.name.to_owned(),
        });
        told.collect::<Vec<String>>().join(", ")
    };
    let told = PLACES.iter().map(|place| (place, named(place)));
    let told = told.filter(|(_, names)| !names.is_empty());
    told.map(|(place, names)| format!("; {place}: {names}")).collect()
}

#[cfg(test)]
mod tests {
    use ringfall_config::Origin;
    use ringfall_core::key::Tier;
    use ringfall_core::units::GIB;
    use ringfall_model::RunResult;
    use ringfall_model::testing::{file, run, to_json};
    use serde_json::json;

    use super::super::tests::{machine, report};
    use super::*;
    use crate::show;

    #[test]
    fn a_document_has_the_figures_of_its_run() {
        let result = run(0..400, 10.0);
        let (requests, cache) = (&result.requests, &result.cache);
        let p95_ns = requests.load.quantile_ns(0.95).unwrap();
        let of_run = QuickPoint {
            users: result.plan.users,
            load_p95_s: Some(p95_ns as f64 / 1e9),
            loads: requests.load.count(),
            reuse_share: cache.reuse_share(),
            earlier_turns: Some(cache.multi_turn_hits + cache.multi_turn_misses),
            ..QuickPoint::of(&Document::of(&result))
        };
        assert!(of_run.loads >= LOADS_MIN && of_run.gib_per_s > 0.0, "{of_run:?}");
        let file = file("check.json", to_json(&result));
        assert_eq!(QuickPoint::of(&file.document), of_run);
    }

    #[test]
    fn a_check_bears_an_answer_out_by_the_rule_of_that_answer() {
        type Change = fn(&mut QuickReport, &mut QuickPoint);
        let cases: [(Change, &str); 9] = [
            (|_, _| (), "borne out: 4 users meet the rule"),
            (
                |_, measured| measured.load_p95_s = Some(1.2),
                "not borne out: 4 users miss the rule, with a load P95 of 1.20 s",
            ),
            (
                |report, measured| {
                    report.check_predicted.as_mut().unwrap().load_mean_s = Some(0.4);
                    (measured.load_mean_s, measured.load_p95_s) = (Some(0.4), Some(1.2));
                },
                "open: 4 users have a load P95 of 1.20 s, where the rule allows 1.00 s, but the \
                 average load is as quick as the rule needs; give the run a longer --duration",
            ),
            (
                |_, measured| measured.reuse_share = Some(0.5),
                "not borne out: 4 users miss the rule, with 50 % of earlier turns found",
            ),
            (
                |_, measured| {
                    (measured.reuse_share, measured.earlier_turns) = (Some(0.67), Some(45));
                },
                "open: 4 users have 67 % of 45 earlier turns found, where the rule asks for 70 %, \
                 but so few turns may miss it by chance; give the run a longer --duration",
            ),
            (
                |_, measured| {
                    (measured.reuse_share, measured.earlier_turns) = (Some(0.4), Some(45));
                },
                "not borne out: 4 users miss the rule, with 40 % of 45 earlier turns found",
            ),
            (
                |_, measured| {
                    (measured.reuse_share, measured.earlier_turns) = (Some(0.67), Some(45));
                    measured.load_p95_s = Some(1.2);
                },
                "not borne out: 4 users miss the rule, with a load P95 of 1.20 s and 67 % of 45 \
                 earlier turns found",
            ),
            (
                |report, measured| {
                    report.served_by_speed.users = 0;
                    (measured.users, measured.load_p95_s) = (1, Some(1.5));
                },
                "borne out: not even 1 user meets the rule, with a load P95 of 1.50 s",
            ),
            (
                |report, measured| {
                    report.served_by_speed.users = 0;
                    measured.users = 1;
                },
                "not borne out: 1 user meets the rule",
            ),
        ];
        for (change, told) in cases {
            let mut report = report(4, 4);
            let mut measured = report.curve[2].clone();
            change(&mut report, &mut measured);
            assert_eq!(report.judged().found(&measured), told);
        }
    }

    /// A P50 11 % above the expected one and a P95 17 % below it were "borne out", and then "open"
    /// by the number of loads alone.
    #[test]
    fn a_check_tells_which_figures_it_bears_out_and_which_it_does_not() {
        let mut report = report(4, 4);
        let expected = report.check_predicted.clone().unwrap();
        let told = |report: &QuickReport, measured: &QuickPoint| {
            let figures = report.figures(measured, true);
            (borne_out(&figures), figures[3].interval_told())
        };
        let near = "; within 10 %: bandwidth, loads, load P50, load P95, turns found";
        assert_eq!(told(&report, &expected), (near.to_owned(), String::new()));
        let load_p95_s = expected.load_p95_s.unwrap();
        let changed = QuickPoint {
            gib_per_s: expected.gib_per_s / 2.0,
            load_p95_s: Some(load_p95_s * 0.83),
            ..expected.clone()
        };
        let off = "; within 10 %: loads, load P50, turns found; further off: bandwidth (-50 %), \
                   load P95 (-17 %)";
        assert_eq!(told(&report, &changed).0, off);
        // Simulated again, a P95 varies by as much, and bandwidth does not.
        report.check_repeated = [0.8, 0.9, 1.1, 1.25]
            .map(|times| QuickPoint { load_p95_s: Some(load_p95_s * times), ..expected.clone() })
            .to_vec();
        let (by_chance, interval) = told(&report, &changed);
        let by_chance_told = "; within chance: loads, load P50, load P95, turns found; further \
                              off: bandwidth (-50 %)";
        assert_eq!(by_chance, by_chance_told);
        // "As expected", beside an interval without it.
        let near = QuickPoint { gib_per_s: expected.gib_per_s * 0.95, ..expected.clone() };
        let near_told = "; within chance: loads, load P50, load P95, turns found; beyond chance, \
                         but within 10 %: bandwidth";
        assert_eq!(told(&report, &near).0, near_told);
        assert!(interval.contains(" ms to 1."), "{interval}");
        let old = QuickReport { check_predicted: None, check_repeated: Vec::new(), ..report };
        assert_eq!(told(&old, &changed), (String::new(), String::new()));
    }

    type Change = fn(&mut QuickReport, &mut RunResult);

    /// A check of 4 users in which these events happened, changed, held against its answer.
    fn checked(events: std::ops::Range<u64>, change: Change) -> Result<Check, String> {
        checked_json(events, change, |_| ())
    }

    /// The same of a file that was changed too.
    fn checked_json(
        events: std::ops::Range<u64>,
        change: Change,
        edit: impl Fn(&mut Value),
    ) -> Result<Check, String> {
        let (mut report, mut result) = (report(4, 4), run(events, 300.0));
        result.machine = machine("/mnt/kv", "nvme0n1", "disk");
        result.tiers[Tier::Storage.index()].capacity_bytes = 6 * GIB;
        let words = ["--num-users=9", "--storage-capacity-gb=1GiB", "--decode-reads=batch"];
        report.run.extend(words.map(str::to_owned));
        change(&mut report, &mut result);
        let mut json = to_json(&result);
        edit(&mut json);
        report.judged().checked_by(&file("check.json", json).document)
    }

    #[test]
    fn a_check_that_can_t_be_judged_leaves_the_answer_open() {
        let finding = |events, change| checked(events, change).unwrap().finding;
        assert!(finding(0..400, |_, _| ()).starts_with("borne out: 4 users"));
        let told = finding(0..9, |_, _| ());
        assert!(told.starts_with("open: the run had 3 loads, and 20 are needed"), "{told}");
        let told = finding(0..400, |_, result| result.failure = Some("no space".to_owned()));
        assert_eq!(told, "open: the run failed: no space");
        let told = finding(0..400, |_, result| {
            if let Some(kernel) = &mut result.kernel {
                kernel.write_bytes *= 4;
            }
        });
        assert!(told.starts_with("open: others used the drive (the kernel counted "), "{told}");
    }

    /// Changed to 0.9, a share of 0.69 bore the answer out.
    #[test]
    fn a_check_that_contradicts_itself_is_open_and_has_no_figures() {
        let turns: Change = |_, result| {
            (result.cache.multi_turn_hits, result.cache.multi_turn_misses) = (690, 310);
        };
        for (place, value) in [
            ("/ringfall/cache/multi_turn_hit_rate", json!(0.9)),
            ("/ringfall/window/seconds", json!(-1.0)),
            ("/ringfall/io/read/bytes", json!(u64::MAX)),
            ("/ringfall/config/num_users", json!(0)),
        ] {
            let edit = |json: &mut Value| *json.pointer_mut(place).unwrap() = value.clone();
            let check = checked_json(0..400, turns, edit).unwrap();
            let told = &check.finding;
            assert!(told.starts_with("open: this result contradicts itself: "), "{place}: {told}");
            let page = show::check_page(&report(4, 4), &check);
            assert!(!page.contains("measured") && !page.contains("bandwidth"), "{page}");
        }
        let told = checked(0..400, |report, _| report.served_by_space.users = 8).unwrap().finding;
        assert!(told.starts_with("open: the answer contradicts itself: 8 users"), "{told}");
    }

    /// "Borne out", after 20 s where the printed check takes 5 min, and "loads -93 %".
    #[test]
    fn a_run_of_another_length_is_not_held_against_the_simulated_one() {
        let told = |change| {
            let check = checked(0..400, change).unwrap();
            let has_deviation = check.figures.iter().any(|figure| figure.deviation().is_some());
            let page = show::check_page(&report(4, 4), &check);
            assert_eq!(page.contains("Expected is this run simulated"), has_deviation, "{page}");
            (check.finding, has_deviation)
        };
        let (whole, has_deviation) = told(|_, result| result.window.seconds = 299.98);
        assert!(whole.contains("; further off: bandwidth") && has_deviation, "{whole}");
        let open =
            "open: the run measured 25.0 s, and the answer's check takes 5 min; run it in full";
        let short = told(|_, result| result.window.seconds = 25.0);
        assert_eq!(short, (open.to_owned(), false));
        let longer = told(|report, result| {
            report.check_s = Some(500);
            result.window.seconds = 900.0;
        });
        let told_longer = "borne out: 4 users meet the rule; the run measured 900 s, and the \
                           answer's check takes 9 min: its figures were not simulated";
        assert_eq!(longer, (told_longer.to_owned(), false));
        let failed = told(|_, result| {
            (result.failure, result.window.seconds) = (Some("no space".to_owned()), 25.0);
        });
        assert_eq!(failed, ("open: the run failed: no space".to_owned(), false));
        // Of a damaged answer.
        let (endless, _) = told(|report, _| report.check_s = Some(u64::MAX));
        assert!(endless.starts_with("open: the run measured 300 s"), "{endless}");
    }

    /// An interval of simulations was read as one of drives, whose speed varies by more.
    #[test]
    fn an_interval_says_what_it_is_the_chance_of() {
        let with_intervals = |report: &mut QuickReport, _: &mut RunResult| {
            report.check_repeated = vec![report.curve[2].clone(); 8];
        };
        let page = show::check_page(&report(4, 4), &checked(0..400, with_intervals).unwrap());
        let told = "By chance is what the load alone brings, on a drive that keeps its speed.";
        assert!(page.contains(told), "{page}");
        assert!(page.lines().all(|line| line.chars().count() <= 80), "{page}");
    }

    #[test]
    fn another_run_is_no_check_and_what_differs_is_told() {
        let cases: [(Change, &str); 5] = [
            // "Not borne out: 9 users miss the rule", of a drive that answered 100 ms late.
            (
                |_, result| {
                    let origins = &mut result.plan.origins;
                    origins.insert("inject_latency", Origin::CommandLine);
                    // What changes nothing, or is the same as without it.
                    origins.insert("output", Origin::CommandLine);
                    origins.insert("seed", Origin::CommandLine);
                },
                "it was given --inject-latency, which the check does without",
            ),
            (|report, _| report.served_by_speed.users = 2, "--num-users is 4 in place of 2"),
            (
                |report, _| report.run.push("--decode-reads=once".to_owned()),
                "--decode-reads is batch in place of once",
            ),
            (|report, _| report.space_gib = 3.8, "it has 6.00 GiB of space in place of 3.80 GiB"),
            (
                |_, result| result.machine = machine("/mnt/kv", "sda", "disk"),
                "it was on another drive",
            ),
        ];
        for (change, told) in cases {
            assert_eq!(checked(0..400, change).unwrap_err(), told);
        }
    }
}
