//! Counts of requests to a store, and of their repetitions, while they grow.

use std::sync::atomic::{AtomicU64, Ordering};

pub use ringfall_model::facts::{ObjectCounts, RetryCounts};

use super::cause::Cause;

/// The counts while they grow.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) requests: AtomicU64,
    pub(super) sent_bytes: AtomicU64,
    pub(super) received_bytes: AtomicU64,
    pub(super) connections: AtomicU64,
    pub(super) failures: AtomicU64,
    busy: AtomicU64,
    server: AtomicU64,
    cut: AtomicU64,
    connect: AtomicU64,
    timeout: AtomicU64,
    checksum: AtomicU64,
}

/// Adds to a counter. Nothing is ordered by it.
pub(super) fn add(counter: &AtomicU64, more: u64) {
    counter.fetch_add(more, Ordering::Relaxed);
}

fn read(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

impl Counters {
    /// A request is about to be repeated because of that.
    pub(super) fn retry(&self, cause: &Cause) {
        let counter = match cause {
            Cause::Busy { .. } => &self.busy,
            Cause::Connect { .. } => &self.connect,
            Cause::Timeout { .. } => &self.timeout,
            Cause::Checksum { .. } => &self.checksum,
            Cause::Cut { .. } => &self.cut,
            _ => &self.server,
        };
        add(counter, 1);
    }

    /// As they are now, without those of the endpoints.
    pub(super) fn read(&self) -> ObjectCounts {
        ObjectCounts {
            requests: read(&self.requests),
            sent_bytes: read(&self.sent_bytes),
            received_bytes: read(&self.received_bytes),
            connections: read(&self.connections),
            failures: read(&self.failures),
            retries: RetryCounts {
                busy: read(&self.busy),
                server: read(&self.server),
                cut: read(&self.cut),
                connect: read(&self.connect),
                timeout: read(&self.timeout),
                checksum: read(&self.checksum),
            },
            endpoints: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cause_has_its_counter() {
        let counters = Counters::default();
        for cause in [
            Cause::Busy { code: "SlowDown".into() },
            Cause::Server { status: 500, code: "InternalError".into() },
            Cause::Cut { what: "x".into() },
            Cause::Connect { what: "x".into() },
            Cause::Timeout { seconds: 3 },
            Cause::Checksum { code: "BadDigest".into() },
        ] {
            counters.retry(&cause);
        }
        let retries = counters.read().retries;
        let one = RetryCounts { busy: 1, server: 1, cut: 1, connect: 1, timeout: 1, checksum: 1 };
        assert_eq!(retries, one);
        let told = retries.sentence().unwrap();
        assert!(told.starts_with("6 retries: 1 busy, 1 server error,"), "{told}");
        assert_eq!(RetryCounts::default().sentence(), None);
        let one = RetryCounts { cut: 1, ..RetryCounts::default() };
        assert_eq!(one.sentence().unwrap(), "1 retry: 1 connection lost");
    }
}
