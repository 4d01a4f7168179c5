//! Checkpoints in a directory, written and read with io_uring: each draft is `NAME.part` until it
//! is renamed.

use std::fs::{File, TryLockError};
use std::io::{ErrorKind, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::ValueEnum;
use ringfall_core::drive::IoKind;
use ringfall_core::held::HeldDirectory;
use ringfall_core::units::{MIB, gib};
use ringfall_engine::buffer::{Chunk, ChunkPool};
use ringfall_engine::device::LOCK_NAME;
use ringfall_engine::ring::{ChunkIo, ChunkRing};
use ringfall_host::remedy::setup_remedy;
use ringfall_host::{Machine, files};
use rustix::fs::{Advice, FallocateFlags, OFlags};
use rustix::io::Errno;

use super::target::{ChunkPlace, FilePlan, Moved, Mover, Presence, Target, TargetError, Version};
use crate::remedy::remedy;

/// Suffix of a draft's file name.
const DRAFT_ENDING: &str = ".part";
/// A chunk is moved in pieces of this size: larger ones gain nothing (fio, 1 to 32 MiB), and
/// smaller ones keep fewer bytes in the queue.
const PIECE_BYTES: usize = 8 * MIB as usize;

/// Mode in which files are opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, ValueEnum)]
pub enum Io {
    /// Bypassing the page cache (O_DIRECT)
    #[default]
    Direct,
    /// Through the page cache
    // What was written leaves it when the file is durable.
    Buffered,
}

/// A directory of the file system that holds checkpoints.
#[derive(Debug)]
pub struct FileTarget {
    directory: HeldDirectory,
    io: Io,
    made: MadeDirectories,
    /// The directory, locked as long as this lives.
    _lock: File,
}

/// Directories that were made for a target. Where nothing came to be stored in it, as on a full
/// disk, they are removed again when this is dropped.
#[derive(Debug, Default)]
struct MadeDirectories {
    /// Those that were missing before, the deepest first.
    paths: Vec<PathBuf>,
    is_used: AtomicBool,
}

impl MadeDirectories {
    /// Finds those that making `path` would make.
    fn of(path: &Path) -> MadeDirectories {
        let is_missing = |path: &&Path| !path.as_os_str().is_empty() && !path.exists();
        let paths = path.ancestors().take_while(is_missing).map(Path::to_path_buf).collect();
        MadeDirectories { paths, is_used: AtomicBool::new(false) }
    }
}

impl Drop for MadeDirectories {
    fn drop(&mut self) {
        if !self.is_used.load(Ordering::Relaxed) {
            // The first that can't be removed holds something of somebody's, and so do the others.
            let _all_gone = self.paths.iter().all(|path| std::fs::remove_dir(path).is_ok());
        }
    }
}

/// A file that is being written.
#[derive(Debug)]
pub struct FileDraft {
    file: Arc<File>,
    path: PathBuf,
    directory: HeldDirectory,
    name: String,
}

/// A file that is read.
#[derive(Debug)]
pub struct StoredFile {
    file: Arc<File>,
    path: PathBuf,
}

/// Moves chunks by a ring of its own.
pub struct FileMover {
    ring: ChunkRing,
    /// The files of what is in flight, for messages.
    paths: Vec<(u64, PathBuf)>,
}

impl FileTarget {
    /// Opens a directory and locks it against others; one that is not there is made if `makes`, and
    /// refused otherwise.
    ///
    /// # Errors
    /// It can't be made or used, or another process uses it for checkpoints or for a run.
    pub fn open(path: &Path, io: Io, makes: bool) -> Result<FileTarget, TargetError> {
        let made = if makes { MadeDirectories::of(path) } else { MadeDirectories::default() };
        let (doing, directory) = match makes {
            true => ("can't make the directory", HeldDirectory::make(path)),
            false if path.is_dir() => ("can't open the directory", HeldDirectory::open(path)),
            false => {
                return Err(TargetError::input(
                    format!("{} is not a directory", path.display()),
                    "give the directory to which `ringfall checkpoint write` has written",
                ));
            }
        };
        let directory = directory.map_err(|error| failed(doing, path, &error))?;
        // A run whose data is there would measure the checkpoint, too.
        match directory.open_to_read(LOCK_NAME, OFlags::empty()) {
            Ok(of_run) => locked(of_run.try_lock_shared(), path, "another run of ringfall")?,
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            // A link, say, of that name is no run's.
            Err(error) if error.get_ref().is_some() => {}
            Err(error) => return Err(failed("can't look for a run in", path, &error)),
        }
        let lock = directory
            .to_read()
            .map_err(|error| failed("can't open the directory", path, &error))?;
        locked(lock.try_lock(), path, "another ringfall")?;
        Ok(FileTarget { directory, io, made, _lock: lock })
    }

    /// Opens the directory that a file of that name is in, and the file's own name. No link in it
    /// is followed.
    fn place<'a>(&self, name: &'a str, makes: bool) -> std::io::Result<(HeldDirectory, &'a str)> {
        let (parent, name) = name.rsplit_once('/').unwrap_or(("", name));
        Ok((self.directory.below(Path::new(parent), makes)?, name))
    }

    fn opened(&self, name: &str, flags: OFlags) -> std::io::Result<File> {
        let (directory, name) = self.place(name, false)?;
        directory.open_to_read(name, flags)
    }

    /// Size of a plain file of that name, if it is there.
    fn length(&self, name: &str) -> Result<Option<u64>, TargetError> {
        let told = |error| failed("can't look at", &self.path_of(name), &error);
        let stat = self.place(name, false).and_then(|(held, name)| held.stat_of(name));
        match stat {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            stat => Ok(stat.map_err(told)?.map(|stat| u64::try_from(stat.st_size).unwrap_or(0))),
        }
    }

    fn path_of(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn flags(&self) -> OFlags {
        match self.io {
            Io::Direct => OFlags::DIRECT,
            Io::Buffered => OFlags::empty(),
        }
    }
}

fn draft_name(name: &str) -> String {
    format!("{name}{DRAFT_ENDING}")
}

/// A file that can't be opened.
fn unopened(path: &Path, error: &std::io::Error) -> TargetError {
    match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::INVAL) => TargetError::new(
            format!("the file system of {} takes no direct I/O", path.display()),
            "give --io buffered, or a directory on another file system (ext4, XFS)",
        ),
        _ => failed("can't open", path, error),
    }
}

