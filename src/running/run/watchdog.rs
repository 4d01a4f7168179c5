//! Watches the shards for signs of life. What the thread of one that shows none does meanwhile is
//! told apart (it spins, sleeps, is held by the kernel, gets no core), and bounds how long it is
//! waited for.

use std::sync::Arc;

use ringfall_core::clock::{Nanos, SECOND};
use ringfall_engine::shard::executor::Vitals;
use ringfall_engine::shard::{ThreadSample, ThreadState};
use ringfall_model::facts::WatchdogReport;

use super::phases::SILENCE_A_LOOK_MAX;

/// A shard that is overdue for so long has stalled, which the results tell.
const STALLED_AFTER: Nanos = SECOND;
/// A stall that has lasted so long is told at once, with what the thread does, unless that is a
/// long step that is known: on a machine with fewer cores than shards, a shard that fills an entry
/// of a GiB takes seconds.
const ALARM_AFTER: Nanos = Nanos::from_secs(5);
/// A thread is looked at so often while it is stalled.
const SAMPLE_PERIOD: Nanos = SECOND;

/// Reason why a thread shows no sign of life.
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
    /// Compares two samples of a thread, `elapsed` apart.
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

    /// Longest wait for a thread in that state.
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

/// Last observation of one shard.
#[derive(Clone, Debug, Default)]
struct Seen {
    looked: Nanos,
    /// Time without a sign of life, in looks of a second at the most.
    silence: Nanos,
    stalled: bool,
    stalls: u64,
    /// Whether this stall was told.
    alarmed: bool,
    /// The thread when it was last looked at, and when that was.
    sample: Option<(Nanos, ThreadSample)>,
}

/// Something to be done about a shard.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Verdict {
    /// Whether to give it up; else somebody should know of it, which is said once of a stall.
    pub is_stuck: bool,
    /// Time without a sign of life.
    pub silence: Nanos,
    /// State of its thread.
    pub hold: Hold,
}

/// Watches all shards; see the module.
pub struct Watchdog {
    vitals: Vec<Arc<Vitals>>,
    seen: Vec<Seen>,
}

impl Watchdog {
    /// A watchdog for the shards that give these vital signs.
    pub fn new(vitals: Vec<Arc<Vitals>>) -> Watchdog {
        let seen = vec![Seen::default(); vitals.len()];
        Watchdog { vitals, seen }
    }

    /// Looks at shard `index`; the verdict, if there is anything to be done.
    pub fn look(&mut self, index: usize, now: Nanos) -> Option<Verdict> {
        let vitals = &self.vitals[index];
        let seen = &mut self.seen[index];
        let overdue = vitals.has_begun().then(|| vitals.overdue(now));
        if !seen.judge(overdue, now) {
            return None;
        }
        // A file to look for: only where something may be wrong.
        if vitals.has_ended() {
            return Some(Verdict { is_stuck: true, silence: seen.silence, hold: Hold::Gone });
        }
        seen.look_at_thread(now, || vitals.thread_sample())
    }

    /// Whether shard `index` was overdue for a second or more when it was last looked at.
    pub fn is_stalled(&self, index: usize) -> bool {
        self.seen[index].stalled
    }

    /// Looks for the longest within the window: opening a shard takes as long as it takes.
    pub fn count_within(&self, from: Nanos, until: Nanos) {
        self.vitals.iter().for_each(|vitals| vitals.count_within(from, until));
    }

    /// Figures since the run began.
    pub fn figures(&self) -> WatchdogReport {
        let overdue_max = self.vitals.iter().map(|vitals| vitals.overdue_max()).max();
        WatchdogReport {
            stalls: self.seen.iter().map(|seen| seen.stalls).sum(),
            overdue_max_ns: overdue_max.unwrap_or_default().as_ns(),
        }
    }
}

impl Seen {
    /// Takes note of how long a shard is overdue, none while it is being opened; whether its thread
    /// is to be looked at.
    fn judge(&mut self, overdue: Option<Nanos>, now: Nanos) -> bool {
        let since_look = match std::mem::replace(&mut self.looked, now) {
            Nanos::ZERO => Nanos::ZERO,
            before => now.saturating_sub(before).min(SILENCE_A_LOOK_MAX),
        };
        self.silence += since_look;
        let Some(overdue) = overdue else { return self.silence >= STALLED_AFTER };
        if overdue < STALLED_AFTER {
            *self = Seen { looked: now, stalls: self.stalls, ..Seen::default() };
            return false;
        }
        if !std::mem::replace(&mut self.stalled, true) {
            self.stalls += 1;
        }
        true
    }

