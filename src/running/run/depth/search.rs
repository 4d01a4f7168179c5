//! Which depth to try next, and which to choose: a ladder of powers of two, climbed down from the
//! largest depth for as long as bandwidth stays and I/Os do not wait longer for their places. Where
//! that ends, it is held against the largest depth once more, side by side, since a load that warms
//! up changes meanwhile, and a drive has hiccups; or against the depth with the most bandwidth,
//! where the largest has clearly less.

use ringfall_model::facts::{DepthReason, DepthStep, reference_depth};

/// The knee is the smallest depth with this share of the best bandwidth: the same share as in
/// `saturate`.
const KNEE_SHARE: f64 = 0.95;
/// A depth is too small when an I/O, its wait for a place included, takes this many times as long.
/// Where the queue is always full it takes as long at any depth with the same bandwidth (Little's
/// law); where the load leaves gaps, a queue that is too short shows here and not in the bandwidth.
const WAIT_TIMES: f64 = 1.25;
/// Below this share of the bandwidth one comparison is enough; between the two it is made again, as
/// drives are uneven from one second to the next.
const LOSS_SHARE: f64 = 0.8;
/// Comparisons at most, of which the means count.
const PAIRS_MAX: u32 = 3;
/// Fewer I/Os in the first interval say nothing about a drive.
const IOS_MIN: u64 = 20;

/// Next step of the search.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Next {
    /// Measure at that depth.
    Try(u32),
    /// The answer, and why.
    Choose(u32, DepthReason),
}

/// Where the search stands. A rung is a place in the ladder, from the largest depth down.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Stage {
    /// On that rung, all above it hold.
    Descending { rung: usize },
    /// Measures the reference again, to hold a rung against it.
    Reference(Trial),
    /// Measures that rung again, beside this.
    Confirming(Trial, DepthStep),
}

/// A rung that is held against the reference ([`reference_depth`]).
#[derive(Clone, Copy, Debug, PartialEq)]
struct Trial {
    rung: usize,
    /// Whether the rung below was not tried yet, so that the way down goes on if this one holds.
    goes_on: bool,
    pairs: u32,
    /// Whether the reference has changed since: it does once, on a drive that is uneven.
    has_moved: bool,
    /// Sums of bandwidths and of times of an I/O: the rung's, and the reference's beside it.
    bytes_per_s: [f64; 2],
    total_us: [f64; 2],
}

impl Trial {
    fn of(rung: usize, goes_on: bool) -> Trial {
        Trial {
            rung,
            goes_on,
            pairs: 0,
            has_moved: false,
            bytes_per_s: [0.0; 2],
            total_us: [0.0; 2],
        }
    }

    fn add(&mut self, here: &DepthStep, there: &DepthStep) {
        self.pairs += 1;
        for (index, step) in [here, there].into_iter().enumerate() {
            self.bytes_per_s[index] += step.bytes_per_s;
            self.total_us[index] += step.total_us();
        }
    }

    fn holds(&self) -> bool {
        self.bytes_per_s[0] >= KNEE_SHARE * self.bytes_per_s[1]
            && self.total_us[0] <= WAIT_TIMES * self.total_us[1]
    }

    /// Whether nothing is to be expected of another comparison.
    fn is_decided(&self) -> bool {
        self.holds()
            || self.pairs >= PAIRS_MAX
            || self.bytes_per_s[0] < LOSS_SHARE * self.bytes_per_s[1]
    }
}

/// The search.
#[derive(Debug)]
pub(super) struct Search {
    ladder: Vec<u32>,
    /// Depth to use when there is nothing to judge by.
    standard: u32,
    stage: Stage,
    /// Depths measured so far, without the intervals in which nothing happened.
    pub(super) steps: Vec<DepthStep>,
    /// Steps before this one are of another load than today's.
    since: usize,
}

impl Search {
    /// From `deepest` ≥ 1 down to 1.
    pub(super) fn new(deepest: u32, standard: u32) -> Search {
        assert!(deepest > 0, "a queue has a place at least");
        // The largest power of two below; 1 has none.
        let below = |depth: &u32| (*depth > 1).then(|| depth.next_power_of_two() / 2);
        let ladder = std::iter::successors(Some(deepest), below).collect();
        let stage = Stage::Descending { rung: 0 };
        Search { ladder, standard, stage, steps: Vec::new(), since: 0 }
    }

