//! The engine's errors in this program's words: its facts, and a remedy that names the flag to
//! change. The engine knows no remedies, so every text with an error of its own goes through here.

use std::borrow::Cow;

use ringfall_core::error::{ErrorKind, IoError, PassthroughFault, SetupError};
use ringfall_core::key::Tier;
use ringfall_core::units::{BLOCK_BYTES, KIB};
use rustix::io::Errno;

use crate::human;

/// A failed I/O and what to do about it.
pub fn told_io(error: &IoError) -> String {
    let remedy = match (error.tier, error.kind) {
        (Tier::Gpu, ErrorKind::Resources) => {
            "end what else uses the GPU's memory, or ask for less in flight at once"
        }
        (Tier::Gpu, ErrorKind::Corrupt) => "see whether nvidia-smi reports memory errors",
        (Tier::Gpu, _) => "look at dmesg and nvidia-smi for what the GPU reports",
        // An object store's place is a URL.
        (Tier::Storage, _) if error.file.contains("://") => return told_object_io(error),
        (Tier::Storage, ErrorKind::NoSpace) if is_on_device(error) => {
            "look at dmesg and at the device's size (blockdev --getsize64): it ends before that \
             offset, as it became smaller, or what backs it (a thin pool, the file of a loop \
             device) is full"
        }
        (Tier::Cpu | Tier::Storage, kind) => io_remedy(kind),
    };
    format!("{}; {remedy}", error.what())
}

/// Whether the file is a device itself, by its path.
fn is_on_device(error: &IoError) -> bool {
    // Files in memory lie below /dev too.
    error.file.starts_with("/dev/") && !error.file.starts_with("/dev/shm/")
}

/// The engine knows what an object store answers by the errno of a drive that comes nearest, which
/// a person would take for a drive's. The store's own words are logged when it first fails.
fn told_object_io(error: &IoError) -> String {
    let (why, remedy) = match error.kind {
        ErrorKind::Gone => (
            "the object store can't be reached, or its bucket is gone",
            "check the address (--object-endpoint), the network, and that the server runs and has \
             the bucket",
        ),
        ErrorKind::Timeout => (
            "the object store did not answer in time",
            "check the network and the server, or raise --object-timeout-s",
        ),
        ErrorKind::Permission => (
            "the object store refused the credentials",
            "check that they are valid and allow to read, write and delete there",
        ),
        ErrorKind::Media => (
            "the object store failed, or has lost what was stored",
            "look at the server's log, and at the first error above for its own words",
        ),
        kind => return format!("{}; {}", error.what(), io_remedy(kind)),
    };
    let (operation, bytes) = (error.operation.name(), error.length_bytes);
    format!("{operation} of {bytes} bytes in {} failed: {why}; {remedy}", error.file)
}

/// Describes the error that kept the engine from starting, and the remedy.
pub fn told_setup(error: &SetupError) -> String {
    format!("{}: {}", error.what(), setup_remedy(error))
}

fn io_remedy(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::NoSpace => {
            "free space there, raise the limit on file sizes (ulimit -f) if there is one, or ask \
             for less"
        }
        ErrorKind::Media => "look at dmesg and the drive's SMART log",
        ErrorKind::Permission => "check the permissions and mount options of --cache-dir",
        ErrorKind::Gone => {
            "check that the device is attached and nobody removes files under --cache-dir"
        }
        ErrorKind::Unsupported => {
            "use a file system that supports O_DIRECT (ext4, XFS) and a kernel of 6.1 or newer"
        }
        ErrorKind::Resources => "lower --queue-depth or --io-buffer-mb, or raise the limits",
        ErrorKind::Timeout => "look at dmesg for resets of the device",
        ErrorKind::Cancelled => {
            "if nobody stopped the run, the kernel could not start a worker thread for io_uring: \
             raise the limits on threads (ulimit -u, and pids.max of the cgroup)"
        }
        ErrorKind::Truncated => "nothing but ringfall may write to files under --cache-dir",
        ErrorKind::Corrupt => {
            "the device or something beside ringfall changed data; run with --verify full"
        }
        ErrorKind::ShardGone => "an earlier message says why that shard ended",
        ErrorKind::Other => "look up the errno in errno(3), and look at dmesg",
    }
}

