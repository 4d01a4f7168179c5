//! A run without a drive: the same plan on a simulated clock, to the same results.

use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result};
use ringfall_config::values::{Auto, Mib};
use ringfall_config::{Depth, DeviceFile, GpuModel, InputError, MEMORY_LATENCY, Plan, TraceEpoch};
use ringfall_core::clock::{MICROSECOND, Nanos, monotonic_now};
use ringfall_core::model::DeviceModel;
use ringfall_core::units::MIB;
use ringfall_host::exit::Exit;
use ringfall_host::interrupt::Interrupt;
use ringfall_model::facts::{DriveOutcome, SimulationFigures};
use ringfall_model::{
    Alternatives, Code, Document, IoTraceReport, NO_DRIVE, NO_DRIVE_SOURCE, RunResult,
    SimulationReport, Warning, warnings_of,
};
use ringfall_report::show::who;
use ringfall_running::iotrace::{FIXED_EPOCH_S, TraceWriter};
use ringfall_running::run;
use ringfall_running::run::{Assignment, BEGIN};
use ringfall_running::source::Reading;

use super::alternatives::alternatives;
use super::result::begun_unix_s;
use super::{
    Begin, Sources, Teller, WasRead, all_outputs, check_outputs, concluded, gpu, progress_line,
    result_of, settings, show, write_results,
};
use crate::commands::{interrupt, none_of, tell_error};

/// Duration of an I/O when no drive is simulated: it is above zero, or users without pauses would
/// do infinitely much in no time.
const IDEAL: Nanos = MICROSECOND;
const LOGICAL_IO_BYTES: u32 = 64 << 20;
const LOGICAL_DEPTH: u32 = 16;
/// The storage tier when no size is given: larger than any run fills.
const STORAGE_BYTES_DEFAULT: u64 = 1 << 46;

/// Runs the plan without any drive, for its logical trace.
pub fn logical(plan: &Plan, command_line: Vec<String>) -> Result<Exit> {
    if plan.depth_search.is_some() {
        let what = "--queue-depth auto has no effect with --io-trace-log: no drive is asked whose \
                    depth could be found, and the warm-up would only be longer; leave it out";
        return Err(InputError::new(what).into());
    }
    let ideal = DeviceFile {
        doubt: None,
        name: NO_DRIVE.to_owned(),
        source: NO_DRIVE_SOURCE.to_owned(),
        model: DeviceModel::ideal(IDEAL),
        drives: 1,
        memory_bytes_per_s: 1e18,
        gpu: GpuModel {
            capacity_bytes: None,
            link_bytes_per_s: 1e18,
            memory_bytes_per_s: 1e18,
            latency: MEMORY_LATENCY,
        },
    };
    let layout = plan.layout_plan.is_some().then(|| "--layout".to_owned());
    let of_a_drive = plan.asked_of_a_drive().into_iter().map(|(flag, _)| flag);
    none_of(of_a_drive.chain(layout).map(|flag| {
        let more = match &*flag {
            "--cache-dir" => " (a plain DIR is --cache-dir)",
            // In the rows of a trace, a layout shows in the number of reads alone.
            "--layout" => {
                "; a row is a whole entry, whatever its files are, and --decode-reads once reads \
                 entries as often as a run with a layout"
            }
            _ => "",
        };
        format!(
            "{flag} has no effect with --io-trace-log, with which a run moves no byte: leave one \
             of them out{more}"
        )
    }))?;
    // Entries in one piece, as far as may be: nobody looks at the I/Os.
    let mut plan = plan.clone();
    let shards = u64::from(plan.shards);
    plan.io_size_bytes = LOGICAL_IO_BYTES;
    plan.queue_depth = LOGICAL_DEPTH;
    let buffer_mib = u64::from(LOGICAL_IO_BYTES) * u64::from(LOGICAL_DEPTH) * shards / MIB;
    plan.io_buffer_bytes = buffer_mib * MIB;
    plan.effective.queue_depth = Some(Depth::Given(i64::from(LOGICAL_DEPTH)));
    plan.effective.io_buffer_mb = i64::try_from(buffer_mib).ok().map(|mib| Auto::Given(Mib(mib)));
    one(&plan, &ideal, command_line)
}

