//! A board in a directory that all ranks see: a file for each thing shown. Files appear and change
//! whole. Others may write to the directory that it is in: no link is followed, and nothing is
//! believed that another user wrote.

use std::ffi::OsStr;
use std::io::{Error, ErrorKind, Read as _, Result, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ringfall_core::held::{HeldDirectory, Stranger};
use ringfall_host::files::Draft;
use rustix::fs::OFlags;

use super::board::{Board, BoardTiming};

/// Several looks for a word to arrive, on a file system that is shared.
const TIMING: BoardTiming = BoardTiming {
    period: Duration::from_millis(100),
    period_measuring: Duration::from_secs(1),
    lead: Duration::from_secs(2),
    word_lead: Duration::from_millis(500),
    is_prompt: false,
};

/// Longest file that is read: a word has a histogram or two, and a result travels as its path.
const WORD_BYTES_MAX: u64 = 64 << 20;

/// A board in a directory that all ranks see, with a file for each thing shown.
#[derive(Clone, Debug)]
pub struct Directory {
    /// Where it lies, beside those of other launches.
    common: PathBuf,
    path: PathBuf,
    rank: u32,
}

impl Directory {
    /// Creates the directory of a launch of `size` ranks, below one that all of them see.
    pub fn new(common: &Path, launch: Option<&str>, rank: u32, size: u32) -> Directory {
        let fits = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
        let plain = |name: &str| -> String {
            name.chars().map(|c| if fits(c) { c } else { '_' }).take(64).collect()
        };
        let name = launch.map_or_else(|| format!("of-{size}"), plain);
        let common = if common.as_os_str().is_empty() { Path::new(".") } else { common };
        let path = common.join(format!(".ringfall-ranks-{name}"));
        Directory { common: common.to_owned(), path, rank }
    }

    /// Opens the directory of the launch, which must be of this user. A file made there is this
    /// user's, by whatever number the file system knows the user.
    fn held(&self, makes: bool) -> Result<HeldDirectory> {
        let open = if makes { HeldDirectory::make } else { HeldDirectory::open };
        let name = self.path.file_name().unwrap_or_default();
        open(&self.common)?.below(Path::new(name), makes)
    }
}

fn file_name(rank: u32, name: &str) -> String {
    format!("rank_{rank}.{name}")
}

/// A file that a rank wrote, whole; it must be of the user whose directory it is in.
fn read(directory: &HeldDirectory, name: &OsStr) -> Result<Vec<u8>> {
    let wrong = |why: &dyn std::fmt::Display| {
        let path = directory.path().join(name);
        Error::other(format!("{} can't be a rank's, as {why}: delete it", path.display()))
    };
    let file =
        directory.open_to_read(name, OFlags::empty()).map_err(|error| match error.kind() {
            ErrorKind::Other => wrong(&error),
            _ => error,
        })?;
    let uid = file.metadata()?.uid();
    if uid != directory.stat()?.st_uid {
        return Err(wrong(&Stranger::OfOther { uid }));
    }
    let mut bytes = Vec::new();
    file.take(WORD_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > WORD_BYTES_MAX {
        return Err(wrong(&"it has more than any rank says"));
    }
    Ok(bytes)
}

impl Board for Directory {
    /// The directory is made anew if another rank has just taken it away.
    fn put(&mut self, name: &str, bytes: &[u8]) -> Result<()> {
        let file = file_name(self.rank, name);
        let once = || {
            let held = self.held(true)?;
            let uid = held.stat()?.st_uid;
            let draft = Draft::begin(&held)?;
            if draft.file().metadata()?.uid() != uid {
                return Err(Error::other(format!(
                    "{} belongs to another user (uid {uid}): delete it, or meet elsewhere",
                    self.path.display()
                )));
            }
            draft.file().write_all(bytes)?;
            draft.publish(&file)
        };
        match once() {
            Err(error) if error.kind() == ErrorKind::NotFound => once(),
            done => done,
        }
    }

    fn get(&mut self, rank: u32, name: &str) -> Result<Option<Vec<u8>>> {
        let read = |held| read(&held, OsStr::new(&file_name(rank, name)));
        match self.held(false).and_then(read) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn clear(&mut self) -> Result<()> {
        let clear = || {
            let held = self.held(false)?;
            for entry in std::fs::read_dir(held.path())? {
                held.remove(entry?.file_name())?;
            }
            std::fs::remove_dir(&self.path)
        };
        match clear() {
            // Another that was the last as well, or the next run of the launch, was faster.
            Err(error)
                if !matches!(error.kind(), ErrorKind::NotFound | ErrorKind::DirectoryNotEmpty) =>
            {
                Err(error)
            }
            _ => Ok(()),
        }
    }

    fn shown(&self) -> String {
        self.path.display().to_string()
    }

    fn word_bytes_max(&self) -> usize {
        0
    }

    fn timing(&self) -> BoardTiming {
        TIMING
    }
}
