//! One rank file: the figures that an audit needs, each with its key, and those that can't be.

use std::path::{Path, PathBuf};

use ringfall_model::document::{Contradiction, Histograms, ResultFile, contradictions};

use serde_json::Value;

use super::json::{at, is_container, number, read, text};
use super::span::{FromLog, Span};

/// The quality-of-service classes of a result.
pub(super) const CLASSES: [&str; 3] = ["interactive", "responsive", "batch"];
/// Key of the raw latencies, which only the reference's results hold in full.
const RAW: &str = "end_to_end_latencies";
/// Most that a count, a time or a rate can be; more is a damaged file.
const FIGURE_MAX: f64 = 1e15;
/// Least time by which is divided, s: no run is shorter.
const TIME_MIN_S: f64 = 0.001;
/// Figures that can't be which are named, of each file.
const ODD_MAX: usize = 20;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Figure {
    pub(super) key: &'static str,
    pub(super) value: f64,
}

/// A figure, if the file has it.
pub(super) type Known = Option<Figure>;

pub(super) fn value(figure: Known) -> Option<f64> {
    figure.map(|figure| figure.value)
}

/// A figure that can't be, and is taken as unknown.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Odd {
    pub(super) key: String,
    pub(super) value: String,
}

/// Compliance of a class of requests with its target.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Qos {
    pub(super) requests: f64,
    /// Share of the requests within their target, 0 to 1.
    pub(super) compliance: f64,
    pub(super) is_met: bool,
}

/// Bytes by the two counts in a result of ours: the engine's and the kernel's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Counted {
    pub(super) engine: [Figure; 2],
    pub(super) kernel: [Figure; 2],
}

#[derive(Clone, Debug, Default)]
pub(super) struct Rank {
    pub(super) file: PathBuf,
    pub(super) index: u32,
    pub(super) requests: Known,
    pub(super) elapsed_s: Known,
    pub(super) read_gib: Known,
    pub(super) write_gib: Known,
    pub(super) read_gib_per_s: Known,
    pub(super) write_gib_per_s: Known,
    pub(super) tokens_per_s: Known,
    pub(super) storage_tokens_per_s: Known,
    /// P50, P95 and P99 of whole requests, ms.
    pub(super) request_ms: [Known; 3],
    /// The slowest request, s; its key says where.
    pub(super) slowest_s: Known,
    pub(super) storage_io_p95_ms: Known,
    pub(super) storage_read_p95_ms: Known,
    pub(super) read_device_p95_ms: Known,
    pub(super) fsync_ms: [Known; 2],
    pub(super) prefill_writes: Known,
    pub(super) storage_entries: Known,
    /// `PASS` or `FAIL`, as the file says.
    pub(super) health: Option<String>,
    pub(super) qos: [Option<Qos>; 3],
    /// Whether ringfall made it: its bytes are those of its window alone.
    pub(super) is_ours: bool,
    pub(super) counted: Option<Counted>,
    /// Whether the result says that the run had no storage tier (`--disable-storage`).
    pub(super) is_without_storage_tier: bool,
    /// Name of the simulated drive, where no drive moved a byte.
    pub(super) simulated: Option<String>,
    /// Whether a signal ended the run early.
    pub(super) is_interrupted: bool,
    pub(super) requests_failed: Known,
    pub(super) blocks_bad: Known,
    pub(super) odd: Vec<Odd>,
    /// Figures of the file that contradict each other.
    pub(super) contradictions: Vec<Contradiction>,
    /// Reason for which its figures could not all be held against each other.
    pub(super) unchecked: Option<String>,
    /// Set when the trial's log is read.
    pub(super) from_log: Option<FromLog>,
}

impl Rank {
    /// Bounds on the time in which its bytes were counted.
    pub(super) fn span(&self) -> Option<Span> {
        let elapsed_s = self.elapsed_s?.value;
        if self.is_ours {
            return Some(Span { at_least_s: elapsed_s, at_most_s: Some(elapsed_s) });
        }
        let log_s = self.from_log.as_ref().map(|log| log.at_most_s);
        Some(Span::of(elapsed_s, value(self.slowest_s), log_s))
    }
}

