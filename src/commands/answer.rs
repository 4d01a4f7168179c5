//! The answer to the first signal, whatever the command's own thread waits for: a line at once, and
//! the end of the process within the bound that it tells, though the drive may not answer.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use ringfall_host::escape::terminal_path;
use ringfall_host::exit::Exit;
use ringfall_host::interrupt::{ENDS_WITHIN, Interrupt};
use ringfall_host::outlet;

use super::tell_error;

/// Interval of the checks for a signal.
const LOOK: Duration = Duration::from_millis(100);
/// Longest wait for a terminal or disk to take the last line.
const LAST_LINE_PATIENCE: Duration = Duration::from_millis(500);

/// See the module. Signals are answered until it is dropped.
pub(in crate::commands) struct Answer {
    _ends: Sender<()>,
    is_written: Arc<AtomicBool>,
}

impl Answer {
    /// Answers the first signal to that work.
    pub(in crate::commands) fn to(work: Work, interrupt: &Interrupt) -> Answer {
        let (ends, ended) = channel();
        let is_written = Arc::new(AtomicBool::new(false));
        let (interrupt, has_results) = (interrupt.clone(), Arc::clone(&is_written));
        let answer = move || answer(&interrupt, &ended, &work, &has_results);
        let thread = std::thread::Builder::new().name("ringfall-answer".to_owned());
        if let Err(error) = thread.spawn(answer) {
            tracing::warn!("no thread can be started that answers signals at once: {error}");
        }
        Answer { _ends: ends, is_written }
    }

    /// Notes that the partial results are in the results file.
    pub(in crate::commands) fn note_written(&self) {
        self.is_written.store(true, Ordering::SeqCst);
    }
}

/// Work that is done, as its interruption is spoken of.
pub(in crate::commands) struct Work {
    pub(in crate::commands) name: &'static str,
    /// Results that its early end has, a part of a sentence.
    pub(in crate::commands) keeps: &'static str,
    /// Places of its data; none: a fresh directory.
    pub(in crate::commands) places: Vec<PathBuf>,
    /// File of its results.
    pub(in crate::commands) output: Option<PathBuf>,
    /// Fate of the data that it leaves behind where it has to be ended, a part of a sentence.
    pub(in crate::commands) left: &'static str,
}

impl Work {
    /// Message about work that does not end, whose results are in their file or not.
    fn last_words(&self, is_written: bool) -> String {
        let Work { name, places, output, left, .. } = self;
        let places: Vec<String> = places.iter().map(|path| terminal_path(path)).collect();
        let data = match places.is_empty() {
            true => "what it made in the directory for temporary files".to_owned(),
            false => format!("its data in {}", places.join(", ")),
        };
        let results = match output.as_deref().map(terminal_path) {
            Some(output) if is_written => format!("what was measured is in {output}"),
            Some(output) => format!("no results were written to {output}"),
            None => "no results were written".to_owned(),
        };
        format!(
            "the {name} has not ended {} s after the signal, as the drive or file system has not \
             finished what was in flight, and is ended now: {results}; {data} is left behind, and \
             {left}. The kernel may keep the process until that is finished",
            ENDS_WITHIN.as_secs()
        )
    }
}

/// Waits for a signal, answers it, and ends the process if that does not end by itself.
fn answer(interrupt: &Interrupt, ended: &Receiver<()>, work: &Work, is_written: &AtomicBool) {
    while !interrupt.is_set() {
        if ended.recv_timeout(LOOK) != Err(RecvTimeoutError::Timeout) {
            return;
        }
    }
    let Work { name, keeps, .. } = work;
    ringfall_host::stderr::tell(format_args!(
        "interrupted: ending the {name} within {} s{keeps} (a second signal ends it at once)",
        ENDS_WITHIN.as_secs()
    ));
    if ended.recv_timeout(ENDS_WITHIN) != Err(RecvTimeoutError::Timeout) {
        return;
    }
    tell_error(work.last_words(is_written.load(Ordering::SeqCst)));
    // Neither a reader is waited for, nor anything that the program would do at exit.
    outlet::flush(LAST_LINE_PATIENCE);
    signal_hook::low_level::exit(i32::from(Exit::Interrupted.status()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_words_name_what_is_left_and_whether_there_are_results() {
        let work = Work {
            name: "run",
            keeps: "",
            places: vec!["/mnt/a".into(), "/mnt/b".into()],
            output: Some("o.json".into()),
            left: "the next run there deletes it",
        };
        let told = work.last_words(false);
        assert!(told.contains("no results were written to o.json; its data in"), "{told}");
        assert!(told.contains("its data in /mnt/a, /mnt/b is left behind"), "{told}");
        let told = work.last_words(true);
        assert!(told.contains("what was measured is in o.json;"), "{told}");
    }
}
