//! JSON files that strangers wrote: each read whole, within a bound on its bytes, and its figures
//! found by their path.

use std::io::Read;
use std::path::Path;

use serde_json::Value;

use ringfall_host::open_plain;

/// Largest file that is read, bytes: three times the largest that is known (raw arrays of a day's
/// run have some 40 MB). Its values can take sixteen times as much memory.
const FILE_BYTES_MAX: u64 = 128 << 20;
/// Characters of a text that are kept; a recorded command has one or two thousand.
const TEXT_CHARS_MAX: usize = 64 << 10;
/// Sizes beyond which no figure of a result lies: quotients and products of what lies between stay
/// finite.
const SIZES: std::ops::RangeInclusive<f64> = 1e-60..=1e60;

/// Reads the object that a file holds.
///
/// # Errors
/// A sentence: it can't be read, is too large, is no JSON, or no object.
pub(super) fn read(path: &Path) -> Result<Value, String> {
    let told = |error: std::io::Error| error.to_string();
    let file = open_plain(path).map_err(told)?;
    let length = file.metadata().map_err(told)?.len();
    if length == 0 {
        return Err("the file is empty: the run that wrote it did not finish".to_owned());
    }
    if length > FILE_BYTES_MAX {
        return Err(format!(
            "it has {} MiB, and at most {} MiB of a file are read; leave out its arrays of raw \
             latencies",
            length >> 20,
            FILE_BYTES_MAX >> 20
        ));
    }
    // What it had when it was looked at: a file that grows meanwhile ends there.
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX).read_to_end(&mut bytes).map_err(told)?;
    parse(&bytes)
}

fn parse(bytes: &[u8]) -> Result<Value, String> {
    let value: Value = serde_json::from_slice(bytes).map_err(|error| match error.is_eof() {
        true => format!("the JSON ends too early ({error}): the file was cut off"),
        false => format!("this is not readable JSON ({error})"),
    })?;
    value.is_object().then_some(value).ok_or("this is JSON, but not an object".to_owned())
}

/// The value at a path: names with dots between them.
pub(super) fn at<'a>(value: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.').try_fold(value, |value, name| value.get(name))
}

/// A number as a figure: 0 when it is next to nothing, and never beyond what can be computed with.
/// Counts above 2^53 lose their last digits; no count of a benchmark is so large.
pub(super) fn number(value: &Value) -> Option<f64> {
    let number = value.as_f64()?;
    let is_nothing = number.abs() < *SIZES.start();
    Some(if is_nothing { 0.0 } else { number.clamp(-SIZES.end(), *SIZES.end()) })
}

/// A text, cut where it is longer than any that a result has.
pub(super) fn text(value: &Value) -> Option<&str> {
    let text = value.as_str()?;
    Some(text.char_indices().nth(TEXT_CHARS_MAX).map_or(text, |(end, _)| &text[..end]))
}

/// Whether it is an object or an array.
pub(super) fn is_container(value: &Value) -> bool {
    value.is_object() || value.is_array()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn figures_are_found_by_their_path_and_can_be_computed_with() {
        let file = json!({ "a": { "b": 1, "c": "x" }, "a.b": 2, "d": [{ "e": 3 }] });
        assert_eq!(at(&file, "a.b").and_then(number), Some(1.0));
        assert_eq!(at(&file, "a.c").and_then(text), Some("x"));
        assert_eq!((at(&file, "a.b.c"), at(&file, "d.e"), at(&file, "")), (None, None, None));
        let all = [json!(5e-324), json!(1e308), json!(-1e308), json!("1")];
        assert_eq!(all.each_ref().map(number), [Some(0.0), Some(1e60), Some(-1e60), None]);
        let long = json!("ä".repeat(100_000));
        assert_eq!(text(&long).unwrap().chars().count(), TEXT_CHARS_MAX);
    }

    #[test]
    fn what_is_no_object_is_told_apart() {
        for (text, words) in [
            ("[1]", "not an object"),
            ("3", "not an object"),
            ("{\"a\":", "cut off"),
            ("{\"a\":NaN}", "not readable JSON"),
            ("{} x", "not readable JSON"),
            (&format!("{}1{}", "[".repeat(500), "]".repeat(500)), "recursion"),
        ] {
            let error = parse(text.as_bytes()).unwrap_err();
            assert!(error.contains(words), "{text:.20}: {error}");
        }
    }
}
