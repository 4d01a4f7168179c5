//! Counts of requests to a store, and of their repetitions, while they grow.

use std::sync::{Mutex, MutexGuard};

use ringfall_model::facts::ObjectCounts;

use super::cause::Cause;
use crate::threads::locked;

/// The counts while they grow, without those of the endpoints.
#[derive(Debug, Default)]
pub(super) struct Counters(Mutex<ObjectCounts>);

impl Counters {
    /// The counts as they are now, to read or to add to; never held while a request is awaited.
    pub(super) fn now(&self) -> MutexGuard<'_, ObjectCounts> {
        locked(&self.0)
    }

    /// Counts a repetition because of that, where the same request may succeed when it is sent
    /// again; returns whether it may.
    pub(super) fn retry(&self, cause: &Cause) -> bool {
        let mut counts = self.now();
        let retries = &mut counts.retries;
        let counter = match cause {
            Cause::Busy { .. } => &mut retries.busy,
            Cause::Connect { .. } => &mut retries.connect,
            Cause::Timeout { .. } => &mut retries.timeout,
            Cause::Checksum { .. } => &mut retries.checksum,
            Cause::Cut { .. } => &mut retries.cut,
            Cause::Server { .. } => &mut retries.server,
            _ => return false,
        };
        *counter += 1;
        true
    }
}

#[cfg(test)]
mod tests {
    use ringfall_model::facts::RetryCounts;

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
            assert!(counters.retry(&cause), "{cause}");
        }
        let retries = counters.now().retries;
        let one = RetryCounts { busy: 1, server: 1, cut: 1, connect: 1, timeout: 1, checksum: 1 };
        assert_eq!(retries, one);
        let told = retries.sentence().unwrap();
        assert!(told.starts_with("6 retries: 1 busy, 1 server error,"), "{told}");
        assert_eq!(RetryCounts::default().sentence(), None);
        let one = RetryCounts { cut: 1, ..RetryCounts::default() };
        assert_eq!(one.sentence().unwrap(), "1 retry: 1 connection lost");
    }

    #[test]
    fn what_may_pass_is_tried_again_and_nothing_else() {
        let counters = Counters::default();
        let is_repeated = |(status, code): (u16, &str)| {
            let (code, message) = (code.to_owned(), String::new());
            counters.retry(&Cause::of_refusal(status, code, message, None, None))
        };
        for refusal in
            [(503, "SlowDown"), (503, ""), (429, ""), (500, ""), (400, "BadDigest"), (408, "")]
        {
            assert!(is_repeated(refusal), "{refusal:?}");
        }
        for refusal in
            [(403, "ExpiredToken"), (404, ""), (400, "InvalidPart"), (400, ""), (301, "")]
        {
            assert!(!is_repeated(refusal), "{refusal:?}");
        }
        assert_eq!(counters.now().retries.total(), 6);
    }
}
