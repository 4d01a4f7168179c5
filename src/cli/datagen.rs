//! Arguments of `datagen`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use ringfall_config::values::Size;

use super::checkpoint::size_gib;
use super::{ContentArgs, mib, number};

/// Arguments of the command `datagen`.
#[derive(Clone, Debug, Args)]
pub struct DatagenArgs {
    /// The subcommand, with its own arguments.
    #[command(subcommand)]
    pub command: DatagenCommand,
}

/// Subcommands of `datagen`, in the order of the help.
#[derive(Clone, Debug, Subcommand)]
pub enum DatagenCommand {
    /// Analyze how far storage could reduce data: duplicate blocks, compressibility, entropy
    Analyze(DatagenAnalyzeArgs),
    /// Write a file of generated content with the given deduplication and compression ratios
    Write(DatagenFileArgs),
    /// Compare a file with what `datagen write` has written with the same flags
    Verify(DatagenFileArgs),
}

/// Seed and reducibility of the content.
#[derive(Clone, Copy, Debug, Args)]
pub struct ShapeArgs {
    /// Random seed of the content; always a number, which `datagen verify` needs again
    #[arg(long, value_name = "U64", default_value_t = 1)]
    pub seed: u64,
    /// To which degree storage can reduce it.
    #[command(flatten)]
    pub content: ContentArgs,
}

/// Arguments of `datagen analyze`.
#[derive(Clone, Debug, Args)]
pub struct DatagenAnalyzeArgs {
    /// Files, block devices, or directories of files; a checkpoint's directory is one
    #[arg(value_name = "PATH", required_unless_present = "generated_gib")]
    pub paths: Vec<PathBuf>,
    /// Amount of ringfall's own content to analyze instead of files, in GiB; it is generated on the
    /// fly and stored nowhere
    #[arg(long, value_name = "GIB", conflicts_with = "paths", value_parser = size_gib)]
    pub generated_gib: Option<f64>,
    /// Shape of generated content.
    #[command(flatten)]
    pub shape: ShapeArgs,
    /// Block sizes at which duplicates are counted, separated by commas: powers of two from 512
    /// bytes to 16 MiB
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "512,4k,64k,1m")]
    pub block_sizes: Vec<Size>,
    /// Memory for digests of blocks, in MiB, 1 to 1048576; where they would take more, only a
    /// sample of them is counted
    #[arg(long, value_name = "MIB", default_value_t = 512)]
    #[arg(value_parser = mib::<u64>(1..=1_048_576))]
    pub memory_mib: u64,
    /// Count exactly, whatever the size: read the data as many times as it takes, each time for a
    /// part of the digests
    #[arg(long)]
    pub exact: bool,
    /// Percentage of the data that is compressed and whose entropy is measured, 0 to 100
    #[arg(long, value_name = "PERCENT", default_value_t = 100)]
    #[arg(value_parser = number::<u32>(0, 100))]
    pub sample_percent: u32,
    /// Number of threads, 1 to 1024; one per core when not given
    #[arg(long, value_name = "N", value_parser = number::<u32>(1, 1024))]
    pub threads: Option<u32>,
    /// Write the result to this file as JSON
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Print the result as JSON instead of a table
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `datagen write` and `datagen verify`.
#[derive(Clone, Debug, Args)]
pub struct DatagenFileArgs {
    /// File to write or to verify
    #[arg(value_name = "FILE")]
    pub path: PathBuf,
    /// Size of the file in GiB, rounded up to a multiple of 4 KiB
    #[arg(long, value_name = "GIB", default_value_t = 1.0, value_parser = size_gib)]
    pub size_gib: f64,
    /// Shape of its content.
    #[command(flatten)]
    pub shape: ShapeArgs,
    /// Let `write` replace a file that already exists
    #[arg(long)]
    pub overwrite: bool,
}
