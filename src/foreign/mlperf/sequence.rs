//! Options × trials: in which order, with which arguments, and what of it departs from the rules.

use std::path::{Path, PathBuf};

use super::options::Workload;
use super::{SEED_BASE, TRIAL_DELAY_S};

/// Trials of each option that the rules ask for.
pub const TRIALS: u32 = 3;
/// Seconds between options, beside the delays of their trials (Rules.md of MLPerf Storage v3.0,
/// section 6; the harness of version 3.0.26 waits 20).
pub const OPTION_DELAY_S: u64 = 90;
/// Seconds that a run takes beside its duration: it begins, drains, writes its result.
const AROUND_S: f64 = 5.0;

/// The whole of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sequence {
    /// The options, in their order.
    pub workloads: Vec<Workload>,
    /// Number of trials of each option.
    pub trials: u32,
    /// Seed of rank 0, the same in each trial.
    pub seed_base: u64,
    /// Seconds before each trial.
    pub start_delay_s: u64,
    /// Seconds after each trial.
    pub end_delay_s: u64,
    /// Seconds between two options, beside those.
    pub option_delay_s: u64,
    /// Settings of ringfall for all of them.
    pub config: Option<PathBuf>,
    /// Further arguments of `run`.
    pub more: Vec<String>,
}

/// One trial of one option.
#[derive(Clone, Copy, Debug)]
pub struct Trial<'a> {
    /// The option that the trial is of.
    pub workload: &'a Workload,
    /// Number of the trial within its option, from 0.
    pub number: u32,
    /// Seconds before it, those between options included.
    pub start_delay_s: u64,
}

impl Trial<'_> {
    /// Its name among the files of a run.
    pub fn name(&self) -> String {
        format!("opt{}_trial{}", self.workload.rule.number, self.number)
    }
}

impl Sequence {
    /// All trials in their order.
    pub fn all(&self) -> impl Iterator<Item = Trial<'_>> {
        self.workloads.iter().enumerate().flat_map(move |(place, workload)| {
            (0..self.trials).map(move |number| {
                let between_s = if place > 0 && number == 0 { self.option_delay_s } else { 0 };
                Trial { workload, number, start_delay_s: self.start_delay_s + between_s }
            })
        })
    }

    /// Arguments of a rank for that trial of the run in `run`.
    pub fn arguments(&self, trial: &Trial<'_>, run: &Path, cache: &Path) -> Vec<String> {
        let outputs = trial_directory(run, trial.workload.rule.number, trial.number);
        let mut all: Vec<String> = vec!["mlperf".into(), "rank".into()];
        let path = |path: &Path| path.to_string_lossy().into_owned();
        for (flag, value) in [
            ("--rank-output-base", path(&outputs)),
            ("--rank-cache-base", path(cache)),
            ("--seed-base", self.seed_base.to_string()),
            ("--start-delay", trial.start_delay_s.to_string()),
            ("--end-delay", self.end_delay_s.to_string()),
        ] {
            all.extend([flag.to_owned(), value]);
        }
        if let Some(config) = &self.config {
            all.extend(["--config".to_owned(), path(config)]);
        }
        all.extend(trial.workload.arguments());
        all.extend(self.more.iter().cloned());
        all
    }

    /// Expected duration of the trial, s.
    pub fn expected_s(&self, trial: &Trial<'_>) -> f64 {
        let waits_s = trial.start_delay_s.saturating_add(self.end_delay_s);
        waits_s as f64 + trial.workload.duration_s().unwrap_or(0.0) + AROUND_S
    }

    /// Departures from the rules that concern all options.
    pub fn departures(&self) -> Vec<String> {
        let mut found = Vec::new();
        let mut tell = |what: &str, is: u64, rule: u64| {
            if is != rule {
                found.push(format!("{what} {is} instead of {rule}"));
            }
        };
        tell("--trials", self.trials.into(), TRIALS.into());
        tell("--seed-base", self.seed_base, SEED_BASE);
        tell("--start-delay", self.start_delay_s, TRIAL_DELAY_S);
        tell("--end-delay", self.end_delay_s, TRIAL_DELAY_S);
        if self.workloads.len() > 1 {
            tell("--inter-option-delay", self.option_delay_s, OPTION_DELAY_S);
        }
        if let Some(config) = &self.config {
            found.push(format!("--config {}", config.display()));
        }
        if !self.more.is_empty() {
            found.push(self.more.join(" "));
        }
        found
    }
}

/// The directory of a trial, as the harness names it.
pub fn trial_directory(run: &Path, option: u32, trial: u32) -> PathBuf {
    run.join(format!("option_{option}")).join(format!("trial_{trial}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mlperf::options::RULES;

    fn as_ruled() -> Sequence {
        Sequence {
            workloads: RULES.iter().map(|rule| Workload::of(rule, &Default::default())).collect(),
            trials: TRIALS,
            seed_base: SEED_BASE,
            start_delay_s: TRIAL_DELAY_S,
            end_delay_s: TRIAL_DELAY_S,
            option_delay_s: OPTION_DELAY_S,
            config: None,
            more: Vec::new(),
        }
    }

    #[test]
    fn the_rules_are_three_options_of_three_trials() {
        let sequence = as_ruled();
        let all: Vec<(String, u64)> =
            sequence.all().map(|trial| (trial.name(), trial.start_delay_s)).collect();
        assert_eq!(all.len(), 9);
        assert_eq!(all[0], ("opt1_trial0".to_owned(), 90));
        assert_eq!(all[3], ("opt2_trial0".to_owned(), 180));
        assert_eq!(all[8], ("opt3_trial2".to_owned(), 90));
        let seconds: f64 = sequence.all().map(|trial| sequence.expected_s(&trial)).sum();
        assert_eq!(seconds, 9.0 * (300.0 + 180.0 + AROUND_S) + 180.0);
        let told = format!("({:.0} minutes as the rules have it)", seconds / 60.0);
        assert!(include_str!("README.md").contains(&told), "the page lacks {told}");
        assert_eq!(sequence.departures(), Vec::<String>::new());
    }

    #[test]
    fn a_rank_is_started_as_the_harness_starts_it() {
        let mut sequence = as_ruled();
        sequence.more = vec!["--preallocate".into(), "write".into()];
        let trial = sequence.all().nth(4).unwrap();
        let all = sequence.arguments(&trial, Path::new("/r"), Path::new("/kv")).join(" ");
        let expected = "mlperf rank --rank-output-base /r/option_2/trial_1 --rank-cache-base /kv \
                        --seed-base 42 --start-delay 90 --end-delay 90 --model llama3.1-8b \
                        --num-users 100 --duration 300 --gpu-mem-gb 0 --cpu-mem-gb 4 \
                        --max-concurrent-allocs 16 --generation-mode none --preallocate write";
        assert_eq!(all, expected);
    }

    #[test]
    fn what_departs_from_the_rules_is_named() {
        let mut sequence = as_ruled();
        sequence.trials = 1;
        sequence.option_delay_s = 20;
        sequence.more = vec!["--arrival".into(), "closed".into()];
        let expected = [
            "--trials 1 instead of 3",
            "--inter-option-delay 20 instead of 90",
            "--arrival closed",
        ];
        assert_eq!(sequence.departures(), expected);
    }
}
