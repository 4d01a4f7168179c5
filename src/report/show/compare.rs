//! The table of a comparison, for the terminal, pages and workbooks.

use ringfall_host::human_time;
use ringfall_model::document::{FileProblem, ResultFile};
use ringfall_model::metrics::Metric;
use ringfall_model::stats::Interval;

use super::Named;
use super::table::{Cell, Mark, Medium, Table, bandwidth, figure, times};
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
        .only(Medium::Sheet)
        .text("", |(metric, _)| metric.title)
        .only(Medium::Page)
        .text("", |(metric, _)| read_as(metric).0)
        .only(Medium::Terminal)
        .text("", |(metric, _)| read_as(metric).0)
        .everywhere()
        .number("baseline", figure, |(metric, row)| {
            value(metric, row.baseline, row.baseline_is_bound)
        })
        .number("candidate", figure, |(metric, row)| {
            value(metric, row.candidate, row.candidate_is_bound)
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

/// Name of a metric for people, and the text of its values, which have a unit of their own where
/// several suit them.
fn read_as(metric: &Metric) -> (&'static str, fn(f64) -> String) {
    match metric.title.rsplit_once(", ") {
        Some((name, "ms")) => (name, human_time),
        Some((name, "GiB/s")) => (name, bandwidth),
        _ => (metric.title, figure),
    }
}

fn value(metric: &Metric, value: f64, is_bound: bool) -> Cell {
    let (_, told) = read_as(metric);
    match is_bound {
        true => Cell::number_or_bound(value, true, told),
        false => Cell::Told(value, told(value)),
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    /// "59458 ms" and 0.00001017 GiB/s.
    #[test]
    fn values_are_read_in_units_that_suit_them_and_written_as_numbers() {
        for (key, number, told) in [
            ("context_load_p95_ms", 59_458.0, "59.5 s"),
            ("context_load_p95_ms", 0.26, "0.26 ms"),
            ("storage_read_bandwidth_gib_per_s", 0.000_010_17, "10.66 KiB/s"),
            ("requests", 12.0, "12.00"),
        ] {
            let cell = value(Metric::by_key(key).unwrap(), number, false);
            assert_eq!(cell, Cell::Told(number, told.to_owned()), "{key}");
        }
    }
}
