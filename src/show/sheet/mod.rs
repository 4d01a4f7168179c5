//! The result as a table: the reference's column names over a document's values, written as a
//! workbook or as comma-separated values.

mod audit;
mod columns;
mod csv;
mod xlsx;

use std::path::Path;

use crate::results::Document;
pub use audit::write_audit_csv;
#[cfg(test)]
use columns::{Cell, metrics, parameters};

/// Writes the Summary row as CSV when the path ends in `.csv`, a workbook otherwise.
///
/// # Errors
/// What the file system says.
pub fn write_sheet(document: &Document, path: &Path) -> std::io::Result<()> {
    let is_csv = path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("csv"));
    if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        std::fs::create_dir_all(parent)?;
    }
    match is_csv {
        true => csv::write(document, path),
        false => xlsx::write(document, path),
    }
}

#[cfg(test)]
mod tests;
