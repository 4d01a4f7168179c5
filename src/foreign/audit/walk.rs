//! The files of a tree of results, by what their names say they are; hostile trees have an end.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::report::Skipped;
use crate::iostat::is_named_so;
use crate::mlperf::tree::trial_of;

/// Directories one in another: the published layout has twelve.
const DEPTH_MAX: usize = 32;
/// Files and directories that are looked at: a hundred times the published results of a year.
const ENTRIES_MAX: usize = 1_000_000;
/// JSON files that are opened: rank files of three options, three trials, and some thousand ranks.
const JSON_FILES_MAX: usize = 100_000;

/// Contents of a tree, sorted by path.
#[derive(Debug, Default)]
pub(super) struct Tree {
    /// Files that end in `.json`, other than those that are known to be something else.
    pub(super) json: Vec<PathBuf>,
    /// Directories of trials (`option_1/trial_0`), also empty ones: the run, option and trial.
    pub(super) trials: BTreeSet<(PathBuf, u32, u32)>,
    /// Directories of runs that have a summary or metadata.
    pub(super) leaves: BTreeSet<PathBuf>,
    /// Entries that were not followed or not read.
    pub(super) skipped: Vec<Skipped>,
    /// Files that are no part of a run, by how their names end: the first, and how many.
    pub(super) passed_over: BTreeMap<String, (PathBuf, u64)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Name {
    /// The harness's summary of a run.
    Summary,
    /// The harness's metadata of a run, with the recorded commands.
    Metadata,
    /// JSON that may be a result.
    Json,
    /// Text of `iostat`, also as JSON.
    Iostat,
    /// The standard error or a log of a trial.
    Log,
    /// The machines, and other files of the harness.
    Other,
    /// A file that no run of this benchmark writes.
    Unknown,
}

pub(super) fn name_of(path: &Path) -> Name {
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    let is_summary = name == "summary.json"
        || (name.starts_with("kvcache_run_summary") && name.ends_with(".json"));
    if is_summary {
        Name::Summary
    } else if is_named_so(&name) {
        Name::Iostat
    } else if name.ends_with("_metadata.json") {
        Name::Metadata
    } else if name.contains("cluster_info")
        || name.contains("timeseries")
        || name.starts_with('.')
        // What `ringfall mlperf run` merged of the results beside it.
        || name.starts_with("ringfall_option_")
    {
        Name::Other
    } else if name.ends_with(".json") {
        Name::Json
    } else if name.ends_with(".stdout.log") {
        Name::Other
    } else if name.ends_with(".log") || name.ends_with(".err") {
        Name::Log
    } else {
        Name::Unknown
    }
}

/// Walks from `root`, which exists; a root that is a link is followed, links below it are not.
pub(super) fn walk(root: &Path, tree: &mut Tree) {
    let mut seen = BTreeSet::new();
    let mut entries = 0;
    let mut todo = vec![(root.to_owned(), 0)];
    while let Some((path, depth)) = todo.pop() {
        let metadata = match depth {
            0 => std::fs::metadata(&path),
            _ => std::fs::symlink_metadata(&path),
        };
        let metadata = match metadata {
            Ok(metadata) => metadata,
            Err(error) => {
                tree.skip(&path, error.to_string());
                continue;
            }
        };
        entries += 1;
        if entries > ENTRIES_MAX {
            let what = format!(
                "more than {ENTRIES_MAX} files and directories were found, and the rest is not \
                 read; give the directory of fewer runs"
            );
            tree.skip(root, what);
            return;
        }
        if metadata.is_symlink() {
            tree.skip(&path, "it is a symbolic link, which is not followed; give its target too");
        } else if metadata.is_dir() {
            // Bind mounts can hold themselves.
            if !seen.insert((metadata.dev(), metadata.ino())) {
                tree.skip(&path, "this directory was reached before by another path");
            } else if depth >= DEPTH_MAX {
                let what = format!("it lies {DEPTH_MAX} directories deep; give it by itself");
                tree.skip(&path, what);
            } else {
                tree.trials.extend(trial_of(&path));
                enter(&path, depth, tree, &mut todo);
            }
        } else if metadata.is_file() {
            tree.file(path);
        } else if !matches!(name_of(&path), Name::Other | Name::Unknown) {
            tree.skip(&path, "it is not a plain file");
        }
    }
}

/// Adds the entries of a directory to those to visit, so that they are visited in order.
fn enter(path: &Path, depth: usize, tree: &mut Tree, todo: &mut Vec<(PathBuf, usize)>) {
    let entries = match std::fs::read_dir(path) {
        Ok(entries) => entries,
        Err(error) => return tree.skip(path, error.to_string()),
    };
    let mut below = Vec::new();
    for entry in entries {
        match entry {
            // What tools keep for themselves: probes, locks, journals, second places of results.
            Ok(entry) if entry.file_name().as_encoded_bytes().starts_with(b".") => {}
            Ok(entry) => below.push((entry.path(), depth + 1)),
            Err(error) => tree.skip(path, error.to_string()),
        }
        // A directory of millions is cut off here, before they are sorted.
        if below.len() > ENTRIES_MAX {
            break;
        }
    }
    below.sort_by(|a, b| b.cmp(a));
    todo.append(&mut below);
}

impl Tree {
    fn skip(&mut self, path: &Path, why: impl Into<String>) {
        self.skipped.push(Skipped { path: path.to_owned(), why: why.into() });
    }

