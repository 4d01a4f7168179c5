//! The report's charts, from documents.

use ringfall_core::metrics::Histogram;
use ringfall_model::autoscaling::CurvePoint;
use ringfall_model::document::{CLASSES, KernelSecondReport, SecondReport};
use ringfall_model::figures::figure::Fact;

use super::axis::Axis;
use super::chart::{Line, Range, chart, ranges};
use super::{Named, heat};
use crate::show::{GIB, gib_rate, rate};

/// Points of a percentile curve: evenly spaced by how rare the rest is.
const CURVE_POINTS: u32 = 120;

/// `(1/(1 − q), ms)` up to the rarest percentile that the count can tell.
fn curve(histogram: &Histogram) -> Vec<(f64, f64)> {
    let rarest = (histogram.count() as f64).clamp(2.0, 1e6);
    let points = (0..=CURVE_POINTS).filter_map(|n| {
        let rare = rarest.powf(f64::from(n) / f64::from(CURVE_POINTS));
        let ns = histogram.quantile_ns(1.0 - 1.0 / rare)?;
        Some((rare, ns as f64 / 1e6))
    });
    points.collect()
}

/// Name of a line of a result: what it shows, after the result's name if there are several;
/// nothing is what is said already.
fn name_of(results: &[Named], named: &Named, what: &str) -> String {
    match (results.len(), what) {
        (1, _) => what.to_owned(),
        (_, "") => named.name.clone(),
        _ => format!("{}, {what}", named.name),
    }
}

fn title_of(results: &[Named], named: &Named, title: &str) -> String {
    match results.len() {
        1 => title.to_owned(),
        _ => format!("{title}, {}", named.name),
    }
}

/// Line of a kind of a result, both by their places. One result: a colour a kind. Several: a colour
/// a result, and dashes for the rest.
fn line(
    results: &[Named],
    result: usize,
    kind: usize,
    what: &str,
    points: Vec<(f64, f64)>,
) -> Line {
    let several = results.len() > 1;
    let name = name_of(results, &results[result], what);
    Line::new(name, if several { result } else { kind }, points).dashed_if(several && kind > 0)
}

/// Percentile curves of some histograms, of all results; `together`: several results have one curve
/// each for all kinds.
fn percentiles(title: &str, results: &[Named], kinds: &[(&str, &str)], together: bool) -> String {
    let mut lines = Vec::new();
    for (result, named) in results.iter().enumerate() {
        // One that does not decode is left out: the table still has its figures. Without a drive
        // what took time is the requests alone.
        let find = |key: &str| {
            let is_told = CLASSES.contains(&key) || !named.document.is_without_drive();
            is_told.then(|| named.document.ringfall.histograms.decoded(key)).flatten()
        };
        if results.len() > 1 && together {
            let mut all = Histogram::new();
            kinds.iter().filter_map(|kind| find(kind.0)).for_each(|one| all.merge(&one));
            lines.push(line(results, result, 0, "", curve(&all)));
            continue;
        }
        for (kind, &(key, name)) in kinds.iter().enumerate() {
            let Some(histogram) = find(key) else { continue };
            lines.push(line(results, result, kind, name, curve(&histogram)));
        }
    }
    let along = Range { low: 1.0, ..ranges(&lines)[0] };
    lines.extend(targets(results, kinds, along));
    let [rare, ms] = ranges(&lines);
    chart(
        title,
        "Latency by percentile, both axes logarithmic",
        &Axis::percentiles(rare.high),
        &Axis::log("ms", ms.low, ms.high),
        &lines,
    )
}

/// Histogram of each class of requests, and its name.
const CLASS_KINDS: [(&str, &str); 3] = [
    ("end_to_end_interactive", "interactive"),
    ("end_to_end_responsive", "responsive"),
    ("end_to_end_batch", "batch"),
];

/// Targets for the P95 of those kinds that are classes of requests, in a single result.
fn targets(results: &[Named], kinds: &[(&str, &str)], along: Range) -> Vec<Line> {
    let [one] = results else { return Vec::new() };
    let Some(report) = one.document.ringfall.requests.as_ref() else { return Vec::new() };
    let target = |(colour, &(key, name)): (usize, &(&str, &str))| {
        let (_, class) = report.rows().into_iter().find(|(class, _)| *class == name)?;
        let has_line = CLASSES.contains(&key) && class.finished > 0;
        let ms = class.target_p95_ms.filter(|_| has_line)?;
        Some(Line::level(format!("{name}, P95 target"), colour, along, ms as f64))
    };
    kinds.iter().enumerate().filter_map(target).collect()
}

/// Charts for the first screen: what a search for users measured, and the drive over time and by
/// how long loads from it took.
pub(super) fn overview(results: &[Named]) -> String {
    let loads = percentiles("Load of a context", results, &[("context_load", "load")], false);
    [scaling(results), latency_by_users(results), bandwidth(results), loads].concat()
}

