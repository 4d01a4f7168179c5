//! Who works in a directory: one lock for the batch, and one that its jobs hold too, so that they
//! are known to be there when the batch itself was killed.

use std::fs::{File, TryLockError};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use ringfall_core::held::HeldDirectory;

use ringfall_config::InputError;

/// Longest wait for the jobs of a killed batch to end: they drain their I/Os in flight and remove
/// their data.
const ORPHANS_END_WITHIN: Duration = Duration::from_secs(120);
const PERIOD: Duration = Duration::from_millis(50);

/// The locks of a directory, given back when dropped.
pub(super) struct Locks {
    batch: File,
    jobs: File,
}

impl Drop for Locks {
    fn drop(&mut self) {
        // Closing it is not enough: a process that another thread is starting has a copy of the
        // descriptor until it runs its own program, and a lock is held as long as any copy is open.
        let _closing_gives_it_back = self.batch.unlock();
    }
}

impl Locks {
    /// Takes them. `waits` is told once when jobs of a killed batch have yet to end.
    ///
    /// # Errors
    /// Another batch works in the directory, or jobs of a killed one don't end.
    pub(super) fn take(
        directory: &Path,
        is_interrupted: &dyn Fn() -> bool,
        waits: &mut dyn FnMut(),
    ) -> Result<Locks> {
        let batch = open(directory, ".batch.lock")?;
        if !is_locked(&batch, directory)? {
            return Err(InputError::new(format!(
                "another batch is working in {}; wait until it has ended, or give another \
                 directory",
                directory.display()
            ))
            .into());
        }
        let jobs = open(directory, ".batch.jobs")?;
        let began = Instant::now();
        let mut told = false;
        while !is_locked(&jobs, directory)? {
            if !std::mem::replace(&mut told, true) {
                waits();
            }
            let is_too_long = began.elapsed() > ORPHANS_END_WITHIN;
            if is_interrupted() || is_too_long {
                anyhow::bail!(
                    "a job of an earlier batch in {} has not ended yet; `ps` shows it, and it \
                     holds {}",
                    directory.display(),
                    directory.join(".batch.jobs").display()
                );
            }
            std::thread::sleep(PERIOD);
        }
        Ok(Locks { batch, jobs })
    }

    /// The lock that a job holds as long as it lives: its standard input, which is empty.
    ///
    /// # Errors
    /// No file descriptor is left.
    pub(super) fn for_job(&self) -> Result<File> {
        self.jobs.try_clone().context("there is no file descriptor left for a job")
    }
}

#[cfg(test)]
impl Locks {
    pub(super) fn copy_of_batch(&self) -> File {
        self.batch.try_clone().expect("a descriptor is left")
    }
}

fn open(directory: &Path, name: &str) -> Result<File> {
    let file = HeldDirectory::open(directory).and_then(|held| held.open_lock(name));
    file.with_context(|| {
        let path = directory.join(name);
        format!(
            "the lock file {} can't be used; delete it, or give another directory",
            path.display()
        )
    })
}

/// Whether this process has the lock now.
fn is_locked(file: &File, directory: &Path) -> Result<bool> {
    match file.try_lock() {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => Err(error).with_context(|| {
            format!(
                "no file in {} can be locked; give a directory on a file system with locks",
                directory.display()
            )
        }),
    }
}
