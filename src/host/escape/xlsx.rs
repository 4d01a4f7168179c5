//! Text for a cell of a workbook.

use super::hidden::visible;

/// Most UTF-16 units that a cell holds; a longer text can't be written at all.
const UNITS_MAX: usize = 32_767;

/// The text of a cell, at most 32,767 UTF-16 units: characters that XML does not allow, or that
/// nobody sees, become visible. A cell of text is never a formula in a workbook.
#[must_use]
pub fn xlsx(text: &str) -> String {
    let mut cell = visible(text, |c| c == '\n' || c == '\t');
    let mut units = 0;
    let end = cell.char_indices().find(|(_, c)| {
        units += c.len_utf16();
        units > UNITS_MAX
    });
    if let Some((end, _)) = end {
        cell.truncate(end);
    }
    cell
}
