//! The sentence that a comparison ends with, of two results and of many pairs; or begins with,
//! where there is nothing to compare.

use ringfall_model::document::RequestsOfClass;
use ringfall_model::metrics::{DECISIVE, Metric, REQUEST_P95, WALL_CLOCK};
use ringfall_model::stats::Interval;
use ringfall_model::trust::{Advice, LongestWait, Situation, Trust};

use super::cautions::{Bearing, Caution, HITS_DIFFER};
use super::own_ios;
use super::{Basis, RESOLUTION, Row, Side, Verdict};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::analysis) struct Conclusion {
    /// The conclusion, as a sentence.
    pub text: String,
    /// Whether the two sides' figures say anything of each other.
    pub is_comparable: bool,
}

impl Conclusion {
    /// An outcome, as a clause.
    pub fn of(outcome: &str) -> Conclusion {
        Conclusion { text: format!("{outcome}."), is_comparable: true }
    }

    /// No conclusion, though the figures can be read side by side.
    pub fn none(why: &str) -> Conclusion {
        let text = format!("No conclusion can be drawn, since {why}.");
        Conclusion { text, is_comparable: true }
    }

    /// Conclusion that the two can't be compared, and why.
    pub fn incomparable(why: &str) -> Conclusion {
        let text = format!("The two can't be compared, since {why}.");
        Conclusion { text, is_comparable: false }
    }
}

/// Names of the sides within a sentence, as "the" may stand before them.
#[derive(Clone, Copy, Debug)]
pub(in crate::analysis) struct Names {
    /// Side whose value is divided.
    pub candidate: &'static str,
    /// Side by whose value it is divided.
    pub baseline: &'static str,
}

/// Differences that make a side look better than its drive is.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::analysis) struct Favouring<'a> {
    /// Difference that favours the side whose value is divided.
    pub candidate: Option<&'a Caution>,
    /// Difference that favours the other side.
    pub baseline: Option<&'a Caution>,
}

/// Evidence of one metric that a conclusion may rest on.
#[derive(Clone, Debug)]
pub(in crate::analysis) struct Finding {
    /// The metric to go by.
    pub metric: &'static Metric,
    /// Whether it makes a side better by itself, rather than beside another.
    pub suffices: bool,
    /// Verdict on the candidate.
    pub verdict: Verdict,
    /// Verdict that the ratio alone would be, however uncertain; none where there is none.
    pub leaning: Option<Verdict>,
    /// Ratio as people read it, `at least 2.00×`; or why there is none.
    pub ratio: Result<String, &'static str>,
    /// Certainty of the ratio, as what stands in brackets after it.
    pub certainty: String,
}

impl Finding {
    /// Name, verb, ratio and certainty, as what follows "its".
    fn told(&self, verb: &str, baseline: &str) -> String {
        let ratio = self.ratio.as_deref().unwrap_or("–");
        format!("{}{verb} {ratio} the {baseline}'s ({})", self.metric.noun, self.certainty)
    }
}

/// Verdict that a ratio alone would be.
pub(in crate::analysis) fn leaning(metric: &Metric, ratio: f64) -> Option<Verdict> {
    let verdict = |wins| if wins { Verdict::Better } else { Verdict::Worse };
    metric.wins(ratio, 1.0).filter(|_| (ratio - 1.0).abs() > RESOLUTION).map(verdict)
}

