//! The Summary row as comma-separated values (RFC 4180).

use std::path::Path;

use csv::{Terminator, WriterBuilder};

use super::columns::{Cell, metrics, parameters};
use crate::escape;
use crate::results::Document;

pub(super) fn write(document: &Document, path: &Path) -> std::io::Result<()> {
    std::fs::write(path, bytes(document)?)
}

pub(super) fn bytes(document: &Document) -> std::io::Result<Vec<u8>> {
    let rows: Vec<_> = parameters(document).into_iter().chain(metrics(document)).collect();
    let mut table = WriterBuilder::new().terminator(Terminator::CRLF).from_writer(Vec::new());
    table.write_record(rows.iter().map(|(name, _)| escape::csv(name)))?;
    table.write_record(rows.iter().map(|(_, cell)| shown(cell)))?;
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
