//! The directory of a store: locked, marked as ours, and cleaned of nothing but our own files.
//!
//! Layout: `ringfall.lock` (locked while a run lives; lines `file NAME INODE` and `born S.NS` when
//! the data file is there) beside the data file `ringfall.kv`, or a directory for files, recorded
//! alike. Those lines are durable before either grows, so that a loss of power leaves nothing that
//! nobody knows to be ours.

use std::fs::{self, File, TryLockError};
use std::io::{self, Read};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock, Weak};

use rustix::fs::{FileType, OFlags, Stat};

use super::identity::{Identity, Moment};
use super::made_directory::{MadeDirectory, made_directories, reclaim_directories};
use crate::error::SetupError;
use crate::held::{HeldDirectory, Leftover, Stranger, errno_of, kind, space_bytes};
use crate::units::BLOCK_BYTES;

/// Name of the file in a store's directory that a run holds locked while it lives.
pub const LOCK_NAME: &str = "ringfall.lock";
/// Name of the data file in a cache directory.
pub const DATA_NAME: &str = "ringfall.kv";
/// Keys of the data file's record in the lock file.
const DATA_KEY: &str = "file ringfall.kv ";
const DATA_BORN_KEY: &str = "born ";
const MARKER: &str = "ringfall store v1";
/// Longest lock file believed.
const LOCK_MAX_BYTES: u64 = 64 << 10;

/// Directories nobody's benchmark belongs in, with everything below them.
const SYSTEM_TREES: [&str; 10] =
    ["/etc", "/bin", "/sbin", "/usr", "/boot", "/sys", "/proc", "/lib", "/lib64", "/root"];

/// A locked store directory. [`CacheDir::remove`] (or drop) deletes what it made, nothing else.
#[derive(Debug)]
pub struct CacheDir {
    made: Arc<MadeFiles>,
    reclaimed_bytes: u64,
    removed: bool,
}

/// The files and directories that a run made for its store.
#[derive(Debug)]
pub struct MadeFiles {
    directory: HeldDirectory,
    lock: File,
    /// Directories that were not there before, the deepest first.
    directories: Vec<PathBuf>,
    /// The data file's, once it is made.
    data: OnceLock<Identity>,
    /// The directory for files, once it is made.
    files: OnceLock<MadeDirectory>,
}

impl CacheDir {
    /// Locks `path`, making it and what it is in if they are not there, and deletes data files and
    /// directories for files that an earlier run which died left in it.
    ///
    /// # Errors
    /// A system directory, no permission, not a directory, in use by a living run, or something
    /// in it that has the name of the lock file, the data file or a directory for files and is none
    /// of ours.
    pub fn open(path: &Path) -> Result<CacheDir, SetupError> {
        let given = path.to_path_buf();
        let mut directories = Vec::new();
        refuse_others_link(path).map_err(|e| directory_error("open", path, &e))?;
        if !path.exists() {
            let resolved = resolve_missing(path);
            refuse_system_directory(path, &resolved)?;
            let missing = resolved.ancestors().take_while(|ancestor| !ancestor.exists());
            directories.extend(missing.map(Path::to_path_buf));
            HeldDirectory::make(path).map_err(|error| {
                let _what_was_made = remove_directories(&directories);
                directory_error("create", path, &error)
            })?;
        }
        let path = path.canonicalize().map_err(|e| directory_error("open", path, &e))?;
        refuse_system_directory(&given, &path)?;
        if !path.is_dir() {
            return Err(SetupError::NotADirectory { path: given });
        }
        let directory =
            HeldDirectory::open_resolved(&path).map_err(|e| directory_error("open", &path, &e))?;
        let is_empty = |stat: Stat| stat.st_size == 0;
        let was_empty = directory.stat_of(LOCK_NAME).is_ok_and(|found| found.is_some_and(is_empty));
        let lock = take_lock(&directory).inspect_err(|_| {
            // What others have put there meanwhile stays.
            let _what_was_made = remove_directories(&directories);
        })?;
        let (data, files) = (OnceLock::new(), OnceLock::new());
        let made = MadeFiles { directory, lock, directories, data, files };
        let reclaimed_bytes = reclaim(&made.directory, &made.lock)?;
        // Before the space that it takes is missing.
        let begun = match first_foreign(&made.directory) {
            Ok(None) => made.write_lock_file(),
            Ok(Some(name)) => Err(foreign(&made.directory, &name)),
            Err(error) => Err(directory_error("look at", made.directory.path(), &error)),
        };
        if let Err(error) = begun {
            // Nobody holds it yet who would delete it. An empty file of its name may be anybody's.
            let _what_can_be = (!was_empty).then(|| made.remove());
            return Err(error);
        }
        Ok(CacheDir { made: Arc::new(made), reclaimed_bytes, removed: false })
    }

