//! Reading a file before the run begins: told when it takes long, ended when somebody wishes.

use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ringfall_core::units::gib;

/// Interval at which a long reading is reported.
const PERIOD: Duration = Duration::from_secs(5);

/// Who may end a reading, and whether anybody is told of it.
#[derive(Clone)]
pub struct Reading {
    is_ended: Arc<dyn Fn() -> bool + Send + Sync>,
    told: bool,
    /// Whether files may be opened again, so that pipes have to be kept.
    is_repeated: bool,
    /// The run has begun: its own progress is shown, and its own interrupt ends it.
    over: Arc<AtomicBool>,
}

impl Reading {
    /// `is_ended` is asked again and again; `told`: progress goes to standard error.
    pub fn new(is_ended: impl Fn() -> bool + Send + Sync + 'static, told: bool) -> Reading {
        let is_ended = Arc::new(is_ended);
        Reading { is_ended, told, is_repeated: false, over: Arc::default() }
    }

    /// The same, of files that may be opened again.
    pub(super) fn repeated(&self) -> Reading {
        Reading { is_repeated: true, ..self.clone() }
    }

    /// Whether files may be opened again.
    pub(super) fn is_repeated(&self) -> bool {
        self.is_repeated
    }

    /// The run begins: what is read from now on is read beside it.
    pub(super) fn end(&self) {
        self.over.store(true, Ordering::Relaxed);
    }

    /// Whether somebody ends the reading; asked again and again.
    pub(super) fn wish(&self) -> Arc<dyn Fn() -> bool + Send + Sync> {
        let reading = self.clone();
        Arc::new(move || !reading.is_over() && (reading.is_ended)())
    }

    fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    /// Watches over what `reader` reads of the file of that name.
    pub(super) fn watch<R: Read>(&self, name: String, reader: R) -> Watched<R> {
        let next = Instant::now() + PERIOD;
        Watched { reading: self.clone(), reader, name, bytes: 0, next }
    }
}

/// A reader that is watched over. Its errors are those of the reader within, or that somebody ended
/// it.
pub(super) struct Watched<R> {
    reading: Reading,
    reader: R,
    name: String,
    bytes: u64,
    next: Instant,
}

impl<R: Read> Read for Watched<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = self.reader.read(buffer)?;
        self.bytes += read as u64;
        if self.reading.is_over() {
            return Ok(read);
        }
        if (self.reading.is_ended)() {
            return Err(std::io::Error::other("interrupted"));
        }
        let now = Instant::now();
        if self.reading.told && now >= self.next {
            self.next = now + PERIOD;
            ringfall_host::stderr::tell(format_args!(
                "reading {}: {:.2} GiB so far…",
                self.name,
                gib(self.bytes)
            ));
        }
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reading_ends_when_somebody_wishes_but_not_once_the_run_has_begun() {
        let wish = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&wish);
        let reading = Reading::new(move || seen.load(Ordering::Relaxed), false);
        let wished = reading.wish();
        let mut watched = reading.watch("endless".to_owned(), std::io::repeat(7));
        let mut buffer = [0; 16];
        assert_eq!(watched.read(&mut buffer).unwrap(), 16);
        wish.store(true, Ordering::Relaxed);
        assert_eq!(watched.read(&mut buffer).unwrap_err().to_string(), "interrupted");
        assert!(wished());
        reading.end();
        assert_eq!(watched.read(&mut buffer).unwrap(), 16);
        assert!(!wished());
    }
}
