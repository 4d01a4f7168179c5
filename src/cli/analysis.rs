//! Arguments of the subcommands that read results: `analyze`, `merge`, `compare`.

use std::path::PathBuf;

use clap::Args;

use ringfall_report::analysis::pairs::{Dimension, Order};

/// Arguments of the command `analyze`, an older name of what `compare` does with collections.
#[derive(Clone, Debug, Args)]
pub struct AnalyzeArgs {
    /// Results of the system that is expected to be faster: a directory of JSON results, or an
    /// .xlsx or .csv file
    #[arg(value_name = "FAST")]
    pub fast: PathBuf,
    /// Results of the other system; ratios are FAST divided by SLOW
    #[arg(value_name = "SLOW")]
    pub slow: PathBuf,
    /// Form of the table.
    #[command(flatten)]
    pub table: TableArgs,
}

/// Arguments that decide what a comparison shows.
#[derive(Clone, Debug, Args)]
pub struct TableArgs {
    /// Group configurations of collections by a combination of these dimensions, such as
    /// cpu-memory,users; when not given, by each of the first three separately
    #[arg(long, value_enum, value_name = "LIST", value_delimiter = ',')]
    pub by: Vec<Dimension>,
    /// Order of the groups; when not given, models by their ratio of storage throughput and
    /// everything else by name
    #[arg(long, value_enum, value_name = "ORDER")]
    pub sort: Option<Order>,
    /// Show all metrics, not only the usual ones, and those of two results that can't be compared;
    /// and of two results which metrics to go by, and why
    #[arg(long, alias = "all-metrics")]
    pub details: bool,
    /// Print the comparison as JSON
    #[arg(long)]
    pub json: bool,
}

/// Arguments of the command `merge`.
#[derive(Clone, Debug, Args)]
pub struct MergeArgs {
    /// Two or more JSON results of ringfall, or a directory that holds those of ranks in rank_N/
    ///
    /// Ranks of one launch are merged side by side: they measured at the same time. Of trials of
    /// ranks, those of each trial are merged first, and then the trials.
    #[arg(value_name = "FILE", required = true, num_args = 1..)]
    pub files: Vec<PathBuf>,
    /// File for the merged result in JSON; `-` writes it to standard output, as --json does
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Merge results even if their configurations differ
    #[arg(long)]
    pub allow_different: bool,
    /// Print the merged result as JSON
    #[arg(long)]
    pub json: bool,
}

/// Arguments of the command `compare`.
#[derive(Clone, Debug, Args)]
pub struct CompareArgs {
    /// The JSON result to start from, and the one to compare with it; or two answers of `quick`, or
    /// one and the result of its check; or two collections, the one that is expected to be faster
    /// first: directories of results, .xlsx or .csv files
    #[arg(
        value_name = "FILE", num_args = 1..=2, required_unless_present = "baseline",
        conflicts_with_all = ["baseline", "candidate"]
    )]
    pub files: Vec<PathBuf>,
    /// Results of the first system, one per trial
    #[arg(long, value_name = "FILE", num_args = 1.., requires = "candidate")]
    pub baseline: Vec<PathBuf>,
    /// Results of the second system, one per trial; ratios are candidate divided by baseline
    #[arg(long, value_name = "FILE", num_args = 1.., requires = "baseline")]
    pub candidate: Vec<PathBuf>,
    /// Form of the table.
    #[command(flatten)]
    pub table: TableArgs,
}
