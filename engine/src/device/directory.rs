//! The directory of a store: locked, marked as ours, and cleaned of nothing but our own files.
//!
//! Layout: `ringfall.lock` (locked while a run lives; one line `file NAME INODE` for each data
//! file made) beside the data file `ringfall.kv`.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use crate::error::SetupError;

const LOCK_NAME: &str = "ringfall.lock";
const DATA_NAME: &str = "ringfall.kv";
const MARKER: &str = "ringfall store v1";
/// Longest lock file believed.
const LOCK_MAX_BYTES: u64 = 64 << 10;

/// Directories nobody's benchmark belongs in, with everything below them.
const SYSTEM_TREES: [&str; 10] =
    ["/etc", "/bin", "/sbin", "/usr", "/boot", "/sys", "/proc", "/lib", "/lib64", "/root"];

/// A locked store directory. [`CacheDir::remove`] (or drop) deletes what it made, nothing else.
#[derive(Debug)]
pub struct CacheDir {
    path: PathBuf,
    lock: File,
    /// Directories that were not there before, the deepest first.
    made: Vec<PathBuf>,
    files: Vec<(String, u64)>,
    reclaimed_bytes: u64,
    removed: bool,
}

impl CacheDir {
    /// Locks `path`, making it and what it is in if they are not there, and deletes data files that
    /// an earlier run which died left in it.
    ///
    /// # Errors
    /// A system directory, no permission, not a directory, in use by a living run.
    pub fn open(path: &Path) -> Result<CacheDir, SetupError> {
        let given = path.to_path_buf();
        let mut made = Vec::new();
        if !path.exists() {
            let resolved = resolve_missing(path);
            refuse_system_directory(&resolved)?;
            let missing = resolved.ancestors().take_while(|ancestor| !ancestor.exists());
            made.extend(missing.map(Path::to_path_buf));
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
        let files = Vec::new();
        let mut directory = CacheDir { path, lock, made, files, reclaimed_bytes, removed: false };
        directory.write_lock_file()?;
        Ok(directory)
    }

    /// Deletes, of the directories in `parent` that `is_ours` knows by their names, those whose run
    /// has died, with the data files in them, and says how many bytes that freed. Anything in
    /// doubt is left alone: another user's, one without a lock file, one whose process lives, one
    /// that is locked, one that holds more.
    pub fn reclaim_dead(parent: &Path, is_ours: impl Fn(&str) -> bool) -> u64 {
        let Ok(entries) = fs::read_dir(parent) else { return 0 };
        let named =
            entries.flatten().filter(|entry| entry.file_name().to_str().is_some_and(&is_ours));
        named.filter_map(|entry| reclaim_whole(&entry.path())).sum()
    }

    /// Path of the directory that holds this run's data files.
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

    /// Deletes the data files, the lock file, and the directories that this run made, unless
    /// somebody put files of their own into them.
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
        // The directory may have been moved away, and another run's stand in its place.
        if self.lock.metadata().is_ok_and(|own| is_inode(&lock_path, own.ino())) {
            keep_first(fs::remove_file(&lock_path), &lock_path);
        }
        for made in &self.made {
            match fs::remove_dir(made) {
                // Somebody put files of their own there: not ours to delete.
                Err(e) if e.raw_os_error() == Some(libc::ENOTEMPTY) => break,
                other => keep_first(other, made),
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
            .and_then(|()| self.lock.rewind())
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

/// Deletes a dead run's directory: bytes freed, or nothing was done.
fn reclaim_whole(path: &Path) -> Option<u64> {
    let metadata = fs::symlink_metadata(path).ok()?;
    if !metadata.is_dir() || metadata.uid() != rustix::process::geteuid().as_raw() {
        return None;
    }
    let lock_path = path.join(LOCK_NAME);
    let mut lock = OpenOptions::new().read(true).write(true).open(&lock_path).ok()?;
    // Looked at before it is locked: a run that is just beginning must find it free, and has
    // written nothing yet.
    let mut text = String::new();
    (&mut lock).take(LOCK_MAX_BYTES).read_to_string(&mut text).ok()?;
    let pid = text.lines().find_map(|line| line.strip_prefix("pid "))?.parse().ok()?;
    let pid = rustix::process::Pid::from_raw(pid)?;
    if rustix::process::test_kill_process(pid) != Err(rustix::io::Errno::SRCH) {
        return None;
    }
    lock.try_lock().ok()?;
    lock.rewind().ok()?;
    let freed_bytes = reclaim(path, &mut lock).ok()?;
    fs::remove_file(&lock_path).ok()?;
    // Not empty: somebody keeps files there.
    let _removed = fs::remove_dir(path);
    Some(freed_bytes)
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
    let refused = path == Path::new("/")
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
            "/root/x",
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
        die(left_by("ringfall-2", std::process::id()));
        let locked = left_by("ringfall-3", nobody);
        die(left_by("theirs-4", nobody));
        fs::create_dir(parent.join("ringfall-5")).unwrap();
        std::os::unix::fs::symlink("theirs-4", parent.join("ringfall-6")).unwrap();
        die(left_by("ringfall-7", nobody));
        fs::write(parent.join("ringfall-7/precious"), b"theirs").unwrap();
        let _bytes = CacheDir::reclaim_dead(&parent, |name| name.starts_with("ringfall-"));
        let left = |name: &str| parent.join(name).join(DATA_NAME).exists();
        assert!(!parent.join("ringfall-1").exists());
        assert!(left("ringfall-2") && left("ringfall-3") && left("theirs-4"));
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
