//! The JSON result: the reference benchmark's keys, then one of our own (`spec/results.md`).

use std::io::Write;
use std::path::Path;

use ringfall_engine::metrics::Histogram;
use serde_json::{Map, Value, json};

use super::json_engine::{
    cache_stats, device, evictions, histograms, io, latency_ms, latency_ms_max, ms, waits,
};
use super::sla::{COMPLIANCE, SLA};
use super::{RequestSample, RunResult, SAMPLES_MAX, autoscaling, health, source};

/// Version of the `ringfall` key's layout.
const SCHEMA_VERSION: u32 = 1;

/// The whole document.
#[must_use]
pub fn to_json(result: &RunResult) -> Value {
    let requests = &result.requests;
    let seconds_of = |pick: fn(&RequestSample) -> u64| -> Value {
        requests.samples().iter().map(|sample| json!(pick(sample) as f64 / 1e9)).collect()
    };
    let phase = |pick: fn(&RequestSample) -> u64| -> Value {
        let there = requests.samples().iter().map(pick).filter(|&ns| ns > 0);
        there.map(|ns| json!(ns as f64 / 1e9)).collect()
    };
    let sum_s = |histogram: &Histogram| histogram.sum_ns() as f64 / 1e9;
    let mut document = json!({
        "requests_completed": requests.completed(),
        "total_tokens_generated": requests.generated_tokens,
        "total_storage_io_latency": sum_s(&requests.storage_io),
        "total_generation_latency": sum_s(&requests.generation),
        "end_to_end_latencies": seconds_of(|s| s.end_to_end_ns),
        "storage_latencies": seconds_of(|s| s.storage_io_ns),
        "generation_latencies": seconds_of(|s| s.generation_ns),
        "prefill_latencies": phase(|s| s.prefill_ns),
        "decode_latencies": phase(|s| s.decode_ns),
        "throughput_timeline": throughput_timeline(result),
        "multi_turn_cache_hits": result.cache.multi_turn_hits,
        "multi_turn_cache_misses": result.cache.multi_turn_misses,
        "seed": result.plan.seed,
        "summary": summary(result),
        "ringfall": ours(result),
    });
    if let Some(validation) = source::validation(result) {
        document["validation"] = json!(validation);
    }
    document
}

/// Writes the document to `path`, whole or not at all: by a temporary file beside it. What is there
/// and is no plain file (a device, a pipe) is written to and never replaced.
///
/// # Errors
/// What the file system says.
pub fn write_json(document: &Value, path: &Path) -> std::io::Result<()> {
    if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        std::fs::create_dir_all(parent)?;
    }
    // A link's target is replaced, not the link.
    let target = std::fs::canonicalize(path);
    let path = target.as_deref().unwrap_or(path);
    if path.exists() && !path.is_file() {
        let mut file = std::fs::OpenOptions::new().write(true).open(path)?;
        file.write_all(serde_json::to_string_pretty(document)?.as_bytes())?;
        return file.write_all(b"\n");
    }
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(format!(".{}.tmp", std::process::id()));
    let temporary = path.with_file_name(name);
    let written = (|| {
        let mut file = std::io::BufWriter::new(std::fs::File::create(&temporary)?);
        serde_json::to_writer_pretty(&mut file, document)?;
        file.write_all(b"\n")?;
        file.into_inner()?.sync_all()?;
        std::fs::rename(&temporary, path)
    })();
    if written.is_err() {
        // The first error is the one to report.
        let _leftover = std::fs::remove_file(&temporary);
    }
    written
}

fn throughput_timeline(result: &RunResult) -> Value {
    let row = |second: &super::TimelineSecond| {
        let rate = second.generated_tokens as f64 / second.seconds.max(1e-9);
        json!({
            "timestamp": result.window.start_unix_s + second.end_s,
            "throughput_tokens_per_sec": rate,
        })
    };
    result.timeline.iter().map(row).collect()
}

