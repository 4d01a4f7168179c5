//! Several results as one: `ringfall report` into a .json file, or by its older name `ringfall
//! merge`.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hasher as _};
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

mod ranks;

use ranks::Expanded;
use ringfall_host::escape::{terminal, terminal_path};
use ringfall_host::exit::Exit;
use ringfall_model::document::{FileProblem, InputFacts, ResultFile, why_early};
use ringfall_model::merge::{is_one_launch, merge, merge_outlined};
use ringfall_model::spread::spreads;
use ringfall_model::{Code, Document, write_json, write_text};
use ringfall_report::analysis::differences;
use ringfall_report::analysis::differences::Difference;

use super::{print, print_json, refuse_input, spread_page, tell, write_form};
use crate::cli::MergeArgs;

/// Reads the results, merges them, and prints or writes what they are together.
pub fn run(args: &MergeArgs, command_line: &[String]) -> Result<Exit> {
    let expanded = ranks::expanded(&args.files)?;
    let mut merged = match &expanded {
        Expanded::Results(files) => merge_files(files, args.allow_different, command_line)?,
        Expanded::Trials(trials) => merge_trials(trials, args.allow_different, command_line)?,
    };
    let warnings = merged.document.ringfall.warnings.iter();
    let contradicting = warnings.filter(|warning| warning.code == Code::ContradictsItself);
    tell(&contradicting.map(|warning| warning.text.clone()).collect::<Vec<_>>());
    let is_to_stdout = args.output.as_deref() == Some(Path::new("-"));
    let mut written = Ok(());
    if let Some(output) = args.output.as_ref().filter(|_| !is_to_stdout) {
        refuse_input("--output", output, expanded.files())?;
        let document = sorted(&merged.document)?;
        written = write_form(Some(output), "the merged result", |path| write_json(&document, path));
        if written.is_ok() {
            merged.page.push_str(&format!("results      {}\n", terminal_path(output)));
        }
    }
    let exit = match args.json || is_to_stdout {
        true => print_json(&sorted(&merged.document)?)?,
        false => print(&merged.page)?,
    };
    written.map(|()| exit)
}

/// Merges the ranks of each trial, and then the trials.
fn merge_trials(
    trials: &[Vec<PathBuf>],
    allow_different: bool,
    command_line: &[String],
) -> Result<Merged> {
    let (mut merged, mut measured) = (Vec::new(), Measured::default());
    for (number, files) in (1..).zip(trials) {
        let document = merge_files(files, allow_different, command_line)?.document;
        let path = PathBuf::from(format!("trial {number}"));
        measured.add(&path, &document)?;
        merged.push(ResultFile { path, document });
    }
    let differences = differences_of(&merged, allow_different)?;
    let mut document = merge(&merged, &differences, command_line)?;
    if let Some(about) = &mut document.ringfall.merged {
        about.trials_asked = u32::try_from(trials.len()).ok();
    }
    let ranks = trials.iter().map(Vec::len).max().unwrap_or(0);
    let mut page = format!("{} trials of {ranks} ranks each.", trials.len());
    page.push_str(EXACT);
    let documents: Vec<&Document> = merged.iter().map(|trial| &trial.document).collect();
    page.push_str(&spread_page(&spreads(&documents), &document));
    page.push_str(&ended_early(&merged));
    Ok(Merged { document, page })
}

/// A line for each result of a run that failed or was interrupted.
fn ended_early(inputs: &[ResultFile]) -> String {
    let told = |input: &ResultFile| {
        let why = why_early(&input.document)?;
        Some(terminal(&format!("ended early: {}: {why}", input.name())) + "\n")
    };
    inputs.iter().filter_map(told).collect()
}

/// Sentence about percentiles that every merged result's page carries.
const EXACT: &str = " Percentiles of the merged one are exact: from merged histograms.\n\n";

pub(super) struct Merged {
    /// All of them together.
    pub document: Document,
    /// Text of the page for the terminal.
    pub page: String,
}

/// Merges the results in those files, of which memory holds one at a time.
pub(super) fn merge_files(
    files: &[PathBuf],
    allow_different: bool,
    command_line: &[String],
) -> Result<Merged> {
    let outlines = outlines_of(files)?;
    let differences = differences_of(&outlines, allow_different)?;
    let document = merge_outlined(&outlines, &differences, command_line, &mut |outline| {
        Ok(ResultFile::read(&outline.path)?.document)
    })?;
    let page = page(&outlines, &differences, &document);
    Ok(Merged { document, page })
}

struct Content(DefaultHasher);

