//! The program: parse, run, exit status.

use std::process::ExitCode;

fn main() -> ExitCode {
    ringfall::main_with(std::env::args_os()).into()
}
