//! Time in which a rank's bytes were really counted: bounds from its slowest request and its log.

use std::path::{Path, PathBuf};

use super::log::{Log, time_of_name};

/// A log's times are whole seconds: a difference of n is less than n + 1.
const LOG_STEP_S: f64 = 1.0;

/// Sources of the beginning, as parts of a formula: the line of the only rank, the time in the
/// file's name, the earliest line of several ranks.
const LINE: &str = "the log's noise-buffer line";
const NAME: &str = "the time in the file's name + the wrapper's start delay";
const EARLIEST_LINE: &str = "the earliest noise-buffer line of all ranks";

/// Times of one rank in a trial's log.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct FromLog {
    pub(super) file: PathBuf,
    /// Source of the beginning, as a part of a formula.
    pub(super) begun: &'static str,
    /// From the beginning until the results were saved, s; at most.
    pub(super) at_most_s: f64,
}

impl FromLog {
    /// Extracts the times of the rank whose results are in `file`.
    pub(super) fn of(log: &Log, file: &Path, start_delay_s: f64) -> Option<FromLog> {
        let saved = log.saved_at(file)?;
        let by_name = time_of_name(file).map(|time| time as f64 + start_delay_s);
        let by_line = log.begun.map(|time| time as f64);
        // A line of the log says no rank: with several it may be of one whose clock is another.
        let (begun, from) = match (log.begun_count, by_line, by_name) {
            (1, Some(line), _) => (LINE, line),
            (_, _, Some(name)) => (NAME, name),
            (_, Some(line), None) => (EARLIEST_LINE, line),
            (_, None, None) => return None,
        };
        let at_most_s = saved as f64 - from + LOG_STEP_S;
        (at_most_s > 0.0).then(|| FromLog { file: log.file.clone(), begun, at_most_s })
    }
}

/// Bounds on the time in which a rank's bytes were counted, s.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Span {
    pub(super) at_least_s: f64,
    /// Known from a log; never below the other.
    pub(super) at_most_s: Option<f64>,
}

impl Span {
    /// The bounds: no request outlasts the span, and the log begins before it and ends after it. A
    /// log that contradicts the slowest request bounds nothing.
    pub(super) fn of(elapsed_s: f64, slowest_s: Option<f64>, log_s: Option<f64>) -> Span {
        let at_least_s = elapsed_s.max(slowest_s.unwrap_or(0.0));
        Span { at_least_s, at_most_s: log_s.filter(|log_s| *log_s >= at_least_s) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(begun: Option<i64>, count: u32, saved: i64) -> Log {
        let name = "rank_0/kvcache_results_19700101_000010.json".to_owned();
        let saved = [(name, saved)].into();
        Log { begun, begun_count: count, saved, ..Log::default() }
    }

    #[test]
    fn the_span_lies_between_the_slowest_request_and_the_log() {
        let span = Span::of(300.0, Some(375.9), Some(392.0));
        assert_eq!((span.at_least_s, span.at_most_s), (375.9, Some(392.0)));
        assert_eq!(Span::of(300.0, Some(12.0), None).at_least_s, 300.0);
        assert_eq!(Span::of(300.0, None, Some(299.0)).at_most_s, None);
    }

    #[test]
    fn the_beginning_is_the_rank_s_own() {
        let file = Path::new("/r/rank_0/kvcache_results_19700101_000010.json");
        let of = |log: Log| {
            let from = FromLog::of(&log, file, 90.0)?;
            Some((from.begun, from.at_most_s))
        };
        assert_eq!(of(log(Some(102), 1, 500)), Some((LINE, 399.0)));
        assert_eq!(of(log(Some(95), 4, 500)), Some((NAME, 401.0)));
        assert_eq!(of(log(None, 0, 500)), Some((NAME, 401.0)));
        // Saved before it began: the clocks are not one.
        assert_eq!(of(log(Some(600), 1, 500)), None);
        let loose = Path::new("/r/rank_0/a.json");
        assert_eq!(FromLog::of(&log(Some(95), 4, 500), loose, 90.0), None);
    }
}
