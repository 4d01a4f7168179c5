//! Where requests come from, when not from drawn users: published traces and datasets, read as
//! streams. What must not live here: opening files (`src/` does), deciding what a request does.
//!
//! A row that does not parse is skipped and counted; a file without one that does is an error.

mod azure;
mod bounded;
mod burstgpt;
mod calendar;
mod copilot;
mod format;
mod iotrace;
pub(crate) mod lines;
mod mooncake;
mod qwen;
mod sessions;
mod sharegpt;
mod side_by_side;
mod stream;
pub mod tokenizer;
mod validation;

use std::sync::Arc;

pub use burstgpt::BurstGpt;
pub use format::TraceFormat;
pub use iotrace::{IoTrace, Operation, ReplayObject, ReplayedRows, objects_read_first};
pub use mooncake::Mooncake;
pub use sharegpt::{ShareGptLimits, read_sharegpt};
pub use side_by_side::SideBySide;
pub use stream::{Open, Pace, SourceRequest, Stream, StreamSettings};
pub use validation::{Recorded, ValidationTrace, read_validation};

pub use crate::conversation::Turn;
use crate::dataset::Dataset;
use crate::digest::Digest;
use crate::error::Error;

/// Where a workload's requests come from.
#[derive(Clone, Debug, Default)]
pub enum Source {
    /// Users with drawn conversations.
    #[default]
    Synthetic,
    /// Users who repeat recorded conversations.
    Dataset(Arc<Dataset>),
    /// Rows of a trace, given by [`crate::Workload::supply`].
    Rows {
        /// Number of tokens that a block stands for; 0 where rows name no blocks.
        block_tokens: u32,
    },
    /// The same, where each row is an operation; these entries must be there before.
    Operations(Arc<[ReplayObject]>),
}

impl Source {
    /// Whether requests are rows of a trace.
    pub fn is_rows(&self) -> bool {
        matches!(self, Source::Rows { .. } | Source::Operations(_))
    }

    /// Number of tokens that a block of a prompt stands for; 0 where no blocks are named.
    pub fn block_tokens(&self) -> u32 {
        match self {
            Source::Rows { block_tokens } => *block_tokens,
            Source::Synthetic | Source::Dataset(_) | Source::Operations(_) => 0,
        }
    }
}

/// One row of a trace, as the file says it.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Row {
    /// The file's own time, ns.
    pub timestamp_ns: u64,
    /// Hash of its session's name, if it has one.
    pub session: Option<u64>,
    /// Number of tokens of the request's context, which may be none.
    pub context_tokens: u32,
    /// Number of these that the recorded deployment's cache found, if the trace tells.
    pub cached_tokens: Option<u32>,
    /// Number of tokens of its answer, which may be none.
    pub generate_tokens: u32,
    /// Its prefix blocks, if the trace names them.
    pub blocks: Option<Box<[u64]>>,
    /// It is no request, but this operation on an entry; `session` is then the entry's name.
    pub operation: Option<Operation>,
}

impl Row {
    /// Smallest number of tokens of a context and of an answer that a run serves.
    fn tokens_min(&self) -> u32 {
        // An operation has bytes.
        u32::from(self.operation.is_none())
    }

    /// Adds what a run serves of the row to a digest.
    fn add_to(&self, digest: &mut Digest) {
        let Row {
            timestamp_ns,
            session,
            context_tokens,
            cached_tokens,
            generate_tokens,
            blocks,
            operation,
        } = self;
        let blocks = blocks.as_deref().unwrap_or_default();
        digest.add([*timestamp_ns, session.is_some().into(), session.unwrap_or(0)]);
        let served = |tokens: u32| u64::from(tokens.max(self.tokens_min()));
        digest.add([*context_tokens, *generate_tokens].map(served));
        digest.add([blocks.len() as u64]);
        digest.add(blocks.iter().copied());
        let Operation { bytes, is_write, is_decode } =
            operation.unwrap_or(Operation { bytes: 0, is_write: false, is_decode: false });
        digest.add([bytes, is_write.into(), is_decode.into()]);
        if let Some(cached_tokens) = cached_tokens {
            digest.add([u64::from(*cached_tokens)]);
        }
    }
}

