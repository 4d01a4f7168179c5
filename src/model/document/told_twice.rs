//! Counts that a result tells in several places: a table of sums, and the places looked up in the
//! JSON.

use ringfall_core::units::{GIB, MIB};
use serde_json::Value;

use super::contradictions::{Pairs, are_alike};
use super::histograms::Histograms;

/// Figures that are the same by their definitions: one place, and those whose sum it is, or at most
/// is, as a part of it. `{}` stands for `read` and `write`, `*` for all rows of a list, and `#` is
/// before the name of a histogram whose values are counted. After a list the places are those in
/// each of its rows, but for one after `/`, and `*` has a mean or a rate times a sum. A rule does
/// not hold where one of the places behind `unless` has something.
const RULES: &str = "\
summary.total_requests = requests_completed
summary.total_requests = #end_to_end_interactive + #end_to_end_responsive + #end_to_end_batch
summary.total_requests = ringfall.timeline.*.requests_completed
summary.total_requests = ringfall.merged.inputs.*.requests_completed
summary.total_requests = ringfall.merged.ranks.*.requests_completed
summary.total_tokens = total_tokens_generated
summary.total_tokens = ringfall.timeline.*.generated_tokens
summary.elapsed_time = ringfall.window.seconds
summary.multi_turn_stats.cache_hits = multi_turn_cache_hits
summary.multi_turn_stats.cache_misses = multi_turn_cache_misses
summary.cache_stats.cache_hits = summary.cache_stats.system_prompt_hits + \
    summary.cache_stats.common_phrase_hits + summary.cache_stats.user_cache_hits + \
    summary.cache_stats.multi_turn_hits
ringfall.cache.prompt_hits = summary.prefix_cache_stats.prefix_hits
ringfall.cache.prompt_hits = summary.prefix_cache_stats.system_prompt_reuse
summary.cache_stats.total_{}_bytes = summary.cache_stats.total_{}_gb
summary.cache_stats.read_iops = #gpu_read_total + #cpu_read_total + #storage_read_total
ringfall.cache.writes = #gpu_write_total + #cpu_write_total + #storage_write_total
summary.cache_stats.offloads_cpu = #cpu_write_total + ringfall.evictions.gpu_to_cpu.entries
summary.cache_stats.offloads_storage = #storage_write_total + \
    ringfall.evictions.cpu_to_storage.entries + ringfall.evictions.gpu_to_storage.entries
ringfall.cache.moved_read_bytes = summary.cache_stats.tier_gpu_kv_bytes_read_gb + \
    summary.cache_stats.tier_cpu_kv_bytes_read_gb + \
    summary.cache_stats.tier_storage_kv_bytes_read_gb
ringfall.cache.moved_write_bytes = summary.cache_stats.tier_gpu_kv_bytes_written_gb + \
    summary.cache_stats.tier_cpu_kv_bytes_written_gb + \
    summary.cache_stats.tier_storage_kv_bytes_written_gb
summary.cache_stats.tier_cpu_kv_bytes_read_gb = ringfall.cache.cpu_read_bytes + \
    ringfall.evictions.cpu_to_storage.bytes
summary.cache_stats.tier_storage_kv_bytes_read_gb = ringfall.io.read.entry_bytes
summary.cache_stats.tier_storage_kv_bytes_written_gb = ringfall.io.write.entry_bytes
ringfall.cache.cpu_read_bytes = ringfall.timeline.*.tiers.cpu.read.bytes
ringfall.timeline.*.tiers.gpu.{}.operations = #gpu_{}_total
ringfall.timeline.*.tiers.cpu.{}.operations = #cpu_{}_total
ringfall.timeline.*.tiers.storage.{}.operations = #storage_{}_total
ringfall.io.{}.bytes = ringfall.device.engine_{}_bytes
ringfall.io.{}.bytes = ringfall.io.{}.sizes.*.bytes
ringfall.io.{}.bytes = ringfall.timeline.*.tiers.storage.{}.bytes
ringfall.io.{}.bytes = ringfall.drives.*.{}.bytes
ringfall.io.{}.bytes = ringfall.merged.ranks.*.{}_bytes
ringfall.io.{}.count = #io_{}
ringfall.io.{}.count = ringfall.io.{}.sizes.*.count
ringfall.io.{}.count = ringfall.timeline.*.io_{}_buckets.*.1
ringfall.io.{}.count = ringfall.drives.*.{}.count
ringfall.io.flush.count = #io_flush
ringfall.io.flush.count = ringfall.drives.*.flushes
ringfall.objects.requests = ringfall.objects.endpoints.*.requests
ringfall.config.num_gpus = ringfall.config.settings.num_gpus
ringfall.config.tensor_parallel = ringfall.config.settings.tensor_parallel
ringfall.config.max_inflight_requests = ringfall.config.settings.max_inflight_requests
ringfall.config.dedupe_ratio = ringfall.config.settings.dedupe_ratio
ringfall.config.compress_ratio = ringfall.config.settings.compress_ratio
ringfall.config.shards = ringfall.config.settings.shards
ringfall.validation.measured_hit_rate = ringfall.cache.hit_rate
ringfall.validation.measured_hit_rate = validation.comparison.cache_hit_rate.benchmark
ringfall.validation.recorded_hit_rate = validation.comparison.cache_hit_rate.trace
ringfall.validation.recorded_hit_rate = validation.trace_stats.cache_hit_rate
ringfall.validation.recorded_requests = validation.trace_stats.total_requests
ringfall.autoscaler.peak_users = summary.autoscaling_summary.peak_user_count
seed = ringfall.config.seed
ringfall.config.seed = ringfall.config.settings.seed unless ringfall.rank, ringfall.merged
ringfall.config.num_users = ringfall.config.settings.num_users unless ringfall.config.autoscaler, \
    ringfall.merged
