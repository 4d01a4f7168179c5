//! Report of an audit: a documented, versioned shape, the same for every output.

use std::path::{Path, PathBuf};

use ringfall_host::counted;
use serde::{Serialize, Serializer};

use super::finding::Finding;
use super::leaf::{Group, Leaf};
use super::rank::{CLASSES, Rank, value};
use super::rates::{Direction, Rate, of_group, of_rank};

/// Version of the shape of [`Audit`]: it rises when a key changes its meaning or goes.
pub const AUDIT_VERSION: u32 = 1;

/// A path whatever bytes it is made of: those that are no UTF-8 become U+FFFD.
pub(super) fn path_as_text<S: Serializer>(path: &Path, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&path.to_string_lossy())
}

fn paths_as_text<S: Serializer>(paths: &[PathBuf], to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(paths.iter().map(|path| path.to_string_lossy()))
}

/// An audit. Keys of its JSON are the fields' names; what is unknown is null.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct Audit {
    /// Version of this layout: [`AUDIT_VERSION`].
    pub audit_version: u32,
    /// The program that made it.
    pub ringfall_version: &'static str,
    /// Paths that were given to be audited.
    #[serde(serialize_with = "paths_as_text")]
    pub paths: Vec<PathBuf>,
    /// Files that figures were taken from, by their real paths; no part of the JSON.
    #[serde(skip)]
    pub files: Vec<PathBuf>,
    /// Numbers of files read, by what they are.
    pub read: Read,
    /// Files and directories that were not read, with the reason; the first thousand.
    pub skipped: Vec<Skipped>,
    /// Files that are no part of a run, such as tables and pictures, by how their names end.
    /// Nothing of them was read.
    pub passed_over: Vec<PassedOver>,
    /// All findings and notes: findings first, the heaviest first.
    pub findings: Vec<Finding>,
    /// The runs, by path.
    pub runs: Vec<LeafReport>,
}

/// Number of files read, by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct Read {
    /// Results of a rank, or single ones.
    pub rank_files: u64,
    /// Number of summaries of runs.
    pub summaries: u64,
    /// Number of metadata files of runs.
    pub metadata: u64,
    /// Number of logs of trials.
    pub logs: u64,
    /// Number of logs of iostat.
    pub iostat: u64,
    /// JSON of other kinds.
    pub other_json: u64,
    /// All that was skipped, also what is not named.
    pub skipped: u64,
}

/// Something that was not read.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct Skipped {
    /// The file or directory.
    #[serde(serialize_with = "path_as_text")]
    pub path: PathBuf,
    /// Why it was not read, as a sentence.
    pub why: String,
}

/// Files of one ending that are no part of a run.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct PassedOver {
    /// End of their names after the last dot, in lower case; empty for names without one.
    pub ending: String,
    /// Number of such files.
    pub files: u64,
    /// The first of them.
    #[serde(serialize_with = "path_as_text")]
    pub first: PathBuf,
}

impl std::fmt::Display for PassedOver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let what = match &*self.ending {
            "" => "file without an ending".to_owned(),
            ending => format!(".{ending} file"),
        };
        write!(f, "{} (such as {})", counted(self.files, &what), self.first.display())
    }
}

/// Audit of one run.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct LeafReport {
    /// The directory of the run.
    #[serde(serialize_with = "path_as_text")]
    pub path: PathBuf,
    /// `closed` or `open`, where it is known.
    pub division: Option<String>,
    /// Its options, or the files of single results.
    pub groups: Vec<GroupReport>,
}

/// An option of a run, or a single result.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct GroupReport {
    /// `option 1`, or the file's name.
    pub label: String,
    /// Number of the harness's option, 1 to 3; null for results that are of none.
    pub option: Option<u32>,
    /// Model, where the command is recorded.
    pub model: Option<String>,
    /// Users, where the command is recorded.
    pub users: Option<String>,
    /// Number of trials that were found.
    pub trials: u64,
    /// Rank files that all trials should have.
    pub ranks_expected: u64,
    /// Rank files that were read.
    pub ranks_read: u64,
    /// Reads of storage: summed over ranks, averaged over trials.
    pub read: Option<Rate>,
    /// Writes to storage, likewise.
    pub write: Option<Rate>,
    /// The classes of requests, over all ranks and trials.
    pub targets: Vec<SlaRow>,
    /// The rank files of the group, by trial and rank.
    pub ranks: Vec<RankRow>,
}

/// Compliance of a class of requests with its target.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct SlaRow {
    /// Name of the class: interactive, responsive or batch.
    pub class: &'static str,
    /// Number of its requests, over all ranks and trials.
    pub requests: f64,
    /// Share of them within the target, 0 to 1.
    pub compliance: f64,
    /// Rank files that say that it was met.
    pub met: u64,
    /// Rank files that say anything of it.
    pub files: u64,
}

