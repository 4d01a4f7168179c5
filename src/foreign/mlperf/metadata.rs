//! `kv_cache_TIME_metadata.json`: what ran, under the harness's keys as far as they mean something
//! here, and what of it departs from the rules, under `ringfall`.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::options::Workload;
use super::sequence::Sequence;
use super::summary::{About, Summary};
use super::tree::{log_of, metadata_of, run_name};

/// Facts about a run beside its sequence.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// Directory that holds the results of the run.
    pub run: &'a Path,
    /// The directory of its data.
    pub cache: &'a Path,
    /// Number of ranks on all hosts together.
    pub ranks: u32,
    /// As it was typed.
    pub command_line: &'a [String],
}

/// Departures from the rules, as the metadata keeps them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Departures {
    /// Departures that hold for every option, a sentence each.
    pub of_all: Vec<String>,
    /// Departures of single options, by the option, a sentence each.
    pub by_option: BTreeMap<String, Vec<String>>,
}

impl Departures {
    /// The departures of a sequence from what the rules prescribe.
    pub fn of(sequence: &Sequence) -> Departures {
        let of = |workload: &Workload| (workload.rule.number.to_string(), workload.departures());
        Departures {
            of_all: sequence.departures(),
            by_option: sequence.workloads.iter().map(of).collect(),
        }
    }

    /// As the metadata of a run keeps it; none where there is none, as in a tree of the harness's.
    pub fn read(run: &Path) -> Option<Departures> {
        let bytes = ringfall_model::document::read_bytes(&metadata_of(run)).ok()?;
        let metadata: Value = serde_json::from_slice(&bytes).ok()?;
        serde_json::from_value(metadata.pointer("/ringfall/departures")?.clone()).ok()
    }

    /// Puts them into the summary.
    pub fn note(self, summary: &mut Summary) {
        for (option, departures) in self.by_option {
            if let Some(option) = summary.options.get_mut(&option) {
                option.ringfall.departures = Some(departures);
            }
        }
        summary.ringfall.departures = Some(self.of_all);
    }
}

/// The metadata of a run.
pub fn metadata(sequence: &Sequence, facts: &Facts<'_>, about: &About) -> Value {
    let Facts { run, cache, ranks, command_line } = *facts;
    let commands: Vec<Value> = sequence
        .all()
        .map(|trial| {
            let arguments = sequence.arguments(&trial, run, cache).join(" ");
            let log = log_of(run, &trial.name());
            json!({
                "command": format!("ringfall {arguments}"),
                "stdout": log,
                "stderr": log,
            })
        })
        .collect();
    let first = sequence.workloads.first();
    json!({
        "benchmark_type": "kv_cache",
        "model": first.map(Workload::model),
        "command": "run",
        "run_datetime": run_name(run),
        "num_processes": ranks,
        "accelerator": null,
        "result_dir": run,
        "parameters": first.map(|workload| parameters(workload, cache)),
        "override_parameters": {},
        "verification": null,
        "executed_command": command_line.join(" "),
        "command_output_files": commands,
        "args": {
            "mode": "open",
            "benchmark": "kvcache",
            "command": "run",
            "cache_dir": cache,
            "seed": sequence.seed_base,
            "trials": sequence.trials,
            "inter_option_delay": sequence.option_delay_s,
            "config": sequence.config,
            "num_processes": ranks,
        },
        "ringfall": {
            "version": about.version,
            "division": about.division,
            "departures": Departures::of(sequence),
            "options": sequence
                .workloads
                .iter()
                .map(|workload| (workload.rule.number.to_string(), parameters(workload, cache)))
                .collect::<BTreeMap<_, _>>(),
        },
    })
}

fn parameters(workload: &Workload, cache: &Path) -> Value {
    let mut all = serde_json::Map::new();
    for (flag, value) in super::options::FLAGS.iter().zip(&workload.values) {
        let number = value.parse::<serde_json::Number>().ok().map(Value::Number);
        all.insert(flag.replace('-', "_"), number.unwrap_or_else(|| value.clone().into()));
    }
    all.insert("cache_dir".to_owned(), json!(cache));
    Value::Object(all)
}
