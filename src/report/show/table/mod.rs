//! A table, which its subject makes once, and a renderer for each medium: the terminal, pages, CSV,
//! workbooks. A renderer alone knows its medium, and escapes for it.
//!
//! Not here: the subjects, and pages around tables.

mod csv;
mod html;
mod terminal;
#[cfg(feature = "xlsx")]
mod workbook;

#[cfg(feature = "xlsx")]
pub(super) use workbook::{add_sheet, write_workbook};

use ringfall_host::human_time;

/// Text of a figure that nobody knows, for people.
pub(super) const UNKNOWN: &str = "–";

/// Value in a table.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// Words.
    Text(String),
    /// Words that are set apart on a page.
    Marked(String, Mark),
    /// Words, and an explanation that a page shows where they are pointed at.
    Hinted(String, String),
    /// A number; its column decides how people read it.
    Number(f64),
    /// A number, and its text for people, with its unit.
    Told(f64, String),
    /// Yes or no.
    Flag(bool),
    /// Not measured.
    Nothing,
}

/// Emphasis on a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// No emphasis.
    Plain,
    /// As it should be.
    Good,
    /// Not as it should be.
    Bad,
    /// Different from its neighbours.
    Differs,
}

/// Place in which a table is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Medium {
    /// Lines of text.
    Terminal,
    /// An HTML page.
    Page,
    /// A file of comma-separated values, or a workbook.
    Sheet,
}

/// Types that are a cell, and the cell that each is.
macro_rules! cells {
    ($($type:ty: |$value:ident| $cell:expr;)*) => {
        $(impl From<$type> for Cell {
            fn from($value: $type) -> Cell {
                $cell
            }
        })*
    };
}

cells! {
    f64: |value| if value.is_finite() { Cell::Number(value) } else { Cell::Nothing };
    u32: |value| Cell::Number(value.into());
    // A spreadsheet's numbers are doubles anyway.
    u64: |value| Cell::Number(value as f64);
    usize: |value| Cell::from(value as u64);
    bool: |value| Cell::Flag(value);
    &str: |value| Cell::Text(value.to_owned());
    String: |value| Cell::Text(value);
}

impl<T: Into<Cell>> From<Option<T>> for Cell {
    fn from(value: Option<T>) -> Cell {
        value.map_or(Cell::Nothing, Into::into)
    }
}

/// Writer of numbers with so many decimals.
pub fn fixed(decimals: usize) -> impl Fn(f64) -> String {
    move |value| format!("{value:.decimals$}")
}

/// Text of a number to four significant digits, which is more than any run repeats.
pub fn figure(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return format!("{value}");
    }
    // Between −300 and 300 for any finite value that is not zero.
    let digits = value.abs().log10().floor() as i32;
    format!("{value:.*}", usize::try_from(3 - digits).unwrap_or(0).min(12))
}

/// Text of a number to so many digits, or more where there are more before the point.
pub(super) fn digits(value: f64, digits: i32) -> String {
    // What is rounded up to one digit more has too many.
    let fits =
        |decimals: &i32| value.abs() < 10f64.powi(digits - decimals) - 0.5 * 10f64.powi(-decimals);
    let decimals = (1..digits).rev().find(fits).unwrap_or(0);
    format!("{value:.*}", usize::try_from(decimals).unwrap_or(0))
}

/// Text of a bandwidth with the unit that suits it: `11.23 GiB/s`, `10.66 KiB/s`.
#[must_use]
pub fn bandwidth(gib_per_s: f64) -> String {
    let (value, unit) = match gib_per_s.abs() {
        rate if rate == 0.0 || rate >= 0.0995 => (gib_per_s, "GiB/s"),
        rate if rate >= 0.0995 / 1024.0 => (gib_per_s * 1024.0, "MiB/s"),
        _ => (gib_per_s * 1024.0 * 1024.0, "KiB/s"),
    };
    format!("{} {unit}", figure(value))
}

/// Text of the latency of an I/O, given in µs, with the unit that suits it: `90.1 µs`, `1.35 ms`.
#[must_use]
pub fn latency(us: f64) -> String {
    if us < 999.5 { format!("{} µs", digits(us, 3)) } else { human_time(us / 1e3) }
}

