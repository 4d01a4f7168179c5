//! The figures of a run that can be compared: what they are of a document, and which column of a
//! spreadsheet has them.

use serde::Serialize;

use self::Better::{Higher, Lower, Neither};
use self::Evidence::{OfAllRequests, PerSecond, Quantile};
use self::Times::{ContextLoad, EndToEnd, StorageIo, StorageReadDevice, StorageWriteDevice};
use crate::Document;
use crate::document::{CLASSES, CacheStatsReport, QuantileMs, RequestsOfClass, SecondReport};
use crate::stats::tail;

/// Which of two values is the better one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Better {
    /// Throughput, amounts of work done.
    Higher,
    /// Latencies.
    Lower,
    /// It describes the workload, not the system.
    Neither,
}

/// Times of which a result has all in histograms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Times {
    /// Finished requests, from intended arrival to end.
    EndToEnd,
    /// The storage I/O of a finished request.
    StorageIo,
    /// Loads of a context by finished requests.
    ContextLoad,
    /// Device time of reading an entry.
    StorageReadDevice,
    /// Device time of writing an entry.
    StorageWriteDevice,
}

impl Times {
    /// Names of the histograms that hold them, all together.
    pub const fn histograms(self) -> &'static [&'static str] {
        match self {
            EndToEnd => &CLASSES,
            StorageIo => &["storage_io"],
            ContextLoad => &["context_load"],
            StorageReadDevice => &["storage_read_device"],
            StorageWriteDevice => &["storage_write_device"],
        }
    }
}

/// Where the variation of a metric inside a run is to be found.
#[derive(Clone, Copy, Debug)]
pub enum Evidence {
    /// It is that quantile, from 0 to 1, of these times.
    Quantile(Times, f64),
    /// It is that quantile, from 0 to 1, of the latencies of all requests, to which those that had
    /// not finished contribute their ages; how it is picked from the report of all requests.
    OfAllRequests(f64, fn(&RequestsOfClass) -> Option<&QuantileMs>),
    /// It is, or is proportional to, the sum of this amount of each second.
    PerSecond(fn(&SecondReport) -> Option<u64>),
    /// Nowhere, and why.
    None(&'static str),
}

const MEAN: Evidence = Evidence::None("a mean of few long times has none");
const STORAGE_TIME: Evidence =
    Evidence::None("storage time is not known by the second; give trials");
const UNRECORDED: Evidence = Evidence::None("its variation is not recorded; give trials");
const TOKENS: Evidence = Evidence::PerSecond(|second| second.generated_tokens.known());
const REQUESTS: Evidence = Evidence::PerSecond(|second| second.requests_completed.known());
/// Reads of all purposes: nearly all of them are decode reads, which no second counts apart.
const ALL_READ: Evidence = Evidence::PerSecond(|second| {
    let tiers = &second.tiers;
    let memory = tiers.gpu.read.bytes.known()?.saturating_add(tiers.cpu.read.bytes.known()?);
    Some(memory.saturating_add(storage_read(second)?))
});
const ALL_WRITTEN: Evidence = Evidence::PerSecond(|second| {
    let tiers = &second.tiers;
    let memory = tiers.gpu.write.bytes.known()?.saturating_add(tiers.cpu.write.bytes.known()?);
    Some(memory.saturating_add(storage_written(second)?))
});

fn storage_read(second: &SecondReport) -> Option<u64> {
    second.tiers.storage.read.bytes.known()
}

fn storage_written(second: &SecondReport) -> Option<u64> {
    second.tiers.storage.write.bytes.known()
}

/// A figure of a result that runs are compared by: its name, which way is better, and how it is
/// read.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    /// Stable name, the unit last.
    pub key: &'static str,
    /// As people read it.
    pub title: &'static str,
    /// Name within a sentence, where "its" or "the candidate's" may stand before it and "is" after
    /// it: singular, and without the unit.
    pub noun: &'static str,
    /// Its columns in spreadsheets: of the reference's discovery, then of its converters and ours.
    pub columns: &'static [&'static str],
    /// Direction that counts as a win.
    pub better: Better,
    /// Whether it is among those that are shown without asking.
    pub headline: bool,
    /// Whether it is of finished requests, or of their reads and writes, alone. Under overload
    /// those are the lucky ones, so that it praises the side that left more requests unfinished.
    pub is_of_finished: bool,
    /// Whether it is an amount, which adds up over runs that follow one another.
    pub is_amount: bool,
    /// Source of the metric's variation within a result.
    pub evidence: Evidence,
    value: Value,
}

