//! The audit itself: finds the runs in what was given, reads each, and forgets it again.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::command::read_metadata;
use super::finding::{AuditSettings, sort};
use super::findings;
use super::leaf::{Group, Iostat, Leaf, Trial, division_by_path};
use super::log::Log;
use super::rank::read_rank;
use super::report::{AUDIT_VERSION, Audit, LeafReport, PassedOver, Skipped};
use super::span::FromLog;
use super::summary::read_summary;
use super::walk::{Name, Tree, name_of, walk};
use crate::mlperf::TRIAL_DELAY_S;
use crate::mlperf::place::RESULT_PREFIX;
use crate::mlperf::sequence::trial_directory;
use crate::mlperf::tree::rank_of;

/// Maximum number of skipped paths that are named.
const SKIPPED_MAX: usize = 1000;
/// Files of one directory that are looked at for logs and the like.
const DIRECTORY_MAX: usize = 10_000;

/// Audits whatever results lie at the paths.
pub fn audit(paths: &[PathBuf], settings: &AuditSettings) -> Audit {
    let mut finder = Finder {
        roots: Vec::new(),
        audit: Audit {
            audit_version: AUDIT_VERSION,
            ringfall_version: env!("CARGO_PKG_VERSION"),
            paths: paths.to_vec(),
            ..Audit::default()
        },
    };
    let mut runs: BTreeMap<PathBuf, Files> = BTreeMap::new();
    for given in paths {
        match std::fs::canonicalize(given) {
            Ok(root) => finder.list(&root, given, &mut runs),
            Err(error) => finder.skip(given, error.to_string()),
        }
    }
    for (path, files) in runs {
        let leaf = finder.leaf(&path, files);
        if !leaf.groups.is_empty() {
            finder.audit.findings.extend(findings::of_run(&leaf, settings));
            finder.audit.runs.push(LeafReport::of(&leaf));
        }
    }
    let mut audit = finder.audit;
    sort(&mut audit.findings);
    audit.skipped.sort();
    audit.passed_over.sort();
    audit
}

/// Files of one run, by their real paths.
#[derive(Debug, Default)]
struct Files {
    /// Whether the run's directory is below, or is, what was given.
    is_whole: bool,
    /// The files of each rank, by option and trial; a trial may have none.
    trials: BTreeMap<(u32, u32), BTreeMap<u32, BTreeSet<PathBuf>>>,
    /// Results in no layout.
    loose: BTreeSet<PathBuf>,
}

/// Files beside the results in a run's directory, and in those of its trials.
#[derive(Debug, Default)]
struct Beside {
    summary: Option<PathBuf>,
    metadata: Option<PathBuf>,
    logs: Vec<PathBuf>,
    iostat: Vec<PathBuf>,
}

#[derive(Debug)]
struct Finder {
    /// Real paths and what was given for them.
    roots: Vec<(PathBuf, PathBuf)>,
    audit: Audit,
}

impl Finder {
    fn skip(&mut self, path: &Path, why: impl Into<String>) {
        self.audit.read.skipped += 1;
        if self.audit.skipped.len() < SKIPPED_MAX {
            let path = self.shown(path);
            self.audit.skipped.push(Skipped { path, why: why.into() });
        }
    }

    /// The facts that `read` makes of a file, given also as it is shown; one that it can't read is
    /// skipped.
    fn made<T>(
        &mut self,
        path: &Path,
        read: impl FnOnce(&Path, PathBuf) -> Result<T, String>,
    ) -> Option<T> {
        let made = read(path, self.shown(path)).map_err(|why| self.skip(path, why)).ok()?;
        self.audit.files.push(path.to_owned());
        Some(made)
    }

    fn shown(&self, path: &Path) -> PathBuf {
        let given = self.roots.iter().find_map(|(root, given)| {
            let rest = path.strip_prefix(root).ok()?;
            let is_root = rest.as_os_str().is_empty();
            Some(if is_root { given.clone() } else { given.join(rest) })
        });
        given.unwrap_or_else(|| path.to_owned())
    }

