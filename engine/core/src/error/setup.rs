//! Why the environment can't run the engine: found before work starts.

use std::path::{Path, PathBuf};

use super::PassthroughFault;
use crate::units::KIB;

/// The environment can't run the engine. As text: what was wrong, with the value. The remedy is the
/// program's, which has flags to name.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SetupError {
    /// The kernel gave no memory for I/O buffers, or no address space for the CPU tier.
    #[error("no {bytes} bytes of memory for buffers (errno {errno})")]
    BufferMemory {
        /// Bytes that were asked for.
        bytes: u64,
        /// The positive errno; 0 when there was none.
        errno: i32,
    },
    /// The CPU tier was mapped, but there is less memory than it needs.
    #[error("no memory for {bytes} bytes (errno {errno})")]
    CpuTierMemory {
        /// Bytes of the mapping.
        bytes: u64,
        /// The positive errno; 0 when there was none.
        errno: i32,
    },
    /// The CPU tier is larger than anything that can be addressed.
    #[error("a CPU tier of {bytes} bytes is more than can be addressed")]
    CpuTierTooLarge {
        /// Bytes that were asked for.
        bytes: u64,
    },
    /// A GPU that had given its memory did not give what a shard needs besides.
    #[error("the GPU tier can't be used: {what}")]
    Gpu {
        /// Which, and what its driver said.
        what: String,
    },
    /// The store's path is not a directory.
    #[error("{} is not a directory", path.display())]
    NotADirectory {
        /// As it was given.
        path: PathBuf,
    },
    /// Another engine has locked the directory.
    #[error("{} is in use by another run of ringfall", path.display())]
    StoreInUse {
        /// The directory.
        path: PathBuf,
    },
    /// The directory belongs to the system.
    #[error("{}", of_system(path, resolved))]
    SystemDirectory {
        /// The directory, as it was given.
        path: PathBuf,
        /// Where that leads.
        resolved: PathBuf,
    },
    /// The data file, or a directory for files, exists, and no engine made it.
    #[error("{} exists, and no record says that ringfall made it", path.display())]
    ForeignDataFile {
        /// The file or directory.
        path: PathBuf,
        /// Space that it takes, bytes.
        bytes: u64,
    },
    /// A file that has the lock file's name and was not made by an engine.
    #[error("{} can't be the lock file: {reason}", path.display())]
    ForeignLockFile {
        /// The path.
        path: PathBuf,
        /// Kind of file that it is instead, in words.
        reason: String,
    },
    /// The file system has no O_DIRECT.
    #[error("the file system at {} has no O_DIRECT", path.display())]
    NoDirectIo {
        /// The directory.
        path: PathBuf,
    },
    /// A system call on the directory, or on a file of ours in it, failed.
    #[error("can't {doing} {}: {reason}", path.display())]
    Directory {
        /// Attempted action: a verb that goes before the path.
        doing: &'static str,
        /// The directory or file.
        path: PathBuf,
        /// The positive errno; 0 when there was none.
        errno: i32,
        /// Message of the system.
        reason: String,
    },
    /// Files of a run can't be deleted. The next run in their directory deletes them.
    #[error("can't delete {}, left behind by the run: {reason}", listed(paths))]
    LeftBehind {
        /// The files: the data file first, if it is among them.
        paths: Vec<PathBuf>,
        /// Space that they take, bytes.
        bytes: u64,
        /// The positive errno of the first deletion that failed; 0 when there was none.
        errno: i32,
        /// Message of the system.
        reason: String,
    },
    /// The path is not a block device.
    #[error("{} is not a block device", path.display())]
    NotABlockDevice {
        /// The path.
        path: PathBuf,
    },
    /// Something uses the device or a part of it.
    #[error("{} is in use: {user}", path.display())]
    DeviceInUse {
        /// The device.
        path: PathBuf,
        /// Who, in words.
        user: String,
    },
    /// Another process, or another mount namespace, has claimed the device.
    #[error("{} is in use: the kernel says that something has claimed it", path.display())]
    DeviceClaimed {
        /// The device.
        path: PathBuf,
    },
    /// The device can't be written to.
    #[error("{} is read-only", path.display())]
    DeviceReadOnly {
        /// The device.
        path: PathBuf,
    },
    /// Another device took the name between the check and the opening.
    #[error("{} has just become a different device", path.display())]
    DeviceChanged {
        /// The device.
        path: PathBuf,
    },
    /// The device's logical block is larger than ours.
    #[error("{} has blocks of {block_bytes} bytes", path.display())]
    DeviceBlockTooLarge {
        /// The device.
        path: PathBuf,
        /// Its logical block, bytes.
        block_bytes: u64,
    },
    /// This process may not open the device.
    #[error("no permission to open {} ({reason})", path.display())]
    DeviceForbidden {
        /// The device.
        path: PathBuf,
        /// Message of the system.
        reason: String,
    },
    /// The device refuses O_DIRECT.
    #[error("{} does not take O_DIRECT", path.display())]
    DeviceWithoutDirectIo {
        /// The device.
        path: PathBuf,
    },
    /// The device can't be opened, for another reason.
    #[error("can't open {}: {reason}", path.display())]
    DeviceUnopened {
        /// The device.
        path: PathBuf,
        /// Message of the system.
        reason: String,
    },
    /// The kernel refuses to make an io_uring.
    #[error("{}", ring_failure(*errno, release))]
    Ring {
        /// The positive errno of `io_uring_setup`; 0 when there was none.
        errno: i32,
        /// Kernel release, as `uname -r`.
        release: String,
    },
    /// A way of polling does not work on this file.
    #[error("{name} does not work here: {reason}")]
    Polling {
        /// Its name: `SQPOLL` (submissions) or `IOPOLL` (completions).
        name: &'static str,
        /// Observed behaviour.
        reason: String,
    },
    /// I/Os of this size can't be polled for: the drive takes them in pieces.
    #[error(
        "{} takes I/Os of {} KiB in pieces of {} KiB at most, and I/Os that are split can't be \
         polled for (IOPOLL)",
        path.display(),
        io_bytes / KIB,
        most_bytes / KIB
    )]
    PolledIoTooLarge {
        /// File or device.
        path: PathBuf,
        /// Size of the I/Os.
        io_bytes: u64,
        /// Largest that the drive takes in one piece, wherever its memory lies.
        most_bytes: u64,
    },
    /// A drive can't be handed NVMe commands.
    #[error("NVMe passthrough does not work on {}: {fault}", path.display())]
    Passthrough {
        /// Path that was given.
        path: PathBuf,
        /// Reason why it can't be used.
        fault: PassthroughFault,
    },
    /// No thread can be started.
    #[error("no thread can be started: {reason}")]
    NoThread {
        /// Message of the system.
        reason: String,
    },
    /// Anything else: two sentences, no facts to branch on.
    #[error("{what}: {remedy}")]
    Other {
        /// Problem, with the value.
        what: String,
        /// Remedy.
        remedy: String,
    },
}

