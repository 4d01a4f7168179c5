//! The directory of a comparison: made for it alone, and removed with all that is in it, also by a
//! second signal.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use ringfall_core::held::{HeldDirectory, Leftover, kind};
use ringfall_host::files::unguessable;
use ringfall_host::interrupt::leave_nothing_of;
use rustix::fs::{Dir, FileType, Mode, mkdirat, syncfs};

/// Mode of the directory, less what the umask takes.
const MODE: Mode = Mode::from_raw_mode(0o777);

/// See the top of the file. Dropped, it is removed.
#[derive(Debug)]
pub struct LayoutDirectory {
    made: Arc<MadeDirectory>,
}

#[derive(Debug)]
struct MadeDirectory {
    parent: HeldDirectory,
    name: String,
    inside: HeldDirectory,
}

impl LayoutDirectory {
    /// Makes one below that directory, under a name that nobody can guess.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn make(parent: &Path) -> io::Result<LayoutDirectory> {
        let parent = HeldDirectory::open_resolved(parent)?;
        let name = format!("ringfall-layouts-{}", unguessable()?);
        mkdirat(&parent, &*name, MODE)?;
        let inside = parent.below(Path::new(&name), false)?;
        let made = Arc::new(MadeDirectory { parent, name, inside });
        let weak: Weak<MadeDirectory> = Arc::downgrade(&made);
        leave_nothing_of(weak);
        Ok(LayoutDirectory { made })
    }

    /// The directory held open.
    #[must_use]
    pub fn held(&self) -> &HeldDirectory {
        &self.made.inside
    }

    /// Has its file system write what the page cache holds to the drive.
    pub(super) fn settle(&self) -> io::Result<()> {
        Ok(syncfs(self.made.inside.to_read()?)?)
    }

    /// Removes all that is in it.
    pub(super) fn clear(&self) -> io::Result<()> {
        clear(&self.made.inside)
    }

    /// Removes it.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn remove(self) -> io::Result<()> {
        self.made.try_remove()
    }
}

impl Drop for LayoutDirectory {
    fn drop(&mut self) {
        if let Err(error) = self.made.try_remove() {
            tracing::warn!("{} can't be removed: {error}", self.made.path().display());
        }
    }
}

impl MadeDirectory {
    fn path(&self) -> PathBuf {
        self.parent.path().join(&self.name)
    }

    /// Removes it, unless that has been done.
    fn try_remove(&self) -> io::Result<()> {
        if self.parent.stat_of(&self.name)?.is_none() {
            return Ok(());
        }
        clear(&self.inside)?;
        self.parent.remove_directory(&self.name)
    }
}

impl Leftover for MadeDirectory {
    fn remove(&self) {
        // What is still there is named afterwards.
        let _named = self.try_remove();
    }

    fn left(&self) -> Vec<PathBuf> {
        let is_gone = matches!(self.parent.stat_of(&self.name), Ok(None));
        if is_gone { Vec::new() } else { self.paths() }
    }

    fn paths(&self) -> Vec<PathBuf> {
        vec![self.path()]
    }
}

/// Removes all that is in a directory; no link is followed.
fn clear(directory: &HeldDirectory) -> io::Result<()> {
    let entries: Vec<_> = Dir::read_from(directory.to_read()?)?.collect::<Result<_, _>>()?;
    for entry in entries {
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        if name == "." || name == ".." {
            continue;
        }
        match directory.stat_of(name)? {
            Some(stat) if kind(&stat) == FileType::Directory => {
                clear(&directory.below(Path::new(name), false)?)?;
                directory.remove_directory(name)?;
            }
            Some(_) => directory.remove(name)?,
            None => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use ringfall_host::Scratch;

    use super::*;

    #[test]
    fn a_directory_goes_with_all_that_is_in_it_and_nothing_else() {
        let scratch = Scratch::new("layouts");
        let place = scratch.directory("place").canonicalize().unwrap();
        let theirs = scratch.file("place/theirs", "kept");
        let directory = LayoutDirectory::make(&place).unwrap();
        let inside = directory.held().path().to_path_buf();
        HeldDirectory::make(&inside.join("a/b")).unwrap();
        std::fs::write(inside.join("a/b/file"), "x").unwrap();
        std::os::unix::fs::symlink(&place, inside.join("a/link")).unwrap();
        directory.settle().unwrap();
        directory.clear().unwrap();
        assert_eq!(std::fs::read_dir(&inside).unwrap().count(), 0);
        std::fs::write(inside.join("more"), "x").unwrap();
        directory.remove().unwrap();
        assert!(!inside.exists());
        assert_eq!(std::fs::read_to_string(theirs).unwrap(), "kept");
    }
}
