//! Display of a batch: its expected duration, one line for the whole that is rewritten on a
//! terminal, and the rows of the caller's table.

use std::io::Write;

use ringfall_core::clock::Nanos;

use ringfall_host::ProgressLine;
use ringfall_host::escape::{terminal, terminal_page};
use ringfall_host::interrupt::ENDS_WITHIN;
use ringfall_host::outlet::{Notices, Stream};

/// Interval between lines where there is no terminal.
const PLAIN_PERIOD: Nanos = Nanos::from_secs(60);
/// Names of running jobs on the line.
const NAMES_SHOWN: usize = 2;

/// The table goes to one writer, progress to another.
pub struct Screen {
    table: Box<dyn Write>,
    progress: ProgressLine,
    /// Takes what must not be missed, also where it is quiet.
    errors: Box<dyn Write>,
    quiet: bool,
}

impl Screen {
    /// The table on standard output, progress on standard error. `quiet`: neither, but for errors.
    pub fn new(quiet: bool) -> Screen {
        let progress = ProgressLine::new(Stream::Err, quiet, Some(PLAIN_PERIOD));
        let [table, errors] = [Stream::Out, Stream::Err].map(|stream| Box::new(Notices(stream)));
        Screen { table, progress, errors, quiet }
    }

    #[cfg(test)]
    pub(super) fn to(
        table: Box<dyn Write>,
        progress: Box<dyn Write + Send>,
        errors: Box<dyn Write>,
        is_live: bool,
    ) -> Screen {
        let progress = ProgressLine::to(progress, is_live, Some(PLAIN_PERIOD));
        Screen { table, progress, errors, quiet: false }
    }

    /// Writes lines of the table; what may be in them is obeyed by no terminal. A reader that has
    /// seen enough ends nothing.
    pub fn lines(&mut self, lines: &[String]) {
        self.progress.clear();
        if !self.quiet {
            let page: String = lines.iter().map(|line| format!("{line}\n")).collect();
            let _nobody_may_read_it = self.table.write_all(terminal_page(&page).as_bytes());
        }
    }

    /// Says something that is no row of the table.
    pub(super) fn tell(&mut self, line: &str) {
        self.progress.tell(line);
    }

    /// Says an error, or what else must not be missed, also where it is quiet.
    pub(super) fn insist(&mut self, line: &str) {
        self.progress.clear();
        let line = format!("{}\n", terminal(line));
        let _nobody_may_read_it = self.errors.write_all(line.as_bytes());
    }

    /// Answers a signal at once where no live line will.
    pub(super) fn answer(&mut self) {
        if !self.progress.is_live() {
            self.insist(&format!(
                "ending what runs, within {} s (a second signal ends it at once)",
                ENDS_WITHIN.as_secs()
            ));
        }
    }

    pub(super) fn show(&mut self, line: impl FnOnce() -> String) {
        self.progress.show_if_due(line);
    }

    /// Takes the live line away.
    pub(super) fn clear(&mut self) {
        self.progress.clear();
    }
}

/// Text about a batch: its jobs in all, those that are done and that failed, the names of those
/// that run with their seconds so far, and the expected seconds of the rest; none: it has been told
/// to end.
pub(super) fn line(
    jobs: usize,
    [done, failed]: [usize; 2],
    running: &[(&str, f64)],
    left_s: Option<f64>,
) -> String {
    let mut line = format!("{done} of {jobs} done");
    if failed > 0 {
        line.push_str(&format!(", {failed} failed"));
    }
    let Some(left_s) = left_s else { return line + " | ending what runs…" };
    line.push_str(&format!(" | {} left", duration_text(left_s)));
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
        let running = ["a", "b", "c"].map(|name| (name, 3.0));
        let text = line(24, [3, 1], &running, Some(90.0));
        assert_eq!(text, "3 of 24 done, 1 failed | 90 s left | a 3 s, b 3 s, and 1 more");
        let ending = line(24, [3, 1], &running, None);
        assert_eq!(ending, "3 of 24 done, 1 failed | ending what runs…");
    }
}
