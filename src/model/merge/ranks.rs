//! Ranks of one launch: whether results are that, how they compare with each other, and what a
//! reader should know of them.

use std::collections::{BTreeMap, BTreeSet};

use crate::document::{HostRow, Launch, RankReport, RankRow};
use crate::stats;
use crate::{Code, Document, Warning};

/// A rank that moves less than this share of the median is a straggler.
const STRAGGLER_SHARE: f64 = 0.8;
/// Reasons why ranks ended early that are told, at the most.
const REASONS_MAX: usize = 3;
/// Ranks without a result that are named, at the most.
const MISSING_MAX: usize = 1_000;
/// Ranks that fell behind and are named in the warning, at the most; the rows have all of them.
const STRAGGLERS_NAMED_MAX: usize = 8;
/// Share of the whole time that all ranks measured; below it, they did not measure one system
/// under one load.
const OVERLAP_SHARE_MIN: f64 = 0.99;

/// Whether the results are those of different ranks of one launch: the launcher's name for it says
/// so, or they measured at the same time.
pub fn is_one_launch(documents: &[&Document]) -> bool {
    let ranks: Option<Vec<&RankReport>> =
        documents.iter().map(|document| document.ringfall.rank.as_ref()).collect();
    let Some((first, rest)) = ranks.as_deref().and_then(<[_]>::split_first) else { return false };
    let numbers: BTreeSet<u32> = ranks.iter().flatten().map(|rank| rank.rank).collect();
    let is_alike = |rank: &&RankReport| rank.size == first.size && rank.launch == first.launch;
    let is_launch = numbers.len() == documents.len() && rest.iter().all(is_alike);
    is_launch && !rest.is_empty() && (first.launch.is_some() || overlap_share(documents) > 0.0)
}

/// Share of the time from the first start to the last end in which all measured.
fn overlap_share(documents: &[&Document]) -> f64 {
    let spans: Vec<(f64, f64)> = documents.iter().filter_map(|one| one.span()).collect();
    let least = |pick: fn(&(f64, f64)) -> f64| spans.iter().map(pick).fold(f64::MAX, f64::min);
    let most = |pick: fn(&(f64, f64)) -> f64| spans.iter().map(pick).fold(f64::MIN, f64::max);
    let (whole, common) =
        (most(|span| span.1) - least(|span| span.0), least(|span| span.1) - most(|span| span.0));
    match spans.len() == documents.len() && whole > 0.0 {
        true => (common / whole).max(0.0),
        false => 0.0,
    }
}

/// A row for each rank, by its number.
#[must_use]
pub fn rows(documents: &[&Document]) -> Vec<RankRow> {
    let row =
        |&document: &&Document| Some(RankRow::of(&(document, document.ringfall.rank.as_ref()?)));
    let mut rows: Vec<RankRow> = documents.iter().filter_map(row).collect();
    let moved: Vec<f64> = rows.iter().map(moved_bytes).collect();
    let mean = stats::mean(&moved).filter(|&mean| mean > 0.0);
    for (row, moved) in rows.iter_mut().zip(moved) {
        row.share_of_mean = mean.map(|mean| moved / mean);
    }
    rows.sort_by_key(|row| row.rank);
    rows
}

fn moved_bytes(row: &RankRow) -> f64 {
    row.read_bytes.unwrap_or(0) as f64 + row.write_bytes.unwrap_or(0) as f64
}

/// Our bytes beside the kernel's, for each device of each machine.
pub fn hosts(documents: &[&Document]) -> Vec<HostRow> {
    let mut rows: BTreeMap<(String, String), HostRow> = BTreeMap::new();
    for document in documents {
        let Some((host, device)) = document.place() else { continue };
        let row = rows.entry((host.clone(), device.clone()));
        let row = row.or_insert(HostRow { host, device, ..HostRow::default() });
        let (ours, io) = (&document.ringfall.device, &document.ringfall.io);
        let known = |bytes: Option<u64>| bytes.unwrap_or(0);
        row.ranks += 1;
        let add = |sum: &mut u64, one: Option<u64>| *sum = sum.saturating_add(known(one));
        add(&mut row.engine_read_bytes, io.read.bytes.known());
        add(&mut row.engine_write_bytes, io.write.bytes.known());
        // Each rank saw all of it, in a window of its own.
        let seen = ours.kernel.as_ref();
        let seen =
            |pick: fn(&crate::document::KernelCounters) -> Option<u64>| known(seen.and_then(pick));
        row.kernel_read_bytes = row.kernel_read_bytes.max(seen(|one| one.read_bytes.known()));
        row.kernel_write_bytes = row.kernel_write_bytes.max(seen(|one| one.write_bytes.known()));
    }
    rows.into_values().collect()
}

/// Combines the ranks of one launch.
pub fn launch(documents: &[&Document], rows: &[RankRow]) -> Launch {
    let first = documents.iter().find_map(|one| one.ringfall.rank.as_ref());
    let size = first.and_then(|rank| rank.size);
    let there: BTreeSet<u32> = rows.iter().map(|row| row.rank).collect();
    let absent = (0..size.unwrap_or(0)).filter(|rank| !there.contains(rank));
    // The size is what a file says: however large, no more are named than are of use.
    let missing: Vec<u32> = absent.take(MISSING_MAX).collect();
    let moved: Vec<f64> = rows.iter().map(moved_bytes).collect();
    let mean = stats::mean(&moved).filter(|&mean| mean > 0.0);
    let median = stats::median(&moved).unwrap_or(0.0);
    let most = moved.iter().copied().fold(0.0, f64::max);
    let slow = rows.iter().zip(&moved).filter(|(_, moved)| **moved < STRAGGLER_SHARE * median);
    Launch {
        name: first.and_then(|rank| rank.launch.clone()),
        size,
        partial: !missing.is_empty() || rows.iter().any(|row| row.failure.is_some()),
        missing,
        overlap_share: overlap_share(documents),
        imbalance: mean.map(|mean| most / mean),
        stragglers: slow.map(|(row, _)| row.rank).collect(),
    }
}

