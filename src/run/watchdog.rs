//! Watches the shards' heartbeats. A shard that shows none is woken; what its thread does meanwhile
//! is told apart (it spins, sleeps, is held by the kernel, gets no core), and bounds how long it is
//! waited for.

use std::sync::Arc;

use ringfall_engine::clock::{MILLISECOND, Nanos, SECOND};
use ringfall_engine::shard::executor::{Pulse, Vitals};
use ringfall_engine::shard::{ThreadSample, ThreadState};

/// So many missed heartbeats are worth a message to the shard, which un-sticks an executor that
/// parked with runnable tasks; a busy one only finds it in its inbox.
const BEATS_UNTIL_LATE: u32 = 10;
/// This is a stall, which the results tell; what no message wakes, a signal does.
const STALLED_AFTER: Nanos = SECOND;
/// A stall that has lasted so long is told at once, with what the thread does, unless that is a
/// long step that is known: on a machine with fewer cores than shards, a shard that fills an entry
/// of a GiB takes seconds.
const ALARM_AFTER: Nanos = Nanos::from_secs(5);
/// A thread is looked at so often while it is stalled.
const SAMPLE_PERIOD: Nanos = SECOND;
/// What one look adds to a silence at the most: a process that was stopped, or a machine that was
/// suspended, has not been silent.
const SILENCE_A_LOOK_MAX: Nanos = SECOND;

/// What keeps a thread from showing a sign of life.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Hold {
    /// It uses a core and gets nowhere.
    Spins {
        /// Most of that time is the kernel's.
        in_kernel: bool,
    },
    /// It is ready to run and has no core, or somebody has stopped it.
    Starved,
    /// The kernel holds it, in that function: usually a device that does not answer.
    Held(String),
    /// It sleeps, in that function of the kernel, and nothing wakes it.
    Sleeps(String),
    /// It touches memory for the first time.
    Faults,
    /// It has ended.
    Gone,
}

impl Hold {
    /// What two looks at a thread, `elapsed` apart, say of it.
    fn between(before: &ThreadSample, after: &ThreadSample, elapsed: Nanos) -> Hold {
        let user = after.user.saturating_sub(before.user);
        let system = after.system.saturating_sub(before.system);
        let waited = after.waited_for_core.saturating_sub(before.waited_for_core);
        match after.state {
            ThreadState::Gone => Hold::Gone,
            ThreadState::Stopped => Hold::Starved,
            _ if after.page_faults > before.page_faults + FAULTS_OF_A_SPIN => Hold::Faults,
            _ if user + system > elapsed / 2 => Hold::Spins { in_kernel: system > user },
            _ if waited > elapsed / 2 => Hold::Starved,
            ThreadState::Held => Hold::Held(after.kernel_function.clone()),
            // Ready, without having had a core for long: the counters move when it gets one.
            ThreadState::Running => Hold::Starved,
            ThreadState::Sleeping => Hold::Sleeps(after.kernel_function.clone()),
        }
    }

    /// How long a thread in that state is waited for.
    fn patience(&self) -> Nanos {
        match self {
            Hold::Spins { .. } | Hold::Sleeps(_) => 30 * SECOND,
            // The kernel gives an NVMe command 30 s, and tries again after a reset.
            Hold::Held(_) => 120 * SECOND,
            Hold::Starved | Hold::Faults => 600 * SECOND,
            Hold::Gone => Nanos::ZERO,
        }
    }
}

/// Pages that a thread touches in a second without that being what it does.
const FAULTS_OF_A_SPIN: u64 = 100;

impl std::fmt::Display for Hold {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let place = |function: &str| match function {
            "" => String::new(),
            function => format!(", in {function}"),
        };
        match self {
            Hold::Spins { in_kernel: false } => f.write_str(
                "its thread keeps a core busy and makes no progress, which is a defect of ringfall",
            ),
            Hold::Spins { in_kernel: true } => f.write_str(
                "its thread spends its time in the kernel and makes no progress: look at dmesg, \
                 and report it as a defect of ringfall if nothing is there",
            ),
            Hold::Starved => f.write_str(
                "its thread was ready to run but got no core: use fewer --shards, or stop what \
                 else runs on this machine",
            ),
            Hold::Held(function) => write!(
                f,
                "the kernel holds its thread{}: the device does not answer, look at dmesg",
                place(function)
            ),
            Hold::Sleeps(function) => {
                write!(f, "its thread sleeps{} and nothing wakes it", place(function))
            }
            Hold::Faults => f.write_str("its thread still touches its memory for the first time"),
            Hold::Gone => f.write_str("its thread has ended"),
        }
    }
}

