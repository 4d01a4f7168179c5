//! The formats of traces that name the blocks of each prompt, and how the beginning of a file tells
//! them apart.

use std::io::BufRead;

use super::lines::BYTE_ORDER_MARK;
use super::qwen::Qwen;
use super::sessions::Sessions;
use super::{Mooncake, NO_ARRAY, Rows, is_array, mooncake, qwen, sessions, shown};
use crate::error::Error;

/// Format of a trace that names the blocks of each prompt, so that common prefixes are known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BlockFormat {
    /// Mooncake's JSONL, a request a line.
    Mooncake,
    /// Qwen-Bailian's JSONL, a request a line.
    Qwen,
    /// Sessions of kv-cache-tester, a JSON object each, whose times count from their own beginning.
    Sessions,
}

impl BlockFormat {
    /// All formats, in the order of the documentation.
    pub const ALL: [BlockFormat; 3] =
        [BlockFormat::Mooncake, BlockFormat::Qwen, BlockFormat::Sessions];

    /// Recognises a file by the keys at its beginning, which may end anywhere.
    ///
    /// # Errors
    /// The first row has not the keys of any of the formats, or is a JSON array.
    pub fn recognise(begin: &[u8]) -> Result<BlockFormat, Error> {
        const FORMATS: &str = "traces of Mooncake, of Qwen-Bailian and of kv-cache-tester \
                               (cc-traces, AgentX) name them";
        let begin = begin.strip_prefix(BYTE_ORDER_MARK).unwrap_or(begin).trim_ascii_start();
        if is_array(begin) {
            return Err(Error::new(NO_ARRAY));
        }
        let row = begin.split(|&byte| byte == b'\n').next().unwrap_or_default();
        let has = |key: &str| begin.windows(key.len()).any(|part| part == key.as_bytes());
        match has("\"hash_ids\"") {
            true if has("\"requests\"") => Ok(BlockFormat::Sessions),
            true if has("\"chat_id\"") => Ok(BlockFormat::Qwen),
            true if has("\"timestamp\"") => Ok(BlockFormat::Mooncake),
            _ if row.is_empty() => Err(Error::new(format!(
                "it is empty; give a trace that names the blocks of each prompt: {FORMATS}"
            ))),
            _ => Err(Error::new(format!(
                "its first row does not name the blocks of a prompt, without which nobody can tell \
                 what a cache would find: {FORMATS}, those of BurstGPT, Azure and Copilot do not; \
                 the row is {}",
                shown(row)
            ))),
        }
    }

    /// Word for the format, as flags and results have it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            BlockFormat::Mooncake => "mooncake",
            BlockFormat::Qwen => "qwen",
            BlockFormat::Sessions => "sessions",
        }
    }

    /// Number of tokens that a block stands for.
    #[must_use]
    pub fn block_tokens(self) -> u32 {
        match self {
            BlockFormat::Mooncake => mooncake::BLOCK_TOKENS,
            BlockFormat::Qwen => qwen::BLOCK_TOKENS,
            BlockFormat::Sessions => sessions::BLOCK_TOKENS,
        }
    }

    /// The rows of a file of this format; nothing is read yet.
    pub fn rows(self, reader: impl BufRead + Send + 'static) -> Box<dyn Rows> {
        match self {
            BlockFormat::Mooncake => Box::new(Mooncake::new(reader)),
            BlockFormat::Qwen => Box::new(Qwen::new(reader)),
            BlockFormat::Sessions => Box::new(Sessions::new(reader)),
        }
    }
}
