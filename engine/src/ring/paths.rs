//! A ring for a plain thread that works on files by their paths below a directory: it opens, reads,
//! writes, renames and removes them, with one operation at a time on each of its lanes. A lane owns
//! its buffer, its open file and the paths of its operation until that has completed.

#![allow(unsafe_code, reason = "pushing entries whose memory the lanes own until they complete")]

use std::ffi::c_char;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, IntoRawFd, OwnedFd};
use std::sync::Arc;

use io_uring::{Probe, opcode, squeue, types};
use rustix::fs::{Mode, OFlags};

use super::batch::is_batch;
use super::dialect::{Files, NamedFile, file_entry};
use super::op::{IoKind, IoRequest};
use super::patience::WAIT_MAX;
use super::probe::{kernel_release, setup_failure};
use super::raw::RawRing;
use super::setup::{RingConfig, RingSetup};
use crate::buffer::{Chunk, ChunkPool, MemoryPlace};
use crate::error::SetupError;
use crate::held::HeldDirectory;

/// Mode of a file that an operation makes, less what the umask takes, as most KV stores give it.
pub const PATH_FILE_MODE: Mode = Mode::from_raw_mode(0o644);
/// Mode of a directory that an operation makes, less what the umask takes.
pub const PATH_DIRECTORY_MODE: Mode = Mode::from_raw_mode(0o777);
/// Most lanes of a ring (`IORING_MAX_ENTRIES`).
const LANES_MAX: u32 = 1 << 15;

/// One operation, which is one system call where no ring is used. Paths are relative to a directory
/// that is held open; a link at their end is not followed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PathOp {
    /// Looks whether something has that name (`statx`).
    Stat {
        /// Name that is looked up.
        path: Arc<str>,
    },
    /// Makes one directory (`mkdirat`).
    MakeDirectory {
        /// Directory, whose parent must be there.
        path: Arc<str>,
    },
    /// Opens a file, which is the lane's until it is closed (`openat`).
    Open {
        /// Name of the file.
        path: Arc<str>,
        /// Flags of the open; `O_NOFOLLOW` and `O_CLOEXEC` are among them.
        flags: OFlags,
    },
    /// Moves bytes between the lane's buffer and its open file (`pread`, `pwrite`).
    Move {
        /// Whether the file is read or written.
        kind: IoKind,
        /// Where in the file, bytes.
        offset_bytes: u64,
        /// Where in the lane's buffer, bytes.
        buffer_offset: usize,
        /// Number of bytes, not 0 and below 2 GiB.
        length_bytes: u32,
    },
    /// Makes the open file durable (`fsync`).
    Sync,
    /// Has the kernel drop the open file's pages from its cache (`posix_fadvise`).
    DontNeed,
    /// Closes the open file (`close`).
    Close,
    /// Gives a file another name, also in place of what has that name (`renameat`).
    Rename {
        /// Name that it has.
        from: Arc<str>,
        /// Name that it gets.
        to: Arc<str>,
    },
    /// Removes a file by its name (`unlinkat`).
    Unlink {
        /// Name of the file.
        path: Arc<str>,
    },
}

/// A lane: what its operation refers to.
struct Lane {
    chunk: Chunk,
    file: Option<OwnedFd>,
    /// Paths of the operation, each with a zero at its end.
    paths: [Vec<u8>; 2],
    /// Answer of a `statx`, which nobody reads.
    stat: Box<MaybeUninit<libc::statx>>,
    is_busy: bool,
    /// Whether the operation in flight opens a file.
    opens: bool,
}

/// The ring. All operations have ended when it is dropped.
pub struct PathRing {
    raw: RawRing<Files>,
    directory: Arc<OwnedFd>,
    lanes: Vec<Lane>,
    /// Bytes that a registered piece of the buffers holds; none where they are not registered.
    registered_span: Option<usize>,
    in_flight: u32,
}

