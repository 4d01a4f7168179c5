//! An NVMe namespace that takes commands as they are: which block device and which character device
//! are the same, and whether such commands would do what reads and writes of the block device do.
//!
//! The kernel checks none of what it checks of a block device when a command goes past it, so a
//! namespace is only used beside its block device's claim ([`super::RawDevice`]).

#![allow(unsafe_code, reason = "registering memory for the read that shows that commands work")]

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt};
use std::path::Path;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use super::DataFile;
use super::admin::{errno_of, namespace_number};
use super::identify::identify;
use crate::buffer::{Buffer, BufferPool};
use crate::clock::{Clock, Nanos, monotonic_now};
use crate::error::{PassthroughFault, SetupError};
use crate::nvme::{block_directory, numbers, nvme_block_device};
use crate::ring::{
    CommandSetup, CommandTarget, Commands, IoKind, IoRequest, Ring, RingConfig, SILENCE_MAX,
    kernel_release,
};
use crate::units::{BLOCK_BYTES, KIB};

/// Pages of one passthrough command at most, whatever the drive takes (`BIO_MAX_VECS`).
const PAGES_MAX: u64 = 256;

/// A namespace that has answered a read, open for commands.
#[derive(Debug)]
pub struct Namespace {
    target: CommandTarget,
    _file: File,
}

impl Namespace {
    /// Opens the namespace of a block device or character device, and reads its first bytes by a
    /// command.
    ///
    /// # Errors
    /// It is none, or commands can't take the place of reads and writes there; nothing was written.
    pub fn open(path: &Path) -> Result<Namespace, SetupError> {
        Namespace::try_open(path)
            .map_err(|fault| SetupError::Passthrough { path: path.to_path_buf(), fault })
    }

    /// Target of commands to it, valid as long as this lives.
    pub fn target(&self) -> CommandTarget {
        self.target
    }

    /// Makes sure that commands and the block device, opened with O_DIRECT, mean the same bytes:
    /// what one writes to the first and to the last of `bytes`, in whole blocks of 4 KiB, the other
    /// reads.
    ///
    /// # Errors
    /// When they don't, or an I/O fails.
    pub fn compare(&self, block_device: &DataFile, bytes: u64) -> Result<(), SetupError> {
        let device = block_device.open_file();
        let last = (bytes / BLOCK_BYTES).saturating_sub(1) * BLOCK_BYTES;
        let trial = Trial::new(self.target);
        let compared =
            trial.and_then(|trial| [0, last].iter().try_for_each(|at| trial.compare(device, *at)));
        let path = block_device.path().clone();
        compared.map_err(|fault| SetupError::Passthrough { path, fault })
    }

    fn try_open(path: &Path) -> Result<Namespace, PassthroughFault> {
        let root = Path::new("/");
        let block = nvme_block_device(path).unwrap_or_else(|| path.to_path_buf());
        let metadata = fs::metadata(&block).map_err(|_| PassthroughFault::NotNvme)?;
        if !metadata.file_type().is_block_device() {
            return Err(PassthroughFault::NotNvme);
        }
        let sibling = Sibling::of(root, metadata.rdev())?;
        let path = Path::new("/dev").join(&sibling.name);
        let file = OpenOptions::new().read(true).write(true).open(&path);
        let file = file.map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => no_device(&path),
            _ => PassthroughFault::of_errno("opening its character device", errno_of(&error)),
        })?;
        let is_it = file.metadata().is_ok_and(|opened| {
            opened.file_type().is_char_device() && numbers(opened.rdev()) == sibling.numbers
        });
        if !is_it {
            return Err(no_device(&path));
        }
        let number = namespace_number(&file)?;
        let identity = identify(&file, number)?;
        let block_shift = identity.block_shift()?;
        if identity.bytes() != sibling.bytes {
            let reason = format!(
                "the drive says {} bytes and the block device has {}",
                identity.bytes(),
                sibling.bytes
            );
            return Err(PassthroughFault::Command { name: "Identify", reason });
        }
        let drive_bytes = identity.command_bytes_max.unwrap_or(u64::MAX);
        let command_bytes_max = command_bytes_max(drive_bytes.min(sibling.command_bytes_max));
        let target = CommandTarget {
            file: file.as_raw_fd(),
            namespace: number,
            block_shift,
            command_bytes_max,
            takes_registered: false,
        };
        Ok(Namespace { target: try_read(target)?, _file: file })
    }
}

