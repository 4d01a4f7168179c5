//! A board in a directory that all ranks see: a file for each thing shown. Files appear and change
//! whole.

use std::fs::File;
use std::io::{Error, ErrorKind, Read as _, Result};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use ringfall_engine::clock::Nanos;

use super::board::{Board, BoardPace};
use super::card::{Card, Machine, Posts as _};

/// Time for a word to reach all others: several looks, on a file system that is shared.
const LEAD: Nanos = Nanos::from_secs(2);
/// Time for a word to reach those who wait for it: a few of their looks.
const WORD_LEAD: Duration = Duration::from_millis(500);
const PERIOD_WAITING: Duration = Duration::from_millis(250);
const PERIOD_RUNNING: Duration = Duration::from_secs(1);
const PERIOD_TALKING: Duration = Duration::from_millis(100);

/// Longest file that is read: a word has a histogram or two, and a result travels as its path.
const WORD_BYTES_MAX: u64 = 64 << 20;

/// What the name of such a directory begins with.
const PREFIX: &str = ".ringfall-ranks-";
/// Nobody comes to a launch any more whose ranks that came have all ended, so long after.
const ENDED_FOR: Duration = Duration::from_secs(60);
/// A launch of which nothing has changed for so long is over, whatever its cards say: a rank that
/// lives renews its own every second.
const STILL_FOR: Duration = Duration::from_secs(86_400);

/// A board in a directory that all ranks see, with a file for each thing shown.
#[derive(Debug)]
pub struct Directory {
    /// Where it lies, beside those of other launches.
    common: PathBuf,
    path: PathBuf,
    rank: u32,
    size: u32,
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
        let path = common.join(format!("{PREFIX}{name}"));
        Directory { common: common.to_owned(), path, rank, size }
    }

    fn file(&self, rank: u32, name: &str) -> PathBuf {
        self.path.join(format!("rank_{rank}.{name}"))
    }
}

/// Whether nobody uses a directory of another launch any more.
fn is_abandoned(path: &Path, here: &Machine) -> Result<bool> {
    let (mut age_min, mut have_all_ended) = (None::<Duration>, true);
    for entry in std::fs::read_dir(path)? {
        let entry = entry?;
        let changed = entry.metadata()?.modified()?;
        let age = SystemTime::now().duration_since(changed).unwrap_or_default();
        age_min = Some(age_min.map_or(age, |least| least.min(age)));
        if entry.path().extension().is_some_and(|ending| ending == "card") {
            let card = serde_json::from_slice::<Card>(&read(&entry.path())?);
            have_all_ended &= card.is_ok_and(|card| card.has_left || card.is_gone(here));
        }
    }
    // An empty one has just been made, or is about to be taken away.
    Ok(age_min.is_some_and(|age| age > STILL_FOR || (have_all_ended && age > ENDED_FOR)))
}

/// A file that a rank wrote, whole.
fn read(file: &Path) -> Result<Vec<u8>> {
    // Anything may lie there: who opens a pipe waits.
    if !std::fs::metadata(file)?.is_file() {
        return Err(Error::other(format!("{} is not a plain file: delete it", file.display())));
    }
    let mut bytes = Vec::new();
    File::open(file)?.take(WORD_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > WORD_BYTES_MAX {
        let what = format!("{} has more than any rank says: delete it", file.display());
        return Err(Error::other(what));
    }
    Ok(bytes)
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
        match read(&self.file(rank, name)) {
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

    fn clear_up(&mut self) -> Result<()> {
        let here = Machine::this();
        let all: Vec<u32> = (0..self.size).collect();
        let mut has_ended = |rank: &u32| {
            let card = self.card(*rank);
            card.is_ok_and(|card| card.is_some_and(|card| card.has_left || card.is_gone(&here)))
        };
        if all.iter().all(&mut has_ended) { self.clear(&all) } else { Ok(()) }
    }

    /// What can't be looked at or removed is somebody else's, or goes the next time.
    fn reclaim(&mut self) {
        let Ok(entries) = std::fs::read_dir(&self.common) else { return };
        let here = Machine::this();
        let is_other = |path: &PathBuf| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.starts_with(PREFIX) && *path != self.path
        };
        for path in entries.flatten().map(|entry| entry.path()).filter(is_other) {
            if is_abandoned(&path, &here).unwrap_or(false)
                && let Err(error) = std::fs::remove_dir_all(&path)
            {
                let directory = path.display();
                tracing::warn!(%directory, %error, "what an earlier launch left can't be removed");
            }
        }
    }

    fn shown(&self) -> String {
        self.path.display().to_string()
    }

    fn word_bytes_max(&self) -> usize {
        0
    }

    fn period(&self, pace: BoardPace) -> Duration {
        match pace {
            BoardPace::Waiting => PERIOD_WAITING,
            BoardPace::Running => PERIOD_RUNNING,
            BoardPace::Talking => PERIOD_TALKING,
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
