//! The page of `ringfall quick`.

use std::path::Path;

use super::axis::Axis;
use super::chart::{Chart, Line};
use super::markup::Html;
use crate::quick::{QuickPoint, QuickReport};
use crate::show::quick::{beside, curve, trust};

/// Writes the page of a report, beside another one where there is one.
///
/// # Errors
/// Returns the error of the file system.
pub fn write_quick_html(
    report: &QuickReport,
    other: Option<&QuickReport>,
    path: &Path,
) -> std::io::Result<()> {
    ringfall_host::write_output(path, page(report, other).as_bytes())
}

fn page(report: &QuickReport, other: Option<&QuickReport>) -> String {
    let mut html = Html::new(&format!("quick: {}", report.place), &report.place);
    html.sub(&format!(
        "ringfall quick {} · {} · {} · seed {}",
        report.version, report.drive, report.model, report.seed
    ));
    html.paragraph_of("verdict", &report.verdict);
    html.paragraph(&report.rule());
    let reports: Vec<&QuickReport> = other.into_iter().chain([report]).collect();
    if let [first, second] = reports[..] {
        html.table(&beside(first, second));
    }
    html.charts(
        &[
            chart(&reports, "P95 load of a context by users", "s", |point| point.load_p95_s),
            chart(&reports, "Storage bandwidth by users", "GiB/s", |point| Some(point.gib_per_s)),
        ]
        .concat(),
    );
    html.heading("Users");
    html.table(&curve(report));
    html.heading("Trust");
    html.notes(trust(report));
    html.end("Made by ringfall.")
}

fn chart(
    reports: &[&QuickReport],
    title: &str,
    unit: &str,
    value: fn(&QuickPoint) -> Option<f64>,
) -> String {
    let lines: Vec<Line> = reports
        .iter()
        .enumerate()
        .map(|(colour, report)| {
            let point = |point: &QuickPoint| Some((f64::from(point.users), value(point)?));
            let points: Vec<(f64, f64)> = report.curve.iter().filter_map(point).collect();
            let dots = points.len() == 1;
            Line { name: report.place.clone(), colour, dashed: false, points, dots }
        })
        .collect();
    let points = || lines.iter().flat_map(|line| &line.points);
    let few = points().map(|point| point.0).fold(f64::INFINITY, f64::min).clamp(1.0, 1e9);
    let many = points().map(|point| point.0).fold(few * 2.0, f64::max);
    let high = points().map(|point| point.1).fold(0.0, f64::max);
    let x = ("users", Axis::log(few, many));
    Chart { title, about: title, x, y: (unit, Axis::linear(high)), lines }.html()
}
