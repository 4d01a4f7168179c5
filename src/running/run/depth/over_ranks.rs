//! The search over all ranks of a launch: rank 0 says which depth is tried and when it is measured,
//! all ranks do so at the same time, and one depth is chosen for all from what they did together.
//!
//! Ranks that searched each for itself would measure how far the others' searches are.

use std::collections::BTreeMap;
use std::sync::Arc;

use ringfall_core::clock::Nanos;
use ringfall_core::metrics::Histogram;
use ringfall_engine::shard::IoInterval;
use ringfall_model::facts::{DepthFigures, DepthReason};
use serde::{Deserialize, Serialize};

use super::{Tuner, TunerOrder};
use crate::group::{Group, Topic};

/// Topics of rank 0's message to all others, and of their answers.
const DEPTH: Topic = Topic("depth");
const INTERVAL: Topic = Topic("depth-interval");

/// The search of a run's shards: by this process alone, or with the other ranks.
#[derive(Debug)]
pub enum Tuning {
    /// This process searches for itself.
    Alone(Tuner),
    /// Rank 0 searches for all.
    Lead(Lead),
    /// Another rank does what rank 0 says.
    Follow(Follow),
}

/// Where a step stands: its depth comes about, is measured, and what was measured is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
enum Stage {
    Settle,
    Measure,
    Collect,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Told {
    /// Counts up with each depth that is tried.
    step: u32,
    depth: u32,
    stage: Stage,
    /// Result of the search, once it is over.
    figures: Option<DepthFigures>,
}

/// Answer of another rank: the I/Os of its shards in the interval of a step.
#[derive(Debug, Serialize, Deserialize)]
struct Answer {
    step: u32,
    queues: u32,
    /// It heard of the interval when that was over: the others measured at what it did, and it
    /// does not know what that was.
    missed: bool,
    length_ns: u64,
    bytes: u64,
    waits_ns: u64,
    #[serde(with = "crate::group::sent")]
    latency: Histogram,
}

/// Part of rank 0, which decides for all ranks.
#[derive(Debug)]
pub struct Lead {
    tuner: Tuner,
    group: Arc<Group>,
    told: Told,
    /// Queues of the ranks that have answered, and the step for which each did so last.
    answers: BTreeMap<u32, (u32, u32)>,
    own_queues: u32,
    /// A rank did not measure in this step.
    missed: bool,
}

/// Part of another rank, which follows what rank 0 decides.
#[derive(Debug)]
pub struct Follow {
    group: Arc<Group>,
    queues: u32,
    /// The largest depth that its queues were built for.
    built: u32,
    began: Nanos,
    window: Nanos,
    /// Last message heard, and the part of it that was carried out.
    told: Told,
    step: u32,
    done: Option<Stage>,
    /// Sum of its shards' answers, and their number; none while nothing is collected.
    sum: Option<(IoInterval, usize)>,
    figures: Option<DepthFigures>,
}

impl Tuning {
    /// With the ranks of a group; the warm-up lasts from `began` to `window`, and this process has
    /// so many queues.
    pub fn with_ranks(
        tuner: Tuner,
        group: Arc<Group>,
        queues: u32,
        (began, window): (Nanos, Nanos),
    ) -> Tuning {
        group.listen(if group.rank() == 0 { INTERVAL } else { DEPTH });
        let built = tuner.deepest();
        let told = Told { step: 0, depth: built, stage: Stage::Settle, figures: None };
        let lag = u64::try_from(group.word_lead().as_nanos()).unwrap_or(u64::MAX);
        match group.rank() {
            0 => Tuning::Lead(Lead {
                tuner: tuner.heard_after(Nanos::from_ns(lag)),
                group,
                told,
                answers: BTreeMap::new(),
                own_queues: queues,
                missed: false,
            }),
            _ => Tuning::Follow(Follow {
                group,
                queues,
                built,
                began,
                window,
                told,
                step: 0,
                done: None,
                sum: None,
                figures: None,
            }),
        }
    }

    /// Result of the search, once it is over.
    pub fn figures(&self) -> Option<&DepthFigures> {
        match self {
            Tuning::Alone(tuner) => tuner.figures(),
            Tuning::Lead(lead) => lead.told.figures.as_ref(),
            Tuning::Follow(follow) => follow.figures.as_ref(),
        }
    }

    /// When [`Tuning::next`] has something to say without an answer or a word; `MAX` when it has
    /// not.
    pub fn due(&self) -> Nanos {
        match self {
            Tuning::Alone(tuner) => tuner.due(),
            Tuning::Lead(lead) => lead.tuner.due(),
            Tuning::Follow(_) => Nanos::MAX,
        }
    }

    /// The interval of a shard of this process.
    pub fn add(&mut self, interval: &IoInterval) {
        match self {
            Tuning::Alone(tuner) => tuner.add(interval),
            Tuning::Lead(lead) => lead.tuner.add(interval),
            Tuning::Follow(follow) => {
                if let Some((sum, answers)) = &mut follow.sum {
                    sum.merge(interval);
                    *answers += 1;
                }
            }
        }
    }

