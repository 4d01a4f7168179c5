//! The terminal: its size, and lines that say how far work is.

use std::io::Write;

use ringfall_core::clock::{Nanos, monotonic_now};
use rustix::termios::{Winsize, isatty, tcgetwinsize};

use crate::Launcher;
use crate::escape::terminal;
use crate::outlet::{CLEAR, Notices, Stream};

/// Columns that a single line takes at the most which is rewritten.
const LIVE_COLUMNS: usize = 79;
/// Columns that each of several lines takes at the most: more show nothing more.
const BLOCK_COLUMNS: usize = 159;
/// Size of the smallest terminal that shows several lines.
const BLOCK_FROM: Winsize = Winsize { ws_row: 12, ws_col: 60, ws_xpixel: 0, ws_ypixel: 0 };
/// Period between updates on a terminal.
const LIVE_PERIOD: Nanos = Nanos::from_ms(500);

/// Size of the terminal that this process writes to or reads from; none where it says nothing.
fn terminal_size() -> Option<Winsize> {
    let files = [Stream::Out.file(), Stream::Err.file(), rustix::stdio::stdin()];
    files.into_iter().flat_map(tcgetwinsize).find(|size| size.ws_col > 0)
}

/// Columns of the terminal that this process writes to or reads from; else what COLUMNS says; none
/// where neither says anything.
pub fn terminal_columns() -> Option<usize> {
    let set = || std::env::var("COLUMNS").ok()?.parse().ok();
    terminal_size().map(|size| usize::from(size.ws_col)).or_else(set)
}

/// Columns of each of several lines, on a terminal of that size that has room for them.
fn block_columns(size: Option<Winsize>) -> Option<usize> {
    let size =
        size.filter(|size| size.ws_row >= BLOCK_FROM.ws_row && size.ws_col >= BLOCK_FROM.ws_col)?;
    Some(usize::from(size.ws_col - 1).min(BLOCK_COLUMNS))
}

/// Whether the terminal has a name and moves its cursor: a dumb one does not.
fn moves_its_cursor() -> bool {
    std::env::var_os("TERM").is_some_and(|name| !name.is_empty() && name != "dumb")
}

/// Whether somebody watches that stream on a terminal, where lines may be coloured and rewritten. A
/// launcher gathers the output of many processes, at times through a terminal of its own.
pub fn is_stream_watched(stream: Stream) -> bool {
    isatty(stream.file()) && Launcher::look().is_none()
}

/// Lines about work that goes on, which they don't delay: on a terminal, progress is one line that
/// is rewritten, or several where they are wanted and there is room; elsewhere it is a line now and
/// then. Control characters in them are escaped.
pub struct ProgressLine {
    /// None when it is to be quiet.
    out: Option<Box<dyn Write + Send>>,
    is_live: bool,
    /// Whether several lines are wanted.
    is_block: bool,
    plain_period: Option<Nanos>,
    next: Option<Nanos>,
    is_shown: bool,
}

impl ProgressLine {
    /// Lines on that stream. `plain_period`: between those for no terminal, if there are any.
    pub fn new(stream: Stream, is_quiet: bool, plain_period: Option<Nanos>) -> ProgressLine {
        let mut line =
            ProgressLine::to(Box::new(Notices(stream)), is_stream_watched(stream), plain_period);
        line.out = line.out.filter(|_| !is_quiet);
        line
    }

    /// Lines for another writer, which may be a terminal.
    pub fn to(
        out: Box<dyn Write + Send>,
        is_live: bool,
        plain_period: Option<Nanos>,
    ) -> ProgressLine {
        let out = Some(out);
        ProgressLine { out, is_live, is_block: false, plain_period, next: None, is_shown: false }
    }

    /// The same, on several lines where `is_wanted` and the terminal moves its cursor.
    #[must_use]
    pub fn on_several_lines(self, is_wanted: bool) -> ProgressLine {
        ProgressLine { is_block: is_wanted && moves_its_cursor(), ..self }
    }

