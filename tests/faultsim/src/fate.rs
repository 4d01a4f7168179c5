//! Incidents that happen to a run from outside, drawn: how long its phases before and after the
//! load take, whether it has a warm-up and an end of its requests, and incidents in any of its
//! phases: people who interrupt it, once or twice, drives that die or fall silent, shards that get
//! stuck.

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use ringfall_core::clock::{MILLISECOND, Nanos, SECOND};
use ringfall_running::run::Phase;
use ringfall_workloads::source::{SourceRequest, Turn};

use crate::scenario::time_within;

/// Tells these draws from all others of a seed.
const STREAM: u64 = u64::from_be_bytes(*b"incident");
/// Longest time that opening, preconditioning, assembling or reporting takes.
const TAKES_MAX: Nanos = Nanos::from_ms(200);
/// Phases in which something may happen: a simulated run does not gather.
const PHASES: [Phase; 8] = [
    Phase::Open,
    Phase::Precondition,
    Phase::Assemble,
    Phase::Populate,
    Phase::WarmUp,
    Phase::Measure,
    Phase::Drain,
    Phase::Report,
];

/// Kind of an incident.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum What {
    /// Somebody interrupts the run, and perhaps again so much later.
    Interrupt { again_after: Option<Nanos> },
    /// Something is found that the run can't go on with, such as a store that is gone.
    Failure,
    /// From now on every I/O of the drive fails.
    DriveDies(usize),
    /// No I/O of the drive ends, for so long or for good.
    DriveFallsSilent(usize, Option<Nanos>),
    /// The shard does nothing any more, which its watchdog tells so much later.
    ShardIsStuck(u16, Nanos),
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Incident {
    pub(super) phase: Phase,
    /// So long after the phase began; none where that is over by then.
    pub(super) after: Nanos,
    pub(super) what: What,
}

/// See the module.
pub(super) struct Fate {
    /// Durations of the phases in which no shard works: open, precondition, assemble, report.
    takes: [Nanos; 4],
    pub(super) warmup: Nanos,
    pub(super) ends_when_exhausted: bool,
    /// The requests of each shard, where they come from a trace.
    pub(super) rows: Option<Vec<Vec<SourceRequest>>>,
    /// Time without an ended I/O that ends the run.
    pub(super) silence_max: Nanos,
    pub(super) incidents: Vec<Incident>,
}

impl Fate {
    /// The fate of the system of that seed, with so many shards and drives, whose window is that
    /// long.
    pub(super) fn draw(seed: u64, shards: u16, drives: usize, runs_for: Nanos) -> Fate {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed ^ STREAM);
        let rng = &mut rng;
        let takes = [(); 4].map(|()| match rng.random() {
            true => time_within(rng, Nanos::ZERO..TAKES_MAX),
            false => Nanos::ZERO,
        });
        let warmup = match rng.random_range(0..3) {
            0 => time_within(rng, Nanos::ZERO..SECOND),
            _ => Nanos::ZERO,
        };
        let rows = (rng.random_range(0..5) == 0).then(|| rows(rng, shards, warmup + runs_for));
        let number = if rng.random() { 0 } else { rng.random_range(1..=3) };
        let mut fate = Fate {
            takes,
            warmup,
            ends_when_exhausted: rng.random(),
            rows,
            silence_max: rng.random_range(1..=10u64) * SECOND,
            incidents: Vec::new(),
        };
        for _ in 0..number {
            let phase = PHASES[rng.random_range(0..PHASES.len())];
            let longest = fate.lasts(phase, runs_for).max(MILLISECOND);
            let after = time_within(rng, Nanos::ZERO..longest);
            let what = what(rng, shards, drives);
            fate.incidents.push(Incident { phase, after, what });
        }
        fate
    }

    /// Duration of a phase in which no shard works.
    pub(super) fn takes(&self, phase: Phase) -> Nanos {
        match phase {
            Phase::Open => self.takes[0],
            Phase::Precondition => self.takes[1],
            Phase::Assemble => self.takes[2],
            Phase::Report => self.takes[3],
            _ => Nanos::ZERO,
        }
    }

    /// About how long a phase lasts, for incidents that are to hit it.
    fn lasts(&self, phase: Phase, runs_for: Nanos) -> Nanos {
        match phase {
            Phase::WarmUp => self.warmup,
            Phase::Measure => runs_for,
            Phase::Populate | Phase::Drain => 200 * MILLISECOND,
            other => self.takes(other),
        }
    }

    /// Whether something of that kind is to happen.
    pub(super) fn has(&self, is_it: impl Fn(&What) -> bool) -> bool {
        self.incidents.iter().any(|incident| is_it(&incident.what))
    }

    /// Whether a drive or a shard may show no sign of life for a while.
    pub(super) fn has_silence(&self) -> bool {
        self.has(|what| matches!(what, What::DriveFallsSilent(..) | What::ShardIsStuck(..)))
    }
}

fn what(rng: &mut Xoshiro256PlusPlus, shards: u16, drives: usize) -> What {
    match rng.random_range(0..6) {
        0 | 1 => {
            let again = time_within(rng, MILLISECOND..5 * SECOND);
            What::Interrupt { again_after: rng.random::<bool>().then_some(again) }
        }
        2 => What::Failure,
        3 => What::DriveDies(rng.random_range(0..drives)),
        4 => {
            let lasts = time_within(rng, MILLISECOND..20 * SECOND);
            let lasts = rng.random::<bool>().then_some(lasts);
            What::DriveFallsSilent(rng.random_range(0..drives), lasts)
        }
        _ => {
            let told_after = time_within(rng, Nanos::ZERO..3 * SECOND);
            What::ShardIsStuck(rng.random_range(0..shards), told_after)
        }
    }
}

/// Requests of a trace for each shard, of which all or none have a time.
fn rows(rng: &mut Xoshiro256PlusPlus, shards: u16, until: Nanos) -> Vec<Vec<SourceRequest>> {
    let number = rng.random_range(0..120u64);
    let is_timed: bool = rng.random();
    let mut times: Vec<Nanos> =
        (0..number).map(|_| time_within(rng, Nanos::ZERO..until.max(MILLISECOND))).collect();
    times.sort_unstable();
    let mut rows = vec![Vec::new(); usize::from(shards)];
    for (sequence, at) in (0..).zip(times) {
        let user = rng.random_range(0..12u64);
        let blocks = (rng.random_range(0..3) == 0)
            .then(|| (0..rng.random_range(1..4u64)).map(|_| rng.random_range(0..20)).collect());
        let row = SourceRequest {
            arrival: is_timed.then_some(ringfall_workloads::contract::Nanos::from_ns(at.as_ns())),
            user,
            sequence,
            turn: if rng.random() { Turn::Next } else { Turn::Alone },
            context_tokens: rng.random_range(1..1_500),
            generate_tokens: rng.random_range(1..100),
            blocks,
            operation: None,
            cycle: 0,
        };
        // A user's requests are served by one shard; there are at most 12 users.
        rows[(user % u64::from(shards)) as usize].push(row);
    }
    rows
}
