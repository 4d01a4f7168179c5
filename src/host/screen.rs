//! The terminal: how wide it is, and lines that say how far work is.

use std::io::Write;

use ringfall_core::clock::{Nanos, monotonic_now};
use rustix::termios::{isatty, tcgetwinsize};

use crate::Launcher;
use crate::escape::terminal;
use crate::outlet::{CLEAR, Notices, Stream};

/// Columns that a line takes at the most which is rewritten.
const LIVE_COLUMNS: usize = 79;
/// Period between updates of the line on a terminal.
const LIVE_PERIOD: Nanos = Nanos::from_ms(500);

/// Columns of the terminal that this process writes to or reads from; else what COLUMNS says; none
/// where neither says anything.
#[must_use]
pub fn terminal_columns() -> Option<usize> {
    let files = [Stream::Out.file(), Stream::Err.file(), rustix::stdio::stdin()];
    let told = files.into_iter().flat_map(tcgetwinsize).map(|size| usize::from(size.ws_col));
    let set = || std::env::var("COLUMNS").ok()?.parse().ok();
    told.into_iter().find(|&columns| columns > 0).or_else(set)
}

/// Whether somebody watches that stream on a terminal, where lines may be coloured and rewritten. A
/// launcher gathers the output of many processes, at times through a terminal of its own.
#[must_use]
pub fn is_stream_watched(stream: Stream) -> bool {
    isatty(stream.file()) && Launcher::look().is_none()
}

/// Lines about work that goes on, which they don't delay: on a terminal, progress is one line that
/// is rewritten, elsewhere a line now and then. Control characters in them are escaped.
pub struct ProgressLine {
    /// None when it is to be quiet.
    out: Option<Box<dyn Write + Send>>,
    is_live: bool,
    plain_period: Option<Nanos>,
    next: Option<Nanos>,
    is_shown: bool,
}

impl ProgressLine {
    /// Lines on that stream. `plain_period`: between those for no terminal, if there are any.
    #[must_use]
    pub fn new(stream: Stream, is_quiet: bool, plain_period: Option<Nanos>) -> ProgressLine {
        let mut line =
            ProgressLine::to(Box::new(Notices(stream)), is_stream_watched(stream), plain_period);
        line.out = line.out.filter(|_| !is_quiet);
        line
    }

    /// Lines for another writer, which may be a terminal.
    #[must_use]
    pub fn to(
        out: Box<dyn Write + Send>,
        is_live: bool,
        plain_period: Option<Nanos>,
    ) -> ProgressLine {
        ProgressLine { out: Some(out), is_live, plain_period, next: None, is_shown: false }
    }

    /// Whether a line is rewritten: somebody watches it on a terminal.
    #[must_use]
    pub fn is_live(&self) -> bool {
        self.is_live && self.out.is_some()
    }

    /// Writes a line that stays.
    pub fn tell(&mut self, text: &str) {
        self.clear();
        self.write(&format!("{}\n", terminal(text)));
    }

    /// Shows how far the work is, if it is time to.
    pub fn show_if_due(&mut self, text: impl FnOnce() -> String) {
        self.show_if_due_at(monotonic_now(), text);
    }

    fn show_if_due_at(&mut self, now: Nanos, text: impl FnOnce() -> String) {
        let period = if self.is_live { Some(LIVE_PERIOD) } else { self.plain_period };
        let Some(period) = period.filter(|_| self.out.is_some()) else { return };
        let first = if self.is_live { now } else { now + period };
        if now < *self.next.get_or_insert(first) {
            return;
        }
        self.next = Some(now + period);
        match self.is_live {
            true => self.rewrite(&text()),
            false => self.tell(&text()),
        }
    }

    /// Shows that at once where there is a terminal.
    pub fn rewrite(&mut self, text: &str) {
        if self.is_live {
            self.is_shown = true;
            self.write(&live_line(&terminal(text), terminal_columns()));
        }
    }

    /// Takes the live line away, and has the next one come at once.
    pub fn clear(&mut self) {
        if std::mem::take(&mut self.is_shown) {
            self.write(CLEAR);
            self.next = None;
        }
    }

    fn write(&mut self, text: &str) {
        if let Some(out) = &mut self.out {
            // A reader that has left ends nothing.
            let _nobody_may_read_it = out.write_all(text.as_bytes());
        }
    }
}

/// Text that takes the place of a line: back to the first column, the text as far as it fits, and
/// the rest cleared. One that wraps could not be written over.
fn live_line(text: &str, columns: Option<usize>) -> String {
    let fits = columns.map_or(LIVE_COLUMNS, |columns| columns.saturating_sub(1).min(LIVE_COLUMNS));
    let text: String = text.chars().take(fits).collect();
    format!("\r{text}\x1b[K")
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use ringfall_core::clock::SECOND;

    use super::*;

    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Vec<u8>>>);

    impl Write for Kept {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    fn shown(is_live: bool, seconds: &[u64]) -> String {
        let kept = Kept::default();
        let mut line = ProgressLine::to(Box::new(kept.clone()), is_live, Some(10 * SECOND));
        for second in seconds {
            line.show_if_due_at(*second * SECOND, || format!("{second} s{}", "x".repeat(200)));
        }
        line.clear();
        let bytes = kept.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn a_live_line_never_wraps_and_goes_away() {
        let text = shown(true, &[1, 2]);
        let lines: Vec<&str> = text.split('\r').collect();
        assert!(lines.len() == 4 && !text.contains('\n'), "{text:?}");
        for line in &lines {
            assert!(line.trim_end_matches("\x1b[K").chars().count() <= 79, "{line:?}");
        }
        assert_eq!(lines.last(), Some(&"\x1b[K"));
    }

    #[test]
    fn elsewhere_a_plain_line_comes_every_ten_seconds() {
        let text = shown(false, &[1, 2, 10, 11, 12, 20, 21]);
        let seconds: Vec<&str> = text.lines().map(|line| line.split(' ').next().unwrap()).collect();
        assert_eq!(seconds, ["11", "21"]);
        assert!(!text.contains(['\x1b', '\r']), "{text:?}");
    }

    #[test]
    fn a_line_on_a_narrow_terminal_does_not_wrap() {
        let text = "x".repeat(200);
        let shown = |columns| live_line(&text, columns).matches('x').count();
        assert_eq!([None, Some(200), Some(80), Some(20)].map(shown), [79, 79, 79, 19]);
        assert_eq!([Some(1), Some(0)].map(shown), [0, 0]);
        assert_eq!(live_line("", None), CLEAR);
    }
}
