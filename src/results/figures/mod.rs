//! What the document's figures are made of: values that may be unknown, and lists, each in a type
//! that says what becomes of it when results are merged.
//!
//! What must not be here: any figure. They are the document's, and that of the reports in it.

pub(crate) mod described;
pub mod figure;
pub mod list;
pub mod merge;
#[cfg(test)]
mod tests;
