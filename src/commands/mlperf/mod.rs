//! `ringfall mlperf`: beside the MLPerf Storage harness, or in its place.

mod rank;
mod report;
mod sequence;
mod shim;
mod team;

use anyhow::Result;
use ringfall_host::exit::Exit;

use crate::cli::{MlperfArgs, MlperfCommand};

/// Runs the part of the harness that is asked for.
pub fn run(args: &MlperfArgs, command_line: Vec<String>) -> Result<Exit> {
    match &args.command {
        MlperfCommand::Shim(args) => shim::run(args),
        MlperfCommand::Run(args) => sequence::run(args, &command_line),
        MlperfCommand::Report(args) => report::run(args, &command_line),
        MlperfCommand::Rank(args) => rank::run(args, command_line),
    }
}
