//! `ringfall.requests`: finished and unfinished requests side by side, and what that says of the
//! latencies of all of them.

use ringfall_core::metrics::Histogram;

use super::histograms::{CLASSES, Histograms, UNFINISHED};
use super::latency::ms;
use crate::facts::{Quantile, Survival};
use crate::figures::given::row;
use crate::sla::Sla;

row! {
/// Requests that finished in the window and requests that had arrived but not finished when it
/// closed, and the latencies of both together. Under overload the requests that finish are the
/// lucky ones, so percentiles of those alone are too low; the percentiles here take the others into
/// account with the age that they had reached (Kaplan–Meier estimate of censored times, and the
/// bounds that hold whatever becomes of the unfinished requests).
pub struct RequestsReport {
    /// Requests of all QoS classes.
    pub all: RequestsOfClass,
    /// Requests of the class `interactive`.
    pub interactive: RequestsOfClass,
    /// Requests of the class `responsive`.
    pub responsive: RequestsOfClass,
    /// Requests of the class `batch`.
    pub batch: RequestsOfClass,
}

/// Requests of one QoS class, or of all classes together.
pub struct RequestsOfClass {
    /// Number of requests that finished in the window without a failed step.
    pub finished: u64,
    /// Number of requests that had arrived but not finished when the window closed.
    pub unfinished: u64,
    /// Sum of the ages that these had by then, s; null in results that do not keep it.
    pub unfinished_age_s: Option<f64>,
    /// Median latency, from intended arrival to end; null without requests.
    pub p50: Option<QuantileMs>,
    /// 95th percentile of the latency, from intended arrival to end; null without requests.
    pub p95: Option<QuantileMs>,
    /// 99th percentile of the latency, from intended arrival to end; null without requests.
    pub p99: Option<QuantileMs>,
    /// 99.9th percentile of the latency, from intended arrival to end; null without requests.
    pub p999: Option<QuantileMs>,
    /// Target of the class for the 95th percentile of the latency, ms; null for all classes
    /// together, and in merged results that had different targets.
    pub target_p95_ms: Option<u64>,
    /// Estimated share of the requests, finished or not, that took no longer than the target, from
    /// 0 to 1; null without requests, and where `target_p95_ms` is null. Like the estimates of the
    /// percentiles it takes unfinished requests to fare as those did that finished, so it may be
    /// too high where a queue was growing: what is certain is that the share lies between
    /// `share_within_target_at_least` and `share_within_target_at_most`. `summary.qos_metrics` has
    /// the share of those that finished.
    pub share_within_target: Option<f64>,
    /// Lower bound of the share within the target: as if no unfinished request met it.
    pub share_within_target_at_least: Option<f64>,
    /// Upper bound of the share within the target: as if every unfinished request that was not yet
    /// older than the target met it.
    pub share_within_target_at_most: Option<f64>,
}

/// Estimate and bounds of one percentile of all requests, finished or not.
pub struct QuantileMs of known: Quantile {
    /// Kaplan–Meier estimate, ms; null where too many requests had not finished to estimate it. Too
    /// low where a queue was growing, and possibly too high where one was being worked off.
    pub estimate_ms: Option<f64> = known.estimate_ns.map(ms),
    /// Lower bound, ms: the percentile if all unfinished requests had ended as the window closed.
    pub at_least_ms: f64 = ms(known.at_least_ns),
    /// Upper bound, ms: the percentile if no unfinished request ever ended; null when that has no
    /// bound.
    pub at_most_ms: Option<f64> = known.at_most_ns.map(ms),
}
}

impl QuantileMs {
    /// The estimate, where it may be told as a number: where the percentile has an upper bound too,
    /// so that no more requests were unfinished than it leaves out.
    ///
    /// Without such a bound the percentile may be the latency of a request that had not finished,
    /// and of those the estimate knows nothing: it takes a request of age *a* to be like those that
    /// were in the system that long and then finished. Being unfinished is not that harmless. In a
    /// queue that grows, first come, first served, whoever waits has arrived after all that
    /// finished and waits longer than they did, so the truth lies above the estimate (50.5 s where
    /// it is 95.5 s in the test below). In one that is worked off at the end it is the other way
    /// about, and in a steady one the estimate is as often too high as too low: `≥ estimate` would
    /// be wrong there.
    pub fn number_ms(&self) -> Option<f64> {
        self.at_most_ms.and(self.estimate_ms)
    }

