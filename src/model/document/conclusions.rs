//! Conclusions of a result, held against the rows of the same file that they were drawn from: what
//! an autoscaler found, how far trials lie apart, whether bandwidth was steady, whether writes were
//! flushed, whether reads reached the device, whether there was a drive at all and what bound one
//! that was simulated.

use ringfall_core::units::BLOCK_BYTES;
use serde_json::Value;

use super::contradictions::{BUCKETS, Pairs, ROUNDING, are_alike};
use super::{Document, SecondReport};
use crate::Code;
use crate::cold::ColdVerdict;
use crate::facts::steady::RoundsSpread;
use crate::simulation::bound;
use crate::stats;
use crate::steadiness::{Moved, fifths};

/// Writes of entries to storage that must have brought a flush with them: fewer might have ended
/// at an edge of the window, and their flushes outside it.
const WRITES_MIN: u64 = 100;

pub(super) fn all(document: &Document, pairs: &mut Pairs<'_>) {
    of_the_trials(document, pairs);
    of_the_search(document, pairs);
    of_the_steadiness(document, pairs);
    of_the_flushes(document, pairs);
    of_the_files(document, pairs);
    of_the_cold_reads(document, pairs);
    of_the_simulation(document, pairs);
    of_the_alternatives(document, pairs);
}

/// A verdict as a number, for claims that have no other.
fn one_if(is_so: bool) -> Option<f64> {
    Some(f64::from(u8::from(is_so)))
}

/// The range of each metric of merged results, and the values beside it.
fn of_the_trials(document: &Document, pairs: &mut Pairs<'_>) {
    let merged = document.ringfall.merged.as_ref();
    for spread in merged.into_iter().flat_map(|merged| &merged.spread) {
        let values: Vec<f64> =
            spread.values.iter().chain(&spread.bounds).copied().flatten().collect();
        let (least, most) = stats::range(&values).unzip();
        for (key, is, should) in [("min", spread.min, least), ("max", spread.max, most)] {
            let place = format!("the `{key}` of `{}` in `ringfall.merged.spread`", spread.metric);
            pairs.same((&place, Some(is)), ("that of its `values` and `bounds`", should));
        }
        let place = format!("the `median` of `{}` in `ringfall.merged.spread`", spread.metric);
        let median = (&*place, Some(spread.median));
        pairs.at_most(median, ("the largest of its `values`", most), 1.0);
        pairs.at_most(("the smallest of the `values` beside it", least), median, 1.0);
        // Nearly equal values leave little but rounding.
        if let (Some(is), Some(should)) = (spread.cv, stats::coefficient_of_variation(&values))
            && (is - should).abs() > ROUNDING
        {
            let place = format!("the `cv` of `{}` in `ringfall.merged.spread`", spread.metric);
            pairs.push((&place, is), ("that of its `values`", should), false);
        }
    }
}

/// Findings of a search for capacity, and its steps: the peak is a mean of the best of them.
fn of_the_search(document: &Document, pairs: &mut Pairs<'_>) {
    let Some(found) = document.ringfall.autoscaler.as_ref() else { return };
    let rates = found.curve.iter().filter_map(|step| step.gib_per_s.known());
    let highest = ("the highest `gib_per_s` of its `curve`", rates.reduce(f64::max));
    let peak = ("`ringfall.autoscaler.peak_gib_per_s`", found.peak_gib_per_s.known());
    pairs.at_most(peak, highest, 1.0);
    let users = found.peak_users.known().map(f64::from);
    let steps = found.curve.iter().filter_map(|step| step.users.known().map(f64::from));
    let nearest = users.and_then(|users| {
        steps.min_by(|one, other| (one - users).abs().total_cmp(&(other - users).abs()))
    });
    let place = "`ringfall.autoscaler.peak_users`";
    pairs.same((place, users), ("the nearest `users` of its `curve`", nearest));
}