/// Reads the rank file at `path`, which is shown as `file`; none if it is JSON of another kind.
pub(super) fn read_rank(path: &Path, file: PathBuf, index: u32) -> Result<Option<Rank>, String> {
    let value = read(path)?;
    let damaged = |what: &str| Err(what.to_owned());
    if !at(&value, "summary").is_some_and(Value::is_object) {
        return match at(&value, RAW).is_some_and(is_container) {
            true => damaged("it has no `summary`: no request was completed, or the run was ended"),
            false => Ok(None),
        };
    }
    if !at(&value, "summary.cache_stats").is_some_and(Value::is_object) {
        return damaged(
            "its `summary` has no `cache_stats`, so it is not a result of the benchmark",
        );
    }
    if at(&value, "ringfall.merged").is_some_and(is_container) {
        return damaged("it sums up several results; give those instead");
    }
    let mut rank = rank(&value, file, index);
    match ResultFile::from_json(path, value) {
        Ok(ResultFile { document, .. }) => {
            rank.contradictions = contradictions(&document);
            // The reference's results have none.
            let histograms = Histograms::read(&document, path).err().filter(|_| rank.is_ours);
            rank.unchecked = histograms.map(|problem| problem.what);
        }
        Err(problem) => rank.unchecked = Some(problem.what),
    }
    Ok(Some(rank))
}

fn is_interrupted(value: &Value) -> bool {
    at(value, "ringfall.window.interrupted") == Some(&Value::Bool(true))
}

/// Takes figures out of a file, and notes those that can't be.
struct Taking<'a> {
    file: &'a Value,
    odd: Vec<Odd>,
}

impl Taking<'_> {
    fn take(&mut self, key: &'static str) -> Known {
        Some(Figure { key, value: self.number(key)? })
    }

    fn number(&mut self, key: &str) -> Option<f64> {
        let given = at(self.file, key).filter(|value| !value.is_null() && !is_container(value))?;
        match number(given) {
            Some(value) if (0.0..=FIGURE_MAX).contains(&value) => return Some(value),
            Some(value) => self.note(key, value.to_string()),
            None => self.note(key, text(given).map_or(given.to_string(), |t| format!("{t:?}"))),
        }
        None
    }

    /// A time by which is divided.
    fn time(&mut self, key: &'static str) -> Known {
        let figure = self.take(key)?;
        if figure.value >= TIME_MIN_S {
            return Some(figure);
        }
        // Of a run that ended in its warm-up there is no window, which is told.
        if figure.value != 0.0 || !is_interrupted(self.file) {
            self.note(key, figure.value.to_string());
        }
        None
    }

    fn note(&mut self, key: &str, value: String) {
        if self.odd.len() < ODD_MAX {
            self.odd.push(Odd { key: key.to_owned(), value });
        }
    }

    /// The slowest request, s: the largest of the raw latencies, or of the classes' maxima.
    fn slowest(&mut self) -> Known {
        let raw = at(self.file, RAW).and_then(Value::as_array).into_iter().flatten();
        let none = (f64::INFINITY, f64::NEG_INFINITY);
        let (least, most) =
            raw.filter_map(number).fold(none, |(least, most), n| (least.min(n), most.max(n)));
        if least >= 0.0 && (0.0..=FIGURE_MAX).contains(&most) {
            return Some(Figure { key: RAW, value: most });
        }
        if least <= most {
            self.note(RAW, format!("{least} to {most}"));
        }
        // The percentiles are interpolated between two requests, so the slowest is no faster.
        let all = [
            "summary.qos_metrics.interactive.latency_ms.max",
            "summary.qos_metrics.responsive.latency_ms.max",
            "summary.qos_metrics.batch.latency_ms.max",
            "summary.end_to_end_latency_ms.p9999",
            "summary.end_to_end_latency_ms.p999",
            "summary.end_to_end_latency_ms.p99",
            "summary.end_to_end_latency_ms.p95",
        ];
        let all: Vec<Figure> = all.into_iter().filter_map(|key| self.take(key)).collect();
        let slowest = all.into_iter().max_by(|a, b| a.value.total_cmp(&b.value))?;
        Some(Figure { key: slowest.key, value: slowest.value / 1000.0 })
    }

    fn qos(&mut self, class: &str) -> Option<Qos> {
        let key = |name: &str| format!("summary.qos_metrics.{class}.{name}");
        let requests = self.number(&key("total_requests"))?;
        let compliance = self.number(&key("sla.compliance"))?;
        if compliance > 1.0 {
            self.note(&key("sla.compliance"), compliance.to_string());
            return None;
        }
        let is_met = at(self.file, &key("sla.met"))?.as_bool()?;
        Some(Qos { requests, compliance, is_met })
    }

    fn counted(&mut self) -> Option<Counted> {
        Some(Counted {
            engine: [
                self.take("ringfall.device.engine_read_bytes")?,
                self.take("ringfall.device.engine_write_bytes")?,
            ],
            kernel: [
                self.take("ringfall.device.kernel.read_bytes")?,
                self.take("ringfall.device.kernel.write_bytes")?,
            ],
        })
    }
}

