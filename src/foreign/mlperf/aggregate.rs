//! From the results of ranks to the summary of a run.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use ringfall_model::document::{CLASSES, Histograms, Kind, LatencyMsMax, ResultFile};
use ringfall_model::merge::merge;
use ringfall_model::metrics::{DECODE_READ, Metric, STORAGE_THROUGHPUT};
use ringfall_model::{Document, stats};

use super::NOT_CLOSED;
use super::options::RULES;
use super::place::{rank_name, results_in};
use super::sequence::trial_directory;
use super::summary::{
    About, Merged, OptionDetails, OptionSummary, SCHEMA_VERSION, Summary, TrialRow,
};
use super::tree::{SUMMARY, merged_of, metadata_of, numbered, run_name};

/// Options, trials and ranks of a run that are added up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Options that were asked for.
    pub options: Vec<u32>,
    /// Number of trials of each option.
    pub trials: u32,
    /// Ranks of each trial.
    pub ranks: u32,
}

impl Shape {
    /// Finds the options, trials and ranks in a run's directory.
    pub fn found(run: &Path) -> Shape {
        let mut shape = Shape { options: Vec::new(), trials: 0, ranks: 0 };
        for option in RULES.iter().map(|rule| rule.number) {
            let trials = all_numbered(&run.join(format!("option_{option}")), "trial_");
            for trial in &trials {
                let ranks = all_numbered(&trial_directory(run, option, *trial), "rank_");
                shape.ranks = shape.ranks.max(ranks.last().map_or(0, |last| last + 1));
            }
            if let Some(last) = trials.last() {
                shape.options.push(option);
                shape.trials = shape.trials.max(last + 1);
            }
        }
        shape
    }

    /// Files of the run that must not be written over: its summary, its metadata and the ranks'
    /// results.
    pub fn files(&self, run: &Path) -> Vec<PathBuf> {
        let mut files = vec![run.join(SUMMARY), metadata_of(run)];
        for &option in &self.options {
            for trial in 0..self.trials {
                let directory = trial_directory(run, option, trial);
                let results = |rank| results_in(&directory.join(rank_name(rank)));
                files.extend((0..self.ranks).filter_map(|rank| results(rank).ok()).flatten());
            }
        }
        files
    }
}

/// The numbers N of the directories `PREFIXN`, sorted; none where they can't be listed. A number
/// that no run reaches is none of its.
fn all_numbered(directory: &Path, prefix: &str) -> Vec<u32> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| numbered(&entry.path(), prefix));
    let mut numbers: Vec<u32> = numbers.filter(|number| *number < 1_000_000).collect();
    numbers.sort_unstable();
    numbers
}

/// A run added up.
#[derive(Debug, Default)]
pub struct Added {
    /// The summary of all options and trials.
    pub summary: Summary,
    /// The merged result of each option that has one, and where it belongs.
    pub merged: Vec<(PathBuf, Document)>,
}

/// Adds up what the ranks of a run have written.
pub fn add_up(run: &Path, shape: &Shape, command_line: &[String]) -> Added {
    let mut added = Added::default();
    let mut hosts = BTreeSet::new();
    for option in &shape.options {
        let (summary, document) = of_option(run, *option, shape, command_line, &mut hosts);
        for row in &summary.ringfall.trials {
            if row.ranks < shape.ranks {
                let place = format!("option_{option}/trial_{}", row.trial);
                let why = format!("{} of {} ranks have a result", row.ranks, shape.ranks);
                added.summary.trial_failures.insert(place, why);
            }
        }
        added.merged.extend(document.map(|document| (merged_of(run, *option), document)));
        added.summary.options.insert(option.to_string(), summary);
    }
    let summary = &mut added.summary;
    summary.schema_version = SCHEMA_VERSION.to_owned();
    summary.run_datetime = run_name(run);
    summary.total_ranks = shape.ranks;
    summary.host_count = u32::try_from(hosts.len()).unwrap_or(u32::MAX).max(1);
    summary.npernode = shape.ranks.div_ceil(summary.host_count);
    summary.trials_per_option = shape.trials;
    summary.partial_failure = summary.options.values().any(|option| option.partial_failure);
    summary.ringfall = About {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        division: NOT_CLOSED.to_owned(),
        departures: None,
    };
    added
}

