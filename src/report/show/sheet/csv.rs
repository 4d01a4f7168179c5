//! The Summary rows as comma-separated values (RFC 4180).

use std::path::Path;

use csv::{Terminator, WriterBuilder};
use ringfall_host::escape;

use super::Rows;
use super::columns::Cell;

pub(super) fn write(rows: &Rows, path: &Path) -> std::io::Result<()> {
    ringfall_host::write_output(path, &bytes(rows)?)
}

pub(super) fn bytes(rows: &Rows) -> std::io::Result<Vec<u8>> {
    let mut table = WriterBuilder::new().terminator(Terminator::CRLF).from_writer(Vec::new());
    table.write_record(rows.names.iter().map(|name| escape::csv(name)))?;
    for cells in &rows.cells {
        table.write_record(cells.iter().map(shown))?;
    }
    table.into_inner().map_err(|error| error.into_error())
}

fn shown(cell: &Cell) -> String {
    match cell {
        Cell::Text(text) => escape::csv(text),
        Cell::Number(number) => number.to_string(),
        Cell::Flag(flag) => flag.to_string(),
        Cell::Nothing => String::new(),
    }
}
