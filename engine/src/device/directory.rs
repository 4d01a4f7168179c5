//! The directory of a store: locked, marked as ours, and cleaned of nothing but our own files.
//!
//! Layout: `ringfall.lock` (locked while a run lives; one line `file NAME INODE` for each data
//! file made) beside the data file `ringfall.kv`.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use crate::error::SetupError;

const LOCK_NAME: &str = "ringfall.lock";
const DATA_NAME: &str = "ringfall.kv";
const MARKER: &str = "ringfall store v1";
/// Longest lock file believed.
const LOCK_MAX_BYTES: u64 = 64 << 10;

/// Directories nobody's benchmark belongs in, with everything below them.
const SYSTEM_TREES: [&str; 9] =
    ["/etc", "/bin", "/sbin", "/usr", "/boot", "/sys", "/proc", "/lib", "/lib64"];
/// Directories that are refused themselves, but may hold a store below.
const SYSTEM_ROOTS: [&str; 2] = ["/", "/root"];

/// A locked store directory. [`CacheDir::remove`] (or drop) deletes what it made, nothing else.
#[derive(Debug)]
pub struct CacheDir {
    path: PathBuf,
    lock: File,
    created_directory: bool,
    files: Vec<(String, u64)>,
    reclaimed_bytes: u64,
    removed: bool,
}

impl CacheDir {
    /// Locks `path`, making it if it is not there, and deletes data files that an earlier run
    /// which died left in it.
    ///
    /// # Errors
    /// A system directory, no permission, not a directory, in use by a living run.
    pub fn open(path: &Path) -> Result<CacheDir, SetupError> {
        let given = path.to_path_buf();
        let created_directory = !path.exists();
        if created_directory {
            refuse_system_directory(&resolve_missing(path))?;
            fs::create_dir_all(path).map_err(|e| directory_error("create", path, &e))?;
        }
        let path = path.canonicalize().map_err(|e| directory_error("open", path, &e))?;
        refuse_system_directory(&path)?;
        if !path.is_dir() {
            return Err(SetupError::NotADirectory { path: given });
        }
        let lock_path = path.join(LOCK_NAME);
        let mut options = OpenOptions::new();
        let mut lock = options
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&lock_path)
            .map_err(|e| directory_error("write to", &path, &e))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(SetupError::StoreInUse { path }),
            Err(TryLockError::Error(error)) => return Err(directory_error("lock", &path, &error)),
        }
        let reclaimed_bytes = reclaim(&path, &mut lock)?;
        let mut directory = CacheDir {
            path,
            lock,
            created_directory,
            files: Vec::new(),
            reclaimed_bytes,
            removed: false,
        };
        directory.write_lock_file()?;
        Ok(directory)
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Bytes freed by deleting what a dead run had left.
    #[must_use]
    pub fn reclaimed_bytes(&self) -> u64 {
        self.reclaimed_bytes
    }

    /// Bytes an ordinary user may still write to this file system.
    ///
    /// # Errors
    /// When the file system doesn't say.
    pub fn free_bytes(&self) -> Result<u64, SetupError> {
        let stat = rustix::fs::statvfs(&self.path).map_err(|errno| {
            directory_error("ask for the free space of", &self.path, &errno.into())
        })?;
        Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
    }

    /// Makes the data file; it is recorded as ours before anything is written.
    ///
    /// # Errors
    /// When a file of that name is there that ringfall did not make, or O_DIRECT is refused.
    pub fn create_data_file(&mut self) -> Result<(File, PathBuf), SetupError> {
        use std::os::unix::fs::OpenOptionsExt;
        let name = DATA_NAME.to_owned();
        let path = self.path.join(DATA_NAME);
        let opened = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .custom_flags(libc::O_DIRECT | libc::O_CLOEXEC)
            .open(&path);
        let file = opened.map_err(|error| match error.raw_os_error() {
            Some(libc::EEXIST) => SetupError::ForeignDataFile { path: path.clone() },
            Some(libc::EINVAL) => {
                // open(2): the file is left behind although O_DIRECT was refused.
                let _made_by_this_call = fs::remove_file(&path);
                SetupError::NoDirectIo { path: self.path.clone() }
            }
            _ => directory_error("create a file in", &self.path, &error),
        })?;
        let inode = file.metadata().map_err(|e| directory_error("read", &path, &e))?.ino();
        self.files.push((name, inode));
        self.write_lock_file()?;
        Ok((file, path))
    }

    /// Deletes the data files, the lock file, and the directory if this run made it.
    ///
    /// # Errors
    /// The first deletion that failed, after trying all of them.
    pub fn remove(mut self) -> Result<(), SetupError> {
        self.remove_files()
    }

    fn remove_files(&mut self) -> Result<(), SetupError> {
        if std::mem::replace(&mut self.removed, true) {
            return Ok(());
        }
        let mut first_failure = Ok(());
        let mut keep_first = |result: io::Result<()>, path: &Path| {
            if let Err(error) = result
                && error.kind() != io::ErrorKind::NotFound
                && first_failure.is_ok()
            {
                first_failure = Err(directory_error("delete", path, &error));
            }
        };
        for (name, inode) in &self.files {
            let path = self.path.join(name);
            if is_inode(&path, *inode) {
                keep_first(fs::remove_file(&path), &path);
            }
        }
        let lock_path = self.path.join(LOCK_NAME);
        keep_first(fs::remove_file(&lock_path), &lock_path);
        if self.created_directory {
            match fs::remove_dir(&self.path) {
                // Somebody put files of their own there: not ours to delete.
                Err(e) if e.raw_os_error() == Some(libc::ENOTEMPTY) => {}
                other => keep_first(other, &self.path),
            }
        }
        first_failure
    }

    fn write_lock_file(&mut self) -> Result<(), SetupError> {
        let mut text = format!("{MARKER}\npid {}\n", std::process::id());
        for (name, inode) in &self.files {
            text.push_str(&format!("file {name} {inode}\n"));
        }
        let written = self
            .lock
            .set_len(0)
            .and_then(|()| io::Seek::rewind(&mut self.lock))
            .and_then(|()| self.lock.write_all(text.as_bytes()));
        written.map_err(|e| directory_error("write the lock file in", &self.path, &e))
    }
}

