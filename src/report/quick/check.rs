//! Check of an answer: a longer run of its users, held against what was expected of it and against
//! the answer's own rule.

use ringfall_core::metrics::Histogram;
use ringfall_core::units::gib;
use ringfall_host::counted;
use ringfall_model::Document;
use ringfall_model::stats::quantile_ranks;
use serde_json::Value;

use super::{
    LOADS_MIN, QuickPoint, QuickReport, SPACE_FLAG, USERS_FLAG, is_load_quick, is_one_disk,
    limits_of_cgroups, others_used, quantile_s, time,
};

/// Difference of two spaces from which on they are not the same, GiB: a check has whole MiB.
const SPACE_STEP_GIB: f64 = 1.0 / 1024.0;
/// Deviation of a check's figure from the expected one up to which it bears that out.
const BORNE_OUT_TO: f64 = 0.1;

/// Result of a check.
#[derive(Clone, Debug)]
pub struct Check {
    /// Figures of the run beside those expected of it.
    pub figures: Vec<CheckFigure>,
    /// Finding in a sentence, which begins with `borne out`, `not borne out` or `open`.
    pub finding: String,
    /// Sentence on a run that was shorter than the answer's check; none where it was as long.
    pub shortness: Option<String>,
}

/// Figure of a check beside the one expected of it.
#[derive(Clone, Debug)]
pub struct CheckFigure {
    /// Name of the figure.
    pub name: &'static str,
    /// Target that the rule sets for it, in words; none where it sets none.
    pub target: Option<String>,
    /// Figure of the same run simulated; none in answers that do not have it.
    pub expected: Option<f64>,
    /// Figure of the check; none without loads, or without turns looked for.
    pub measured: Option<f64>,
    /// Writer of the figure with its unit.
    pub unit: fn(f64) -> String,
    /// Ends of the quantile's interval at 95 %, by the number of loads; of a load's P50 and P95
    /// alone, and none at an end where the quantile may lie beyond all loads.
    pub interval: [Option<f64>; 2],
}

impl CheckFigure {
    /// Deviation from the expected figure, as a share of that; none where either is unknown.
    pub fn deviation(&self) -> Option<f64> {
        let (expected, measured) = (self.expected.filter(|value| *value > 0.0)?, self.measured?);
        Some(measured / expected - 1.0)
    }

    /// Interval in words; none where the figure has none.
    pub fn interval_told(&self) -> Option<String> {
        let [low, high] = self.interval.map(|end| end.map(self.unit));
        match (low, high) {
            (Some(low), Some(high)) => Some(format!("{low} to {high}")),
            (Some(low), None) => Some(format!("{low} or more")),
            (None, high) => high.map(|high| format!("{high} or less")),
        }
    }

    /// Whether so few loads may deviate as much by chance: their interval has the expected figure.
    fn is_by_chance(&self) -> bool {
        let Some(expected) = self.expected else { return false };
        let [low, high] = self.interval;
        (low.is_some() || high.is_some())
            && low.is_none_or(|low| low <= expected)
            && high.is_none_or(|high| expected <= high)
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
        let measured = QuickPoint::of(document);
        let loads = document.ringfall.histograms.decoded("context_load").unwrap_or_default();
        let figures = self.figures(&measured, &loads);
        let finding = match self.why_open(document, &measured) {
            Some(why) => format!("open: {why}"),
            None => self.found(&measured) + &borne_out(&figures, measured.loads),
        };
        Ok(Check { figures, finding, shortness: self.shortness(document) })
    }