/// What the watchdog has seen of one shard.
#[derive(Clone, Debug, Default)]
struct Seen {
    beat: Nanos,
    looked: Nanos,
    /// Time without a heartbeat, in looks of a second at the most.
    silence: Nanos,
    late: bool,
    nudges: u64,
    stalled: bool,
    stalls: u64,
    /// Whether this stall was told.
    alarmed: bool,
    /// The thread when it was last looked at, and when that was.
    sample: Option<(Nanos, ThreadSample)>,
}

/// What to do about a shard.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// It lives.
    Alive,
    /// It has given no heartbeat yet: wake its thread, say nothing.
    NotBegun,
    /// It is late, for the first time since its last heartbeat: wake it, say nothing.
    Late,
    /// It has missed a second of heartbeats, or more: keep waking it.
    Stalled,
    /// It has been stalled for so long that somebody should know, which is said once of a stall.
    Alarm {
        /// Time without a sign of life.
        silence: Nanos,
        /// What its thread does.
        hold: Hold,
    },
    /// Give up.
    Stuck {
        /// Time without a sign of life.
        silence: Nanos,
        /// What its thread does.
        hold: Hold,
    },
}

/// Watches the heartbeats of all shards; see the module.
pub struct Watchdog {
    vitals: Vec<Arc<Vitals>>,
    seen: Vec<Seen>,
    late_after: Nanos,
}

/// Figures for the report.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct WatchdogFigures {
    /// Times a shard missed a second of heartbeats.
    pub stalls: u64,
    /// Times a shard was woken because a heartbeat was late by 50 ms.
    pub nudges: u64,
    /// Longest time between two heartbeats of a shard, ns.
    pub heartbeat_gap_max_ns: u64,
    /// Heartbeats of all shards.
    pub heartbeats: u64,
}

impl Watchdog {
    /// A watchdog for the shards that give these vital signs, `pulse` apart.
    #[must_use]
    pub fn new(vitals: Vec<Arc<Vitals>>, pulse: Pulse) -> Watchdog {
        let seen = vec![Seen::default(); vitals.len()];
        let late = pulse.heartbeat() * BEATS_UNTIL_LATE;
        let late_ns = late.as_nanos().min(u128::from(STALLED_AFTER.as_ns()));
        let late_after = Nanos::from_ns(late_ns as u64);
        Watchdog { vitals, seen, late_after: late_after.max(50 * MILLISECOND) }
    }

    /// Looks at shard `index`.
    pub fn look(&mut self, index: usize, now: Nanos) -> Verdict {
        let vitals = &self.vitals[index];
        let seen = &mut self.seen[index];
        let verdict = seen.judge(vitals.last_beat(), now, self.late_after);
        // A file to look for: only where something may be wrong.
        let is_late = now.saturating_sub(vitals.last_beat()) >= self.late_after;
        if is_late && vitals.has_ended() {
            return Verdict::Stuck { silence: seen.silence, hold: Hold::Gone };
        }
        match verdict {
            Verdict::Stalled => seen.look_at_thread(now, || vitals.thread_sample()),
            verdict => verdict,
        }
    }

    /// Whether shard `index` had missed a second of heartbeats when it was last looked at.
    #[must_use]
    pub fn is_stalled(&self, index: usize) -> bool {
        self.seen[index].stalled
    }

    /// Wakes the thread of shard `index`, whatever it sleeps in.
    pub fn interrupt(&self, index: usize) {
        self.vitals[index].interrupt();
    }

    /// Measures gaps from now on: opening a shard blocks its thread.
    pub fn forget_gaps(&self) {
        self.vitals.iter().for_each(|vitals| vitals.forget_gaps());
    }

    /// What was seen so far.
    #[must_use]
    pub fn figures(&self) -> WatchdogFigures {
        let gap_max = self.vitals.iter().map(|vitals| vitals.gap_max()).max();
        WatchdogFigures {
            stalls: self.seen.iter().map(|seen| seen.stalls).sum(),
            nudges: self.seen.iter().map(|seen| seen.nudges).sum(),
            heartbeat_gap_max_ns: gap_max.unwrap_or_default().as_ns(),
            heartbeats: self.vitals.iter().map(|v| v.beats()).sum(),
        }
    }
}

