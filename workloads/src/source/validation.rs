//! A recorded cache's fate, request by request: what a run's hit rate is compared with.

use std::cell::Cell;
use std::io::{BufRead, BufReader};
use std::rc::Rc;

use serde::Deserialize;
use serde::de::{Deserializer, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::bounded::Bounded;
use super::lines::{BYTE_ORDER_MARK, LINE_BYTES_MAX, Line, Lines, Unusable, too_long, unread};
use super::{Skipped, json_problem, shown};
use crate::error::Error;

/// Summary of a validation trace.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ValidationTrace {
    /// Requests that found their data in the cache.
    pub hits: u64,
    /// Number of requests in the trace that say whether they hit.
    pub requests: u64,
    /// Context tokens of the requests, as far as rows give them.
    pub context_tokens: Recorded,
    /// Tokens generated for the requests, as far as rows give them.
    pub generation_tokens: Recorded,
    /// Bytes read from the cache.
    pub read_bytes: Recorded,
    /// Bytes written to the cache.
    pub write_bytes: Recorded,
    /// Latencies of the reads, ms.
    pub read_latency_ms: Recorded,
    /// Latencies of the writes, ms.
    pub write_latency_ms: Recorded,
    /// Rows that say nothing about it.
    pub skipped: Skipped,
}

/// Number and sum of the values in one column, which a trace need not have.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Recorded {
    /// Rows that have a number there.
    pub rows: u64,
    /// Sum of those numbers.
    pub sum: f64,
}

impl Recorded {
    /// Their sum; none where no row has one.
    pub fn sum(&self) -> Option<f64> {
        (self.rows > 0).then_some(self.sum)
    }

    /// Their mean; none where no row has one.
    pub fn mean(&self) -> Option<f64> {
        self.sum().map(|sum| sum / self.rows as f64)
    }
}

impl ValidationTrace {
    fn count(&mut self, row: &Row) {
        self.requests += 1;
        self.hits += u64::from(row.hit);
        let columns = [
            &mut self.context_tokens,
            &mut self.generation_tokens,
            &mut self.read_bytes,
            &mut self.write_bytes,
            &mut self.read_latency_ms,
            &mut self.write_latency_ms,
        ];
        for (column, figure) in columns.into_iter().zip(row.figures) {
            column.rows += u64::from(figure.is_some());
            column.sum += figure.unwrap_or_default();
        }
    }

    /// Bytes read for each byte written, as the reference has it: without writes, all that was
    /// read. None where the trace does not have both.
    pub fn read_write_ratio(&self) -> Option<f64> {
        Some(self.read_bytes.sum()? / self.write_bytes.sum()?.max(1.0))
    }

    /// Share of requests that hit.
    pub fn hit_rate(&self) -> f64 {
        self.hits as f64 / self.requests as f64
    }
}

const WANTED: &str = "a validation trace has a column or a field cache_hit in each row: CSV with \
                      a header, one JSON object a line, or a JSON array of objects";

/// The columns that a trace may have besides, in the order of [`Row::figures`].
const FIGURES: [&str; 6] = [
    "context_tokens",
    "generation_tokens",
    "read_bytes",
    "write_bytes",
    "read_latency_ms",
    "write_latency_ms",
];

struct Row {
    hit: bool,
    figures: [Option<f64>; FIGURES.len()],
}

#[derive(Deserialize)]
struct Record {
    cache_hit: serde_json::Value,
    context_tokens: Option<serde_json::Value>,
    generation_tokens: Option<serde_json::Value>,
    read_bytes: Option<serde_json::Value>,
    write_bytes: Option<serde_json::Value>,
    read_latency_ms: Option<serde_json::Value>,
    write_latency_ms: Option<serde_json::Value>,
}

impl Record {
    fn of(json: &[u8]) -> Result<Row, String> {
        let record: Record =
            serde_json::from_slice(json).map_err(|error| json_problem(json, &error))?;
        let figures = [
            record.context_tokens,
            record.generation_tokens,
            record.read_bytes,
            record.write_bytes,
            record.read_latency_ms,
            record.write_latency_ms,
        ];
        let plain = |value: serde_json::Value| value.to_string().trim_matches('"').to_owned();
        Row::of(&plain(record.cache_hit), figures.map(|figure| figure.map(plain)))
    }
}

