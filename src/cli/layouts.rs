//! Arguments of `layouts`.

use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand, ValueEnum};
use ringfall_config::values::{self, Gib, Seed};
use ringfall_core::model::LatencySpread;
use ringfall_model::facts::EngineLimits;
use ringfall_workloads::layout::EngineLayout;

use super::number;

/// Arguments of the command `layouts`.
#[derive(Clone, Debug, Args)]
pub struct LayoutsArgs {
    /// The subcommand, with its own arguments; the list of layouts without one.
    #[command(subcommand)]
    pub command: Option<LayoutsCommand>,
}

/// Subcommands of `layouts`, in the order of the help.
#[derive(Clone, Debug, Subcommand)]
pub enum LayoutsCommand {
    /// Store and fetch prefixes as each engine does, and compare the layouts on one drive
    ///
    /// For each layout, prefixes are stored in a new directory, written to the drive and forgotten
    /// by the page cache; then prefixes are fetched in random order, and all of it is removed.
    Compare(LayoutsCompareArgs),
    /// Repeat an engine's calls on its files, or requests to a drive, as they were recorded, and
    /// compare their times
    ///
    /// The recording is what `strace -f -ttt -T -y -o FILE` writes of an engine's processes. Files
    /// that it finds are made first, in a new directory; then each of its calls begins when those
    /// that it followed have ended, and all of it is removed.
    ///
    /// Or it is of a drive's requests, as `tools/block-requests.bt`, blkparse, perf script or
    /// trace-cmd print them. What they touch is written first, to one file that takes no more space
    /// than that; then each request begins when all that had ended before it have ended.
    Replay(LayoutsReplayArgs),
}

/// Workers that `layouts compare` measures.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, ValueEnum)]
pub enum LimitsChoice {
    /// The engine's threads and system calls.
    Theirs,
    /// The same objects and operations through io_uring, many in flight.
    Ours,
    /// One after the other.
    #[default]
    Both,
}

impl LimitsChoice {
    /// The kinds of workers to measure, in their order.
    pub fn limits(self) -> &'static [EngineLimits] {
        match self {
            LimitsChoice::Theirs => &[EngineLimits::Theirs],
            LimitsChoice::Ours => &[EngineLimits::Ours],
            LimitsChoice::Both => &[EngineLimits::Theirs, EngineLimits::Ours],
        }
    }
}

/// Name of ringfall's own data file among the layouts.
pub const NATIVE: &str = "native";

/// Arguments of `layouts compare`.
#[derive(Clone, Debug, Args)]
pub struct LayoutsCompareArgs {
    /// Directory on the drive
    #[arg(long, value_name = "DIR")]
    pub cache_dir: PathBuf,
    /// Model whose KV cache is stored
    #[arg(short = 'm', long, value_name = "NAME", default_value = "llama3.1-8b")]
    pub model: String,
    /// Number of ranks among which tensor parallelism divides the model, 1 to 1024
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = number::<u64>(1, 1024))]
    pub tensor_parallel: u64,
    /// Number of tokens of each prefix, 1 to 1048576
    #[arg(long, value_name = "N", default_value_t = 2048)]
    #[arg(value_parser = number::<u64>(1, 1 << 20))]
    pub prefix_tokens: u64,
    /// Layouts to compare, separated by commas, of which native is ringfall's own data file; all of
    /// them when not given
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = layouts())]
    pub layout: Vec<String>,
    /// Option in place of the engine's own, as LAYOUT.KEY=VALUE, or KEY=VALUE for all layouts that
    /// have it; `ringfall layouts` lists them. Several are separated by commas
    #[arg(long, value_name = "OPTION", value_delimiter = ',')]
    pub layout_option: Vec<String>,
    /// Workers that move the objects: the engine's own threads and system calls, io_uring with many
    /// objects in flight, or both, one after the other
    #[arg(long, value_name = "WHOSE", value_enum, default_value = "both")]
    pub engine_limits: LimitsChoice,
    /// Duration of the fetches of each layout, 0.1 to 3600 s; stores take at most four times as
    /// long
    #[arg(long, value_name = "SECONDS", default_value = "5", value_parser = seconds)]
    pub seconds_each: f64,
    /// Space that the objects of one layout may take
    #[arg(long, value_name = "SIZE", default_value = "4GiB")]
    pub space: Gib,
    /// Number of empty files that are made in the directory before each layout that has a file for
    /// each object, as after a long time in service; at most 10000000
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = number::<u64>(0, 10_000_000))]
    pub populate_objects: u64,
    /// Random seed of contents and of the order of fetches; `random` draws one
    #[arg(long, value_name = "U64", default_value = "42")]
    pub seed: Seed,
    /// Write the figures as JSON to this file; `-` prints them instead of the page
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Print no progress and no page
    #[arg(long)]
    pub quiet: bool,
}

/// Arguments of `layouts replay`.
#[derive(Clone, Debug, Args)]
pub struct LayoutsReplayArgs {
    /// Output of `strace -f -ttt -T -y`, or requests to a drive; also compressed (.gz, .zst)
    #[arg(value_name = "FILE")]
    pub recording: PathBuf,
    /// Directory on the drive
    #[arg(long, value_name = "DIR")]
    pub cache_dir: PathBuf,
    /// Directory of the recording whose files are replayed, or drive whose requests are, as
    /// MAJOR,MINOR; when not given, the longest directory that all files have in common that were
    /// read or written, or all drives
    #[arg(long, value_name = "PATH")]
    pub below: Option<String>,
    /// Factor by which the gaps between operations are shorter, 0.001 to 1000; `max` leaves them
    /// out
    #[arg(long, value_name = "N", default_value = "1", value_parser = speed)]
    pub speed: ReplaySpeed,
    /// Minimum latency of each call, as a slower store would have it: a time, up to 60s, or a
    /// median and 99th percentile, p50=1ms,p99=20ms
    #[arg(long, value_name = "TIME", value_parser = values::latencies)]
    pub inject_latency: Option<LatencySpread>,
    /// Write the figures as JSON to this file; `-` prints them instead of the page
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Print no progress and no page
    #[arg(long)]
    pub quiet: bool,
}

/// Factor by which gaps are shorter; none: there are none.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ReplaySpeed(pub Option<f64>);

fn speed(text: &str) -> Result<ReplaySpeed, String> {
    if text == "max" {
        return Ok(ReplaySpeed(None));
    }
    let factor = text.parse().ok().filter(|factor| (0.001..=1_000.0).contains(factor));
    match factor {
        Some(factor) => Ok(ReplaySpeed(Some(factor))),
        None => Err("give 0.001 to 1000, or max".to_owned()),
    }
}

fn layouts() -> PossibleValuesParser {
    EngineLayout::ALL.into_iter().map(EngineLayout::name).chain([NATIVE]).into()
}

fn seconds(text: &str) -> Result<f64, String> {
    let time_s = values::seconds(text)?;
    match (0.1..=3_600.0).contains(&time_s) {
        true => Ok(time_s),
        false => Err("give 0.1 to 3600 seconds".to_owned()),
    }
}
