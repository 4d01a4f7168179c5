//! When to change the depth and when to measure, on the clock of a warm-up that is as long as it
//! is: the search must have its answer before the window opens.

use ringfall_core::clock::{Nanos, SECOND};
use ringfall_engine::shard::IoInterval;
use ringfall_model::facts::{DepthFigures, DepthReason, DepthStep};

use super::search::{Next, Search};
use crate::driver::TunerOrder;

/// For a load that has just begun to fill the queues.
const RAMP: Nanos = SECOND;
/// Time for a new depth to come about, at least and at most; between them, twice the latency of an
/// I/O, after which all that was in flight before has ended.
const SETTLES: [Nanos; 2] = [Nanos::from_ms(100), Nanos::from_secs(2)];
/// Time for the orders and answers of a step, which a run carries when it looks around.
const TALK: Nanos = Nanos::from_ms(50);
/// Shortest and longest interval: of many I/Os, and so short that the warm-up has room for all
/// steps, as a load changes less from one interval to the next.
const INTERVALS: [Nanos; 2] = [Nanos::from_ms(300), Nanos::from_secs(3)];
/// The answer comes so long before the window, in which the depth is to be the measured one.
const LEAD: Nanos = Nanos::from_ms(500);
/// A shard that is alive answers long before: it does whenever it is polled.
const ANSWER_MAX: Nanos = SECOND;

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    New,
    Settling {
        until: Nanos,
    },
    Measuring {
        until: Nanos,
    },
    /// Answers are on their way.
    Collecting {
        since: Nanos,
    },
    Over,
}

/// The search on a clock.
#[derive(Debug)]
pub struct Tuner {
    search: Search,
    state: State,
    /// The depth that is tried.
    depth: u32,
    /// Largest depth that the queues were built for.
    built: u32,
    queues: u32,
    began: Nanos,
    deadline: Nanos,
    /// Time for an order to reach all shards.
    lag: Nanos,
    /// Sum of the shards' answers, and their number.
    sum: IoInterval,
    answers: usize,
    figures: Option<DepthFigures>,
}

impl Tuner {
    /// For shards whose load begins at `began` and is measured from `window` on: depths up to
    /// `built`, but no deeper than there are buffers (`places` a queue, at least 1), and `standard`
    /// where nothing can be found out. `queues`: shards times drives.
    pub fn new(
        [built, places, standard]: [u32; 3],
        queues: u32,
        (began, window): (Nanos, Nanos),
    ) -> Tuner {
        // Rungs above the places would all be the same load.
        let deepest = built.min(places);
        let deadline = window.saturating_sub(LEAD).max(began);
        Tuner {
            search: Search::new(deepest, standard.min(deepest)),
            state: State::New,
            depth: deepest,
            built,
            queues,
            began,
            deadline,
            lag: Nanos::ZERO,
            sum: IoInterval::default(),
            answers: 0,
            figures: None,
        }
    }

    /// For shards of several processes, which hear of an order so long after it is given: it waits
    /// so much longer for each depth to come about, and has its answer so much earlier.
    pub(super) fn heard_after(mut self, lag: Nanos) -> Tuner {
        self.lag = lag;
        self.deadline = self.deadline.saturating_sub(lag).max(self.began);
        self
    }

    /// The largest depth that is tried.
    pub(super) fn deepest(&self) -> u32 {
        self.search.deepest()
    }

    /// Result of the search, once it is over.
    pub fn figures(&self) -> Option<&DepthFigures> {
        self.figures.as_ref()
    }

    /// Length of each interval, with which the warm-up has time for all steps, unless the drive is
    /// so slow that its depths take longer to come about.
    fn interval(&self) -> Nanos {
        let time = self.deadline.saturating_sub(self.began.saturating_add(RAMP));
        let step = time / self.search.steps_max() as u64;
        step.saturating_sub(SETTLES[0] + TALK + self.lag).clamp(INTERVALS[0], INTERVALS[1])
    }

    /// When [`Tuner::next`] has something to say without an answer; `MAX` when it is over.
    pub fn due(&self) -> Nanos {
        match self.state {
            State::New => Nanos::ZERO,
            State::Settling { until } | State::Measuring { until } => until.min(self.deadline),
            State::Collecting { .. } => self.deadline,
            State::Over => Nanos::MAX,
        }
    }

