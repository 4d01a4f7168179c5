//! The command line as typed. What it means, and whether it may, is `config`'s business.

mod analysis;
mod anyway;
mod audit;
mod checkpoint;
mod datagen;
mod discover;
mod help;
mod layouts;
mod mlperf;
mod packaging;
mod quick;
mod saturate;
mod schema;
mod shared;
mod simulate;
mod suite;
mod sweep;
mod trace;
mod unknown;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::builder::TypedValueParser as _;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Args, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

pub use analysis::{AnalyzeArgs, CompareArgs, MergeArgs, TableArgs};
pub use anyway::{gist, meant_anyway};
pub use audit::AuditArgs;
pub use checkpoint::{
    CheckpointArgs, CheckpointCommand, CheckpointCompareArgs, CheckpointReadArgs,
    CheckpointRunArgs, CheckpointWriteArgs, JobArgs, StreamArgs,
};
pub use datagen::{DatagenAnalyzeArgs, DatagenArgs, DatagenCommand, DatagenFileArgs, ShapeArgs};
pub use discover::DiscoverArgs;
pub use layouts::{
    LayoutsArgs, LayoutsCommand, LayoutsCompareArgs, LayoutsReplayArgs, LimitsChoice, NATIVE,
    ReplaySpeed,
};
pub use mlperf::{MlperfArgs, MlperfCommand, MlperfReportArgs, MlperfRunArgs, RankArgs, ShimArgs};
pub use packaging::{CompletionsArgs, ManArgs};
pub use quick::QuickArgs;
pub use saturate::{Listed, ObjectSweepArgs, SaturateArgs, SaturateTarget};
pub use schema::{SchemaArgs, SchemaName};
pub use shared::{ContentArgs, ObjectArgs, flag};
use shared::{mib, number, time};
pub use simulate::SimulateArgs;
pub use suite::SuiteArgs;
pub use sweep::{SweepArgs, SweepSpace};
pub use trace::{TraceArgs, TraceCommand, TraceFileArgs, TraceInfoArgs, TracePlanArgs};

use ringfall_config::Places;
pub use ringfall_config::RunArgs;
use ringfall_host::terminal_columns;

/// Measures the storage tier of LLM inference: KV cache traffic on an io_uring-native,
/// thread-per-core engine.
#[derive(Debug, Parser)]
#[command(name = "ringfall", version, max_term_width = HELP_COLUMNS_MAX)]
#[command(subcommand_required = true)]
#[command(
    after_help = "`ringfall run` without flags is `ringfall quick` in a temporary directory. \
                  Commands that write a file create the directories that are missing on its path."
)]
pub struct Cli {
    /// The subcommand, with its own arguments.
    #[command(subcommand)]
    pub command: Command,
}