/// A failed call on a file or directory, and what to do.
fn failed(doing: &str, path: &Path, error: &std::io::Error) -> TargetError {
    let remedy = match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::INVAL) => "give --io buffered if its file system takes no direct I/O",
        None if error.get_ref().is_some() && error.kind() != ErrorKind::StorageFull => {
            "move it away, as ringfall did not make it"
        }
        _ => remedy(error),
    };
    TargetError::new(format!("{doing} {}: {error}", path.display()), remedy)
}

impl Mover for FileMover {
    type Draft = FileDraft;
    type Stored = StoredFile;

    fn write(&mut self, draft: &Arc<FileDraft>, place: ChunkPlace, chunk: Chunk) {
        self.paths.push((place.tag, draft.path.clone()));
        self.ring.push(&draft.file, chunk_io(IoKind::Write, place), chunk);
    }

    fn read(&mut self, stored: &Arc<StoredFile>, place: ChunkPlace, chunk: Chunk) {
        self.paths.push((place.tag, stored.path.clone()));
        self.ring.push(&stored.file, chunk_io(IoKind::Read, place), chunk);
    }

    fn wait(&mut self) -> Result<Moved, TargetError> {
        assert!(self.in_flight() > 0, "there is something to wait for");
        loop {
            if let Some(done) = self.ring.next_done() {
                let at = self.paths.iter().position(|(tag, _)| *tag == done.io.tag);
                let (_, path) = self.paths.swap_remove(at.expect("each chunk has its path"));
                let chunk = (done.io.kind == IoKind::Read).then_some(done.chunk);
                return Ok(Moved {
                    tag: done.io.tag,
                    outcome: done
                        .outcome
                        .map(|()| chunk)
                        .map_err(|errno| io_failure(done.io, errno, &path)),
                    began: done.pushed,
                    ended: done.completed,
                });
            }
            self.ring.wait().map_err(|error| {
                let path = self.paths.first().map_or(Path::new("a file"), |(_, path)| path);
                failed("io_uring moves no more chunks of", path, &error)
            })?;
        }
    }

    fn in_flight(&self) -> usize {
        self.ring.in_flight()
    }
}

fn chunk_io(kind: IoKind, place: ChunkPlace) -> ChunkIo {
    let ChunkPlace { offset_bytes, length_bytes, tag } = place;
    ChunkIo { kind, offset_bytes, length_bytes, tag }
}

fn io_failure(io: ChunkIo, errno: i32, path: &Path) -> TargetError {
    let doing = match io.kind {
        IoKind::Read => "read",
        IoKind::Write | IoKind::Flush => "write",
    };
    let what = format!("can't {doing} {} bytes at offset {} of", io.length_bytes, io.offset_bytes);
    match errno {
        0 => TargetError::new(
            format!("{what} {}: the file ended before", path.display()),
            "nothing else may write to it meanwhile; write the checkpoint again",
        ),
        errno => failed(&what, path, &std::io::Error::from_raw_os_error(errno)),
    }
}