    /// For people: [the estimate](QuantileMs::number_ms), or where that is no number to tell, the
    /// lower bound as `≥ …`, which holds in every case: an age is what a request took at the least.
    pub fn told(&self, number: impl Fn(f64) -> String) -> String {
        match self.number_ms() {
            Some(estimate) => number(estimate),
            None => format!("≥ {}", number(self.at_least_ms)),
        }
    }
}

impl RequestsOfClass {
    /// Computes the figures from the latencies of the finished requests and the ages of the others.
    pub(crate) fn of(
        finished: &Histogram,
        unfinished: &Histogram,
        sla: Option<&Sla>,
    ) -> RequestsOfClass {
        let all = Survival::of(finished, unfinished);
        let at = |share| all.quantile(share).as_ref().map(QuantileMs::of);
        let within = sla.and_then(|sla| all.share_within(sla.target_p95_ns()));
        RequestsOfClass {
            finished: all.finished(),
            unfinished: all.unfinished(),
            unfinished_age_s: Some(unfinished.sum_ns() as f64 / 1e9),
            p50: at(0.5),
            p95: at(0.95),
            p99: at(0.99),
            p999: at(0.999),
            target_p95_ms: sla.map(|sla| sla.targets_ms[0]),
            share_within_target: within.map(|within| within.estimate),
            share_within_target_at_least: within.map(|within| within.at_least),
            share_within_target_at_most: within.map(|within| within.at_most),
        }
    }

    /// The share within the target for people: where both bounds read alike, that; else both, as
    /// then it is open what becomes of the unfinished requests. None without requests.
    pub fn within_target_told(&self, number: impl Fn(f64) -> String) -> Option<String> {
        let least = number(self.share_within_target_at_least?);
        let most = number(self.share_within_target_at_most?);
        Some(if least == most { least } else { format!("{least} to {most}") })
    }
}

impl RequestsReport {
    /// Computes the report from the histograms; `None` when one is missing.
    pub(super) fn of(histograms: &Histograms, slas: Option<&[Sla; 3]>) -> Option<RequestsReport> {
        let class = |at: usize| -> Option<RequestsOfClass> {
            let (ended, lost) = (histograms.get(CLASSES[at])?, histograms.get(UNFINISHED[at])?);
            Some(RequestsOfClass::of(ended, lost, slas.map(|slas| &slas[at])))
        };
        let (ended, lost) = (histograms.sum(&CLASSES)?, histograms.sum(&UNFINISHED)?);
        Some(RequestsReport {
            all: RequestsOfClass::of(&ended, &lost, None),
            interactive: class(0)?,
            responsive: class(1)?,
            batch: class(2)?,
        })
    }

    /// All classes together, then each class, most urgent first, by name.
    pub fn rows(&self) -> [(&'static str, &RequestsOfClass); 4] {
        [
            ("all", &self.all),
            ("interactive", &self.interactive),
            ("responsive", &self.responsive),
            ("batch", &self.batch),
        ]
    }
}

#[cfg(test)]
mod tests {
    use ringfall_core::clock::SECOND;

    use super::*;

