//! The lock of a directory: the batch has it, and its jobs hold it too, so that they are known to
//! be there when the batch itself was killed.

use std::fs::{File, TryLockError};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use ringfall_config::InputError;
use ringfall_core::held::HeldDirectory;
use ringfall_host::interrupt::ENDS_WITHIN;

use super::unusable;

const NAME: &str = ".batch.lock";
/// Longest wait for the lock: jobs of a killed batch end within the bound of an interruption.
const PATIENCE: Duration = ENDS_WITHIN.saturating_add(Duration::from_secs(5));
const PERIOD: Duration = Duration::from_millis(50);

/// The lock, given back when dropped.
pub(super) struct Lock(File);

impl Drop for Lock {
    fn drop(&mut self) {
        // Closing it is not enough: a process that another thread is starting has a copy of the
        // descriptor until it runs its own program, and a lock is held as long as any copy is open.
        let _closing_gives_it_back = self.0.unlock();
    }
}

impl Lock {
    /// Takes it. `waits` is told once when somebody else still has it.
    ///
    /// # Errors
    /// Another batch, or a job of a killed one, goes on working in the directory.
    pub(super) fn take(
        directory: &Path,
        is_interrupted: &dyn Fn() -> bool,
        waits: &mut dyn FnMut(),
    ) -> Result<Lock> {
        let shown = directory.display();
        let opened = HeldDirectory::open(directory).and_then(|held| held.open_lock(NAME));
        let file = opened.map_err(|error| {
            let path = directory.join(NAME);
            unusable(&format!("the lock file {} can't be used", path.display()), error)
        })?;
        let began = Instant::now();
        let mut has_told = false;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(Lock(file)),
                Err(TryLockError::WouldBlock) => {}
                Err(TryLockError::Error(error)) => {
                    return Err(error).with_context(|| {
                        format!(
                            "no file in {shown} can be locked; give a directory on a file system \
                             with locks"
                        )
                    });
                }
            }
            if !std::mem::replace(&mut has_told, true) {
                waits();
            }
            if is_interrupted() || began.elapsed() > PATIENCE {
                return Err(InputError::new(format!(
                    "another batch is working in {shown}; wait until it has ended, or give another \
                     directory"
                ))
                .into());
            }
            std::thread::sleep(PERIOD);
        }
    }

    /// A copy of the lock that a job holds as long as it lives: its standard input, which is empty.
    pub(super) fn for_job(&self) -> Result<File> {
        self.0.try_clone().context("there is no file descriptor left for a job")
    }
}
