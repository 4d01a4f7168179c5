//! Qwen-Bailian's JSONL: one request a line, with a hash of each 16-token block of its prompt.

use std::collections::BTreeMap;
use std::io::BufRead;

use serde::Deserialize;

use super::lines::{Lines, next_row};
use super::{Row, Rows, Skipped, json_problem, not_more_blocks, seconds_as_ns, tokens};
use crate::digest::Digest;
use crate::error::Error;
use crate::key::PART_MAX;

/// Tokens of a block, in the published traces (`…_blksz_16`).
pub(super) const BLOCK_TOKENS: u32 = 16;

#[derive(Deserialize)]
struct Record {
    chat_id: i64,
    /// The request that this one continues; negative: none.
    parent_chat_id: i64,
    timestamp: f64,
    input_length: u64,
    output_length: u64,
    hash_ids: Vec<u64>,
}

/// A file of Qwen-Bailian's rows. It remembers each request's conversation, in some 40 bytes.
pub struct Qwen<R> {
    lines: Lines<R>,
    skipped: Skipped,
    /// The first request of each request's conversation.
    firsts: BTreeMap<i64, i64>,
}

impl<R: BufRead> Qwen<R> {
    /// Nothing is read yet.
    pub fn new(reader: R) -> Self {
        Qwen { lines: Lines::new(reader), skipped: Skipped::default(), firsts: BTreeMap::new() }
    }
}

impl<R: BufRead + Send> Rows for Qwen<R> {
    fn next_row(&mut self) -> Result<Option<Row>, Error> {
        let firsts = &mut self.firsts;
        next_row(&mut self.lines, &mut self.skipped, |line| row(line, firsts))
    }

    fn skipped(&self) -> Skipped {
        self.skipped.clone()
    }
}

fn row(line: &[u8], firsts: &mut BTreeMap<i64, i64>) -> Result<Row, String> {
    let record: Record =
        serde_json::from_slice(line).map_err(|error| json_problem(line, &error))?;
    let context_tokens = tokens("input_length", record.input_length)?;
    not_more_blocks("input_length", context_tokens, BLOCK_TOKENS, record.hash_ids.len())?;
    let timestamp_ns = seconds_as_ns("timestamp", record.timestamp)?;
    let generate_tokens = tokens("output_length", record.output_length)?;
    // Where the trace does not have the parent, all that continue it are one conversation.
    let first = match record.parent_chat_id {
        parent if parent >= 0 => firsts.get(&parent).copied().unwrap_or(parent),
        _ => record.chat_id,
    };
    firsts.insert(record.chat_id, first);
    let mut session = Digest::default();
    session.add([first as u64]);
    Ok(Row {
        timestamp_ns,
        session: Some(session.number() & PART_MAX),
        context_tokens,
        generate_tokens,
        blocks: Some(chained(record.hash_ids)),
        ..Row::default()
    })
}

/// Keys of blocks of which each hash says what is in that block alone: a block is another one where
/// anything before it differs.
fn chained(hash_ids: Vec<u64>) -> Box<[u64]> {
    let mut prefix = Digest::default();
    let key = |id| {
        prefix.add([id]);
        prefix.number() & PART_MAX
    };
    hash_ids.into_iter().map(key).collect()
}
