//! Loads of several ranks at the same time: rank 0 says which, all of them begin at the same
//! moment, and what each has reached is added up.

use std::time::{Duration, Instant};

use ringfall_core::metrics::Histogram;
use ringfall_core::units::GIB;
use ringfall_engine::load::{Load, LoadPlan};
use ringfall_model::facts::Measured;
use ringfall_model::facts::steady::{WINDOW, steady_mean};
use serde::{Deserialize, Serialize};

use super::measure::{CONFIRM, PROBE, RoundPace, slope};
use super::search::Point;
use super::time::Budget;
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
/// Between two looks at what is done.
const SAMPLING: Duration = Duration::from_millis(10);

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

/// I/Os done by the time.
type Samples = Vec<(Instant, u64)>;

/// Result of one rank.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Reached {
    /// I/Os a second of each round, and over all of them.
    rounds: Vec<f64>,
    iops: f64,
    bytes: u64,
    cpu_ns: u64,
    window_ns: u64,
    #[serde(with = "crate::group::sent")]
    latency: Histogram,
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
        let limit = self.settings.time_limit_s.map(|seconds| Duration::from_secs(seconds.into()));
        let budget = Budget { began: Instant::now(), limit };
        self.range_bytes = self.prepare(&budget, watcher)?;
        self.file
            .probe_polling(self.settings.polling)
            .map_err(ringfall_engine::load::LoadError::from)?;
        let Some(together) = &self.together else { return Ok(()) };
        let group = together.group;
        group.say(FIGURES, &self.prepared());
        while let Order::Measure(measure) = group.hear_first(ORDER, &|| self.interrupt.is_set())? {
            group.say(FIGURES, &self.reach(group, &measure, watcher)?);
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
            let mut all = vec![self.reach(together.group, &measure, watcher)?];
            all.extend(together.group.gather::<Reached>(FIGURES, &|| self.interrupt.is_set())?);
            let measured = sum(plan, &all);
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
    fn reach(
        &self,
        group: &Group,
        measure: &Measure,
        watcher: &mut dyn Watcher,
    ) -> Result<Reached, SaturateError> {
        let pace = if measure.is_confirmed { &CONFIRM } else { &PROBE };
        let point = Point {
            io_bytes: measure.io_bytes,
            depth: share(measure.depth, group.rank(), group.size()),
        };
        std::thread::sleep(group.until(&measure.begins));
        if point.depth == 0 {
            let rounds = vec![0.0; measure.rounds];
            return Ok(Reached { rounds, ..Reached::default() });
        }
        let load = Load::start(self.file, &self.plan(point, measure.read_percent))?;
        std::thread::sleep(pace.ramp);
        load.open_window();
        let began = Instant::now();
        let watched = self.watch(&load, pace, measure.rounds, began, watcher);
        std::thread::sleep(TAIL);
        let figures = load.stop()?;
        self.add_reads(&figures);
        let (rounds, samples) = watched?;
        let mut latency = figures.read.latency.clone();
        latency.merge(&figures.write.latency);
        Ok(Reached {
            rounds,
            iops: slope(&samples),
            bytes: figures.bytes(),
            cpu_ns: figures.cpu_ns,
            window_ns: figures.window_ns,
            latency,
        })
    }

    /// I/Os a second of each round, and I/Os done by the time.
    fn watch(
        &self,
        load: &Load,
        pace: &RoundPace,
        rounds: usize,
        began: Instant,
        watcher: &mut dyn Watcher,
    ) -> Result<(Vec<f64>, Samples), SaturateError> {
        let mut samples = vec![(began, load.progress().0)];
        let mut rates = Vec::with_capacity(rounds);
        let mut mark = samples[0];
        for round in 1..=rounds {
            let ends = began + pace.round * u32::try_from(round).unwrap_or(u32::MAX);
            while Instant::now() + SAMPLING < ends && !load.is_over() {
                std::thread::sleep(SAMPLING);
                samples.push((Instant::now(), load.progress().0));
            }
            std::thread::sleep(ends.saturating_duration_since(Instant::now()));
            if self.interrupt.is_set() {
                return Err(SaturateError::Interrupted);
            }
            watcher.waiting();
            let now = (Instant::now(), load.progress().0);
            let seconds = now.0.duration_since(mark.0).as_secs_f64().max(1e-9);
            rates.push((now.1 - mark.1) as f64 / seconds);
            mark = now;
            samples.push(now);
        }
        Ok((rates, samples))
    }
}

