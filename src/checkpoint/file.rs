//! Checkpoints in a directory, written and read with io_uring: each draft is `NAME.part` until it
//! is renamed.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ringfall_engine::buffer::{Chunk, ChunkPool};
use ringfall_engine::ring::{ChunkIo, ChunkRing, IoKind};
use ringfall_engine::units::{MIB, gib};
use rustix::fs::{Advice, AtFlags, FallocateFlags, OFlags};
use rustix::io::Errno;

use super::target::{ChunkPlace, FilePlan, Moved, Mover, Presence, Target, TargetError, Version};

/// What a draft's name ends in.
const DRAFT_ENDING: &str = ".part";
/// A chunk is moved in pieces of this size: larger ones gain nothing (fio, 1 to 32 MiB), and
/// smaller ones keep fewer bytes in the queue.
const PIECE_BYTES: usize = 8 * MIB as usize;

/// How files are opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Io {
    /// Past the page cache (O_DIRECT).
    #[default]
    Direct,
    /// Through the page cache; what was written leaves it when the file is durable.
    Buffered,
}

/// A directory of the file system that holds checkpoints.
#[derive(Debug)]
pub struct FileTarget {
    path: PathBuf,
    io: Io,
    /// Locked as long as this lives.
    _directory: File,
}

/// A file that is being written.
#[derive(Debug)]
pub struct FileDraft {
    file: Arc<File>,
    path: PathBuf,
    final_path: PathBuf,
}

/// A file that is read.
#[derive(Debug)]
pub struct StoredFile {
    file: Arc<File>,
    path: PathBuf,
    bytes: u64,
}

/// Moves chunks by a ring of its own.
pub struct FileMover {
    ring: ChunkRing,
    /// The files of what is in flight, for messages.
    paths: Vec<(u64, PathBuf)>,
}

impl FileTarget {
    /// Opens a directory, which is made if it is not there, and locks it against others.
    ///
    /// # Errors
    /// It can't be made or used, or another process uses it for checkpoints.
    pub fn open(path: &Path, io: Io) -> Result<FileTarget, TargetError> {
        std::fs::create_dir_all(path)
            .map_err(|error| failed("can't make the directory", path, &error))?;
        FileTarget::lock(path, io)
    }

    /// The same for a directory that must be there.
    ///
    /// # Errors
    /// As [`FileTarget::open`], and it is not there.
    pub fn open_existing(path: &Path, io: Io) -> Result<FileTarget, TargetError> {
        match path.is_dir() {
            true => FileTarget::lock(path, io),
            false => Err(TargetError::input(
                format!("{} is not a directory", path.display()),
                "give the directory to which `ringfall checkpoint write` has written",
            )),
        }
    }

    fn lock(path: &Path, io: Io) -> Result<FileTarget, TargetError> {
        let open = |error| failed("can't open the directory", path, &error);
        let directory = File::open(path).map_err(open)?;
        match directory.try_lock() {
            Ok(()) => {}
            // A network file system without locks: nothing is protected there, and nothing lost.
            Err(TryLockError::Error(error)) if has_no_locks(&error) => {}
            Err(TryLockError::Error(error)) => {
                return Err(failed("can't lock the directory", path, &error));
            }
            Err(TryLockError::WouldBlock) => {
                return Err(TargetError::new(
                    format!("{} is in use by another ringfall", path.display()),
                    "wait for it to end, or give another directory",
                ));
            }
        }
        Ok(FileTarget { path: path.to_path_buf(), io, _directory: directory })
    }

