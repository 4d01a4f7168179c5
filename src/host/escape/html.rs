//! Text for HTML and SVG.

use super::hidden::visible;

/// Text fit for HTML, attributes in either kind of quotes too. Control characters, which HTML does
/// not allow, and overrides of the direction become visible.
#[must_use]
pub fn html(text: &str) -> String {
    let text = visible(text, |c| c == '\n' || c == '\t');
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            c => safe.push(c),
        }
    }
    safe
}
