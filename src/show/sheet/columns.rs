//! The columns: names as in the reference's export, values from a document.

use crate::results::Document;
use crate::results::document::figure::Derived;
use crate::results::document::{
    CacheStatsReport, LatencyMs, QuantileMs, RequestsOfClass, RequestsReport,
};

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

type Row = (String, Cell);

fn row(name: &str, cell: impl Into<Cell>) -> Row {
    (name.to_owned(), cell.into())
}

/// Bytes as GiB.
fn gib(bytes: u64) -> f64 {
    ringfall_engine::units::gib(bytes)
}

/// What was run.
#[must_use]
pub fn parameters(document: &Document) -> Vec<Row> {
    let Some(config) = document.ringfall.config.as_ref() else { return Vec::new() };
    let is_on = |key: &str| config.settings.get(key).and_then(serde_json::Value::as_bool);
    let number = |key: &str| config.settings.get(key).and_then(serde_json::Value::as_f64);
    let text = |key: &str| config.settings.get(key).and_then(serde_json::Value::as_str);
    let dataset = text("dataset_path").filter(|path| *path != "none").unwrap_or("N/A");
    vec![
        row("Model", config.model.as_deref()),
        row("Num Users", config.num_users),
        row("Duration (s)", config.duration_s),
        row("GPU Memory (GB)", config.gpu_memory_bytes.map(gib)),
        row("CPU Memory (GB)", config.cpu_memory_bytes.map(gib)),
        row("Num GPUs", config.num_gpus),
        row("Tensor Parallel", config.tensor_parallel),
        row("Generation Mode", config.generation_mode.as_deref()),
        row("Performance Profile", config.performance_profile.as_deref()),
        row("Multi-turn", config.multi_turn),
        row("Prefix Caching", config.prefix_caching),
        row("RAG Enabled", is_on("enable_rag")),
        row("Autoscaling", config.autoscaler.is_some()),
        row("Seed", config.seed.map(|seed| seed.to_string()).as_deref()),
        row("Max Concurrent Allocs", config.max_concurrent_allocs.unwrap_or(0)),
        row("Request Rate", config.request_rate_per_s),
        row("Max Requests", config.max_requests.unwrap_or(0)),
        row("Dataset Path", dataset),
        row("Cache Dir", config.cache_dir.as_deref().unwrap_or("temp")),
        row("Storage Capacity (GB)", config.storage_capacity_bytes.map(gib)),
        row("Trace Speedup", number("trace_speedup")),
        row("Replay Cycles", number("replay_cycles")),
        row("Arrival", config.arrival.as_deref()),
        row("Source", config.source.as_deref()),
        row("I/O Size (bytes)", config.io_size_bytes),
        row("Queue Depth", config.queue_depth),
        row("Shards", config.shards.map(u32::from)),
    ]
}

fn latency(rows: &mut Vec<Row>, name: &str, latency: Option<&LatencyMs>) {
    let mut put = |part: &str, pick: fn(&LatencyMs) -> Derived<f64>| {
        rows.push(row(
            &format!("{name} {part} (ms)"),
            latency.and_then(|latency| pick(latency).known()),
        ));
    };
    put("Mean", |l| l.mean);
    put("P50", |l| l.p50);
    put("P95", |l| l.p95);
    put("P99", |l| l.p99);
    put("P99.9", |l| l.p999);
    put("P99.99", |l| l.p9999);
}

