//! The thread that reads a trace and gives each shard its rows, a bounded number ahead.

use std::sync::{Arc, Mutex, PoisonError};

use flume::{Receiver, Sender};
use ringfall_workloads::source::{Skipped, SourceRequest};

use super::OpenTrace;

/// Rows on the way to one shard.
const ROWS_AHEAD: usize = 1_024;

/// What the reading came to so far.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FeedFigures {
    /// Requests given to the shards.
    pub rows: u64,
    /// Rows that did not parse.
    pub skipped: Skipped,
    /// Whole passes over the trace.
    pub cycles: u32,
    /// Why reading ended early.
    pub failure: Option<String>,
}

/// A running reader. Its thread ends by itself when the shards no longer listen.
pub struct Feed {
    figures: Arc<Mutex<FeedFigures>>,
}

impl Feed {
    /// Starts reading; the receivers are the shards', in order.
    ///
    /// # Errors
    /// No thread can be started.
    pub fn start(
        trace: OpenTrace,
        shards: u16,
    ) -> std::io::Result<(Feed, Vec<Receiver<SourceRequest>>)> {
        let (senders, receivers): (Vec<_>, Vec<_>) =
            (0..shards).map(|_| flume::bounded(ROWS_AHEAD)).unzip();
        let figures = Arc::new(Mutex::new(FeedFigures::default()));
        let shared = Arc::clone(&figures);
        std::thread::Builder::new()
            .name("ringfall-trace".to_owned())
            .spawn(move || read(trace, &senders, &shared))?;
        Ok((Feed { figures }, receivers))
    }

    /// What the reading came to so far.
    #[must_use]
    pub fn figures(&self) -> FeedFigures {
        self.figures.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn read(trace: OpenTrace, senders: &[Sender<SourceRequest>], figures: &Mutex<FeedFigures>) {
    let OpenTrace { first, mut stream } = trace;
    let mut next = Ok(Some(first));
    loop {
        let mut now = figures.lock().unwrap_or_else(PoisonError::into_inner);
        now.skipped = stream.skipped();
        now.cycles = stream.cycles();
        match next {
            Ok(Some(_)) => now.rows += 1,
            Ok(None) => return,
            Err(ref error) => {
                now.failure = Some(format!("the trace could not be read on: {error}"));
                return;
            }
        }
        drop(now);
        let Ok(Some(request)) = next else { return };
        let shard = (request.user % senders.len() as u64) as usize;
        if senders[shard].send(request).is_err() {
            return;
        }
        next = stream.next_request();
    }
}
