//! Arguments of the subcommands that read results: `analyze`, `merge`, `compare`.

use std::path::PathBuf;

use clap::Args;

use crate::analysis::pairs::Dimension;

/// Arguments of `analyze`.
#[derive(Clone, Debug, Args)]
pub struct AnalyzeArgs {
    /// Results of the system expected to be faster: a directory of JSON results, .xlsx or .csv
    #[arg(value_name = "FAST")]
    pub fast: PathBuf,
    /// Results of the other; ratios are FAST over SLOW
    #[arg(value_name = "SLOW")]
    pub slow: PathBuf,
    /// Group by these together, such as cpu-memory,users; default: by each of the first three alone
    #[arg(long, value_enum, value_name = "LIST", value_delimiter = ',')]
    pub by: Vec<Dimension>,
    /// Show every metric, not only the usual ones
    #[arg(long)]
    pub all_metrics: bool,
    /// Print the whole table as JSON
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `merge`.
#[derive(Clone, Debug, Args)]
pub struct MergeArgs {
    /// JSON results of ringfall, two or more
    #[arg(value_name = "FILE", required = true, num_args = 2..)]
    pub files: Vec<PathBuf>,
    /// Write the merged result here
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Merge also what was configured differently
    #[arg(long)]
    pub allow_different: bool,
    /// Print the merged result as JSON
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `compare`.
#[derive(Clone, Debug, Args)]
pub struct CompareArgs {
    /// A JSON result, and the one to compare with it
    #[arg(
        value_name = "FILE", num_args = 1..=2, required_unless_present = "baseline",
        conflicts_with_all = ["baseline", "candidate"]
    )]
    pub files: Vec<PathBuf>,
    /// Results of one system: its trials
    #[arg(long, value_name = "FILE", num_args = 1.., requires = "candidate")]
    pub baseline: Vec<PathBuf>,
    /// Results of the other; ratios are candidate over baseline
    #[arg(long, value_name = "FILE", num_args = 1.., requires = "baseline")]
    pub candidate: Vec<PathBuf>,
    /// Show every metric, not only the usual ones
    #[arg(long)]
    pub all_metrics: bool,
    /// Print the comparison as JSON
    #[arg(long)]
    pub json: bool,
}
