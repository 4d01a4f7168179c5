//! Loads of several ranks at the same time: rank 0 says which, all of them begin at the same
//! moment, and what each has reached is added up.

use std::time::{Duration, Instant};

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

/// Topic that a rank listens for while it searches with the others.
pub(super) fn heard_by(group: &Group) -> Topic {
    if group.rank() == 0 { FIGURES } else { ORDER }
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

/// Order of rank 0: to measure this; none where the search is over.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Measure {
    read_percent: u32,
    /// Its depth is that of all ranks together.
    point: Point,
    is_confirmed: bool,
    rounds: usize,
    begins: Moment,
}

impl Bench<'_> {
    /// Number of ranks that measure together, ≥ 1.
    pub(super) fn ranks(&self) -> u32 {
        self.group.map_or(1, Group::size)
    }

    fn prepared(&self) -> Prepared {
        Prepared {
            rank: self.group.map_or(0, Group::rank),
            host: self.group.map_or(String::new(), |group| group.host().to_owned()),
            range_bytes: self.range_bytes,
            range_left_bytes: self.settings.range_bytes - self.range_bytes,
            threads: self.settings.cpus.len() as u32,
        }
    }

    /// Waits until all ranks have written their ranges.
    pub(super) fn all_prepared(&self) -> Result<Vec<Prepared>, SaturateError> {
        let mut all = vec![self.prepared()];
        if let Some(group) = self.group {
            all.extend(group.gather::<Prepared>(FIGURES, &|| self.interrupt.is_set())?);
        }
        Ok(all)
    }

    /// Does as rank 0 says, to the end.
    pub(super) fn serve(
        &mut self,
        group: &Group,
        watcher: &mut dyn Watcher,
    ) -> Result<(), SaturateError> {
        self.begin(watcher)?;
        group.say(FIGURES, &self.prepared());
        let is_over = || self.interrupt.is_set();
        while let Some(measure) = group.hear_first::<Option<Measure>>(ORDER, &is_over)? {
            group.say(FIGURES, &self.reach_share(group, &measure, watcher)?);
        }
        Ok(())
    }

    /// Rank 0: the search is over.
    pub(super) fn dismiss(&self) {
        if let Some(group) = self.group {
            group.say(ORDER, &None::<Measure>);
        }
    }

    /// Rank 0: what a load of all ranks comes to, and whether it was measured for as long as it
    /// should be.
    pub(super) fn measure_together(
        &self,
        group: &Group,
        point: Point,
        read_percent: u32,
        is_confirmed: bool,
        until: Option<Instant>,
        watcher: &mut dyn Watcher,
    ) -> Result<(Measured, bool), SaturateError> {
        let (pace, mut rounds, tries) = match is_confirmed {
            true => (&CONFIRM, CONFIRM_ROUNDS, CONFIRM_TRIES),
            false => (&PROBE, PROBE_ROUNDS, 1),
        };
        let (mut is_whole, mut nothing, mut tried) = (true, 0, 0);
        loop {
            if let Some(until) = until {
                let left = until.saturating_duration_since(Instant::now()).as_secs_f64();
                let most = (left / pace.round.as_secs_f64()) as usize;
                is_whole &= most >= rounds;
                rounds = rounds.min(most.max(1));
            }
            let begins = group.moment_ahead();
            let measure = Measure { read_percent, point, is_confirmed, rounds, begins };
            group.say(ORDER, &Some(measure));
            let mut all = self.reach_share(group, &measure, watcher)?;
            let others = group.gather(FIGURES, &|| self.interrupt.is_set())?;
            all.extend(others.into_iter().flat_map(|other: Vec<Reached>| other));
            let measured = sum(&all);
            if measured.iops == 0.0 && nothing < NOTHING_TRIES {
                // A rate of nothing is no measurement, however slow the device.
                nothing += 1;
                rounds *= 4;
                continue;
            }
            tried += 1;
            if measured.steady || tried >= tries || !is_whole {
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
        let depth = share(measure.point.depth, group.rank(), group.size());
        let point = Point { depth, ..measure.point };
        std::thread::sleep(group.until(&measure.begins));
        if depth == 0 {
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
