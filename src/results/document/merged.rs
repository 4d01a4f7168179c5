//! `ringfall.merged`: what a merged result is made of.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Document;
use super::merge::{Inputs, Merge};

/// The results that a merged result is made of.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct MergedReport {
    /// The merged results, in the order in which they were given.
    pub inputs: Vec<InputFacts>,
    /// Settings and facts of the machine in which the merged results differ.
    pub differences: Vec<Difference>,
    /// How far apart the merged results lie in each metric.
    pub spread: Vec<Spread>,
    /// Number of trials that `--trials` asked for; absent when the results were merged in another
    /// way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trials_asked: Option<u32>,
}

/// What was merged before is not told again: the new document says what it is made of itself.
impl Merge for MergedReport {
    fn merged(_: &[&Self], _: &Inputs) -> Self {
        MergedReport::default()
    }

    #[cfg(test)]
    fn rules(path: &str, into: &mut Vec<(String, &'static str)>) {
        into.push((path.to_owned(), "derived"));
    }
}

/// What tells one of the merged results from the others.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct InputFacts {
    /// Name of the file from which the result was read.
    pub file: String,
    /// Random seed of the result.
    pub seed: Option<u64>,
    /// Start of the result's measurement window, s since 1970-01-01T00:00:00Z.
    pub start_unix_s: Option<f64>,
    /// Length of the result's measurement window, s.
    pub seconds: Option<f64>,
    /// Number of requests in the result that finished without a failed step.
    pub requests_completed: Option<u64>,
}

impl InputFacts {
    /// Of a document and the name of its file.
    #[must_use]
    pub fn of(file: String, document: &Document) -> InputFacts {
        InputFacts {
            file,
            seed: document.seed.known(),
            start_unix_s: document.ringfall.window.start_unix_s.known(),
            seconds: document.seconds(),
            requests_completed: document.requests_completed.known(),
        }
    }
}

/// A setting or fact of the machine that is not the same in two results.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Difference {
    /// Key of the setting, as in a configuration file; facts of the machine begin with `machine.`.
    pub key: String,
    /// Value in the first result; null when the result does not say.
    pub first: Value,
    /// Value in the other result; null when the result does not say.
    pub second: Value,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({} and {})", self.key, self.first, self.second)
    }
}

/// Values of one metric over several results.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Spread {
    /// Name of the metric, as `ringfall compare --json` gives it.
    pub metric: String,
    /// Value of the metric in each result, in the order of `inputs`; null where it was not
    /// measured.
    pub values: Vec<Option<f64>>,
    /// Median of the known values.
    pub median: f64,
    /// Smallest of the known values.
    pub min: f64,
    /// Largest of the known values.
    pub max: f64,
    /// Coefficient of variation of the known values: standard deviation divided by mean. Null with
    /// fewer than two values, or when all are zero.
    pub cv: Option<f64>,
}
