//! Arguments of `trace`.

use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand};
use ringfall_config::values::{self, PrefillSpeed};
use ringfall_config::{Word, WritePolicy};
use ringfall_workloads::source::TraceFormat;

use super::checkpoint::{size_gib, within};

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
    /// Describe a recorded trace: tokens, sessions and, where it names the blocks of its prompts,
    /// the working set and the hit rate of caches of all sizes
    Info(TraceInfoArgs),
    /// Choose the sizes of DRAM and an SSD for a trace that names the blocks of its prompts: what
    /// each of them finds, what the drive must read, write and endure, and whether reading from it
    /// beats computing
    Plan(TracePlanArgs),
}

/// Arguments that all subcommands of `trace` have.
#[derive(Clone, Debug, Args)]
pub struct TraceFileArgs {
    /// Trace to read: a file, which may be compressed (.gz, .zst), a directory of .csv, .json and
    /// .jsonl files, or a pattern
    #[arg(value_name = "FILE")]
    pub path: PathBuf,
    /// Model whose KV cache the sizes are of
    #[arg(short = 'm', long, value_name = "NAME", default_value = "llama3.1-8b")]
    pub model: String,
    /// Format of the trace: Mooncake's, Qwen-Bailian's, sessions of kv-cache-tester (cc-traces,
    /// AgentX), BurstGPT's, Azure's, or Copilot's; auto recognises it by the first row
    #[arg(long, value_name = "FORMAT", default_value = "auto", value_parser = formats())]
    pub format: String,
    /// Write the figures as JSON to this file; `-` prints them instead of the page
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// Arguments of `trace info`.
#[derive(Clone, Debug, Args)]
pub struct TraceInfoArgs {
    /// Trace, and the form of the figures.
    #[command(flatten)]
    pub trace: TraceFileArgs,
    /// Sizes of caches to count hits for besides the usual ones, separated by commas, such as
    /// 64GiB,1.5TiB; in GiB without a unit
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = size_gib)]
    pub cache_size: Vec<f64>,
}

/// Arguments of `trace plan`.
#[derive(Clone, Debug, Args)]
pub struct TracePlanArgs {
    /// Trace, and the form of the figures.
    #[command(flatten)]
    pub trace: TraceFileArgs,
    /// Sizes of DRAM for KV cache to try, separated by commas, up to four; in GiB without a unit, 0
    /// for none
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = size_or_none)]
    #[arg(default_value = "64GiB")]
    pub dram_size: Vec<f64>,
    /// Sizes of the SSD to try instead of powers of two up to all blocks of the trace, separated by
    /// commas, such as 512GiB,4TiB; in GiB without a unit
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = size_gib)]
    pub ssd_size: Vec<f64>,
    /// Rule by which blocks get to the SSD
    #[arg(long, value_name = "RULE", default_value = "demote")]
    pub write_policy: Word<WritePolicy>,
    /// Speed at which the trace is served; 2 is twice its own
    ///
    /// The busiest minute is sought at this speed: minutes are counted from the first request, and
    /// what is left at the end, less than a minute, belongs to the last one.
    #[arg(long, value_name = "FACTOR", default_value = "1", value_parser = factor)]
    pub speed: f64,
    /// File that describes the drive in YAML, as `simulate` takes it
    #[arg(long, value_name = "FILE", conflicts_with = "read_gib_per_s")]
    pub device: Option<PathBuf>,
    /// Bandwidth of reads of a drive that no file describes, in GiB/s
    #[arg(long, value_name = "GIB_PER_S", value_parser = factor)]
    pub read_gib_per_s: Option<f64>,
    /// Prefill speed at which a GPU computes what is not found, in tokens per second, or the GPU
    /// (a100, b200, h100, h200, l40s, mi300x) that it is worked out for, as `run` does
    #[arg(long, value_name = "PER_SECOND|GPU")]
    pub prefill_tokens_per_s: Option<PrefillSpeed>,
}

impl TraceFileArgs {
    /// The format that was named; none for `auto`.
    pub fn named_format(&self) -> Option<TraceFormat> {
        TraceFormat::ALL.into_iter().find(|format| format.name() == self.format)
    }
}

/// Names of the formats, and the wish that it be recognised.
fn formats() -> PossibleValuesParser {
    std::iter::once("auto").chain(TraceFormat::ALL.map(TraceFormat::name)).into()
}

/// A size as [`size_gib`] takes it, or 0.
fn size_or_none(text: &str) -> Result<f64, String> {
    if values::gib(text) == Ok(0.0) { Ok(0.0) } else { size_gib(text) }
}

fn factor(text: &str) -> Result<f64, String> {
    within(text, text.trim().parse().ok(), 1e-3..=1e6, "number above 0")
}
