//! Standard output and standard error, written by a thread of their own: whoever says something
//! never waits for a terminal that was stopped (Ctrl-S) or a pipe that nobody reads.
//!
//! One queue for both, so that lines come in the order in which they were said. A *notice* (a line
//! told while work goes on) is queued or, if there is no room in the queue or on the disk, left out
//! and counted; a live line (one that begins with `\r`) takes the place of one that still waits to
//! be shown. A *page* (what a command was asked for) waits for room, and [`written`] waits until
//! all of it is out: for the reader of a pipe or a file without end, as `| less` may stand still
//! for an hour; for a terminal that takes nothing, and for anybody once a signal has come, 2 s.
//! Lines that are left when the process ends are waited for up to a minute. All of that holds where
//! a signal does not end the process by itself any more ([`heed`]): before, it is what ends a wait.
//! The second signal ends the process whatever waits here.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{Error, ErrorKind, Result, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, LazyLock, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

/// Written at once, bytes: what a pipe takes whole (`PIPE_BUF`), so that a slow reader is seen to
/// read.
const CHUNK_BYTES: usize = 4096;
/// Notices that wait to be written, bytes: 10,000 lines of a log.
const NOTICE_BYTES_MAX: usize = 1 << 20;
/// All that waits to be written, bytes.
const PAGE_BYTES_MAX: usize = 2 << 20;
/// Interval at which a waiting caller checks the queue.
const LOOK: Duration = Duration::from_millis(50);
/// Patience with a terminal, or anything after a signal: long enough to write a screen over a slow
/// line, short enough for somebody who waits for the prompt.
const SHORT: Duration = Duration::from_secs(2);
/// Patience with a pipe or file. Its reader may be busy with something else for a while; one that
/// waits for this process to end before it reads would wait for ever.
const LONG: Duration = Duration::from_secs(60);

/// One of the two.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stream {
    /// Standard output.
    Out,
    /// Standard error.
    Err,
}

/// A writer of one of the streams. Its `flush` does not wait; [`written`] does.
pub struct Outlet {
    stream: Stream,
    is_page: bool,
    /// The beginning of a notice, whose end is yet to come.
    partial: Vec<u8>,
}

/// Opens an outlet for a command's output: standard output or, beside JSON, standard error.
#[must_use]
pub fn page(stream: Stream) -> Outlet {
    Outlet { stream, is_page: true, partial: Vec::new() }
}

/// Opens an outlet for messages during work, which they must not delay.
#[must_use]
pub fn notices(stream: Stream) -> Outlet {
    Outlet { stream, is_page: false, partial: Vec::new() }
}

/// Writes all of a page to that stream and waits until it is there.
///
/// # Errors
/// As [`written`].
pub fn write_page(stream: Stream, text: &str) -> Result<()> {
    page(stream).write_all(text.as_bytes())?;
    written(stream)
}

/// Waits until all that was said is written.
///
/// # Errors
/// The system's error for that stream; [`ErrorKind::TimedOut`] when nobody has read for as long as
/// we are patient.
pub fn written(stream: Stream) -> Result<()> {
    QUEUE.written(stream, patience).map_err(|error| told(stream, error))
}

/// Waits until all that was said is written, or nobody reads it: before the process ends.
pub fn settle() {
    // Whoever can't be told can't be told this either.
    for stream in [Stream::Err, Stream::Out] {
        let _told = QUEUE.written(stream, patience_at_the_end);
    }
}

/// Writes all of it to another place that may have a slow reader (`/dev/fd/3`, a terminal), as
/// patiently as a page is written. The file's own writes must not wait (`O_NONBLOCK`).
///
/// # Errors
/// The system's error; [`ErrorKind::TimedOut`] as in [`written`].
pub fn write_beside(file: &File, bytes: &[u8]) -> Result<()> {
    let is_terminal = rustix::termios::isatty(file);
    write_all_to(file, bytes, &|| patience_with(is_terminal))
}

