//! Why a drive can't be handed NVMe commands.

use super::errno_text;

/// Reason why a path can't be used with NVMe passthrough, or a drive does not tell of itself. As
/// text: the rest of a sentence that names the path or the drive.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PassthroughFault {
    /// A directory, a file or a device of another kind.
    #[error("it is not an NVMe drive")]
    NotNvme,
    /// A device that is not asked for a log.
    #[error("it is neither an NVMe drive nor one that the kernel knows as SATA")]
    NoKnownDrive,
    /// A SATA drive without the Device Statistics log.
    #[error("it keeps no Device Statistics log")]
    NoStatistics,
    /// A part of an NVMe namespace: commands name blocks of the whole.
    #[error("it is a partition")]
    Partition,
    /// The kernel chooses one of several ways to the drive for each command.
    #[error(
        "it is reached by NVMe multipath, which repeats no passthrough command on another path"
    )]
    Multipath,
    /// The namespace has no character device.
    #[error("there is no {path}")]
    NoCharacterDevice {
        /// Where it would be.
        path: String,
    },
    /// This process may not open the character device, or may not send commands.
    #[error("this process may not send commands to the drive ({reason})")]
    Forbidden {
        /// Message of the system.
        reason: String,
    },
    /// This kernel's io_uring has no such commands.
    #[error("this kernel ({release}) takes no NVMe commands through io_uring")]
    Kernel {
        /// Kernel release, as `uname -r`.
        release: String,
    },
    /// Each block has bytes of metadata beside it.
    #[error("it is formatted with {bytes} bytes of metadata per block")]
    Metadata {
        /// Metadata per block, bytes.
        bytes: u16,
    },
    /// The namespace is zoned: a zone is written in order only.
    #[error("it is zoned")]
    Zoned,
    /// The namespace's blocks are not of a size that goes with ours.
    #[error("it has blocks of 2^{log2_bytes} bytes")]
    BlockSize {
        /// Size of a block as a power of two.
        log2_bytes: u8,
    },
    /// The bytes that one of the two devices wrote are not those that the other read.
    #[error(
        "at offset {offset_bytes} a command did not read what the block device had written, or \
         the other way round"
    )]
    Differs {
        /// Where, bytes from the namespace's beginning.
        offset_bytes: u64,
    },
    /// A command that a drive must know failed.
    #[error("{name} failed: {reason}")]
    Command {
        /// Its name.
        name: &'static str,
        /// Message of the system or of the drive.
        reason: String,
    },
}

impl PassthroughFault {
    /// A command that ended with that positive errno, or with an NVMe status in its place.
    pub fn of_errno(name: &'static str, errno: i32) -> PassthroughFault {
        let reason = errno_text(errno);
        match errno {
            libc::EACCES | libc::EPERM => PassthroughFault::Forbidden { reason },
            _ => PassthroughFault::Command { name, reason },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::NvmeStatus;

    #[test]
    fn what_failed_is_told_apart_by_who_can_mend_it() {
        for errno in [libc::EACCES, libc::EPERM] {
            let fault = PassthroughFault::of_errno("a read", errno);
            assert!(matches!(fault, PassthroughFault::Forbidden { .. }), "{fault:?}");
        }
        let status = NvmeStatus::of_result(0x4002).errno();
        let fault = PassthroughFault::of_errno("Identify", status);
        assert_eq!(
            fault.to_string(),
            "Identify failed: invalid field in command (NVMe status 0x002)"
        );
        let block_size = PassthroughFault::BlockSize { log2_bytes: 14 };
        assert!(block_size.to_string().contains("2^14 bytes"));
    }
}