ringfall.config.duration_s = ringfall.config.settings.duration
ringfall.cache.written_bytes <= summary.cache_stats.total_write_bytes
summary.cache_stats.total_write_bytes <= ringfall.cache.written_bytes + \
    ringfall.cache.ingested_bytes
ringfall.cache.writes <= summary.cache_stats.write_iops
summary.cache_stats.write_iops <= ringfall.cache.writes + ringfall.cache.ingested_chunks
ringfall.cache.cpu_read_bytes <= summary.cache_stats.total_read_bytes
ringfall.timeline.*.tiers.cpu.write.bytes <= summary.cache_stats.tier_cpu_kv_bytes_written_gb
ringfall.timeline.*.tiers.gpu.write.bytes <= summary.cache_stats.tier_gpu_kv_bytes_written_gb
ringfall.timeline.*.tiers.gpu.read.bytes <= summary.cache_stats.tier_gpu_kv_bytes_read_gb
ringfall.cache.prompt_hits <= summary.cache_stats.system_prompt_hits
ringfall.cache.own_turn_reads <= summary.cache_stats.decode_reads
ringfall.cache.own_turn_read_bytes <= summary.cache_stats.decode_bytes_read_gb
summary.cache_stats.decode_reads <= summary.cache_stats.cache_hits
ringfall.cache.looks_found <= ringfall.cache.looks
ringfall.io.{}.entry_bytes <= ringfall.io.{}.bytes
ringfall.io.first_touch_bytes <= ringfall.io.write.bytes
ringfall.errors.requests_refused <= ringfall.workload.requests_refused
ringfall.verify.blocks_bad <= ringfall.verify.blocks_checked
ringfall.cost.cpu_throttled_periods <= ringfall.cost.cpu_quota_periods
#wait_growth <= #wait_room
ringfall.engine.shards.*.largest_free_blocks <= ringfall.engine.shards.*.free_blocks
ringfall.engine.shards.*.free_blocks <= ringfall.engine.shards.*.leased_blocks
ringfall.device.series: read_bytes + write_bytes = size_mean_bytes * reads + writes
ringfall.queue_depth.steps: ios = per_s * seconds
ringfall.drives: {}.bytes = {}.gib_per_s * /ringfall.window.seconds unless ringfall.merged
ringfall.drives: {}.count = {}.per_s * /ringfall.window.seconds unless ringfall.merged
";

/// Figures of the steps of an autoscaler's search, in each of the two lists of them.
const STEPS: [&str; 2] = ["summary.autoscaling_stats", "ringfall.autoscaler.curve"];
const STEP_FIGURES: [[&str; 2]; 5] = [
    ["users", "users"],
    ["saturation_level", "saturation"],
    ["throughput_tokens_per_sec", "tokens_per_s"],
    ["read_latency_p95_ms", "read_ms.1"],
    ["write_latency_p95_ms", "write_ms.1"],
];

/// Lists with percentiles that no histogram is kept for.
const ROWS: [&str; 4] = [
    "ringfall.timeline",
    "ringfall.drives",
    "ringfall.queue_depth.steps",
    "ringfall.files.operations",
];
/// Percentiles of which the first is no more than the second.
const ASCENDING: [[&str; 2]; 3] = [["p50", "p95"], ["p95", "p99"], ["p50", "p99"]];

