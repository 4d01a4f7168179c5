//! Summary in short: what limited the run, and the figures that show it, in 25 lines unless a
//! search, a replay, several drives or several tiers have their own. `--details` prints all.

use ringfall_config::{PhaseMode, Traffic};
use ringfall_core::metrics::Histogram;
use ringfall_core::units::gib;

use super::terminal::Summary;

/// Longest line of a warning, its flag included: two lines of the screen.
const NOTE_MAX: usize = 160;

impl Summary<'_> {
    pub(super) fn in_short(&mut self) {
        self.heading("; --details prints every figure");
        self.limit();
        self.latencies_in_short();
        self.storage();
        self.limits();
        self.source();
        let unfinished = &self.result.requests.unfinished;
        let unfinished: u64 = unfinished.iter().map(Histogram::count).sum();
        self.line(&format!("  service      {}   {unfinished} unfinished", self.service()));
        self.failed();
        self.time();
        self.reuse();
        self.tiers();
        self.working_set();
        self.depth();
        if self.result.plan.fail_on_health {
            self.health();
        }
        self.device();
        self.checks();
        self.warnings();
    }

    /// Writes how much of what earlier requests had left was found. Reads of a request's own entry,
    /// which find what the request itself has written, are told apart.
    fn reuse(&mut self) {
        let cache = &self.result.cache;
        let looks = self.result.looks();
        let turns = [cache.multi_turn_hits, cache.multi_turn_misses];
        let prompts = [cache.prefix_hits, cache.prefix_misses];
        let others = [
            looks.found.saturating_sub(turns[0] + prompts[0]),
            looks.missed.saturating_sub(turns[1] + prompts[1]),
        ];
        let rows =
            [("earlier turns", turns), ("shared prompts", prompts), ("other entries", others)];
        let looked = rows.into_iter().filter(|(_, [found, missed])| found + missed > 0);
        let mut parts: Vec<String> = looked
            .map(|(what, [found, missed])| format!("{what} {found} of {} found", found + missed))
            .collect();
        if cache.own_turn_reads > 0 {
            parts.push(format!("own entries read {} times", cache.own_turn_reads));
        }
        if !parts.is_empty() {
            self.labelled("reuse", &parts.join(", "));
        }
    }

    /// Writes what simulated users take if each keeps one turn, beside what the tiers hold.
    fn working_set(&mut self) {
        let plan = &self.result.plan;
        let is_drawn = matches!(plan.traffic, Traffic::Drawn) && plan.replay_trace.is_none();
        if !is_drawn || plan.phases == PhaseMode::DecodeOnly || plan.enable_autoscaling {
            return;
        }
        let turn_bytes = plan.workload_config().turn_bytes_mean();
        let all_bytes = turn_bytes.saturating_mul(plan.users.into());
        let held_bytes: u64 = self.result.tiers.iter().map(|tier| tier.capacity_bytes).sum();
        let all = match plan.users {
            1 => String::new(),
            users => format!(", {:.1} GiB one turn of each of {users} users", gib(all_bytes)),
        };
        let sentence = format!(
            "{:.2} GiB a user's turn on average{all}; the tiers hold {:.1} GiB",
            gib(turn_bytes),
            gib(held_bytes),
        );
        self.labelled("space", &sentence);
    }
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
