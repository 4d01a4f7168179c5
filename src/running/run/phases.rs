//! The phases of a run: open, precondition, assemble, populate, gather, warm up, measure, drain,
//! report. When one ends, and why, is decided here and nowhere else: a pure state machine that is
//! shown how things stand and says what to do next.
//!
//! Who carries the orders out, and shows how things stand, is in [`super::conduct`].

use std::fmt;

use ringfall_core::clock::{Nanos, SECOND};
use ringfall_core::named;

/// I/O errors after which a run has failed for good, rather than hammering a dead device.
pub const ERRORS_MAX: u64 = 1_000;
/// Longest a run goes on although not one I/O ends. The kernel gives an NVMe command 30 s
/// (`nvme_core.io_timeout`), resets the controller, and tries again.
pub const SILENCE_MAX: Nanos = Nanos::from_secs(120);
/// Longest wait for what is in flight when the run has already failed.
const SILENCE_AFTER_FAILURE_MAX: Nanos = Nanos::from_secs(10);
/// Longest wait for what is in flight once somebody has interrupted the run, though I/Os end now
/// and then: a drive of 0.1 MB/s takes 10 s for each of 1 MiB.
const INTERRUPTED_DRAIN_MAX: Nanos = Nanos::from_secs(10);
/// Largest silence that one look adds: a process that was stopped, or a machine that was suspended,
/// has not been silent.
pub(super) const SILENCE_A_LOOK_MAX: Nanos = SECOND;
/// From telling the shards to start until they do: time for the message to arrive everywhere.
pub const START_DELAY: Nanos = Nanos::from_ms(20);
/// Silence in the drain after which partial results are saved.
const KEEP_AFTER_SILENCE: Nanos = Nanos::from_secs(5);
/// Shards are told so long before a moment that is known: a look that comes late, on a machine
/// whose cores are busy, must not move it.
const GATHER_LEAD: Nanos = Nanos::from_ms(250);

/// Why a run whose requests end in its warm-up measures nothing.
const SERVED_TOO_EARLY: &str = "every request was served before the warm-up was over, and none was \
                                measured: shorten the warm-up, or ask for more requests";

named! {
/// Phases of a run, in the order in which they follow each other.
#[derive(PartialOrd, Ord)]
pub enum Phase {
    /// Opening the store: directories, devices or buckets, and the space in them.
    Open = "open",
    /// Doing with the store what is to be done before the run: writing the device full, measuring
    /// its roofline.
    Precondition = "precondition",
    /// Starting the shards, each with its ring, buffers and memory.
    Assemble = "assemble",
    /// Writing what must be there before measuring.
    Populate = "populate",
    /// Waiting for the moment at which the load begins.
    Gather = "gather",
    /// Running unmeasured.
    WarmUp = "warm_up",
    /// Running measured.
    Measure = "measure",
    /// Ending what is in flight.
    Drain = "drain",
    /// Collecting what the shards measured.
    Report = "report",
}
}

impl Phase {
    /// Activity in the phase, as log lines, errors and progress put it: "while populating".
    pub fn doing(self) -> &'static str {
        match self {
            Phase::Open => "opening the store",
            Phase::Precondition => "preconditioning",
            Phase::Assemble => "starting the shards",
            Phase::Populate => "populating",
            Phase::Gather => "waiting for the load to begin",
            Phase::WarmUp => "warming up",
            Phase::Measure => "measuring",
            Phase::Drain => "ending what is in flight",
            Phase::Report => "collecting what was measured",
        }
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.doing())
    }
}

/// Why a run ended.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub enum Ending {
    /// Its time was over, or its requests were.
    #[default]
    Complete,
    /// A signal.
    Interrupted,
    /// It could not go on; the sentence says why.
    Failed(String),
}

