//! Findings about what results of ours say of their own run: that it was simulated, ended early, or
//! went wrong.

use ringfall_model::NO_DRIVE;

use super::super::finding::{Finding, Input, Kind, Level};
use super::super::leaf::{Group, Leaf};
use super::super::rank::{Known, Rank};
use super::{about, shown};

/// Results in which no drive moved a byte.
pub(super) fn simulated(leaf: &Leaf, group: &Group) -> Option<Finding> {
    let (those, share) = group.those(|rank| rank.simulated.is_some())?;
    let device = |rank: &Rank| rank.simulated.clone().unwrap_or_default();
    let first = match those.first().map_or_else(String::new, |rank| device(rank)) {
        name if name == NO_DRIVE => "without any device, for a logical trace".to_owned(),
        name => format!("with the device description \"{name}\""),
    };
    let mut finding = about(leaf, Some(group), Kind::Simulated, Level::Finding);
    finding.sentence = format!(
        "{}: {} of {} rank files are of simulated runs, the first {first}. No drive moved a \
         byte, and rates and latencies are those of a model.",
        group.begin(),
        those.len(),
        group.ranks().count()
    );
    finding.formula = "rank files with ringfall.simulation ÷ all".to_owned();
    let key = "ringfall.simulation.device";
    finding.inputs = those.iter().map(|rank| Input::text(&rank.file, key, device(rank))).collect();
    finding.weigh(share, "share of the rank files that were simulated");
    Some(finding)
}

/// Runs that a signal ended.
pub(super) fn interrupted(leaf: &Leaf, group: &Group) -> Option<Finding> {
    let (those, share) = group.those(|rank| rank.is_interrupted)?;
    let mut finding = about(leaf, Some(group), Kind::Interrupted, Level::Finding);
    finding.sentence = format!(
        "{}: {} of {} rank files are of runs that a signal ended early. Their figures are those \
         of a shorter time than was asked for.",
        group.begin(),
        those.len(),
        group.ranks().count()
    );
    finding.formula = "rank files whose window was interrupted ÷ all".to_owned();
    let key = "ringfall.window.interrupted";
    finding.inputs = those.iter().map(|rank| Input::text(&rank.file, key, "true")).collect();
    finding.weigh(share, "share of the rank files whose run was interrupted");
    Some(finding)
}

pub(super) fn requests_failed(leaf: &Leaf, group: &Group) -> Option<Finding> {
    let what = ("request", "ended in the window with a failed step");
    counted(leaf, group, Kind::RequestsFailed, what, |rank| rank.requests_failed)
}

/// Data that was not what had been written.
pub(super) fn blocks_bad(leaf: &Leaf, group: &Group) -> Option<Finding> {
    let what = ("block", "differed, when read back, from what had been written");
    counted(leaf, group, Kind::BlocksBad, what, |rank| rank.blocks_bad)
}

/// A count that should be 0 in every rank file.
fn counted(
    leaf: &Leaf,
    group: &Group,
    kind: Kind,
    (one, what): (&str, &str),
    count: impl Fn(&Rank) -> Known,
) -> Option<Finding> {
    let (those, share) = group.those(|rank| count(rank).is_some_and(|one| one.value > 0.0))?;
    let sum: f64 = those.iter().filter_map(|rank| Some(count(rank)?.value)).sum();
    let mut finding = about(leaf, Some(group), kind, Level::Finding);
    finding.sentence = format!(
        "{}: {} {one}{} {what}, in {} of {} rank files.",
        group.begin(),
        shown(sum),
        if sum == 1.0 { "" } else { "s" },
        those.len(),
        group.ranks().count()
    );
    finding.formula = "sum of the count over the rank files".to_owned();
    finding.inputs =
        those.iter().filter_map(|rank| Some(Input::of(&rank.file, count(rank)?, ""))).collect();
    finding.weigh(share, "share of the rank files that count one or more");
    finding.result = Some(sum);
    Some(finding)
}
