//! A recorded cache's fate, request by request: what a run's hit rate is compared with.

use std::cell::Cell;
use std::io::{BufRead, BufReader};
use std::rc::Rc;

use serde::Deserialize;
use serde::de::{Deserializer, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::bounded::Bounded;
use super::lines::{LINE_BYTES_MAX, Line, Lines, Unusable, too_long};
use super::{Skipped, shown};
use crate::error::Error;

/// What a validation trace says.
#[derive(Clone, PartialEq, Debug)]
pub struct ValidationTrace {
    /// Requests that found their data in the cache.
    pub hits: u64,
    /// Number of requests in the trace that say whether they hit.
    pub requests: u64,
    /// Rows that say nothing about it.
    pub skipped: Skipped,
}

impl ValidationTrace {
    /// Share of requests that hit.
    #[must_use]
    pub fn hit_rate(&self) -> f64 {
        self.hits as f64 / self.requests as f64
    }
}

const WANTED: &str = "a validation trace has a column or a field cache_hit in each row: CSV with \
                      a header, one JSON object a line, or a JSON array of objects";

#[derive(Deserialize)]
struct Record {
    cache_hit: serde_json::Value,
}

impl Record {
    fn of(json: &[u8]) -> Result<bool, String> {
        let record: Record = serde_json::from_slice(json).map_err(|error| error.to_string())?;
        verdict(record.cache_hit.to_string().trim_matches('"'))
    }
}

/// Reads rows of CSV (with a header) or of JSON: an object a line, or an array of objects.
///
/// # Errors
/// No row says whether it hit; an array that is not whole (line and column).
pub fn read_validation(mut reader: impl BufRead) -> Result<ValidationTrace, Error> {
    let trace = if array_begins(&mut reader)? { of_array(reader) } else { of_lines(reader) }?;
    if trace.requests == 0 {
        return Err(trace.skipped.nothing_left(WANTED));
    }
    Ok(trace)
}

/// Whether the first thing to be read is an array; then the reader stands at it.
fn array_begins(reader: &mut impl BufRead) -> Result<bool, Error> {
    let failed = |error| Error::new(format!("reading it failed at its start: {error}"));
    let chunk = reader.fill_buf().map_err(failed)?;
    let text = chunk.strip_prefix(b"\xef\xbb\xbf").unwrap_or(chunk).trim_ascii_start();
    let before = chunk.len() - text.len();
    let is_array = text.first() == Some(&b'[');
    if is_array {
        reader.consume(before);
    }
    Ok(is_array)
}

fn of_array(reader: impl BufRead) -> Result<ValidationTrace, Error> {
    let since_last = Rc::new(Cell::new(0));
    let bounded = Bounded {
        reader,
        since_last: Rc::clone(&since_last),
        bytes_max: LINE_BYTES_MAX as u64,
        what: "a row",
    };
    let mut json = serde_json::Deserializer::from_reader(BufReader::new(bounded));
    let trace = json.deserialize_seq(Rows { since_last });
    let trace = trace.and_then(|trace| json.end().map(|()| trace));
    trace.map_err(|error| Error::new(format!("not a whole JSON array: {error}; {WANTED}")))
}

/// The elements of an array, one in memory at a time.
struct Rows {
    since_last: Rc<Cell<u64>>,
}

impl<'de> Visitor<'de> for Rows {
    type Value = ValidationTrace;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an array of objects")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut rows: A) -> Result<ValidationTrace, A::Error> {
        use serde::de::Error as _;
        let mut trace = ValidationTrace { hits: 0, requests: 0, skipped: Skipped::default() };
        let (mut number, mut unusable) = (0, Unusable::default());
        while let Some(raw) = rows.next_element::<Box<RawValue>>()? {
            number += 1;
            self.since_last.set(0);
            let row = raw.get().as_bytes();
            match Record::of(row) {
                Ok(hit) => {
                    unusable = Unusable::default();
                    trace.requests += 1;
                    trace.hits += u64::from(hit);
                }
                Err(why) => {
                    unusable.pass(number, &Line::Whole(row)).map_err(A::Error::custom)?;
                    trace.skipped.rows += 1;
                    trace.skipped.first.get_or_insert_with(|| format!("row {number}: {why}"));
                }
            }
        }
        Ok(trace)
    }
}

fn of_lines(reader: impl BufRead) -> Result<ValidationTrace, Error> {
    let mut lines = Lines::new(reader);
    let mut trace = ValidationTrace { hits: 0, requests: 0, skipped: Skipped::default() };
    let mut column = None;
    let mut is_json = None;
    let mut unusable = Unusable::default();
    while let Some((number, line)) = lines.next()? {
        unusable.pass(number, &line)?;
        let line = match line {
            Line::TooLong => {
                trace.skipped.count(number, too_long);
                continue;
            }
            Line::Whole(line) => line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line).trim_ascii(),
        };
        if line.is_empty() {
            continue;
        }
        let json = *is_json.get_or_insert(line[0] == b'{');
        let hit = if json {
            Record::of(line)
        } else {
            let mut fields = line.split(|&byte| byte == b',').map(<[u8]>::trim_ascii);
            match column {
                None => {
                    column = fields.position(|name| name.eq_ignore_ascii_case(b"cache_hit"));
                    if column.is_none() {
                        let text = format!("line {number} is {}; {WANTED}", shown(line));
                        return Err(Error::new(text));
                    }
                    continue;
                }
                Some(column) => match fields.nth(column) {
                    None => Err("it has no cache_hit".to_owned()),
                    Some(field) => verdict(&String::from_utf8_lossy(field)),
                },
            }
        };
        match hit {
            Ok(hit) => {
                unusable = Unusable::default();
                trace.requests += 1;
                trace.hits += u64::from(hit);
            }
            Err(why) => trace.skipped.count(number, || why),
        }
    }
    Ok(trace)
}

fn verdict(text: &str) -> Result<bool, String> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "1" | "yes" | "hit" => Ok(true),
        "false" | "0" | "no" | "miss" => Ok(false),
        _ => Err(format!("cache_hit is {}, neither true nor false", shown(text.as_bytes()))),
    }
}