/// A rank file. Bounds are over the time that really passed.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct RankRow {
    /// The file with the rank's result.
    #[serde(serialize_with = "path_as_text")]
    pub file: PathBuf,
    /// Number of the trial, from 0.
    pub trial: u32,
    /// Number of the rank, from 0.
    pub rank: u32,
    /// Whether ringfall made it, whose bytes are those of its window alone.
    pub is_ringfall: bool,
    /// Number of requests completed; null if the file does not say.
    pub requests: Option<f64>,
    /// Time until the stop signal, s.
    pub elapsed_s: Option<f64>,
    /// The slowest request, s.
    pub slowest_request_s: Option<f64>,
    /// Least that the span can have been, s.
    pub span_at_least_s: Option<f64>,
    /// Most that it can have been, s.
    pub span_at_most_s: Option<f64>,
    /// Read from storage, GiB.
    pub read_gib: Option<f64>,
    /// Written to storage, GiB.
    pub write_gib: Option<f64>,
    /// Rate of reads from storage; null if it can't be computed.
    pub read: Option<Rate>,
    /// Rate of writes to storage; null if it can't be computed.
    pub write: Option<Rate>,
    /// Least by which the rates are overstated, %.
    pub overstatement_at_least_percent: Option<f64>,
    /// Most by which they are, %.
    pub overstatement_at_most_percent: Option<f64>,
    /// P50 of whole requests, ms.
    pub request_p50_ms: Option<f64>,
    /// P95 of whole requests, ms.
    pub request_p95_ms: Option<f64>,
    /// P50 of fsync, ms.
    pub fsync_p50_ms: Option<f64>,
    /// P95 of fsync, ms.
    pub fsync_p95_ms: Option<f64>,
    /// Verdict of the benchmark itself, `PASS` or `FAIL`; null if the file has none.
    pub storage_health: Option<String>,
}

impl RankRow {
    fn of(trial: u32, rank: &Rank) -> RankRow {
        let span = rank.span();
        let over = |span_s: Option<f64>| Some(100.0 * (span_s? / value(rank.elapsed_s)? - 1.0));
        let at_most_s = span.and_then(|span| span.at_most_s);
        RankRow {
            file: rank.file.clone(),
            trial,
            rank: rank.index,
            is_ringfall: rank.is_ours,
            requests: value(rank.requests),
            elapsed_s: value(rank.elapsed_s),
            slowest_request_s: value(rank.slowest_s),
            span_at_least_s: span.map(|span| span.at_least_s),
            span_at_most_s: at_most_s,
            read_gib: value(rank.read_gib),
            write_gib: value(rank.write_gib),
            read: of_rank(rank, Direction::Read),
            write: of_rank(rank, Direction::Write),
            overstatement_at_least_percent: over(span.map(|span| span.at_least_s)),
            overstatement_at_most_percent: over(at_most_s),
            request_p50_ms: value(rank.request_ms[0]),
            request_p95_ms: value(rank.request_ms[1]),
            fsync_p50_ms: value(rank.fsync_ms[0]),
            fsync_p95_ms: value(rank.fsync_ms[1]),
            storage_health: rank.health.clone(),
        }
    }
}

impl LeafReport {
    pub(super) fn of(leaf: &Leaf) -> LeafReport {
        LeafReport {
            path: leaf.path.clone(),
            division: leaf.division(),
            groups: leaf.groups.iter().map(|group| GroupReport::of(leaf, group)).collect(),
        }
    }
}

impl GroupReport {
    fn of(leaf: &Leaf, group: &Group) -> GroupReport {
        let command = leaf.any_command(group.option);
        let trials = group.trials.len() as u64;
        GroupReport {
            label: group.label.clone(),
            option: group.option,
            model: command.and_then(|command| command.model.clone()),
            users: command.and_then(|command| command.users.clone()),
            trials,
            ranks_expected: leaf.ranks_expected(group).saturating_mul(trials),
            ranks_read: group.ranks().count() as u64,
            read: of_group(group, Direction::Read),
            write: of_group(group, Direction::Write),
            targets: targets(group),
            ranks: group.ranks().map(|(trial, rank)| RankRow::of(trial, rank)).collect(),
        }
    }
}

/// The classes that any rank says something of.
pub(super) fn targets(group: &Group) -> Vec<SlaRow> {
    let row = |(place, class): (usize, &'static str)| {
        let all: Vec<_> = group.ranks().filter_map(|(_, rank)| rank.qos[place]).collect();
        let requests: f64 = all.iter().map(|qos| qos.requests).sum();
        let within: f64 = all.iter().map(|qos| qos.requests * qos.compliance).sum();
        let met = all.iter().filter(|qos| qos.is_met).count() as u64;
        let compliance = if requests > 0.0 { within / requests } else { 0.0 };
        let row = SlaRow { class, requests, compliance, met, files: all.len() as u64 };
        (!all.is_empty()).then_some(row)
    };
    CLASSES.into_iter().enumerate().filter_map(row).collect()
}
