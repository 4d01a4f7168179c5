//! The columns: names as in the reference's export, each with the key of the JSON result whose
//! value it has, and the few that have another value.

use serde_json::{Value, json};

use ringfall_core::units::GIB;
use ringfall_model::document::{GpuReport, QuantileMs, RequestsOfClass, RequestsReport};
use ringfall_model::metrics::{Metric, STORAGE_THROUGHPUT};
use ringfall_model::trust::{Trust, headlines};
use ringfall_model::{Document, SimulationReport};

use crate::show::began;
use crate::show::table::Cell;

/// A column, and a result's value in it.
#[derive(Clone, Debug)]
pub struct Row {
    /// Name of the column.
    pub name: String,
    /// Key of the JSON result, whose description in the schema says what it means; empty where the
    /// values are worked out from more than one (`WORKED`).
    #[cfg_attr(not(feature = "xlsx"), expect(dead_code, reason = "workbooks alone list it"))]
    pub key: String,
    /// Value of the result.
    pub cell: Cell,
}

/// Names of columns, and their keys.
type Names = [(&'static str, &'static str)];

/// Settings of the run under the reference's names, in its order.
const PARAMETERS: &Names = &[
    ("Timestamp", "ringfall.window.start_unix_s"),
    ("Model", "ringfall.config.model"),
    ("Num Users", "ringfall.config.num_users"),
    ("Duration (s)", "ringfall.config.duration_s"),
    ("GPU Memory per Card (GiB)", ""),
    ("Num GPUs", "ringfall.config.num_gpus"),
    ("Tensor Parallel", "ringfall.config.tensor_parallel"),
    ("Total GPU Memory (GiB)", "ringfall.config.gpu_memory_bytes"),
    ("CPU Memory (GiB)", "ringfall.config.cpu_memory_bytes"),
    ("Generation Mode", "ringfall.config.generation_mode"),
    ("Performance Profile", "ringfall.config.performance_profile"),
    ("Multi-turn", "ringfall.config.multi_turn"),
    ("Prefix Caching", "ringfall.config.prefix_caching"),
    ("RAG Enabled", "ringfall.config.settings.enable_rag"),
    ("Autoscaling", "ringfall.config.autoscaler"),
    ("Seed", "seed"),
    ("Max Concurrent Allocs", "ringfall.config.settings.max_concurrent_allocs"),
    ("Request Rate", "ringfall.config.request_rate_per_s"),
    ("Max Requests", "ringfall.config.settings.max_requests"),
    ("Dataset Path", "ringfall.config.settings.dataset_path"),
    ("Cache Dir", "ringfall.config.cache_dir"),
    ("Storage Capacity (GiB)", "ringfall.config.storage_capacity_bytes"),
    ("Precondition", "ringfall.config.settings.precondition"),
    ("Precondition Size (GiB)", "ringfall.config.settings.precondition_size_gb"),
    ("Precondition Threads", "ringfall.config.settings.precondition_threads"),
    ("Trace Speedup", "ringfall.config.settings.trace_speedup"),
    ("Replay Cycles", "ringfall.config.settings.replay_cycles"),
];

/// Further settings of the run.
const OUR_PARAMETERS: &Names = &[
    ("Arrival", "ringfall.config.arrival"),
    ("Source", "ringfall.config.source"),
    ("I/O Size (bytes)", "ringfall.config.io_size_bytes"),
    ("Queue Depth", "ringfall.config.queue_depth"),
    ("Shards", "ringfall.config.shards"),
    ("GPU Backend", "ringfall.gpu.backend"),
    ("Simulated", "ringfall.simulation"),
];

/// Measurements under the reference's names and in its order: first those of requests.
const REQUESTS: &Names = &[
    ("Total Requests", "summary.total_requests"),
    ("Total Tokens", "summary.total_tokens"),
    ("Elapsed Time (s)", "summary.elapsed_time"),
    ("Avg Throughput (tok/s)", "summary.avg_throughput_tokens_per_sec"),
    ("Storage Throughput (tok/s)", "summary.storage_throughput_tokens_per_sec"),
    ("Requests/sec", "summary.requests_per_second"),
];

