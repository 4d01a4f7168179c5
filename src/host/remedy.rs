//! The engine's errors in this program's words: the same facts, and a remedy that names the flag to
//! change. The engine knows no flags, so every text with an error of its own goes through here.

use std::borrow::Cow;

use ringfall_core::error::{ErrorKind, IoError, PassthroughFault, SetupError};
use ringfall_core::key::Tier;
use ringfall_core::units::KIB;
use rustix::io::Errno;

/// A failed I/O and what to do about it.
#[must_use]
pub fn told_io(error: &IoError) -> String {
    let remedy = match error.tier {
        Tier::Gpu => error.remedy(),
        Tier::Storage if is_in_objects(error) => return told_object_io(error),
        // On a device there is nothing to free, which the error knows by its path.
        Tier::Cpu | Tier::Storage if error.kind == ErrorKind::NoSpace => error.remedy(),
        Tier::Cpu | Tier::Storage => io_remedy(error.kind),
    };
    format!("{}; {remedy}", error.what())
}

/// Whether it happened in an object store, whose place is a URL.
fn is_in_objects(error: &IoError) -> bool {
    error.file.contains("://")
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
#[must_use]
pub fn told_setup(error: &SetupError) -> String {
    format!("{}: {}", error.what(), setup_remedy(error))
}

fn io_remedy(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::Permission => "check the permissions and mount options of --cache-dir",
        ErrorKind::Gone => {
            "check that the device is attached and nobody removes files under --cache-dir"
        }
        ErrorKind::Resources => "lower --queue-depth or --io-buffer-mb, or raise the limits",
        ErrorKind::Truncated => "nothing but ringfall may write to files under --cache-dir",
        ErrorKind::Corrupt => {
            "the device or something beside ringfall changed data; run with --verify full"
        }
        ErrorKind::Cancelled => {
            "if nobody stopped the run, the kernel could not start a worker thread for io_uring: \
             raise the limits on threads (ulimit -u, and pids.max of the cgroup)"
        }
        ErrorKind::NoSpace
        | ErrorKind::Media
        | ErrorKind::Unsupported
        | ErrorKind::Timeout
        | ErrorKind::ShardGone
        | ErrorKind::Other => kind.remedy(),
    }
}

fn polled_io_remedy(most_bytes: u64) -> Cow<'static, str> {
    let most_kib = most_bytes / KIB;
    let text = format!(
        "make them no larger (--io-size {most_kib}k, of `saturate` --io-size-max {most_kib}k), or \
         leave --iopoll out"
    );
    text.into()
}

fn passthrough_remedy(fault: &PassthroughFault) -> Cow<'static, str> {
    let without = "leave --nvme-passthrough out";
    let remedy = match (fault, fault.remedy()) {
        (PassthroughFault::NotNvme, _) => {
            "give --cache-dir an NVMe namespace that nothing uses, such as /dev/nvme0n1".into()
        }
        (PassthroughFault::Partition, _) => "give --cache-dir the whole namespace".into(),
        (_, Some(remedy)) => remedy,
        (_, None) => return without.into(),
    };
    format!("{remedy}; or {without}").into()
}

/// As the engine has it, with the flag to give.
const FOREIGN_DATA_REMEDY: &str = "delete it if it is what a run left when the power failed, or \
                                   give --cache-dir another directory";

/// The errno of an error; `EIO` in place of one that the system did not give, such as 0 of an error
/// of our own, which is none that the type can hold.
fn errno_of(errno: i32) -> Errno {
    match errno {
        1..=4095 => Errno::from_raw_os_error(errno),
        _ => Errno::IO,
    }
}