/// Remedy of a drive that can't be handed NVMe commands; doing without them always helps.
fn passthrough_remedy(fault: &PassthroughFault) -> String {
    let without = "leave --nvme-passthrough out";
    let remedy = match fault {
        PassthroughFault::NotNvme => {
            "give --cache-dir an NVMe namespace that nothing uses, such as /dev/nvme0n1"
        }
        PassthroughFault::Partition => "give --cache-dir the whole namespace",
        PassthroughFault::Multipath => "load nvme_core with multipath=N",
        PassthroughFault::NoCharacterDevice { .. } => {
            "use Linux 5.19 or newer, and have udev or devtmpfs make the device"
        }
        PassthroughFault::Forbidden { .. } => {
            "run as root (CAP_SYS_ADMIN), in a container with access to the device"
        }
        PassthroughFault::Kernel { .. } => LINUX_REMEDY,
        PassthroughFault::Metadata { .. } => {
            "format it without metadata (`nvme format`, which deletes all data)"
        }
        PassthroughFault::Zoned => "choose a namespace that is not zoned",
        PassthroughFault::BlockSize { .. } => {
            return format!(
                "format it with blocks of 512 to {BLOCK_BYTES} bytes (`nvme format`, which \
                 deletes all data); or {without}"
            );
        }
        PassthroughFault::Differs { .. }
        | PassthroughFault::Command { .. }
        | PassthroughFault::NoKnownDrive
        | PassthroughFault::NoStatistics => return without.to_owned(),
    };
    format!("{remedy}; or {without}")
}

const LINUX_REMEDY: &str = "use Linux 6.1 or newer (5.19 works, slower)";

/// The errno of an error; `EIO` in place of one that the system did not give, such as 0 of an error
/// of our own, which is none that the type can hold.
fn errno_of(errno: i32) -> Errno {
    match errno {
        1..=4095 => Errno::from_raw_os_error(errno),
        _ => Errno::IO,
    }
}

fn directory_remedy(errno: Errno) -> &'static str {
    match errno {
        Errno::ACCESS | Errno::PERM => "check its owner and permissions, or choose another",
        Errno::ROFS => "the file system is mounted read-only: remount it, or choose another",
        Errno::NOSPC | Errno::DQUOT => "free space there, or choose another",
        Errno::NOTDIR => "a part of that path is a file: give --cache-dir a directory",
        Errno::NAMETOOLONG => "give --cache-dir a shorter path",
        Errno::BUSY => "run again then, or choose another",
        _ => "give --cache-dir another directory",
    }
}

fn ring_remedy(errno: Errno) -> &'static str {
    match errno {
        Errno::NOSYS => "use Linux 6.1 or newer (5.19 works, slower), built with CONFIG_IO_URING",
        Errno::PERM | Errno::ACCESS => {
            "in a container, allow io_uring_setup, io_uring_enter and io_uring_register in its \
             seccomp profile (Docker, Podman: --security-opt seccomp=unconfined); elsewhere set \
             `sysctl kernel.io_uring_disabled=0`"
        }
        Errno::NOMEM => "raise it with `ulimit -l unlimited` (systemd: LimitMEMLOCK=infinity)",
        Errno::MFILE | Errno::NFILE => "raise the limit with `ulimit -n 65536`, or lower --shards",
        Errno::INVAL => "use Linux 6.1 or newer (5.19 works, slower), or lower --queue-depth",
        _ => "look up the errno in io_uring_setup(2)",
    }
}

