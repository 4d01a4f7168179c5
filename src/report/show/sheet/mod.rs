//! Results as a table, a row each: the reference's column names over a document's values, then
//! ours; written as a workbook or as comma-separated values.

mod audit;
mod columns;
#[cfg(feature = "xlsx")]
mod meaning;
#[cfg(feature = "xlsx")]
mod xlsx;

use std::path::Path;

use super::Named;
use super::suite::whole;
use super::table::Table;
use crate::suite::SuiteTable;
pub use audit::write_audit_csv;
use columns::{Row, rows_of};

/// The Summary: a row for each result, its name first, as the reference's converter has it; the
/// same columns for every result.
fn summary(results: &[Named]) -> Table {
    let rows: Vec<Vec<Row>> =
        results.iter().map(|named| rows_of(&named.document).concat()).collect();
    let rows: Vec<(&str, &[Row])> =
        results.iter().zip(&rows).map(|(named, row)| (&*named.name, &row[..])).collect();
    let mut table = Table::of(rows.iter().copied()).text("Filename", |(name, _)| name);
    for (at, column) in rows.first().map_or(&[][..], |(_, first)| *first).iter().enumerate() {
        table = table.text(&column.name, |(_, row)| row[at].cell.clone());
    }
    table.done()
}

/// Ending of the files of tables where nobody has chosen one.
pub const SHEET_ENDING: &str = if cfg!(feature = "xlsx") { "xlsx" } else { "csv" };

/// Writes the table of a suite, a row a run: as CSV when the path ends in `.csv`, as a workbook
/// otherwise.
pub fn write_suite_sheet(suite: &SuiteTable, path: &Path) -> std::io::Result<()> {
    let table = whole(suite);
    match is_workbook(path) {
        #[cfg(feature = "xlsx")]
        true => xlsx::write_suite(&table, path),
        _ => ringfall_host::write_output(path, &table.csv()?),
    }
}

/// Writes the results' rows as CSV when the path ends in `.csv`, a workbook otherwise: of one
/// result with all its sheets, of two with their comparison, of more with the Summary alone. A
/// program without workbooks has refused the path before, and writes CSV.
pub fn write_sheet(results: &[Named], path: &Path) -> std::io::Result<()> {
    match is_workbook(path) {
        #[cfg(feature = "xlsx")]
        true => xlsx::write(results, path),
        _ => ringfall_host::write_output(path, &summary(results).csv()?),
    }
}

fn is_workbook(path: &Path) -> bool {
    !path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("csv"))
}

#[cfg(test)]
mod tests;
