//! Arguments of `sweep`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::RunArgs;

/// A published set of combinations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SweepSpace {
    /// The configurations of the study behind the published results.
    Discovery,
    /// The six recommended invocations by model.
    Presets,
}

/// Arguments of the command `sweep`.
#[derive(Clone, Debug, Default, Args)]
pub struct SweepArgs {
    /// A setting and the values to try, separated by commas: `num-users=50,100`
    ///
    /// It may be given several times: every value of one is combined with every value of the
    /// others. Any flag of `ringfall run` is a setting that can be varied.
    #[arg(long, value_name = "FLAG=VALUES")]
    pub vary: Vec<String>,
    /// A published set of combinations; --vary then narrows it, or adds a setting to it
    ///
    /// discovery: the configurations of the study behind the published results, four models with
    /// their numbers of users, CPU memory, concurrent allocations and generation mode.
    /// presets: the six presets by model (`ringfall run --preset list`), 300 s each unless
    /// --duration is given.
    #[arg(long, value_name = "NAME", value_enum, hide_possible_values = true)]
    pub space: Option<SweepSpace>,
    /// Directory for the results and logs; the same command continues what was begun there
    #[arg(long, value_name = "DIR", default_value = "results/sweep")]
    pub results: PathBuf,
    /// Files that describe drives in YAML, separated by commas: simulate the runs on them instead
    /// of running them on a real drive
    #[arg(long, value_name = "FILE", value_delimiter = ',')]
    pub device: Vec<PathBuf>,
    /// Number of simulated runs to make at the same time; real runs are always made one after the
    /// other
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub jobs: u16,
    /// List the runs and the estimated time, and run nothing
    #[arg(long)]
    pub dry_run: bool,
    /// As for `run`; --trials repeats every combination, and --seed (42 if it is not given) also
    /// decides the order of the runs.
    #[command(flatten)]
    pub run: RunArgs,
}