/// Runs the plan on that drive, writes and shows its results.
pub fn one(plan: &Plan, device: &DeviceFile, command_line: Vec<String>) -> Result<Exit> {
    refuse_what_needs_a_drive(plan)?;
    check_outputs(&all_outputs(plan).collect::<Vec<_>>())?;
    let interrupt = interrupt()?;
    if !plan.quiet {
        let what = format!(
            "simulating {}{} s: {}, seed {}{}…",
            if plan.ends_when_exhausted() { "at most " } else { "" },
            plan.duration_s,
            who(plan),
            plan.seed,
            if is_none(device) { "" } else { "; and again with more of each resource" }
        );
        progress_line(plan).tell(&what);
    }
    crate::commands::tell(&ringfall_config::advice(plan));
    let result = match explained(plan, device, command_line, &interrupt) {
        Err(error) if interrupt.is_set() => {
            tell_error(format_args!("{error:#}"));
            return Ok(Exit::Interrupted);
        }
        other => other?,
    };
    if interrupt.is_set() && !result.interrupted {
        tell_error("interrupted while more of each resource was tried; the run itself is whole");
    }
    let document = Document::of(&result);
    let written = write_results(plan, &document);
    let shown = show(plan, &result, &document, written.is_ok());
    let exit = concluded(&result, &interrupt);
    shown?;
    written?;
    Ok(exit)
}

/// Says what makes no sense without a drive.
pub fn refuse_what_needs_a_drive(plan: &Plan) -> Result<(), InputError> {
    none_of(plan.asked_of_a_drive().into_iter().map(|(flag, why)| {
        format!("{flag} has no effect in a simulated run ({why}): leave it out")
    }))
}

/// Refuses an engine's layout on several drives: its files are in one directory.
pub fn refuse_files_on_several(plan: &Plan, device: &DeviceFile) -> Result<(), InputError> {
    let files = plan.layout_plan.as_ref().filter(|_| device.drives > 1);
    none_of(files.map(|files| {
        format!(
            "--layout {} works with one drive, and {} describes {}: describe one of them",
            files.layout().name(),
            device.name,
            device.drives
        )
    }))
}

/// Why a real run in an engine's layout may differ from a simulated one; none where there is none.
pub fn doubt_of_files(plan: &Plan) -> Option<&'static str> {
    plan.layout_plan.as_ref().map(|_| {
        "opening, closing, renaming and removing files and handing them to threads took no time, \
         which no description of a drive has: a real drive serves at most this much, except where \
         the page cache serves reads or holds writes back"
    })
}

/// Runs the plan on that drive, and again with more of each resource, to tell which limited it.
pub fn explained(
    plan: &Plan,
    device: &DeviceFile,
    command_line: Vec<String>,
    interrupt: &Interrupt,
) -> Result<RunResult> {
    let (mut result, figures, trace) = measured(plan, device, command_line, interrupt)?;
    let tried = match is_none(device) {
        true => Err("it had no drive".to_owned()),
        // The run itself is over, and its results are whole.
        false => alternatives(&result, device, &figures, interrupt)
            .unwrap_or_else(|error| Err(format!("the search for it failed: {error:#}"))),
    };
    tell_simulated(&mut result, device, figures, trace, tried);
    Ok(result)
}

/// Runs the plan on that drive.
pub fn run(
    plan: &Plan,
    device: &DeviceFile,
    command_line: Vec<String>,
    interrupt: &Interrupt,
) -> Result<RunResult> {
    let (mut result, figures, trace) = measured(plan, device, command_line, interrupt)?;
    let why = Err("it was simulated once only".to_owned());
    tell_simulated(&mut result, device, figures, trace, why);
    Ok(result)
}

