//! Standard output and standard error.
//!
//! A *page* (what a command was asked for) is written by its caller, who waits for the reader: that
//! of a pipe may stand still for an hour (`| less`), and a terminal may be stopped (Ctrl-S). A
//! *notice* (a line told while work goes on) must not delay that work: a thread writes it, and one
//! that finds no room in the thread's queue is left out and counted. Once a signal has come, a
//! reader that takes nothing for 2 s is given up.
//!
//! A *live* notice begins with a carriage return and is written over by the next. Any other notice
//! on the same terminal takes it away first, whoever writes it.

use std::io::{Error, ErrorKind, Result, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, LazyLock, OnceLock};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, fstat};
use rustix::io::Errno;
use rustix::termios::isatty;

use crate::interrupt;

/// Written at once, bytes: a pipe takes them whole and unmixed with others (`PIPE_BUF`).
const CHUNK_BYTES: usize = 4096;
/// Notices that wait to be written.
const NOTICES_MAX: usize = 10_000;
/// Interval at which a caller who waits for a reader checks for a signal.
const LOOK: Duration = Duration::from_millis(50);
/// Patience with a reader that takes nothing, once a signal has come: long enough to write a screen
/// over a slow line, short enough for somebody who waits for the prompt.
const SILENCE_MAX: Duration = Duration::from_secs(2);
/// Longest wait of a page for the notices before it, where its own reader takes something.
const NOTICES_FIRST: Duration = Duration::from_secs(1);

/// Takes live lines away: back to the first column, and all from there on erased.
pub const CLEAR: &str = "\r\x1b[J";

/// One of the two.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stream {
    /// Standard output.
    Out,
    /// Standard error.
    Err,
}

impl Stream {
    /// Name of the stream in messages.
    pub fn name(self) -> &'static str {
        match self {
            Stream::Out => "standard output",
            Stream::Err => "standard error",
        }
    }

    pub(super) fn file(self) -> BorrowedFd<'static> {
        match self {
            Stream::Out => rustix::stdio::stdout(),
            Stream::Err => rustix::stdio::stderr(),
        }
    }
}

/// Writes a page, after the notices that came before it. A reader that has left (`| head`, a
/// terminal that was closed), or has stopped when a signal comes, is no failure.
///
/// # Errors
/// The system's error for that stream.
pub fn write_page(stream: Stream, text: &str) -> Result<()> {
    // A reader that takes neither is waited for: the page then still comes last.
    while !flush(NOTICES_FIRST) && !is_ready(stream.file()) && !interrupt::has_come() {}
    match write_all(stream.file(), text.as_bytes()) {
        Err(error) if matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::TimedOut) => Ok(()),
        Err(error) => {
            IS_PAGE_REFUSED.fetch_or(stream == Stream::Out, Ordering::SeqCst);
            Err(error)
        }
        Ok(()) => Ok(()),
    }
}

/// Whether standard output has refused a page, which its writer tells.
static IS_PAGE_REFUSED: AtomicBool = AtomicBool::new(false);

/// Error with which standard output has refused notices, such as a full disk's; none where it has
/// refused a page as well. Waits for those that are not written yet, until a signal comes.
pub fn refusal() -> Option<Error> {
    wait_for_notices();
    let refused = QUEUE.counts.refused.get().filter(|_| !IS_PAGE_REFUSED.load(Ordering::SeqCst));
    refused.map(|errno| (*errno).into())
}