/// Number that a result has of a metric.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MetricValue {
    /// The value, or a lower bound of it.
    pub number: f64,
    /// Whether the number is no more than a lower bound, of a value that unfinished requests
    /// decide.
    pub is_bound: bool,
}

impl MetricValue {
    /// Text for people: the number, or `≥ …` where it is a bound.
    pub fn told(&self, figure: impl Fn(f64) -> String) -> String {
        format!("{}{}", if self.is_bound { "≥ " } else { "" }, figure(self.number))
    }
}

impl Metric {
    /// Its value in a result; `None` when it was not measured, or only a bound of it is known.
    pub fn of(&self, document: &Document) -> Option<f64> {
        (self.value)(document)
    }

    /// Lower bound of a percentile of all requests, whatever becomes of those that had not
    /// finished; `None` of other metrics.
    pub fn at_least(&self, document: &Document) -> Option<f64> {
        let OfAllRequests(_, pick) = self.evidence else { return None };
        Some(pick(&document.ringfall.requests.as_ref()?.all)?.at_least_ms)
    }

    /// Its value in a result, or the bound that takes its place.
    pub fn measured(&self, document: &Document) -> Option<MetricValue> {
        let value = self.of(document);
        let number = value.or_else(|| self.at_least(document))?;
        Some(MetricValue { number, is_bound: value.is_none() })
    }

    /// Its value as tables of runs have it: none of a P95 or P99 of few times.
    pub fn in_tables(&self, document: &Document) -> Option<f64> {
        let value = self.of(document);
        let Quantile(times, quantile) = self.evidence else { return value };
        let histograms = &document.ringfall.histograms;
        let counts = times.histograms().iter().filter_map(|name| histograms.count(name));
        // A result of another program has no histograms, and counts nothing.
        match counts.reduce(u64::saturating_add).filter(|_| quantile > 0.5) {
            Some(count) => tail(count, value),
            None => value,
        }
    }

    /// Whether `value` is better than `other`; `None` when neither can be.
    pub fn wins(&self, value: f64, other: f64) -> Option<bool> {
        match self.better {
            Better::Higher => Some(value > other),
            Better::Lower => Some(value < other),
            Better::Neither => None,
        }
    }

    /// The metric of that name.
    pub fn by_key(key: &str) -> Option<&'static Metric> {
        METRICS.iter().find(|metric| metric.key == key)
    }

    /// Title of the metric of that key; the key itself where there is none.
    pub fn title_of(key: &str) -> &str {
        Metric::by_key(key).map_or(key, |metric| metric.title)
    }
}

/// Key of decode bytes read, as in the published analysis.
pub const DECODE_READ: &str = "decode_bytes_read_gb";
/// Tokens over elapsed time.
pub const WALL_CLOCK: &str = "wall_clock_throughput_tokens_per_s";
/// Bytes that prefill phases wrote.
pub const PREFILL_WRITTEN: &str = "prefill_bytes_written_gb";
/// Bytes that storage wrote over elapsed time.
pub const WRITE_BANDWIDTH: &str = "storage_write_bandwidth_gib_per_s";
/// Tokens over the summed time of storage I/O.
pub const STORAGE_THROUGHPUT: &str = "storage_throughput_tokens_per_s";
/// P95 of the latencies of all requests, finished or not.
pub const REQUEST_P95: &str = "request_p95_ms";
/// P95 of the times in which finished requests loaded their contexts.
pub const CONTEXT_LOAD_P95: &str = "context_load_p95_ms";
/// Keys of the figures that a better system is not worse by: bandwidths, and the latencies of
/// requests, of loads and of entries.
pub const DECISIVE: [&str; 7] = [
    "storage_read_bandwidth_gib_per_s",
    WRITE_BANDWIDTH,
    "request_p50_ms",
    REQUEST_P95,
    CONTEXT_LOAD_P95,
    "storage_read_device_p95_ms",
    "storage_write_device_p95_ms",
];

