//! Watches the shards' heartbeats: a stuck shard is reported, never waited for in silence.

use std::sync::Arc;

use ringfall_engine::clock::{MILLISECOND, Nanos, SECOND};
use ringfall_engine::shard::executor::Vitals;

/// A heartbeat this old (the period is 5 ms) is worth a message to the shard, which un-sticks an
/// executor that parked with runnable tasks; a busy one only finds it in its inbox.
const LATE_AFTER: Nanos = 50 * MILLISECOND;
/// This is a stall, to be told; what no message wakes, a signal does.
const STALLED_AFTER: Nanos = SECOND;
/// Then the run has failed: something holds the thread for good.
const STUCK_AFTER: Nanos = 30 * SECOND;

/// What the watchdog has seen of one shard.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    late: bool,
    nudges: u64,
    stalled: bool,
    stalls: u64,
}

/// What to do about a shard.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// It lives.
    Alive,
    /// It is late, for the first time since its last heartbeat: wake it, say nothing.
    Late,
    /// It has missed a second of heartbeats, for the first time in this stall: wake it, say so.
    Stalled {
        /// Age of the last heartbeat.
        age_ns: Nanos,
    },
    /// It still has not come back: keep waking it.
    StillStalled,
    /// Give up.
    Stuck {
        /// Age of the last heartbeat.
        age_ns: Nanos,
    },
}

/// See the module.
pub struct Watchdog {
    vitals: Vec<Arc<Vitals>>,
    seen: Vec<Seen>,
}

/// Figures for the report.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct WatchdogFigures {
    /// Times a shard missed a second of heartbeats.
    pub stalls: u64,
    /// Times a shard was woken because a heartbeat was late by 50 ms.
    pub nudges: u64,
    /// Longest time between two heartbeats of a shard, ns.
    pub heartbeat_gap_max_ns: Nanos,
    /// Heartbeats of all shards.
    pub heartbeats: u64,
}

impl Watchdog {
    /// Watches these shards.
    #[must_use]
    pub fn new(vitals: Vec<Arc<Vitals>>) -> Watchdog {
        let seen = vec![Seen::default(); vitals.len()];
        Watchdog { vitals, seen }
    }

    /// Looks at shard `index`.
    pub fn look(&mut self, index: usize, now: Nanos) -> Verdict {
        let last = self.vitals[index].last_beat();
        judge(&mut self.seen[index], last, now)
    }

    /// Wakes the thread of shard `index`, whatever it sleeps in.
    pub fn interrupt(&self, index: usize) {
        self.vitals[index].interrupt();
    }

    /// What the kernel says of the thread of shard `index`.
    #[must_use]
    pub fn thread_state(&self, index: usize) -> String {
        self.vitals[index].thread_state()
    }

    /// Measures gaps from now on: opening a shard blocks its thread.
    pub fn forget_gaps(&self) {
        self.vitals.iter().for_each(|vitals| vitals.forget_gaps());
    }

    /// What was seen so far.
    #[must_use]
    pub fn figures(&self) -> WatchdogFigures {
        WatchdogFigures {
            stalls: self.seen.iter().map(|seen| seen.stalls).sum(),
            nudges: self.seen.iter().map(|seen| seen.nudges).sum(),
            heartbeat_gap_max_ns: self.vitals.iter().map(|v| v.gap_max_ns()).max().unwrap_or(0),
            heartbeats: self.vitals.iter().map(|v| v.beats()).sum(),
        }
    }
}

fn judge(seen: &mut Seen, last_beat: Nanos, now: Nanos) -> Verdict {
    // Not begun yet: opening a shard may take long, and says so itself.
    if last_beat == 0 {
        return Verdict::Alive;
    }
    let age_ns = now.saturating_sub(last_beat);
    if age_ns < LATE_AFTER {
        seen.late = false;
        seen.stalled = false;
        return Verdict::Alive;
    }
    if age_ns < STALLED_AFTER {
        if std::mem::replace(&mut seen.late, true) {
            return Verdict::Alive;
        }
        seen.nudges += 1;
        return Verdict::Late;
    }
    if age_ns >= STUCK_AFTER {
        return Verdict::Stuck { age_ns };
    }
    if std::mem::replace(&mut seen.stalled, true) {
        return Verdict::StillStalled;
    }
    seen.stalls += 1;
    Verdict::Stalled { age_ns }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stall_is_told_once_and_given_up_in_the_end() {
        let mut seen = Seen::default();
        let beat = SECOND;
        assert_eq!(judge(&mut seen, 0, 99 * SECOND), Verdict::Alive);
        assert_eq!(judge(&mut seen, beat, beat + SECOND / 100), Verdict::Alive);
        assert_eq!(judge(&mut seen, beat, beat + SECOND / 4), Verdict::Late);
        assert_eq!(judge(&mut seen, beat, beat + SECOND / 2), Verdict::Alive);
        let age_ns = 2 * SECOND;
        assert_eq!(judge(&mut seen, beat, beat + age_ns), Verdict::Stalled { age_ns });
        assert_eq!(judge(&mut seen, beat, beat + 3 * SECOND), Verdict::StillStalled);
        assert_eq!(judge(&mut seen, 4 * SECOND, 4 * SECOND), Verdict::Alive);
        assert_eq!(judge(&mut seen, 4 * SECOND, 6 * SECOND), Verdict::Stalled { age_ns });
        assert_eq!((seen.stalls, seen.nudges), (2, 1));
        let age_ns = STUCK_AFTER;
        assert_eq!(judge(&mut seen, beat, beat + age_ns), Verdict::Stuck { age_ns });
    }
}
