//! `ringfall.served`: what the requests that finished were like, and where their time went.

use super::figure::{Derived, Part, Sum};
use super::latency::LatencyMsMax;
use super::merge::figures;
use crate::facts::RequestStats;

figures! {
/// Size of the requests that finished in the window, and where their time went.
pub struct ServedReport of requests: RequestStats {
    /// Sum of the context lengths of the requests, tokens.
    pub context_tokens: Sum<u64> = requests.context_tokens,
    /// Mean context length of a request, tokens; null without requests.
    pub context_tokens_mean: Derived<Option<f64>>,
    /// Mean number of tokens that a request generated; null without requests.
    pub generated_tokens_mean: Derived<Option<f64>>,
    /// Loads of a context: time in which a request read what was there before it (shared prompt,
    /// earlier turns, retrieved chunks, blocks of a trace), with waits for room, of the requests
    /// that found any of it. Storage adds this to the time to the first token, besides the write of
    /// the new entry, ms.
    pub context_load_ms: Derived<Option<LatencyMsMax>>,
    /// Where the time of these requests went.
    pub time: Part<TimeReport>,
}

/// Where the time of the requests that finished went. The shares, each from 0 to 1, add up to 1;
/// they are null without requests.
pub struct TimeReport {
    /// Sum of the latencies of the requests, from intended arrival to end, s.
    pub total_s: Derived<Option<f64>>,
    /// Share of `total_s` spent waiting to be served.
    pub queue_share: Derived<Option<f64>>,
    /// Share of `total_s` spent waiting for room in a tier that is full; null in results of
    /// versions that did not keep it, where it is part of `rest_share`.
    pub space_share: Derived<Option<f64>>,
    /// Share of `total_s` spent reading and writing entries in all tiers, including waits for
    /// buffers and for places in the device's queue, but not those for room in a tier.
    pub storage_share: Derived<Option<f64>>,
    /// Share of `total_s` spent waiting for generated tokens.
    pub generation_share: Derived<Option<f64>>,
    /// Share of `total_s` spent computing again what was not found (`--prefill-tokens-per-s`).
    pub recompute_share: Derived<Option<f64>>,
    /// Share of `total_s` spent waiting for permits to allocate (`--max-concurrent-allocs`); null
    /// where `space_share` is.
    pub permit_share: Derived<Option<f64>>,
    /// Share of `total_s` that is left: waits for the processor.
    #[serde(alias = "permits_and_rest_share")]
    pub rest_share: Derived<Option<f64>>,
}
}

impl TimeReport {
    /// Computes the shares from the sums of the requests' times, s, by the names of their
    /// histograms. The steps of a request follow one another, so the rest of the total is time that
    /// no histogram covers.
    pub(super) fn of(total_s: Option<f64>, part_s: impl Fn(&str) -> Option<f64>) -> TimeReport {
        let parts_s = ["wait_request_queue", "storage_io", "generation"].map(&part_s);
        let (Some(total_s), [Some(queue_s), Some(storage_s), Some(generation_s)]) =
            (total_s, parts_s)
        else {
            return TimeReport::default();
        };
        // Older results have none, where it was free.
        let recompute_s = part_s("recompute").unwrap_or(0.0);
        // None where they were not kept.
        let waits_s = part_s("request_room").zip(part_s("request_permit"));
        let (space_s, permit_s) = waits_s.unwrap_or_default();
        let known_s = queue_s + space_s + storage_s + generation_s + recompute_s + permit_s;
        let rest_s = (total_s - known_s).max(0.0);
        let all_s = known_s + rest_s;
        let share = |part: f64| Derived::maybe((all_s > 0.0).then(|| part / all_s));
        let share_of_waits = |part: f64| Derived::maybe(waits_s.and_then(|_| share(part).known()));
        TimeReport {
            total_s: Derived::maybe((all_s > 0.0).then_some(total_s)),
            queue_share: share(queue_s),
            space_share: share_of_waits(space_s),
            storage_share: share(storage_s),
            generation_share: share(generation_s),
            recompute_share: share(recompute_s),
            permit_share: share_of_waits(permit_s),
            rest_share: share(rest_s),
        }
    }

    /// The shares with what people call them, in the order in which a request meets them; none
    /// without requests.
    pub fn rows(&self) -> Option<Vec<(&'static str, f64)>> {
        let (space, permits) = (self.space_share.known(), self.permit_share.known());
        let rows = [
            ("queue", Some(self.queue_share.known()?)),
            ("space", space),
            ("storage", Some(self.storage_share.known()?)),
            ("generation", Some(self.generation_share.known()?)),
            ("recompute", self.recompute_share.known().filter(|share| *share > 0.0)),
            ("permits", permits),
            (if space.is_some() { "other" } else { "space/other" }, Some(self.rest_share.known()?)),
        ];
        Some(rows.into_iter().filter_map(|(name, share)| Some((name, share?))).collect())
    }

    /// Share of the time that was waited for anything but storage, tokens and a turn; none without
    /// requests.
    pub fn waits_share(&self) -> Option<f64> {
        let of = |share: &Derived<Option<f64>>| share.known().unwrap_or(0.0);
        Some(self.rest_share.known()? + of(&self.space_share) + of(&self.permit_share))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sums of the requests' times, s; the last three are in no older result.
    const TIMES_S: [(&str, f64); 6] = [
        ("wait_request_queue", 0.03),
        ("storage_io", 0.02),
        ("generation", 0.01),
        ("recompute", 0.008),
        ("request_room", 0.02),
        ("request_permit", 0.005),
    ];

    fn of(total_s: f64, times_s: &[(&str, f64)]) -> TimeReport {
        let part_s = |name: &str| times_s.iter().find(|time| time.0 == name).map(|time| time.1);
        TimeReport::of(Some(total_s), part_s)
    }

    fn rows(time: &TimeReport) -> Vec<(&'static str, f64)> {
        let rows = time.rows().unwrap();
        assert!((rows.iter().map(|row| row.1).sum::<f64>() - 1.0).abs() < 1e-12, "{rows:?}");
        rows.into_iter().map(|(name, share)| (name, (share * 100.0).round())).collect()
    }

    /// Waits for room were a part of "permits/other", which reads as if something else were short.
    #[test]
    fn the_shares_of_the_time_add_up_and_each_wait_is_named() {
        let time = of(0.1, &TIMES_S);
        let expected = [
            ("queue", 30.0),
            ("space", 20.0),
            ("storage", 20.0),
            ("generation", 10.0),
            ("recompute", 8.0),
            ("permits", 5.0),
            ("other", 7.0),
        ];
        assert_eq!(rows(&time), expected);
        assert_eq!(time.total_s.known(), Some(0.1));
        assert!((time.waits_share().unwrap() - 0.32).abs() < 1e-12);
        // A result of a version that did not keep them.
        let time = of(0.1, &TIMES_S[..3]);
        let expected =
            [("queue", 30.0), ("storage", 20.0), ("generation", 10.0), ("space/other", 40.0)];
        assert_eq!(rows(&time), expected);
        assert!((time.waits_share().unwrap() - 0.4).abs() < 1e-12);
    }

    #[test]
    fn without_requests_there_are_no_shares() {
        assert_eq!(of(0.0, &TIMES_S.map(|(name, _)| (name, 0.0))).rows(), None);
        assert_eq!(TimeReport::of(None, |_| None).rows(), None);
    }
}
