//! Looks whether the store is still there, on a thread of its own: to ask a mount that hangs takes
//! for ever, and nobody who leads a run may wait that long.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ringfall_engine::device::DataFile;
use ringfall_engine::error::IoError;

/// How often it looks.
const PERIOD: Duration = Duration::from_secs(1);
/// How long its end is waited for. One that asks a hanging mount ends with the process.
const END_PATIENCE: Duration = Duration::from_millis(100);
/// Failures that wait to be heard, a drive: each look finds the same again.
const NEWS_A_DRIVE: usize = 1;

/// The thread, and what it found.
pub(super) struct StoreWatch {
    news: Receiver<(usize, IoError)>,
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl StoreWatch {
    /// Looks after those files from now on.
    pub(super) fn start(files: Vec<Arc<DataFile>>) -> StoreWatch {
        StoreWatch::looking(files, DataFile::check, PERIOD)
    }

    fn looking<T: Send + Sync + 'static>(
        files: Vec<Arc<T>>,
        check: impl Fn(&T) -> Result<(), IoError> + Send + 'static,
        period: Duration,
    ) -> StoreWatch {
        let (teller, news) = sync_channel(files.len() * NEWS_A_DRIVE);
        let (end, ended) = channel::<()>();
        let look = move || {
            while ended.recv_timeout(period) == Err(RecvTimeoutError::Timeout) {
                for (index, file) in files.iter().enumerate() {
                    if let Err(error) = check(file) {
                        // Where there is no room, the same was found before.
                        let _told_before = teller.try_send((index, error));
                    }
                }
            }
        };
        let thread = std::thread::Builder::new().name("ringfall-store".to_owned()).spawn(look);
        if let Err(error) = &thread {
            tracing::warn!(
                "no thread can be started to see whether the store is still there ({error}): a \
                 drive that goes away is noticed by its I/O errors only"
            );
        }
        StoreWatch { news, end: Some(end), thread: thread.ok() }
    }

    /// A drive, by its place, whose file is not what it was, and why; the same comes again as long
    /// as it lasts.
    pub(super) fn news(&self) -> Option<(usize, IoError)> {
        self.news.try_recv().ok()
    }
}

impl Drop for StoreWatch {
    fn drop(&mut self) {
        drop(self.end.take());
        let Some(thread) = self.thread.take() else { return };
        let deadline = Instant::now() + END_PATIENCE;
        while !thread.is_finished() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use ringfall_engine::error::{ErrorKind, Operation};
    use ringfall_engine::key::Tier;

    use super::*;

    fn gone() -> IoError {
        IoError {
            kind: ErrorKind::of_errno(5),
            operation: Operation::Read,
            tier: Tier::Storage,
            file: "gone".to_owned(),
            offset_bytes: 0,
            length_bytes: 0,
            errno: 5,
        }
    }

    #[test]
    fn a_file_that_is_gone_is_told_with_its_place() {
        let files = vec![Arc::new(true), Arc::new(false)];
        let check = |is_there: &bool| if *is_there { Ok(()) } else { Err(gone()) };
        let watch = StoreWatch::looking(files, check, Duration::from_millis(1));
        let (index, error) = watch.news.recv().unwrap();
        assert_eq!((index, error.errno), (1, 5));
    }

    #[test]
    fn a_mount_that_does_not_answer_holds_up_nobody() {
        // Held as long as the test wants it.
        let mount = Arc::new(Mutex::new(()));
        let held = mount.lock().unwrap();
        let (asked, is_asked) = channel();
        let check = move |mount: &Mutex<()>| {
            let _waiting = asked.send(());
            drop(mount.lock());
            Ok(())
        };
        let files = vec![Arc::clone(&mount)];
        let watch = StoreWatch::looking(files, check, Duration::from_millis(1));
        is_asked.recv().unwrap();
        assert!(watch.news().is_none());
        drop(watch);
        drop(held);
    }
}
