//! Summary in short: what limited the run, and the figures that show it, in 25 lines unless a
//! search, a replay, several drives or several tiers have their own. `--details` prints all.

use std::fmt::Write as _;

use ringfall_config::{PhaseMode, Traffic};
use ringfall_core::metrics::Histogram;
use ringfall_core::units::gib;
use ringfall_host::counted;
use ringfall_model::{Document, RunResult};

use super::terminal::{self, Detail, Style};
use super::{depth, latency, verdict};

/// Longest line of a warning, its flag included: two lines of the screen.
const NOTE_MAX: usize = 160;

/// Writes the summary.
pub(super) fn summary(
    text: &mut String,
    style: Style,
    result: &RunResult,
    document: &Document,
) -> std::fmt::Result {
    terminal::heading(text, style, result, "; --details prints every figure")?;
    verdict::limit(text, document)?;
    latency::in_short(text, style, result, document)?;
    terminal::storage(text, style, result, document)?;
    terminal::limits(text, document)?;
    terminal::source(text, result, document)?;
    let unfinished: u64 = result.requests.unfinished.iter().map(Histogram::count).sum();
    let service = terminal::service(result, document);
    writeln!(text, "  service      {service}   {unfinished} unfinished")?;
    verdict::time(text, document)?;
    reuse(text, result)?;
    terminal::tiers(text, result)?;
    working_set(text, result)?;
    depth::line(text, result)?;
    let health = document.summary.cache_stats.storage_health.as_ref();
    if let Some(health) = health.filter(|_| result.plan.fail_on_health) {
        verdict::health(text, style, health)?;
    }
    terminal::device(text, result, document, Detail::Short)?;
    terminal::checks(text, style, result)?;
    terminal::warnings(text, style, result, Detail::Short)
}

/// Writes how much of what earlier requests had left was found. Reads of a request's own entry,
/// which find what the request itself has written, are told apart.
fn reuse(text: &mut String, result: &RunResult) -> std::fmt::Result {
    let cache = &result.cache;
    let looks = result.looks();
    let others = [looks.found, looks.missed];
    let turns = [cache.multi_turn_hits, cache.multi_turn_misses];
    let prompts = [cache.prefix_hits, cache.prefix_misses];
    let others: [u64; 2] =
        std::array::from_fn(|at| others[at].saturating_sub(turns[at] + prompts[at]));
    let rows = [("earlier turns", turns), ("shared prompts", prompts), ("other entries", others)];
    let looked = rows.into_iter().filter(|(_, [found, missed])| found + missed > 0);
    let mut parts: Vec<String> = looked
        .map(|(what, [found, missed])| format!("{what} {found} of {} found", found + missed))
        .collect();
    if cache.own_turn_reads > 0 {
        parts.push(format!("own entries read {} times", cache.own_turn_reads));
    }
    match parts.is_empty() {
        true => Ok(()),
        false => verdict::labelled(text, "reuse", &parts.join(", ")),
    }
}

/// Writes what simulated users take if each keeps one turn, beside what the tiers hold.
fn working_set(text: &mut String, result: &RunResult) -> std::fmt::Result {
    let plan = &result.plan;
    let is_drawn = matches!(plan.traffic, Traffic::Drawn) && plan.replay_trace.is_none();
    if !is_drawn || plan.phases == PhaseMode::DecodeOnly || plan.enable_autoscaling {
        return Ok(());
    }
    let turn_bytes = plan.workload_config().turn_bytes_mean();
    let all_bytes = turn_bytes.saturating_mul(plan.users.into());
    let held_bytes: u64 = result.tiers.iter().map(|tier| tier.capacity_bytes).sum();
    let sentence = format!(
        "{:.2} GiB a user's turn on average, {:.1} GiB one turn of each of {}; the tiers hold \
         {:.1} GiB",
        gib(turn_bytes),
        gib(all_bytes),
        counted(plan.users.into(), "user"),
        gib(held_bytes),
    );
    verdict::labelled(text, "space", &sentence)
}

/// First sentence of a warning, as far as it fits one line beside its flag.
pub(super) fn note(sentence: &str, flag: &str) -> String {
    let first = sentence.split_once(". ").map_or(sentence, |(first, _)| first);
    let room = NOTE_MAX.saturating_sub("note: ".len() + flag.chars().count());
    if first.chars().count() <= room {
        return format!("note: {first}{flag}");
    }
    let start: String = first.chars().take(room.saturating_sub(1)).collect();
    let start = start.rsplit_once(' ').map_or(&*start, |(words, _)| words);
    format!("note: {}…{flag}", start.trim_end_matches([',', ';', ':']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warning_is_one_line_that_keeps_its_flag() {
        let flag = " [try --warmup]";
        assert_eq!(note("Too short. Give more.", flag), "note: Too short [try --warmup]");
        assert_eq!(note("of 1.5 s", ""), "note: of 1.5 s");
        let long = note(&"a word, ".repeat(60), flag);
        assert!(long.chars().count() <= NOTE_MAX && long.chars().count() > 140, "{long}");
        assert!(long.ends_with("word… [try --warmup]") || long.ends_with("a… [try --warmup]"));
        // A word without an end, and a flag that leaves no room.
        assert_eq!(note(&"x".repeat(500), flag).chars().count(), NOTE_MAX);
        assert!(note("a b", &"f".repeat(200)).starts_with("note: …f"));
    }
}
