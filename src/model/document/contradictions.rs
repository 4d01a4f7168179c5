//! Whether a result says the same wherever it says something twice: its summary, histograms, rows
//! of seconds, drives and ranks, and the kernel's counters. A file changed by hand seldom does.
//!
//! Two looks. Counts that stand in several places are held against each other (`counts`). What is
//! worked out from other figures is worked out anew and compared (`worked_out`). Both hold for
//! every version of the program, as results of another layout are not read. A figure that is not
//! there contradicts nothing, so the reference's own results have hardly a contradiction.

use std::fmt;
use std::path::Path;

use ringfall_core::units::GIB;
use serde_json::Value;

use super::conclusions;
use super::figure::Sum;
use super::histograms::Histograms;
use super::latency::ms;
use super::{CacheStatsReport, Document, DriveReport, ThroughputSecond, told_twice};
use crate::Code;
use crate::health::{Criterion, Measure};

/// Share by which two of the same count may part: what is left when doubles are added in another
/// order, or written by a program that keeps fewer of their digits.
pub(super) const ROUNDING: f64 = 1e-6;
/// Share by which a figure may part from what it is worked out from: a histogram's buckets are
/// 0.1 % wide, and either end of one may stand for it.
pub(super) const BUCKETS: f64 = 0.002;
/// Factor by which bytes of decode reads may exceed those of all reads, of which they are a part,
/// or fall short of them: both are counted when a read ends, by the same clock, and only a read
/// that ends at an edge of the window could be on one side of it for one count alone. The same
/// holds for writes.
const DECODED: f64 = 1.02;
/// Factor by which bytes of operations that ended in the window may exceed those of its I/Os: the
/// I/Os of an operation that began before the window may have completed before it too. In a short
/// window with a deep queue that is much, and never as much again as the window's own.
const IN_FLIGHT: f64 = 2.0;
/// Share by which the kernel may have counted less before a run says so itself.
const KERNEL: f64 = 0.01;
/// Place of what is worked out anew.
const WORKED_OUT: &str = "the counts and histograms of the same file";

/// A figure, and where a result says it.
#[derive(Clone, Debug, PartialEq)]
pub struct Claim {
    /// Place of the figure: a key in backquotes, or what of a key was added up.
    pub place: String,
    /// Value that the result gives there.
    pub value: f64,
}

/// Two figures of one result of which only one can be true.
#[derive(Clone, Debug, PartialEq)]
pub struct Contradiction {
    /// The figure that more readers look at.
    pub one: Claim,
    /// The figure that it does not agree with.
    pub other: Claim,
    /// Whether the first may be anything up to the second; otherwise they should be equal.
    pub is_bound: bool,
}

impl Contradiction {
    /// Share of the larger figure by which they part, from 0 to 1.
    pub fn share(&self) -> f64 {
        let (one, other) = (self.one.value.abs(), self.other.value.abs());
        (self.one.value - self.other.value).abs() / one.max(other).max(f64::MIN_POSITIVE)
    }
}

impl fmt::Display for Contradiction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let most = if self.is_bound { "at most " } else { "" };
        let (one, other) = (&self.one, &self.other);
        write!(f, "{} says {}, and {} {most}{}", one.place, one.value, other.place, other.value)
    }
}

/// Warning text for a result that contradicts itself; `None` without contradictions.
pub fn told(all: &[Contradiction]) -> Option<String> {
    let first = all.first()?;
    let more = match all.len() - 1 {
        0 => String::new(),
        1 => " (and 1 more contradiction)".to_owned(),
        more => format!(" (and {more} more contradictions)"),
    };
    Some(format!(
        "this result contradicts itself: {first}{more}; it was changed after the run, or is \
         damaged, so believe neither figure and run it again"
    ))
}

