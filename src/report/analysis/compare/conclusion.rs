//! The sentence that a comparison ends with.

use ringfall_model::document::RequestsOfClass;
use ringfall_model::metrics::{DECODE_READ, Metric, REQUEST_P95, WALL_CLOCK};
use ringfall_model::stats::Interval;
use ringfall_model::trust::{Advice, Trust};

use super::cautions::{Caution, Favours};
use super::{Basis, Row, Side, Verdict};

/// Which of the two sides is better, by how much, how sure that is and for how much of the load;
/// or why they can't be compared.
pub(super) fn conclusion(
    rows: &[Row],
    trust: &[Advice],
    cautions: &[Caution],
    sides: [&Side; 2],
) -> String {
    let told = match decided(rows, trust, cautions) {
        Ok(told) => told,
        Err(why) => return format!("The two can't be compared: {why}."),
    };
    match load(sides) {
        Some(load) => format!("{told}; {load}."),
        None => format!("{told}."),
    }
}

/// Outcome by the metrics to go by, or why they show nothing.
fn decided(rows: &[Row], trust: &[Advice], cautions: &[Caution]) -> Result<String, String> {
    let prevents = |is_one: &dyn Fn(Favours) -> bool| {
        let caution = cautions.iter().find(|caution| is_one(caution.favours));
        caution.map_or(Ok(()), |caution| Err(format!("their {} differ", caution.what)))
    };
    prevents(&|favours| favours == Favours::Either)?;
    let keys = metrics_to_go_by(trust)?;
    // More hits are more bytes read, while everything else gains by misses.
    let has_other_hits = cautions.iter().any(|caution| caution.what == "hit rates");
    let keys = keys.into_iter().filter(|key| !(has_other_hits && *key == DECODE_READ));
    let judged: Vec<&Row> =
        keys.filter_map(|key| rows.iter().find(|row| row.metric == key)).collect();
    let of = |verdict: Verdict| judged.iter().copied().find(|row| row.verdict == verdict);
    match (of(Verdict::Better), of(Verdict::Worse)) {
        (Some(better), Some(worse)) => {
            prevents(&|favours| favours != Favours::Nobody)?;
            Ok(format!(
                "Neither is better throughout: the candidate is better by its {}, and worse by its \
                 {}",
                of_row(better, ", which is"),
                of_row(worse, ", which is")
            ))
        }
        (Some(row), None) => {
            prevents(&|favours| favours == Favours::Candidate)?;
            Ok(format!("The candidate is better: its {}", of_row(row, " is")))
        }
        (None, Some(row)) => {
            prevents(&|favours| favours == Favours::Baseline)?;
            Ok(format!("The baseline is better: the candidate's {}", of_row(row, " is")))
        }
        (None, None) => {
            let first = judged.iter().copied().find(|row| row.ratio.is_some());
            match first.or(judged.first().copied()) {
                None => Err("neither has what tells two drives apart".to_owned()),
                Some(row) if row.ratio.is_none() => {
                    let why = row.no_interval.unwrap_or("none is known");
                    Err(format!("there is no ratio of the {} ({why})", noun(row)))
                }
                Some(row) if row.verdict == Verdict::NotShown => {
                    Ok(format!("No difference is shown: the candidate's {}", of_row(row, " is")))
                }
                Some(row) => {
                    Ok(format!("No difference is certain: the candidate's {}", of_row(row, " is")))
                }
            }
        }
    }
}

/// Keys of the metrics that decide, the most trusted first; or why there is none.
fn metrics_to_go_by(trust: &[Advice]) -> Result<Vec<&'static str>, String> {
    let Some(first) = trust.first() else {
        // Nothing is known of the configuration, or there was no drive.
        return Ok(vec![WALL_CLOCK, REQUEST_P95]);
    };
    let trusted = trust.iter().filter(|advice| advice.trust != Trust::No);
    let keys: Vec<&'static str> = trusted.map(|advice| advice.metric).collect();
    if keys.is_empty() { Err(first.why.clone()) } else { Ok(keys) }
}

/// Name of the row's metric within a sentence.
fn noun(row: &Row) -> &'static str {
    Metric::by_key(row.metric).map_or(row.metric, |metric| metric.noun)
}

/// Name, verb, ratio and certainty of a row, as what follows "its".
fn of_row(row: &Row, verb: &str) -> String {
    let bound = match (row.baseline_is_bound, row.candidate_is_bound) {
        (true, _) => "at most ",
        (_, true) => "at least ",
        _ => "",
    };
    let ratio = row.ratio.map_or("–".to_owned(), |ratio| format!("{ratio:.2}×"));
    let sure = match (row.interval, row.basis) {
        (Some(Interval { low, high }), Some(basis)) => {
            let of = match basis {
                Basis::Trials => "between trials",
                Basis::Events => "within one run each, by events",
                Basis::Seconds => "within one run each, by seconds",
            };
            format!("95 % interval {low:.2} to {high:.2} {of}")
        }
        _ => format!("no interval: {}", row.no_interval.unwrap_or("none is known")),
    };
    format!("{}{verb} {bound}{ratio} the baseline's ({sure})", noun(row))
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