impl Drop for CacheDir {
    fn drop(&mut self) {
        if let Err(error) = self.remove_files() {
            tracing::warn!("{error}");
        }
    }
}

/// Deletes the files that a dead run recorded, if they still are the ones it made.
fn reclaim(directory: &Path, lock: &mut File) -> Result<u64, SetupError> {
    let mut text = String::new();
    if lock.take(LOCK_MAX_BYTES).read_to_string(&mut text).is_err() {
        return Err(foreign_lock_file(directory));
    }
    if text.is_empty() {
        return Ok(0);
    }
    if !text.starts_with(MARKER) {
        return Err(foreign_lock_file(directory));
    }
    let mut freed_bytes = 0;
    for line in text.lines() {
        let mut words = line.split(' ');
        let (Some("file"), Some(name), Some(inode)) = (words.next(), words.next(), words.next())
        else {
            continue;
        };
        let plain_name = name == DATA_NAME;
        let Some(inode) = inode.parse().ok().filter(|_| plain_name) else { continue };
        let path = directory.join(name);
        if is_inode(&path, inode) {
            freed_bytes += fs::metadata(&path).map_or(0, |m| m.blocks() * 512);
            fs::remove_file(&path).map_err(|e| directory_error("delete", &path, &e))?;
        }
    }
    Ok(freed_bytes)
}

fn foreign_lock_file(directory: &Path) -> SetupError {
    SetupError::ForeignLockFile { path: directory.join(LOCK_NAME) }
}

fn is_inode(path: &Path, inode: u64) -> bool {
    fs::symlink_metadata(path).is_ok_and(|m| m.is_file() && m.ino() == inode)
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

fn refuse_system_directory(path: &Path) -> Result<(), SetupError> {
    let refused = SYSTEM_ROOTS.iter().any(|root| path == Path::new(root))
        || SYSTEM_TREES.iter().any(|tree| path.starts_with(tree))
        || (path.starts_with("/dev") && !is_below(path, "/dev/shm"));
    if refused {
        return Err(SetupError::SystemDirectory { path: path.to_path_buf() });
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
        errno: error.raw_os_error().unwrap_or(0),
        reason: error.to_string(),
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
        }
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

    #[test]
    fn a_file_of_our_name_that_we_did_not_make_survives() {
        let path = scratch("foreign");
        fs::create_dir_all(&path).unwrap();
        let foreign = path.join("ringfall.kv");
        fs::write(&foreign, b"theirs").unwrap();
        fs::write(path.join(LOCK_NAME), format!("{MARKER}\npid 1\nfile ringfall.kv 1\n")).unwrap();
        let mut directory = CacheDir::open(&path).unwrap();
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
}
