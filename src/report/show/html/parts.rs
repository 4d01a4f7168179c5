//! The report's charts, from documents.

use ringfall_core::metrics::Histogram;
use ringfall_model::autoscaling::CurvePoint;
use ringfall_model::document::{CLASSES, KernelSecondReport, SecondReport};
use ringfall_model::figures::figure::{Fact, Sum};

use super::axis::Axis;
use super::chart::{Chart, Line};
use super::{Named, heat};

const GIB: f64 = (1u64 << 30) as f64;

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

/// Percentile curves of some histograms, of all results; `together`: several results have one curve
/// each for all kinds.
fn percentiles(title: &str, results: &[Named], kinds: &[(&str, &str)], together: bool) -> String {
    let mut lines = Vec::new();
    let several = results.len() > 1;
    for (result, named) in results.iter().enumerate() {
        // One that does not decode is left out: the table still has its figures. Without a drive
        // what took time is the requests alone.
        let find = |key: &str| {
            let is_told = CLASSES.contains(&key) || !named.document.is_without_drive();
            is_told.then(|| named.document.ringfall.histograms.decoded(key)).flatten()
        };
        if several && together {
            let mut all = Histogram::new();
            kinds.iter().filter_map(|kind| find(kind.0)).for_each(|one| all.merge(&one));
            let (name, points) = (named.name.clone(), curve(&all));
            lines.push(Line { name, colour: result, dashed: false, points, dots: false });
            continue;
        }
        for (kind, &(key, name)) in kinds.iter().enumerate() {
            let Some(histogram) = find(key) else { continue };
            lines.push(Line {
                name: if several { format!("{}, {name}", named.name) } else { name.to_owned() },
                // One result: a colour a kind. Several: a colour a result, and dashes for the rest.
                colour: if several { result } else { kind },
                dashed: several && kind > 0,
                points: curve(&histogram),
                dots: false,
            });
        }
    }
    let all = || lines.iter().flat_map(|line| line.points.iter());
    let low = all().map(|point| point.1).filter(|ms| *ms > 0.0).fold(f64::INFINITY, f64::min);
    let high = all().map(|point| point.1).fold(0.0, f64::max);
    let rarest = all().map(|point| point.0).fold(100.0, f64::max);
    Chart {
        title,
        about: "Latency by percentile, both axes logarithmic",
        x: ("percentile", Axis::percentiles(rarest)),
        y: ("ms", Axis::log(low, high)),
        lines,
    }
    .html()
}

/// Latency curves.
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
        percentiles(
            "Requests, intended arrival to end",
            results,
            &[
                ("end_to_end_interactive", "interactive"),
                ("end_to_end_responsive", "responsive"),
                ("end_to_end_batch", "batch"),
            ],
            true,
        ),
    ]
    .concat()
}

/// Value that a line shows of a second; `None`: nothing was measured in it.
type Pick = fn(&SecondReport) -> Option<f64>;

/// Units of what only a drive, or memory, can do.
const UNITS_MOVED: [&str; 2] = ["GiB/s", "I/Os"];

fn over_time(title: &str, unit: &str, results: &[Named], kinds: &[(&str, Pick)]) -> String {
    let mut lines = Vec::new();
    for (result, named) in results.iter().enumerate() {
        for (kind, (name, pick)) in kinds.iter().enumerate() {
            let several = results.len() > 1;
            let both = match (several, kinds.len() > 1) {
                (true, true) => format!("{}, {name}", named.name),
                (true, false) => named.name.clone(),
                (false, _) => (*name).to_owned(),
            };
            let seconds = named.document.ringfall.timeline.iter();
            // Without a drive nothing moved, whatever was asked for.
            let is_told = !UNITS_MOVED.contains(&unit) || !named.document.is_without_drive();
            let seconds = seconds.filter(|_| is_told);
            lines.push(Line {
                name: both,
                colour: if several { result } else { kind },
                dashed: several && kind > 0,
                points: seconds.filter_map(|s| Some((s.end_s.known()?, pick(s)?))).collect(),
                dots: false,
            });
        }
    }
    let all = || lines.iter().flat_map(|line| line.points.iter());
    let (end, high) =
        all().fold((0.0, 0.0), |(x, y): (f64, f64), point| (x.max(point.0), y.max(point.1)));
    if high == 0.0 {
        return String::new();
    }
    Chart {
        title,
        about: title,
        x: ("s", Axis::linear_to(end)),
        y: (unit, Axis::linear(high)),
        lines,
    }
    .html()
}

fn rate(amount: Sum<u64>, second: &SecondReport) -> Option<f64> {
    Some(amount.number()? / second.seconds.known()?.max(1e-9))
}

