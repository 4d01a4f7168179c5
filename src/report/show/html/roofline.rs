//! The page of a device's limits.

use std::fmt::Write as _;
use std::path::Path;

use ringfall_host::escape;
use ringfall_model::facts::{Best, Measured, Roofline};

use super::axis::Axis;
use super::chart::{Chart, Line};
use super::{STYLE, shown};

const GIB: f64 = (1u64 << 30) as f64;

/// Writes the page.
///
/// # Errors
/// Returns the error of the file system.
pub fn write_roofline_html(roofline: &Roofline, path: &Path) -> std::io::Result<()> {
    ringfall_host::write_output(path, page(roofline).as_bytes())
}

pub(super) fn direction(read_percent: u32) -> String {
    match read_percent {
        100 => "read".to_owned(),
        0 => "write".to_owned(),
        percent => format!("{percent} % read"),
    }
}

pub(super) fn page(roofline: &Roofline) -> String {
    let device = roofline.machine.device.as_ref();
    let name = device.map_or("the store", |device| device.model.as_deref().unwrap_or(&device.name));
    let title = format!("Limits of {name}");
    let mut html = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <link rel=\"icon\" href=\"data:,\"><title>{0}</title><style>{STYLE}</style></head>\
         <body><main>\n<h1>{0}</h1><div class=\"sub\">{1} GiB · {2} threads · polling {3}{5} · \
         found in {4} s</div><div class=\"cards\">",
        escape::html(&title),
        shown(roofline.range_bytes as f64 / GIB),
        roofline.threads,
        escape::html(&roofline.polling),
        shown(roofline.seconds),
        if roofline.nvme_passthrough { " · NVMe passthrough" } else { "" }
    );
    for limit in &roofline.limits {
        let name = direction(limit.read_percent);
        let mut card = |value: String, label: String| {
            let _infallible = write!(
                html,
                "<div class=\"card\"><b>{value}</b><span>{}</span></div>",
                escape::html(&label)
            );
        };
        card(shown(limit.bandwidth.best.bytes_per_s / GIB), format!("{name}, GiB/s"));
        if let Some(iops) = &limit.iops {
            card(shown(iops.best.iops / 1e3), format!("{name}, kIOPS"));
        }
    }
    html.push_str("</div>\n");
    for sentence in roofline.left_undone() {
        let sentence = escape::html(&sentence);
        let _infallible = writeln!(html, "<p>The time limit ended the search: {sentence}</p>");
    }
    for warning in &roofline.warnings {
        let _infallible = writeln!(html, "<p>Note: {}.</p>", escape::html(warning));
    }
    unrepeated(&mut html, roofline);
    let charts = [
        chart(roofline, "Bandwidth by depth", "I/Os in flight", "GiB/s", bandwidth, |m| {
            (f64::from(m.depth), m.bytes_per_s / GIB)
        }),
        chart(
            roofline,
            "IOPS of the smallest I/Os by depth",
            "I/Os in flight",
            "kIOPS",
            iops,
            |m| (f64::from(m.depth), m.iops / 1e3),
        ),
        latency(roofline),
    ];
    let _infallible = writeln!(
        html,
        "<h2>Curves</h2><p>What the search tried at the size it began with. The knee is the \
         smallest depth with 95 % of the best.</p><div class=\"charts\">{}</div>",
        charts.concat()
    );
    table(&mut html, roofline);
    let _infallible = writeln!(
        html,
        "<footer>Made by ringfall. Steady: {}.</footer></main></body></html>",
        escape::html(&roofline.steady_rule)
    );
    html
}

/// Limits that the device reached for a moment only.
fn unrepeated(html: &mut String, roofline: &Roofline) {
    for limit in &roofline.limits {
        if let Some(fastest) = limit.bandwidth.outrun() {
            let _infallible = writeln!(
                html,
                "<p>{}: a probe of {} s had {} GiB/s, which the best point did not reach in the {} \
                 s until it was steady: the speed of this device varies.</p>",
                escape::html(&direction(limit.read_percent)),
                shown(fastest.seconds),
                shown(fastest.bytes_per_s / GIB),
                shown(limit.bandwidth.best.seconds)
            );
        }
    }
}