    /// Adds the I/Os of one shard in the interval that is being collected.
    pub fn add(&mut self, interval: &IoInterval) {
        // Answers may come when it has been given up.
        if matches!(self.state, State::Collecting { .. }) {
            self.sum.merge(interval);
            self.answers += 1;
        }
    }

    /// Next order to the shards, of which `shards` are alive; none if there is nothing to do until
    /// [`Tuner::due`].
    pub fn next(&mut self, now: Nanos, shards: usize) -> Option<TunerOrder> {
        if self.state != State::Over && now >= self.deadline {
            let answer = match (self.state, self.search.give_up()) {
                (State::Collecting { since }, Next::Choose(depth, _))
                    if now.saturating_sub(since) >= ANSWER_MAX =>
                {
                    Next::Choose(depth, DepthReason::NoAnswer)
                }
                (_, answer) => answer,
            };
            return Some(self.follow(answer, now, SETTLES[0]));
        }
        match self.state {
            State::New => {
                let settles = self.began.saturating_sub(now) + RAMP;
                Some(self.follow(Next::Try(self.depth), now, settles))
            }
            State::Settling { until } if now >= until => {
                self.state = State::Measuring { until: now.saturating_add(self.interval()) };
                Some(TunerOrder::Begin)
            }
            State::Measuring { until } if now >= until => {
                self.state = State::Collecting { since: now };
                (self.sum, self.answers) = (IoInterval::default(), 0);
                Some(TunerOrder::End)
            }
            State::Collecting { .. } if self.answers >= shards => {
                let step = step_of(self.depth, &self.sum);
                let settles = Nanos::from_ns_f64(step.latency_us[0] * 2e3);
                let next = self.search.judge(step);
                Some(self.follow(next, now, settles.clamp(SETTLES[0], SETTLES[1])))
            }
            State::Settling { .. }
            | State::Measuring { .. }
            | State::Collecting { .. }
            | State::Over => None,
        }
    }

    /// The interval that is being collected is worth nothing: the same depth once more, if there is
    /// time.
    pub(super) fn repeat(&mut self, now: Nanos) -> Option<TunerOrder> {
        let has_time = now < self.deadline && matches!(self.state, State::Collecting { .. });
        has_time.then(|| self.follow(Next::Try(self.depth), now, SETTLES[0]))
    }

    fn follow(&mut self, next: Next, now: Nanos, settles: Nanos) -> TunerOrder {
        match next {
            Next::Try(depth) => {
                self.depth = depth;
                self.state = State::Settling { until: now.saturating_add(settles + self.lag) };
                TunerOrder::Depth(depth)
            }
            Next::Choose(depth, reason) => {
                self.state = State::Over;
                self.figures = Some(self.conclude(depth, reason, now));
                TunerOrder::Depth(depth)
            }
        }
    }

    fn conclude(&self, chosen: u32, reason: DepthReason, now: Nanos) -> DepthFigures {
        DepthFigures {
            chosen,
            deepest: self.search.deepest(),
            lacks_buffers: self.search.deepest() < self.built,
            queues: self.queues,
            ranks: None,
            reason,
            steps: self.search.steps.clone(),
            seconds: now.saturating_sub(self.began).as_secs_f64(),
        }
    }
}

fn step_of(depth: u32, interval: &IoInterval) -> DepthStep {
    let (latency, seconds) = (&interval.latency, interval.length.as_secs_f64());
    let ios = latency.count();
    let us = |quantile| latency.quantile_ns(quantile).map_or(0.0, |ns| ns as f64 / 1e3);
    DepthStep {
        depth,
        seconds,
        ios,
        bytes_per_s: if seconds > 0.0 { interval.bytes as f64 / seconds } else { 0.0 },
        latency_us: [latency.mean_ns().map_or(0.0, |ns| ns / 1e3), us(0.5), us(0.99)],
        wait_us: if ios > 0 { interval.waits.as_ns_f64() / 1e3 / ios as f64 } else { 0.0 },
    }
}
