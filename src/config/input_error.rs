//! The error of everything that was typed and can't be meant.

use ringfall_host::escape::terminal;

/// Error in the user's input: each sentence says what is wrong, the value, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InputError {
    /// Sentences for the user, at least one, each with the value and what to do.
    pub sentences: Vec<String>,
}

impl InputError {
    /// An error of one sentence.
    pub fn new(sentence: impl Into<String>) -> InputError {
        InputError { sentences: vec![sentence.into()] }
    }
}

impl std::fmt::Display for InputError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // They are shown to people, and name files and values.
        let sentences: Vec<String> =
            self.sentences.iter().map(|sentence| terminal(sentence)).collect();
        f.write_str(&sentences.join("\nerror: "))
    }
}

impl std::error::Error for InputError {}