/// The first of two places that has it: the reference's results lack some.
fn tokens(d: &Document) -> Option<f64> {
    d.summary.total_tokens.number().or(d.total_tokens_generated.number())
}

fn requests(d: &Document) -> Option<f64> {
    d.summary.total_requests.number().or(d.requests_completed.number())
}

fn io_seconds(d: &Document) -> Option<f64> {
    let seconds = d.summary.total_storage_io_time.known().or(d.total_storage_io_latency.known());
    seconds.filter(|_| !d.is_without_drive())
}

fn stats(d: &Document) -> &CacheStatsReport {
    &d.summary.cache_stats
}

/// Rates from the kernel's counters of the device over the window: read, and both directions, MB/s
/// (10⁶ bytes, as in data sheets and the published analysis).
fn device_mb_per_s(d: &Document) -> Option<[f64; 2]> {
    let kernel = d.ringfall.device.kernel.as_ref()?;
    let seconds = d.seconds().filter(|&seconds| seconds > 0.0)?;
    let (read, written) = (kernel.read_bytes.number()?, kernel.write_bytes.number()?);
    Some([read, read + written].map(|bytes| bytes / 1e6 / seconds))
}

fn quotient(part: Option<f64>, whole: Option<f64>) -> Option<f64> {
    Some(part? / whole.filter(|&whole| whole > 0.0)?)
}

/// Reads the value of a metric from a result.
type Value = fn(&Document) -> Option<f64>;

/// A metric that is shown only when asked for, is in no spreadsheet, and of whose variation nothing
/// is recorded.
const fn metric(
    better: Better,
    key: &'static str,
    title: &'static str,
    noun: &'static str,
    value: Value,
) -> Metric {
    Metric {
        key,
        title,
        noun,
        columns: &[],
        better,
        headline: false,
        is_of_finished: false,
        is_amount: false,
        evidence: UNRECORDED,
        value,
    }
}

impl Metric {
    /// The same, shown without asking.
    const fn headline(self) -> Metric {
        Metric { headline: true, ..self }
    }

    /// The same, of finished requests, or of their reads and writes, alone.
    const fn of_finished(self) -> Metric {
        Metric { is_of_finished: true, ..self }
    }

    /// The same, an amount.
    const fn amount(self) -> Metric {
        Metric { is_amount: true, ..self }
    }

    /// The same, with that evidence of how much it varied.
    const fn varies(self, evidence: Evidence) -> Metric {
        Metric { evidence, ..self }
    }

    /// The same, with these columns in spreadsheets.
    const fn columns(self, columns: &'static [&'static str]) -> Metric {
        Metric { columns, ..self }
    }
}

/// A percentile of the latencies of all requests; none where it may be that of an unfinished one.
macro_rules! of_all_requests {
    ($key:expr, $part:ident, $name:literal, $quantile:literal) => {
        metric(
            Lower,
            $key,
            concat!("all requests, ", $name, ", ms"),
            concat!($name, " latency of all requests"),
            |d| d.ringfall.requests.as_ref()?.all.$part.as_ref()?.number_ms(),
        )
        .varies(OfAllRequests($quantile, |all| all.$part.as_ref()))
    };
}

/// The mean or a percentile of times of the requests that finished.
macro_rules! of_finished {
    (end_to_end, $part:ident, $name:literal, $evidence:expr, $column:literal) => {
        metric(
            Lower,
            concat!("end_to_end_", stringify!($part), "_ms"),
            concat!("finished requests, ", $name, ", ms"),
            concat!($name, " latency of finished requests"),
            |d| d.latency_of(|summary| &summary.end_to_end_latency_ms)?.$part.known(),
        )
        .of_finished()
        .varies($evidence)
        .columns(&[$column])
    };
    (storage_io, $part:ident, $name:literal, $evidence:expr, $column:literal) => {
        metric(
            Lower,
            concat!("storage_io_", stringify!($part), "_ms"),
            concat!("storage I/O of finished, ", $name, ", ms"),
            concat!($name, " storage I/O time of finished requests"),
            |d| d.storage_io_latency()?.$part.known(),
        )
        .of_finished()
        .varies($evidence)
        .columns(&[$column])
    };
}

