//! Arguments of `mlperf`.

use std::path::PathBuf;

use clap::{ArgAction, Args, Subcommand};
use ringfall_foreign::mlperf::sequence::{OPTION_DELAY_S, TRIALS};
use ringfall_foreign::mlperf::{SEED_BASE, TRIAL_DELAY_S};

use super::{RunArgs, time};

/// Where `mlperf run` keeps results when nothing else is said.
pub(super) const RESULTS_DIR: &str = "results/mlperf";

/// Arguments of the command `mlperf`.
#[derive(Clone, Debug, Args)]
pub struct MlperfArgs {
    /// The subcommand, with its own arguments.
    #[command(subcommand)]
    pub command: MlperfCommand,
}

/// Subcommands of `mlperf`, in the order of the help.
#[derive(Clone, Debug, Subcommand)]
pub enum MlperfCommand {
    /// Write a directory that makes the MLPerf Storage harness (mlpstorage) start ringfall in place
    /// of the reference benchmark
    Shim(ShimArgs),
    /// Run the three options of the rules, three trials each, and add them up as the harness does
    ///
    /// Start it directly, or as every rank of a launch (`mpirun -n 4 ringfall mlperf run ...`).
    /// Its results are for the OPEN division and for exploration: a CLOSED submission must run the
    /// reference benchmark's own engine.
    #[command(args_override_self = true)]
    Run(Box<MlperfRunArgs>),
    /// Summarize a run that was made before, and write its page
    Report(MlperfReportArgs),
    /// Run one rank of a trial as the harness's launcher would, including its start and end delays
    #[command(args_override_self = true)]
    Rank(Box<RankArgs>),
}

/// Arguments of `mlperf shim`.
#[derive(Clone, Debug, Args)]
pub struct ShimArgs {
    /// Directory to write; every host must see it at the same path
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
    /// Absolute path of ringfall on every host; this program's own path when not given
    #[arg(long, value_name = "PATH")]
    pub ringfall: Option<PathBuf>,
    /// Seconds that each rank waits before a trial, instead of the 90 that the rules ask for
    #[arg(long, value_name = "SECONDS", value_parser = delay())]
    pub start_delay: Option<u64>,
    /// Seconds that each rank waits after a trial, instead of the 90 that the rules ask for
    #[arg(long, value_name = "SECONDS", value_parser = delay())]
    pub end_delay: Option<u64>,
}

/// Longest delay: a day.
const DELAY_MAX_S: i64 = 86_400;

fn delay() -> impl Fn(&str) -> Result<u64, String> + Clone + Send + Sync + 'static {
    time(0..=DELAY_MAX_S)
}

/// Waits of a rank around a trial.
#[derive(Clone, Copy, Debug, Args)]
pub struct TrialDelays {
    /// Seconds to wait before each trial
    #[arg(long, value_name = "SECONDS", default_value_t = TRIAL_DELAY_S, value_parser = delay())]
    pub start_delay: u64,
    /// Seconds to wait after each trial
    #[arg(long, value_name = "SECONDS", default_value_t = TRIAL_DELAY_S, value_parser = delay())]
    pub end_delay: u64,
}

/// Arguments of `mlperf rank`.
#[derive(Clone, Debug, Args)]
pub struct RankArgs {
    /// Directory of the trial; the result is DIR/rank_N/kvcache_results_TIME.json
    #[arg(long, value_name = "DIR")]
    pub rank_output_base: PathBuf,
    /// Directory of the data of all ranks; this one's is DIR/rank_N
    #[arg(long, value_name = "DIR")]
    pub rank_cache_base: PathBuf,
    /// Seed of rank 0; each rank adds its number
    #[arg(long, value_name = "U64", default_value_t = SEED_BASE)]
    pub seed_base: u64,
    /// Waits around the run.
    #[command(flatten)]
    pub delays: TrialDelays,
    /// As for `run`; --seed and --cache-dir are replaced by the rank's own, and --output names a
    /// second place for a result that is whole.
    #[command(flatten)]
    pub run: RunArgs,
}

