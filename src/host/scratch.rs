//! Directories for tests, here and in other packages.

use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use ringfall_core::held::HeldDirectory;

/// An empty directory of a test's own; all that is in it goes with it when it is dropped.
#[derive(Debug)]
pub struct Scratch(PathBuf);

impl Scratch {
    /// Makes one that no other test has, although its name may be the same.
    pub fn new(name: &str) -> Scratch {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let unique = format!("ringfall-{name}-{}-{number}", std::process::id());
        let scratch = Scratch(std::env::temp_dir().join(unique));
        let _left_by_a_killed_test = std::fs::remove_dir_all(&scratch.0);
        scratch.directory("");
        scratch
    }

    /// Makes a directory below it, and those between.
    pub fn directory(&self, path: &str) -> PathBuf {
        let path = self.join(path);
        HeldDirectory::make(&path).expect("the directory can be made");
        path
    }

    /// Writes a file below it, and makes the directories between.
    pub fn file(&self, path: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.with_directories(path);
        std::fs::write(&path, content).expect("the file can be written");
        path
    }

    /// Writes files of one line each below a directory.
    pub fn files(&self, directory: &str, files: &[(&str, &str)]) {
        for (name, line) in files {
            self.file(&format!("{directory}/{name}"), format!("{line}\n"));
        }
    }

    /// Makes a link at `path` to `target`, both below it.
    pub fn link(&self, path: &str, target: &str) {
        let path = self.with_directories(path);
        std::os::unix::fs::symlink(self.join(target), path).expect("the link can be made");
    }

    fn with_directories(&self, path: &str) -> PathBuf {
        let path = self.join(path);
        let above = path.parent().expect("it lies below the directory");
        HeldDirectory::make(above).expect("the directories can be made");
        path
    }
}

impl Deref for Scratch {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _cleanup = std::fs::remove_dir_all(&self.0);
    }
}
