//! I/O errors, as facts that a caller can branch on.

use super::{NvmeStatus, errno_text};
use crate::drive::IoKind;
use crate::key::Tier;
use crate::named;

named! {
/// Operation during which an error arose.
#[derive(Hash, PartialOrd, Ord)]
pub enum Operation {
    /// An O_DIRECT read.
    Read = "read",
    /// An O_DIRECT write.
    Write = "write",
    /// `fdatasync` after an entry.
    Flush = "flush",
    /// Allocating or zeroing space ahead of use.
    Preallocate = "preallocate",
}
}

impl Operation {
    /// The operation that such an I/O is.
    pub const fn of(kind: IoKind) -> Operation {
        match kind {
            IoKind::Read => Operation::Read,
            IoKind::Write => Operation::Write,
            IoKind::Flush => Operation::Flush,
        }
    }
}

named! {
/// The class of a failure: what decides whether to retry, stop or report.
#[derive(Hash, PartialOrd, Ord)]
pub enum ErrorKind {
    /// `ENOSPC`, `EDQUOT`, `EFBIG`: the file system gave less than it was thought to have.
    NoSpace = "no_space",
    /// `EIO`, `EREMOTEIO`, `ENODATA`, `EILSEQ`: the device could not do it.
    Media = "media",
    /// `EACCES`, `EPERM`, `EROFS`: not allowed.
    Permission = "permission",
    /// `ENODEV`, `ENXIO`, `ENOENT`, `ESTALE`, `ENOMEDIUM`, `EBADF`: the device or file went away.
    Gone = "gone",
    /// `EINVAL`, `EOPNOTSUPP`, `EFAULT`: this kernel or file system refuses this kind of I/O.
    Unsupported = "unsupported",
    /// `ENOMEM`, `ENOBUFS`, `EMFILE`, `ENFILE`: the kernel is out of a resource.
    Resources = "resources",
    /// `ETIMEDOUT`: the device did not answer in time.
    Timeout = "timeout",
    /// `ECANCELED`: given up on purpose, or for want of a worker thread of io_uring.
    Cancelled = "cancelled",
    /// A read met the end of the file, or a write made no progress: the file is shorter than it
    /// was.
    Truncated = "truncated",
    /// The bytes read differ from those written.
    Corrupt = "corrupt",
    /// The shard that owns the key no longer answers.
    ShardGone = "shard_gone",
    /// Any other errno.
    Other = "other",
}
}

impl ErrorKind {
    /// The kind of a positive errno, or of an NVMe status in its place ([`NvmeStatus::errno`]).
    pub fn of_errno(errno: i32) -> ErrorKind {
        if let Some(status) = NvmeStatus::of_errno(errno) {
            return status.kind();
        }
        match errno {
            libc::ENOSPC | libc::EDQUOT | libc::EFBIG => ErrorKind::NoSpace,
            libc::EIO | libc::EREMOTEIO | libc::ENODATA | libc::EILSEQ => ErrorKind::Media,
            libc::EACCES | libc::EPERM | libc::EROFS => ErrorKind::Permission,
            libc::ENODEV
            | libc::ENXIO
            | libc::ENOENT
            | libc::ESTALE
            | libc::ENOMEDIUM
            | libc::EBADF => ErrorKind::Gone,
            libc::EINVAL | libc::EOPNOTSUPP | libc::EFAULT => ErrorKind::Unsupported,
            libc::ENOMEM | libc::ENOBUFS | libc::EMFILE | libc::ENFILE => ErrorKind::Resources,
            libc::ETIMEDOUT => ErrorKind::Timeout,
            libc::ECANCELED => ErrorKind::Cancelled,
            _ => ErrorKind::Other,
        }
    }
}

