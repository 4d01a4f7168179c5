//! `ringfall mlperf report`: a run that is there already, added up and shown.

use std::path::{Path, PathBuf};

use anyhow::Result;
use ringfall_foreign::mlperf::aggregate::{Added, Shape, add_up};
use ringfall_foreign::mlperf::metadata::Departures;
use ringfall_host::exit::Exit;
use ringfall_report::show::{MlperfRun, mlperf_text, write_mlperf_html};

use crate::cli::MlperfReportArgs;
use crate::commands::{print, print_json, refuse_input, write_form};

/// Adds up and shows.
pub(super) fn run(args: &MlperfReportArgs, command_line: &[String]) -> Result<Exit> {
    let added = read(&args.run, command_line)?;
    let baseline = args.baseline.as_deref().map(|path| read(path, command_line)).transpose()?;
    let shown = shown(&args.run, &added, args.baseline.as_deref().zip(baseline.as_ref()));
    let page = args.html_output.as_deref();
    if let Some(page) = page {
        for run in [Some(&args.run), args.baseline.as_ref()].into_iter().flatten() {
            let files = Shape::found(run).files(run);
            refuse_input("--html-output", page, files.iter().map(PathBuf::as_path))?;
        }
    }
    let written = write_form(page, "the page", |path| write_mlperf_html(&shown, path));
    let exit = match args.json {
        true => print_json(&added.summary)?,
        false => print(&mlperf_text(&shown))?,
    };
    written.map(|()| exit)
}

pub(super) fn shown<'a>(
    run: &'a Path,
    added: &'a Added,
    baseline: Option<(&'a Path, &'a Added)>,
) -> MlperfRun<'a> {
    let baseline = baseline.map(|(path, added)| (path, &added.summary));
    MlperfRun { path: run, summary: &added.summary, baseline }
}

/// Adds up the run in that directory.
pub(super) fn read(run: &Path, command_line: &[String]) -> Result<Added> {
    let shape = Shape::found(run);
    if shape.ranks == 0 {
        refuse!(
            "{} holds no run (option_1/trial_0/rank_0/kvcache_results_TIME.json and so on): give \
             the directory that holds option_1",
            run.display()
        );
    }
    let mut added = add_up(run, &shape, command_line);
    if let Some(departures) = Departures::read(run) {
        departures.note(&mut added.summary);
    }
    Ok(added)
}
