//! All pairs of two collections together: what to read before their ratios, and the sentence that
//! the comparison ends with.

use ringfall_model::distinct_by;
use ringfall_model::metrics::{DECISIVE, METRICS, Metric};
use ringfall_model::stats::{self, Interval};

use super::compare::{
    Bearing, Caution, Conclusion, Favouring, Finding, Names, RESOLUTION, Verdict, leaning,
    metrics_to_go_by, outcome, suffices, verdict,
};
use super::pairs::Pair;

/// Names of the two systems within a sentence.
const NAMES: Names = Names { candidate: "first system", baseline: "second system" };

/// Reasons that a pair shows nothing, as what stands before "which side is better".
const OPEN: &str = "unfinished requests, a difference of loads or a value of 0 leave open";

/// Conclusion and cautions over all pairs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overall {
    /// Which of the two systems is better, by how much and over how many pairs; or why that can't
    /// be told.
    pub conclusion: String,
    /// Whether any pair is of one load.
    pub is_comparable: bool,
    /// Reasons that the ratios say less than they seem to, each with the number of pairs.
    pub cautions: Vec<String>,
}

impl Overall {
    /// Conclusion and cautions of all pairs, those of two loads among them.
    pub fn of(pairs: &[Pair]) -> Overall {
        let kept: Vec<&Pair> = pairs.iter().filter(|pair| pair.is_of_one_load()).collect();
        let Conclusion { text, is_comparable } = conclude(pairs, &kept);
        Overall { conclusion: text, is_comparable, cautions: cautions(pairs) }
    }
}

fn conclude(pairs: &[Pair], kept: &[&Pair]) -> Conclusion {
    let with = |bearing: Bearing| {
        let mut all = pairs.iter().flat_map(|pair| &pair.cautions);
        all.find(|caution| caution.bearing == bearing)
    };
    if let Some(caution) = with(Bearing::OtherLoad).filter(|_| kept.is_empty()) {
        return Conclusion::incomparable(&shared(caution, pairs));
    }
    let counted = kept.iter().copied().filter(|pair| !pair.has(Bearing::Open));
    let counted: Vec<&Pair> = counted.collect();
    if let Some(caution) = with(Bearing::Open).filter(|_| counted.is_empty()) {
        return Conclusion::none(&shared(caution, pairs));
    }
    let found = findings(&counted);
    let nothing = || {
        let of_pair = |pair: &&Pair| metrics_to_go_by(&pair.advice).err();
        counted.iter().find_map(of_pair)
    };
    let why = if found.is_empty() { nothing() } else { None };
    let decisive = decisive(&counted);
    match why.map_or_else(|| outcome(&found, &decisive, NAMES, Favouring::default()), Err) {
        Ok(told) => Conclusion::of(&told),
        Err(why) => Conclusion::none(&why),
    }
}

/// Each difference once, with the number of pairs that have it; what makes other loads first.
fn cautions(pairs: &[Pair]) -> Vec<String> {
    let cautions = pairs.iter().flat_map(|pair| &pair.cautions);
    let mut known = distinct_by(cautions, |one, other| one.clause == other.clause);
    known.sort_by_key(|caution| caution.bearing != Bearing::OtherLoad);
    let told = |caution: &&Caution| {
        let left_out = match caution.bearing {
            Bearing::OtherLoad => "; these pairs are left out",
            Bearing::Open => "; the conclusion leaves these pairs out",
            _ => "",
        };
        format!("{}: {}{left_out}", shared(caution, pairs), caution.effect)
    };
    known.iter().map(told).collect()
}

/// A difference with the number of pairs that have it, as a clause.
fn shared(caution: &Caution, pairs: &[Pair]) -> String {
    let alike = |pair: &&Pair| pair.cautions.iter().any(|one| one.clause == caution.clause);
    let count = pairs.iter().filter(alike).count();
    let same = |pair: &&Pair| pair.cautions.iter().any(|one| one == caution);
    let one = if pairs.iter().filter(same).count() == count { "" } else { " in one of them" };
    format!("in {count} of {} pairs {} ({}{one})", pairs.len(), caution.clause, caution.values)
}

/// A metric, and the pairs that go by it.
struct Judged<'a> {
    metric: &'static Metric,
    pairs: Vec<&'a Pair>,
}

/// Evidence of each metric to go by, that of most pairs first.
fn findings(pairs: &[&Pair]) -> Vec<Finding> {
    let judged = METRICS.iter().map(|metric| {
        let pairs = pairs.iter().copied().filter(|pair| goes_by(pair, metric));
        Judged { metric, pairs: pairs.collect() }
    });
    let mut judged: Vec<Judged<'_>> = judged.collect();
    judged.sort_by_key(|judged| std::cmp::Reverse(judged.pairs.len()));
    judged.iter().filter_map(|judged| finding(judged, pairs.len())).collect()
}

/// Evidence of each figure that a better system is not worse by, from all pairs that have it.
fn decisive(pairs: &[&Pair]) -> Vec<Finding> {
    let judged = DECISIVE.iter().filter_map(|key| {
        let metric = Metric::by_key(key)?;
        let pairs = pairs.iter().copied().filter(|pair| pair.measures(metric));
        Some(Judged { metric, pairs: pairs.collect() })
    });
    judged.filter_map(|judged| finding(&judged, pairs.len())).collect()
}

/// Whether the metric is one to go by in a pair, and measured on both sides.
fn goes_by(pair: &Pair, metric: &Metric) -> bool {
    let keys = metrics_to_go_by(&pair.advice);
    keys.is_ok_and(|keys| keys.contains(&metric.key)) && pair.measures(metric)
}

/// Evidence of one metric; none where no pair goes by it.
fn finding(&Judged { metric, ref pairs }: &Judged<'_>, all: usize) -> Option<Finding> {
    let fair: Vec<Option<f64>> = pairs.iter().map(|pair| pair.fair_ratio(metric)).collect();
    // What can't be told apart, or not fairly, is no win of anybody.
    let differing = |ratio: &f64| (ratio - 1.0).abs() > 2.0 * RESOLUTION;
    let ratios: Vec<f64> =
        fair.iter().map(|ratio| ratio.filter(differing).unwrap_or(1.0)).collect();
    let unfair = fair.iter().filter(|ratio| ratio.is_none()).count();
    let median = stats::median(&ratios)?;
    let interval = stats::median_interval(&ratios);
    let (low, high) = (stats::quantile(&ratios, 0.25)?, stats::quantile(&ratios, 0.75)?);
    let sure = match interval {
        Some(Interval { low, high }) => {
            format!("95 % interval of the median {low:.2} to {high:.2}")
        }
        None => "no interval: fewer than six pairs".to_owned(),
    };
    let equal = match unfair {
        0 => String::new(),
        count => format!("; {count} of them count as equal, as {OPEN} which side is better"),
    };
    let sufficient = pairs.iter().filter(|pair| suffices(&pair.advice, metric.key)).count();
    Some(Finding {
        metric,
        suffices: 2 * sufficient >= pairs.len(),
        verdict: interval.map_or(Verdict::Unknown, |interval| verdict(metric, interval, median)),
        leaning: leaning(metric, median),
        ratio: match unfair == pairs.len() {
            true => Err("no pair has one that is fair"),
            false => Ok(format!("{median:.2}×")),
        },
        certainty: format!(
            "median of {} of {all} pairs, half of which lie between {low:.2} and {high:.2}; \
             {sure}{equal}",
            pairs.len()
        ),
    })
}

#[cfg(test)]
#[path = "over_pairs_test.rs"]
mod tests;
