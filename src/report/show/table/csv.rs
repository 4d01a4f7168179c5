//! A table as comma-separated values (RFC 4180).

use csv::{Terminator, WriterBuilder};
use ringfall_host::escape;

use super::{Cell, Medium, Table};

impl Table {
    /// Content of a file, the names of the columns first; a cell of what was not measured is empty.
    pub fn csv(&self) -> std::io::Result<Vec<u8>> {
        let columns = self.columns_on(Medium::Sheet);
        let mut table = WriterBuilder::new().terminator(Terminator::CRLF).from_writer(Vec::new());
        table.write_record(columns.iter().map(|column| escape::csv(&column.name)))?;
        for row in 0..self.marks.len() {
            table.write_record(columns.iter().map(|column| shown(&column.cells[row])))?;
        }
        table.into_inner().map_err(|error| error.into_error())
    }
}

fn shown(cell: &Cell) -> String {
    match cell {
        Cell::Text(text) | Cell::Marked(text, _) | Cell::Hinted(text, _) => escape::csv(text),
        Cell::Number(number) | Cell::Told(number, _) => number.to_string(),
        Cell::Flag(flag) => flag.to_string(),
        Cell::Nothing => String::new(),
    }
}
