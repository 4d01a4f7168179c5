//! File of the metrics: a thread that replaces it every second, for node_exporter's textfile
//! collector.

use std::io::{Error, Result};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use ringfall_host::files::Spot;

use super::look::LastLook;
use super::table::{RunIdentity, Seen};
use super::text::{TextFormat, text};

/// Interval at which the file is replaced.
const PERIOD: Duration = Duration::from_secs(1);
/// Longest wait for the last figures to be written, where the file system does not answer.
const LAST_PATIENCE: Duration = Duration::from_secs(2);

/// A file that is kept up to date until it is dropped; it then has the last figures.
pub struct MetricsFile {
    /// Dropped to end the thread.
    goes_on: Option<Sender<()>>,
    ended: Receiver<()>,
}

impl MetricsFile {
    /// Writes the file, and begins to keep it up to date.
    pub fn start(path: &Path, identity: RunIdentity, last: Arc<LastLook>) -> Result<MetricsFile> {
        let spot = Spot::make(path)?;
        if !spot.is_for_file()? {
            return Err(Error::other(
                "it is not a plain file, which could be replaced every second",
            ));
        }
        let (goes_on, stop) = channel();
        let (end, ended) = channel();
        let writer = Writer { spot, identity, last };
        writer.write()?;
        let path = path.display().to_string();
        let keep = move || {
            writer.run(&stop, &path);
            // Nobody hears it any more when it took too long.
            let _heard = end.send(());
        };
        std::thread::Builder::new().name("ringfall-metrics-file".to_owned()).spawn(keep)?;
        Ok(MetricsFile { goes_on: Some(goes_on), ended })
    }
}

impl Drop for MetricsFile {
    fn drop(&mut self) {
        drop(self.goes_on.take());
        if let Err(RecvTimeoutError::Timeout) = self.ended.recv_timeout(LAST_PATIENCE) {
            tracing::warn!("the last metrics are not written yet, and are not waited for");
        }
    }
}

struct Writer {
    spot: Spot,
    identity: RunIdentity,
    last: Arc<LastLook>,
}

impl Writer {
    /// Writes the file every second until nobody wants it to go on, and once more then.
    fn run(&self, stop: &Receiver<()>, path: &str) {
        let mut is_failing = false;
        loop {
            let is_over = stop.recv_timeout(PERIOD) != Err(RecvTimeoutError::Timeout);
            match self.write() {
                Ok(()) => is_failing = false,
                // A disk that is full stays so for a while: one line tells it.
                Err(_) if is_failing => {}
                Err(error) => {
                    is_failing = true;
                    tracing::warn!("the metrics can't be written to {path}: {error}");
                }
            }
            if is_over {
                return;
            }
        }
    }

    fn write(&self) -> Result<()> {
        let look = self.last.get();
        let seen = Seen { identity: &self.identity, look: &look };
        self.spot.replace_unsynced(text(&seen, TextFormat::Plain).as_bytes())
    }
}