impl Seen {
    fn judge(&mut self, last_beat: Nanos, now: Nanos, late_after: Nanos) -> Verdict {
        let since_look = match std::mem::replace(&mut self.looked, now) {
            Nanos::ZERO => Nanos::ZERO,
            before => now.saturating_sub(before).min(SILENCE_A_LOOK_MAX),
        };
        self.silence += since_look;
        if self.beat != last_beat {
            self.beat = last_beat;
            self.silence = Nanos::ZERO;
        }
        let age = match last_beat {
            Nanos::ZERO => self.silence,
            beat => now.saturating_sub(beat),
        };
        if age < late_after {
            (self.late, self.stalled, self.alarmed, self.sample) = (false, false, false, None);
            return Verdict::Alive;
        }
        if age < STALLED_AFTER && last_beat == Nanos::ZERO {
            return Verdict::NotBegun;
        }
        if age < STALLED_AFTER {
            if std::mem::replace(&mut self.late, true) {
                return Verdict::Alive;
            }
            self.nudges += 1;
            return Verdict::Late;
        }
        // Opening a shard beats no heart, and is no stall.
        if last_beat != Nanos::ZERO && !std::mem::replace(&mut self.stalled, true) {
            self.stalls += 1;
        }
        Verdict::Stalled
    }

    /// Samples the thread of a shard that is stalled now and then, and judges by what it does.
    fn look_at_thread(
        &mut self,
        now: Nanos,
        sample: impl FnOnce() -> Option<ThreadSample>,
    ) -> Verdict {
        if let Some((then, _)) = &self.sample
            && now < *then + SAMPLE_PERIOD
        {
            return Verdict::Stalled;
        }
        // One whose thread is not known has not run a single instruction.
        let Some(sample) = sample() else {
            return self.told(Hold::Starved);
        };
        let Some((then, before)) = self.sample.replace((now, sample.clone())) else {
            return Verdict::Stalled;
        };
        let hold = Hold::between(&before, &sample, now - then);
        if hold == Hold::Faults {
            // As good as a heartbeat: memory of a terabyte takes minutes.
            self.silence = Nanos::ZERO;
        }
        self.told(hold)
    }

