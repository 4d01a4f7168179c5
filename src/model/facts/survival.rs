//! Latencies of all requests, the unfinished ones among them.
//!
//! Under overload the requests that finished are the lucky ones: percentiles of those alone say how
//! long the survivors waited. A request that had not ended when the window closed took at least as
//! long as its age then: it is censored at that age.

use ringfall_core::metrics::Histogram;

/// Estimate and bounds of one quantile of the latencies of all requests, ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quantile {
    /// The Kaplan–Meier estimate; none where it does not reach, as too many had not ended.
    pub estimate_ns: Option<u64>,
    /// It is certainly no less: as if all that had not ended had ended that moment.
    pub at_least_ns: u64,
    /// It is certainly no more; none as long as those that had not ended may take for ever.
    pub at_most_ns: Option<u64>,
}

impl Quantile {
    /// The estimate, ns, where it may be told as a number; none where only the lower bound may.
    /// [`QuantileMs::number_ms`](crate::document::QuantileMs::number_ms) says why.
    pub fn number_ns(&self) -> Option<u64> {
        self.at_most_ns.and(self.estimate_ns)
    }
}

/// Estimate and bounds of the share of all requests within a limit, each from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ShareWithin {
    /// The Kaplan–Meier estimate, which errs as that of a quantile does.
    pub estimate: f64,
    /// It is certainly no less: as if none that had not ended ended in time.
    pub at_least: f64,
    /// It is certainly no more: as if all that had not reached the limit yet ended in time.
    pub at_most: f64,
}

/// Share of the requests that were in the system longer than a time: the product-limit estimate of
/// E. L. Kaplan and P. Meier, "Nonparametric Estimation from Incomplete Observations", Journal of
/// the American Statistical Association 53 (1958), and the bounds that hold whatever the unfinished
/// requests do (A. V. Peterson, PNAS 73 (1976)).
///
/// The estimate takes unfinished requests to be like those that waited as long and finished. In a
/// queue that grows they are worse off, so the truth is then between the estimate and the upper
/// bound; in one that is worked off they are better off, and it is below the estimate. Only the
/// bounds hold in every case.
#[derive(Clone, Debug)]
pub struct Survival {
    finished: u64,
    unfinished: u64,
    /// By latency: the time, those that finished by then, those that ended by then in either way,
    /// the share that is estimated to take longer.
    steps: Vec<Survivors>,
}

#[derive(Clone, Copy, Debug)]
struct Survivors {
    at_ns: u64,
    finished: u64,
    gone: u64,
    longer: f64,
}

impl Survival {
    /// Computes the estimate from the latencies of the finished requests and the ages of the
    /// others.
    pub fn of(finished: &Histogram, unfinished: &Histogram) -> Survival {
        let all = finished.count() + unfinished.count();
        let counts = |histogram: &Histogram| -> Vec<(u64, u64)> {
            // A counter stands for the top of its range, the last for the longest that it holds.
            let longest = histogram.max_ns().unwrap_or_default();
            let at = |top: u64| top.min(longest);
            histogram.buckets().map(|(top_ns, count)| (at(top_ns), count)).collect()
        };
        let (ended, censored) = (counts(finished), counts(unfinished));
        let mut times: Vec<u64> = ended.iter().chain(&censored).map(|(at, _)| *at).collect();
        times.sort_unstable();
        times.dedup();
        let (mut ended, mut censored) =
            (ended.into_iter().peekable(), censored.into_iter().peekable());
        let (mut steps, mut done, mut gone, mut longer) = (Vec::new(), 0, 0, 1.0);
        for at_ns in times {
            let deaths = ended.next_if(|(at, _)| *at == at_ns).map_or(0, |(_, count)| count);
            let lost = censored.next_if(|(at, _)| *at == at_ns).map_or(0, |(_, count)| count);
            // Of a request that ends and one that is lost sight of at the same time, the first
            // counts as the earlier, as is the custom.
            longer *= 1.0 - deaths as f64 / (all - gone) as f64;
            done += deaths;
            gone += deaths + lost;
            steps.push(Survivors { at_ns, finished: done, gone, longer });
        }
        Survival { finished: finished.count(), unfinished: unfinished.count(), steps }
    }

    /// Number of requests that had finished when the window closed.
    pub fn finished(&self) -> u64 {
        self.finished
    }

    /// Requests that had not when the window closed.
    pub fn unfinished(&self) -> u64 {
        self.unfinished
    }

    /// A quantile, 0 < `share` ≤ 1, to the histograms' resolution; none without requests.
    pub fn quantile(&self, share: f64) -> Option<Quantile> {
        let all = self.finished + self.unfinished;
        let wanted = ((share * all as f64).ceil() as u64).clamp(1, all.max(1));
        let at = |fits: &dyn Fn(&Survivors) -> bool| {
            let first = self.steps.partition_point(|step| !fits(step));
            self.steps.get(first).map(|step| step.at_ns)
        };
        // Products of shares are not exact; a request is worth far more than this.
        let remaining = 1.0 - share + 1e-9;
        Some(Quantile {
            estimate_ns: at(&|step| step.longer <= remaining),
            at_least_ns: at(&|step| step.gone >= wanted)?,
            at_most_ns: at(&|step| step.finished >= wanted),
        })
    }