/// Warnings about the launch.
pub fn warnings(launch: &Launch, rows: &[RankRow]) -> Vec<Warning> {
    let mut warnings = Vec::new();
    let mut warn = |code: Code, text: String| {
        warnings.push(Warning { code, text, flag_to_try: None });
    };
    if let (false, Some(size)) = (launch.missing.is_empty(), launch.size) {
        let there: BTreeSet<u32> = rows.iter().map(|row| row.rank).collect();
        let missing = size as usize - there.range(..size).count();
        let unnamed = missing.saturating_sub(launch.missing.len());
        let more = if unnamed > 0 { format!(" and {unnamed} more") } else { String::new() };
        let what = format!(
            "{missing} of {size} ranks have no result here ({}{more}): what they moved is in none \
             of these figures",
            numbers(&launch.missing)
        );
        warn(Code::RanksMissing, what);
    }
    let failed: Vec<u32> =
        rows.iter().filter(|row| row.failure.is_some()).map(|row| row.rank).collect();
    if !failed.is_empty() {
        let mut reasons: Vec<&str> = rows.iter().filter_map(|row| row.failure.as_deref()).collect();
        reasons.sort_unstable();
        reasons.dedup();
        reasons.truncate(REASONS_MAX);
        let (ranks, reasons) = (numbers(&failed), reasons.join("; "));
        warn(Code::RanksFailed, format!("these ranks ended early: {ranks} ({reasons})"));
    }
    if launch.overlap_share < OVERLAP_SHARE_MIN {
        let what = format!(
            "all ranks measured at the same time for {:.1} % of the time from the first start to \
             the last end: rates over that time are too low{}",
            launch.overlap_share * 100.0,
            lengths_differ(rows)
        );
        warn(Code::WindowsApart, what);
    }
    if let Some(what) = depths_differ(rows) {
        warn(Code::DepthsDiffer, what);
    }
    if !launch.stragglers.is_empty() {
        warn(Code::Stragglers, stragglers(&launch.stragglers, rows));
    }
    warnings
}

/// That windows had different lengths although no rank ended early; else nothing.
fn lengths_differ(rows: &[RankRow]) -> String {
    let seconds = || rows.iter().filter_map(|row| row.seconds);
    let (shortest, longest) = (seconds().fold(f64::MAX, f64::min), seconds().fold(0.0, f64::max));
    match rows.iter().all(|row| row.failure.is_none()) && shortest < OVERLAP_SHARE_MIN * longest {
        true => format!(
            "; the ranks measured for {shortest:.1} to {longest:.1} s: give all of them the same \
             --duration"
        ),
        false => String::new(),
    }
}

/// Which ranks fell behind, the slowest first.
fn stragglers(numbers: &[u32], rows: &[RankRow]) -> String {
    let mut slow: Vec<&RankRow> = rows.iter().filter(|row| numbers.contains(&row.rank)).collect();
    slow.sort_by(|one, other| moved_bytes(one).total_cmp(&moved_bytes(other)));
    let named: Vec<String> = slow
        .iter()
        .take(STRAGGLERS_NAMED_MAX)
        .map(|row| format!("rank {} on {}", row.rank, row.host))
        .collect();
    let unnamed = slow.len() - named.len();
    let more = if unnamed > 0 { format!(" and {unnamed} more") } else { String::new() };
    format!(
        "{} of {} ranks moved less than {:.0} % of what the median rank moved: {}{more}",
        slow.len(),
        rows.len(),
        STRAGGLER_SHARE * 100.0,
        named.join(", ")
    )
}

/// That the ranks did not have one queue depth, where they had not.
fn depths_differ(rows: &[RankRow]) -> Option<String> {
    let mut depths: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for (depth, rank) in rows.iter().filter_map(|row| Some((row.queue_depth?, row.rank))) {
        depths.entry(depth).or_default().push(rank);
    }
    let named = depths.iter().map(|(depth, ranks)| {
        let which = if ranks.len() == 1 { "rank" } else { "ranks" };
        format!("{depth} ({which} {})", numbers(ranks))
    });
    let named = named.collect::<Vec<_>>().join(", ");
    (depths.len() > 1).then(|| {
        format!(
            "the ranks did not have one queue depth, but {named}: latencies of different depths \
             are merged; ranks that begin together search for one depth"
        )
    })
}

/// The ranks' numbers, which ascend: those that follow one another as a range.
fn numbers(ranks: &[u32]) -> String {
    let runs = ranks.chunk_by(|one, next| one.checked_add(1) == Some(*next));
    let named = runs.map(|run| match run {
        [first, .., last] if run.len() > 2 => format!("{first} to {last}"),
        _ => run.iter().map(u32::to_string).collect::<Vec<_>>().join(", "),
    });
    named.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
#[path = "ranks_test.rs"]
mod tests;