impl Write for Content {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.write(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Latencies of the results so far, by hashes of their histograms: two measurements never have the
/// same, to the nanosecond, so a copy is known by them whatever else in it was changed.
#[derive(Default)]
struct Measured(BTreeMap<u64, PathBuf>);

impl Measured {
    /// Adds a result, and refuses a copy of another, if it is of a drive: a simulation has the same
    /// latencies each time.
    fn add(&mut self, path: &Path, document: &Document) -> Result<()> {
        let ours = &document.ringfall;
        if ours.simulation.is_some() || document.requests_completed.known().unwrap_or(0) == 0 {
            return Ok(());
        }
        let mut content = Content(DefaultHasher::new());
        serde_json::to_writer(&mut content, &ours.histograms)?;
        let Some(other) = self.0.insert(content.0.finish(), path.to_path_buf()) else {
            return Ok(());
        };
        let what = format!(
            "its latencies are those of {}, to the nanosecond: it is a copy, whatever else differs \
             in it, and would be counted twice",
            other.display()
        );
        Err(FileProblem::new(path, what).into())
    }
}

/// The outlines of the results, each file once.
fn outlines_of(files: &[PathBuf]) -> Result<Vec<ResultFile>> {
    let (mut runs, mut measured) = (BTreeMap::new(), Measured::default());
    let mut outlines = Vec::new();
    each_once(files, |file, input| {
        measured.add(file, &input.document)?;
        let is_merged = input.document.ringfall.merged.is_some();
        for run in InputFacts::runs_in(&input.name(), &input.document) {
            let Some(identity) = run.identity() else { continue };
            // Two runs may look alike (simulated ones begin when they like); a part of a merged
            // result and the part itself do not by chance.
            if let Some((other, was_merged)) = runs.insert(identity, (file.clone(), is_merged))
                && other != *file
                && (is_merged || was_merged)
            {
                return Err(contained(file, &other, &run.file).into());
            }
        }
        outlines.push(ResultFile { path: input.path, document: input.document.outline() });
        Ok(())
    })?;
    Ok(outlines)
}

/// Reads the results one by one, for `take`; none may be given twice.
fn each_once(
    files: &[PathBuf],
    mut take: impl FnMut(&PathBuf, ResultFile) -> Result<()>,
) -> Result<()> {
    let mut seen = BTreeSet::new();
    let mut contents: BTreeMap<u64, &Path> = BTreeMap::new();
    for file in files {
        let input = ResultFile::read(file)?;
        if !seen.insert(std::fs::canonicalize(file).unwrap_or_else(|_| file.clone())) {
            let what = "it is given twice and would be counted twice; give each result once";
            return Err(FileProblem::new(file, what).into());
        }
        // By its content, since nothing else of it may be kept.
        let mut content = Content(DefaultHasher::new());
        write_text(&input.document, &mut content)?;
        if let Some(other) = contents.insert(content.0.finish(), file) {
            let other = other.display();
            let what = format!("it is a copy of {other} and would be counted twice");
            return Err(FileProblem::new(file, what).into());
        }
        take(file, input)?;
    }
    Ok(())
}

fn contained(file: &Path, other: &Path, run: &str) -> FileProblem {
    let text = format!(
        "it holds the run {run}, which {} holds too and which would be counted twice: give the \
         merged result or those it was merged from",
        other.display()
    );
    FileProblem::new(file, text)
}

/// The results, each file once.
pub(super) fn read_all(files: &[PathBuf]) -> Result<Vec<ResultFile>> {
    let mut inputs: Vec<ResultFile> = Vec::new();
    each_once(files, |_, input| {
        inputs.push(input);
        Ok(())
    })?;
    Ok(inputs)
}

/// The document with its keys in order, as merged results have always been written.
pub(super) fn sorted(document: &Document) -> Result<serde_json::Value> {
    serde_json::to_value(document).context("the result can't be written as JSON")
}

/// Lists the differences between the inputs; differing settings are refused unless `allowed`.
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
            refuse!(
                "{} and {} were configured differently: {}; what they measured is not the same \
                 thing. Leave one out, or give --allow-different",
                first.name(),
                other.name(),
                keys.join(", ")
            );
        }
        all.extend(settings.into_iter().chain(differences::machine(first, other)));
    }
    Ok(differences::each_once(all))
}

fn page(inputs: &[ResultFile], differences: &[Difference], merged: &Document) -> String {
    let documents: Vec<&Document> = inputs.iter().map(|input| &input.document).collect();
    let seconds = merged.seconds().unwrap_or(0.0);
    let report = merged.ringfall.merged.as_ref();
    let mut page = match report.and_then(|report| Some((report, report.launch.as_ref()?))) {
        Some((report, launch)) => ranks::page(report, launch, seconds),
        None => format!("{} results, {seconds:.1} s together.", inputs.len()),
    };
    page.push_str(EXACT);
    page.push_str(&spread_page(&spreads(&documents), merged));
    for difference in differences {
        page.push_str(&format!("differs: {}\n", terminal(&difference.to_string())));
    }
    match report.filter(|report| report.launch.is_some()) {
        Some(report) => {
            ranks::table(&mut page, report);
            ranks::warned(&mut page, merged);
        }
        None => page.push_str(&ended_early(inputs)),
    }
    page
}

#[cfg(test)]
mod tests {
    use ringfall_host::Scratch;
    use ringfall_model::testing::{run, to_json};

    use super::*;

    /// With another start it was taken for another run.
    #[test]
    fn a_copy_is_known_by_its_latencies_whatever_its_start() {
        let scratch = Scratch::new("copies");
        let result = run(0..40, 10.0);
        let mut later = result.clone();
        later.window.start_unix_s += 3.0;
        let [one, copy, other] =
            [("one", &result), ("copy", &later), ("other", &run(40..80, 10.0))]
                .map(|(name, result)| scratch.file(name, to_json(result).to_string()));
        let error = merge_files(&[one.clone(), copy], false, &[]).err().unwrap().to_string();
        assert!(error.contains("copy: its latencies are those of"), "{error}");
        merge_files(&[one, other], false, &[]).unwrap();
    }
}