/// Durations of the phases, and limits that end them early.
#[derive(Clone, Copy, Debug)]
pub struct PhasePlan {
    /// From [`Order::Start`] to the workload's time 0.
    pub start_delay: Nanos,
    /// Whether a run that is ready waits for a moment to begin at ([`Sight::begins`]).
    pub gathers: bool,
    /// Unmeasured time at the start.
    pub warmup: Nanos,
    /// Length of the measurement window.
    pub duration: Nanos,
    /// Whether the run ends when the workload has no more requests.
    pub ends_when_exhausted: bool,
    /// I/O errors that end it.
    pub errors_max: u64,
    /// Time without an ended I/O, while some are in flight, that ends it.
    pub silence_max: Nanos,
}

/// Snapshot of the shards' state.
#[derive(Clone, Debug, Default)]
pub struct Sight {
    /// Time of the snapshot, on the clock of the shards.
    pub now: Nanos,
    /// Whether what the phase's order asked for is done, by every shard from which something is to
    /// be expected: the store is open, the population is written, nothing is in flight. Not asked
    /// while the load runs.
    pub is_done: bool,
    /// When the load begins, once that is known; asked only of a run that gathers.
    pub begins: Option<Nanos>,
    /// No shard has anything left to do, now or later.
    pub is_exhausted: bool,
    /// Somebody asked the run to end.
    pub is_interrupted: bool,
    /// The autoscaler has its answer.
    pub has_answer: bool,
    /// Nobody waits for what is in flight any more; the reason is one of the others.
    pub is_abandoned: bool,
    /// A tier is taking more space, or memory, at this moment.
    pub is_taking_space: bool,
    /// I/O errors so far, but for those of drives that the run goes on without.
    pub errors: u64,
    /// Number of I/Os that are submitted and not completed, over all shards.
    pub in_flight: u32,
    /// Operations under way, those that wait for room or for their turn included.
    pub operations: u32,
    /// A shard shows no sign of life, so that what it said of its I/Os is old; the watchdog sees to
    /// it.
    pub is_unheard: bool,
    /// I/Os and operations that have ended so far.
    pub ended: u64,
    /// Why the run can't go on, if it can't.
    pub failure: Option<String>,
}

/// Orders to the shards.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Order {
    /// Open the store.
    Open,
    /// Do with the store what is to be done before the run.
    Precondition,
    /// Start the shards.
    Assemble,
    /// Write what must be there before measuring.
    Populate,
    /// Begin.
    Start {
        /// The workload's time 0.
        origin: Nanos,
        /// Start and end of the measurement.
        window: (Nanos, Nanos),
    },
    /// The measurement window begins: the moment to sample counters.
    BeginWindow,
    /// End what is in flight; nothing new begins.
    Stop {
        /// The window ends here.
        window_end: Nanos,
    },
    /// Hand over what was measured so far: the run ends early, and nobody knows whether the process
    /// lives until everything has ended. It comes after [`Order::Stop`], once for each kind of
    /// ending.
    Keep {
        /// Why the run ends, as far as that is known now.
        ending: Ending,
    },
    /// Collect what was measured. It is the last order of every run, also of one that never began.
    Report {
        /// Why the run ended.
        ending: Ending,
        /// Start and end of the measurement; the same moment for a run that never began.
        window: (Nanos, Nanos),
    },
}

/// Next step of the run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NextStep {
    /// Tell the shards.
    Tell(Order),
    /// Let time pass, until then at the most, and look again.
    Wait {
        /// `MAX`: nothing is due.
        until: Nanos,
    },
    /// The run is over.
    End,
}

/// The state machine of one run, fed with [`Sight`]s; see the module.
#[derive(Debug)]
pub struct PhaseMachine {
    plan: PhasePlan,
    phase: Phase,
    /// Whether the first order has been given.
    has_begun: bool,
    /// Whether the drain is over, though what came of it may still be handed over.
    has_drained: bool,
    is_over: bool,
    /// Start and end of the measurement; final once the run drains.
    window: (Nanos, Nanos),
    ending: Option<Ending>,
    /// The last look: when, and what had ended.
    last: Option<(Nanos, u64)>,
    silence: Nanos,
    /// When it was first seen that somebody interrupts.
    interrupted_at: Option<Nanos>,
    /// Why the window ended, once it has.
    stopped_for: Ending,
    /// Number of I/Os that had ended when it last grew in the drain, and the time of that.
    progress: Option<(u64, Nanos)>,
    /// Ending under which a partial result was last saved.
    kept: Option<Ending>,
}

