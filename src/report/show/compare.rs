//! The table of a comparison, for the terminal, pages and workbooks.

use ringfall_model::document::{FileProblem, ResultFile};
use ringfall_model::metrics::Metric;
use ringfall_model::stats::Interval;

use super::Named;
use super::table::{Cell, Mark, Table, figure, times};
use crate::analysis::compare::{Basis, Comparison, Row, Verdict, compare};

/// Comparison of two results that are shown together.
pub(super) fn of_two(baseline: &Named, candidate: &Named) -> Result<Comparison, FileProblem> {
    let side = |named: &Named| {
        let (path, document) = (named.name.clone().into(), named.document.clone());
        vec![ResultFile { path, document }]
    };
    compare(side(baseline), side(candidate))
}

/// A row for each metric, or for each of the usual ones, with the ratio of the two sides.
pub fn comparison_table(comparison: &Comparison, all_metrics: bool) -> Table {
    let rows = comparison.rows.iter();
    let rows = rows.filter_map(|row| Some((Metric::by_key(row.metric)?, row)));
    Table::of(rows.filter(|(metric, _)| all_metrics || metric.headline))
        .text("", |(metric, _)| metric.title)
        .number("baseline", figure, |(_, row)| {
            Cell::number_or_bound(row.baseline, row.baseline_is_bound, figure)
        })
        .number("candidate", figure, |(_, row)| {
            Cell::number_or_bound(row.candidate, row.candidate_is_bound, figure)
        })
        .number("ratio", times, |(_, row)| ratio(row))
        .text("  95 % interval", |(_, row)| format!("  {}", interval(row)))
        .widths(&[34, 9, 9, 7])
        .marked(|(_, row)| match row.verdict {
            Verdict::Better => Mark::Good,
            Verdict::Worse => Mark::Bad,
            Verdict::Different | Verdict::NotShown | Verdict::Unknown => Mark::Plain,
        })
        .done()
}

fn ratio(row: &Row) -> Cell {
    let bound = match (row.baseline_is_bound, row.candidate_is_bound) {
        (false, false) => return Cell::from(row.ratio),
        (true, _) => "≤",
        (false, true) => "≥",
    };
    Cell::from(row.ratio.map(|ratio| format!("{bound} {}", times(ratio))))
}

fn interval(row: &Row) -> String {
    let interval = match (row.interval, row.no_interval) {
        (Some(Interval { low, high }), _) => {
            let basis = row.basis.map_or("", Basis::name);
            format!("{low:.2} .. {high:.2} ({basis})")
        }
        (None, why) => format!("none: {}", why.unwrap_or_default()),
    };
    format!("{interval}  {}", row.verdict.name()).trim_end().to_owned()
}
