//! Arguments of the commands `completions` and `man`, by which packages complete the program.

use std::path::PathBuf;

use clap::Args;
use clap_complete::Shell;

/// Arguments of the command `completions`.
#[derive(Clone, Debug, Args)]
pub struct CompletionsArgs {
    /// Shell that is to complete command lines
    #[arg(value_name = "SHELL", value_enum)]
    pub shell: Shell,
}

/// Arguments of the command `man`.
#[derive(Clone, Debug, Args)]
pub struct ManArgs {
    /// Directory for the pages of ringfall and of all its commands, made where it is missing;
    /// without one, the page of ringfall itself is printed
    #[arg(value_name = "DIR")]
    pub directory: Option<PathBuf>,
}