/// The fifths, and what is said of them, from the seconds of the timeline.
fn of_the_steadiness(document: &Document, pairs: &mut Pairs<'_>) {
    let ours = &document.ringfall;
    let Some(steadiness) = ours.steadiness.as_ref() else { return };
    let moved = |row: &SecondReport| {
        let storage = &row.tiers.storage;
        Some(Moved {
            end_s: row.end_s.known()?,
            seconds: row.seconds.known()?,
            bytes: storage.read.bytes.known()?.saturating_add(storage.write.bytes.known()?),
        })
    };
    let rows: Option<Vec<Moved>> = ours.timeline.iter().map(moved).collect();
    let Some(fifths) = rows.and_then(|rows| fifths(&rows)) else { return };
    for (at, (is, should)) in steadiness.fifths_gib_per_s.iter().zip(&fifths).enumerate() {
        // Of an idle fifth next to nothing may be left by rounding.
        if !are_alike(*is, *should, BUCKETS) && (is - should).abs() > ROUNDING {
            let place = format!("`ringfall.steadiness.fifths_gib_per_s.{at}`");
            pairs.push((&place, *is), ("the seconds of `ringfall.timeline`", *should), false);
        }
    }
    let Some(spread) = RoundsSpread::of(&fifths) else { return };
    let place = "the fifths of `ringfall.timeline`";
    for (key, is, should) in [
        ("range_share", steadiness.range_share, spread.range),
        ("trend_share", steadiness.trend_share, spread.trend),
    ] {
        if (is - should).abs() > BUCKETS {
            let key = format!("`ringfall.steadiness.{key}`");
            pairs.push((&key, is), (place, should), false);
        }
    }
    let said =
        RoundsSpread { range: steadiness.range_share, trend: steadiness.trend_share, ..spread };
    pairs.same(
        ("`ringfall.steadiness.steady` (1 for true)", one_if(steadiness.steady)),
        ("its `range_share` and `trend_share`", one_if(said.is_steady())),
    );
}

/// Writes that ended with a flush, and the flushes.
fn of_the_flushes(document: &Document, pairs: &mut Pairs<'_>) {
    let ours = &document.ringfall;
    let durability = ours.config.as_ref().and_then(|config| config.settings.get("durability"));
    let is_flushed = durability.and_then(Value::as_str) == Some("flush");
    // Stores of objects and engines' files are not flushed, nor is memory that goes to a drive by
    // itself.
    let has_own = ours.has_data_file() && ours.gpu.is_none() && !document.is_without_drive();
    let entries = document.summary.cache_stats.offloads_storage.known();
    let entries = entries.filter(|&entries| entries >= WRITES_MIN && is_flushed && has_own);
    if let (Some(entries), Some(0)) = (entries, ours.io.flush.count.known()) {
        let place = "`summary.cache_stats.offloads_storage` with `--durability flush`";
        pairs.push((place, entries as f64), ("`ringfall.io.flush.count`", 0.0), false);
    }
}

/// Operations on the files of an engine's layout since the start, and the single I/Os of the
/// window, each of which read or wrote a file.
fn of_the_files(document: &Document, pairs: &mut Pairs<'_>) {
    let io = &document.ringfall.io;
    let Some(files) = document.ringfall.files.as_ref() else { return };
    let count = |name: &str| {
        let found = files.operations.iter().find(|one| one.name == name);
        found.map_or(0.0, |one| one.count as f64)
    };
    let operations = "of `ringfall.files.operations`";
    for (name, earlier) in [("close", &["open", "create"][..]), ("rename", &["create"])] {
        let most = earlier.iter().map(|name| count(name)).sum();
        let place = format!("the `count` of `{name}` {operations}");
        let words = format!("that of `{}`", earlier.join("` and `"));
        pairs.at_most((&place, Some(count(name))), (&words, Some(most)), 1.0);
    }
    for (name, io, bytes) in
        [("read", &io.read, files.read_bytes), ("write", &io.write, files.written_bytes)]
    {
        let (place, is) = (format!("the `count` of `{name}` {operations}"), count(name));
        // A header takes one of its own, and what was moved outside the window a block at least.
        let outside = |window: f64| (bytes as f64 - window).max(0.0) / BLOCK_BYTES as f64;
        let most = io.count.number().zip(io.bytes.number());
        let most = most.map(|(count, bytes)| 2.0 * (count + outside(bytes)));
        let words = format!("by `ringfall.io.{name}` and the bytes of `ringfall.files`");
        pairs.at_most((&place, Some(is)), (&words, most), 1.0);
        let whole = files.file_bytes.saturating_add(BLOCK_BYTES) as f64 * is;
        let words = "its operations by `file_bytes` and a header";
        let key = format!("the bytes of `{name}` in `ringfall.files`");
        pairs.at_most((&key, Some(bytes as f64)), (words, Some(whole)), 1.0);
        // A write may find its file there.
        if name == "read" {
            let key = format!("`ringfall.io.{name}.count`");
            pairs.at_most((&key, io.count.number()), (&place, Some(is)), 1.0);
        }
    }
}

