//! Charts of the block layer: latencies, depths, places.

use std::collections::BTreeMap;

use ringfall_model::facts::{BlockDirection, BlockTraceFigures, Bucket};

use super::Named;
use super::axis::Axis;
use super::chart::{Line, chart, ranges};
use crate::show::total;

/// Parts of the device that the trace counts in.
const PARTS: f64 = 256.0;

/// Counts traced of a result, after the beginning of its name.
type Traced<'a> = (String, &'a BlockTraceFigures);

/// Charts of every result that was traced.
pub(super) fn block_layer(results: &[Named]) -> String {
    let with_name = results.iter().filter_map(|named| {
        let name = if results.len() > 1 { format!("{}: ", named.name) } else { String::new() };
        Some((name, named.document.ringfall.block_trace.as_ref()?))
    });
    let traced: Vec<Traced<'_>> = with_name.collect();
    let buckets = |title: &str, unit: &str, pick: fn(&BlockDirection) -> &[Bucket]| {
        shares(&traced, title, title, unit, |direction| of_buckets(pick(direction)))
    };
    [
        buckets("From a request's issue to the device until its completion", "µs", |direction| {
            &direction.issue_to_complete_us
        }),
        buckets(
            "From a request's arrival in the I/O scheduler until its issue",
            "µs",
            |direction| &direction.insert_to_issue_us,
        ),
        buckets("Requests in flight, sampled 100 times a second", "", |direction| &direction.depth),
        shares(
            &traced,
            "Sizes of requests",
            "Sizes of the requests that the device got",
            "KiB, by octaves",
            of_sizes,
        ),
        places(&traced),
    ]
    .concat()
}

/// A line of each direction of each result.
fn lines(
    traced: &[Traced<'_>],
    points: impl Fn(&BlockTraceFigures, &'static str) -> Vec<(f64, f64)>,
) -> Vec<Line> {
    let mut lines = Vec::new();
    for (index, (name, figures)) in traced.iter().enumerate() {
        for (place, what) in ["read", "write"].into_iter().enumerate() {
            let line = Line::new(format!("{name}{what}"), 2 * index + place, points(figures, what));
            lines.push(line.dashed_if(index > 0));
        }
    }
    lines
}

/// Chart of shares by something that grows in octaves.
fn shares(
    traced: &[Traced<'_>],
    title: &str,
    about: &str,
    unit: &str,
    points: impl Fn(&BlockDirection) -> Vec<(f64, f64)>,
) -> String {
    let lines = lines(traced, |figures, what| match what {
        "read" => points(&figures.read),
        _ => points(&figures.write),
    });
    let [along, up] = ranges(&lines);
    let wide = along.high.max(2.0);
    let x = Axis::log(unit, along.low.min(wide), wide);
    chart(title, about, &x, &Axis::linear("% of them", up.high), &lines)
}

fn of_buckets(buckets: &[Bucket]) -> Vec<(f64, f64)> {
    let all = total(buckets.iter().map(|bucket| bucket.count));
    let point = |bucket: &Bucket| {
        (bucket.low.max(1) as f64, bucket.count as f64 * 100.0 / all.max(1) as f64)
    };
    buckets.iter().filter(|bucket| bucket.count > 0).map(point).collect()
}

fn of_sizes(direction: &BlockDirection) -> Vec<(f64, f64)> {
    let mut octaves = BTreeMap::<u32, u64>::new();
    for size in &direction.sizes {
        let count = octaves.entry((size.bytes / 1024).max(1).ilog2()).or_default();
        *count = count.saturating_add(size.count);
    }
    let all = direction.requests.max(1) as f64;
    let point =
        |(octave, count): (u32, u64)| (f64::from(octave).exp2(), count as f64 * 100.0 / all);
    octaves.into_iter().map(point).collect()
}

fn places(traced: &[Traced<'_>]) -> String {
    let lines = lines(traced, |figures, what| {
        let points = figures.heat.iter().map(|cell| {
            let count = if what == "read" { cell.reads } else { cell.writes };
            (f64::from(cell.part) * 100.0 / PARTS, count as f64)
        });
        points.filter(|point| point.1 > 0.0).collect()
    });
    let lines: Vec<Line> = lines.into_iter().map(Line::dots).collect();
    let [_, up] = ranges(&lines);
    chart(
        "Positions on the device",
        "Requests by position on the device, in 256 parts",
        &Axis::linear_to("% of the device", 100.0),
        &Axis::linear("requests", up.high),
        &lines,
    )
}