/// A file of rows.
pub trait Rows: Send {
    /// The next row that parses; `None` at the end.
    fn next_row(&mut self) -> Result<Option<Row>, Error>;

    /// Rows skipped so far, and why the first was.
    fn skipped(&self) -> Skipped;
}

/// Rows that did not parse.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Skipped {
    /// Number of rows that were skipped.
    pub rows: u64,
    /// Where and why the first did not.
    pub first: Option<String>,
}

impl Skipped {
    /// Counts a row; `why` is asked for the first only.
    pub fn count(&mut self, line: u64, why: impl FnOnce() -> String) {
        self.rows += 1;
        if self.first.is_none() {
            self.first = Some(format!("line {line}: {}", why()));
        }
    }

    /// Adds what another file's reader skipped.
    pub fn merge(&mut self, other: &Skipped) {
        self.rows += other.rows;
        if self.first.is_none() {
            self.first.clone_from(&other.first);
        }
    }

    /// The sentence for a file of which nothing is left.
    pub fn nothing_left(&self, wanted: &str) -> Error {
        match &self.first {
            None => Error::new(format!("it is empty; {wanted}")),
            Some(first) => Error::new(format!("none of its rows can be read ({first}); {wanted}")),
        }
    }
}

/// Most tokens believed of a row: far above any model, and keeps products in range.
const ROW_TOKENS_MAX: u64 = 100_000_000;
/// Latest time believed of a row, s: a century.
const ROW_SECONDS_MAX: f64 = 3.2e9;

fn tokens(name: &str, value: u64) -> Result<u32, String> {
    match u32::try_from(value) {
        Ok(tokens) if value <= ROW_TOKENS_MAX => Ok(tokens),
        _ => Err(format!("{name} is {value}, more than {ROW_TOKENS_MAX}")),
    }
}

/// The same as a file has it, where another number must not spoil the rest of its session.
fn whole_tokens(name: &str, value: f64) -> Result<u32, String> {
    match value {
        value if value >= 0.0 && value.fract() == 0.0 => tokens(name, value as u64),
        value => Err(format!("{name} is {value}, not a number of tokens")),
    }
}

/// Refuses a row that names more blocks than its prompt has; `name` is that of its tokens. With
/// fewer, its last tokens are in no block, and never found. A prompt without tokens may name one.
fn not_more_blocks(
    name: &str,
    tokens: u32,
    block_tokens: u32,
    blocks: usize,
) -> Result<(), String> {
    match blocks as u64 <= tokens.max(1).div_ceil(block_tokens).into() {
        true => Ok(()),
        false => Err(format!(
            "{name} is {tokens}, but {blocks} hash_ids are given: each stands for {block_tokens} \
             tokens"
        )),
    }
}

fn seconds_as_ns(name: &str, value: f64) -> Result<u64, String> {
    match (0.0..=ROW_SECONDS_MAX).contains(&value) {
        true => Ok((value * 1e9) as u64),
        false => Err(format!("{name} is {value}, not a time from 0 to {ROW_SECONDS_MAX} s")),
    }
}

/// Remedy of a trace that is one JSON array.
const NO_ARRAY: &str = "it is a JSON array, and a trace has one JSON object a line: `jq -c '.[]' \
                        FILE` writes those of the array";

/// Whether a text begins with a JSON array.
fn is_array(text: &[u8]) -> bool {
    text.trim_ascii_start().starts_with(b"[")
}

/// Describes an error in the JSON of one line of a file, without the parser's own line number,
/// which is always 1.
fn json_problem(line: &[u8], error: &serde_json::Error) -> String {
    if is_array(line) {
        return NO_ARRAY.to_owned();
    }
    error.to_string().replace(" at line 1 column ", " at column ")
}

/// Text from a file, fit for a message: short, printable.
fn shown(text: &[u8]) -> String {
    const CHARS_MAX: usize = 60;
    let text = String::from_utf8_lossy(&text[..text.len().min(4 * CHARS_MAX)]);
    let cut: String = text.chars().take(CHARS_MAX).flat_map(char::escape_default).collect();
    if text.chars().count() > CHARS_MAX { format!("\"{cut}\"…") } else { format!("\"{cut}\"") }
}

#[cfg(test)]
mod tests;