/// All contradictions of a result, those of counts first.
pub fn contradictions(document: &Document) -> Vec<Contradiction> {
    let mut found = Vec::new();
    // One that is damaged is told by whoever needs it.
    let histograms = Histograms::read(document, Path::new("")).ok();
    counts(document, histograms.as_ref(), &mut found);
    if let Some(histograms) = histograms {
        worked_out(document, &histograms, &mut found);
    }
    found
}

/// Pairs of figures of which both are known.
pub(super) struct Pairs<'a>(&'a mut Vec<Contradiction>);

impl Pairs<'_> {
    pub(super) fn push(&mut self, one: (&str, f64), other: (&str, f64), is_bound: bool) {
        let claim = |(place, value): (&str, f64)| Claim { place: place.to_owned(), value };
        self.0.push(Contradiction { one: claim(one), other: claim(other), is_bound });
    }

    /// Both are the same count.
    pub(super) fn same(&mut self, one: (&str, Option<f64>), other: (&str, Option<f64>)) {
        let (Some(is), Some(should)) = (one.1, other.1) else { return };
        if !are_alike(is, should, ROUNDING) {
            self.push((one.0, is), (other.0, should), false);
        }
    }

    /// Both are worked out from the same latencies.
    pub(super) fn alike(&mut self, one: (&str, Option<f64>), other: (&str, Option<f64>)) {
        let (Some(is), Some(should)) = (one.1, other.1) else { return };
        if !are_alike(is, should, BUCKETS) {
            self.push((one.0, is), (other.0, should), false);
        }
    }

    /// The first is no more than the second.
    pub(super) fn at_most(
        &mut self,
        one: (&str, Option<f64>),
        other: (&str, Option<f64>),
        factor: f64,
    ) {
        let (Some(is), Some(most)) = (one.1, other.1) else { return };
        if is > most * factor * (1.0 + ROUNDING) {
            self.push((one.0, is), (other.0, most), true);
        }
    }
}

pub(super) fn are_alike(one: f64, other: f64, tolerance: f64) -> bool {
    (one - other).abs() <= tolerance * one.abs().max(other.abs())
}

/// A figure of the document: its key in backquotes, and its value.
macro_rules! figure {
    ($document:ident.$first:ident $(.$key:ident)*) => {
        (
            concat!("`", stringify!($first), $(".", stringify!($key),)* "`"),
            $document.$first$(.$key)*.number(),
        )
    };
}

/// Counts that stand in more than one place.
fn counts(document: &Document, histograms: Option<&Histograms>, found: &mut Vec<Contradiction>) {
    let mut pairs = Pairs(found);
    if let Ok(value) = serde_json::to_value(document) {
        told_twice::all(&value, histograms, &mut pairs);
        negative("summary", &value["summary"], &mut pairs);
    }
    of_the_phases(document, &mut pairs);
    of_the_drives(document, &mut pairs);
    of_the_kernel(document, &mut pairs);
    of_the_verdict(document, histograms, &mut pairs);
    conclusions::all(document, &mut pairs);
}

/// Amounts, times and shares below 0.
fn negative(path: &str, value: &Value, pairs: &mut Pairs<'_>) {
    match value {
        Value::Object(parts) => {
            for (name, part) in parts {
                negative(&format!("{path}.{name}"), part, pairs);
            }
        }
        Value::Number(number) => {
            if let Some(number) = number.as_f64().filter(|number| *number < 0.0) {
                pairs.push(
                    (&format!("`{path}`"), number),
                    ("the smallest possible value", 0.0),
                    false,
                );
            }
        }
        _ => {}
    }
}

/// An amount in GiB as bytes.
fn bytes(gib: Sum<f64>) -> Option<f64> {
    gib.known().map(|gib| gib * GIB as f64)
}

