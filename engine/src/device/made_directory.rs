//! The directory for files that a run makes in that of its store: recorded in the lock file as the
//! data file is, so that the next run there knows it as ours when this one is killed, and removed
//! with all that is in it.

use std::fs::read_link;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use rustix::fs::{FileType, Mode, Stat, mkdirat};

use super::identity::{Identity, Moment};
use crate::error::SetupError;
use crate::held::{HeldDirectory, kind, space_bytes};

/// Beginning of the name of a directory for files.
pub(super) const DIRECTORY_PREFIX: &str = "ringfall-layouts-";
/// Keys of a lock file: before the name and the number of the inode, and before the time of birth.
const KEY: &str = "directory ";
const BORN_KEY: &str = "directory-born ";
/// Mode of the directory, less what the umask takes.
const MODE: Mode = Mode::from_raw_mode(0o777);

/// A directory that was made; see the top of the file.
#[derive(Debug)]
pub(super) struct MadeDirectory {
    pub(super) name: String,
    pub(super) identity: Identity,
    pub(super) inside: Arc<HeldDirectory>,
    /// Number of files that its removal has deleted so far.
    pub(super) removed: AtomicU64,
}

impl MadeDirectory {
    /// Makes it, with a name that ends with `unique`: hexadecimal digits that nobody can guess.
    pub(super) fn make(parent: &HeldDirectory, unique: &str) -> io::Result<MadeDirectory> {
        let name = format!("{DIRECTORY_PREFIX}{unique}");
        mkdirat(parent, &*name, MODE)?;
        let opened = parent.below(Path::new(&name), false);
        let known = opened.and_then(|inside| Ok((Identity::of(&inside, "")?, inside)));
        // The first error counts; one that is left is empty, and reclaimed by the next run.
        let (identity, inside) = known.inspect_err(|_| drop(parent.remove_directory(&name)))?;
        Ok(MadeDirectory { name, identity, inside: Arc::new(inside), removed: AtomicU64::new(0) })
    }

    /// Lines of the lock file that record it.
    pub(super) fn record(&self) -> String {
        self.identity.record(&format!("{KEY}{} ", self.name), BORN_KEY)
    }

    pub(super) fn remove(&self, parent: &HeldDirectory) -> io::Result<()> {
        self.inside.clear_counted(&self.removed)?;
        parent.remove_directory(&self.name)
    }

    /// Checks that it is gone, and was not moved while the run kept files in it.
    pub(super) fn check_gone(&self) -> Result<(), SetupError> {
        // What is removed has no name.
        if !self.inside.stat().is_ok_and(|stat| stat.st_nlink > 0) {
            return Ok(());
        }
        let known = read_link(format!("/proc/self/fd/{}", self.inside.as_fd().as_raw_fd()));
        let now = known.map_or_else(|error| error.to_string(), |path| path.display().to_string());
        let was = self.inside.path().display();
        let what = format!("{was} was moved while the run kept its files in it, to {now}");
        Err(SetupError::new(what, "delete it there, unless its files are wanted"))
    }
}

/// Names of the directories in a directory that are named as those for files are, whoever made
/// them; of one that may not be listed, none.
pub(super) fn made_directories(parent: &HeldDirectory) -> io::Result<Vec<String>> {
    let names = match parent.names_in() {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Ok(Vec::new()),
        names => names?,
    };
    let is_named = |name: &String| {
        let unique = name.strip_prefix(DIRECTORY_PREFIX).unwrap_or_default();
        !unique.is_empty() && unique.bytes().all(|byte| byte.is_ascii_hexdigit())
    };
    let is_directory = |name: &String| {
        let found = parent.stat_of(name).ok().flatten();
        found.is_some_and(|stat| kind(&stat) == FileType::Directory)
    };
    let names = names.into_iter().filter_map(|name| name.into_string().ok());
    Ok(names.filter(is_named).filter(is_directory).collect())
}

/// Deletes the directory that a dead run recorded in the text of a lock file `written` then, if it
/// still is the one it made, and those that nothing is in: of runs that lost their power before
/// they could record them. Bytes freed.
pub(super) fn reclaim_directories(
    parent: &HeldDirectory,
    text: &str,
    written: Moment,
) -> io::Result<u64> {
    let mut freed_bytes = 0;
    for name in made_directories(parent)? {
        let is_own = |stat: &Stat| {
            kind(stat) == FileType::Directory && stat.st_uid == rustix::process::geteuid().as_raw()
        };
        let Some(stat) = parent.stat_unmounted(&name)?.filter(is_own) else { continue };
        // One that can't be opened is named as a foreign one.
        let Ok(inside) = parent.below(Path::new(&name), false) else { continue };
        let found = Identity::of(&inside, "")?;
        let recorded = Identity::recorded_in(text, &format!("{KEY}{name} "), BORN_KEY);
        // Nobody guesses the name of one that a lock file records.
        if recorded.is_some_and(|own| own.is_of(found, written, true)) {
            freed_bytes += space_bytes(&stat) + inside.space_bytes();
            inside.clear()?;
        } else if !inside.names_in()?.is_empty() {
            continue;
        }
        parent.remove_directory(&name)?;
    }
    Ok(freed_bytes)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::directory::CacheDir;

    #[test]
    fn a_directory_for_files_goes_with_all_that_is_in_it() {
        let path = std::env::temp_dir().join(format!("ringfall-files-{}", std::process::id()));
        let mut place = CacheDir::open(&path).unwrap();
        let inside = place.make_directory("0a").unwrap();
        fs::write(inside.path().join("object"), b"x").unwrap();
        place.remove().unwrap();
        assert!(!path.exists());
        // Nobody spoke of one that had been moved.
        let mut place = CacheDir::open(&path).unwrap();
        let inside = place.make_directory("0a").unwrap();
        fs::write(inside.path().join("object"), b"x").unwrap();
        let moved = path.with_extension("moved");
        fs::rename(inside.path(), &moved).unwrap();
        let told = place.remove().unwrap_err().to_string();
        assert!(told.contains(&format!("files in it, to {}: delete", moved.display())), "{told}");
        assert!(!path.exists());
        fs::remove_dir_all(moved).unwrap();
    }
}
