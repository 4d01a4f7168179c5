//! Result of a checkpoint command, as it is written in JSON.

use ringfall_core::clock::Nanos;
use ringfall_core::metrics::Histogram;
use serde::Serialize;

use ringfall_running::checkpoint::{
    BadBlock, Manifest, Restored, SaveSettings, Saved, Target, TargetCounters, TargetError,
    Trained, Training, Way,
};

use super::super::memory::peak_memory_bytes;

/// Version of this document.
const FORMAT_VERSION: u32 = 1;

/// Result of a checkpoint command.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(in crate::commands) struct CheckpointResult {
    /// Tells such a file from others; always `ringfall-checkpoint-result`.
    pub format: &'static str,
    /// Version of this layout of the file.
    pub format_version: u32,
    /// Version of the program.
    pub ringfall_version: &'static str,
    /// `write`, `read`, `run` or `compare`.
    pub command: &'static str,
    /// Where the checkpoint is.
    pub target: String,
    /// Kind of storage that the checkpoint is on: `file`, `s3` and so on.
    pub target_kind: &'static str,
    /// Whether content went through the page cache (`--io buffered`): memory may have taken what
    /// was written and served what was read, so that no rate is the storage's own.
    pub through_page_cache: bool,
    /// Sentences that a reader of the figures must know.
    pub warnings: Vec<String>,
    /// Second target, in a comparison.
    pub beside: Option<String>,
    /// Bytes of all shards.
    pub total_bytes: u64,
    /// Number of ranks that the checkpoint is of.
    pub ranks: usize,
    /// Whether all ranks share large files, rather than each having its own.
    pub shared_file: bool,
    /// Ratios that the content was given.
    pub dedupe_ratio: f64,
    /// Compression ratio that the content was given.
    pub compress_ratio: f64,
    /// Length of a chunk, bytes.
    pub chunk_bytes: u64,
    /// Number of chunks that memory holds at the same time.
    pub buffers: u32,
    /// Threads that made and moved chunks.
    pub threads: u32,
    /// Whether files were made durable before they got their names.
    pub durable: bool,
    /// Highest resident memory of the process since the command began, or since the last save of a
    /// comparison, with the most that it held in reserved huge pages, bytes.
    pub peak_rss_bytes: Option<u64>,
    /// Requests sent over a network, and those sent again.
    pub requests: u64,
    /// Number of requests that were sent again after a failure.
    pub retries: u64,
    /// Figures of each save, in order.
    pub saves: Vec<Save>,
    /// Figures of each restore, in order.
    pub restores: Vec<Restore>,
    /// The training job, of `run`.
    pub training: Option<TrainingFigures>,
}

/// A training job.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(in crate::commands) struct TrainingFigures {
    /// For how much of a save training stood still: `sync`, until it was durable, or `async`, until
    /// all content was taken over.
    pub save_mode: &'static str,
    /// Computing between two saves, s.
    pub interval_s: f64,
    /// From the beginning to the end of the last save or restore, s.
    pub elapsed_s: f64,
    /// Part of the elapsed time that was spent computing, s.
    pub computed_s: f64,
    /// Whether it was interrupted.
    pub interrupted: bool,
    /// Whether a failure ended it, which the warnings tell in JSON.
    #[serde(skip)]
    pub ended_early: bool,
}

/// One save.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(in crate::commands) struct Save {
    /// Step of the training job; in a comparison, number of the trial.
    pub step: u32,
    /// Method of the save: `stream` or `generate-first`.
    pub way: &'static str,
    /// The directory or object store that it went to.
    pub target: String,
    /// When it began, since the job began, s.
    pub began_s: f64,
    /// Number of bytes that this save stored.
    pub bytes: u64,
    /// Bytes that an earlier save had stored.
    pub found_bytes: u64,
    /// Until all content was taken over from the training job, s; of `run`, how long training stood
    /// still because of this save.
    pub stall_s: f64,
    /// Until every file had its final name, durable unless --no-fsync was given, s.
    pub durable_s: f64,
    /// Bytes stored over the time until durable.
    pub bytes_per_s: f64,
    /// Highest resident memory of the process until then, with the most that it held in reserved
    /// huge pages, bytes.
    pub peak_rss_bytes: Option<u64>,
    /// Latency of a chunk, from when it was given to the target until it was stored, ms.
    pub chunk_latency_ms: Latency,
    /// Bytes stored in each second.
    pub bytes_by_second: Vec<u64>,
}

/// One restore.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(in crate::commands) struct Restore {
    /// Step of the training job.
    pub step: u32,
    /// When it began, since the job began, s.
    pub began_s: f64,
    /// Number of bytes that this restore read.
    pub bytes: u64,
    /// Duration of the restore, s.
    pub elapsed_s: f64,
    /// Bytes read over that time.
    pub bytes_per_s: f64,
    /// Blocks of 4 KiB compared.
    pub blocks_checked: u64,
    /// Number of compared blocks that differed from what was written.
    pub blocks_bad: u64,
    /// The first of each chunk, of 16 chunks at most.
    pub bad_blocks: Vec<BadBlock>,
    /// Latency of a chunk, from when it was requested until it was there, ms.
    pub chunk_latency_ms: Latency,
    /// Bytes read in each second.
    pub bytes_by_second: Vec<u64>,
}

