//! Requests that pile up where users do not wait for answers: whether they become ever more, and
//! when those that a larger number of users left are worked off.

use serde::Serialize;

use super::step::{BLOCKS, KNOWN_TO, blocks, mean_and_uncertainty};
use super::{Latencies, Sample};

/// Requests that arrived in a window, over those that ended in it.
///
/// Its interval follows from how the number of open requests changed in parts of the window, by
/// Student's t. Beyond the limit these changes are independent of each other. Below it they make up
/// for each other, so that the interval is too wide and never too narrow. (A line fitted to the
/// number itself was rejected: near the limit that number is a random walk, which looks like a
/// trend far too often.)
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Backlog {
    /// The ratio. Above 1 there are ever more open requests.
    pub ratio: f64,
    /// Half the width of its 95 % confidence interval.
    pub uncertainty: f64,
    /// Part of the ratio that may be requests whose tokens are being generated, at most. After a
    /// change of users they become more until the first have ended, and wait for nothing.
    pub generating: f64,
}

impl Backlog {
    /// Ratio from the increase of open requests per second, sample by sample, and the requests that
    /// ended in as many seconds, the tokens of all of them being generated for `generation_s`;
    /// where none did, as if one had. None without samples.
    pub(super) fn of(
        increases_per_s: &[f64],
        ended: u64,
        seconds: f64,
        generation_s: f64,
    ) -> Option<Backlog> {
        if increases_per_s.is_empty() {
            return None;
        }
        let (mean, uncertainty) = match increases_per_s.len() < BLOCKS {
            true => mean_and_uncertainty(increases_per_s),
            false => mean_and_uncertainty(&blocks(increases_per_s)),
        };
        let ended_per_s = ended.max(1) as f64 / seconds;
        Some(Backlog {
            ratio: 1.0 + mean / ended_per_s,
            uncertainty: uncertainty / ended_per_s,
            // Little's law: so many are in generation at a time, of those that end in the window.
            generating: generation_s / ended.max(1) as f64 / seconds,
        })
    }

    /// Whether it is shown that there are ever more open requests.
    pub(super) fn grows(&self) -> bool {
        self.ratio - self.uncertainty > 1.0 + self.generating
    }

    /// Whether it is shown that requests are answered as fast as they arrive, to 5 %.
    pub(super) fn is_held(&self) -> bool {
        self.ratio + self.uncertainty <= 1.0 + KNOWN_TO
    }

    /// Whether it is shown that there are always as many open requests, to 5 % of those that end.
    fn is_level(&self) -> bool {
        (self.ratio - 1.0).abs() + self.uncertainty <= KNOWN_TO
    }
}

/// State of the wait for a backlog.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Draining {
    /// It may yet be worked off.
    GoesOn,
    /// It is worked off.
    Done,
    /// More waiting would not change it.
    InVain,
}

/// Wait until what a larger number of users left is worked off: until there are no more open
/// requests than users, those left aside whose tokens are being generated, or until it is shown
/// that there are ever more or always as many, which more waiting would not change.
#[derive(Debug)]
pub(super) struct Drain {
    /// Samples since the look before the last.
    increases_per_s: Vec<f64>,
    ended: u64,
    seconds: f64,
    /// Time since the wait began, s.
    elapsed_s: f64,
    /// Time that the requests which ended since then waited for their tokens, all together, s.
    generation_s: f64,
    /// Samples of the next look. It is twice as many each time, since who looks at each of them
    /// ends with the first that is right by chance.
    looks_after: usize,
}

impl Drain {
    /// Wait that begins with its step.
    pub(super) fn new() -> Drain {
        Drain {
            increases_per_s: Vec::new(),
            ended: 0,
            seconds: 0.0,
            elapsed_s: 0.0,
            generation_s: 0.0,
            looks_after: 2 * BLOCKS,
        }
    }

