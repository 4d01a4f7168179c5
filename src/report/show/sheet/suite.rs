//! The table of a suite as a workbook: a row a run.

use std::path::Path;

use rust_xlsxwriter::{Format, Workbook, Worksheet, XlsxError};

use super::columns::Cell;
use super::xlsx::put;
use crate::show::suite::{remarks, title_of};
use crate::suite::{FIGURES, Row, Table};

/// Columns before the figures.
const FIRST: [(&str, f64); 5] = [
    ("Run", 24.0),
    ("Workload", 20.0),
    ("Verdict", 14.0),
    ("Criteria Met", 14.0),
    ("Criteria", 10.0),
];
/// Columns after the figures.
const LAST: [(&str, f64); 7] = [
    ("Dropped Entries", 18.0),
    ("Metric To Go By", 34.0),
    ("Value", 14.0),
    ("Baseline", 14.0),
    ("Ratio", 10.0),
    ("Published Ratio", 18.0),
    ("Remarks", 90.0),
];

/// Writes the workbook.
///
/// # Errors
/// Returns the error of the file system.
pub fn write_suite_sheet(table: &Table, path: &Path) -> std::io::Result<()> {
    let bytes = workbook(table).map_err(std::io::Error::other)?;
    ringfall_host::write_output(path, &bytes)
}

fn workbook(table: &Table) -> Result<Vec<u8>, XlsxError> {
    let mut book = Workbook::new();
    let heading = Format::new().set_bold();
    let sheet = book.add_worksheet();
    sheet.set_name("Suite")?;
    let figures = FIGURES.iter().map(|(_, title, _)| (*title, title.len() as f64 + 2.0));
    let columns = FIRST.into_iter().chain(figures).chain(LAST);
    for (column, (name, width)) in (0..).zip(columns) {
        sheet.write_with_format(0, column, name, &heading)?;
        sheet.set_column_width(column, width)?;
    }
    for (place, row) in (1..).zip(&table.rows) {
        line(sheet, place, row)?;
    }
    sheet.set_freeze_panes(1, 1)?;
    book.save_to_buffer()
}

fn line(sheet: &mut Worksheet, place: u32, row: &Row) -> Result<(), XlsxError> {
    let (met, all) = row.criteria.unzip();
    let number = |count: Option<usize>| Cell::from(count.map(|count| count as f64));
    let first = [
        Cell::from(row.name.as_str()),
        row.workload.into(),
        row.verdict.name().into(),
        number(met),
        number(all),
    ];
    let go_by = row.go_by.first();
    let published = go_by.and_then(|own| row.published.iter().find(|of| of.metric == own.metric));
    let told: Vec<String> =
        remarks(row).into_iter().map(|(head, text)| format!("{head}: {text}")).collect();
    let last = [
        Cell::from(row.dropped_entries),
        go_by.map(|own| title_of(own.metric)).into(),
        go_by.map(|own| own.value).into(),
        go_by.and_then(|own| own.baseline).into(),
        go_by.and_then(|own| own.ratio).into(),
        published.map(|of| of.published).into(),
        Cell::Text(told.join("; ")),
    ];
    let figures = row.figures.iter().map(|value| Cell::from(*value));
    for (column, cell) in (0..).zip(first.into_iter().chain(figures).chain(last)) {
        put(sheet, place, column, &cell)?;
    }
    Ok(())
}
