//! How a plain thread waits for its ring: a second at a time, and not for ever.

use std::io;
use std::time::Duration;

use io_uring::{IoUring, cqueue, squeue, types};

use crate::clock::{Nanos, monotonic_now};

/// Longest time that a device may leave I/Os in flight without completing any. The kernel's own
/// bound for one NVMe command is 30 s (`nvme_core.io_timeout`), after which it resets the
/// controller and tries again.
pub const SILENCE_MAX: Duration = Duration::from_secs(60);
/// One wait lasts no longer, so that its caller can look around.
const WAIT_MAX: Duration = Duration::from_secs(1);
/// Pause before the kernel is asked again after it has said "again".
pub(super) const PAUSE: Duration = Duration::from_millis(1);

/// How long a ring has been silent.
#[derive(Default)]
pub(super) struct Patience {
    /// Waits in a row that brought nothing, added up: a process that was stopped counts one.
    silence: Duration,
    /// When the kernel said "again" last, and nothing has completed since.
    refused: Option<Nanos>,
}

impl Patience {
    /// Submits what is queued and waits for so many completions, [`WAIT_MAX`] at the most.
    ///
    /// # Errors
    /// What `io_uring_enter` says, other than "again"; `ETIMEDOUT` when nothing has completed for
    /// more than [`SILENCE_MAX`].
    pub(super) fn enter<S, C>(&mut self, ring: &IoUring<S, C>, wanted: usize) -> io::Result<()>
    where
        S: squeue::EntryMarker,
        C: cqueue::EntryMarker,
    {
        let longest = types::Timespec::from(WAIT_MAX);
        let args = types::SubmitArgs::new().timespec(&longest);
        self.judge(ring.submitter().submit_with_args(wanted, &args))
    }

    /// Something has completed.
    pub(super) fn heard(&mut self) {
        self.silence = Duration::ZERO;
        self.refused = None;
    }

    /// Nothing could be done for now: pauses, and counts the time since it was so last as silence,
    /// no more than one wait of it.
    ///
    /// # Errors
    /// `ETIMEDOUT` when that has lasted for more than [`SILENCE_MAX`].
    pub(super) fn again(&mut self) -> io::Result<()> {
        std::thread::sleep(PAUSE);
        self.refused_at(monotonic_now())
    }

    fn refused_at(&mut self, now: Nanos) -> io::Result<()> {
        let before = self.refused.replace(now).unwrap_or(now);
        self.bear((now - before).as_duration().min(WAIT_MAX))
    }

    fn bear(&mut self, silence: Duration) -> io::Result<()> {
        self.silence += silence;
        match self.silence > SILENCE_MAX {
            true => Err(io::Error::from_raw_os_error(libc::ETIMEDOUT)),
            false => Ok(()),
        }
    }

    fn judge(&mut self, entered: io::Result<usize>) -> io::Result<()> {
        let Err(error) = entered else { return Ok(()) };
        match error.raw_os_error() {
            Some(libc::EINTR | libc::EBUSY | libc::EAGAIN) => self.again(),
            Some(libc::ETIME) => self.bear(WAIT_MAX),
            _ => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::SECOND;

    fn after(patience: &mut Patience, errno: i32) -> Option<i32> {
        let judged = patience.judge(Err(io::Error::from_raw_os_error(errno)));
        judged.err().and_then(|error| error.raw_os_error())
    }

    #[test]
    fn silence_is_borne_for_a_minute_and_each_completion_begins_it_anew() {
        let mut patience = Patience::default();
        for _round in 0..2 {
            for _second in 0..60 {
                assert_eq!(after(&mut patience, libc::ETIME), None);
            }
            patience.heard();
        }
        for _second in 0..60 {
            assert_eq!(after(&mut patience, libc::ETIME), None);
        }
        assert_eq!(after(&mut patience, libc::ETIME), Some(libc::ETIMEDOUT));
    }

    #[test]
    fn a_kernel_that_says_again_for_ever_is_not_asked_for_ever() {
        let mut patience = Patience::default();
        // Half a second apart, for a minute.
        for half in 0..=120 {
            patience.refused_at(Nanos::from_ms(500 * half)).unwrap();
        }
        let error = patience.refused_at(61 * SECOND).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ETIMEDOUT));
        // A completion begins it anew, and a process that was stopped for an hour counts a second.
        patience.heard();
        patience.refused_at(70 * SECOND).unwrap();
        patience.refused_at(3670 * SECOND).unwrap();
        assert_eq!(patience.silence, WAIT_MAX);
    }

    #[test]
    fn only_errors_that_pass_by_themselves_are_no_errors() {
        let mut patience = Patience::default();
        for errno in [libc::EINTR, libc::EBUSY, libc::EAGAIN] {
            assert_eq!(after(&mut patience, errno), None);
        }
        for errno in [libc::EIO, libc::EBADF, libc::ENOMEM, libc::EINVAL] {
            assert_eq!(after(&mut patience, errno), Some(errno));
        }
    }
}
