//! The table of a suite on an 80-column terminal.

use std::fmt::Write as _;

use ringfall_config::PUBLISHED_SYSTEMS;
use ringfall_host::counted;
use ringfall_host::escape::terminal;
use ringfall_model::metrics::Metric;

use super::prose::prose;
use crate::suite::{FIGURES, GoBy, Invocation, Row, Table, Verdict};

const WIDTH: usize = 80;
/// Mark of a row whose GPU tier was none.
const EMULATED: char = '*';

/// Columns of the terminal's table, by their metrics, with titles of at most nine letters.
const COLUMNS: [(&str, &str); 5] = [
    ("wall_clock_throughput_tokens_per_s", "tokens/s"),
    ("storage_read_bandwidth_gib_per_s", "GiB/s r"),
    ("storage_write_bandwidth_gib_per_s", "GiB/s w"),
    ("end_to_end_p95_ms", "P95, s"),
    ("cache_hit_rate", "hits"),
];

/// The head of the table.
#[must_use]
pub fn suite_head() -> String {
    let mut line = format!("  {:<20} {:<12}", "workload", "verdict");
    for (_, title) in COLUMNS {
        let _infallible = write!(line, "{title:>9}");
    }
    line
}

/// The row of a run, without what is to be said about it.
#[must_use]
pub fn suite_row(row: &Row) -> String {
    let verdict = match row.criteria {
        Some((met, all)) if matches!(row.verdict, Verdict::Pass | Verdict::Fail) => {
            format!("{} {met}/{all}", row.verdict.name())
        }
        _ => row.verdict.name().to_owned(),
    };
    let mark = if row.is_gpu_emulated { EMULATED } else { ' ' };
    let mut line = format!("  {:<20}{mark}{verdict:<12}", terminal(&row.name));
    for (key, _) in COLUMNS {
        let _infallible = write!(line, "{:>9}", shown(key, value(row, key)));
    }
    line.trim_end().to_owned()
}

fn value(row: &Row, key: &str) -> Option<f64> {
    let place = FIGURES.iter().position(|(own, ..)| *own == key)?;
    row.figures.get(place).copied().flatten()
}

fn shown(key: &str, value: Option<f64>) -> String {
    match (key, value) {
        (_, None) => "–".to_owned(),
        ("cache_hit_rate", Some(share)) => format!("{:.1} %", share * 100.0),
        ("end_to_end_p95_ms", Some(ms)) => format!("{:.2}", ms / 1000.0),
        ("wall_clock_throughput_tokens_per_s", Some(rate)) => format!("{rate:.1}"),
        (_, Some(rate)) => format!("{rate:.3}"),
    }
}

/// Page of the invocations to come, with their flags.
#[must_use]
pub fn suite_plan_page(invocations: &[Invocation], more_flags: &[String]) -> String {
    let mut page = String::new();
    for invocation in invocations {
        let head = format!("  {:<20} ", terminal(&invocation.name));
        if let Some(why) = &invocation.impossible {
            prose(&mut page, &head, &format!("not possible here: {why}"), WIDTH);
            continue;
        }
        let words = invocation.flags.iter().filter(|flag| {
            // What all of them have is said once, above.
            !matches!(flag.flag.as_str(), "--cache-dir" | "--seed")
        });
        let words: Vec<String> = words
            .map(|flag| match &flag.value {
                Some(value) => format!("{} {value}", flag.flag),
                None => flag.flag.clone(),
            })
            .chain(more_flags.iter().cloned())
            .collect();
        prose(&mut page, &head, &words.join(" "), WIDTH);
        if let Some(why) = &invocation.left_out {
            prose(&mut page, &format!("{:<23}", ""), &format!("note: {why}"), WIDTH);
        }
    }
    page
}

/// Page that follows the rows of the runs that were made: rows of the others, remarks on each, and
/// the number that passed.
#[must_use]
pub fn suite_page(table: &Table) -> String {
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
    let _infallible = writeln!(
        page,
        "  {} passed, {} failed, {} ended with an error, {} not possible here, {} not run",
        count(Verdict::Pass),
        count(Verdict::Fail),
        count(Verdict::Error),
        count(Verdict::Impossible),
        count(Verdict::NotRun) + count(Verdict::NoData)
    );
    page
}

fn notes(page: &mut String, row: &Row) {
    let lines = remarks(row);
    if lines.is_empty() {
        return;
    }
    let _infallible = writeln!(page, "  {}: {}", terminal(&row.name), terminal(&row.title));
    for (head, text) in lines {
        prose(page, &format!("      {head:<11}"), &text, WIDTH);
    }
}

/// Remarks on a run, each with its label.
pub(super) fn remarks(row: &Row) -> Vec<(&'static str, String)> {
    let mut lines = Vec::new();
    let head = match row.verdict {
        Verdict::Error | Verdict::Impossible => "because",
        _ => "not met",
    };
    lines.extend(row.why.iter().map(|why| (head, why.clone())));
    lines.extend(row.left_out.iter().map(|what| ("left out", what.clone())));
    lines.extend(row.found.iter().map(|what| ("found", what.clone())));
    if let Some(dropped) = row.dropped_entries.filter(|dropped| *dropped > 0) {
        lines.push(("dropped", format!("{} that fitted in no tier", counted(dropped, "entry"))));
    }
    lines.extend(row.go_by.iter().map(|metric| ("go by", go_by(metric))));
    for published in &row.published {
        let here = published.here.map(|here| format!("; here {here:.2}×")).unwrap_or_default();
        let title = title_of(published.metric);
        let ratio = published.published;
        lines.push(("published", format!("{title}: {ratio:.2}× for {PUBLISHED_SYSTEMS}{here}")));
    }
    lines
}

pub(super) fn title_of(key: &'static str) -> &'static str {
    Metric::by_key(key).map_or(key, |metric| metric.title)
}

fn go_by(metric: &GoBy) -> String {
    let mut text = format!("{} {:.4}", title_of(metric.metric), metric.value);
    if let (Some(other), Some(ratio)) = (metric.baseline, metric.ratio) {
        let _infallible = write!(text, ", baseline {other:.4}: {ratio:.2}×");
    }
    text
}