fn write_all_to(
    file: &File,
    mut bytes: &[u8],
    patience: &dyn Fn() -> Option<Duration>,
) -> Result<()> {
    let look = Timespec { tv_sec: 0, tv_nsec: i64::from(LOOK.subsec_nanos()) };
    let mut silence = Duration::ZERO;
    while !bytes.is_empty() {
        match rustix::io::write(file, &bytes[..bytes.len().min(CHUNK_BYTES)]) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(count) => (bytes, silence) = (&bytes[count..], Duration::ZERO),
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) if patience().is_some_and(|patience| silence >= patience) => {
                let what = "nobody reads it: its reader has stopped";
                return Err(Error::new(ErrorKind::TimedOut, what));
            }
            Err(Errno::AGAIN) => {
                let ready = poll(&mut [PollFd::new(file, PollFlags::OUT)], Some(&look));
                if silence > Duration::ZERO && ready.is_ok_and(|ready| ready > 0) {
                    // It may say that it takes something and then not do so.
                    std::thread::sleep(LOOK);
                }
                silence += LOOK;
            }
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(())
}

/// Has nobody wait for ever from now on, as the first signal does not end the process any more but
/// sets `interrupt`.
pub fn heed(interrupt: Arc<AtomicBool>) {
    // A second call's flag is set by the same signals.
    let _first = INTERRUPT.set(interrupt);
}

/// Set by a signal, once there is a handler.
static INTERRUPT: OnceLock<Arc<AtomicBool>> = OnceLock::new();
/// The one of this process.
static QUEUE: LazyLock<Arc<Queue>> = LazyLock::new(|| {
    let queue = Arc::new(Queue::default());
    let served = Arc::clone(&queue);
    let thread = std::thread::Builder::new().name("ringfall-outlet".to_owned());
    if thread.spawn(move || served.serve(&is_ready, &mut write)).is_err() {
        // Limits on threads: then whoever says something writes it.
        queue.lock().is_unserved = true;
    }
    queue
});

/// Longest time without progress before a waiting caller gives up; none: a signal still ends the
/// process, as it would any other that waits for its reader.
fn patience(stream: Stream) -> Option<Duration> {
    patience_with(is_terminal(stream))
}

/// The same with any terminal, or anything else.
fn patience_with(is_terminal: bool) -> Option<Duration> {
    let interrupt = INTERRUPT.get()?;
    // Whoever reads a pipe may take as long as they like (`| less`), until a signal says otherwise.
    (is_terminal || interrupt.load(Ordering::SeqCst)).then_some(SHORT)
}

/// The same before the process ends, where nothing but lines is left to write.
fn patience_at_the_end(stream: Stream) -> Option<Duration> {
    INTERRUPT.get().map(|_| patience(stream).unwrap_or(LONG))
}

fn is_terminal(stream: Stream) -> bool {
    match stream {
        Stream::Out => rustix::termios::isatty(std::io::stdout()),
        Stream::Err => rustix::termios::isatty(std::io::stderr()),
    }
}

/// A terminal that was closed or stopped is a reader that has left.
fn told(stream: Stream, error: Error) -> Error {
    use rustix::fs::{FileType, fstat};
    let stat = match stream {
        Stream::Out => fstat(std::io::stdout()),
        Stream::Err => fstat(std::io::stderr()),
    };
    let is_device =
        stat.is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::CharacterDevice);
    // A closed terminal fails with EIO; so does a bad disk, which is a failure.
    let has_left = error.kind() == ErrorKind::TimedOut
        || error.raw_os_error() == Some(Errno::IO.raw_os_error());
    match is_device && has_left {
        true => Error::new(ErrorKind::BrokenPipe, error),
        false => error,
    }
}

/// Whether a stream takes something, waiting for so long.
type Ready = dyn Fn(Stream, Duration) -> bool;

/// Whether a write to the stream would not wait, or would fail; waits for that.
fn is_ready(stream: Stream, patience: Duration) -> bool {
    let (out, err) = (std::io::stdout(), std::io::stderr());
    let fd = match stream {
        Stream::Out => PollFd::new(&out, PollFlags::OUT),
        Stream::Err => PollFd::new(&err, PollFlags::OUT),
    };
    let patience = Timespec { tv_sec: 0, tv_nsec: i64::from(patience.subsec_nanos()) };
    // Who can't be asked is written to.
    poll(&mut [fd], Some(&patience)).map_or(true, |ready| ready > 0)
}

