//! Ctrl-C, SIGTERM, and SIGHUP of a terminal that went away: the first ends the run early, the
//! second ends the process, and what it would leave behind is deleted or named.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

pub use ringfall_core::held::Leftover;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::exit::Exit;
use crate::{escape, outlet, stderr};

/// Work that is interrupted ends within this. Of a run: 10 s for what is in flight, 5 s each for
/// reports and for threads, 8 s for deleting its data, and what is left for writing the results.
pub const ENDS_WITHIN: Duration = Duration::from_secs(30);
/// Signals that come so soon after the first are taken for the same: a terminal tells every process
/// of a job, and a wrapper (`timeout`, `mpirun`) passes on what it was told. Far longer than that
/// takes, and shorter than somebody takes who has seen that the first was not enough.
const SAME_WITHIN: Duration = Duration::from_millis(250);
/// Longest wait of the second signal for files to be deleted, and again for messages to be written:
/// a device or a terminal may not answer.
const PATIENCE: Duration = Duration::from_millis(500);

/// Set by the first signal.
#[derive(Clone, Debug)]
pub struct Interrupt(Arc<AtomicBool>);

/// As long as they are held.
static LEFTOVERS: Mutex<Vec<Weak<dyn Leftover>>> = Mutex::new(Vec::new());
/// Sentences for the second signal's line, as long as they are held.
static SENTENCES: Mutex<Vec<Weak<str>>> = Mutex::new(Vec::new());
/// The handlers are installed once.
static INSTALLED: Mutex<Option<Interrupt>> = Mutex::new(None);

impl Interrupt {
    /// Installs the handlers, and starts the thread that counts the signals.
    ///
    /// # Errors
    /// When the kernel refuses a handler or the thread.
    pub fn install() -> std::io::Result<Interrupt> {
        let mut installed = lock(&INSTALLED);
        if let Some(interrupt) = &*installed {
            return Ok(interrupt.clone());
        }
        let flag = Arc::new(AtomicBool::new(false));
        // `nohup` means it.
        let hang_up = (!is_ignored(SIGHUP)).then_some(SIGHUP);
        let signals: Vec<i32> = [SIGINT, SIGTERM].into_iter().chain(hang_up).collect();
        for signal in &signals {
            signal_hook::flag::register(*signal, Arc::clone(&flag))?;
        }
        let mut told = Signals::new(&signals)?;
        let count = move || {
            let mut first = None;
            for _signal in told.forever() {
                if first.get_or_insert_with(Instant::now).elapsed() > SAME_WITHIN {
                    leave();
                }
            }
        };
        std::thread::Builder::new().name("ringfall-signal".to_owned()).spawn(count)?;
        Ok(installed.insert(Interrupt(flag)).clone())
    }

    /// Whether a signal came.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }

    /// Exit status of work that is over: `exit`, unless a signal came before its end, also one that
    /// came while its results were written or waited for a reader.
    #[must_use]
    pub fn exit_or(&self, exit: Exit) -> Exit {
        if self.is_set() { Exit::Interrupted } else { exit }
    }

    /// The flag itself, for whoever looks at one.
    pub fn flag(&self) -> &AtomicBool {
        &self.0
    }
}

/// Exit status of the process, whatever its command ended with: see [`Interrupt::exit_or`]. Of one
/// that has installed no handlers a signal is the end.
#[must_use]
pub fn exit_or(exit: Exit) -> Exit {
    lock(&INSTALLED).as_ref().map_or(exit, |interrupt| interrupt.exit_or(exit))
}

/// Whether a signal came since the handlers were installed. Every wait for a reader ends then.
pub(crate) fn has_come() -> bool {
    lock(&INSTALLED).as_ref().is_some_and(Interrupt::is_set)
}

/// Has the second signal delete these files, if they are still held then.
pub fn leave_nothing_of(files: Weak<dyn Leftover>) {
    let mut all = lock(&LEFTOVERS);
    all.retain(|other| other.strong_count() > 0);
    all.push(files);
}

/// Has the second signal's line go on with this sentence, if it is still held then: about a process
/// that ends with this one.
pub fn add_to_second(sentence: &Arc<str>) {
    let mut all = lock(&SENTENCES);
    all.retain(|other| other.strong_count() > 0);
    all.push(Arc::downgrade(sentence));
}

