//! The tree that the machine describes itself in: `/`, or another directory for tests.

use std::io::Read;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

/// More of one file than this is not read: the largest there is, `/proc/cpuinfo`, has a few KiB for
/// each processor.
const FILE_BYTES_MAX: u64 = 16 << 20;
/// More entries of one directory than this are not looked at.
const ENTRIES_MAX: usize = 1 << 16;

/// Where `/proc` and `/sys` are found.
#[derive(Clone, Debug)]
pub struct Root(PathBuf);

impl Root {
    /// The root of the machine that this process runs on.
    pub fn machine() -> Root {
        Root::at(Path::new("/"))
    }

    /// A directory with a `proc` and a `sys` of its own.
    pub fn at(path: &Path) -> Root {
        Root(path.canonicalize().unwrap_or_else(|_| path.to_owned()))
    }

    /// An absolute path of the machine, where it is found in this tree.
    pub fn path(&self, path: impl AsRef<Path>) -> PathBuf {
        let path = path.as_ref();
        self.0.join(path.strip_prefix("/").unwrap_or(path))
    }

    /// A whole file; none when it can't be read. Bytes that are no UTF-8 are replaced.
    pub(super) fn page(&self, path: impl AsRef<Path>) -> Option<String> {
        let path = self.path(path);
        // A pipe would keep whoever opens it waiting.
        if !std::fs::metadata(&path).ok()?.is_file() {
            return None;
        }
        let mut bytes = Vec::new();
        std::fs::File::open(path).ok()?.take(FILE_BYTES_MAX).read_to_end(&mut bytes).ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// A file of one value, without the space around it; none when there is no value.
    pub(super) fn text(&self, path: impl AsRef<Path>) -> Option<String> {
        Some(self.page(path)?.trim().to_owned()).filter(|text| !text.is_empty())
    }

    pub(super) fn number(&self, path: impl AsRef<Path>) -> Option<u64> {
        self.text(path)?.parse().ok()
    }

    /// Names in a directory, those with numbers in the order of the numbers; none of them when it
    /// can't be read.
    pub(super) fn names(&self, path: impl AsRef<Path>) -> Vec<String> {
        let Ok(entries) = std::fs::read_dir(self.path(path)) else { return Vec::new() };
        let entries = entries.take(ENTRIES_MAX).flatten();
        let mut names: Vec<String> =
            entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort_by_cached_key(|name| by_number(name));
        names
    }

    /// Where a path leads to when all links are followed, as a path of the machine.
    pub(super) fn resolved(&self, path: impl AsRef<Path>) -> Option<PathBuf> {
        let path = self.path(path).canonicalize().ok()?;
        Some(Path::new("/").join(path.strip_prefix(&self.0).ok()?))
    }

    /// The last part of what a link leads to: the name of a driver, say.
    pub(super) fn linked_name(&self, path: impl AsRef<Path>) -> Option<String> {
        Some(self.resolved(path)?.file_name()?.to_string_lossy().into_owned())
    }

    pub(super) fn is_dir(&self, path: impl AsRef<Path>) -> bool {
        self.path(path).is_dir()
    }

    pub(super) fn exists(&self, path: impl AsRef<Path>) -> bool {
        self.path(path).exists()
    }

    /// Whether this process may make files in a directory.
    pub(super) fn is_writable(&self, path: impl AsRef<Path>) -> bool {
        access(self.path(path), Access::WRITE_OK | Access::EXEC_OK).is_ok()
    }
}

/// `nvme10n1` after `nvme9n1`.
pub(super) fn by_number(name: &str) -> Vec<(String, u64)> {
    let mut parts = Vec::new();
    let mut rest = name;
    while !rest.is_empty() {
        let word = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        let (text, tail) = rest.split_at(word);
        let digits = tail.find(|c: char| !c.is_ascii_digit()).unwrap_or(tail.len());
        let (number, tail) = tail.split_at(digits);
        parts.push((text.to_owned(), number.parse().unwrap_or(u64::MAX)));
        rest = tail;
    }
    parts
}

/// The number behind a prefix: 3 of `node3`; none where anything else follows.
pub(super) fn numbered(name: &str, prefix: &str) -> Option<u32> {
    let digits = name.strip_prefix(prefix)?;
    digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok()).flatten()
}