impl PhaseMachine {
    /// A run that has not begun.
    pub fn new(plan: PhasePlan) -> PhaseMachine {
        PhaseMachine {
            plan,
            phase: Phase::Open,
            has_begun: false,
            has_drained: false,
            is_over: false,
            window: (Nanos::ZERO, Nanos::ZERO),
            ending: None,
            last: None,
            silence: Nanos::ZERO,
            interrupted_at: None,
            stopped_for: Ending::Complete,
            progress: None,
            kept: None,
        }
    }

    /// Phase that the run is in.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// Why it ended; complete, if nothing else happened.
    pub fn ending(&self) -> Ending {
        self.ending.clone().unwrap_or_default()
    }

    /// Chooses the next step. Every step but a wait enters a phase; only the drain's repeats, to
    /// save partial results at most three times, so the number of steps between waits is bounded.
    pub fn next(&mut self, sight: &Sight) -> NextStep {
        self.listen(sight);
        match self.phase {
            Phase::Open if !self.has_begun => {
                self.has_begun = true;
                NextStep::Tell(Order::Open)
            }
            Phase::Open => self.once_ready(sight, Phase::Precondition, Order::Precondition),
            Phase::Precondition => self.once_ready(sight, Phase::Assemble, Order::Assemble),
            Phase::Assemble => self.once_ready(sight, Phase::Populate, Order::Populate),
            Phase::Populate => {
                self.ending = self.reason_to_end(sight);
                if self.ending.is_none() && !sight.is_done {
                    return NextStep::Wait { until: Nanos::MAX };
                }
                if self.ending.is_none() && self.plan.gathers {
                    self.phase = Phase::Gather;
                    return NextStep::Wait { until: sight.now };
                }
                // Also where the run is to end: shards that may still be writing are started,
                // stopped and drained as all are, in a window of no length.
                self.start(sight.now.saturating_add(self.plan.start_delay))
            }
            Phase::Gather => self.gather(sight),
            Phase::WarmUp => self.warm_up(sight),
            Phase::Measure => self.measure(sight),
            Phase::Drain if self.has_drained => self.report(),
            Phase::Drain => self.drain(sight),
            Phase::Report if !sight.is_done && !self.is_over => {
                NextStep::Wait { until: Nanos::MAX }
            }
            Phase::Report => {
                self.is_over = true;
                NextStep::End
            }
        }
    }

    fn enter(&mut self, phase: Phase, order: Order) -> NextStep {
        let before = std::mem::replace(&mut self.phase, phase);
        assert!(phase > before, "phases only follow each other: {phase:?} after {before:?}");
        NextStep::Tell(order)
    }

    /// Before there are shards: goes on when what was asked for is there, and reports at once when
    /// the run is to end, as nothing is in flight.
    fn once_ready(&mut self, sight: &Sight, next: Phase, order: Order) -> NextStep {
        self.ending = self.reason_to_end(sight);
        if self.ending.is_some() {
            self.window = (sight.now, sight.now);
            return self.report();
        }
        match sight.is_done {
            true => self.enter(next, order),
            false => NextStep::Wait { until: Nanos::MAX },
        }
    }

    fn gather(&mut self, sight: &Sight) -> NextStep {
        self.ending = self.reason_to_end(sight);
        let soonest = sight.now.saturating_add(self.plan.start_delay);
        match (&self.ending, sight.begins) {
            (Some(_), _) => self.start(soonest),
            (None, None) => NextStep::Wait { until: Nanos::MAX },
            (None, Some(at)) if at > soonest.saturating_add(GATHER_LEAD) => {
                NextStep::Wait { until: at.saturating_sub(GATHER_LEAD) }
            }
            (None, Some(at)) => self.start(at.max(soonest)),
        }
    }

