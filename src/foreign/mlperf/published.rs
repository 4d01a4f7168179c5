//! Published results, to compare a measurement with.

use ringfall_model::metrics::{DECODE_READ, STORAGE_THROUGHPUT};

use super::options::RULES;
use super::summary::{OptionSummary, Summary};

/// Aggregated figures of one option, as the harness makes them: rates summed over ranks and
/// averaged over trials, the latency the largest of ranks and trials.
#[derive(Clone, Copy, Debug, PartialEq)]
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
#[derive(Clone, Copy, Debug, PartialEq)]
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

const fn figures(
    read_gib_per_s: f64,
    write_gib_per_s: f64,
    tokens_per_s: f64,
    p95_ms: f64,
) -> PublishedFigures {
    PublishedFigures { read_gib_per_s, write_gib_per_s, tokens_per_s, p95_ms }
}

/// Where the figures of [`RUNS`] are from.
pub const RUNS_SOURCE: &str = "MLPerf Storage v3.0, repository mlcommons/storage_results_v3.0, \
                               commit 068d91f6, each run's summary.json, to four digits; 22 of \
                               the 23 rows of the table, as the files of one are not stored there";

/// The runs of the table of MLPerf Storage v3.0: [`RUNS_SOURCE`].
pub const RUNS: [PublishedRun; 22] = [
    PublishedRun {
        division: "closed",
        organization: "Everpure",
        system: "FBEXA file, 20 DN, 30 S500R2 blades",
        hosts: 51,
        ranks: 204,
        options: [
            figures(1623.0, 317.9, 85740.0, 83480.0),
            figures(201.9, 229.0, 67640.0, 17400.0),
            figures(1415.0, 324.1, 33400.0, 164800.0),
        ],
    },
    PublishedRun {
        division: "closed",
        organization: "FarmGPU",
        system: "hickory",
        hosts: 15,
        ranks: 30,
        options: [
            figures(425.1, 96.02, 26370.0, 29410.0),
            figures(3.292, 40.34, 12170.0, 6171.0),
            figures(326.9, 76.42, 8317.0, 33220.0),
        ],
    },
    PublishedRun {
        division: "closed",
        organization: "FarmGPU",
        system: "potato1-qlc-closed-tcm",
        hosts: 1,
        ranks: 1,
        options: [
            figures(32.81, 7.023, 1963.0, 20440.0),
            figures(0.4918, 3.426, 1152.0, 1121.0),
            figures(25.95, 4.545, 649.9, 22130.0),
        ],
    },
    PublishedRun {
        division: "closed",
        organization: "FarmGPU",
        system: "potato8-qlc-closed-tcm",
        hosts: 8,
        ranks: 8,
        options: [
            figures(248.5, 51.59, 15520.0, 61290.0),
            figures(4.185, 25.21, 8374.0, 1700.0),
            figures(181.4, 37.29, 4684.0, 27200.0),
        ],
    },
    PublishedRun {
        division: "closed",
        organization: "FarmGPU",
        system: "potato8-qlc-np2-closed-tcm",
        hosts: 8,
        ranks: 16,
        options: [
            figures(242.8, 51.16, 14990.0, 131200.0),
            figures(5.587, 48.67, 14840.0, 1590.0),
            figures(252.6, 55.63, 6328.0, 34470.0),
        ],
    },
    PublishedRun {
        division: "open",
        organization: "FarmGPU",
        system: "potato8-qlc-np6-open-tnf-u400",
        hosts: 8,
        ranks: 48,
        options: [
            figures(443.6, 270.8, 75570.0, 12470.0),
            figures(451.0, 270.4, 75980.0, 11940.0),
            figures(440.9, 263.6, 73740.0, 6845.0),
        ],
    },
    PublishedRun {
        division: "open",
        organization: "FarmGPU",
        system: "potato8-qlc-np6-open-tnf-70b",
        hosts: 8,
        ranks: 48,
        options: [
            figures(301.3, 124.1, 11830.0, 228000.0),
            figures(238.9, 119.7, 11320.0, 95760.0),
            figures(888.8, 298.5, 30900.0, 44620.0),
        ],
    },
    PublishedRun {
        division: "closed",
        organization: "HPE",
        system: "K3000-kvcache",
        hosts: 16,
        ranks: 32,
        options: [
            figures(151.7, 39.13, 8749.0, 463100.0),
            figures(4.607, 52.41, 15590.0, 2168.0),
            figures(121.2, 36.98, 2766.0, 317000.0),
        ],
    },
    PublishedRun {
        division: "closed",
        organization: "InspurData",
        system: "InDataOS AS13000G7 10clients",
        hosts: 10,
        ranks: 10,
        options: [
            figures(230.9, 49.34, 14580.0, 16850.0),
            figures(4.651, 32.75, 10180.0, 1079.0),
            figures(205.4, 45.45, 5393.0, 11800.0),
        ],
    },
    PublishedRun {
        division: "closed",
        organization: "InspurData",
        system: "InDataOS AS13000G7 KH-50000 10clients",
        hosts: 10,
        ranks: 10,
        options: [
            figures(389.5, 80.46, 23770.0, 23990.0),
            figures(23.03, 56.13, 17040.0, 1708.0),
            figures(357.3, 79.49, 9283.0, 9432.0),
        ],
    },
    PublishedRun {
        division: "closed",
        organization: "NewFW",
        system: "Solidigm D5-P5336 61TB Gen4 NVMe QLC",
        hosts: 1,
        ranks: 1,
        options: [
            figures(7.982, 1.767, 479.6, 63370.0),
            figures(1.792, 2.378, 787.3, 15140.0),
            figures(7.41, 1.456, 183.2, 116400.0),
        ],
    },
    PublishedRun {
        division: "closed",
        organization: "NewFW",
        system: "Solidigm D7-PS1010 7TB Gen5 NVMe TLC",
        hosts: 1,
        ranks: 1,
        options: [
            figures(14.53, 3.088, 870.9, 20880.0),
            figures(4.506, 3.533, 1194.0, 3707.0),
            figures(14.29, 2.613, 360.2, 40890.0),
        ],
    },
    PublishedRun {
        division: "closed",
        organization: "SAMSUNG",
        system: "MEMORY AE",
        hosts: 1,
        ranks: 1,
        options: [
            figures(13.54, 2.873, 813.2, 133200.0),
            figures(2.755, 1.664, 562.4, 10850.0),
            figures(14.11, 2.729, 371.6, 92010.0),
        ],
    },
    PublishedRun {
        division: "closed",
        organization: "Suzhou Zishan Longlin",
        system: "GalaxSphere-1Tier0",
        hosts: 1,
        ranks: 1,
        options: [
            figures(70.9, 14.38, 4060.0, 17360.0),
            figures(9.661, 8.167, 2706.0, 1652.0),
            figures(77.64, 13.09, 1872.0, 7267.0),
        ],
    },
    PublishedRun {
        division: "closed",
        organization: "Suzhou Zishan Longlin",
        system: "GalaxSphere-2Tier0",
        hosts: 2,
        ranks: 2,
        options: [
            figures(127.9, 26.54, 7672.0, 18040.0),
            figures(13.46, 13.86, 4277.0, 1702.0),
            figures(141.8, 29.71, 3611.0, 6493.0),
        ],
    },
    PublishedRun {
        division: "closed",
        organization: "Suzhou Zishan Longlin",
        system: "GalaxSphere-3Tier0",
        hosts: 3,
        ranks: 3,
        options: [
            figures(212.7, 40.54, 12410.0, 13240.0),
            figures(22.65, 21.72, 7078.0, 1674.0),
            figures(226.7, 42.8, 5400.0, 10460.0),
        ],
    },
    PublishedRun {
        division: "closed",
        organization: "Suzhou Zishan Longlin",
        system: "GalaxSphere-4Tier0",
        hosts: 4,
        ranks: 4,
        options: [
            figures(286.7, 54.62, 16790.0, 12040.0),
            figures(22.52, 26.3, 8639.0, 1558.0),
            figures(308.5, 55.82, 7224.0, 8968.0),
        ],
    },
    PublishedRun {
        division: "closed",
        organization: "TTA",
        system: "seahorse-storage",
        hosts: 4,
        ranks: 20,
        options: [
            figures(93.34, 22.27, 5746.0, 461200.0),
            figures(33.73, 36.49, 10970.0, 10780.0),
            figures(78.54, 22.0, 1920.0, 343100.0),
        ],
    },
    PublishedRun {
        division: "closed",
        organization: "TuringData",
        system: "F9200 8 Clients",
        hosts: 8,
        ranks: 8,
        options: [
            figures(270.5, 54.51, 16570.0, 30150.0),
            figures(30.68, 56.52, 18400.0, 2716.0),
            figures(293.9, 59.38, 7598.0, 13500.0),
        ],
    },
    PublishedRun {
        division: "closed",
        organization: "UBIX",
        system: "UbiPower18000, 3 storage nodes",
        hosts: 16,
        ranks: 32,
        options: [
            figures(443.7, 96.95, 26180.0, 74870.0),
            figures(57.77, 64.58, 18840.0, 12610.0),
            figures(401.8, 92.77, 10130.0, 49500.0),
        ],
    },
    PublishedRun {
        division: "closed",
        organization: "YanRongTech",
        system: "F9000X 9 Clients",
        hosts: 9,
        ranks: 9,
        options: [
            figures(283.2, 58.85, 17510.0, 32350.0),
            figures(32.78, 63.96, 20070.0, 2774.0),
            figures(288.0, 59.82, 7431.0, 16460.0),
        ],
    },
    PublishedRun {
        division: "closed",
        organization: "ZettaLane",
        system: "mayanas-lustre-gcp c4hc144 c3d90 1c 2s",
        hosts: 1,
        ranks: 1,
        options: [
            figures(9.143, 1.96, 524.7, 260800.0),
            figures(1.788, 1.274, 420.2, 7990.0),
            figures(7.741, 1.51, 178.8, 209200.0),
        ],
    },
];

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
    #[must_use]
    pub fn ratio(&self) -> Option<f64> {
        match self.values {
            [Some(this), Some(other)] if other > 0.0 => Some(this / other),
            _ => None,
        }
    }
}

/// Each option that both runs have, with what is expected where its CPU tier is as large.
#[must_use]
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
        for run in RUNS {
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