/// Writes all of it, however long its reader takes, until a signal comes. Chunks end where lines
/// do, so that lines of several threads are never mixed.
///
/// # Errors
/// The system's error; [`ErrorKind::BrokenPipe`] where a terminal was closed;
/// [`ErrorKind::TimedOut`] when nobody reads it and a signal has come.
pub fn write_all(file: impl AsFd, mut bytes: &[u8]) -> Result<()> {
    // Added up look by look: a process that was stopped itself has seen no silence.
    let mut silence = Duration::ZERO;
    while !bytes.is_empty() {
        if silence >= SILENCE_MAX && interrupt::has_come() {
            let what = "nobody reads it: its reader has stopped";
            return Err(Error::new(ErrorKind::TimedOut, what));
        }
        if !is_ready(&file) {
            silence += LOOK;
            continue;
        }
        let chunk = &bytes[..bytes.len().min(CHUNK_BYTES)];
        let end = chunk.iter().rposition(|&byte| byte == b'\n').map_or(chunk.len(), |at| at + 1);
        match rustix::io::write(&file, &chunk[..end]) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(count) => (bytes, silence) = (&bytes[count..], Duration::ZERO),
            Err(Errno::INTR) => {}
            // It may say that it takes something and then not do so.
            Err(Errno::AGAIN) => {
                std::thread::sleep(LOOK);
                silence += LOOK;
            }
            // A closed terminal is a reader that has left; a bad disk is a failure.
            Err(Errno::IO) if is_device(&file) => return Err(ErrorKind::BrokenPipe.into()),
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(())
}

/// Whether a write would not wait, or would fail; waits a moment for that.
fn is_ready(file: impl AsFd) -> bool {
    let look = Timespec { tv_sec: 0, tv_nsec: i64::from(LOOK.subsec_nanos()) };
    poll(&mut [PollFd::new(&file, PollFlags::OUT)], Some(&look)) != Ok(0)
}

fn is_device(file: impl AsFd) -> bool {
    let kind = fstat(file).map(|stat| FileType::from_raw_mode(stat.st_mode));
    kind == Ok(FileType::CharacterDevice)
}

/// Notices of this process.
static QUEUE: LazyLock<Queue> =
    LazyLock::new(|| Queue::start(NOTICES_MAX, |stream, text| write_all(stream.file(), text)));

/// Has a notice written: whole lines.
pub fn tell(stream: Stream, text: &str) {
    QUEUE.add(stream, text.as_bytes());
}

/// Writer of notices; each write is one.
pub struct Notices(pub Stream);

impl Write for Notices {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        QUEUE.add(self.0, bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> Result<()> {
        Ok(())
    }
}

/// Waits until no notice waits any more, at most so long. Returns whether that is so.
pub fn flush(within: Duration) -> bool {
    QUEUE.flush(within)
}

fn wait_for_notices() {
    while !flush(LOOK) && !interrupt::has_come() {}
}

/// Waits for the notices before the process ends, until a signal comes, and says how many are
/// missing.
pub fn settle() {
    wait_for_notices();
    let left_out = QUEUE.counts.left_out_lines.swap(0, Ordering::SeqCst);
    if flush(SILENCE_MAX) && left_out > 0 {
        tell(
            Stream::Err,
            &format!(
                "warning: lines left out, as nobody read them or the disk was full: {left_out}\n"
            ),
        );
        flush(SILENCE_MAX);
    }
}

/// Queue of notices, and the thread that writes them.
struct Queue {
    sender: SyncSender<(Stream, Vec<u8>)>,
    counts: Arc<Counts>,
}

#[derive(Default)]
struct Counts {
    /// Notices that are not written yet.
    waiting: AtomicUsize,
    /// Lines that found no room in the queue or on the disk.
    left_out_lines: AtomicUsize,
    /// Error of the system for a notice on standard output.
    refused: OnceLock<Errno>,
}

impl Counts {
    /// Notes that a notice waits no more: it was written, or left out, or nobody reads it any more.
    fn conclude(&self, stream: Stream, text: &[u8], written: &Result<()>) {
        match written {
            Err(error) if error.kind() != ErrorKind::BrokenPipe => self.miss(stream, text, error),
            _ => {}
        }
        self.waiting.fetch_sub(1, Ordering::SeqCst);
    }

    /// Notes that a notice was left out: the error of standard output, or the number of lines.
    fn miss(&self, stream: Stream, text: &[u8], error: &Error) {
        match Errno::from_io_error(error).filter(|_| stream == Stream::Out) {
            Some(errno) => {
                let _only_the_first_is_told = self.refused.set(errno);
            }
            None => {
                let lines = text.iter().filter(|&&byte| byte == b'\n').count();
                self.left_out_lines.fetch_add(lines, Ordering::SeqCst);
            }
        }
    }
}

fn is_live(text: &[u8]) -> bool {
    text.starts_with(b"\r") && text != CLEAR.as_bytes()
}

/// Stream on whose terminal a live notice stands, as the thread that writes them knows it.
#[derive(Default)]
struct Shown(Option<Stream>);

impl Shown {
    /// Stream whose live notice is to be taken away before `text` is written to `stream`. A file
    /// beside the terminal disturbs none.
    fn gives_way(&mut self, stream: Stream, text: &[u8]) -> Option<Stream> {
        if is_live(text) {
            self.0 = Some(stream);
            return None;
        }
        let is_clear = text == CLEAR.as_bytes();
        let shown = self.0.take_if(|live| *live == stream || (!is_clear && isatty(stream.file())));
        shown.filter(|_| !is_clear)
    }
}

impl Queue {
    fn start(room: usize, write: impl Fn(Stream, &[u8]) -> Result<()> + Send + 'static) -> Queue {
        let (sender, notices) = sync_channel::<(Stream, Vec<u8>)>(room);
        let counts = Arc::new(Counts::default());
        let of_thread = Arc::clone(&counts);
        let write_each = move || {
            let mut shown = Shown::default();
            for (stream, text) in notices {
                if let Some(live) = shown.gives_way(stream, &text) {
                    // The notice itself, written next, finds the same reader or the same failure.
                    let _told_by_the_notice = write(live, CLEAR.as_bytes());
                }
                of_thread.conclude(stream, &text, &write(stream, &text));
            }
        };
        // Without a thread there is nobody to receive, which `add` sees.
        let _started =
            std::thread::Builder::new().name("ringfall-outlet".to_owned()).spawn(write_each);
        Queue { sender, counts }
    }

    /// Adds a notice. A live line is left out while others wait, as the next says more.
    fn add(&self, stream: Stream, text: &[u8]) {
        if is_live(text) && self.counts.waiting.load(Ordering::SeqCst) > 0 {
            return;
        }
        self.counts.waiting.fetch_add(1, Ordering::SeqCst);
        match self.sender.try_send((stream, text.to_vec())) {
            Ok(()) => {}
            Err(TrySendError::Full(_)) => {
                self.counts.conclude(stream, text, &Err(ErrorKind::WouldBlock.into()));
            }
            // Limits on threads: then whoever says something writes it.
            Err(TrySendError::Disconnected(_)) => {
                self.counts.conclude(stream, text, &write_all(stream.file(), text));
            }
        }
    }

    fn flush(&self, within: Duration) -> bool {
        let begun = Instant::now();
        while self.counts.waiting.load(Ordering::SeqCst) > 0 {
            if begun.elapsed() >= within {
                return false;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        true
    }
}

#[cfg(test)]
#[path = "outlet_test.rs"]
mod tests;