/// Chart of what storage moved, with the drive's limits where they are known of a single result.
fn bandwidth(results: &[Named]) -> String {
    let kinds: [(&str, Pick); 2] = [
        ("read", |second| gib_rate(second.tiers.storage.read.bytes, second)),
        ("write", |second| gib_rate(second.tiers.storage.write.bytes, second)),
    ];
    let mut lines = timelines_of("GiB/s", results, &kinds);
    let along = Range { low: 0.0, ..ranges(&lines)[0] };
    let roofline = match results {
        [one] => one.document.ringfall.roofline.as_ref().filter(|_| along.high > 0.0),
        _ => None,
    };
    let limits = roofline.into_iter().flat_map(|of| [of.read_gib_per_s, of.write_gib_per_s]);
    for (colour, (limit, name)) in limits.zip(["limit of reads", "limit of writes"]).enumerate() {
        let limit = limit.known();
        lines.extend(limit.map(|limit| Line::level(name.to_owned(), colour, along, limit)));
    }
    seconds("Storage bandwidth", "Storage bandwidth", "GiB/s", &lines)
}

pub(super) fn latencies(results: &[Named]) -> String {
    [
        percentiles(
            "Single I/Os, submit to completion",
            results,
            &[("io_read", "read"), ("io_write", "write")],
            false,
        ),
        percentiles(
            "Whole entries on storage",
            results,
            &[("storage_read_total", "read"), ("storage_write_total", "write")],
            false,
        ),
        percentiles("Requests, intended arrival to end", results, &CLASS_KINDS, true),
    ]
    .concat()
}

/// Value that a line shows of a second; `None`: nothing was measured in it.
type Pick = fn(&SecondReport) -> Option<f64>;

/// Units of what only a drive, or memory, can do.
const UNITS_MOVED: [&str; 2] = ["GiB/s", "I/Os"];

fn over_time(title: &str, unit: &str, results: &[Named], kinds: &[(&str, Pick)]) -> String {
    seconds(title, title, unit, &timelines_of(unit, results, kinds))
}

/// Lines over the seconds of the window, of each kind for each result.
fn timelines_of(unit: &str, results: &[Named], kinds: &[(&str, Pick)]) -> Vec<Line> {
    let mut lines = Vec::new();
    for (result, named) in results.iter().enumerate() {
        for (kind, &(name, pick)) in kinds.iter().enumerate() {
            let what = if results.len() > 1 && kinds.len() == 1 { "" } else { name };
            let seconds = named.document.ringfall.timeline.iter();
            // Without a drive nothing moved, whatever was asked for.
            let is_told = !UNITS_MOVED.contains(&unit) || !named.document.is_without_drive();
            let seconds = seconds.filter(|_| is_told);
            let points = seconds.filter_map(|s| Some((s.end_s.known()?, pick(s)?))).collect();
            lines.push(line(results, result, kind, what, points));
        }
    }
    lines
}

/// Chart over the seconds of the window; nothing when all is zero.
fn seconds(title: &str, about: &str, unit: &str, lines: &[Line]) -> String {
    let [end, up] = ranges(lines);
    if up.high == 0.0 {
        return String::new();
    }
    chart(title, about, &Axis::linear_to("s", end.high), &Axis::linear(unit, up.high), lines)
}

/// Everything over time.
pub(super) fn timelines(results: &[Named]) -> String {
    let over_time = |title, unit, kinds: &[(&str, Pick)]| over_time(title, unit, results, kinds);
    // Nothing else changes the number of users.
    let is_searched =
        results.iter().any(|named| named.document.ringfall.autoscaler.as_ref().is_some());
    let users = over_time("Users", "users", &[("users", |second| second.users.number())]);
    [
        over_time(
            "CPU tier bandwidth",
            "GiB/s",
            &[
                ("read", |second| gib_rate(second.tiers.cpu.read.bytes, second)),
                ("write", |second| gib_rate(second.tiers.cpu.write.bytes, second)),
            ],
        ),
        over_time(
            "Tokens of the requests that ended",
            "tokens/s",
            &[("tokens/s", |second| rate(second.generated_tokens, 1.0, second))],
        ),
        if is_searched { users } else { String::new() },
        over_time(
            "I/Os in flight at each second's end",
            "I/Os",
            &[("in flight", |second| second.queue_depth.number())],
        ),
        over_time(
            "Tier occupancy",
            "GiB",
            &[
                ("storage", |second| Some(second.tiers.storage.held_bytes.number()? / GIB)),
                ("CPU", |second| Some(second.tiers.cpu.held_bytes.number()? / GIB)),
            ],
        ),
        over_time(
            "Entries found",
            "%",
            &[("hit rate", |second| second.hit_rate.known().map(|rate| rate * 100.0))],
        ),
    ]
    .concat()
}