fn gib_rate(bytes: Sum<u64>, second: &SecondReport) -> Option<f64> {
    Some(rate(bytes, second)? / GIB)
}

/// Everything over time.
pub(super) fn timelines(results: &[Named]) -> String {
    let storage: [(&str, Pick); 2] = [
        ("read", |second| gib_rate(second.tiers.storage.read.bytes, second)),
        ("write", |second| gib_rate(second.tiers.storage.write.bytes, second)),
    ];
    let cpu: [(&str, Pick); 2] = [
        ("read", |second| gib_rate(second.tiers.cpu.read.bytes, second)),
        ("write", |second| gib_rate(second.tiers.cpu.write.bytes, second)),
    ];
    let tokens: [(&str, Pick); 1] = [("tokens/s", |second| rate(second.generated_tokens, second))];
    let users: [(&str, Pick); 1] = [("users", |second| second.users.number())];
    let flight: [(&str, Pick); 1] = [("in flight", |second| second.queue_depth.number())];
    let hits: [(&str, Pick); 1] =
        [("hit rate", |second| second.hit_rate.known().map(|rate| rate * 100.0))];
    let held: [(&str, Pick); 2] = [
        ("storage", |second| Some(second.tiers.storage.held_bytes.number()? / GIB)),
        ("CPU", |second| Some(second.tiers.cpu.held_bytes.number()? / GIB)),
    ];
    [
        over_time("Storage bandwidth", "GiB/s", results, &storage),
        over_time("CPU tier bandwidth", "GiB/s", results, &cpu),
        over_time("Tokens of the requests that ended", "tokens/s", results, &tokens),
        over_time("Users", "users", results, &users),
        over_time("I/Os in flight at each second's end", "I/Os", results, &flight),
        over_time("Tier occupancy", "GiB", results, &held),
        over_time("Entries found", "%", results, &hits),
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
            for (who, dashed, points) in
                [("ringfall", false, of_engine.collect()), ("kernel", true, of_kernel.collect())]
            {
                let name = format!("{name}, {who}");
                lines.push(Line { name, colour, dashed, points, dots: false });
            }
        }
        let all = || lines.iter().flat_map(|line| line.points.iter());
        let (end, high) =
            all().fold((0.0, 0.0), |(x, y): (f64, f64), point| (x.max(point.0), y.max(point.1)));
        if ours.device.series.is_empty() || high == 0.0 {
            continue;
        }
        let title = match results.len() {
            1 => "The device's counters over ringfall's".to_owned(),
            _ => format!("The device's counters over ringfall's, {}", named.name),
        };
        let chart = Chart {
            title: &title,
            about: "Bandwidth as the kernel counted it over bandwidth as ringfall did",
            x: ("s", Axis::linear_to(end)),
            y: ("GiB/s", Axis::linear(high)),
            lines,
        };
        html.push_str(&chart.html());
    }
    html
}

/// Heat maps of single I/Os.
pub(super) fn heat_maps(results: &[Named]) -> String {
    let mut html = String::new();
    for named in results.iter().filter(|named| !named.document.is_without_drive()) {
        let seconds = &named.document.ringfall.timeline;
        let title = |direction: &str| match results.len() {
            1 => format!("Single {direction}"),
            _ => format!("Single {direction}, {}", named.name),
        };
        html.push_str(&heat::map(&title("reads"), seconds, |second| &second.io_read_buckets));
        html.push_str(&heat::map(&title("writes"), seconds, |second| &second.io_write_buckets));
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
        let most = points.last().map_or(1.0, |point| point.0);
        let name = |what: &str| match results.len() {
            1 => what.to_owned(),
            _ => format!("{}, {what}", named.name),
        };
        lines.push(Line { name: name("measured"), colour, dashed: false, points, dots: true });
        if let Some(usl) = scaler.usl.as_ref() {
            let at = |users: f64| Some((users, usl.bytes_per_s(users)? / GIB));
            let points = (0..=60).map(|n| most.powf(f64::from(n) / 60.0));
            let points = points.filter_map(at).collect();
            let name = name("Universal Scalability Law");
            lines.push(Line { name, colour, dashed: true, points, dots: false });
        }
    }
    let all = || lines.iter().flat_map(|line| line.points.iter());
    let (most, high) =
        all().fold((1.0, 0.0), |(x, y): (f64, f64), point| (x.max(point.0), y.max(point.1)));
    Chart {
        title: "Throughput by users",
        about: "Storage throughput at each number of users that the autoscaler tried",
        x: ("users", Axis::log(1.0, most)),
        y: ("GiB/s", Axis::linear(high)),
        lines,
    }
    .html()
}
