//! The page of a device's limits.

use std::path::Path;

use ringfall_model::facts::{Best, Limit, Measured, Roofline};

use super::axis::Axis;
use super::chart::{Line, chart, ranges};
use super::markup::Html;
use super::shown;
use crate::show::table::{self, Table};
use crate::show::{GIB, direction};

/// Writes a device's limits as a page.
pub fn write_roofline_html(roofline: &Roofline, path: &Path) -> std::io::Result<()> {
    ringfall_host::write_output(path, page(roofline).as_bytes())
}

fn page(roofline: &Roofline) -> String {
    let device = roofline.machine.device.as_ref();
    let name = device.map_or("the store", |device| device.model.as_deref().unwrap_or(&device.name));
    let title = format!("Limits of {name}");
    let mut html = Html::new(&title, &title);
    html.sub(&format!(
        "{} GiB · {} threads · polling {}{} · found in {} s",
        shown(roofline.range_bytes as f64 / GIB),
        roofline.threads,
        roofline.polling,
        if roofline.nvme_passthrough { " · NVMe passthrough" } else { "" },
        shown(roofline.seconds)
    ));
    let cards = roofline.limits.iter().flat_map(|limit| {
        let name = direction(limit.read_percent);
        let bandwidth = limit.bandwidth.best.bytes_per_s / GIB;
        let iops = limit.iops.as_ref();
        let iops = iops.map(|iops| (iops.best.iops / 1e3, format!("{name}, kIOPS")));
        [Some((bandwidth, format!("{name}, GiB/s"))), iops].into_iter().flatten()
    });
    html.cards(shown, cards);
    for sentence in roofline.left_undone() {
        html.paragraph(&format!("The time limit ended the search: {sentence}"));
    }
    for warning in &roofline.warnings {
        html.paragraph(&format!("Note: {warning}."));
    }
    unrepeated(&mut html, roofline);
    let by_depth = |title, unit, goal: fn(&Limit) -> Option<&Best>, value: fn(&Measured) -> f64| {
        let lines = climbs(roofline, goal, |m| (f64::from(m.depth), value(m)));
        let [depth, up] = ranges(&lines);
        let x = Axis::log("I/Os in flight", 1.0, depth.high.max(2.0));
        chart(title, title, &x, &Axis::linear(unit, up.high), &lines)
    };
    let charts = [
        by_depth(
            "Bandwidth by depth",
            "GiB/s",
            |limit| Some(&limit.bandwidth),
            |m| m.bytes_per_s / GIB,
        ),
        by_depth(
            "IOPS of the smallest I/Os by depth",
            "kIOPS",
            |limit| limit.iops.as_ref(),
            |m| m.iops / 1e3,
        ),
        latency(roofline),
    ];
    html.heading("Curves");
    html.paragraph(
        "What the search tried at the size it began with. The knee is the smallest depth with 95 % \
         of the best.",
    );
    html.charts(&charts.concat());
    html.heading("All that was tried");
    html.table(&tried(roofline));
    html.end(&format!("Made by ringfall. Steady: {}.", roofline.steady_rule))
}

/// Short probes that the long measurement of the best point does not bear out.
fn unrepeated(html: &mut Html, roofline: &Roofline) {
    for limit in &roofline.limits {
        if let Some(fastest) = limit.bandwidth.outrun() {
            let best = &limit.bandwidth.best;
            html.paragraph(&format!(
                "{}: a probe of {} s had {} GiB/s, and the best point {} over the {} s {}: the \
                 speed of this device varies.",
                direction(limit.read_percent),
                shown(fastest.seconds),
                shown(fastest.bytes_per_s / GIB),
                shown(best.bytes_per_s / GIB),
                shown(best.seconds),
                best.ended()
            ));
        }
    }
}

/// Lines of the climbs to a goal: what was tried at the first size, by depth.
fn climbs(
    roofline: &Roofline,
    goal: fn(&Limit) -> Option<&Best>,
    point: impl Fn(&Measured) -> (f64, f64),
) -> Vec<Line> {
    let line = |(colour, limit): (usize, &Limit)| {
        let probes = &goal(limit)?.probes;
        let first = probes.first().map_or(0, |probe| probe.io_bytes);
        let points = probes.iter().filter(|probe| probe.io_bytes == first).map(&point);
        Some(Line::new(direction(limit.read_percent), colour, points))
    };
    roofline.limits.iter().enumerate().filter_map(line).collect()
}

/// Chart of latency over bandwidth.
fn latency(roofline: &Roofline) -> String {
    let lines = climbs(
        roofline,
        |limit| Some(&limit.bandwidth),
        |m| (m.bytes_per_s / GIB, m.latency_p99_us),
    );
    let lines: Vec<Line> = lines.into_iter().map(Line::dots).collect();
    let [wide, us] = ranges(&lines);
    let high = us.high.max(1.0);
    chart(
        "P99 of an I/O over bandwidth",
        "Latency over bandwidth: each point is a depth",
        &Axis::linear("GiB/s", wide.high),
        &Axis::log("µs", us.low.clamp(0.1, high), high),
        &lines,
    )
}

/// Every point that the searches tried, the best of each last.
fn tried(roofline: &Roofline) -> Table {
    let mut rows: Vec<(String, &Measured)> = Vec::new();
    for limit in &roofline.limits {
        let name = direction(limit.read_percent);
        for best in [Some(&limit.bandwidth), limit.iops.as_ref()].into_iter().flatten() {
            rows.extend(best.probes.iter().map(|probe| (name.clone(), probe)));
            rows.push((format!("{name}, best"), &best.best));
        }
        let small = limit.in_small_pages.iter();
        rows.extend(small.map(|small| (format!("{name}, best, in 4 KiB pages"), small)));
    }
    Table::of(&rows)
        .text("", |(name, _)| name.as_str())
        .count("I/O, KiB", |(_, m)| m.io_bytes >> 10)
        .count("depth", |(_, m)| m.depth)
        .number("GiB/s", shown, |(_, m)| m.bytes_per_s / GIB)
        .count("IOPS", |(_, m)| m.iops)
        .count("P50", |(_, m)| table::latency(m.latency_p50_us))
        .count("P99", |(_, m)| table::latency(m.latency_p99_us))
        .number("CPU-s/GiB", shown, |(_, m)| m.cpu_s_per_gib)
        .text("steady", |(_, m)| m.steady)
        .done()
}
