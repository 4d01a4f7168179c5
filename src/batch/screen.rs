//! Display of a batch: its expected duration, one line for the whole that is rewritten on a
//! terminal, and the rows of the caller's table.

use std::io::Write;
use std::time::{Duration, Instant};

use crate::escape::{terminal, terminal_page};
use crate::host::{is_watched, live_line};
use crate::outlet::{Stream, notices};

/// Interval at which the line changes on a terminal.
const LIVE_PERIOD: Duration = Duration::from_millis(500);
/// Interval between lines elsewhere.
const PLAIN_PERIOD: Duration = Duration::from_secs(60);
/// Names of running jobs on the line.
const NAMES_SHOWN: usize = 2;

/// Where a batch is.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Standing {
    /// Jobs in all.
    pub(super) jobs: usize,
    /// Number of jobs that are done, in this run or before.
    pub(super) done: usize,
    /// Those that failed in this run.
    pub(super) failed: usize,
    /// Those that run: name, and seconds so far.
    pub(super) running: Vec<(String, f64)>,
    /// Expected duration of the rest, seconds.
    pub(super) left_s: f64,
    /// Whether it has been told to end.
    pub(super) is_ending: bool,
}

/// The table goes to one writer, progress to the other.
pub struct Screen {
    table: Box<dyn Write>,
    progress: Box<dyn Write>,
    live: bool,
    quiet: bool,
    next: Option<Instant>,
    shown: bool,
}

impl Screen {
    /// The table on standard output, progress on standard error. `quiet`: neither.
    #[must_use]
    pub fn new(quiet: bool) -> Screen {
        let live = is_watched(&std::io::stderr());
        let (table, progress) = (notices(Stream::Out), notices(Stream::Err));
        Screen::to(Box::new(table), Box::new(progress), live, quiet)
    }

    pub(super) fn to(
        table: Box<dyn Write>,
        progress: Box<dyn Write>,
        live: bool,
        quiet: bool,
    ) -> Screen {
        Screen { table, progress, live, quiet, next: None, shown: false }
    }

    /// Writes lines of the table; what may be in them is obeyed by no terminal. A reader that has
    /// seen enough ends nothing.
    pub fn lines(&mut self, lines: &[String]) {
        self.clear();
        if !self.quiet {
            for line in lines {
                let _nobody_may_read_it =
                    self.table.write_all(terminal_page(&format!("{line}\n")).as_bytes());
            }
            let _nobody_may_read_it = self.table.flush();
        }
    }

    /// Says something that is no row of the table.
    pub(super) fn tell(&mut self, line: &str) {
        self.clear();
        if !self.quiet {
            let _nobody_may_read_it = writeln!(self.progress, "{}", terminal(line));
        }
    }

    /// Shows where the batch is, if it is time to.
    pub(super) fn show(&mut self, standing: impl FnOnce() -> Standing) {
        let now = Instant::now();
        let first = if self.live { now } else { now + PLAIN_PERIOD };
        if self.quiet || now < *self.next.get_or_insert(first) {
            return;
        }
        self.next = Some(now + if self.live { LIVE_PERIOD } else { PLAIN_PERIOD });
        let line = terminal(&line(&standing()));
        let _nobody_may_read_it = if self.live {
            self.shown = true;
            write!(self.progress, "{}", live_line(&line)).and_then(|()| self.progress.flush())
        } else {
            writeln!(self.progress, "{line}")
        };
    }

    /// Takes the live line away, and has the next one come at once.
    pub(super) fn clear(&mut self) {
        if std::mem::take(&mut self.shown) {
            let _nobody_may_read_it =
                write!(self.progress, "{}", live_line("")).and_then(|()| self.progress.flush());
            self.next = None;
        }
    }
}

pub(super) fn line(standing: &Standing) -> String {
    let Standing { jobs, done, failed, running, left_s, is_ending } = standing;
    let mut line = format!("{done} of {jobs} done");
    if *failed > 0 {
        line.push_str(&format!(", {failed} failed"));
    }
    if *is_ending {
        line.push_str(" | ending what runs…");
        return line;
    }
    line.push_str(&format!(" | {} left", duration_text(*left_s)));
    let names: Vec<String> = running
        .iter()
        .take(NAMES_SHOWN)
        .map(|(name, seconds)| format!("{name} {}", duration_text(*seconds)))
        .collect();
    if !names.is_empty() {
        let more = running.len() - names.len();
        let more = if more > 0 { format!(", and {more} more") } else { String::new() };
        line.push_str(&format!(" | {}{more}", names.join(", ")));
    }
    line
}

/// A time as people say it: `40 s`, `12 min`, `3 h 05 min`, `2 days 4 h`. Negative and endless ones
/// are 0 and unknown.
#[must_use]
pub fn duration_text(seconds: f64) -> String {
    // Ten thousand years: no larger number is a time.
    if !seconds.is_finite() || seconds > 3e11 {
        return "an unknown time".to_owned();
    }
    let s = seconds.max(0.0).round() as u64;
    match s {
        0..=119 => format!("{s} s"),
        120..=7_199 => format!("{} min", (s + 30) / 60),
        7_200..=172_799 => format!("{} h {:02} min", s / 3_600, s % 3_600 / 60),
        _ => format!("{} days {} h", s / 86_400, s % 86_400 / 3_600),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_said_in_the_unit_that_fits() {
        for (seconds, text) in [
            (-1.0, "0 s"),
            (40.4, "40 s"),
            (119.0, "119 s"),
            (720.0, "12 min"),
            (11_100.0, "3 h 05 min"),
            (187_200.0, "2 days 4 h"),
            (f64::INFINITY, "an unknown time"),
            (f64::NAN, "an unknown time"),
        ] {
            assert_eq!(duration_text(seconds), text);
        }
    }

    #[test]
    fn the_line_says_what_is_done_what_is_left_and_what_runs() {
        let running = ["a", "b", "c"].map(|name| (name.to_owned(), 3.0)).to_vec();
        let standing =
            Standing { jobs: 24, done: 3, failed: 1, running, left_s: 90.0, is_ending: false };
        let text = line(&standing);
        assert_eq!(text, "3 of 24 done, 1 failed | 90 s left | a 3 s, b 3 s, and 1 more");
        let ending = line(&Standing { is_ending: true, ..standing });
        assert_eq!(ending, "3 of 24 done, 1 failed | ending what runs…");
    }
}
