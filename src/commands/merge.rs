//! `ringfall merge`: several results as one.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

mod ranks;

use super::{print, print_json, refuse_input, spread_page};
use crate::analysis::differences::{self, Difference};
use crate::analysis::merge::{is_one_launch, merge};
use crate::analysis::spread::spreads;
use crate::cli::MergeArgs;
use crate::config::InputError;
use crate::escape::{terminal, terminal_path};
use crate::exit::Exit;
use crate::results::document::{FileProblem, ResultFile};
use crate::results::{Document, write_json};

/// Reads the results, merges them, and prints or writes what they are together.
///
/// # Errors
/// When a file can't be understood or they were configured differently.
pub fn run(args: &MergeArgs, command_line: &[String]) -> Result<Exit> {
    let files = ranks::expanded(&args.files)?;
    let inputs = read_all(&files)?;
    let differences = differences_of(&inputs, args.allow_different)?;
    let merged = merge(&inputs, &differences, command_line)?;
    if let Some(output) = &args.output {
        refuse_input("--output", output, files.iter().map(PathBuf::as_path))?;
        write_json(&sorted(&merged)?, output).with_context(|| {
            format!("the merged result can't be written to {}", output.display())
        })?;
    }
    if args.json {
        return print_json(&sorted(&merged)?);
    }
    print(&page(&inputs, &differences, &merged, args.output.as_deref()))
}

/// The results, each file once.
///
/// # Errors
/// When one can't be understood, or is given twice.
pub(super) fn read_all(files: &[PathBuf]) -> Result<Vec<ResultFile>> {
    let mut seen = BTreeSet::new();
    let mut inputs = Vec::new();
    for file in files {
        let input = ResultFile::read(file)?;
        let real = std::fs::canonicalize(file).unwrap_or_else(|_| file.clone());
        if !seen.insert(real) {
            let what = "it is given twice and would be counted twice; give each result once";
            return Err(FileProblem::new(file, what).into());
        }
        let same = |other: &&ResultFile| other.document == input.document;
        if let Some(other) = inputs.iter().find(same) {
            let what = format!("it is a copy of {} and would be counted twice", other.name());
            return Err(FileProblem::new(file, what).into());
        }
        inputs.push(input);
    }
    Ok(inputs)
}

/// The document with its keys in order, as merged results have always been written.
///
/// # Errors
/// A figure is no JSON.
pub(super) fn sorted(document: &Document) -> Result<serde_json::Value> {
    serde_json::to_value(document).context("the result can't be written as JSON")
}

/// What was not alike; differing settings are refused unless `allowed`.
fn differences_of(inputs: &[ResultFile], allowed: bool) -> Result<Vec<Difference>> {
    let Some((first, rest)) = inputs.split_first() else { return Ok(Vec::new()) };
    let documents: Vec<&Document> = inputs.iter().map(|input| &input.document).collect();
    let is_launch = is_one_launch(&documents);
    let mut all: Vec<Difference> = Vec::new();
    for other in rest {
        let settings = differences::configuration(first, other);
        // What each rank has worked out for its share may differ.
        let is_own = |one: &&Difference| {
            is_launch && ranks::is_worked_out(&first.document, &other.document, &one.key)
        };
        let refused: Vec<&Difference> = settings.iter().filter(|one| !is_own(one)).collect();
        if !refused.is_empty() && !allowed {
            let keys: Vec<String> = refused.iter().map(ToString::to_string).collect();
            return Err(InputError::new(format!(
                "{} and {} were configured differently: {}; what they measured is not the same \
                 thing. Leave one out, or give --allow-different",
                first.name(),
                other.name(),
                keys.join(", ")
            ))
            .into());
        }
        for difference in settings.into_iter().chain(differences::machine(first, other)) {
            if !all.iter().any(|known| known.key == difference.key) {
                all.push(difference);
            }
        }
    }
    Ok(all)
}

fn page(
    inputs: &[ResultFile],
    differences: &[Difference],
    merged: &Document,
    output: Option<&Path>,
) -> String {
    let documents: Vec<&Document> = inputs.iter().map(|input| &input.document).collect();
    let seconds = merged.seconds().unwrap_or(0.0);
    let report = merged.ringfall.merged.as_ref();
    let mut page = match report.and_then(|report| Some((report, report.launch.as_ref()?))) {
        Some((report, launch)) => ranks::page(report, launch, seconds),
        None => format!("{} results, {seconds:.1} s together.", inputs.len()),
    };
    page.push_str(" Percentiles of the merged one are exact: from merged histograms.\n\n");
    page.push_str(&spread_page(&spreads(&documents), Some(merged)));
    for difference in differences {
        page.push_str(&format!("differs: {}\n", terminal(&difference.to_string())));
    }
    if let Some(report) = report.filter(|report| report.launch.is_some()) {
        ranks::table(&mut page, report);
        ranks::warned(&mut page, merged);
    }
    if let Some(output) = output {
        page.push_str(&format!("results      {}\n", terminal_path(output)));
    }
    page
}