/// Adds to a result what is known of it as a simulated one.
fn tell_simulated(
    result: &mut RunResult,
    device: &DeviceFile,
    figures: SimulationFigures,
    trace: Option<IoTraceReport>,
    tried: Result<Alternatives, String>,
) {
    let named = (device.name.clone(), device.source.clone());
    result.simulation = Some(SimulationReport::of(named, figures, trace, tried, result));
    result.warnings = warnings_of(result);
    result.warnings.extend(device.doubt.as_ref().map(|doubt| Warning {
        code: Code::DeviceDoubtful,
        text: format!("the description of {} doubts its own figures: {doubt}", device.name),
        flag_to_try: None,
    }));
    result.warnings.extend(doubt_of_files(&result.plan).map(|doubt| Warning {
        code: Code::FileCallsFree,
        text: doubt.to_owned(),
        flag_to_try: None,
    }));
}

/// Runs the plan on that drive; what is measured, beside what a simulation alone knows.
fn measured(
    plan: &Plan,
    device: &DeviceFile,
    command_line: Vec<String>,
    interrupt: &Interrupt,
) -> Result<(RunResult, SimulationFigures, Option<IoTraceReport>)> {
    let ended = interrupt.clone();
    let reading = Reading::new(move || ended.is_set(), !plan.quiet);
    let Sources { workload: source, rows, read } = Sources::open(plan, &reading)?;
    let mut given = plan.clone();
    let gpu = gpu::simulated(&mut given, device);
    let plan = &given;
    let workload = Arc::new(plan.workload_config());
    let mut settings = settings::of(plan);
    settings.store.capacity_bytes = match settings.store.capacity_bytes {
        _ if !settings.has_storage => 0,
        0 => STORAGE_BYTES_DEFAULT,
        bytes => bytes,
    };
    // What was worked out for one drive, for each of them: where entries have no bytes, nobody
    // touches the memory.
    settings.io_buffer_bytes *= u64::from(device.drives);
    let with_banner = !plan.quiet;
    let begin = Begin { command_line, interrupt, with_banner, group: None, loads_enough: None };
    let read = WasRead { roofline: None, ..read };
    let mut teller = Teller::new(plan, &workload, &begin, gpu.outcome, read);
    teller.storage_bytes = settings.store.capacity_bytes;
    let assignment = Assignment { config: workload, source, rows };
    let log = plan.io_trace_log.as_deref().map(|path| begin_trace(plan, path)).transpose()?;
    // The simulated clock shows `BEGIN` now.
    let began_unix_s = begun_unix_s(monotonic_now());
    let (outcome, figures) = run::simulate(&settings, assignment, device, log.as_ref(), interrupt)?;
    let start_unix_s = began_unix_s + outcome.window.0.saturating_sub(BEGIN).as_secs_f64();
    let (mut result, _nothing_to_clean) = result_of(&teller, outcome);
    result.window.start_unix_s = start_unix_s;
    if device.drives > 1 {
        let drive = |number| DriveOutcome {
            path: format!("simulated drive {number}"),
            capacity_bytes: settings.store.capacity_bytes / u64::from(device.drives),
            ..DriveOutcome::default()
        };
        result.drives = (1..=device.drives).map(drive).collect();
    }
    let trace = log.map(|log| end_trace(plan, &log)).transpose()?;
    Ok((result, figures, trace))
}

/// Whether it is that of a run without any drive.
fn is_none(device: &DeviceFile) -> bool {
    (&*device.name, &*device.source) == (NO_DRIVE, NO_DRIVE_SOURCE)
}

fn begin_trace(plan: &Plan, path: &Path) -> Result<Rc<TraceWriter>> {
    let epoch_s = match plan.trace_epoch {
        TraceEpoch::Fixed => FIXED_EPOCH_S,
        TraceEpoch::Now => {
            SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |age| age.as_secs())
        }
    };
    let log = TraceWriter::create(path, epoch_s).with_context(|| told(path))?;
    Ok(Rc::new(log))
}

fn end_trace(plan: &Plan, log: &TraceWriter) -> Result<IoTraceReport> {
    let path = plan.io_trace_log.as_deref().unwrap_or(Path::new(""));
    let rows = log.finish().with_context(|| told(path))?;
    Ok(IoTraceReport { file: path.display().to_string(), rows })
}

