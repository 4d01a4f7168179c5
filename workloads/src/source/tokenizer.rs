//! Number of tokens in a text.

use serde::{Deserialize, Serialize};

/// A way of counting tokens.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Tokenizer {
    /// Byte-pair encoding with the cl100k vocabulary (GPT-4), exactly.
    #[default]
    Cl100k,
    /// Four characters a token, rounded up.
    Estimate,
}

/// Counts the tokens of a text.
pub type CountTokens = fn(&str) -> usize;

/// Characters a token in English text, as OpenAI's documentation has it.
const ESTIMATE_CHARS_A_TOKEN: usize = 4;

/// Tokens of a text by [`Tokenizer::Estimate`].
pub fn estimate(text: &str) -> usize {
    text.chars().count().div_ceil(ESTIMATE_CHARS_A_TOKEN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_characters_are_estimated_as_a_token() {
        assert_eq!([estimate(""), estimate("nine char"), estimate("誕生日お")], [0, 3, 1]);
    }
}
