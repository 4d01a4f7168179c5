//! Division of the time that a user gives: between writing the range and each search, and within a
//! search between its probes and its best load.
//!
//! Pure: the clock is read by the caller.

use std::time::{Duration, Instant};

use super::search::SearchStep;

/// Part of the whole time that writing the range may take: reading what was never written measures
/// the file system, so that less range is better than none written.
const WRITING_SHARE: f64 = 0.4;
/// Part of a search's time that its probes may take; the rest is for the best of them.
const PROBING_SHARE: f64 = 0.6;

/// The time of all searches together.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// Moment at which the first search began.
    pub began: Instant,
    /// Longest duration; none: until the answer is found.
    pub limit: Option<Duration>,
}

/// The time of one search.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Share {
    probes_until: Instant,
    /// When the search ends.
    pub until: Instant,
}

impl Budget {
    /// When writing the range ends, done or not.
    pub fn writing_until(&self) -> Option<Instant> {
        self.limit.map(|limit| self.began + limit.mul_f64(WRITING_SHARE))
    }

    /// The time of the next search, `searches_left` with it still to come: an even share of what is
    /// left, so that each has one and what an early one saves is not lost.
    pub fn share(&self, now: Instant, searches_left: u32) -> Option<Share> {
        let left = (self.began + self.limit?).saturating_duration_since(now);
        let mine = left / searches_left.max(1);
        Some(Share { probes_until: now + mine.mul_f64(PROBING_SHARE), until: now + mine })
    }
}

impl Share {
    /// Whether there is time for a step that takes at least `shortest`.
    pub fn allows(&self, step: SearchStep, now: Instant, shortest: Duration) -> bool {
        let until = match step {
            SearchStep::Probe(_) => self.probes_until,
            SearchStep::Confirm(_) | SearchStep::Done => self.until,
        };
        now + shortest <= until
    }
}

#[cfg(test)]
mod tests {
    use super::super::search::Point;
    use super::*;

    #[test]
    fn the_time_is_shared_evenly_and_what_is_saved_goes_to_the_others() {
        let began = Instant::now();
        let at = |seconds: f64| began + Duration::from_secs_f64(seconds);
        let budget = Budget { began, limit: Some(Duration::from_secs(100)) };
        assert_eq!(budget.writing_until(), Some(at(40.0)));
        let share = budget.share(at(20.0), 4).unwrap();
        assert_eq!(share, Share { probes_until: at(32.0), until: at(40.0) });
        assert_eq!(budget.share(at(28.0), 3).unwrap().until, at(52.0));
        let late = budget.share(at(101.0), 1).unwrap();
        assert_eq!(late.until, at(101.0));
        let unlimited = Budget { began, limit: None };
        assert_eq!((unlimited.writing_until(), unlimited.share(began, 4)), (None, None));
    }

    #[test]
    fn probes_leave_time_for_the_best_of_them() {
        let began = Instant::now();
        let at = |seconds| began + Duration::from_secs(seconds);
        let share = Share { probes_until: at(6), until: at(10) };
        let point = Point { io_bytes: 4096, depth: 1 };
        let (probe, confirm) = (SearchStep::Probe(point), SearchStep::Confirm(point));
        let second = Duration::from_secs(1);
        assert!(share.allows(probe, at(5), second) && !share.allows(probe, at(6), second));
        assert!(share.allows(confirm, at(9), second) && !share.allows(confirm, at(10), second));
    }
}
