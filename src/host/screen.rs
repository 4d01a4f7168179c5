//! The terminal: how wide it is, and a line on it that is written over again and again.

use rustix::termios::tcgetwinsize;

/// Columns that such a line takes at the most.
const LIVE_COLUMNS: usize = 79;

/// Columns of the terminal that this process writes to or reads from; else what COLUMNS says; none
/// where neither says anything.
#[must_use]
pub fn terminal_columns() -> Option<usize> {
    let asked = [
        tcgetwinsize(std::io::stdout()),
        tcgetwinsize(std::io::stderr()),
        tcgetwinsize(std::io::stdin()),
    ];
    let told = asked.into_iter().flatten().map(|size| usize::from(size.ws_col));
    let set = || std::env::var("COLUMNS").ok()?.parse().ok();
    told.into_iter().find(|&columns| columns > 0).or_else(set)
}

/// A line that takes the place of the one before: back to the first column, the text as far as it
/// fits, and the rest of the line cleared. One that wraps could not be written over.
#[must_use]
pub fn live_line(text: &str) -> String {
    clipped(text, terminal_columns())
}

fn clipped(text: &str, columns: Option<usize>) -> String {
    let fits = columns.map_or(LIVE_COLUMNS, |columns| columns.saturating_sub(1).min(LIVE_COLUMNS));
    let text: String = text.chars().take(fits).collect();
    format!("\r{text}\x1b[K")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_on_a_narrow_terminal_does_not_wrap() {
        let text = "x".repeat(200);
        let shown = |columns| clipped(&text, columns).matches('x').count();
        assert_eq!([None, Some(200), Some(80), Some(20)].map(shown), [79, 79, 79, 19]);
        assert_eq!([Some(1), Some(0)].map(shown), [0, 0]);
        assert_eq!(clipped("", None), "\r\x1b[K");
    }
}
