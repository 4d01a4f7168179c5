//! Text for a fio job.

use std::fmt::Write as _;

/// Longest value, bytes. fio reads a job in lines of at most 4095 bytes and takes the rest of a
/// longer one for a line of its own (`parse_jobs_ini`), so a long comment would become options.
const BYTES_MAX: usize = 256;
/// Punctuation without a meaning in a job. `$`, backticks and backslashes are expanded; brackets,
/// `=`, `;` and `#` begin sections, values and comments.
const PLAIN: &str = " ._-+/:,()@~";

/// A value on one line, at most 256 bytes: letters, digits and harmless punctuation stay, any other
/// character is percent-encoded as in a URL. What is cut off is marked by `...`.
#[must_use]
pub fn fio(text: &str) -> String {
    let mut value = String::new();
    for c in text.chars() {
        let mut piece = String::new();
        if c.is_alphanumeric() || PLAIN.contains(c) {
            piece.push(c);
        } else {
            for byte in c.encode_utf8(&mut [0; 4]).bytes() {
                // Writing to a String can't fail.
                let _infallible = write!(piece, "%{byte:02X}");
            }
        }
        if value.len() + piece.len() + "...".len() > BYTES_MAX {
            value.push_str("...");
            break;
        }
        value.push_str(&piece);
    }
    value
}