fn summary(result: &RunResult) -> Value {
    let requests = &result.requests;
    let (seconds, tokens) = (result.window.seconds, requests.generated_tokens);
    let rate = |count: u64| (seconds > 0.0).then(|| count as f64 / seconds);
    let storage_s = requests.storage_io.sum_ns() as f64 / 1e9;
    let mut stats = cache_stats(result);
    stats.insert("storage_health".into(), json!(health::judge(result)));
    let (hits, misses) = (result.cache.multi_turn_hits, result.cache.multi_turn_misses);
    json!({
        "total_requests": requests.completed(),
        "total_tokens": tokens,
        "elapsed_time": seconds,
        "avg_throughput_tokens_per_sec": rate(tokens),
        "total_storage_io_time": storage_s,
        "storage_throughput_tokens_per_sec": (storage_s > 0.0).then(|| tokens as f64 / storage_s),
        "requests_per_second": rate(requests.completed()),
        "end_to_end_latency_ms": latency_ms(&requests.end_to_end_all()),
        "storage_io_latency_ms": latency_ms(&requests.storage_io),
        "generation_latency_ms": latency_ms(&requests.generation),
        "cache_stats": stats,
        "qos_metrics": qos(&requests.end_to_end),
        "prefix_cache_stats": {
            "prefix_hits": result.cache.system_prompt_hits,
            "prefix_misses": result.cache.prefix_misses,
            "system_prompt_reuse": result.cache.system_prompt_hits,
            "common_phrase_reuse": null,
            "bytes_saved": result.cache.prefix_saved_bytes,
        },
        "autoscaling_stats": autoscaling::rows(result),
        "autoscaling_summary": autoscaling::summary(result),
        "multi_turn_stats": {
            "cache_hits": hits,
            "cache_misses": misses,
            "hit_rate": super::quotient(hits, hits + misses),
        },
    })
}

fn qos(classes: &[Histogram; 3]) -> Value {
    let mut object = Map::new();
    for (sla, histogram) in SLA.iter().zip(classes) {
        let value = match sla.compliance(histogram) {
            None => json!({ "no_data": true }),
            Some(compliance) => json!({
                "total_requests": histogram.count(),
                "latency_ms": latency_ms_max(histogram),
                "sla": {
                    "target_p95_ms": sla.targets_ms[0],
                    "actual_p95_ms": histogram.quantile_ns(0.95).map(ms),
                    "compliance": compliance,
                    "met": compliance >= COMPLIANCE,
                },
                "targets_ms": { "p95": sla.targets_ms[0], "p99": sla.targets_ms[1],
                                "p999": sla.targets_ms[2], "p9999": sla.targets_ms[3] },
            }),
        };
        object.insert(sla.class.to_owned(), value);
    }
    Value::Object(object)
}

fn ours(result: &RunResult) -> Value {
    let engine = &result.engine;
    let moved = engine.io_read.bytes + engine.io_write.bytes;
    let errors: Vec<Value> = engine
        .errors
        .iter()
        .map(|row| {
            json!({ "kind": row.kind.name(), "operation": row.operation.name(),
                    "errno": row.errno, "count": row.count, "first": row.first.to_string() })
        })
        .collect();
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "schema_version": SCHEMA_VERSION,
        "command_line": result.command_line,
        "config": config(result),
        "machine": result.machine,
        "window": {
            "start_unix_s": result.window.start_unix_s,
            "seconds": result.window.seconds,
            "warmup_seconds": result.window.warmup_seconds,
            "drain_seconds": result.window.drain_seconds,
            "interrupted": result.interrupted,
            "failure": result.failure,
        },
        "timeline": timeline(result),
        "histograms": histograms(result),
        "io": io(result),
        "waits": waits(result),
        "evictions": evictions(result),
        "device": device(result),
        "cost": {
            "cpu_user_s": result.cost.cpu_user_s,
            "cpu_system_s": result.cost.cpu_system_s,
            "cpu_s_per_gib": result.cost.cpu_s_per_gib(moved),
            "peak_rss_bytes": result.cost.peak_rss_bytes,
            "context_switches_voluntary": result.cost.context_switches_voluntary,
            "context_switches_involuntary": result.cost.context_switches_involuntary,
        },
        "roofline": null,
        "errors": {
            "by_kind": errors,
            "requests_failed": result.requests.failed,
            "entries_refused": engine.refused_entries,
            "population_failed": result.population_failed,
            "first_ever": result.errors.iter().map(ToString::to_string).collect::<Vec<_>>(),
        },
        "verify": {
            "mode": result.plan.verify.name(),
            "blocks_checked": engine.verify.blocks_checked,
            "blocks_bad": engine.verify.blocks_bad,
        },
        "samples": {
            "kept": result.requests.samples().len(),
            "of": result.requests.completed(),
            "kept_max": SAMPLES_MAX,
            "sampled": result.requests.completed() > SAMPLES_MAX as u64,
        },
        "autoscaler": autoscaling::report(result),
        "source": source::report(result),
        "watchdog": result.watchdog,
        "engine": engine_facts(result),
        "workload": {
            "decode_misses": result.workload.decode_misses,
            "decode_rewrites": result.workload.decode_rewrites,
            "conversations_forgotten": result.workload.conversations_forgotten,
            "requests_refused": result.workload.refused_requests,
        },
        "warnings": result.warnings,
    })
}