fn bandwidth(limit: &ringfall_model::facts::Limit) -> Option<&Best> {
    Some(&limit.bandwidth)
}

fn iops(limit: &ringfall_model::facts::Limit) -> Option<&Best> {
    limit.iops.as_ref()
}

/// The climb: what was tried at the first size, by depth.
fn climb(best: &Best) -> Vec<&Measured> {
    let first = best.probes.first().map_or(0, |probe| probe.io_bytes);
    best.probes.iter().filter(|probe| probe.io_bytes == first).collect()
}

fn chart(
    roofline: &Roofline,
    title: &str,
    x: &str,
    y: &str,
    goal: fn(&ringfall_model::facts::Limit) -> Option<&Best>,
    point: fn(&Measured) -> (f64, f64),
) -> String {
    let line = |(colour, limit): (usize, &ringfall_model::facts::Limit)| {
        Some(Line {
            name: direction(limit.read_percent),
            colour,
            dashed: false,
            points: climb(goal(limit)?).into_iter().map(point).collect(),
            dots: false,
        })
    };
    let lines: Vec<Line> = roofline.limits.iter().enumerate().filter_map(line).collect();
    let points = || lines.iter().flat_map(|line| &line.points);
    let high = points().map(|point| point.1).fold(0.0, f64::max);
    let deep = points().map(|point| point.0).fold(2.0, f64::max);
    Chart { title, about: title, x: (x, Axis::log(1.0, deep)), y: (y, Axis::linear(high)), lines }
        .html()
}

/// Chart of latency over bandwidth.
fn latency(roofline: &Roofline) -> String {
    let line = |(colour, limit): (usize, &ringfall_model::facts::Limit)| {
        let point = |m: &Measured| (m.bytes_per_s / GIB, m.latency_p99_us);
        Line {
            name: direction(limit.read_percent),
            colour,
            dashed: false,
            points: climb(&limit.bandwidth).into_iter().map(point).collect(),
            dots: true,
        }
    };
    let lines: Vec<Line> = roofline.limits.iter().enumerate().map(line).collect();
    let points = || lines.iter().flat_map(|line| &line.points);
    let wide = points().map(|point| point.0).fold(0.0, f64::max);
    let low = points().map(|point| point.1).fold(f64::INFINITY, f64::min);
    let high = points().map(|point| point.1).fold(1.0, f64::max);
    Chart {
        title: "P99 of an I/O over bandwidth",
        about: "Latency over bandwidth: each point is a depth",
        x: ("GiB/s", Axis::linear(wide)),
        y: ("µs", Axis::log(low.clamp(0.1, high), high)),
        lines,
    }
    .html()
}

fn table(html: &mut String, roofline: &Roofline) {
    html.push_str(
        "<h2>All that was tried</h2><table><tr><th></th><th>I/O, KiB</th><th>depth</th>\
         <th>GiB/s</th><th>IOPS</th><th>P50, µs</th><th>P99, µs</th><th>CPU-s/GiB</th>\
         <th>steady</th></tr>",
    );
    let mut row = |name: &str, m: &Measured| {
        let _infallible = write!(
            html,
            "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td>\
             <td>{}</td><td>{}</td></tr>",
            escape::html(name),
            m.io_bytes >> 10,
            m.depth,
            shown(m.bytes_per_s / GIB),
            format_args!("{:.0}", m.iops),
            shown(m.latency_p50_us),
            shown(m.latency_p99_us),
            shown(m.cpu_s_per_gib),
            if m.steady { "yes" } else { "no" }
        );
    };
    for limit in &roofline.limits {
        let name = direction(limit.read_percent);
        for best in [Some(&limit.bandwidth), limit.iops.as_ref()].into_iter().flatten() {
            best.probes.iter().for_each(|probe| row(&name, probe));
            row(&format!("{name}, best"), &best.best);
        }
    }
    html.push_str("</table>");
}
