//! Facts of one result that decide whether a ratio to another is of the same work, and which metric
//! to go by.

use std::collections::BTreeMap;
use std::path::PathBuf;

use ringfall_core::units::gib;
use ringfall_host::counted;
use ringfall_model::autoscaling::AutoscalerReport;
use ringfall_model::configuration::Configuration;
use ringfall_model::document::{InputFacts, Kind, ResultFile, contradictions};
use ringfall_model::facts::quotient;
use ringfall_model::trust::{Situation, unfinished_share};
use ringfall_model::{Code, Document, stats};
use serde_json::Value;

use super::hits::HitRates;
use super::settings;
use crate::analysis::differences::told_by;

/// Load of one result; `None` where the result does not say.
#[derive(Clone, Debug, Default, PartialEq)]
pub(in crate::analysis) struct Load {
    /// File that the result was read from; none of a row of a spreadsheet.
    pub path: Option<PathBuf>,
    /// Whether it is a row of a table, which has no columns for most settings.
    pub is_row: bool,
    /// Whether the reference benchmark wrote it.
    pub is_reference: Option<bool>,
    /// Part of its load that a result of ringfall should say and does not.
    pub lacks: Option<String>,
    /// Model whose KV cache was simulated.
    pub model: Option<String>,
    /// Number of simulated users.
    pub users: Option<u64>,
    /// Capacity of the CPU tier, GiB.
    pub cpu_memory_gib: Option<f64>,
    /// Settings that make the load, by their keys; those that the result does not say are not
    /// there.
    pub settings: BTreeMap<String, Value>,
    /// Kind of source that requests came from.
    pub source: Option<String>,
    /// Digests of the trace or dataset that was read, each with what it is of.
    pub digests: Vec<String>,
    /// GPU tier, and the GPUs that an entry is spread over.
    pub gpus: Option<String>,
    /// Shares of the reads that found what they looked for.
    pub hit_rates: HitRates,
    /// Capacity of the storage tier, GiB.
    pub storage_gib: Option<f64>,
    /// Whether the storage tier is known to have had room for all that was written to it.
    pub has_room: bool,
    /// Length of the window of each of its runs, s.
    pub windows_s: Vec<f64>,
    /// Whether it ended before its time, as all that was to be done was done.
    pub did_all: bool,
    /// Random seed of each of its runs.
    pub seeds: Option<Vec<u64>>,
    /// Whether the run was simulated.
    pub is_simulated: bool,
    /// Answer of the search for a number of users, where there was one.
    pub search: Option<String>,
    /// Share of the requests that had not finished when the window closed.
    pub unfinished_share: Option<f64>,
    /// Reason for which the run ended before its time, where it did.
    pub cut: Option<Cut>,
    /// Contradiction within the result, or that there is one in those merged in it.
    pub contradiction: Option<String>,
    /// Number of blocks that were read back wrong.
    pub blocks_bad: u64,
    /// Facts that decide which metrics to go by; none of a run without a drive.
    pub situation: Option<Situation>,
}

/// End of a run before its time.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::analysis) enum Cut {
    /// A failure, as a sentence.
    Failed(String),
    /// A signal after that part of the run.
    Interrupted(Measured),
}

/// Part of a run that was measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::analysis) struct Measured {
    /// Length of the window, s.
    pub window_s: Option<f64>,
    /// Length that was asked for, s.
    pub asked_s: Option<u64>,
    /// Share of what was asked for, of the time or of the requests, whichever is more.
    pub share: Option<f64>,
}

impl Load {
    /// Load of a result.
    pub fn of(file: &ResultFile) -> Load {
        let document = &file.document;
        let ours = &document.ringfall;
        let config = ours.config.as_ref();
        let configuration = told_by(file);
        let known = configuration.as_ref().map(Load::of_configuration).unwrap_or_default();
        let said = config.filter(|config| !config.settings.is_empty());
        let is_reference = file.kind() == Kind::Reference;
        let runs = InputFacts::runs_in(&file.name(), document);
        let seeds = seeds(document, &runs);
        let windows_s: Vec<f64> = runs.iter().filter_map(|run| run.seconds).collect();
        let seconds = stats::mean(&windows_s);
        let situation = || Situation { seconds, ..Situation::of(file) };
        let dropped = ours.evictions.storage_to_none.entries.known();
        Load {
            path: Some(file.path.clone()),
            is_reference: Some(is_reference),
            lacks: lacking(document, &runs, seeds.as_deref()).filter(|_| !is_reference),
            model: config
                .and_then(|config| config.model.clone())
                .or(configuration.as_ref().map(|told| told.model.clone())),
            settings: said.map_or_else(|| known.settings.clone(), settings::of_load),
            source: ours.source.kind.as_ref().cloned(),
            digests: ours.source.digests.to_vec(),
            gpus: gpus(document),
            hit_rates: HitRates::of(document, runs.len()),
            storage_gib: config.and_then(|config| config.storage_capacity_bytes).map(gib),
            has_room: dropped == Some(0),
            windows_s,
            did_all: did_all(document),
            seeds,
            is_simulated: ours.simulation.is_some(),
            search: ours.autoscaler.as_ref().map(AutoscalerReport::answer),
            unfinished_share: unfinished_share(document),
            cut: cut(document),
            contradiction: contradiction(document),
            blocks_bad: ours.verify.blocks_bad.known().unwrap_or(0),
            situation: (!document.is_without_drive()).then(situation),
            ..known
        }
    }