    /// Takes in a sample of at least a nanosecond, in which open requests became so many more per
    /// second.
    pub(super) fn observe<H: Latencies>(
        &mut self,
        sample: &Sample<H>,
        increase_per_s: f64,
        users: u32,
    ) -> Draining {
        let seconds = sample.length_ns as f64 / 1e9;
        self.increases_per_s.push(increase_per_s);
        self.ended += sample.requests_ended();
        self.seconds += seconds;
        self.elapsed_s += seconds;
        self.generation_s += sample.time.generation_ns as f64 / 1e9;
        // Little's law.
        let generating = self.generation_s / self.elapsed_s;
        if sample.requests_open() as f64 <= f64::from(users) + generating {
            return Draining::Done;
        }
        if self.increases_per_s.len() < self.looks_after {
            return Draining::GoesOn;
        }
        // With fewer users fewer requests generate tokens.
        let backlog = Backlog::of(&self.increases_per_s, self.ended, self.seconds, 0.0);
        self.increases_per_s.clear();
        (self.ended, self.seconds) = (0, 0.0);
        self.looks_after *= 2;
        match backlog {
            Some(backlog) if !backlog.grows() && !backlog.is_level() => Draining::GoesOn,
            _ => Draining::InVain,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::TimeShares;
    use super::super::tests::List;
    use super::*;

    /// Where four requests end in each second.
    fn backlog(increases_per_s: &[f64]) -> Backlog {
        let seconds = increases_per_s.len() as u64;
        Backlog::of(increases_per_s, 4 * seconds, seconds as f64, 0.0).unwrap()
    }

    #[test]
    fn a_backlog_grows_where_more_requests_arrive_than_end() {
        // Three more arrive in each.
        let growing = backlog(&[3.0, 2.0, 4.0, 3.0, 2.0, 4.0]);
        assert!((growing.ratio - 1.75).abs() < 1e-12 && growing.grows(), "{growing:?}");
        assert!(!growing.is_held());
        // One that only fills up at the beginning does not.
        let filling: Vec<f64> = (0..36).map(|n| if n < 6 { 1.0 } else { 0.0 }).collect();
        let filling = backlog(&filling);
        assert!(filling.ratio > 1.0 && !filling.grows(), "{filling:?}");
        // Changes that make up for each other, and those of which too little is known.
        let even: Vec<f64> = (0..60).map(|n| if n % 2 == 0 { 1.0 } else { -1.0 }).collect();
        let even = backlog(&even);
        assert!(even.is_held() && !even.grows(), "{even:?}");
        let unknown = backlog(&[2.0, -2.0, 2.0, 1.0]);
        assert!(!unknown.is_held() && !unknown.grows(), "{unknown:?}");
        assert_eq!(Backlog::of(&[], 4, 1.0, 0.0), None);
    }

    /// With 3 users, of whose requests tokens are generated for ten seconds and who kept the drive
    /// 51 % busy, requests were said to pile up.
    #[test]
    fn requests_that_begin_to_generate_tokens_are_no_backlog() {
        // Two begin in each second, and the first end after ten.
        let begun: Vec<f64> = (0..12).map(|n| if n < 10 { 2.0 } else { 0.0 }).collect();
        for (generation_s, grows) in [(0.0, true), (24.0 * 10.0, false)] {
            let backlog = Backlog::of(&begun, 24, 12.0, generation_s).unwrap();
            assert_eq!(backlog.grows(), grows, "{backlog:?}");
        }
        // Beyond as many there is one.
        let begun = [2.0; 24];
        assert!(Backlog::of(&begun, 48, 24.0, 48.0 * 10.0).unwrap().grows());
    }

    /// Samples for which a step of two users waits, and what ends the wait, where the open requests
    /// are so many and those that end in a second have waited so long for their tokens, all
    /// together.
    fn waits_with(generation_s: u64, open: impl Fn(u64) -> u64) -> Option<(u64, Draining)> {
        let mut drain = Drain::new();
        (1..=600).find_map(|second| {
            let sample = Sample {
                length_ns: 1_000_000_000,
                classes: [List(vec![1; 4]), List::default(), List::default()],
                requests_queued: open(second) / 2,
                requests_served: open(second).div_ceil(2),
                time: TimeShares {
                    generation_ns: generation_s * 1_000_000_000,
                    ..TimeShares::default()
                },
                ..Sample::default()
            };
            let increase = open(second) as f64 - open(second - 1) as f64;
            let state = drain.observe(&sample, increase, 2);
            (state != Draining::GoesOn).then_some((second, state))
        })
    }

    /// The same where no tokens are generated.
    fn waits(open: impl Fn(u64) -> u64) -> Option<(u64, Draining)> {
        waits_with(0, open)
    }

    #[test]
    fn the_backlog_of_more_users_is_worked_off_first() {
        let (done, in_vain) = (Draining::Done, Draining::InVain);
        let falls = |second: u64| 100u64.saturating_sub(second);
        assert_eq!(waits(falls), Some((98, done)), "one of each user");
        // More waiting is of no use where they become more, or are as many as they were.
        assert_eq!(waits(|second| 100 + second), Some((12, in_vain)));
        assert_eq!(waits(|second| 100 + second % 2), Some((12, in_vain)));
        // Where chance hides what they do, it goes on.
        assert_eq!(waits(|second| 100 + 40 * (second % 5)), None);
    }

    /// A step of users whose requests are answered at once, but for their tokens, waited for ten
    /// minutes: there are always more open requests than users.
    #[test]
    fn requests_whose_tokens_are_being_generated_are_nothing_to_work_off() {
        // Four end in each second after ten in which their tokens were generated.
        let steady = |second: u64| 40 + 2 * (second % 3);
        let (second, state) = waits_with(40, steady).unwrap();
        assert!(second < 4 && state == Draining::Done, "{second}");
        let falls = |second: u64| 140u64.saturating_sub(second);
        assert_eq!(waits_with(40, falls), Some((98, Draining::Done)));
    }
}