    /// Next order to the shards of this process, of which `shards` are alive.
    pub fn next(&mut self, now: Nanos, shards: usize) -> Option<TunerOrder> {
        match self {
            Tuning::Alone(tuner) => tuner.next(now, shards),
            Tuning::Lead(lead) => lead.next(now, shards),
            Tuning::Follow(follow) => follow.next(now, shards),
        }
    }
}

impl Lead {
    fn next(&mut self, now: Nanos, shards: usize) -> Option<TunerOrder> {
        if self.told.figures.is_some() {
            return None;
        }
        self.hear();
        let again = if std::mem::take(&mut self.missed) { self.tuner.repeat(now) } else { None };
        // Each of the others answers once for all of its shards.
        let answers = shards + self.group.size() as usize - 1;
        let order = again.or_else(|| self.tuner.next(now, answers))?;
        match order {
            TunerOrder::Depth(depth) => {
                let figures = self.tuner.figures().map(|found| self.of_all(found));
                self.told = Told { step: self.told.step + 1, depth, stage: Stage::Settle, figures };
            }
            TunerOrder::Begin => self.told.stage = Stage::Measure,
            TunerOrder::End => self.told.stage = Stage::Collect,
        }
        self.group.say(DEPTH, &self.told);
        if self.told.figures.is_some() {
            self.group.ignore(INTERVAL);
        }
        Some(order)
    }

    fn hear(&mut self) {
        for (rank, answer) in self.group.heard::<Answer>(INTERVAL) {
            let step = answer.step;
            let last = self.answers.insert(rank, (step, answer.queues)).map_or(0, |last| last.0);
            if step == self.told.step && last != step {
                self.missed |= answer.missed;
                self.tuner.add(&answer.interval());
            }
        }
    }

    fn of_all(&self, found: &DepthFigures) -> DepthFigures {
        let others = self.answers.values().map(|(_, queues)| queues);
        DepthFigures {
            queues: others.fold(self.own_queues, |sum, queues| sum.saturating_add(*queues)),
            ranks: Some(self.group.size()),
            ..found.clone()
        }
    }
}

impl Follow {
    fn next(&mut self, now: Nanos, shards: usize) -> Option<TunerOrder> {
        if self.figures.is_some() {
            return None;
        }
        if let Some((_, told)) = self.group.heard(DEPTH).pop() {
            self.told = told;
        }
        self.answer(shards);
        if self.told.step != self.step {
            return Some(self.begin());
        }
        if let Some(order) = self.go_on() {
            return Some(order);
        }
        // It was to be heard long before.
        (now >= self.window).then(|| self.conclude_alone(now))
    }

    /// The depth that is tried, as far as its queues were built for it.
    fn depth(&self) -> u32 {
        self.told.depth.min(self.built)
    }

    fn begin(&mut self) -> TunerOrder {
        (self.step, self.done, self.sum) = (self.told.step, None, None);
        if let Some(found) = self.told.figures.clone() {
            self.over(DepthFigures { chosen: self.depth(), ..found });
        }
        TunerOrder::Depth(self.depth())
    }

    fn go_on(&mut self) -> Option<TunerOrder> {
        match (self.done, self.told.stage) {
            (None, Stage::Measure) => {
                self.done = Some(Stage::Measure);
                Some(TunerOrder::Begin)
            }
            (Some(Stage::Measure), Stage::Collect) => {
                self.done = Some(Stage::Collect);
                self.sum = Some((IoInterval::default(), 0));
                Some(TunerOrder::End)
            }
            (None, Stage::Collect) => {
                // Heard too late to have measured anything; the others did.
                self.done = Some(Stage::Collect);
                self.tell(&IoInterval::default(), true);
                None
            }
            _ => None,
        }
    }

    /// Tells rank 0 what all shards have answered, once they have.
    fn answer(&mut self, shards: usize) {
        if let Some((sum, _)) = self.sum.take_if(|(_, answers)| *answers >= shards) {
            self.tell(&sum, false);
        }
    }

    fn tell(&self, sum: &IoInterval, missed: bool) {
        let answer = Answer {
            step: self.step,
            queues: self.queues,
            missed,
            length_ns: sum.length.as_ns(),
            bytes: sum.bytes,
            waits_ns: sum.waits.as_ns(),
            latency: sum.latency.clone(),
        };
        self.group.say(INTERVAL, &answer);
    }

    fn conclude_alone(&mut self, now: Nanos) -> TunerOrder {
        self.over(DepthFigures {
            chosen: self.depth(),
            deepest: self.built,
            lacks_buffers: false,
            queues: self.queues,
            ranks: Some(self.group.size()),
            reason: DepthReason::NoAnswer,
            steps: Vec::new(),
            seconds: now.saturating_sub(self.began).as_secs_f64(),
        });
        TunerOrder::Depth(self.depth())
    }

    fn over(&mut self, figures: DepthFigures) {
        self.figures = Some(figures);
        self.group.ignore(DEPTH);
    }
}

impl Answer {
    fn interval(self) -> IoInterval {
        IoInterval {
            length: Nanos::from_ns(self.length_ns),
            bytes: self.bytes,
            waits: Nanos::from_ns(self.waits_ns),
            latency: self.latency,
            ..IoInterval::default()
        }
    }
}

#[cfg(test)]
#[path = "over_ranks_test.rs"]
mod tests;