/// Text of a share as a percentage with one decimal.
pub fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// Text of a ratio: `2.62×`.
pub fn times(ratio: f64) -> String {
    format!("{ratio:.2}×")
}

impl Cell {
    /// A number, or `≥ …` as `figure` writes it where it is a lower bound.
    pub(super) fn number_or_bound(
        value: f64,
        is_bound: bool,
        figure: impl Fn(f64) -> String,
    ) -> Cell {
        match is_bound {
            true => Cell::Text(format!("≥ {}", figure(value))),
            false => Cell::from(value),
        }
    }

    /// Text for people, a number as `figure` writes it.
    pub(super) fn told(&self, figure: &dyn Fn(f64) -> String) -> String {
        match self {
            Cell::Text(text)
            | Cell::Marked(text, _)
            | Cell::Hinted(text, _)
            | Cell::Told(_, text) => text.clone(),
            Cell::Number(number) => figure(*number),
            Cell::Flag(flag) => if *flag { "yes" } else { "no" }.to_owned(),
            Cell::Nothing => UNKNOWN.to_owned(),
        }
    }
}

struct Column {
    name: String,
    /// Numbers stand to the right.
    is_number: bool,
    /// Where it stands, if not everywhere.
    only: Option<Medium>,
    /// Columns of a terminal that it takes at least.
    width_min: usize,
    cells: Vec<Cell>,
    /// The cells as people read them.
    texts: Vec<String>,
}

impl Column {
    fn is_on(&self, medium: Medium) -> bool {
        self.only.is_none_or(|only| only == medium)
    }
}

/// Columns of cells, one cell a row in each.
pub struct Table {
    columns: Vec<Column>,
    marks: Vec<Mark>,
}

impl Table {
    /// A table of these rows, to which columns are added.
    pub fn of<R: Copy>(rows: impl IntoIterator<Item = R>) -> TableOf<R> {
        let rows: Vec<R> = rows.into_iter().collect();
        let marks = vec![Mark::Plain; rows.len()];
        TableOf { rows, only: None, table: Table { columns: Vec::new(), marks } }
    }

    #[cfg(test)]
    pub(super) fn names(&self) -> Vec<&str> {
        self.columns.iter().map(|column| column.name.as_str()).collect()
    }

    /// Cell of a row in the column of that name.
    #[cfg(test)]
    pub(super) fn cell(&self, row: usize, name: &str) -> Option<&Cell> {
        self.columns.iter().find(|column| column.name == name)?.cells.get(row)
    }

    fn columns_on(&self, medium: Medium) -> Vec<&Column> {
        self.columns.iter().filter(|column| column.is_on(medium)).collect()
    }
}

/// A table in the making, with the values that its rows are made of.
pub struct TableOf<R> {
    rows: Vec<R>,
    /// Where the next columns stand, if not everywhere.
    only: Option<Medium>,
    table: Table,
}

impl<R: Copy> TableOf<R> {
    /// Adds a column of words.
    #[must_use]
    pub fn text<C: Into<Cell>>(self, name: &str, of: impl Fn(R) -> C) -> TableOf<R> {
        self.column(name, false, &|number| number.to_string(), &|row| of(row).into())
    }

    /// Adds a column of numbers, which people read as `figure` writes them.
    #[must_use]
    pub fn number<C: Into<Cell>>(
        self,
        name: &str,
        figure: impl Fn(f64) -> String,
        of: impl Fn(R) -> C,
    ) -> TableOf<R> {
        self.column(name, true, &figure, &|row| of(row).into())
    }

    /// Adds a column of whole numbers.
    #[must_use]
    pub fn count<C: Into<Cell>>(self, name: &str, of: impl Fn(R) -> C) -> TableOf<R> {
        self.number(name, |count| format!("{count:.0}"), of)
    }

    /// Compiled once for each type of row, not for each of the hundreds of columns.
    fn column(
        mut self,
        name: &str,
        is_number: bool,
        figure: &dyn Fn(f64) -> String,
        of: &dyn Fn(R) -> Cell,
    ) -> TableOf<R> {
        let cells: Vec<Cell> = self.rows.iter().map(|row| of(*row)).collect();
        let texts = cells.iter().map(|cell| cell.told(figure)).collect();
        let (name, only, width_min) = (name.to_owned(), self.only, 0);
        self.table.columns.push(Column { name, is_number, only, width_min, cells, texts });
        self
    }