/// Share by which two counts of a disk may part that were read one after the other, and the least
/// that are compared: I/Os may have ended between.
const APART: f64 = 0.1;
/// Shortest window in which they part by no more, s.
const COUNTED_S_MIN: f64 = 1.0;
const COUNT_MIN: f64 = 100.0;
/// As many of 1 MiB.
const BYTES_MIN: f64 = COUNT_MIN * MIB as f64;

/// Holds all of them against each other, as far as the document has them.
pub(super) fn all(document: &Value, histograms: Option<&Histograms>, pairs: &mut Pairs<'_>) {
    for line in RULES.lines() {
        let (line, exceptions) = line.split_once(" unless ").unwrap_or((line, ""));
        let is_there = |place| at(document, place).is_some_and(|value| !value.is_null());
        if exceptions.split(", ").any(is_there) {
            continue;
        }
        let directions: &[&str] = if line.contains("{}") { &["read", "write"] } else { &[""] };
        for direction in directions {
            let line = line.replace("{}", direction);
            match line.split_once(": ") {
                Some((list, rule)) => product(document, list, rule, pairs),
                None => sum_of(document, histograms, &line, pairs),
            }
        }
    }
    steps(document, pairs);
    disks(document, pairs);
    seconds(document, pairs);
    for list in ROWS {
        at(document, list).into_iter().for_each(|rows| ascending(list, rows, pairs));
    }
}

/// A figure that is the sum of others, or at most that.
fn sum_of(document: &Value, histograms: Option<&Histograms>, rule: &str, pairs: &mut Pairs<'_>) {
    let figure = |place: &str| known(document, histograms, place);
    let (bound, same) = (rule.split_once(" <= "), rule.split_once(" = "));
    let (one, others) = bound.or(same).expect("each rule has a `=` or a `<=`");
    let others: Vec<&str> = others.split(" + ").collect();
    let (place, words) = (told(one), together(&others));
    let sum = others.into_iter().map(figure).sum();
    let (one, other) = ((&*place, figure(one)), (&*words, sum));
    match bound {
        Some(_) => pairs.at_most(one, other, 1.0),
        None => pairs.same(one, other),
    }
}

/// A sum in each row of a list that is a mean or a rate times another sum.
fn product(document: &Value, list: &str, rule: &str, pairs: &mut Pairs<'_>) {
    let (terms, product) = rule.split_once(" = ").expect("each rule of rows has a `=`");
    let (mean, counts) = product.split_once(" * ").expect("each rule of rows has a `*`");
    for (number, row) in at(document, list).into_iter().flat_map(values).enumerate() {
        let figure = |key: &str| match key.strip_prefix('/') {
            Some(place) => number_at(document, place),
            None => number_at(row, key),
        };
        let sum = |keys: &str| keys.split(" + ").map(figure).sum::<Option<f64>>();
        let bytes_per_unit = if mean.contains("gib") { GIB as f64 } else { 1.0 };
        let product = figure(mean).zip(sum(counts));
        let product = product.map(|(mean, count)| mean * bytes_per_unit * count);
        let place = format!("`{}` of `{list}.{number}`", terms.replace(" + ", "` and `"));
        let words = counts.trim_start_matches('/').replace(" + ", "` and `");
        pairs.same((&place, sum(terms)), (&format!("its `{mean}` by `{words}`"), product));
    }
}

/// The steps of a search, where both lists have all of them.
fn steps(document: &Value, pairs: &mut Pairs<'_>) {
    let [stats, curve] =
        STEPS.map(|list| at(document, list).into_iter().flat_map(values).collect::<Vec<_>>());
    for (number, rows) in stats.iter().zip(&curve).enumerate() {
        for keys in STEP_FIGURES.iter().filter(|_| stats.len() == curve.len()) {
            let [one, other] = [0, 1].map(|of| format!("`{}.{number}.{}`", STEPS[of], keys[of]));
            let figures = (number_at(rows.0, keys[0]), number_at(rows.1, keys[1]));
            pairs.same((&one, figures.0), (&other, figures.1));
        }
    }
}