/// The subcommands; `cli/help.rs` has the order in which they are listed.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Say in one to three minutes how many users a drive serves: its limits, a curve over numbers
    /// of users, and a run that confirms it
    #[command(args_override_self = true)]
    Quick(QuickArgs),
    /// Run a workload of simulated users and measure the storage tier below their KV cache
    ///
    /// Sizes without a unit are in GiB or MiB, as their flag says, and times in seconds; with one
    /// they may be given as 512MiB, 1.5TiB, 90s, 5m or 1h.
    ///
    /// An entry is the KV cache of one context: its KV blocks in all layers, kept as one object.
    /// Entries are held in up to three tiers: GPU memory (HBM), the host's memory (DRAM) and
    /// storage. A shard is a worker thread.
    // As in the reference's parser, the last of two counts: scripts append what they change.
    #[command(args_override_self = true)]
    #[command(after_help = "These defaults hold with --cache-dir, --preset or --config. A plain \
                      `ringfall run DIR` has others: --num-users 8 --arrival closed \
                      --decode-reads once --history-reads last --cpu-mem-gb 0 \
                      --storage-capacity-gb 64.")]
    Run(RunHereArgs),
    /// Find the limits of a drive or an object store: its highest bandwidth and rate of I/Os, and
    /// the load that reaches them
    #[command(args_override_self = true)]
    Saturate(SaturateArgs),
    /// Run the same workload on a model of a drive and a simulated clock, to size a system: compare
    /// several drives, models or numbers of users
    #[command(args_override_self = true)]
    Simulate(SimulateArgs),
    /// Run all combinations of settings in a random order, on a real drive or on drive models; an
    /// interrupted sweep can be continued
    #[command(args_override_self = true)]
    Sweep(SweepArgs),
    /// Describe a recorded trace before any drive is measured: its tokens and sessions, the hit
    /// rate of caches of all sizes, and what a drive must do for it
    #[command(args_override_self = true)]
    Trace(TraceArgs),
    /// List the layouts in which inference engines keep KV cache on storage, compare them on a
    /// drive (files, names, system calls and threads as each engine has them), or replay a
    /// recording of an engine's calls there
    #[command(args_override_self = true)]
    Layouts(LayoutsArgs),
    /// Replay a logical trace, written with `--io-trace-log`, on the real engine and measure it
    #[command(args_override_self = true, hide = true)]
    Replay(ReplayArgs),
    /// Turn results into an HTML page, a workbook, CSV or a fio job, or merge them into one; a page
    /// can compare several
    Report(ReportArgs),
    /// Print the JSON Schema of the results, or of something else that ringfall writes as JSON
    Schema(SchemaArgs),
    /// Print the configuration that `run` would use with these flags, in a form that --config reads
    #[command(args_override_self = true)]
    Config(ConfigArgs),
    /// Compare two systems across all configurations that both have run, as `compare` does
    #[command(hide = true)]
    Analyze(AnalyzeArgs),
    /// Compare two results, or two collections of them: ratios with confidence intervals, and which
    /// of the two is better
    Compare(CompareArgs),
    /// Merge results of one configuration, as `report` does into a .json file: counters add up, and
    /// histograms merge exactly
    #[command(hide = true)]
    Merge(MergeArgs),
    /// Run named workloads one after the other, with parameters for this machine, and compare them
    /// in one table; an interrupted suite can be continued
    #[command(after_help = SuiteArgs::list())]
    Suite(SuiteArgs),
    /// Describe this machine in short: its drive, what should be configured differently, how many
    /// users its free space holds, and the commands to try; with --details, all that was found and
    /// recommended flags for each workload
    Discover(DiscoverArgs),
    /// Audit published results: recompute their figures over the time that really passed, and list
    /// what else calls them into question
    Audit(AuditArgs),
    /// Write and read checkpoints of a training job as streams that use constant memory
    #[command(args_override_self = true)]
    Checkpoint(CheckpointArgs),
    /// Analyze how far storage could reduce data, and write files of content
    #[command(args_override_self = true)]
    Datagen(DatagenArgs),
    /// Run MLPerf Storage's KV cache workload, started by its harness or directly
    Mlperf(MlperfArgs),
    /// Print the script by which a shell completes the commands and flags of ringfall
    Completions(CompletionsArgs),
    /// Print the man page of ringfall, or write the pages of all its commands to a directory
    Man(ManArgs),
}

impl Cli {
    /// Whether the list of presets is wanted, and nothing else.
    pub fn asks_for_presets(&self) -> bool {
        let run = match &self.command {
            Command::Run(args) => &args.run,
            Command::Config(config) => &config.run.run,
            _ => return false,
        };
        run.preset.as_deref() == Some("list")
    }
}

