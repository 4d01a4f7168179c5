//! The summary held against the rank files that it is made of.

use super::super::finding::{Finding, Input, Kind, Level};
use super::super::leaf::{Group, Leaf};
use super::super::rank::{Known, Rank, value};
use super::{about, percent, shown};

/// Relative difference that rounding can't make.
const ROUNDING: f64 = 1e-6;

/// Rule by which the harness combines the figures of the ranks into one.
enum How {
    /// Summed over ranks, averaged over trials.
    MeanOfSums,
    /// The largest over ranks and trials.
    Largest,
}

/// An aggregated figure, its rule, the figure of a rank that it is made of, and its unit.
type Made = (&'static str, How, fn(&Rank) -> Known, &'static str);

/// Aggregated figures whose making is known.
const MADE: [Made; 8] = [
    ("aggregated_read_bandwidth_gbps", How::MeanOfSums, |rank| rank.read_gib_per_s, "GiB/s"),
    ("aggregated_write_bandwidth_gbps", How::MeanOfSums, |rank| rank.write_gib_per_s, "GiB/s"),
    (
        "aggregated_avg_throughput_tokens_per_sec",
        How::MeanOfSums,
        |rank| rank.tokens_per_s,
        "tokens/s",
    ),
    (
        "aggregated_storage_throughput_tokens_per_sec",
        How::MeanOfSums,
        |rank| rank.storage_tokens_per_s,
        "tokens/s",
    ),
    ("aggregated_p95_latency_ms", How::Largest, |rank| rank.storage_io_p95_ms, "ms"),
    ("aggregated_device_read_p95_ms", How::Largest, |rank| rank.read_device_p95_ms, "ms"),
    ("aggregated_device_write_p95_ms", How::Largest, |rank| rank.fsync_ms[1], "ms"),
    ("aggregated_storage_read_p95_ms", How::Largest, |rank| rank.storage_read_p95_ms, "ms"),
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
    for (key, how, pick, unit) in &MADE {
        let Some(says) = published.number(key) else { continue };
        let again = made(group, how, *pick);
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

/// The figure as the harness makes it: what a rank lacks counts as 0, and so does an empty trial.
fn made(group: &Group, how: &How, pick: fn(&Rank) -> Known) -> f64 {
    let figure = |rank: &Rank| value(pick(rank)).unwrap_or(0.0);
    match how {
        How::Largest => group.ranks().map(|(_, rank)| figure(rank)).fold(0.0, f64::max),
        How::MeanOfSums => {
            let sum: f64 = group.ranks().map(|(_, rank)| figure(rank)).sum();
            sum / group.trials.len() as f64
        }
    }
}
