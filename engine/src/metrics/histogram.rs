//! A latency histogram: HDR, 1 µs to 1 h at 3 significant digits, mergeable exactly.

use std::fmt;

use crate::clock::{MICROSECOND, Nanos, SECOND};

/// Lowest latency told apart from zero.
pub(super) const LOWEST_NS: u64 = MICROSECOND;
/// Highest latency recorded as it is; longer ones count as this.
pub(super) const HIGHEST_NS: u64 = 3_600 * SECOND;
/// Significant digits of a recorded latency.
pub(super) const SIGNIFICANT_DIGITS: u8 = 3;

/// Latencies of one kind of event. Records nanoseconds, at a resolution of 512 ns below 1 ms.
#[derive(Clone)]
pub struct Histogram {
    inner: hdrhistogram::Histogram<u64>,
    sum_ns: u128,
}

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

/// Equal when the same latencies, to the resolution, were recorded equally often, with the same
/// sum. (The crate's own equality also compares its bookkeeping, which differs after `clear`.)
impl PartialEq for Histogram {
    fn eq(&self, other: &Self) -> bool {
        let recorded = |histogram: &Histogram| -> Vec<(u64, u64)> {
            let steps = histogram.inner.iter_recorded();
            steps.map(|step| (step.value_iterated_to(), step.count_at_value())).collect()
        };
        self.sum_ns == other.sum_ns
            && self.count() == other.count()
            && recorded(self) == recorded(other)
    }
}

/// The few figures a person can take in, not 24,576 counters.
impl fmt::Debug for Histogram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Histogram")
            .field("count", &self.count())
            .field("sum_ns", &self.sum_ns)
            .field("p50_ns", &self.quantile_ns(0.5))
            .field("max_ns", &self.max_ns())
            .finish()
    }
}

impl Histogram {
    /// An empty histogram. Its 192 KiB of counters are touched only where something is recorded.
    #[must_use]
    pub fn new() -> Self {
        let inner =
            hdrhistogram::Histogram::new_with_bounds(LOWEST_NS, HIGHEST_NS, SIGNIFICANT_DIGITS)
                .expect("the bounds are constants that the crate accepts");
        Histogram { inner, sum_ns: 0 }
    }

    /// Counts one event.
    pub fn record(&mut self, latency_ns: Nanos) {
        // The crate's counters reach past the bound it was given (to 4398 s); only what is past
        // those does it count as the bound, which would put 5000 s below 4000 s.
        self.inner.saturating_record(latency_ns.min(HIGHEST_NS));
        self.sum_ns += u128::from(latency_ns);
    }

    /// Adds another histogram's events.
    pub fn merge(&mut self, other: &Histogram) {
        self.inner.add(&other.inner).expect("all histograms have the same bounds");
        self.sum_ns += other.sum_ns;
    }

    /// Events recorded.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.inner.len()
    }

    /// Sum of the recorded latencies, exact.
    #[must_use]
    pub fn sum_ns(&self) -> u128 {
        self.sum_ns
    }

    /// Mean, exact; `None` when empty.
    #[must_use]
    pub fn mean_ns(&self) -> Option<f64> {
        (self.count() > 0).then(|| self.sum_ns as f64 / self.count() as f64)
    }

    /// Latency that `quantile` (0..=1) of the events did not exceed; `None` when empty.
    #[must_use]
    pub fn quantile_ns(&self, quantile: f64) -> Option<Nanos> {
        // A value is reported as the top of its bucket: never above the highest that was recorded.
        let value = || self.inner.value_at_quantile(quantile).min(self.inner.max());
        (self.count() > 0).then(value)
    }

    /// Longest latency, to the histogram's resolution; `None` when empty.
    #[must_use]
    pub fn max_ns(&self) -> Option<Nanos> {
        (self.count() > 0).then(|| self.inner.max())
    }

    /// Events of at most `limit_ns` (to the histogram's resolution).
    #[must_use]
    pub fn count_at_most(&self, limit_ns: Nanos) -> u64 {
        self.inner.count_between(0, limit_ns)
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.inner.reset();
        self.sum_ns = 0;
    }

    /// One of these around counters that have the right bounds.
    pub(super) fn from_parts(inner: hdrhistogram::Histogram<u64>, sum_ns: u128) -> Histogram {
        Histogram { inner, sum_ns }
    }

    /// The HDR histogram itself, for serialisation.
    #[must_use]
    pub fn hdr(&self) -> &hdrhistogram::Histogram<u64> {
        &self.inner
    }
}
