//! Looks whether the store is still there, on a thread of its own for each drive: to ask a mount
//! that hangs takes for ever, and neither whoever leads a run nor the look at another drive may
//! wait that long.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ringfall_core::error::IoError;
use ringfall_engine::device::DataFile;

const PERIOD: Duration = Duration::from_secs(1);
/// Longest wait for its thread to end. One that asks a hanging mount ends with the process.
const END_PATIENCE: Duration = Duration::from_millis(100);
/// Failures that wait to be heard, a drive: each look finds the same again.
const NEWS_A_DRIVE: usize = 1;

/// The threads, and what they found.
pub(super) struct StoreWatch {
    news: Receiver<(usize, IoError)>,
    /// The threads end when it is dropped.
    alive: Option<flume::Sender<()>>,
    threads: Vec<JoinHandle<()>>,
}

impl StoreWatch {
    /// Looks after those files from now on.
    pub(super) fn start(files: Vec<Arc<DataFile>>) -> StoreWatch {
        StoreWatch::looking(files, DataFile::check, PERIOD)
    }

    fn looking<T: Send + Sync + 'static>(
        files: Vec<Arc<T>>,
        check: impl Fn(&T) -> Result<(), IoError> + Send + Sync + 'static,
        period: Duration,
    ) -> StoreWatch {
        let (teller, news) = sync_channel(files.len() * NEWS_A_DRIVE);
        let check = Arc::new(check);
        let (alive, ended) = flume::bounded::<()>(0);
        let mut threads = Vec::new();
        for (index, file) in files.into_iter().enumerate() {
            let (teller, check, ended) = (teller.clone(), Arc::clone(&check), ended.clone());
            let look = move || {
                while ended.recv_timeout(period) == Err(flume::RecvTimeoutError::Timeout) {
                    if let Err(error) = check(&file) {
                        // Where there is no room, the same was found before.
                        let _told_before = teller.try_send((index, error));
                    }
                }
            };
            let thread = std::thread::Builder::new().name("ringfall-store".to_owned());
            match thread.spawn(look) {
                Ok(thread) => threads.push(thread),
                Err(error) => {
                    tracing::warn!(
                        "no thread can be started to see whether drive {} is still there \
                         ({error}): if it goes away, that is noticed by its I/O errors only",
                        index + 1
                    );
                }
            }
        }
        StoreWatch { news, alive: Some(alive), threads }
    }

    /// A drive, by its place, whose file is not what it was, and why; the same comes again as long
    /// as it lasts.
    pub(super) fn news(&self) -> Option<(usize, IoError)> {
        self.news.try_recv().ok()
    }
}

impl Drop for StoreWatch {
    fn drop(&mut self) {
        drop(self.alive.take());
        let deadline = Instant::now() + END_PATIENCE;
        while !self.threads.iter().all(JoinHandle::is_finished) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::mpsc::channel;

    use ringfall_core::error::{ErrorKind, Operation};
    use ringfall_core::key::Tier;

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
    fn a_mount_that_does_not_answer_holds_up_neither_a_run_nor_the_look_at_others() {
        // Held as long as the test wants it.
        let mount = Arc::new(Mutex::new(()));
        let held = mount.lock().unwrap();
        let (asked, is_asked) = channel();
        let asked = Mutex::new(asked);
        let hanging = Arc::clone(&mount);
        let check = move |is_mount: &bool| {
            if !is_mount {
                return Err(gone());
            }
            let _waiting = asked.lock().unwrap().send(());
            drop(hanging.lock());
            Ok(())
        };
        let files = vec![Arc::new(true), Arc::new(false)];
        let watch = StoreWatch::looking(files, check, Duration::from_millis(1));
        is_asked.recv().unwrap();
        // The first drive hangs from here on.
        while watch.news().is_some() {}
        assert_eq!(watch.news.recv().unwrap().0, 1);
        drop(watch);
        drop(held);
    }
}
