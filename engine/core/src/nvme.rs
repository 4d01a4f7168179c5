//! Devices by their numbers and names in `/sys`, and which character device of an NVMe namespace is
//! which block device.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{major, minor};

/// The block device of the namespace whose character device this is; none where it is another file.
pub fn nvme_block_device(path: &Path) -> Option<PathBuf> {
    block_device_in(Path::new("/"), path)
}

fn block_device_in(root: &Path, path: &Path) -> Option<PathBuf> {
    let metadata = fs::metadata(path).ok()?;
    if !metadata.file_type().is_char_device() {
        return None;
    }
    block_name_of(root, &numbers(metadata.rdev())).map(|name| Path::new("/dev").join(name))
}

/// Name of the block device beside the character device of those numbers, below another root of the
/// file system in tests.
pub fn block_name_of(root: &Path, character: &str) -> Option<String> {
    let directory = root.join("sys/dev/char").join(character);
    let class = fs::canonicalize(directory.join("subsystem")).ok()?;
    if class.file_name()? != "nvme-generic" {
        return None;
    }
    let directory = directory.canonicalize().ok()?;
    let rest = directory.file_name()?.to_str()?.strip_prefix("ng")?.to_owned();
    Some(format!("nvme{rest}"))
}

/// Major and minor number of a device as `/sys` writes them, such as 259:0.
pub fn numbers(device: u64) -> String {
    format!("{}:{}", major(device), minor(device))
}

/// Directory in `/sys` of the block device with these [`numbers`], below another root of the file
/// system in tests; a path that leads nowhere if there is no such device.
pub fn block_directory(root: &Path, numbers: &str) -> PathBuf {
    let by_numbers = root.join("sys/dev/block").join(numbers);
    if by_numbers.exists() {
        return by_numbers;
    }
    // Podman hides that folder from containers, but not the other one.
    let devices = fs::read_dir(root.join("sys/class/block")).into_iter().flatten().flatten();
    let mut directories = devices.map(|device| device.path());
    let has_them = |directory: &PathBuf| {
        fs::read_to_string(directory.join("dev")).is_ok_and(|text| text.trim() == numbers)
    };
    directories.find(has_them).unwrap_or(by_numbers)
}