/// Whether reads reached the device, and the share by which that is told.
fn of_the_cold_reads(document: &Document, pairs: &mut Pairs<'_>) {
    let Some(cold) = document.ringfall.device.cold_reads.as_ref() else { return };
    let verdict = ColdVerdict::of(cold.reached_share);
    pairs.same(
        (
            "`ringfall.device.cold_reads.verdict` (1 for reached)",
            one_if(cold.verdict == ColdVerdict::Reached),
        ),
        ("its `reached_share`, by which it is reached", one_if(verdict == ColdVerdict::Reached)),
    );
}

/// Whether the run was simulated, which its command line and a warning say too. Merged results may
/// be of both kinds.
fn of_the_simulation(document: &Document, pairs: &mut Pairs<'_>) {
    let ours = &document.ringfall;
    if ours.simulation.is_some() || ours.merged.is_some() {
        return;
    }
    let command = ours.command_line.as_ref().and_then(|words| words.get(1));
    let is_warned = ours.warnings.iter().any(|warning| warning.code == Code::Simulated);
    for (place, is_simulated) in [
        ("`simulate` in `ringfall.command_line`", command.is_some_and(|word| word == "simulate")),
        ("the warning `simulated` in `ringfall.warnings`", is_warned),
    ] {
        let is_told = ("`ringfall.simulation` (0 where it is null)", one_if(false));
        pairs.same(is_told, (place, one_if(is_simulated)));
    }
}

/// Resource that binds a simulated run, and the figures of the sentence that tells why, from its
/// alternatives. Merged results may have them of one of their runs, and shares of all.
fn of_the_alternatives(document: &Document, pairs: &mut Pairs<'_>) {
    let ours = &document.ringfall;
    let Some(run) = ours.simulation.as_ref().filter(|_| ours.merged.is_none()) else { return };
    let Some(tried) = run.alternatives.as_ref() else { return };
    let shares = run.drive_busy_share.known().zip(run.drive_crowded_share.known());
    let Some((binds, because)) = shares.and_then(|shares| bound(tried, shares)) else { return };
    let place = "`ringfall.simulation.binds` (1 for what its `alternatives` show)";
    let is_shown = run.binds.known().and_then(|told| one_if(told == binds));
    pairs.same((place, is_shown), ("its `alternatives`", one_if(true)));
    let Some(told) = run.because.as_ref() else { return };
    for words in [" times as fast", " % of the time"] {
        for (is, should) in numbers_before(told, words).zip(numbers_before(&because, words)) {
            let place = "`ringfall.simulation.because`";
            pairs.same((place, Some(is)), ("its `alternatives` and shares", Some(should)));
        }
    }
}

/// Numbers of a text that stand before those words.
fn numbers_before<'a>(text: &'a str, words: &'a str) -> impl Iterator<Item = f64> + 'a {
    let before = text.match_indices(words).map(|(at, _)| &text[..at]);
    before.filter_map(|text| text.rsplit(' ').next()?.parse().ok())
}
