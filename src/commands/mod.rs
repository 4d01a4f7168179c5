//! One file a subcommand.

pub mod run;
