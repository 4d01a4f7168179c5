//! The answer of `ringfall quick` on the terminal, alone or beside that for another drive.

use std::fmt::Write as _;

use ringfall_host::escape::terminal_path;
use ringfall_host::human_time as time;

use super::prose::wrapped;
use super::table::{Cell, Mark, Table, fixed, percent};
use crate::quick::{QuickPoint, QuickReport, is_reuse_enough};

/// The curve: a row for each number of users, the answer marked.
pub(super) fn curve(report: &QuickReport) -> Table {
    let s = |value: Option<f64>| value.map(|seconds| time(seconds * 1e3));
    let is_kept = |point: &QuickPoint| point.users <= report.served().users;
    let mark = |point: &QuickPoint| match is_kept(point) {
        true => Mark::Good,
        false => Mark::Bad,
    };
    let space = format!("still there in {:.1} GiB", report.space_gib);
    Table::of(&report.curve)
        .count("users", |point| point.users)
        .number("GiB/s", fixed(2), |point| point.gib_per_s)
        .count("load P50", |point| s(point.load_p50_s))
        .count("load P95", |point| s(point.load_p95_s))
        .count("KV I/O P95", |point| s(point.kv_io_p95_s))
        .number("busy", percent, |point| point.drive_busy_share)
        .number(&space, percent, |point| point.reuse_share)
        .text("", |point| Cell::Marked(told(report, point), mark(point)))
        .done()
}

/// Targets that a number of users misses, and the answer.
fn told(report: &QuickReport, point: &QuickPoint) -> String {
    if point.users == report.served().users {
        return "<-".to_owned();
    }
    let is_slow = point.load_p95_s.is_some_and(|load| load > report.load_p95_s);
    let is_lost =
        point.reuse_share.is_some_and(|share| !is_reuse_enough(share, report.reuse_share));
    match (is_slow, is_lost) {
        (true, true) => "slow, lost",
        (true, false) => "slow",
        (false, true) => "lost",
        (false, false) => "",
    }
    .to_owned()
}

/// Sentences on the measured run beside its prediction, and on what the limits are worth.
pub(super) fn trust(report: &QuickReport) -> Vec<String> {
    let (is, was) = (&report.measured, &report.predicted);
    let load = |point: &QuickPoint| {
        let s = |value: Option<f64>| value.map_or("–".to_owned(), |value| time(value * 1e3));
        format!("{} / {}", s(point.load_p50_s), s(point.load_p95_s))
    };
    let mut lines = vec![format!(
        "{} on the drive: {:.2} GiB/s, load P50 / P95 {} ({} loads); the same run \
         simulated: {:.2} GiB/s, {}",
        ringfall_host::counted(is.users.into(), "user"),
        is.gib_per_s,
        load(is),
        is.loads,
        was.gib_per_s,
        load(was),
    )];
    lines.extend(report.doubts());
    lines
}

/// The page of a report.
#[must_use]
pub fn quick_page(report: &QuickReport) -> String {
    let mut page = String::from("\n");
    let mut labelled =
        |label: &str, text: &str| wrapped(&mut page, &format!("  {label:<10} "), text);
    labelled("verdict", &report.verdict);
    labelled("rule", &report.rule());
    let limits = report.limits;
    labelled(
        "drive",
        &format!(
            "{}: read {:.2} GiB/s, write {:.2} GiB/s",
            report.drive, limits.read_gib_per_s, limits.write_gib_per_s
        ),
    );
    labelled(
        "space",
        &format!(
            "{:.2} GiB a user's turn of {} on average; measured in {:.1} GiB",
            report.turn_gib, report.model, report.space_gib
        ),
    );
    labelled(
        "users",
        "wait for their answers, generate a token each 30 ms, and load their context once a turn",
    );
    for line in trust(report) {
        labelled("trust", &line);
    }
    labelled("check", &report.run_line());
    let _infallible = writeln!(page, "\n{}", curve(report).page());
    let _infallible =
        writeln!(page, "  Loads and GiB/s are those with as much space as the users take.");
    page
}

/// Lines that set a report beside another, their drives in the order given.
#[must_use]
pub fn beside_page(first: &QuickReport, other: &QuickReport) -> String {
    let mut page = String::new();
    let _infallible = writeln!(page, "\n{}", beside(first, other).page());
    for report in [first, other] {
        for doubt in report.doubts() {
            wrapped(&mut page, &format!("  note: {}: ", report.place), &doubt);
        }
    }
    let is_by_space = [first, other].iter().any(|one| one.served() == one.served_by_space);
    let differs: Vec<&str> = [
        ("models", first.model != other.model),
        ("seeds", first.seed != other.seed),
        ("space", first.space_gib != other.space_gib && is_by_space),
        ("rules", first.served_rule() != other.served_rule()),
    ]
    .into_iter()
    .filter_map(|(what, differs)| differs.then_some(what))
    .collect();
    if !differs.is_empty() {
        let told = format!(
            "the two differ in their {}, and the users served can't be compared: give the second \
             the same --model, --seed, --space or --slo",
            differs.join(", ")
        );
        wrapped(&mut page, "  note: ", &told);
    }
    page
}

/// Name, figure and unit of a row of two reports.
type Pair<'a> = (&'a str, Option<f64>, Option<f64>, fn(f64) -> String);

/// Two reports side by side, with the ratio of the second to the first.
pub(super) fn beside(first: &QuickReport, other: &QuickReport) -> Table {
    let gib = |value: f64| format!("{value:.2} GiB/s");
    let s = |value: f64| time(value * 1e3);
    let count = |value: f64| format!("{value:.0}");
    let of = |report: &QuickReport, users: u32| -> Option<f64> {
        report.curve.iter().find(|point| point.users == users)?.load_p95_s
    };
    let common = first.curve.iter().rev().map(|point| point.users);
    let common = common.clone().find(|users| other.curve.iter().any(|p| p.users == *users));
    let named = common.map(|users| format!("load P95 at {users} users")).unwrap_or_default();
    let mut rows: Vec<Pair<'_>> = vec![
        (
            "users by speed",
            Some(first.served_by_speed.users.into()),
            Some(other.served_by_speed.users.into()),
            count,
        ),
        (
            "users served",
            Some(first.served().users.into()),
            Some(other.served().users.into()),
            count,
        ),
        ("reads", Some(first.limits.read_gib_per_s), Some(other.limits.read_gib_per_s), gib),
        ("writes", Some(first.limits.write_gib_per_s), Some(other.limits.write_gib_per_s), gib),
    ];
    if let Some(users) = common {
        rows.push((&named, of(first, users), of(other, users), s));
    }
    Table::of(&rows)
        .text("", |row| row.0)
        .count(&terminal_path(std::path::Path::new(&first.place)), |row| row.1.map(row.3))
        .count(&terminal_path(std::path::Path::new(&other.place)), |row| row.2.map(row.3))
        .number("ratio", super::table::times, |row| {
            let (first, other) = (row.1?, row.2?);
            (first > 0.0).then(|| other / first)
        })
        .done()
}
