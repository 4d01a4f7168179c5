//! When a job has taken so long that it will not end by itself.
//!
//! The expected time covers only the load: writing a large drive beforehand may take hours more. So
//! a job that is late is left alone as long as it reads, writes or computes, and ended when it does
//! not.

use super::duration_text;

/// Limits of a job's lateness.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Limits {
    /// It is late after so many times what was expected...
    pub(super) factor: f64,
    /// ...and so many seconds more.
    pub(super) more_s: f64,
    /// A late job may do nothing for so long, seconds.
    pub(super) idle_s: f64,
    /// It has so long to end once it is told to, seconds.
    pub(super) end_s: f64,
}

impl Default for Limits {
    /// Generous to slow machines. Five times the longest that a run itself waits for a drive which
    /// moves nothing (the engine's `SILENCE_MAX`, a minute), and once that to end.
    fn default() -> Limits {
        Limits { factor: 3.0, more_s: 600.0, idle_s: 300.0, end_s: 60.0 }
    }
}

/// Fewer bytes between two looks are nothing: the lines of a log come to less.
const LIFE_BYTES: u64 = 1 << 20;

/// Action to take about a job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Deed {
    /// Nothing.
    Bear,
    /// It is told to end.
    Tell,
    /// It did not end.
    Kill,
}

/// Lateness of one job.
#[derive(Debug)]
pub(super) struct Lateness {
    limits: Limits,
    expected_s: f64,
    /// When it was last seen to move something, since it is late, and what it had moved by then.
    alive: Option<(f64, u64)>,
    /// When it was told to end.
    told_s: Option<f64>,
    is_killed: bool,
}

impl Lateness {
    pub(super) fn new(expected_s: f64, limits: Limits) -> Lateness {
        Lateness { limits, expected_s, alive: None, told_s: None, is_killed: false }
    }

    /// Decides what to do about it after so many seconds. `moved_bytes`: bytes that it has read and
    /// written since its beginning, with its computing time as bytes; none where nobody knows.
    pub(super) fn judge(
        &mut self,
        seconds: f64,
        moved_bytes: impl FnOnce() -> Option<u64>,
    ) -> Deed {
        let Limits { factor, more_s, idle_s, end_s } = self.limits;
        if let Some(told_s) = self.told_s {
            let is_over = seconds >= told_s + end_s;
            return match is_over && !std::mem::replace(&mut self.is_killed, is_over) {
                true => Deed::Kill,
                false => Deed::Bear,
            };
        }
        if seconds < self.expected_s * factor + more_s {
            return Deed::Bear;
        }
        // Nobody is ended of whom nothing is known.
        let Some(moved) = moved_bytes() else { return Deed::Bear };
        match self.alive {
            Some((at_s, before)) if moved < before.saturating_add(LIFE_BYTES) => {
                if seconds < at_s + idle_s {
                    return Deed::Bear;
                }
                self.told_s = Some(seconds);
                Deed::Tell
            }
            _ => {
                self.alive = Some((seconds, moved));
                Deed::Bear
            }
        }
    }

    /// Why it was ended, if it was.
    pub(super) fn told(&self) -> Option<String> {
        let told_s = self.told_s?;
        let how = match self.is_killed {
            true => "told to end, and killed when it did not",
            false => "told to end",
        };
        Some(format!(
            "it had not ended after {}, where about {} were expected, and neither moved data nor \
             computed any more: it was {how}",
            duration_text(told_s),
            duration_text(self.expected_s)
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { factor: 3.0, more_s: 600.0, idle_s: 300.0, end_s: 60.0 };

    #[test]
    fn a_job_that_is_late_and_does_nothing_is_told_to_end_and_then_killed() {
        let mut lateness = Lateness::new(100.0, LIMITS);
        assert_eq!(lateness.judge(899.0, || unreachable!("it is not late yet")), Deed::Bear);
        assert_eq!(lateness.judge(900.0, || Some(5)), Deed::Bear);
        // A few lines of a log are no life.
        assert_eq!(lateness.judge(1_199.0, || Some(5_000)), Deed::Bear);
        assert!(lateness.told().is_none());
        assert_eq!(lateness.judge(1_200.0, || Some(5_000)), Deed::Tell);
        assert!(lateness.told().unwrap().ends_with("it was told to end"));
        assert_eq!(lateness.judge(1_259.0, || Some(5_000)), Deed::Bear);
        assert_eq!(lateness.judge(1_260.0, || Some(5_000)), Deed::Kill);
        assert_eq!(lateness.judge(1_261.0, || Some(5_000)), Deed::Bear);
        let told = lateness.told().unwrap();
        assert!(told.contains("after 20 min, where about 100 s were expected"), "{told}");
        assert!(told.ends_with("killed when it did not"), "{told}");
    }

    #[test]
    fn a_job_that_writes_a_large_drive_first_is_borne() {
        let mut lateness = Lateness::new(100.0, LIMITS);
        for minute in 0..600_u64 {
            assert_eq!(lateness.judge(minute as f64 * 60.0, || Some(minute << 30)), Deed::Bear);
        }
    }

    #[test]
    fn where_the_kernel_counts_nothing_nobody_is_ended() {
        let mut lateness = Lateness::new(1.0, LIMITS);
        assert_eq!(lateness.judge(603.0, || None), Deed::Bear);
        assert_eq!(lateness.judge(9_003.0, || None), Deed::Bear);
    }
}