/// Writes some of it, as much as the system takes; 0 where it takes nothing yet.
fn write(stream: Stream, bytes: &[u8]) -> Result<usize> {
    let written = match stream {
        Stream::Out => rustix::io::write(std::io::stdout(), bytes),
        Stream::Err => rustix::io::write(std::io::stderr(), bytes),
    };
    match written {
        Ok(count) => Ok(count),
        Err(Errno::INTR) => Ok(0),
        // Somebody else made the terminal one that does not wait.
        Err(Errno::AGAIN) => {
            let (out, err) = (std::io::stdout(), std::io::stderr());
            let ready = match stream {
                Stream::Out => PollFd::new(&out, PollFlags::OUT),
                Stream::Err => PollFd::new(&err, PollFlags::OUT),
            };
            let _looked = poll(&mut [ready], Some(&Timespec { tv_sec: 1, tv_nsec: 0 }));
            Ok(0)
        }
        // Closed from the beginning (`>&-`): nobody wants to know.
        Err(Errno::BADF) => Ok(bytes.len()),
        Err(errno) => Err(errno.into()),
    }
}

impl Write for Outlet {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        if self.is_page {
            let added = QUEUE.add_page(self.stream, bytes, patience);
            added.map_err(|error| told(self.stream, error))?;
            return Ok(bytes.len());
        }
        self.partial.extend_from_slice(bytes);
        let end = match self.partial.first() {
            Some(b'\r') => self.partial.len(),
            _ => self.partial.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1),
        };
        if end > 0 {
            let rest = self.partial.split_off(end);
            let whole = std::mem::replace(&mut self.partial, rest);
            QUEUE.add_notice(self.stream, whole)?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> Result<()> {
        let partial = std::mem::take(&mut self.partial);
        if partial.is_empty() { Ok(()) } else { QUEUE.add_notice(self.stream, partial) }
    }
}

impl Drop for Outlet {
    fn drop(&mut self) {
        // As for any other notice: who can't be told is not told.
        let _told = self.flush();
    }
}

/// Queue of output to be written.
#[derive(Default)]
struct Queue {
    state: Mutex<State>,
    came: Condvar,
    moved: Condvar,
}

#[derive(Default)]
struct State {
    pieces: VecDeque<Piece>,
    /// Bytes of the pieces that are yet to be written.
    waiting_bytes: usize,
    /// Bytes written to each stream: as long as it grows, somebody reads.
    written_bytes: [u64; 2],
    /// Value of `written_bytes` when a caller gave up.
    given_up_at: [Option<u64>; 2],
    /// Notices that found no room, since that was told last.
    left_out: u64,
    /// Why a stream takes nothing more.
    failed: [Option<i32>; 2],
    /// The disk was full at the last try: what is left out is told with the next notice.
    is_full: [bool; 2],
    /// There is no thread that writes.
    is_unserved: bool,
}

/// Kind of output that a piece belongs to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Page,
    Notice,
    /// A line that the next one of its kind takes the place of.
    Live,
}

struct Piece {
    stream: Stream,
    kind: Kind,
    bytes: Vec<u8>,
    /// Lines that it says were left out.
    lost: u64,
    done: usize,
    /// The writer has it in its hands.
    is_begun: bool,
}

impl State {
    fn check(&self, stream: Stream) -> Result<()> {
        self.failed[stream as usize].map_or(Ok(()), |errno| Err(Error::from_raw_os_error(errno)))
    }

    fn push(&mut self, stream: Stream, bytes: &[u8], kind: Kind) {
        if self.failed[stream as usize].is_some() {
            return;
        }
        let last = self.pieces.back_mut();
        match last.filter(|last| last.stream == stream && last.kind == kind) {
            Some(last) if kind == Kind::Live && !last.is_begun => {
                self.waiting_bytes -= last.bytes.len();
                last.bytes = bytes.to_vec();
            }
            Some(last) if kind != Kind::Live && !last.is_begun => {
                last.bytes.extend_from_slice(bytes)
            }
            _ => {
                let bytes = bytes.to_vec();
                self.pieces.push_back(Piece {
                    stream,
                    kind,
                    bytes,
                    lost: 0,
                    done: 0,
                    is_begun: false,
                });
            }
        }
        self.waiting_bytes += bytes.len();
    }

