//! The columns: names as in the reference's export, values from a document.

use serde_json::Value;

use crate::config::compact_utc;
use crate::results::document::{GpuReport, LatencyMs, QuantileMs, RequestsOfClass, RequestsReport};
use crate::results::figures::figure::Derived;
use crate::results::metrics::{Metric, STORAGE_THROUGHPUT};
use crate::results::trust::{Trust, headlines};
use crate::results::{Document, SimulationReport};

/// A value of the table; `Nothing` was not measured.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// Words.
    Text(String),
    /// A number.
    Number(f64),
    /// Yes or no.
    Flag(bool),
    /// Not measured.
    Nothing,
}

impl From<f64> for Cell {
    fn from(value: f64) -> Cell {
        if value.is_finite() { Cell::Number(value) } else { Cell::Nothing }
    }
}

impl From<u64> for Cell {
    fn from(value: u64) -> Cell {
        // A spreadsheet's numbers are doubles anyway.
        Cell::Number(value as f64)
    }
}

impl From<u32> for Cell {
    fn from(value: u32) -> Cell {
        Cell::Number(f64::from(value))
    }
}

impl From<bool> for Cell {
    fn from(value: bool) -> Cell {
        Cell::Flag(value)
    }
}

impl From<&str> for Cell {
    fn from(value: &str) -> Cell {
        Cell::Text(value.to_owned())
    }
}

impl<T: Into<Cell>> From<Option<T>> for Cell {
    fn from(value: Option<T>) -> Cell {
        value.map_or(Cell::Nothing, Into::into)
    }
}

/// A column's name and a result's value in it.
pub type Row = (String, Cell);

fn row(name: &str, cell: impl Into<Cell>) -> Row {
    (name.to_owned(), cell.into())
}

/// Bytes as GiB.
fn gib(bytes: u64) -> f64 {
    ringfall_engine::units::gib(bytes)
}

/// Largest seed that a spreadsheet's number holds to the last digit.
const SEED_MAX: u64 = 1 << 53;

/// One result as a row.
#[derive(Clone, Debug)]
pub struct Columns {
    /// What was run, under the reference's names.
    pub parameters: Vec<Row>,
    /// What was measured, under the reference's names.
    pub metrics: Vec<Row>,
    /// What was run besides.
    pub our_parameters: Vec<Row>,
    /// What was measured besides.
    pub our_metrics: Vec<Row>,
}

impl Columns {
    /// Of a document; every document has the same columns.
    #[must_use]
    pub fn of(document: &Document) -> Columns {
        let (parameters, our_parameters) = parameters(document);
        let (metrics, our_metrics) = (metrics(document), our_metrics(document));
        Columns { parameters, metrics, our_parameters, our_metrics }
    }

    /// All of them: the reference's, then ours.
    pub fn all(&self) -> impl Iterator<Item = &Row> {
        let parts = [&self.parameters, &self.metrics, &self.our_parameters, &self.our_metrics];
        parts.into_iter().flatten()
    }
}

/// When it began, as the reference writes times, in UTC.
fn timestamp(document: &Document) -> Option<String> {
    let unix_s = document.ringfall.window.start_unix_s.known().filter(|s| *s >= 1.0)?;
    // Below 2⁵³ for any time that a machine has; the share of a second is dropped.
    let compact = compact_utc(unix_s as u64);
    let part = |from: usize, to: usize| compact.get(from..to);
    let (year, month, day) = (part(0, 4)?, part(4, 6)?, part(6, 8)?);
    let (hour, minute, second) = (part(9, 11)?, part(11, 13)?, part(13, 15)?);
    Some(format!("{year}-{month}-{day} {hour}:{minute}:{second}"))
}

