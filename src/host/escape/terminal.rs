//! Text for a terminal: nothing in it is obeyed.

use std::path::Path;

use super::hidden::visible;

/// A value on one line: control characters, escape sequences and overrides of the direction become
/// `\u{..}`.
#[must_use]
pub fn terminal(text: &str) -> String {
    visible(text, |_| false)
}

/// A path, as [`terminal`].
#[must_use]
pub fn terminal_path(path: &Path) -> String {
    terminal(&path.to_string_lossy())
}

/// A page of lines without colour: each line as [`terminal`]. It can't tell the page's line breaks
/// from those of a name, so names are escaped before they enter the page.
#[must_use]
pub fn terminal_page(page: &str) -> String {
    visible(page, |c| c == '\n')
}
