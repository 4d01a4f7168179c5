//! Progress display while chunks move, always on standard error: one line that is rewritten on a
//! terminal, a line every 10 s elsewhere.

use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use ringfall_core::clock::Nanos;
use ringfall_core::units::{GIB, MIB};
use ringfall_host::ProgressLine;
use ringfall_host::interrupt::Interrupt;
use ringfall_host::outlet::Stream;
use ringfall_running::checkpoint::{Doing, Meter, Progress};

use crate::progress::time_left;

/// Interval at which it is seen whether a line is due.
const LOOK: Duration = Duration::from_millis(500);
/// Period between lines where there is no terminal.
const PLAIN_PERIOD: Nanos = Nanos::from_secs(10);

/// Shows how far the work is until it has ended.
pub(super) fn show_progress(meter: &Meter, interrupt: &Interrupt, ended: &Receiver<()>) {
    let mut shown = ProgressLine::new(Stream::Err, false, Some(PLAIN_PERIOD));
    while ended.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
        shown.show_if_due(|| line(&meter.progress(), interrupt.is_set()));
    }
    shown.clear();
}

fn line(progress: &Progress, is_ending: bool) -> String {
    if is_ending {
        return "ending what is in flight… (a second signal does not wait for it)".to_owned();
    }
    let doing = match progress.doing {
        Doing::Preparing => return "preparing".to_owned(),
        Doing::Computing => return format!("computing before save {}", progress.step),
        Doing::Looking => "comparing what is there",
        Doing::Saving => "saving",
        Doing::Restoring => "restoring",
    };
    let (moved, total) = (progress.moved_bytes, progress.total_bytes);
    let seconds = progress.elapsed.as_secs_f64();
    let rate = if seconds > 0.0 { moved as f64 / seconds } else { 0.0 };
    let left = time_left(seconds, moved, total);
    let ((size, size_bytes, digits), (per, per_bytes, per_digits)) =
        (unit(total as f64), unit(rate));
    format!(
        "{doing}: {:.digits$} of {:.digits$} {size}, {:.per_digits$} {per}/s{left}",
        moved as f64 / size_bytes,
        total as f64 / size_bytes,
        rate / per_bytes
    )
}

/// Unit in which that many bytes are shown, its bytes, and the digits after the point.
fn unit(bytes: f64) -> (&'static str, f64, usize) {
    match bytes < GIB as f64 {
        true => ("MiB", MIB as f64, 1),
        false => ("GiB", GIB as f64, 2),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_how_far_and_how_long() {
        let progress = Progress {
            doing: Doing::Saving,
            step: 1,
            total_bytes: 8 << 30,
            moved_bytes: 2 << 30,
            elapsed: Nanos::from_secs(2),
        };
        let expected = "saving: 2.00 of 8.00 GiB, 1.00 GiB/s, about 6 s left";
        assert_eq!(line(&progress, false), expected);
        let began = Progress { moved_bytes: 0, elapsed: Nanos::ZERO, ..progress };
        assert_eq!(line(&began, false), "saving: 0.00 of 8.00 GiB, 0.0 MiB/s");
        let slow = Progress {
            total_bytes: 20 << 20,
            moved_bytes: 5 << 20,
            elapsed: Nanos::from_secs(10),
            ..progress
        };
        let expected = "saving: 5.0 of 20.0 MiB, 0.5 MiB/s, about 30 s left";
        assert_eq!(line(&slow, false), expected);
        assert!(line(&progress, true).chars().count() < 80);
    }
}
