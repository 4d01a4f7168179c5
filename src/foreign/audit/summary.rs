//! The harness's summary of a run: what it published, by option.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::json::{Flat, Scalar, Shape, read};

/// Aggregated figures whose making is known, and how: from which of a rank's figures, summed over
/// ranks and averaged over trials, or the largest.
pub(super) const READ_GIB_PER_S: &str = "aggregated_read_bandwidth_gbps";
pub(super) const WRITE_GIB_PER_S: &str = "aggregated_write_bandwidth_gbps";
pub(super) const TOKENS_PER_S: &str = "aggregated_avg_throughput_tokens_per_sec";
pub(super) const STORAGE_TOKENS_PER_S: &str = "aggregated_storage_throughput_tokens_per_sec";
pub(super) const P95_MS: &str = "aggregated_p95_latency_ms";
pub(super) const DEVICE_READ_P95_MS: &str = "aggregated_device_read_p95_ms";
pub(super) const DEVICE_WRITE_P95_MS: &str = "aggregated_device_write_p95_ms";
pub(super) const STORAGE_READ_P95_MS: &str = "aggregated_storage_read_p95_ms";

/// Published figures of one option.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct PublishedOption {
    /// Numbers by their key within the option.
    pub(super) figures: BTreeMap<String, f64>,
    pub(super) partial_failure: Option<bool>,
    pub(super) missing_files: u64,
    pub(super) cpu_tier_ranks: u64,
}

impl PublishedOption {
    /// A count of the option, if it is a whole number that can be one.
    pub(super) fn count(&self, key: &str) -> Option<u64> {
        let value = *self.figures.get(key)?;
        // At most a million, so that nothing of it is lost.
        (value.fract() == 0.0 && (0.0..=1e6).contains(&value)).then_some(value as u64)
    }
}

/// Trials of an option that are believed; the harness makes three.
const TRIALS_MAX: u64 = 1000;

/// A summary.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Published {
    /// The file, as it is shown.
    pub(super) file: PathBuf,
    pub(super) options: BTreeMap<u32, PublishedOption>,
    pub(super) host_count: Option<f64>,
}

impl Published {
    /// The option and number of each trial that was published, also of those with no file.
    pub(super) fn trials(&self) -> impl Iterator<Item = (u32, u32)> {
        self.options.iter().flat_map(|(option, published)| {
            let trials = published.count("trial_count").unwrap_or(0).min(TRIALS_MAX);
            (0..trials as u32).map(|trial| (*option, trial))
        })
    }
}

/// Reads the summary at `path`, which is shown as `file`; none if it is of another benchmark.
///
/// # Errors
/// A sentence: what is wrong with the file.
pub(super) fn read_summary(path: &Path, file: PathBuf) -> Result<Option<Published>, String> {
    let flat = read(path, &["options", "host_count", "npernode", "partial_failure"])?;
    match flat.shape("options") {
        Some(Shape::Object) => Ok(Some(published(&flat, file))),
        Some(Shape::Array) => Err("its `options` is an array, and should be an object".to_owned()),
        None => Ok(None),
    }
}

fn published(flat: &Flat, file: PathBuf) -> Published {
    let mut options: BTreeMap<u32, PublishedOption> = BTreeMap::new();
    for (path, scalar) in flat.below("options.") {
        let mut parts = path.split('.').skip(1);
        let Some(option) = parts.next().and_then(|option| option.parse().ok()) else { continue };
        let Some(key) = parts.next() else { continue };
        let entry = options.entry(option).or_default();
        match (key, scalar) {
            ("missing_files", _) => entry.missing_files += 1,
            ("cpu_tier_ranks", _) => entry.cpu_tier_ranks += 1,
            ("partial_failure", Scalar::Bool(flag)) => entry.partial_failure = Some(*flag),
            (key, Scalar::Number(number)) if number.is_finite() => {
                entry.figures.insert(key.to_owned(), *number);
            }
            _ => {}
        }
    }
    let host_count = flat.number("host_count").filter(|hosts| (1.0..=1e6).contains(hosts));
    Published { file, options, host_count }
}
