//! The formats of recorded traces, and how the beginning of a file tells them apart.

use std::collections::BTreeSet;
use std::io::BufRead;

use super::azure::AzureColumns;
use super::burstgpt::{BurstGpt, BurstGptColumns, Columns as _, CsvRows, Fields};
use super::lines::BYTE_ORDER_MARK;
use super::qwen::{self, Qwen};
use super::sessions::{self, Sessions};
use super::{Mooncake, NO_ARRAY, Rows, copilot, is_array, mooncake, shown};
use crate::error::Error;

/// Format of a recorded trace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TraceFormat {
    /// Mooncake's JSONL, a request a line, with the blocks of its prompt.
    Mooncake,
    /// Qwen-Bailian's JSONL, a request a line, with the blocks of its prompt.
    Qwen,
    /// Sessions of kv-cache-tester, a JSON object each, whose times count from their own beginning.
    Sessions,
    /// BurstGPT's CSV, a request a row.
    BurstGpt,
    /// Azure's CSV of LLM inference, a request a row.
    Azure,
    /// Sessions of GitHub Copilot's coding agent, a JSON object a line, with the number of tokens
    /// that a cache found of each prompt.
    Copilot,
}

impl TraceFormat {
    /// All formats, in the order of the documentation.
    pub const ALL: [TraceFormat; 6] = [
        TraceFormat::Mooncake,
        TraceFormat::Qwen,
        TraceFormat::Sessions,
        TraceFormat::BurstGpt,
        TraceFormat::Azure,
        TraceFormat::Copilot,
    ];

    /// Recognises a file by the keys of the first JSON object or the columns of the first line at
    /// its beginning, which may end anywhere.
    ///
    /// # Errors
    /// The first row has not the keys or columns of any of the formats, or is a JSON array.
    pub fn recognise(begin: &[u8]) -> Result<TraceFormat, Error> {
        const FORMATS: &str = "traces of Mooncake, of Qwen-Bailian, of kv-cache-tester (cc-traces, \
                               AgentX), of BurstGPT, of Azure and of Copilot can be read";
        let begin = begin.strip_prefix(BYTE_ORDER_MARK).unwrap_or(begin).trim_ascii_start();
        if is_array(begin) {
            return Err(Error::new(NO_ARRAY));
        }
        let row = begin.split(|&byte| byte == b'\n').next().unwrap_or_default();
        if row.is_empty() {
            return Err(Error::new(format!("it is empty; give a trace: {FORMATS}")));
        }
        TraceFormat::of_keys(&Keys::of(begin)).or_else(|| TraceFormat::of_header(row)).ok_or_else(
            || {
                Error::new(format!(
                    "its first row has the keys or columns of no known format: {FORMATS}; the row \
                     is {}: remove it if a trace follows, or name the format to `ringfall trace` \
                     (--format)",
                    shown(row)
                ))
            },
        )
    }

    fn of_keys(keys: &Keys<'_>) -> Option<TraceFormat> {
        let own = |key: &str| keys.own.contains(key.as_bytes());
        let any = |key: &str| keys.all.contains(key.as_bytes());
        match own("hash_ids") {
            _ if own("requests") && any("hash_ids") => Some(TraceFormat::Sessions),
            true if own("chat_id") => Some(TraceFormat::Qwen),
            true if own("timestamp") => Some(TraceFormat::Mooncake),
            false if own("session_id") && any("llm_calls") => Some(TraceFormat::Copilot),
            _ => None,
        }
    }

    fn of_header(line: &[u8]) -> Option<TraceFormat> {
        let mut fields = Fields::default();
        fields.split(line).ok()?;
        let burst = BurstGptColumns::find(&fields).map(|_| TraceFormat::BurstGpt);
        burst.or_else(|| AzureColumns::find(&fields).map(|_| TraceFormat::Azure))
    }

    /// Word for the format, as flags and results have it.
    pub fn name(self) -> &'static str {
        match self {
            TraceFormat::Mooncake => "mooncake",
            TraceFormat::Qwen => "qwen",
            TraceFormat::Sessions => "sessions",
            TraceFormat::BurstGpt => "burstgpt",
            TraceFormat::Azure => "azure",
            TraceFormat::Copilot => "copilot",
        }
    }

    /// Number of tokens that a block stands for; none where the format does not name the blocks of
    /// prompts.
    pub fn block_tokens(self) -> Option<u32> {
        match self {
            TraceFormat::Mooncake => Some(mooncake::BLOCK_TOKENS),
            TraceFormat::Qwen => Some(qwen::BLOCK_TOKENS),
            TraceFormat::Sessions => Some(sessions::BLOCK_TOKENS),
            TraceFormat::BurstGpt | TraceFormat::Azure | TraceFormat::Copilot => None,
        }
    }

    /// Whether the requests of a session follow each other in the file, and sessions that took
    /// place at the same time come one after the other.
    pub fn is_by_session(self) -> bool {
        matches!(self, TraceFormat::Sessions | TraceFormat::Copilot)
    }

    /// The rows of a file of this format. Of CSV the header is read, of others nothing yet.
    ///
    /// # Errors
    /// The header is not that of the format.
    pub fn rows(self, reader: impl BufRead + Send + 'static) -> Result<Box<dyn Rows>, Error> {
        let rows: Box<dyn Rows> = match self {
            TraceFormat::Mooncake => Box::new(Mooncake::new(reader)),
            TraceFormat::Qwen => Box::new(Qwen::new(reader)),
            TraceFormat::Sessions => Box::new(Sessions::new(reader, sessions::rows)),
            TraceFormat::BurstGpt => Box::new(BurstGpt::new(reader)?),
            TraceFormat::Azure => Box::new(CsvRows::<_, AzureColumns>::new(reader)?),
            TraceFormat::Copilot => Box::new(Sessions::new(reader, copilot::rows)),
        };
        Ok(rows)
    }
}

/// Keys of the JSON object that a text begins with, as far as the text has it; none where it begins
/// with something else.
#[derive(Default)]
struct Keys<'a> {
    own: BTreeSet<&'a [u8]>,
    /// These, and those of the objects within.
    all: BTreeSet<&'a [u8]>,
}

impl<'a> Keys<'a> {
    fn of(text: &'a [u8]) -> Keys<'a> {
        let mut keys = Keys::default();
        let (mut depth, mut at) = (0_usize, 0);
        while let Some(&byte) = text.get(at) {
            at += 1;
            match byte {
                b'{' | b'[' => depth += 1,
                b'}' | b']' => depth = depth.saturating_sub(1),
                b'"' => {
                    let string = string_of(&text[at..]);
                    at += string.len() + 1;
                    let behind = text.get(at..).unwrap_or_default().trim_ascii_start();
                    if behind.starts_with(b":") {
                        keys.all.insert(string);
                        if depth == 1 {
                            keys.own.insert(string);
                        }
                    }
                }
                _ => {}
            }
            if depth == 0 {
                break;
            }
        }
        keys
    }
}

/// Part of a text that belongs to the JSON string whose opening quote is before it.
fn string_of(text: &[u8]) -> &[u8] {
    let mut is_escaped = false;
    let end = text.iter().position(|&byte| {
        let is_end = byte == b'"' && !is_escaped;
        is_escaped = byte == b'\\' && !is_escaped;
        is_end
    });
    &text[..end.unwrap_or(text.len())]
}
