//! What becomes of each value of several results when they are merged into one. What no rule names
//! is kept where all agree on it, and null otherwise: a figure that was not measured.

use serde_json::{Map, Number, Value};

/// How values are put together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    /// Counted: they add up, if all were counted.
    Sum,
    /// The largest.
    Max,
    /// The smallest.
    Min,
    /// Whether any is true.
    Any,
    /// The first that is not null.
    First,
    /// Lists: one after the other, the same item once.
    Union,
    /// The value all have. Numbers that were measured are never kept so, but only under a path
    /// that says so.
    Same,
}

/// Places, `*` for any one name and at the end for all that is below, and what is done there. The
/// first that fits counts.
const RULES: &[(&str, Rule)] = &[
    ("requests_completed", Rule::Sum),
    ("total_tokens_generated", Rule::Sum),
    ("multi_turn_cache_hits", Rule::Sum),
    ("multi_turn_cache_misses", Rule::Sum),
    ("seed", Rule::Same),
    ("summary.total_requests", Rule::Sum),
    ("summary.total_tokens", Rule::Sum),
    ("summary.elapsed_time", Rule::Sum),
    ("summary.cache_stats.cache_hits", Rule::Sum),
    ("summary.cache_stats.cache_misses", Rule::Sum),
    ("summary.cache_stats.offloads_cpu", Rule::Sum),
    ("summary.cache_stats.offloads_storage", Rule::Sum),
    ("summary.cache_stats.prefill_writes", Rule::Sum),
    ("summary.cache_stats.decode_reads", Rule::Sum),
    ("summary.cache_stats.prefill_bytes_written_gb", Rule::Sum),
    ("summary.cache_stats.decode_bytes_read_gb", Rule::Sum),
    ("summary.cache_stats.tier_gpu_kv_bytes_written_gb", Rule::Sum),
    ("summary.cache_stats.tier_gpu_kv_bytes_read_gb", Rule::Sum),
    ("summary.cache_stats.tier_cpu_kv_bytes_written_gb", Rule::Sum),
    ("summary.cache_stats.tier_cpu_kv_bytes_read_gb", Rule::Sum),
    ("summary.cache_stats.tier_storage_kv_bytes_written_gb", Rule::Sum),
    ("summary.cache_stats.tier_storage_kv_bytes_read_gb", Rule::Sum),
    ("summary.cache_stats.system_prompt_hits", Rule::Sum),
    ("summary.cache_stats.common_phrase_hits", Rule::Sum),
    ("summary.cache_stats.user_cache_hits", Rule::Sum),
    ("summary.cache_stats.multi_turn_hits", Rule::Sum),
    ("summary.cache_stats.total_read_bytes", Rule::Sum),
    ("summary.cache_stats.total_write_bytes", Rule::Sum),
    ("summary.cache_stats.total_read_gb", Rule::Sum),
    ("summary.cache_stats.total_write_gb", Rule::Sum),
    ("summary.cache_stats.read_iops", Rule::Sum),
    ("summary.cache_stats.write_iops", Rule::Sum),
    ("summary.cache_stats.storage_tokens_processed", Rule::Sum),
    ("summary.prefix_cache_stats.*", Rule::Sum),
    ("summary.multi_turn_stats.cache_hits", Rule::Sum),
    ("summary.multi_turn_stats.cache_misses", Rule::Sum),
    ("ringfall.schema_version", Rule::Same),
    ("ringfall.config.*", Rule::Same),
    ("ringfall.machine.memory_available_bytes", Rule::Min),
    ("ringfall.machine.*", Rule::Same),
    ("ringfall.window.start_unix_s", Rule::Min),
    ("ringfall.window.interrupted", Rule::Any),
    ("ringfall.window.failure", Rule::First),
    ("ringfall.window.*", Rule::Sum),
    ("ringfall.io.read.count", Rule::Sum),
    ("ringfall.io.read.bytes", Rule::Sum),
    ("ringfall.io.read.entry_bytes", Rule::Sum),
    ("ringfall.io.read.sizes.*", Rule::Sum),
    ("ringfall.io.write.sizes.*", Rule::Sum),
    ("ringfall.io.write.count", Rule::Sum),
    ("ringfall.io.write.bytes", Rule::Sum),
    ("ringfall.io.write.entry_bytes", Rule::Sum),
    ("ringfall.io.flush.count", Rule::Sum),
    ("ringfall.io.short_transfers", Rule::Sum),
    ("ringfall.io.retries", Rule::Sum),
    ("ringfall.io.first_touch_bytes", Rule::Sum),
    ("ringfall.evictions.*.entries", Rule::Sum),
    ("ringfall.evictions.*.bytes", Rule::Sum),
    ("ringfall.device.kernel.device", Rule::Same),
    ("ringfall.device.kernel.*", Rule::Sum),
    ("ringfall.device.engine_read_bytes", Rule::Sum),
    ("ringfall.device.engine_write_bytes", Rule::Sum),
    ("ringfall.cost.peak_rss_bytes", Rule::Max),
    ("ringfall.cost.cpu_user_s", Rule::Sum),
    ("ringfall.cost.cpu_system_s", Rule::Sum),
    ("ringfall.cost.context_switches_voluntary", Rule::Sum),
    ("ringfall.cost.context_switches_involuntary", Rule::Sum),
    ("ringfall.errors.requests_failed", Rule::Sum),
    ("ringfall.errors.entries_refused", Rule::Sum),
    ("ringfall.errors.population_failed", Rule::Sum),
    ("ringfall.errors.first_ever", Rule::Union),
    ("ringfall.verify.blocks_checked", Rule::Sum),
    ("ringfall.verify.blocks_bad", Rule::Sum),
    ("ringfall.watchdog.heartbeat_gap_max_ns", Rule::Max),
    ("ringfall.watchdog.*", Rule::Sum),
    ("ringfall.source.queue_depth_max", Rule::Max),
    ("ringfall.source.timer_lag_max_ms", Rule::Max),
    ("ringfall.source.queue_age_at_end_s", Rule::Max),
    ("ringfall.source.conversations", Rule::Same),
    ("ringfall.source.turns", Rule::Same),
    ("ringfall.source.files", Rule::Union),
    ("ringfall.source.first_skipped", Rule::First),
    ("ringfall.source.rows", Rule::Sum),
    ("ringfall.source.cycles", Rule::Sum),
    ("ringfall.source.skipped", Rule::Sum),
    ("ringfall.source.block_hits", Rule::Sum),
    ("ringfall.source.block_misses", Rule::Sum),
    ("ringfall.source.arrived", Rule::Sum),
    ("ringfall.source.dropped", Rule::Sum),
    ("ringfall.source.queued_at_end", Rule::Sum),
    ("ringfall.workload.decode_misses", Rule::Sum),
    ("ringfall.workload.decode_rewrites", Rule::Sum),
    ("ringfall.workload.conversations_forgotten", Rule::Sum),
    ("ringfall.workload.requests_refused", Rule::Sum),
    ("ringfall.warnings", Rule::Union),
];

