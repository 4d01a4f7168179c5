//! Results of a sweep over an object store.

use serde::{Deserialize, Serialize};

use ringfall_model::facts::ObjectCounts;

/// Version of the form of [`ObjectLimits`].
pub const OBJECT_LIMITS_VERSION: u32 = 1;

/// Results of a sweep over an object store.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct ObjectLimits {
    /// Version of this form; also what tells the file from others.
    pub ringfall_object_limits: u32,
    /// Version of the program.
    pub version: String,
    /// When it began, seconds since 1970.
    pub unix_s: f64,
    /// Bucket and prefix, as a URL.
    pub place: String,
    /// Duration of the whole sweep, s.
    pub seconds: f64,
    /// Points measured, in this order.
    pub points: Vec<ObjectPoint>,
    /// Points that were not measured, and why.
    pub left_out: Vec<String>,
    /// Counters of the requests to the store, with those that are not measured: the removal of the
    /// objects, for one.
    pub counts: ObjectCounts,
}

/// Result of one load on the object store: one operation, size and number in flight.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct ObjectPoint {
    /// Operation that was measured, `PUT` or `GET`.
    pub operation: String,
    /// Size of an object, bytes.
    pub object_bytes: u64,
    /// Number of requests in flight, all threads together.
    pub in_flight: u32,
    /// Duration of its measurement, s.
    pub seconds: f64,
    /// Requests that were answered meanwhile.
    pub requests: u64,
    /// Bytes of objects per second.
    pub bytes_per_s: f64,
    /// Rate of completed requests, requests per second.
    pub requests_per_s: f64,
    /// Median time from sending a request to its complete answer, with repetitions, us.
    pub latency_p50_us: f64,
    /// 99th percentile of it, us.
    pub latency_p99_us: f64,
    /// CPU time of ringfall, user and system; none where too little was moved to tell.
    pub cpu_s_per_gib: Option<f64>,
    /// Requests that were repeated.
    pub retries: u64,
}

impl ObjectLimits {
    /// The point with the highest bandwidth, and the one with the most requests per second.
    pub fn best(&self, operation: &str) -> Option<(&ObjectPoint, &ObjectPoint)> {
        let points = || self.points.iter().filter(|point| point.operation == operation);
        let fastest = points().max_by(|a, b| a.bytes_per_s.total_cmp(&b.bytes_per_s))?;
        let most = points().max_by(|a, b| a.requests_per_s.total_cmp(&b.requests_per_s))?;
        Some((fastest, most))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_are_found_for_each_operation() {
        let point = |operation: &str, object_bytes: u64, requests_per_s: f64| ObjectPoint {
            operation: operation.into(),
            object_bytes,
            in_flight: 1,
            seconds: 1.0,
            requests: 1,
            bytes_per_s: requests_per_s * object_bytes as f64,
            requests_per_s,
            latency_p50_us: 0.0,
            latency_p99_us: 0.0,
            cpu_s_per_gib: None,
            retries: 0,
        };
        let limits = ObjectLimits {
            ringfall_object_limits: OBJECT_LIMITS_VERSION,
            version: String::new(),
            unix_s: 0.0,
            place: String::new(),
            seconds: 0.0,
            points: vec![point("GET", 10, 9.0), point("GET", 100, 3.0), point("PUT", 1, 99.0)],
            left_out: Vec::new(),
            counts: ObjectCounts::default(),
        };
        let (fastest, most) = limits.best("GET").unwrap();
        assert_eq!((fastest.object_bytes, most.object_bytes), (100, 10));
        assert!(limits.best("DELETE").is_none());
    }
}