/// After their latencies those of the cache and its tiers; at the end those that only the
/// reference's converter of whole directories has.
const CACHE: &Names = &[
    ("Cache Hit Rate", "summary.cache_stats.cache_hit_rate"),
    ("Read/Write Ratio", "summary.cache_stats.read_write_ratio"),
    ("Total Read (GiB)", "summary.cache_stats.total_read_gb"),
    ("Total Write (GiB)", "summary.cache_stats.total_write_gb"),
    ("Tier GPU KV Bytes Written (GiB)", "summary.cache_stats.tier_gpu_kv_bytes_written_gb"),
    ("Tier CPU KV Bytes Written (GiB)", "summary.cache_stats.tier_cpu_kv_bytes_written_gb"),
    ("Tier Storage KV Bytes Written (GiB)", "summary.cache_stats.tier_storage_kv_bytes_written_gb"),
    ("Tier GPU KV Bytes Read (GiB)", "summary.cache_stats.tier_gpu_kv_bytes_read_gb"),
    ("Tier CPU KV Bytes Read (GiB)", "summary.cache_stats.tier_cpu_kv_bytes_read_gb"),
    ("Tier Storage KV Bytes Read (GiB)", "summary.cache_stats.tier_storage_kv_bytes_read_gb"),
    ("Tier GPU Read Bandwidth (GiB/s)", "summary.cache_stats.tier_gpu_read_bandwidth_gbps"),
    ("Tier GPU Write Bandwidth (GiB/s)", "summary.cache_stats.tier_gpu_write_bandwidth_gbps"),
    ("Tier CPU Read Bandwidth (GiB/s)", "summary.cache_stats.tier_cpu_read_bandwidth_gbps"),
    ("Tier CPU Write Bandwidth (GiB/s)", "summary.cache_stats.tier_cpu_write_bandwidth_gbps"),
    ("Tier Storage Read Bandwidth (GiB/s)", STORAGE_READ_BANDWIDTH),
    ("Tier Storage Write Bandwidth (GiB/s)", STORAGE_WRITE_BANDWIDTH),
    ("GPU Entries", "summary.cache_stats.gpu_entries"),
    ("CPU Entries", "summary.cache_stats.cpu_entries"),
    ("Storage Entries", "summary.cache_stats.storage_entries"),
    ("Multi-turn Hit Rate", "summary.multi_turn_stats.hit_rate"),
    ("Storage Requests/sec", ""),
    ("Total I/O Time (s)", "summary.total_storage_io_time"),
];

const STORAGE_READ_BANDWIDTH: &str = "summary.cache_stats.tier_storage_read_bandwidth_gbps";
const STORAGE_WRITE_BANDWIDTH: &str = "summary.cache_stats.tier_storage_write_bandwidth_gbps";

/// Further measurements. The first two have the names of the reference's sheets of January 2026,
/// which its newer ones lack.
const OUR_METRICS: &Names = &[
    ("Prefill Bytes Written (GB)", "summary.cache_stats.prefill_bytes_written_gb"),
    ("Decode Bytes Read (GB)", "summary.cache_stats.decode_bytes_read_gb"),
    ("Go By", ""),
    ("Interrupted", "ringfall.window.interrupted"),
    ("Storage Health", "summary.cache_stats.storage_health.overall_status"),
    ("Health Criteria Passed", "summary.cache_stats.storage_health.passed_count"),
    ("Health Criteria", "summary.cache_stats.storage_health.total_count"),
    ("Mean Context (tokens)", "ringfall.served.context_tokens_mean"),
    ("Mean Generated (tokens)", "ringfall.served.generated_tokens_mean"),
    ("Time in Queue (share)", "ringfall.served.time.queue_share"),
    ("Time Waiting for Space (share)", "ringfall.served.time.space_share"),
    ("Time in Storage (share)", "ringfall.served.time.storage_share"),
    ("Time in Generation (share)", "ringfall.served.time.generation_share"),
    ("Time Waiting for Permits (share)", "ringfall.served.time.permit_share"),
    ("Time in Rest (share)", "ringfall.served.time.rest_share"),
    ("Device Read (MB/s)", ""),
    ("Device Total (MB/s)", ""),
    ("CPU Cost (CPU-s/GiB)", "ringfall.cost.cpu_s_per_gib"),
];

