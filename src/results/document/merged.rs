//! `ringfall.merged`: what a merged result is made of.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Document;
use super::merge::{Inputs, Merge};

/// What was merged.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct MergedReport {
    /// The results, in order.
    pub inputs: Vec<InputFacts>,
    /// Settings and facts of the machine in which they differ.
    pub differences: Vec<Difference>,
    /// How far the results lie apart in each metric.
    pub spread: Vec<Spread>,
    /// Number of trials that `--trials` asked for; absent when results were merged otherwise.
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
    /// The file it was read from.
    pub file: String,
    /// Its random seed.
    pub seed: Option<u64>,
    /// Start of its measurement window, s since 1970.
    pub start_unix_s: Option<f64>,
    /// Length of its measurement window, s.
    pub seconds: Option<f64>,
    /// Requests that finished in it without a failed step.
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

/// One setting or fact that is not the same in two results.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Difference {
    /// Key of the setting, as in a configuration file; facts of the machine begin with `machine.`.
    pub key: String,
    /// Value in the first result; null: not said there.
    pub first: Value,
    /// Value in the other result.
    pub second: Value,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({} and {})", self.key, self.first, self.second)
    }
}

/// One metric over several results.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Spread {
    /// Name of the metric, as `ringfall compare --json` gives it.
    pub metric: String,
    /// Its value in each result, in their order; null where it was not measured.
    pub values: Vec<Option<f64>>,
    /// Median of the values that there are.
    pub median: f64,
    /// Smallest value.
    pub min: f64,
    /// Largest value.
    pub max: f64,
    /// Coefficient of variation: standard deviation over mean; null with fewer than two values, or
    /// when all are zero.
    pub cv: Option<f64>,
}