/// Remedy of the error that kept the engine from starting.
pub fn setup_remedy(error: &SetupError) -> Cow<'_, str> {
    let remedy = match error {
        SetupError::BufferMemory { .. } => "lower --io-buffer-mb or --cpu-mem-gb, or free memory",
        SetupError::CpuTierMemory { .. } => "lower --cpu-mem-gb, or free memory",
        SetupError::CpuTierTooLarge { .. } => "lower --cpu-mem-gb",
        SetupError::Gpu { .. } => "see whether nvidia-smi works, or give --gpu-mem-gb 0",
        SetupError::NotADirectory { .. } => {
            "give --cache-dir a directory on the file system to measure"
        }
        SetupError::StoreInUse { .. } => {
            "wait for it to end, or give --cache-dir another directory"
        }
        SetupError::SystemDirectory { .. } => {
            "give --cache-dir a directory of its own on the file system to measure"
        }
        // The lock file may have been deleted or cut; earlier versions did not make it durable.
        SetupError::ForeignDataFile { bytes, .. } => {
            let size = human(*bytes);
            return format!(
                "delete it, which frees {size}, if a run left it that was killed or lost its \
                 power, or give --cache-dir another directory"
            )
            .into();
        }
        SetupError::ForeignLockFile { .. } => {
            "give --cache-dir another directory, or move it away, which in a directory such as \
             /tmp only its owner and root can do"
        }
        SetupError::NoDirectIo { .. } => {
            "use ext4 or XFS on the device to measure (tmpfs needs Linux 6.6)"
        }
        SetupError::Directory { errno, .. } => directory_remedy(errno_of(*errno)),
        SetupError::LeftBehind { bytes, errno, .. } => {
            let first = match errno_of(*errno) {
                Errno::ROFS => "look at dmesg, and mount the file system for writing: ",
                _ => "",
            };
            // A file system that has shut down does not say how large its files are.
            let freed = match *bytes {
                0 => String::new(),
                bytes => format!(", which frees {}", human(bytes)),
            };
            return format!(
                "{first}the next run in that directory deletes what is left{freed}, or delete it \
                 by hand"
            )
            .into();
        }
        SetupError::NotABlockDevice { .. } => "give --cache-dir a directory or a block device",
        SetupError::DeviceInUse { .. } => {
            "give --cache-dir a device that nothing uses, or take it out of use first"
        }
        SetupError::DeviceClaimed { .. } => {
            "look at lsblk and `fuser -v` for who (another run, a mount elsewhere), or give \
             --cache-dir another device"
        }
        SetupError::DeviceReadOnly { .. } => {
            "make it writable (blockdev --setrw), or give --cache-dir another device"
        }
        SetupError::DeviceChanged { .. } => "try again",
        SetupError::DeviceBlockTooLarge { .. } => {
            let text = format!("use a device whose logical block is at most {BLOCK_BYTES} bytes");
            return text.into();
        }
        SetupError::DeviceForbidden { .. } => {
            "run as root, or as a member of the group that owns it"
        }
        SetupError::DeviceWithoutDirectIo { .. } => "give --cache-dir another device",
        SetupError::DeviceUnopened { .. } => "check the path",
        SetupError::Ring { errno, .. } => ring_remedy(errno_of(*errno)),
        SetupError::Polling { name: "IOPOLL", .. } => {
            "leave --iopoll out, or load the nvme driver with poll_queues=N \
             (nvme.poll_queues=N on the kernel's command line), so that \
             /sys/block/DEVICE/queue/io_poll is 1"
        }
        SetupError::Polling { .. } => "leave --sqpoll out",
        SetupError::PolledIoTooLarge { most_bytes, .. } => {
            let most_kib = most_bytes / KIB;
            return format!(
                "make them no larger (--io-size {most_kib}k, of `saturate` --io-size-max \
                 {most_kib}k), or leave --iopoll out"
            )
            .into();
        }
        SetupError::Passthrough { fault, .. } => return passthrough_remedy(fault).into(),
        SetupError::NoThread { .. } => {
            "raise the limit on threads (ulimit -u), or on address space (ulimit -v)"
        }
        SetupError::Other { remedy, .. } => remedy,
    };
    remedy.into()
}