    /// Share of all requests that took no longer than `limit_ns`, to the histograms' resolution;
    /// none without requests.
    pub fn share_within(&self, limit_ns: u64) -> Option<ShareWithin> {
        let all = self.finished + self.unfinished;
        let before = self.steps.iter().take_while(|step| step.at_ns <= limit_ns).last();
        (all > 0).then(|| match before {
            None => ShareWithin { estimate: 0.0, at_least: 0.0, at_most: 0.0 },
            Some(step) => ShareWithin {
                estimate: 1.0 - step.longer,
                at_least: step.finished as f64 / all as f64,
                at_most: step.gone as f64 / all as f64,
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;
    use rand::SeedableRng as _;
    use rand_xoshiro::Xoshiro256PlusPlus;

    use super::*;

    /// Whole ms, which histograms hold to a thousandth.
    fn histogram(ms: &[u64]) -> Histogram {
        let mut histogram = Histogram::new();
        ms.iter().for_each(|ms| histogram.record(ms * 1_000_000));
        histogram
    }

    /// The top of the counter that a latency is in, at the most.
    fn resolved(ns: u64) -> u64 {
        ns.saturating_add(ns / 1_000 + 1_000)
    }

    /// Whether the true share is within the bounds told of it, to the histograms' resolution.
    fn holds(told: &ShareWithin, true_ms: &[u64], limit_ms: u64) -> bool {
        let share_within = |limit_ns: u64| {
            let in_time = true_ms.iter().filter(|ms| **ms * 1_000_000 <= limit_ns).count();
            in_time as f64 / true_ms.len() as f64
        };
        let limit_ns = limit_ms * 1_000_000;
        let most_possible = share_within(resolved(limit_ns));
        told.at_least <= most_possible + 1e-9 && share_within(limit_ns) <= told.at_most + 1e-9
    }

    fn near(ns: u64, ms: u64) -> bool {
        ns.abs_diff(ms * 1_000_000) <= ms * 1_000 + 1_000
    }

    #[test]
    fn a_textbook_example_comes_out() {
        // Remission of leukaemia under 6-mercaptopurine, weeks (Freireich et al. 1963, in every
        // textbook): S(6) = 0.857, S(10) = 0.753, S(16) = 0.627, S(23) = 0.448; median 23.
        let ended = [6, 6, 6, 7, 10, 13, 16, 22, 23];
        let lost = [6, 9, 10, 11, 17, 19, 20, 25, 32, 32, 34, 35];
        let all = Survival::of(&histogram(&ended), &histogram(&lost));
        for (week, longer) in [(6, 0.857), (10, 0.753), (16, 0.627), (23, 0.448)] {
            let within = all.share_within(week * 1_001_000).unwrap().estimate;
            assert!((1.0 - within - longer).abs() < 5e-4, "{week}: {within}");
        }
        // By week 10 five of the 21 had ended, and three were lost sight of.
        let within = all.share_within(10 * 1_001_000).unwrap();
        assert_eq!((within.at_least, within.at_most), (5.0 / 21.0, 8.0 / 21.0));
        let median = all.quantile(0.5).unwrap();
        assert!(near(median.estimate_ns.unwrap(), 23), "{median:?}");
        assert!(near(median.at_least_ns, 16) && median.at_most_ns.is_none(), "{median:?}");
        assert_eq!(all.quantile(0.95).unwrap().estimate_ns, None);
    }

    #[test]
    fn nothing_has_no_quantile() {
        let none = Survival::of(&Histogram::new(), &Histogram::new());
        assert_eq!((none.quantile(0.5), none.share_within(1)), (None, None));
        let waiting = Survival::of(&Histogram::new(), &histogram(&[5, 9]));
        let median = waiting.quantile(0.5).unwrap();
        assert!(near(median.at_least_ns, 5), "{median:?}");
        assert_eq!((median.estimate_ns, median.at_most_ns), (None, None));
    }

    /// One server that takes 100 ms a request, the most urgent class first, and arrivals at random
    /// at these rates a second; the latency in ms that each request of the first 600 s has in the
    /// end, by class, and its arrival.
    fn served(rates: [f64; 3], seed: u64) -> [Vec<(u64, u64)>; 3] {
        const SERVICE_MS: f64 = 100.0;
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        // The arrivals go on until the last request of the window is served.
        let mut arrivals = rates.map(|rate| {
            let (mut at, mut all) = (0.0, VecDeque::new());
            while at < 20.0 * WINDOW_MS {
                at -= (1.0 - rng.random::<f64>()).ln() * 1_000.0 / rate;
                all.push_back(at);
            }
            all
        });
        let (mut now, mut latencies) = (0.0f64, [const { Vec::new() }; 3]);
        while arrivals.iter().any(|class| class.front().is_some_and(|at| *at < WINDOW_MS)) {
            let waiting = |class: &VecDeque<f64>| class.front().is_some_and(|at| *at <= now);
            let Some(class) = arrivals.iter().position(waiting) else {
                let heads = arrivals.iter().filter_map(|class| class.front());
                now = heads.copied().fold(f64::INFINITY, f64::min);
                continue;
            };
            now += SERVICE_MS;
            let arrived = arrivals[class].pop_front().unwrap();
            if arrived < WINDOW_MS {
                latencies[class].push((arrived as u64, (now - arrived) as u64));
            }
        }
        latencies
    }

    const WINDOW_MS: f64 = 600_000.0;

    #[test]
    fn under_overload_the_truth_is_within_the_bounds_and_the_survivors_are_far_from_it() {
        // 10 a second can be served, 12 arrive: batch is left with 4 of the 6 that it asks for.
        for seed in 0..20 {
            let classes = served([2.0, 4.0, 6.0], seed);
            for (class, requests) in classes.iter().enumerate() {
                let window_ms = WINDOW_MS as u64;
                let (ended, lost): (Vec<_>, Vec<_>) =
                    requests.iter().partition(|(at, takes)| at + takes <= window_ms);
                let ended: Vec<u64> = ended.iter().map(|(_, takes)| *takes).collect();
                let lost: Vec<u64> = lost.iter().map(|(at, _)| window_ms - at).collect();
                let every: Vec<u64> = requests.iter().map(|(_, takes)| *takes).collect();
                let (truth, survivors) = (histogram(&every), histogram(&ended));
                let all = Survival::of(&survivors, &histogram(&lost));
                for limit_ms in [150, 1_000, 60_000] {
                    let told = all.share_within(resolved(limit_ms * 1_000_000)).unwrap();
                    assert!(holds(&told, &every, limit_ms), "{class}: {told:?}");
                }
                for share in [0.5, 0.95, 0.99] {
                    let told = all.quantile(share).unwrap();
                    let (truth, seen) = (truth.quantile_ns(share), survivors.quantile_ns(share));
                    let (truth, seen) = (truth.unwrap(), seen.unwrap());
                    let most = told.at_most_ns.unwrap_or(u64::MAX);
                    assert!(
                        told.at_least_ns <= truth && truth <= resolved(most),
                        "{class}: {told:?} {truth}"
                    );
                    match (class, told.estimate_ns) {
                        // Those that are served in time: the estimate is the truth.
                        (0 | 1, estimate) => {
                            assert!(estimate.unwrap().abs_diff(truth) < truth / 20)
                        }
                        // Those that starve: nearer to it than the survivors, or not reached.
                        (_, Some(estimate)) => assert!(seen < estimate && estimate <= truth),
                        (_, None) => assert!(seen < truth / 4 * 3, "{seen} {truth}"),
                    }
                }
            }
        }
    }

    proptest! {
        #[test]
        fn without_unfinished_requests_it_is_the_histogram(
            ms in proptest::collection::vec(1u64..100_000, 1..300), share in 0.01f64..1.0,
        ) {
            let finished = histogram(&ms);
            let all = Survival::of(&finished, &Histogram::new()).quantile(share).unwrap();
            prop_assert_eq!(all.estimate_ns, Some(all.at_least_ns));
            prop_assert_eq!(all.at_most_ns, Some(all.at_least_ns));
            prop_assert_eq!(finished.quantile_ns(share), Some(all.at_least_ns));
        }

        #[test]
        fn the_truth_is_within_the_bounds_and_so_is_the_estimate(
            true_ms in proptest::collection::vec((1u64..10_000, 1u64..10_000), 1..300),
            share in 0.01f64..1.0,
        ) {
            let (mut ended, mut lost) = (Vec::new(), Vec::new());
            for (takes, seen_for) in &true_ms {
                if takes <= seen_for { ended.push(*takes) } else { lost.push(*seen_for) }
            }
            let every: Vec<u64> = true_ms.iter().map(|(takes, _)| *takes).collect();
            let truth = histogram(&every).quantile_ns(share).unwrap();
            let all = Survival::of(&histogram(&ended), &histogram(&lost));
            let known = all.quantile(share).unwrap();
            let most = known.at_most_ns.unwrap_or(u64::MAX);
            let most_told = resolved(most);
            prop_assert!(known.at_least_ns <= truth && truth <= most_told, "{known:?} {truth}");
            let estimate = known.estimate_ns.unwrap_or(truth);
            prop_assert!(known.at_least_ns <= estimate && estimate <= most, "{known:?}");
            let limit_ms = (share * 10_000.0) as u64;
            let within = all.share_within(resolved(limit_ms * 1_000_000)).unwrap();
            prop_assert!(holds(&within, &every, limit_ms), "{within:?}");
            let bounds = within.at_least - 1e-9..=within.at_most + 1e-9;
            prop_assert!(bounds.contains(&within.estimate), "{within:?}");
        }
    }
}