    /// Shows the columns that follow in one medium alone.
    #[must_use]
    pub fn only(mut self, medium: Medium) -> TableOf<R> {
        self.only = Some(medium);
        self
    }

    /// Shows the columns that follow in every medium.
    #[must_use]
    pub fn everywhere(mut self) -> TableOf<R> {
        self.only = None;
        self
    }

    /// Widths that the columns of a terminal have at least, in their order.
    #[must_use]
    pub fn widths(mut self, widths: &[usize]) -> TableOf<R> {
        let columns = self.table.columns.iter_mut().filter(|column| column.is_on(Medium::Terminal));
        for (column, width) in columns.zip(widths) {
            column.width_min = *width;
        }
        self
    }

    /// Emphasizes rows on a page.
    #[must_use]
    pub fn marked(mut self, of: impl Fn(R) -> Mark) -> TableOf<R> {
        self.table.marks = self.rows.iter().map(|row| of(*row)).collect();
        self
    }

    /// The table with the columns that were added.
    #[must_use]
    pub fn done(self) -> Table {
        self.table
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Texts that a medium could take for its own, and a number of each kind.
    fn table() -> Table {
        Table::of([("=a<b>\u{1b}", Some(1.25), Mark::Bad), ("c", None, Mark::Plain)])
            .text("name", |row| row.0)
            .number("GiB/s", fixed(1), |row| row.1)
            .only(Medium::Page)
            .text("on a page", |row| Cell::Hinted(row.0.to_owned(), "\"why\"".to_owned()))
            .everywhere()
            .text("good", |row| row.1.is_some())
            .marked(|row| row.2)
            .done()
    }

    #[test]
    fn a_terminal_has_columns_as_wide_as_their_cells_and_obeys_none() {
        let lines = table().lines();
        let expected =
            ["  name        GiB/s good", "  =a<b>\\u{1b}   1.2 yes", "  c               – no"];
        assert_eq!(lines, expected);
    }

    /// 10.7 KiB/s was 0.00001017 GiB/s, and 1.0e-5 on a page.
    #[test]
    fn a_bandwidth_has_the_unit_that_suits_it() {
        let told = [11.234, 0.0, 0.1, 0.05, 0.000_010_17].map(bandwidth);
        let expected = ["11.23 GiB/s", "0 GiB/s", "0.1000 GiB/s", "51.20 MiB/s", "10.66 KiB/s"];
        assert_eq!(told, expected);
    }

    /// A P99 was "1234567".
    #[test]
    fn a_latency_has_the_unit_that_suits_it() {
        let told = [8.04, 90.1, 999.4, 999.5, 1_350.0, 1_234_567.0].map(latency);
        assert_eq!(told, ["8.04 µs", "90.1 µs", "999 µs", "1.00 ms", "1.35 ms", "1.23 s"]);
    }

    #[test]
    fn a_page_takes_no_cell_for_markup() {
        let html = table().html();
        assert!(html.contains("<th class=\"n\">GiB/s</th>"), "{html}");
        assert!(html.contains("<tr class=\"bad\"><th>=a&lt;b&gt;\\u{1b}</th>"), "{html}");
        assert!(html.contains("<td title=\"&quot;why&quot;\">c</td><td>no</td>"), "{html}");
        assert!(html.contains("<td class=\"n\">–</td>"), "{html}");
    }

    #[test]
    fn a_page_breaks_long_cells_alone() {
        let html = Table::of([("2 / 30", "a sentence ".repeat(4))].iter())
            .text("short", |row| row.0)
            .text("long", |row| row.1.as_str())
            .done()
            .html();
        assert!(html.contains("<th>2 / 30</th><td class=\"long\">a sentence"), "{html}");
    }

    #[test]
    fn a_sheet_has_the_numbers_themselves_and_takes_no_cell_for_a_formula() {
        let csv = String::from_utf8(table().csv().unwrap()).unwrap();
        assert_eq!(csv, "name,GiB/s,good\r\n'=a<b>\\u{1b},1.25,true\r\nc,,false\r\n");
    }
}