/// A column whose values are worked out from more than one key: its name, its meaning, its value.
type Worked = (&'static str, &'static str, fn(&Document) -> Cell);

/// Columns without a key.
pub(super) const WORKED: [Worked; 5] = [
    (
        "GPU Memory per Card (GiB)",
        "Capacity of the GPU tier (`ringfall.config.gpu_memory_bytes`) divided by the number of \
         GPUs.",
        |document| {
            let config = document.ringfall.config.as_ref();
            let gpus = config.and_then(|config| config.gpu_memory_bytes.zip(config.num_gpus));
            gpus.map(|(all, n)| ringfall_core::units::gib(all) / f64::from(n.max(1))).into()
        },
    ),
    (
        "Storage Requests/sec",
        "Requests that finished (`summary.total_requests`) per second of \
         `summary.total_storage_io_time`.",
        |document| metric(document, "storage_requests_per_s"),
    ),
    (
        "Go By",
        "Titles of the metrics that tell drives apart in this configuration, separated by \
         semicolons.",
        |document| {
            let primary = headlines(document).into_iter().filter(|headline| {
                headline.advice.as_ref().is_some_and(|advice| advice.trust == Trust::Primary)
            });
            let titles: Vec<&str> = primary.map(|headline| headline.metric.title).collect();
            (!titles.is_empty()).then(|| titles.join("; ")).into()
        },
    ),
    (
        "Device Read (MB/s)",
        "Bytes that the kernel counted as read from the device \
         (`ringfall.device.kernel.read_bytes`), or iostat beside the result, per second of the \
         window.",
        |document| metric(document, "device_read_mb_per_s"),
    ),
    (
        "Device Total (MB/s)",
        "Bytes that the kernel counted as read from and written to the device \
         (`ringfall.device.kernel`), or iostat beside the result, per second of the window.",
        |document| metric(document, "device_total_mb_per_s"),
    ),
];

/// Name of a part of a set of latencies in columns, and its key; the reference's sheets have the
/// last two of generation neither.
const PARTS: &Names = &[
    ("Mean", "mean"),
    ("P50", "p50"),
    ("P95", "p95"),
    ("P99", "p99"),
    ("P99.9", "p999"),
    ("P99.99", "p9999"),
];

/// Largest seed that a spreadsheet's number holds to the last digit.
const SEED_MAX: u64 = 1 << 53;

/// One result as a row, whose columns are the same for every document: the settings of the run and
/// the measurements under the reference's names, then further settings and measurements, which only
/// ringfall has.
pub fn rows_of(document: &Document) -> [Vec<Row>; 4] {
    let ours = &document.ringfall;
    let json = json!({
        "summary": document.summary,
        "ringfall": {
            "config": ours.config,
            "window": ours.window,
            "served": ours.served,
            "cost": ours.cost,
        },
    });
    let values = Values { document, json };
    [values.rows(PARAMETERS), values.metrics(), values.rows(OUR_PARAMETERS), values.our_metrics()]
}

/// A document, and the parts of it that most columns are read from, as in the JSON result.
struct Values<'a> {
    document: &'a Document,
    json: Value,
}