/// Arguments of `mlperf run`.
#[derive(Clone, Debug, Args)]
pub struct MlperfRunArgs {
    /// Directory on the storage to be tested; each rank keeps its data in DIR/rank_N
    #[arg(long, value_name = "DIR")]
    pub cache_dir: PathBuf,
    /// Directory of all results, best on other storage; under a launcher every rank must see it
    #[arg(long, value_name = "DIR", default_value = RESULTS_DIR)]
    pub results_dir: PathBuf,
    /// Name of the organization in the tree of results
    #[arg(long, value_name = "NAME", default_value = "local")]
    pub orgname: String,
    /// Name of the system in the tree of results; the name of this host when not given
    #[arg(long, value_name = "NAME")]
    pub systemname: Option<String>,
    /// Options of the rules to run, separated by commas, in this order
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "1,2,3")]
    #[arg(action = ArgAction::Set, num_args = 1)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=3))]
    pub options: Vec<u32>,
    /// Number of trials of each option
    #[arg(long, value_name = "N", default_value_t = TRIALS)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub trials: u32,
    /// Seed of rank 0, in every trial; each rank adds its number
    #[arg(long, alias = "seed", value_name = "U64", default_value_t = SEED_BASE)]
    pub seed_base: u64,
    /// Waits around each trial.
    #[command(flatten)]
    pub delays: TrialDelays,
    /// Seconds to wait between two options, in addition to the delays of their trials
    #[arg(long, value_name = "SECONDS", default_value_t = OPTION_DELAY_S, value_parser = delay())]
    pub inter_option_delay: u64,
    /// Model for all options, instead of each option's own
    #[arg(long, value_name = "NAME")]
    pub model: Option<String>,
    /// Number of users of each rank, instead of each option's own
    #[arg(long, value_name = "N")]
    pub num_users: Option<String>,
    /// Length of each measurement in seconds, instead of 300
    #[arg(long, value_name = "SECONDS")]
    pub duration: Option<String>,
    /// Memory of the GPU tier in GiB, instead of 0
    #[arg(long, value_name = "GIB")]
    pub gpu_mem_gb: Option<String>,
    /// Memory of the CPU tier in GiB, instead of each option's own
    #[arg(long, value_name = "GIB")]
    pub cpu_mem_gb: Option<String>,
    /// Number of prefill writes in progress at the same time, instead of each option's own
    #[arg(long, value_name = "N")]
    pub max_concurrent_allocs: Option<String>,
    /// Simulated time per generated token (TPOT), instead of `none`
    #[arg(long, value_name = "MODE")]
    pub generation_mode: Option<String>,
    /// YAML file with settings of ringfall for all trials
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Continue the newest unfinished run of this system; trials that have ended are kept
    #[arg(long)]
    pub resume: bool,
    /// Run to compare with, of another system or an earlier one of this system: the directory of
    /// its summary.json
    #[arg(long, value_name = "RUN")]
    pub baseline: Option<PathBuf>,
    /// Print what would run and how long it would take, and run nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Do not show progress
    #[arg(long)]
    pub quiet: bool,
    /// Further flags of `ringfall run`, for all trials
    #[arg(last = true, value_name = "FLAGS")]
    pub more: Vec<String>,
}

/// Arguments of `mlperf report`.
#[derive(Clone, Debug, Args)]
pub struct MlperfReportArgs {
    /// Directory of a run, with option_1/trial_0/rank_0 and so on: of `ringfall mlperf run`, or of
    /// the harness
    #[arg(value_name = "RUN")]
    pub run: PathBuf,
    /// Another run to compare with
    #[arg(long, value_name = "RUN")]
    pub baseline: Option<PathBuf>,
    /// Write the page to this file
    #[arg(long, value_name = "FILE")]
    pub html_output: Option<PathBuf>,
    /// Print the summary as JSON instead of the table
    #[arg(long)]
    pub json: bool,
}