    /// Adds what lies below a root to the runs.
    fn list(&mut self, root: &Path, given: &Path, runs: &mut BTreeMap<PathBuf, Files>) {
        self.roots.push((root.to_owned(), given.to_owned()));
        let mut tree = Tree::default();
        walk(root, &mut tree);
        for skipped in std::mem::take(&mut tree.skipped) {
            self.skip(&skipped.path, skipped.why);
        }
        for (ending, (first, count)) in tree.passed_over {
            let shown = self.shown(&first);
            let all = &mut self.audit.passed_over;
            match all.iter_mut().find(|there| there.ending == ending) {
                Some(there) => there.files += count,
                None => all.push(PassedOver { ending, files: count, first: shown }),
            }
        }
        for leaf in tree.leaves {
            runs.entry(leaf).or_default();
        }
        for (leaf, option, trial) in tree.trials {
            runs.entry(leaf).or_default().trials.entry((option, trial)).or_default();
        }
        for file in tree.json {
            if let Some((leaf, option, trial, rank)) = rank_of(&file) {
                let files = runs.entry(leaf).or_default();
                let ranks = files.trials.entry((option, trial)).or_default();
                ranks.entry(rank).or_default().insert(file);
            } else if let Some(directory) = file.parent() {
                runs.entry(directory.to_owned()).or_default().loose.insert(file);
            }
        }
        for (leaf, files) in runs.iter_mut() {
            files.is_whole |= leaf.starts_with(root);
        }
    }

    fn leaf(&mut self, path: &Path, mut files: Files) -> Leaf {
        let mut leaf = Leaf {
            path: self.shown(path),
            is_whole: files.is_whole,
            division_by_path: division_by_path(path),
            ..Leaf::default()
        };
        let beside = self.beside(path);
        let is_layout = !files.trials.is_empty() || files.loose.is_empty();
        if let (Some(summary), true) = (&beside.summary, is_layout) {
            leaf.published = self.made(summary, read_summary).flatten();
            self.audit.read.summaries += u64::from(leaf.published.is_some());
        }
        if let (Some(metadata), true) = (&beside.metadata, is_layout) {
            leaf.metadata = self.made(metadata, read_metadata);
            self.audit.read.metadata += u64::from(leaf.metadata.is_some());
        }
        if let (true, Some(published)) = (leaf.is_whole, &leaf.published) {
            for trial in published.trials() {
                files.trials.entry(trial).or_default();
            }
        }
        self.options(path, &files, &mut leaf);
        self.singles(&files.loose, &mut leaf);
        if leaf.groups.iter().any(|group| group.ranks().next().is_some()) {
            leaf.iostat = self.iostat(&beside.iostat);
            self.logs(path, &beside.logs, &mut leaf);
        }
        leaf
    }

    fn options(&mut self, path: &Path, files: &Files, leaf: &mut Leaf) {
        let mut options: BTreeMap<u32, Group> = BTreeMap::new();
        for (&(option, number), ranks) in &files.trials {
            let group = options.entry(option).or_insert_with(|| Group {
                label: format!("option {option}"),
                option: Some(option),
                trials: BTreeMap::new(),
            });
            let iostat = self.beside(&trial_directory(path, option, number)).iostat;
            let mut trial = Trial { iostat: self.iostat(&iostat), ..Trial::default() };
            for (rank, paths) in ranks {
                self.rank(*rank, paths, &mut trial);
            }
            group.trials.insert(number, trial);
        }
        leaf.groups.extend(options.into_values());
    }

