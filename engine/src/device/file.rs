//! A data file behind a ring: the real device.

use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};

use rustix::fs::{FallocateFlags, MemfdFlags, fallocate, memfd_create};

use super::{Device, DeviceFuture, Namespace, TouchedRanges};
use crate::buffer::Ticket;
use crate::clock::{Nanos, monotonic_now};
use crate::drive::DriveId;
use crate::drive::Preallocate;
use crate::error::{ErrorKind, IoError, Operation, SetupError};
use crate::key::Tier;
use crate::ring::{
    CommandTarget, Dialect, Files, IoRequest, Polling, Ring, polled_io_bytes_max, probe_polling,
};
use crate::space::{Space, Steps};
use crate::units::{BLOCK_BYTES, MIB};

/// `FALLOC_FL_WRITE_ZEROES` (Linux 6.17): zeros as written extents, by the device where it can.
const FALLOC_FL_WRITE_ZEROES: u32 = 0x80;
/// Zeros written at a time where the kernel has no such call: at first, and of a fast drive.
const ZERO_CHUNK_BYTES: [u64; 2] = [128 << 10, 8 << 20];
/// Time in which such a write is to end: a process can't leave before.
const ZERO_CHUNK_TIME: Nanos = Nanos::from_ms(100);
/// Bytes written between two looks at whether to go on.
const PREPARE_STEP_BYTES: u64 = 256 << 20;

/// The data file, its space given before the run or in steps, and what of it has been written.
///
/// One file for all shards, each with a ring of its own on it: the globally oldest entry leaves,
/// so space wanders between shards all the time, and between files each step would cost a hole, a
/// reservation and a first touch. Writes to reserved blocks lock the inode shared on ext4 and XFS.
#[derive(Debug)]
pub struct DataFile {
    file: File,
    path: PathBuf,
    preallocate: Preallocate,
    /// Locked only while some block has never been written.
    touched: Mutex<TouchedRanges>,
    untouched_blocks: AtomicU64,
    /// File system and inode, or the numbers of a raw device.
    identity: (u64, u64),
    is_device: bool,
    /// Bytes the file must at least have, because they were prepared.
    prepared_bytes: AtomicU64,
    /// Zeros to write next at a time.
    zero_chunk_bytes: AtomicU64,
    /// Free space that steps leave on the file system.
    kept_free_bytes: u64,
    /// The file was found cut when it was to grow.
    damage: OnceLock<IoError>,
    /// Where its drive is handed NVMe commands.
    namespace: OnceLock<Namespace>,
}

impl DataFile {
    /// Takes over a file opened with O_DIRECT.
    pub fn new(file: File, path: PathBuf, preallocate: Preallocate) -> std::io::Result<DataFile> {
        let metadata = file.metadata()?;
        let (identity, is_device) = (identity(&metadata), metadata.file_type().is_block_device());
        Ok(DataFile {
            file,
            path,
            preallocate,
            touched: Mutex::default(),
            untouched_blocks: AtomicU64::new(0),
            identity,
            is_device,
            prepared_bytes: AtomicU64::new(0),
            zero_chunk_bytes: AtomicU64::new(ZERO_CHUNK_BYTES[0]),
            kept_free_bytes: 0,
            damage: OnceLock::new(),
            namespace: OnceLock::new(),
        })
    }

    /// A file of memory that holds nothing, for engines without a storage tier: no drive is
    /// touched, and no I/O is ever made on it.
    ///
    /// # Errors
    /// When the kernel gives no such file.
    pub fn of_no_blocks() -> std::io::Result<DataFile> {
        let file = File::from(memfd_create("ringfall-no-storage", MemfdFlags::CLOEXEC)?);
        let path = format!("/proc/self/fd/{}", file.as_raw_fd()).into();
        DataFile::new(file, path, Preallocate::Reserve)
    }

    /// Has the steps of a file that grows leave so much free space on its file system.
    #[must_use]
    pub fn leaving(self, kept_free_bytes: u64) -> DataFile {
        DataFile { kept_free_bytes, ..self }
    }

    /// Whether it gets its space in steps.
    pub fn is_growing(&self) -> bool {
        !self.is_device && self.preallocate == Preallocate::Grow
    }