    /// Says that something is missing, where it is missing.
    fn tell_left_out(&mut self) {
        let count = std::mem::take(&mut self.left_out);
        if count > 0 {
            let told = format!(
                "warning: lines left out here, as nobody read them or the disk was full: {count}\n"
            );
            self.push(Stream::Err, told.as_bytes(), Kind::Notice);
            let last = self.pieces.back_mut();
            if let Some(last) = last.filter(|last| last.stream == Stream::Err) {
                last.lost += count;
            }
        }
    }

    /// The next bytes to be written: the first in the order of the queue, unless nobody reads that
    /// stream just now and there is something for the other.
    fn next_chunk(&mut self, is_ready: &Ready) -> Option<(Stream, Vec<u8>)> {
        if self.pieces.is_empty() && !self.is_full[Stream::Err as usize] {
            self.tell_left_out();
        }
        let first = self.pieces.front()?.stream;
        let other = || self.pieces.iter().position(|piece| piece.stream != first);
        let at = if is_ready(first, Duration::ZERO) { 0 } else { other().unwrap_or(0) };
        let piece = &mut self.pieces[at];
        if !is_ready(piece.stream, Duration::ZERO) {
            return None;
        }
        piece.is_begun = true;
        let end = piece.bytes.len().min(piece.done + CHUNK_BYTES);
        Some((piece.stream, piece.bytes[piece.done..end].to_vec()))
    }

    /// Records the outcome of a write.
    fn conclude(&mut self, stream: Stream, written: Result<usize>) {
        match written {
            Ok(count) => {
                self.waiting_bytes -= count;
                self.written_bytes[stream as usize] += count as u64;
                self.is_full[stream as usize] &= count == 0;
                let at = self.pieces.iter().position(|piece| piece.stream == stream);
                let Some(at) = at else { return };
                let piece = &mut self.pieces[at];
                piece.done += count;
                if piece.done == piece.bytes.len() {
                    self.pieces.remove(at);
                }
            }
            Err(error) => {
                let errno = error.raw_os_error().unwrap_or(Errno::IO.raw_os_error());
                if self.leave_out(stream, errno) {
                    return;
                }
                self.failed[stream as usize] = Some(errno);
                self.pieces.retain(|piece| piece.stream != stream);
                let left = self.pieces.iter().map(|piece| piece.bytes.len() - piece.done);
                self.waiting_bytes = left.sum();
            }
        }
    }
}

impl State {
    /// Where a disk is full, lines are left out until there is room again; a page has failed.
    fn leave_out(&mut self, stream: Stream, errno: i32) -> bool {
        let is_full = [Errno::NOSPC, Errno::DQUOT].iter().any(|e| e.raw_os_error() == errno);
        let at = self.pieces.iter().position(|piece| piece.stream == stream);
        let Some(at) = at.filter(|at| is_full && self.pieces[*at].kind != Kind::Page) else {
            return false;
        };
        self.is_full[stream as usize] = true;
        let Some(piece) = self.pieces.remove(at) else { return false };
        let rest = &piece.bytes[piece.done..];
        self.waiting_bytes -= rest.len();
        if piece.kind == Kind::Notice {
            let lines = rest.iter().filter(|byte| **byte == b'\n').count() as u64;
            // The line that says how many are missing is not one of them.
            let told = if piece.done == 0 { piece.lost.saturating_sub(1) } else { 0 };
            self.left_out += lines + told;
        }
        true
    }
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing in here panics with the lock held; if it did, the queue would still be whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes what comes, for ever.
    fn serve(&self, is_ready: &Ready, write: &mut dyn FnMut(Stream, &[u8]) -> Result<usize>) {
        let mut state = self.lock();
        loop {
            let Some((stream, chunk)) = state.next_chunk(is_ready) else {
                state = match state.pieces.front().map(|piece| piece.stream) {
                    None => self.came.wait(state).unwrap_or_else(PoisonError::into_inner),
                    // Nobody reads just now. Something for the other stream may come meanwhile.
                    Some(stream) => {
                        drop(state);
                        is_ready(stream, LOOK);
                        self.lock()
                    }
                };
                continue;
            };
            drop(state);
            let written = write(stream, &chunk);
            state = self.lock();
            state.conclude(stream, written);
            self.moved.notify_all();
        }
    }

