//! `ringfall.served`: what the requests that finished were like, and where their time went.

use ringfall_core::metrics::Histogram;

use super::figure::{Derived, Part, Sum};
use super::merge::figures;
use crate::RunResult;

figures! {
/// Size of the requests that finished in the window, and where their time went.
pub struct ServedReport {
    /// Sum of the context lengths of the requests, tokens.
    pub context_tokens: Sum<u64>,
    /// Mean context length of a request, tokens; null without requests.
    pub context_tokens_mean: Derived<Option<f64>>,
    /// Mean number of tokens that a request generated; null without requests.
    pub generated_tokens_mean: Derived<Option<f64>>,
    /// Where the time of these requests went.
    pub time: Part<TimeReport>,
}
}

figures! {
/// Where the time of the requests that finished went. The shares, each from 0 to 1, add up to 1;
/// they are null without requests.
pub struct TimeReport {
    /// Sum of the latencies of the requests, from intended arrival to end, s.
    pub total_s: Derived<Option<f64>>,
    /// Share of `total_s` spent waiting to be served.
    pub queue_share: Derived<Option<f64>>,
    /// Share of `total_s` spent reading and writing entries in all tiers, including waits for
    /// buffers and for places in the device's queue, but not those for room in a tier.
    pub storage_share: Derived<Option<f64>>,
    /// Share of `total_s` spent waiting for generated tokens.
    pub generation_share: Derived<Option<f64>>,
    /// Share of `total_s` that is left: waits for room in a tier that is full, for an allocation
    /// permit (`--max-concurrent-allocs`) and for the processor.
    pub permits_and_rest_share: Derived<Option<f64>>,
}
}

impl ServedReport {
    pub(super) fn of(result: &RunResult) -> ServedReport {
        ServedReport {
            context_tokens: Sum::of(result.requests.context_tokens),
            ..ServedReport::default()
        }
    }
}

impl TimeReport {
    /// Computes the shares from the histograms of whole requests, of their waits to be served, of
    /// their storage I/O and of their generation. The steps of a request follow one another, so the
    /// rest of the total is time that no histogram covers.
    pub(super) fn of(parts: Option<[&Histogram; 4]>) -> TimeReport {
        let Some(sums) = parts.map(|parts| parts.map(|part| part.sum_ns() as f64 / 1e9)) else {
            return TimeReport::default();
        };
        let [total_s, queue_s, storage_s, generation_s] = sums;
        let rest_s = (total_s - queue_s - storage_s - generation_s).max(0.0);
        let all_s = queue_s + storage_s + generation_s + rest_s;
        let share = |part: f64| Derived::maybe((all_s > 0.0).then(|| part / all_s));
        TimeReport {
            total_s: Derived::maybe((all_s > 0.0).then_some(total_s)),
            queue_share: share(queue_s),
            storage_share: share(storage_s),
            generation_share: share(generation_s),
            permits_and_rest_share: share(rest_s),
        }
    }

    /// The shares with what people call them, in the order in which a request meets them; none
    /// without requests.
    #[must_use]
    pub fn rows(&self) -> Option<[(&'static str, f64); 4]> {
        Some([
            ("queue", self.queue_share.known()?),
            ("storage", self.storage_share.known()?),
            ("generation", self.generation_share.known()?),
            ("permits/other", self.permits_and_rest_share.known()?),
        ])
    }
}

#[cfg(test)]
mod tests {
    use ringfall_core::clock::MILLISECOND;

    use super::*;

    fn of(values_ms: &[u64]) -> Histogram {
        let mut histogram = Histogram::new();
        values_ms.iter().for_each(|ms| histogram.record(ms * MILLISECOND.as_ns()));
        histogram
    }

    #[test]
    fn the_shares_of_the_time_add_up_and_the_rest_is_named() {
        let parts = [of(&[60, 40]), of(&[30]), of(&[20, 20]), of(&[10])];
        let time = TimeReport::of(Some(parts.each_ref()));
        let rows = time.rows().unwrap();
        let shares = rows.map(|(_, share)| (share * 100.0).round());
        assert_eq!(shares, [30.0, 40.0, 10.0, 20.0]);
        assert_eq!(time.total_s.known(), Some(0.1));
        assert!((rows.iter().map(|row| row.1).sum::<f64>() - 1.0).abs() < 1e-12);
    }

    #[test]
    fn without_requests_there_are_no_shares() {
        let parts: [Histogram; 4] = std::array::from_fn(|_| Histogram::new());
        assert_eq!(TimeReport::of(Some(parts.each_ref())).rows(), None);
        assert_eq!(TimeReport::of(None).rows(), None);
    }
}