    /// Blocks that have space, from the first on; of a device all that were asked for.
    pub fn prepared_blocks(&self) -> u64 {
        match self.is_growing() {
            true => self.prepared_bytes.load(Ordering::Relaxed) / BLOCK_BYTES,
            false => u64::MAX,
        }
    }

    /// Descriptor of the open data file, valid as long as this device.
    pub fn raw_fd(&self) -> RawFd {
        self.file.as_raw_fd()
    }

    pub(super) fn open_file(&self) -> &File {
        &self.file
    }

    /// Another descriptor of the open data file, which stays valid for as long as it is held.
    pub fn descriptor(&self) -> std::io::Result<OwnedFd> {
        Ok(self.file.try_clone()?.into())
    }

    /// Path under which the data file or block device was opened.
    pub fn path(&self) -> &PathBuf {
        &self.path
    }

    /// Gives the first `blocks` blocks space, and with [`Preallocate::Write`] content. A file that
    /// grows gets the first step, or what of it can be had.
    ///
    /// # Errors
    /// `ENOSPC` and its like.
    pub fn prepare(&self, blocks: u64) -> Result<(), IoError> {
        self.prepare_watched(blocks, &mut |_done_bytes| true)
    }

    /// The same, which takes minutes where much is written: `goes_on` is told every 256 MiB how
    /// many bytes are done, and says whether to go on.
    ///
    /// # Errors
    /// `ENOSPC` and its like; [`ErrorKind::Cancelled`] when it is not to go on.
    pub fn prepare_watched(
        &self,
        blocks: u64,
        goes_on: &mut dyn FnMut(u64) -> bool,
    ) -> Result<(), IoError> {
        let all_bytes = blocks * BLOCK_BYTES;
        if self.is_growing() {
            return self.take_first_step(all_bytes);
        }
        let step_bytes = match self.preallocate {
            // A reservation takes no time, and is best had whole.
            Preallocate::Grow | Preallocate::Reserve => all_bytes.max(1),
            Preallocate::Write => PREPARE_STEP_BYTES,
        };
        let mut done_bytes = 0;
        while done_bytes < all_bytes {
            if !goes_on(done_bytes) {
                return Err(self.error(done_bytes, all_bytes - done_bytes, libc::ECANCELED));
            }
            let piece_bytes = step_bytes.min(all_bytes - done_bytes);
            match (self.is_device, self.preallocate) {
                // A device has its space; no file system converts anything at the first write.
                (true, Preallocate::Grow | Preallocate::Reserve) => {}
                (true, Preallocate::Write) => self.write_zeros(done_bytes, piece_bytes)?,
                (false, _) => self.give_space(done_bytes, piece_bytes)?,
            }
            done_bytes += piece_bytes;
        }
        if self.is_device {
            return Ok(());
        }
        self.prepared_bytes.store(blocks * BLOCK_BYTES, Ordering::Relaxed);
        if self.preallocate == Preallocate::Reserve {
            self.untouched_blocks.store(blocks, Ordering::Relaxed);
        }
        Ok(())
    }

    fn take_first_step(&self, all_bytes: u64) -> Result<(), IoError> {
        let mut piece = Steps::STORAGE.step_bytes(0, all_bytes, MIB);
        loop {
            match self.extend(0, piece) {
                // A quota, or another run that was faster.
                Err(error) if error.kind == ErrorKind::NoSpace && piece > MIB => piece /= 2,
                other => return other,
            }
        }
    }

    /// Gives the first `blocks` blocks space, if they don't have it: for what writes a range before
    /// the run.
    ///
    /// # Errors
    /// `ENOSPC` and its like.
    pub fn give(&self, blocks: u64) -> Result<(), IoError> {
        let prepared_blocks = self.prepared_blocks();
        if blocks <= prepared_blocks {
            return Ok(());
        }
        let start = prepared_blocks * BLOCK_BYTES;
        self.extend(start, blocks * BLOCK_BYTES - start)
    }

