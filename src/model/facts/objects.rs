//! Counts of requests to a store, and of their repetitions.

use ringfall_core::units::gib;
use serde::{Deserialize, Serialize};

use super::{Adds, summed};

/// Requests to one object store, all its endpoints together.
#[derive(Clone, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct ObjectCounts {
    /// Number of requests sent, retries included.
    pub requests: u64,
    /// Bytes of objects sent.
    pub sent_bytes: u64,
    /// Bytes of objects received.
    pub received_bytes: u64,
    /// Number of connections opened to the endpoints of the store.
    pub connections: u64,
    /// Number of attempts that were repeated, by what had gone wrong.
    pub retries: RetryCounts,
    /// Number of requests that failed after all their retries.
    pub failures: u64,
    /// Number of requests sent to each endpoint.
    pub endpoints: Vec<EndpointCounts>,
}

summed! {
/// Requests that were repeated, by what had gone wrong.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct RetryCounts {
    /// Number of attempts repeated because the server asked for fewer requests (429, 503).
    pub busy: u64,
    /// Number of attempts repeated because the server answered with another 5xx.
    pub server: u64,
    /// Number of attempts repeated because the connection closed early.
    pub cut: u64,
    /// Number of attempts repeated because no connection could be made.
    pub connect: u64,
    /// Number of attempts repeated because they timed out.
    pub timeout: u64,
    /// Number of attempts repeated because the checksum of the data was wrong.
    pub checksum: u64,
}
}

impl ObjectCounts {
    /// Line with the counts; repetitions and failures only where there were any.
    pub fn sentence(&self) -> String {
        let mut told = format!(
            "{} requests over {} connections, {:.2} GiB written, {:.2} GiB read",
            self.requests,
            self.connections,
            gib(self.sent_bytes),
            gib(self.received_bytes)
        );
        if let Some(more) = self.retries.sentence() {
            told.push_str(&format!("; {more}"));
        }
        if self.failures > 0 {
            told.push_str(&format!("; {} failed for good", self.failures));
        }
        told
    }
}

impl Adds for ObjectCounts {
    /// Sum of the counts, endpoint by endpoint.
    fn plus(mut self, other: &ObjectCounts) -> Option<ObjectCounts> {
        for other in &other.endpoints {
            match self.endpoints.iter_mut().find(|one| one.endpoint == other.endpoint) {
                Some(one) => one.requests += other.requests,
                None => self.endpoints.push(other.clone()),
            }
        }
        self.requests += other.requests;
        self.sent_bytes += other.sent_bytes;
        self.received_bytes += other.received_bytes;
        self.connections += other.connections;
        self.retries += other.retries;
        self.failures += other.failures;
        Some(self)
    }
}

impl RetryCounts {
    /// Number of attempts that were repeated, for all reasons together.
    pub fn total(&self) -> u64 {
        self.busy + self.server + self.cut + self.connect + self.timeout + self.checksum
    }

    /// `3 retries: 2 busy, 1 cut`; none where there was none.
    pub fn sentence(&self) -> Option<String> {
        let parts = [
            (self.busy, "busy"),
            (self.server, "server error"),
            (self.cut, "connection lost"),
            (self.connect, "no connection"),
            (self.timeout, "timeout"),
            (self.checksum, "wrong checksum"),
        ];
        let parts: Vec<String> = parts
            .iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, what)| format!("{count} {what}"))
            .collect();
        let total = self.total();
        let noun = if total == 1 { "retry" } else { "retries" };
        (total > 0).then(|| format!("{total} {noun}: {}", parts.join(", ")))
    }
}

/// Requests to one endpoint of an object store.
#[derive(Clone, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct EndpointCounts {
    /// Address of the endpoint; the name of the store if no address was given.
    pub endpoint: String,
    /// Number of requests sent to this endpoint, retries included.
    pub requests: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_add_up_endpoint_by_endpoint() {
        let of = |requests, endpoint: &str| ObjectCounts {
            requests,
            sent_bytes: 10,
            retries: RetryCounts { busy: 1, ..RetryCounts::default() },
            endpoints: vec![EndpointCounts { endpoint: endpoint.to_owned(), requests }],
            ..ObjectCounts::default()
        };
        let two = of(2, "a").plus(&of(3, "b")).unwrap();
        let sum = two.plus(&of(4, "a")).unwrap();
        assert_eq!((sum.requests, sum.sent_bytes, sum.retries.total()), (9, 30, 3));
        let by_endpoint =
            |at: usize| (sum.endpoints[at].endpoint.as_str(), sum.endpoints[at].requests);
        assert_eq!((by_endpoint(0), by_endpoint(1), sum.endpoints.len()), (("a", 6), ("b", 3), 2));
    }
}
