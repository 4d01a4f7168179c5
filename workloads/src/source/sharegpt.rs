//! ShareGPT's JSON: an array of conversations. Only one of them is in memory at a time, and of all
//! of them only their lengths are kept.

use std::cell::Cell;
use std::io::Read;
use std::rc::Rc;

use serde::Deserialize;
use serde::de::{Deserializer, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::Skipped;
use super::bounded::Bounded;
use super::tokenizer::CountTokens;
use crate::dataset::{Dataset, TurnTokens};
use crate::error::Error;

/// Limits on what is read from the file.
#[derive(Clone, Copy, Debug)]
pub struct ShareGptLimits {
    /// Largest number of conversations to take; 0 takes all of them.
    pub conversations_max: u32,
    /// Function that counts the tokens of a text.
    pub count_tokens: CountTokens,
    /// Longest context, tokens: longer ones are cut.
    pub context_tokens_max: u32,
    /// Longest answer, tokens; longer ones are cut.
    pub generate_tokens_max: u32,
    /// Largest memory that remembering all turns may take, bytes.
    pub memory_bytes_max: u64,
}

/// Largest text of one conversation: far above any published one.
const CONVERSATION_BYTES_MAX: u64 = 64 << 20;
/// Bytes of a file's beginning that an error shows.
const BEGIN_BYTES: u64 = 60;
/// Conversations without a turn that may follow each other: a few seconds of reading.
const UNUSABLE_MAX: u64 = 10_000_000;
/// Memory of a turn: its lengths and, at worst, its conversation's end, in lists that may have
/// grown to twice their length.
const TURN_BYTES: u64 = 2 * (size_of::<TurnTokens>() + size_of::<u32>()) as u64;

#[derive(Deserialize)]
struct Conversation {
    conversations: Vec<Message>,
}

#[derive(Deserialize)]
struct Message {
    from: String,
    value: String,
}

/// Reads conversations until there are enough.
///
/// # Errors
/// The text is not a JSON array (line and column), or has no conversation with an answer.
pub fn read_sharegpt(
    mut reader: impl Read,
    limits: &ShareGptLimits,
) -> Result<(Dataset, Skipped), Error> {
    let mut begin = Vec::new();
    let read = reader.by_ref().take(BEGIN_BYTES).read_to_end(&mut begin);
    read.map_err(|error| Error::new(format!("the ShareGPT dataset can't be read: {error}")))?;
    let reader = begin.as_slice().chain(reader);
    let since_last = Rc::new(Cell::new(0));
    let bounded = Bounded {
        reader,
        since_last: Rc::clone(&since_last),
        bytes_max: CONVERSATION_BYTES_MAX,
        what: "a conversation",
    };
    let mut collect =
        Collect { limits, dataset: Dataset::default(), skipped: Skipped::default(), since_last };
    let mut json = serde_json::Deserializer::from_reader(std::io::BufReader::new(bounded));
    let read = json.deserialize_seq(&mut collect);
    let enough = limits.conversations_max;
    // With enough conversations the rest of the file was not read, which the parser minds.
    if let Err(error) = read
        && (enough == 0 || collect.dataset.len() < enough)
    {
        // An error of the first line may be one of the whole file, and then its place says little.
        let begins = match error.line() {
            0 | 1 => format!("; the file begins with {}", shown(&begin)),
            _ => String::new(),
        };
        return Err(Error::new(format!("not a ShareGPT dataset: {error}{begins}")));
    }
    if collect.dataset.is_empty() {
        return Err(collect.skipped.nothing_left(
            "a ShareGPT dataset is an array of {\"conversations\": [{\"from\": \"human\", \
             \"value\": …}, {\"from\": \"gpt\", \"value\": …}, …]}",
        ));
    }
    Ok((collect.dataset, collect.skipped))
}

/// The beginning of a file as it can be printed, without its line breaks.
fn shown(begin: &[u8]) -> String {
    let text = String::from_utf8_lossy(begin);
    let words: Vec<&str> = text.split_whitespace().collect();
    format!("{:?}", words.join(" "))
}

struct Collect<'a> {
    limits: &'a ShareGptLimits,
    dataset: Dataset,
    skipped: Skipped,
    since_last: Rc<Cell<u64>>,
}

impl<'de> Visitor<'de> for &mut Collect<'_> {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an array of conversations")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<(), A::Error> {
        use serde::de::Error as _;
        let (mut number, mut last_used) = (0u64, 0);
        while let Some(raw) = elements.next_element::<Box<RawValue>>()? {
            number += 1;
            self.since_last.set(0);
            match self.turns(raw.get()) {
                Ok(turns) => {
                    last_used = number;
                    let _kept = self.dataset.push(&turns);
                    let turns_max = self.limits.memory_bytes_max / TURN_BYTES;
                    if self.dataset.turns_in_all() > turns_max {
                        return Err(A::Error::custom(format_args!(
                            "its first {number} conversations have more than {turns_max} turns, \
                             which is what {} MiB of memory can remember; take fewer of them \
                             (--max-conversations)",
                            self.limits.memory_bytes_max >> 20
                        )));
                    }
                }
                Err(_) if number - last_used > UNUSABLE_MAX => {
                    return Err(A::Error::custom(format_args!(
                        "{UNUSABLE_MAX} conversations in a row have no turn that can be used"
                    )));
                }
                Err(why) => {
                    self.skipped.rows += 1;
                    let first = || format!("conversation {number}: {why}");
                    self.skipped.first.get_or_insert_with(first);
                }
            }
            if self.limits.conversations_max > 0
                && self.dataset.len() == self.limits.conversations_max
            {
                break;
            }
        }
        Ok(())
    }
}

impl Collect<'_> {
    /// The turns of a conversation: a human's message that is answered at once.
    fn turns(&self, raw: &str) -> Result<Vec<TurnTokens>, String> {
        let conversation: Conversation =
            serde_json::from_str(raw).map_err(|error| format!("{error} of the conversation"))?;
        let is_human = |message: &Message| matches!(message.from.as_str(), "human" | "user");
        let is_answer =
            |message: &Message| matches!(message.from.as_str(), "gpt" | "assistant" | "chatgpt");
        let messages = &conversation.conversations;
        let pairs = messages.windows(2).filter(|pair| is_human(&pair[0]) && is_answer(&pair[1]));
        let count = |text: &str, max: u32| {
            let tokens = u32::try_from((self.limits.count_tokens)(text)).unwrap_or(u32::MAX);
            tokens.clamp(1, max)
        };
        let turns: Vec<TurnTokens> = pairs
            .map(|pair| TurnTokens {
                context_tokens: count(&pair[0].value, self.limits.context_tokens_max),
                generate_tokens: count(&pair[1].value, self.limits.generate_tokens_max),
            })
            .collect();
        match turns.is_empty() {
            true => Err("it has no human's message with a gpt's answer".to_owned()),
            false => Ok(turns),
        }
    }
}