    /// Reserves a range that begins where the space ends, or before. What of it was taken is given
    /// back when not all can be had.
    fn extend(&self, offset: u64, length: u64) -> Result<(), IoError> {
        let before = self.prepared_bytes.load(Ordering::Relaxed);
        // Grown again, a file that somebody has cut would look whole.
        if let Err(error) = self.check_length() {
            return Err(self.damage.get_or_init(|| error).clone());
        }
        if let Err(error) = self.give_space(offset, length) {
            let (fresh, end) = (offset.max(before), offset + length);
            if fresh < end {
                let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                // Where this fails too, the space is given back when the file is deleted.
                let _given_back = fallocate(&self.file, hole, fresh, end - fresh);
            }
            return Err(error);
        }
        let after = before.max((offset + length) / BLOCK_BYTES * BLOCK_BYTES);
        self.prepared_bytes.store(after, Ordering::Relaxed);
        self.untouched_blocks.fetch_add((after - before) / BLOCK_BYTES, Ordering::Relaxed);
        Ok(())
    }

    fn give_space(&self, offset: u64, length: u64) -> Result<(), IoError> {
        let failed = |errno: rustix::io::Errno| self.error(offset, length, errno.raw_os_error());
        match self.preallocate {
            Preallocate::Grow | Preallocate::Reserve => {
                let reserve = || fallocate(&self.file, FallocateFlags::empty(), offset, length);
                match rustix::io::retry_on_intr(reserve) {
                    Ok(()) => Ok(()),
                    // Some file systems can't reserve; a sparse file of the right size will do.
                    Err(rustix::io::Errno::OPNOTSUPP) => {
                        let size = self.file.metadata().map_or(0, |m| m.len());
                        rustix::fs::ftruncate(&self.file, size.max(offset + length)).map_err(failed)
                    }
                    Err(errno) => Err(failed(errno)),
                }
            }
            Preallocate::Write => {
                let zeroes = FallocateFlags::from_bits_retain(FALLOC_FL_WRITE_ZEROES);
                let write = || fallocate(&self.file, zeroes, offset, length);
                match rustix::io::retry_on_intr(write) {
                    Ok(()) => {}
                    Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::INVAL) => {
                        self.write_zeros(offset, length)?;
                    }
                    Err(errno) => return Err(failed(errno)),
                }
                Ok(())
            }
        }
    }

    fn write_zeros(&self, offset: u64, length: u64) -> Result<(), IoError> {
        use std::os::unix::fs::FileExt;
        // One extent where possible, as a reservation would give.
        let errno_of = |e: &std::io::Error| e.raw_os_error().unwrap_or(libc::EIO);
        if !self.is_device
            && let Err(errno) = rustix::io::retry_on_intr(|| {
                fallocate(&self.file, FallocateFlags::empty(), offset, length)
            })
            && errno != rustix::io::Errno::OPNOTSUPP
        {
            return Err(self.error(offset, length, errno.raw_os_error()));
        }
        let chunk = crate::buffer::Mapping::new(ZERO_CHUNK_BYTES[1] as usize, false)
            .map_err(|_| self.error(offset, length, libc::ENOMEM))?;
        let zeros = chunk.bytes();
        let mut done = 0;
        while done < length {
            let chunk_bytes = self.zero_chunk_bytes.load(Ordering::Relaxed);
            let (piece, begun) = ((length - done).min(chunk_bytes), monotonic_now());
            self.file
                .write_all_at(&zeros[..piece as usize], offset + done)
                .map_err(|e| self.error(offset + done, piece, errno_of(&e)))?;
            done += piece;
            let next_bytes = next_chunk_bytes(chunk_bytes, monotonic_now() - begun);
            self.zero_chunk_bytes.store(next_bytes, Ordering::Relaxed);
        }
        self.file.sync_data().map_err(|e| self.error(offset, length, errno_of(&e)))
    }

    fn touch(&self, start_block: u64, blocks: u64) -> u64 {
        if self.untouched_blocks.load(Ordering::Relaxed) == 0 {
            return 0;
        }
        // Plain data: a panic elsewhere can't have left it half-changed.
        let touched = self.touched.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let fresh = touched.touch(start_block, blocks);
        self.untouched_blocks.fetch_sub(fresh, Ordering::Relaxed);
        fresh
    }

    /// Finds out whether I/Os of `io_bytes` on this file can be polled for, by one that reaches the
    /// drive: the first block is written before it is read, as one that is only reserved is not
    /// read from there. For a file that was prepared and holds nothing yet.
    ///
    /// # Errors
    /// When they can't: why, and what would help.
    pub fn probe_polled(&self, io_bytes: u64) -> Result<(), SetupError> {
        let name = self.path.display();
        let refused = |reason: String| SetupError::Polling { name: "IOPOLL", reason };
        let written = self.write_zeros(0, BLOCK_BYTES);
        written.map_err(|error| refused(format!("{name}: {}", error.what())))?;
        self.touch(0, 1);
        self.probe_polling(Polling::Completion).map_err(|error| match error {
            SetupError::Polling { reason, .. } => refused(format!("{name}: {reason}")),
            other => other,
        })?;
        self.check_polled_size(io_bytes)
    }

    /// Finds out whether a way of polling works on this file, by one read of its first block.
    ///
    /// # Errors
    /// When it does not: why, and what would help.
    pub fn probe_polling(&self, polling: Polling) -> Result<(), SetupError> {
        probe_polling(self.raw_fd(), self.command_target(), polling)
    }

    /// Whether the drive takes I/Os of `io_bytes` in one piece, as those that are polled for must
    /// be taken. NVMe commands are cut before the kernel has them, and are never too large.
    ///
    /// # Errors
    /// When it splits them. No error where the size it takes is not known.
    pub fn check_polled_size(&self, io_bytes: u64) -> Result<(), SetupError> {
        match polled_io_bytes_max(self.raw_fd()) {
            _ if self.command_target().is_some() => Ok(()),
            Some(bytes) if bytes < io_bytes => Err(SetupError::PolledIoTooLarge {
                path: self.path.clone(),
                io_bytes,
                most_bytes: bytes,
            }),
            _ => Ok(()),
        }
    }

    /// Opens the NVMe namespace that this is, for commands in place of reads and writes of its
    /// first `bytes`, and tries them there; writes to the first and the last block of these. For a
    /// device that holds nothing yet.
    ///
    /// # Errors
    /// When it is none, or takes none: why, and what would help.
    pub fn open_namespace(&self, bytes: u64) -> Result<(), SetupError> {
        if self.namespace.get().is_none() {
            let namespace = Namespace::open(&self.path)?;
            namespace.compare(self, bytes)?;
            let _other_was_faster = self.namespace.set(namespace);
        }
        Ok(())
    }

    /// Target of NVMe commands to it, valid for as long as this lives; none before
    /// [`DataFile::open_namespace`].
    pub fn command_target(&self) -> Option<CommandTarget> {
        self.namespace.get().map(Namespace::target)
    }

    /// Every block that has space has been written by other means: nothing of it is a first touch
    /// any more.
    pub fn all_written(&self) {
        if self.is_growing() {
            let touched = self.touched.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            touched.touch(0, self.prepared_blocks());
        }
        self.untouched_blocks.store(0, Ordering::Relaxed);
    }

    /// Whether the file is still there, under its name, at least as long as it was prepared.
    ///
    /// # Errors
    /// [`ErrorKind::Gone`] when it was deleted or replaced, [`ErrorKind::Truncated`] when it is
    /// shorter than it was made; another kind when the system doesn't say.
    pub fn check(&self) -> Result<(), IoError> {
        let gone = || IoError { kind: ErrorKind::Gone, ..self.error(0, 0, libc::ENOENT) };
        let metadata = std::fs::metadata(&self.path).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory => gone(),
            // A file system that has shut down has all names still.
            _ => self.error(0, 0, error.raw_os_error().unwrap_or(libc::EIO)),
        })?;
        if identity(&metadata) != self.identity {
            return Err(gone());
        }
        if self.is_device {
            return Ok(());
        }
        self.damage.get().map_or_else(|| self.check_length(), |damage| Err(damage.clone()))
    }

    fn check_length(&self) -> Result<(), IoError> {
        let errno = |error: &std::io::Error| error.raw_os_error().unwrap_or(libc::EIO);
        // First what it must be: it may grow meanwhile.
        let prepared_bytes = self.prepared_bytes.load(Ordering::Relaxed);
        let metadata = self.file.metadata().map_err(|e| self.error(0, 0, errno(&e)))?;
        if metadata.len() < prepared_bytes {
            let error = self.error(metadata.len(), prepared_bytes - metadata.len(), 0);
            return Err(IoError { kind: ErrorKind::Truncated, ..error });
        }
        Ok(())
    }

    fn error(&self, offset_bytes: u64, length_bytes: u64, errno: i32) -> IoError {
        IoError {
            kind: ErrorKind::of_errno(errno),
            operation: Operation::Preallocate,
            tier: Tier::Storage,
            file: self.path.display().to_string(),
            offset_bytes,
            length_bytes,
            errno,
        }
    }
}