impl Row {
    /// Parses the columns of a row; absent columns are none.
    fn of(hit: &str, figures: [Option<String>; FIGURES.len()]) -> Result<Row, String> {
        let mut row = Row { hit: verdict(hit)?, figures: [None; FIGURES.len()] };
        for ((place, text), name) in row.figures.iter_mut().zip(figures).zip(FIGURES) {
            let text = text.filter(|text| !is_missing(text));
            *place = text.map(|text| number(name, &text)).transpose()?;
        }
        Ok(row)
    }
}

/// Whether a cell holds one of the usual signs for a missing value. A row without a latency still
/// counts as a hit or a miss.
fn is_missing(text: &str) -> bool {
    ["", "nan", "none", "null", "n/a"].iter().any(|none| text.trim().eq_ignore_ascii_case(none))
}

/// A count or a time: a number that is not negative.
fn number(name: &str, text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number: &f64| number.is_finite() && *number >= 0.0);
    number.ok_or_else(|| format!("{name} is {}, no number of 0 or more", shown(text.as_bytes())))
}

struct Columns {
    cache_hit: usize,
    figures: [Option<usize>; FIGURES.len()],
}

impl Columns {
    /// Parses the header; none where it has no `cache_hit`.
    fn of(header: &[u8]) -> Option<Columns> {
        let names: Vec<&[u8]> =
            header.split(|&byte| byte == b',').map(<[u8]>::trim_ascii).collect();
        let find =
            |wanted: &str| names.iter().position(|n| n.eq_ignore_ascii_case(wanted.as_bytes()));
        Some(Columns { cache_hit: find("cache_hit")?, figures: FIGURES.map(find) })
    }

    fn row(&self, line: &[u8]) -> Result<Row, String> {
        let fields: Vec<&[u8]> = line.split(|&byte| byte == b',').map(<[u8]>::trim_ascii).collect();
        let text = |at: usize| fields.get(at).map(|f| String::from_utf8_lossy(f).into_owned());
        let hit = text(self.cache_hit).ok_or("it has no cache_hit")?;
        Row::of(&hit, self.figures.map(|at| at.and_then(text)))
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
    let text = chunk.strip_prefix(BYTE_ORDER_MARK).unwrap_or(chunk).trim_ascii_start();
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
        let mut trace = ValidationTrace::default();
        let (mut number, mut unusable) = (0, Unusable::default());
        while let Some(raw) = rows.next_element::<Box<RawValue>>()? {
            number += 1;
            self.since_last.set(0);
            let row = raw.get().as_bytes();
            match Record::of(row) {
                Ok(row) => {
                    unusable = Unusable::default();
                    trace.count(&row);
                }
                Err(why) => {
                    unusable.pass(number, &Line::Whole(row)).map_err(A::Error::custom)?;
                    trace.skipped.rows += 1;
                    let told = || format!("row {number}: {}", unread(row, &why));
                    trace.skipped.first.get_or_insert_with(told);
                }
            }
        }
        Ok(trace)
    }
}

fn of_lines(reader: impl BufRead) -> Result<ValidationTrace, Error> {
    let mut lines = Lines::new(reader);
    let mut trace = ValidationTrace::default();
    let mut columns = None;
    let mut is_json = None;
    let mut unusable = Unusable::default();
    while let Some((number, line)) = lines.next()? {
        unusable.pass(number, &line)?;
        let line = match line {
            Line::TooLong => {
                trace.skipped.count(number, too_long);
                continue;
            }
            Line::Whole(line) => line.trim_ascii(),
        };
        if line.is_empty() {
            continue;
        }
        let json = *is_json.get_or_insert(line[0] == b'{');
        let row = match (json, &columns) {
            (true, _) => Record::of(line),
            (false, Some(columns)) => Columns::row(columns, line),
            (false, None) => {
                columns = Columns::of(line);
                if columns.is_none() {
                    let text = format!("line {number} is {}; {WANTED}", shown(line));
                    return Err(Error::new(text));
                }
                continue;
            }
        };
        match row {
            Ok(row) => {
                unusable = Unusable::default();
                trace.count(&row);
            }
            Err(why) => trace.skipped.count(number, || unread(line, &why)),
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