    /// Checks whether `path` is a directory outside the system's, or could become one. Nothing is
    /// made or locked.
    ///
    /// # Errors
    /// A system directory, or not a directory.
    pub fn check(path: &Path) -> Result<(), SetupError> {
        refuse_system_directory(path, &resolve_missing(path))?;
        match path.exists() && !path.is_dir() {
            true => Err(SetupError::NotADirectory { path: path.to_path_buf() }),
            false => Ok(()),
        }
    }

    /// Deletes, of the directories in `parent` that `is_ours` knows by their names, those whose run
    /// has died, with the data files in them, and says how many bytes that freed. Anything in
    /// doubt is left alone: another user's, one without a lock file that a run has written to, one
    /// that is locked, one that holds more.
    pub fn reclaim_dead(parent: &Path, is_ours: impl Fn(&str) -> bool) -> u64 {
        let (Ok(entries), Ok(held)) = (fs::read_dir(parent), HeldDirectory::open(parent)) else {
            return 0;
        };
        let names = entries.flatten().map(|entry| entry.file_name());
        let ours = names.filter(|name| name.to_str().is_some_and(&is_ours));
        ours.filter_map(|name| reclaim_whole(&held, Path::new(&name))).sum()
    }

    /// Deletes what a run that died left in the directory `path`, so that its space is free before
    /// it is asked for. Nothing is made where there is none.
    ///
    /// # Errors
    /// Those of [`CacheDir::open`] and [`CacheDir::remove`].
    pub fn reclaim_in(path: &Path) -> Result<(), SetupError> {
        match path.exists() {
            true => CacheDir::open(path)?.remove(),
            false => Ok(()),
        }
    }

    /// Path of the directory that holds this run's data files.
    pub fn path(&self) -> &Path {
        self.made.directory.path()
    }

    /// Bytes freed by deleting what a dead run had left.
    pub fn reclaimed_bytes(&self) -> u64 {
        self.reclaimed_bytes
    }

    /// Files made so far, for whoever ends the process while this lives.
    pub fn made(&self) -> Weak<MadeFiles> {
        Arc::downgrade(&self.made)
    }

    /// Bytes an ordinary user may still write to this file system.
    pub fn free_bytes(&self) -> Result<u64, SetupError> {
        let stat = rustix::fs::statvfs(self.path()).map_err(|errno| {
            directory_error("ask for the free space of", self.path(), &errno.into())
        })?;
        Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
    }

    /// Makes the data file, which is durably recorded as ours before anything is written to it.
    ///
    /// # Errors
    /// When a file of that name is there that ringfall did not make, or O_DIRECT is refused.
    pub fn create_data_file(&mut self) -> Result<(File, PathBuf), SetupError> {
        let MadeFiles { directory, data, .. } = &*self.made;
        let path = self.path().join(DATA_NAME);
        let opened = directory.create(DATA_NAME, OFlags::DIRECT);
        let file = opened.map_err(|error| match error.raw_os_error() {
            Some(libc::EEXIST) => foreign(directory, DATA_NAME),
            Some(libc::EINVAL) => {
                // open(2): the file is left behind although O_DIRECT was refused.
                let _made_by_this_call = directory.remove(DATA_NAME);
                SetupError::NoDirectIo { path: self.path().to_path_buf() }
            }
            _ => directory_error("create a file in", self.path(), &error),
        })?;
        let identity = Identity::of(&file, "");
        let _first = data.set(identity.map_err(|error| directory_error("read", &path, &error))?);
        self.made.record()?;
        Ok((file, path))
    }

    /// Makes a directory for files, whose name ends with `unique`, hexadecimal digits that nobody
    /// can guess; it is durably recorded as ours before anything is in it.
    ///
    /// # Errors
    /// When it can't be made or recorded.
    ///
    /// # Panics
    /// When it has one already: a bug of the caller.
    pub fn make_directory(&mut self, unique: &str) -> Result<Arc<HeldDirectory>, SetupError> {
        let made = MadeDirectory::make(&self.made.directory, unique)
            .map_err(|e| directory_error("create a directory in", self.path(), &e))?;
        let inside = Arc::clone(&made.inside);
        assert!(self.made.files.set(made).is_ok(), "a store has one directory for files");
        self.made.record()?;
        Ok(inside)
    }

    /// Deletes the data file, the directory for files with all that is in it, the lock file, and
    /// the directories that this run made on the way to them, unless somebody put files of their
    /// own into those.
    ///
    /// # Errors
    /// The first deletion that failed, after trying all of them.
    pub fn remove(mut self) -> Result<(), SetupError> {
        self.removed = true;
        self.made.remove()
    }
}

impl Drop for CacheDir {
    fn drop(&mut self) {
        if !self.removed
            && let Err(error) = self.made.remove()
        {
            tracing::warn!("{error}");
        }
    }
}

