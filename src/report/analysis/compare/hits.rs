//! Shares of looks and reads that found their entry: whether two sides differ in them by more than
//! chance, and by more than first looks for what nobody had stored.

use ringfall_model::Document;
use ringfall_model::facts::{HIT_RATES_APART, Looks};
use ringfall_model::stats;

use super::load::Load;

/// Shares of reads that found their entry, from 0 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(in crate::analysis) struct HitRates {
    /// Looks for what can be missed: earlier turns, shared prefixes and populated entries.
    pub looks: Option<f64>,
    /// Reads of earlier turns.
    pub earlier_turns: Option<f64>,
    /// Reads of entries in the window.
    pub reads: Option<f64>,
    /// Numbers of them by kind; `None` where the result does not say all.
    pub counts: Option<HitCounts>,
}

/// Looks and reads by their kind. A miss of one kind may be loss and of another a first look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::analysis) struct HitCounts {
    /// Reads of earlier turns.
    pub earlier_turns: Looks,
    /// Looks for shared prompts, retrieved chunks, blocks of a trace and populated entries.
    pub others: Looks,
    /// Reads of a turn's own entry, but for those that `others` has.
    pub own_turns: Looks,
    /// Largest number of misses among `others` that were first looks for a shared prompt.
    pub first_looks_max: u64,
}

/// Kind of looks with the shares that two sides found.
pub(super) struct HitsApart {
    /// Kind of looks or reads, in the plural.
    pub what: &'static str,
    /// Share that the first side found, 0 to 1.
    pub first: f64,
    /// Share that the second side found, 0 to 1.
    pub second: f64,
}

impl HitRates {
    /// Hit rates of a result that so many runs are in.
    pub fn of(document: &Document, runs: usize) -> HitRates {
        HitRates {
            looks: document.ringfall.cache.look_hit_rate.known(),
            earlier_turns: document.multi_turn_hit_rate(),
            reads: document.hit_rate(),
            counts: HitCounts::of(document, runs as u64),
        }
    }
}

impl HitCounts {
    fn of(document: &Document, runs: u64) -> Option<HitCounts> {
        let (summary, cache) = (&document.summary, &document.ringfall.cache);
        let turns = &summary.multi_turn_stats;
        let earlier_turns =
            Looks { found: turns.cache_hits.known()?, missed: turns.cache_misses.known()? };
        let found = cache.looks_found.known()?;
        let missed = cache.looks.known()?.checked_sub(found)?;
        let settings = &document.ringfall.config.as_ref()?.settings;
        let prompts = settings.get("workload").and_then(|of| of.get("system_prompts")?.as_u64());
        Some(HitCounts {
            earlier_turns,
            others: Looks {
                found: found.checked_sub(earlier_turns.found)?,
                missed: missed.checked_sub(earlier_turns.missed)?,
            },
            own_turns: Looks {
                found: cache.own_turn_reads.known()?,
                missed: summary.cache_stats.cache_misses.known()?.saturating_sub(missed),
            },
            first_looks_max: prompts.unwrap_or(0).saturating_mul(runs),
        })
    }

    /// Counts of all results of a side together; none where one does not say.
    fn of_side(side: &[&Load]) -> Option<HitCounts> {
        let mut all = side.iter().map(|load| load.hit_rates.counts);
        let first = all.next()??;
        all.try_fold(first, |mut sum, counts| {
            let counts = counts?;
            sum.earlier_turns += counts.earlier_turns;
            sum.others += counts.others;
            sum.own_turns += counts.own_turns;
            sum.first_looks_max = sum.first_looks_max.saturating_add(counts.first_looks_max);
            Some(sum)
        })
    }

    fn by_kind(&self) -> [Kind; 3] {
        let kind = |what, looks, first_looks_max| Kind { what, looks, first_looks_max };
        let others = "looks for shared prompts, retrieved chunks, blocks and populated entries";
        [
            kind("looks for earlier turns", self.earlier_turns, 0),
            kind(others, self.others, self.first_looks_max),
            kind("reads of turns' own entries", self.own_turns, 0),
        ]
    }