impl Space for DataFile {
    fn left_bytes(&self) -> Option<u64> {
        let stat = rustix::fs::fstatvfs(&self.file).ok()?;
        let free_bytes = stat.f_bavail.saturating_mul(stat.f_frsize);
        Some(free_bytes.saturating_sub(self.kept_free_bytes))
    }

    fn take(&self, offset_bytes: u64, length_bytes: u64) -> Result<(), String> {
        self.extend(offset_bytes, length_bytes).map_err(|error| match error.kind {
            // Without one, the file system itself makes no longer files.
            ErrorKind::NoSpace if error.errno == libc::EFBIG && has_file_limit() => {
                "the limit of file sizes (ulimit -f) allows no more".to_owned()
            }
            ErrorKind::NoSpace => "the file system gave no more".to_owned(),
            _ => error.what(),
        })
    }
}

/// Whether files are limited (`ulimit -f`).
fn has_file_limit() -> bool {
    rustix::process::getrlimit(rustix::process::Resource::Fsize).current.is_some()
}

/// Numbers that stay the same as long as it is the same file or device.
fn identity(metadata: &std::fs::Metadata) -> (u64, u64) {
    match metadata.file_type().is_block_device() {
        true => (metadata.rdev(), 0),
        false => (metadata.dev(), metadata.ino()),
    }
}

