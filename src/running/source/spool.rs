//! Pipes that are read more than once: what comes out of one is kept in a file without a name, from
//! which later readers have it. Nobody waits for the end of a pipe because of that.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Error, Read, Result};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use ringfall_core::held::HeldDirectory;
use ringfall_host::files::Draft;
use ringfall_host::{InputFile, human};

/// Pipes by their paths, for as long as the program runs: each pass over a trace opens it anew, and
/// so do trials and simulations that follow each other.
static PIPES: Mutex<BTreeMap<PathBuf, Arc<Mutex<Spool>>>> = Mutex::new(BTreeMap::new());

/// A pipe, and what has come out of it.
struct Spool {
    pipe: InputFile,
    is_over: bool,
    copy: File,
    bytes: u64,
}

pub(super) struct SpooledPipe {
    spool: Arc<Mutex<Spool>>,
    offset_bytes: u64,
}

impl SpooledPipe {
    /// The pipe of that path, if it was begun already.
    pub(super) fn begun(path: &Path) -> Option<SpooledPipe> {
        let pipes = PIPES.lock().unwrap_or_else(PoisonError::into_inner);
        Some(SpooledPipe { spool: Arc::clone(pipes.get(path)?), offset_bytes: 0 })
    }

    /// Begins to read a pipe.
    ///
    /// # Errors
    /// No file can be made that would hold what comes out of it.
    pub(super) fn begin(path: &Path, pipe: InputFile) -> Result<SpooledPipe> {
        let directory =
            HeldDirectory::open(&std::env::temp_dir()).map_err(|error| unkept(0, &error))?;
        let draft = Draft::begin(&directory).map_err(|error| unkept(0, &error))?;
        // The draft's name goes with it, where it has one.
        let copy = draft.file().try_clone()?;
        let spool = Arc::new(Mutex::new(Spool { pipe, is_over: false, copy, bytes: 0 }));
        let mut pipes = PIPES.lock().unwrap_or_else(PoisonError::into_inner);
        pipes.insert(path.to_path_buf(), Arc::clone(&spool));
        Ok(SpooledPipe { spool, offset_bytes: 0 })
    }
}

impl Read for SpooledPipe {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        let mut spool = self.spool.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = usize::try_from(spool.bytes - self.offset_bytes).unwrap_or(usize::MAX);
        let read = match kept.min(buffer.len()) {
            0 => spool.read_on(buffer)?,
            count => spool.copy.read_at(&mut buffer[..count], self.offset_bytes)?,
        };
        self.offset_bytes += read as u64;
        Ok(read)
    }
}

impl Spool {
    /// Reads what nobody has read yet, and keeps it.
    fn read_on(&mut self, buffer: &mut [u8]) -> Result<usize> {
        if self.is_over {
            return Ok(0);
        }
        let read = self.pipe.read(buffer)?;
        self.is_over = read == 0 && !buffer.is_empty();
        let kept = self.copy.write_all_at(&buffer[..read], self.bytes);
        kept.map_err(|error| unkept(self.bytes, &error))?;
        self.bytes += read as u64;
        Ok(read)
    }
}

fn unkept(bytes: u64, error: &Error) -> Error {
    let what = format!(
        "it is a pipe, of which {} are kept in {} to be read again, and no more can be: {error}; \
         give a plain file, or set TMPDIR to a directory with more space",
        human(bytes),
        std::env::temp_dir().display()
    );
    Error::new(error.kind(), what)
}

#[cfg(test)]
mod tests {
    use ringfall_host::{Scratch, open_to_read};
    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::*;

    /// A pipe in that directory, and a thread that writes to it.
    fn written(scratch: &Scratch, text: &'static [u8]) -> (PathBuf, std::thread::JoinHandle<()>) {
        let path = scratch.join("pipe");
        mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let own = path.clone();
        (path, std::thread::spawn(move || std::fs::write(own, text).unwrap()))
    }

    #[test]
    fn all_readers_of_a_pipe_have_it_from_its_beginning() {
        let scratch = Scratch::new("spool");
        let (path, writer) = written(&scratch, b"one\ntwo\nthree\n");
        assert!(SpooledPipe::begun(&path).is_none());
        let mut first = SpooledPipe::begin(&path, open_to_read(&path).unwrap()).unwrap();
        let mut begin = [0; 4];
        first.read_exact(&mut begin).unwrap();
        let mut texts = [String::new(), String::new()];
        SpooledPipe::begun(&path).unwrap().read_to_string(&mut texts[0]).unwrap();
        first.read_to_string(&mut texts[1]).unwrap();
        assert_eq!(
            (&begin, texts.each_ref().map(String::as_str)),
            (b"one\n", ["one\ntwo\nthree\n", "two\nthree\n"])
        );
        writer.join().unwrap();
    }

    #[test]
    fn a_pipe_that_there_is_no_space_for_is_told_with_its_size() {
        let scratch = Scratch::new("spool-full");
        let (path, writer) = written(&scratch, b"one\n");
        let pipe = open_to_read(&path).unwrap();
        let copy = File::options().write(true).open("/dev/full").unwrap();
        let mut spool = Spool { pipe, is_over: false, copy, bytes: 3 << 30 };
        let error = spool.read_on(&mut [0; 8]).unwrap_err().to_string();
        assert!(
            error.contains("3.0 GiB are kept in") && error.contains("No space left"),
            "{error}"
        );
        writer.join().unwrap();
    }
}