/// Adds up the results of all ranks.
fn sum(plan: &LoadPlan, all: &[Reached]) -> Measured {
    let mut latency = Histogram::new();
    all.iter().for_each(|reached| latency.merge(&reached.latency));
    let longest = all.iter().map(|one| one.rounds.len()).max().unwrap_or(0);
    let round = |at: usize| all.iter().filter_map(|one| one.rounds.get(at)).sum::<f64>();
    let rounds: Vec<f64> = (0..longest).map(round).collect();
    let us = |quantile| latency.quantile_ns(quantile).map_or(0.0, |ns| ns as f64 / 1e3);
    let iops: f64 = all.iter().map(|one| one.iops).sum();
    let bytes: u64 = all.iter().map(|one| one.bytes).sum();
    let cpu_ns: u64 = all.iter().map(|one| one.cpu_ns).sum();
    let io_bytes = f64::from(plan.io_bytes);
    Measured {
        io_bytes: plan.io_bytes,
        depth: plan.depth,
        bytes_per_s: iops * io_bytes,
        iops,
        latency_p50_us: us(0.5),
        latency_p99_us: us(0.99),
        cpu_s_per_gib: cpu_ns as f64 / 1e9 / (bytes as f64 / GIB as f64).max(1e-9),
        steady: rounds.len() >= WINDOW && steady_mean(&rounds).is_some(),
        seconds: all.iter().map(|one| one.window_ns).max().unwrap_or(0) as f64 / 1e9,
        ranks_bytes_per_s: all.iter().map(|one| one.iops * io_bytes).collect(),
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

#[cfg(test)]
mod tests {
    use ringfall_engine::load::Access;
    use ringfall_engine::ring::Polling;

    use super::*;

    #[test]
    fn what_ranks_reach_adds_up() {
        let plan = LoadPlan {
            read_percent: 100,
            io_bytes: 1 << 20,
            depth: 3,
            range_bytes: 1 << 30,
            access: Access::Random,
            polling: Polling::None,
            cpus: vec![None],
            bytes_max: None,
            seed: 1,
        };
        let of = |iops: f64, ms: u64| {
            let mut latency = Histogram::new();
            (0..10).for_each(|_| latency.record(ms * 1_000_000));
            Reached {
                rounds: vec![iops; WINDOW],
                iops,
                bytes: 1 << 30,
                cpu_ns: 5_000_000,
                window_ns: 800_000_000,
                latency,
            }
        };
        let idle = Reached { rounds: vec![0.0; WINDOW], ..Reached::default() };
        let measured = sum(&plan, &[of(100.0, 2), of(50.0, 6), idle]);
        assert_eq!((measured.iops, measured.bytes_per_s), (150.0, 150.0 * 1_048_576.0));
        assert_eq!(measured.ranks_bytes_per_s, [104_857_600.0, 52_428_800.0, 0.0]);
        assert!(measured.steady && (measured.cpu_s_per_gib - 0.005).abs() < 1e-9);
        assert!((measured.latency_p50_us / 2_000.0 - 1.0).abs() < 0.01, "{measured:?}");
        assert!((measured.latency_p99_us / 6_000.0 - 1.0).abs() < 0.01, "{measured:?}");
        // Rounds that are steady for each alone, and not together.
        let rising = |from: f64| Reached {
            rounds: (0..WINDOW).map(|round| from + 30.0 * round as f64).collect(),
            ..Reached::default()
        };
        assert!(!sum(&plan, &[rising(50.0), rising(10.0)]).steady);
    }
}