/// Latencies, ms; null where nothing was moved.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(in crate::commands) struct Latency {
    /// Median of the latencies, ms.
    pub p50: Option<f64>,
    /// 99 in 100 took no longer.
    pub p99: Option<f64>,
    /// Longest of the latencies, ms.
    pub max: Option<f64>,
}

impl Latency {
    fn of(histogram: &Histogram) -> Latency {
        let ms = |ns: u64| ns as f64 / 1e6;
        Latency {
            p50: histogram.quantile_ns(0.5).map(ms),
            p99: histogram.quantile_ns(0.99).map(ms),
            max: histogram.max_ns().map(ms),
        }
    }
}

fn rate(bytes: u64, time: Nanos) -> f64 {
    if time == Nanos::ZERO { 0.0 } else { bytes as f64 / time.as_secs_f64() }
}

impl CheckpointResult {
    /// Creates the result of a command that has ended, without its saves and restores.
    pub(super) fn of<T: Target>(
        command: &'static str,
        target: &T,
        manifest: &Manifest,
        settings: &SaveSettings,
    ) -> CheckpointResult {
        let mut result = CheckpointResult {
            format: "ringfall-checkpoint-result",
            format_version: FORMAT_VERSION,
            ringfall_version: env!("CARGO_PKG_VERSION"),
            command,
            target: target.name(),
            target_kind: target.kind(),
            through_page_cache: target.is_cached(),
            warnings: Vec::new(),
            beside: None,
            total_bytes: manifest.total_bytes(),
            ranks: manifest.shard_bytes.len(),
            shared_file: manifest.shared_file,
            dedupe_ratio: manifest.dedupe_ratio,
            compress_ratio: manifest.compress_ratio,
            chunk_bytes: settings.stream.chunk_bytes,
            buffers: settings.stream.buffers,
            threads: settings.stream.threads,
            durable: settings.durable,
            peak_rss_bytes: peak_memory_bytes(),
            requests: 0,
            retries: 0,
            saves: Vec::new(),
            restores: Vec::new(),
            training: None,
        };
        if command != "compare" {
            result.count(target);
        }
        result
    }

    /// Adds what a target has counted by now, and a warning where it is in memory.
    pub(super) fn count<T: Target>(&mut self, target: &T) {
        let TargetCounters { requests, retries } = target.counters();
        self.requests += requests;
        self.retries += retries;
        let warning = target.in_memory().filter(|warning| !self.warnings.contains(warning));
        self.warnings.extend(warning);
    }

    /// Adds what a training job did.
    pub(super) fn trained(&mut self, trained: &Trained, training: &Training, way: Way) {
        let saves = trained.saves.iter();
        self.saves = saves.map(|saved| Save::of(self.target.clone(), way, saved)).collect();
        self.restores = trained.restores.iter().map(Restore::of).collect();
        self.training = Some(TrainingFigures {
            save_mode: training.mode.name(),
            interval_s: training.interval.as_secs_f64(),
            elapsed_s: trained.elapsed.as_secs_f64(),
            computed_s: trained.computed.as_secs_f64(),
            interrupted: trained.is_interrupted,
            ended_early: false,
        });
    }

    /// Notes the failure that ended the training job before its time.
    pub(super) fn end_early(&mut self, why: &TargetError) {
        self.warnings.push(format!("the job ended early: {why}"));
        if let Some(training) = &mut self.training {
            training.ended_early = true;
        }
    }
}

impl Save {
    /// Creates the record of a save that has just ended.
    pub(super) fn of(target: String, way: Way, saved: &Saved) -> Save {
        Save {
            step: saved.step,
            way: way.name(),
            target,
            began_s: saved.began.as_secs_f64(),
            bytes: saved.transfer.bytes,
            found_bytes: saved.found_bytes,
            stall_s: saved.stall.as_secs_f64(),
            durable_s: saved.stored.as_secs_f64(),
            bytes_per_s: rate(saved.transfer.bytes, saved.stored),
            peak_rss_bytes: peak_memory_bytes(),
            chunk_latency_ms: Latency::of(&saved.transfer.chunk_latency),
            bytes_by_second: saved.transfer.seconds.clone(),
        }
    }
}

impl Restore {
    /// Creates the record of a restore that has ended.
    pub(super) fn of(restored: &Restored) -> Restore {
        Restore {
            step: restored.step,
            began_s: restored.began.as_secs_f64(),
            bytes: restored.transfer.bytes,
            elapsed_s: restored.elapsed.as_secs_f64(),
            bytes_per_s: rate(restored.transfer.bytes, restored.elapsed),
            blocks_checked: restored.blocks_checked,
            blocks_bad: restored.blocks_bad,
            bad_blocks: restored.bad.clone(),
            chunk_latency_ms: Latency::of(&restored.transfer.chunk_latency),
            bytes_by_second: restored.transfer.seconds.clone(),
        }
    }
}