    /// The largest depth, where it begins.
    pub(super) fn deepest(&self) -> u32 {
        self.ladder[0]
    }

    /// Takes what came of the depth tried last. A rung takes eight steps at the most, besides those
    /// in which next to nothing reached the drive at first.
    pub(super) fn judge(&mut self, step: DepthStep) -> Next {
        if self.steps.is_empty() && step.ios < IOS_MIN {
            return Next::Try(step.depth);
        }
        let last = self.ladder.len() - 1;
        let next = match self.stage {
            Stage::Descending { rung } if rung < last && self.holds(&step, rung) => {
                self.descend(rung + 1)
            }
            Stage::Descending { rung: 0 } => self.still_rises(),
            Stage::Descending { rung } => {
                self.since = self.steps.len() + 1;
                self.refer(Trial::of(rung, rung < last))
            }
            Stage::Reference(trial) => {
                self.steps.push(step);
                // Where its bandwidth was that of a moment, another is the reference.
                let has_moved = self.reference() != step.depth;
                return match has_moved && !trial.has_moved {
                    true => self.refer(Trial { has_moved, ..trial }),
                    false => self.compare(trial, step),
                };
            }
            Stage::Confirming(mut trial, reference) => {
                trial.add(&step, &reference);
                match (trial.is_decided(), trial.holds()) {
                    (false, _) => self.refer(trial),
                    (true, true) if trial.goes_on => self.descend(trial.rung + 1),
                    (true, true) => Next::Choose(self.ladder[trial.rung], DepthReason::Knee),
                    (true, false) if trial.rung == 1 => self.still_rises(),
                    (true, false) => self.compare(Trial::of(trial.rung - 1, false), reference),
                }
            }
        };
        self.steps.push(step);
        next
    }

    /// Whether what was measured on that rung, on the way down, is no worse than what is above.
    fn holds(&self, step: &DepthStep, rung: usize) -> bool {
        let steps = &self.steps[self.since..];
        let best = steps.iter().map(|step| step.bytes_per_s).fold(0.0, f64::max);
        // What is next to it in time has the same load.
        let above =
            steps.iter().rev().find(|above| rung > 0 && above.depth == self.ladder[rung - 1]);
        step.bytes_per_s >= KNEE_SHARE * best
            && above.is_none_or(|above| step.total_us() <= WAIT_TIMES * above.total_us())
    }

    /// The answer when there is no time left.
    pub(super) fn give_up(&self) -> Next {
        let depth = match self.stage {
            Stage::Descending { rung: 0 } => {
                return Next::Choose(self.standard, DepthReason::TooFewIos);
            }
            // Of the largest alone nobody knows whether it is too large.
            Stage::Descending { rung: 1 } => self.standard,
            // The rung above it held.
            Stage::Descending { rung } => self.ladder[rung - 1],
            Stage::Reference(trial) | Stage::Confirming(trial, _) => {
                self.ladder[trial.rung - usize::from(trial.goes_on)]
            }
        };
        Next::Choose(depth, DepthReason::OutOfTime)
    }

    fn descend(&mut self, rung: usize) -> Next {
        self.stage = Stage::Descending { rung };
        Next::Try(self.ladder[rung])
    }

    fn refer(&mut self, trial: Trial) -> Next {
        self.stage = Stage::Reference(trial);
        Next::Try(self.reference())
    }

    fn reference(&self) -> u32 {
        reference_depth(&self.steps, self.deepest())
    }

    fn compare(&mut self, trial: Trial, reference: DepthStep) -> Next {
        self.stage = Stage::Confirming(trial, reference);
        Next::Try(self.ladder[trial.rung])
    }

    /// The answer where no smaller depth holds against the reference.
    fn still_rises(&self) -> Next {
        match self.reference() {
            best if best != self.deepest() => Next::Choose(best, DepthReason::Knee),
            deepest => Next::Choose(deepest, DepthReason::StillRises),
        }
    }
}
