//! The phases of a run: populate, gather, warm up, measure, drain. When one ends, and why, is
//! decided here and nowhere else: a pure state machine that is shown how things stand and says what
//! to do next.
//!
//! Its users are sets of shards ([`Shards`]): the threads of a real run, the shards on a simulated
//! clock, and the fault simulation. What differs between them is what the trait lets them say.

use std::convert::Infallible;

use ringfall_engine::clock::{Nanos, SECOND};

/// I/O errors after which a run has failed for good, rather than hammering a dead device.
pub const ERRORS_MAX: u64 = 1_000;
/// Longest a run goes on although not one I/O ends. The kernel gives an NVMe command 30 s
/// (`nvme_core.io_timeout`), resets the controller, and tries again.
pub const SILENCE_MAX: Nanos = Nanos::from_secs(120);
/// Longest wait for what is in flight when the run has already failed.
const SILENCE_AFTER_FAILURE_MAX: Nanos = Nanos::from_secs(10);
/// What one look adds to a silence at the most: a process that was stopped, or a machine that was
/// suspended, has not been silent.
const SILENCE_A_LOOK_MAX: Nanos = SECOND;
/// From telling the shards to start until they do: time for the message to arrive everywhere.
pub const START_DELAY: Nanos = Nanos::from_ms(20);
/// Shards are told so long before a moment that is known: a look that comes late, on a machine
/// whose cores are busy, must not move it.
const GATHER_LEAD: Nanos = Nanos::from_ms(250);

/// Why a run whose requests end in its warm-up measures nothing.
const SERVED_TOO_EARLY: &str = "every request was served before the warm-up was over, and none was \
                                measured: shorten the warm-up, or ask for more requests";

/// What a run is doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// Writing what must be there before measuring.
    Populate,
    /// Waiting for the moment at which the load begins.
    Gather,
    /// Running unmeasured.
    WarmUp,
    /// Running measured.
    Measure,
    /// Ending what is in flight.
    Drain,
}

/// Why a run ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Ending {
    /// Its time was over, or its requests were.
    Complete,
    /// A signal.
    Interrupted,
    /// It could not go on; the sentence says why.
    Failed(String),
}

/// How long the phases last, and what ends them early.
#[derive(Clone, Copy, Debug)]
pub struct PhasePlan {
    /// From [`Order::Start`] to the workload's time 0.
    pub start_delay: Nanos,
    /// Whether a run that is ready waits for a moment to begin at ([`Sight::begins`]).
    pub gathers: bool,
    /// Unmeasured time at the start.
    pub warmup: Nanos,
    /// Measured time.
    pub duration: Nanos,
    /// Whether the run ends when the workload has no more requests.
    pub ends_when_exhausted: bool,
    /// I/O errors that end it.
    pub errors_max: u64,
    /// Time without an ended I/O, while some are in flight, that ends it.
    pub silence_max: Nanos,
}

/// How things stand with the shards.
#[derive(Clone, Debug, Default)]
pub struct Sight {
    /// The time.
    pub now: Nanos,
    /// Every shard has written its population.
    pub is_populated: bool,
    /// When the load begins, once that is known; asked only of a run that gathers.
    pub begins: Option<Nanos>,
    /// Every shard that can has ended what was in flight.
    pub is_drained: bool,
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
    /// I/O errors so far.
    pub errors: u64,
    /// I/Os in flight.
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

/// What the shards are told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
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
}

/// What to do next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
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

/// The machine.
#[derive(Debug)]
pub struct Phases {
    plan: PhasePlan,
    state: State,
    window: (Nanos, Nanos),
    ending: Option<Ending>,
    /// The last look: when, and what had ended.
    last: Option<(Nanos, u64)>,
    silence: Nanos,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    New,
    Populating,
    Gathering,
    WarmingUp,
    Measuring,
    Draining,
    Over,
}