/// A percentile of what the device took for an entry in one direction.
macro_rules! of_the_device {
    ($key:literal, $direction:literal, $times:expr, $name:literal, $quantile:literal) => {
        metric(
            Lower,
            $key,
            concat!("storage ", $direction, ", device ", $name, ", ms"),
            concat!($name, " device latency of storage ", $direction, "s"),
            |d| d.tier_latency_ms($key),
        )
        .of_finished()
        .varies(Quantile($times, $quantile))
    };
}

/// Bytes that the device read, by the kernel's own counters or by iostat.
pub const DEVICE_READ: &str = "device_read_mb_per_s";
/// The same of both directions.
pub const DEVICE_TOTAL: &str = "device_total_mb_per_s";

/// All of them: what the reference's spreadsheet measures (its generation latencies are simulated),
/// then what only JSON results hold.
pub const METRICS: &[Metric] = &[
    metric(Higher, DECODE_READ, "decode bytes read, GiB", "amount of decode bytes read", |d| {
        stats(d).decode_bytes_read_gb.known()
    })
    .headline()
    .amount()
    .varies(ALL_READ)
    .columns(&["Decode Bytes Read (GB)"]),
    metric(Higher, WALL_CLOCK, "wall-clock throughput, tokens/s", "wall-clock throughput", |d| {
        d.summary.avg_throughput_tokens_per_sec.known()
    })
    .headline()
    .varies(TOKENS)
    .columns(&["Wall-Clock Throughput (tokens/sec)", "Avg Throughput (tok/s)"]),
    metric(Higher, STORAGE_THROUGHPUT, "storage throughput, tokens/s", "storage throughput", |d| {
        quotient(tokens(d), io_seconds(d))
    })
    .headline()
    .of_finished()
    .varies(STORAGE_TIME)
    .columns(&["Storage Throughput (tokens/sec)", "Storage Throughput (tok/s)"]),
    metric(
        Higher,
        "wall_clock_requests_per_s",
        "wall-clock requests/s",
        "wall-clock request rate",
        |d| quotient(requests(d), d.summary.elapsed_time.known()),
    )
    .varies(REQUESTS)
    .columns(&["Wall-Clock Requests/sec", "Requests/sec"]),
    metric(
        Higher,
        "storage_requests_per_s",
        "storage requests/s",
        "request rate by storage time",
        |d| quotient(requests(d), io_seconds(d)),
    )
    .of_finished()
    .varies(STORAGE_TIME)
    .columns(&["Storage Requests/sec"]),
    metric(Neither, "storage_io_time_s", "storage I/O time, s", "storage I/O time", io_seconds)
        .amount()
        .varies(STORAGE_TIME)
        .columns(&["Total I/O Time (s)"]),
    metric(Higher, "tokens", "tokens", "number of generated tokens", tokens)
        .amount()
        .varies(TOKENS)
        .columns(&["Total Tokens"]),
    metric(Higher, "requests", "requests", "number of finished requests", requests)
        .amount()
        .varies(REQUESTS)
        .columns(&["Total Requests"]),
    of_all_requests!("request_p50_ms", p50, "P50", 0.5).headline(),
    of_all_requests!(REQUEST_P95, p95, "P95", 0.95).headline(),
    of_all_requests!("request_p99_ms", p99, "P99", 0.99),
    of_finished!(end_to_end, mean, "mean", MEAN, "E2E Latency Mean (ms)"),
    of_finished!(end_to_end, p50, "P50", Quantile(EndToEnd, 0.5), "E2E Latency P50 (ms)"),
    of_finished!(end_to_end, p95, "P95", Quantile(EndToEnd, 0.95), "E2E Latency P95 (ms)"),
    of_finished!(end_to_end, p99, "P99", Quantile(EndToEnd, 0.99), "E2E Latency P99 (ms)"),
    of_finished!(storage_io, mean, "mean", MEAN, "Storage Latency Mean (ms)"),
    of_finished!(storage_io, p50, "P50", Quantile(StorageIo, 0.5), "Storage Latency P50 (ms)"),
    of_finished!(storage_io, p95, "P95", Quantile(StorageIo, 0.95), "Storage Latency P95 (ms)")
        .headline(),
    of_finished!(storage_io, p99, "P99", Quantile(StorageIo, 0.99), "Storage Latency P99 (ms)"),
    metric(Lower, CONTEXT_LOAD_P95, "load of a context, P95, ms", "P95 load of a context", |d| {
        d.context_load()?.p95.known()
    })
    .headline()
    .of_finished()
    .varies(Quantile(ContextLoad, 0.95)),
    metric(Neither, "cache_hit_rate", "cache hit rate", "cache hit rate", Document::hit_rate)
        .columns(&["Cache Hit Rate"]),
    metric(
        Neither,
        "read_write_ratio",
        "bytes read per byte written",
        "ratio of bytes read to bytes written",
        Document::read_write_ratio,
    )
    .columns(&["Read/Write Ratio"]),
    metric(Higher, "total_read_gb", "bytes read, GiB", "amount of bytes read", |d| {
        stats(d).total_read_gb.known()
    })
    .amount()
    .varies(ALL_READ)
    .columns(&["Total Read (GB)", "Total Read (GiB)"]),
    metric(Higher, "total_write_gb", "bytes written, GiB", "amount of bytes written", |d| {
        stats(d).total_write_gb.known()
    })
    .amount()
    .varies(ALL_WRITTEN)
    .columns(&["Total Write (GB)", "Total Write (GiB)"]),
    metric(
        Higher,
        PREFILL_WRITTEN,
        "prefill bytes written, GiB",
        "amount of prefill bytes written",
        |d| stats(d).prefill_bytes_written_gb.known(),
    )
    .amount()
    .varies(ALL_WRITTEN)
    .columns(&["Prefill Bytes Written (GB)"]),
    metric(
        Higher,
        "storage_read_bandwidth_gib_per_s",
        "storage read, GiB/s",
        "storage read bandwidth",
        |d| d.storage_bandwidth_gib_per_s()[0],
    )
    .headline()
    .varies(PerSecond(storage_read)),
    metric(Higher, WRITE_BANDWIDTH, "storage write, GiB/s", "storage write bandwidth", |d| {
        d.storage_bandwidth_gib_per_s()[1]
    })
    .headline()
    .varies(PerSecond(storage_written)),
    of_the_device!("storage_read_device_p50_ms", "read", StorageReadDevice, "P50", 0.5),
    of_the_device!("storage_read_device_p95_ms", "read", StorageReadDevice, "P95", 0.95).headline(),
    of_the_device!("storage_read_device_p99_ms", "read", StorageReadDevice, "P99", 0.99),
    of_the_device!("storage_write_device_p50_ms", "write", StorageWriteDevice, "P50", 0.5),
    of_the_device!("storage_write_device_p95_ms", "write", StorageWriteDevice, "P95", 0.95)
        .headline(),
    of_the_device!("storage_write_device_p99_ms", "write", StorageWriteDevice, "P99", 0.99),
    metric(
        Higher,
        DEVICE_READ,
        "device read by the kernel, MB/s",
        "device read rate by the kernel's counters",
        |d| Some(device_mb_per_s(d)?[0]),
    )
    .columns(&["Device Read (MB/s)"]),
    metric(
        Higher,
        DEVICE_TOTAL,
        "device total by the kernel, MB/s",
        "total device rate by the kernel's counters",
        |d| Some(device_mb_per_s(d)?[1]),
    )
    .columns(&["Device Total (MB/s)"]),
];