fn rank(value: &Value, file: PathBuf, index: u32) -> Rank {
    let mut from = Taking { file: value, odd: Vec::new() };
    let number = |key: &str| at(value, key).and_then(number);
    let text = |key: &str| at(value, key).and_then(text).map(str::to_owned);
    let is_ours = number("ringfall.schema_version").is_some();
    let mut rank = Rank {
        file,
        index,
        requests: from.take("summary.total_requests"),
        elapsed_s: from.time("summary.elapsed_time"),
        read_gib: from.take("summary.cache_stats.tier_storage_kv_bytes_read_gb"),
        write_gib: from.take("summary.cache_stats.tier_storage_kv_bytes_written_gb"),
        read_gib_per_s: from.take("summary.cache_stats.tier_storage_read_bandwidth_gbps"),
        write_gib_per_s: from.take("summary.cache_stats.tier_storage_write_bandwidth_gbps"),
        tokens_per_s: from.take("summary.avg_throughput_tokens_per_sec"),
        storage_tokens_per_s: from.take("summary.storage_throughput_tokens_per_sec"),
        request_ms: [
            from.take("summary.end_to_end_latency_ms.p50"),
            from.take("summary.end_to_end_latency_ms.p95"),
            from.take("summary.end_to_end_latency_ms.p99"),
        ],
        slowest_s: from.slowest(),
        storage_io_p95_ms: from.take("summary.storage_io_latency_ms.p95"),
        storage_read_p95_ms: from.take("summary.cache_stats.storage_read_p95_ms"),
        read_device_p95_ms: from.take("summary.cache_stats.storage_read_device_p95_ms"),
        fsync_ms: [
            from.take("summary.cache_stats.storage_write_device_p50_ms"),
            from.take("summary.cache_stats.storage_write_device_p95_ms"),
        ],
        prefill_writes: from.take("summary.cache_stats.prefill_writes"),
        storage_entries: from.take("summary.cache_stats.storage_entries"),
        health: text("summary.cache_stats.storage_health.overall_status"),
        qos: CLASSES.map(|class| from.qos(class)),
        is_ours,
        counted: if is_ours { from.counted() } else { None },
        is_without_storage_tier: number("ringfall.config.storage_capacity_bytes") == Some(0.0),
        simulated: at(value, "ringfall.simulation")
            .filter(|simulation| is_container(simulation))
            .map(|_| text("ringfall.simulation.device").unwrap_or_default()),
        is_interrupted: is_interrupted(value),
        requests_failed: from.take("ringfall.errors.requests_failed"),
        blocks_bad: from.take("ringfall.verify.blocks_bad"),
        ..Rank::default()
    };
    if is_ours && rank.elapsed_s.is_none() {
        rank.elapsed_s = from.time("ringfall.window.seconds");
    }
    rank.odd = from.odd;
    rank
}
