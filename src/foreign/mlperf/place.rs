//! Resources of a single rank, by the contract of the harness's launcher: seed, output, directory.

use std::path::{Path, PathBuf};

use super::stamp;

/// Beginning of the name of a rank's result; the harness looks for it.
pub(crate) const RESULT_PREFIX: &str = "kvcache_results_";

/// Seed, result file and data directory that belong to one rank alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Its random seed: the base and its number.
    pub seed: u64,
    /// File for the rank's result: `OUTPUT_BASE/rank_N/kvcache_results_TIME.json`.
    pub output: PathBuf,
    /// The directory of its data: `CACHE_BASE/rank_N`.
    pub cache_dir: PathBuf,
}

impl Place {
    /// Derives the place of rank `rank`, started at `unix_s` seconds since 1970.
    pub fn of(
        rank: u32,
        output_base: &Path,
        cache_base: &Path,
        seed_base: u64,
        unix_s: u64,
    ) -> Place {
        let own = rank_name(rank);
        let file = format!("{RESULT_PREFIX}{}.json", stamp(unix_s));
        Place {
            seed: seed_base.wrapping_add(u64::from(rank)),
            output: output_base.join(&own).join(file),
            cache_dir: cache_base.join(own),
        }
    }
}

/// Name of a rank's directory.
pub fn rank_name(rank: u32) -> String {
    format!("rank_{rank}")
}

/// Paths of all that is in a directory; none where it is not there.
pub(super) fn paths_in(directory: &Path) -> std::io::Result<Vec<PathBuf>> {
    match std::fs::read_dir(directory) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        entries => entries?.map(|entry| Ok(entry?.path())).collect(),
    }
}

/// Results in a rank's directory, by name. The harness reads one of them, and which one is chance.
///
/// # Errors
/// The directory is there and can't be read.
pub fn results_in(directory: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut found = paths_in(directory)?;
    found.retain(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with(RESULT_PREFIX) && name.ends_with(".json")
    });
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use ringfall_host::Scratch;

    use super::*;

    #[test]
    fn a_rank_has_its_own_seed_and_directories() {
        let place = Place::of(3, Path::new("/r/option_1/trial_0"), Path::new("/kv"), 42, 0);
        assert_eq!(place.seed, 45);
        let output = "/r/option_1/trial_0/rank_3/kvcache_results_19700101_000000.json";
        assert_eq!(place.output, Path::new(output));
        assert_eq!(place.cache_dir, Path::new("/kv/rank_3"));
    }

    #[test]
    fn only_what_the_harness_reads_is_a_result() {
        let base = Scratch::new("place");
        assert_eq!(results_in(&base.join("none")).unwrap(), Vec::<PathBuf>::new());
        let names = ["kvcache_results_b.json", "kvcache_results_a.json", "a.json"];
        let [second, first, _] = names.map(|name| base.file(name, "{}"));
        assert_eq!(results_in(&base).unwrap(), [first, second]);
    }
}
