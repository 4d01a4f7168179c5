//! Analysis of several results: collections of runs, comparing. Reads files
//! and computes. Not here: measuring anything, or writing to the terminal.

pub mod best;
pub mod collection;
pub mod compare;
pub mod differences;
pub mod over_pairs;
pub mod pairs;
#[cfg(feature = "xlsx")]
mod spreadsheet;
