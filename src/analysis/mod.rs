//! Analysis of several results: statistics, collections of runs, merging, comparing. Reads files
//! and computes. Not here: measuring anything, or writing to the terminal.

pub mod best;
pub mod collection;
pub mod compare;
pub mod differences;
pub mod iostat;
pub mod merge;
pub mod pairs;
pub mod spread;
mod spreadsheet;
pub mod stats;
