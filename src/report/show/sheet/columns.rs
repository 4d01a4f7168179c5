//! The columns: names as in the reference's export, values from a document.

use serde_json::Value;

use ringfall_config::compact_utc;
use ringfall_model::document::{GpuReport, LatencyMs, QuantileMs, RequestsOfClass, RequestsReport};
use ringfall_model::figures::figure::Derived;
use ringfall_model::metrics::{Metric, STORAGE_THROUGHPUT};
use ringfall_model::trust::{Trust, headlines};
use ringfall_model::{Document, SimulationReport};

use crate::show::table::Cell;

/// A column, and a result's value in it.
#[derive(Clone, Debug)]
pub struct Row {
    /// Name of the column.
    pub name: String,
    /// Origin of its values.
    #[cfg_attr(not(feature = "xlsx"), expect(dead_code, reason = "workbooks alone list it"))]
    pub origin: ColumnOrigin,
    /// Value of the result.
    pub cell: Cell,
}

/// Origin of a column's values.
#[derive(Clone, Debug, PartialEq)]
pub enum ColumnOrigin {
    /// A key of the JSON result, whose description in the schema says what it means.
    Key(String),
    /// More than one key: what is worked out from them.
    Worked(&'static str),
}

fn row(name: &str, key: &str, cell: impl Into<Cell>) -> Row {
    Row { name: name.to_owned(), origin: ColumnOrigin::Key(key.to_owned()), cell: cell.into() }
}

/// A setting, as it was given or left.
fn of_settings(name: &str, key: &str, cell: impl Into<Cell>) -> Row {
    row(name, &format!("ringfall.config.settings.{key}"), cell)
}

/// A value in effect.
fn of_config(name: &str, key: &str, cell: impl Into<Cell>) -> Row {
    row(name, &format!("ringfall.config.{key}"), cell)
}

fn of_stats(name: &str, key: &str, cell: impl Into<Cell>) -> Row {
    row(name, &format!("summary.cache_stats.{key}"), cell)
}

/// A column with the value of a field of the document, whose path is its key.
macro_rules! field {
    ($document:ident, $name:literal, $($key:ident).+) => {
        row($name, &[$(stringify!($key)),+].join("."), $document.$($key).+.known())
    };
}

/// A column with a value in effect; `&`: of text, `as`: a function of it.
macro_rules! config {
    ($config:ident, $name:literal, $key:ident) => {
        of_config($name, stringify!($key), $config.and_then(|config| config.$key))
    };
    ($config:ident, $name:literal, &$key:ident) => {
        of_config($name, stringify!($key), $config.and_then(|config| config.$key.as_deref()))
    };
    ($config:ident, $name:literal, $key:ident as $of:expr) => {
        of_config($name, stringify!($key), $config.and_then(|config| config.$key).map($of))
    };
}

/// A column with a figure of the cache's statistics.
macro_rules! stat {
    ($stats:ident, $name:literal, $key:ident) => {
        of_stats($name, stringify!($key), $stats.$key.known())
    };
}

fn worked(name: &str, how: &'static str, cell: impl Into<Cell>) -> Row {
    Row { name: name.to_owned(), origin: ColumnOrigin::Worked(how), cell: cell.into() }
}

/// Bytes as GiB.
fn gib(bytes: u64) -> f64 {
    ringfall_core::units::gib(bytes)
}

/// Meaning of columns that are worked out from more than one key.
const PER_CARD: &str = "Capacity of the GPU tier (`ringfall.config.gpu_memory_bytes`) divided by \
                        the number of GPUs.";
const PER_STORAGE_SECOND: &str = "Requests that finished (`summary.total_requests`) per second of \
                                  `summary.total_storage_io_time`.";
const GO_BY: &str = "Titles of the metrics that tell drives apart in this configuration, separated \
                     by semicolons.";
const DEVICE_READ: &str = "Bytes that the kernel counted as read from the device \
                           (`ringfall.device.kernel.read_bytes`), or iostat beside the result, \
                           per second of the window.";
const DEVICE_TOTAL: &str = "Bytes that the kernel counted as read from and written to the device \
                            (`ringfall.device.kernel`), or iostat beside the result, per second \
                            of the window.";

/// Largest seed that a spreadsheet's number holds to the last digit.
const SEED_MAX: u64 = 1 << 53;

/// One result as a row.
#[derive(Clone, Debug)]
pub struct Columns {
    /// Settings of the run, under the reference's names.
    pub parameters: Vec<Row>,
    /// Measurements, under the reference's names.
    pub metrics: Vec<Row>,
    /// Further settings of the run.
    pub our_parameters: Vec<Row>,
    /// Further measurements, which only ringfall has.
    pub our_metrics: Vec<Row>,
}

impl Columns {
    /// Builds the columns of a document; every document has the same ones.
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

/// Settings of the run: under the reference's names, in its order, and the others.
fn parameters(document: &Document) -> (Vec<Row>, Vec<Row>) {
    let theirs = [load_parameters(document), bounds_and_data(document)].concat();
    (theirs, our_parameters(document))
}

/// The model, the users and the memory.
fn load_parameters(document: &Document) -> Vec<Row> {
    let config = document.ringfall.config.as_ref();
    let gpu = config.and_then(|config| config.gpu_memory_bytes).map(gib);
    let gpus = config.and_then(|config| config.num_gpus);
    let rag = config.and_then(|config| config.settings.get("enable_rag")?.as_bool());
    vec![
        row("Timestamp", "ringfall.window.start_unix_s", timestamp(document).as_deref()),
        config!(config, "Model", &model),
        config!(config, "Num Users", num_users),
        config!(config, "Duration (s)", duration_s),
        worked(
            "GPU Memory per Card (GiB)",
            PER_CARD,
            gpu.zip(gpus).map(|(all, n)| all / f64::from(n.max(1))),
        ),
        config!(config, "Num GPUs", num_gpus),
        config!(config, "Tensor Parallel", tensor_parallel),
        config!(config, "Total GPU Memory (GiB)", gpu_memory_bytes as gib),
        config!(config, "CPU Memory (GiB)", cpu_memory_bytes as gib),
        config!(config, "Generation Mode", &generation_mode),
        config!(config, "Performance Profile", &performance_profile),
        config!(config, "Multi-turn", multi_turn),
        config!(config, "Prefix Caching", prefix_caching),
        of_settings("RAG Enabled", "enable_rag", rag),
        of_config("Autoscaling", "autoscaler", config.map(|c| c.autoscaler.is_some())),
    ]
}

/// The seed, what was limited, and where the data came from and went.
fn bounds_and_data(document: &Document) -> Vec<Row> {
    let config = document.ringfall.config.as_ref();
    let settings = config.map(|config| &config.settings);
    let setting = |key: &str| settings.and_then(|settings| settings.get(key));
    let is_on = |key: &str| setting(key).and_then(Value::as_bool);
    let number = |key: &str| setting(key).and_then(Value::as_f64);
    let as_given = |name: &str, key: &str| of_settings(name, key, number(key));
    let text = |key: &str| setting(key).and_then(Value::as_str);
    let dataset = text("dataset_path").map(|path| if path == "none" { "N/A" } else { path });
    let seed = document.seed.known().map(|seed| match seed {
        0..=SEED_MAX => Cell::from(seed),
        _ => Cell::Text(seed.to_string()),
    });
    let threads = number("precondition_threads").filter(|threads| *threads > 0.0);
    let shards = config.and_then(|config| config.shards).map(f64::from);
    // Nothing asked for is 0 here as there; without a configuration nothing is known.
    let or_zero = |value: Option<u64>| config.map(|_| Cell::from(value.unwrap_or(0)));
    vec![
        row("Seed", "seed", seed),
        of_settings(
            "Max Concurrent Allocs",
            "max_concurrent_allocs",
            or_zero(config.and_then(|c| c.max_concurrent_allocs).map(u64::from)),
        ),
        config!(config, "Request Rate", request_rate_per_s),
        of_settings("Max Requests", "max_requests", or_zero(config.and_then(|c| c.max_requests))),
        of_settings("Dataset Path", "dataset_path", dataset),
        of_config(
            "Cache Dir",
            "cache_dir",
            config.map(|c| c.cache_dir.as_deref().unwrap_or("temp")),
        ),
        config!(config, "Storage Capacity (GiB)", storage_capacity_bytes as gib),
        of_settings("Precondition", "precondition", is_on("precondition")),
        as_given("Precondition Size (GiB)", "precondition_size_gb"),
        of_settings("Precondition Threads", "precondition_threads", threads.or(shards)),
        as_given("Trace Speedup", "trace_speedup"),
        as_given("Replay Cycles", "replay_cycles"),
    ]
}

/// Further settings of the run.
fn our_parameters(document: &Document) -> Vec<Row> {
    let config = document.ringfall.config.as_ref();
    let simulated = document.ringfall.simulation.as_ref().map(SimulationReport::told);
    let gpu = document.ringfall.gpu.as_ref();
    vec![
        config!(config, "Arrival", &arrival),
        config!(config, "Source", &source),
        config!(config, "I/O Size (bytes)", io_size_bytes),
        config!(config, "Queue Depth", queue_depth),
        config!(config, "Shards", shards as f64::from),
        row("GPU Backend", "ringfall.gpu.backend", gpu.and_then(gpu_backend).as_deref()),
        row("Simulated", "ringfall.simulation", simulated.as_deref()),
    ]
}

/// Backend of the GPU tier, which the reference's columns lack: `None` where merged results had
/// different ones.
fn gpu_backend(gpu: &GpuReport) -> Option<String> {
    match (gpu.backend.as_ref(), gpu.is_gpu.known()) {
        (None, _) if gpu.capacity_bytes.known() == Some(0) => Some("none".to_owned()),
        (Some(backend), Some(true)) => Some(backend.clone()),
        (Some(backend), Some(false)) => Some(format!("{backend}: not a GPU's figures")),
        _ => None,
    }
}

/// Name of a part of a set of latencies in columns, its key, and how it is picked.
type LatencyPart = (&'static str, &'static str, fn(&LatencyMs) -> Derived<f64>);

/// The reference's sheets have the last two of generation neither.
const PARTS: [LatencyPart; 6] = [
    ("Mean", "mean", |l| l.mean),
    ("P50", "p50", |l| l.p50),
    ("P95", "p95", |l| l.p95),
    ("P99", "p99", |l| l.p99),
    ("P99.9", "p999", |l| l.p999),
    ("P99.99", "p9999", |l| l.p9999),
];

fn latency(
    rows: &mut Vec<Row>,
    (name, key): (&str, &str),
    latency: Option<&LatencyMs>,
    parts: &[LatencyPart],
) {
    for (part, part_key, pick) in parts {
        let value = latency.and_then(|latency| pick(latency).known());
        let key = format!("summary.{key}_latency_ms.{part_key}");
        rows.push(row(&format!("{name} {part} (ms)"), &key, value));
    }
}

/// The metric of that key.
fn metric(document: &Document, key: &str) -> Option<f64> {
    Metric::by_key(key)?.of(document)
}

/// Measurements under the reference's names and in its order; at the end those that only its
/// converter of whole directories has.
fn metrics(document: &Document) -> Vec<Row> {
    let mut rows = vec![
        row("Total Requests", "summary.total_requests", metric(document, "requests")),
        row("Total Tokens", "summary.total_tokens", metric(document, "tokens")),
        field!(document, "Elapsed Time (s)", summary.elapsed_time),
        field!(document, "Avg Throughput (tok/s)", summary.avg_throughput_tokens_per_sec),
        row(
            "Storage Throughput (tok/s)",
            "summary.storage_throughput_tokens_per_sec",
            metric(document, STORAGE_THROUGHPUT),
        ),
        field!(document, "Requests/sec", summary.requests_per_second),
    ];
    let of = |pick| document.latency_of(pick);
    latency(&mut rows, ("E2E Latency", "end_to_end"), of(|s| &s.end_to_end_latency_ms), &PARTS);
    latency(&mut rows, ("Storage Latency", "storage_io"), document.storage_io_latency(), &PARTS);
    latency(
        &mut rows,
        ("Gen Latency", "generation"),
        of(|s| &s.generation_latency_ms),
        &PARTS[..4],
    );
    storage_latencies(&mut rows, document);
    rows.extend(cache_metrics(document));
    rows
}

/// Measurements of the cache and its tiers.
fn cache_metrics(document: &Document) -> Vec<Row> {
    let stats = &document.summary.cache_stats;
    let [storage_read, storage_write] = document.storage_bandwidth_gib_per_s();
    vec![
        of_stats("Cache Hit Rate", "cache_hit_rate", document.hit_rate()),
        of_stats("Read/Write Ratio", "read_write_ratio", document.read_write_ratio()),
        stat!(stats, "Total Read (GiB)", total_read_gb),
        stat!(stats, "Total Write (GiB)", total_write_gb),
        stat!(stats, "Tier GPU KV Bytes Written (GiB)", tier_gpu_kv_bytes_written_gb),
        stat!(stats, "Tier CPU KV Bytes Written (GiB)", tier_cpu_kv_bytes_written_gb),
        stat!(stats, "Tier Storage KV Bytes Written (GiB)", tier_storage_kv_bytes_written_gb),
        stat!(stats, "Tier GPU KV Bytes Read (GiB)", tier_gpu_kv_bytes_read_gb),
        stat!(stats, "Tier CPU KV Bytes Read (GiB)", tier_cpu_kv_bytes_read_gb),
        stat!(stats, "Tier Storage KV Bytes Read (GiB)", tier_storage_kv_bytes_read_gb),
        stat!(stats, "Tier GPU Read Bandwidth (GiB/s)", tier_gpu_read_bandwidth_gbps),
        stat!(stats, "Tier GPU Write Bandwidth (GiB/s)", tier_gpu_write_bandwidth_gbps),
        stat!(stats, "Tier CPU Read Bandwidth (GiB/s)", tier_cpu_read_bandwidth_gbps),
        stat!(stats, "Tier CPU Write Bandwidth (GiB/s)", tier_cpu_write_bandwidth_gbps),
        of_stats(
            "Tier Storage Read Bandwidth (GiB/s)",
            "tier_storage_read_bandwidth_gbps",
            storage_read,
        ),
        of_stats(
            "Tier Storage Write Bandwidth (GiB/s)",
            "tier_storage_write_bandwidth_gbps",
            storage_write,
        ),
        stat!(stats, "GPU Entries", gpu_entries),
        stat!(stats, "CPU Entries", cpu_entries),
        stat!(stats, "Storage Entries", storage_entries),
        row(
            "Multi-turn Hit Rate",
            "summary.multi_turn_stats.hit_rate",
            document.multi_turn_hit_rate(),
        ),
        worked(
            "Storage Requests/sec",
            PER_STORAGE_SECOND,
            metric(document, "storage_requests_per_s"),
        ),
        row(
            "Total I/O Time (s)",
            "summary.total_storage_io_time",
            metric(document, "storage_io_time_s"),
        ),
    ]
}

/// Further measurements. The first two have the names of the reference's sheets of January 2026,
/// which its newer ones lack.
fn our_metrics(document: &Document) -> Vec<Row> {
    let stats = &document.summary.cache_stats;
    let health = stats.storage_health.as_ref();
    let go_by: Vec<String> = headlines(document)
        .into_iter()
        .filter(|h| h.advice.as_ref().is_some_and(|advice| advice.trust == Trust::Primary))
        .map(|headline| headline.metric.title.to_owned())
        .collect();
    let mut rows = vec![
        stat!(stats, "Prefill Bytes Written (GB)", prefill_bytes_written_gb),
        stat!(stats, "Decode Bytes Read (GB)", decode_bytes_read_gb),
        worked("Go By", GO_BY, Some(go_by.join("; ")).filter(|names| !names.is_empty()).as_deref()),
        field!(document, "Interrupted", ringfall.window.interrupted),
        of_stats(
            "Storage Health",
            "storage_health.overall_status",
            health.map(|health| &*health.overall_status),
        ),
        of_stats(
            "Health Criteria Passed",
            "storage_health.passed_count",
            health.map(|health| health.passed_count as u64),
        ),
        of_stats(
            "Health Criteria",
            "storage_health.total_count",
            health.map(|health| health.total_count as u64),
        ),
        field!(document, "Mean Context (tokens)", ringfall.served.context_tokens_mean),
        field!(document, "Mean Generated (tokens)", ringfall.served.generated_tokens_mean),
        field!(document, "Time in Queue (share)", ringfall.served.time.queue_share),
        field!(document, "Time Waiting for Space (share)", ringfall.served.time.space_share),
        field!(document, "Time in Storage (share)", ringfall.served.time.storage_share),
        field!(document, "Time in Generation (share)", ringfall.served.time.generation_share),
        field!(document, "Time Waiting for Permits (share)", ringfall.served.time.permit_share),
        field!(document, "Time in Rest (share)", ringfall.served.time.rest_share),
        worked("Device Read (MB/s)", DEVICE_READ, metric(document, "device_read_mb_per_s")),
        worked("Device Total (MB/s)", DEVICE_TOTAL, metric(document, "device_total_mb_per_s")),
        field!(document, "CPU Cost (CPU-s/GiB)", ringfall.cost.cpu_s_per_gib),
    ];
    let generation = document.latency_of(|summary| &summary.generation_latency_ms);
    latency(&mut rows, ("Gen Latency", "generation"), generation, &PARTS[4..]);
    unfinished(&mut rows, document);
    rows
}

/// Latencies of entries on storage: whole, on the device, and what the host took.
fn storage_latencies(rows: &mut Vec<Row>, document: &Document) {
    for (part, key) in [("Total", ""), ("Device", "device_"), ("Host", "host_")] {
        for direction in ["Read", "Write"] {
            for (percentile, suffix, _) in &PARTS[1..] {
                let name = format!("Storage Tier {direction} {part} {percentile} (ms)");
                let key = format!("storage_{}_{key}{suffix}_ms", direction.to_lowercase());
                let value = document.tier_latency_ms(&key);
                rows.push(row(&name, &format!("summary.cache_stats.{key}"), value));
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
        let key = |part: &str| format!("ringfall.requests.{}.{part}", name.to_lowercase());
        let finished = class.map(|class| class.finished);
        rows.push(row(&format!("{name} Requests Finished"), &key("finished"), finished));
        let unfinished = class.map(|class| class.unfinished);
        rows.push(row(&format!("{name} Requests Unfinished"), &key("unfinished"), unfinished));
        for (part, part_key, pick) in PERCENTILES_OF_ALL {
            let known = class.and_then(|class| pick(class).as_ref());
            let cell = known.map(|known| match known.number_ms() {
                Some(estimate) => Cell::from(estimate),
                None => Cell::Text(known.told(|ms| format!("{ms:.3}"))),
            });
            let name = format!("{name} Requests {part} With Unfinished (ms)");
            rows.push(row(&name, &key(part_key), cell));
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
            rows.push(row(&name, &key("share_within_target"), cell));
        }
    }
}

/// Name of a percentile in columns, its key, and how it is picked.
type Percentile = (&'static str, &'static str, fn(&RequestsOfClass) -> &Option<QuantileMs>);

const PERCENTILES_OF_ALL: [Percentile; 4] = [
    ("P50", "p50", |class| &class.p50),
    ("P95", "p95", |class| &class.p95),
    ("P99", "p99", |class| &class.p99),
    ("P99.9", "p999", |class| &class.p999),
];