impl MadeFiles {
    /// Deletes what is still there of them. May be called again. Where the data file or what is in
    /// the directory for files can't be deleted, the lock file stays: by its record the next run
    /// knows them as ours.
    ///
    /// # Errors
    /// The files that are left behind, or the first directory that could not be deleted.
    pub fn remove(&self) -> Result<(), SetupError> {
        let removed = self.names().try_for_each(|name| {
            match self.is_there(name).map(|is_there| is_there.then(|| self.delete(name))) {
                Ok(Some(Err(error))) | Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    Err(error)
                }
                _ => Ok(()),
            }
        });
        let Err(error) = removed else {
            remove_directories(&self.directories)?;
            return self.files.get().map_or(Ok(()), MadeDirectory::check_gone);
        };
        let data = self.data.get().and_then(|_| self.directory.stat_unmounted(DATA_NAME).ok()?);
        let inside_bytes = self.files.get().map_or(0, |made| made.inside.space_bytes());
        Err(SetupError::LeftBehind {
            paths: self.left(),
            bytes: data.map_or(0, |stat| space_bytes(&stat)) + inside_bytes,
            errno: errno_of(&error),
            reason: error.to_string(),
        })
    }

    /// Number of files in the directory for files that [`MadeFiles::remove`] has deleted so far,
    /// without a look at the file system, which may not answer.
    pub fn removed_files(&self) -> u64 {
        self.files.get().map_or(0, |made| made.removed.load(Ordering::Relaxed))
    }

    /// Names of what was made in the directory, the lock file's last.
    fn names(&self) -> impl Iterator<Item = &str> {
        let data = self.data.get().map(|_| DATA_NAME);
        let made = self.files.get().map(|made| &*made.name);
        data.into_iter().chain(made).chain([LOCK_NAME])
    }

    /// Deletes what has that name, which is ours.
    fn delete(&self, name: &str) -> io::Result<()> {
        match self.files.get() {
            Some(made) if made.name == name => made.remove(&self.directory),
            _ => self.directory.remove(name),
        }
    }

    /// Whether that name is still this run's file: the directory may have been moved away, and
    /// another run's stand in its place.
    fn is_there(&self, name: &str) -> io::Result<bool> {
        if name == LOCK_NAME {
            let Some(there) = self.directory.stat_of(name)? else { return Ok(false) };
            let own = rustix::fs::fstat(&self.lock)?;
            return Ok((there.st_dev, there.st_ino) == (own.st_dev, own.st_ino));
        }
        // What is mounted on it is not it, and it is still there.
        self.directory.stat_unmounted(name)?;
        let made = self.files.get().filter(|made| made.name == name).map(|made| &made.identity);
        match made.or(self.data.get()) {
            Some(made) => Ok(Identity::of(&self.directory, name)? == *made),
            None => Ok(false),
        }
    }

    /// Records what has been made, durably.
    fn record(&self) -> Result<(), SetupError> {
        self.write_lock_file()?;
        self.lock.sync_all().and_then(|()| self.directory.sync()).map_err(|error| {
            directory_error("make the lock file durable in", self.directory.path(), &error)
        })
    }

    /// Never empty at any moment: what was there is written over.
    fn write_lock_file(&self) -> Result<(), SetupError> {
        let mut text = format!("{MARKER}\npid {}\n", std::process::id());
        let data = self.data.get().map(|data| data.record(DATA_KEY, DATA_BORN_KEY));
        let made = self.files.get().map(MadeDirectory::record);
        text.extend(data.into_iter().chain(made));
        let written = self
            .lock
            .write_all_at(text.as_bytes(), 0)
            .and_then(|()| self.lock.set_len(text.len() as u64));
        written.map_err(|e| directory_error("write the lock file in", self.directory.path(), &e))
    }
}

