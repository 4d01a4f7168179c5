//! Summary in short: what limited the run, and the figures that show it, in 25 lines unless a
//! search, a replay, several drives or several tiers have their own. `--details` prints all.

use ringfall_config::{PhaseMode, Traffic};
use ringfall_core::metrics::Histogram;
use ringfall_core::units::gib;
use ringfall_host::counted;
use ringfall_model::{Code, Warning};

use super::terminal::{Summary, wrapped};

/// Lines of the summary at most, unless the run has parts of its own.
const LINES_MAX: usize = 25;
/// Characters of a note beyond which it ends with an earlier clause.
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
        // A simulated drive returns what was written, and has no block that was never written.
        if self.result.simulation.is_none() || self.result.engine.error_count() > 0 {
            self.verified();
        }
        self.failures();
        self.notes_in_short();
    }

    /// Writes the notes, the weightiest first, as far as the screen has room for them, and counts
    /// the others.
    fn notes_in_short(&mut self) {
        // The lines of storage say already that no drive moved a byte.
        let all = self.result.warnings.iter().filter(|note| note.code != Code::Simulated);
        let mut left: Vec<&Warning> = all.collect();
        left.sort_by_key(|note| NoteWeight::of(&note.code));
        let mut room = LINES_MAX.saturating_sub(self.text.lines().count());
        let (mut shown, mut hidden) = (String::new(), 0u64);
        for (at, note) in left.iter().enumerate() {
            let told = wrapped(self.style, "  ", 4, &sentence(note));
            let lines = told.lines().count();
            // A line is left for the number of those that are not shown.
            let is_last = at + 1 == left.len() && hidden == 0;
            if lines + usize::from(!is_last) <= room
                || NoteWeight::of(&note.code) == NoteWeight::Spoils
            {
                room = room.saturating_sub(lines);
                shown.push_str(&told);
            } else {
                hidden += 1;
            }
        }
        self.text.push_str(&shown);
        if hidden > 0 {
            let more = if shown.is_empty() { "note" } else { "more note" };
            self.line(&format!("  {}: --details", counted(hidden, more)));
        }
    }

    /// Writes how much of what earlier requests had left was found. Reads of a request's own entry,
    /// which find what the request itself has written, are told apart, and not in short.
    pub(super) fn reuse(&mut self) {
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
        if cache.own_turn_reads > 0 && self.result.plan.details {
            parts.push(format!("own entries read {} times", cache.own_turn_reads));
        }
        if !parts.is_empty() {
            self.labelled("reuse", &parts.join(", "));
        }
    }

    /// Writes what simulated users take if each keeps one turn, beside what the tiers hold.
    pub(super) fn working_set(&mut self) {
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
            users => format!(" × {users} users = {:.1} GiB", gib(all_bytes)),
        };
        let sentence = format!(
            "{:.2} GiB a turn{all}; the tiers hold {:.1} GiB",
            gib(turn_bytes),
            gib(held_bytes),
        );
        self.labelled("space", &sentence);
    }
}

/// Weight of a warning beside others of the same run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum NoteWeight {
    /// The figures are not what they seem to be, so that it is always shown.
    Spoils,
    /// The figures mean less than they seem to.
    Matters,
    /// It explains a figure.
    Explains,
}

impl NoteWeight {
    fn of(code: &Code) -> NoteWeight {
        match code {
            Code::NothingCompleted
            | Code::StoodStill
            | Code::DriveFailed
            | Code::DriveMediaErrors
            | Code::ReadsCached
            | Code::MemoryBacked
            | Code::DriveThrottled
            | Code::LatencyInjected
            | Code::MissesFree
            | Code::GpuEmulated
            | Code::Refused
            | Code::ContradictsItself => NoteWeight::Spoils,
            Code::DeepQueue | Code::FirstTouch | Code::Engine | Code::Stalls => {
                NoteWeight::Explains
            }
            _ => NoteWeight::Matters,
        }
    }
}

/// First sentence of a warning with the flag to try; of a long one as many clauses as are short
/// enough.
fn sentence(Warning { text, flag_to_try, .. }: &Warning) -> String {
    let first = text.split_once(". ").map_or(&**text, |(first, _)| first);
    let ends = ["; ", ": ", ", so "].into_iter().flat_map(|end| first.match_indices(end));
    let clauses = ends.map(|(at, _)| &first[..at]).chain([first]);
    let is_long = |clauses: &str| clauses.chars().count() > NOTE_MAX;
    let short = clauses.clone().filter(|clauses| !is_long(clauses)).max_by_key(|one| one.len());
    let told = short.or(clauses.min_by_key(|one| one.len())).unwrap_or(first);
    let flag = flag_to_try.as_ref().map_or(String::new(), |flag| format!(" [try {flag}]"));
    format!("note: {told}{flag}")
}

#[cfg(test)]
mod tests {
    use ringfall_model::Document;
    use ringfall_model::testing::judged;

    use super::super::terminal::{Style, summary};
    use super::*;

    fn warning(code: Code, text: &str) -> Warning {
        Warning { code, text: text.to_owned(), flag_to_try: Some("--warmup".to_owned()) }
    }

    #[test]
    fn a_note_is_a_sentence_that_ends_and_keeps_its_flag() {
        let told = |text: &str| sentence(&warning(Code::Backlog, text));
        assert_eq!(told("Too short. Give more."), "note: Too short [try --warmup]");
        assert_eq!(told("of 1.5 s; or 2"), "note: of 1.5 s; or 2 [try --warmup]");
        let long = format!("one: two; three, so {}", "four ".repeat(40));
        assert_eq!(told(&long), "note: one: two; three [try --warmup]");
        let longer = format!("{}; two", "one ".repeat(50));
        assert_eq!(told(&longer), format!("note: {} [try --warmup]", "one ".repeat(50)));
        // Without an end there is none to shorten it to.
        assert!(told(&"x".repeat(500)).contains(&"x".repeat(500)));
    }

    #[test]
    fn notes_fill_25_lines_the_weightiest_first_and_the_others_are_counted() {
        let mut result = judged();
        let long = "requests were not as they should be, with many a word about it ".repeat(2);
        result.warnings = vec![warning(Code::DeepQueue, &long); 2];
        result.warnings.extend(vec![warning(Code::Backlog, &long); 6]);
        result.warnings.push(warning(Code::Simulated, "a model"));
        result.warnings.push(warning(Code::StoodStill, "it stood still"));
        let document = Document::of(&result);
        let told = summary(Style { colour: false }, &result, &document);
        assert!(told.lines().count() <= 25, "{told}");
        let notes: Vec<&str> = told.lines().filter(|line| line.contains("note")).collect();
        assert!(notes[0].contains("it stood still"), "{told}");
        assert!(!told.contains("a model"), "{told}");
        let hidden = 9 - (notes.len() - 1);
        assert_eq!(told.lines().last(), Some(&*format!("  {hidden} more notes: --details")));
        // What spoils the figures is told even so.
        result.warnings = vec![warning(Code::StoodStill, &long); 20];
        let told = summary(Style { colour: false }, &result, &document);
        assert_eq!(told.matches("note: ").count(), 20, "{told}");
    }
}