/// The data files of all drives through the shard's ring.
pub struct FileDevice<D: Dialect = Files> {
    ring: std::rc::Rc<Ring<Ticket, D>>,
    files: Box<[(std::sync::Arc<DataFile>, String)]>,
}

impl<D: Dialect> FileDevice<D> {
    /// Joins a ring and the files it was made for: one a drive, at least one.
    pub fn new(
        ring: std::rc::Rc<Ring<Ticket, D>>,
        files: &[std::sync::Arc<DataFile>],
    ) -> FileDevice<D> {
        assert!(!files.is_empty(), "a device has at least one drive");
        let named = |file: &std::sync::Arc<DataFile>| {
            (std::sync::Arc::clone(file), file.path.display().to_string())
        };
        FileDevice { ring, files: files.iter().map(named).collect() }
    }
}

impl<D: Dialect> Device for FileDevice<D> {
    fn submit(&self, request: IoRequest, ticket: Option<Ticket>) -> DeviceFuture {
        let (drive, offset_bytes) = DriveId::of_byte(request.offset_bytes);
        self.ring.push_to(drive.index(), IoRequest { offset_bytes, ..request }, ticket)
    }

    fn kick(&self) {
        self.ring.turn();
    }

    fn close(&self) {
        self.ring.release_file();
    }

    fn in_flight(&self) -> u32 {
        self.ring.in_flight()
    }

    fn oldest_in_flight(&self) -> Option<Nanos> {
        self.ring.oldest_in_flight()
    }

    fn name(&self) -> &str {
        &self.files[0].1
    }

    fn place(&self, offset_bytes: u64) -> (String, u64) {
        let (drive, offset_bytes) = DriveId::of_byte(offset_bytes);
        (self.files[drive.index()].1.clone(), offset_bytes)
    }

    fn first_touch_bytes(&self, start_block: u64, blocks: u64) -> u64 {
        let (drive, block) = DriveId::of_block(start_block);
        self.files[drive.index()].0.touch(block, blocks) * BLOCK_BYTES
    }
}