    fn added(&self, mut state: MutexGuard<'_, State>, stream: Stream) -> Result<()> {
        if state.is_unserved {
            while let Some((stream, chunk)) = state.next_chunk(&|_, _| true) {
                state.conclude(stream, write(stream, &chunk));
            }
        }
        self.came.notify_one();
        state.check(stream)
    }

    fn add_notice(&self, stream: Stream, bytes: Vec<u8>) -> Result<()> {
        let mut state = self.lock();
        state.check(stream)?;
        let is_live = bytes.first() == Some(&b'\r');
        let kind = if is_live { Kind::Live } else { Kind::Notice };
        if state.waiting_bytes > 0 && state.waiting_bytes + bytes.len() > NOTICE_BYTES_MAX {
            // Nothing is missing when a live line is: the next says more.
            state.left_out += u64::from(!is_live);
            self.came.notify_one();
            return Ok(());
        }
        state.tell_left_out();
        state.push(stream, &bytes, kind);
        self.added(state, stream)
    }

    fn add_page(
        &self,
        stream: Stream,
        bytes: &[u8],
        patience: fn(Stream) -> Option<Duration>,
    ) -> Result<()> {
        let mut state = self.lock();
        let has_room =
            |state: &State| state.waiting_bytes == 0 || state.waiting_bytes < PAGE_BYTES_MAX;
        state = self.wait_until(state, stream, patience, has_room)?;
        state.check(stream)?;
        state.push(stream, bytes, Kind::Page);
        self.added(state, stream)
    }

    fn written(&self, stream: Stream, patience: fn(Stream) -> Option<Duration>) -> Result<()> {
        let is_empty = |state: &State| {
            let is_told =
                stream == Stream::Out || state.left_out == 0 || state.is_full[Stream::Err as usize];
            is_told && !state.pieces.iter().any(|piece| piece.stream == stream)
        };
        self.wait_until(self.lock(), stream, patience, is_empty)?.check(stream)
    }

    /// Waits for the writer as long as it writes, and then for as long as `patience` says.
    fn wait_until<'a>(
        &self,
        mut state: MutexGuard<'a, State>,
        stream: Stream,
        patience: fn(Stream) -> Option<Duration>,
        holds: impl Fn(&State) -> bool,
    ) -> Result<MutexGuard<'a, State>> {
        // Added up look by look: a process that was stopped itself has seen no silence.
        let at = stream as usize;
        let (mut silence, mut seen) = (Duration::ZERO, state.written_bytes[at]);
        while !holds(&state) && !state.is_unserved {
            let is_over = patience(stream).is_some_and(|patience| silence >= patience);
            if is_over || state.given_up_at[at] == Some(state.written_bytes[at]) {
                state.given_up_at[at] = Some(state.written_bytes[at]);
                return Err(nobody_reads(stream));
            }
            let waited = self.moved.wait_timeout(state, LOOK);
            let (next, look) = waited.unwrap_or_else(PoisonError::into_inner);
            state = next;
            let now = state.written_bytes[at];
            if std::mem::replace(&mut seen, now) != now {
                silence = Duration::ZERO;
            } else if look.timed_out() {
                silence += LOOK;
            }
        }
        Ok(state)
    }
}

fn nobody_reads(stream: Stream) -> Error {
    let name = match stream {
        Stream::Out => "standard output",
        Stream::Err => "standard error",
    };
    Error::new(ErrorKind::TimedOut, format!("nobody reads {name}: its reader has stopped"))
}

#[cfg(test)]
#[path = "outlet_test.rs"]
mod tests;