#[cfg(test)]
mod tests {
    use std::path::Path;

    use ringfall_core::key::Tier;
    use ringfall_core::metrics::Histogram;
    use ringfall_workloads::contract::Class;

    use super::*;
    use crate::RunResult;
    use crate::document::Histograms;
    use crate::figures::figure::{Derived, Sum};

    #[test]
    fn keys_and_columns_are_told_apart() {
        for (at, metric) in METRICS.iter().enumerate() {
            for other in &METRICS[at + 1..] {
                assert_ne!(metric.key, other.key);
                let is_there = |name: &&&str| other.columns.contains(*name);
                assert_eq!(metric.columns.iter().find(is_there), None);
            }
        }
        for key in [DECODE_READ, WALL_CLOCK, STORAGE_THROUGHPUT] {
            assert!(Metric::by_key(key).is_some_and(|metric| metric.headline));
        }
        for key in DECISIVE {
            assert!(Metric::by_key(key).is_some_and(|metric| metric.headline), "{key}");
        }
    }

    #[test]
    fn a_metric_is_named_in_a_sentence_by_a_singular_without_a_unit() {
        for Metric { key, noun, .. } in METRICS {
            let head = noun.split(" of ").next().unwrap().split(" by ").next().unwrap();
            assert!(!head.ends_with('s'), "{key}: {noun} would be followed by \"are\"");
            let has_unit = noun.contains([',', '(']) || noun.contains("/s");
            assert!(!has_unit && !noun.contains(" is "), "{key}: {noun}");
        }
    }

