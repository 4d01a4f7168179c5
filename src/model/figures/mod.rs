//! Types of the document's figures: values that may be unknown, and lists, each in a type that
//! determines how it merges.
//!
//! Not here: any figure. They belong to the document and its reports.

#[cfg(any(test, feature = "testing"))]
pub(crate) mod described;
pub mod figure;
pub(crate) mod given;
pub mod list;
pub mod merge;
#[cfg(test)]
mod tests;