    /// A server that takes 1 s a request, and one arrival each half second: the n-th request waits
    /// n/2 s, and when the window of 100 s closes the second half has not ended.
    #[test]
    fn an_overloaded_queue_is_estimated_within_its_bounds_and_survivors_are_too_fast() {
        let (mut ended, mut lost, mut truth) =
            (Histogram::new(), Histogram::new(), Histogram::new());
        let window = 100 * SECOND.as_ns();
        for n in 0..200 {
            let (arrived, finished) = (n * SECOND.as_ns() / 2, (n + 1) * SECOND.as_ns());
            truth.record(finished - arrived);
            match finished <= window {
                true => ended.record(finished - arrived),
                false => lost.record(window - arrived),
            }
        }
        let all = RequestsOfClass::of(&ended, &lost, None);
        assert_eq!((all.finished, all.unfinished), (100, 100));
        for (share, known) in [(0.5, &all.p50), (0.95, &all.p95), (0.99, &all.p99)] {
            let (truth, known) = (ms(truth.quantile_ns(share).unwrap()), known.as_ref().unwrap());
            assert!(known.at_least_ms <= truth, "{share}: {known:?}, {truth}");
            assert!(
                known.at_most_ms.is_none_or(|most| truth <= 1.001 * most),
                "{share}: {known:?}"
            );
            let survivors = ms(ended.quantile_ns(share).unwrap());
            assert!(survivors < 0.6 * truth, "{share}: {survivors} {truth}");
        }
        // As long as the queue grows nobody knows how long its tail will be: what is told is true,
        // though there is an estimate.
        let p95 = all.p95.unwrap();
        assert!(p95.at_most_ms.is_none() && p95.estimate_ms.is_some(), "{p95:?}");
        let told = p95.told(|ms| ms.to_string());
        let bound: f64 = told.strip_prefix("≥ ").unwrap().parse().unwrap();
        assert!(bound <= ms(truth.quantile_ns(0.95).unwrap()), "{told}");
    }

    /// 100 requests that come at once and take 1 to 100 s; 20 that come at the end and take 2 s.
    #[test]
    fn a_queue_that_is_worked_off_is_estimated_too_high_and_told_rightly() {
        let (mut ended, mut lost, mut truth) =
            (Histogram::new(), Histogram::new(), Histogram::new());
        for n in 1..=100 {
            ended.record(n * SECOND.as_ns());
            truth.record(n * SECOND.as_ns());
        }
        for _ in 0..20 {
            lost.record(SECOND.as_ns());
            truth.record(2 * SECOND.as_ns());
        }
        let truth = ms(truth.quantile_ns(0.95).unwrap());
        let p95 = RequestsOfClass::of(&ended, &lost, None).p95.unwrap();
        assert!(p95.at_most_ms.is_none() && p95.estimate_ms.unwrap() > truth, "{p95:?}");
        assert_eq!(p95.number_ms(), None);
        assert!(p95.at_least_ms <= truth, "{p95:?}");
    }

    /// One served in time, one served late, one that is late already, and one that may yet be in
    /// time: the estimate is a third of the half that it leaves open, which is not to be told.
    #[test]
    fn a_share_that_unfinished_requests_decide_is_told_as_its_bounds() {
        let (mut ended, mut lost) = (Histogram::new(), Histogram::new());
        let target = &Sla::of(&ringfall_config::QosTargets::default())[2];
        let target_ns = target.target_p95_ns();
        [target_ns / 2, 2 * target_ns].iter().for_each(|ns| ended.record(*ns));
        lost.record(2 * target_ns);
        let percent = |share: f64| format!("{:.0}", share * 100.0);
        let settled = RequestsOfClass::of(&ended, &lost, Some(target));
        assert_eq!(settled.within_target_told(percent).unwrap(), "33");
        lost.record(target_ns / 4);
        let open = RequestsOfClass::of(&ended, &lost, Some(target));
        assert_eq!(open.within_target_told(percent).unwrap(), "25 to 50");
        assert!((open.share_within_target.unwrap() - 1.0 / 3.0).abs() < 1e-9);
        let none = RequestsOfClass::of(&Histogram::new(), &Histogram::new(), Some(target));
        assert_eq!(none.within_target_told(percent), None);
    }

    #[test]
    fn what_can_not_be_estimated_is_told_by_its_lower_bound() {
        let known = QuantileMs { estimate_ms: Some(2.0), at_least_ms: 1.0, at_most_ms: Some(3.0) };
        let told = |known: &QuantileMs| known.told(|ms| format!("{ms:.1}"));
        assert_eq!(told(&known), "2.0");
        let unbounded = QuantileMs { at_most_ms: None, ..known };
        assert_eq!(told(&unbounded), "≥ 1.0");
        assert_eq!(told(&QuantileMs { estimate_ms: None, ..unbounded }), "≥ 1.0");
    }
}