    #[test]
    fn a_value_is_read_computed_or_absent() {
        let mut document = Document { requests_completed: Sum::of(8), ..Document::default() };
        document.summary.total_tokens = Sum::of(30);
        document.summary.total_storage_io_time = Derived::of(1.5);
        let value = |key| Metric::by_key(key).unwrap().of(&document);
        assert_eq!(value(STORAGE_THROUGHPUT), Some(20.0));
        assert_eq!(value("requests"), Some(8.0));
        assert_eq!(value(DECODE_READ), None);
        assert_eq!(value("wall_clock_requests_per_s"), None);
        let mut idle = Document::default();
        idle.summary.total_tokens = Sum::of(0);
        idle.summary.total_storage_io_time = Derived::of(0.0);
        assert_eq!(Metric::by_key(STORAGE_THROUGHPUT).unwrap().of(&idle), None);
    }

    #[test]
    fn percentiles_and_rates_of_the_headline_have_evidence() {
        for metric in METRICS.iter().filter(|metric| metric.key.contains("_p")) {
            if metric.key.ends_with("_ms") {
                let is_quantile = matches!(metric.evidence, Quantile(..) | OfAllRequests(..));
                assert!(is_quantile, "{}", metric.key);
            }
        }
        for metric in METRICS.iter().filter(|m| m.headline && m.key != STORAGE_THROUGHPUT) {
            assert!(!matches!(metric.evidence, Evidence::None(_)), "{}", metric.key);
        }
    }

    /// A percentile's value and its evidence are declared side by side; they are of the same times.
    #[test]
    fn the_evidence_of_a_percentile_is_the_histogram_that_it_comes_from() {
        let mut run = crate::testing::busy();
        let figures = &mut run.figures;
        let storage = &mut figures.engine.tiers[Tier::Storage.index()];
        for (ms, histogram) in (1..).zip([
            &mut figures.requests.storage_io,
            &mut figures.requests.load,
            &mut storage.read.device,
            &mut storage.write.device,
        ]) {
            *histogram = Histogram::new();
            (1..=100).for_each(|n| histogram.record(n * ms * 1_000_000));
        }
        let document = Document::of(&run);
        let histograms = Histograms::read(&document, Path::new("x")).unwrap();
        let mut seen = 0;
        for metric in METRICS {
            let Evidence::Quantile(times, quantile) = metric.evidence else { continue };
            let all = histograms.sum(times.histograms()).unwrap();
            let value_ms = all.quantile_ns(quantile).unwrap() as f64 / 1e6;
            assert_eq!(metric.of(&document), Some(value_ms), "{}", metric.key);
            seen += 1;
        }
        assert_eq!(seen, 13);
    }

    /// A disk 13 times slower was judged by the seven of 57 requests that had finished.
    #[test]
    fn a_latency_of_all_requests_is_none_where_the_unfinished_ones_decide_it() {
        let mut run = crate::testing::busy();
        let value = |run: &RunResult| Metric::by_key(REQUEST_P95).unwrap().of(&Document::of(run));
        assert!(value(&run).is_some_and(|ms| (59.9..60.1).contains(&ms)));
        for _ in 0..50 {
            run.requests.record_unfinished(Class::Batch, 9_000_000_000);
        }
        assert_eq!(value(&run), None);
        assert!(Metric::by_key("end_to_end_p95_ms").is_some_and(|metric| metric.is_of_finished));
    }

    #[test]
    fn a_win_is_what_is_better() {
        let wins = |key: &str| Metric::by_key(key).unwrap().wins(2.0, 1.0);
        assert_eq!(wins(DECODE_READ), Some(true));
        assert_eq!(wins("end_to_end_p95_ms"), Some(false));
        assert_eq!(wins("cache_hit_rate"), None);
    }
}
