//! JSON for a terminal.

use super::hidden::is_hidden;

/// JSON that says the same and obeys nobody: hidden characters, which stand raw only within
/// strings, become `\uXXXX`. The line breaks and spaces around values stay.
#[must_use]
pub fn json(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        // JSON allows no other control character raw, and these only between values.
        if is_hidden(c) && !"\n\r\t".contains(c) {
            for unit in c.encode_utf16(&mut [0; 2]) {
                shown.push_str(&format!("\\u{unit:04x}"));
            }
        } else {
            shown.push(c);
        }
    }
    shown
}
