//! The figures of a run that can be compared, and where a spreadsheet and a JSON result have them.

use serde::Serialize;
use serde_json::Value;

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

/// Where a JSON result has a metric: the first of several places that holds a number.
#[derive(Clone, Copy, Debug)]
enum Source {
    At(&'static [&'static str]),
    /// Two of them, divided.
    Quotient(&'static [&'static str], &'static [&'static str]),
}

/// One figure.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    /// Stable name, the unit last.
    pub key: &'static str,
    /// As people read it.
    pub title: &'static str,
    /// The reference's spreadsheet column, when it has one.
    pub column: Option<&'static str>,
    /// What is a win.
    pub better: Better,
    /// Whether it is among those that are shown without asking.
    pub headline: bool,
    source: Source,
}

impl Metric {
    /// Its value in a JSON result; `None` when it was not measured.
    #[must_use]
    pub fn of(&self, document: &Value) -> Option<f64> {
        let first = |places: &[&str]| {
            places.iter().find_map(|place| document.pointer(place).and_then(Value::as_f64))
        };
        match self.source {
            Source::At(places) => first(places),
            Source::Quotient(part, whole) => {
                let whole = first(whole).filter(|&whole| whole > 0.0)?;
                Some(first(part)? / whole)
            }
        }
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

const TOKENS: &[&str] = &["/summary/total_tokens", "/total_tokens_generated"];
const REQUESTS: &[&str] = &["/summary/total_requests", "/requests_completed"];
const IO_SECONDS: &[&str] = &["/summary/total_storage_io_time", "/total_storage_io_latency"];
const ELAPSED: &[&str] = &["/summary/elapsed_time"];

/// What the published analysis calls them.
pub const DECODE_READ: &str = "decode_bytes_read_gb";
/// Tokens over elapsed time.
pub const WALL_CLOCK: &str = "wall_clock_throughput_tokens_per_s";
/// Tokens over the summed time of storage I/O.
pub const STORAGE_THROUGHPUT: &str = "storage_throughput_tokens_per_s";

macro_rules! metric {
    ($key:expr, $title:literal, $column:expr, $better:ident, $headline:literal, $source:expr) => {
        Metric {
            key: $key,
            title: $title,
            column: $column,
            better: Better::$better,
            headline: $headline,
            source: $source,
        }
    };
}

/// A latency at one percentile, from its place in the JSON.
macro_rules! latency {
    ($key:literal, $title:literal, $column:expr, $headline:literal, $place:literal) => {
        metric!($key, $title, $column, Lower, $headline, Source::At(&[$place]))
    };
}

/// A figure of `summary.cache_stats`.
macro_rules! cache {
    ($key:expr, $title:literal, $column:expr, $better:ident, $headline:literal, $place:literal) => {
        metric!(
            $key,
            $title,
            $column,
            $better,
            $headline,
            Source::At(&[concat!("/summary/cache_stats/", $place)])
        )
    };
}

/// All of them: what the reference's spreadsheet measures (its generation latencies are simulated),
/// then what only JSON results hold.
pub const METRICS: &[Metric] = &[
    cache!(
        DECODE_READ,
        "decode bytes read, GiB",
        Some("Decode Bytes Read (GB)"),
        Higher,
        true,
        "decode_bytes_read_gb"
    ),
    metric!(
        WALL_CLOCK,
        "wall-clock throughput, tokens/s",
        Some("Wall-Clock Throughput (tokens/sec)"),
        Higher,
        true,
        Source::At(&["/summary/avg_throughput_tokens_per_sec"])
    ),
    metric!(
        STORAGE_THROUGHPUT,
        "storage throughput, tokens/s",
        Some("Storage Throughput (tokens/sec)"),
        Higher,
        true,
        Source::Quotient(TOKENS, IO_SECONDS)
    ),
    metric!(
        "wall_clock_requests_per_s",
        "wall-clock requests/s",
        Some("Wall-Clock Requests/sec"),
        Higher,
        false,
        Source::Quotient(REQUESTS, ELAPSED)
    ),
    metric!(
        "storage_requests_per_s",
        "storage requests/s",
        Some("Storage Requests/sec"),
        Higher,
        false,
        Source::Quotient(REQUESTS, IO_SECONDS)
    ),
    metric!(
        "storage_io_time_s",
        "storage I/O time, s",
        Some("Total I/O Time (s)"),
        Neither,
        false,
        Source::At(IO_SECONDS)
    ),
    metric!("tokens", "tokens", Some("Total Tokens"), Higher, false, Source::At(TOKENS)),
    metric!("requests", "requests", Some("Total Requests"), Higher, false, Source::At(REQUESTS)),
    latency!(
        "end_to_end_mean_ms",
        "end to end, mean, ms",
        Some("E2E Latency Mean (ms)"),
        false,
        "/summary/end_to_end_latency_ms/mean"
    ),
    latency!(
        "end_to_end_p50_ms",
        "end to end, P50, ms",
        Some("E2E Latency P50 (ms)"),
        false,
        "/summary/end_to_end_latency_ms/p50"
    ),
    latency!(
        "end_to_end_p95_ms",
        "end to end, P95, ms",
        Some("E2E Latency P95 (ms)"),
        true,
        "/summary/end_to_end_latency_ms/p95"
    ),
    latency!(
        "end_to_end_p99_ms",
        "end to end, P99, ms",
        Some("E2E Latency P99 (ms)"),
        false,
        "/summary/end_to_end_latency_ms/p99"
    ),
    latency!(
        "storage_io_mean_ms",
        "storage I/O of a request, mean, ms",
        Some("Storage Latency Mean (ms)"),
        false,
        "/summary/storage_io_latency_ms/mean"
    ),
    latency!(
        "storage_io_p50_ms",
        "storage I/O of a request, P50, ms",
        Some("Storage Latency P50 (ms)"),
        false,
        "/summary/storage_io_latency_ms/p50"
    ),
    latency!(
        "storage_io_p95_ms",
        "storage I/O of a request, P95, ms",
        Some("Storage Latency P95 (ms)"),
        true,
        "/summary/storage_io_latency_ms/p95"
    ),
    latency!(
        "storage_io_p99_ms",
        "storage I/O of a request, P99, ms",
        Some("Storage Latency P99 (ms)"),
        false,
        "/summary/storage_io_latency_ms/p99"
    ),
    cache!(
        "cache_hit_rate",
        "cache hit rate",
        Some("Cache Hit Rate"),
        Neither,
        false,
        "cache_hit_rate"
    ),
    cache!(
        "read_write_ratio",
        "bytes read per byte written",
        Some("Read/Write Ratio"),
        Neither,
        false,
        "read_write_ratio"
    ),
    cache!(
        "total_read_gb",
        "bytes read, GiB",
        Some("Total Read (GB)"),
        Higher,
        false,
        "total_read_gb"
    ),
    cache!(
        "total_write_gb",
        "bytes written, GiB",
        Some("Total Write (GB)"),
        Higher,
        false,
        "total_write_gb"
    ),
    cache!(
        "prefill_bytes_written_gb",
        "prefill bytes written, GiB",
        Some("Prefill Bytes Written (GB)"),
        Higher,
        false,
        "prefill_bytes_written_gb"
    ),
    cache!(
        "storage_read_bandwidth_gib_per_s",
        "storage read, GiB/s",
        None,
        Higher,
        true,
        "tier_storage_read_bandwidth_gbps"
    ),
    cache!(
        "storage_write_bandwidth_gib_per_s",
        "storage write, GiB/s",
        None,
        Higher,
        true,
        "tier_storage_write_bandwidth_gbps"
    ),
    latency!(
        "storage_read_device_p50_ms",
        "storage read, device P50, ms",
        None,
        false,
        "/summary/cache_stats/storage_read_device_p50_ms"
    ),
    latency!(
        "storage_read_device_p95_ms",
        "storage read, device P95, ms",
        None,
        true,
        "/summary/cache_stats/storage_read_device_p95_ms"
    ),
    latency!(
        "storage_read_device_p99_ms",
        "storage read, device P99, ms",
        None,
        false,
        "/summary/cache_stats/storage_read_device_p99_ms"
    ),
    latency!(
        "storage_write_device_p50_ms",
        "storage write, device P50, ms",
        None,
        false,
        "/summary/cache_stats/storage_write_device_p50_ms"
    ),
    latency!(
        "storage_write_device_p95_ms",
        "storage write, device P95, ms",
        None,
        true,
        "/summary/cache_stats/storage_write_device_p95_ms"
    ),
    latency!(
        "storage_write_device_p99_ms",
        "storage write, device P99, ms",
        None,
        false,
        "/summary/cache_stats/storage_write_device_p99_ms"
    ),
];

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn keys_and_columns_are_told_apart() {
        for (at, metric) in METRICS.iter().enumerate() {
            for other in &METRICS[at + 1..] {
                assert_ne!(metric.key, other.key);
                assert!(metric.column.is_none() || metric.column != other.column);
            }
        }
        for key in [DECODE_READ, WALL_CLOCK, STORAGE_THROUGHPUT] {
            assert!(Metric::by_key(key).is_some_and(|metric| metric.headline));
        }
    }

    #[test]
    fn a_value_is_read_computed_or_absent() {
        let document = json!({ "requests_completed": 8, "summary": {
            "total_tokens": 30, "total_storage_io_time": 1.5,
            "cache_stats": { "decode_bytes_read_gb": null } } });
        let value = |key| Metric::by_key(key).unwrap().of(&document);
        assert_eq!(value(STORAGE_THROUGHPUT), Some(20.0));
        assert_eq!(value("requests"), Some(8.0));
        assert_eq!(value(DECODE_READ), None);
        assert_eq!(value("wall_clock_requests_per_s"), None);
        let idle = json!({ "summary": { "total_tokens": 0, "total_storage_io_time": 0 } });
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
