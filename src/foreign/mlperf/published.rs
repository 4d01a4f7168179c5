//! Published results, to compare a measurement with.

use std::sync::LazyLock;

use ringfall_model::metrics::{DECODE_READ, STORAGE_THROUGHPUT};
use serde::Deserialize;

use super::options::RULES;
use super::summary::{OptionSummary, Summary};

/// Aggregated figures of one option, as the harness makes them: rates summed over ranks and
/// averaged over trials, the latency the largest of ranks and trials.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
pub struct PublishedFigures {
    /// Read from storage, GiB/s.
    pub read_gib_per_s: f64,
    /// Written to storage, GiB/s.
    pub write_gib_per_s: f64,
    /// Tokens over elapsed time, tokens/s.
    pub tokens_per_s: f64,
    /// 95th percentile of the storage I/O time of a request, ms.
    pub p95_ms: f64,
}

/// One row of the published table.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
pub struct PublishedRun {
    /// `closed` or `open`. Runs of the open division set their own parameters.
    pub division: &'static str,
    /// Organization that submitted the run.
    pub organization: &'static str,
    /// Name of the storage system that was measured.
    pub system: &'static str,
    /// Number of client machines that the ranks ran on.
    pub hosts: u32,
    /// Ranks on all of them.
    pub ranks: u32,
    /// Options 1, 2 and 3.
    pub options: [PublishedFigures; 3],
}

/// Where the figures of [`RUNS`] are from.
pub const RUNS_SOURCE: &str = "MLPerf Storage v3.0, repository mlcommons/storage_results_v3.0, \
                               commit 068d91f6, each run's summary.json, to four digits; 22 of \
                               the 23 rows of the table, as the files of one are not stored there";

/// The runs of the table of MLPerf Storage v3.0, kept in `published.json`: [`RUNS_SOURCE`].
pub static RUNS: LazyLock<Vec<PublishedRun>> = LazyLock::new(|| {
    let table = include_str!("published.json");
    serde_json::from_str(table).expect("a test reads the table that stands beside this file")
});

/// Expected ratio of the faster of two systems to the slower, from the results that the reference's
/// authors published of a fast and a slow one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Expectation {
    /// The option that is configured as their runs were: its memory of the CPU tier, GiB.
    pub cpu_mem_gib: u32,
    /// The figure that tells the systems apart there: `Metric::key`.
    pub metric: &'static str,
    /// Fast over slow, the mean (or median) of their configurations' ratios.
    pub ratio: f64,
}

/// Where [`EXPECTATIONS`] are from.
pub const EXPECTATIONS_SOURCE: &str = "the reference benchmark's validation \
                                       (kv_cache_benchmark/docs/MLperf_v3_KV_cache_proposal.md in \
                                       mlcommons/storage): 14,000 against 3,000 MB/s, 220 \
                                       configurations that both systems ran";

/// Decode bytes read without a CPU tier, storage throughput with one of 4 GiB.
pub const EXPECTATIONS: [Expectation; 2] = [
    Expectation { cpu_mem_gib: 0, metric: DECODE_READ, ratio: 2.62 },
    Expectation { cpu_mem_gib: 4, metric: STORAGE_THROUGHPUT, ratio: 2.23 },
];

/// An expectation held against what two runs measured in one option.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Held {
    /// Number of the option, 1 to 3.
    pub option: u32,
    /// Published expectation of a fast and a slow system for the option.
    pub expectation: Expectation,
    /// The figure of this run and of the other; none: not measured.
    pub values: [Option<f64>; 2],
}

impl Held {
    /// This run's figure over the other's.
    pub fn ratio(&self) -> Option<f64> {
        let [this, other] = self.values;
        Some(this? / other.filter(|&other| other > 0.0)?)
    }
}

/// Each option that both runs have, with what is expected where its CPU tier is as large.
pub fn hold(this: &Summary, other: &Summary) -> Vec<Held> {
    let mut all = Vec::new();
    for rule in &RULES {
        let key = rule.number.to_string();
        let (Some(one), Some(two)) = (this.options.get(&key), other.options.get(&key)) else {
            continue;
        };
        let expected = EXPECTATIONS.iter().find(|one| rule.has_cpu_mem_gib(one.cpu_mem_gib));
        let Some(&expectation) = expected else { continue };
        let figure = |option: &OptionSummary| {
            let merged = option.ringfall.merged.as_ref()?;
            match expectation.metric {
                DECODE_READ => merged.decode_gib_per_s,
                _ => merged.storage_tokens_per_s,
            }
        };
        all.push(Held { option: rule.number, expectation, values: [figure(one), figure(two)] });
    }
    all
}

#[cfg(test)]
mod tests {
    use ringfall_model::metrics::Metric;

    use super::*;
    use crate::mlperf::summary::Merged;

    #[test]
    fn two_runs_are_held_against_what_is_published_of_two_systems() {
        let run = |decode, tokens| {
            let mut summary = Summary::default();
            for number in [1, 2] {
                let mut option = OptionSummary { option: number, ..OptionSummary::default() };
                option.ringfall.merged = Some(Merged {
                    decode_gib_per_s: Some(decode),
                    storage_tokens_per_s: Some(tokens),
                    ..Merged::default()
                });
                summary.options.insert(number.to_string(), option);
            }
            summary
        };
        let held = hold(&run(6.0, 10.0), &run(2.0, 4.0));
        let short: Vec<_> =
            held.iter().map(|one| (one.option, one.expectation.ratio, one.ratio())).collect();
        assert_eq!(short, [(1, 2.62, Some(3.0)), (2, 2.23, Some(2.5))]);
        assert_eq!(hold(&run(6.0, 10.0), &run(0.0, 4.0))[0].ratio(), None);
    }

    #[test]
    fn the_tables_are_whole() {
        for run in RUNS.iter() {
            assert!(run.hosts >= 1 && run.ranks % run.hosts == 0, "{run:?}");
            for option in run.options {
                assert!(option.read_gib_per_s > 0.0 && option.p95_ms > 1000.0, "{run:?}");
            }
        }
        let closed = RUNS.iter().filter(|run| run.division == "closed").count();
        assert_eq!((closed, RUNS.len() - closed), (20, 2));
        assert!(EXPECTATIONS.iter().all(|one| Metric::by_key(one.metric).is_some()));
    }
}