fn setup_remedy(error: &SetupError) -> Cow<'_, str> {
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
        SetupError::ForeignDataFile { .. } => FOREIGN_DATA_REMEDY,
        SetupError::ForeignLockFile { .. } => "move it away, or give --cache-dir another directory",
        SetupError::Directory { errno, .. } => match errno_of(*errno) {
            Errno::ACCESS | Errno::PERM | Errno::ROFS | Errno::NOSPC | Errno::DQUOT => {
                return error.remedy();
            }
            Errno::NOTDIR => "a part of that path is a file: give --cache-dir a directory",
            Errno::NAMETOOLONG => "give --cache-dir a shorter path",
            _ => "give --cache-dir another directory",
        },
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
        SetupError::DeviceWithoutDirectIo { .. } => "give --cache-dir another device",
        SetupError::Ring { errno, .. } => match errno_of(*errno) {
            Errno::MFILE | Errno::NFILE => {
                "raise the limit with `ulimit -n 65536`, or lower --shards"
            }
            Errno::INVAL => "use Linux 6.1 or newer (5.19 works, slower), or lower --queue-depth",
            _ => return error.remedy(),
        },
        SetupError::Polling { name: "IOPOLL", .. } => {
            "leave --iopoll out, or load the nvme driver with poll_queues=N \
             (nvme.poll_queues=N on the kernel's command line), so that \
             /sys/block/DEVICE/queue/io_poll is 1"
        }
        SetupError::Polling { .. } => "leave --sqpoll out",
        SetupError::PolledIoTooLarge { most_bytes, .. } => return polled_io_remedy(*most_bytes),
        SetupError::Passthrough { fault, .. } => return passthrough_remedy(fault),
        SetupError::Executor { .. } => {
            "check `ulimit -l` (at least 512 KiB per shard), `ulimit -n` and that io_uring is \
             allowed; or lower --shards, or use --pin=false"
        }
        SetupError::NoDirectIo { .. }
        | SetupError::DeviceChanged { .. }
        | SetupError::DeviceBlockTooLarge { .. }
        | SetupError::DeviceForbidden { .. }
        | SetupError::DeviceUnopened { .. }
        | SetupError::NoThread { .. }
        | SetupError::Other { .. } => return error.remedy(),
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
            (ErrorKind::Media, "dmesg"),
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
        let device = told_io(&IoError { file: "/dev/nvme1n1".into(), ..error });
        assert!(device.contains("it ends before that offset"), "{device}");
        assert!(!device.contains("free space") && !device.contains("ulimit"), "{device}");
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
        let ring = |errno: Errno| SetupError::Ring {
            errno: errno.raw_os_error(),
            release: "6.1.0".into(),
        };
        let passthrough = |fault| SetupError::Passthrough { path: path(), fault };
        let command = || PassthroughFault::Command { name: "a read", reason: "no".into() };
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
            (SetupError::ForeignDataFile { path: path() }, "power failed, or give --cache-dir"),
            (
                SetupError::ForeignLockFile { path: path(), reason: "it is a pipe".into() },
                "move it away, or give --cache-dir",
            ),
            (SetupError::NotABlockDevice { path: path() }, "give --cache-dir a directory or a"),
            (SetupError::DeviceInUse { path: path(), user: "it".into() }, "give --cache-dir a"),
            (SetupError::DeviceClaimed { path: path() }, "--cache-dir another device"),
            (SetupError::DeviceReadOnly { path: path() }, "give --cache-dir another device"),
            (SetupError::DeviceWithoutDirectIo { path: path() }, "give --cache-dir another device"),
            (directory(Errno::NOTDIR), "give --cache-dir a directory"),
            (directory(Errno::NAMETOOLONG), "give --cache-dir a shorter path"),
            (directory(Errno::IO), "give --cache-dir another directory"),
            (directory(Errno::ACCESS), "check its owner and permissions"),
            (ring(Errno::MFILE), "lower --shards"),
            (ring(Errno::INVAL), "lower --queue-depth"),
            (ring(Errno::NOSYS), "use Linux 6.1"),
            (SetupError::Polling { name: "IOPOLL", reason: "no".into() }, "leave --iopoll out, or"),
            (too_large(), "--io-size 256k"),
            (passthrough(PassthroughFault::NotNvme), "give --cache-dir an NVMe namespace"),
            (passthrough(PassthroughFault::Partition), "the whole namespace; or leave --nvme-pass"),
            (passthrough(PassthroughFault::Multipath), "multipath=N; or leave --nvme-passthrough"),
            (passthrough(command()), ": leave --nvme-passthrough out"),
            (SetupError::Polling { name: "SQPOLL", reason: "no".into() }, "leave --sqpoll out"),
            (SetupError::Executor { name: "a".into(), reason: "no".into() }, "use --pin=false"),
            (SetupError::new("what", "raise the limit"), "raise the limit"),
        ] {
            let text = told_setup(&error);
            assert!(text.starts_with(&error.what()) && text.contains(remedy), "{text}");
        }
    }
}
