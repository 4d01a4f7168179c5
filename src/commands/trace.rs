//! `ringfall trace`: what a recorded trace says before any drive is measured.

use std::path::{Path, PathBuf};

use anyhow::Result;
use ringfall_config::values::PrefillSpeed;
use ringfall_config::{DeviceFile, Facts, InputError, Options, Plan, resolve};
use ringfall_core::units::GIB;
use ringfall_host::Room;
use ringfall_host::exit::Exit;
use ringfall_host::interrupt::Interrupt;
use ringfall_model::write_json;
use ringfall_report::show::{
    PlanDrive, PlanQuestion, SSD_SIZES_MAX, TracePlan, TraceReport, cache_sizes, trace_page,
    trace_plan_page,
};
use ringfall_report::suite::KvSize;
use ringfall_running::source::{Reading, RecordedTrace};
use ringfall_workloads::Error;
use ringfall_workloads::prefill::{PrefillCost, attention_tokens};
use ringfall_workloads::source::{Rows as _, Skipped, TraceFormat};
use ringfall_workloads::trace::TraceFigures;
use serde::Serialize;

use super::run::check_output_writable;
use super::{interrupt, is_stdout, print, print_json, refuse_input, tell, write_form};
use crate::cli::{TraceArgs, TraceCommand, TraceFileArgs, TraceInfoArgs, TracePlanArgs};

/// Memory for distinct blocks where nothing says how much there is.
const MEMORY_BYTES: u64 = GIB;
/// Most sizes of DRAM in a plan: each has a sentence and rows on a page.
const DRAM_SIZES_MAX: usize = 4;

/// Shows a trace, or a plan for it.
pub fn run(args: &TraceArgs) -> Result<Exit> {
    let interrupt = interrupt()?;
    let done = match &args.command {
        TraceCommand::Info(args) => info(args, &interrupt),
        TraceCommand::Plan(args) => plan(args, &interrupt),
    };
    match done {
        // A reading that is interrupted ends as a file that can't be read on.
        Err(error) if error.is::<InputError>() && interrupt.is_set() => {
            ringfall_host::stderr::tell(format_args!("interrupted: nothing was written"));
            Ok(Exit::Interrupted)
        }
        done => done,
    }
}

fn info(args: &TraceInfoArgs, interrupt: &Interrupt) -> Result<Exit> {
    let kv = KvSize::of(&planned(&args.trace, Options::default())?);
    let asked = in_bytes(&args.cache_size);
    let read = ReadTrace::read(&args.trace, interrupt, |format, memory_bytes| {
        let capacities = match format.block_tokens() {
            Some(block_tokens) => {
                let block_bytes = kv.token_bytes * u64::from(block_tokens);
                cache_sizes(&asked).into_iter().map(|bytes| bytes / block_bytes).collect()
            }
            None if asked.is_empty() => Vec::new(),
            None => return Err(without_blocks(format, "leave --cache-size out")),
        };
        Ok(TraceFigures::new(format, capacities, memory_bytes))
    })?;
    let ReadTrace { figures, files, skipped } = read;
    let report = TraceReport::new(&figures, files, skipped, &kv, &asked);
    show(&args.trace, &report, trace_page)
}

fn plan(args: &TracePlanArgs, interrupt: &Interrupt) -> Result<Exit> {
    let speed = Options { prefill_tokens_per_s: args.prefill_tokens_per_s, ..Options::default() };
    let planned = planned(&args.trace, speed)?;
    let kv = KvSize::of(&planned);
    let described = args.device.as_deref().map(DeviceFile::read).transpose()?;
    let doubt = described.as_ref().and_then(|device| device.doubt.clone());
    let question = PlanQuestion {
        drams_bytes: in_bytes(&args.dram_size),
        ssds_bytes: in_bytes(&args.ssd_size),
        policy: args.write_policy.0,
        speed: args.speed,
        prefill: (planned.prefill_tokens_per_s > 0.0).then(|| PrefillCost {
            tokens_per_s: planned.prefill_tokens_per_s,
            // A number was measured with what attention took there.
            attention_tokens: match args.prefill_tokens_per_s {
                Some(PrefillSpeed::On(_)) => attention_tokens(&planned.model_spec),
                _ => None,
            },
        }),
        drive: match args.read_gib_per_s {
            Some(read_gib_per_s) => Some(PlanDrive::reading(read_gib_per_s)),
            None => described.as_ref().map(PlanDrive::described),
        },
    };
    for (flag, sizes, most) in [
        ("--dram-size", &question.drams_bytes, DRAM_SIZES_MAX),
        ("--ssd-size", &question.ssds_bytes, SSD_SIZES_MAX),
    ] {
        if sizes.len() > most {
            refuse!("{flag} has {} sizes: give up to {most}", sizes.len());
        }
    }
    let read = ReadTrace::read(&args.trace, interrupt, |format, memory_bytes| {
        let block_tokens = format.block_tokens().ok_or_else(|| {
            without_blocks(format, "`ringfall trace info` tells its requests and tokens")
        })?;
        let mut figures = TraceFigures::new(format, Vec::new(), memory_bytes);
        figures.reuse.tiers = Some(question.counts(kv.token_bytes * u64::from(block_tokens)));
        Ok(figures)
    })?;
    tell(doubt.as_slice());
    let ReadTrace { figures, files, skipped } = read;
    let report = TracePlan::new(&figures, files, skipped, &kv, question);
    show(&args.trace, &report, trace_plan_page)
}

