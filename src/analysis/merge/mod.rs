//! Several results of ringfall as one: counters add up, histograms merge exactly, percentiles and
//! rates are made anew from those. The runs are taken to have followed one another: times add up
//! too, so a rate is that of all runs together over all their time.
//!
//! What can't be merged is null: what a tier held at the end, the health's verdict. The runs' own
//! files keep it.

mod derive;
mod rules;

use std::collections::BTreeMap;

use ringfall_engine::metrics::Histogram;
use serde_json::{Value, json};

use super::FileProblem;
use super::differences::Difference;
use super::document::ResultFile;
use super::spread::spreads;
use crate::results::document::values::encoded;

/// Histograms by their name in `ringfall.histograms`. One that an input lacks is not here: without
/// it the rest would not be the whole.
struct Histograms(BTreeMap<String, Histogram>);

impl Histograms {
    fn get(&self, name: &str) -> Option<&Histogram> {
        self.0.get(name)
    }

    /// All of them as one; `None` when one is not there.
    fn sum(&self, names: &[&str]) -> Option<Histogram> {
        names.iter().try_fold(Histogram::new(), |mut all, name| {
            all.merge(self.get(name)?);
            Some(all)
        })
    }
}

/// The results as one document, laid out as a run's, with `ringfall.merged` saying of what.
///
/// # Errors
/// When one of them has no histograms, or a damaged one.
pub fn merge(
    inputs: &[ResultFile],
    differences: &[Difference],
    command_line: &[String],
) -> Result<Value, FileProblem> {
    let histograms = merged_histograms(inputs)?;
    let documents: Vec<&Value> = inputs.iter().map(|input| &input.document).collect();
    let mut merged = rules::apply(&documents);
    derive::lists(&mut merged, &documents);
    derive::from_histograms(&mut merged, &histograms);
    derive::rates(&mut merged, &histograms);
    let ours = &mut merged["ringfall"];
    ours["version"] = env!("CARGO_PKG_VERSION").into();
    ours["command_line"] = json!(command_line);
    ours["histograms"] =
        histograms.0.iter().map(|(name, histogram)| (name.clone(), encoded(histogram))).collect();
    ours["merged"] = json!({
        "inputs": inputs.iter().map(facts).collect::<Vec<_>>(),
        "differences": differences,
        "spread": spreads(&documents),
    });
    Ok(merged)
}

/// What tells the runs apart.
fn facts(input: &ResultFile) -> Value {
    let window = input.document.pointer("/ringfall/window").unwrap_or(&Value::Null);
    json!({
        "file": input.path,
        "seed": input.document["seed"],
        "start_unix_s": window["start_unix_s"],
        "seconds": window["seconds"],
        "requests_completed": input.document["requests_completed"],
    })
}

fn merged_histograms(inputs: &[ResultFile]) -> Result<Histograms, FileProblem> {
    let mut merged: Option<BTreeMap<String, Histogram>> = None;
    for input in inputs {
        let theirs = input.histograms()?;
        let Some(mine) = &mut merged else {
            let filled = |(name, histogram): (String, Option<Histogram>)| {
                (name, histogram.unwrap_or_default())
            };
            merged = Some(theirs.into_iter().map(filled).collect());
            continue;
        };
        mine.retain(|name, _| theirs.contains_key(name));
        for (name, mine) in mine {
            if let Some(Some(theirs)) = theirs.get(name) {
                mine.merge(theirs);
            }
        }
    }
    Ok(Histograms(merged.unwrap_or_default()))
}

#[cfg(test)]
#[path = "merge_test.rs"]
pub(crate) mod tests;
