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
use super::histograms::{CLASSES, Histograms};
use super::timeline::{SecondReport, SecondTierDirection};
use super::{Document, DriveDirection, DriveReport, IoDirection};
use crate::Code;
use crate::health::Measure;

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
    #[must_use]
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
#[must_use]
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
#[must_use]
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

/// Sum of a count over all rows; `None` without rows, or where a row lacks the count.
fn sum<T>(rows: &[T], count: impl Fn(&T) -> Option<u64>) -> Option<f64> {
    let all: Option<f64> = rows.iter().map(|row| Some(count(row)? as f64)).sum();
    all.filter(|_| !rows.is_empty())
}

/// Counts that stand in more than one place.
fn counts(document: &Document, histograms: Option<&Histograms>, found: &mut Vec<Contradiction>) {
    let mut pairs = Pairs(found);
    let events = |names: &[&str]| {
        let all = histograms.and_then(|histograms| histograms.sum(names));
        all.map(|all| all.count() as f64)
    };
    of_the_requests(document, events(&CLASSES), &mut pairs);
    of_the_bytes(document, &mut pairs);
    of_the_phases(document, &mut pairs);
    of_the_io(document, [events(&["io_read"]), events(&["io_write"])], &mut pairs);
    of_the_steadiness(document, &mut pairs);
    of_the_kernel(document, &mut pairs);
    of_the_verdict(document, &mut pairs);
    of_the_settings(document, &mut pairs);
    conclusions::all(document, &mut pairs);
    if let Ok(summary) = serde_json::to_value(&document.summary) {
        negative("summary", &summary, &mut pairs);
    }
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

fn of_the_requests(document: &Document, ended: Option<f64>, pairs: &mut Pairs<'_>) {
    let ours = &document.ringfall;
    let requests = figure!(document.summary.total_requests);
    let tokens = figure!(document.summary.total_tokens);
    pairs.same(requests, figure!(document.requests_completed));
    pairs.same(tokens, figure!(document.total_tokens_generated));
    let hits = figure!(document.summary.multi_turn_stats.cache_hits);
    pairs.same(hits, figure!(document.multi_turn_cache_hits));
    let misses = figure!(document.summary.multi_turn_stats.cache_misses);
    pairs.same(misses, figure!(document.multi_turn_cache_misses));
    let window = figure!(document.ringfall.window.seconds);
    pairs.same(figure!(document.summary.elapsed_time), window);
    pairs.same(requests, ("the count of `ringfall.histograms.end_to_end_*`", ended));
    let rows = "the sum of `requests_completed` over `ringfall.timeline`";
    pairs.same(requests, (rows, sum(&ours.timeline, |row| row.requests_completed.known())));
    let rows = "the sum of `generated_tokens` over `ringfall.timeline`";
    pairs.same(tokens, (rows, sum(&ours.timeline, |row| row.generated_tokens.known())));
    let merged = ours.merged.as_ref();
    let rows = merged.map_or(&[][..], |merged| &merged.inputs);
    let place = "the sum of `requests_completed` over `ringfall.merged.inputs`";
    pairs.same(requests, (place, sum(rows, |row| row.requests_completed)));
}

/// An amount in GiB as bytes.
fn bytes(gib: Sum<f64>) -> Option<f64> {
    gib.known().map(|gib| gib * GIB as f64)
}

fn of_the_bytes(document: &Document, pairs: &mut Pairs<'_>) {
    let stats = &document.summary.cache_stats;
    let read = figure!(document.summary.cache_stats.total_read_bytes);
    let written = figure!(document.summary.cache_stats.total_write_bytes);
    let in_gib = "`summary.cache_stats.total_read_gb` in bytes";
    pairs.same(read, (in_gib, bytes(stats.total_read_gb)));
    let in_gib = "`summary.cache_stats.total_write_gb` in bytes";
    pairs.same(written, (in_gib, bytes(stats.total_write_gb)));
    let tiers = |tiers: [Sum<f64>; 3]| tiers.into_iter().map(bytes).sum::<Option<f64>>();
    let moved = tiers([
        stats.tier_gpu_kv_bytes_read_gb,
        stats.tier_cpu_kv_bytes_read_gb,
        stats.tier_storage_kv_bytes_read_gb,
    ]);
    let place = "the sum of `summary.cache_stats.tier_*_kv_bytes_read_gb` in bytes";
    let counted = figure!(document.ringfall.cache.moved_read_bytes);
    pairs.same((place, moved), counted);
    pairs.at_most(read, counted, IN_FLIGHT);
    let moved = tiers([
        stats.tier_gpu_kv_bytes_written_gb,
        stats.tier_cpu_kv_bytes_written_gb,
        stats.tier_storage_kv_bytes_written_gb,
    ]);
    let place = "the sum of `summary.cache_stats.tier_*_kv_bytes_written_gb` in bytes";
    pairs.same((place, moved), figure!(document.ringfall.cache.moved_write_bytes));
    let cache = &document.ringfall.cache;
    let both = cache.written_bytes.number().zip(cache.ingested_bytes.number());
    let place = "`ringfall.cache.written_bytes` and `ingested_bytes` together";
    pairs.at_most(written, (place, both.map(|(written, ingested)| written + ingested)), 1.0);
    let in_gib = "`summary.cache_stats.tier_storage_kv_bytes_read_gb` in bytes";
    let counted = figure!(document.ringfall.io.read.entry_bytes);
    pairs.same((in_gib, bytes(stats.tier_storage_kv_bytes_read_gb)), counted);
    let in_gib = "`summary.cache_stats.tier_storage_kv_bytes_written_gb` in bytes";
    let counted = figure!(document.ringfall.io.write.entry_bytes);
    pairs.same((in_gib, bytes(stats.tier_storage_kv_bytes_written_gb)), counted);
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
    let place = "`summary.cache_stats.decode_bytes_read_gb` in bytes";
    let decoded = (place, bytes(stats.decode_bytes_read_gb));
    pairs.at_most(decoded, read, DECODED);
    pairs.at_most(figure!(document.ringfall.cache.own_turn_read_bytes), decoded, 1.0);
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

/// Figures of one direction, which the part of their keys names.
struct IoFigures<'a> {
    name: &'static str,
    io: &'a IoDirection,
    engine_bytes: Sum<u64>,
    of_second: fn(&SecondReport) -> &SecondTierDirection,
    of_drive: fn(&DriveReport) -> &DriveDirection,
}

fn of_the_io(document: &Document, events: [Option<f64>; 2], pairs: &mut Pairs<'_>) {
    let ours = &document.ringfall;
    let directions = [
        IoFigures {
            name: "read",
            io: &ours.io.read,
            engine_bytes: ours.device.engine_read_bytes,
            of_second: |second| &second.tiers.storage.read,
            of_drive: |drive| &drive.read,
        },
        IoFigures {
            name: "write",
            io: &ours.io.write,
            engine_bytes: ours.device.engine_write_bytes,
            of_second: |second| &second.tiers.storage.write,
            of_drive: |drive| &drive.write,
        },
    ];
    for (direction, events) in directions.into_iter().zip(events) {
        let IoFigures { name, io, engine_bytes, of_second, of_drive } = direction;
        let place = format!("`ringfall.io.{name}.bytes`");
        let bytes = (&*place, io.bytes.number());
        let key = format!("`ringfall.device.engine_{name}_bytes`");
        pairs.same(bytes, (&key, engine_bytes.number()));
        let sizes: Vec<_> = io.sizes.values().collect();
        let key = format!("the sum of `bytes` over `ringfall.io.{name}.sizes`");
        pairs.same(bytes, (&key, sum(&sizes, |size| size.bytes.known())));
        let key = format!("the sum of `tiers.storage.{name}.bytes` over `ringfall.timeline`");
        pairs.same(bytes, (&key, sum(&ours.timeline, |row| of_second(row).bytes.known())));
        let key = format!("the sum of `{name}.bytes` over `ringfall.drives`");
        pairs.same(bytes, (&key, sum(&ours.drives, |drive| of_drive(drive).bytes.known())));
        let count = format!("`ringfall.io.{name}.count`");
        let key = format!("the sum of `{name}.count` over `ringfall.drives`");
        let counts = sum(&ours.drives, |drive| of_drive(drive).count.known());
        pairs.same((&count, io.count.number()), (&key, counts));
        let seconds = ours.window.seconds.known().filter(|_| ours.merged.is_none());
        for drive in ours.drives.iter() {
            let moved = of_drive(drive);
            let key = format!("`{name}.bytes` of {} in `ringfall.drives`", drive.path);
            let rate = moved.gib_per_s.zip(seconds).map(|(rate, s)| rate * s * GIB as f64);
            let from_rate = format!("its `{name}.gib_per_s` by the window");
            pairs.same((&key, moved.bytes.number()), (&from_rate, rate));
            let key = format!("`{name}.count` of {} in `ringfall.drives`", drive.path);
            let count = moved.per_s.zip(seconds).map(|(rate, s)| rate * s);
            let from_rate = format!("its `{name}.per_s` by the window");
            pairs.same((&key, moved.count.number()), (&from_rate, count));
        }
        let key = format!("the count of `ringfall.histograms.io_{name}`");
        pairs.same((&count, io.count.number()), (&key, events));
    }
    let rows = ours.merged.as_ref().map_or(&[][..], |merged| &merged.ranks);
    let read = "the sum of `read_bytes` over `ringfall.merged.ranks`";
    let read = (read, sum(rows, |row| row.read_bytes));
    pairs.same(figure!(document.ringfall.io.read.bytes), read);
    let written = "the sum of `write_bytes` over `ringfall.merged.ranks`";
    let written = (written, sum(rows, |row| row.write_bytes));
    pairs.same(figure!(document.ringfall.io.write.bytes), written);
}

fn of_the_steadiness(document: &Document, pairs: &mut Pairs<'_>) {
    let ours = &document.ringfall;
    let Some(steadiness) = ours.steadiness.as_ref() else { return };
    let fifths = &steadiness.fifths_gib_per_s;
    let mean = fifths.iter().sum::<f64>() / fifths.len().max(1) as f64;
    let moved = sum(&ours.timeline, |row| {
        let storage = &row.tiers.storage;
        Some(storage.read.bytes.known()?.saturating_add(storage.write.bytes.known()?))
    });
    let end_s = ours.timeline.last().and_then(|row| row.end_s.known());
    let rate = moved.zip(end_s.filter(|&end_s| end_s > 0.0));
    let rate = rate.map(|(bytes, end_s)| bytes / end_s / GIB as f64);
    let place = "the bytes of `ringfall.timeline` by its time in GiB/s";
    let fifths = "the mean of `ringfall.steadiness.fifths_gib_per_s`";
    pairs.same((fifths, Some(mean)), (place, rate));
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
fn of_the_verdict(document: &Document, pairs: &mut Pairs<'_>) {
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
    // Writes of demotions are judged too, and the key beside has none of them.
    let above = [
        stats.tier_gpu_kv_bytes_read_gb,
        stats.tier_gpu_kv_bytes_written_gb,
        stats.tier_cpu_kv_bytes_read_gb,
        stats.tier_cpu_kv_bytes_written_gb,
    ];
    let has_no_tier_above = above.iter().all(|gib| gib.known().is_some_and(|gib| gib <= 0.0));
    for criterion in health.criteria.iter().chain(&health.too_few) {
        let is_of = |what: &str| criterion.name.starts_with(what);
        let key = if is_of("Storage Tier Read Device P95") {
            "storage_read_device_p95_ms"
        } else if is_of("Storage Tier Write Device P95") && has_no_tier_above {
            "storage_write_device_p95_ms"
        } else {
            continue;
        };
        let (Measure::Number(actual), Some(ms)) = (&criterion.actual, stats.latencies_ms.get(key))
        else {
            continue;
        };
        if !are_alike(*actual, ms, BUCKETS) {
            let place = format!("the `actual` of `{}` in `storage_health`", criterion.name);
            pairs.push((&place, *actual), (&format!("`summary.cache_stats.{key}`"), ms), false);
        }
    }
}

/// Compares the settings that a result holds twice: as figures and as they would be typed.
fn of_the_settings(document: &Document, pairs: &mut Pairs<'_>) {
    let ours = &document.ringfall;
    let Some(config) = ours.config.as_ref() else { return };
    if let (Some(is), Some(should)) = (document.seed.known(), config.seed)
        && is != should
    {
        pairs.push(("`seed`", is as f64), ("`ringfall.config.seed`", should as f64), false);
    }
    let setting = |key: &str| config.settings.get(key).and_then(Value::as_u64);
    let is_merged = ours.merged.is_some();
    // An autoscaler begins with users of its own, and a rank adds its number to the seed; merged
    // results may no longer say that there was one.
    let has_own_users = config.autoscaler.is_some() || is_merged;
    let has_own_seed = ours.rank.as_ref().is_some() || is_merged;
    for (key, one, name, skipped) in [
        ("num_users", config.num_users.map(u64::from), "num_users", has_own_users),
        ("seed", config.seed, "seed", has_own_seed),
        ("duration_s", config.duration_s, "duration", false),
    ] {
        let (Some(is), Some(should)) = (one, setting(name)) else { continue };
        if is != should && !skipped {
            pairs.push(
                (&format!("`ringfall.config.{key}`"), is as f64),
                (&format!("`ringfall.config.settings.{name}`"), should as f64),
                false,
            );
        }
    }
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
