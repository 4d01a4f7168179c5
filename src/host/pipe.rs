//! Opening and reading a file that may turn out to be a pipe. Nobody who opens it waits for its
//! other side for ever; who reads it waits for a silent writer as long as it takes, and says so.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{Error, ErrorKind, Read, Result};
use std::os::unix::fs::{FileExt as _, FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;

use crate::escape::terminal_path;
use crate::files::Spot;

/// Patience with a writer of a pipe that has yet to begin: far more than a shell takes to start
/// both sides of one. One that has begun may have to unpack, fetch or think up what comes next, and
/// is waited for as any reader of a pipe does.
const BEGIN_PATIENCE: Duration = Duration::from_secs(5);
/// After how long somebody is told that a writer is waited for, and interval of telling it again.
const TELL_AFTER: Duration = Duration::from_secs(2);
const TELL_EVERY: Duration = Duration::from_secs(30);
/// Beginning of a Git LFS pointer, by the specification of the format.
const LFS_POINTER: &[u8; 42] = b"version https://git-lfs.github.com/spec/v1";
/// One wait lasts no longer: a process that was stopped meanwhile has seen no silence.
const LOOK: Duration = Duration::from_millis(100);

/// A file that is read. The writer of a pipe must begin soon; from then on it is waited for until
/// somebody ends that.
pub struct InputFile {
    file: File,
    path: PathBuf,
    is_pipe: bool,
    /// Silence after which somebody is told of it next.
    tell_at: Duration,
    /// Whether somebody wishes the reading to end; asked again and again while nothing comes.
    is_ended: Arc<dyn Fn() -> bool + Send + Sync>,
}

/// Opens `path` to read. A pipe is read as it comes (`<(…)` of a shell, `/dev/stdin`) when somebody
/// has written to it, or does so within 5 s. What comes later is waited for without end, until a
/// signal or [`InputFile::ended_when`] ends that; it is told every 30 s.
///
/// # Errors
/// The system's error, or nobody writes to the pipe.
pub fn open_to_read(path: &Path) -> Result<InputFile> {
    let file = open_at_once(path)?;
    refuse_pointer(&file)?;
    let is_pipe = file.metadata()?.file_type().is_fifo();
    // Reads wait again, as those of plain files do.
    fcntl_setfl(&file, fcntl_getfl(&file)?.difference(OFlags::NONBLOCK))?;
    let path = path.to_path_buf();
    let is_ended = Arc::new(|| false);
    let mut file = InputFile { file, path, is_pipe, tell_at: TELL_AFTER, is_ended };
    file.await_writer(BEGIN_PATIENCE)?;
    Ok(file)
}

/// Opens a plain file that holds what its name says. Never waits: a pipe would.
///
/// # Errors
/// The system's error, or it is no plain file, or a pointer of Git LFS.
pub fn open_plain(path: &Path) -> Result<File> {
    let file = open_at_once(path)?;
    if !file.metadata()?.is_file() {
        return Err(Error::other("it is not a plain file: give one"));
    }
    refuse_pointer(&file)?;
    Ok(file)
}

/// Says so where a clone without Git LFS has a pointer in the place of the file.
fn refuse_pointer(file: &File) -> Result<()> {
    let mut begin = [0; LFS_POINTER.len()];
    // What can't be read there is no plain file, or its reader will say why.
    let is_read = file.metadata()?.is_file() && file.read_exact_at(&mut begin, 0).is_ok();
    match is_read && begin == *LFS_POINTER {
        true => Err(Error::other(
            "it is a Git LFS pointer, not the file itself: run `git lfs pull` where it was cloned",
        )),
        false => Ok(()),
    }
}

/// All of a text file of settings, which may be a pipe.
///
/// # Errors
/// The system's error; a directory or no text; more than `bytes_max`.
pub fn read_text(path: &Path, bytes_max: u64) -> Result<String> {
    if path.is_dir() {
        return Err(Error::other("it is a directory: give the file that is meant"));
    }
    let mut bytes = Vec::new();
    // A device or a pipe tells no size, and may have no end.
    open_to_read(path)?.take(bytes_max + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > bytes_max {
        let what = format!(
            "it has more than {} KiB, too many for a file of settings: give another file",
            bytes_max >> 10
        );
        return Err(Error::other(what));
    }
    String::from_utf8(bytes)
        .map_err(|_| Error::other("it is not text (UTF-8): give the file that is meant"))
}

impl InputFile {
    /// Metadata of the file.
    pub fn metadata(&self) -> Result<Metadata> {
        self.file.metadata()
    }

    /// Ends the reading with an error when that says so.
    #[must_use]
    pub fn ended_when(self, is_ended: Arc<dyn Fn() -> bool + Send + Sync>) -> InputFile {
        InputFile { is_ended, ..self }
    }

    /// Waits until there is something to read, or the end.
    fn await_writer(&mut self, patience: Duration) -> Result<()> {
        let look = Timespec { tv_sec: 0, tv_nsec: i64::from(LOOK.subsec_nanos()) };
        let mut silence = Duration::ZERO;
        while self.is_pipe {
            match poll(&mut [PollFd::new(&self.file, PollFlags::IN)], Some(&look)) {
                Ok(1..) => break,
                Ok(0) => silence += LOOK,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
            if (self.is_ended)() {
                return Err(Error::other("interrupted"));
            }
            if silence >= self.tell_at {
                self.tell_at = silence + TELL_EVERY;
                crate::stderr::tell(format_args!(
                    "waiting for the writer of {}: nothing for {} s…",
                    terminal_path(&self.path),
                    silence.as_secs()
                ));
            }
            if silence >= patience {
                let what = format!(
                    "it is a pipe to which nobody has written for {} s: start its writer first, or \
                     give a plain file",
                    patience.as_secs()
                );
                return Err(Error::new(ErrorKind::TimedOut, what));
            }
        }
        Ok(())
    }
}

impl Read for InputFile {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        self.await_writer(Duration::MAX)?;
        self.file.read(buffer)
    }
}

/// Writes all of it to a file that results go to, whole and in place of what is there, or not at
/// all; directories that are missing are made. What is there and is no plain file (a device, a
/// pipe, a terminal) is written to, and waited for as standard output is, until a signal
/// comes.
///
/// # Errors
/// The system's error; [`ErrorKind::TimedOut`] when nobody reads it.
pub fn write_output(path: &Path, bytes: &[u8]) -> Result<()> {
    let spot = Spot::make(path)?;
    match spot.is_for_file()? {
        true => spot.replace(&|out| out.write_all(bytes)),
        false => crate::outlet::write_all(open_to_write(&spot)?, bytes),
    }
}

/// Writes as [`write_output`] does, but waits for no drive: what a file has by then is lost if the
/// power fails soon after.
///
/// # Errors
/// As [`write_output`].
pub fn write_output_unsynced(path: &Path, bytes: &[u8]) -> Result<()> {
    let spot = Spot::make(path)?;
    match spot.is_for_file()? {
        true => spot.replace_unsynced(bytes),
        false => write_output(path, bytes),
    }
}

/// Whether a file can be written there later: one of that many bytes is written, and is gone again.
/// An existing device or pipe is only opened.
///
/// # Errors
/// The system's error, as for [`write_output`].
pub fn try_output(path: &Path, bytes: usize) -> Result<()> {
    let spot = Spot::make(path)?;
    match spot.is_for_file()? {
        true => spot.try_to_hold(bytes),
        false => open_to_write(&spot).map(drop),
    }
}

/// Opens what is there already and is no plain file (a device, a pipe) to write. Its writes don't
/// wait: [`crate::outlet::write_all`] does.
///
/// # Errors
/// The system's error; a pipe without a reader is [`ErrorKind::BrokenPipe`].
fn open_to_write(spot: &Spot) -> Result<File> {
    spot.open_other().map_err(|error| {
        let is_none_there = error.raw_os_error() == Some(Errno::NXIO.raw_os_error());
        match (is_none_there, spot.is_socket()) {
            (true, true) => Error::other("it is a socket, which can't be opened as a file"),
            // open(2): no process has the pipe open for reading.
            (true, false) => Error::new(ErrorKind::BrokenPipe, "it is a pipe that nobody reads"),
            (false, _) => error,
        }
    })
}

/// Whether `path` is a pipe that this process does not hold open. Its reader may not be there yet,
/// or not any more when the results are: they would be waited with, or lost.
pub fn is_strange_pipe(path: &Path) -> bool {
    let Ok(metadata) = std::fs::metadata(path) else { return false };
    metadata.file_type().is_fifo() && !is_held(&metadata)
}

/// Whether one of this process's descriptors is that file (`/dev/stdout`, `>(…)` of a shell).
fn is_held(metadata: &Metadata) -> bool {
    let Ok(held) = std::fs::read_dir("/proc/self/fd") else { return false };
    let mut held = held.flatten().filter_map(|entry| std::fs::metadata(entry.path()).ok());
    held.any(|held| (held.dev(), held.ino()) == (metadata.dev(), metadata.ino()))
}

/// Opens to read without waiting for the other side of a pipe.
fn open_at_once(path: &Path) -> Result<File> {
    // Fits: the flag is the kernel's own.
    let flag = OFlags::NONBLOCK.bits() as i32;
    OpenOptions::new().read(true).custom_flags(flag).open(path)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;
    use crate::Scratch;

    fn pipe(scratch: &Scratch) -> std::path::PathBuf {
        let path = scratch.join("pipe");
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        let kind = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(rustix::fs::CWD, &path, kind, mode, 0).unwrap();
        path
    }

    #[test]
    fn what_waits_for_no_drive_is_written_all_the_same() {
        let scratch = Scratch::new("unsynced");
        let path = scratch.join("made/file");
        for text in ["one", "another"] {
            write_output_unsynced(&path, text.as_bytes()).unwrap();
            assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
        }
        let error = write_output_unsynced(&pipe(&scratch), b"text").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::BrokenPipe);
    }

    #[test]
    fn a_socket_is_told_from_a_pipe_without_a_reader() {
        let scratch = Scratch::new("socket");
        let (pipe, socket) = (pipe(&scratch), scratch.join("socket"));
        let _socket = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        for (path, told) in [(&pipe, "it is a pipe that nobody reads"), (&socket, "it is a socket")]
        {
            let error = write_output(path, b"text").unwrap_err().to_string();
            assert!(error.starts_with(told), "{error}");
        }
    }

    #[test]
    fn a_pipe_with_a_writer_is_read_to_its_end() {
        let scratch = Scratch::new("written");
        let path = pipe(&scratch);
        let writer = {
            let path = path.clone();
            // Waits for the reader, as a shell's writer does.
            std::thread::spawn(move || {
                File::options().write(true).open(path).unwrap().write_all(b"text").unwrap();
            })
        };
        let mut text = String::new();
        open_to_read(&path).unwrap().read_to_string(&mut text).unwrap();
        writer.join().unwrap();
        assert_eq!(text, "text");
    }

    #[test]
    fn a_writer_that_stalls_is_waited_for_until_somebody_ends_it() {
        let scratch = Scratch::new("stalled");
        let path = pipe(&scratch);
        // Open for both, so that nobody waits and nobody has left.
        let mut writer = File::options().read(true).write(true).open(&path).unwrap();
        writer.write_all(b"header").unwrap();
        let mut file = open_to_read(&path).unwrap();
        let mut buffer = [0; 16];
        assert_eq!(file.read(&mut buffer).unwrap(), 6);
        let error = file.await_writer(LOOK).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        let looks = std::sync::atomic::AtomicU32::new(0);
        let third = move || looks.fetch_add(1, std::sync::atomic::Ordering::Relaxed) == 2;
        let mut file = file.ended_when(Arc::new(third));
        assert_eq!(file.read(&mut buffer).unwrap_err().to_string(), "interrupted");
        // Else what comes is read whenever it comes.
        let mut file = file.ended_when(Arc::new(|| false));
        let late = std::thread::spawn(move || {
            std::thread::sleep(3 * LOOK);
            writer.write_all(b"row").unwrap();
        });
        assert_eq!(file.read(&mut buffer).unwrap(), 3);
        late.join().unwrap();
    }

    #[test]
    fn what_is_no_text_is_said_to_be_none_and_what_is_too_long_to_be_that() {
        let scratch = Scratch::new("text");
        let told = |bytes: &[u8]| {
            read_text(&scratch.file("text", bytes), 1 << 10).map_err(|error| error.to_string())
        };
        assert_eq!(told("é".as_bytes()).unwrap(), "é");
        assert!(told(b"a\xffb").unwrap_err().contains("not text"));
        // The bound and one byte end in the middle of a character.
        let long = told("é".repeat(513).as_bytes()).unwrap_err();
        assert!(long.contains("more than 1 KiB"), "{long}");
    }

    #[test]
    fn a_text_of_settings_has_a_bound() {
        assert!(read_text(Path::new("/dev/zero"), 1 << 10).is_err());
        let error = read_text(&std::env::temp_dir(), 1 << 10).unwrap_err();
        assert!(error.to_string().contains("a directory"), "{error}");
    }

    #[test]
    fn a_pipe_without_a_reader_is_told_at_once() {
        let scratch = Scratch::new("unread");
        let path = pipe(&scratch);
        assert!(is_strange_pipe(&path));
        assert_eq!(write_output(&path, b"text").unwrap_err().kind(), ErrorKind::BrokenPipe);
        let reader = open_at_once(&path).unwrap();
        assert!(!is_strange_pipe(&path), "held open here");
        open_to_write(&Spot::of(&path).unwrap()).unwrap();
        drop(reader);
        std::fs::remove_file(&path).unwrap();
        assert!(!is_strange_pipe(&path) && !is_strange_pipe(Path::new("/dev/null")));
    }
}
