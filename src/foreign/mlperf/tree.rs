//! Where a run lies among results:
//! `RESULTS/open/ORGANIZATION/results/SYSTEM/kv_cache/MODEL/run/TIME`, as the harness has it.

use std::path::{Path, PathBuf};

use ringfall_core::held::HeldDirectory;

use super::place::{paths_in, rank_name};
use super::stamp;

/// The harness's summary of a run.
pub const SUMMARY: &str = "summary.json";
/// The page of a run.
pub const PAGE: &str = "ringfall.html";
/// Directory in which ringfall keeps the state to continue a run.
const STATE: &str = ".ringfall";
/// Runs that may begin in the same second.
const ATTEMPTS: u64 = 60;

/// Names that determine a run's place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The directory of all results.
    pub results: PathBuf,
    /// Organization that measures, as the published layout names it.
    pub organization: String,
    /// Name of the storage system that is measured.
    pub system: String,
    /// The model of the first option.
    pub model: String,
}

impl Owner {
    /// The directory of its runs.
    pub fn runs(&self) -> PathBuf {
        let Owner { results, organization, system, model } = self;
        let mut path = results.clone();
        for part in ["open", organization, "results", system, "kv_cache", model, "run"] {
            path.push(part);
        }
        path
    }

    /// Finds the first name that can't be a directory's: its flag, and its value.
    pub fn misnamed(&self) -> Option<(&'static str, &str)> {
        let is_plain = |name: &str| {
            let fits = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
            !name.is_empty()
                && name.len() <= 200
                && !name.starts_with('.')
                && name.chars().all(fits)
        };
        let names = [
            ("--orgname", self.organization.as_str()),
            ("--systemname", &self.system),
            ("--model", &self.model),
        ];
        names.into_iter().find(|(_, name)| !is_plain(name))
    }
}

/// Makes the directory of a new run, named by the time.
pub fn new_run(runs: &Path, unix_s: u64) -> std::io::Result<PathBuf> {
    HeldDirectory::make(runs)?;
    let mut attempt = 0;
    loop {
        let run = runs.join(stamp(unix_s.saturating_add(attempt)));
        match std::fs::create_dir(&run) {
            Err(error)
                if error.kind() == std::io::ErrorKind::AlreadyExists && attempt < ATTEMPTS =>
            {
                attempt += 1;
            }
            Err(error) => return Err(error),
            Ok(()) => return Ok(run),
        }
    }
}

/// The newest run that has been begun and has no summary yet.
pub fn unfinished_run(runs: &Path) -> std::io::Result<Option<PathBuf>> {
    let is_unfinished = |run: &PathBuf| run.join(STATE).is_dir() && !run.join(SUMMARY).exists();
    Ok(paths_in(runs)?.into_iter().filter(is_unfinished).max())
}

/// The name of a run: the time of its begin.
pub fn run_name(run: &Path) -> String {
    run.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Where a rank keeps what is needed to continue the run.
pub fn state_directory(run: &Path, rank: u32) -> PathBuf {
    run.join(STATE).join(rank_name(rank))
}

/// The log of a trial, by the harness's name for it.
pub fn log_of(run: &Path, trial: &str) -> PathBuf {
    run.join(format!("kvcache_{trial}_{}.stdout.log", run_name(run)))
}

/// The merged result of an option.
pub fn merged_of(run: &Path, option: u32) -> PathBuf {
    run.join(format!("ringfall_option_{option}.json"))
}

/// Path of a run's metadata, by the harness's naming.
pub fn metadata_of(run: &Path) -> PathBuf {
    run.join(format!("kv_cache_{}_metadata.json", run_name(run)))
}

/// The run, option and trial that a directory `…/option_1/trial_0` is of.
pub(crate) fn trial_of(path: &Path) -> Option<(PathBuf, u32, u32)> {
    let trial = numbered(path, "trial_")?;
    let above = path.parent()?;
    let option = numbered(above, "option_")?;
    Some((above.parent()?.to_owned(), option, trial))
}

/// The run, option, trial and rank that a file `…/option_1/trial_0/rank_0/x.json` is of.
pub(crate) fn rank_of(path: &Path) -> Option<(PathBuf, u32, u32, u32)> {
    let directory = path.parent()?;
    let rank = numbered(directory, "rank_")?;
    let (leaf, option, trial) = trial_of(directory.parent()?)?;
    Some((leaf, option, trial, rank))
}

/// The number N of a path that ends in `PREFIXN`.
pub(crate) fn numbered(path: &Path, prefix: &str) -> Option<u32> {
    let name = path.file_name()?.to_str()?;
    name.strip_prefix(prefix)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use ringfall_host::Scratch;

    use super::*;

    fn owner(results: &Path) -> Owner {
        Owner {
            results: results.to_owned(),
            organization: "acme".into(),
            system: "box-1".into(),
            model: "llama3.1-8b".into(),
        }
    }

    #[test]
    fn a_run_lies_where_the_harness_has_it() {
        let owner = owner(Path::new("/r"));
        let expected = "/r/open/acme/results/box-1/kv_cache/llama3.1-8b/run";
        assert_eq!(owner.runs(), Path::new(expected));
        assert_eq!(owner.misnamed(), None);
        let slash = Owner { system: "a/b".into(), ..owner.clone() };
        assert_eq!(slash.misnamed(), Some(("--systemname", "a/b")));
        let up = Owner { organization: "..".into(), ..owner };
        assert_eq!(up.misnamed(), Some(("--orgname", "..")));
        let run = Path::new("/r/20250131_235959");
        let log = "/r/20250131_235959/kvcache_opt1_trial0_20250131_235959.stdout.log";
        assert_eq!(log_of(run, "opt1_trial0"), Path::new(log));
    }

    #[test]
    fn the_newest_run_without_a_summary_is_the_one_to_continue() {
        let base = Scratch::new("tree");
        let runs = owner(&base).runs();
        assert_eq!(unfinished_run(&runs).unwrap(), None);
        let made: Vec<PathBuf> = (0..3).map(|_| new_run(&runs, 0).unwrap()).collect();
        assert_eq!(run_name(&made[2]), "19700101_000002");
        // Not begun by ringfall.
        assert_eq!(unfinished_run(&runs).unwrap(), None);
        for run in &made {
            std::fs::create_dir_all(state_directory(run, 0)).unwrap();
        }
        std::fs::write(made[2].join(SUMMARY), "{}").unwrap();
        assert_eq!(unfinished_run(&runs).unwrap().as_ref(), Some(&made[1]));
    }

    #[test]
    fn places_in_the_layout_are_numbers() {
        let path = Path::new("/r/20260712/option_2/trial_1/rank_13/kvcache_results_x.json");
        assert_eq!(rank_of(path), Some((PathBuf::from("/r/20260712"), 2, 1, 13)));
        let odd = Path::new("/r/option_2/trial_x/rank_1/a.json");
        assert_eq!(rank_of(odd), None);
    }
}