/// What was run: under the reference's names, in its order, and besides.
fn parameters(document: &Document) -> (Vec<Row>, Vec<Row>) {
    let config = document.ringfall.config.as_ref();
    let settings = config.map(|config| &config.settings);
    let setting = |key: &str| settings.and_then(|settings| settings.get(key));
    let is_on = |key: &str| setting(key).and_then(Value::as_bool);
    let number = |key: &str| setting(key).and_then(Value::as_f64);
    let text = |key: &str| setting(key).and_then(Value::as_str);
    let dataset = text("dataset_path").map(|path| if path == "none" { "N/A" } else { path });
    let gpu = config.and_then(|config| config.gpu_memory_bytes).map(gib);
    let gpus = config.and_then(|config| config.num_gpus);
    let seed = document.seed.known().map(|seed| match seed {
        0..=SEED_MAX => Cell::from(seed),
        _ => Cell::Text(seed.to_string()),
    });
    let threads = number("precondition_threads").filter(|threads| *threads > 0.0);
    let shards = config.and_then(|config| config.shards).map(f64::from);
    let of = |name: &str, cell: Option<Cell>| (name.to_owned(), cell.unwrap_or(Cell::Nothing));
    // Nothing asked for is 0 here as there; without a configuration nothing is known.
    let or_zero = |value: Option<u64>| config.map(|_| Cell::from(value.unwrap_or(0)));
    let theirs = vec![
        row("Timestamp", timestamp(document).as_deref()),
        row("Model", config.and_then(|c| c.model.as_deref())),
        row("Num Users", config.and_then(|c| c.num_users)),
        row("Duration (s)", config.and_then(|c| c.duration_s)),
        row("GPU Memory per Card (GiB)", gpu.zip(gpus).map(|(all, n)| all / f64::from(n.max(1)))),
        row("Num GPUs", gpus),
        row("Tensor Parallel", config.and_then(|c| c.tensor_parallel)),
        row("Total GPU Memory (GiB)", gpu),
        row("CPU Memory (GiB)", config.and_then(|c| c.cpu_memory_bytes).map(gib)),
        row("Generation Mode", config.and_then(|c| c.generation_mode.as_deref())),
        row("Performance Profile", config.and_then(|c| c.performance_profile.as_deref())),
        row("Multi-turn", config.and_then(|c| c.multi_turn)),
        row("Prefix Caching", config.and_then(|c| c.prefix_caching)),
        row("RAG Enabled", is_on("enable_rag")),
        row("Autoscaling", config.map(|c| c.autoscaler.is_some())),
        of("Seed", seed),
        of(
            "Max Concurrent Allocs",
            or_zero(config.and_then(|c| c.max_concurrent_allocs).map(u64::from)),
        ),
        row("Request Rate", config.and_then(|c| c.request_rate_per_s)),
        of("Max Requests", or_zero(config.and_then(|c| c.max_requests))),
        row("Dataset Path", dataset),
        row("Cache Dir", config.map(|c| c.cache_dir.as_deref().unwrap_or("temp"))),
        row("Storage Capacity (GiB)", config.and_then(|c| c.storage_capacity_bytes).map(gib)),
        row("Precondition", is_on("precondition")),
        row("Precondition Size (GiB)", number("precondition_size_gb")),
        row("Precondition Threads", threads.or(shards)),
        row("Trace Speedup", number("trace_speedup")),
        row("Replay Cycles", number("replay_cycles")),
    ];
    let simulated = document.ringfall.simulation.as_ref().map(SimulationReport::told);
    let ours = vec![
        row("Arrival", config.and_then(|c| c.arrival.as_deref())),
        row("Source", config.and_then(|c| c.source.as_deref())),
        row("I/O Size (bytes)", config.and_then(|c| c.io_size_bytes)),
        row("Queue Depth", config.and_then(|c| c.queue_depth)),
        row("Shards", shards),
        row("GPU Backend", document.ringfall.gpu.as_ref().and_then(gpu_backend).as_deref()),
        row("Simulated", simulated.as_deref()),
    ];
    (theirs, ours)
}

/// What stood behind the GPU tier, of whose figures the reference's columns say nothing: none where
/// merged results had different ones.
fn gpu_backend(gpu: &GpuReport) -> Option<String> {
    match (gpu.backend.as_ref(), gpu.is_gpu.known()) {
        (None, _) if gpu.capacity_bytes.known() == Some(0) => Some("none".to_owned()),
        (Some(backend), Some(true)) => Some(backend.clone()),
        (Some(backend), Some(false)) => Some(format!("{backend}: not a GPU's figures")),
        _ => None,
    }
}

type Pick = fn(&LatencyMs) -> Derived<f64>;

/// The reference's sheets have the last two of generation neither.
const PARTS: [(&str, Pick); 6] = [
    ("Mean", |l| l.mean),
    ("P50", |l| l.p50),
    ("P95", |l| l.p95),
    ("P99", |l| l.p99),
    ("P99.9", |l| l.p999),
    ("P99.99", |l| l.p9999),
];

