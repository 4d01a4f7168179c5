//! Reading a YAML configuration, ours or the reference benchmark's: every complaint names the key
//! and the line.

use std::path::Path;

use super::InputError;
use super::nearest::nearest;
use super::{NOT_YET, Options, not_yet, reference};

/// Largest configuration read: far above any written by hand.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// A file's settings, and its text for finding lines in.
#[derive(Clone, Debug)]
pub struct ConfigFile {
    /// As the user named it.
    pub name: String,
    /// Text of the whole file, by which messages find the line of a key.
    pub text: String,
    /// Settings that the file gives, as typed; they are not checked yet.
    pub options: Options,
    /// Sentences about what of it has no effect.
    pub told: Vec<String>,
}

impl ConfigFile {
    /// Reads a file.
    ///
    /// # Errors
    /// It can't be read, isn't YAML, has an unknown key or a value of the wrong type.
    pub fn read(path: &Path) -> Result<ConfigFile, InputError> {
        let name = path.display().to_string();
        let failed = |what: String| InputError::new(format!("--config {name}: {what}"));
        let text = read_small(path).map_err(failed)?;
        ConfigFile::parse(name, text)
    }

    /// Reads a text.
    ///
    /// # Errors
    /// As [`ConfigFile::read`].
    pub fn parse(name: String, text: String) -> Result<ConfigFile, InputError> {
        if let Some(section) = reference::section_of(&text) {
            return reference::parse(name, text, section);
        }
        match serde_saphyr::from_str(&text) {
            Ok(options) => Ok(ConfigFile { name, text, options, told: Vec::new() }),
            Err(error) => {
                let all = "`ringfall config --defaults` lists all";
                Err(InputError::new(explain(&name, &text, &error, all)))
            }
        }
    }

    /// The line that sets `key`, from 1; `None` when none does so plainly.
    #[must_use]
    pub fn line_of(&self, key: &str) -> Option<usize> {
        self.text.lines().position(|line| key_of(line) == Some(key)).map(|index| index + 1)
    }
}

/// Reads a file that a person wrote.
pub(super) fn read_small(path: &Path) -> Result<String, String> {
    crate::host::read_text(path, FILE_BYTES_MAX).map_err(|error| error.to_string())
}

/// The key of a line of the form `key: value`.
pub(super) fn key_of(line: &str) -> Option<&str> {
    let (key, _) = line.split_once(':')?;
    let key = key.trim().trim_start_matches("- ").trim_matches(['"', '\'']);
    let plain = |c: char| c.is_alphanumeric() || "_-.".contains(c);
    (!key.is_empty() && key.chars().all(plain)).then_some(key)
}

/// The parser's complaint with file and line; `all` says where all keys can be seen.
pub(super) fn explain(name: &str, text: &str, error: &serde_saphyr::Error, all: &str) -> String {
    use serde_saphyr::Error;
    let line = error.location().map(|location| location.line());
    let place = line.map_or(name.to_owned(), |line| format!("{name}, line {line}"));
    let bare = error.without_snippet();
    if let Error::SerdeUnknownField { field, expected, .. } = bare {
        if NOT_YET.contains(&field.as_str()) {
            return format!("{place}: {}", not_yet(&format!("key {field:?}")));
        }
        let near = nearest(field, expected.iter().copied());
        let hint = near.map_or(all.to_owned(), |near| format!("did you mean {near:?}?"));
        return format!("{place}: unknown key {field:?}; {hint}");
    }
    let key = line
        .and_then(|line| usize::try_from(line).ok()?.checked_sub(1))
        .and_then(|index| text.lines().nth(index))
        .and_then(key_of);
    let what = wording(&bare.to_string());
    match key {
        Some(key) => format!("{place}: {key}: {what}"),
        None => format!("{place}: {what}"),
    }
}

/// The parser's message without its place (we have said it) and without Rust's names of types.
fn wording(message: &str) -> String {
    let message = message.split(" at line ").next().unwrap_or(message).trim();
    let invalid = match message.strip_prefix("invalid ") {
        Some("i64" | "u64" | "u32" | "i32") => "not a whole number",
        Some("floating point") => "not a number",
        Some(rest) if rest.starts_with("boolean") => "neither true nor false",
        _ => message,
    };
    match invalid {
        "expected string scalar" => "a single value is needed here".to_owned(),
        "expected mapping start" => "a list of \"key: value\" is needed here".to_owned(),
        other => other.to_owned(),
    }
}
