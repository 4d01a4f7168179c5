//! Which depth to try next, and which to choose. The load changes while it is searched, in its mix
//! of reads and writes as in its amount, and a drive has hiccups: every power of two up to the
//! largest depth is tried again and again, in sweeps down and up by turns, so that what changes
//! does so for all depths alike.

use ringfall_model::facts::{DepthReason, DepthStep, TriedDepth, best_depth, tried_depths};

/// The knee is the smallest depth with this share of the best bandwidth: the same share as in
/// `saturate`.
const KNEE_SHARE: f64 = 0.95;
/// A depth is too small when an I/O, its wait for a place included, takes this many times as long
/// as at the largest. Where the queue is always full it takes as long at any depth with the same
/// bandwidth (Little's law); where the load leaves gaps, a queue that is too short shows here and
/// not in the bandwidth.
const WAIT_TIMES: f64 = 1.25;
/// Sweeps over all depths, where there is time.
const SWEEPS: usize = 6;
/// Sweeps that an answer needs at least: each depth has been tried that often.
const SWEEPS_MIN: usize = 2;
/// Fewer I/Os in the first interval say nothing about a drive.
const IOS_MIN: u64 = 20;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Next {
    /// Measure at that depth.
    Try(u32),
    /// The answer, and why.
    Choose(u32, DepthReason),
}

#[derive(Debug)]
pub(super) struct Search {
    /// Depths to try, from the largest down.
    ladder: Vec<u32>,
    /// Depth to use when there is nothing to judge by.
    standard: u32,
    /// Depths measured so far, without the intervals in which nothing happened.
    pub(super) steps: Vec<DepthStep>,
}

impl Search {
    /// From `deepest` ≥ 1 down to 1.
    pub(super) fn new(deepest: u32, standard: u32) -> Search {
        assert!(deepest > 0, "a queue has a place at least");
        // The largest power of two below; 1 has none.
        let below = |depth: &u32| (*depth > 1).then(|| depth.next_power_of_two() / 2);
        let ladder = std::iter::successors(Some(deepest), below).collect();
        Search { ladder, standard, steps: Vec::new() }
    }

    /// The largest depth, where it begins.
    pub(super) fn deepest(&self) -> u32 {
        self.ladder[0]
    }

    /// Steps that it takes, besides those in which next to nothing reached the drive at first.
    pub(super) fn steps_max(&self) -> usize {
        SWEEPS * self.ladder.len()
    }

    /// Takes what came of the depth tried last.
    pub(super) fn judge(&mut self, step: DepthStep) -> Next {
        if self.steps.is_empty() && step.ios < IOS_MIN {
            return Next::Try(step.depth);
        }
        self.steps.push(step);
        let (rungs, steps) = (self.ladder.len(), self.steps.len());
        if steps >= self.steps_max() {
            return self.choose();
        }
        let (sweep, place) = (steps / rungs, steps % rungs);
        let is_upward = sweep % 2 == 1;
        Next::Try(self.ladder[if is_upward { rungs - 1 - place } else { place }])
    }

    /// The answer when there is no time left.
    pub(super) fn give_up(&self) -> Next {
        match self.steps.len() {
            0 => Next::Choose(self.standard, DepthReason::TooFewIos),
            // Of the largest alone nobody knows whether it is too large.
            1 => Next::Choose(self.standard, DepthReason::OutOfTime),
            steps if steps < SWEEPS_MIN * self.ladder.len() => {
                let tried = tried_depths(&self.steps);
                let best = best_depth(&tried).map_or(self.standard, |best| best.depth);
                Next::Choose(best, DepthReason::OutOfTime)
            }
            _ => self.choose(),
        }
    }

    /// The smallest depth that has the bandwidth of the best, and where I/Os wait no longer than at
    /// the largest.
    fn choose(&self) -> Next {
        let tried = tried_depths(&self.steps);
        let best = best_depth(&tried);
        let least = best.map_or(0.0, |best| KNEE_SHARE * best.bytes_per_s);
        let longest_us = tried.last().map_or(0.0, |deepest| WAIT_TIMES * deepest.total_us);
        let is_enough =
            |tried: &&TriedDepth| tried.bytes_per_s >= least && tried.total_us <= longest_us;
        let chosen = tried.iter().find(is_enough).or(best);
        match chosen.map(|chosen| chosen.depth).filter(|&depth| depth < self.deepest()) {
            Some(depth) => Next::Choose(depth, DepthReason::Knee),
            None => Next::Choose(self.deepest(), DepthReason::StillRises),
        }
    }
}