/// What is made anew from the histograms and lists, or can't be merged at all.
const LEFT_OUT: &[&str] = &[
    "end_to_end_latencies",
    "storage_latencies",
    "generation_latencies",
    "prefill_latencies",
    "decode_latencies",
    "throughput_timeline",
    "ringfall.command_line",
    "ringfall.autoscaler",
    "ringfall.block_trace",
    "ringfall.device.chain",
    "ringfall.device.correlation",
    "ringfall.device.series",
    "ringfall.precondition",
    "ringfall.roofline",
    "ringfall.timeline",
    "ringfall.histograms",
    "ringfall.errors.by_kind",
    "ringfall.merged",
];

/// The results as one, except what is made anew.
pub(super) fn apply(documents: &[&Value]) -> Value {
    put_together("", documents)
}

fn put_together(path: &str, values: &[&Value]) -> Value {
    if LEFT_OUT.contains(&path) {
        return Value::Null;
    }
    // Beside a null (nothing of the kind was measured in that run) an object's parts are unknown.
    if !values.is_empty() && values.iter().all(|value| value.is_object()) {
        let mut merged = Map::new();
        for key in values.iter().filter_map(|value| value.as_object()).flat_map(Map::keys) {
            if !merged.contains_key(key) {
                let dot = if path.is_empty() { "" } else { "." };
                let parts: Vec<&Value> = values.iter().map(|value| &value[key.as_str()]).collect();
                merged.insert(key.clone(), put_together(&format!("{path}{dot}{key}"), &parts));
            }
        }
        return Value::Object(merged);
    }
    match rule(path) {
        Some(Rule::Sum) => sum(values),
        Some(Rule::Max) => extreme(values, f64::max),
        Some(Rule::Min) => extreme(values, f64::min),
        Some(Rule::Any) => values.iter().any(|value| value.as_bool() == Some(true)).into(),
        Some(Rule::First) => {
            values.iter().find(|value| !value.is_null()).map_or(Value::Null, |v| (*v).clone())
        }
        Some(Rule::Union) => union(values),
        Some(Rule::Same) => same(values),
        None if values.iter().any(|value| value.is_number()) => Value::Null,
        None => same(values),
    }
}

fn rule(path: &str) -> Option<Rule> {
    RULES.iter().find(|(pattern, _)| fits(pattern, path)).map(|(_, rule)| *rule)
}

