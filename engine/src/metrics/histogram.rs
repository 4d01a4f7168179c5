//! A latency histogram: HDR, 1 µs to 1 h at 3 significant digits, mergeable exactly.

use std::fmt;
use std::sync::OnceLock;

use crate::clock::{MICROSECOND, SECOND};

/// Lowest latency told apart from zero.
pub(super) const LOWEST_NS: u64 = MICROSECOND.as_ns();
/// Highest latency recorded as it is; longer ones count as this.
pub(super) const HIGHEST_NS: u64 = 3_600 * SECOND.as_ns();
/// Significant digits of a recorded latency.
pub(super) const SIGNIFICANT_DIGITS: u8 = 3;

/// Latencies of one kind of event. Records nanoseconds, at a resolution of 512 ns below 1 ms.
///
/// One in which nothing was recorded has no counters. The 192 KiB of the others are touched only
/// where something was recorded, also where they are copied or merged: a shard has dozens of them.
#[derive(Default)]
pub struct Histogram {
    inner: Option<Box<Counters>>,
    sum_ns: u128,
    /// The longest latency, at most `HIGHEST_NS`; 0 when empty. Its counter has only its bucket,
    /// whose top is above all that was recorded. (The shortest needs no such field: no quantile is
    /// below its bucket.)
    longest_ns: u64,
}

type Counters = hdrhistogram::Histogram<u64>;

fn counters() -> Box<Counters> {
    let made = Counters::new_with_bounds(LOWEST_NS, HIGHEST_NS, SIGNIFICANT_DIGITS);
    Box::new(made.expect("the bounds are constants that the crate accepts"))
}

/// Adds what was recorded in one to another, counter by counter: the crate's own ways to copy touch
/// every counter.
fn add_recorded(from: &Counters, to: &mut Counters) {
    for step in from.iter_recorded() {
        // The top of a counter's range is in it.
        to.saturating_record_n(step.value_iterated_to(), step.count_at_value());
    }
}

impl Clone for Histogram {
    fn clone(&self) -> Self {
        let copy = |from: &Counters| {
            let mut to = counters();
            add_recorded(from, &mut to);
            to
        };
        let inner = self.recorded().map(copy);
        Histogram { inner, sum_ns: self.sum_ns, longest_ns: self.longest_ns }
    }
}

/// Equal when the same latencies, to the resolution, were recorded equally often, with the same
/// sum. (The crate's own equality also compares its bookkeeping, which differs after `clear`.)
impl PartialEq for Histogram {
    fn eq(&self, other: &Self) -> bool {
        let recorded = |histogram: &Histogram| -> Vec<(u64, u64)> {
            let steps = histogram.hdr().iter_recorded();
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
    /// An empty histogram.
    #[must_use]
    pub fn new() -> Self {
        Histogram::default()
    }

    /// Its counters, if anything was recorded.
    fn recorded(&self) -> Option<&Counters> {
        self.inner.as_deref().filter(|inner| !inner.is_empty())
    }

    /// Counts one event.
    pub fn record(&mut self, latency_ns: u64) {
        // The crate's counters reach past the bound it was given (to 4398 s); only what is past
        // those does it count as the bound, which would put 5000 s below 4000 s.
        let inner = self.inner.get_or_insert_with(counters);
        let counted_ns = latency_ns.min(HIGHEST_NS);
        inner.saturating_record(counted_ns);
        self.sum_ns += u128::from(latency_ns);
        self.longest_ns = self.longest_ns.max(counted_ns);
    }

    /// Adds another histogram's events.
    pub fn merge(&mut self, other: &Histogram) {
        self.sum_ns += other.sum_ns;
        self.longest_ns = self.longest_ns.max(other.longest_ns);
        let Some(theirs) = other.recorded() else { return };
        let inner = self.inner.get_or_insert_with(counters);
        match inner.is_empty() {
            true => add_recorded(theirs, inner),
            false => inner.add(theirs).expect("all histograms have the same bounds"),
        }
    }

    /// Events recorded.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.inner.as_ref().map_or(0, |inner| inner.len())
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
    pub fn quantile_ns(&self, quantile: f64) -> Option<u64> {
        // A value is reported as the top of its bucket: never above the highest that was recorded.
        let value = |inner: &Counters| inner.value_at_quantile(quantile).min(self.longest_ns);
        self.recorded().map(value)
    }

    /// Longest latency, exact up to an hour, and an hour beyond it; `None` when empty. Of one that
    /// was decoded it is the top of its bucket, unless [`Histogram::set_max_ns`] was told it.
    #[must_use]
    pub fn max_ns(&self) -> Option<u64> {
        self.recorded().map(|_| self.longest_ns)
    }

    /// Takes the longest latency, which the counters of a decoded histogram have only as a bucket,
    /// from what was stored beside them. False, and nothing is done, when it is in another bucket.
    #[must_use]
    pub fn set_max_ns(&mut self, max_ns: u64) -> bool {
        let fits = self.recorded().is_some_and(|inner| inner.equivalent(max_ns, inner.max()));
        if fits {
            self.longest_ns = max_ns;
        }
        fits
    }

    /// Events of at most `limit_ns` (to the histogram's resolution).
    #[must_use]
    pub fn count_at_most(&self, limit_ns: u64) -> u64 {
        self.recorded().map_or(0, |inner| inner.count_between(0, limit_ns))
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        if let Some(inner) = &mut self.inner {
            inner.reset();
        }
        (self.sum_ns, self.longest_ns) = (0, 0);
    }

    /// One of these around counters that have the right bounds.
    pub(super) fn from_parts(inner: hdrhistogram::Histogram<u64>, sum_ns: u128) -> Histogram {
        let longest_ns = if inner.is_empty() { 0 } else { inner.max() };
        Histogram { inner: Some(Box::new(inner)), sum_ns, longest_ns }
    }

    /// The HDR histogram itself, for serialisation.
    #[must_use]
    pub fn hdr(&self) -> &hdrhistogram::Histogram<u64> {
        static EMPTY: OnceLock<Box<Counters>> = OnceLock::new();
        self.inner.as_ref().unwrap_or_else(|| EMPTY.get_or_init(counters))
    }
}