impl Target for FileTarget {
    type Draft = FileDraft;
    type Stored = StoredFile;
    type Mover = FileMover;

    fn name(&self) -> String {
        self.directory.path().display().to_string()
    }

    fn kind(&self) -> &'static str {
        "file"
    }

    fn is_cached(&self) -> bool {
        self.io == Io::Buffered
    }

    fn in_memory(&self) -> Option<String> {
        Machine::look(self.directory.path()).in_memory()
    }

    fn room_bytes(&self) -> Result<Option<u64>, TargetError> {
        let stat = rustix::fs::fstatvfs(&self.directory)
            .map_err(|errno| failed("can't look at", self.directory.path(), &errno.into()))?;
        Ok(Some(stat.f_bavail.saturating_mul(stat.f_frsize)))
    }

    fn mover(&self, pool: &ChunkPool) -> Result<FileMover, TargetError> {
        let ring = ChunkRing::new(pool, PIECE_BYTES)
            .map_err(|error| TargetError::new(error.what(), setup_remedy(&error)))?;
        Ok(FileMover { ring, paths: Vec::new() })
    }

    fn presence(&self, name: &str) -> Result<Presence, TargetError> {
        if let Some(bytes) = self.length(name)? {
            return Ok(Presence::Published { bytes });
        }
        let draft = self.length(&draft_name(name))?;
        Ok(draft.map_or(Presence::Absent, |bytes| Presence::Draft { bytes }))
    }

    fn draft_name(&self, name: &str) -> String {
        draft_name(name)
    }

    fn create(&self, plan: &FilePlan, goes_on: bool) -> Result<FileDraft, TargetError> {
        let path = self.path_of(&draft_name(&plan.name));
        let (directory, name) = self
            .place(&plan.name, true)
            .map_err(|error| failed("can't make the directory of", &path, &error))?;
        let draft = draft_name(name);
        let file = match goes_on {
            true => directory.open_own(&draft, self.flags()),
            false => directory
                .remove_if_there(&draft)
                .and_then(|()| directory.create(&draft, self.flags())),
        };
        let file = file.map_err(|error| {
            if !goes_on && error.raw_os_error() == Some(Errno::INVAL.raw_os_error()) {
                // open(2): the file is left behind although O_DIRECT was refused.
                let _made_by_this_call = directory.remove(&draft);
            }
            unopened(&path, &error)
        })?;
        let reserve = || rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, plan.bytes);
        let reserved = match rustix::io::retry_on_intr(reserve) {
            // Some file systems can't reserve; a sparse file of the right size will do.
            Err(Errno::OPNOTSUPP) => rustix::fs::ftruncate(&file, plan.bytes),
            reserved => reserved,
        };
        if let Err(errno) = reserved {
            if !goes_on {
                // The reservation's failure is what matters.
                let _removed = directory.remove(&draft);
                self.remove_empty_parent(&plan.name);
            }
            let doing = format!("can't reserve {:.2} GiB for", gib(plan.bytes));
            return Err(failed(&doing, &path, &errno.into()));
        }
        Ok(FileDraft { file: Arc::new(file), path, directory, name: name.to_owned() })
    }

    fn publish(&self, draft: &FileDraft, durable: bool) -> Result<(), TargetError> {
        if durable {
            draft
                .file
                .sync_all()
                .map_err(|error| failed("can't make durable", &draft.path, &error))?;
        }
        if self.io == Io::Buffered && durable {
            // Clean pages: the next reader is to read the drive. Only advice.
            let _advice = rustix::fs::fadvise(&draft.file, 0, None, Advice::DontNeed);
        }
        draft
            .directory
            .rename(draft_name(&draft.name), &draft.name)
            .map_err(|error| failed("can't give its final name to", &draft.path, &error))?;
        match durable {
            true => sync_directory(&draft.directory),
            false => Ok(()),
        }
    }

    fn open(&self, name: &str, version: Version) -> Result<StoredFile, TargetError> {
        let name = match version {
            Version::Draft => draft_name(name),
            Version::Published => name.to_owned(),
        };
        let path = self.path_of(&name);
        let opened = self.opened(&name, self.flags());
        let file = opened.map_err(|error| unopened(&path, &error))?;
        Ok(StoredFile { file: Arc::new(file), path })
    }

    fn put(&self, name: &str, content: &[u8]) -> Result<(), TargetError> {
        let told = |error| failed("can't write", &self.path_of(name), &error);
        let (directory, own) = self.place(name, true).map_err(told)?;
        let stored = files::replace_in(&directory, own, &|out| out.write_all(content));
        stored.map_err(told).inspect_err(|_| self.remove_empty_parent(name))?;
        self.made.is_used.store(true, Ordering::Relaxed);
        sync_directory(&directory)
    }

    fn get(&self, name: &str, bytes_max: u64) -> Result<Option<Vec<u8>>, TargetError> {
        let path = self.path_of(name);
        let file = match self.opened(name, OFlags::empty()) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed("can't open", &path, &error)),
        };
        let mut content = Vec::new();
        file.take(bytes_max.saturating_add(1))
            .read_to_end(&mut content)
            .map_err(|error| failed("can't read", &path, &error))?;
        match content.len() as u64 > bytes_max {
            false => Ok(Some(content)),
            true => Err(TargetError::input(
                format!("{} is larger than {bytes_max} bytes", path.display()),
                "it was not written by ringfall: give another directory",
            )),
        }
    }

    fn remove(&self, name: &str) -> Result<(), TargetError> {
        let told = |error| failed("can't remove", &self.path_of(name), &error);
        let (directory, own) = match self.place(name, false) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            place => place.map_err(told)?,
        };
        directory.remove_if_there(own).map_err(told)?;
        directory.remove_if_there(draft_name(own)).map_err(told)?;
        self.remove_empty_parent(name);
        Ok(())
    }
}