    /// Whether what is shown is rewritten: somebody watches it on a terminal.
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
        if !self.is_due(now) {
            return;
        }
        match self.is_live {
            true => self.rewrite(&text()),
            false => self.tell(&text()),
        }
    }

    /// Shows how far the work is, if it is time to: as a block of lines, made for a number of
    /// columns, where several lines are wanted and there is room for them; else as one line.
    pub fn show_block_if_due(
        &mut self,
        block: impl FnOnce(usize) -> Vec<String>,
        line: impl FnOnce() -> String,
    ) {
        // Asked each time, as a window may be resized.
        let size = (self.is_block && self.is_live).then(terminal_size);
        match size.and_then(block_columns) {
            Some(columns) if self.is_due(monotonic_now()) => {
                self.draw(&live_block(&block(columns), columns));
            }
            Some(_) => {}
            None => self.show_if_due(line),
        }
    }

    /// Whether it is time to show how far the work is; the next time is then a period later.
    fn is_due(&mut self, now: Nanos) -> bool {
        let period = if self.is_live { Some(LIVE_PERIOD) } else { self.plain_period };
        let Some(period) = period.filter(|_| self.out.is_some()) else { return false };
        let first = if self.is_live { now } else { now + period };
        let is_due = now >= *self.next.get_or_insert(first);
        if is_due {
            self.next = Some(now + period);
        }
        is_due
    }

    /// Shows that at once where there is a terminal.
    pub fn rewrite(&mut self, text: &str) {
        if self.is_live {
            self.draw(&live_line(text, terminal_columns()));
        }
    }

    fn draw(&mut self, live: &str) {
        self.is_shown = true;
        self.write(live);
    }

    /// Takes what is live away, and has the next come at once.
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

/// Line that takes the place of what is live, as far as it fits.
fn live_line(text: &str, columns: Option<usize>) -> String {
    let fits = columns.map_or(LIVE_COLUMNS, |columns| columns.saturating_sub(1).min(LIVE_COLUMNS));
    live_block(&[text.to_owned()], fits)
}

/// Lines that take the place of what is live, each as far as it fits: one that wraps could not be
/// written over. The cursor ends on the first of several, so that nothing needs to know how many
/// there are, or how a terminal that has become narrower has broken them, to erase them: they are
/// all that lies below.
fn live_block(lines: &[String], columns: usize) -> String {
    let lines: Vec<String> = lines.iter().map(|line| cut(terminal(line), columns)).collect();
    let up = match lines.len() {
        0 | 1 => String::new(),
        count => format!("\r\x1b[{}A", count - 1),
    };
    format!("\r{}\x1b[J{up}", lines.join("\x1b[K\n"))
}

/// As much of a text as that many columns show.
fn cut(mut text: String, columns: usize) -> String {
    let mut taken = 0;
    let end = text.char_indices().find(|(_, c)| {
        taken += columns_of(*c);
        taken > columns
    });
    if let Some((end, _)) = end {
        text.truncate(end);
    }
    text
}

/// Columns of a character: two where Unicode's table `EastAsianWidth` has it wide. A mark that
/// takes none counts as one, so that a text with marks is cut early and never wraps.
fn columns_of(c: char) -> usize {
    match c {
        '\u{1100}'..='\u{115f}'
        | '\u{2e80}'..='\u{a4cf}'
        | '\u{a960}'..='\u{a97f}'
        | '\u{ac00}'..='\u{d7a3}'
        | '\u{f900}'..='\u{faff}'
        | '\u{fe30}'..='\u{fe6f}'
        | '\u{ff00}'..='\u{ff60}'
        | '\u{ffe0}'..='\u{ffe6}'
        | '\u{1f300}'..='\u{1faff}'
        | '\u{20000}'..='\u{3fffd}' => 2,
        _ => 1,
    }
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
            assert!(line.trim_end_matches("\x1b[J").chars().count() <= 79, "{line:?}");
        }
        assert_eq!(lines.last(), Some(&"\x1b[J"));
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

    #[test]
    fn a_block_ends_on_its_first_line_and_erases_what_is_below() {
        let lines = ["12345", "1\u{1b}", "日本語", "▁█▁█▁"].map(str::to_owned);
        let drawn = "\r1234\x1b[K\n1\\u{\x1b[K\n日本\x1b[K\n▁█▁█\x1b[J\r\x1b[3A";
        assert_eq!(live_block(&lines, 4), drawn);
        // It fits, or half a wide character is left over.
        assert_eq!([5, 6].map(|columns| cut("日本語".to_owned(), columns)), ["日本", "日本語"]);
    }

    #[test]
    fn a_block_needs_12_rows_and_60_columns() {
        let columns = |ws_row, ws_col| {
            block_columns(Some(Winsize { ws_row, ws_col, ws_xpixel: 0, ws_ypixel: 0 }))
        };
        assert_eq!([columns(12, 60), columns(50, 80)], [Some(59), Some(79)]);
        assert_eq!(columns(50, 500), Some(159));
        for none in [columns(11, 80), columns(24, 59), columns(0, 0), block_columns(None)] {
            assert_eq!(none, None);
        }
    }
}