    /// The first file of a rank by name; others are counted.
    fn rank(&mut self, rank: u32, paths: &BTreeSet<PathBuf>, trial: &mut Trial) {
        let is_named = |path: &&PathBuf| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.starts_with(RESULT_PREFIX)
        };
        let mut named = paths.iter().filter(is_named);
        let Some(first) = named.next() else {
            self.audit.read.other_json += paths.len() as u64;
            return;
        };
        trial.others.extend(named.map(|path| self.shown(path)));
        let read = self.made(first, |path, file| {
            let what = "it is JSON, but no result of the benchmark: it has no `summary`";
            read_rank(path, file, rank)?.ok_or(what.to_owned())
        });
        match read {
            Some(read) => {
                self.audit.read.rank_files += 1;
                trial.ranks.insert(rank, read);
            }
            None => trial.damaged.push(self.shown(first)),
        }
    }

    /// Results in no layout: each is a group of its own, as nothing says which belong together.
    fn singles(&mut self, files: &BTreeSet<PathBuf>, leaf: &mut Leaf) {
        for file in files {
            match self.made(file, |path, file| read_rank(path, file, 0)) {
                Some(Some(rank)) => {
                    self.audit.read.rank_files += 1;
                    let name = file.file_name().unwrap_or_default().to_string_lossy();
                    let ranks = [(0, rank)].into();
                    let trial = Trial { ranks, ..Trial::default() };
                    let trials = [(0, trial)].into();
                    leaf.groups.push(Group { label: name.into_owned(), option: None, trials });
                }
                Some(None) => {
                    // No figure of it is used: an earlier audit may be written anew.
                    self.audit.files.pop();
                    self.audit.read.other_json += 1;
                }
                None => {}
            }
        }
    }

    fn beside(&mut self, directory: &Path) -> Beside {
        let mut beside = Beside::default();
        // A directory that can't be listed was named when the tree was walked.
        let Ok(entries) = std::fs::read_dir(directory) else { return beside };
        let mut files: Vec<PathBuf> =
            entries.filter_map(Result::ok).map(|entry| entry.path()).take(DIRECTORY_MAX).collect();
        files.sort();
        for path in files {
            let is_file = std::fs::symlink_metadata(&path).is_ok_and(|metadata| metadata.is_file());
            match name_of(&path) {
                _ if !is_file => {}
                // The later name is `summary.json`, which the newer harness writes.
                Name::Summary => beside.summary = Some(path),
                Name::Metadata => beside.metadata = Some(path),
                Name::Iostat => beside.iostat.push(path),
                Name::Log => beside.logs.push(path),
                Name::Json | Name::Other | Name::Unknown => {}
            }
        }
        beside
    }

    fn iostat(&mut self, files: &[PathBuf]) -> Vec<Iostat> {
        let all = files.iter().filter_map(|file| self.made(file, Iostat::read));
        let all: Vec<Iostat> = all.collect();
        self.audit.read.iostat += all.len() as u64;
        all
    }

    /// Reads the logs of a run one by one, and gives each rank the time that one says of it.
    fn logs(&mut self, path: &Path, logs: &[PathBuf], leaf: &mut Leaf) {
        let mut all = logs.to_vec();
        for group in &leaf.groups {
            let Some(option) = group.option else { continue };
            for trial in group.trials.keys() {
                all.extend(self.beside(&trial_directory(path, option, *trial)).logs);
            }
        }
        let Leaf { groups, metadata, .. } = leaf;
        for file in all {
            let Some(log) = self.made(&file, Log::read) else { continue };
            self.audit.read.logs += 1;
            for group in &mut *groups {
                for (trial, files) in &mut group.trials {
                    let command =
                        metadata.as_ref().and_then(|all| all.command(group.option, *trial));
                    let delay_s = command.and_then(|command| command.start_delay_s);
                    let delay_s = delay_s.unwrap_or(TRIAL_DELAY_S as f64);
                    for rank in files.ranks.values_mut() {
                        let found = FromLog::of(&log, &rank.file, delay_s);
                        rank.from_log = rank.from_log.take().or(found);
                    }
                }
            }
        }
    }
}
