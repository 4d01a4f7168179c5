//! `ringfall sweep`: settings × values × trials, each a run of its own, on a real drive or on
//! described ones.

use std::fmt::Write as _;
use std::path::PathBuf;

use anyhow::Result;
use ringfall_config::InputError;
use ringfall_host::escape::{shell, terminal, terminal_path};
use ringfall_host::exit::Exit;

use super::{interrupt, print};
use crate::batch::{Batch, Job, Outcome, Report, Screen, duration_text};
use crate::cli::SweepArgs;

mod jobs;
mod space;
mod table;

use jobs::{Described, collections};
use table::GrowingTable;

/// Failed runs that the end of a sweep names.
const FAILURES_SHOWN: usize = 5;

/// Runs the sweep, or lists what it would run.
pub fn run(args: &SweepArgs) -> Result<Exit> {
    refuse(args)?;
    let axes = args.vary.iter().map(|typed| space::axis(typed)).collect::<Result<Vec<_>, _>>()?;
    let points = space::points(args.space, &axes)?;
    let devices = Described::read(&args.device)?;
    let runs = jobs::runs(args, &points, &devices)?;
    let jobs: Vec<Job> = runs.iter().map(|run| run.job.clone()).collect();
    let mut batch = Batch::new("sweep", &args.results, jobs);
    batch.at_once = usize::from(args.jobs);
    if args.dry_run {
        return print(&listed(&batch));
    }
    let quiet = args.run.options.quiet == Some(true);
    let interrupt = interrupt()?;
    let mut screen = Screen::new(quiet);
    let mut table = GrowingTable::new(&runs, &devices);
    let mut has_head = false;
    let report = batch.run(&|| interrupt.is_set(), &mut screen, &mut |ended| {
        let [head, row] = table.lines(&runs[ended.place], ended);
        let head = (!std::mem::replace(&mut has_head, true)).then_some(head);
        head.into_iter().chain([row]).collect()
    })?;
    screen.lines(&table.in_order(&runs, &points));
    let end = told(&batch, &report, &collections(&runs, &args.results));
    screen.lines(&end.lines().map(str::to_owned).collect::<Vec<_>>());
    Ok(report.exit())
}

/// Refuses settings that can be judged before anything is read.
fn refuse(args: &SweepArgs) -> Result<(), InputError> {
    super::refuse_launcher("a sweep")?;
    if args.jobs > 1 && args.device.is_empty() {
        refuse!(
            "--jobs {}: runs on a real drive would disturb each other; leave it out, or give \
             --device to simulate the runs on described drives",
            args.jobs
        );
    }
    Ok(())
}

/// All runs in their order, as they could be typed.
fn listed(batch: &Batch) -> String {
    let mut page = String::new();
    for (place, job) in batch.jobs.iter().enumerate() {
        let output = format!("--output={}", job.output(&batch.directory).display());
        let arguments = job.arguments.iter().chain([&output]).map(|text| shell(text));
        let arguments = terminal(&arguments.collect::<Vec<_>>().join(" "));
        let _infallible = writeln!(page, "{:>5}  ringfall {arguments}", place + 1);
    }
    let _infallible = writeln!(
        page,
        "{} runs, about {}; results would go to {}",
        batch.jobs.len(),
        duration_text(batch.expected_s()),
        terminal_path(&batch.directory)
    );
    page
}

/// Returns the closing summary: how many jobs ended how, and the command that reads the results.
fn told(batch: &Batch, report: &Report, collections: &[PathBuf]) -> String {
    let mut page = String::new();
    let (all, done) = (batch.jobs.len(), report.done());
    let directory = terminal_path(&batch.directory);
    let _infallible = writeln!(page, "\n{done} of {all} runs done; results in {directory}");
    let failures = batch.jobs.iter().zip(&report.outcomes).filter_map(|(job, outcome)| {
        let Some(Outcome::Failed(why)) = outcome else { return None };
        Some((job, why))
    });
    for (job, why) in failures.clone().take(FAILURES_SHOWN) {
        let (why, log) = (terminal(why), terminal_path(&job.log(&batch.directory)));
        let _infallible = writeln!(page, "  failed     {}: {why} ({log})", terminal(&job.name));
    }
    let more = failures.count().saturating_sub(FAILURES_SHOWN);
    if more > 0 {
        let _infallible = writeln!(page, "             and {more} more");
    }
    if done < all {
        let _infallible = writeln!(page, "  continue   the same command runs what is not done");
    }
    let has_result = |directory: &PathBuf| {
        let mut jobs = batch.jobs.iter().zip(&report.outcomes);
        jobs.any(|(job, outcome)| {
            *outcome == Some(Outcome::Done) && job.output(&batch.directory).starts_with(directory)
        })
    };
    let word = |path: &PathBuf| shell(&terminal_path(path));
    let with_results: Vec<_> =
        collections.iter().filter(|path| has_result(path)).map(word).collect();
    if let [first, second, ..] = &with_results[..] {
        let _infallible = writeln!(page, "  compare    ringfall compare {first} {second}");
    }
    if done > 0 {
        let of = match &with_results[..] {
            [] => word(&batch.directory),
            all => all.join(" "),
        };
        let _infallible = writeln!(page, "  all rows   ringfall report {of} --output all.csv");
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(outcomes: [Option<Outcome>; 2]) -> String {
        let jobs = vec![Job::new("x/a", ["run"], 1.0), Job::new("y/a", ["run"], 1.0)];
        let report = Report { outcomes: outcomes.into(), is_interrupted: false };
        told(&Batch::new("sweep", "r", jobs), &report, &["r/x".into(), "r/y".into()])
    }

    #[test]
    fn the_end_names_failures_and_what_reads_the_results() {
        let page = end([Some(Outcome::Done), Some(Outcome::Failed("exit status 1".to_owned()))]);
        for part in [
            "1 of 2 runs done; results in r",
            "failed     y/a: exit status 1 (r/y/a.log)",
            "the same command runs what is not done",
            "ringfall report r/x --output all.csv",
        ] {
            assert!(page.contains(part), "{part}: {page}");
        }
        let page = end([Some(Outcome::Done), Some(Outcome::Done)]);
        for part in ["ringfall compare r/x r/y", "ringfall report r/x r/y --output all.csv"] {
            assert!(page.contains(part), "{part}: {page}");
        }
    }

    /// It named a directory that a sweep interrupted in its first run had never made.
    #[test]
    fn only_directories_with_results_are_named() {
        let page = end([Some(Outcome::Done), None]);
        assert!(!page.contains("compare") && !page.contains("r/y"), "{page}");
        let page = end([None, None]);
        assert!(!page.contains("ringfall report"), "{page}");
    }
}
