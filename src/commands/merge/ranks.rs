//! Merging of ranks: the files of a directory, and what is printed of each rank.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use ringfall_core::units::gib;
use ringfall_host::escape::terminal;
use ringfall_model::document::{FileProblem, Launch, MergedReport};
use ringfall_model::{Code, Document};
use ringfall_report::show::ranks_table;

use crate::commands::wrapped;

/// A setting by what came of it; the storage tier's is never `auto`, and 0 means what is free.
const CAPACITY: &str = "storage_capacity_bytes";
const COMPUTED: &str = "computed";
const DEPTH: &str = "queue_depth";

pub(super) enum Expanded {
    /// Results of runs, or of ranks of one launch.
    Results(Vec<PathBuf>),
    /// Trials of ranks: for each trial, the results of all ranks.
    Trials(Vec<Vec<PathBuf>>),
}

impl Expanded {
    pub(super) fn files(&self) -> impl Iterator<Item = &Path> {
        let (results, trials) = match self {
            Expanded::Results(files) => (files.as_slice(), [].as_slice()),
            Expanded::Trials(trials) => ([].as_slice(), trials.as_slice()),
        };
        results.iter().chain(trials.iter().flatten()).map(PathBuf::as_path)
    }
}

/// The files, and for each directory those of the ranks in it: `DIR/rank_*/*.json`.
pub(super) fn expanded(files: &[PathBuf]) -> Result<Expanded, anyhow::Error> {
    let mut all = Vec::new();
    for file in files {
        if !file.is_dir() {
            all.push(file.clone());
            continue;
        }
        match (of_directory(file)?, files.len()) {
            (trials @ Expanded::Trials(_), 1) => return Ok(trials),
            (Expanded::Results(results), _) => all.extend(results),
            (Expanded::Trials(trials), _) => all.extend(trials.into_iter().flatten()),
        }
    }
    if all.len() < 2 {
        refuse!(
            "there is only one result, and nothing to merge it with; give 2 or more, or a \
             directory that holds those of ranks in rank_N/"
        );
    }
    Ok(Expanded::Results(all))
}

fn of_directory(directory: &Path) -> Result<Expanded, FileProblem> {
    let unreadable = |path: &Path, error: std::io::Error| FileProblem::new(path, error.to_string());
    let list = |path: &Path| -> Result<Vec<PathBuf>, FileProblem> {
        let entries = std::fs::read_dir(path).map_err(|error| unreadable(path, error))?;
        let paths: std::io::Result<Vec<PathBuf>> =
            entries.map(|entry| entry.map(|entry| entry.path())).collect();
        paths.map_err(|error| unreadable(path, error))
    };
    let rank_of = |path: &Path| {
        let name = path.file_name()?.to_str()?.strip_prefix("rank_")?.to_owned();
        name.parse::<u32>().ok().filter(|_| path.is_dir())
    };
    let mut ranks: Vec<(u32, PathBuf)> =
        list(directory)?.into_iter().filter_map(|path| Some((rank_of(&path)?, path))).collect();
    ranks.sort();
    let (mut files, mut trials) = (Vec::new(), BTreeMap::<u32, Vec<PathBuf>>::new());
    for (rank, path) in ranks {
        let mut own = list(&path)?;
        own.retain(|file| file.extension().is_some_and(|extension| extension == "json"));
        own.sort();
        let of_trials = trials_among(&own);
        match &own[..] {
            _ if !of_trials.is_empty() => {
                for (trial, file) in of_trials {
                    trials.entry(trial).or_default().push(file);
                }
            }
            [one, another, ..] => {
                let what = format!(
                    "it holds several results of rank {rank}, among them {} and {}; give the \
                     files of one launch by name",
                    one.display(),
                    another.display()
                );
                return Err(FileProblem::new(&path, what));
            }
            _ => files.append(&mut own),
        }
    }
    match (files.is_empty(), trials.is_empty()) {
        (false, true) => Ok(Expanded::Results(files)),
        (true, false) => Ok(Expanded::Trials(trials.into_values().collect())),
        (false, false) => {
            let what = "some of its ranks hold trials (NAME_trial1.json), and others do not; give \
                        the files by name";
            Err(FileProblem::new(directory, what))
        }
        (true, true) => {
            let what = "this directory holds no results of ranks (rank_N/*.json); give files, or \
                        the directory that --output named";
            Err(FileProblem::new(directory, what))
        }
    }
}

