//! The tables of a suite, and what is said around them on an 80-column terminal.

use std::fmt::Write as _;

use ringfall_config::PUBLISHED_SYSTEMS;
use ringfall_host::counted;
use ringfall_host::escape::terminal;
use ringfall_model::metrics::{Metric, WALL_CLOCK};

use super::prose::wrapped;
use super::table::{Cell, Mark, Medium, Table, fixed, percent};
use crate::suite::{FIGURES, Flag, GoBy, Invocation, Row, SuiteTable, Verdict};
use ringfall_host::human_time as time;

/// Mark of a row whose GPU tier was none.
const EMULATED: char = '*';

/// The table as a terminal has it; it grows by a row at a time.
fn short<'a>(rows: impl IntoIterator<Item = &'a Row>) -> Table {
    let name = |row: &Row| match row.is_gpu_emulated {
        true => format!("{}{EMULATED}", row.name),
        false => row.name.clone(),
    };
    let moved = |row: &Row| {
        let read = value(row, "storage_read_bandwidth_gib_per_s")?;
        Some(read + value(row, "storage_write_bandwidth_gib_per_s")?)
    };
    Table::of(rows)
        .text("workload", name)
        .text("limited by", limited_by)
        .number("tokens/s", fixed(1), |row| value(row, WALL_CLOCK))
        .number("GiB/s", fixed(3), moved)
        .count("load P95", |row| row.load_p95_ms.map(time))
        .number("reuse", percent, |row| row.reuse_share)
        .widths(&[21, 19, 8, 7, 8, 7])
        .done()
}

/// Resource that limited a run; or why that can't be told.
fn limited_by(row: &Row) -> &'static str {
    match (row.verdict, &row.limit) {
        (Verdict::Error | Verdict::Impossible | Verdict::NotRun, _) | (_, None) => {
            row.verdict.name()
        }
        _ if row.is_in_memory => "memory, not a drive",
        (_, Some(limit)) => limit.kind.name(),
    }
}

/// Value of a run's figure; none where it has not been measured.
pub(super) fn value(row: &Row, key: &str) -> Option<f64> {
    let place = FIGURES.iter().position(|(own, ..)| *own == key)?;
    row.figures.get(place).copied().flatten()
}

/// The head of the table.
pub fn suite_head() -> String {
    short([]).lines().pop().unwrap_or_default()
}

/// The row of a run, without what is to be said about it.
pub fn suite_row(row: &Row) -> String {
    short([row]).lines().pop().unwrap_or_default()
}

/// The table as a page and a workbook have it.
pub(super) fn whole(suite: &SuiteTable) -> Table {
    let limit = |row: &Row| {
        let told = limited_by(row).to_owned();
        match &row.limit {
            _ if row.verdict == Verdict::Error => Cell::Marked(told, Mark::Bad),
            Some(limit) => Cell::Hinted(told, limit.told.clone()),
            None => Cell::Text(told),
        }
    };
    let mut table = Table::of(&suite.rows)
        .text("run", |row| Cell::Hinted(row.name.clone(), row.title.clone()))
        .only(Medium::Sheet)
        .text("workload", |row| row.workload)
        .everywhere()
        .text("limited by", limit)
        .only(Medium::Sheet)
        .text("MLPerf's verdict", |row| row.verdict.name())
        .count("criteria met", |row| row.criteria.map(|(met, _)| met))
        .count("criteria", |row| row.criteria.map(|(_, all)| all))
        .everywhere();
    for (key, title, decimals) in FIGURES {
        table = table.number(title, fixed(decimals), |row| value(row, key));
    }
    table = table.number("load of a context, P95, ms", fixed(1), |row| row.load_p95_ms).number(
        "earlier turns found",
        fixed(3),
        |row| row.reuse_share,
    );
    let first = |row: &Row| row.go_by.first().cloned();
    let published = |row: &Row| {
        let own = row.go_by.first()?;
        row.published.iter().find(|of| of.metric == own.metric).map(|of| of.published)
    };
    let told = |row: &Row| {
        let remarks = remarks(row).into_iter().map(|(head, text)| format!("{head}: {text}"));
        remarks.collect::<Vec<_>>().join("; ")
    };
    table
        .count("dropped entries", |row| row.dropped_entries)
        .only(Medium::Sheet)
        .text("metric to go by", |row| first(row).map(|own| Metric::title_of(own.metric)))
        .number("value", fixed(4), |row| first(row).map(|own| own.value))
        .number("baseline", fixed(4), |row| first(row)?.baseline)
        .number("ratio", fixed(2), |row| first(row)?.ratio)
        .number("published ratio", fixed(2), published)
        .text("remarks", told)
        .done()
}