impl PathRing {
    /// Makes a ring on this thread, which must be the one to drive it, with a lane for each chunk
    /// of the pool that nobody holds.
    ///
    /// # Errors
    /// When the kernel or its limits do not allow it, and where it lacks one of the operations
    /// (before Linux 5.15).
    ///
    /// # Panics
    /// When the pool has no free chunk, or more than 32,768: a bug of the caller.
    pub fn new(directory: &HeldDirectory, pool: &ChunkPool) -> Result<PathRing, SetupError> {
        let chunks: Vec<Chunk> = std::iter::from_fn(|| pool.take()).collect();
        assert!(!chunks.is_empty() && chunks.len() <= LANES_MAX as usize);
        let entries = chunks.len() as u32;
        let mut setup = RingSetup::new(RingConfig { entries, ..RingConfig::default() })?;
        check_operations(&setup)?;
        let (start, bytes) = pool.region();
        // SAFETY: the lanes, whose chunks keep the pool's memory, live in the same struct as the
        // ring, whose `Drop` waits until nothing is in flight; the kernel holds registered pages
        // whatever is unmapped.
        let registered = unsafe { setup.register_buffers(start, bytes, pool.buffer_bytes()) };
        // Without it each I/O pins its pages: slower, not wrong.
        let registered_span = registered.is_ok().then_some(setup.registered_span_bytes);
        let directory = directory.as_fd().try_clone_to_owned().map_err(|error| {
            SetupError::new(
                format!("the directory can't be opened once more: {error}"),
                "raise the file descriptor limit with `ulimit -n 65536`",
            )
        })?;
        let lane = |chunk| Lane {
            chunk,
            file: None,
            paths: [Vec::new(), Vec::new()],
            stat: Box::new(MaybeUninit::uninit()),
            is_busy: false,
            opens: false,
        };
        Ok(PathRing {
            raw: RawRing::new(setup.ring),
            directory: Arc::new(directory),
            lanes: chunks.into_iter().map(lane).collect(),
            registered_span,
            in_flight: 0,
        })
    }

    /// Number of operations pushed and not yet completed.
    pub fn in_flight(&self) -> u32 {
        self.in_flight
    }

    /// The buffer of a lane that has no operation in flight.
    ///
    /// # Panics
    /// When it has: the kernel owns the buffer then.
    pub fn buffer(&mut self, lane: u32) -> &mut [u8] {
        let lane = &mut self.lanes[lane as usize];
        assert!(!lane.is_busy, "the kernel owns the buffer of a busy lane");
        lane.chunk.bytes_mut()
    }

    /// Queues an operation of an idle lane, and hands over what is queued once that is a batch.
    ///
    /// # Panics
    /// When the lane is busy, when its file is not open that should be or the other way round, and
    /// when a path has a zero in it or an I/O leaves the buffer: bugs of the caller.
    pub fn push(&mut self, lane: u32, op: &PathOp) {
        let directory = types::Fd(self.directory.as_raw_fd());
        let own = &mut self.lanes[lane as usize];
        assert!(!own.is_busy, "a lane has one operation at a time");
        let entry = own.entry(directory, op, self.registered_span);
        own.is_busy = true;
        own.opens = matches!(op, PathOp::Open { .. });
        self.in_flight += 1;
        // SAFETY: the paths, the buffer and the file belong to the lane, which changes none of them
        // while it is busy; `Drop` waits for the completion, or leaks the lane. The directory stays
        // open for as long.
        unsafe { self.raw.push(u64::from(lane), entry, |_| {}) };
        if is_batch(self.raw.fresh(), self.in_flight) {
            self.raw.hand_over(|_| {});
        }
    }

    /// Hands over what is queued and waits until something has completed, a second at the most.
    ///
    /// # Errors
    /// `ETIMEDOUT` when nothing has completed for [`SILENCE_MAX`](super::SILENCE_MAX) although
    /// operations are in flight.
    pub fn wait(&mut self) -> std::io::Result<()> {
        self.raw.wait(Some(WAIT_MAX), |_| {})
    }

    /// A completed operation: its lane, and the bytes that were moved, 0, or a negative errno.
    pub fn next_done(&mut self) -> Option<(u32, i32)> {
        let (token, result) = self.raw.reap()?;
        let lane = &mut self.lanes[token as usize];
        assert!(lane.is_busy, "a completion comes once");
        self.in_flight -= 1;
        Some((token as u32, lane.ended(result)))
    }
}