/// Bytes of decode reads and of prefill writes: no more than those of all, and no less than what
/// nothing else can have moved.
fn of_the_phases(document: &Document, pairs: &mut Pairs<'_>) {
    let (stats, cache) = (&document.summary.cache_stats, &document.ringfall.cache);
    // Of a read or write that failed only one of the two may know.
    let is_count = |one: Sum<u64>, other: Sum<u64>| {
        let both = one.number().zip(other.number());
        both.is_some_and(|(one, other)| are_alike(one, other, DECODED - 1.0))
    };
    let read = figure!(document.summary.cache_stats.total_read_bytes);
    pairs.at_most(read, figure!(document.ringfall.cache.moved_read_bytes), IN_FLIGHT);
    let place = "`summary.cache_stats.decode_bytes_read_gb` in bytes";
    let decoded = (place, bytes(stats.decode_bytes_read_gb));
    pairs.at_most(decoded, read, DECODED);
    let others = stats.cache_hits.number().zip(stats.decode_reads.number());
    let others = others.map(|(all, decodes)| all - decodes);
    if is_count(stats.read_iops, stats.cache_hits) && cache.prompt_hits.number() == others {
        let prompts = others.zip(prompt_bytes_max(document)).map(|(count, each)| count * each);
        let least = read.1.zip(prompts).map(|(read, prompts)| read - prompts);
        let place = "`summary.cache_stats.total_read_bytes` without shared prompts";
        pairs.at_most((place, least), decoded, DECODED);
    }
    let written = figure!(document.summary.cache_stats.total_write_bytes);
    let place = "`summary.cache_stats.prefill_bytes_written_gb` in bytes";
    let prefilled = (place, bytes(stats.prefill_bytes_written_gb));
    if is_count(stats.write_iops, stats.prefill_writes) {
        pairs.at_most(prefilled, written, DECODED);
        pairs.at_most(written, prefilled, DECODED);
    }
}

/// Bytes of the longest shared prompt, by those of a token that storage moved; 0 without prompts.
fn prompt_bytes_max(document: &Document) -> Option<f64> {
    let (ours, stats) = (&document.ringfall, &document.summary.cache_stats);
    if ours.cache.prompt_hits.known() == Some(0) {
        return Some(0.0);
    }
    let settings = &ours.config.as_ref()?.settings;
    let tokens_max = settings.get("workload")?.get("system_prompt_tokens")?.get(1)?.as_f64()?;
    let moved = ours.io.read.entry_bytes.number()? + ours.io.write.entry_bytes.number()?;
    let tokens = stats.storage_tokens_processed.known().filter(|&tokens| tokens > 0.0)?;
    // Bytes of an operation in flight may be on one side of the window's edge alone.
    Some(tokens_max * IN_FLIGHT * moved / tokens)
}

/// Figures of each drive that follow from others of its row, and from the window. Merged results
/// had windows of their own, which are not known.
fn of_the_drives(document: &Document, pairs: &mut Pairs<'_>) {
    let ours = &document.ringfall;
    let Some(seconds) = document.seconds().filter(|_| ours.merged.is_none()) else { return };
    let moved = |drive: &DriveReport| {
        let both = drive.read.bytes.number().zip(drive.write.bytes.number());
        both.map(|(read, written)| read + written)
    };
    let all: Option<f64> = ours.drives.iter().map(moved).sum();
    for drive in ours.drives.iter() {
        let key = |name: &str| format!("`{name}` of {} in `ringfall.drives`", drive.path);
        let mut busy_us = Some(0.0);
        for io in [&drive.read, &drive.write] {
            let count = io.count.number();
            // Without I/Os there is no mean.
            let sum_us = count.filter(|&count| count <= 0.0);
            let sum_us = sum_us.or(count.zip(io.latency_mean_us).map(|(count, us)| count * us));
            busy_us = busy_us.zip(sum_us).map(|(one, other)| one + other);
        }
        let depth = busy_us.map(|us| us / 1e6 / seconds);
        let words = "the sum of its latencies by the window";
        pairs.same((&key("mean_depth"), drive.mean_depth), (words, depth));
        let share = moved(drive).zip(all).map(|(bytes, all)| bytes / all);
        pairs.same((&key("share"), drive.share), ("that of its bytes", share));
    }
    if let [drive] = &ours.drives[..] {
        for (name, io, all) in
            [("read", &drive.read, &ours.io.read), ("write", &drive.write, &ours.io.write)]
        {
            let Some(latency) = all.latency_ms.as_ref() else { continue };
            let all = &latency.percentiles;
            for (key, us, ms) in [
                ("p50", io.latency_p50_us, all.p50),
                ("p95", io.latency_p95_us, all.p95),
                ("p99", io.latency_p99_us, all.p99),
            ] {
                let place = format!("`{name}.latency_{key}_us` of {}", drive.path);
                let other = format!("`ringfall.io.{name}.latency_ms.{key}` in µs");
                pairs.alike((&place, us), (&other, ms.known().map(|ms| ms * 1e3)));
            }
        }
    }
}