    fn warm_up(&mut self, sight: &Sight) -> NextStep {
        self.ending = self.ending.take().or_else(|| self.reason_to_end(sight));
        // Without one, the time until the shards have begun is spent here.
        let has_warmup = self.plan.warmup > Nanos::ZERO && self.plan.ends_when_exhausted;
        if self.ending.is_none() && has_warmup && sight.is_exhausted {
            self.ending = Some(Ending::Failed(SERVED_TOO_EARLY.to_owned()));
        }
        if self.ending.is_none() && sight.now < self.window.0 {
            return NextStep::Wait { until: self.window.0 };
        }
        self.enter(Phase::Measure, Order::BeginWindow)
    }

    fn measure(&mut self, sight: &Sight) -> NextStep {
        self.ending = self.ending.take().or_else(|| self.end_of_window(sight));
        let Some(why) = &self.ending else {
            return NextStep::Wait { until: self.window.1 };
        };
        self.stopped_for = why.clone();
        self.window.1 = self.window.1.min(sight.now).max(self.window.0);
        self.silence = Nanos::ZERO;
        self.enter(Phase::Drain, Order::Stop { window_end: self.window.1 })
    }

    /// The last order, after what was measured was handed over by a run that has failed: threads
    /// and files may not end either.
    fn report(&mut self) -> NextStep {
        let ending = self.ending();
        if self.has_drained
            && matches!(ending, Ending::Failed(_))
            && self.kept.as_ref() != Some(&ending)
        {
            return self.keep(ending);
        }
        self.enter(Phase::Report, Order::Report { ending, window: self.window })
    }

    fn keep(&mut self, ending: Ending) -> NextStep {
        assert!(self.phase >= Phase::Drain, "nothing is kept before the window has ended");
        self.kept = Some(ending.clone());
        NextStep::Tell(Order::Keep { ending })
    }

    /// Returns the ending under which a partial result should be saved now, if any. The wait of the
    /// drain may be in vain: a second interrupt ends the process at once, and a device that does
    /// not answer may block this process, too, when its file is deleted.
    fn worth_keeping(&mut self, sight: &Sight) -> Option<Ending> {
        let (ended, since) = match self.progress {
            Some(known) if known.0 == sight.ended => known,
            _ => (sight.ended, sight.now),
        };
        self.progress = Some((ended, since));
        let ending = if self.stopped_for != Ending::Complete {
            self.stopped_for.clone()
        } else if sight.is_interrupted {
            Ending::Interrupted
        } else if sight.now.saturating_sub(since) >= KEEP_AFTER_SILENCE {
            Ending::Failed(format!(
                "what was in flight at the end of the window has not ended since: nothing has \
                 ended for {} s, and this result was written while the run waited",
                KEEP_AFTER_SILENCE / SECOND
            ))
        } else {
            return None;
        };
        (self.kept.as_ref() != Some(&ending)).then_some(ending)
    }

    /// The load begins then.
    fn start(&mut self, origin: Nanos) -> NextStep {
        let start = origin.saturating_add(self.plan.warmup);
        self.window = (start, start.saturating_add(self.plan.duration));
        self.enter(Phase::WarmUp, Order::Start { origin, window: self.window })
    }

    /// Measures how long nothing has ended although something should.
    fn listen(&mut self, sight: &Sight) {
        let awaits = match self.phase {
            // Opening and reporting have bounds of their own.
            Phase::Open | Phase::Precondition | Phase::Assemble | Phase::Report => false,
            Phase::Gather => false,
            Phase::Populate => true,
            // Users may think and generate for as long as they like.
            Phase::WarmUp | Phase::Measure => sight.in_flight > 0 || sight.operations > 0,
            Phase::Drain => !self.has_drained,
        };
        // A shard that gets no core can't say what has ended: no device is to blame. After a
        // failure it gets no more time than the others.
        let is_failed = matches!(self.ending, Some(Ending::Failed(_)));
        let awaits = awaits && (is_failed || !sight.is_unheard);
        if sight.is_interrupted {
            self.interrupted_at.get_or_insert(sight.now);
        }
        match self.last.replace((sight.now, sight.ended)) {
            Some((before, ended)) if awaits && ended == sight.ended => {
                self.silence += sight.now.saturating_sub(before).min(SILENCE_A_LOOK_MAX);
            }
            _ => self.silence = Nanos::ZERO,
        }
    }

