//! The thread that reads a trace and gives each shard its rows, a bounded number ahead.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use flume::{Receiver, Sender};
use ringfall_model::facts::FeedFigures;
use ringfall_workloads::digest::Digest;
use ringfall_workloads::source::{SourceRequest, Stream};

use super::files::Stamps;

/// Rows on the way to one shard.
pub const ROWS_AHEAD: usize = 1_024;

/// A running reader. Its thread ends by itself when the shards no longer listen.
pub struct Feed {
    shared: Arc<Shared>,
}

/// Figures of a reading, and the files that are read.
struct Shared {
    figures: Mutex<FeedFigures>,
    files: Stamps,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, FeedFigures> {
        self.figures.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Figures so far; files that were read to their end may have changed since.
    fn figures(&self) -> FeedFigures {
        let mut figures = self.lock().clone();
        if !figures.is_over {
            figures.changed = self.files.changed();
        }
        figures
    }
}

impl Feed {
    /// Starts reading; the receivers are the shards', in order.
    pub fn start(
        rows: RowReader,
        shards: u16,
    ) -> std::io::Result<(Feed, Vec<Receiver<SourceRequest>>)> {
        let (senders, receivers): (Vec<_>, Vec<_>) =
            (0..shards).map(|_| flume::bounded(ROWS_AHEAD)).unzip();
        let shared = Arc::clone(&rows.shared);
        std::thread::Builder::new()
            .name("ringfall-trace".to_owned())
            .spawn(move || read(rows, &senders))?;
        Ok((Feed { shared }, receivers))
    }

    /// Figures of the reading so far.
    pub fn figures(&self) -> FeedFigures {
        self.shared.figures()
    }
}

fn read(mut rows: RowReader, senders: &[Sender<SourceRequest>]) {
    while let Some((shard, row)) = rows.next_row(senders.len()) {
        if senders[shard].send(row).is_err() {
            return;
        }
    }
}

/// Reads a trace row by row, and keeps the figures of it.
pub struct RowReader {
    first: Option<SourceRequest>,
    stream: Stream,
    operations: Option<u64>,
    shared: Arc<Shared>,
}

impl RowReader {
    /// Creates the reader of a trace whose first request has been read already: it is one.
    /// `operations`: those that one pass over a logical trace has; `files`: those of the trace.
    pub(super) fn new(
        first: SourceRequest,
        stream: Stream,
        operations: Option<u64>,
        files: Stamps,
    ) -> RowReader {
        let shared = Arc::new(Shared { figures: Mutex::default(), files });
        RowReader { first: Some(first), stream, operations, shared }
    }

    /// Figures of the reading so far.
    pub fn figures(&self) -> FeedFigures {
        self.shared.figures()
    }

    /// The next row and whose of the shards it is; `None` at the end, also when it broke off:
    /// [`FeedFigures::failure`].
    pub fn next_row(&mut self, shards: usize) -> Option<(usize, SourceRequest)> {
        let next = match self.first.take() {
            Some(first) => Ok(Some(first)),
            None => self.stream.next_request(),
        };
        let mut figures = self.shared.lock();
        figures.skipped = self.stream.skipped();
        figures.disordered = self.stream.disordered_rows();
        figures.cycles = self.stream.cycles();
        match next {
            Ok(Some(row)) => {
                figures.rows += 1;
                figures.digest = self.stream.digest();
                if Digest::is_kept_after(figures.rows) {
                    let told = figures.digest.of_first(figures.rows);
                    figures.digests.push(told);
                }
                Some(((row.user % shards as u64) as usize, row))
            }
            Ok(None) => {
                figures.is_over = true;
                figures.changed = self.shared.files.changed();
                let expected = self.operations.map(|count| count * u64::from(figures.cycles));
                if expected
                    .is_some_and(|expected| self.stream.is_over() && expected != figures.rows)
                {
                    figures.failure = Some(
                        "the trace changed while it was replayed: it does not have the operations \
                         any more that it began with"
                            .to_owned(),
                    );
                }
                None
            }
            Err(error) => {
                figures.failure = Some(format!("the rest of the trace could not be read: {error}"));
                None
            }
        }
    }
}