/// Ends the process at once. A device that does not answer is not waited for, and neither is a
/// reader.
fn leave() -> ! {
    let held: Vec<Arc<dyn Leftover>> = lock(&LEFTOVERS).iter().filter_map(Weak::upgrade).collect();
    let all: Vec<PathBuf> = held.iter().flat_map(|files| files.paths()).collect();
    let left = beside(move || {
        held.iter().for_each(|files| files.remove());
        held.iter().flat_map(|files| files.left()).collect()
    });
    let left = left.recv_timeout(PATIENCE).unwrap_or(all);
    let sentences: Vec<Arc<str>> = lock(&SENTENCES).iter().filter_map(Weak::upgrade).collect();
    stderr::tell(format_args!("{}", told(&left, &sentences)));
    outlet::flush(PATIENCE);
    signal_hook::low_level::exit(i32::from(Exit::Interrupted.status()))
}

fn told(left: &[PathBuf], sentences: &[Arc<str>]) -> String {
    let mut told = "error: a second signal ended the process at once; results that were not \
                    written yet are lost"
        .to_owned();
    if !left.is_empty() {
        let paths: Vec<String> = left.iter().map(|path| escape::terminal_path(path)).collect();
        told.push_str(&format!(
            ", and {} could not be deleted in time: the next run in that directory deletes what \
             is left there, or delete it by hand; the kernel may keep the process until the drive \
             has finished what is in flight",
            paths.join(", ")
        ));
    }
    for sentence in sentences {
        told.push_str("; ");
        told.push_str(sentence);
    }
    told
}

/// Runs `work` on a thread of its own, for which nobody needs to wait, and returns its result
/// through a channel.
fn beside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Receiver<T> {
    let (sender, receiver) = channel();
    let work = move || {
        // Nobody hears it any more when it took too long.
        let _heard = sender.send(work());
    };
    // Without a thread nothing is sent, which counts as too late.
    let _started = std::thread::Builder::new().spawn(work);
    receiver
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing panics in between; if it did, it would still be whole.
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether the process was started with that signal ignored.
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = crate::kernel::value_of(&status, "SigIgn");
    let mask = mask.and_then(|mask| u64::from_str_radix(mask, 16).ok()).unwrap_or(0);
    mask & 1 << (signal - 1) != 0
}

/// Has a write beyond the limit of file sizes (`ulimit -f`) fail, as one beyond the disk does,
/// instead of ending the process.
///
/// # Errors
/// When the kernel refuses a handler.
pub fn fail_at_the_limit_of_file_sizes() -> std::io::Result<()> {
    // Nobody looks at the flag: the write that failed tells.
    signal_hook::flag::register(rustix::process::Signal::XFSZ.as_raw(), Arc::default()).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// It was 0 where nobody read the results.
    #[test]
    fn work_that_was_interrupted_ends_with_that_status_whatever_came_of_it() {
        let interrupt = Interrupt(Arc::default());
        assert_eq!(interrupt.exit_or(Exit::Failed), Exit::Failed);
        interrupt.0.store(true, Ordering::SeqCst);
        assert_eq!(interrupt.exit_or(Exit::Done), Exit::Interrupted);
    }

    #[test]
    fn what_is_left_is_named_in_one_line_whatever_its_name() {
        assert!(told(&[], &[]).ends_with("results that were not written yet are lost"));
        let line = told(&["/a/ringfall.kv".into(), "/b\n\u{1b}[31m/x.tmp".into()], &[]);
        assert!(line.contains("/a/ringfall.kv, ") && line.contains("/x.tmp could not"), "{line}");
        assert!(line.ends_with("until the drive has finished what is in flight"), "{line}");
        assert!(!line.contains(['\n', '\u{1b}']), "{line}");
        let line = told(&[], &["a (process 7) ends as well".into()]);
        assert!(line.ends_with("written yet are lost; a (process 7) ends as well"), "{line}");
    }

    #[test]
    fn files_that_nobody_holds_any_more_are_nobody_s_to_delete() {
        struct Held;
        impl Leftover for Held {
            fn remove(&self) {}
            fn left(&self) -> Vec<PathBuf> {
                Vec::new()
            }
            fn paths(&self) -> Vec<PathBuf> {
                Vec::new()
            }
        }
        let files: Vec<Arc<dyn Leftover>> = (0..3).map(|_| Arc::new(Held) as _).collect();
        let weak: Vec<Weak<dyn Leftover>> = files.iter().map(Arc::downgrade).collect();
        weak.iter().cloned().for_each(leave_nothing_of);
        drop(files);
        leave_nothing_of(Weak::<Held>::new());
        let is_kept = |one: &Weak<dyn Leftover>| {
            lock(&LEFTOVERS).iter().any(|other| Weak::ptr_eq(one, other))
        };
        assert!(!weak.iter().any(is_kept));
    }
}
