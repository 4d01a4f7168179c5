//! Text for a cell of comma-separated values.

use super::hidden::{is_hidden, visible};

/// Characters that begin a formula in spreadsheets, also in the full width of some input methods.
const FORMULA: [char; 8] = ['=', '+', '-', '@', '＝', '＋', '－', '＠'];
/// Characters that end a cell under some spreadsheets' settings, so that the next begins one.
const SEPARATORS: [char; 5] = [';', '\t', '\r', '\n', '|'];

/// The text of a cell that no spreadsheet takes for a formula and no terminal obeys: where a
/// formula could begin, an apostrophe stands before it; control characters but tabs and line breaks
/// become `\u{..}`. Numbers stay as they are. Quoting is the CSV writer's business.
#[must_use]
pub fn csv(text: &str) -> String {
    if is_number(text) {
        return text.to_owned();
    }
    // A terminal that the table is shown on would obey them.
    let text = &visible(text, |c| "\t\r\n".contains(c));
    let mut cell = String::with_capacity(text.len() + 1);
    // A tab or a line break at the beginning is dropped by some programs, and what is behind it
    // begins the cell.
    if text.starts_with(['\t', '\r', '\n']) {
        cell.push('\'');
    }
    let mut begins = true;
    for c in text.chars() {
        if begins && FORMULA.contains(&c) {
            cell.push('\'');
        }
        cell.push(c);
        let is_skipped = c.is_whitespace() || is_hidden(c) || "\"'".contains(c);
        begins = SEPARATORS.contains(&c) || (begins && is_skipped);
    }
    cell
}

/// Plain numbers: `-5`, `+0.5`, `-1e-9`.
fn is_number(text: &str) -> bool {
    text.chars().all(|c| c.is_ascii_digit() || "+-.eE".contains(c)) && text.parse::<f64>().is_ok()
}