impl Values<'_> {
    fn rows(&self, columns: &Names) -> Vec<Row> {
        columns.iter().map(|(name, key)| self.row((*name).to_owned(), (*key).to_owned())).collect()
    }

    fn row(&self, name: String, key: String) -> Row {
        let cell = self.cell(&name, &key);
        Row { name, key, cell }
    }

    fn plain(&self, key: &str) -> Cell {
        match self.json.pointer(&format!("/{}", key.replace('.', "/"))) {
            Some(Value::Bool(flag)) => Cell::Flag(*flag),
            Some(Value::Number(number)) => number.as_f64().into(),
            Some(Value::String(text)) => Cell::Text(text.clone()),
            _ => Cell::Nothing,
        }
    }

    /// Value of a column: that of its key, but where the key's is not for people to compare.
    fn cell(&self, name: &str, key: &str) -> Cell {
        let document = self.document;
        let config = document.ringfall.config.as_ref();
        let is_of_drive = [STORAGE_READ_BANDWIDTH, STORAGE_WRITE_BANDWIDTH].contains(&key)
            || key.starts_with("summary.storage_io_latency_ms.")
            || key.starts_with("summary.cache_stats.storage_") && key.ends_with("_ms");
        let has_finished = document.summary.total_requests.known() != Some(0);
        match key {
            "" => {
                let worked = WORKED.iter().find(|(known, ..)| *known == name);
                worked.map_or(Cell::Nothing, |(.., value)| value(document))
            }
            // Without a drive, or a request that finished, the keys hold zeros or what was asked
            // for.
            _ if is_of_drive && document.is_without_drive() => Cell::Nothing,
            _ if key.contains("_latency_ms.") && !has_finished => Cell::Nothing,
            "ringfall.window.start_unix_s" => began(document).into(),
            "ringfall.config.autoscaler" => config.map(|c| c.autoscaler.is_some()).into(),
            "seed" => match document.seed.known() {
                Some(seed) if seed > SEED_MAX => Cell::Text(seed.to_string()),
                seed => seed.into(),
            },
            // Nothing asked for is 0 here as there; without a configuration nothing is known.
            "ringfall.config.settings.max_concurrent_allocs" => {
                config.map(|config| config.max_concurrent_allocs.unwrap_or(0)).into()
            }
            "ringfall.config.settings.max_requests" => {
                config.map(|config| config.max_requests.unwrap_or(0)).into()
            }
            "ringfall.config.settings.dataset_path" => match self.plain(key) {
                Cell::Text(path) if path == "none" => "N/A".into(),
                given => given,
            },
            "ringfall.config.cache_dir" => {
                config.map(|config| config.cache_dir.as_deref().unwrap_or("temp")).into()
            }
            "ringfall.config.settings.precondition_threads" => match self.plain(key) {
                Cell::Number(threads) if threads > 0.0 => Cell::Number(threads),
                // As many as the shards.
                _ => config.and_then(|config| config.shards).map(f64::from).into(),
            },
            "ringfall.gpu.backend" => document.ringfall.gpu.as_ref().and_then(gpu_backend).into(),
            "ringfall.simulation" => {
                document.ringfall.simulation.as_ref().map(SimulationReport::told).into()
            }
            "summary.total_requests" => metric(document, "requests"),
            "summary.total_tokens" => metric(document, "tokens"),
            "summary.total_storage_io_time" => metric(document, "storage_io_time_s"),
            "summary.storage_throughput_tokens_per_sec" => metric(document, STORAGE_THROUGHPUT),
            "summary.cache_stats.cache_hit_rate" => document.hit_rate().into(),
            "summary.cache_stats.read_write_ratio" => document.read_write_ratio().into(),
            "summary.multi_turn_stats.hit_rate" => document.multi_turn_hit_rate().into(),
            _ => match self.plain(key) {
                Cell::Number(bytes) if key.ends_with("_bytes") && name.ends_with("(GiB)") => {
                    Cell::Number(bytes / GIB as f64)
                }
                plain => plain,
            },
        }
    }

    fn latencies(&self, name: &str, key: &str, parts: &Names) -> Vec<Row> {
        let row = |(part, part_key): &(&str, &str)| {
            let key = format!("summary.{key}_latency_ms.{part_key}");
            self.row(format!("{name} {part} (ms)"), key)
        };
        parts.iter().map(row).collect()
    }

    /// Measurements under the reference's names; of entries on storage the latencies are whole, on
    /// the device, and what the host took.
    fn metrics(&self) -> Vec<Row> {
        let mut rows = self.rows(REQUESTS);
        rows.extend(self.latencies("E2E Latency", "end_to_end", PARTS));
        rows.extend(self.latencies("Storage Latency", "storage_io", PARTS));
        rows.extend(self.latencies("Gen Latency", "generation", &PARTS[..4]));
        for (part, part_key) in [("Total", ""), ("Device", "device_"), ("Host", "host_")] {
            for (direction, direction_key) in [("Read", "read"), ("Write", "write")] {
                for (percentile, suffix) in &PARTS[1..] {
                    let name = format!("Storage Tier {direction} {part} {percentile} (ms)");
                    let key = format!("storage_{direction_key}_{part_key}{suffix}_ms");
                    rows.push(self.row(name, format!("summary.cache_stats.{key}")));
                }
            }
        }
        rows.extend(self.rows(CACHE));
        rows
    }

    /// Further measurements; at the end finished and unfinished requests side by side.
    fn our_metrics(&self) -> Vec<Row> {
        let mut rows = self.rows(OUR_METRICS);
        rows.extend(self.latencies("Gen Latency", "generation", &PARTS[4..]));
        let report = self.document.ringfall.requests.as_ref().map(RequestsReport::rows);
        for (at, name) in ["All", "Interactive", "Responsive", "Batch"].into_iter().enumerate() {
            let class = report.as_ref().map(|classes| classes[at].1);
            let mut put = |what: &str, key: &str, cell: Cell| {
                let key = format!("ringfall.requests.{}.{key}", name.to_lowercase());
                rows.push(Row { name: format!("{name} Requests {what}"), key, cell });
            };
            put("Finished", "finished", class.map(|class| class.finished).into());
            put("Unfinished", "unfinished", class.map(|class| class.unfinished).into());
            for (part, key, pick) in PERCENTILES_OF_ALL {
                let known = class.and_then(|class| pick(class).as_ref());
                put(&format!("{part} With Unfinished (ms)"), key, known.map(estimate).into());
            }
            if at > 0 {
                let share = class.and_then(within_target);
                put("Within Target", "share_within_target", share.into());
            }
        }
        rows
    }
}

