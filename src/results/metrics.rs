//! The figures of a run that can be compared: what they are of a document, and which column of a
//! spreadsheet has them.

use serde::Serialize;

use crate::results::Document;
use crate::results::document::{CacheStatsReport, LatencyMs};

/// Which of two values is the better one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Better {
    /// Throughput, amounts of work done.
    Higher,
    /// Latencies.
    Lower,
    /// It describes the workload, not the system.
    Neither,
}

/// One figure.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    /// Stable name, the unit last.
    pub key: &'static str,
    /// As people read it.
    pub title: &'static str,
    /// Its columns in spreadsheets: of the reference's discovery, then of its converters and ours.
    pub columns: &'static [&'static str],
    /// What is a win.
    pub better: Better,
    /// Whether it is among those that are shown without asking.
    pub headline: bool,
    value: fn(&Document) -> Option<f64>,
}

impl Metric {
    /// Its value in a result; `None` when it was not measured.
    #[must_use]
    pub fn of(&self, document: &Document) -> Option<f64> {
        (self.value)(document)
    }

    /// Whether `value` is better than `other`; `None` when neither can be.
    #[must_use]
    pub fn wins(&self, value: f64, other: f64) -> Option<bool> {
        match self.better {
            Better::Higher => Some(value > other),
            Better::Lower => Some(value < other),
            Better::Neither => None,
        }
    }

    /// The metric of that name.
    #[must_use]
    pub fn by_key(key: &str) -> Option<&'static Metric> {
        METRICS.iter().find(|metric| metric.key == key)
    }
}

/// What the published analysis calls them.
pub const DECODE_READ: &str = "decode_bytes_read_gb";
/// Tokens over elapsed time.
pub const WALL_CLOCK: &str = "wall_clock_throughput_tokens_per_s";
/// Tokens over the summed time of storage I/O.
pub const STORAGE_THROUGHPUT: &str = "storage_throughput_tokens_per_s";

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

fn elapsed(d: &Document) -> Option<f64> {
    d.summary.elapsed_time.known()
}

fn stats(d: &Document) -> &CacheStatsReport {
    &d.summary.cache_stats
}

fn end_to_end(d: &Document) -> Option<&LatencyMs> {
    d.latency_of(|summary| &summary.end_to_end_latency_ms)
}

fn storage_io(d: &Document) -> Option<&LatencyMs> {
    d.storage_io_latency()
}

/// What the kernel counted for the device over the window: bytes read, and of both directions, MB/s
/// (of 10⁶ bytes, as data sheets and the published analysis have it).
fn device_mb_per_s(d: &Document) -> Option<[f64; 2]> {
    let kernel = d.ringfall.device.kernel.as_ref()?;
    let seconds = d.seconds().filter(|&seconds| seconds > 0.0)?;
    let (read, written) = (kernel.read_bytes.number()?, kernel.write_bytes.number()?);
    Some([read, read + written].map(|bytes| bytes / 1e6 / seconds))
}

fn quotient(part: Option<f64>, whole: Option<f64>) -> Option<f64> {
    Some(part? / whole.filter(|&whole| whole > 0.0)?)
}

/// A metric: its key, its title, whether more of it is better, whether it is shown without asking,
/// its value; then its columns in spreadsheets.
macro_rules! metric {
    ($key:expr, $title:literal, $better:ident, $headline:literal, $value:expr) => {
        metric!($key, $title, $better, $headline, $value, &[])
    };
    ($key:expr, $title:literal, $better:ident, $headline:literal, $value:expr, $column:expr) => {
        Metric {
            key: $key,
            title: $title,
            columns: $column,
            better: Better::$better,
            headline: $headline,
            value: $value,
        }
    };
}

/// Bytes that the device read, by the kernel's own counters or by iostat.
pub const DEVICE_READ: &str = "device_read_mb_per_s";
/// The same of both directions.
pub const DEVICE_TOTAL: &str = "device_total_mb_per_s";