    /// Figures of a check, whose loads these are, beside those expected of it.
    fn figures(&self, measured: &QuickPoint, loads: &Histogram) -> Vec<CheckFigure> {
        let figure = |name, of: fn(&QuickPoint) -> Option<f64>, unit| CheckFigure {
            name,
            target: None,
            expected: self.check_predicted.as_ref().and_then(of),
            measured: of(measured),
            unit,
            interval: [None; 2],
        };
        let quantile = |name, of: fn(&QuickPoint) -> Option<f64>, quantile: f64| CheckFigure {
            interval: quantile_ranks(loads.count(), quantile)
                .map(|rank| quantile_s(loads, rank? as f64 / loads.count() as f64)),
            ..figure(name, of, time)
        };
        vec![
            figure("bandwidth", |of| Some(of.gib_per_s), |rate| format!("{rate:.2} GiB/s")),
            figure("loads", |of| Some(of.loads as f64), |count| format!("{count:.0}")),
            quantile("load P50", |of| of.load_p50_s, 0.5),
            CheckFigure {
                target: Some(format!("at most {}", time(self.load_p95_s))),
                ..quantile("load P95", |of| of.load_p95_s, 0.95)
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

    /// Sentence on a run that ended before this answer's check would have; none where it did not,
    /// or where it failed, which the finding has.
    fn shortness(&self, document: &Document) -> Option<String> {
        let has_failed = document.ringfall.window.failure.as_ref().is_some();
        let ran_s = document.seconds().filter(|_| !has_failed)?;
        let minutes = self.check_minutes();
        // A window is as long as was asked for to some milliseconds.
        (ran_s.round() < 60.0 * minutes as f64).then(|| {
            format!(
                "the run measured {}, and the answer's check takes {minutes} min: what a shorter \
                 run finds is more open to chance",
                time(ran_s)
            )
        })
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
        for (flag, wanted) in words.chain([users.as_str()]).filter_map(|word| word.split_once('='))
        {
            let has = match config.settings.get(&flag.trim_start_matches('-').replace('-', "_")) {
                Some(Value::String(text)) => text.clone(),
                Some(Value::Number(number)) => number.to_string(),
                _ => continue,
            };
            let number = |text: &str| text.parse::<f64>().ok();
            if has != wanted && (number(&has).is_none() || number(&has) != number(wanted)) {
                differences.push(format!("{flag} is {has} in place of {wanted}"));
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
        if let Some(memory) = self.in_memory() {
            return Some(memory);
        }
        let agreement = ours.device.agreement.as_ref();
        let ratio = agreement.and_then(|agreement| agreement.total_ratio);
        let share = ratio.filter(|ratio| *ratio > 0.0).map(|ratio| 1.0 / ratio);
        if let Some(others) = others_used(share) {
            return Some(format!("{others}; repeat the check when it is idle"));
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
        match self.missed(measured) {
            None if is_nobody => format!("not borne out: {users} {meet} the rule"),
            None => format!("borne out: {users} {meet} the rule"),
            Some(missed) if is_nobody => {
                format!("borne out: not even {users} {meet} the rule, with {missed}")
            }
            Some(missed) if self.is_by_chance(measured) => format!(
                "open: {users} {have} {missed}, where the rule allows {}, but the average load is \
                 as quick as the rule needs; give the run a longer --duration",
                time(self.load_p95_s)
            ),
            Some(missed) => format!("not borne out: {users} {miss} the rule, with {missed}"),
        }
    }

    /// Whether a check misses the rule by the P95 of its loads alone, and loads took on average no
    /// longer than the rule needs.
    fn is_by_chance(&self, measured: &QuickPoint) -> bool {
        let expected_s = self.check_predicted.as_ref().and_then(|expected| expected.load_mean_s);
        let both = measured.load_mean_s.zip(expected_s).zip(self.load_of(measured.users));
        let is_quick = both.is_some_and(|((measured_s, expected_s), p95_s)| {
            is_load_quick(p95_s * measured_s / expected_s.max(1e-9), self.load_p95_s)
        });
        is_quick && !self.is_lost(measured)
    }
}

/// Clauses on which figures of a check of so many loads are as expected and which are not; empty
/// where nothing was expected.
fn borne_out(figures: &[CheckFigure], loads: u64) -> String {
    let mut named: [Vec<String>; 3] = Default::default();
    for figure in figures {
        let Some(deviation) = figure.deviation() else { continue };
        let told = format!("{} ({:+.0} %)", figure.name, deviation * 100.0);
        match (deviation.abs() <= BORNE_OUT_TO, figure.is_by_chance()) {
            (true, _) => named[0].push(figure.name.to_owned()),
            (false, false) => named[1].push(told),
            (false, true) => named[2].push(told),
        }
    }
    let heads = [
        "as expected within 10 %".to_owned(),
        "further off".to_owned(),
        format!("open, as {} vary by as much", counted(loads, "load")),
    ];
    let told = heads.iter().zip(&named).filter(|(_, names)| !names.is_empty());
    told.map(|(head, names)| format!("; {head}: {}", names.join(", "))).collect()
}

#[cfg(test)]
mod tests {
    use ringfall_core::key::Tier;
    use ringfall_core::units::GIB;
    use ringfall_model::RunResult;
    use ringfall_model::testing::{file, run, to_json};

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
        let cases: [(Change, &str); 6] = [
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

    /// "Borne out", of a P50 11 % above the expected one and a P95 17 % below it.
    #[test]
    fn a_check_tells_which_figures_it_bears_out_and_which_it_does_not() {
        let report = report(4, 4);
        let expected = report.check_predicted.clone().unwrap();
        let told = |loads_ms: &[u64], measured: QuickPoint| {
            let mut loads = Histogram::new();
            loads_ms.iter().for_each(|ms| loads.record(ms * 1_000_000));
            let measured = QuickPoint { loads: loads.count(), ..measured };
            let figures = report.figures(&measured, &loads);
            (borne_out(&figures, measured.loads), figures)
        };
        // The P50 of 100 loads lies between the 40th and the 61st of them, 395 and 605 ms, and the
        // P95 between the 90th and the longest, 895 ms and 1.055 s.
        let hundred: Vec<u64> = (1..=99).map(|of| of * 10 - 5).chain([1_055]).collect();
        let (all, figures) = told(&hundred, expected.clone());
        let near = "; as expected within 10 %: bandwidth, loads, load P50, load P95, turns found";
        assert_eq!(all, near);
        let interval = figures[3].interval_told().unwrap();
        assert!(interval.starts_with("89") && interval.contains(" ms to 1.0"), "{interval}");
        let changed = QuickPoint {
            gib_per_s: expected.gib_per_s / 2.0,
            load_p50_s: Some(0.444),
            load_p95_s: Some(0.83),
            ..expected.clone()
        };
        let part = "; further off: bandwidth (-50 %)";
        let (noisy, _) = told(&hundred, changed.clone());
        assert_eq!(
            noisy,
            "; as expected within 10 %: loads, turns found; further off: bandwidth (-50 %); \
             open, as 100 loads vary by as much: load P50 (+11 %), load P95 (-17 %)"
        );
        // A thousand loads don't.
        let thousand: Vec<u64> = (1..=1_000).map(|of| 400 + of * 45 / 100).collect();
        let (off, _) = told(&thousand, changed);
        assert!(off.contains(part) && off.contains(", load P95 (-17 %)"), "{off}");
        assert!(off.contains("loads (+900 %), load P50 (+11 %)") && !off.contains("open"), "{off}");
        // The P95 of 20 loads may be beyond the longest.
        let (_, few) = told(&hundred[..20], expected);
        assert!(few[3].interval_told().unwrap().ends_with(" or more"), "{few:?}");
        let old = QuickReport { check_predicted: None, ..report.clone() };
        let figures = old.figures(&old.measured, &Histogram::new());
        assert_eq!((borne_out(&figures, 0), figures[3].interval_told()), (String::new(), None));
    }

    type Change = fn(&mut QuickReport, &mut RunResult);

    /// A check of 4 users in which these events happened, changed, held against its answer.
    fn checked(events: std::ops::Range<u64>, change: Change) -> Result<Check, String> {
        let (mut report, mut result) = (report(4, 4), run(events, 10.0));
        result.machine = machine("/mnt/kv", "nvme0n1", "disk");
        result.tiers[Tier::Storage.index()].capacity_bytes = 6 * GIB;
        let words = ["--num-users=9", "--storage-capacity-gb=1GiB", "--decode-reads=batch"];
        report.run.extend(words.map(str::to_owned));
        change(&mut report, &mut result);
        report.judged().checked_by(&file("check.json", to_json(&result)).document)
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

    /// "Borne out", after 20 s where the printed check takes 5 min.
    #[test]
    fn a_run_that_is_shorter_than_the_check_is_told_with_both_times() {
        let of = |change| checked(0..400, change).unwrap();
        let short = of(|_, _| ());
        let told = "the run measured 10.0 s, and the answer's check takes 5 min: what a shorter \
                    run finds is more open to chance";
        assert_eq!(short.shortness.as_deref(), Some(told));
        let page = show::check_page(&report(4, 4), &short);
        let words = page.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains(&format!("trust {told}")), "{page}");
        let check = of(|_, result| result.window.seconds = 299.98);
        assert_eq!(check.shortness, None);
        let longer = of(|report, result| {
            report.check_s = Some(500);
            result.window.seconds = 300.0;
        });
        let told = longer.shortness.unwrap();
        assert!(told.contains("300 s, and the answer's check takes 9 min"), "{told}");
        // Of a damaged answer.
        let endless = of(|report, _| report.check_s = Some(u64::MAX));
        assert!(endless.shortness.is_some());
        let failed = of(|_, result| result.failure = Some("no space".to_owned()));
        assert_eq!(failed.shortness, None);
    }

    #[test]
    fn another_run_is_no_check_and_what_differs_is_told() {
        let cases: [(Change, &str); 4] = [
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
