//! The results of a suite side by side, and whether each passed.

use std::path::PathBuf;

use ringfall_core::named;
use ringfall_host::counted;
use ringfall_model::configuration::Configuration;
use ringfall_model::document::RunLimit;
use ringfall_model::health::Criterion;
use ringfall_model::metrics::{Metric, WALL_CLOCK};
use ringfall_model::published::{Published, published};
use ringfall_model::stats::tail;
use ringfall_model::trust::{Trust, headlines};
use ringfall_model::{Code, Document};
use serde::Serialize;

use super::workload::Invocation;

named! {
/// Outcome of a run.
#[derive(Default, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It met all criteria of its profile.
    Pass = "PASS",
    /// It did not.
    Fail = "FAIL",
    /// Nothing was measured that it could be judged by.
    NoData = "NO DATA",
    /// It did not end as it should.
    Error = "ERROR",
    /// This machine can't run it.
    Impossible = "not possible",
    /// It has not been run, or was interrupted.
    #[default]
    NotRun = "not run",
}
}

/// Figures of the table: key of the metric, title, unit and digits behind the point.
pub const FIGURES: [(&str, &str, usize); 13] = [
    ("requests", "requests", 0),
    (WALL_CLOCK, "tokens/s", 1),
    ("storage_read_bandwidth_gib_per_s", "storage read, GiB/s", 3),
    ("storage_write_bandwidth_gib_per_s", "storage write, GiB/s", 3),
    ("end_to_end_mean_ms", "end to end, mean, ms", 0),
    ("end_to_end_p50_ms", "end to end, P50, ms", 0),
    ("end_to_end_p95_ms", "end to end, P95, ms", 0),
    ("end_to_end_p99_ms", "end to end, P99, ms", 0),
    ("storage_io_p50_ms", "I/O of a request, P50, ms", 1),
    ("storage_io_p95_ms", "I/O of a request, P95, ms", 1),
    ("storage_read_device_p95_ms", "storage read, device P95, ms", 1),
    ("storage_write_device_p95_ms", "storage write, device P95, ms", 1),
    ("cache_hit_rate", "hit rate", 3),
];

/// The table of a suite.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
#[cfg_attr(any(test, feature = "testing"), schemars(rename = "Table"))]
pub struct SuiteTable {
    /// Layout of the file: 1; also tells such a file from others.
    pub ringfall_suite_table: u32,
    /// Name of the machine.
    pub host: Option<String>,
    /// Directory of the suite with which the rows are compared; null when there is none.
    pub baseline: Option<PathBuf>,
    /// The runs of the suite, a row each, in their order.
    pub rows: Vec<Row>,
}

/// One run of a suite, judged and summarized.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct Row {
    /// Name of the run.
    pub name: String,
    /// Name of its workload.
    pub workload: &'static str,
    /// Description of the run, in a few words.
    pub title: String,
    /// Verdict by MLPerf's criteria: whether the run met those of its profile.
    pub verdict: Verdict,
    /// Finding on what limited the run; null without a result.
    pub limit: Option<RunLimit>,
    /// Whether its data was in memory, as on tmpfs, so that its figures say nothing about a drive.
    pub is_in_memory: bool,
    /// Criteria that it met, and all that it was judged by.
    pub criteria: Option<(usize, usize)>,
    /// Sentences: criteria that were not met, what failed, what this machine lacks.
    pub why: Vec<String>,
    /// Whether it had a GPU tier in host memory, whose figures say nothing about a GPU.
    pub is_gpu_emulated: bool,
    /// Part of the workload that was left out: a sentence.
    pub left_out: Option<String>,
    /// Figures, in the order of [`FIGURES`]; null where nothing was measured.
    pub figures: Vec<Option<f64>>,
    /// Share of earlier turns that were found when they were looked for; null where none was.
    pub reuse_share: Option<f64>,
    /// P95 of the time in which a request loads what was there before it, ms; null of fewer than
    /// ten loads.
    pub load_p95_ms: Option<f64>,
    /// Entries that found no place and were dropped.
    pub dropped_entries: Option<u64>,
    /// Finding of the autoscaler: a sentence.
    pub found: Option<String>,
    /// Metrics to go by, and the result of the baseline where there is one.
    pub go_by: Vec<GoBy>,
    /// Ratios published for two systems that run this.
    pub published: Vec<Published>,
}

/// A metric to go by.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct GoBy {
    /// Key of the metric, as in `Metric::key`.
    pub metric: &'static str,
    /// Value of this run.
    pub value: f64,
    /// Value of the same run of the other suite.
    pub baseline: Option<f64>,
    /// This one over that one.
    pub ratio: Option<f64>,
}

