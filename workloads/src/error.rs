//! Errors in a workload's settings or sources.

/// A sentence that says what was wrong, with the value.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct Error(String);

impl Error {
    /// An error of this sentence.
    pub fn new(sentence: impl Into<String>) -> Self {
        Error(sentence.into())
    }
}
