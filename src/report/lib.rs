//! Meaning of results, and the ways to show them: comparison, collections of runs, suites; the
//! terminal, pages, CSV and workbooks.
//!
//! Not here: measuring, or what a figure is (`ringfall_model`).

#![forbid(unsafe_code)]

pub mod analysis;
pub mod quick;
pub mod show;
pub mod suite;