fn listed(paths: &[PathBuf]) -> String {
    let paths: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
    paths.join(" and ")
}

/// A directory that is refused, and where it leads if that is elsewhere.
fn of_system(path: &Path, resolved: &Path) -> String {
    match path == resolved {
        true => format!("{} belongs to the system", path.display()),
        false => {
            format!("{} is {}, which belongs to the system", path.display(), resolved.display())
        }
    }
}

impl SetupError {
    /// A set-up error that is only text.
    pub fn new(what: impl Into<String>, remedy: impl Into<String>) -> Self {
        SetupError::Other { what: what.into(), remedy: remedy.into() }
    }

    /// This error and one that came after it: what either leaves behind, or the first alone.
    #[must_use]
    pub fn with(mut self, other: SetupError) -> SetupError {
        if let (
            SetupError::LeftBehind { paths, bytes, .. },
            SetupError::LeftBehind { paths: more, bytes: more_bytes, .. },
        ) = (&mut self, other)
        {
            paths.extend(more);
            *bytes += more_bytes;
        }
        self
    }

    /// Says what was wrong, with the value and without a remedy.
    pub fn what(&self) -> String {
        match self {
            SetupError::Other { what, .. } => what.clone(),
            _ => self.to_string(),
        }
    }
}

/// Cause of a failed `io_uring_setup`.
fn ring_failure(errno: i32, release: &str) -> String {
    match errno {
        libc::ENOSYS => format!("this kernel ({release}) has no io_uring"),
        libc::EPERM | libc::EACCES => "io_uring is forbidden here".to_owned(),
        libc::ENOMEM => "the locked-memory limit is too small for an io_uring".to_owned(),
        libc::EMFILE | libc::ENFILE => "no file descriptor left for an io_uring".to_owned(),
        libc::EINVAL => format!("this kernel ({release}) refuses our io_uring set-up"),
        _ => format!("io_uring_setup failed: {}", std::io::Error::from_raw_os_error(errno)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Only the first was named.
    #[test]
    fn files_that_are_left_on_several_drives_are_told_together() {
        let left = |path: &str, bytes| SetupError::LeftBehind {
            paths: vec![path.into()],
            bytes,
            errno: 30,
            reason: "no".to_owned(),
        };
        let both = left("/a/x", 1).with(left("/b/x", 2));
        assert_eq!(both.what(), "can't delete /a/x and /b/x, left behind by the run: no");
        assert!(matches!(both, SetupError::LeftBehind { bytes: 3, .. }));
        let other = SetupError::new("what", "remedy");
        assert_eq!(left("/a/x", 1).with(other.clone()), left("/a/x", 1));
        assert_eq!(other.clone().with(left("/a/x", 1)), other);
    }
}