/// Page of the invocations to come, with their flags.
pub fn suite_plan_page(invocations: &[Invocation], more_flags: &[String]) -> String {
    let mut page = String::new();
    for invocation in invocations {
        let head = format!("  {:<20} ", terminal(&invocation.name));
        if let Some(why) = &invocation.impossible {
            wrapped(&mut page, &head, &format!("not possible here: {why}"));
            continue;
        }
        let words = invocation.flags.iter().filter(|flag| {
            // What all of them have is said once, above.
            !matches!(flag.flag.as_str(), "--cache-dir" | "--seed")
        });
        let words = words.flat_map(Flag::words).chain(more_flags.iter().map(String::as_str));
        let words: Vec<&str> = words.collect();
        wrapped(&mut page, &head, &words.join(" "));
        if let Some(why) = &invocation.left_out {
            wrapped(&mut page, &format!("{:<23}", ""), &format!("note: {why}"));
        }
    }
    page
}

/// Page that follows the rows of the runs that were made: rows of the others, remarks on each, and
/// the number that are done.
#[must_use]
pub fn suite_page(table: &SuiteTable) -> String {
    let mut page = String::new();
    let is_other = |row: &&Row| matches!(row.verdict, Verdict::Impossible | Verdict::NotRun);
    for row in table.rows.iter().filter(is_other) {
        let _infallible = writeln!(page, "{}", suite_row(row));
    }
    if table.rows.iter().any(|row| row.is_gpu_emulated) {
        let _infallible = writeln!(page, "  {EMULATED} with a GPU tier emulated in host memory");
    }
    page.push('\n');
    for row in &table.rows {
        notes(&mut page, row);
    }
    let count = |verdict| table.rows.iter().filter(|row| row.verdict == verdict).count();
    let done = [Verdict::Pass, Verdict::Fail, Verdict::NoData].map(count);
    let counts = format!(
        "{} done, {} ended with an error, {} not possible here, {} not run",
        done.iter().sum::<usize>(),
        count(Verdict::Error),
        count(Verdict::Impossible),
        count(Verdict::NotRun)
    );
    wrapped(&mut page, "  ", &counts);
    page
}

fn notes(page: &mut String, row: &Row) {
    let lines = remarks(row);
    if lines.is_empty() {
        return;
    }
    let _infallible = writeln!(page, "  {}: {}", terminal(&row.name), terminal(&row.title));
    for (head, text) in lines {
        wrapped(page, &format!("      {head:<11}"), &text);
    }
}

/// Remarks on a run, each with its label.
pub(super) fn remarks(row: &Row) -> Vec<(&'static str, String)> {
    let mut lines = Vec::new();
    // Below the error of a run that has a result stand the criteria that it missed.
    let is_not_done = matches!(row.verdict, Verdict::Error | Verdict::Impossible);
    let why = row.why.first().filter(|_| is_not_done);
    lines.extend(why.map(|why| ("because", why.clone())));
    lines.extend(row.left_out.iter().map(|what| ("left out", what.clone())));
    lines.extend(row.found.iter().map(|what| ("found", what.clone())));
    if let Some(dropped) = row.dropped_entries.filter(|dropped| *dropped > 0) {
        lines.push(("dropped", format!("{} that fitted in no tier", counted(dropped, "entry"))));
    }
    lines.extend(row.go_by.iter().map(|metric| ("go by", go_by(metric))));
    for published in &row.published {
        let here = published.here.map(|here| format!("; here {here:.2}×")).unwrap_or_default();
        let title = Metric::title_of(published.metric);
        let ratio = published.published;
        lines.push(("published", format!("{title}: {ratio:.2}× for {PUBLISHED_SYSTEMS}{here}")));
    }
    lines
}

fn go_by(metric: &GoBy) -> String {
    let mut text = format!("{} {:.4}", Metric::title_of(metric.metric), metric.value);
    if let (Some(other), Some(ratio)) = (metric.baseline, metric.ratio) {
        let _infallible = write!(text, ", baseline {other:.4}: {ratio:.2}×");
    }
    text
}
