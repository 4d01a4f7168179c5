//! A board in a directory that all ranks see: a file for each thing shown. Files appear and change
//! whole.

use std::io::{ErrorKind, Result};
use std::path::{Path, PathBuf};
use std::time::Duration;

use ringfall_engine::clock::Nanos;

use super::board::{Board, Pace};

/// Time for a word to reach all others: several looks, on a file system that is shared.
const LEAD: Nanos = Nanos::from_secs(2);
/// Time for a word to reach those who wait for it: a few of their looks.
const WORD_LEAD: Duration = Duration::from_millis(500);
const PERIOD_WAITING: Duration = Duration::from_millis(250);
const PERIOD_RUNNING: Duration = Duration::from_secs(1);
const PERIOD_TALKING: Duration = Duration::from_millis(100);

/// See the module.
#[derive(Debug)]
pub struct Directory {
    path: PathBuf,
    rank: u32,
}

impl Directory {
    /// Of a launch of `size` ranks, below a directory that all of them see.
    pub fn new(common: &Path, launch: Option<&str>, rank: u32, size: u32) -> Directory {
        let fits = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
        let plain = |name: &str| -> String {
            name.chars().map(|c| if fits(c) { c } else { '_' }).take(64).collect()
        };
        let name = launch.map_or_else(|| format!("of-{size}"), plain);
        let common = if common.as_os_str().is_empty() { Path::new(".") } else { common };
        let path = common.join(format!(".ringfall-ranks-{name}"));
        Directory { path, rank }
    }

    fn file(&self, rank: u32, name: &str) -> PathBuf {
        self.path.join(format!("rank_{rank}.{name}"))
    }
}

fn remove(file: &Path) -> Result<()> {
    match std::fs::remove_file(file) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

impl Board for Directory {
    /// The directory is made anew if another rank has just taken it away.
    fn put(&mut self, name: &str, bytes: &[u8]) -> Result<()> {
        let file = self.file(self.rank, name);
        let draft = file.with_extension(format!("{name}.new"));
        let once = || {
            std::fs::create_dir_all(&self.path)?;
            std::fs::write(&draft, bytes)?;
            std::fs::rename(&draft, &file)
        };
        match once() {
            Err(error) if error.kind() == ErrorKind::NotFound => once(),
            done => done,
        }
    }

    fn get(&mut self, rank: u32, name: &str) -> Result<Option<Vec<u8>>> {
        match std::fs::read(self.file(rank, name)) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The last takes the directory. What an earlier launch left under the same numbers goes too.
    fn clear(&mut self, lost: &[u32]) -> Result<()> {
        let entries = match std::fs::read_dir(&self.path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            entries => entries?,
        };
        let ranks = lost.iter().chain([&self.rank]);
        let prefixes: Vec<String> = ranks.map(|rank| format!("rank_{rank}.")).collect();
        for entry in entries {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if prefixes.iter().any(|prefix| name.starts_with(prefix)) {
                remove(&entry.path())?;
            }
        }
        match std::fs::remove_dir(&self.path) {
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

    fn period(&self, pace: Pace) -> Duration {
        match pace {
            Pace::Waiting => PERIOD_WAITING,
            Pace::Running => PERIOD_RUNNING,
            Pace::Talking => PERIOD_TALKING,
        }
    }

    fn lead(&self) -> Nanos {
        LEAD
    }

    fn word_lead(&self) -> Duration {
        WORD_LEAD
    }

    fn is_prompt(&self) -> bool {
        false
    }
}