    fn path_of(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    fn draft_path(&self, name: &str) -> PathBuf {
        self.path.join(format!("{name}{DRAFT_ENDING}"))
    }

    fn open_file(&self, options: &mut OpenOptions, path: &Path) -> Result<File, TargetError> {
        if self.io == Io::Direct {
            options.custom_flags(OFlags::DIRECT.bits() as i32);
        }
        options.open(path).map_err(|error| match error.raw_os_error() {
            Some(errno) if Errno::from_raw_os_error(errno) == Errno::INVAL => TargetError::new(
                format!("the file system of {} takes no direct I/O", path.display()),
                "give --io buffered, or a directory on another file system (ext4, XFS)",
            ),
            _ => failed("can't open", path, &error),
        })
    }
}

/// A failed call on a file or directory, and what to do.
fn failed(doing: &str, path: &Path, error: &std::io::Error) -> TargetError {
    let errno = error.raw_os_error().map(Errno::from_raw_os_error);
    let remedy = match errno {
        Some(Errno::NOSPC | Errno::DQUOT) => "free space there, or ask for less",
        Some(Errno::FBIG) => "raise the limit of file sizes (ulimit -f), or ask for less",
        Some(Errno::ACCESS | Errno::PERM) => "check its owner and permissions",
        Some(Errno::ROFS) => "mount it for writing, or give another directory",
        Some(Errno::NOTDIR | Errno::EXIST) => {
            "a part of that path is a file: give another directory"
        }
        Some(Errno::NOENT) => "check the path, and that nobody removes files there meanwhile",
        Some(Errno::IO | Errno::NODATA | Errno::REMOTEIO) => {
            "look at dmesg and the drive's SMART log"
        }
        Some(Errno::MFILE | Errno::NFILE) => "raise the limit on open files (ulimit -n)",
        Some(Errno::INVAL) => "give --io buffered if its file system takes no direct I/O",
        Some(Errno::TIMEDOUT) => "look at dmesg for resets of the device",
        _ => "look up the error in errno(3), and look at dmesg",
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
        self.path.display().to_string()
    }

    fn kind(&self) -> &'static str {
        "file"
    }

    fn is_cached(&self) -> bool {
        self.io == Io::Buffered
    }

    fn room_bytes(&self) -> Result<Option<u64>, TargetError> {
        let stat = rustix::fs::statvfs(&self.path)
            .map_err(|errno| failed("can't look at", &self.path, &errno.into()))?;
        Ok(Some(stat.f_bavail.saturating_mul(stat.f_frsize)))
    }

    fn mover(&self, pool: &ChunkPool) -> Result<FileMover, TargetError> {
        let ring = ChunkRing::new(pool, PIECE_BYTES)
            .map_err(|error| TargetError::new(error.what(), error.remedy()))?;
        Ok(FileMover { ring, paths: Vec::new() })
    }

    fn presence(&self, name: &str) -> Result<Presence, TargetError> {
        let length = |path: &Path| match std::fs::metadata(path) {
            Ok(metadata) => Ok(Some(metadata.size())),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(failed("can't look at", path, &error)),
        };
        if let Some(bytes) = length(&self.path_of(name))? {
            return Ok(Presence::Published { bytes });
        }
        let draft = length(&self.draft_path(name))?;
        Ok(draft.map_or(Presence::Absent, |bytes| Presence::Draft { bytes }))
    }