/// Outcome by these findings, the most trusted first, as a clause; or why they show nothing. Where
/// some suffice, one of them has to make a win. Where none does, or of none of them is known how
/// sure it is, it takes two others that agree, and of those that suffice none whose ratio is on the
/// other side. Each of the others and of the decisive ones can take it back.
pub(in crate::analysis) fn outcome(
    findings: &[Finding],
    decisive: &[Finding],
    names: Names,
    favouring: Favouring<'_>,
) -> Result<String, String> {
    let Names { candidate, baseline } = names;
    let unless = |favoured: Option<&Caution>| match favoured {
        Some(caution) => {
            Err(format!("{}, which favours the side that looks better", caution.difference()))
        }
        None => Ok(()),
    };
    let is_sure = |finding: &Finding| finding.verdict != Verdict::Unknown;
    let has_one = findings.iter().any(|finding| finding.suffices && is_sure(finding));
    let is_denied = |verdict: Verdict| {
        let denies = |leaning: Verdict| leaning != verdict;
        findings.iter().any(|one| one.suffices && one.leaning.is_some_and(denies))
    };
    let is_shown = |verdict: Verdict| {
        let makes = |one: &&Finding| one.verdict == verdict && one.suffices == has_one;
        match findings.iter().filter(makes).count() {
            0 => false,
            _ if has_one => true,
            count => count >= 2 && !is_denied(verdict),
        }
    };
    let is_one = is_shown(Verdict::Better) || is_shown(Verdict::Worse);
    let of = |verdict: Verdict| {
        let mut all = findings.iter().chain(decisive).filter(|_| is_one);
        all.find(|finding| finding.verdict == verdict)
    };
    match (of(Verdict::Better), of(Verdict::Worse)) {
        (Some(better), Some(worse)) => {
            unless(favouring.candidate.or(favouring.baseline))?;
            let told = |finding: &Finding| finding.told(", which is", baseline);
            Ok(format!(
                "Neither is better throughout: the {candidate} is better by its {}, and worse by \
                 its {}",
                told(better),
                told(worse)
            ))
        }
        (Some(finding), None) => {
            unless(favouring.candidate)?;
            Ok(format!("The {candidate} is better: its {}", finding.told(" is", baseline)))
        }
        (None, Some(finding)) => {
            unless(favouring.baseline)?;
            let told = finding.told(" is", baseline);
            Ok(format!("The {baseline} is better: the {candidate}'s {told}"))
        }
        (None, None) => {
            let first = findings.iter().find(|finding| finding.ratio.is_ok());
            let Some(finding) = first.or(findings.first()) else {
                return Err("neither has what tells two drives apart".to_owned());
            };
            if let Err(why) = finding.ratio {
                return Err(format!("there is no ratio of the {} ({why})", finding.metric.noun));
            }
            let is = if finding.verdict == Verdict::NotShown { "shown" } else { "certain" };
            let told = finding.told(" is", baseline);
            // Its interval may say otherwise.
            let why = match finding.verdict {
                Verdict::Better | Verdict::Worse => {
                    ", and this metric decides only where a second one agrees"
                }
                _ => "",
            };
            Ok(format!("No difference is {is}: the {candidate}'s {told}{why}"))
        }
    }
}

/// Keys of the metrics to go by, the most trusted first; or why there is none.
pub(in crate::analysis) fn metrics_to_go_by(trust: &[Advice]) -> Result<Vec<&'static str>, String> {
    let Some(first) = trust.first() else {
        // Nothing is known of the configuration, or there was no drive.
        return Ok(vec![WALL_CLOCK, REQUEST_P95]);
    };
    let trusted = trust.iter().filter(|advice| advice.trust != Trust::No);
    let keys: Vec<&'static str> = trusted.map(|advice| advice.metric).collect();
    if keys.is_empty() { Err(first.why.clone()) } else { Ok(keys) }
}

/// Whether a metric to go by makes a side better by itself: one that is only gone by besides may
/// show what the load makes of a drive, such as a shorter queue.
pub(in crate::analysis) fn suffices(trust: &[Advice], key: &str) -> bool {
    let is_primary = |advice: &Advice| advice.metric == key && advice.trust == Trust::Primary;
    trust.is_empty() || trust.iter().any(is_primary)
}