/// The trials among a rank's files, where those are trials of one run, with or without their
/// summary: `NAME_trial1.json`, …, `NAME.json`.
fn trials_among(files: &[PathBuf]) -> BTreeMap<u32, PathBuf> {
    let trial_of = |file: &Path| {
        let (name, trial) = file.file_stem()?.to_str()?.rsplit_once("_trial")?;
        Some((name.to_owned(), trial.parse::<u32>().ok()?))
    };
    let (mut trials, mut names) = (BTreeMap::new(), BTreeSet::new());
    for file in files {
        match trial_of(file) {
            Some((name, trial)) => {
                trials.insert(trial, file.clone());
                names.insert(name);
            }
            None => drop(
                names.insert(file.file_stem().unwrap_or_default().to_string_lossy().into_owned()),
            ),
        }
    }
    if names.len() == 1 { trials } else { BTreeMap::new() }
}

/// Whether each of two ranks has worked that setting out for its own share, or searched for it.
pub(super) fn is_worked_out(first: &Document, second: &Document, key: &str) -> bool {
    let is_computed = |document: &Document| {
        let config = document.ringfall.config.as_ref();
        let origin = config.and_then(|config| config.origins.get(key)?.as_deref());
        let is_found = key == DEPTH && document.ringfall.queue_depth.is_some();
        key == CAPACITY || origin == Some(COMPUTED) || is_found
    };
    is_computed(first) && is_computed(second)
}

/// Describes in a sentence the ranks that were merged.
pub(super) fn page(report: &MergedReport, launch: &Launch, seconds: f64) -> String {
    let count = report.ranks.len();
    let of = match launch.size {
        Some(size) if size as usize != count => format!("{count} of {size} ranks"),
        _ => format!("{count} ranks"),
    };
    format!(
        "{of} side by side, {seconds:.1} s, of which all measured for {:.1} %.",
        launch.overlap_share * 100.0
    )
}

/// A line for each rank, and one for each device of each machine.
pub(super) fn table(page: &mut String, report: &MergedReport) {
    let _infallible = write!(page, "\n{}", ranks_table(report).page());
    for row in &report.hosts {
        let _infallible = writeln!(
            page,
            "  {} on {}: ringfall moved {:.2} GiB, the kernel counted {:.2} GiB",
            terminal(&row.device),
            terminal(&row.host),
            gib(row.engine_read_bytes) + gib(row.engine_write_bytes),
            gib(row.kernel_read_bytes) + gib(row.kernel_write_bytes)
        );
    }
}

/// Writes warnings about the ranks: the depth that they found, their share of the limits, failures.
pub(super) fn warned(page: &mut String, merged: &Document) {
    let found = merged.ringfall.queue_depth.as_ref();
    if let Some((chosen, text)) = found.and_then(|it| it.chosen.known().zip(it.text.as_ref())) {
        wrapped(page, "  queue depth ", &format!("{chosen}: {}", terminal(text)));
    }
    if let Some(line) = limits_line(merged) {
        wrapped(page, "  roofline ", &line);
    }
    let warnings = merged.ringfall.warnings.iter();
    for warning in warnings.filter(|warning| Code::OF_RANKS.contains(&warning.code)) {
        wrapped(page, "  warning: ", &warning.text);
    }
}

/// Line that says how much of the storage's limits the ranks used together; none where the limits
/// are unknown.
fn limits_line(merged: &Document) -> Option<String> {
    let limits = merged.ringfall.roofline.as_ref()?;
    let rate = |rate: Option<f64>| rate.map_or("–".to_owned(), |rate| format!("{rate:.3} GiB/s"));
    let share = limits.share.known()?;
    Some(format!(
        "all ranks used {:.0} % of the limits ({}): read {}, write {}",
        share * 100.0,
        terminal(limits.source.as_ref()?),
        rate(limits.read_gib_per_s.known()),
        rate(limits.write_gib_per_s.known())
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trials_of_one_run_are_told_from_several_runs() {
        let of = |names: &[&str]| {
            let files: Vec<PathBuf> = names.iter().map(PathBuf::from).collect();
            trials_among(&files).into_keys().collect::<Vec<_>>()
        };
        assert_eq!(of(&["a.json", "a_trial1.json", "a_trial2.json"]), [1, 2]);
        assert_eq!(of(&["a_trial1.json"]), [1]);
        assert!(of(&["a.json", "b.json"]).is_empty() && of(&["a.json"]).is_empty());
        assert!(of(&["a_trial1.json", "b.json"]).is_empty(), "another run is there as well");
    }
}