/// The kernel's counts of one disk in several places, which older versions read one after the
/// other. In merged results each place has its own rule.
fn disks(document: &Value, pairs: &mut Pairs<'_>) {
    let seconds = number_at(document, "ringfall.window.seconds").unwrap_or(0.0);
    let is_judged = seconds >= COUNTED_S_MIN && at(document, "ringfall.merged").is_none();
    let whole = at(document, "ringfall.device.kernel").and_then(Value::as_object);
    let Some(whole) = whole.filter(|_| is_judged) else { return };
    let chain = at(document, "ringfall.device.chain").into_iter().flat_map(values);
    let drives = at(document, "ringfall.drives").into_iter().flat_map(values);
    let chain = chain.map(|row| ("ringfall.device.chain", row));
    let drives = drives.filter_map(|row| Some(("ringfall.drives", row.get("kernel")?)));
    for (list, row) in
        chain.chain(drives).filter(|(_, row)| row.get("device") == whole.get("device"))
    {
        for (key, value) in whole.iter().filter(|(key, _)| !key.ends_with("_ms")) {
            let Some((is, other)) = value.as_f64().zip(number_at(row, key)) else { continue };
            let least = if key.ends_with("_bytes") { BYTES_MIN } else { COUNT_MIN };
            if is.max(other) >= least && !are_alike(is, other, APART) {
                let words = format!("the same of that disk in `{list}`");
                pairs.push(
                    (&format!("`ringfall.device.kernel.{key}`"), is),
                    (&words, other),
                    false,
                );
            }
        }
    }
}

/// Lengths of the rows of a run, and the times at which they end. Rows of merged results may have
/// gaps between them.
fn seconds(document: &Value, pairs: &mut Pairs<'_>) {
    let rows = at(document, "ringfall.timeline").into_iter().flat_map(values);
    let mut before_s = Some(0.0);
    let is_merged = at(document, "ringfall.merged").is_some();
    for (number, row) in rows.enumerate().filter(|_| !is_merged) {
        let end_s = number_at(row, "end_s");
        let length_s = end_s.zip(before_s).map(|(end_s, before_s)| end_s - before_s);
        let key = format!("`ringfall.timeline.{number}.seconds`");
        pairs.same((&key, number_at(row, "seconds")), ("the time since the row before", length_s));
        before_s = end_s;
    }
}

/// Percentiles of which a lower one is larger, in a row and in all that is in it.
fn ascending(path: &str, value: &Value, pairs: &mut Pairs<'_>) {
    for (number, row) in value.as_array().into_iter().flatten().enumerate() {
        ascending(&format!("{path}.{number}"), row, pairs);
    }
    for (key, part) in value.as_object().into_iter().flatten() {
        ascending(&format!("{path}.{key}"), part, pairs);
        for [low, high] in ASCENDING.iter().filter(|[low, _]| key.contains(low)) {
            let higher = key.replace(low, high);
            let (one, other) = (format!("`{path}.{key}`"), format!("`{path}.{higher}`"));
            pairs.at_most((&one, part.as_f64()), (&other, number_at(value, &higher)), 1.0);
        }
    }
}

/// Places in words, as in a sentence: that of a sum.
fn together(places: &[&str]) -> String {
    let words = places.iter().map(|place| told(place)).collect::<Vec<_>>().join(" and ");
    if places.len() > 1 { format!("{words} together") } else { words }
}

fn told(place: &str) -> String {
    if let Some(histogram) = place.strip_prefix('#') {
        return format!("the count of `ringfall.histograms.{histogram}`");
    }
    match place.split_once(".*.") {
        Some((list, figure)) => format!("the sum of `{figure}` over `{list}`"),
        None if place.ends_with("_gb") => format!("`{place}` in bytes"),
        None => format!("`{place}`"),
    }
}

/// Figure at a place; `None` where it, or one of those that it is the sum of, is unknown. GiB are
/// in bytes.
fn known(document: &Value, histograms: Option<&Histograms>, place: &str) -> Option<f64> {
    if let Some(name) = place.strip_prefix('#') {
        return Some(histograms?.get(name)?.count() as f64);
    }
    let Some((list, figure)) = place.split_once(".*.") else {
        let bytes_per_unit = if place.ends_with("_gb") { GIB as f64 } else { 1.0 };
        return Some(number_at(document, place)? * bytes_per_unit);
    };
    let rows = at(document, list)?;
    sum(rows, figure).filter(|_| values(rows).next().is_some())
}

/// Sum of a figure over rows, or over the rows in each of them.
fn sum(rows: &Value, figure: &str) -> Option<f64> {
    let of_row = |row| match figure.split_once(".*.") {
        Some((list, figure)) => sum(at(row, list)?, figure),
        None => number_at(row, figure),
    };
    values(rows).map(of_row).sum()
}

/// Value at a path of keys and indices.
fn at<'a>(value: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.').try_fold(value, |value, key| match key.parse::<usize>() {
        Ok(index) => value.get(index),
        Err(_) => value.get(key),
    })
}

fn number_at(value: &Value, path: &str) -> Option<f64> {
    at(value, path)?.as_f64()
}

/// Rows of a list, or of an object that has one under each name.
fn values(rows: &Value) -> impl Iterator<Item = &Value> {
    let (list, named) = (rows.as_array(), rows.as_object());
    list.into_iter().flatten().chain(named.into_iter().flat_map(|named| named.values()))
}
