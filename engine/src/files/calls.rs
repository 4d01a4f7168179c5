//! A load by plain system calls: threads that take tiles from one queue and do them one call at a
//! time, as most stores do.

#![allow(unsafe_code, reason = "closing a file whose last error is not to be lost")]

use std::os::fd::{IntoRawFd, OwnedFd};
use std::sync::atomic::Ordering;

use flume::{Receiver, Sender};
use rustix::fs::{Advice, AtFlags};
use rustix::io::Errno;

use super::load::{Passes, Shared, each_pass};
use super::outcome::FileOutcome;
use super::tile::{Feed, Tile};
use crate::buffer::Chunk;
use crate::clock::monotonic_now;
use crate::error::SetupError;
use crate::held::HeldDirectory;
use crate::ring::{IoKind, PATH_DIRECTORY_MODE, PATH_FILE_MODE, PathOp};

/// Runs the load on so many threads, which all passes share.
pub(super) fn run<'a, 'p: 'a>(
    shared: &'a Shared<'a>,
    threads: usize,
    passes: Passes<'_, 'p>,
) -> Result<FileOutcome, SetupError> {
    let buffers = shared.buffers()?;
    std::thread::scope(|scope| {
        // No queue grows beyond the tiles of the requests under way.
        let (tiles, queue) = flume::unbounded();
        let (over, overs) = flume::unbounded();
        let (ready, readies) = flume::unbounded::<()>();
        let mut workers = Vec::new();
        for (index, buffer) in std::iter::from_fn(|| buffers.take()).take(threads).enumerate() {
            let leaving = Leaving { shared, over: over.clone() };
            let worker = Worker { shared, queue: queue.clone(), leaving, buffer };
            let ready = ready.clone();
            let thread = std::thread::Builder::new()
                .name(format!("ringfall-io-{index}"))
                .spawn_scoped(scope, move || worker.work(index, ready))
                .map_err(|error| SetupError::NoThread { reason: error.to_string() })?;
            workers.push(thread);
        }
        drop((queue, over, ready));
        // Nobody sends: the last that is ready hangs up, and all begin then.
        while readies.recv().is_ok() {}
        let mut outcome =
            each_pass(shared, passes, |feed| feed_workers(shared, feed, &tiles, &overs))?;
        drop(tiles);
        for worker in workers {
            match worker.join() {
                Ok(part) => outcome.add(&part),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        Ok(outcome)
    })
}

/// Keeps requests under way until there are no more, and waits for those that are.
fn feed_workers<'a>(
    shared: &Shared<'_>,
    feed: &mut Feed<'a>,
    tiles: &Sender<Tile<'a>>,
    overs: &Receiver<()>,
) {
    let mut under_way = 0;
    loop {
        while under_way < shared.load.in_flight
            && let Some(mut request) = feed.take()
        {
            under_way += 1;
            if request.any(|tile| tiles.send(tile).is_err()) {
                // No thread is left to do it.
                return;
            }
        }
        if under_way == 0 || overs.recv().is_err() {
            return;
        }
        under_way -= 1;
    }
}

struct Worker<'a> {
    shared: &'a Shared<'a>,
    queue: Receiver<Tile<'a>>,
    leaving: Leaving<'a>,
    buffer: Chunk,
}

/// Tells of each request that is over, and ends the load when its thread panics: nobody would wait
/// for that one's tile for ever.
struct Leaving<'a> {
    shared: &'a Shared<'a>,
    over: Sender<()>,
}

impl Leaving<'_> {
    fn tell(&self) {
        // Who does not listen any more has given the load up.
        let _heard = self.over.send(());
    }
}

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.shared.gives_up.store(true, Ordering::Relaxed);
            self.tell();
        }
    }
}

impl Worker<'_> {
    /// Does tiles until there are no more. Hangs up on `ready` when it can begin.
    fn work(mut self, index: usize, ready: Sender<()>) -> FileOutcome {
        let buffer = self.buffer.bytes_mut();
        self.shared.fill(buffer, index);
        drop(ready);
        let (mut outcome, mut file) = (FileOutcome::default(), None);
        while let Ok(mut tile) = self.queue.recv() {
            while let Some(op) = tile.next(buffer) {
                tile.begins(monotonic_now());
                let result = call(self.shared.directory, &mut file, buffer, &op);
                tile.done(result, monotonic_now(), &mut outcome);
            }
            if tile.end(monotonic_now(), &mut outcome) {
                self.leaving.tell();
            }
        }
        outcome
    }
}

/// Makes one system call; bytes moved, 0, or a negative errno, as a ring would answer.
pub(super) fn call(
    directory: &HeldDirectory,
    file: &mut Option<OwnedFd>,
    buffer: &mut [u8],
    op: &PathOp,
) -> i32 {
    let open = file.as_ref().ok_or(Errno::BADF);
    let answer = match op {
        PathOp::Stat { path } => {
            rustix::fs::statat(directory, &**path, AtFlags::SYMLINK_NOFOLLOW).map(|_found| 0)
        }
        PathOp::MakeDirectory { path } => {
            rustix::fs::mkdirat(directory, &**path, PATH_DIRECTORY_MODE).map(|()| 0)
        }
        PathOp::Open { path, flags } => {
            let opened = rustix::fs::openat(directory, &**path, *flags, PATH_FILE_MODE);
            opened.map(|opened| {
                *file = Some(opened);
                0
            })
        }
        PathOp::Move { kind, offset_bytes, buffer_offset, length_bytes } => {
            let part = &mut buffer[*buffer_offset..][..*length_bytes as usize];
            open.and_then(|file| match kind {
                IoKind::Read => rustix::io::pread(file, part, *offset_bytes),
                IoKind::Write | IoKind::Flush => rustix::io::pwrite(file, part, *offset_bytes),
            })
        }
        PathOp::Sync => open.and_then(rustix::fs::fsync).map(|()| 0),
        PathOp::DontNeed => {
            let drop_pages = |file: &OwnedFd| rustix::fs::fadvise(file, 0, None, Advice::DontNeed);
            open.and_then(drop_pages).map(|()| 0)
        }
        PathOp::Close => file.take().map_or(Err(Errno::BADF), close).map(|()| 0),
        PathOp::Rename { from, to } => {
            rustix::fs::renameat(directory, &**from, directory, &**to).map(|()| 0)
        }
        PathOp::Unlink { path } => {
            rustix::fs::unlinkat(directory, &**path, AtFlags::empty()).map(|()| 0)
        }
    };
    match answer {
        // One call moves less than 2 GiB.
        Ok(moved) => i32::try_from(moved).unwrap_or(i32::MAX),
        Err(errno) => -errno.raw_os_error(),
    }
}

/// Closes a file, and tells what its file system had not told before, as NFS does.
///
/// # Errors
/// That of `close(2)`; the file is closed all the same.
pub fn close(file: OwnedFd) -> Result<(), Errno> {
    // SAFETY: the descriptor is this file's, which is given up.
    match unsafe { libc::close(file.into_raw_fd()) } {
        0 => Ok(()),
        _ => Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)),
    }
}
