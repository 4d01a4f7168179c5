//! Rates as the harness makes them (summed over ranks, averaged over trials), reported and over the
//! time that really passed.

use serde::Serialize;

use super::leaf::{Group, Trial};
use super::rank::{Known, Rank, value};

/// Direction in which bytes were moved between the cache and storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// Reads of the storage tier.
    Read,
    /// Writes to it.
    Write,
}

impl Direction {
    /// Both directions, reads first, in the order of reports.
    pub const ALL: [Direction; 2] = [Direction::Read, Direction::Write];

    /// Its place in a pair.
    pub const fn index(self) -> usize {
        self as usize
    }

    /// As a word in a sentence.
    pub const fn plural(self) -> &'static str {
        match self {
            Direction::Read => "reads",
            Direction::Write => "writes",
        }
    }

    pub(super) fn gib(self, rank: &Rank) -> Known {
        match self {
            Direction::Read => rank.read_gib,
            Direction::Write => rank.write_gib,
        }
    }

    pub(super) fn gib_per_s(self, rank: &Rank) -> Known {
        match self {
            Direction::Read => rank.read_gib_per_s,
            Direction::Write => rank.write_gib_per_s,
        }
    }
}

/// A rate, GiB/s: as reported, and its bounds over the time that really passed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct Rate {
    /// As the results say it, or bytes by `elapsed_time` where they say none.
    pub reported_gib_per_s: f64,
    /// Bytes by the longest that the span can have been; none where no log bounds it.
    pub at_least_gib_per_s: Option<f64>,
    /// Bytes by the shortest that it can have been.
    pub at_most_gib_per_s: Option<f64>,
}

impl Rate {
    /// Bounds on how much more is reported, as a share: the second is none where no log bounds it.
    pub fn overstatement(&self) -> (Option<f64>, Option<f64>) {
        let over = |real: Option<f64>| {
            let real = real.filter(|real| *real > 0.0)?;
            Some(self.reported_gib_per_s / real - 1.0).filter(|over| over.is_finite())
        };
        (over(self.at_most_gib_per_s), over(self.at_least_gib_per_s))
    }

    fn add(self, other: Rate) -> Rate {
        let sum = |a: Option<f64>, b: Option<f64>| Some(a? + b?);
        Rate {
            reported_gib_per_s: self.reported_gib_per_s + other.reported_gib_per_s,
            at_least_gib_per_s: sum(self.at_least_gib_per_s, other.at_least_gib_per_s),
            at_most_gib_per_s: sum(self.at_most_gib_per_s, other.at_most_gib_per_s),
        }
    }

    fn divided(self, by: f64) -> Rate {
        Rate {
            reported_gib_per_s: self.reported_gib_per_s / by,
            at_least_gib_per_s: self.at_least_gib_per_s.map(|rate| rate / by),
            at_most_gib_per_s: self.at_most_gib_per_s.map(|rate| rate / by),
        }
    }
}

/// The rate of one rank; none where the file says neither a rate nor bytes and time.
pub(super) fn of_rank(rank: &Rank, direction: Direction) -> Option<Rate> {
    let gib = value(direction.gib(rank));
    let by_bytes = gib.zip(value(rank.elapsed_s)).map(|(gib, elapsed_s)| gib / elapsed_s);
    let reported_gib_per_s = value(direction.gib_per_s(rank)).or(by_bytes)?;
    let span = rank.span();
    let at_most_gib_per_s = gib.zip(span).map(|(gib, span)| gib / span.at_least_s);
    let longest_s = span.and_then(|span| span.at_most_s);
    let at_least_gib_per_s = gib.zip(longest_s).map(|(gib, span_s)| gib / span_s);
    Some(Rate { reported_gib_per_s, at_least_gib_per_s, at_most_gib_per_s })
}

/// The rate of a trial: the sum over its ranks; none if no rank has one.
pub(super) fn of_trial(trial: &Trial, direction: Direction) -> Option<Rate> {
    let rates = trial.ranks.values().filter_map(|rank| of_rank(rank, direction));
    rates.reduce(Rate::add)
}

/// The rate of a group: the mean over its trials, of which an empty one counts as 0 in the harness.
pub(super) fn of_group(group: &Group, direction: Direction) -> Option<Rate> {
    let rates = group.trials.values().filter_map(|trial| of_trial(trial, direction));
    Some(rates.reduce(Rate::add)?.divided(group.trials.len() as f64))
}
