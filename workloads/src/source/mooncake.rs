//! Mooncake's JSONL: one request a line, with the hashes of its 512-token prefix blocks.

use std::io::BufRead;

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::lines::{Lines, next_row};
use super::{Row, Rows, Skipped, json_problem, seconds_as_ns, tokens};
use crate::error::Error;
use crate::key::PART_MAX;

/// Tokens of a block, in the published traces (FAST'25).
pub(super) const BLOCK_TOKENS: u32 = 512;

#[derive(Deserialize)]
struct Record {
    timestamp: f64,
    input_length: u64,
    output_length: u64,
    hash_ids: Vec<u64>,
}

/// A trace of kv-cache-tester, which has prefix blocks too, as far as it is told apart.
#[derive(Deserialize)]
struct KvCacheTester {
    #[serde(rename = "requests")]
    _requests: Vec<IgnoredAny>,
}

/// A file of Mooncake rows.
pub struct Mooncake<R> {
    lines: Lines<R>,
    skipped: Skipped,
}

impl<R: BufRead> Mooncake<R> {
    /// Nothing is read yet.
    pub fn new(reader: R) -> Self {
        Mooncake { lines: Lines::new(reader), skipped: Skipped::default() }
    }
}

impl<R: BufRead + Send> Rows for Mooncake<R> {
    fn next_row(&mut self) -> Result<Option<Row>, Error> {
        next_row(&mut self.lines, &mut self.skipped, row)
    }

    fn skipped(&self) -> Skipped {
        self.skipped.clone()
    }
}

fn row(line: &[u8]) -> Result<Row, String> {
    let record: Record =
        serde_json::from_slice(line).map_err(|error| {
            match serde_json::from_slice::<KvCacheTester>(line) {
                Ok(_) => {
                    "it is a whole trace of kv-cache-tester, one object with all \"requests\"; \
                      a Mooncake trace has an object a line, with timestamp, input_length, \
                      output_length and hash_ids: give it as --trace, which takes both"
                        .to_owned()
                }
                Err(_) => json_problem(line, &error),
            }
        })?;
    let input_tokens = tokens("input_length", record.input_length)?;
    let blocks = record.hash_ids.len() as u64;
    // A prompt without tokens has no block, or names the one that it would begin.
    let blocks_min = u64::from(input_tokens.div_ceil(BLOCK_TOKENS));
    if !(blocks_min..=blocks_min.max(1)).contains(&blocks) {
        return Err(format!(
            "input_length is {input_tokens}, but {blocks} hash_ids are given: each stands for \
             {BLOCK_TOKENS} tokens, the last one for the rest"
        ));
    }
    if let Some(id) = record.hash_ids.iter().find(|&&id| id > PART_MAX) {
        return Err(format!("hash id {id} is more than {PART_MAX}"));
    }
    Ok(Row {
        timestamp_ns: seconds_as_ns("timestamp", record.timestamp / 1e3)?,
        context_tokens: input_tokens,
        generate_tokens: tokens("output_length", record.output_length)?,
        blocks: Some(record.hash_ids.into()),
        ..Row::default()
    })
}
