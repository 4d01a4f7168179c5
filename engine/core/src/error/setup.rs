//! Why the environment can't run the engine: found before work starts.

use std::fmt;
use std::path::{Path, PathBuf};

use super::PassthroughFault;
use crate::units::KIB;

/// The environment can't run the engine. As text: what was wrong, with the value. The remedy is the
/// program's, which has flags to name.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SetupError {
    /// The kernel gave no memory for I/O buffers, or no address space for the CPU tier.
    BufferMemory {
        /// Bytes that were asked for.
        bytes: u64,
        /// The positive errno; 0 when there was none.
        errno: i32,
    },
    /// The CPU tier was mapped, but there is less memory than it needs.
    CpuTierMemory {
        /// Bytes of the mapping.
        bytes: u64,
        /// The positive errno; 0 when there was none.
        errno: i32,
    },
    /// The CPU tier is larger than anything that can be addressed.
    CpuTierTooLarge {
        /// Bytes that were asked for.
        bytes: u64,
    },
    /// A GPU that had given its memory did not give what a shard needs besides.
    Gpu {
        /// Which, and what its driver said.
        what: String,
    },
    /// The store's path is not a directory.
    NotADirectory {
        /// As it was given.
        path: PathBuf,
    },
    /// Another engine has locked the directory.
    StoreInUse {
        /// The directory.
        path: PathBuf,
    },
    /// The directory belongs to the system.
    SystemDirectory {
        /// The directory, as it was given.
        path: PathBuf,
        /// Where that leads.
        resolved: PathBuf,
    },
    /// The data file exists, and no engine made it.
    ForeignDataFile {
        /// The file.
        path: PathBuf,
    },
    /// A file that has the lock file's name and was not made by an engine.
    ForeignLockFile {
        /// The path.
        path: PathBuf,
        /// Kind of file that it is instead, in words.
        reason: String,
    },
    /// The file system has no O_DIRECT.
    NoDirectIo {
        /// The directory.
        path: PathBuf,
    },
    /// A system call on the directory, or on a file of ours in it, failed.
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
    /// The path is not a block device.
    NotABlockDevice {
        /// The path.
        path: PathBuf,
    },
    /// Something uses the device or a part of it.
    DeviceInUse {
        /// The device.
        path: PathBuf,
        /// Who, in words.
        user: String,
    },
    /// Another process, or another mount namespace, has claimed the device.
    DeviceClaimed {
        /// The device.
        path: PathBuf,
    },
    /// The device can't be written to.
    DeviceReadOnly {
        /// The device.
        path: PathBuf,
    },
    /// Another device took the name between the check and the opening.
    DeviceChanged {
        /// The device.
        path: PathBuf,
    },
    /// The device's logical block is larger than ours.
    DeviceBlockTooLarge {
        /// The device.
        path: PathBuf,
        /// Its logical block, bytes.
        block_bytes: u64,
    },
    /// This process may not open the device.
    DeviceForbidden {
        /// The device.
        path: PathBuf,
        /// Message of the system.
        reason: String,
    },
    /// The device refuses O_DIRECT.
    DeviceWithoutDirectIo {
        /// The device.
        path: PathBuf,
    },
    /// The device can't be opened, for another reason.
    DeviceUnopened {
        /// The device.
        path: PathBuf,
        /// Message of the system.
        reason: String,
    },
    /// The kernel refuses to make an io_uring.
    Ring {
        /// The positive errno of `io_uring_setup`; 0 when there was none.
        errno: i32,
        /// Kernel release, as `uname -r`.
        release: String,
    },
    /// A way of polling does not work on this file.
    Polling {
        /// Its name: `SQPOLL` (submissions) or `IOPOLL` (completions).
        name: &'static str,
        /// Observed behaviour.
        reason: String,
    },
    /// I/Os of this size can't be polled for: the drive takes them in pieces.
    PolledIoTooLarge {
        /// File or device.
        path: PathBuf,
        /// Size of the I/Os.
        io_bytes: u64,
        /// Largest that the drive takes in one piece, wherever its memory lies.
        most_bytes: u64,
    },
    /// A drive can't be handed NVMe commands.
    Passthrough {
        /// Path that was given.
        path: PathBuf,
        /// Reason why it can't be used.
        fault: PassthroughFault,
    },
    /// A shard's thread or its rings can't be made.
    Executor {
        /// Name of the thread.
        name: String,
        /// Message of the system.
        reason: String,
    },
    /// No thread can be started.
    NoThread {
        /// Message of the system.
        reason: String,
    },
    /// Anything else: two sentences, no facts to branch on.
    Other {
        /// Problem, with the value.
        what: String,
        /// Remedy.
        remedy: String,
    },
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

    /// Says what was wrong, with the value and without a remedy.
    #[must_use]
    pub fn what(&self) -> String {
        let shown = |path: &Path| path.display().to_string();
        match self {
            SetupError::BufferMemory { bytes, errno } => {
                format!("no {bytes} bytes of memory for buffers (errno {errno})")
            }
            SetupError::CpuTierMemory { bytes, errno } => {
                format!("no memory for {bytes} bytes (errno {errno})")
            }
            SetupError::Gpu { what } => format!("the GPU tier can't be used: {what}"),
            SetupError::CpuTierTooLarge { bytes } => {
                format!("a CPU tier of {bytes} bytes is more than can be addressed")
            }
            SetupError::NotADirectory { path } => format!("{} is not a directory", shown(path)),
            SetupError::StoreInUse { path } => {
                format!("{} is in use by another run of ringfall", shown(path))
            }
            SetupError::SystemDirectory { path, resolved } => of_system(path, resolved),
            SetupError::ForeignDataFile { path } => {
                format!("{} exists, and no record says that ringfall made it", shown(path))
            }
            SetupError::ForeignLockFile { path, reason } => {
                format!("{} can't be the lock file: {reason}", shown(path))
            }
            SetupError::NoDirectIo { path } => {
                format!("the file system at {} has no O_DIRECT", shown(path))
            }
            SetupError::Directory { doing, path, reason, .. } => {
                format!("can't {doing} {}: {reason}", shown(path))
            }
            SetupError::NotABlockDevice { path } => {
                format!("{} is not a block device", shown(path))
            }
            SetupError::DeviceInUse { path, user } => format!("{} is in use: {user}", shown(path)),
            SetupError::DeviceClaimed { path } => {
                format!("{} is in use: the kernel says that something has claimed it", shown(path))
            }
            SetupError::DeviceReadOnly { path } => format!("{} is read-only", shown(path)),
            SetupError::DeviceChanged { path } => {
                format!("{} has just become a different device", shown(path))
            }
            SetupError::DeviceBlockTooLarge { path, block_bytes } => {
                format!("{} has blocks of {block_bytes} bytes", shown(path))
            }
            SetupError::DeviceForbidden { path, reason } => {
                format!("no permission to open {} ({reason})", shown(path))
            }
            SetupError::DeviceWithoutDirectIo { path } => {
                format!("{} does not take O_DIRECT", shown(path))
            }
            SetupError::DeviceUnopened { path, reason } => {
                format!("can't open {}: {reason}", shown(path))
            }
            SetupError::Ring { errno, release } => ring_failure(*errno, release),
            SetupError::Polling { name, reason } => format!("{name} does not work here: {reason}"),
            SetupError::PolledIoTooLarge { path, io_bytes, most_bytes } => {
                polled_io_too_large(path, *io_bytes, *most_bytes)
            }
            SetupError::Passthrough { path, fault } => {
                format!("NVMe passthrough does not work on {}: {}", shown(path), fault.what())
            }
            SetupError::Executor { name, reason } => {
                format!("can't start the executor of {name}: {reason}")
            }
            SetupError::NoThread { reason } => format!("no thread can be started: {reason}"),
            SetupError::Other { what, .. } => what.clone(),
        }
    }
}

fn polled_io_too_large(path: &Path, io_bytes: u64, most_bytes: u64) -> String {
    format!(
        "{} takes I/Os of {} KiB in pieces of {} KiB at most, and I/Os that are split can't be \
         polled for (IOPOLL)",
        path.display(),
        io_bytes / KIB,
        most_bytes / KIB,
    )
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

impl fmt::Display for SetupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SetupError::Other { what, remedy } => write!(f, "{what}: {remedy}"),
            _ => f.write_str(&self.what()),
        }
    }
}