impl Phases {
    /// A run that has not begun.
    #[must_use]
    pub fn new(plan: PhasePlan) -> Phases {
        Phases {
            plan,
            state: State::New,
            window: (Nanos::ZERO, Nanos::ZERO),
            ending: None,
            last: None,
            silence: Nanos::ZERO,
        }
    }

    /// What the run is doing.
    #[must_use]
    pub fn phase(&self) -> Phase {
        match self.state {
            State::New | State::Populating => Phase::Populate,
            State::Gathering => Phase::Gather,
            State::WarmingUp => Phase::WarmUp,
            State::Measuring => Phase::Measure,
            State::Draining | State::Over => Phase::Drain,
        }
    }

    /// Start and end of the measurement; final once the run drains.
    #[must_use]
    pub fn window(&self) -> (Nanos, Nanos) {
        self.window
    }

    /// Why it ended; complete, if nothing else happened.
    #[must_use]
    pub fn ending(&self) -> Ending {
        self.ending.clone().unwrap_or(Ending::Complete)
    }

    /// The next step. Every step that is not a wait changes the state, so that between two waits
    /// there are at most four.
    pub fn next(&mut self, sight: &Sight) -> Step {
        self.listen(sight);
        match self.state {
            State::New => {
                self.state = State::Populating;
                Step::Tell(Order::Populate)
            }
            State::Populating => {
                self.ending = self.reason_to_end(sight);
                if self.ending.is_none() && !sight.is_populated {
                    return Step::Wait { until: Nanos::MAX };
                }
                if self.ending.is_none() && self.plan.gathers {
                    self.state = State::Gathering;
                    return Step::Wait { until: sight.now };
                }
                self.start(sight.now.saturating_add(self.plan.start_delay))
            }
            State::Gathering => {
                self.ending = self.reason_to_end(sight);
                let soonest = sight.now.saturating_add(self.plan.start_delay);
                match (&self.ending, sight.begins) {
                    (Some(_), _) => self.start(soonest),
                    (None, None) => Step::Wait { until: Nanos::MAX },
                    (None, Some(at)) if at > soonest.saturating_add(GATHER_LEAD) => {
                        Step::Wait { until: at.saturating_sub(GATHER_LEAD) }
                    }
                    (None, Some(at)) => self.start(at.max(soonest)),
                }
            }
            State::WarmingUp => {
                self.ending = self.ending.take().or_else(|| self.reason_to_end(sight));
                // Without one, the time until the shards have begun is spent here.
                let has_warmup = self.plan.warmup > Nanos::ZERO && self.plan.ends_when_exhausted;
                if self.ending.is_none() && has_warmup && sight.is_exhausted {
                    self.ending = Some(Ending::Failed(SERVED_TOO_EARLY.to_owned()));
                }
                if self.ending.is_none() && sight.now < self.window.0 {
                    return Step::Wait { until: self.window.0 };
                }
                self.state = State::Measuring;
                Step::Tell(Order::BeginWindow)
            }
            State::Measuring => {
                self.ending = self.ending.take().or_else(|| self.end_of_window(sight));
                if self.ending.is_none() {
                    return Step::Wait { until: self.window.1 };
                }
                self.window.1 = self.window.1.min(sight.now).max(self.window.0);
                self.state = State::Draining;
                self.silence = Nanos::ZERO;
                Step::Tell(Order::Stop { window_end: self.window.1 })
            }
            State::Draining => self.drain(sight),
            State::Over => Step::End,
        }
    }

    /// The load begins then.
    fn start(&mut self, origin: Nanos) -> Step {
        let start = origin.saturating_add(self.plan.warmup);
        self.window = (start, start.saturating_add(self.plan.duration));
        self.state = State::WarmingUp;
        Step::Tell(Order::Start { origin, window: self.window })
    }