/// Arguments of the command `run`.
#[derive(Clone, Debug, Default, Args)]
pub struct RunHereArgs {
    /// Directory for the data files, or another place that --cache-dir takes
    ///
    /// With it, and without --preset and --config, there are 8 users who wait for their answers
    /// (--num-users 8 --arrival closed) and load their context once a turn, as with serving stacks
    /// (--decode-reads once --history-reads last), there is no CPU tier (--cpu-mem-gb 0), and
    /// storage has 64 GiB at most, unless flags say otherwise. With --cache-dir the defaults are
    /// those of the reference.
    #[arg(value_name = "DIR", conflicts_with = "cache_dir")]
    #[arg(value_parser = Places::parser().try_map(directory))]
    pub directory: Option<Places>,
    /// The settings of the run, as flags give them.
    #[command(flatten)]
    pub run: RunArgs,
}

impl RunHereArgs {
    /// Settings of the run, the directory among them.
    #[must_use]
    pub fn settings(self) -> RunArgs {
        let RunHereArgs { directory, mut run } = self;
        run.has_plain_directory = directory.is_some();
        run.options.cache_dir = run.options.cache_dir.or(directory);
        run
    }
}

/// Refuses a word that is rather a flag without its dashes, or the value of a switch: a directory
/// of that name would be made.
fn directory(places: Places) -> Result<Places, String> {
    match places.0.iter().find(|path| !path.to_string_lossy().contains('/') && !path.exists()) {
        None => Ok(places),
        Some(path) => Err(format!(
            "there is no such directory, and flags begin with --; ./{} would be a new directory",
            path.display()
        )),
    }
}

/// Arguments of the command `replay`.
#[derive(Clone, Debug, Default, Args)]
pub struct ReplayArgs {
    /// Logical trace to replay: CSV, which may be compressed (.zst or .gz)
    #[arg(id = "replayed", value_name = "TRACE")]
    pub trace: PathBuf,
    /// As for `run`; --trace-speedup sets the pace, 0: as fast as possible
    #[command(flatten)]
    pub run: RunArgs,
}

/// Arguments of the command `config`.
#[derive(Clone, Debug, Default, Args)]
pub struct ConfigArgs {
    /// Print the built-in defaults instead of the values in effect
    #[arg(long)]
    pub defaults: bool,
    /// The settings of the run, as flags and DIR give them.
    #[command(flatten)]
    pub run: RunHereArgs,
}

/// Arguments of the command `report`.
#[derive(Clone, Debug, Default, Args)]
pub struct ReportArgs {
    /// Results of `ringfall run`, or directories of results; a table also takes the reference
    /// benchmark's, and a page one answer of `ringfall quick`, or two
    #[arg(required = true, value_name = "RESULT")]
    pub results: Vec<PathBuf>,
    /// Output file: an HTML page (.html), a workbook (.xlsx) or CSV (.csv) with a row for each
    /// result, a fio job (.fio), or the results merged into one (.json): counters of runs of one
    /// configuration add up, and histograms merge exactly. Of a directory that holds results of
    /// ranks in rank_N/ those are merged
    #[arg(long, aliases = ["html-output", "xlsx-output"])]
    #[arg(value_name = "FILE", default_value = "report.html")]
    pub output: PathBuf,
    /// Merge results even if their configurations differ; for an --output that ends in .json
    #[arg(long)]
    pub allow_different: bool,
}

/// Why the command line gives no command to carry out.
#[derive(Debug)]
pub enum Stop {
    /// Help or version was asked for; its text.
    Said(clap::Error),
    /// Command line is invalid; the text says what to do.
    Wrong(String),
}

/// Reads the command line.
///
/// # Errors
/// [`Stop`]: help was asked for, or something is wrong with it.
pub fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Cli, Stop> {
    let columns = terminal_columns().unwrap_or(HELP_COLUMNS_MAX);
    let mut command =
        help::in_groups(Cli::command(), columns.clamp(HELP_COLUMNS_MIN, HELP_COLUMNS_MAX));
    // Narrower, a description would be a column of letters: the terminal breaks its lines instead.
    if columns < HELP_COLUMNS_MIN {
        command = command.term_width(HELP_COLUMNS_MIN);
    }
    let mut args = with_subcommand(args.into_iter().collect());
    let mut command = help::of_one_group(command, &mut args).map_err(Stop::Wrong)?;
    let matches = match command.try_get_matches_from_mut(&args) {
        Ok(matches) => matches,
        Err(error) => {
            return Err(match negative(&args, &error) {
                Some(what) => Stop::Wrong(what),
                None => explain(error, &command, &args),
            });
        }
    };
    Cli::from_arg_matches(&matches).map_err(|error| explain(error, &command, &args))
}

