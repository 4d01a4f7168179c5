//! Whether the drive below a file has a queue for polled I/O, and how large one may be, as sysfs
//! has it.

use std::os::fd::RawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use crate::nvme::{block_directory, numbers};
use crate::units::{BLOCK_BYTES, KIB};

/// Whether the drive of an open file can be polled; none where sysfs does not know, as of a file
/// system that spans several drives.
pub(super) fn has_poll_queue(file: RawFd) -> Option<bool> {
    has_poll_queue_in(Path::new("/"), &device_of(file)?)
}

/// Largest I/O on an open file that its drive takes in one piece, wherever its memory lies, in
/// bytes: a power of two, at least 4 KiB; none where sysfs does not know. Larger ones are split,
/// and on Linux 6.1 an I/O that is split and polled for never ends.
pub fn polled_io_bytes_max(file: RawFd) -> Option<u64> {
    io_bytes_max_in(Path::new("/"), &device_of(file)?)
}

/// Major and minor number of the device that an open file is, or lies on.
fn device_of(file: RawFd) -> Option<String> {
    let metadata = std::fs::metadata(format!("/proc/self/fd/{file}")).ok()?;
    let is_device = metadata.file_type().is_block_device();
    Some(numbers(if is_device { metadata.rdev() } else { metadata.dev() }))
}

fn has_poll_queue_in(root: &Path, device: &str) -> Option<bool> {
    match read(root, device, "io_poll")?.trim() {
        "0" => Some(false),
        "1" => Some(true),
        _ => None,
    }
}

/// Pages of memory that do not lie side by side are a segment each.
fn io_bytes_max_in(root: &Path, device: &str) -> Option<u64> {
    let number = |name| read(root, device, name)?.trim().parse::<u64>().ok();
    let bytes = number("max_sectors_kb")?.saturating_mul(KIB);
    let in_segments = number("max_segments")?.saturating_mul(BLOCK_BYTES);
    let most = bytes.min(in_segments).max(BLOCK_BYTES);
    Some(1 << most.ilog2())
}

/// A partition has no queue of its own: it is in a folder of its drive's.
fn read(root: &Path, device: &str, name: &str) -> Option<String> {
    let device = block_directory(root, device);
    let read = |folder: &str| std::fs::read_to_string(device.join(folder).join(name)).ok();
    read("queue").or_else(|| read("../queue"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_drive_its_partition_and_what_sysfs_does_not_know() {
        let root = std::env::temp_dir().join(format!("ringfall-poll-{}", std::process::id()));
        let devices = root.join("sys/dev/block");
        fs::create_dir_all(&devices).unwrap();
        for (name, numbers, io_poll) in [("nvme0n1", "259:0", "1\n"), ("vda", "254:0", "0\n")] {
            let drive = root.join(name);
            fs::create_dir_all(drive.join("queue")).unwrap();
            fs::create_dir_all(drive.join("part1")).unwrap();
            fs::write(drive.join("queue/io_poll"), io_poll).unwrap();
            fs::write(drive.join("queue/max_sectors_kb"), "512\n").unwrap();
            fs::write(drive.join("queue/max_segments"), "127\n").unwrap();
            std::os::unix::fs::symlink(&drive, devices.join(numbers)).unwrap();
            let part = devices.join(numbers.replace(":0", ":1"));
            std::os::unix::fs::symlink(drive.join("part1"), part).unwrap();
        }
        for (device, expected) in [
            ("259:0", Some(true)),
            ("259:1", Some(true)),
            ("254:0", Some(false)),
            ("254:1", Some(false)),
            ("0:35", None),
        ] {
            assert_eq!(has_poll_queue_in(&root, device), expected, "{device}");
        }
        assert_eq!(io_bytes_max_in(&root, "259:1"), Some(256 * KIB), "127 pages are less");
        fs::write(root.join("vda/queue/max_segments"), "65535").unwrap();
        assert_eq!(io_bytes_max_in(&root, "254:0"), Some(512 * KIB));
        assert_eq!(io_bytes_max_in(&root, "0:35"), None);
        fs::write(root.join("vda/queue/io_poll"), "perhaps").unwrap();
        assert_eq!(has_poll_queue_in(&root, "254:0"), None);
        fs::remove_dir_all(&root).unwrap();
    }
}
