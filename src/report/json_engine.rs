//! The JSON keys that come from the engine's counters.

use ringfall_engine::metrics::{Histogram, IoMetrics, TierMetrics};
use ringfall_engine::tier::{TIER_COUNT, Tier};
use ringfall_engine::units::gib;
use serde_json::{Map, Value, json};

use super::RunResult;

/// The percentiles that every latency is given at, and their suffix in keys.
pub(super) const PERCENTILES: [(&str, f64); 5] =
    [("p50", 0.5), ("p95", 0.95), ("p99", 0.99), ("p999", 0.999), ("p9999", 0.9999)];

pub(super) fn ms(ns: u64) -> f64 {
    ns as f64 / 1e6
}

/// `mean p50 p95 p99 p999 p9999`, ms; null when nothing was measured.
pub(super) fn latency_ms(histogram: &Histogram) -> Value {
    let Some(mean_ns) = histogram.mean_ns() else { return Value::Null };
    let mut object = Map::new();
    object.insert("mean".into(), json!(mean_ns / 1e6));
    for (name, quantile) in PERCENTILES {
        object.insert(name.into(), json!(histogram.quantile_ns(quantile).map(ms)));
    }
    Value::Object(object)
}

/// As [`latency_ms`], with the maximum and the count.
pub(super) fn latency_ms_max(histogram: &Histogram) -> Value {
    let mut value = latency_ms(histogram);
    if let Value::Object(object) = &mut value {
        object.insert("max".into(), json!(histogram.max_ns().map(ms)));
        object.insert("count".into(), json!(histogram.count()));
    }
    value
}

/// What was counted beside the operation latencies, with the sum that merging needs.
fn encoded(histogram: &Histogram) -> Value {
    match histogram.count() {
        0 => Value::Null,
        count => json!({
            "count": count,
            "sum_ns": histogram.sum_ns().to_string(),
            "hdr_v2": histogram.to_base64_v2(),
        }),
    }
}

fn per_second(bytes: u64, seconds: f64) -> Option<f64> {
    (seconds > 0.0).then(|| gib(bytes) / seconds)
}

/// Bytes that a tier moved for its operations. On storage those of the I/Os that completed.
fn tier_bytes(result: &RunResult, tier: Tier) -> (u64, u64) {
    let metrics = result.engine.tier(tier);
    match tier {
        Tier::Storage => (result.engine.io_read.bytes, result.engine.io_write.bytes),
        _ => (metrics.read.entry_bytes, metrics.write.entry_bytes),
    }
}

