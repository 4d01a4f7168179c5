//! Slow drives: I/Os that are waited for, as the progress line and the log tell it.

use std::fmt;

use ringfall_core::clock::{Nanos, SECOND};

use super::RunSettings;
use crate::driver::ShardStatus;

/// Age of the oldest I/O from which it is waited for. A drive that is asked for more than it can do
/// takes some seconds, and a healthy one fewer.
const WAITS_AFTER: Nanos = Nanos::from_secs(5);
/// Age at which that is logged first, and the least time between two log lines.
const LOGGED_AFTER: Nanos = Nanos::from_secs(10);

/// I/Os that a run waits for; where there are none, the space that a tier is to grow by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SlowIos {
    /// Kind of storage that they were submitted to: a drive, one whose I/Os are held back on
    /// purpose, or an object store.
    pub on: &'static str,
    /// Number of I/Os in flight; 0 where space is waited for.
    pub ios: u32,
    /// Time since the oldest of them was submitted, or since space came last.
    pub oldest: Nanos,
}

impl fmt::Display for SlowIos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (ios, oldest_s) = (self.ios, self.oldest / SECOND);
        if ios == 0 {
            return write!(f, "waiting for the {}: no space has come for {oldest_s} s", self.on);
        }
        let noun = if ios == 1 { "I/O" } else { "I/Os" };
        write!(f, "waiting for the {}: {ios} {noun}, the oldest for {oldest_s} s", self.on)
    }
}

/// Logs that I/Os are waited for, less and less often while the same one is.
#[derive(Debug)]
pub(super) struct WaitLog {
    on: &'static str,
    /// Age of the oldest I/O at which it is told next.
    next_age: Nanos,
    told: Option<Nanos>,
    /// The space that was there when more was being taken, and since when that was so.
    space: (Option<u64>, Nanos),
}

impl WaitLog {
    pub(super) fn of(settings: &RunSettings) -> WaitLog {
        let on = match settings.objects {
            Some(_) => "object store",
            None if settings.engine.is_slowed() => "drive slowed down by --inject-latency",
            None => "drive",
        };
        WaitLog { on, next_age: LOGGED_AFTER, told: None, space: (None, Nanos::ZERO) }
    }

    /// I/Os or space that are waited for at `now`, if any, and whether to log that. `awaited`: the
    /// space that is there, while more is being taken.
    pub(super) fn look(
        &mut self,
        now: Nanos,
        status: &ShardStatus,
        awaited: Option<u64>,
    ) -> (Option<SlowIos>, bool) {
        if awaited.is_none() || awaited != self.space.0 {
            self.space = (awaited, now);
        }
        let (ios, since) = match (status.in_flight, status.oldest_io) {
            (0, _) | (_, None) => (0, self.space.1),
            (ios, Some(at)) => (ios, at),
        };
        let oldest = now.saturating_sub(since);
        if oldest < WAITS_AFTER {
            self.next_age = LOGGED_AFTER;
            return (None, false);
        }
        let waiting = SlowIos { on: self.on, ios, oldest };
        let is_soon = self.told.is_some_and(|told| now < told + LOGGED_AFTER);
        if oldest < self.next_age || is_soon {
            return (Some(waiting), false);
        }
        (self.told, self.next_age) = (Some(now), oldest * 2);
        (Some(waiting), true)
    }
}

#[cfg(test)]
mod tests {
    use ringfall_core::model::LatencySpread;
    use ringfall_engine::engine::EngineBuilder;

    use super::*;

    const BEGAN: Nanos = Nanos::from_secs(100);

    fn status(in_flight: u32, oldest_io: Option<Nanos>) -> ShardStatus {
        ShardStatus { in_flight, oldest_io, ..ShardStatus::default() }
    }

    /// Nothing was said for 36 s with a drive of 0.1 MB/s.
    #[test]
    fn an_io_that_does_not_end_is_told_ever_less_often() {
        let mut log = WaitLog::of(&RunSettings::default());
        let stuck = status(128, Some(BEGAN));
        let mut waits = Vec::new();
        for second in 0..100 {
            let (waiting, is_due) = log.look(BEGAN + second * SECOND, &stuck, None);
            assert_eq!(waiting.is_some(), second >= 5, "at {second} s");
            waits.extend(waiting.filter(|_| is_due).map(|waiting| waiting.to_string()));
        }
        let told = |s| format!("waiting for the drive: 128 I/Os, the oldest for {s} s");
        assert_eq!(waits, [10, 20, 40, 80].map(told));
    }

    /// I/Os that were held back on purpose were told as those of a slow drive.
    #[test]
    fn ios_that_are_held_back_on_purpose_are_told_as_such() {
        let latencies = LatencySpread { median: 20 * SECOND, p99: 20 * SECOND };
        let engine = EngineBuilder::default().injected_latency(latencies);
        let mut log = WaitLog::of(&RunSettings { engine, ..RunSettings::default() });
        let (waiting, _) = log.look(BEGAN + 7 * SECOND, &status(2, Some(BEGAN)), None);
        let told =
            "waiting for the drive slowed down by --inject-latency: 2 I/Os, the oldest for 7 s";
        assert_eq!(waiting.unwrap().to_string(), told);
    }

    #[test]
    fn ios_that_end_are_not_waited_for_and_slow_ones_are_told_at_most_every_ten_seconds() {
        let mut log = WaitLog::of(&RunSettings::default());
        let now = BEGAN + 3_600 * SECOND;
        assert_eq!(log.look(now, &status(0, None), None), (None, false));
        assert_eq!(log.look(now, &status(9, Some(now - SECOND)), None), (None, false));
        // Each is 11 s old when it ends, and the next is as old four seconds later.
        let due = |second: &u64| {
            let age = if second % 4 == 3 { 11 } else { 2 };
            let now = now + *second * SECOND;
            log.look(now, &status(1, Some(now - age * SECOND)), None).1
        };
        assert_eq!((0..40).filter(due).collect::<Vec<_>>(), [3, 15, 27, 39]);
    }

    /// With all writes waiting for a step of the file's space, nothing was in flight to be told of.
    #[test]
    fn space_that_does_not_come_is_told_and_space_that_comes_is_not() {
        let mut log = WaitLog::of(&RunSettings::default());
        let idle = status(0, None);
        // A step a second, each begun as the one before has ended.
        for second in 0..20 {
            let looked = log.look(BEGAN + second * SECOND, &idle, Some(second << 20));
            assert_eq!(looked, (None, false), "at {second} s");
        }
        let at = |second: u64| BEGAN + (19 + second) * SECOND;
        assert_eq!(log.look(at(4), &idle, Some(19 << 20)), (None, false));
        let (waiting, is_due) = log.look(at(12), &idle, Some(19 << 20));
        let told = "waiting for the drive: no space has come for 12 s";
        assert_eq!((waiting.unwrap().to_string().as_str(), is_due), (told, true));
        assert_eq!(log.look(at(13), &idle, None), (None, false));
        assert_eq!(log.look(at(14), &idle, Some(19 << 20)), (None, false));
    }
}
