//! `ringfall sweep`: settings × values × trials, each a run of its own, on a real drive or on
//! described ones.

use std::fmt::Write as _;
use std::path::Path;

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
///
/// # Errors
/// A flag, a value or a combination is wrong, which is found before anything runs; or the results
/// can't be kept.
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
fn told(batch: &Batch, report: &Report, collections: &[std::path::PathBuf]) -> String {
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
    let word = |path: &Path| shell(&terminal_path(path));
    match collections {
        [first, second, ..] if done > 0 => {
            let (first, second) = (word(first), word(second));
            let _infallible = writeln!(page, "  compare    ringfall compare {first} {second}");
        }
        _ => {}
    }
    if done > 0 {
        let of = match collections {
            [] => word(&batch.directory),
            all => all.iter().map(|path| word(path)).collect::<Vec<_>>().join(" "),
        };
        let _infallible = writeln!(page, "  all rows   ringfall report {of} --output all.csv");
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_names_failures_and_what_reads_the_results() {
        let jobs = vec![Job::new("x/a", ["run"], 1.0), Job::new("y/a", ["run"], 1.0)];
        let batch = Batch::new("sweep", "r", jobs);
        let failed = Outcome::Failed("exit status 1".to_owned());
        let outcomes = vec![Some(Outcome::Done), Some(failed)];
        let report = Report { outcomes, is_interrupted: false };
        let page = told(&batch, &report, &["r/x".into(), "r/y".into()]);
        for part in [
            "1 of 2 runs done; results in r",
            "failed     y/a: exit status 1 (r/y/a.log)",
            "the same command runs what is not done",
            "ringfall compare r/x r/y",
            "ringfall report r/x r/y --output all.csv",
        ] {
            assert!(page.contains(part), "{part}: {page}");
        }
    }
}
