//! One file a subcommand.

/// Ends a function with an error of the user's input: a sentence, written as `format!` takes it.
macro_rules! refuse {
    ($($sentence:tt)+) => {
        return Err(ringfall_config::InputError::new(format!($($sentence)+)).into())
    };
}

pub mod analyze;
mod answer;
pub mod audit;
pub mod checkpoint;
pub mod compare;
pub mod completions;
pub mod datagen;
pub mod discover;
pub mod layouts;
pub mod man;
mod memory;
pub mod merge;
pub mod mlperf;
pub mod quick;
pub mod report;
pub mod run;
pub mod saturate;
pub mod schema;
pub mod simulate;
pub mod suite;
pub mod sweep;
pub mod trace;

use std::ffi::OsString;
use std::fmt::Display;
use std::io::ErrorKind;
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;

use anyhow::Context as _;
use ringfall_engine::tier::gpu::GpuMemory as _;
use ringfall_engine::tier::gpu::cuda::CudaMemory;
use serde::Serialize;

use ringfall_config::{ConfigFile, Facts, InputError, Plan, Preallocate};
use ringfall_host::Launcher;
use ringfall_host::exit::Exit;
use ringfall_host::interrupt::Interrupt;
use ringfall_host::outlet::Stream;
use ringfall_host::survey::Survey;
use ringfall_host::{escape, outlet};
use ringfall_model::metrics::{Metric, MetricValue};
use ringfall_model::spread::Spread;
use ringfall_model::{Document, write_json, write_text};
use ringfall_report::show::prose::prose;
use ringfall_report::show::table::{Table, figure, percent};
use ringfall_report::suite::Machine;

use crate::cli::{self, Command, RunArgs};
use crate::remedy::told_chain;

/// Width of lines of prose.
const TEXT_WIDTH: usize = 96;

/// The command that these words after the program's name are; none: they ask for help.
fn command_of(words: impl IntoIterator<Item = String>) -> Result<Option<Command>, InputError> {
    let words = words.into_iter().map(OsString::from);
    match cli::parse(std::iter::once("ringfall".into()).chain(words)) {
        Ok(cli) => Ok(Some(cli.command)),
        Err(cli::Stop::Said(_)) => Ok(None),
        Err(cli::Stop::Wrong(text)) => Err(InputError::new(text)),
    }
}

/// Arguments of `ringfall run` with these flags.
fn run_args(flags: impl IntoIterator<Item = String>) -> Result<RunArgs, InputError> {
    match command_of(std::iter::once("run".to_owned()).chain(flags))? {
        Some(Command::Run(args)) => Ok(args.settings()),
        _ => refuse!("only flags of `ringfall run` may follow --"),
    }
}

/// Refuses what these sentences, if there are any, say is wrong.
fn none_of(wrong: impl IntoIterator<Item = String>) -> Result<(), InputError> {
    let sentences: Vec<String> = wrong.into_iter().collect();
    if sentences.is_empty() { Ok(()) } else { Err(InputError { sentences }) }
}

/// Refuses to start runs, as `what` does, in each of several processes.
fn refuse_launcher(what: &str) -> Result<(), InputError> {
    match Launcher::look() {
        None => Ok(()),
        Some(_) => refuse!(
            "a launcher (mpirun, srun) has started several processes, and {what} is one that \
             starts its runs itself: start it without a launcher"
        ),
    }
}

/// Whether a run of that plan does nothing before its load that may take any time: preconditioning,
/// giving files their space and writing a population take hours on a large drive.
fn is_bounded(plan: &Plan) -> bool {
    !plan.is_preconditioned
        && plan.preallocate != Preallocate::Write
        && plan.workload_config().population_estimate().bytes == 0
}

pub(crate) fn file_of(args: &RunArgs) -> Result<Option<ConfigFile>, InputError> {
    args.config.as_deref().map(ConfigFile::read).transpose()
}

/// Plan of a run with these arguments, which may name a file.
fn plan_of(args: &RunArgs) -> Result<Plan, InputError> {
    let (typed, file) = (args.typed()?, file_of(args)?);
    ringfall_config::resolve_with(args.defaults(), &typed, file.as_ref(), &Facts::look())
}

/// Warns on standard error, a line each: the sentences may name files.
pub fn tell(sentences: &[String]) {
    for sentence in sentences {
        ringfall_host::stderr::tell(format_args!("warning: {}", escape::terminal(sentence)));
    }
}

/// Tells an error that does not end the command by itself, on one line.
fn tell_error(error: impl Display) {
    let error = escape::terminal(&error.to_string());
    ringfall_host::stderr::tell(format_args!("error: {error}"));
}