fn of_option(
    run: &Path,
    option: u32,
    shape: &Shape,
    command_line: &[String],
    hosts: &mut BTreeSet<String>,
) -> (OptionSummary, Option<Document>) {
    let mut summary = OptionSummary {
        option,
        rank_count: shape.ranks,
        trial_count: shape.trials,
        ..OptionSummary::default()
    };
    let mut trials = Vec::new();
    for trial in 0..shape.trials {
        let files = read_trial(&trial_directory(run, option, trial), shape.ranks, &mut summary);
        let ranks = files.iter().filter_map(|file| file.document.ringfall.rank.as_ref());
        hosts.extend(ranks.map(|rank| rank.host.clone()));
        summary.ringfall.trials.push(row_of(trial, &files));
        trials.extend(trial_as_one(files, command_line, &mut summary.ringfall));
    }
    summary.ringfall.notes.extend(warnings_of(&trials));
    aggregate(&mut summary);
    let document = match trials.len() == summary.ringfall.trials.len() {
        true => as_one(trials, command_line, &mut summary.ringfall),
        false => None,
    };
    if let Some(document) = &document {
        let config = document.ringfall.config.as_ref();
        summary.ringfall.model = config.and_then(|config| config.model.clone());
        summary.ringfall.users = config.and_then(|config| config.num_users);
        summary.ringfall.merged = Some(merged_figures(document, &merged_of(run, option)));
    }
    (summary, document)
}

/// The results of a trial; what is missing is noted as the harness does.
fn read_trial(directory: &Path, ranks: u32, summary: &mut OptionSummary) -> Vec<ResultFile> {
    let mut files = Vec::new();
    for rank in 0..ranks {
        let own = directory.join(rank_name(rank));
        // The newest, where there are several.
        let result = results_in(&own).ok().and_then(|mut found| found.pop());
        match result.as_ref().map(|path| ResultFile::read(path)) {
            Some(Ok(file)) => {
                let stats = &file.document.summary.cache_stats;
                if stats.storage_entries.as_ref() == Some(&0) {
                    summary.cpu_tier_ranks.push(file.name());
                }
                files.push(file);
            }
            Some(Err(problem)) => {
                summary.missing_files.push(problem.path.display().to_string());
                summary.ringfall.notes.push(problem.to_string());
            }
            None => summary.missing_files.push(own.display().to_string()),
        }
    }
    summary.partial_failure = !summary.missing_files.is_empty();
    files
}

fn row_of(trial: u32, files: &[ResultFile]) -> TrialRow {
    let sum = |pick: fn(&Document) -> Option<f64>| -> f64 {
        files.iter().filter_map(|file| pick(&file.document)).sum()
    };
    let p95_ms = files
        .iter()
        .filter_map(|file| file.document.summary.storage_io_latency_ms.as_ref()?.p95.known());
    let latency = |key: &str| {
        let of = |file: &ResultFile| file.document.summary.cache_stats.latencies_ms.get(key);
        files.iter().filter_map(of).fold(0.0, f64::max)
    };
    TrialRow {
        trial,
        ranks: u32::try_from(files.len()).unwrap_or(u32::MAX),
        read_gib_per_s: sum(|d| d.summary.cache_stats.tier_storage_read_bandwidth_gbps.known()),
        write_gib_per_s: sum(|d| d.summary.cache_stats.tier_storage_write_bandwidth_gbps.known()),
        tokens_per_s: sum(|d| d.summary.avg_throughput_tokens_per_sec.known()),
        storage_tokens_per_s: sum(|d| d.summary.storage_throughput_tokens_per_sec.known()),
        p95_ms: p95_ms.fold(0.0, f64::max),
        device_read_p95_ms: latency("storage_read_device_p95_ms"),
        device_write_p95_ms: latency("storage_write_device_p95_ms"),
        storage_read_p95_ms: latency("storage_read_p95_ms"),
    }
}