/// End of an invocation.
#[derive(Clone, Debug, PartialEq)]
pub enum End {
    /// With a result that says all.
    Done,
    /// In another way: a sentence.
    Failed(String),
    /// It was not begun, or interrupted.
    NotRun,
}

impl SuiteTable {
    /// A table of these rows.
    pub fn new(host: Option<String>, baseline: Option<PathBuf>, rows: Vec<Row>) -> SuiteTable {
        SuiteTable { ringfall_suite_table: 1, host, baseline, rows }
    }
}

impl Row {
    /// The row of an invocation that ended so, with its result if there is one, and the result of
    /// the same invocation of another suite.
    pub fn of(
        invocation: &Invocation,
        end: &End,
        document: Option<&Document>,
        baseline: Option<&Document>,
    ) -> Row {
        let mut row = Row {
            name: invocation.name.clone(),
            workload: invocation.workload.name(),
            title: invocation.title.clone(),
            left_out: invocation.left_out.clone(),
            figures: vec![None; FIGURES.len()],
            ..Row::default()
        };
        if let Some(document) = document {
            row.take(document, baseline);
        }
        match (&invocation.impossible, end) {
            (Some(why), _) => (row.verdict, row.why) = (Verdict::Impossible, vec![why.clone()]),
            (None, End::Failed(why)) => {
                row.verdict = Verdict::Error;
                row.why.insert(0, why.clone());
            }
            (None, End::NotRun) => row.verdict = Verdict::NotRun,
            (None, End::Done) => {}
        }
        row
    }

    fn take(&mut self, document: &Document, baseline: Option<&Document>) {
        let value = |document: &Document, key: &str| Metric::by_key(key)?.of(document);
        let in_tables = |key: &str| Metric::by_key(key)?.in_tables(document);
        self.figures = FIGURES.iter().map(|(key, ..)| in_tables(key)).collect();
        self.reuse_share = document.multi_turn_hit_rate();
        let load = document.ringfall.served.context_load_ms.as_ref();
        self.load_p95_ms =
            load.and_then(|load| tail(load.count.known()?, load.percentiles.p95.known()));
        let stats = &document.summary.cache_stats;
        self.verdict = Verdict::NoData;
        if let Some(health) = stats.storage_health.as_ref() {
            self.verdict = match &*health.overall_status {
                "PASS" => Verdict::Pass,
                "FAIL" => Verdict::Fail,
                _ => Verdict::NoData,
            };
            self.criteria = Some((health.passed_count, health.total_count));
            let missed = health.criteria.iter().filter(|criterion| !criterion.passed);
            self.why = missed.map(Criterion::told).collect();
        }
        self.dropped_entries = document.ringfall.errors.entries_refused.known();
        self.found = found(document);
        let has = |code: Code| document.ringfall.warnings.iter().any(|one| one.code == code);
        self.is_gpu_emulated = has(Code::GpuEmulated);
        self.is_in_memory = has(Code::MemoryBacked);
        self.limit = Some(RunLimit::of(document));
        let ratio_of = |key: &str| {
            let (own, theirs) = (value(document, key)?, value(baseline?, key)?);
            (theirs != 0.0).then(|| own / theirs)
        };
        let primary = headlines(document).into_iter().filter(|headline| {
            headline.advice.as_ref().is_some_and(|advice| advice.trust == Trust::Primary)
        });
        let rows = primary.map(|headline| GoBy {
            metric: headline.metric.key,
            value: headline.value,
            baseline: baseline.and_then(|other| headline.metric.of(other)),
            ratio: ratio_of(headline.metric.key),
        });
        self.go_by = rows.collect();
        if let Some(configuration) = Configuration::from_result(document) {
            self.published = published(&configuration, ratio_of);
        }
    }
}

/// Finding of the autoscaler, in a clause, or else why it has none; none without an autoscaler.
pub(crate) fn found(document: &Document) -> Option<String> {
    let scaler = document.ringfall.autoscaler.as_ref()?;
    let so = scaler.doubt();
    let answer = (scaler.peak_users.known(), scaler.peak_gib_per_s.known());
    Some(match (answer, scaler.qos_users.known()) {
        ((Some(users), Some(rate)), _) => {
            format!("peak {rate:.3} GiB/s with {}{so}", counted(users.into(), "user"))
        }
        (_, Some(users)) => {
            format!("{}{so}: {}", counted(users.into(), "user"), scaler.reason)
        }
        _ => format!("no answer: {}", scaler.reason),
    })
}
