//! Log lines on standard error: coloured only for a terminal, and nothing in them is obeyed.

use std::fmt;

use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

use ringfall_config::LogLevel;
use ringfall_host::escape::terminal;
use ringfall_host::is_stream_watched;
use ringfall_host::outlet::{Notices, Stream};
use ringfall_report::show::Style;

/// Logs to standard error from this level on.
pub(crate) fn log_to_stderr(level: LogLevel) {
    let level = match level {
        LogLevel::Error => Level::ERROR,
        LogLevel::Warn => Level::WARN,
        LogLevel::Info => Level::INFO,
        LogLevel::Debug => Level::DEBUG,
        LogLevel::Trace => Level::TRACE,
    };
    let style = Style::for_output(is_stream_watched(Stream::Err));
    let lines = tracing_subscriber::fmt()
        .with_max_level(level)
        .with_writer(|| Notices(Stream::Err))
        // Of a line that can't be written it would tell standard error, and panic when it can't.
        .log_internal_errors(false)
        .event_format(LogLine { style });
    // Only a second call in one process (a test's) fails, and the first then stays in place.
    let _first = lines.try_init();
}

/// `TIME LEVEL place: message`.
struct LogLine {
    style: Style,
}

impl<S, N> FormatEvent<S, N> for LogLine
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        // Into a text without colour, so that all of it can be escaped.
        let mut message = String::new();
        context.format_fields(Writer::new(&mut message), event)?;
        SystemTime.format_time(&mut writer)?;
        let level = *event.metadata().level();
        let level = match level {
            Level::ERROR | Level::WARN => self.style.warn(level.as_str()),
            _ => level.to_string(),
        };
        let target = event.metadata().target();
        writeln!(writer, " {level} {}: {}", terminal(target), terminal(&message))
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::{Arc, Mutex};

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

    fn logged(colour: bool) -> String {
        let kept = Kept::default();
        let writer = kept.clone();
        let lines = tracing_subscriber::fmt()
            .with_writer(move || writer.clone())
            .event_format(LogLine { style: Style { colour } })
            .finish();
        tracing::subscriber::with_default(lines, || {
            tracing::warn!(name = "\u{1b}[31m", "a\nb \u{9b}2J {}", "\u{202e}x");
        });
        let bytes = kept.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn a_line_stays_one_and_has_no_colour_but_its_level() {
        let plain = logged(false);
        assert!(plain.ends_with('\n') && plain.lines().count() == 1, "{plain:?}");
        assert!(plain.contains(" WARN ringfall::log_lines"), "{plain:?}");
        assert!(plain.contains("a\\u{a}b \\u{9b}2J \\u{202e}x"), "{plain:?}");
        assert!(!plain.trim_end().chars().any(char::is_control), "{plain:?}");
        let coloured = logged(true);
        assert!(coloured.contains("\u{1b}[33mWARN\u{1b}[0m"), "{coloured:?}");
        assert_eq!(coloured.matches('\u{1b}').count(), 2, "{coloured:?}");
    }
}
