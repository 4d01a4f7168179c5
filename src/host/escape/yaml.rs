//! Text for YAML.

use super::hidden::is_hidden;

/// Words that are no text in some version of YAML.
const RESERVED: [&str; 11] =
    ["true", "false", "yes", "no", "on", "off", "null", "y", "n", "inf", "nan"];

/// Longest key that is written on one line with its colon.
const KEY_CHARS_MAX: usize = 1000;

/// A text as one scalar on one line that reads back as the same text: plain where that is certain,
/// in double quotes elsewhere.
#[must_use]
pub fn yaml(text: &str) -> String {
    if is_plain(text) {
        return text.to_owned();
    }
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            '\n' => quoted.push_str("\\n"),
            '\t' => quoted.push_str("\\t"),
            c if is_hidden(c) => quoted.push_str(&match u32::from(c) {
                code @ ..=0xff => format!("\\x{code:02x}"),
                code @ ..=0xffff => format!("\\u{code:04x}"),
                code => format!("\\U{code:08x}"),
            }),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

/// A text as the key of a block mapping indented by so many spaces, with its colon. A key on one
/// line has at most 1024 characters in YAML; a longer one is written with a question mark.
#[must_use]
pub fn yaml_key(text: &str, indent: usize) -> String {
    let key = yaml(text);
    match key.chars().count() > KEY_CHARS_MAX {
        true => format!("? {key}\n{:indent$}:", ""),
        false => format!("{key}:"),
    }
}

/// Whether a text means itself in YAML without quotes.
fn is_plain(text: &str) -> bool {
    let word = |c: char| c.is_ascii_alphanumeric() || "._-/".contains(c);
    text.chars().all(word)
        && text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/')
        && !RESERVED.contains(&text.to_ascii_lowercase().as_str())
}