    /// Load of a run of which its configuration alone is known.
    pub fn of_configuration(configuration: &Configuration) -> Load {
        Load {
            model: Some(configuration.model.clone()),
            users: Some(configuration.users),
            cpu_memory_gib: Some(configuration.cpu_memory_gib()),
            settings: settings::of_configuration(configuration),
            situation: Some(Situation::of_configuration(configuration)),
            ..Load::default()
        }
    }

    /// Name of the result's file, for people.
    pub fn name(&self) -> String {
        self.path.as_ref().map_or("a row of a table".to_owned(), |path| path.display().to_string())
    }
}

/// Seeds of the runs in a result; `None` where one is not known. Ranks add their numbers to the
/// setting, so that it is all that is known of a launch among merged ones.
fn seeds(document: &Document, runs: &[InputFacts]) -> Option<Vec<u64>> {
    let config = document.ringfall.config.as_ref();
    let setting = config.and_then(|config| config.settings.get("seed")?.as_u64());
    runs.iter().map(|run| run.seed.or(setting)).collect()
}

/// Part of its load that a result of ringfall does not say; none where it says all.
fn lacking(document: &Document, runs: &[InputFacts], seeds: Option<&[u64]>) -> Option<String> {
    let part = |name: &str| Some(format!("no {name}"));
    let ours = &document.ringfall;
    let Some(config) = ours.config.as_ref() else { return part("`ringfall.config`") };
    if !config.settings.get("workload").is_some_and(Value::is_object) {
        return part("`ringfall.config.settings.workload`");
    }
    if config.model.is_none() || config.num_users.is_none() {
        return part("model or number of users in `ringfall.config`");
    }
    let is_of_file = ours.source.kind.as_ref().is_some_and(|kind| kind != "synthetic");
    if is_of_file && ours.source.digests.is_empty() {
        return part("`ringfall.source.digests` of the trace or dataset");
    }
    let differences = ours.merged.iter().flat_map(|merged| &merged.differences);
    if let Some(one) = differences.into_iter().find(|one| settings::is_of_run(&one.key)) {
        return Some(format!("it is merged from runs of other {}", one.key));
    }
    match (seeds, runs.iter().any(|run| run.seconds.is_none())) {
        (None, _) => part("seed"),
        (Some(_), true) => part("length of its window"),
        (Some(_), false) => None,
    }
}

/// First contradiction of a result, with the number of the others.
fn contradiction(document: &Document) -> Option<String> {
    let all = contradictions(document);
    let Some(first) = all.first() else {
        let mut warnings = document.ringfall.warnings.iter();
        let is_merged = warnings.any(|warning| warning.code == Code::ContradictsItself);
        return is_merged.then(|| "one of those merged in it".to_owned());
    };
    Some(match all.len() - 1 {
        0 => first.to_string(),
        more => format!("{first}, with {}", counted(more as u64, "more contradiction")),
    })
}

/// GPU tier of a run, and the GPUs that an entry is spread over.
fn gpus(document: &Document) -> Option<String> {
    let settings = &document.ringfall.config.as_ref()?.settings;
    let number = |key: &str| settings.get(key).and_then(Value::as_f64).unwrap_or(0.0);
    Some(gpus_told(number("gpu_mem_gb"), number("num_gpus"), number("tensor_parallel")))
}

/// GPU tier of so many GPUs with so many GiB each, and the number of them that share an entry.
pub(in crate::analysis) fn gpus_told(gib_each: f64, gpus: f64, parallel: f64) -> String {
    match (gib_each > 0.0, parallel > 1.0) {
        (false, false) => "none".to_owned(),
        _ => format!("{gpus} of {gib_each} GiB, an entry on {parallel}"),
    }
}

/// Whether the run ended because all of its requests, or all of its trace, had been served.
fn did_all(document: &Document) -> bool {
    let ours = &document.ringfall;
    let unfinished = ours.requests.as_ref().map(|requests| requests.all.unfinished);
    let asked_s = ours.config.as_ref().and_then(|config| config.duration_s);
    let is_short = document.seconds().zip(asked_s).is_some_and(|(s, asked)| s < asked as f64);
    is_short && unfinished == Some(0) && ours.merged.is_none() && cut(document).is_none()
}

fn cut(document: &Document) -> Option<Cut> {
    let window = &document.ringfall.window;
    if let Some(failure) = window.failure.as_ref() {
        return Some(Cut::Failed(failure.clone()));
    }
    let config = document.ringfall.config.as_ref();
    // A merged result sums up windows, of which it does not say which was cut.
    let config = config.filter(|_| document.ringfall.merged.is_none());
    let asked_s = config.and_then(|config| config.duration_s).filter(|&seconds| seconds > 0);
    let by_time = document.seconds().zip(asked_s).map(|(seconds, asked)| seconds / asked as f64);
    let asked_requests = config.and_then(|config| config.max_requests);
    let finished = document.summary.total_requests.known();
    let by_requests = finished.zip(asked_requests).and_then(|(part, of)| quotient(part, of));
    let share = by_time.into_iter().chain(by_requests).max_by(f64::total_cmp);
    let measured = Measured { window_s: document.seconds(), asked_s, share };
    (window.interrupted.known() == Some(true)).then_some(Cut::Interrupted(measured))
}
