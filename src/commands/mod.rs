//! One file a subcommand.

pub mod report;
pub mod run;
