//! The harness's summary of a run: what it published, by option.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::json::{number, read};

#[derive(Clone, Debug, PartialEq)]
pub(super) struct PublishedOption(Value);

impl PublishedOption {
    pub(super) fn number(&self, key: &str) -> Option<f64> {
        number(self.0.get(key)?)
    }

    /// A count of the option, if it is a whole number that can be one.
    pub(super) fn count(&self, key: &str) -> Option<u64> {
        let value = self.number(key)?;
        // At most a million, so that nothing of it is lost.
        (value.fract() == 0.0 && (0.0..=1e6).contains(&value)).then_some(value as u64)
    }

    /// Number of the files or ranks that it lists.
    pub(super) fn listed(&self, key: &str) -> usize {
        self.0.get(key).and_then(Value::as_array).map_or(0, Vec::len)
    }

    pub(super) fn partial_failure(&self) -> Option<bool> {
        self.0.get("partial_failure")?.as_bool()
    }
}

/// Trials of an option that are believed; the harness makes three.
const TRIALS_MAX: u64 = 1000;

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Published {
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
pub(super) fn read_summary(path: &Path, file: PathBuf) -> Result<Option<Published>, String> {
    let mut summary = read(path)?;
    let options = match summary.get_mut("options").map(Value::take) {
        Some(Value::Object(options)) => options,
        Some(Value::Array(_)) => {
            return Err("its `options` is an array, and should be an object".to_owned());
        }
        _ => return Ok(None),
    };
    let options = options.into_iter().filter(|(_, option)| option.is_object());
    let options = options
        .filter_map(|(name, option)| Some((name.parse::<u32>().ok()?, PublishedOption(option))));
    let host_count = summary.get("host_count").and_then(number);
    Ok(Some(Published {
        file,
        options: options.collect(),
        host_count: host_count.filter(|hosts| (1.0..=1e6).contains(hosts)),
    }))
}