/// Which of two results is better, by how much, how sure that is and for how much of the load; or
/// why that can't be told.
pub(super) fn of_two(
    rows: &[Row],
    trust: &[Advice],
    cautions: &[Caution],
    sides: [&Side; 2],
) -> Conclusion {
    let with = |bearing: Bearing| cautions.iter().find(|caution| caution.bearing == bearing);
    if let Some(other) = with(Bearing::OtherLoad) {
        return Conclusion::incomparable(&other.difference());
    }
    if rows.is_empty() {
        return Conclusion::incomparable("they have no figure in common");
    }
    if let Some(open) = with(Bearing::Open) {
        let none = Conclusion::none(&open.difference());
        let said = own_ios::told(sides).filter(|_| open.clause == HITS_DIFFER);
        return match said {
            Some(said) => Conclusion { text: format!("{} {said}", none.text), ..none },
            None => none,
        };
    }
    let names = Names { candidate: "candidate", baseline: "baseline" };
    let favouring = Favouring {
        candidate: with(Bearing::FavoursSecond),
        baseline: with(Bearing::FavoursFirst),
    };
    let found = |keys: &[&str]| -> Vec<Finding> {
        let row = |key: &&str| rows.iter().find(|row| row.metric == *key);
        let finding = |key| finding(row(key)?, suffices(trust, key));
        keys.iter().filter_map(finding).collect()
    };
    let told = metrics_to_go_by(trust)
        .and_then(|keys| outcome(&found(&keys), &found(&DECISIVE), names, favouring));
    match told {
        Err(why) => Conclusion::none(&why),
        Ok(told) => {
            let clauses = [Some(told), waits(sides), load(sides)];
            let clauses: Vec<String> = clauses.into_iter().flatten().collect();
            Conclusion::of(&clauses.join("; "))
        }
    }
}

/// Evidence that a row is.
fn finding(row: &Row, suffices: bool) -> Option<Finding> {
    let bound = match (row.baseline_is_bound, row.candidate_is_bound) {
        (true, _) => "at most ",
        (_, true) => "at least ",
        _ => "",
    };
    let why = row.no_interval.unwrap_or("none is known");
    let certainty = match (row.interval, row.basis) {
        (Some(Interval { low, high }), Some(basis)) => {
            let of = match basis {
                Basis::Trials => "between trials",
                Basis::Events => "within one run each, by events",
                Basis::Seconds => "within one run each, by seconds",
            };
            format!("95 % interval {low:.2} to {high:.2} {of}")
        }
        _ => format!("no interval: {why}"),
    };
    let metric = Metric::by_key(row.metric)?;
    Some(Finding {
        metric,
        suffices,
        verdict: row.verdict,
        leaning: row.ratio.and_then(|ratio| leaning(metric, ratio)),
        ratio: row.ratio.map(|ratio| format!("{bound}{ratio:.2}×")).ok_or(why),
        certainty,
    })
}

/// Longest wait of each side's requests, where one is for storage and the other for tokens.
fn waits([baseline, candidate]: [&Side; 2]) -> Option<String> {
    let longest = |side: &Side| Situation::of_document(side.whole.as_ref()?).longest_wait();
    let storage =
        |share: f64| format!("waited for storage for {:.0} % of their time", share * 100.0);
    let tokens = |share: f64| format!("for tokens for {:.0} %", share * 100.0);
    match (longest(baseline)?, longest(candidate)?) {
        (LongestWait::Tokens(first), LongestWait::Storage(second)) => Some(format!(
            "the candidate's requests {}, and the baseline's {}",
            storage(second),
            tokens(first)
        )),
        (LongestWait::Storage(first), LongestWait::Tokens(second)) => Some(format!(
            "the baseline's requests {}, and the candidate's {}",
            storage(first),
            tokens(second)
        )),
        _ => None,
    }
}

/// Share of the load that each side finished; none where a side does not say.
fn load(sides: [&Side; 2]) -> Option<String> {
    let told = |side: &Side| {
        let RequestsOfClass { finished, unfinished, .. } = side.requests()?;
        let share = side.unfinished_share()?;
        let all = finished.saturating_add(*unfinished);
        Some(format!("{finished} of {all} requests ({:.0} %)", (1.0 - share) * 100.0))
    };
    let [baseline, candidate] = sides.map(told);
    Some(format!("the baseline finished {}, and the candidate {}", baseline?, candidate?))
}