    fn file(&mut self, path: PathBuf) {
        match name_of(&path) {
            Name::Summary | Name::Metadata => {
                // A file of another benchmark may be called so too: its run has no kv_cache file.
                if let Some(parent) = path.parent().filter(|_| is_kv_cache(&path)) {
                    self.leaves.insert(parent.to_owned());
                }
            }
            Name::Json if self.json.len() < JSON_FILES_MAX => self.json.push(path),
            Name::Json => {
                let what = format!(
                    "more than {JSON_FILES_MAX} JSON files were found, and this one is not read; \
                     give the directory of fewer runs"
                );
                self.skip(&path, what);
            }
            Name::Unknown => {
                let ending = path.extension().unwrap_or_default().to_string_lossy().to_lowercase();
                self.passed_over.entry(ending).or_insert((path, 0)).1 += 1;
            }
            Name::Iostat | Name::Log | Name::Other => {}
        }
    }
}

/// Whether a file of the harness is of this benchmark: by its name or a directory above it.
fn is_kv_cache(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let trials = || path.parent().is_some_and(|parent| parent.join("option_1").is_dir());
    name.contains("kvcache")
        || name.contains("kv_cache")
        || path.components().any(|part| part.as_os_str() == "kv_cache")
        || trials()
}

#[cfg(test)]
mod tests {
    use ringfall_host::Scratch;

    use super::*;

    #[test]
    fn names_say_what_files_are() {
        for (name, expected) in [
            ("summary.json", Name::Summary),
            ("kvcache_run_summary_20260627_194318.json", Name::Summary),
            ("kv_cache_20260712_182110_metadata.json", Name::Metadata),
            ("kv_cache_cluster_info.json", Name::Other),
            ("ringfall_option_1.json", Name::Other),
            ("kvcache_results_20260712_182112.json", Name::Json),
            ("kvcache_opt1_trial0_x.stderr.log", Name::Log),
            ("kvcache_opt1_trial0_x.stdout.log", Name::Other),
            ("host1.iostat.txt", Name::Iostat),
            ("iostat.json", Name::Iostat),
            ("report.pdf", Name::Unknown),
            ("rank_samples.csv", Name::Unknown),
        ] {
            assert_eq!(name_of(Path::new(name)), expected, "{name}");
        }
    }

    #[test]
    fn what_tools_keep_for_themselves_is_not_read() {
        let root = Scratch::new("walk");
        root.file(".ringfall/rank_0/kvcache_results_x.json", "{}");
        let read = root.file("option_1/trial_0/rank_0/kvcache_results_x.json", "{}");
        let mut tree = Tree::default();
        walk(&root, &mut tree);
        assert_eq!(tree.json, [read]);
    }
}
