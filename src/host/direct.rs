//! Facts about a directory that may not be there yet: how much space is free, and whether it takes
//! I/O past the page cache, found out by opening a file without a name.

use std::path::Path;

use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;

/// Free space where a directory is or would be made, bytes; none where nobody says.
pub fn free_bytes(place: &Path) -> Option<u64> {
    let place = std::path::absolute(place).ok()?;
    let there = place.ancestors().find(|path| path.exists())?;
    let space = rustix::fs::statvfs(there).ok()?;
    Some(space.f_bavail.saturating_mul(space.f_frsize))
}

/// Whether files in the nearest directory above `path` that is there (or `path` itself) take
/// O_DIRECT. Nothing is written, and nothing is left. None where it can't be tried: the directory
/// can't be written, or its file system makes no files without a name.
pub fn takes_direct_io(path: &Path) -> Option<bool> {
    let directory = path.ancestors().find(|above| above.is_dir())?;
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    let opened = |flags| open(directory, flags, Mode::RUSR | Mode::WUSR);
    match opened(flags | OFlags::DIRECT) {
        Ok(_) => Some(true),
        // A file system without O_DIRECT, if it makes such files at all.
        Err(Errno::INVAL) => opened(flags).is_ok().then_some(false),
        Err(_) => None,
    }
}
