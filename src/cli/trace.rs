//! Arguments of `trace`.

use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand};
use ringfall_workloads::source::BlockFormat;

use super::checkpoint::size_gib;

/// Arguments of the command `trace`.
#[derive(Clone, Debug, Args)]
pub struct TraceArgs {
    /// The subcommand, with its own arguments.
    #[command(subcommand)]
    pub command: TraceCommand,
}

/// Subcommands of `trace`, in the order of the help.
#[derive(Clone, Debug, Subcommand)]
pub enum TraceCommand {
    /// Describe a trace that names the blocks of its prompts: tokens, sessions, working set, and
    /// the hit rate of caches of all sizes
    #[command(args_override_self = true)]
    Info(TraceInfoArgs),
}

/// Arguments of `trace info`.
#[derive(Clone, Debug, Args)]
pub struct TraceInfoArgs {
    /// Trace to read: a file, which may be compressed (.gz, .zst), a directory of .json and .jsonl
    /// files, or a pattern
    #[arg(value_name = "FILE")]
    pub path: PathBuf,
    /// Model whose KV cache the sizes are of
    #[arg(short = 'm', long, value_name = "NAME", default_value = "llama3.1-8b")]
    pub model: String,
    /// Sizes of caches to count hits for besides the usual ones, separated by commas, such as
    /// 64GiB,1.5TiB; in GiB without a unit
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = size_gib)]
    pub cache_size: Vec<f64>,
    /// Format of the trace: Mooncake's, Qwen-Bailian's, or sessions of kv-cache-tester (cc-traces,
    /// AgentX); auto recognises it by the first row
    #[arg(long, value_name = "FORMAT", default_value = "auto", value_parser = formats())]
    pub format: String,
    /// Write the figures as JSON to this file; `-` prints them instead of the page
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

impl TraceInfoArgs {
    /// The format that was named; none for `auto`.
    #[must_use]
    pub fn named_format(&self) -> Option<BlockFormat> {
        BlockFormat::ALL.into_iter().find(|format| format.name() == self.format)
    }
}

/// Names of the formats, and the wish that it be recognised.
fn formats() -> PossibleValuesParser {
    std::iter::once("auto").chain(BlockFormat::ALL.map(BlockFormat::name)).into()
}
