//! Loads of several ranks at the same time: rank 0 says which, all of them begin at the same
//! moment, and what each has reached is added up.

use std::time::{Duration, Instant};

use ringfall_engine::load::LoadPlan;
use ringfall_model::facts::Measured;
use serde::{Deserialize, Serialize};

use super::measure::{CONFIRM, PROBE, Reached, RoundPace, sum};
use super::search::Point;
use super::{Bench, SaturateError, Watcher};
use crate::group::{Group, Moment, Silence, Topic, share};

/// Topics of rank 0's orders and of the others' answers.
const ORDER: Topic = Topic("order");
const FIGURES: Topic = Topic("figures");
/// Rounds of a probe, and of the answer: as all ranks measure for the same time, nobody ends when
/// it is steady.
const PROBE_ROUNDS: usize = 8;
const CONFIRM_ROUNDS: usize = 10;
/// The answer is measured so often at the most, until it is steady.
const CONFIRM_TRIES: usize = 4;
/// A load is measured so often at the most, four times as long each time, until an I/O has ended.
const NOTHING_TRIES: usize = 4;
/// The load goes on so long after the last round: on a rank that began later it has not ended yet.
const TAIL: Duration = Duration::from_millis(100);

/// The ranks that search together.
pub(super) struct Together<'a> {
    group: &'a Group,
}

impl<'a> Together<'a> {
    pub(super) fn new(group: &'a Group) -> Together<'a> {
        group.listen(if group.rank() == 0 { FIGURES } else { ORDER });
        Together { group }
    }
}

impl Drop for Together<'_> {
    fn drop(&mut self) {
        self.group.ignore(ORDER);
        self.group.ignore(FIGURES);
    }
}

/// A rank that has written its range.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Prepared {
    pub rank: u32,
    pub host: String,
    pub range_bytes: u64,
    pub range_left_bytes: u64,
    pub threads: u32,
}

/// Order of rank 0.
#[derive(Serialize, Deserialize)]
enum Order {
    /// Measure this.
    Measure(Measure),
    /// The search is over.
    Done,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Measure {
    read_percent: u32,
    io_bytes: u32,
    /// I/Os in flight, all ranks together.
    depth: u32,
    is_confirmed: bool,
    rounds: usize,
    begins: Moment,
}

impl Bench<'_> {
    /// Number of ranks that measure together, ≥ 1.
    pub(super) fn ranks(&self) -> u32 {
        self.together.as_ref().map_or(1, |together| together.group.size())
    }

    fn prepared(&self) -> Prepared {
        let group = self.together.as_ref().map(|together| together.group);
        Prepared {
            rank: group.map_or(0, Group::rank),
            host: group.map_or(String::new(), |group| group.host().to_owned()),
            range_bytes: self.range_bytes,
            range_left_bytes: self.settings.range_bytes - self.range_bytes,
            threads: self.settings.cpus.len() as u32,
        }
    }

    /// Waits until all ranks have written their ranges.
    pub(super) fn all_prepared(&self) -> Result<Vec<Prepared>, SaturateError> {
        let mut all = vec![self.prepared()];
        if let Some(together) = &self.together {
            all.extend(together.group.gather::<Prepared>(FIGURES, &|| self.interrupt.is_set())?);
        }
        Ok(all)
    }

    /// Does as rank 0 says, to the end.
    pub(super) fn serve(&mut self, watcher: &mut dyn Watcher) -> Result<(), SaturateError> {
        self.begin(watcher)?;
        let Some(together) = &self.together else { return Ok(()) };
        let group = together.group;
        group.say(FIGURES, &self.prepared());
        while let Order::Measure(measure) = group.hear_first(ORDER, &|| self.interrupt.is_set())? {
            group.say(FIGURES, &self.reach_share(group, &measure, watcher)?);
        }
        Ok(())
    }

    /// Rank 0: the search is over.
    pub(super) fn dismiss(&self) {
        if let Some(together) = &self.together {
            together.group.say(ORDER, &Order::Done);
        }
    }

    /// Rank 0: what a load of all ranks comes to, and whether it was measured for as long as it
    /// should be.
    pub(super) fn measure_together(
        &self,
        together: &Together<'_>,
        plan: &LoadPlan,
        is_confirmed: bool,
        until: Option<Instant>,
        watcher: &mut dyn Watcher,
    ) -> Result<(Measured, bool), SaturateError> {
        let (pace, wanted, tries) = match is_confirmed {
            true => (&CONFIRM, CONFIRM_ROUNDS, CONFIRM_TRIES),
            false => (&PROBE, PROBE_ROUNDS, 1),
        };
        let (mut rounds, mut is_whole, mut nothing) = (wanted, true, 0);
        let mut tried = 0;
        loop {
            if let Some(until) = until {
                let left = until.saturating_duration_since(Instant::now()).as_secs_f64();
                let most = (left / pace.round.as_secs_f64()) as usize;
                is_whole &= most >= rounds;
                rounds = rounds.min(most.max(1));
            }
            let measure = Measure {
                read_percent: plan.read_percent,
                io_bytes: plan.io_bytes,
                depth: plan.depth,
                is_confirmed,
                rounds,
                begins: together.group.moment_ahead(),
            };
            together.group.say(ORDER, &Order::Measure(measure));
            let mut all = self.reach_share(together.group, &measure, watcher)?;
            let others = together.group.gather(FIGURES, &|| self.interrupt.is_set())?;
            all.extend(others.into_iter().flat_map(|other: Vec<Reached>| other));
            let measured = sum(&all);
            tried += 1;
            if measured.iops == 0.0 && nothing < NOTHING_TRIES {
                // A rate of nothing is no measurement, however slow the device.
                nothing += 1;
                rounds *= 4;
                tried -= 1;
            } else if measured.steady || tried >= tries || !is_whole {
                return Ok((measured, is_whole));
            }
        }
    }

    /// Measures this rank's share of a load.
    fn reach_share(
        &self,
        group: &Group,
        measure: &Measure,
        watcher: &mut dyn Watcher,
    ) -> Result<Vec<Reached>, SaturateError> {
        let pace = if measure.is_confirmed { CONFIRM } else { PROBE };
        let point = Point {
            io_bytes: measure.io_bytes,
            depth: share(measure.depth, group.rank(), group.size()),
        };
        std::thread::sleep(group.until(&measure.begins));
        if point.depth == 0 {
            let (io_bytes, rounds) = (point.io_bytes, vec![0.0; measure.rounds]);
            return Ok(vec![Reached { io_bytes, rounds, ..Reached::default() }]);
        }
        let plan = self.plan(point, measure.read_percent);
        let is_enough = |rounds: &[f64]| rounds.len() >= measure.rounds;
        self.reach(plan, &RoundPace { tail: TAIL, ..pace }, &is_enough, watcher)
    }
}

impl From<Silence> for SaturateError {
    fn from(silence: Silence) -> SaturateError {
        match silence {
            Silence::Failed(why) => SaturateError::Ranks(why),
            Silence::Over => SaturateError::Interrupted,
        }
    }
}
