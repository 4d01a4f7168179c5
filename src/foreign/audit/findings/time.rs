//! Findings about time: bytes counted for longer than they are divided by.

use super::super::finding::{Finding, Input, Kind, Level};
use super::super::leaf::{Group, Leaf};
use super::super::rank::{Figure, Rank, value};
use super::super::rates::{Direction, Rate, of_group};
use super::{about, percent, percents, places, shown};

/// Overstatement below which nothing is said: half of the last digit that is printed, in percent.
const SAID_FROM: f64 = 0.0005;
/// Upper bound from which on it is said that nothing is known: start-up and saving alone take
/// several seconds of 300.
const OPEN_FROM: f64 = 0.01;
/// Relative difference of a rate from bytes by time that rounding can't make.
const ROUNDING: f64 = 1e-6;

/// The slowest request as its file has it, in its unit.
fn slowest_input(rank: &Rank) -> Option<Input> {
    let slowest = rank.slowest_s?;
    let is_ms = slowest.key.starts_with("summary.");
    let (factor, unit) = if is_ms { (1000.0, "ms") } else { (1.0, "s") };
    let key = if is_ms { slowest.key.to_owned() } else { format!("{} (largest)", slowest.key) };
    Some(Input::number(&rank.file, key, slowest.value * factor, unit))
}

/// Inputs that bound the span of a rank.
fn span_inputs(rank: &Rank) -> Vec<Input> {
    let elapsed = rank.elapsed_s.map(|figure| Input::of(&rank.file, figure, "s"));
    let log = rank.from_log.as_ref().map(|log| {
        let key = format!("results saved − {} + 1 s", log.begun);
        Input::number(&log.file, key, log.at_most_s, "s")
    });
    elapsed.into_iter().chain(slowest_input(rank)).chain(log).collect()
}

/// Bytes counted until the last thread was waited for, and divided by the time until the stop.
pub(super) fn counted_after_the_run(leaf: &Leaf, group: &Group) -> Option<Finding> {
    let rates = Direction::ALL.map(|direction| (direction, of_group(group, direction)));
    let known = rates.iter().filter_map(|(direction, rate)| Some((*direction, (*rate)?)));
    // Reads are the headline; a run that only writes has the writes.
    let mut known = known.filter(|(_, rate)| rate.reported_gib_per_s > 0.0);
    let (direction, rate) = known.next()?;
    let (at_least, at_most) = rate.overstatement();
    let at_least = at_least?;
    let is_finding = at_least >= SAID_FROM;
    if !is_finding && at_most.is_none_or(|at_most| at_most < OPEN_FROM) {
        return None;
    }
    let level = if is_finding { Level::Finding } else { Level::Note };
    let mut finding = about(leaf, Some(group), Kind::CountedAfterTheRun, level);
    finding.sentence = sentence(group, direction, rate, known.next());
    finding.formula = "per rank: bytes ÷ max(elapsed_time, slowest request) at most, bytes ÷ \
                       (results saved − begun + 1 s) at least; summed over ranks, averaged over \
                       trials; reported ÷ that − 1"
        .to_owned();
    for (_, rank) in group.ranks() {
        for direction in Direction::ALL {
            let figures = [(direction.gib(rank), "GiB"), (direction.gib_per_s(rank), "GiB/s")];
            finding.inputs.extend(Input::known(&rank.file, &figures));
        }
        finding.inputs.extend(span_inputs(rank));
    }
    finding.weight = at_least.max(0.0);
    finding.weight_is = "reported rate over the highest that it can have been, less one";
    (finding.at_least, finding.at_most) = (Some(at_least), at_most);
    Some(finding)
}

fn sentence(
    group: &Group,
    direction: Direction,
    rate: Rate,
    other: Option<(Direction, Rate)>,
) -> String {
    let spans: Vec<_> = group.ranks().filter_map(|(_, rank)| Some((rank, rank.span()?))).collect();
    let extreme = |values: &[f64]| {
        let least = values.iter().copied().fold(f64::INFINITY, f64::min);
        (least, values.iter().copied().fold(0.0, f64::max))
    };
    let elapsed: Vec<f64> = spans.iter().filter_map(|(r, _)| Some(r.elapsed_s?.value)).collect();
    let (shortest, longest) = extreme(&elapsed);
    let divisor = match format!("{shortest:.0}") == format!("{longest:.0}") {
        true => format!("{longest:.1} s"),
        false => format!("{shortest:.1} to {longest:.1} s"),
    };
    let least: Vec<f64> = spans.iter().map(|(_, span)| span.at_least_s).collect();
    let most: Option<Vec<f64>> = spans.iter().map(|(_, span)| span.at_most_s).collect();
    let counted = match most {
        Some(most) => {
            format!("for between {:.1} and {:.1} s", extreme(&least).0, extreme(&most).1)
        }
        None => format!("for {:.1} s or longer", extreme(&least).0),
    };
    let mut text = format!(
        "{} reports {} GiB/s of {}. Its bytes were counted {counted}, until its last requests had \
         ended, and divided by {divisor}, the time until the stop signal. Over the time that \
         really passed they come to {}: what is reported is {} more.",
        group.begin(),
        shown(rate.reported_gib_per_s),
        direction.plural(),
        real(rate),
        percents(rate.overstatement().0.unwrap_or(0.0), rate.overstatement().1),
    );
    if let Some((direction, rate)) = other {
        text.push_str(&format!(
            " For {} it is {} instead of {} GiB/s.",
            direction.plural(),
            real(rate),
            shown(rate.reported_gib_per_s)
        ));
    }
    text
}