/// What was measured.
#[must_use]
pub fn metrics(document: &Document) -> Vec<Row> {
    let (summary, stats) = (&document.summary, &document.summary.cache_stats);
    let mut rows = vec![
        row("Total Requests", summary.total_requests.known()),
        row("Total Tokens", summary.total_tokens.known()),
        row("Elapsed Time (s)", summary.elapsed_time.known()),
        row("Avg Throughput (tok/s)", summary.avg_throughput_tokens_per_sec.known()),
        row("Storage Throughput (tok/s)", summary.storage_throughput_tokens_per_sec.known()),
        row("Requests/sec", summary.requests_per_second.known()),
    ];
    latency(
        &mut rows,
        "E2E Latency",
        document.latency_of(|summary| &summary.end_to_end_latency_ms),
    );
    latency(
        &mut rows,
        "Storage Latency",
        document.latency_of(|summary| &summary.storage_io_latency_ms),
    );
    latency(
        &mut rows,
        "Gen Latency",
        document.latency_of(|summary| &summary.generation_latency_ms),
    );
    storage_latencies(&mut rows, stats);
    rows.extend([
        row("Cache Hit Rate", document.hit_rate()),
        row("Read/Write Ratio", document.read_write_ratio()),
        row("Total Read (GB)", stats.total_read_gb.known()),
        row("Total Write (GB)", stats.total_write_gb.known()),
        row("Prefill Bytes Written (GB)", stats.prefill_bytes_written_gb.known()),
        row("Decode Bytes Read (GB)", stats.decode_bytes_read_gb.known()),
        row("Tier GPU KV Bytes Written (GB)", stats.tier_gpu_kv_bytes_written_gb.known()),
        row("Tier CPU KV Bytes Written (GB)", stats.tier_cpu_kv_bytes_written_gb.known()),
        row("Tier Storage KV Bytes Written (GB)", stats.tier_storage_kv_bytes_written_gb.known()),
        row("Tier GPU KV Bytes Read (GB)", stats.tier_gpu_kv_bytes_read_gb.known()),
        row("Tier CPU KV Bytes Read (GB)", stats.tier_cpu_kv_bytes_read_gb.known()),
        row("Tier Storage KV Bytes Read (GB)", stats.tier_storage_kv_bytes_read_gb.known()),
        row("Tier GPU Read Bandwidth (GiB/s)", stats.tier_gpu_read_bandwidth_gbps.known()),
        row("Tier GPU Write Bandwidth (GiB/s)", stats.tier_gpu_write_bandwidth_gbps.known()),
        row("Tier CPU Read Bandwidth (GiB/s)", stats.tier_cpu_read_bandwidth_gbps.known()),
        row("Tier CPU Write Bandwidth (GiB/s)", stats.tier_cpu_write_bandwidth_gbps.known()),
        row("Tier Storage Read Bandwidth (GiB/s)", stats.tier_storage_read_bandwidth_gbps.known()),
        row(
            "Tier Storage Write Bandwidth (GiB/s)",
            stats.tier_storage_write_bandwidth_gbps.known(),
        ),
        row("GPU Entries", stats.gpu_entries.known()),
        row("CPU Entries", stats.cpu_entries.known()),
        row("Storage Entries", stats.storage_entries.known()),
        row("Multi-turn Hit Rate", document.multi_turn_hit_rate()),
        row("CPU Cost (CPU-s/GiB)", document.ringfall.cost.cpu_s_per_gib.known()),
        row("Storage Health", stats.storage_health.as_ref().map(|health| &*health.overall_status)),
    ]);
    unfinished(&mut rows, document);
    rows
}

/// Latencies of entries on storage: whole, on the device, and what the host took.
fn storage_latencies(rows: &mut Vec<Row>, stats: &CacheStatsReport) {
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
                rows.push((name, stats.latencies_ms.get(&key).into()));
            }
        }
    }
}

/// Finished and unfinished requests side by side; of a percentile the estimate, or `≥ …` where it
/// does not reach.
fn unfinished(rows: &mut Vec<Row>, document: &Document) {
    let report = document.ringfall.requests.as_ref().map(RequestsReport::rows);
    for (at, name) in ["All", "Interactive", "Responsive", "Batch"].into_iter().enumerate() {
        let class = report.as_ref().map(|classes| classes[at].1);
        rows.push(row(&format!("{name} Requests Finished"), class.map(|class| class.finished)));
        rows.push(row(&format!("{name} Requests Unfinished"), class.map(|class| class.unfinished)));
        for (part, pick) in PERCENTILES_OF_ALL {
            let known = class.and_then(|class| pick(class).as_ref());
            let cell = known.map(|known| match known.estimate_ms {
                Some(estimate) => Cell::from(estimate),
                None => Cell::Text(known.told(|ms| format!("{ms:.3}"))),
            });
            let name = format!("{name} Requests {part} With Unfinished (ms)");
            rows.push((name, cell.unwrap_or(Cell::Nothing)));
        }
        if at > 0 {
            let share = class.and_then(|class| class.share_within_target);
            rows.push(row(&format!("{name} Requests Within Target"), share));
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
