//! `ringfall completions`: the script by which a shell completes command lines of this program.

use anyhow::Result;
use clap::CommandFactory as _;
use ringfall_host::exit::Exit;
use ringfall_host::outlet::Stream;

use super::write_out;
use crate::cli::{Cli, CompletionsArgs};

/// Prints the script of one shell.
pub fn run(args: &CompletionsArgs) -> Result<Exit> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "ringfall", &mut script);
    write_out(Stream::Out, &String::from_utf8(script)?)
}
