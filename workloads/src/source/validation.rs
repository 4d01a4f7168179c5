//! A recorded cache's fate, request by request: what a run's hit rate is compared with.

use std::io::BufRead;

use serde::Deserialize;

use super::lines::{Line, Lines, Unusable, too_long};
use super::{Skipped, shown};
use crate::error::Error;

/// What a validation trace says.
#[derive(Clone, PartialEq, Debug)]
pub struct ValidationTrace {
    /// Requests that found their data in the cache.
    pub hits: u64,
    /// Requests.
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
                      a header, or one JSON object a line";

#[derive(Deserialize)]
struct Record {
    cache_hit: serde_json::Value,
}

/// Reads rows of CSV (with a header) or of JSON (an object a line, also inside an array written
/// one element a line).
///
/// # Errors
/// No row says whether it hit.
pub fn read_validation(reader: impl BufRead) -> Result<ValidationTrace, Error> {
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
        let json = *is_json.get_or_insert(matches!(line[0], b'{' | b'['));
        let hit = if json {
            let object = line.trim_ascii_start().strip_prefix(b"[").unwrap_or(line);
            let object = object.strip_suffix(b"]").unwrap_or(object).trim_ascii();
            let object = object.strip_suffix(b",").unwrap_or(object);
            if object.is_empty() {
                continue;
            }
            serde_json::from_slice::<Record>(object)
                .map_err(|error| error.to_string())
                .and_then(|record| verdict(record.cache_hit.to_string().trim_matches('"')))
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
    if trace.requests == 0 {
        return Err(trace.skipped.nothing_left(WANTED));
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