fn told(path: &Path) -> String {
    format!("the trace can't be written to {}", path.display())
}

#[cfg(test)]
mod tests {
    use ringfall_config::{Facts, resolve};
    use ringfall_model::testing::nothing;
    use ringfall_report::show::{Style, print_summary};

    use super::*;
    use crate::commands::run_args;

    #[test]
    fn no_depth_is_searched_where_no_drive_is_asked() {
        let mut plan = nothing().plan;
        plan.depth_search = Some(64);
        let error = logical(&plan, Vec::new()).unwrap_err();
        assert!(error.to_string().contains("--queue-depth auto has no effect"), "{error}");
    }

    #[test]
    fn a_layout_is_refused_with_what_it_changes_in_a_trace() {
        let flags = ["--io-trace-log", "t.csv", "--layout", "vllm"].map(str::to_owned);
        let options = run_args(flags).unwrap().options;
        let plan = resolve(&options, None, &Facts::look()).unwrap();
        let error = logical(&plan, Vec::new()).unwrap_err().to_string();
        assert!(error.contains("--layout has no effect with --io-trace-log"), "{error}");
        assert!(error.contains("--decode-reads once reads entries as often"), "{error}");
    }

    /// Ordinary ones had 30 and 33 lines, with notes that broke off within a list.
    #[test]
    fn summaries_of_simulated_runs_fit_25_lines_of_whole_sentences() {
        let text = "name: a drive\nread: {mb_per_s: 13000, iops: 2000000, latency_us: 80}\n\
                    write: {mb_per_s: 6000, iops: 500000, latency_us: 20}\n";
        let device = DeviceFile::parse("drive.yaml", text).unwrap();
        let interrupt = Interrupt::install().unwrap();
        for flags in [
            "--num-users 50",
            "--num-users 64",
            "--num-users 64 --storage-capacity-gb 8GiB",
            "--num-users 20 --storage-capacity-gb 8GiB --cpu-mem-gb 4 --arrival closed",
        ] {
            let line = format!("--model llama3.1-8b --duration 20 --quiet --seed 1 {flags}");
            let options = run_args(line.split_whitespace().map(str::to_owned)).unwrap().options;
            let plan = resolve(&options, None, &Facts::look().of_no_machine()).unwrap();
            let result = explained(&plan, &device, Vec::new(), &interrupt).unwrap();
            let mut page = Vec::new();
            let style = Style::for_output(false);
            print_summary(&mut page, style, &result, &Document::of(&result)).unwrap();
            let page = String::from_utf8(page).unwrap();
            assert!(page.lines().count() <= 25, "{flags}:\n{page}");
            assert!(page.lines().all(|line| line.chars().count() <= 80), "{flags}:\n{page}");
            assert!(page.contains("note: ") && !page.contains('…'), "{flags}:\n{page}");
        }
    }

    #[test]
    fn an_engine_s_files_are_on_one_drive_and_a_warning_says_what_took_no_time() {
        let line =
            "--layout vllm --model tiny-1b --num-users 2 --duration 5 --cpu-mem-gb 0 --quiet";
        let options = run_args(line.split_whitespace().map(str::to_owned)).unwrap().options;
        let plan = resolve(&options, None, &Facts::look().of_no_machine()).unwrap();
        let text = "name: two\nread: {mb_per_s: 1000, iops: 1000, latency_us: 10}\n\
                    write: {mb_per_s: 1000, iops: 1000, latency_us: 10}\ndrives: 2\n";
        let mut device = DeviceFile::parse("two.yaml", text).unwrap();
        let error = refuse_files_on_several(&plan, &device).unwrap_err().to_string();
        assert!(
            error.contains("--layout vllm works with one drive, and two describes 2"),
            "{error}"
        );
        device.drives = 1;
        refuse_files_on_several(&plan, &device).unwrap();
        let result = run(&plan, &device, Vec::new(), &Interrupt::install().unwrap()).unwrap();
        let is_warned = result.warnings.iter().any(|one| one.code == Code::FileCallsFree);
        assert!(is_warned && result.files.is_some(), "{:?}", result.warnings);
    }
}