pub(super) fn no_device(path: &Path) -> PassthroughFault {
    PassthroughFault::NoCharacterDevice { path: path.display().to_string() }
}

/// A power of two, so that I/Os of usual sizes are cut into equal commands.
fn command_bytes_max(limit_bytes: u64) -> u32 {
    let most = limit_bytes.clamp(BLOCK_BYTES, PAGES_MAX * BLOCK_BYTES);
    1 << most.ilog2()
}

/// Attributes in sysfs of a namespace's block device and of the character device beside it.
#[derive(PartialEq, Eq, Debug)]
struct Sibling {
    /// The character device's, below /dev.
    name: String,
    /// Its major and minor number.
    numbers: String,
    /// Size of the block device.
    bytes: u64,
    /// Most that the driver hands to the drive at once, wherever the memory lies.
    command_bytes_max: u64,
}

impl Sibling {
    fn of(root: &Path, block_device: u64) -> Result<Sibling, PassthroughFault> {
        let directory = block_directory(root, &numbers(block_device));
        let directory = directory.canonicalize().map_err(|_| PassthroughFault::NotNvme)?;
        if directory.join("partition").exists() {
            return Err(PassthroughFault::Partition);
        }
        let block_name = directory.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let Some(rest) = block_name.strip_prefix("nvme") else {
            return Err(PassthroughFault::NotNvme);
        };
        if directory.iter().any(|part| part == "nvme-subsystem") {
            return Err(PassthroughFault::Multipath);
        }
        let text = |name: &str| fs::read_to_string(directory.join(name)).unwrap_or_default();
        let number = |name: &str| text(name).trim().parse::<u64>().ok();
        if !matches!(text("queue/zoned").trim(), "none" | "") {
            return Err(PassthroughFault::Zoned);
        }
        let name = format!("ng{rest}");
        let character = root.join("sys/class/nvme-generic").join(&name);
        let is_beside = character.canonicalize().is_ok_and(|character| {
            // Both are below their controller.
            directory.parent().is_some_and(|controller| character.starts_with(controller))
        });
        let numbers = fs::read_to_string(character.join("dev")).unwrap_or_default();
        if !is_beside || numbers.is_empty() {
            return Err(no_device(&Path::new("/dev").join(name)));
        }
        let in_segments = number("queue/max_segments").unwrap_or(1).saturating_mul(BLOCK_BYTES);
        let in_one = number("queue/max_hw_sectors_kb").unwrap_or(0).saturating_mul(KIB);
        Ok(Sibling {
            name,
            numbers: numbers.trim().to_owned(),
            // sysfs counts sectors of 512 bytes, whatever the drive's blocks are.
            bytes: number("size").unwrap_or(0).saturating_mul(512),
            command_bytes_max: in_one.min(in_segments),
        })
    }
}

/// Reads as much as one command moves: from registered memory, which needs Linux 6.1, or else from
/// any.
fn try_read(target: CommandTarget) -> Result<CommandTarget, PassthroughFault> {
    let registered = CommandTarget { takes_registered: true, ..target };
    match read_first(registered) {
        Ok(()) => Ok(registered),
        Err(PassthroughFault::Forbidden { reason }) => Err(PassthroughFault::Forbidden { reason }),
        Err(_) => read_first(target).map(|()| target),
    }
}

fn read_first(target: CommandTarget) -> Result<(), PassthroughFault> {
    let trial = Trial::new(target)?;
    let buffer = trial.pool.take().expect("a fresh pool has its buffer");
    trial.run(IoKind::Read, 0, target.command_bytes_max, buffer).map(drop)
}

/// A ring on which one command is tried at a time.
struct Trial {
    ring: Ring<Buffer, Commands>,
    pool: BufferPool,
}

