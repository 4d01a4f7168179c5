//! The page of `ringfall quick`.

use std::path::Path;

use super::chart::{self, Line};
use super::markup::Html;
use crate::quick::{QuickPoint, QuickReport};
use crate::show::quick::{beside, beside_notes, checks, curve, legend, limited, runs, steps};

/// Writes the page of a report, which `answer` has, beside another one where there is one.
pub fn write_quick_html(
    report: &QuickReport,
    other: Option<&QuickReport>,
    answer: &Path,
    path: &Path,
) -> std::io::Result<()> {
    ringfall_host::write_output(path, page(report, other, answer).as_bytes())
}

fn page(report: &QuickReport, other: Option<&QuickReport>, answer: &Path) -> String {
    let mut html = Html::new(&format!("quick: {}", report.place), &report.place);
    html.sub(&format!(
        "ringfall quick {} · {} · {} · seed {}",
        report.version, report.drive, report.model, report.seed
    ));
    html.paragraph_of("verdict", &report.verdict);
    html.paragraph(&report.rule());
    if let Some(range) = report.range() {
        html.paragraph(&range);
    }
    if let Some(limit) = report.limit() {
        html.paragraph(&limit);
    }
    let reports: Vec<&QuickReport> = other.into_iter().chain([report]).collect();
    if let [first, second] = reports[..] {
        html.table(&beside(first, second));
        html.notes(beside_notes(first, second));
    }
    html.charts(
        &[
            loads(&reports),
            chart::by_users(
                "Storage bandwidth by users",
                "GiB/s",
                &lines(&reports, |point| Some(point.gib_per_s)),
            ),
        ]
        .concat(),
    );
    html.heading("Users");
    html.table(&curve(report, &report.curve));
    html.notes(legend(report, &report.curve));
    html.heading("Trust");
    html.notes([format!("Runs on the drive: {}", report.runs_told())]);
    html.table(&runs(report));
    html.notes(report.doubts());
    let steps = steps(report, answer);
    html.paragraph(&format!("Check: {}; then: {}. {}", steps.check, steps.compare, steps.told));
    if let [first, second] = reports[..] {
        let checks = checks(first, second);
        html.paragraph(&checks.told);
        html.notes(checks.lines);
        html.notes(limited(&reports));
    }
    html.end("Made by ringfall.")
}

/// Chart of the P95 of loads, and the target that it is held against.
fn loads(reports: &[&QuickReport]) -> String {
    let mut lines = lines(reports, |point| point.load_p95_s);
    let [users, _] = chart::ranges(&lines);
    // Without a load there is nothing to hold against it.
    for (colour, report) in reports.iter().enumerate().filter(|_| users.high > 0.0) {
        let name = if reports.len() == 1 { String::new() } else { format!("{}: ", report.place) };
        lines.push(Line::level(format!("{name}target"), colour, users, report.load_p95_s));
    }
    chart::by_users("P95 load of a context by users", "s", &lines)
}

/// A line by users for each report.
fn lines(reports: &[&QuickReport], value: fn(&QuickPoint) -> Option<f64>) -> Vec<Line> {
    let line = |(colour, report): (usize, &&QuickReport)| {
        let point = |point: &QuickPoint| Some((f64::from(point.users), value(point)?));
        Line::new(report.place.clone(), colour, report.curve.iter().filter_map(point))
    };
    reports.iter().enumerate().map(line).collect()
}
