//! The page of a suite: its charts and table, and each run with its flags, its own page and what is
//! to be said about it.

use std::path::Path;

use ringfall_model::metrics::WALL_CLOCK;

use super::Named;
use super::bars::{Bars, bars};
use super::markup::Html;
use crate::show::began;
use crate::show::suite::{remarks, value, whole};
use crate::suite::{Row, SavedSuite, SuiteTable};

/// Origin of a suite's table.
pub struct SuiteSource<'a> {
    /// The suite as it was planned.
    pub plan: &'a SavedSuite,
    /// Words of the command line that made the table.
    pub command_line: &'a [String],
    /// Results by the name of their run, each with a page `NAME.html` beside the table.
    pub results: &'a [Named],
}

/// Writes a suite as a page.
pub fn write_suite_html(
    suite: &SuiteTable,
    source: &SuiteSource<'_>,
    path: &Path,
) -> std::io::Result<()> {
    ringfall_host::write_output(path, page(suite, source).as_bytes())
}

pub(super) fn page(suite: &SuiteTable, source: &SuiteSource<'_>) -> String {
    let mut html = Html::new("Suite", "Suite");
    let times = source.results.iter().filter_map(|named| began(&named.document));
    let head = [
        suite.host.clone(),
        times.min().map(|first| format!("begun {first} UTC")),
        suite.baseline.as_ref().map(|path| format!("baseline: {}", path.display())),
    ];
    html.sub(&head.into_iter().flatten().collect::<Vec<_>>().join(" · "));
    html.code(source.command_line.iter().map(String::as_str));
    html.charts(&charts(suite));
    html.table(&whole(suite));
    for row in &suite.rows {
        html.heading(&row.name);
        html.paragraph(&row.title);
        if source.results.iter().any(|named| named.name == row.name) {
            html.links(&["html", "json", "log"].map(|ending| format!("{}.{ending}", row.name)));
        }
        let invocation = source.plan.invocations.iter().find(|one| one.name == row.name);
        if let Some(invocation) = invocation.filter(|one| one.impossible.is_none()) {
            let arguments = invocation.arguments();
            let words = arguments.iter().chain(&source.plan.more_flags).map(String::as_str);
            html.code(std::iter::once("ringfall").chain(words));
        }
        let remarks = remarks(row).into_iter();
        html.notes(remarks.map(|(head, text)| format!("{head}: {text}")));
    }
    html.end(concat!("Made by ringfall ", env!("CARGO_PKG_VERSION"), "."))
}

fn charts(suite: &SuiteTable) -> String {
    let chart = |title: &str, kinds: &[&str], of: &dyn Fn(&Row) -> Vec<Option<f64>>| {
        let rows = suite.rows.iter();
        let rows = rows.map(|row| Bars { name: row.name.clone(), values: of(row) });
        let rows: Vec<Bars> = rows.filter(|row| row.values.iter().any(Option::is_some)).collect();
        bars(title, kinds, &rows)
    };
    let bandwidth = ["storage_read_bandwidth_gib_per_s", "storage_write_bandwidth_gib_per_s"];
    [
        chart("Storage bandwidth, GiB/s", &["read", "write"], &|row| {
            bandwidth.map(|key| value(row, key)).to_vec()
        }),
        chart("Load of a context, P95, s", &["load"], &|row| {
            vec![row.load_p95_ms.map(|ms| ms / 1e3)]
        }),
        chart("Tokens per second", &["tokens/s"], &|row| vec![value(row, WALL_CLOCK)]),
    ]
    .concat()
}
