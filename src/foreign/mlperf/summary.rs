//! `summary.json`: the harness's keys with its definitions, and beside them, under `ringfall`, what
//! all ranks and trials of an option come to together.
//!
//! The keys are those of two versions: the published results (v3.0) have
//! `aggregated_p95_latency_ms`, the harness of version 3.0.26 has the device's latencies instead,
//! and newer ones `aggregated_storage_read_p95_ms`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use ringfall_model::document::LatencyMsMax;

/// Layout of the harness's summary (`_write_run_summary`).
pub const SCHEMA_VERSION: &str = "1.0";

/// A run added up as the harness does, in the layout of its summary.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Layout of the summary: [`SCHEMA_VERSION`].
    pub schema_version: String,
    /// Name of the run: the time of its begin.
    pub run_datetime: String,
    /// Ranks on each host.
    pub npernode: u32,
    /// Number of hosts that ranks ran on.
    pub host_count: u32,
    /// Ranks on all hosts.
    pub total_ranks: u32,
    /// Trials of each option.
    pub trials_per_option: u32,
    /// By the number of the option.
    pub options: BTreeMap<String, OptionSummary>,
    /// Whether a result is missing.
    pub partial_failure: bool,
    /// Why trials failed, by option and trial; empty where none did.
    pub trial_failures: BTreeMap<String, String>,
    /// Figures that ringfall adds.
    pub ringfall: About,
}

/// Additions of ringfall to the harness's summary of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct About {
    /// Version of ringfall that made the summary.
    pub version: String,
    /// That this is no CLOSED submission.
    pub division: String,
    /// Departures from the rules that concern all options; null where they are not recorded.
    pub departures: Option<Vec<String>>,
}

/// One option, as the harness adds it up: rates summed over ranks and averaged over trials,
/// latencies the largest of ranks and trials.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OptionSummary {
    /// 1, 2 or 3.
    pub option: u32,
    /// Read from storage, GiB/s.
    pub aggregated_read_bandwidth_gbps: f64,
    /// Written to storage, GiB/s.
    pub aggregated_write_bandwidth_gbps: f64,
    /// Tokens over elapsed time, tokens/s.
    pub aggregated_avg_throughput_tokens_per_sec: f64,
    /// Tokens over the summed time of storage I/O, tokens/s.
    pub aggregated_storage_throughput_tokens_per_sec: f64,
    /// Largest P95 of the storage I/O time of a request, ms.
    pub aggregated_p95_latency_ms: f64,
    /// Largest P95 of the device's time to read an entry, ms.
    pub aggregated_device_read_p95_ms: f64,
    /// Largest P95 of the device's time to write an entry, ms.
    pub aggregated_device_write_p95_ms: f64,
    /// Largest P95 of the time to read an entry from storage, ms.
    pub aggregated_storage_read_p95_ms: f64,
    /// Ranks that should have a result in each trial.
    pub rank_count: u32,
    /// Number of trials of each option.
    pub trial_count: u32,
    /// Whether a result is missing.
    pub partial_failure: bool,
    /// Directories of ranks without a result, and results that can't be read.
    pub missing_files: Vec<String>,
    /// Results of ranks that held no entry on storage at their end.
    pub cpu_tier_ranks: Vec<String>,
    /// Figures that ringfall adds.
    pub ringfall: OptionDetails,
}

/// Additions of ringfall to the harness's summary of an option.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OptionDetails {
    /// Model, as the results have it; null where they differ or there is none.
    pub model: Option<String>,
    /// Users of each rank.
    pub users: Option<u32>,
    /// Departures from the rules; null where they are not recorded.
    pub departures: Option<Vec<String>>,
    /// All ranks and trials as one; null where a result is not ringfall's, or none is there.
    pub merged: Option<Merged>,
    /// Each trial by itself.
    pub trials: Vec<TrialRow>,
    /// Coefficient of variation of the trials' tokens/s; null with fewer than two, or of zeros.
    pub trials_cv: Option<f64>,
    /// Notes for the reader.
    pub notes: Vec<String>,
}

/// All ranks and trials of an option as one result: bytes and tokens added up over the time that
/// the ranks measured, histograms merged exactly.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Merged {
    /// The file that holds the whole of it.
    pub file: String,
    /// The time of all trials, s.
    pub seconds: Option<f64>,
    /// Read from storage, GiB/s.
    pub read_gib_per_s: Option<f64>,
    /// Written to storage, GiB/s.
    pub write_gib_per_s: Option<f64>,
    /// Tokens over that time, tokens/s.
    pub tokens_per_s: Option<f64>,
    /// Tokens over the summed time of storage I/O, tokens/s.
    pub storage_tokens_per_s: Option<f64>,
    /// Bytes read in the decode phase, GiB/s.
    pub decode_gib_per_s: Option<f64>,
    /// Share of the reads that found their entry, 0 to 1.
    pub hit_rate: Option<f64>,
    /// Storage I/O time of a request, ms; null when none finished.
    pub storage_io_ms: Option<LatencyMsMax>,
    /// Time to read an entry from storage, ms; null without reads.
    pub storage_read_ms: Option<LatencyMsMax>,
    /// The device's part of that, ms.
    pub storage_read_device_ms: Option<LatencyMsMax>,
    /// Time to write an entry to storage, ms; null without writes.
    pub storage_write_ms: Option<LatencyMsMax>,
    /// The device's part of that, ms.
    pub storage_write_device_ms: Option<LatencyMsMax>,
    /// A request from its intended arrival to its end, ms; null when none finished.
    pub end_to_end_ms: Option<LatencyMsMax>,
}

/// One trial, added up as the harness does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TrialRow {
    /// Number of the trial within its option, from 0.
    pub trial: u32,
    /// Ranks that have a result.
    pub ranks: u32,
    /// Sum over ranks, GiB/s.
    pub read_gib_per_s: f64,
    /// Sum over ranks, GiB/s.
    pub write_gib_per_s: f64,
    /// Sum over ranks, tokens/s.
    pub tokens_per_s: f64,
    /// Sum over ranks, tokens/s.
    pub storage_tokens_per_s: f64,
    /// Largest of the ranks, ms.
    pub p95_ms: f64,
    /// Largest of the ranks, ms.
    pub device_read_p95_ms: f64,
    /// Largest of the ranks, ms.
    pub device_write_p95_ms: f64,
    /// Largest of the ranks, ms.
    pub storage_read_p95_ms: f64,
}
