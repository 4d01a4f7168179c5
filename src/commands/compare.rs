//! `ringfall compare`: how two results differ, how sure that is, and what to go by; also two
//! collections of results, two answers of `ringfall quick`, and one with the result of its check.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use anyhow::Result;
use ringfall_config::{InputError, PUBLISHED_SYSTEMS};
use ringfall_host::escape::terminal;
use ringfall_host::exit::Exit;
use ringfall_model::document::{Kind, ResultFile};
use ringfall_model::metrics::Metric;
use ringfall_report::analysis::compare::{Comparison, compare};
use ringfall_report::quick::QuickReport;
use ringfall_report::show::{beside_page, check_page, comparison_table};

use super::merge::read_all;
use super::{analyze, print, print_json, wrapped};
use crate::cli::CompareArgs;

/// Note in the place of figures that say nothing of each other.
const DETAILS: &str = "--details prints the figures of both all the same";

/// Explanation of the words before the metrics to go by, and of those in the names of metrics.
const LEGEND: &str = "go by: the conclusion rests on it; also: it shows less, and counts where two \
                      agree; not by: it misleads in this configuration. Decode bytes are those \
                      of contexts that were read to generate tokens. Metrics of finished requests \
                      (their latencies and storage I/O) leave out those that had not finished.";

/// Reads both sides and prints how they differ.
pub fn run(args: &CompareArgs) -> Result<Exit> {
    if args.files.len() == 1 {
        let what = "one result is given: give the one to compare it with too, or several of each \
                    with --baseline and --candidate";
        return Err(InputError::new(what).into());
    }
    let table = &args.table;
    if let [first, second] = &args.files[..] {
        if [first, second].into_iter().any(|path| is_collection(path)) {
            return analyze::run(first, second, table);
        }
        if [first, second].into_iter().any(|path| QuickReport::is_in(path)) {
            return with_answer(first, second, table.json);
        }
    }
    if !table.by.is_empty() || table.sort.is_some() {
        refuse!("--by and --sort are for two collections: give two directories of results");
    }
    let side = |given: &[PathBuf], at: usize| match args.files.get(at) {
        Some(file) => vec![file.clone()],
        None => given.to_vec(),
    };
    let baseline = read_all(&side(&args.baseline, 0))?;
    let candidate = read_all(&side(&args.candidate, 1))?;
    let comparison = compare(baseline, candidate)?;
    if table.json {
        return print_json(&comparison);
    }
    print(&page(&comparison, table.details))
}

/// Whether a path is one of several results, by what it is or by its name.
fn is_collection(path: &Path) -> bool {
    let ending = path.extension().map(|ending| ending.to_string_lossy().to_ascii_lowercase());
    path.is_dir() || ending.is_some_and(|ending| matches!(&*ending, "xlsx" | "csv"))
}

/// Prints two answers of `ringfall quick` side by side, or one and the result of its check. A pipe,
/// which can be read but once, is left to the reading.
fn with_answer(first: &Path, second: &Path, is_json: bool) -> Result<Exit> {
    let is_other = |path: &Path| path.is_file() && !QuickReport::is_in(path);
    if is_json {
        refuse!(
            "--json: an answer of `ringfall quick` is set beside another, or beside its check, as \
             text alone: leave out --json; the figures are in the JSON of each"
        );
    }
    match (is_other(first), is_other(second)) {
        (false, false) => answers(first, second),
        (true, _) => checked(second, first),
        (false, true) => checked(first, second),
    }
}

/// Reads an answer of `ringfall quick`.
pub(super) fn read_answer(path: &Path) -> Result<QuickReport, InputError> {
    QuickReport::read(path).map_err(|problem| InputError::new(problem.to_string()))
}

/// Prints an answer of `ringfall quick` beside the result of its check.
fn checked(answer: &Path, result: &Path) -> Result<Exit> {
    let report = read_answer(answer)?;
    let file = ResultFile::read(result).map_err(|problem| InputError::new(problem.to_string()))?;
    let (answer, result) = (answer.display(), result.display());
    if file.kind() != Kind::Run {
        refuse!(
            "{result} is no answer of `ringfall quick`, and {answer} is one: compare two answers, \
             two results of runs, or an answer and the result of its check"
        );
    }
    match report.checked_by(&file.document) {
        Ok(check) => print(&check_page(&report, &check)),
        Err(differences) => refuse!(
            "{result} is not of the check of {answer}: {differences}; that is: {}",
            report.check_line("check.json")
        ),
    }
}

/// Prints two answers of `ringfall quick` side by side.
fn answers(first: &Path, second: &Path) -> Result<Exit> {
    let (first, second) = (read_answer(first)?, read_answer(second)?);
    let (first, second) = (first.told_from(&second, 1), second.told_from(&first, 2));
    let mut page = String::new();
    for answer in [&first, &second] {
        wrapped(&mut page, "", &format!("{}: {}", answer.place, answer.verdict));
    }
    page.push_str(&beside_page(&first, &second));
    print(&page)
}

fn page(comparison: &Comparison, with_details: bool) -> String {
    let mut page = String::new();
    for (name, files) in [("baseline", &comparison.baseline), ("candidate", &comparison.candidate)]
    {
        let _infallible = writeln!(page, "{name:<10} {}", terminal(&files.join(" ")));
    }
    let is_comparable = comparison.is_comparable;
    let conclude = |page: &mut String| wrapped(page, "conclusion ", &comparison.conclusion);
    if !is_comparable {
        conclude(&mut page);
    }
    for caution in &comparison.cautions {
        wrapped(&mut page, "CAUTION    ", caution);
    }
    let has_figures = is_comparable || (with_details && !comparison.rows.is_empty());
    if has_figures {
        figures(&mut page, comparison, with_details);
    }
    for difference in
        comparison.configuration_differences.iter().chain(&comparison.machine_differences)
    {
        wrapped(&mut page, "differs    ", &difference.to_string());
    }
    if has_figures {
        for cold in &comparison.cold_reads {
            wrapped(&mut page, "cold reads ", &format!("{}: {}", cold.side, cold.reads.told));
        }
        for note in &comparison.notes {
            wrapped(&mut page, "note       ", note);
        }
    } else if !comparison.rows.is_empty() {
        wrapped(&mut page, "note       ", DETAILS);
    }
    if is_comparable {
        page.push('\n');
        conclude(&mut page);
    }
    page
}

/// Writes the metrics of both, and what was published for the preset that was run; with details all
/// metrics, which of them to go by, and what was published for each of those.
fn figures(page: &mut String, comparison: &Comparison, with_details: bool) {
    let table = comparison_table(comparison, with_details);
    let _infallible = writeln!(page, "\n{}", table.page());
    for advice in comparison.trust.iter().filter(|_| with_details) {
        let word = advice.trust.name();
        let title = Metric::title_of(advice.metric);
        wrapped(page, &format!("{word:<10} "), &format!("{title}: {}", advice.told()));
    }
    if with_details && !comparison.trust.is_empty() {
        wrapped(page, "words      ", LEGEND);
    }
    for row in &comparison.published {
        let title = Metric::title_of(row.metric);
        let here = row.here.map_or("–".to_owned(), |here| format!("{here:.2}×"));
        let text = format!(
            "{}: {title} {:.2}× for {PUBLISHED_SYSTEMS}; here {here}",
            row.preset, row.published
        );
        wrapped(page, "published  ", &text);
    }
}