/// A run whose bytes the kernel did not count says so, in a warning.
fn of_the_kernel(document: &Document, pairs: &mut Pairs<'_>) {
    let ours = &document.ringfall;
    let says = [Code::KernelDisagrees, Code::ReadsCached, Code::ReadsUnseen];
    if ours.warnings.iter().any(|warning| says.contains(&warning.code)) {
        return;
    }
    let Some(kernel) = &ours.device.kernel else { return };
    let place = "the kernel's count, `ringfall.device.kernel.write_bytes`,";
    let counted = (place, kernel.write_bytes.number());
    pairs.at_most(figure!(document.ringfall.io.write.bytes), counted, 1.0 / (1.0 - KERNEL));
}

/// The verdict on the storage, its criteria, and the figures that they were judged by.
fn of_the_verdict(document: &Document, histograms: Option<&Histograms>, pairs: &mut Pairs<'_>) {
    let stats = &document.summary.cache_stats;
    let Some(health) = stats.storage_health.as_ref() else { return };
    let passed = health.criteria.iter().filter(|criterion| criterion.passed).count();
    let total = health.criteria.len();
    let mut of_health = |key: &str, says: f64, what: &str, counted: f64| {
        let key = format!("`summary.cache_stats.storage_health.{key}");
        pairs.same((&key, Some(says)), (what, Some(counted)));
    };
    let says = health.passed_count as f64;
    of_health("passed_count`", says, "the number of its `criteria` that `passed`", passed as f64);
    let says = health.total_count as f64;
    of_health("total_count`", says, "the number of its `criteria`", total as f64);
    let one_if = |is: bool| f64::from(u8::from(is));
    of_health(
        "overall_status` (1 for PASS, 0 for any other)",
        one_if(health.overall_status == "PASS"),
        "the `passed` of all its `criteria`",
        // Without one of the storage tier they decide nothing.
        one_if(total > 0 && passed == total && health.overall_status != "NO DATA"),
    );
    for criterion in health.criteria.iter().chain(&health.too_few) {
        of_the_criterion(criterion, stats, histograms, pairs);
    }
}

