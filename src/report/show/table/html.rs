//! A table as HTML.

use ringfall_host::escape;

use super::{Cell, Column, Mark, Medium, Table};

/// Characters of the longest cell that a page keeps on one line.
const CELL_UNBROKEN_MAX: usize = 36;

impl Table {
    /// Element for a page: numbers to the right, the first cell of a row as its head.
    pub fn html(&self) -> String {
        let columns = self.columns_on(Medium::Page);
        let mut html = "<div class=\"wide\"><table><tr>".to_owned();
        for column in &columns {
            html.push_str(&element("th", "", &[column.class()], &column.name));
        }
        html.push_str("</tr>");
        for (row, mark) in self.marks.iter().enumerate() {
            html.push_str(&format!("<tr{}>", class(&[mark.class()])));
            for (place, column) in columns.iter().enumerate() {
                let tag = if place == 0 { "th" } else { "td" };
                html.push_str(&column.cells[row].html(tag, column.class(), &column.texts[row]));
            }
            html.push_str("</tr>");
        }
        html.push_str("</table></div>\n");
        html
    }
}

impl Cell {
    /// Element of that name, of a class if it is not empty, with the text of the cell for people.
    pub(in crate::show) fn html(&self, tag: &str, class: &str, text: &str) -> String {
        let (hint, mark) = match self {
            Cell::Hinted(_, hint) => (format!(" title=\"{}\"", escape::html(hint)), Mark::Plain),
            Cell::Marked(_, mark) => (String::new(), *mark),
            _ => (String::new(), Mark::Plain),
        };
        // Anything shorter is figures with their units, which a page does not break.
        let long = if text.chars().count() > CELL_UNBROKEN_MAX { "long" } else { "" };
        element(tag, &hint, &[class, mark.class(), long], text)
    }
}

impl Column {
    fn class(&self) -> &'static str {
        if self.is_number { "n" } else { "" }
    }
}

impl Mark {
    fn class(self) -> &'static str {
        match self {
            Mark::Plain => "",
            Mark::Good => "good",
            Mark::Bad => "bad",
            Mark::Differs => "differs",
        }
    }
}

fn element(tag: &str, attributes: &str, classes: &[&str], text: &str) -> String {
    format!("<{tag}{attributes}{}>{}</{tag}>", class(classes), escape::html(text))
}

/// The attribute of these classes, of which some may be empty.
fn class(classes: &[&str]) -> String {
    let names: Vec<&str> = classes.iter().copied().filter(|name| !name.is_empty()).collect();
    match names.is_empty() {
        true => String::new(),
        false => format!(" class=\"{}\"", names.join(" ")),
    }
}