type KernelBytes = fn(&KernelSecondReport) -> Fact<u64>;

/// The device's own counters over ours, by direction.
pub(super) fn device(results: &[Named]) -> String {
    let mut html = String::new();
    for named in results {
        let ours = &named.document.ringfall;
        let directions: [(&str, Pick, KernelBytes); 2] = [
            ("read", |s| gib_rate(s.tiers.storage.read.bytes, s), |kernel| kernel.read_bytes),
            ("written", |s| gib_rate(s.tiers.storage.write.bytes, s), |kernel| kernel.write_bytes),
        ];
        let mut lines = Vec::new();
        for (colour, (name, engine, kernel)) in directions.into_iter().enumerate() {
            let of_engine =
                ours.timeline.iter().filter_map(|s| Some((s.end_s.known()?, engine(s)?)));
            let of_kernel = ours.device.series.iter().filter_map(|s| {
                let seconds = s.seconds.known()?.max(1e-9);
                Some((s.end_s.known()?, kernel(s).number()? / GIB / seconds))
            });
            lines.push(Line::new(format!("{name}, ringfall"), colour, of_engine));
            lines.push(Line::new(format!("{name}, kernel"), colour, of_kernel).dashed_if(true));
        }
        if !ours.device.series.is_empty() {
            html.push_str(&seconds(
                &title_of(results, named, "The device's counters over ringfall's"),
                "Bandwidth as the kernel counted it over bandwidth as ringfall did",
                "GiB/s",
                &lines,
            ));
        }
    }
    html
}

/// Heat maps of single I/Os.
pub(super) fn heat_maps(results: &[Named]) -> String {
    let mut html = String::new();
    for named in results.iter().filter(|named| !named.document.is_without_drive()) {
        let seconds = &named.document.ringfall.timeline;
        let title = |title: &str| title_of(results, named, title);
        html.push_str(&heat::map(&title("Single reads"), seconds, |s| &s.io_read_buckets));
        html.push_str(&heat::map(&title("Single writes"), seconds, |s| &s.io_write_buckets));
    }
    html
}

/// Chart of the autoscaler's steps: throughput by users, and the fit.
pub(super) fn scaling(results: &[Named]) -> String {
    let mut lines = Vec::new();
    for (colour, named) in results.iter().enumerate() {
        let Some(scaler) = named.document.ringfall.autoscaler.as_ref() else { continue };
        let point = |step: &CurvePoint| Some((step.users.number()?, step.gib_per_s.known()?));
        let mut points: Vec<(f64, f64)> = scaler.curve.iter().filter_map(point).collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        let end = |point: Option<&(f64, f64)>| point.map_or(1.0, |point| point.0);
        let (few, most) = (end(points.first()), end(points.last()));
        let name = |what: &str| name_of(results, named, what);
        lines.push(Line::new(name("measured"), colour, points).dots());
        if let Some(usl) = scaler.usl.as_ref() {
            let at = |users: f64| Some((users, usl.bytes_per_s(users)? / GIB));
            let users = (0..=60).map(|n| few * (most / few).powf(f64::from(n) / 60.0));
            let points = users.filter_map(at);
            let name = name("Universal Scalability Law");
            lines.push(Line::new(name, colour, points).dashed_if(true));
        }
    }
    let [users, up] = ranges(&lines);
    chart(
        "Throughput by users",
        "Storage throughput at each number of users that the autoscaler tried",
        &Axis::log("users", users.low, users.high),
        &Axis::linear("GiB/s", up.high),
        &lines,
    )
}

/// Chart of the autoscaler's steps: P95 of each class of requests by users, and its target; nothing
/// of several results.
fn latency_by_users(results: &[Named]) -> String {
    let [one] = results else { return String::new() };
    let Some(scaler) = one.document.ringfall.autoscaler.as_ref() else { return String::new() };
    let line = |(class, (_, name)): (usize, &(&str, &str))| {
        let point =
            |step: &CurvePoint| Some((step.users.number()?, step.class_p95_ms.known()?[class]?));
        let points = scaler.decisive_steps().into_iter().filter_map(point);
        Line::new((*name).to_owned(), class, points)
    };
    let mut lines: Vec<Line> = CLASS_KINDS.iter().enumerate().map(line).collect();
    lines.extend(targets(results, &CLASS_KINDS, ranges(&lines)[0]));
    let [users, ms] = ranges(&lines);
    chart(
        "P95 of requests by users",
        "P95 of each class of requests at each number of users that the autoscaler tried",
        &Axis::log("users", users.low, users.high),
        &Axis::log("ms", ms.low, ms.high),
        &lines,
    )
}
