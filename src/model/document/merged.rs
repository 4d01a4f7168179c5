//! `ringfall.merged`: what a merged result is made of.

use std::fmt;

use serde_json::Value;

use super::Document;
use super::merge::{Inputs, Merge};
use super::rank::RankReport;
use super::requests::QuantileMs;
use crate::figures::given::row;

row! {
/// The results that a merged result is made of.
#[serde(default)]
pub struct MergedReport {
    /// The merged results, in the order in which they were given.
    pub inputs: Vec<InputFacts>,
    /// Settings and facts of the machine in which the merged results differ.
    pub differences: Vec<Difference>,
    /// Spread of the merged results in each metric.
    pub spread: Vec<Spread>,
    /// Number of trials that `--trials` asked for; absent when the results were merged in another
    /// way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trials_asked: Option<u32>,
    /// The launch whose ranks these are, which measured at the same time; absent when the results
    /// followed one another.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub launch: Option<Launch>,
    /// A row for each rank, by its number.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ranks: Vec<RankRow>,
    /// A row for each device of each machine that the ranks used.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<HostRow>,
}

/// A launch of several ranks, and how well they measured together.
pub struct Launch {
    /// Identifier that the launcher gave this launch (such as a Slurm job ID); null if none.
    pub name: Option<String>,
    /// Number of ranks in the launch; null if the launcher did not say.
    pub size: Option<u32>,
    /// Numbers of the ranks for which no result was found; if there are more than 1,000, the first
    /// 1,000 of them.
    pub missing: Vec<u32>,
    /// Whether a rank is missing or ended early.
    pub partial: bool,
    /// Share of the time from the first start to the last end in which all ranks measured, 0 to 1.
    pub overlap_share: f64,
    /// Largest number of bytes that a rank moved to and from storage, divided by the mean of all
    /// ranks; null if none moved any.
    pub imbalance: Option<f64>,
    /// Numbers of the ranks that moved less than 80 % of the median rank's bytes.
    pub stragglers: Vec<u32>,
}

/// Measurements of one rank.
pub struct RankRow of (document, rank): (&Document, &RankReport) {
    /// Number of the rank, from 0.
    pub rank: u32 = rank.rank,
    /// Name of the host that the rank ran on.
    pub host: String = rank.host.clone(),
    /// Length of the rank's measurement window, s.
    pub seconds: Option<f64> = document.seconds(),
    /// Bytes that the rank read from storage in its window.
    pub read_bytes: Option<u64> = document.ringfall.io.read.bytes.known(),
    /// Bytes that the rank wrote to storage in its window.
    pub write_bytes: Option<u64> = document.ringfall.io.write.bytes.known(),
    /// Tokens generated over its window, tokens/s.
    pub tokens_per_s: Option<f64> = document.summary.avg_throughput_tokens_per_sec.known(),
    /// Requests that finished without a failed step.
    pub requests_completed: Option<u64> = document.requests_completed.known(),
    /// 95th percentile of the time to read an entry from storage, ms; null without reads.
    pub storage_read_p95_ms: Option<f64> = storage_p95_ms(document, "storage_read_p95_ms"),
    /// 95th percentile of the time to write an entry to storage, ms; null without writes.
    pub storage_write_p95_ms: Option<f64> = storage_p95_ms(document, "storage_write_p95_ms"),
    /// 95th percentile of the time of a request from intended arrival to end, of all requests,
    /// finished or not; null without requests.
    #[serde(default)]
    pub request_p95: Option<QuantileMs> = request_p95(document),
    /// Bytes that the rank moved to and from storage, divided by the mean of all ranks; null if
    /// none moved any.
    pub share_of_mean: Option<f64>,
    /// Queue depth of the measurement: largest number of I/Os that each shard kept in flight on
    /// each drive.
    #[serde(default)]
    pub queue_depth: Option<u32> =
        document.ringfall.config.as_ref().and_then(|config| config.queue_depth),
    /// Why the rank ended early; null if it did not.
    pub failure: Option<String> = why_early(document),
}

/// Bytes that the ranks of one machine moved on one device.
pub struct HostRow {
    /// Name of the host.
    pub host: String,
    /// Name of the disk under `/sys/block`.
    pub device: String,
    /// Number of ranks that used this disk.
    pub ranks: u32,
    /// Bytes that ringfall read from this disk, all ranks together.
    pub engine_read_bytes: u64,
    /// Bytes that ringfall wrote to this disk, all ranks together.
    pub engine_write_bytes: u64,
    /// Bytes that the kernel counted as read from this disk (the largest count of any rank on the
    /// host).
    pub kernel_read_bytes: u64,
    /// Bytes that the kernel counted as written to this disk (the largest count of any rank on the
    /// host).
    pub kernel_write_bytes: u64,
}

/// Facts that identify one of the merged results.
pub struct InputFacts of (file, document): (String, &Document) {
    /// Name of the file from which the result was read.
    pub file: String = file.clone(),
    /// Random seed of the result.
    pub seed: Option<u64> = document.seed.known(),
    /// Start of the result's measurement window, s since 1970-01-01T00:00:00Z.
    pub start_unix_s: Option<f64> = document.ringfall.window.start_unix_s.known(),
    /// Length of the result's measurement window, s.
    pub seconds: Option<f64> = document.seconds(),
    /// Number of requests in the result that finished without a failed step.
    pub requests_completed: Option<u64> = document.requests_completed.known(),
}

/// A setting or fact of the machine that is not the same in two results.
pub struct Difference {
    /// Key of the setting, as in a configuration file; facts of the machine begin with `machine.`.
    pub key: String,
    /// Value in the first result; null when the result does not say.
    pub first: Value,
    /// Value in the other result; null when the result does not say.
    pub second: Value,
}

/// Values of one metric over several results.
pub struct Spread {
    /// Name of the metric, as `ringfall compare --json` gives it.
    pub metric: String,
    /// Value of the metric in each result, in the order of `inputs`; null where it was not
    /// measured, or is known by its bound alone.
    pub values: Vec<Option<f64>>,
    /// Lower bound of each value that is too large to be known: a percentile of all requests that
    /// unfinished ones decide; null for the other results.
    #[serde(default)]
    pub bounds: Vec<Option<f64>>,
    /// Median of the known values and the bounds.
    pub median: f64,
    /// Whether a bound decides the median, which is at least as large then.
    #[serde(default)]
    pub median_is_bound: bool,
    /// Smallest of the known values and the bounds.
    pub min: f64,
    /// Whether the smallest is a bound.
    #[serde(default)]
    pub min_is_bound: bool,
    /// Largest of the known values and the bounds.
    pub max: f64,
    /// Whether the largest is no more than a lower bound, as it is where there is any bound.
    #[serde(default)]
    pub max_is_bound: bool,
    /// Coefficient of variation of the values: standard deviation divided by mean. Null with fewer
    /// than two values, when all are zero, or where there is a bound.
    pub cv: Option<f64>,
}
}

