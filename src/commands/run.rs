//! `ringfall run`: from a plan to a result.

use std::ffi::OsStr;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use ringfall_engine::device::is_block_device;
use ringfall_workloads::source::ValidationTrace;

use crate::blocktrace::BlockTrace;
use crate::config::{self, InputError, Plan, RooflineFrom, Traffic};
use crate::escape::terminal_path;
use crate::exit::Exit;
use crate::interrupt::Interrupt;
use crate::results::{REFUSED_SHARE_MAX, RunResult, judge, warnings_of};
use crate::run::{self, Load};
use crate::saturate::Roofline;
use crate::show::progress::ProgressLine;
use crate::source::{self, OpenSource, Reading};

mod document;
mod outputs;
mod prepare;
mod ranks;
mod result;
mod screen;
mod settings;
mod shortages;
pub(super) mod simulated;
mod teller;
mod trials;

use document::document_of;
pub(super) use outputs::{all_outputs, check_output_writable, check_outputs_apart, write_fio_job};
use outputs::{check_outputs, write_results};
use result::result_of;
use screen::{output, show, unless_reader_left};
pub(super) use settings::cores_near;
use teller::Teller;

/// Runs the plan and writes its results.
///
/// # Errors
/// When the run could not begin or could not go on, or its results could not be written.
pub fn run(plan: &Plan, command_line: Vec<String>) -> Result<Exit> {
    let interrupt = || Interrupt::install().context("no handler for Ctrl-C can be installed");
    if plan.io_trace_log.is_some() {
        return simulated::logical(plan, command_line);
    }
    if plan.trials > 1 {
        return trials::run(plan, command_line, &interrupt);
    }
    check_outputs(plan)?;
    check_device_may_be_destroyed(plan)?;
    tell_advice(plan);
    // Before the handler is there, Ctrl-C ends the reading with the process.
    let sources = Sources::open(plan, &Reading::new(|| false, !plan.quiet))?;
    let result = measure(plan, sources, command_line, &interrupt()?, !plan.quiet)?;
    let document = document_of(&result.0);
    let written = write_results(plan, &document);
    // What was measured is shown also when it could not be kept.
    unless_reader_left(show(plan, &result.0, &document, written.is_ok()))?;
    written?;
    result.1?;
    Ok(exit_of(&result.0))
}

/// Says what of the plan can't be met as it may have been meant.
fn tell_advice(plan: &Plan) {
    super::tell(&config::advice(plan));
}

/// What a run reads before it begins.
struct Sources {
    opened: OpenSource,
    validation: Option<ValidationTrace>,
    roofline: Option<(String, Roofline)>,
}

impl Sources {
    fn open(plan: &Plan, reading: &Reading) -> Result<Sources> {
        let validation = source::open_validation(plan, reading)?;
        if let (Traffic::ShareGpt { path, .. }, false) = (&plan.traffic, plan.quiet) {
            // A large one takes a minute to count.
            unless_reader_left(
                writeln!(output(plan), "reading {}…", terminal_path(path)).map_err(Into::into),
            )?;
        }
        let roofline = match &plan.roofline {
            Some(RooflineFrom::File(path)) => {
                Some((path.display().to_string(), Roofline::read(path)?))
            }
            Some(RooflineFrom::Fresh) | None => None,
        };
        let opened = source::open(plan, reading)?;
        let files = opened.facts.files.iter().map(Path::new);
        let mut inputs: Vec<&Path> = files.chain(plan.validation_trace.as_deref()).collect();
        // A raw device, that is.
        inputs.extend(plan.cache_dirs.iter().map(PathBuf::as_path));
        if let Some(RooflineFrom::File(path)) = &plan.roofline {
            inputs.push(path);
        }
        for (flag, output) in all_outputs(plan) {
            super::refuse_input(flag, output, inputs.iter().copied())?;
        }
        Ok(Sources { opened, validation, roofline })
    }
}

/// Runs the plan once: what was measured, and whether cleaning up worked.
fn measure(
    plan: &Plan,
    sources: Sources,
    command_line: Vec<String>,
    interrupt: &Interrupt,
    with_banner: bool,
) -> Result<(RunResult, Result<()>)> {
    let workload = Arc::new(plan.workload_config());
    let mut settings = settings::engine(plan);
    settings.start = ranks::start(plan, settings.start)?;
    let mut teller = Teller::new(plan, &workload, interrupt);
    teller.with_banner = with_banner;
    let Sources { opened, validation, roofline } = sources;
    let load = Load { config: workload, source: opened.workload, rows: opened.rows };
    let outcome = run::run(&settings, load, interrupt, &mut teller)?;
    let block_trace = teller.trace.take().map(|trace| trace.and_then(BlockTrace::finish));
    unless_reader_left(
        teller.progress.as_mut().map_or(Ok(()), ProgressLine::finish).map_err(Into::into),
    )?;
    let (mut result, cleaned) = result_of(plan, command_line, &teller, outcome);
    result.source = opened.facts;
    result.validation = validation;
    result.block_trace = block_trace;
    result.roofline = result.roofline.or(roofline);
    result.warnings = warnings_of(&result);
    Ok((result, cleaned))
}

/// A flag that is missing, or a path that may be meant otherwise, is a mistake of usage, found
/// before anything is opened.
fn check_device_may_be_destroyed(plan: &Plan) -> Result<()> {
    let together = plan.cache_dirs.iter().map(|path| path.as_os_str()).collect::<Vec<_>>();
    let together = Path::new(&together.join(OsStr::new(","))).to_owned();
    if plan.cache_dirs.len() > 1 && together.exists() {
        let escaped = together.display().to_string().replace(',', "\\,");
        let what = format!(
            "--cache-dir: there is a directory {}, and a comma separates two: write {escaped} if \
             that is meant, or rename it",
            together.display()
        );
        return Err(InputError::new(what).into());
    }
    let device = plan.cache_dirs.iter().find(|path| is_block_device(path));
    match device {
        Some(path) if !plan.destroy_device_contents => Err(InputError {
            sentences: vec![format!(
                "--cache-dir {} is a block device, and a run would write over it: give \
                 --destroy-device-contents if nothing on it is needed",
                path.display()
            )],
        }
        .into()),
        _ => Ok(()),
    }
}

fn exit_of(result: &RunResult) -> Exit {
    if result.interrupted {
        return Exit::Interrupted;
    }
    let failed = result.failure.is_some()
        || !result.errors.is_empty()
        || result.engine.verify.blocks_bad > 0
        || result.requests.refused_share() > REFUSED_SHARE_MAX
        || result.population_failed > 0;
    let unhealthy = result.plan.fail_on_health && judge(result).overall_status == "FAIL";
    if failed || unhealthy { Exit::Failed } else { Exit::Done }
}
