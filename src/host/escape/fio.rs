//! Text for a fio job.

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
        let piece: String = match c.is_alphanumeric() || PLAIN.contains(c) {
            true => c.into(),
            false => {
                c.encode_utf8(&mut [0; 4]).bytes().map(|byte| format!("%{byte:02X}")).collect()
            }
        };
        if value.len() + piece.len() + "...".len() > BYTES_MAX {
            value.push_str("...");
            break;
        }
        value.push_str(&piece);
    }
    value
}
