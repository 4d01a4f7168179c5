//! The next step after a failed call on a file.

use std::io::{Error, ErrorKind};

use rustix::io::Errno;

/// Next step after an error of the system, an imperative.
pub(crate) fn remedy(error: &Error) -> &'static str {
    match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::NOSPC | Errno::DQUOT) => "free space there, or ask for less",
        Some(Errno::FBIG) => "raise the limit of file sizes (ulimit -f), or ask for less",
        Some(Errno::ACCESS | Errno::PERM) => "check its owner and permissions",
        Some(Errno::ROFS) => "mount it for writing, or give another directory",
        Some(Errno::NOTDIR | Errno::EXIST) => {
            "a part of that path is a file: give another directory"
        }
        Some(Errno::NOENT) => "check the path, and that nobody removes files there meanwhile",
        Some(Errno::ISDIR) => "give a file",
        Some(Errno::IO | Errno::NODATA | Errno::REMOTEIO) => {
            "look at dmesg and the drive's SMART log"
        }
        Some(Errno::MFILE | Errno::NFILE) => "raise the limit on open files (ulimit -n)",
        Some(Errno::TIMEDOUT) => "look at dmesg for resets of the device",
        None if error.kind() == ErrorKind::UnexpectedEof => "nothing else may change it meanwhile",
        None if error.kind() == ErrorKind::StorageFull => "give a place on another file system",
        // What is there is no file of ours.
        None if error.get_ref().is_some() => "give another path",
        _ => "look up the error in errno(3), and look at dmesg",
    }
}