/// The outcome of work, and that of what follows it, such as its cleaning up: where both failed, an
/// error that tells both.
fn both<T>(first: anyhow::Result<T>, second: anyhow::Result<()>) -> anyhow::Result<T> {
    match (first, second) {
        (Err(first), Err(second)) => {
            Err(anyhow::anyhow!("{}; {}", told_chain(&first), told_chain(&second)))
        }
        (first, second) => second.and(first),
    }
}

/// Has signals end the command in order from now on.
fn interrupt() -> anyhow::Result<Interrupt> {
    Interrupt::install().context("cannot install a handler for Ctrl-C")
}

/// Writes a page to standard output.
fn print(page: &str) -> anyhow::Result<Exit> {
    write_out(Stream::Out, &escape::terminal_page(page))
}

/// Writes a value as JSON to standard output.
fn print_json(value: &impl Serialize) -> anyhow::Result<Exit> {
    let mut text = Vec::new();
    write_text(value, &mut text)?;
    text.push(b'\n');
    write_out(Stream::Out, &escape::json(&String::from_utf8(text)?))
}

/// Whether a path is the word for standard output.
fn is_stdout(path: &Path) -> bool {
    path == Path::new("-")
}

/// Writes one form of `what`, where it was asked for.
fn write_form(
    path: Option<&Path>,
    what: &str,
    write: impl FnOnce(&Path) -> std::io::Result<()>,
) -> anyhow::Result<()> {
    let Some(path) = path else { return Ok(()) };
    let written = write(path).map_err(|error| match written_remedy(&error) {
        Some(remedy) => std::io::Error::new(error.kind(), format!("{error}; {remedy}")),
        None => error,
    });
    written.with_context(|| format!("{what} can't be written to {}", path.display()))
}

/// Remedy where a file can't be written, for what a user can do something about.
fn written_remedy(error: &std::io::Error) -> Option<&'static str> {
    match error.kind() {
        _ if is_full(error) => Some("make room there, or name a file on another disk"),
        ErrorKind::ReadOnlyFilesystem => Some(
            "its file system has turned read-only: look at dmesg, and name a file on another disk",
        ),
        ErrorKind::PermissionDenied => Some("name a file in a directory that you may write to"),
        _ => None,
    }
}

/// Whether an error came from a file system that is full.
fn is_full(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded)
}

/// Writes the result of a command as JSON, where a file was asked for.
fn write_result(result: &impl Serialize, output: Option<&Path>) -> anyhow::Result<()> {
    write_form(output, "the result", |path| write_json(result, path))
}

/// Stream of the text for people: standard output, unless the JSON goes there.
fn text_stream(is_json: bool) -> Stream {
    if is_json { Stream::Err } else { Stream::Out }
}

/// Shows a result: as JSON where that is asked for, and as a page unless it is to be quiet.
fn show(
    result: &impl Serialize,
    is_json: bool,
    is_quiet: bool,
    page: impl FnOnce() -> String,
) -> anyhow::Result<()> {
    if is_json {
        print_json(result)?;
    }
    if !is_quiet {
        write_out(text_stream(is_json), &escape::terminal_page(&page()))?;
    }
    Ok(())
}

pub(crate) fn write_out(stream: Stream, page: &str) -> anyhow::Result<Exit> {
    outlet::write_page(stream, page).with_context(|| stream.name())?;
    Ok(Exit::Done)
}

/// Facts about this machine that decide the flags of workloads; the data goes to `cache_dir`, if
/// one is given. Where a GPU could have a tier, its driver is asked how much memory is free.
fn machine_of(survey: &Survey, cache_dir: Option<&Path>) -> Machine {
    let mut machine = Machine::of(survey, cache_dir);
    if survey.gpus.iter().any(|gpu| gpu.driver.as_deref() == Some("nvidia")) {
        machine.gpu_gib = gpu_gib();
    }
    machine
}

/// Nine tenths of the memory that is free on the first GPU, GiB: the driver's own needs grow with
/// what is done. A small tier is opened to find out, and closed.
fn gpu_gib() -> Result<f64, String> {
    const TRIED_BYTES: u64 = 64 << 20;
    let _overdue = ringfall_host::Overdue::new("the GPU's driver to open its devices".to_owned());
    let memory = CudaMemory::open(None, 1, TRIED_BYTES)?;
    let device = memory.facts().devices.first().ok_or("the driver names no device")?;
    Ok(ringfall_core::units::gib(device.free_bytes / 10 * 9))
}