impl Lane {
    fn entry(
        &mut self,
        directory: types::Fd,
        op: &PathOp,
        registered_span: Option<usize>,
    ) -> squeue::Entry {
        let [first, second] = &mut self.paths;
        match op {
            PathOp::Stat { path } => {
                let answer = self.stat.as_mut_ptr().cast();
                opcode::Statx::new(directory, zero_ended(first, path), answer)
                    .flags(libc::AT_SYMLINK_NOFOLLOW)
                    .mask(libc::STATX_BASIC_STATS)
                    .build()
            }
            PathOp::MakeDirectory { path } => {
                opcode::MkDirAt::new(directory, zero_ended(first, path))
                    .mode(PATH_DIRECTORY_MODE.as_raw_mode())
                    .build()
            }
            PathOp::Open { path, flags } => {
                assert!(self.file.is_none(), "a lane has one open file");
                opcode::OpenAt::new(directory, zero_ended(first, path))
                    .flags(flags.bits() as i32)
                    .mode(PATH_FILE_MODE.as_raw_mode())
                    .build()
            }
            PathOp::Move { kind, offset_bytes, buffer_offset, length_bytes } => {
                let (start, length) = (*buffer_offset, *length_bytes as usize);
                assert!(start + length <= self.chunk.bytes().len() && *kind != IoKind::Flush);
                let place = MemoryPlace {
                    pointer: self.chunk.as_ptr().wrapping_add(start),
                    region_offset: Some(self.chunk.region_offset() + start),
                };
                let request = IoRequest {
                    kind: *kind,
                    offset_bytes: *offset_bytes,
                    length_bytes: *length_bytes,
                    buffer_offset: 0,
                };
                let file = NamedFile::Descriptor(self.open_file().0);
                file_entry(&file, request, Some(&place), registered_span)
            }
            PathOp::Sync => opcode::Fsync::new(self.open_file()).build(),
            PathOp::DontNeed => {
                opcode::Fadvise::new(self.open_file(), 0, libc::POSIX_FADV_DONTNEED).build()
            }
            PathOp::Close => {
                let file = self.file.take().expect("the lane has an open file");
                // The kernel closes it. One that it refuses to close is leaked: closing another's
                // file that has the number by then would be worse.
                opcode::Close::new(types::Fd(file.into_raw_fd())).build()
            }
            PathOp::Rename { from, to } => {
                let (from, to) = (zero_ended(first, from), zero_ended(second, to));
                opcode::RenameAt::new(directory, from, directory, to).build()
            }
            PathOp::Unlink { path } => {
                opcode::UnlinkAt::new(directory, zero_ended(first, path)).build()
            }
        }
    }

    fn open_file(&self) -> types::Fd {
        types::Fd(self.file.as_ref().expect("the lane has an open file").as_raw_fd())
    }

    /// Takes note of the answer to its operation; the result for the caller.
    fn ended(&mut self, result: i32) -> i32 {
        self.is_busy = false;
        if self.opens && result >= 0 {
            // SAFETY: the kernel has just opened it for this lane, and nobody else knows of it.
            self.file = Some(unsafe { OwnedFd::from_raw_fd(result) });
            return 0;
        }
        result
    }
}

impl Drop for PathRing {
    fn drop(&mut self) {
        let PathRing { raw, lanes, .. } = self;
        // What was opened meanwhile is closed with its lane.
        let ended = |token: u64, result| {
            lanes[token as usize].ended(result);
        };
        if !raw.drain(|_| {}, ended) {
            // Freeing buffers under a device that still writes could corrupt memory; leaking can't.
            std::mem::forget(std::mem::take(&mut self.lanes));
            std::mem::forget(Arc::clone(&self.directory));
        }
    }
}

/// A path as the kernel reads it, in memory that stays until the next operation of the lane.
fn zero_ended(memory: &mut Vec<u8>, path: &str) -> *const c_char {
    assert!(!path.contains('\0'), "a path ends at its first zero");
    memory.clear();
    memory.extend_from_slice(path.as_bytes());
    memory.push(0);
    memory.as_ptr().cast()
}

