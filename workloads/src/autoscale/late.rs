//! Share of a class's requests that are later than their limit, and how well a window knows it.
//!
//! A P95 is within its limit when at most 5 % of the requests are late, and that share has what a
//! quantile lacks: an interval that a few requests are enough for. It is Wilson's score interval
//! (E. B. Wilson, 1927), as it also holds where no request was late: there it takes 73 requests
//! until at most 5 % are shown. It presumes that requests are late independently of each other,
//! but those of one queue are late together. So it counts fewer requests than there were: as many
//! as would make the share differ by chance as it differs between [`BLOCKS`] parts of the window,
//! by Student's t of so few parts. (An interval of the parts' own P95s was rejected: their mean is
//! not the P95 of all, which the worst parts decide.)

use serde::Serialize;

use super::step::BLOCKS;

/// Share of late requests that a P95 allows.
pub(super) const LATE_MAX: f64 = 0.05;
/// Two-sided 95 % quantile of the normal distribution.
const NORMAL_95: f64 = 1.96;
/// The same of Student's t distribution with `BLOCKS - 1` degrees of freedom.
pub(super) const STUDENT_T_95: f64 = 2.57;
const _: () = assert!(BLOCKS == 6);

/// Number of requests, and of those that were later than their limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Tally {
    pub(super) requests: u64,
    pub(super) late: u64,
}

impl Tally {
    fn add(&mut self, other: Tally) {
        self.requests += other.requests;
        self.late += other.late;
    }
}

/// The 95 % confidence interval of the share of late requests.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct LateShare {
    /// Number of requests it follows from.
    pub requests: u64,
    /// Lower end, from 0 to 1.
    pub low: f64,
    /// Upper end, from 0 to 1.
    pub high: f64,
}

impl LateShare {
    /// Interval from the requests that ended in each sample of a window, and those that were open
    /// at its end; none without any.
    pub(super) fn of(samples: &[Tally], open: Tally) -> Option<LateShare> {
        let mut parts = [Tally::default(); BLOCKS];
        for (index, sample) in samples.iter().enumerate() {
            parts[index * BLOCKS / samples.len()].add(*sample);
        }
        parts[BLOCKS - 1].add(open);
        let mut all = Tally::default();
        parts.iter().for_each(|part| all.add(*part));
        if all.requests == 0 {
            return None;
        }
        let requests = all.requests as f64;
        let share = all.late as f64 / requests;
        // Variance of a ratio of sums over the parts (W. G. Cochran, "Sampling Techniques", 1977),
        // and the one that independent requests would have.
        let off = |part: &Tally| (part.late as f64 - share * part.requests as f64).powi(2);
        let parts_less_one = BLOCKS as f64 - 1.0;
        let between =
            parts.iter().map(off).sum::<f64>() * BLOCKS as f64 / parts_less_one / requests.powi(2);
        let by_chance = share * (1.0 - share) / requests;
        let excess = match by_chance > 0.0 {
            true => (between / by_chance * (STUDENT_T_95 / NORMAL_95).powi(2)).max(1.0),
            false => 1.0,
        };
        // Wilson's interval of the share among so many independent requests.
        let square = NORMAL_95.powi(2) * excess / requests;
        let middle = share + square / 2.0;
        let half = (square * (share * (1.0 - share) + square / 4.0)).sqrt();
        let low = ((middle - half) / (1.0 + square)).max(0.0);
        Some(LateShare { requests: all.requests, low, high: (middle + half) / (1.0 + square) })
    }

    /// Whether a P95 within the limit is shown.
    pub(super) fn is_within(&self) -> bool {
        self.high <= LATE_MAX
    }

    /// Whether a P95 beyond the limit is shown.
    pub(super) fn is_beyond(&self) -> bool {
        self.low > LATE_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A sample of so many requests and late ones.
    fn sample(requests: u64, late: u64) -> Tally {
        Tally { requests, late }
    }

    fn late(samples: &[Tally]) -> LateShare {
        LateShare::of(samples, Tally::default()).unwrap()
    }

    #[test]
    fn no_late_request_of_73_shows_that_5_percent_are_the_most() {
        let of = |requests| late(&[sample(requests, 0)]);
        assert!(!of(72).is_within() && of(73).is_within());
        assert_eq!((of(72).low, of(72).is_beyond()), (0.0, false));
        assert_eq!(LateShare::of(&[], Tally::default()), None);
        assert_eq!(LateShare::of(&[sample(0, 0)], Tally::default()), None);
    }

    /// Newcombe's example (Statistics in Medicine 17, 1998): 81 of 263, 0.2553 to 0.3662. Six equal
    /// parts of it differ by less than chance, so that it is the interval of independent requests.
    #[test]
    fn the_interval_is_wilsons() {
        let found = late(&[sample(263, 81)]);
        let even = [[sample(44, 14); 3], [sample(44, 13); 3]].concat();
        let even = late(&even[..]);
        assert_eq!((found.requests, even.requests), (263, 264));
        assert!(
            (even.low - 0.2553).abs() < 0.002 && (even.high - 0.3662).abs() < 0.002,
            "{even:?}"
        );
        assert!(even.is_beyond() && !even.is_within());
    }

    /// Half a minute with few late requests confirmed a number of users that missed its target by a
    /// third in the long run.
    #[test]
    fn requests_that_are_late_together_show_less_than_as_many_that_are_late_alone() {
        let even = late(&[sample(500, 15); 6]);
        let bunched = [sample(500, 90), sample(500, 0)];
        let mut samples = [bunched[1]; 6];
        samples[0] = bunched[0];
        let together = late(&samples);
        assert_eq!((even.requests, together.requests), (3_000, 3_000));
        assert!(even.is_within() && !together.is_within(), "{even:?} {together:?}");
        assert!(even.low > together.low && even.high < together.high);
    }

    #[test]
    fn open_requests_count_in_the_last_part() {
        let open = LateShare::of(&[sample(100, 0); 6], sample(100, 90)).unwrap();
        let mut samples = [sample(100, 0); 6];
        samples[5] = sample(200, 90);
        assert_eq!(open, late(&samples));
        assert!(LateShare::of(&[], sample(3, 3)).unwrap().is_beyond());
    }
}