/// Removes directories that were made, the deepest first, up to one that holds anything: it is not
/// ours to delete.
fn remove_directories(made: &[PathBuf]) -> Result<(), SetupError> {
    for directory in made {
        match fs::remove_dir(directory) {
            Err(error) if error.raw_os_error() == Some(libc::ENOTEMPTY) => break,
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(directory_error("delete", directory, &error));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Where everybody may make files, such as in `/tmp`, a link would have any directory used.
fn refuse_others_link(path: &Path) -> io::Result<()> {
    let Some(name) = path.file_name() else { return Ok(()) };
    match HeldDirectory::open(path.parent().unwrap_or(Path::new(""))) {
        Ok(parent) => parent.own_link(name).map(drop),
        Err(error) if error.get_ref().is_some() => Err(error),
        // It is missing, or something else is wrong that is found next.
        Err(_) => Ok(()),
    }
}

/// Opens and locks the lock file, which is made where it is missing.
fn take_lock(directory: &HeldDirectory) -> Result<File, SetupError> {
    let path = directory.path();
    loop {
        let lock = directory.open_lock(LOCK_NAME).map_err(|error| {
            let stranger = error.get_ref().and_then(|inner| inner.downcast_ref::<Stranger>());
            match stranger {
                Some(stranger) => SetupError::ForeignLockFile {
                    path: path.join(LOCK_NAME),
                    reason: stranger.to_string(),
                },
                None => directory_error("write to", path, &error),
            }
        })?;
        match lock.try_lock() {
            // A run that has just ended removed the one that was opened.
            Ok(()) if !directory.names(LOCK_NAME, &lock) => {}
            Ok(()) => return Ok(lock),
            Err(TryLockError::WouldBlock) => {
                return Err(SetupError::StoreInUse { path: path.to_path_buf() });
            }
            Err(TryLockError::Error(error)) => return Err(directory_error("lock", path, &error)),
        }
    }
}

/// Deletes a dead run's directory: bytes freed, or nothing was done.
fn reclaim_whole(parent: &HeldDirectory, name: &Path) -> Option<u64> {
    let directory = parent.below(name, false).ok()?;
    if directory.stat().ok()?.st_uid != rustix::process::geteuid().as_raw() {
        return None;
    }
    let lock = directory.open_own(LOCK_NAME, OFlags::empty()).ok()?;
    // Looked at before it is locked: a run that is just beginning must find it free, and has
    // written nothing yet. One that lives holds its lock; its number tells nothing where each
    // container counts its processes from 1.
    let mut text = String::new();
    (&lock).take(LOCK_MAX_BYTES).read_to_string(&mut text).ok()?;
    text.lines().find(|line| line.starts_with("pid "))?;
    lock.try_lock().ok()?;
    let freed_bytes = reclaim(&directory, &lock).ok()?;
    directory.remove(LOCK_NAME).ok()?;
    // Not empty: somebody keeps files there.
    let _removed = parent.remove_directory(name);
    Some(freed_bytes)
}

/// Deletes the data file that a dead run recorded, if it still is the one it made, or that has
/// nothing in it: a run that lost its power before it could record it; and directories for files
/// alike. Bytes freed.
fn reclaim(directory: &HeldDirectory, lock: &File) -> Result<u64, SetupError> {
    let mut text = vec![0; LOCK_MAX_BYTES as usize];
    let length = lock.read_at(&mut text, 0);
    let length = length.map_err(|e| directory_error("read the lock file in", directory.path(), &e));
    let text = std::str::from_utf8(&text[..length?]).map_err(|_| foreign_lock_file(directory))?;
    if !text.is_empty() && !text.starts_with(MARKER) {
        return Err(foreign_lock_file(directory));
    }
    let recorded = Identity::recorded_in(text, DATA_KEY, DATA_BORN_KEY);
    let path = || directory.path().join(DATA_NAME);
    let found = directory.stat_unmounted(DATA_NAME);
    let found = found.map_err(|e| directory_error("read", &path(), &e))?;
    let written = lock.metadata();
    let written = written.map_err(|e| directory_error("look at", directory.path(), &e))?;
    let written = Moment { s: written.mtime(), ns: written.mtime_nsec() };
    let freed_bytes = reclaim_directories(directory, text, written)
        .map_err(|e| directory_error("delete what a run left in", directory.path(), &e))?;
    let is_ours = |stat: &Stat| {
        let found = Identity::of(directory, DATA_NAME).ok();
        let is_own = stat.st_uid == rustix::process::geteuid().as_raw() && stat.st_nlink == 1;
        let is_whole =
            u64::try_from(stat.st_size).is_ok_and(|size| size.is_multiple_of(BLOCK_BYTES));
        let is_of = |(own, it): (Identity, _)| own.is_of(it, written, is_own && is_whole);
        let is_recorded = recorded.zip(found).is_some_and(is_of);
        kind(stat) == FileType::RegularFile && (is_recorded || (is_own && stat.st_size == 0))
    };
    let Some(found) = found.filter(is_ours) else { return Ok(freed_bytes) };
    // The kernel may hold the file of a run that was killed a moment ago open for a while: emptied,
    // its space is free all the same. Of a file with another name, which may be wanted, only the
    // name goes.
    if let Ok(file) = directory.open_own(DATA_NAME, OFlags::empty())
        && file.metadata().is_ok_and(|metadata| metadata.ino() == found.st_ino)
    {
        let _or_free_when_it_is_closed = file.set_len(0);
    }
    directory.remove(DATA_NAME).map_err(|e| directory_error("delete", &path(), &e))?;
    Ok(freed_bytes + space_bytes(&found))
}

/// Name of the data file or of a directory for files, where nothing of ours is left.
fn first_foreign(directory: &HeldDirectory) -> io::Result<Option<String>> {
    match directory.stat_of(DATA_NAME)? {
        Some(_) => Ok(Some(DATA_NAME.to_owned())),
        None => Ok(made_directories(directory)?.into_iter().next()),
    }
}

fn foreign(directory: &HeldDirectory, name: &str) -> SetupError {
    let found = directory.stat_of(name).ok().flatten();
    let inside = directory.below(Path::new(name), false).ok();
    let bytes = found.map_or(0, |stat| space_bytes(&stat))
        + inside.map_or(0, |inside| inside.space_bytes());
    SetupError::ForeignDataFile { path: directory.path().join(name), bytes }
}

fn foreign_lock_file(directory: &HeldDirectory) -> SetupError {
    let reason = "it was not written by ringfall".to_owned();
    SetupError::ForeignLockFile { path: directory.path().join(LOCK_NAME), reason }
}

/// The path that creating `path` would make: the deepest existing part resolved, the rest as is.
fn resolve_missing(path: &Path) -> PathBuf {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
    for ancestor in absolute.ancestors() {
        if let Ok(real) = ancestor.canonicalize() {
            let rest = absolute.strip_prefix(ancestor).unwrap_or(Path::new(""));
            let mut resolved = real;
            for component in rest.components() {
                match component {
                    Component::ParentDir => {
                        resolved.pop();
                    }
                    other => resolved.push(other),
                }
            }
            return resolved;
        }
    }
    absolute
}

fn refuse_system_directory(given: &Path, resolved: &Path) -> Result<(), SetupError> {
    let refused = resolved == Path::new("/")
        || SYSTEM_TREES.iter().any(|tree| resolved.starts_with(tree))
        || (resolved.starts_with("/dev") && !is_below(resolved, "/dev/shm"));
    if refused {
        let (path, resolved) = (given.to_path_buf(), resolved.to_path_buf());
        return Err(SetupError::SystemDirectory { path, resolved });
    }
    Ok(())
}

fn is_below(path: &Path, root: &str) -> bool {
    path.starts_with(root) && path != Path::new(root)
}

fn directory_error(doing: &'static str, path: &Path, error: &io::Error) -> SetupError {
    SetupError::Directory {
        doing,
        path: path.to_path_buf(),
        errno: errno_of(error),
        reason: error.to_string(),
    }
}

impl Leftover for MadeFiles {
    fn remove(&self) {
        // What is still there afterwards is named.
        let _looked_at_later = MadeFiles::remove(self);
    }

    fn left(&self) -> Vec<PathBuf> {
        let is_left = |name: &&str| {
            // One that can't be looked at may be there.
            self.is_there(name).unwrap_or_else(|error| error.kind() != io::ErrorKind::NotFound)
        };
        self.names().filter(is_left).map(|name| self.directory.path().join(name)).collect()
    }

    fn paths(&self) -> Vec<PathBuf> {
        self.names().map(|name| self.directory.path().join(name)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scratch(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("ringfall-dir-{}-{name}", std::process::id()))
    }

    #[test]
    fn refuses_system_directories_also_through_dots_and_before_they_exist() {
        for path in [
            "/",
            "/etc",
            "/etc/x",
            "/usr/local/x",
            "/proc",
            "/sys/x",
            "/dev",
            "/dev/shm",
            "/root",
            "/tmp/../etc/new",
            "/boot/x/y",
        ] {
            let error = CacheDir::open(Path::new(path)).expect_err(path);
            assert!(matches!(error, SetupError::SystemDirectory { .. }), "{path}: {error}");
            let checked = CacheDir::check(Path::new(path)).expect_err(path);
            assert_eq!(checked.to_string(), error.to_string());
        }
        let new = scratch("checked");
        assert!(CacheDir::check(&new).is_ok() && !new.exists(), "nothing is made");
    }

    /// Only where it leads was named, which nobody had typed.
    #[test]
    fn a_link_to_a_system_directory_is_named_as_it_was_given() {
        let link = scratch("to-system");
        std::os::unix::fs::symlink("/proc/version", &link).unwrap();
        let error = CacheDir::open(&link).unwrap_err().to_string();
        fs::remove_file(&link).unwrap();
        let told = format!("{} is /proc/version, which belongs to the system", link.display());
        assert!(error.starts_with(&told), "{error}");
    }

    #[test]
    fn a_second_run_is_refused_and_the_first_cleans_up_after_itself() {
        let path = scratch("lock");
        let mut first = CacheDir::open(&path).unwrap();
        first.create_data_file().unwrap();
        let error = CacheDir::open(&path).unwrap_err();
        assert!(matches!(error, SetupError::StoreInUse { .. }), "{error}");
        first.remove().unwrap();
        assert!(!path.exists());
    }

    #[test]
    fn what_a_dead_run_left_is_reclaimed_and_nothing_else() {
        let path = scratch("dead");
        let mut dead = CacheDir::open(&path).unwrap();
        dead.create_data_file().unwrap();
        // What `kill -9` leaves: the files, and a lock nobody holds.
        dead.removed = true;
        drop(dead);
        fs::write(path.join("precious"), b"theirs").unwrap();
        let second = CacheDir::open(&path).unwrap();
        assert!(!path.join("ringfall.kv").exists());
        second.remove().unwrap();
        assert_eq!(fs::read(path.join("precious")).unwrap(), b"theirs");
        fs::remove_dir_all(path).unwrap();
    }

    /// A foreign file that had got the inode number of a lost data file was deleted.
    #[test]
    fn a_file_with_the_inode_of_a_lost_one_is_ours_only_if_it_was_born_at_that_time() {
        let path = scratch("recycled");
        let mut dead = CacheDir::open(&path).unwrap();
        let (_held, data) = dead.create_data_file().unwrap();
        fs::write(&data, b"content").unwrap();
        dead.removed = true;
        let made = *dead.made.data.get().unwrap();
        drop(dead);
        let lock = path.join(LOCK_NAME);
        let Some(born) = made.born else {
            fs::remove_dir_all(&path).unwrap();
            return eprintln!("skipped: {} keeps no times of birth", path.display());
        };
        let text = fs::read_to_string(&lock).unwrap();
        let of_earlier_version = text.replace(&format!("born {}.{:09}\n", born.s, born.ns), "");
        let own = format!("born {}.", born.s);
        let records = [
            (text.replace(&own, "born 1."), born.s, false),
            (text.replace(&own, "born x."), born.s, false),
            (of_earlier_version.clone(), born.s - 1, false),
            (of_earlier_version, born.s + 1, true),
        ];
        for (text, written_s, is_ours) in records {
            fs::write(&lock, &text).unwrap();
            let written = std::time::UNIX_EPOCH + std::time::Duration::from_secs(written_s as u64);
            File::options().write(true).open(&lock).unwrap().set_modified(written).unwrap();
            let next = CacheDir::open(&path);
            assert_eq!(data.exists(), !is_ours, "{text}");
            drop(next);
        }
        fs::remove_dir_all(path).unwrap();
    }

    /// Any file with that inode number was deleted.
    #[test]
    fn without_times_of_birth_only_a_file_like_ours_is_taken_for_it() {
        let (own, written) = (Identity { inode: 7, born: None }, Moment { s: 1, ns: 0 });
        assert!(own.is_of(own, written, true) && !own.is_of(own, written, false));
        assert!(!own.is_of(Identity { inode: 8, born: None }, written, true));
    }

    /// A run right after `kill -9` had room for all but what the dead one's ring still held open.
    #[test]
    fn the_space_of_a_leftover_is_free_at_once_unless_it_has_another_name() {
        for is_linked in [false, true] {
            let path = scratch(&format!("held-{is_linked}"));
            let mut dead = CacheDir::open(&path).unwrap();
            let (held, data) = dead.create_data_file().unwrap();
            held.set_len(1 << 20).unwrap();
            dead.removed = true;
            drop(dead);
            if is_linked {
                fs::hard_link(&data, path.join("theirs")).unwrap();
            }
            let second = CacheDir::open(&path).unwrap();
            assert!(!data.exists());
            assert_eq!(held.metadata().unwrap().len(), if is_linked { 1 << 20 } else { 0 });
            second.remove().unwrap();
            fs::remove_dir_all(path).unwrap();
        }
    }

    /// Nobody deleted it or spoke of it.
    #[test]
    fn a_directory_that_a_dead_run_left_is_reclaimed_and_one_of_nobody_is_named() {
        let path = scratch("dead-files");
        let mut dead = CacheDir::open(&path).unwrap();
        let inside = dead.make_directory("0a").unwrap();
        assert_eq!(dead.made().upgrade().unwrap().left().len(), 2);
        fs::create_dir_all(inside.path().join("a/b")).unwrap();
        fs::write(inside.path().join("a/b/object"), [1; 9_000]).unwrap();
        dead.removed = true;
        drop(dead);
        for name in ["ringfall-layouts-0b", "ringfall-layouts-theirs"] {
            fs::create_dir(path.join(name)).unwrap();
        }
        fs::write(path.join("ringfall-layouts-0c"), b"theirs").unwrap();
        let mut next = CacheDir::open(&path).unwrap();
        assert!(!inside.path().exists() && !path.join("ringfall-layouts-0b").exists());
        // Another one of that name is none of the dead run's.
        let inside = next.make_directory("0a").unwrap();
        next.removed = true;
        drop(next);
        fs::rename(inside.path(), path.join("moved")).unwrap();
        fs::create_dir(inside.path()).unwrap();
        fs::write(inside.path().join("object"), b"theirs").unwrap();
        let error = CacheDir::open(&path).unwrap_err();
        assert!(
            matches!(&error, SetupError::ForeignDataFile { path, .. } if path == inside.path())
        );
        assert_eq!(fs::read(inside.path().join("object")).unwrap(), b"theirs");
        fs::remove_dir_all(inside.path()).unwrap();
        CacheDir::open(&path).unwrap().remove().unwrap();
        assert!(path.join("moved").exists() && path.join("ringfall-layouts-theirs").exists());
        assert!(path.join("ringfall-layouts-0c").exists());
        fs::remove_dir_all(path).unwrap();
    }

    /// It was to be deleted by hand, with what was mounted there.
    #[test]
    fn what_is_mounted_on_a_file_or_directory_of_ours_is_named_to_be_unmounted() {
        use rustix::mount::{UnmountFlags, mount_bind, unmount};
        let (path, theirs) = (scratch("mounted"), scratch("theirs"));
        fs::create_dir_all(&theirs).unwrap();
        let file = theirs.join("file");
        fs::write(&file, b"theirs").unwrap();
        let mut place = CacheDir::open(&path).unwrap();
        let inside = place.make_directory("0a").unwrap();
        let (_held, data) = place.create_data_file().unwrap();
        fs::write(&data, [0; BLOCK_BYTES as usize]).unwrap();
        let points = [(inside.path(), theirs.as_path()), (data.as_path(), file.as_path())];
        if let Err(errno) = points.iter().try_for_each(|(at, what)| mount_bind(*what, *at)) {
            return eprintln!("skipped: mounting is refused ({errno})");
        }
        assert!(place.remove().unwrap_err().to_string().contains(" is a mount point, and nothing"));
        for _ in points {
            let told = CacheDir::open(&path).unwrap_err().to_string();
            let at = told.split(" is a mount point").next().and_then(|at| at.rsplit(": ").next());
            unmount(at.expect(&told), UnmountFlags::DETACH).expect(&told);
        }
        CacheDir::open(&path).unwrap().remove().unwrap();
        assert!(fs::remove_dir(path).is_ok() && fs::read(file).unwrap() == b"theirs");
        fs::remove_dir_all(theirs).unwrap();
    }

    #[test]
    fn a_link_of_another_user_is_no_place_for_a_store() {
        let there = scratch("others-link");
        let link = scratch("others-link-itself");
        fs::create_dir_all(&there).unwrap();
        std::os::unix::fs::symlink(&there, &link).unwrap();
        CacheDir::open(&link).unwrap().remove().unwrap();
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::lchown(&link, Some(65_534), None).unwrap();
            let error = CacheDir::open(&link).unwrap_err();
            assert!(error.to_string().contains("link of another user"), "{error}");
        }
        fs::remove_file(link).unwrap();
        fs::remove_dir(there).unwrap();
    }

    #[test]
    fn the_lock_file_of_another_run_in_our_place_survives() {
        let (path, moved) = (scratch("moved"), scratch("moved-away"));
        let first = CacheDir::open(&path).unwrap();
        fs::rename(&path, &moved).unwrap();
        let second = CacheDir::open(&path).unwrap();
        drop(first);
        assert!(path.join(LOCK_NAME).exists());
        second.remove().unwrap();
        assert!(!path.exists());
        fs::remove_dir_all(moved).unwrap();
    }

    #[test]
    fn directories_made_on_the_way_go_and_those_that_were_there_stay() {
        let there = scratch("there");
        fs::create_dir_all(&there).unwrap();
        let path = there.join("one/two/../two/three");
        CacheDir::open(&path).unwrap().remove().unwrap();
        assert_eq!(fs::read_dir(&there).unwrap().count(), 0);
        let kept = CacheDir::open(&path).unwrap();
        fs::write(there.join("one/theirs"), b"theirs").unwrap();
        kept.remove().unwrap();
        assert!(there.join("one/theirs").exists() && !there.join("one/two").exists());
        fs::remove_dir_all(there).unwrap();
    }

    #[test]
    fn whole_directories_of_dead_runs_are_reclaimed_and_those_in_doubt_are_not() {
        let parent = scratch("orphans");
        let left_by = |name: &str, pid: u32| {
            let mut left = CacheDir::open(&parent.join(name)).unwrap();
            let (file, _) = left.create_data_file().unwrap();
            let lock = parent.join(name).join(LOCK_NAME);
            let text = fs::read_to_string(&lock).unwrap();
            let own = format!("pid {}", std::process::id());
            fs::write(&lock, text.replace(&own, &format!("pid {pid}"))).unwrap();
            file.set_len(1 << 20).unwrap();
            left
        };
        let die = |mut directory: CacheDir| directory.removed = true;
        // No process has the highest number there can be.
        let nobody = i32::MAX as u32;
        die(left_by("ringfall-1", nobody));
        // In each container the first process has number 1: what one had left was never deleted.
        die(left_by("ringfall-2", std::process::id()));
        let locked = left_by("ringfall-3", nobody);
        die(left_by("theirs-4", nobody));
        fs::create_dir(parent.join("ringfall-5")).unwrap();
        std::os::unix::fs::symlink("theirs-4", parent.join("ringfall-6")).unwrap();
        die(left_by("ringfall-7", nobody));
        fs::write(parent.join("ringfall-7/precious"), b"theirs").unwrap();
        let _bytes = CacheDir::reclaim_dead(&parent, |name| name.starts_with("ringfall-"));
        let left = |name: &str| parent.join(name).join(DATA_NAME).exists();
        assert!(!parent.join("ringfall-1").exists() && !parent.join("ringfall-2").exists());
        assert!(left("ringfall-3") && left("theirs-4"));
        assert!(parent.join("ringfall-5").exists() && left("ringfall-6"));
        assert!(!left("ringfall-7") && parent.join("ringfall-7/precious").exists());
        drop(locked);
        fs::remove_dir_all(parent).unwrap();
    }

    #[test]
    fn a_file_of_our_name_that_we_did_not_make_survives() {
        let path = scratch("foreign");
        fs::create_dir_all(&path).unwrap();
        let foreign = path.join("ringfall.kv");
        fs::write(&foreign, b"theirs").unwrap();
        fs::write(path.join(LOCK_NAME), format!("{MARKER}\npid 1\nfile ringfall.kv 1\n")).unwrap();
        let error = CacheDir::open(&path).unwrap_err();
        let SetupError::ForeignDataFile { bytes, .. } = error else { panic!("{error}") };
        assert_eq!(bytes, fs::metadata(&foreign).unwrap().blocks() * 512);
        assert!(!path.join(LOCK_NAME).exists());
        // It was deleted, though it is as little ours.
        fs::write(path.join(LOCK_NAME), b"").unwrap();
        assert!(matches!(CacheDir::open(&path), Err(SetupError::ForeignDataFile { .. })));
        assert_eq!(fs::read(path.join(LOCK_NAME)).unwrap(), b"");
        fs::remove_file(path.join(LOCK_NAME)).unwrap();
        // One that comes later.
        fs::remove_file(&foreign).unwrap();
        let mut directory = CacheDir::open(&path).unwrap();
        fs::write(&foreign, b"theirs").unwrap();
        let error = directory.create_data_file().unwrap_err();
        assert!(matches!(error, SetupError::ForeignDataFile { .. }), "{error}");
        directory.remove().unwrap();
        assert_eq!(fs::read(&foreign).unwrap(), b"theirs");
        fs::remove_dir_all(path).unwrap();
    }

    #[test]
    fn a_lock_file_of_garbage_is_left_alone() {
        let path = scratch("garbage");
        fs::create_dir_all(&path).unwrap();
        for garbage in [&b"\xff\xfe\x00garbage"[..], b"hello"] {
            fs::write(path.join(LOCK_NAME), garbage).unwrap();
            let error = CacheDir::open(&path).unwrap_err();
            assert!(matches!(error, SetupError::ForeignLockFile { .. }), "{error}");
            assert_eq!(fs::read(path.join(LOCK_NAME)).unwrap(), garbage);
        }
        fs::remove_dir_all(path).unwrap();
    }

    /// Leftovers of a run that lost power when it had just made its files.
    #[test]
    fn an_empty_data_file_beside_a_lock_file_without_its_record_is_reclaimed() {
        let path = scratch("unrecorded");
        fs::create_dir_all(&path).unwrap();
        for text in ["", "ringfall store v1\npid 1\n"] {
            fs::write(path.join(LOCK_NAME), text).unwrap();
            fs::write(path.join(DATA_NAME), b"").unwrap();
            let mut directory = CacheDir::open(&path).unwrap();
            directory.create_data_file().unwrap();
            directory.remove().unwrap();
        }
        // What has content, or another name, may be somebody's.
        fs::write(path.join(DATA_NAME), b"").unwrap();
        fs::hard_link(path.join(DATA_NAME), path.join("theirs")).unwrap();
        let error = CacheDir::open(&path).unwrap_err();
        assert!(matches!(error, SetupError::ForeignDataFile { .. }), "{error}");
        assert!(path.join(DATA_NAME).exists());
        fs::remove_dir_all(path).unwrap();
    }

    /// The one that tells whose the data file is was empty between two versions of it.
    #[test]
    fn the_record_of_the_data_file_replaces_the_lock_file_s_text_in_one_write() {
        let path = scratch("record");
        let mut directory = CacheDir::open(&path).unwrap();
        let before = fs::read_to_string(path.join(LOCK_NAME)).unwrap();
        directory.create_data_file().unwrap();
        let text = fs::read_to_string(path.join(LOCK_NAME)).unwrap();
        assert!(text.starts_with(&before), "{text}");
        let made = directory.made.data.get().unwrap();
        assert!(text.contains(&format!("\nfile {DATA_NAME} {}\n", made.inode)), "{text}");
        assert_eq!(Identity::recorded_in(&text, DATA_KEY, DATA_BORN_KEY), Some(*made));
    }

    #[test]
    fn what_was_made_is_removed_by_whoever_ends_the_process_and_never_another_s() {
        let path = scratch("made");
        let mut directory = CacheDir::open(&path).unwrap();
        directory.create_data_file().unwrap();
        let weak = directory.made();
        let made = weak.upgrade().unwrap();
        assert_eq!(made.left(), made.paths());
        assert_eq!(made.left().len(), 2);
        made.remove().unwrap();
        assert!(made.left().is_empty() && !path.exists());
        drop(made);
        directory.remove().unwrap();
        assert!(weak.upgrade().is_none(), "another run's files may have those inodes by now");
    }
}
