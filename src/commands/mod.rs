//! One file a subcommand.

pub mod report;
pub mod analyze;
pub mod run;

use std::io::Write;

use crate::exit::Exit;

/// Writes a page to standard output; a reader that has seen enough (`| head`) is no failure.
fn print(text: &str) -> anyhow::Result<Exit> {
    match std::io::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(anyhow::Error::from(error).context("standard output"))
        }
        _ => Ok(Exit::Done),
    }
}