fn engine_facts(result: &RunResult) -> Value {
    let shards: Vec<Value> = result
        .facts
        .iter()
        .zip(&result.space)
        .map(|(facts, space)| {
            json!({
                "defer_taskrun": facts.ring.defer_taskrun,
                "registered_buffers": facts.ring.registered_buffers,
                "registered_file": facts.ring.registered_file,
                "huge_pages": facts.huge_pages,
                "buffer_bytes": facts.buffer_bytes,
                "free_blocks": space.free_blocks,
                "free_extents": space.free_extents,
                "largest_free_blocks": space.largest_free_blocks,
                "live_extents": space.live_extents,
                "leased_blocks": space.leased_blocks,
            })
        })
        .collect();
    json!({
        "fill": ringfall_engine::fill::implementation(),
        "shards": shards,
    })
}

fn config(result: &RunResult) -> Value {
    let plan = &result.plan;
    json!({
        "model": plan.model,
        "num_users": plan.users,
        "duration_s": plan.duration_s,
        "warmup_s": plan.warmup_s,
        "gpu_memory_bytes": plan.gpu_memory_bytes,
        "cpu_memory_bytes": plan.cpu_memory_bytes,
        "num_gpus": plan.gpus,
        "tensor_parallel": plan.tensor_parallel,
        "cache_dir": plan.cache_dir,
        "storage_capacity_bytes":
            result.tiers[ringfall_engine::tier::Tier::Storage.index()].capacity_bytes,
        "generation_mode": plan.generation_mode.name(),
        "performance_profile": plan.performance_profile.name(),
        "multi_turn": plan.multi_turn,
        "prefix_caching": plan.prefix_caching,
        "arrival": plan.arrival.name(),
        "request_rate_per_s": plan.request_rate_per_s,
        "rag_documents": plan.rag_documents,
        "max_requests": plan.max_requests,
        "max_concurrent_allocs": plan.max_concurrent_allocs,
        "max_inflight_requests": plan.max_inflight_requests,
        "seed": plan.seed,
        "durability": plan.durability.name(),
        "verify": plan.verify.name(),
        "preallocate": plan.preallocate.name(),
        "shards": plan.shards,
        "pin": plan.pin,
        "io_size_bytes": plan.io_size_bytes,
        "queue_depth": plan.queue_depth,
        "io_buffer_bytes": plan.io_buffer_bytes,
        "demo": plan.demo,
        "origins": plan.origins,
        // As in a configuration file: the run again.
        "settings": plan.effective(),
    })
}

fn timeline(result: &RunResult) -> Value {
    let row = |second: &super::TimelineSecond| {
        let mut tiers = Map::new();
        for tier in ringfall_engine::tier::Tier::ALL {
            tiers.insert(tier.name().into(), json!(second.tiers[tier.index()]));
        }
        json!({
            "end_s": second.end_s,
            "seconds": second.seconds,
            "tiers": tiers,
            "queue_depth": second.queue_depth,
            "users": second.users,
            "requests_completed": second.requests_completed,
            "generated_tokens": second.generated_tokens,
            "hit_rate": super::quotient(second.hits, second.hits + second.misses),
            "errors": second.errors,
        })
    };
    result.timeline.iter().map(row).collect()
}