/// The harness's figures of the trials' rows: an empty trial counts as 0.
fn aggregate(summary: &mut OptionSummary) {
    let rows = &summary.ringfall.trials;
    let mean = |pick: fn(&TrialRow) -> f64| {
        stats::mean(&rows.iter().map(pick).collect::<Vec<_>>()).unwrap_or(0.0)
    };
    let largest = |pick: fn(&TrialRow) -> f64| rows.iter().map(pick).fold(0.0, f64::max);
    summary.aggregated_read_bandwidth_gbps = mean(|row| row.read_gib_per_s);
    summary.aggregated_write_bandwidth_gbps = mean(|row| row.write_gib_per_s);
    summary.aggregated_avg_throughput_tokens_per_sec = mean(|row| row.tokens_per_s);
    summary.aggregated_storage_throughput_tokens_per_sec = mean(|row| row.storage_tokens_per_s);
    summary.aggregated_p95_latency_ms = largest(|row| row.p95_ms);
    summary.aggregated_device_read_p95_ms = largest(|row| row.device_read_p95_ms);
    summary.aggregated_device_write_p95_ms = largest(|row| row.device_write_p95_ms);
    summary.aggregated_storage_read_p95_ms = largest(|row| row.storage_read_p95_ms);
    let tokens: Vec<f64> = rows.iter().map(|row| row.tokens_per_s).collect();
    summary.ringfall.trials_cv = stats::coefficient_of_variation(&tokens);
}

/// The ranks of a trial as one result; none where that can't be made.
fn trial_as_one(
    files: Vec<ResultFile>,
    command_line: &[String],
    details: &mut OptionDetails,
) -> Option<ResultFile> {
    if let Some(file) = files.iter().find(|file| file.kind() == Kind::Reference) {
        details.notes.push(format!(
            "{} is a result of the reference benchmark, which holds no histograms: nothing can be \
             merged exactly",
            file.name()
        ));
        return None;
    }
    let path = files.first()?.path.clone();
    let document = as_one(files, command_line, details)?;
    Some(ResultFile { path, document })
}

/// Several results as one; one as it is.
fn as_one(
    mut files: Vec<ResultFile>,
    command_line: &[String],
    details: &mut OptionDetails,
) -> Option<Document> {
    if files.len() < 2 {
        return files.pop().map(|file| file.document);
    }
    let merged = merge(&files, &[], command_line);
    merged.map_err(|problem| details.notes.push(problem.to_string())).ok()
}

/// The warnings of trials: one of each kind, and how many are like it.
fn warnings_of(trials: &[ResultFile]) -> impl Iterator<Item = String> {
    let mut by_code: BTreeMap<String, (String, usize)> = BTreeMap::new();
    for warning in trials.iter().flat_map(|file| file.document.ringfall.warnings.iter()) {
        let first = || (warning.text.clone(), 0);
        by_code.entry(warning.code.to_string()).or_insert_with(first).1 += 1;
    }
    by_code.into_values().map(|(text, count)| match count {
        1 => text,
        _ => format!("{text} (and {} more of this kind)", count - 1),
    })
}

fn merged_figures(document: &Document, file: &Path) -> Merged {
    let histograms = Histograms::read(document, file).unwrap_or_default();
    let of = |name: &str| histograms.get(name).and_then(LatencyMsMax::of);
    let end_to_end = histograms.sum(&CLASSES);
    let metric = |key| Metric::by_key(key).and_then(|metric| metric.of(document));
    let seconds = document.seconds();
    let summary = &document.summary;
    Merged {
        file: file.file_name().unwrap_or_default().to_string_lossy().into_owned(),
        seconds,
        read_gib_per_s: summary.cache_stats.tier_storage_read_bandwidth_gbps.known(),
        write_gib_per_s: summary.cache_stats.tier_storage_write_bandwidth_gbps.known(),
        tokens_per_s: summary.avg_throughput_tokens_per_sec.known(),
        storage_tokens_per_s: metric(STORAGE_THROUGHPUT),
        decode_gib_per_s: metric(DECODE_READ)
            .zip(seconds.filter(|&seconds| seconds > 0.0))
            .map(|(gib, seconds)| gib / seconds),
        hit_rate: document.hit_rate(),
        storage_io_ms: of("storage_io"),
        storage_read_ms: of("storage_read_total"),
        storage_read_device_ms: of("storage_read_device"),
        storage_write_ms: of("storage_write_total"),
        storage_write_device_ms: of("storage_write_device"),
        end_to_end_ms: end_to_end.as_ref().and_then(LatencyMsMax::of),
    }
}

#[cfg(test)]
#[path = "aggregate_test.rs"]
mod tests;
