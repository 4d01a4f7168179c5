//! Length of a ring's silence.

use std::time::Duration;

use crate::clock::Nanos;

/// Longest time that a device may leave I/Os in flight without completing any. The kernel's own
/// bound for one NVMe command is 30 s (`nvme_core.io_timeout`), after which it resets the
/// controller and tries again.
pub const SILENCE_MAX: Duration = Duration::from_secs(60);
/// The same for a ring that ends: the threads that end have 40 s, all together.
pub(super) const LAST_SILENCE_MAX: Duration = Duration::from_secs(30);
/// A plain thread waits no longer, so that it can look around; and no look counts as more silence.
pub(super) const WAIT_MAX: Duration = Duration::from_secs(1);
/// Pause before the kernel is asked again for what it could not do.
pub(super) const PAUSE: Duration = Duration::from_millis(1);

/// Silence of a ring, as its looks in vain tell it.
#[derive(Debug, Default)]
pub(super) struct Patience {
    /// Time between the looks: one counts [`WAIT_MAX`] at the most, so that the sleep of a process
    /// that was stopped is not the device's silence.
    silence: Duration,
    /// When the last look was.
    looked: Option<Nanos>,
}

impl Patience {
    /// Begins anew: something has completed.
    #[inline]
    pub(super) fn heard(&mut self) {
        *self = Patience::default();
    }

    /// Counts a look that found nothing although the kernel has I/Os; the silence so far.
    pub(super) fn looked_in_vain(&mut self, now: Nanos) -> Duration {
        let before = self.looked.replace(now).unwrap_or(now);
        self.silence += (now - before).as_duration().min(WAIT_MAX);
        self.silence
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::SECOND;

    #[test]
    fn silence_adds_up_and_each_completion_begins_it_anew() {
        let mut patience = Patience::default();
        for _round in 0..2 {
            // Half a second apart, for a minute.
            for half in 0..=120 {
                assert!(patience.looked_in_vain(Nanos::from_ms(500 * half)) <= SILENCE_MAX);
            }
            assert!(patience.looked_in_vain(61 * SECOND) > SILENCE_MAX);
            patience.heard();
        }
    }

    #[test]
    fn a_process_that_was_stopped_for_an_hour_counts_a_second() {
        let mut patience = Patience::default();
        assert_eq!(patience.looked_in_vain(70 * SECOND), Duration::ZERO);
        assert_eq!(patience.looked_in_vain(3670 * SECOND), WAIT_MAX);
        assert_eq!(patience.looked_in_vain(3671 * SECOND), 2 * WAIT_MAX);
    }
}