impl Trial {
    /// With one buffer, as large as a command, registered where commands take that.
    fn new(target: CommandTarget) -> Result<Trial, PassthroughFault> {
        let failed = |error: SetupError| match error {
            SetupError::Ring { errno: libc::EINVAL, release } => {
                PassthroughFault::Kernel { release }
            }
            other => PassthroughFault::Command { name: "making a ring", reason: other.what() },
        };
        let config = RingConfig { entries: 2, ..RingConfig::default() };
        let mut setup = CommandSetup::sized(config).map_err(failed)?;
        let pool = BufferPool::new(target.command_bytes_max as usize, 1).map_err(failed)?;
        if target.takes_registered {
            let (start, bytes) = pool.region();
            // SAFETY: the buffer in flight holds the pool; and the kernel holds registered pages
            // whatever is unmapped.
            unsafe { setup.register_spans(start, bytes, bytes) }.map_err(|error| {
                PassthroughFault::of_errno("registering memory", errno_of(&error))
            })?;
        }
        let ring = Ring::commanding(setup, &[target], Clock::Os);
        Ok(Trial { ring, pool })
    }

    /// Waits for one I/O; its buffer comes back.
    fn run(
        &self,
        kind: IoKind,
        offset_bytes: u64,
        length_bytes: u32,
        buffer: Buffer,
    ) -> Result<Buffer, PassthroughFault> {
        let name = if kind == IoKind::Write { "a write" } else { "a read" };
        let request = IoRequest { kind, offset_bytes, length_bytes, buffer_offset: 0 };
        let mut io = pin!(self.ring.push(request, Some(buffer)));
        let mut asleep = Context::from_waker(Waker::noop());
        let deadline = monotonic_now() + Nanos::from_ns(SILENCE_MAX.as_nanos() as u64);
        let (completion, buffer) = loop {
            if let Poll::Ready(ended) = io.as_mut().poll(&mut asleep) {
                break ended;
            }
            if monotonic_now() >= deadline {
                return Err(PassthroughFault::of_errno(name, libc::ETIMEDOUT));
            }
            self.ring.wait(Some(SILENCE_MAX));
        };
        match u32::try_from(completion.result) {
            Ok(bytes) => {
                assert_eq!(bytes, length_bytes, "a command moves all of its bytes or fails");
                Ok(buffer.expect("it was lent to the I/O"))
            }
            Err(_negative) => Err(match -completion.result {
                libc::EOPNOTSUPP | libc::EINVAL | libc::ENOTTY => {
                    PassthroughFault::Kernel { release: kernel_release() }
                }
                errno => PassthroughFault::of_errno(name, errno),
            }),
        }
    }

    /// Writes a block by each of the two ways and reads it by the other.
    fn compare(&self, block_device: &File, offset_bytes: u64) -> Result<(), PassthroughFault> {
        const LENGTH: usize = BLOCK_BYTES as usize;
        let failed =
            |name| move |error: io::Error| PassthroughFault::of_errno(name, errno_of(&error));
        let same = |buffer: &Buffer, written: &[u8]| match &buffer.bytes()[..LENGTH] == written {
            true => Ok(()),
            false => Err(PassthroughFault::Differs { offset_bytes }),
        };
        let [of_device, of_command] = [1, 2].map(|way| pattern(offset_bytes + way));
        let mut buffer = self.pool.take().expect("nothing is in flight");
        buffer.bytes_mut()[..LENGTH].copy_from_slice(&of_device);
        block_device
            .write_all_at(&buffer.bytes()[..LENGTH], offset_bytes)
            .map_err(failed("a write to the block device"))?;
        buffer.bytes_mut()[..LENGTH].fill(0);
        let mut buffer = self.run(IoKind::Read, offset_bytes, BLOCK_BYTES as u32, buffer)?;
        same(&buffer, &of_device)?;
        buffer.bytes_mut()[..LENGTH].copy_from_slice(&of_command);
        let mut buffer = self.run(IoKind::Write, offset_bytes, BLOCK_BYTES as u32, buffer)?;
        buffer.bytes_mut()[..LENGTH].fill(0);
        block_device
            .read_exact_at(&mut buffer.bytes_mut()[..LENGTH], offset_bytes)
            .map_err(failed("a read from the block device"))?;
        same(&buffer, &of_command)
    }
}

