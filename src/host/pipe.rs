//! Opening a file that may turn out to be a pipe, without waiting for the other side for ever.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{Error, ErrorKind, Result};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

/// Patience with the writer of a pipe: far more than a shell takes to start both sides of one.
const WRITER_PATIENCE_S: i64 = 5;

/// Opens `path` to read. A pipe is read as it comes (`<(…)` of a shell, `/dev/stdin`) when somebody
/// has opened it to write, or does so within 5 s.
///
/// # Errors
/// What the system says, or that nobody writes to the pipe.
pub fn open_to_read(path: &Path) -> Result<File> {
    let file = open_at_once(path, OpenOptions::new().read(true))?;
    if file.metadata()?.file_type().is_fifo() {
        let mut ready = [PollFd::new(&file, PollFlags::IN)];
        let patience = Timespec { tv_sec: WRITER_PATIENCE_S, tv_nsec: 0 };
        if poll(&mut ready, Some(&patience))? == 0 {
            let what = format!(
                "it is a pipe to which nobody has written for {WRITER_PATIENCE_S} s: start its \
                 writer first, or give a plain file"
            );
            return Err(Error::new(ErrorKind::TimedOut, what));
        }
    }
    wait_from_now_on(file)
}

/// Opens what is there already and is no plain file (a device, a pipe) to write.
///
/// # Errors
/// What the system says; a pipe without a reader is [`ErrorKind::BrokenPipe`].
pub fn open_to_write(path: &Path) -> Result<File> {
    let file = open_at_once(path, OpenOptions::new().write(true)).map_err(|error| {
        // open(2): no process has the pipe open for reading.
        match error.raw_os_error() == Some(rustix::io::Errno::NXIO.raw_os_error()) {
            true => Error::new(ErrorKind::BrokenPipe, "it is a pipe that nobody reads"),
            false => error,
        }
    })?;
    wait_from_now_on(file)
}

/// Whether `path` is a pipe that this process does not hold open. Its reader may not be there yet,
/// or not any more when the results are: they would be waited with, or lost.
#[must_use]
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

/// Opens without waiting for the other side of a pipe.
fn open_at_once(path: &Path, options: &mut OpenOptions) -> Result<File> {
    // Fits: the flag is the kernel's own.
    let flag = OFlags::NONBLOCK.bits() as i32;
    options.custom_flags(flag).open(path)
}

/// Reads and writes wait again, as those of plain files do.
fn wait_from_now_on(file: File) -> Result<File> {
    let flags = fcntl_getfl(&file)?;
    fcntl_setfl(&file, flags.difference(OFlags::NONBLOCK))?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};

    use super::*;

    fn pipe(name: &str) -> std::path::PathBuf {
        let path = std::env::temp_dir().join(format!("ringfall-{name}-{}", std::process::id()));
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        let kind = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(rustix::fs::CWD, &path, kind, mode, 0).unwrap();
        path
    }

    #[test]
    fn a_pipe_with_a_writer_is_read_to_its_end() {
        let path = pipe("written");
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
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn a_pipe_without_a_reader_is_told_at_once() {
        let path = pipe("unread");
        assert!(is_strange_pipe(&path));
        assert_eq!(open_to_write(&path).unwrap_err().kind(), ErrorKind::BrokenPipe);
        let reader = open_at_once(&path, File::options().read(true)).unwrap();
        assert!(!is_strange_pipe(&path), "held open here");
        open_to_write(&path).unwrap();
        drop(reader);
        std::fs::remove_file(&path).unwrap();
        assert!(!is_strange_pipe(&path) && !is_strange_pipe(Path::new("/dev/null")));
    }
}
