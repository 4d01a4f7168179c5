//! Results as a table, a row each: the reference's column names over a document's values, then
//! ours; written as a workbook or as comma-separated values.

mod audit;
mod columns;
mod csv;
mod meaning;
mod suite;
mod xlsx;

use std::path::Path;

use super::Named;
pub use audit::write_audit_csv;
use columns::{Cell, Columns};
pub use suite::write_suite_sheet;

/// The Summary table: the same columns for every result.
struct Rows {
    names: Vec<String>,
    cells: Vec<Vec<Cell>>,
}

impl Rows {
    /// A row for each result, its name first, as the reference's converter has it.
    fn of(results: &[Named]) -> Rows {
        let mut rows = Rows { names: vec!["Filename".to_owned()], cells: Vec::new() };
        for named in results {
            let columns = Columns::of(&named.document);
            if rows.cells.is_empty() {
                rows.names.extend(columns.all().map(|row| row.name.clone()));
            }
            let cells = columns.all().map(|row| row.cell.clone());
            let name = Cell::Text(named.name.clone());
            rows.cells.push(std::iter::once(name).chain(cells).collect());
        }
        rows
    }
}

/// Writes the results' rows as CSV when the path ends in `.csv`, a workbook otherwise: of one
/// result with all its sheets, of several with the Summary alone.
///
/// # Errors
/// Returns the error of the file system.
pub fn write_sheet(results: &[Named], path: &Path) -> std::io::Result<()> {
    let is_csv = path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("csv"));
    match is_csv {
        true => csv::write(&Rows::of(results), path),
        false => xlsx::write(results, path),
    }
}

#[cfg(test)]
mod tests;
