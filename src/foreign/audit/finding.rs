//! A finding: one sentence about a run, with the computation behind it.

use std::path::{Path, PathBuf};

use ringfall_core::named;
use serde::Serialize;

use super::rank::{Figure, Known};
use super::report::path_as_text;

/// Settings of an audit, beside the paths.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct AuditSettings {
    /// Specified read bandwidth of one host's storage, MB/s (10^6 B/s).
    pub drive_read_mb_per_s: Option<f64>,
    /// Specified write bandwidth of one host's storage, MB/s.
    pub drive_write_mb_per_s: Option<f64>,
}

named! {
/// Subject of a finding.
// Its name is the title above the finding, in lower case.
#[derive(PartialOrd, Ord, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Bytes counted after the time by which they are divided.
    CountedAfterTheRun = "bytes counted after the run's time",
    /// Requests that took longer than the run.
    LatencyBeyondTheRun = "requests longer than the run",
    /// A reported rate that is not the file's own bytes by its own time.
    RateIsNotBytesByTime = "a rate that is not bytes by time",
    /// Figures of one file of which only one can be true.
    ContradictsItself = "a result that contradicts itself",
    /// Figures that could not be held against each other, in a file of another version or one that
    /// is damaged.
    Unchecked = "a result that could not be checked",
    /// Ranks without a file, or with one that can't be read.
    LostRanks = "lost ranks",
    /// Several result files of one rank.
    SeveralFilesOfARank = "several files of a rank",
    /// Ranks whose entries never reached storage.
    RanksWithoutStorage = "ranks that never touched storage",
    /// Trials that differ.
    TrialSpread = "trials that differ",
    /// A published figure that the rank files do not give.
    SummaryDiffers = "a summary that its ranks do not give",
    /// Libraries preloaded by the recorded command.
    PreloadedLibraries = "preloaded libraries",
    /// Parameters of the recorded command that differ from the option's.
    ChangedParameters = "changed parameters",
    /// fsync in less time than any drive takes.
    FsyncTooFast = "fsync times that no drive has",
    /// More bytes than the kernel counted.
    MoreThanTheKernelCounted = "more than the kernel counted",
    /// Rate by the kernel's counters over the time in which they moved.
    RateByTheKernel = "the rate by the kernel's counters",
    /// More than the drive's given specification.
    AboveTheDrive = "more than the drive's specification",
    /// Figures that can't be, taken as unknown.
    ImpossibleFigures = "figures that can't be",
    /// Classes of requests that missed their target.
    TargetsMissed = "latency targets missed",
    /// The result's own criteria of storage health, not met.
    HealthFailed = "storage health failed",
    /// Results of simulated runs, in which no drive moved a byte.
    Simulated = "simulated results",
    /// Runs that a signal ended early.
    Interrupted = "interrupted runs",
    /// Requests that ended with a failed step.
    RequestsFailed = "requests that failed",
    /// Blocks that were read back wrong.
    BlocksBad = "blocks that were read back wrong",
}
}

/// Whether a finding puts a figure in question, or only adds what a reader should know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// A figure, or a part of it, is in question.
    Finding,
    /// Nothing is in question.
    Note,
}

/// A value of an input.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum Value {
    /// A number, in the input's unit.
    Number(f64),
    /// A text, as the file has it.
    Text(String),
}

/// Something that a finding was computed from.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct Input {
    /// The file that the value was read from.
    #[serde(serialize_with = "path_as_text")]
    pub file: PathBuf,
    /// Its JSON key with dots between the names, or what was read of a log.
    pub key: String,
    /// The value, a number or a text, as it was read or computed.
    pub value: Value,
    /// Its unit; empty for counts, shares and texts.
    pub unit: &'static str,
}

impl Input {
    pub(super) fn number(
        file: &Path,
        key: impl Into<String>,
        number: f64,
        unit: &'static str,
    ) -> Input {
        Input { file: file.to_owned(), key: key.into(), value: Value::Number(number), unit }
    }

    pub(super) fn text(file: &Path, key: impl Into<String>, text: impl Into<String>) -> Input {
        let value = Value::Text(text.into());
        Input { file: file.to_owned(), key: key.into(), value, unit: "" }
    }

    pub(super) fn of(file: &Path, figure: Figure, unit: &'static str) -> Input {
        Input::number(file, figure.key, figure.value, unit)
    }

    /// Inputs from those of the figures that the file has.
    pub(super) fn known(file: &Path, figures: &[(Known, &'static str)]) -> Vec<Input> {
        let known = figures.iter().filter_map(|(figure, unit)| Some(((*figure)?, *unit)));
        known.map(|(figure, unit)| Input::of(file, figure, unit)).collect()
    }
}

/// Something in published results that calls a figure into question, or is worth knowing.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct Finding {
    /// Subject of the finding.
    pub kind: Kind,
    /// Whether a figure is in question.
    pub level: Level,
    /// Share of the headline (or of what the finding is about) that is in question; 0 for none.
    pub weight: f64,
    /// Quantity of which the weight is a share.
    pub weight_is: &'static str,
    /// The directory of the run that the finding is about.
    #[serde(serialize_with = "path_as_text")]
    pub run: PathBuf,
    /// The option, or the file of a single result; none: of the whole run.
    pub group: Option<String>,
    /// Finding, as one or more full sentences.
    pub sentence: String,
    /// Formula of the result.
    pub formula: String,
    /// Inputs of the formula.
    pub inputs: Vec<Input>,
    /// Result of the formula.
    pub result: Option<f64>,
    /// Its lower bound, where it is one of two.
    pub at_least: Option<f64>,
    /// The upper bound of the result, where it is one of two.
    pub at_most: Option<f64>,
    /// Unit of the three; empty for counts and shares.
    pub unit: &'static str,
}

impl Finding {
    /// Sets the weight, which is the formula's result too unless another is set after it.
    pub(super) fn weigh(&mut self, weight: f64, weight_is: &'static str) {
        (self.weight, self.weight_is, self.result) = (weight, weight_is, Some(weight));
    }
}

/// Weighed findings before notes, the heaviest first; alike ones in the order of runs.
pub(super) fn sort(findings: &mut [Finding]) {
    findings.sort_by(|a, b| {
        let weight = b.weight.total_cmp(&a.weight);
        let place = || (&a.run, &a.group, a.kind).cmp(&(&b.run, &b.group, b.kind));
        a.level.cmp(&b.level).then(weight).then_with(place)
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_lists_every_kind_of_finding() {
        let page = include_str!("README.md");
        let (_, list) = page.split_once("It looks for: ").unwrap();
        let list = list.lines().next().unwrap();
        for kind in Kind::ALL {
            assert!(list.contains(kind.name()), "the page's list lacks {:?}", kind.name());
        }
    }
}