/// Least width of the help: a flag's description gets half of it.
const HELP_COLUMNS_MIN: usize = 60;
const HELP_COLUMNS_MAX: usize = 100;

/// Names of the reference's program: who calls this one so means its only thing to do, a run.
const REFERENCE_NAMES: [&str; 3] = ["kv-cache", "kv_cache", "mlperf-kv-cache"];

/// The arguments with `run` where no subcommand was typed: before flags of a run, or when the
/// program is called by the reference's name.
fn with_subcommand(mut args: Vec<OsString>) -> Vec<OsString> {
    let called = args.first().and_then(|name| Path::new(name).file_stem()?.to_str());
    let as_reference = called.is_some_and(|name| REFERENCE_NAMES.contains(&name));
    let first = args.get(1).map(|first| first.to_string_lossy().into_owned());
    let is_missing = match first.as_deref() {
        None => as_reference,
        Some("--help" | "-h" | "--version" | "-V") => as_reference,
        Some(first) => first.starts_with('-'),
    };
    if is_missing {
        args.insert(1, "run".into());
    }
    args
}

/// Complaint about a negative value, such as `-1GiB`, which clap takes for a flag; none about
/// another error.
fn negative(args: &[OsString], error: &clap::Error) -> Option<String> {
    if error.kind() != ErrorKind::UnknownArgument {
        return None;
    }
    let Some(ContextValue::String(typed)) = error.get(ContextKind::InvalidArg) else { return None };
    let is_negative = |word: &str| {
        let digits = |rest: &str| rest.starts_with(|c: char| c.is_ascii_digit() || c == '.');
        word.strip_prefix('-').is_some_and(digits)
    };
    args.windows(2).find_map(|pair| {
        let [flag, value] = pair else { return None };
        let (flag, value) = (flag.to_str()?, value.to_str()?);
        // Of a word with one dash clap names the first character alone.
        let is_it = flag.starts_with('-') && is_negative(value) && value.starts_with(typed);
        is_it.then(|| {
            format!("{flag} {value}: sizes, times and counts can't be negative; give 0 or more")
        })
    })
}

/// Text of clap's error in the program's words; `program` and `args` show which command was typed.
fn explain(error: clap::Error, program: &clap::Command, args: &[OsString]) -> Stop {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.clone()),
        _ => None,
    };
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => return Stop::Said(error),
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand | ErrorKind::MissingSubcommand => {
            let what = "say what to do: `ringfall quick DIR` for how many users a drive \
                        serves, `ringfall --help` for everything";
            return Stop::Wrong(what.to_owned());
        }
        ErrorKind::UnknownArgument => {
            let typed = text(ContextKind::InvalidArg).unwrap_or_default();
            if !typed.starts_with('-') {
                let beside = match args.get(1).is_some_and(|command| command == "quick") {
                    true => "; --beside FILE sets the answer for another drive beside this one",
                    false => "",
                };
                return Stop::Wrong(format!(
                    "{typed:?} is neither a flag nor the value of one: flags begin with --, and \
                     `--help` lists those of this command{beside}"
                ));
            }
            if let Some(what) = unknown::complaint(&typed, program, args) {
                return Stop::Wrong(what);
            }
        }
        _ => {}
    }
    let text = error.to_string();
    Stop::Wrong(text.trim_start_matches("error: ").trim_end().to_owned())
}

#[cfg(test)]
mod tests;