/// Whether both are one file, by whatever names; one that is not there yet is told by its name and
/// directory.
fn is_same_file(a: &Path, b: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    match (std::fs::metadata(a), std::fs::metadata(b)) {
        // A terminal or /dev/null takes anything from anybody.
        (Ok(a), Ok(b)) => {
            !a.file_type().is_char_device() && (a.dev(), a.ino()) == (b.dev(), b.ino())
        }
        (Err(_), Err(_)) => {
            let parent = |path: &Path| {
                let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
                std::fs::canonicalize(parent.unwrap_or(Path::new("."))).ok()
            };
            a.file_name() == b.file_name() && parent(a).is_some() && parent(a) == parent(b)
        }
        _ => false,
    }
}

/// Refuses to write over what is read.
fn refuse_input<'a>(
    flag: &str,
    output: &Path,
    inputs: impl IntoIterator<Item = &'a Path>,
) -> Result<(), InputError> {
    let is_same = |input: &&Path| is_same_file(output, input);
    match inputs.into_iter().find(is_same) {
        Some(input) => refuse!(
            "{flag} {} would overwrite the input {}; give another file",
            output.display(),
            input.display()
        ),
        None => Ok(()),
    }
}

/// A metric of a result as a line of a table has it.
fn metric_figure(document: &Document, key: &str) -> String {
    let value = Metric::by_key(key).and_then(|metric| metric.of(document));
    value.map_or("–".to_owned(), figure)
}

/// The usual metrics over several results, a line each, beside those of the merged one.
fn spread_page(spreads: &[Spread], merged: &Document) -> String {
    let usual = |spread: &Spread| Metric::by_key(&spread.metric).filter(|metric| metric.headline);
    let told = |number, is_bound| MetricValue { number, is_bound }.told(figure);
    Table::of(spreads.iter().filter_map(|spread| Some((usual(spread)?, spread))))
        .text("", |(metric, _)| metric.title)
        .number("median", figure, |(_, of)| told(of.median, of.median_is_bound))
        .number("min", figure, |(_, of)| told(of.min, of.min_is_bound))
        .number("max", figure, |(_, of)| told(of.max, of.max_is_bound))
        .number("CV", percent, |(_, of)| of.cv)
        .number("merged", figure, |(metric, _)| Some(metric.measured(merged)?.told(figure)))
        .widths(&[34, 10, 10, 10, 8, 10])
        .done()
        .page()
}

/// Prose in lines, those after the first below its beginning; nothing in it is obeyed by a
/// terminal.
fn wrapped(page: &mut String, head: &str, text: &str) {
    prose(page, head, text, TEXT_WIDTH);
}

#[cfg(test)]
mod tests {
    use std::io::Error;

    use super::*;

    /// The second took the place of the first.
    #[test]
    fn work_that_failed_and_left_something_behind_is_told_with_both() {
        let failed = || anyhow::anyhow!("the write failed");
        let left = || anyhow::anyhow!("files are left");
        let told = |outcome: anyhow::Result<()>| outcome.map_err(|error| error.to_string());
        let expected = "the write failed; files are left".to_owned();
        assert_eq!(told(both(Err(failed()), Err(left()))), Err(expected));
        assert_eq!(told(both(Err(failed()), Ok(()))), Err("the write failed".to_owned()));
        assert_eq!(told(both(Ok(()), Err(left()))), Err("files are left".to_owned()));
        assert_eq!(told(both(Ok(()), Ok(()))), Ok(()));
    }

    #[test]
    fn a_spread_that_a_bound_decides_is_told_as_at_least_that() {
        let spread = Spread {
            metric: "request_p95_ms".to_owned(),
            values: vec![Some(10.0), None],
            bounds: vec![None, Some(58_351.0)],
            median: 29_180.0,
            median_is_bound: true,
            min: 10.0,
            min_is_bound: false,
            max: 58_351.0,
            max_is_bound: true,
            cv: None,
        };
        let page = spread_page(&[spread], &Document::default());
        let row = page.lines().find(|line| line.contains("all requests, P95")).unwrap();
        let figures: Vec<&str> = row.split("ms").nth(1).unwrap().split_whitespace().collect();
        assert_eq!(figures, ["≥", "29180", "10.00", "≥", "58351", "–", "–"], "{page}");
    }

    /// Only a full file system had one.
    #[test]
    fn results_that_can_not_be_written_have_a_remedy() {
        for (kind, remedy) in [
            (ErrorKind::StorageFull, "; make room there, or name a file on another disk"),
            (ErrorKind::ReadOnlyFilesystem, "look at dmesg, and name a file on another disk"),
            (ErrorKind::PermissionDenied, "; name a file in a directory that you may write to"),
        ] {
            let written = write_form(Some(Path::new("r")), "it", |_| Err(Error::from(kind)));
            let told = format!("{:#}", written.unwrap_err());
            assert!(told.starts_with("it can't be written to r: "), "{told}");
            assert!(told.ends_with(remedy), "{told}");
        }
    }
}
