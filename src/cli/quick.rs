//! Arguments of `quick`.

use std::path::PathBuf;

use clap::Args;
use ringfall_config::ServedRule;
use ringfall_config::values::{Gib, Seed, whole_seconds};
use ringfall_report::quick::QUICK_TIME_S_MAX;

/// Arguments of the command `quick`.
#[derive(Clone, Debug, Args)]
pub struct QuickArgs {
    /// Directory on the drive; when not given, the best place is chosen among the mounted file
    /// systems
    #[arg(value_name = "DIR")]
    pub directory: Option<PathBuf>,
    /// Model whose KV cache is stored
    #[arg(short = 'm', long, value_name = "NAME", default_value = "llama3.1-8b")]
    pub model: String,
    /// Space to use on the drive; when not given, that of the answer of --beside, or else 6 GiB or
    /// twice the model's largest entry, or what a slow drive writes in a sixth of the time
    #[arg(long, value_name = "SIZE")]
    pub space: Option<Gib>,
    /// Targets with which users count as served: the P95 of a request's load, and the share of
    /// earlier turns that are still there
    ///
    /// A request loads what was there before it, which is storage's part of its TTFT. By
    /// simulation, several users count only from a share above the target by 5 % of the misses that
    /// it allows (71.5 % for 70 %), as two windows of one load differ by as much.
    #[arg(long, value_name = "TARGETS", default_value = "load-p95=1s,reuse=70%")]
    pub slo: ServedRule,
    /// Time to take, 15 to 600 seconds (15s to 10m): about two fifths each for the drive's limits
    /// and for a run on the drive, which may take as long again where that brings enough loads;
    /// where that shows another speed, up to two more runs are made, which end within three times
    /// this
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = time)]
    pub time: u64,
    /// Random seed for the users and for content; `random` draws one and prints it
    #[arg(long, value_name = "U64", default_value = "42")]
    pub seed: Seed,
    /// Answer for another drive, as `ringfall quick` wrote it, to set this one beside
    #[arg(long, value_name = "FILE")]
    pub beside: Option<PathBuf>,
    /// File for the answer in JSON; results/quick-TIME.json when not given
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// File for the answer as an HTML page that opens offline
    #[arg(long, value_name = "FILE")]
    pub html_output: Option<PathBuf>,
    /// File for the answer's figures as metrics, for node_exporter's textfile collector
    #[arg(long, value_name = "FILE")]
    pub metrics_file: Option<PathBuf>,
    /// Print the JSON on standard output, and everything else on standard error
    #[arg(long)]
    pub json: bool,
    /// Print no progress and no answer
    #[arg(long)]
    pub quiet: bool,
}

/// Shortest and longest time of an answer, s.
const TIME_S: std::ops::RangeInclusive<u64> = 15..=QUICK_TIME_S_MAX;

fn time(text: &str) -> Result<u64, String> {
    let time_s: u64 = whole_seconds(text)?;
    match TIME_S.contains(&time_s) {
        true => Ok(time_s),
        false => Err("give 15 to 600 seconds (15s to 10m)".to_owned()),
    }
}