/// A rate over the real span, in words.
fn real(rate: Rate) -> String {
    let most = rate.at_most_gib_per_s.map(shown);
    match (rate.at_least_gib_per_s.map(shown), most) {
        (Some(least), Some(most)) if least == most => format!("{most} GiB/s"),
        (Some(least), Some(most)) => format!("{least} to {most} GiB/s"),
        (None, Some(most)) => format!("at most {most} GiB/s"),
        _ => "an unknown rate".to_owned(),
    }
}

/// Requests that took longer than the time by which everything is divided.
pub(super) fn longer_than_the_run(leaf: &Leaf, group: &Group) -> Option<Finding> {
    let ratio = |rank: &Rank| Some(rank.slowest_s?.value / rank.elapsed_s?.value);
    let ranks = group.ranks().filter(|(_, rank)| !rank.is_ours);
    let longer: Vec<(f64, &Rank)> = ranks
        .filter_map(|(_, rank)| Some((ratio(rank)?, rank)))
        .filter(|(ratio, _)| *ratio > 1.0 + SAID_FROM)
        .collect();
    let (most, worst) = longer.iter().copied().max_by(|a, b| a.0.total_cmp(&b.0))?;
    let elapsed = worst.elapsed_s?.value;
    let mut finding = about(leaf, Some(group), Kind::LatencyBeyondTheRun, Level::Finding);
    let (share, told) = beyond(worst, elapsed);
    finding.sentence = format!(
        "{}: in {} of {} rank files the slowest request took longer than the run. The longest took \
         {:.1} s, and the run {elapsed:.1} s{}.",
        group.begin(),
        longer.len(),
        group.ranks().count(),
        worst.slowest_s?.value,
        told
    );
    finding.formula = "slowest request ÷ elapsed_time − 1, the largest of all ranks".to_owned();
    finding.inputs = longer
        .iter()
        .flat_map(|(_, rank)| {
            let elapsed = rank.elapsed_s.map(|figure| Input::of(&rank.file, figure, "s"));
            let percentiles = rank.request_ms.map(|figure| (figure, "ms"));
            let percentiles = Input::known(&rank.file, &percentiles);
            elapsed.into_iter().chain(slowest_input(rank)).chain(percentiles)
        })
        .collect();
    let share_of = "share of the requests that took longer than the run, at least, in the rank \
                    with the slowest";
    finding.weigh(share, share_of);
    finding.result = Some(most - 1.0);
    Some(finding)
}

/// Share of the requests that were longer than the run, as far as percentiles tell, and in words.
fn beyond(rank: &Rank, elapsed_s: f64) -> (f64, &'static str) {
    let is_longer = |figure: Option<Figure>| figure.is_some_and(|ms| ms.value / 1000.0 > elapsed_s);
    match rank.request_ms.map(is_longer) {
        [true, _, _] => (0.5, "; half of its rank's requests or more took longer than the run"),
        [_, true, _] => (0.05, "; 5 % of its rank's requests or more took longer than the run"),
        [_, _, true] => (0.01, "; 1 % of its rank's requests or more took longer than the run"),
        // One of them did.
        _ => (1.0 / value(rank.requests).unwrap_or(f64::INFINITY).max(1.0), ""),
    }
}

/// A rate that can't be worked out from the file that says it.
pub(super) fn rate_is_not_bytes_by_time(leaf: &Leaf, group: &Group) -> Option<Finding> {
    let mut odd = Vec::new();
    for (_, rank) in group.ranks() {
        for direction in Direction::ALL {
            let figures = (direction.gib(rank), direction.gib_per_s(rank), rank.elapsed_s);
            let (Some(gib), Some(rate), Some(elapsed)) = figures else { continue };
            let worked_out = gib.value / elapsed.value;
            let difference = (rate.value - worked_out).abs() / rate.value.max(worked_out);
            if difference > ROUNDING {
                odd.push((difference, rank, [(gib, "GiB"), (rate, "GiB/s"), (elapsed, "s")]));
            }
        }
    }
    let (most, worst, figures) = odd.iter().max_by(|a, b| a.0.total_cmp(&b.0))?;
    let [(gib, _), (rate, _), (elapsed, _)] = figures;
    let mut finding = about(leaf, Some(group), Kind::RateIsNotBytesByTime, Level::Finding);
    finding.sentence = format!(
        "{}: in {} a reported rate is not the file's own bytes divided by its own time. The \
         farthest from it is {}: {} GiB in {} s are {} GiB/s, and it says {} GiB/s. They differ by \
         {}.",
        group.begin(),
        places(odd.len()),
        worst.file.display(),
        shown(gib.value),
        shown(elapsed.value),
        shown(gib.value / elapsed.value),
        shown(rate.value),
        percent(*most)
    );
    finding.formula = "|rate − bytes ÷ elapsed_time| ÷ the larger of both".to_owned();
    finding.inputs = odd
        .iter()
        .flat_map(|(_, rank, figures)| {
            figures.iter().map(|(figure, unit)| Input::of(&rank.file, *figure, unit))
        })
        .collect();
    finding.weigh(*most, "difference from bytes by time, as a share of the larger");
    Some(finding)
}
