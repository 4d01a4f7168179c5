//! A table as lines of text.

use ringfall_host::escape;

use super::{Medium, Table};

impl Table {
    /// Lines for a terminal, the head first, each indented by two: a column is as wide as its
    /// widest cell, or wider where it was given a width. Rows of tables with the same widths stand
    /// below each other.
    pub fn lines(&self) -> Vec<String> {
        let mut lines = vec![" ".to_owned(); self.marks.len() + 1];
        for column in self.columns_on(Medium::Terminal) {
            let texts = std::iter::once(&column.name).chain(&column.texts);
            let texts: Vec<String> = texts.map(|text| escape::terminal(text)).collect();
            let widest = texts.iter().map(|text| text.chars().count()).max().unwrap_or(0);
            let width = widest.max(column.width_min);
            for (line, text) in lines.iter_mut().zip(texts) {
                line.push_str(&match column.is_number {
                    true => format!(" {text:>width$}"),
                    false => format!(" {text:<width$}"),
                });
            }
        }
        lines.iter().map(|line| line.trim_end().to_owned()).collect()
    }

    /// The lines as a page.
    pub fn page(&self) -> String {
        self.lines().iter().map(|line| format!("{line}\n")).collect()
    }
}
