//! A latency histogram: HDR, 1 µs to 1 h at 3 significant digits, mergeable exactly.

use std::fmt;

use super::octaves::Octaves;
use crate::clock::{MICROSECOND, SECOND};

/// Lowest latency told apart from zero.
pub(super) const LOWEST_NS: u64 = MICROSECOND.as_ns();
/// Highest latency recorded as it is; longer ones count as this.
pub(super) const HIGHEST_NS: u64 = 3_600 * SECOND.as_ns();
/// Significant digits of a recorded latency.
pub(super) const SIGNIFICANT_DIGITS: u8 = 3;

/// Latencies of one kind of event. Records nanoseconds, at a resolution of 512 ns below 1 ms.
///
/// One in which nothing was recorded has no counters; the others have 8 KiB for each octave of
/// latencies that they saw, at most 192 KiB: a shard has dozens of them.
#[derive(Clone, Default)]
pub struct Histogram {
    inner: Option<Box<Octaves>>,
    sum_ns: u128,
    /// The longest latency, at most `HIGHEST_NS`; 0 when empty. Its counter has only its bucket,
    /// whose top is above all that was recorded. (The shortest needs no such field: no quantile is
    /// below its bucket.)
    longest_ns: u64,
}

/// Equal when the same latencies, to the resolution, were recorded equally often, with the same
/// sum.
impl PartialEq for Histogram {
    fn eq(&self, other: &Self) -> bool {
        self.sum_ns == other.sum_ns && self.buckets().eq(other.buckets())
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

/// Counts the first event of a histogram; apart, as the first of an octave is.
#[cold]
#[inline(never)]
fn first_of_all(inner: &mut Option<Box<Octaves>>, counted_ns: u64) {
    inner.insert(Box::default()).add(counted_ns, 1);
}

impl Histogram {
    /// A histogram without events. Its counters take memory only once something is recorded.
    pub fn new() -> Self {
        Histogram::default()
    }

    /// Its counters, if anything was recorded.
    fn recorded(&self) -> Option<&Octaves> {
        self.inner.as_deref().filter(|inner| inner.total() > 0)
    }

    /// Counts one event of this latency, ns; one beyond the highest bound is counted at that bound.
    #[inline]
    pub fn record(&mut self, latency_ns: u64) {
        let counted_ns = latency_ns.min(HIGHEST_NS);
        match &mut self.inner {
            Some(inner) => inner.add(counted_ns, 1),
            none => first_of_all(none, counted_ns),
        }
        self.sum_ns += u128::from(latency_ns);
        self.longest_ns = self.longest_ns.max(counted_ns);
    }

    /// Counts `times` events of this latency, ns.
    pub fn record_n(&mut self, latency_ns: u64, times: u64) {
        self.record_all([latency_ns], times);
    }

    /// Counts `times` events of each of these latencies, ns.
    pub fn record_all(&mut self, latencies_ns: impl IntoIterator<Item = u64>, times: u64) {
        if times == 0 {
            return;
        }
        let inner = self.inner.get_or_insert_default();
        let (mut sum_ns, mut longest_ns) = (0, self.longest_ns);
        for latency_ns in latencies_ns {
            let counted_ns = latency_ns.min(HIGHEST_NS);
            inner.add(counted_ns, times);
            sum_ns += u128::from(latency_ns);
            longest_ns = longest_ns.max(counted_ns);
        }
        self.sum_ns += sum_ns * u128::from(times);
        self.longest_ns = longest_ns;
    }

    /// Adds another histogram's events.
    pub fn merge(&mut self, other: &Histogram) {
        self.sum_ns += other.sum_ns;
        self.longest_ns = self.longest_ns.max(other.longest_ns);
        if let Some(theirs) = other.recorded() {
            self.inner.get_or_insert_default().merge(theirs);
        }
    }

    /// Number of events recorded.
    pub fn count(&self) -> u64 {
        self.inner.as_ref().map_or(0, |inner| inner.total())
    }

    /// Sum of the recorded latencies, exact.
    pub fn sum_ns(&self) -> u128 {
        self.sum_ns
    }

    /// Mean, exact; `None` when empty.
    pub fn mean_ns(&self) -> Option<f64> {
        (self.count() > 0).then(|| self.sum_ns as f64 / self.count() as f64)
    }

    /// Latency that `quantile` (0..=1) of the events did not exceed; `None` when empty.
    pub fn quantile_ns(&self, quantile: f64) -> Option<u64> {
        // A value is reported as the top of its bucket: never above the highest that was recorded.
        self.recorded().map(|inner| inner.quantile(quantile).min(self.longest_ns))
    }

    /// The same of many quantiles, for which the counters are walked through once; 0 when empty.
    pub fn quantiles_ns(&self, quantiles: &[f64]) -> Vec<u64> {
        let mut seen = 0;
        let at_most = |(top_ns, count): (u64, u64)| {
            seen += count;
            (top_ns, seen)
        };
        let counted: Vec<(u64, u64)> = self.buckets().map(at_most).collect();
        let of = |quantile: &f64| {
            let wanted = ((quantile * self.count() as f64).ceil() as u64).max(1);
            let place = counted.partition_point(|(_, seen)| *seen < wanted);
            let top_ns = counted.get(place).map_or(self.longest_ns, |(top_ns, _)| *top_ns);
            top_ns.min(self.longest_ns)
        };
        quantiles.iter().map(of).collect()
    }

    /// Longest latency, exact up to an hour, and an hour beyond it; `None` when empty. Of one that
    /// was decoded it is the top of its bucket, unless [`Histogram::set_max_ns`] was told it.
    pub fn max_ns(&self) -> Option<u64> {
        self.recorded().map(|_| self.longest_ns)
    }

    /// Takes the longest latency, which the counters of a decoded histogram have only as a bucket,
    /// from what was stored beside them. False, and nothing is done, when it is in another bucket.
    #[must_use]
    pub fn set_max_ns(&mut self, max_ns: u64) -> bool {
        let fits = self.count() > 0
            && max_ns <= HIGHEST_NS
            && Octaves::top_ns(max_ns) == Octaves::top_ns(self.longest_ns);
        if fits {
            self.longest_ns = max_ns;
        }
        fits
    }

    /// Events of at most `limit_ns` (to the histogram's resolution).
    pub fn count_at_most(&self, limit_ns: u64) -> u64 {
        self.recorded().map_or(0, |inner| inner.count_at_most(limit_ns))
    }

    /// Removes all events, and keeps the memory of the counters.
    pub fn clear(&mut self) {
        if let Some(inner) = &mut self.inner {
            inner.clear();
        }
        (self.sum_ns, self.longest_ns) = (0, 0);
    }

    /// The buckets in which something was recorded: the highest latency that each counts, ns, and
    /// how many it counted, the shortest first.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64)> {
        self.inner.iter().flat_map(|inner| inner.recorded())
    }

    /// One of these from counters that have the right bounds.
    pub(super) fn from_hdr(counters: &Hdr, sum_ns: u128) -> Histogram {
        let mut inner = Octaves::default();
        // The top of a counter's range is in it; the last one reaches past the highest bound.
        let steps = counters.iter_recorded();
        inner.extend(
            steps.map(|step| (step.value_iterated_to().min(HIGHEST_NS), step.count_at_value())),
        );
        let longest_ns = inner.recorded().last().map_or(0, |(top_ns, _)| top_ns);
        Histogram { inner: Some(Box::new(inner)), sum_ns, longest_ns }
    }

    /// The same counters as the crate has them that knows the format.
    pub(super) fn to_hdr(&self) -> Hdr {
        let made = Hdr::new_with_bounds(LOWEST_NS, HIGHEST_NS, SIGNIFICANT_DIGITS);
        let mut counters = made.expect("the bounds are constants that the crate accepts");
        for (top_ns, count) in self.buckets() {
            counters.saturating_record_n(top_ns, count);
        }
        counters
    }
}

/// HdrHistogram's own counters.
pub(super) type Hdr = hdrhistogram::Histogram<u64>;
