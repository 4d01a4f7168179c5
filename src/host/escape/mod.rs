//! Text from outside (results, files, flags, device names) made fit for the format that it ends
//! in: one function a format. Every writer of a format uses its function, and nobody escapes
//! anywhere else. What must not be here: the writing itself.
//!
//! | format | function | what a hostile text would otherwise do |
//! |---|---|---|
//! | fio job | [`fio`] | become sections and keys of the job, some of which fio executes |
//! | CSV | [`csv`] | be evaluated as a formula by a spreadsheet |
//! | workbook | [`xlsx`] | make the workbook unreadable, or impossible to write |
//! | YAML | [`yaml`], [`yaml_key`] | become other keys, or another value than the text |
//! | HTML, SVG | [`html`] | become markup or script |
//! | terminal | [`terminal`], [`terminal_page`] | move the cursor, colour, hide or reorder words |
//! | JSON on a terminal | [`json`] | as on a terminal; files keep what they are given |
//! | labels of metrics | [`prometheus`] | become other labels, or lines with figures of their own |
//! | shell | [`shell`] | become other words, or other commands |
//! | bpftrace | [`bpftrace`] | end the string that it is in, and become a program |

use std::path::Path;

/// Longest value, bytes. fio reads a job in lines of at most 4095 bytes and takes the rest of a
/// longer one for a line of its own (`parse_jobs_ini`), so a long comment would become options.
const FIO_BYTES_MAX: usize = 256;
/// Punctuation without a meaning in a job. `$`, backticks and backslashes are expanded; brackets,
/// `=`, `;` and `#` begin sections, values and comments.
const FIO_PLAIN: &str = " ._-+/:,()@~";

/// A value on one line, at most 256 bytes: letters, digits and harmless punctuation stay, any other
/// character is percent-encoded as in a URL. What is cut off is marked by `...`.
pub fn fio(text: &str) -> String {
    let mut value = String::new();
    for c in text.chars() {
        let piece: String = match c.is_alphanumeric() || FIO_PLAIN.contains(c) {
            true => c.into(),
            false => {
                c.encode_utf8(&mut [0; 4]).bytes().map(|byte| format!("%{byte:02X}")).collect()
            }
        };
        if value.len() + piece.len() + "...".len() > FIO_BYTES_MAX {
            value.push_str("...");
            break;
        }
        value.push_str(&piece);
    }
    value
}

/// Characters that begin a formula in spreadsheets, also in the full width of some input methods.
const FORMULA_BEGINS: [char; 8] = ['=', '+', '-', '@', '＝', '＋', '－', '＠'];
/// Characters that end a cell under some spreadsheets' settings, so that the next begins one.
const SEPARATORS: [char; 5] = [';', '\t', '\r', '\n', '|'];

/// The text of a cell that no spreadsheet takes for a formula and no terminal obeys: where a
/// formula could begin, an apostrophe stands before it; control characters but tabs and line breaks
/// become `\u{..}`. Numbers stay as they are. Quoting is the CSV writer's business.
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
        if begins && FORMULA_BEGINS.contains(&c) {
            cell.push('\'');
        }
        cell.push(c);
        let is_skipped = c.is_whitespace() || is_hidden(c) || "\"'".contains(c);
        begins = SEPARATORS.contains(&c) || (begins && is_skipped);
    }
    cell
}

/// Whether a text is a plain number: `-5`, `+0.5`, `-1e-9`.
fn is_number(text: &str) -> bool {
    text.chars().all(|c| c.is_ascii_digit() || "+-.eE".contains(c)) && text.parse::<f64>().is_ok()
}

/// Most UTF-16 units that a cell holds; a longer text can't be written at all.
const CELL_UNITS_MAX: usize = 32_767;

/// The text of a cell, at most 32,767 UTF-16 units: characters that XML does not allow, or that
/// nobody sees, become visible. A cell of text is never a formula in a workbook.
pub fn xlsx(text: &str) -> String {
    let mut cell = visible(text, |c| c == '\n' || c == '\t');
    let mut units = 0;
    let end = cell.char_indices().find(|(_, c)| {
        units += c.len_utf16();
        units > CELL_UNITS_MAX
    });
    if let Some((end, _)) = end {
        cell.truncate(end);
    }
    cell
}

/// Words that are no text in some version of YAML.
const YAML_RESERVED: [&str; 11] =
    ["true", "false", "yes", "no", "on", "off", "null", "y", "n", "inf", "nan"];

/// Longest key that is written on one line with its colon.
const KEY_CHARS_MAX: usize = 1000;

/// A text as one scalar on one line that reads back as the same text: plain where that is certain,
/// in double quotes elsewhere.
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
        && !YAML_RESERVED.contains(&text.to_ascii_lowercase().as_str())
}

/// Text fit for HTML, attributes in either kind of quotes too. Control characters, which HTML does
/// not allow, and overrides of the direction become visible.
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

/// A value on one line: control characters, escape sequences and overrides of the direction become
/// `\u{..}`.
pub fn terminal(text: &str) -> String {
    visible(text, |_| false)
}

/// A path, as [`terminal`].
pub fn terminal_path(path: &Path) -> String {
    terminal(&path.to_string_lossy())
}

/// A page of lines without colour: each line as [`terminal`]. It can't tell the page's line breaks
/// from those of a name, so names are escaped before they enter the page.
pub fn terminal_page(page: &str) -> String {
    visible(page, |c| c == '\n')
}

/// JSON that says the same and obeys nobody: hidden characters, which stand raw only within
/// strings, become `\uXXXX`. The line breaks and spaces around values stay.
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

/// The value of a label, to stand between double quotes in Prometheus's text format or in
/// OpenMetrics: it says the same, and can neither end the label nor the line.
pub fn prometheus(text: &str) -> String {
    // The three characters that both formats know escapes for; any other may stand raw.
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// The text as one word: as it is where nothing in it means anything to a shell, else in single
/// quotes. What a terminal would obey is for [`terminal`] to change afterwards.
pub fn shell(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:,=@%".contains(c);
    // A word that begins with a dash would be read as a flag of the command before it; quotes do
    // not help against that, and no path that is absolute begins so.
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', "'\\''"))
}

/// Escapes text for a quoted string of bpftrace, including `printf` formats: letters, digits and
/// punctuation without a meaning stay, any other byte becomes an octal escape; a percent sign is
/// doubled.
pub fn bpftrace(text: &str) -> String {
    let mut literal = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b' ' | b'_' | b'-' | b'.' | b',' | b':' => {
                literal.push(char::from(byte));
            }
            b'%' => literal.push_str("%%"),
            byte => literal.push_str(&format!("\\{byte:03o}")),
        }
    }
    literal
}

/// Whether a character is a control, or changes how the text around it is shown without being shown
/// itself: bidirectional overrides, zero-width characters, line separators, tags, noncharacters.
/// The joiners U+200C and U+200D stay, which scripts and emoji need.
fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}' | '\u{200e}' | '\u{200f}' |
            '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' |
            '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
        || u32::from(c) & 0xfffe == 0xfffe
}

/// The text with every hidden character other than those kept as `\u{..}`.
fn visible(text: &str, is_kept: impl Fn(char) -> bool) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match is_hidden(c) && !is_kept(c) {
            true => shown.extend(c.escape_unicode()),
            false => shown.push(c),
        }
    }
    shown
}

#[cfg(test)]
mod hostile_test;