fn check_operations(setup: &RingSetup) -> Result<(), SetupError> {
    let mut probe = Probe::new();
    let failed = |error: std::io::Error| setup_failure(error.raw_os_error().unwrap_or(0));
    setup.ring.submitter().register_probe(&mut probe).map_err(failed)?;
    let needed = [
        (opcode::OpenAt::CODE, "open files"),
        (opcode::Statx::CODE, "look files up"),
        (opcode::Fadvise::CODE, "drop files from its cache"),
        (opcode::Close::CODE, "close files"),
        (opcode::RenameAt::CODE, "rename files"),
        (opcode::UnlinkAt::CODE, "remove files"),
        (opcode::MkDirAt::CODE, "make directories"),
    ];
    match needed.iter().find(|(code, _)| !probe.is_supported(*code)) {
        None => Ok(()),
        Some((_, missing)) => Err(SetupError::new(
            format!("this kernel ({}) can't {missing} through io_uring", kernel_release()),
            "use Linux 5.15 or newer, or plain system calls",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> Arc<str> {
        text.into()
    }

    fn result(ring: &mut PathRing, lane: u32, op: &PathOp) -> i32 {
        ring.push(lane, op);
        loop {
            ring.wait().unwrap();
            if let Some((done, result)) = ring.next_done() {
                assert_eq!((done, ring.in_flight()), (lane, 0));
                return result;
            }
        }
    }

    fn create(name: &str) -> PathOp {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        PathOp::Open { path: path(name), flags }
    }

    #[test]
    fn each_operation_does_what_its_system_call_does() {
        let root = std::env::temp_dir().join(format!("ringfall-paths-{}", std::process::id()));
        let held = HeldDirectory::make(&root).unwrap();
        let pool = ChunkPool::new(8192, 2).unwrap();
        let mut ring = PathRing::new(&held, &pool).unwrap();
        assert_eq!(pool.free_count(), 0);
        let stat = |name| PathOp::Stat { path: path(name) };
        let io = |kind, buffer_offset, length_bytes| PathOp::Move {
            kind,
            offset_bytes: 1,
            buffer_offset,
            length_bytes,
        };
        assert_eq!(result(&mut ring, 0, &PathOp::MakeDirectory { path: path("d") }), 0);
        assert_eq!(result(&mut ring, 0, &stat("d")), 0);
        assert_eq!(result(&mut ring, 0, &stat("d/a")), -libc::ENOENT);
        assert_eq!(result(&mut ring, 0, &create("d/a")), 0);
        assert_eq!(result(&mut ring, 1, &create("d/a")), -libc::EEXIST);
        ring.buffer(0)[100..200].fill(7);
        assert_eq!(result(&mut ring, 0, &io(IoKind::Write, 100, 100)), 100);
        for op in [PathOp::Sync, PathOp::DontNeed, PathOp::Close] {
            assert_eq!(result(&mut ring, 0, &op), 0, "{op:?}");
        }
        let rename = PathOp::Rename { from: path("d/a"), to: path("d/b") };
        assert_eq!(result(&mut ring, 1, &rename), 0);
        let open = PathOp::Open { path: path("d/b"), flags: OFlags::RDONLY | OFlags::CLOEXEC };
        assert_eq!(result(&mut ring, 1, &open), 0);
        assert_eq!(result(&mut ring, 1, &io(IoKind::Read, 8, 8000)), 100);
        assert_eq!(ring.buffer(1)[7..109], [&[0_u8][..], &[7; 100], &[0]].concat());
        assert_eq!(result(&mut ring, 0, &PathOp::Unlink { path: path("d/b") }), 0);
        assert_eq!(std::fs::read_dir(root.join("d")).unwrap().count(), 0);
        drop(ring);
        assert_eq!(pool.free_count(), 2);
        std::fs::remove_dir_all(root).unwrap();
    }

    /// Its descriptor belonged to nobody.
    #[test]
    fn a_file_that_is_opened_while_the_ring_ends_is_closed() {
        let root = std::env::temp_dir().join(format!("ringfall-paths-end-{}", std::process::id()));
        let held = HeldDirectory::make(&root).unwrap();
        let pool = ChunkPool::new(4096, 8).unwrap();
        let mut ring = PathRing::new(&held, &pool).unwrap();
        for lane in 0..8 {
            ring.push(lane, &create(&format!("f{lane}")));
        }
        drop(ring);
        let here = root.canonicalize().unwrap();
        let open = std::fs::read_dir("/proc/self/fd").unwrap();
        let links = open.filter_map(|entry| std::fs::read_link(entry.unwrap().path()).ok());
        let left: Vec<_> = links.filter(|link| link.starts_with(&here) && *link != here).collect();
        assert!(left.is_empty(), "{left:?}");
        std::fs::remove_dir_all(root).unwrap();
    }
}