/// A block that nobody has written before: of that name, by this process, now.
fn pattern(name: u64) -> [u8; BLOCK_BYTES as usize] {
    let mut word = monotonic_now().as_ns() ^ u64::from(std::process::id()) << 32 ^ name;
    let mut block = [0; BLOCK_BYTES as usize];
    for bytes in block.as_chunks_mut::<8>().0 {
        // SplitMix64, without its last step.
        word = word.wrapping_add(0x9e37_79b9_7f4a_7c15);
        *bytes = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9).to_le_bytes();
    }
    block
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::nvme::block_name_of;
    use rustix::fs::makedev;
    use std::os::unix::fs::symlink;

    /// A system with the namespace nvme0n1, its character device and a partition.
    struct Fake(PathBuf);

    impl Fake {
        fn new(name: &str, above: &str) -> Fake {
            let unique = format!("ringfall-namespace-{}-{name}", std::process::id());
            let root = std::env::temp_dir().join(unique);
            let controller = root.join("sys/devices").join(above);
            for folder in ["nvme0n1/queue", "nvme0n1/nvme0n1p1", "ng0n1", "vda"] {
                fs::create_dir_all(controller.join(folder)).unwrap();
            }
            for folder in ["dev/block", "dev/char", "class/nvme-generic"] {
                fs::create_dir_all(root.join("sys").join(folder)).unwrap();
            }
            let links = [
                ("nvme0n1", "dev/block/259:0"),
                ("nvme0n1/nvme0n1p1", "dev/block/259:1"),
                ("vda", "dev/block/254:0"),
                ("ng0n1", "dev/char/239:0"),
                ("ng0n1", "class/nvme-generic/ng0n1"),
            ];
            for (what, link) in links {
                symlink(controller.join(what), root.join("sys").join(link)).unwrap();
            }
            let generic = root.join("sys/class/nvme-generic");
            symlink(generic, controller.join("ng0n1/subsystem")).unwrap();
            let fake = Fake(controller);
            fake.write("ng0n1/dev", "239:0\n");
            fake.write("nvme0n1/size", "2048\n");
            fake.write("nvme0n1/queue/max_hw_sectors_kb", "512\n");
            fake.write("nvme0n1/queue/max_segments", "127\n");
            fake.write("nvme0n1/queue/zoned", "none\n");
            fake.write("nvme0n1/nvme0n1p1/partition", "1\n");
            fake
        }

        fn root(&self) -> &Path {
            let mut above = self.0.ancestors();
            above.find(|path| path.join("sys/class").exists()).unwrap()
        }

        fn write(&self, path: &str, text: &str) {
            fs::write(self.0.join(path), text).unwrap();
        }

        fn sibling(&self, minor: u32) -> Result<Sibling, PassthroughFault> {
            Sibling::of(self.root(), makedev(259, minor))
        }
    }

    impl Drop for Fake {
        fn drop(&mut self) {
            let _cleanup = fs::remove_dir_all(self.root());
        }
    }

    #[test]
    fn a_block_device_and_its_character_device_find_each_other() {
        let fake = Fake::new("found", "pci/nvme/nvme0");
        let sibling = fake.sibling(0).unwrap();
        assert_eq!(
            sibling,
            Sibling {
                name: "ng0n1".to_owned(),
                numbers: "239:0".to_owned(),
                bytes: 1 << 20,
                command_bytes_max: 127 * 4096,
            }
        );
        assert_eq!(command_bytes_max(sibling.command_bytes_max), 256 << 10);
        assert_eq!(block_name_of(fake.root(), "239:0").as_deref(), Some("nvme0n1"));
        assert_eq!(block_name_of(fake.root(), "239:1"), None);
    }

    #[test]
    fn what_commands_would_not_do_right_is_refused() {
        let fake = Fake::new("refused", "pci/nvme/nvme0");
        assert_eq!(fake.sibling(1), Err(PassthroughFault::Partition));
        assert_eq!(fake.sibling(2), Err(PassthroughFault::NotNvme));
        let disk = Sibling::of(fake.root(), makedev(254, 0));
        assert_eq!(disk, Err(PassthroughFault::NotNvme));
        fake.write("nvme0n1/queue/zoned", "host-managed\n");
        assert_eq!(fake.sibling(0), Err(PassthroughFault::Zoned));
        fake.write("nvme0n1/queue/zoned", "none\n");
        // A character device of another controller has the name.
        let generic = fake.root().join("sys/class/nvme-generic/ng0n1");
        fs::remove_file(&generic).unwrap();
        let none = PassthroughFault::NoCharacterDevice { path: "/dev/ng0n1".to_owned() };
        assert_eq!(fake.sibling(0), Err(none.clone()));
        let other = fake.root().join("sys/devices/pci/nvme/nvme1/ng0n1");
        fs::create_dir_all(&other).unwrap();
        fs::write(other.join("dev"), "239:9\n").unwrap();
        symlink(&other, &generic).unwrap();
        assert_eq!(fake.sibling(0), Err(none));
        let above = "virtual/nvme-subsystem/nvme-subsys0";
        assert_eq!(Fake::new("paths", above).sibling(0), Err(PassthroughFault::Multipath));
    }

    #[test]
    fn files_directories_and_other_devices_are_refused_by_name() {
        let directory = std::env::temp_dir();
        let file = directory.join(format!("ringfall-namespace-{}", std::process::id()));
        fs::write(&file, "data").unwrap();
        for path in [&file, &directory, Path::new("/dev/null"), Path::new("/none")] {
            assert_eq!(nvme_block_device(path), None);
            let error = Namespace::open(path).unwrap_err();
            let fault = PassthroughFault::NotNvme;
            assert_eq!(error, SetupError::Passthrough { path: path.to_path_buf(), fault });
            let text = error.to_string();
            assert!(text.contains("it is not an NVMe drive"), "{text}");
        }
        assert_eq!(fs::read(&file).unwrap(), b"data");
        fs::remove_file(&file).unwrap();
    }

    #[test]
    fn a_file_that_takes_no_commands_says_so_and_not_that_it_was_read() {
        let name = format!("ringfall-commands-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let file = File::create(&path).unwrap();
        let target = CommandTarget {
            file: file.as_raw_fd(),
            namespace: 1,
            block_shift: 9,
            command_bytes_max: 8192,
            takes_registered: false,
        };
        let fault = try_read(target).unwrap_err();
        assert!(matches!(fault, PassthroughFault::Kernel { .. }), "{fault:?}");
        fs::remove_file(path).unwrap();
    }

    #[test]
    fn each_trial_writes_what_nobody_has_written() {
        let patterns = [pattern(1), pattern(2), pattern(1)];
        assert!(patterns[0] != patterns[1] && patterns[0] != patterns[2]);
        let words: std::collections::HashSet<_> = patterns[0].as_chunks::<8>().0.iter().collect();
        assert_eq!(words.len(), 512);
    }

    /// The null device completes commands and does nothing, from Linux 6.7 on.
    #[test]
    fn a_device_that_does_not_do_what_it_says_is_found_out() {
        let name = format!("ringfall-compared-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let mut options = OpenOptions::new();
        let null = options.read(true).write(true).open("/dev/null").unwrap();
        let file = options.create(true).truncate(true).open(&path).unwrap();
        let file = DataFile::new(file, path.clone(), crate::device::Preallocate::Grow).unwrap();
        let target = CommandTarget {
            file: null.as_raw_fd(),
            namespace: 1,
            block_shift: 9,
            command_bytes_max: 8192,
            takes_registered: false,
        };
        let namespace = Namespace { target, _file: null };
        let Err(SetupError::Passthrough { fault, .. }) = namespace.compare(&file, 1 << 20) else {
            panic!("a device that moves nothing was taken for a drive");
        };
        let old = matches!(fault, PassthroughFault::Kernel { .. });
        assert!(old || fault == PassthroughFault::Differs { offset_bytes: 0 }, "{fault:?}");
        fs::remove_file(path).unwrap();
    }

    #[test]
    fn a_command_is_a_power_of_two_within_the_limits() {
        let limits = [0, 4096, 5 << 12, 512 << 10, 1 << 20, u64::MAX];
        let most = limits.map(command_bytes_max);
        assert_eq!(most, [4096, 4096, 16 << 10, 512 << 10, 1 << 20, 1 << 20]);
    }
}
