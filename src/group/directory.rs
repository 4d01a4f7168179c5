//! A board in a directory that all ranks see: a file for each thing shown. Files appear and change
//! whole. Others may write to the directory that it is in: no link is followed, and nothing is
//! believed that another user wrote.

use std::ffi::OsStr;
use std::io::{Error, ErrorKind, Read as _, Result, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use ringfall_engine::clock::Nanos;
use ringfall_engine::held::{HeldDirectory, Stranger};
use rustix::fs::OFlags;

use super::board::{Board, BoardPace};
use super::card::{Card, Machine, Posts as _};
use crate::files::Draft;

/// Time for a word to reach all others: several looks, on a file system that is shared.
const LEAD: Nanos = Nanos::from_secs(2);
/// Time for a word to reach those who wait for it: a few of their looks.
const WORD_LEAD: Duration = Duration::from_millis(500);
const PERIOD_WAITING: Duration = Duration::from_millis(250);
const PERIOD_RUNNING: Duration = Duration::from_secs(1);
const PERIOD_TALKING: Duration = Duration::from_millis(100);

/// Longest file that is read: a word has a histogram or two, and a result travels as its path.
const WORD_BYTES_MAX: u64 = 64 << 20;

/// Prefix of the name of such a directory.
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
    /// Creates the directory of a launch of `size` ranks, below one that all of them see.
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

/// Whether nobody uses a directory of another launch any more.
fn is_abandoned(directory: &HeldDirectory, here: &Machine) -> Result<bool> {
    if directory.stat()?.st_uid != rustix::process::geteuid().as_raw() {
        return Ok(false);
    }
    let (mut age_min, mut have_all_ended) = (None::<Duration>, true);
    for entry in std::fs::read_dir(directory.path())? {
        let entry = entry?;
        let changed = entry.metadata()?.modified()?;
        let age = SystemTime::now().duration_since(changed).unwrap_or_default();
        age_min = Some(age_min.map_or(age, |least| least.min(age)));
        if entry.path().extension().is_some_and(|ending| ending == "card") {
            let card = serde_json::from_slice::<Card>(&read(directory, &entry.file_name())?);
            have_all_ended &= card.is_ok_and(|card| card.has_left || card.is_gone(here));
        }
    }
    // An empty one has just been made, or is about to be taken away.
    Ok(age_min.is_some_and(|age| age > STILL_FOR || (have_all_ended && age > ENDED_FOR)))
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

    /// The last takes the directory. What an earlier launch left under the same numbers goes too.
    fn clear(&mut self, lost: &[u32]) -> Result<()> {
        let held = match self.held(false) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            held => held?,
        };
        let ranks = lost.iter().chain([&self.rank]);
        let prefixes: Vec<String> = ranks.map(|rank| format!("rank_{rank}.")).collect();
        for entry in std::fs::read_dir(&self.path)? {
            let name = entry?.file_name();
            let shown = name.to_string_lossy();
            if prefixes.iter().any(|prefix| shown.starts_with(prefix)) {
                match held.remove(&name) {
                    Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
                    _ => {}
                }
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

    /// Removes abandoned directories. Those that can't be read or removed are somebody else's, or
    /// go the next time.
    fn reclaim(&mut self) {
        let Ok(entries) = std::fs::read_dir(&self.common) else { return };
        let here = Machine::this();
        let is_other = |path: &PathBuf| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.starts_with(PREFIX) && *path != self.path
        };
        let is_abandoned = |path: &Path| {
            let name = Path::new(path.file_name().unwrap_or_default());
            let held = HeldDirectory::open(&self.common)?.below(name, false)?;
            is_abandoned(&held, &here)
        };
        for path in entries.flatten().map(|entry| entry.path()).filter(is_other) {
            if is_abandoned(&path).unwrap_or(false)
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
