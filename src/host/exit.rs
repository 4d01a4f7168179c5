//! The exit status: what a script learns without reading anything.

use std::process::ExitCode;

/// Exit status of the program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Exit {
    /// It did what was asked: 0.
    Done = 0,
    /// I/O errors, failed verification, an environment that can't run it: 1.
    Failed = 1,
    /// Bad usage or input, found before any work: 2.
    Usage = 2,
    /// Ctrl-C or SIGTERM; the results so far were written: 130, as a shell would say it.
    Interrupted = 130,
}

impl Exit {
    /// The exit status that the process ends with, as `src/running/run/README.md` lists them.
    pub const fn status(self) -> u8 {
        self as u8
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit.status())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_statuses_are_those_documented() {
        let all = [Exit::Done, Exit::Failed, Exit::Usage, Exit::Interrupted];
        assert_eq!(all.map(Exit::status), [0, 1, 2, 130]);
    }
}
