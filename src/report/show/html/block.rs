//! Charts of the block layer: latencies, depths, places.

use ringfall_model::facts::{BlockDirection, BlockTraceFigures, Bucket};

use super::Named;
use super::axis::Axis;
use super::chart::{Chart, Line};
use crate::show::total;

/// Parts of the device that the trace counts in.
const PARTS: f64 = 256.0;

/// Charts of every result that was traced.
pub(super) fn block_layer(results: &[Named]) -> String {
    let traced = || {
        let with_name = |named: &'_ Named| {
            let name = if results.len() > 1 { format!("{}: ", named.name) } else { String::new() };
            Some((name, named.document.ringfall.block_trace.as_ref()?.clone()))
        };
        results.iter().filter_map(with_name).collect::<Vec<_>>()
    };
    let traced = traced();
    [
        shares(&traced, "From a request's issue to the device until its completion", "µs", |d| {
            &d.issue_to_complete_us
        }),
        shares(
            &traced,
            "From a request's arrival in the I/O scheduler until its issue",
            "µs",
            |d| &d.insert_to_issue_us,
        ),
        shares(&traced, "Requests in flight, sampled 100 times a second", "", |d| &d.depth),
        sizes(&traced),
        places(&traced),
    ]
    .concat()
}

fn directions(
    traced: &[(String, BlockTraceFigures)],
) -> impl Iterator<Item = (String, usize, bool, &BlockDirection)> {
    traced.iter().enumerate().flat_map(|(index, (name, figures))| {
        [("read", &figures.read, 0), ("write", &figures.write, 1)].map(
            |(what, direction, place)| {
                (format!("{name}{what}"), 2 * index + place, index > 0, direction)
            },
        )
    })
}

/// Shares of octaves.
fn shares(
    traced: &[(String, BlockTraceFigures)],
    title: &str,
    unit: &str,
    pick: fn(&BlockDirection) -> &Vec<Bucket>,
) -> String {
    let lines: Vec<Line> = directions(traced)
        .map(|(name, colour, dashed, direction)| {
            let all = total(pick(direction).iter().map(|bucket| bucket.count));
            let point = |bucket: &Bucket| {
                (bucket.low.max(1) as f64, bucket.count as f64 * 100.0 / all.max(1) as f64)
            };
            let used = pick(direction).iter().filter(|bucket| bucket.count > 0);
            Line { name, colour, dashed, points: used.map(point).collect(), dots: false }
        })
        .collect();
    let points = || lines.iter().flat_map(|line| &line.points);
    let wide = points().map(|point| point.0).fold(2.0, f64::max);
    let low = points().map(|point| point.0).fold(wide, f64::min);
    let high = points().map(|point| point.1).fold(0.0, f64::max);
    let (x, y) = ((unit, Axis::log(low, wide)), ("% of them", Axis::linear(high)));
    Chart { title, about: title, x, y, lines }.html()
}

fn sizes(traced: &[(String, BlockTraceFigures)]) -> String {
    let lines: Vec<Line> = directions(traced)
        .map(|(name, colour, dashed, direction)| {
            let mut octaves = std::collections::BTreeMap::<u32, u64>::new();
            for size in &direction.sizes {
                let count = octaves.entry((size.bytes / 1024).max(1).ilog2()).or_default();
                *count = count.saturating_add(size.count);
            }
            let all = direction.requests.max(1) as f64;
            let point = |(octave, count): (u32, u64)| {
                (f64::from(octave).exp2(), count as f64 * 100.0 / all)
            };
            Line {
                name,
                colour,
                dashed,
                points: octaves.into_iter().map(point).collect(),
                dots: false,
            }
        })
        .collect();
    let points = || lines.iter().flat_map(|line| &line.points);
    let wide = points().map(|point| point.0).fold(2.0, f64::max);
    let low = points().map(|point| point.0).fold(wide, f64::min);
    let high = points().map(|point| point.1).fold(0.0, f64::max);
    Chart {
        title: "Sizes of requests",
        about: "Sizes of the requests that the device got",
        x: ("KiB, by octaves", Axis::log(low, wide)),
        y: ("% of them", Axis::linear(high)),
        lines,
    }
    .html()
}

fn places(traced: &[(String, BlockTraceFigures)]) -> String {
    let mut lines = Vec::new();
    for (index, (name, figures)) in traced.iter().enumerate() {
        for (place, what) in ["read", "write"].into_iter().enumerate() {
            let points = figures.heat.iter().map(|cell| {
                let count = if place == 0 { cell.reads } else { cell.writes };
                (f64::from(cell.part) * 100.0 / PARTS, count as f64)
            });
            lines.push(Line {
                name: format!("{name}{what}"),
                colour: 2 * index + place,
                dashed: index > 0,
                points: points.filter(|point| point.1 > 0.0).collect(),
                dots: true,
            });
        }
    }
    let high = lines.iter().flat_map(|line| &line.points).map(|point| point.1).fold(0.0, f64::max);
    Chart {
        title: "Positions on the device",
        about: "Requests by position on the device, in 256 parts",
        x: ("% of the device", Axis::linear_to(100.0)),
        y: ("requests", Axis::linear(high)),
        lines,
    }
    .html()
}
