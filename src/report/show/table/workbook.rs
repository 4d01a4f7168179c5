//! Tables as the sheets of a workbook.

use std::path::Path;

use ringfall_host::escape;
use rust_xlsxwriter::{Format, Workbook, Worksheet, XlsxError};

use super::{Cell, Column, Medium, Table};

/// Widest that a column is made for its cells.
const WIDTH_MAX: usize = 90;
/// Widest that it is made for its numbers, of which most have digits that nobody reads.
const NUMBER_WIDTH_MAX: usize = 12;

/// Adds a table as a sheet of that name; names of columns are bold and stay in sight.
pub(in crate::show) fn add_sheet<'a>(
    book: &'a mut Workbook,
    name: &str,
    table: &Table,
) -> Result<&'a mut Worksheet, XlsxError> {
    let sheet = book.add_worksheet();
    sheet.set_name(name)?;
    for (at, column) in (0..).zip(table.columns_on(Medium::Sheet)) {
        sheet.write_with_format(0, at, escape::xlsx(&column.name), &Format::new().set_bold())?;
        for (row, cell) in (1..).zip(&column.cells) {
            match cell {
                Cell::Text(text) | Cell::Marked(text, _) | Cell::Hinted(text, _) => {
                    sheet.write_string(row, at, escape::xlsx(text))?
                }
                Cell::Number(number) | Cell::Told(number, _) => sheet.write(row, at, *number)?,
                Cell::Flag(flag) => sheet.write(row, at, *flag)?,
                Cell::Nothing => continue,
            };
        }
        sheet.set_column_width(at, width(column) as f64 + 2.0)?;
    }
    sheet.set_freeze_panes(1, 1)
}

fn width(column: &Column) -> usize {
    let cells = column.cells.iter().map(|cell| match cell {
        Cell::Text(text) | Cell::Marked(text, _) | Cell::Hinted(text, _) => text.chars().count(),
        Cell::Number(number) | Cell::Told(number, _) => {
            number.to_string().chars().count().min(NUMBER_WIDTH_MAX)
        }
        Cell::Flag(_) | Cell::Nothing => 0,
    });
    cells.chain([column.name.chars().count()]).max().unwrap_or(0).min(WIDTH_MAX)
}

/// Writes a workbook that `fill` has filled.
pub(in crate::show) fn write_workbook(
    path: &Path,
    fill: impl FnOnce(&mut Workbook) -> Result<(), XlsxError>,
) -> std::io::Result<()> {
    let mut book = Workbook::new();
    let bytes = fill(&mut book).and_then(|()| book.save_to_buffer());
    ringfall_host::write_output(path, &bytes.map_err(std::io::Error::other)?)
}