    fn create(&self, plan: &FilePlan, goes_on: bool) -> Result<FileDraft, TargetError> {
        let (path, final_path) = (self.draft_path(&plan.name), self.path_of(&plan.name));
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent)
                .map_err(|error| failed("can't make the directory", parent, &error))?;
        }
        let mut options = File::options();
        options.read(true).write(true).create(true).truncate(!goes_on).mode(0o644);
        let file = self.open_file(&mut options, &path)?;
        let draft = FileDraft { file: Arc::new(file), path, final_path };
        let reserve = || rustix::fs::fallocate(&draft.file, FallocateFlags::empty(), 0, plan.bytes);
        match rustix::io::retry_on_intr(reserve) {
            Ok(()) => Ok(draft),
            // Some file systems can't reserve; a sparse file of the right size will do.
            Err(Errno::OPNOTSUPP) => match rustix::fs::ftruncate(&draft.file, plan.bytes) {
                Ok(()) => Ok(draft),
                Err(errno) => Err(self.no_space(&draft, plan, goes_on, errno)),
            },
            Err(errno) => Err(self.no_space(&draft, plan, goes_on, errno)),
        }
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
        std::fs::rename(&draft.path, &draft.final_path)
            .map_err(|error| failed("can't give its final name to", &draft.path, &error))?;
        match durable {
            true => sync_directory(&draft.final_path),
            false => Ok(()),
        }
    }

    fn abandon(&self, draft: &FileDraft, keep: bool) -> Result<(), TargetError> {
        match keep {
            true => Ok(()),
            false => self.remove_path(&draft.path),
        }
    }

    fn open(&self, name: &str, version: Version) -> Result<StoredFile, TargetError> {
        let path = match version {
            Version::Draft => self.draft_path(name),
            Version::Published => self.path_of(name),
        };
        let file = self.open_file(File::options().read(true), &path)?;
        let metadata = file.metadata().map_err(|error| failed("can't look at", &path, &error))?;
        if !metadata.is_file() {
            return Err(TargetError::input(
                format!("{} is not a file", path.display()),
                "give the directory to which `ringfall checkpoint write` has written",
            ));
        }
        Ok(StoredFile { file: Arc::new(file), path, bytes: metadata.size() })
    }

    fn stored_bytes(&self, stored: &StoredFile) -> u64 {
        stored.bytes
    }

    fn put(&self, name: &str, content: &[u8]) -> Result<(), TargetError> {
        let (draft, path) = (self.draft_path(name), self.path_of(name));
        let told = |error: &std::io::Error| failed("can't write", &path, error);
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent).map_err(|error| told(&error))?;
        }
        let mut file = File::create(&draft).map_err(|error| told(&error))?;
        file.write_all(content).and_then(|()| file.sync_all()).map_err(|error| told(&error))?;
        std::fs::rename(&draft, &path).map_err(|error| told(&error))?;
        sync_directory(&path)
    }

    fn get(&self, name: &str, bytes_max: u64) -> Result<Option<Vec<u8>>, TargetError> {
        let path = self.path_of(name);
        let file = match File::open(&path) {
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
        self.remove_path(&self.path_of(name))?;
        self.remove_path(&self.draft_path(name))
    }
}

impl FileTarget {
    /// What could not be reserved; a draft that is new is removed again.
    fn no_space(
        &self,
        draft: &FileDraft,
        plan: &FilePlan,
        goes_on: bool,
        errno: Errno,
    ) -> TargetError {
        if !goes_on {
            // The reservation's failure is what matters.
            let _removed = self.remove_path(&draft.path);
        }
        let doing = format!("can't reserve {:.2} GiB for", gib(plan.bytes));
        failed(&doing, &draft.path, &errno.into())
    }

    fn remove_path(&self, path: &Path) -> Result<(), TargetError> {
        match std::fs::remove_file(path) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(failed("can't remove", path, &error)),
        }
        if let Some(parent) = path.parent().filter(|parent| *parent != self.path) {
            // Only a directory that is empty goes.
            let _left = rustix::fs::unlinkat(rustix::fs::CWD, parent, AtFlags::REMOVEDIR);
        }
        Ok(())
    }
}

/// Whether a file system that was asked for a lock has none.
fn has_no_locks(error: &std::io::Error) -> bool {
    let errno = error.raw_os_error().map(Errno::from_raw_os_error);
    matches!(errno, Some(Errno::NOLCK | Errno::OPNOTSUPP | Errno::BADF))
}

/// Makes the names in the directory of a file durable.
fn sync_directory(path: &Path) -> Result<(), TargetError> {
    let parent = path.parent().unwrap_or(Path::new("/"));
    let synced = File::open(parent).and_then(|directory| directory.sync_all());
    synced.map_err(|error| failed("can't make the names durable in", parent, &error))
}