#[cfg(test)]
mod tests {
    use ringfall_core::error::Operation;
    use ringfall_core::key::Tier;

    use super::*;

    fn io(kind: ErrorKind) -> IoError {
        IoError {
            kind,
            operation: Operation::Read,
            tier: Tier::Storage,
            file: "d/ringfall.kv".into(),
            offset_bytes: 8192,
            length_bytes: 4096,
            errno: 0,
        }
    }

    #[test]
    fn an_io_error_names_the_flag_where_one_helps() {
        for (kind, flag) in [
            (ErrorKind::Permission, "--cache-dir"),
            (ErrorKind::Gone, "--cache-dir"),
            (ErrorKind::Truncated, "--cache-dir"),
            (ErrorKind::Resources, "--queue-depth or --io-buffer-mb"),
            (ErrorKind::Corrupt, "--verify full"),
            (ErrorKind::Media, "dmesg and the drive's SMART log"),
        ] {
            let text = told_io(&io(kind));
            assert!(text.contains(flag) && text.contains("4096 bytes at offset 8192"), "{text}");
        }
    }

    /// The remedy was to free space there, and to raise the limit on file sizes.
    #[test]
    fn a_device_without_space_is_told_as_one_that_ends() {
        let error = IoError { errno: Errno::NOSPC.raw_os_error(), ..io(ErrorKind::NoSpace) };
        let file = told_io(&error);
        assert!(file.contains("d/ringfall.kv failed") && file.contains("free space"), "{file}");
        let device = told_io(&IoError { file: "/dev/nvme1n1".into(), ..error.clone() });
        assert!(device.contains("it ends before that offset"), "{device}");
        assert!(!device.contains("free space") && !device.contains("ulimit"), "{device}");
        let memory = told_io(&IoError { file: "/dev/shm/kv/ringfall.kv".into(), ..error });
        assert!(memory.contains("free space"), "{memory}");
    }

    /// It was told as a device that is not attached, with a remedy for files.
    #[test]
    fn an_object_store_that_is_gone_is_told_as_an_object_store() {
        for (kind, errno, why, remedy) in [
            (ErrorKind::Gone, Errno::NODEV, "can't be reached", "--object-endpoint"),
            (ErrorKind::Timeout, Errno::TIMEDOUT, "did not answer in time", "--object-timeout-s"),
            (ErrorKind::Permission, Errno::ACCESS, "refused the credentials", "are valid"),
            (ErrorKind::Media, Errno::IO, "has lost what was stored", "the server's log"),
        ] {
            let file = "s3://bucket/prefix".to_owned();
            let text = told_io(&IoError { file, errno: errno.raw_os_error(), ..io(kind) });
            let start = "read of 4096 bytes in s3://bucket/prefix failed: the object store ";
            assert!(text.starts_with(start) && text.contains(why), "{text}");
            assert!(text.contains(remedy) && !text.contains("device"), "{text}");
        }
    }