    /// Measures how long nothing has ended although something should.
    fn listen(&mut self, sight: &Sight) {
        let awaits = match self.state {
            State::New | State::Gathering | State::Over => false,
            State::Populating | State::Draining => true,
            // Users may think and generate for as long as they like.
            State::WarmingUp | State::Measuring => sight.in_flight > 0 || sight.operations > 0,
        };
        // A shard that gets no core can't say what has ended: no device is to blame. After a
        // failure it gets no more time than the others.
        let is_failed = matches!(self.ending, Some(Ending::Failed(_)));
        let awaits = awaits && (is_failed || !sight.is_unheard);
        let (before, ended) = self.last.replace((sight.now, sight.ended)).unwrap_or_default();
        if !awaits || ended != sight.ended || before == Nanos::ZERO {
            self.silence = Nanos::ZERO;
        } else {
            self.silence += sight.now.saturating_sub(before).min(SILENCE_A_LOOK_MAX);
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

    fn drain(&mut self, sight: &Sight) -> Step {
        let is_failed = matches!(self.ending, Some(Ending::Failed(_)));
        if let (Some(failure), false) = (&sight.failure, is_failed) {
            self.ending = Some(Ending::Failed(failure.clone()));
        }
        if sight.is_abandoned && self.ending == Some(Ending::Complete) {
            self.ending = self.reason_to_end(sight).or(self.ending.take());
        }
        // Who interrupts does not wait for a device that may be dead.
        let is_hurried =
            is_failed || self.ending == Some(Ending::Interrupted) || sight.is_interrupted;
        let patience = match is_hurried {
            true => SILENCE_AFTER_FAILURE_MAX.min(self.plan.silence_max),
            false => self.plan.silence_max,
        };
        let gives_up = self.silence >= patience;
        if gives_up && !is_failed {
            self.ending = Some(match is_hurried {
                true => Ending::Interrupted,
                false => self.silent(sight),
            });
        }
        if sight.is_drained || sight.is_abandoned || gives_up {
            self.state = State::Over;
            return Step::End;
        }
        Step::Wait { until: Nanos::MAX }
    }
}

/// A set of shards that a run is made of.
pub trait Shards {
    /// What makes going on senseless, so that there is nothing to report either.
    type Broken;

    /// How things stand.
    ///
    /// # Errors
    /// When they can't go on.
    fn sight(&mut self, phase: Phase) -> Result<Sight, Self::Broken>;

    /// Carries an order to every shard.
    ///
    /// # Errors
    /// When they can't go on.
    fn obey(&mut self, order: Order) -> Result<(), Self::Broken>;

    /// Hears why the window ends, before [`Order::Stop`].
    fn ends(&mut self, _why: &Ending) {}

    /// Lets time pass, until then at the most; returns when something may have changed.
    ///
    /// # Errors
    /// When they can't go on.
    fn pass_time(&mut self, phase: Phase, until: Nanos) -> Result<(), Self::Broken>;
}

/// Runs the shards through the phases to the end.
///
/// # Errors
/// What breaks them.
pub fn conduct<S: Shards>(plan: PhasePlan, shards: &mut S) -> Result<Phases, S::Broken> {
    let mut phases = Phases::new(plan);
    loop {
        let sight = shards.sight(phases.phase())?;
        match phases.next(&sight) {
            Step::Tell(order) => {
                if matches!(order, Order::Stop { .. }) {
                    shards.ends(&phases.ending());
                }
                shards.obey(order)?;
            }
            Step::Wait { until } => shards.pass_time(phases.phase(), until)?,
            Step::End => return Ok(phases),
        }
    }
}

/// The same, for shards that nothing breaks.
pub fn conduct_to_the_end<S: Shards<Broken = Infallible>>(
    plan: PhasePlan,
    shards: &mut S,
) -> Phases {
    match conduct(plan, shards) {
        Ok(phases) => phases,
        Err(never) => match never {},
    }
}

#[cfg(test)]
#[path = "phases_test.rs"]
mod tests;