    /// First kind in which the two differ.
    fn apart(&self, second: &HitCounts) -> Option<HitsApart> {
        let mut kinds = self.by_kind().into_iter().zip(second.by_kind());
        let (first, second) =
            kinds.find(|(first, second)| first.finds_less(second) || second.finds_less(first))?;
        let (found, other) = (first.looks.hit_rate()?, second.looks.hit_rate()?);
        Some(HitsApart { what: first.what, first: found, second: other })
    }
}

struct Kind {
    what: &'static str,
    looks: Looks,
    /// Largest number of misses that were of what nobody had stored.
    first_looks_max: u64,
}

impl Kind {
    /// Whether it finds less than another by more than chance, even without its first looks.
    fn finds_less(&self, other: &Kind) -> bool {
        let missed = self.looks.missed.saturating_sub(self.first_looks_max);
        Looks { missed, ..self.looks }.find_less_than(other.looks)
    }
}

/// Kind of looks in which two sides differ, each kind judged by itself. Where a side has rates
/// alone, chance can't be told, and 3 points decide. None where one side did not count them.
pub(super) fn hits_apart(first: &[&Load], second: &[&Load]) -> Option<HitsApart> {
    /// Way to read a rate from a load.
    type Pick = fn(&HitRates) -> Option<f64>;

    if let (Some(first), Some(second)) = (HitCounts::of_side(first), HitCounts::of_side(second)) {
        return first.apart(&second);
    }
    let rates: [(&str, Pick); 3] = [
        ("looks for earlier turns, shared prefixes and populated entries", |rates| rates.looks),
        ("reads of earlier turns", |rates| rates.earlier_turns),
        ("reads of entries", |rates| rates.reads),
    ];
    rates.into_iter().find_map(|(what, pick)| {
        let mean = |side: &[&Load]| {
            let known: Vec<f64> = side.iter().filter_map(|load| pick(&load.hit_rates)).collect();
            stats::mean(&known)
        };
        let (first, second) = (mean(first)?, mean(second)?);
        let is_far = (first - second).abs() > HIT_RATES_APART;
        is_far.then_some(HitsApart { what, first, second })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn looks(found: u64, missed: u64) -> Looks {
        Looks { found, missed }
    }

    fn apart(first: HitCounts, second: HitCounts) -> Option<&'static str> {
        let [there, back] = [first.apart(&second), second.apart(&first)];
        assert_eq!(there.is_some(), back.is_some());
        there.map(|apart| apart.what)
    }

    /// 84.2 % and 93.8 % of all looks, as the slower side had asked for one prompt and not for six.
    #[test]
    fn each_kind_of_looks_is_judged_by_itself() {
        let of = |turns: u64, prompts: u64| HitCounts {
            earlier_turns: looks(turns, 0),
            others: looks(0, prompts),
            own_turns: looks(2 * turns, 0),
            first_looks_max: 3,
        };
        assert_eq!(apart(of(32, 6), of(15, 1)), None);
        assert_eq!(apart(of(32, 6), of(15, 0)), None);
    }

    #[test]
    fn entries_that_were_lost_are_told_apart_from_chance_and_first_looks() {
        let turns = |found: u64, missed: u64| HitCounts {
            earlier_turns: looks(found, missed),
            ..HitCounts::default()
        };
        let earlier = Some("looks for earlier turns");
        assert_eq!(apart(turns(15, 0), turns(3, 12)), earlier);
        assert_eq!(apart(turns(900, 100), turns(990, 10)), earlier);
        assert_eq!(apart(turns(980, 20), turns(995, 5)), None, "within 3 points");
        assert_eq!(apart(turns(9, 1), turns(10, 0)), None, "within chance");
        let others = |found: u64, missed: u64| HitCounts {
            others: looks(found, missed),
            first_looks_max: 3,
            ..HitCounts::default()
        };
        assert_eq!(apart(others(40, 3), others(0, 3)), None, "a short run has first looks alone");
        assert!(apart(others(97, 3), others(10, 90)).is_some_and(|told| told.contains("prompts")));
        let own = |found: u64, missed: u64| HitCounts {
            own_turns: looks(found, missed),
            ..HitCounts::default()
        };
        let told = apart(own(100, 0), own(80, 20));
        assert_eq!(told, Some("reads of turns' own entries"));
    }
}