fn latency(rows: &mut Vec<Row>, name: &str, latency: Option<&LatencyMs>, parts: &[(&str, Pick)]) {
    for (part, pick) in parts {
        let value = latency.and_then(|latency| pick(latency).known());
        rows.push(row(&format!("{name} {part} (ms)"), value));
    }
}

/// The metric of that key.
fn metric(document: &Document, key: &str) -> Option<f64> {
    Metric::by_key(key)?.of(document)
}

/// What was measured, under the reference's names and in its order; at the end what only its
/// converter of whole directories has.
fn metrics(document: &Document) -> Vec<Row> {
    let (summary, stats) = (&document.summary, &document.summary.cache_stats);
    let mut rows = vec![
        row("Total Requests", metric(document, "requests")),
        row("Total Tokens", metric(document, "tokens")),
        row("Elapsed Time (s)", summary.elapsed_time.known()),
        row("Avg Throughput (tok/s)", summary.avg_throughput_tokens_per_sec.known()),
        row("Storage Throughput (tok/s)", metric(document, STORAGE_THROUGHPUT)),
        row("Requests/sec", summary.requests_per_second.known()),
    ];
    let of = |pick| document.latency_of(pick);
    latency(&mut rows, "E2E Latency", of(|s| &s.end_to_end_latency_ms), &PARTS);
    latency(&mut rows, "Storage Latency", document.storage_io_latency(), &PARTS);
    latency(&mut rows, "Gen Latency", of(|s| &s.generation_latency_ms), &PARTS[..4]);
    storage_latencies(&mut rows, document);
    let [storage_read, storage_write] = document.storage_bandwidth_gib_per_s();
    rows.extend([
        row("Cache Hit Rate", document.hit_rate()),
        row("Read/Write Ratio", document.read_write_ratio()),
        row("Total Read (GiB)", stats.total_read_gb.known()),
        row("Total Write (GiB)", stats.total_write_gb.known()),
        row("Tier GPU KV Bytes Written (GiB)", stats.tier_gpu_kv_bytes_written_gb.known()),
        row("Tier CPU KV Bytes Written (GiB)", stats.tier_cpu_kv_bytes_written_gb.known()),
        row("Tier Storage KV Bytes Written (GiB)", stats.tier_storage_kv_bytes_written_gb.known()),
        row("Tier GPU KV Bytes Read (GiB)", stats.tier_gpu_kv_bytes_read_gb.known()),
        row("Tier CPU KV Bytes Read (GiB)", stats.tier_cpu_kv_bytes_read_gb.known()),
        row("Tier Storage KV Bytes Read (GiB)", stats.tier_storage_kv_bytes_read_gb.known()),
        row("Tier GPU Read Bandwidth (GiB/s)", stats.tier_gpu_read_bandwidth_gbps.known()),
        row("Tier GPU Write Bandwidth (GiB/s)", stats.tier_gpu_write_bandwidth_gbps.known()),
        row("Tier CPU Read Bandwidth (GiB/s)", stats.tier_cpu_read_bandwidth_gbps.known()),
        row("Tier CPU Write Bandwidth (GiB/s)", stats.tier_cpu_write_bandwidth_gbps.known()),
        row("Tier Storage Read Bandwidth (GiB/s)", storage_read),
        row("Tier Storage Write Bandwidth (GiB/s)", storage_write),
        row("GPU Entries", stats.gpu_entries.known()),
        row("CPU Entries", stats.cpu_entries.known()),
        row("Storage Entries", stats.storage_entries.known()),
        row("Multi-turn Hit Rate", document.multi_turn_hit_rate()),
        row("Storage Requests/sec", metric(document, "storage_requests_per_s")),
        row("Total I/O Time (s)", metric(document, "storage_io_time_s")),
    ]);
    rows
}