    /// What is to be said and done of a shard whose thread does that.
    fn told(&mut self, hold: Hold) -> Verdict {
        let silence = self.silence;
        if silence >= hold.patience() {
            return Verdict::Stuck { silence, hold };
        }
        match silence >= ALARM_AFTER && !std::mem::replace(&mut self.alarmed, true) {
            true => Verdict::Alarm { silence, hold },
            false => Verdict::Stalled,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: Nanos = Nanos::ZERO;
    const LATE_AFTER: Nanos = Nanos::from_ms(50);

    fn sample(state: ThreadState, busy: Nanos, waited_for_core: Nanos) -> ThreadSample {
        ThreadSample {
            state,
            user: busy / 4,
            system: busy - busy / 4,
            waited_for_core,
            page_faults: 0,
            kernel_function: "io_cqring_wait".into(),
        }
    }

    #[test]
    fn a_stall_is_counted_once() {
        let mut seen = Seen::default();
        let beat = SECOND;
        let mut judge = |beat, now| seen.judge(beat, now, LATE_AFTER);
        assert_eq!(judge(beat, beat + SECOND / 100), Verdict::Alive);
        assert_eq!(judge(beat, beat + SECOND / 4), Verdict::Late);
        assert_eq!(judge(beat, beat + SECOND / 2), Verdict::Alive);
        assert_eq!(judge(beat, beat + 2 * SECOND), Verdict::Stalled);
        assert_eq!(judge(beat, beat + 3 * SECOND), Verdict::Stalled);
        assert_eq!(judge(4 * SECOND, 4 * SECOND), Verdict::Alive);
        assert_eq!(judge(4 * SECOND, 6 * SECOND), Verdict::Stalled);
        assert_eq!((seen.stalls, seen.nudges), (2, 1));
    }

    #[test]
    fn a_stopped_process_has_not_been_silent() {
        let mut seen = Seen::default();
        seen.judge(SECOND, SECOND, LATE_AFTER);
        seen.judge(SECOND, 5_000 * SECOND, LATE_AFTER);
        assert_eq!(seen.silence, SECOND);
    }

    #[test]
    fn spins_sleeps_and_devices_are_told_apart() {
        let rest = sample(ThreadState::Sleeping, NONE, NONE);
        let between = |after: ThreadSample| Hold::between(&rest, &after, SECOND);
        let place = "io_cqring_wait".to_owned();
        for (after, hold) in [
            (sample(ThreadState::Running, SECOND, NONE), Hold::Spins { in_kernel: true }),
            (sample(ThreadState::Running, NONE, SECOND), Hold::Starved),
            (sample(ThreadState::Running, NONE, NONE), Hold::Starved),
            (sample(ThreadState::Stopped, NONE, NONE), Hold::Starved),
            (sample(ThreadState::Held, NONE, NONE), Hold::Held(place.clone())),
            (sample(ThreadState::Sleeping, SECOND / 100, NONE), Hold::Sleeps(place)),
            (sample(ThreadState::Gone, NONE, NONE), Hold::Gone),
        ] {
            assert_eq!(between(after), hold);
        }
        let code = ThreadSample { user: SECOND, ..rest.clone() };
        assert_eq!(between(code), Hold::Spins { in_kernel: false });
        let memory = ThreadSample { page_faults: 50_000, user: SECOND, ..rest.clone() };
        assert_eq!(between(memory), Hold::Faults);
    }

    /// When a shard without a heartbeat is given up, by what its thread does, s.
    fn given_up_after_s(first_beat: Nanos, thread: impl Fn(u64) -> ThreadSample) -> Option<u64> {
        given_up_of(first_beat, |second| Some(thread(second)))
    }

    fn given_up_of(first_beat: Nanos, thread: impl Fn(u64) -> Option<ThreadSample>) -> Option<u64> {
        let mut seen = Seen::default();
        (1..1_000).find(|&second| {
            let now = second * SECOND;
            let verdict = seen.judge(first_beat, now, LATE_AFTER);
            verdict == Verdict::Stalled
                && matches!(seen.look_at_thread(now, || thread(second)), Verdict::Stuck { .. })
        })
    }

    /// Seconds at which something is said of a shard whose thread does that from the first on.
    fn alarms_at_s(thread: impl Fn(u64) -> ThreadSample) -> Vec<u64> {
        let mut seen = Seen::default();
        let told = (1..25).filter(|&second| {
            let now = second * SECOND;
            seen.judge(SECOND, now, LATE_AFTER) == Verdict::Stalled
                && matches!(
                    seen.look_at_thread(now, || Some(thread(second))),
                    Verdict::Alarm { .. }
                )
        });
        told.collect()
    }

    /// Each start with more shards than cores warned of missed heartbeats.
    #[test]
    fn a_shard_that_does_a_known_long_step_is_no_alarm_and_one_that_is_stuck_is_one() {
        let spins = |second| sample(ThreadState::Running, second * SECOND, NONE);
        let faults = |second| ThreadSample { page_faults: second * 9_999, ..spins(second) };
        assert!(alarms_at_s(faults).is_empty(), "it sets up memory");
        // It fills a large entry, which takes four seconds.
        let fills = |second: u64| match second {
            ..5 => spins(second),
            _ => faults(second),
        };
        assert!(alarms_at_s(fills).is_empty());
        assert_eq!(alarms_at_s(spins).len(), 1, "said once");
        assert_eq!(alarms_at_s(|_| sample(ThreadState::Held, NONE, NONE)), [6]);
    }

    #[test]
    fn what_a_thread_does_bounds_how_long_it_is_waited_for() {
        for beat in [NONE, SECOND / 2] {
            let spins = |second| sample(ThreadState::Running, second * SECOND, NONE);
            let sleeps = |_| sample(ThreadState::Sleeping, NONE, NONE);
            let held = |_| sample(ThreadState::Held, NONE, NONE);
            let starved = |second| sample(ThreadState::Running, NONE, second * SECOND);
            let faults = |second| ThreadSample { page_faults: second * 9_999, ..spins(second) };
            let gone = |_| sample(ThreadState::Gone, NONE, NONE);
            let after = |least: u64, found: Option<u64>| {
                let found = found.expect("it is given up");
                assert!((least..least + 4).contains(&found), "{found} s, not {least} s");
            };
            after(30, given_up_after_s(beat, spins));
            after(30, given_up_after_s(beat, sleeps));
            after(120, given_up_after_s(beat, held));
            after(600, given_up_after_s(beat, starved));
            after(2, given_up_after_s(beat, gone));
            assert_eq!(given_up_after_s(beat, faults), None, "memory may take its time");
        }
        let unknown = given_up_of(NONE, |_| None).expect("a thread that never begins is given up");
        assert!((600..604).contains(&unknown), "{unknown} s");
    }

    /// Its executor may sleep in its first pass, from which a signal alone wakes it.
    #[test]
    fn a_shard_without_a_heartbeat_is_woken_until_it_has_one() {
        let mut seen = Seen::default();
        let mut judge = |beat, now| seen.judge(beat, now, LATE_AFTER);
        assert_eq!(judge(NONE, SECOND), Verdict::Alive);
        assert_eq!(judge(NONE, SECOND + LATE_AFTER), Verdict::NotBegun);
        assert_eq!(judge(NONE, SECOND + 2 * LATE_AFTER), Verdict::NotBegun);
        assert_eq!(judge(NONE, 2 * SECOND), Verdict::Stalled);
        assert_eq!(judge(3 * SECOND, 3 * SECOND), Verdict::Alive);
        assert_eq!(seen.stalls, 0);
    }
}
