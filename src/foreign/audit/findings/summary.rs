//! The summary held against the rank files that it is made of.

use super::super::finding::{Finding, Input, Kind, Level};
use super::super::leaf::{Group, Leaf};
use super::super::rank::{Known, Rank, value};
use super::{about, percent, shown};

/// Relative difference that rounding can't make.
const ROUNDING: f64 = 1e-6;

/// The figure of a rank that an aggregated one is made of.
type Pick = fn(&Rank) -> Known;
/// An aggregated figure, how the harness makes it, of which figure of the ranks, and its unit.
type Made = (&'static str, fn(&Group, Pick) -> f64, Pick, &'static str);

/// Aggregated figures whose making is known.
const MADE: [Made; 8] = [
    ("aggregated_read_bandwidth_gbps", mean_of_sums, |rank| rank.read_gib_per_s, "GiB/s"),
    ("aggregated_write_bandwidth_gbps", mean_of_sums, |rank| rank.write_gib_per_s, "GiB/s"),
    (
        "aggregated_avg_throughput_tokens_per_sec",
        mean_of_sums,
        |rank| rank.tokens_per_s,
        "tokens/s",
    ),
    (
        "aggregated_storage_throughput_tokens_per_sec",
        mean_of_sums,
        |rank| rank.storage_tokens_per_s,
        "tokens/s",
    ),
    ("aggregated_p95_latency_ms", largest, |rank| rank.storage_io_p95_ms, "ms"),
    ("aggregated_device_read_p95_ms", largest, |rank| rank.read_device_p95_ms, "ms"),
    ("aggregated_device_write_p95_ms", largest, |rank| rank.fsync_ms[1], "ms"),
    ("aggregated_storage_read_p95_ms", largest, |rank| rank.storage_read_p95_ms, "ms"),
];

/// Published figures that the rank files do not give.
pub(super) fn differs(leaf: &Leaf, group: &Group) -> Option<Finding> {
    let (file, published) = leaf.published_of(group)?;
    // Of a part of a run nothing can be added up.
    if !leaf.is_whole {
        return None;
    }
    let mut finding = about(leaf, Some(group), Kind::SummaryDiffers, Level::Finding);
    let mut told = Vec::new();
    let mut most = 0.0_f64;
    for (key, made, pick, unit) in &MADE {
        let Some(says) = published.number(key) else { continue };
        let again = made(group, *pick);
        let difference = (says - again).abs() / says.abs().max(again.abs());
        if difference > ROUNDING {
            most = most.max(difference);
            told.push(format!("{key} is {}, and they give {}", shown(says), shown(again)));
            let key = group.published_key(key);
            finding.inputs.push(Input::number(file, key.clone(), says, unit));
            let key = format!("{key}, from the rank files");
            finding.inputs.push(Input::number(&leaf.path, key, again, unit));
        }
    }
    if told.is_empty() {
        return None;
    }
    finding.sentence = format!(
        "{}: the summary says other figures than its {} rank files give: {}. They differ by up to \
         {}.",
        group.begin(),
        group.ranks().count(),
        told.join("; "),
        percent(most)
    );
    finding.formula =
        "throughput and bandwidth: summed over ranks, averaged over trials; latency: \
                       the largest over ranks and trials; |published − that| ÷ the larger of both"
            .to_owned();
    finding.weigh(most, "difference from the rank files, as a share of the larger figure");
    Some(finding)
}

/// Summed over ranks, averaged over trials, of which an empty one counts as 0.
fn mean_of_sums(group: &Group, pick: Pick) -> f64 {
    figures(group, pick).sum::<f64>() / group.trials.len() as f64
}

/// The largest over ranks and trials.
fn largest(group: &Group, pick: Pick) -> f64 {
    figures(group, pick).fold(0.0, f64::max)
}

/// The figure of each rank; what a rank lacks counts as 0, as in the harness.
fn figures(group: &Group, pick: Pick) -> impl Iterator<Item = f64> {
    group.ranks().map(move |(_, rank)| value(pick(rank)).unwrap_or(0.0))
}