fn metric(document: &Document, key: &str) -> Cell {
    Metric::by_key(key).and_then(|metric| metric.of(document)).into()
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

/// Name of a percentile in columns, its key, and how it is picked.
type Percentile = (&'static str, &'static str, fn(&RequestsOfClass) -> &Option<QuantileMs>);

const PERCENTILES_OF_ALL: [Percentile; 4] = [
    ("P50", "p50", |class| &class.p50),
    ("P95", "p95", |class| &class.p95),
    ("P99", "p99", |class| &class.p99),
    ("P99.9", "p999", |class| &class.p999),
];

/// The estimate of a percentile, or `≥ …` where too many had not finished.
fn estimate(known: &QuantileMs) -> Cell {
    match known.number_ms() {
        Some(estimate) => estimate.into(),
        None => Cell::Text(known.told(|ms| format!("{ms:.3}"))),
    }
}

/// Share of the requests within their target, or its bounds.
fn within_target(class: &RequestsOfClass) -> Option<Cell> {
    let told = class.within_target_told(|share| format!("{share:.3}"))?;
    // Where the bounds read alike, the estimate, which lies between them, is the share.
    Some(match told.parse::<f64>() {
        Ok(_) => class.share_within_target?.into(),
        Err(_) => Cell::Text(told),
    })
}