/// Error of a question about caches to a trace that does not name the blocks of its prompts.
fn without_blocks(format: TraceFormat, remedy: &str) -> Error {
    Error::new(format!(
        "it is of the format {}, which does not name the blocks of a prompt, and without them \
         nobody can tell what a cache would find: traces of Mooncake, of Qwen-Bailian and of \
         kv-cache-tester (cc-traces, AgentX) name them; {remedy}",
        format.name()
    ))
}

/// Plan of a run of the model, which may be the beginning of a name, on no machine.
fn planned(args: &TraceFileArgs, settings: Options) -> Result<Plan, InputError> {
    let typed = Options { model: Some(args.model.clone()), ..settings };
    resolve(&typed, None, &Facts::look().of_no_machine())
}

/// Sizes in GiB as bytes, ascending.
fn in_bytes(sizes_gib: &[f64]) -> Vec<u64> {
    let mut sizes: Vec<u64> = sizes_gib.iter().map(|gib| (gib * GIB as f64) as u64).collect();
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

struct ReadTrace {
    figures: TraceFigures,
    files: Vec<String>,
    skipped: Skipped,
}

impl ReadTrace {
    /// Adds all of a trace to what `figures_of` begins with, given the format and the memory for
    /// distinct blocks; a trace that it refuses is not read.
    fn read(
        args: &TraceFileArgs,
        interrupt: &Interrupt,
        figures_of: impl FnOnce(TraceFormat, u64) -> Result<TraceFigures, Error>,
    ) -> Result<ReadTrace> {
        let file = file_of(args);
        if let Some(output) = file {
            check_output_writable("--json", output)?;
        }
        let ended = interrupt.clone();
        let reading = Reading::new(move || ended.is_set(), true);
        let unread = |error: Error| InputError::new(error.to_string());
        let opened = RecordedTrace::open(&args.path, args.named_format(), &reading);
        let mut trace = opened.map_err(unread)?;
        if let Some(output) = file {
            refuse_input("--json", output, trace.files().iter().map(PathBuf::as_path))?;
        }
        let memory_bytes = Room::look().memory.map_or(MEMORY_BYTES, |room| room.asked_bytes_max());
        let wrong = |error| InputError::new(format!("{}: {error}", args.path.display()));
        let mut figures = figures_of(trace.format(), memory_bytes).map_err(wrong)?;
        while let Some(row) = trace.next_row().map_err(unread)? {
            figures.add(&row).map_err(wrong)?;
        }
        if figures.input_tokens.numbers == 0 {
            let format = trace.format().name();
            let remedy = match args.named_format() {
                Some(_) => "",
                None => ", by its first row: if it is of another one, name that with --format",
            };
            let wanted = format!("it is read as a trace of the format {format}{remedy}");
            return Err(wrong(trace.skipped().nothing_left(&wanted)).into());
        }
        let files = trace.files().iter().map(|path| path.display().to_string()).collect();
        Ok(ReadTrace { figures, files, skipped: trace.skipped() })
    }
}

/// File that is to have the figures; none where they are printed, or not wanted.
fn file_of(args: &TraceFileArgs) -> Option<&Path> {
    args.json.as_deref().filter(|output| !is_stdout(output))
}

/// Writes and prints a report in the forms that were asked for.
fn show<T: Serialize>(
    args: &TraceFileArgs,
    report: &T,
    page: impl FnOnce(&T) -> String,
) -> Result<Exit> {
    let written = write_form(file_of(args), "the figures", |path| write_json(report, path));
    // What was found is shown also when it could not be kept.
    let shown = match args.json.as_deref().is_some_and(is_stdout) {
        true => print_json(report),
        false => print(&page(report)),
    };
    written.and(shown)
}