    #[test]
    fn a_setup_error_names_the_flag_where_one_helps() {
        let path = || "/x".into();
        let directory = |errno: Errno| SetupError::Directory {
            doing: "open",
            path: path(),
            errno: errno.raw_os_error(),
            reason: "no".into(),
        };
        let left = |errno: Errno| SetupError::LeftBehind {
            paths: vec![path()],
            bytes: 512 << 20,
            errno: errno.raw_os_error(),
            reason: "no".into(),
        };
        let ring = |errno: Errno| SetupError::Ring {
            errno: errno.raw_os_error(),
            release: "6.1.0".into(),
        };
        let passthrough = |fault| SetupError::Passthrough { path: path(), fault };
        let command = || PassthroughFault::Command { name: "a read", reason: "no".into() };
        let forbidden = || PassthroughFault::Forbidden { reason: "no".into() };
        let too_large = || SetupError::PolledIoTooLarge {
            path: path(),
            io_bytes: 1 << 20,
            most_bytes: 256 << 10,
        };
        for (error, remedy) in [
            (SetupError::BufferMemory { bytes: 1, errno: 12 }, "lower --io-buffer-mb or --cpu-mem"),
            (SetupError::CpuTierMemory { bytes: 1, errno: 12 }, "lower --cpu-mem-gb"),
            (SetupError::CpuTierTooLarge { bytes: 1 }, "lower --cpu-mem-gb"),
            (SetupError::NotADirectory { path: path() }, "give --cache-dir a directory"),
            (SetupError::StoreInUse { path: path() }, "give --cache-dir another directory"),
            (
                SetupError::SystemDirectory { path: path(), resolved: path() },
                "--cache-dir a directory of its own",
            ),
            (
                SetupError::ForeignDataFile { path: path(), bytes: 3 << 30 },
                "delete it, which frees 3.0 GiB, if a run left it",
            ),
            (
                SetupError::ForeignLockFile { path: path(), reason: "it is a pipe".into() },
                "give --cache-dir another directory, or move it away",
            ),
            (left(Errno::ROFS), "mount the file system for writing: the next run in that"),
            (left(Errno::PERM), ": the next run in that directory deletes what is left, which f"),
            (left(Errno::IO), "frees 512.0 MiB"),
            (SetupError::NotABlockDevice { path: path() }, "give --cache-dir a directory or a"),
            (SetupError::DeviceInUse { path: path(), user: "it".into() }, "give --cache-dir a"),
            (SetupError::DeviceClaimed { path: path() }, "--cache-dir another device"),
            (SetupError::DeviceReadOnly { path: path() }, "give --cache-dir another device"),
            (SetupError::DeviceWithoutDirectIo { path: path() }, "give --cache-dir another device"),
            (directory(Errno::NOTDIR), "give --cache-dir a directory"),
            (directory(Errno::NAMETOOLONG), "give --cache-dir a shorter path"),
            (directory(Errno::IO), "give --cache-dir another directory"),
            (directory(Errno::BUSY), "run again then, or choose another"),
            (directory(Errno::ACCESS), "check its owner and permissions"),
            (ring(Errno::MFILE), "lower --shards"),
            (ring(Errno::INVAL), "lower --queue-depth"),
            (ring(Errno::NOSYS), "use Linux 6.1"),
            (ring(Errno::PERM), "seccomp=unconfined"),
            (ring(Errno::PERM), "io_uring_disabled"),
            (ring(Errno::NOMEM), "ulimit -l"),
            (ring(Errno::IO), "io_uring_setup(2)"),
            (SetupError::Polling { name: "IOPOLL", reason: "no".into() }, "leave --iopoll out, or"),
            (too_large(), "--io-size 256k"),
            (passthrough(PassthroughFault::NotNvme), "give --cache-dir an NVMe namespace"),
            (passthrough(PassthroughFault::Partition), "the whole namespace; or leave --nvme-pass"),
            (passthrough(PassthroughFault::Multipath), "multipath=N; or leave --nvme-passthrough"),
            (passthrough(command()), ": leave --nvme-passthrough out"),
            (passthrough(forbidden()), "CAP_SYS_ADMIN"),
            (passthrough(PassthroughFault::BlockSize { log2_bytes: 14 }), "512 to 4096 bytes"),
            (SetupError::Polling { name: "SQPOLL", reason: "no".into() }, "leave --sqpoll out"),
            (SetupError::new("what", "raise the limit"), "raise the limit"),
        ] {
            let text = told_setup(&error);
            assert!(text.starts_with(&error.what()) && text.contains(remedy), "{text}");
        }
    }
}
