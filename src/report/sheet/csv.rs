//! The Summary row as comma-separated values (RFC 4180).

use std::fmt::Write as _;
use std::path::Path;

use super::columns::{Cell, metrics, parameters};
use crate::report::Document;

pub(super) fn write(document: &Document, path: &Path) -> std::io::Result<()> {
    std::fs::write(path, text(document))
}

pub(super) fn text(document: &Document) -> String {
    let rows: Vec<_> = parameters(document).into_iter().chain(metrics(document)).collect();
    let mut text = String::new();
    let names: Vec<String> = rows.iter().map(|(name, _)| quoted(name)).collect();
    let cells: Vec<String> = rows.iter().map(|(_, cell)| shown(cell)).collect();
    // Writing to a String can't fail.
    let _infallible = write!(text, "{}\r\n{}\r\n", names.join(","), cells.join(","));
    text
}

fn shown(cell: &Cell) -> String {
    match cell {
        Cell::Text(text) => quoted(text),
        Cell::Number(number) => number.to_string(),
        Cell::Flag(flag) => flag.to_string(),
        Cell::Nothing => String::new(),
    }
}

fn quoted(text: &str) -> String {
    match text.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_owned(),
    }
}