/// A criterion, and what it was judged by.
fn of_the_criterion(
    criterion: &Criterion,
    stats: &CacheStatsReport,
    histograms: Option<&Histograms>,
    pairs: &mut Pairs<'_>,
) {
    let name = &criterion.name;
    let (Measure::Number(actual), Measure::Number(target)) = (&criterion.actual, &criterion.target)
    else {
        return;
    };
    let is_met = match name.contains(" <") {
        true => actual < target || (name.contains("<=") && actual <= target),
        false => actual > target,
    };
    let one_if = |is: bool| Some(f64::from(u8::from(is)));
    let of = |key: &str| format!("the `{key}` of `{name}` in `storage_health`");
    let words = "its `actual` and `target` (1 if it was met)";
    pairs.same((&of("passed"), one_if(criterion.passed)), (words, one_if(is_met)));
    let limit = name.rsplit(' ').next().unwrap_or_default();
    let percent = limit.strip_suffix('%').and_then(|text| text.parse().ok());
    let named = limit.strip_suffix("ms").and_then(|text| text.parse().ok());
    let named = named.or(percent.map(|percent: f64| percent / 100.0));
    pairs.same((&of("target"), Some(*target)), ("that of its name", named));
    // Writes of demotions are judged too.
    let latencies: &[&str] = if name.starts_with("Storage Tier Read Device P95") {
        &["storage_read_device"]
    } else if name.starts_with("Storage Tier Write Device P95") {
        &["storage_write_device", "evict_cpu_to_storage_write", "evict_gpu_to_storage_write"]
    } else if name.starts_with("CPU RAM P95") {
        &["cpu_read_total", "cpu_write_total"]
    } else if name.starts_with("Cache Hit Rate") {
        let looks = stats.cache_hits.number().zip(stats.cache_misses.number());
        let (place, rate) = ("`summary.cache_stats.cache_hit_rate`", stats.cache_hit_rate.known());
        pairs.same((&of("actual"), Some(*actual)), (place, rate));
        let place = "`summary.cache_stats.cache_hits` and `cache_misses` together";
        let samples = criterion.samples.map(|samples| samples as f64);
        return pairs.same((&of("samples"), samples), (place, looks.map(|(hit, miss)| hit + miss)));
    } else {
        return;
    };
    let Some(all) = histograms.and_then(|histograms| histograms.sum(latencies)) else { return };
    let place = format!("`ringfall.histograms.{}`", latencies.join("` and `"));
    let p95 = (&*format!("the P95 of {place}"), all.quantile_ns(0.95).map(ms));
    pairs.alike((&of("actual"), Some(*actual)), p95);
    let samples = (&*of("samples"), criterion.samples.map(|samples| samples as f64));
    pairs.same(samples, (&format!("the count of {place}"), Some(all.count() as f64)));
}

/// Figures that are worked out from others, worked out anew.
fn worked_out(document: &Document, histograms: &Histograms, found: &mut Vec<Contradiction>) {
    let mut anew = document.clone();
    anew.derive(histograms, &[]);
    // What grows with the run is not worked out, and is most of the document.
    let (said, anew) = (document.clone().outline(), anew.outline());
    if let (Ok(said), Ok(anew)) = (serde_json::to_value(&said), serde_json::to_value(&anew)) {
        differing("", &said, &anew, found);
    }
    // Rows of merged results were worked out from those of each.
    let rows = ThroughputSecond::of(&document.ringfall.timeline);
    if document.ringfall.merged.is_none()
        && let Ok(said) = serde_json::to_value(&document.throughput_timeline)
        && let Ok(anew) = serde_json::to_value(&rows)
    {
        differing("throughput_timeline", &said, &anew, found);
    }
}

/// Numbers of which there are two, as far as both are known.
fn differing(path: &str, said: &Value, anew: &Value, found: &mut Vec<Contradiction>) {
    let below = |name: &str| match path {
        "" => name.to_owned(),
        path => format!("{path}.{name}"),
    };
    match (said, anew) {
        (Value::Object(said), Value::Object(anew)) => {
            for (name, value) in said {
                if let Some(other) = anew.get(name) {
                    differing(&below(name), value, other, found);
                }
            }
        }
        (Value::Array(said), Value::Array(anew)) if said.len() == anew.len() => {
            for (index, (value, other)) in said.iter().zip(anew).enumerate() {
                differing(&below(&index.to_string()), value, other, found);
            }
        }
        (Value::Number(said), Value::Number(anew)) => {
            let (Some(is), Some(should)) = (said.as_f64(), anew.as_f64()) else { return };
            if !are_alike(is, should, BUCKETS) {
                Pairs(found).push((&format!("`{path}`"), is), (WORKED_OUT, should), false);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
#[path = "contradictions_test.rs"]
mod tests;
