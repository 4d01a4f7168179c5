//! The program `ringfall`: the only place that knows both the engine and the workloads.

#![forbid(unsafe_code)]

pub mod batch;
pub mod cli;
mod commands;
mod log_lines;
mod progress;
mod prometheus;
mod remedy;

use std::ffi::OsString;
use std::io::ErrorKind;

use ringfall_config::values::{Auto, Gib, Seconds};
use ringfall_config::{self as config, ConfigFile, Defaults, Facts, InputError, Options, Plan};
use ringfall_host::exit::Exit;
use ringfall_host::outlet::{self, Stream};
use ringfall_host::{escape, interrupt};
use ringfall_running::run::FleetError;
use ringfall_running::store::StoreError;

use commands::file_of;
use log_lines::log_to_stderr;

/// Does what the arguments (the program's name first) ask for.
pub fn main_with(args: impl IntoIterator<Item = OsString>) -> Exit {
    let exit = obey(args);
    let exit = match outlet::refusal().map(output_refused) {
        Some(failed) if exit == Exit::Done => failed,
        _ => exit,
    };
    outlet::settle();
    // A signal came before the end, also where a command's last step failed or waited for a reader.
    interrupt::exit_or(exit)
}

fn obey(args: impl IntoIterator<Item = OsString>) -> Exit {
    ringfall_host::heed_address_space();
    if let Err(error) = interrupt::fail_at_the_limit_of_file_sizes() {
        return ended(Err(anyhow::Error::from(error).context("cannot install a signal handler")));
    }
    if let Err(error) = batch::end_with_parent() {
        return ended(Err(error.into()));
    }
    let args: Vec<OsString> = args.into_iter().collect();
    let typed: Vec<String> = args.iter().map(|arg| arg.to_string_lossy().into_owned()).collect();
    let cli = match cli::parse(args) {
        Ok(cli) => cli,
        Err(cli::Stop::Said(text)) => {
            let told = match ringfall_host::Launcher::look() {
                None => text.print(),
                Some(_) => outlet::write_page(Stream::Out, &text.to_string()),
            };
            return match told {
                Err(error) if error.kind() != ErrorKind::BrokenPipe => output_refused(error),
                _ => Exit::Done,
            };
        }
        Err(cli::Stop::Wrong(text)) => {
            if let Some(meant) = cli::meant_anyway(&typed) {
                tell_ranks(&meant, &file_of(&meant), &text);
            }
            return wrong(&text);
        }
    };
    if cli.asks_for_presets() {
        return page(&config::presets_page());
    }
    match cli.command {
        // Ranks and the reference's name mean a run all the same.
        cli::Command::Run(_)
            if typed.get(1..).is_some_and(|words| words == ["run"])
                && ringfall_host::Launcher::look().is_none() =>
        {
            ended(commands::quick::in_temporary_directory(typed))
        }
        cli::Command::Run(args) => {
            let args = args.settings();
            let file = file_of(&args);
            let plan = plan_of(args.defaults(), args.typed(), &file);
            run_or_tell(plan, &args, &file, typed)
        }
        cli::Command::Replay(args) => {
            let file = file_of(&args.run);
            let plan = plan_of(Defaults::Reference, replay_options(&args, &file), &file);
            run_or_tell(plan, &args.run, &file, typed)
        }
        cli::Command::Quick(args) => ended(commands::quick::run(&args, typed)),
        cli::Command::Report(args) => ended(commands::report::report(&args, &typed)),
        cli::Command::Layouts(args) => ended(commands::layouts::run(&args)),
        cli::Command::Saturate(args) => ended(commands::saturate::run(&args)),
        cli::Command::Simulate(args) => ended(commands::simulate::run(&args, typed)),
        cli::Command::Sweep(args) => ended(commands::sweep::run(&args)),
        cli::Command::Trace(args) => ended(commands::trace::run(&args)),
        cli::Command::Schema(args) => page(commands::schema::page(args.name)),
        cli::Command::Analyze(args) => {
            ended(commands::analyze::run(&args.fast, &args.slow, &args.table))
        }
        cli::Command::Compare(args) => ended(commands::compare::run(&args)),
        cli::Command::Merge(args) => ended(commands::merge::run(&args, &typed)),
        cli::Command::Suite(args) => ended(commands::suite::run(&args, &typed)),
        cli::Command::Discover(args) => ended(commands::discover::run(&args)),
        cli::Command::Audit(args) => ended(commands::audit::run(&args)),
        cli::Command::Checkpoint(args) => ended(commands::checkpoint::run(&args)),
        cli::Command::Datagen(args) => ended(commands::datagen::run(&args)),
        cli::Command::Mlperf(args) => ended(commands::mlperf::run(&args, typed)),
        cli::Command::Completions(args) => ended(commands::completions::run(&args)),
        cli::Command::Man(args) => ended(commands::man::run(&args)),
        cli::Command::Config(args) if args.defaults => page(&config::defaults_page()),
        cli::Command::Config(args) => {
            let args = args.run.settings();
            match plan_of(args.defaults(), args.typed(), &file_of(&args)) {
                Ok(plan) => {
                    commands::tell(&plan.told);
                    page(&config::render(&plan))
                }
                Err(error) => wrong(&error),
            }
        }
    }
}

