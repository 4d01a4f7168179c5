//! `ringfall man`: man pages of the program and its commands, made from their help.

use std::io;

use anyhow::{Context as _, Result};
use clap::{Command, CommandFactory as _};
use clap_mangen::Man;
use ringfall_core::held::HeldDirectory;
use ringfall_host::counted;
use ringfall_host::escape::terminal_path;
use ringfall_host::exit::Exit;
use ringfall_host::files::replace_in;
use ringfall_host::outlet::Stream;

use super::{print, write_out};
use crate::cli::{Cli, ManArgs};

/// Prints the program's page, or writes those of all commands to a directory.
pub fn run(args: &ManArgs) -> Result<Exit> {
    // Each command has a page; `help` would only repeat them.
    let mut program = Cli::command().disable_help_subcommand(true);
    program.build();
    let Some(path) = &args.directory else {
        let mut text = Vec::new();
        page(program).render(&mut text)?;
        return write_out(Stream::Out, &String::from_utf8(text)?);
    };
    let written = HeldDirectory::make(path).and_then(|directory| write_pages(program, &directory));
    let number =
        written.with_context(|| format!("man pages can't be written to {}", path.display()))?;
    print(&format!("  man        {} in {}\n", counted(number, "page"), terminal_path(path)))
}

fn page(command: Command) -> Man {
    Man::new(command).source(concat!("ringfall ", env!("CARGO_PKG_VERSION")))
}

/// Writes the pages of a command and of those below it; returns their number.
fn write_pages(command: Command, directory: &HeldDirectory) -> io::Result<u64> {
    let mut number = 1;
    for one in command.get_subcommands().filter(|one| !one.is_hide_set()) {
        number += write_pages(one.clone(), directory)?;
    }
    let page = page(command);
    replace_in(directory, page.get_filename(), &|out| page.render(out))?;
    Ok(number)
}