impl FileTarget {
    /// Removes the directory that a file of that name was in, if it is empty and not the target's.
    fn remove_empty_parent(&self, name: &str) {
        if let Some((parent, _)) = name.rsplit_once('/')
            && let Ok((directory, parent)) = self.place(parent, false)
        {
            let _left = directory.remove_directory(parent);
        }
    }
}

/// Whether a lock in a directory was free; else it is held by `whom`.
fn locked(
    attempt: Result<(), TryLockError>,
    directory: &Path,
    whom: &str,
) -> Result<(), TargetError> {
    match attempt {
        Ok(()) => Ok(()),
        // A network file system without locks: nothing is protected there, and nothing lost.
        Err(TryLockError::Error(error)) if has_no_locks(&error) => Ok(()),
        Err(TryLockError::Error(error)) => {
            Err(failed("can't lock the directory", directory, &error))
        }
        Err(TryLockError::WouldBlock) => Err(TargetError::new(
            format!("{} is in use by {whom}", directory.display()),
            "wait for it to end, or give another directory",
        )),
    }
}

/// Whether a file system that was asked for a lock has none.
fn has_no_locks(error: &std::io::Error) -> bool {
    let errno = error.raw_os_error().map(Errno::from_raw_os_error);
    matches!(errno, Some(Errno::NOLCK | Errno::OPNOTSUPP | Errno::BADF))
}

/// Makes the names in a directory durable.
fn sync_directory(directory: &HeldDirectory) -> Result<(), TargetError> {
    let told = |error| failed("can't make the names durable in", directory.path(), &error);
    directory.sync().map_err(told)
}

#[cfg(test)]
mod tests {
    use ringfall_engine::device::CacheDir;
    use ringfall_host::Scratch;

    use super::*;

    /// It stayed, empty, where a full disk took not even the manifest.
    #[test]
    fn a_directory_that_was_made_goes_unless_something_came_to_be_stored_in_it() {
        let scratch = Scratch::new("checkpoint-made");
        let path = scratch.join("a/b");
        drop(FileTarget::open(&path, Io::Buffered, true).unwrap());
        assert!(!scratch.join("a").exists());
        let target = FileTarget::open(&path, Io::Buffered, true).unwrap();
        target.put("small", b"content").unwrap();
        target.remove_small("small").unwrap();
        drop(target);
        assert!(path.exists());
        drop(FileTarget::open(&path, Io::Buffered, true).unwrap());
        assert!(path.exists(), "it was there");
    }

    /// Its checkpoint was written into the store of a run, and both ended with status 0.
    #[test]
    fn a_directory_that_a_run_uses_is_refused() {
        let scratch = Scratch::new("checkpoint");
        let path = scratch.join("beside");
        let run = CacheDir::open(&path).unwrap();
        for makes in [true, false] {
            let told = FileTarget::open(&path, Io::Buffered, makes).unwrap_err().to_string();
            assert!(told.contains("is in use by another run of ringfall: wait for it"), "{told}");
        }
        FileTarget::open(&path.join("below"), Io::Buffered, true).unwrap();
        assert!(!path.join("below").exists());
        run.remove().unwrap();
        // What a run that was killed has left holds nobody up.
        scratch.file(&format!("beside/{LOCK_NAME}"), "ringfall store v1\n");
        FileTarget::open(&path, Io::Buffered, false).unwrap();
    }
}
