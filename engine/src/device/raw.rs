//! A raw block device as the store: every way it could hurt somebody is looked for first.
//!
//! It refuses a device that is mounted or swapped on, that has such a partition, that another
//! device (dm, md, loop) sits on, that another process has claimed, or that is read-only. The claim
//! (`O_EXCL`) is the kernel's own and covers what other mount namespaces hold; the checks before it
//! are there to say why.

use std::fs::{self, File, OpenOptions};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::nvme_block_device;
use crate::error::SetupError;
use crate::nvme::{block_directory, numbers};
use crate::units::BLOCK_BYTES;

/// Longest wait until the claim of a process that has just ended is gone.
const CLAIM_PATIENCE: Duration = Duration::from_secs(1);
const CLAIM_STEP: Duration = Duration::from_millis(50);

/// A block device that this process alone may use, until it is dropped.
///
/// The claim has a descriptor of its own: rings keep theirs for a while after they are gone, and a
/// claim that outlives the run would stop the next one.
#[derive(Debug)]
pub struct RawDevice {
    path: PathBuf,
    bytes: u64,
    _claim: File,
}

/// Whether the path names a block device (also through a link such as `/dev/disk/by-id/…`), or the
/// character device of an NVMe namespace, which stands for its block device.
pub fn is_block_device(path: &Path) -> bool {
    let is_one = fs::metadata(path).is_ok_and(|metadata| metadata.file_type().is_block_device());
    is_one || nvme_block_device(path).is_some()
}

impl RawDevice {
    /// Claims the device for this process, and opens it with O_DIRECT; of a character device the
    /// block device of the same NVMe namespace.
    ///
    /// # Errors
    /// It is no block device, read-only, in use in any way, or you may not; nothing was written.
    pub fn open(path: &Path) -> Result<(RawDevice, File), SetupError> {
        let failed = |error: &std::io::Error| open_error(path, error);
        let path = &nvme_block_device(path).unwrap_or_else(|| path.to_path_buf());
        let path = &path.canonicalize().map_err(|error| failed(&error))?;
        let metadata = fs::metadata(path).map_err(|error| failed(&error))?;
        if !metadata.file_type().is_block_device() {
            return Err(SetupError::NotABlockDevice { path: path.clone() });
        }
        let node = numbers(metadata.rdev());
        let sysfs = Sysfs { root: Path::new("/") };
        if let Some(user) = sysfs.in_use(&node, path) {
            return Err(SetupError::DeviceInUse { path: path.clone(), user });
        }
        if sysfs.flag(&node, "ro") {
            return Err(SetupError::DeviceReadOnly { path: path.clone() });
        }
        let claim = claim(path).map_err(|error| failed(&error))?;
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_DIRECT | libc::O_CLOEXEC)
            .open(path)
            .map_err(|error| failed(&error))?;
        // Between the look and the open another device of that name could have come.
        let is_it =
            |file: &File| file.metadata().is_ok_and(|opened| opened.rdev() == metadata.rdev());
        if !is_it(&claim) || !is_it(&file) {
            return Err(SetupError::DeviceChanged { path: path.clone() });
        }
        let block_bytes = sysfs.number(&node, "queue/logical_block_size").unwrap_or(512);
        if block_bytes > BLOCK_BYTES {
            return Err(SetupError::DeviceBlockTooLarge { path: path.clone(), block_bytes });
        }
        let bytes = rustix::fs::seek(file.as_fd(), rustix::fs::SeekFrom::End(0))
            .map_err(|errno| failed(&errno.into()))?;
        let bytes = bytes / BLOCK_BYTES * BLOCK_BYTES;
        Ok((RawDevice { path: path.clone(), bytes, _claim: claim }, file))
    }

    /// The device's node, links resolved.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its size in whole blocks, bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// Opens it for this process alone. The claim of a process that has just ended may live on for a
/// moment, since the kernel takes its rings apart in the background.
fn claim(path: &Path) -> std::io::Result<File> {
    let mut patience = CLAIM_PATIENCE;
    loop {
        let opened = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_DIRECT | libc::O_EXCL | libc::O_CLOEXEC)
            .open(path);
        match opened {
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) && !patience.is_zero() => {
                std::thread::sleep(CLAIM_STEP);
                patience = patience.saturating_sub(CLAIM_STEP);
            }
            other => return other,
        }
    }
}

/// The kernel's view of devices, below a root that tests replace. A device is named by its numbers
/// ([`numbers`]).
struct Sysfs<'a> {
    root: &'a Path,
}

