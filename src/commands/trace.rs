//! `ringfall trace`: what a recorded trace says before any drive is measured.

use std::path::PathBuf;

use anyhow::Result;
use ringfall_config::{Facts, InputError, Options, resolve};
use ringfall_core::units::GIB;
use ringfall_host::Room;
use ringfall_host::exit::Exit;
use ringfall_host::interrupt::Interrupt;
use ringfall_model::write_json;
use ringfall_report::show::{TraceReport, cache_sizes, trace_page};
use ringfall_report::suite::KvSize;
use ringfall_running::source::{PromptTrace, Reading};
use ringfall_workloads::trace::TraceFigures;

use super::run::check_output_writable;
use super::{interrupt, is_stdout, print, print_json, refuse_input, write_form};
use crate::cli::{TraceArgs, TraceCommand, TraceInfoArgs};

/// Memory for distinct blocks where nothing says how much there is.
const MEMORY_BYTES: u64 = GIB;

/// Runs the subcommand.
///
/// # Errors
/// An argument is invalid, the trace can't be read, or an output can't be written.
pub fn run(args: &TraceArgs) -> Result<Exit> {
    let TraceCommand::Info(args) = &args.command;
    let interrupt = interrupt()?;
    match info(args, &interrupt) {
        // A reading that is interrupted ends as a file that can't be read on.
        Err(error) if error.is::<InputError>() && interrupt.is_set() => {
            ringfall_host::stderr::tell(format_args!("interrupted: nothing was written"));
            Ok(Exit::Interrupted)
        }
        done => done,
    }
}

fn info(args: &TraceInfoArgs, interrupt: &Interrupt) -> Result<Exit> {
    let file = args.json.as_deref().filter(|output| !is_stdout(output));
    if let Some(output) = file {
        check_output_writable("--json", output)?;
    }
    // The model may be the beginning of a name.
    let typed = Options { model: Some(args.model.clone()), ..Options::default() };
    let kv = KvSize::of(&resolve(&typed, None, &Facts::look().of_no_machine())?);
    let asked: Vec<u64> = args.cache_size.iter().map(|gib| (gib * GIB as f64) as u64).collect();
    let ended = interrupt.clone();
    let reading = Reading::new(move || ended.is_set(), true);
    let mut trace = PromptTrace::open(&args.path, args.named_format(), &reading)?;
    if let Some(output) = file {
        refuse_input("--json", output, trace.files().iter().map(PathBuf::as_path))?;
    }
    let format = trace.format();
    let block_bytes = kv.token_bytes * u64::from(format.block_tokens());
    let capacities = cache_sizes(&asked).into_iter().map(|bytes| bytes / block_bytes).collect();
    let memory_bytes = Room::look().memory.map_or(MEMORY_BYTES, |room| room.asked_bytes_max());
    let mut figures = TraceFigures::new(format, capacities, memory_bytes);
    let wrong = |error| InputError::new(format!("{}: {error}", args.path.display()));
    while let Some(row) = trace.next_row()? {
        figures.add(&row).map_err(wrong)?;
    }
    if figures.input_tokens.numbers == 0 {
        let wanted = format!("it is read as a trace of the format {}", format.name());
        return Err(wrong(trace.skipped().nothing_left(&wanted)).into());
    }
    let files = trace.files().iter().map(|path| path.display().to_string()).collect();
    let report = TraceReport::new(&figures, files, trace.skipped(), &kv, &asked);
    let written = write_form(file, "the figures", |path| write_json(&report, path));
    // What was found is shown also when it could not be kept.
    let shown = match args.json.as_deref().is_some_and(is_stdout) {
        true => print_json(&report),
        false => print(&trace_page(&report)),
    };
    written.and(shown)
}