    /// Samples the thread of a shard that is stalled now and then, and judges by what it does.
    fn look_at_thread(
        &mut self,
        now: Nanos,
        sample: impl FnOnce() -> Option<ThreadSample>,
    ) -> Option<Verdict> {
        if let Some((then, _)) = &self.sample
            && now < *then + SAMPLE_PERIOD
        {
            return None;
        }
        // One whose thread is not known has not run a single instruction.
        let Some(sample) = sample() else { return self.told(Hold::Starved) };
        let (then, before) = self.sample.replace((now, sample.clone()))?;
        let hold = Hold::between(&before, &sample, now - then);
        if hold == Hold::Faults {
            // As good as a sign of life: memory of a terabyte takes minutes.
            self.silence = Nanos::ZERO;
        }
        self.told(hold)
    }

    /// Chooses the verdict on a shard whose thread is in that state, if it is worth one.
    fn told(&mut self, hold: Hold) -> Option<Verdict> {
        let silence = self.silence;
        let is_stuck = silence >= hold.patience();
        let is_told =
            is_stuck || silence >= ALARM_AFTER && !std::mem::replace(&mut self.alarmed, true);
        is_told.then_some(Verdict { is_stuck, silence, hold })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: Nanos = Nanos::ZERO;

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
        let mut judge = |overdue, now| seen.judge(Some(overdue), now);
        assert!(!judge(SECOND / 100, SECOND) && !judge(SECOND / 2, 2 * SECOND));
        assert!(judge(SECOND, 3 * SECOND) && judge(2 * SECOND, 4 * SECOND));
        assert!(!judge(NONE, 5 * SECOND) && judge(SECOND, 6 * SECOND));
        assert_eq!(seen.stalls, 2);
    }

    #[test]
    fn a_stopped_process_has_not_been_silent() {
        let mut seen = Seen::default();
        seen.judge(Some(NONE), SECOND);
        assert!(seen.judge(Some(4_999 * SECOND), 5_000 * SECOND));
        assert_eq!(seen.silence, SECOND);
    }

    #[test]
    fn opening_a_shard_is_no_stall() {
        let mut seen = Seen::default();
        assert!(!seen.judge(None, SECOND) && seen.judge(None, 3 * SECOND));
        assert_eq!(seen.stalls, 0);
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

    /// The verdict on a shard each second, whose thread does that. Whether it has begun to work.
    fn verdicts(
        has_begun: bool,
        thread: impl Fn(u64) -> Option<ThreadSample>,
    ) -> impl Iterator<Item = (u64, Option<Verdict>)> {
        let mut seen = Seen::default();
        (1..1_000).map(move |second| {
            let now = second * SECOND;
            let verdict = match seen.judge(has_begun.then_some(now), now) {
                true => seen.look_at_thread(now, || thread(second)),
                false => None,
            };
            (second, verdict)
        })
    }

    /// When a shard is given up, s.
    fn given_up_at_s(has_begun: bool, thread: impl Fn(u64) -> Option<ThreadSample>) -> Option<u64> {
        let mut stuck = verdicts(has_begun, thread)
            .filter(|(_, verdict)| verdict.as_ref().is_some_and(|verdict| verdict.is_stuck));
        stuck.next().map(|(second, _)| second)
    }

    /// Seconds at which something is said of a shard whose thread does that from the first on.
    fn alarms_at_s(thread: impl Fn(u64) -> ThreadSample) -> Vec<u64> {
        verdicts(true, |second| Some(thread(second)))
            .take(25)
            .filter(|(_, verdict)| verdict.as_ref().is_some_and(|verdict| !verdict.is_stuck))
            .map(|(second, _)| second)
            .collect()
    }

    /// Each start with more shards than cores had warned.
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
        for has_begun in [false, true] {
            let spins = |second| sample(ThreadState::Running, second * SECOND, NONE);
            let after = |least: u64, thread: &dyn Fn(u64) -> ThreadSample| {
                let found = given_up_at_s(has_begun, |second| Some(thread(second)));
                let found = found.expect("it is given up");
                assert!((least..least + 4).contains(&found), "{found} s, not {least} s");
            };
            after(30, &spins);
            after(30, &|_| sample(ThreadState::Sleeping, NONE, NONE));
            after(120, &|_| sample(ThreadState::Held, NONE, NONE));
            after(600, &|second| sample(ThreadState::Running, NONE, second * SECOND));
            after(1, &|_| sample(ThreadState::Gone, NONE, NONE));
            let faults =
                |second| Some(ThreadSample { page_faults: second * 9_999, ..spins(second) });
            assert_eq!(given_up_at_s(has_begun, faults), None, "memory may take its time");
        }
        let unknown = given_up_at_s(false, |_| None).expect("it never begins");
        assert!((600..604).contains(&unknown), "{unknown} s");
    }
}