/// `summary.cache_stats`, but for the health.
pub(super) fn cache_stats(result: &RunResult) -> Map<String, Value> {
    let (cache, engine) = (&result.cache, &result.engine);
    let seconds = result.window.seconds;
    let mut stats = Map::new();
    let mut put = |key: &str, value: Value| stats.insert(key.to_owned(), value);
    put("cache_hit_rate", json!(cache.hit_rate()));
    put("cache_hits", json!(cache.hits));
    put("cache_misses", json!(cache.misses));
    for tier in Tier::ALL {
        let (name, state) = (tier.name(), result.tiers[tier.index()]);
        put(&format!("{name}_entries"), json!(state.entries));
        if tier != Tier::Storage {
            put(&format!("{name}_memory_used_gb"), json!(gib(state.used_bytes)));
        }
        let (read, written) = tier_bytes(result, tier);
        put(&format!("tier_{name}_kv_bytes_written_gb"), json!(gib(written)));
        put(&format!("tier_{name}_kv_bytes_read_gb"), json!(gib(read)));
        put(&format!("tier_{name}_read_bandwidth_gbps"), json!(per_second(read, seconds)));
        put(&format!("tier_{name}_write_bandwidth_gbps"), json!(per_second(written, seconds)));
        tier_latencies(name, engine.tier(tier), tier == Tier::Storage, &mut put);
    }
    // As in the reference: entries that reached the tier, written there at once or demoted.
    let reached = |tier: Tier, above: Tier| {
        engine.tier(tier).write.total.count() + engine.evictions[above.index()].entries
    };
    put("offloads_cpu", json!(reached(Tier::Cpu, Tier::Gpu)));
    put("offloads_storage", json!(reached(Tier::Storage, Tier::Cpu)));
    put("prefill_writes", json!(cache.prefill_writes));
    put("decode_reads", json!(cache.decode_reads));
    put("prefill_bytes_written_gb", json!(gib(cache.prefill_written_bytes)));
    put("decode_bytes_read_gb", json!(gib(cache.decode_read_bytes)));
    put("system_prompt_hits", json!(cache.system_prompt_hits));
    // Common phrases are not simulated: nothing was measured.
    put("common_phrase_hits", Value::Null);
    put("user_cache_hits", json!(cache.user_cache_hits));
    put("multi_turn_hits", json!(cache.multi_turn_hits));
    let all = |pick: fn(&TierMetrics) -> u64| -> u64 { engine.tiers.iter().map(pick).sum() };
    let (read, written) = (all(|t| t.read.entry_bytes), all(|t| t.write.entry_bytes));
    put("total_read_bytes", json!(read));
    put("total_write_bytes", json!(written));
    put("total_read_gb", json!(gib(read)));
    put("total_write_gb", json!(gib(written)));
    put("read_write_ratio", json!(super::quotient(read, written)));
    put("read_iops", json!(all(|t| t.read.total.count())));
    put("write_iops", json!(all(|t| t.write.total.count())));
    put("storage_tokens_processed", json!(storage_tokens(result)));
    stats
}

/// Tokens of the entries written to storage, demoted there, or read from it, as the reference
/// counts them. `None` when the model has no size, which `config` refuses.
fn storage_tokens(result: &RunResult) -> Option<u64> {
    let storage = result.engine.tier(Tier::Storage);
    let demoted = result.engine.evictions[Tier::Cpu.index()].bytes;
    let bytes = storage.read.entry_bytes + storage.write.entry_bytes + demoted;
    let token_bytes = result.plan.model_spec.bytes_per_token().ok()?;
    // An entry is one GPU's share of its tokens.
    let tokens = u128::from(bytes) * u128::from(result.plan.tensor_parallel);
    u64::try_from(tokens / u128::from(token_bytes)).ok()
}

fn tier_latencies(
    name: &str,
    tier: &TierMetrics,
    with_device: bool,
    put: &mut impl FnMut(&str, Value) -> Option<Value>,
) {
    for (direction, metrics) in [("read", &tier.read), ("write", &tier.write)] {
        let parts: &[(&str, &Histogram)] = match with_device {
            true => &[("", &metrics.total), ("device_", &metrics.device), ("host_", &metrics.host)],
            false => &[("", &metrics.total)],
        };
        for (part, histogram) in parts {
            for (percentile, quantile) in PERCENTILES {
                if let Some(ns) = histogram.quantile_ns(quantile) {
                    put(&format!("{name}_{direction}_{part}{percentile}_ms"), json!(ms(ns)));
                }
            }
        }
    }
}

/// `ringfall.histograms`: all that merging runs exactly needs.
pub(super) fn histograms(result: &RunResult) -> Value {
    let engine = &result.engine;
    let mut object = Map::new();
    for tier in Tier::ALL {
        for (direction, metrics) in
            [("read", &engine.tier(tier).read), ("write", &engine.tier(tier).write)]
        {
            let name = format!("{}_{direction}", tier.name());
            object.insert(format!("{name}_total"), encoded(&metrics.total));
            object.insert(format!("{name}_device"), encoded(&metrics.device));
            object.insert(format!("{name}_host"), encoded(&metrics.host));
        }
    }
    object.insert("io_read".into(), encoded(&engine.io_read.latency));
    object.insert("io_write".into(), encoded(&engine.io_write.latency));
    object.insert("io_flush".into(), encoded(&engine.io_flush.latency));
    let requests = &result.requests;
    for (name, histogram) in ["interactive", "responsive", "batch"].iter().zip(&requests.end_to_end)
    {
        object.insert(format!("end_to_end_{name}"), encoded(histogram));
    }
    object.insert("storage_io".into(), encoded(&requests.storage_io));
    object.insert("generation".into(), encoded(&requests.generation));
    object.insert("prefill".into(), encoded(&requests.prefill));
    object.insert("decode".into(), encoded(&requests.decode));
    Value::Object(object)
}

