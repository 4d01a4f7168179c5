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

/// Characters a token in English text, as OpenAI's documentation has it.
const ESTIMATE_CHARS_A_TOKEN: usize = 4;

impl Tokenizer {
    /// Tokens of a text.
    #[must_use]
    pub fn count(self, text: &str) -> usize {
        match self {
            Tokenizer::Cl100k => bpe_openai::cl100k_base().count(text),
            Tokenizer::Estimate => text.chars().count().div_ceil(ESTIMATE_CHARS_A_TOKEN),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_those_of_the_published_vocabulary() {
        // Counts by OpenAI's own tokenizer (tiktoken, cl100k_base).
        for (text, tokens) in [
            ("hello world", 2),
            ("tiktoken is great!", 6),
            ("antidisestablishmentarianism", 6),
            ("2 + 2 = 4", 7),
            ("お誕生日おめでとう", 9),
            ("", 0),
        ] {
            assert_eq!(Tokenizer::Cl100k.count(text), tokens, "{text}");
        }
        assert_eq!(Tokenizer::Estimate.count("nine char"), 3);
    }
}