/// Content of the file that `--config` names, or why it can't be read. A pipe can be read but once.
type GivenFile = Result<Option<ConfigFile>, InputError>;

fn plan_of(
    defaults: Defaults,
    typed: Result<Options, InputError>,
    file: &GivenFile,
) -> Result<Plan, InputError> {
    let file = file.as_ref().map_err(Clone::clone)?;
    config::resolve_with(defaults, &typed?, file.as_ref(), &Facts::look())
}

/// Runs, or says why the settings are wrong, to the other ranks of the launch too.
fn run_or_tell(
    plan: Result<Plan, InputError>,
    args: &cli::RunArgs,
    file: &GivenFile,
    typed: Vec<String>,
) -> Exit {
    match plan {
        Ok(plan) => {
            log_to_stderr(plan.log_level);
            ended(commands::run::run(&plan, typed))
        }
        Err(error) => {
            tell_ranks(args, file, &error);
            wrong(&error)
        }
    }
}

/// Has the other ranks of a launch hear that this one's settings, which may be right for them, are
/// wrong.
fn tell_ranks(args: &cli::RunArgs, file: &GivenFile, what: &dyn std::fmt::Display) {
    let file = file.as_ref().ok().and_then(Option::as_ref);
    commands::run::tell_ranks_that_wait(args, file, &what.to_string());
}

/// The longest a run may last: a replay ends with its trace.
const REPLAY_SECONDS: i64 = 86_400;

/// A replay is a run of the trace's operations, to its end, on storage alone if nothing else is
/// said.
fn replay_options(args: &cli::ReplayArgs, file: &GivenFile) -> Result<Options, InputError> {
    let file = file.as_ref().ok().and_then(Option::as_ref);
    let from_file = file.map(|file| file.options.clone()).unwrap_or_default();
    let mut options = args.run.typed()?;
    if options.replay_trace.is_some() {
        let what = "--replay-trace cannot be combined with `replay`, whose argument is the trace";
        return Err(InputError::new(what));
    }
    options.replay_trace = Some(args.trace.clone());
    if options.duration.is_none() && from_file.duration.is_none() {
        options.duration = Some(Seconds(REPLAY_SECONDS));
    }
    let tiers = options.replay_tiers.or(from_file.replay_tiers);
    if options.cpu_mem_gb.is_none()
        && from_file.cpu_mem_gb.is_none()
        && tiers != Some(config::Word(config::ReplayedRows::Asked))
    {
        options.cpu_mem_gb = Some(Auto::Given(Gib(0.0)));
    }
    Ok(options)
}

fn page(text: &str) -> Exit {
    ended(commands::write_out(Stream::Out, text))
}

/// Longest message of an error, characters: one may repeat a line of a file, of any length.
const MESSAGE_CHARS_MAX: usize = 4_000;

/// A message of at most that length, its end kept: the remedy stands there.
fn shortened(text: String) -> String {
    let length = text.chars().count();
    if length <= MESSAGE_CHARS_MAX {
        return text;
    }
    let half = MESSAGE_CHARS_MAX / 2;
    let head: String = text.chars().take(half).collect();
    let tail: String = text.chars().skip(length - half).collect();
    format!("{head} … ({} characters left out) … {tail}", length - 2 * half)
}

fn wrong(what: &dyn std::fmt::Display) -> Exit {
    ringfall_host::stderr::tell(format_args!(
        "error: {}",
        escape::terminal_page(&shortened(what.to_string()))
    ));
    Exit::Usage
}

/// Tells that standard output can't be written.
fn output_refused(error: std::io::Error) -> Exit {
    ended(Err(anyhow::Error::from(error).context(Stream::Out.name())))
}

fn ended(result: anyhow::Result<Exit>) -> Exit {
    result.unwrap_or_else(|error| {
        if let Some(FleetError::Store(error @ StoreError::Short(_))) = error.downcast_ref() {
            return wrong(error);
        }
        if error.is::<InputError>() || error.is::<ringfall_model::document::FileProblem>() {
            return wrong(&error);
        }
        ringfall_host::stderr::tell(format_args!(
            "error: {}",
            escape::terminal(&shortened(remedy::told_chain(&error)))
        ));
        Exit::Failed
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_message_keeps_its_beginning_and_its_end() {
        let text = format!("begin {} end", "é".repeat(5_000_000));
        let short = shortened(text);
        assert!(short.starts_with("begin ") && short.ends_with(" end"), "{short}");
        assert!(short.chars().count() < MESSAGE_CHARS_MAX + 50 && short.contains("4996010"));
        assert_eq!(shortened("short".to_owned()), "short");
    }
}
