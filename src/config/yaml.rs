//! Errors in a YAML text, with the line and the key.

use super::nearest::nearest;

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
    let location = error.location();
    let line = location.map(|location| location.line());
    let place = line.map_or(name.to_owned(), |line| format!("{name}, line {line}"));
    let bare = error.without_snippet();
    if let Error::SerdeUnknownField { field, expected, .. } = bare {
        let near = nearest(field, expected.iter().copied());
        let hint = near.map_or(all.to_owned(), |near| format!("did you mean {near:?}?"));
        return format!("{place}: unknown key {field:?}; {hint}");
    }
    let key = location.and_then(|location| key_at(text, location.line(), location.column()));
    let mut what = wording(&bare.to_string());
    if matches!(bare, Error::InvalidScalar { .. } | Error::Unexpected { .. })
        && let Some(location) = location
        && let Some(found) = value_at(text, location.line(), location.column())
    {
        what.push_str(&format!(" (found: {found})"));
    }
    match key {
        Some(key) => format!("{place}: {key}: {what}"),
        None => format!("{place}: {what}"),
    }
}

/// Value that begins at that line and column, counted from 1, up to the end of the line; none where
/// nothing or much stands there.
fn value_at(text: &str, line: u64, column: u64) -> Option<&str> {
    const CHARS_MAX: usize = 40;
    let own = text.lines().nth(usize::try_from(line).ok()?.checked_sub(1)?)?;
    let (at, _) = own.char_indices().nth(usize::try_from(column).ok()?.checked_sub(1)?)?;
    let rest = own[at..].split(" #").next()?.trim_end();
    let value = match rest.starts_with(['[', '{']) {
        true => rest,
        false => rest.split([',', ']', '}']).next()?.trim_end(),
    };
    (!value.is_empty() && value.chars().count() <= CHARS_MAX).then_some(value)
}

/// The key whose value is at that line and column, counted from 1: on the same line, in braces or
/// not, or on one above.
fn key_at(text: &str, line: u64, column: u64) -> Option<&str> {
    let index = usize::try_from(line).ok()?.checked_sub(1)?;
    let own = text.lines().nth(index)?;
    let start = usize::try_from(column).ok()?.saturating_sub(1);
    let before = own.char_indices().nth(start).map_or(own, |(at, _)| &own[..at]);
    let nearest = before.rsplit(['{', ',']).next().and_then(key_of);
    nearest.or_else(|| key_of(own)).or_else(|| text.lines().take(index).filter_map(key_of).last())
}

/// The parser's message without its place (we have said it) and without Rust's names of types.
fn wording(message: &str) -> String {
    let message = message.split(" at line ").next().unwrap_or(message).trim();
    let invalid = match message.strip_prefix("invalid ") {
        Some("i64" | "u64" | "u32" | "i32") => {
            "not a whole number: give digits alone, such as 1000"
        }
        Some("floating point") => "not a number",
        Some(rest) if rest.starts_with("boolean") => "neither true nor false",
        _ if message.starts_with("non-finite float") => "not a number: give a finite one",
        _ => message,
    };
    if let Some(field) = invalid.strip_prefix("missing field ") {
        return format!("the key {field} is missing");
    }
    if let Some((length, expected)) =
        invalid.strip_prefix("invalid length ").and_then(|rest| rest.split_once(','))
        && let Some(wanted) = expected.rsplit(' ').next()
    {
        return format!("a list of {wanted} values is needed here, and this one has {length}");
    }
    match invalid {
        "expected string scalar" => "a single value is needed here",
        "expected mapping start" => "a list of \"key: value\" is needed here",
        "expected sequence start" => "a list of values is needed here, such as [1, 2]",
        _ if invalid.starts_with("duplicate mapping key") => {
            "duplicate of a key further up: remove one of them"
        }
        _ if invalid.starts_with("multiple YAML documents") => {
            "a second document begins here, and only one is read: remove the line \"---\""
        }
        other => other,
    }
    .to_owned()
}