/// All of them: what the reference's spreadsheet measures (its generation latencies are simulated),
/// then what only JSON results hold.
pub const METRICS: &[Metric] = &[
    metric!(
        DECODE_READ,
        "decode bytes read, GiB",
        Higher,
        true,
        |d| stats(d).decode_bytes_read_gb.known(),
        &["Decode Bytes Read (GB)"]
    ),
    metric!(
        WALL_CLOCK,
        "wall-clock throughput, tokens/s",
        Higher,
        true,
        |d| d.summary.avg_throughput_tokens_per_sec.known(),
        &["Wall-Clock Throughput (tokens/sec)", "Avg Throughput (tok/s)"]
    ),
    metric!(
        STORAGE_THROUGHPUT,
        "storage throughput, tokens/s",
        Higher,
        true,
        |d| quotient(tokens(d), io_seconds(d)),
        &["Storage Throughput (tokens/sec)", "Storage Throughput (tok/s)"]
    ),
    metric!(
        "wall_clock_requests_per_s",
        "wall-clock requests/s",
        Higher,
        false,
        |d| quotient(requests(d), elapsed(d)),
        &["Wall-Clock Requests/sec", "Requests/sec"]
    ),
    metric!(
        "storage_requests_per_s",
        "storage requests/s",
        Higher,
        false,
        |d| quotient(requests(d), io_seconds(d)),
        &["Storage Requests/sec"]
    ),
    metric!(
        "storage_io_time_s",
        "storage I/O time, s",
        Neither,
        false,
        io_seconds,
        &["Total I/O Time (s)"]
    ),
    metric!("tokens", "tokens", Higher, false, tokens, &["Total Tokens"]),
    metric!("requests", "requests", Higher, false, requests, &["Total Requests"]),
    metric!(
        "end_to_end_mean_ms",
        "end to end, mean, ms",
        Lower,
        false,
        |d| end_to_end(d)?.mean.known(),
        &["E2E Latency Mean (ms)"]
    ),
    metric!(
        "end_to_end_p50_ms",
        "end to end, P50, ms",
        Lower,
        false,
        |d| end_to_end(d)?.p50.known(),
        &["E2E Latency P50 (ms)"]
    ),
    metric!(
        "end_to_end_p95_ms",
        "end to end, P95, ms",
        Lower,
        true,
        |d| end_to_end(d)?.p95.known(),
        &["E2E Latency P95 (ms)"]
    ),
    metric!(
        "end_to_end_p99_ms",
        "end to end, P99, ms",
        Lower,
        false,
        |d| end_to_end(d)?.p99.known(),
        &["E2E Latency P99 (ms)"]
    ),
    metric!(
        "storage_io_mean_ms",
        "storage I/O of a request, mean, ms",
        Lower,
        false,
        |d| storage_io(d)?.mean.known(),
        &["Storage Latency Mean (ms)"]
    ),
    metric!(
        "storage_io_p50_ms",
        "storage I/O of a request, P50, ms",
        Lower,
        false,
        |d| storage_io(d)?.p50.known(),
        &["Storage Latency P50 (ms)"]
    ),
    metric!(
        "storage_io_p95_ms",
        "storage I/O of a request, P95, ms",
        Lower,
        true,
        |d| storage_io(d)?.p95.known(),
        &["Storage Latency P95 (ms)"]
    ),
    metric!(
        "storage_io_p99_ms",
        "storage I/O of a request, P99, ms",
        Lower,
        false,
        |d| storage_io(d)?.p99.known(),
        &["Storage Latency P99 (ms)"]
    ),
    metric!(
        "cache_hit_rate",
        "cache hit rate",
        Neither,
        false,
        Document::hit_rate,
        &["Cache Hit Rate"]
    ),
    metric!(
        "read_write_ratio",
        "bytes read per byte written",
        Neither,
        false,
        Document::read_write_ratio,
        &["Read/Write Ratio"]
    ),
    metric!(
        "total_read_gb",
        "bytes read, GiB",
        Higher,
        false,
        |d| stats(d).total_read_gb.known(),
        &["Total Read (GB)", "Total Read (GiB)"]
    ),
    metric!(
        "total_write_gb",
        "bytes written, GiB",
        Higher,
        false,
        |d| stats(d).total_write_gb.known(),
        &["Total Write (GB)", "Total Write (GiB)"]
    ),
    metric!(
        "prefill_bytes_written_gb",
        "prefill bytes written, GiB",
        Higher,
        false,
        |d| stats(d).prefill_bytes_written_gb.known(),
        &["Prefill Bytes Written (GB)"]
    ),
    metric!("storage_read_bandwidth_gib_per_s", "storage read, GiB/s", Higher, true, |d| {
        d.storage_bandwidth_gib_per_s()[0]
    }),
    metric!("storage_write_bandwidth_gib_per_s", "storage write, GiB/s", Higher, true, |d| {
        d.storage_bandwidth_gib_per_s()[1]
    }),
    metric!("storage_read_device_p50_ms", "storage read, device P50, ms", Lower, false, |d| {
        d.tier_latency_ms("storage_read_device_p50_ms")
    }),
    metric!("storage_read_device_p95_ms", "storage read, device P95, ms", Lower, true, |d| {
        d.tier_latency_ms("storage_read_device_p95_ms")
    }),
    metric!("storage_read_device_p99_ms", "storage read, device P99, ms", Lower, false, |d| {
        d.tier_latency_ms("storage_read_device_p99_ms")
    }),
    metric!("storage_write_device_p50_ms", "storage write, device P50, ms", Lower, false, |d| {
        d.tier_latency_ms("storage_write_device_p50_ms")
    }),
    metric!("storage_write_device_p95_ms", "storage write, device P95, ms", Lower, true, |d| {
        d.tier_latency_ms("storage_write_device_p95_ms")
    }),
    metric!("storage_write_device_p99_ms", "storage write, device P99, ms", Lower, false, |d| {
        d.tier_latency_ms("storage_write_device_p99_ms")
    }),
    metric!(
        DEVICE_READ,
        "device read by the kernel, MB/s",
        Higher,
        false,
        |d| Some(device_mb_per_s(d)?[0]),
        &["Device Read (MB/s)"]
    ),
    metric!(
        DEVICE_TOTAL,
        "device total by the kernel, MB/s",
        Higher,
        false,
        |d| Some(device_mb_per_s(d)?[1]),
        &["Device Total (MB/s)"]
    ),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::document::figure::{Derived, Sum};

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
    fn a_win_is_what_is_better() {
        let wins = |key: &str| Metric::by_key(key).unwrap().wins(2.0, 1.0);
        assert_eq!(wins(DECODE_READ), Some(true));
        assert_eq!(wins("end_to_end_p95_ms"), Some(false));
        assert_eq!(wins("cache_hit_rate"), None);
    }
}