/// `ringfall.io`: single I/Os.
pub(super) fn io(result: &RunResult) -> Value {
    let seconds = result.window.seconds;
    let direction = |io: &IoMetrics| {
        let count = io.latency.count();
        json!({
            "count": count,
            "bytes": io.bytes,
            "bandwidth_gib_per_s": per_second(io.bytes, seconds),
            "iops": (seconds > 0.0).then(|| count as f64 / seconds),
            "size_mean_bytes": super::quotient(io.bytes, count),
            // Little's law: mean latency × rate.
            "depth_mean": (seconds > 0.0).then(|| io.latency.sum_ns() as f64 / 1e9 / seconds),
            "latency_ms": latency_ms_max(&io.latency),
        })
    };
    let engine = &result.engine;
    json!({
        "read": direction(&engine.io_read),
        "write": direction(&engine.io_write),
        "flush": { "count": engine.io_flush.latency.count(),
                   "latency_ms": latency_ms_max(&engine.io_flush.latency) },
        "short_transfers": engine.short_transfers,
        "retries": engine.retries,
        "first_touch_bytes": engine.first_touch_bytes,
        "first_touch_share": super::quotient(engine.first_touch_bytes, engine.io_write.bytes),
    })
}

/// `ringfall.waits`.
pub(super) fn waits(result: &RunResult) -> Value {
    let waits = &result.engine.waits;
    json!({
        "room_ms": latency_ms_max(&waits.room),
        "buffer_ms": latency_ms_max(&waits.buffer),
        "queue_place_ms": latency_ms_max(&waits.queue_place),
        "allocation_permit_ms": latency_ms_max(&result.allocation_wait),
        "request_queue_ms": latency_ms_max(&result.requests.queued),
    })
}

/// `ringfall.evictions`, by tier pair.
pub(super) fn evictions(result: &RunResult) -> Value {
    const PAIRS: [&str; TIER_COUNT] = ["gpu_to_cpu", "cpu_to_storage", "storage_to_none"];
    let mut object = Map::new();
    for (name, row) in PAIRS.iter().zip(&result.engine.evictions) {
        let value = json!({
            "entries": row.entries,
            "bytes": row.bytes,
            "read_ms": latency_ms_max(&row.read),
            "write_ms": latency_ms_max(&row.write),
        });
        object.insert((*name).to_owned(), value);
    }
    Value::Object(object)
}

/// `ringfall.device`: the kernel's counters beside ours.
pub(super) fn device(result: &RunResult) -> Value {
    let engine = &result.engine;
    let (ours_read, ours_written) = (engine.io_read.bytes, engine.io_write.bytes);
    let Some(kernel) = &result.kernel else {
        return json!({ "kernel": null, "agreement": null,
            "engine_read_bytes": ours_read, "engine_write_bytes": ours_written });
    };
    json!({
        "kernel": kernel,
        "engine_read_bytes": ours_read,
        "engine_write_bytes": ours_written,
        "agreement": {
            "read_ratio": super::quotient(ours_read, kernel.read_bytes),
            "write_ratio": super::quotient(ours_written, kernel.write_bytes),
            "total_ratio": super::quotient(
                ours_read + ours_written,
                kernel.read_bytes + kernel.write_bytes,
            ),
        },
        "utilisation": (result.window.seconds > 0.0)
            .then(|| kernel.busy_ms as f64 / 1e3 / result.window.seconds),
    })
}