fn storage_p95_ms(document: &Document, key: &str) -> Option<f64> {
    document.summary.cache_stats.latencies_ms.get(key)
}

fn request_p95(document: &Document) -> Option<QuantileMs> {
    document.ringfall.requests.as_ref()?.all.p95.clone()
}

/// Reason for which a run ended early; none where it did not.
pub fn why_early(document: &Document) -> Option<String> {
    let window = &document.ringfall.window;
    window.failure.as_ref().cloned().or_else(|| {
        let is_interrupted = window.interrupted.known() == Some(true);
        is_interrupted.then(|| "a signal ended it".to_owned())
    })
}

/// Drops the record of an earlier merge: the new document lists its own inputs.
impl Merge for MergedReport {
    const RULE: &'static str = "derived";

    fn merged(_: &[&Self], _: &Inputs) -> Self {
        MergedReport::default()
    }
}

impl InputFacts {
    /// The runs that a document holds: itself, or those it was merged from.
    pub fn runs_in(file: &str, document: &Document) -> Vec<InputFacts> {
        match &document.ringfall.merged {
            Some(merged) if !merged.inputs.is_empty() => merged.inputs.clone(),
            _ => vec![InputFacts::of(&(file.to_owned(), document))],
        }
    }

    /// Values that tell runs apart, as far as they are known: start of the window, to a part of a
    /// microsecond, seed, and number of requests that finished.
    pub fn identity(&self) -> Option<(u64, Option<u64>, Option<u64>)> {
        Some((self.start_unix_s?.to_bits(), self.seed, self.requests_completed))
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({} and {})", self.key, self.first, self.second)
    }
}