    fn reason_to_end(&self, sight: &Sight) -> Option<Ending> {
        if sight.is_interrupted {
            return Some(Ending::Interrupted);
        }
        if let Some(failure) = &sight.failure {
            return Some(Ending::Failed(failure.clone()));
        }
        if sight.errors >= self.plan.errors_max {
            return Some(Ending::Failed(format!("stopped after {} I/O errors", sight.errors)));
        }
        (self.silence >= self.plan.silence_max).then(|| self.silent(sight))
    }

    fn silent(&self, sight: &Sight) -> Ending {
        let (seconds, in_flight) = (self.silence / SECOND, sight.in_flight);
        Ending::Failed(match in_flight {
            0 if sight.is_taking_space => format!(
                "nothing has ended for {seconds} s, with {} operations under way that wait for a \
                 tier to grow: the file system or the kernel does not give the space; look at \
                 dmesg (--preallocate reserve takes all of the storage tier's before the run)",
                sight.operations
            ),
            // No device can be waited for: they wait for each other.
            0 => format!(
                "nothing has ended for {seconds} s, with {} operations under way and no I/O in \
                 flight: this is a bug in ringfall; please report it with the command line",
                sight.operations
            ),
            _ => format!(
                "no I/O has ended for {seconds} s, with {in_flight} in flight: the device does \
                 not answer, look at dmesg"
            ),
        })
    }

    fn end_of_window(&self, sight: &Sight) -> Option<Ending> {
        if sight.is_interrupted {
            return Some(Ending::Interrupted);
        }
        if sight.now >= self.window.1 {
            return Some(Ending::Complete);
        }
        let exhausted = self.plan.ends_when_exhausted && sight.is_exhausted;
        let reason = self.reason_to_end(sight);
        reason.or_else(|| (sight.has_answer || exhausted).then_some(Ending::Complete))
    }

    fn drain(&mut self, sight: &Sight) -> NextStep {
        if let Some(ending) = self.worth_keeping(sight) {
            return self.keep(ending);
        }
        let is_failed = matches!(self.ending, Some(Ending::Failed(_)));
        if let (Some(failure), false) = (&sight.failure, is_failed) {
            self.ending = Some(Ending::Failed(failure.clone()));
        }
        if sight.is_abandoned && self.ending == Some(Ending::Complete) {
            self.ending = self.reason_to_end(sight).or(self.ending.take());
        }
        // Its window is whole, but a script that is told to end must not take it for done.
        if sight.is_interrupted && self.ending == Some(Ending::Complete) {
            self.ending = Some(Ending::Interrupted);
        }
        // Who interrupts does not wait for a device that may be dead.
        let is_hurried = is_failed || self.ending == Some(Ending::Interrupted);
        let patience = match is_hurried {
            true => SILENCE_AFTER_FAILURE_MAX.min(self.plan.silence_max),
            false => self.plan.silence_max,
        };
        let since_interrupt = self.interrupted_at.map(|at| sight.now.saturating_sub(at));
        let gives_up = self.silence >= patience
            || since_interrupt.is_some_and(|since| since >= INTERRUPTED_DRAIN_MAX);
        if gives_up && !is_failed {
            self.ending = Some(match is_hurried {
                true => Ending::Interrupted,
                false => self.silent(sight),
            });
        }
        if sight.is_done || sight.is_abandoned || gives_up {
            self.has_drained = true;
            return self.report();
        }
        NextStep::Wait { until: Nanos::MAX }
    }
}

#[cfg(test)]
#[path = "phases_test.rs"]
mod tests;