/// Zeros to write next at a time, where so many took `took`.
fn next_chunk_bytes(chunk_bytes: u64, took: Nanos) -> u64 {
    let [least, most] = ZERO_CHUNK_BYTES;
    let next = match took {
        took if took > ZERO_CHUNK_TIME => chunk_bytes / 2,
        took if took > ZERO_CHUNK_TIME / 2 => chunk_bytes,
        _ => chunk_bytes * 2,
    };
    next.clamp(least, most)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::CacheDir;

    const MIB_BLOCKS: u64 = MIB / BLOCK_BYTES;

    /// 8 MiB took a drive of 0.1 MB/s 80 s, in which no signal ended the process.
    #[test]
    fn zeros_are_written_in_pieces_that_a_drive_ends_soon() {
        // The time of the longest piece, of a drive that was fast before and is slow now.
        let longest_ms = |bytes_a_ms: u64, first_bytes| {
            let took = |bytes: u64| Nanos::from_ms(bytes / bytes_a_ms);
            let next = |bytes: &u64| Some(next_chunk_bytes(*bytes, took(*bytes)));
            let pieces = std::iter::successors(Some(first_bytes), next);
            pieces.skip(8).take(100).map(took).max().unwrap().as_ns() / 1_000_000
        };
        let [least, most] = ZERO_CHUNK_BYTES;
        for first_bytes in [least, most] {
            assert_eq!(longest_ms(100, first_bytes), least / 100, "0.1 MB/s");
            assert!(longest_ms(10_000, first_bytes) <= 105, "10 MB/s");
            assert_eq!(longest_ms(1_000_000, first_bytes), most / 1_000_000, "1 GB/s");
        }
    }

    /// A file that grows, of 64 MiB at most: its first step is 4 MiB.
    fn growing(name: &str) -> (CacheDir, DataFile) {
        let path =
            std::env::temp_dir().join(format!("ringfall-file-{}-{name}", std::process::id()));
        let mut directory = CacheDir::open(&path).unwrap();
        let (file, path) = directory.create_data_file().unwrap();
        let file = DataFile::new(file, path, Preallocate::Grow).unwrap();
        file.prepare(64 * MIB_BLOCKS).unwrap();
        assert_eq!(file.prepared_blocks(), 4 * MIB_BLOCKS);
        (directory, file)
    }

    #[test]
    fn a_file_that_grows_counts_each_first_touch_once() {
        let (directory, file) = growing("touch");
        assert_eq!(file.touch(0, MIB_BLOCKS), MIB_BLOCKS);
        file.all_written();
        assert_eq!(file.touch(2 * MIB_BLOCKS, MIB_BLOCKS), 0);
        // A step that begins inside what is there, as the first one may.
        file.take(3 * MIB, 5 * MIB).unwrap();
        assert_eq!(file.prepared_blocks(), 8 * MIB_BLOCKS);
        assert_eq!(file.touch(3 * MIB_BLOCKS, 2 * MIB_BLOCKS), MIB_BLOCKS);
        assert_eq!(file.touch(0, 8 * MIB_BLOCKS), 3 * MIB_BLOCKS);
        assert_eq!(file.touch(0, 8 * MIB_BLOCKS), 0);
        file.give(6 * MIB_BLOCKS).unwrap();
        assert_eq!(file.prepared_blocks(), 8 * MIB_BLOCKS, "it has that much");
        file.give(9 * MIB_BLOCKS).unwrap();
        assert_eq!(file.touch(0, 9 * MIB_BLOCKS), MIB_BLOCKS);
        assert_eq!(file.file.metadata().unwrap().len(), 9 * MIB);
        file.check().unwrap();
        directory.remove().unwrap();
    }

    #[test]
    fn a_file_that_was_cut_does_not_look_whole_when_it_grows() {
        let (directory, file) = growing("cut");
        rustix::fs::ftruncate(&file.file, MIB).unwrap();
        assert!(file.take(4 * MIB, MIB).unwrap_err().contains("cut short"));
        // Writes that are under way make it as long as it was.
        rustix::fs::ftruncate(&file.file, 4 * MIB).unwrap();
        assert_eq!(file.check().unwrap_err().kind, ErrorKind::Truncated);
        directory.remove().unwrap();
    }

    #[test]
    fn a_step_leaves_others_their_space_and_gives_back_what_it_can_not_have_whole() {
        let (directory, file) = growing("kept");
        let free_bytes = file.left_bytes().unwrap();
        let file = file.leaving(free_bytes - MIB);
        assert!(file.left_bytes().unwrap() <= free_bytes);
        let blocks = || file.file.metadata().unwrap().blocks() * 512;
        let before = blocks();
        // Beyond what any file system here can hold.
        let why = file.take(4 * MIB, 1 << 62).unwrap_err();
        assert_eq!(why, "the file system gave no more");
        assert_eq!((blocks(), file.prepared_blocks()), (before, 4 * MIB_BLOCKS));
        directory.remove().unwrap();
    }
}