fn fits(pattern: &str, path: &str) -> bool {
    let mut names = path.split('.');
    let mut parts = pattern.split('.').peekable();
    while let Some(part) = parts.next() {
        match names.next() {
            None => return false,
            Some(_) if part == "*" && parts.peek().is_none() => return true,
            Some(name) if part != "*" && part != name => return false,
            Some(_) => {}
        }
    }
    names.next().is_none()
}

/// The sum, an integer where all are; null where one was not counted.
pub(super) fn sum(values: &[&Value]) -> Value {
    let whole = values
        .iter()
        .try_fold(0_u64, |sum, value| value.as_u64().and_then(|value| sum.checked_add(value)));
    if let Some(whole) = whole {
        return whole.into();
    }
    let all: Option<Vec<f64>> = values.iter().map(|value| value.as_f64()).collect();
    all.map_or(Value::Null, |all| number(all.iter().sum()))
}

fn extreme(values: &[&Value], pick: fn(f64, f64) -> f64) -> Value {
    let chosen = values.iter().filter_map(|value| value.as_f64()).reduce(pick);
    // As it was written there: an integer stays one.
    let is_it = |value: &&&Value| chosen.is_some() && value.as_f64() == chosen;
    values.iter().find(is_it).map_or(Value::Null, |value| (*value).clone())
}

fn union(values: &[&Value]) -> Value {
    let mut items: Vec<Value> = Vec::new();
    for item in values.iter().filter_map(|value| value.as_array()).flatten() {
        if !items.contains(item) {
            items.push(item.clone());
        }
    }
    Value::Array(items)
}

fn same(values: &[&Value]) -> Value {
    match values {
        [first, rest @ ..] if rest.iter().all(|value| value == first) => (*first).clone(),
        _ => Value::Null,
    }
}

fn number(value: f64) -> Value {
    Number::from_f64(value).map_or(Value::Null, Value::Number)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn counts_add_up_and_what_one_did_not_count_is_null() {
        let (a, b) = (
            json!({ "requests_completed": 3, "summary": { "elapsed_time": 1.5 } }),
            json!({ "requests_completed": 4, "summary": { "elapsed_time": 2 } }),
        );
        let merged = apply(&[&a, &b]);
        assert_eq!(merged["requests_completed"], 7);
        assert_eq!(merged["summary"]["elapsed_time"], 3.5);
        let merged = apply(&[&a, &json!({ "summary": {} })]);
        assert_eq!(merged["requests_completed"], Value::Null);
        assert_eq!(sum(&[&json!(u64::MAX), &json!(1)]), json!(u64::MAX as f64));
    }

    #[test]
    fn an_unknown_figure_is_never_taken_from_one_side() {
        let of = |value: Value| json!({ "summary": { "cache_stats": { "future_count": value } } });
        let (five, word) = (of(json!(5)), of(json!("on")));
        let value = |merged: Value| merged["summary"]["cache_stats"]["future_count"].clone();
        assert_eq!(value(apply(&[&five, &five])), Value::Null, "5 and 5 may well be 10");
        assert_eq!(value(apply(&[&word, &word])), "on");
        assert_eq!(value(apply(&[&word, &five])), Value::Null);
    }

    #[test]
    fn settings_stay_where_all_agree() {
        let of = |users: u64| json!({ "ringfall": { "config": { "num_users": users, "m": 4 } } });
        let merged = apply(&[&of(5), &of(6)]);
        assert_eq!(merged["ringfall"]["config"], json!({ "num_users": null, "m": 4 }));
    }

    #[test]
    fn extremes_and_lists() {
        let of = |rss: u64, warning: &str| {
            json!({ "ringfall": { "cost": { "peak_rss_bytes": rss }, "warnings": ["w", warning],
                    "window": { "interrupted": rss == 2, "start_unix_s": rss } } })
        };
        let merged = apply(&[&of(2, "x"), &of(9, "w")]);
        assert_eq!(merged["ringfall"]["cost"]["peak_rss_bytes"], 9);
        assert_eq!(merged["ringfall"]["warnings"], json!(["w", "x"]));
        let window = json!({ "interrupted": true, "start_unix_s": 2 });
        assert_eq!(merged["ringfall"]["window"], window);
    }

    #[test]
    fn patterns_fit_whole_paths() {
        assert!(fits("a.*.c", "a.b.c") && !fits("a.*.c", "a.b.d") && !fits("a.*.c", "a.b"));
        assert!(fits("a.*", "a.b") && fits("a.*", "a.b.c") && !fits("a.*", "a"));
        assert!(fits("a", "a") && !fits("a", "a.b") && !fits("a", "ab"));
    }
}