/// What was measured besides. The first two have the names of the reference's sheets of January
/// 2026, which its newer ones lack.
fn our_metrics(document: &Document) -> Vec<Row> {
    let (stats, ours) = (&document.summary.cache_stats, &document.ringfall);
    let health = stats.storage_health.as_ref();
    let go_by: Vec<String> = headlines(document)
        .into_iter()
        .filter(|h| h.advice.as_ref().is_some_and(|advice| advice.trust == Trust::Primary))
        .map(|headline| headline.metric.title.to_owned())
        .collect();
    let mut rows = vec![
        row("Prefill Bytes Written (GB)", stats.prefill_bytes_written_gb.known()),
        row("Decode Bytes Read (GB)", stats.decode_bytes_read_gb.known()),
        row("Go By", Some(go_by.join("; ")).filter(|names| !names.is_empty()).as_deref()),
        row("Interrupted", ours.window.interrupted.known()),
        row("Storage Health", health.map(|health| &*health.overall_status)),
        row("Health Criteria Passed", health.map(|health| health.passed_count as u64)),
        row("Health Criteria", health.map(|health| health.total_count as u64)),
        row("Mean Context (tokens)", ours.served.context_tokens_mean.known()),
        row("Mean Generated (tokens)", ours.served.generated_tokens_mean.known()),
        row("Time in Queue (share)", ours.served.time.queue_share.known()),
        row("Time in Storage (share)", ours.served.time.storage_share.known()),
        row("Time in Generation (share)", ours.served.time.generation_share.known()),
        row("Time in Permits and Rest (share)", ours.served.time.permits_and_rest_share.known()),
        row("Device Read (MB/s)", metric(document, "device_read_mb_per_s")),
        row("Device Total (MB/s)", metric(document, "device_total_mb_per_s")),
        row("CPU Cost (CPU-s/GiB)", ours.cost.cpu_s_per_gib.known()),
    ];
    let generation = document.latency_of(|summary| &summary.generation_latency_ms);
    latency(&mut rows, "Gen Latency", generation, &PARTS[4..]);
    unfinished(&mut rows, document);
    rows
}

/// Latencies of entries on storage: whole, on the device, and what the host took.
fn storage_latencies(rows: &mut Vec<Row>, document: &Document) {
    for (part, key) in [("Total", ""), ("Device", "device_"), ("Host", "host_")] {
        for direction in ["Read", "Write"] {
            for (percentile, suffix) in [
                ("P50", "p50"),
                ("P95", "p95"),
                ("P99", "p99"),
                ("P99.9", "p999"),
                ("P99.99", "p9999"),
            ] {
                let name = format!("Storage Tier {direction} {part} {percentile} (ms)");
                let key = format!("storage_{}_{key}{suffix}_ms", direction.to_lowercase());
                rows.push((name, document.tier_latency_ms(&key).into()));
            }
        }
    }
}

/// Finished and unfinished requests side by side; of a percentile the estimate, or `≥ …` where too
/// many had not finished.
fn unfinished(rows: &mut Vec<Row>, document: &Document) {
    let report = document.ringfall.requests.as_ref().map(RequestsReport::rows);
    for (at, name) in ["All", "Interactive", "Responsive", "Batch"].into_iter().enumerate() {
        let class = report.as_ref().map(|classes| classes[at].1);
        rows.push(row(&format!("{name} Requests Finished"), class.map(|class| class.finished)));
        rows.push(row(&format!("{name} Requests Unfinished"), class.map(|class| class.unfinished)));
        for (part, pick) in PERCENTILES_OF_ALL {
            let known = class.and_then(|class| pick(class).as_ref());
            let cell = known.map(|known| match known.number_ms() {
                Some(estimate) => Cell::from(estimate),
                None => Cell::Text(known.told(|ms| format!("{ms:.3}"))),
            });
            let name = format!("{name} Requests {part} With Unfinished (ms)");
            rows.push((name, cell.unwrap_or(Cell::Nothing)));
        }
        if at > 0 {
            let cell = class.and_then(|class| {
                let told = class.within_target_told(|share| format!("{share:.3}"))?;
                // Where the bounds read alike, the estimate, which lies between them, is the share.
                Some(match told.parse::<f64>() {
                    Ok(_) => Cell::from(class.share_within_target?),
                    Err(_) => Cell::Text(told),
                })
            });
            let name = format!("{name} Requests Within Target");
            rows.push((name, cell.unwrap_or(Cell::Nothing)));
        }
    }
}

type PickQuantile = fn(&RequestsOfClass) -> &Option<QuantileMs>;

const PERCENTILES_OF_ALL: [(&str, PickQuantile); 4] = [
    ("P50", |class| &class.p50),
    ("P95", |class| &class.p95),
    ("P99", |class| &class.p99),
    ("P99.9", |class| &class.p999),
];