impl Sysfs<'_> {
    fn directory(&self, node: &str) -> PathBuf {
        block_directory(self.root, node)
    }

    fn text(&self, path: &str) -> String {
        fs::read_to_string(self.root.join(path)).unwrap_or_default()
    }

    fn number(&self, node: &str, name: &str) -> Option<u64> {
        let directory = self.directory(node);
        // A partition has its disk's queue.
        let own = fs::read_to_string(directory.join(name));
        let text = own.or_else(|_| {
            let disk = directory.canonicalize()?;
            fs::read_to_string(disk.join("..").join(name))
        });
        text.ok()?.trim().parse().ok()
    }

    fn flag(&self, node: &str, name: &str) -> bool {
        self.number(node, name).is_some_and(|value| value != 0)
    }

    /// Who uses the device or a part of it, in words.
    fn in_use(&self, node: &str, path: &Path) -> Option<String> {
        let mut parts = vec![(node.to_owned(), "it".to_owned())];
        for entry in fs::read_dir(self.directory(node)).into_iter().flatten().flatten() {
            if entry.path().join("partition").exists()
                && let Ok(part) = fs::read_to_string(entry.path().join("dev"))
            {
                let name = entry.file_name().to_string_lossy().into_owned();
                parts.push((part.trim().to_owned(), format!("its partition {name}")));
            }
        }
        let mounts = self.text("proc/self/mountinfo");
        let swaps = self.text("proc/swaps");
        for (part, called) in &parts {
            if let Some(point) = mount_point(&mounts, part) {
                return Some(format!("{called} is mounted at {point}"));
            }
            let mut holders = fs::read_dir(self.directory(part).join("holders"));
            if let Some(Ok(holder)) = holders.as_mut().ok().and_then(Iterator::next) {
                let holder = holder.file_name().to_string_lossy().into_owned();
                return Some(format!("{called} is held by {holder}"));
            }
            if let Some(swap) = self.swapped_on(&swaps, part) {
                return Some(format!("{called} is swapped on ({swap})"));
            }
        }
        self.loop_on(path).map(|device| format!("the loop device {device} sits on it"))
    }

    fn swapped_on(&self, swaps: &str, part: &str) -> Option<String> {
        let areas = swaps.lines().skip(1).filter_map(|line| line.split_whitespace().next());
        areas
            .filter(|area| fs::metadata(area).is_ok_and(|area| numbers(area.rdev()) == part))
            .map(str::to_owned)
            .next()
    }

    /// A loop device does not claim what it sits on.
    fn loop_on(&self, path: &Path) -> Option<String> {
        let devices = fs::read_dir(self.root.join("sys/block")).ok()?;
        devices.flatten().find_map(|device| {
            let backing = fs::read_to_string(device.path().join("loop/backing_file")).ok()?;
            let same = Path::new(backing.trim_end()).canonicalize().ok()? == path;
            same.then(|| device.file_name().to_string_lossy().into_owned())
        })
    }
}

/// Where a device is mounted: proc_pid_mountinfo(5), fields 3 and 5.
fn mount_point(mountinfo: &str, node: &str) -> Option<String> {
    mountinfo.lines().find_map(|line| {
        let mut fields = line.split(' ').skip(2);
        let mounted = fields.next()?;
        let point = fields.nth(1)?;
        (mounted == node).then(|| point.replace("\\040", " "))
    })
}

fn open_error(path: &Path, error: &std::io::Error) -> SetupError {
    let (path, reason) = (path.to_path_buf(), error.to_string());
    match error.raw_os_error() {
        Some(libc::EBUSY) => SetupError::DeviceClaimed { path },
        Some(libc::EACCES | libc::EPERM) => SetupError::DeviceForbidden { path, reason },
        Some(libc::EROFS) => SetupError::DeviceReadOnly { path },
        Some(libc::EINVAL) => SetupError::DeviceWithoutDirectIo { path },
        _ => SetupError::DeviceUnopened { path, reason },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Fake(PathBuf);

    impl Fake {
        fn new(name: &str) -> Fake {
            let unique = format!("ringfall-sys-{}-{name}", std::process::id());
            Fake(std::env::temp_dir().join(unique))
        }

        fn write(&self, path: &str, text: &str) {
            let path = self.0.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }

        fn in_use(&self, node: &str) -> Option<String> {
            Sysfs { root: &self.0 }.in_use(node, Path::new("/dev/none"))
        }
    }

    impl Drop for Fake {
        fn drop(&mut self) {
            let _cleanup = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_device_is_in_use_when_a_part_of_it_is() {
        let fake = Fake::new("use");
        fake.write("sys/dev/block/8:0/ro", "0\n");
        assert_eq!(fake.in_use("8:0"), None);
        fake.write("sys/dev/block/8:0/sda1/partition", "1\n");
        fake.write("sys/dev/block/8:0/sda1/dev", "8:1\n");
        assert_eq!(fake.in_use("8:0"), None);
        fake.write("proc/self/mountinfo", "1 2 8:1 / /a\\040b rw - ext4 /dev/sda1 rw\n");
        let whole = fake.in_use("8:0").unwrap();
        assert!(whole.contains("sda1") && whole.contains("/a b"), "{whole}");
        assert!(fake.in_use("8:1").unwrap().starts_with("it is mounted"));
        // Another partition of a disk in use is free.
        assert_eq!(fake.in_use("8:2"), None);
    }

    #[test]
    fn a_device_below_another_is_in_use() {
        let fake = Fake::new("holders");
        fake.write("sys/dev/block/8:16/sdb1/partition", "1\n");
        fake.write("sys/dev/block/8:16/sdb1/dev", "8:17\n");
        fake.write("sys/dev/block/8:17/holders/dm-0/dev", "253:0\n");
        assert!(fake.in_use("8:16").unwrap().contains("partition sdb1 is held by dm-0"));
        assert!(fake.in_use("8:17").unwrap().contains("it is held by dm-0"));
    }

    #[test]
    fn what_is_no_block_device_is_refused() {
        for path in ["/dev/null", "/tmp", "/dev/there-is-none"] {
            assert!(RawDevice::open(Path::new(path)).is_err(), "{path}");
        }
    }
}