/// A failed I/O, with everything needed to find the place again.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{}", self.what())]
pub struct IoError {
    /// Class of the failure, by which errors are counted.
    pub kind: ErrorKind,
    /// Operation in which it failed.
    pub operation: Operation,
    /// The tier it happened in.
    pub tier: Tier,
    /// The file, as the user would name it.
    pub file: String,
    /// Offset of the failed I/O in that file, bytes.
    pub offset_bytes: u64,
    /// Length of the failed I/O, bytes.
    pub length_bytes: u64,
    /// The positive errno, or an NVMe status in its place ([`NvmeStatus::errno`]); 0 when the
    /// kernel reported none (a short or corrupt transfer).
    pub errno: i32,
}

impl IoError {
    /// Says what happened and where.
    pub fn what(&self) -> String {
        let (operation, bytes) = (self.operation.name(), self.length_bytes);
        let (offset, file) = (self.offset_bytes, &self.file);
        if self.tier == Tier::Gpu {
            let what = format!("{operation} of {bytes} bytes at offset {offset} of an entry");
            return format!("{what} failed in GPU memory ({}): {file}", self.kind.name());
        }
        // A look at the file found this, not an I/O.
        let is_look = self.operation == Operation::Preallocate;
        match self.kind {
            ErrorKind::Gone if is_look => {
                return format!("{file} is no longer there, or another file has its name");
            }
            ErrorKind::Truncated if is_look => {
                return format!(
                    "{file} was cut short at {offset} bytes: {bytes} bytes are missing"
                );
            }
            _ => {}
        }
        let why = match self.errno {
            0 => self.kind.name().to_owned(),
            errno => errno_text(errno),
        };
        if is_look && bytes == 0 {
            return format!("{file} can't be looked at: {why}");
        }
        format!("{operation} of {bytes} bytes at offset {offset} of {file} failed: {why}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_gone_or_shorter_is_told_as_that_and_not_as_an_io_of_no_bytes() {
        let found = |kind, errno| IoError {
            kind,
            operation: Operation::Preallocate,
            tier: Tier::Storage,
            file: "/d/f".to_owned(),
            offset_bytes: 4096,
            length_bytes: 8192,
            errno,
        };
        let gone = found(ErrorKind::Gone, libc::ENOENT).what();
        assert_eq!(gone, "/d/f is no longer there, or another file has its name");
        let short = found(ErrorKind::Truncated, 0).what();
        assert_eq!(short, "/d/f was cut short at 4096 bytes: 8192 bytes are missing");
        let shut_down = found(ErrorKind::of_errno(libc::EIO), libc::EIO);
        let shut_down = IoError { offset_bytes: 0, length_bytes: 0, ..shut_down }.what();
        assert_eq!(shut_down, "/d/f can't be looked at: Input/output error (os error 5)");
        let full = found(ErrorKind::NoSpace, libc::ENOSPC).what();
        assert!(
            full.starts_with("preallocate of 8192 bytes at offset 4096 of /d/f failed"),
            "{full}"
        );
    }

    #[test]
    fn every_errno_has_a_kind_and_no_panic() {
        for errno in -200..200 {
            assert!(!ErrorKind::of_errno(errno).name().is_empty());
        }
        assert_eq!(ErrorKind::of_errno(libc::EIO), ErrorKind::Media);
        assert_eq!(ErrorKind::of_errno(libc::ENOSPC), ErrorKind::NoSpace);
    }

    #[test]
    fn the_message_names_file_offset_and_length() {
        let error = IoError {
            kind: ErrorKind::Media,
            operation: Operation::Read,
            tier: Tier::Storage,
            file: "d/shard-0.kv".into(),
            offset_bytes: 8192,
            length_bytes: 4096,
            errno: libc::EIO,
        };
        let text = error.to_string();
        for part in ["d/shard-0.kv", "8192", "4096", "Input/output error"] {
            assert!(text.contains(part), "{text}");
        }
        let text = IoError { errno: NvmeStatus::of_result(0x281).errno(), ..error }.to_string();
        assert!(text.ends_with("failed: unrecovered read error (NVMe status 0x281)"), "{text}");
    }
}
