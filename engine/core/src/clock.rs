//! Times as a type of their own, and the only place of the engine that reads one.

use std::cell::Cell;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Div, Mul, Rem, Sub, SubAssign};
use std::rc::Rc;
use std::time::Duration;

/// A moment or a length of time, in whole nanoseconds.
///
/// Moments are on a monotonic clock whose zero means nothing by itself, equal on all shards. Both
/// are one type, so that a bound which is a length is added to a moment as it is; what the type
/// keeps apart is time and everything else that is counted. Plain integers of nanoseconds, as
/// figures that are recorded and reported are, have names that end in `_ns`.
///
/// Sums and differences overflow as those of `u64` do.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[repr(transparent)]
pub struct Nanos(u64);

/// One microsecond: 1,000 ns.
pub const MICROSECOND: Nanos = Nanos::from_us(1);
/// One millisecond: 1,000,000 ns.
pub const MILLISECOND: Nanos = Nanos::from_ms(1);
/// One second: 1,000,000,000 ns.
pub const SECOND: Nanos = Nanos::from_secs(1);

impl Nanos {
    /// The clock's zero; no time at all.
    pub const ZERO: Nanos = Nanos(0);
    /// Later than anything that happens: 584 years.
    pub const MAX: Nanos = Nanos(u64::MAX);

    /// A span of `ns` nanoseconds, or the moment that long after the clock's zero.
    #[inline]
    pub const fn from_ns(ns: u64) -> Nanos {
        Nanos(ns)
    }

    /// So many microseconds; at most 584 years of them, or it overflows.
    #[inline]
    pub const fn from_us(us: u64) -> Nanos {
        Nanos(us * 1_000)
    }

    /// So many milliseconds; at most 584 years of them, or it overflows.
    #[inline]
    pub const fn from_ms(ms: u64) -> Nanos {
        Nanos(ms * 1_000_000)
    }

    /// So many seconds; at most 584 years of them, or it overflows.
    #[inline]
    pub const fn from_secs(seconds: u64) -> Nanos {
        Nanos(seconds * 1_000_000_000)
    }

    /// The nearest whole number of nanoseconds; 0 for what is negative or no number, and
    /// [`Nanos::MAX`] for what is longer than that.
    #[inline]
    pub fn from_ns_f64(ns: f64) -> Nanos {
        // A float becomes the nearest integer that there is.
        Nanos(ns.round() as u64)
    }

    /// The value in whole nanoseconds, exact.
    #[inline]
    pub const fn as_ns(self) -> u64 {
        self.0
    }

    /// Nanoseconds, exact up to 104 days.
    #[inline]
    pub const fn as_ns_f64(self) -> f64 {
        self.0 as f64
    }

    /// The value in seconds with its fraction, rounded as `f64` rounds.
    #[inline]
    pub const fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// The same span as the standard library's type, exact.
    #[inline]
    pub const fn as_duration(self) -> Duration {
        Duration::from_nanos(self.0)
    }

    /// The sum, [`Nanos::MAX`] where it would be later.
    #[inline]
    #[must_use]
    pub const fn saturating_add(self, other: Nanos) -> Nanos {
        Nanos(self.0.saturating_add(other.0))
    }

    /// The difference, 0 where `other` is the later one.
    #[inline]
    #[must_use]
    pub const fn saturating_sub(self, other: Nanos) -> Nanos {
        Nanos(self.0.saturating_sub(other.0))
    }

    /// So many times as long, at most [`Nanos::MAX`].
    #[inline]
    #[must_use]
    pub const fn saturating_mul(self, times: u64) -> Nanos {
        Nanos(self.0.saturating_mul(times))
    }

    /// The difference; none where `other` is the later one.
    #[inline]
    #[must_use]
    pub const fn checked_sub(self, other: Nanos) -> Option<Nanos> {
        match self.0.checked_sub(other.0) {
            Some(ns) => Some(Nanos(ns)),
            None => None,
        }
    }

    /// Number of steps of this length that cover it: the quotient, rounded up.
    #[inline]
    #[must_use]
    pub const fn div_ceil(self, step: Nanos) -> u64 {
        self.0.div_ceil(step.0)
    }
}

impl Add for Nanos {
    type Output = Nanos;

    #[inline]
    fn add(self, other: Nanos) -> Nanos {
        Nanos(self.0 + other.0)
    }
}

impl AddAssign for Nanos {
    #[inline]
    fn add_assign(&mut self, other: Nanos) {
        self.0 += other.0;
    }
}

impl Sub for Nanos {
    type Output = Nanos;

    #[inline]
    fn sub(self, other: Nanos) -> Nanos {
        Nanos(self.0 - other.0)
    }
}

impl SubAssign for Nanos {
    #[inline]
    fn sub_assign(&mut self, other: Nanos) {
        self.0 -= other.0;
    }
}

impl Mul<Nanos> for u64 {
    type Output = Nanos;

    #[inline]
    fn mul(self, one: Nanos) -> Nanos {
        Nanos(self * one.0)
    }
}

impl Mul<u64> for Nanos {
    type Output = Nanos;

    #[inline]
    fn mul(self, times: u64) -> Nanos {
        Nanos(self.0 * times)
    }
}

/// A part of it, rounded down.
impl Div<u64> for Nanos {
    type Output = Nanos;

    #[inline]
    fn div(self, parts: u64) -> Nanos {
        Nanos(self.0 / parts)
    }
}

/// Number of times that the other fits in it, rounded down.
impl Div for Nanos {
    type Output = u64;

    #[inline]
    fn div(self, step: Nanos) -> u64 {
        self.0 / step.0
    }
}

/// Remainder of that division.
impl Rem for Nanos {
    type Output = Nanos;

    #[inline]
    fn rem(self, step: Nanos) -> Nanos {
        Nanos(self.0 % step.0)
    }
}

impl Sum for Nanos {
    fn sum<I: Iterator<Item = Nanos>>(times: I) -> Nanos {
        Nanos(times.map(Nanos::as_ns).sum())
    }
}

/// Where a shard gets the time from.
#[derive(Clone, Debug)]
pub enum Clock {
    /// `CLOCK_MONOTONIC`.
    Os,
    /// Set by a simulation; every holder of the cell sees the same time.
    Simulated(Rc<Cell<Nanos>>),
    /// Moves on by 1 ns whenever somebody looks, and so counts the looks: for benches.
    Ticking(Rc<Cell<Nanos>>),
}

impl Clock {
    /// The time since the clock's zero: boot for the system's clock, the simulation's start
    /// otherwise.
    #[inline]
    pub fn now(&self) -> Nanos {
        match self {
            Clock::Os => monotonic_now(),
            Clock::Simulated(cell) => cell.get(),
            Clock::Ticking(cell) => {
                cell.set(cell.get() + Nanos::from_ns(1));
                cell.get()
            }
        }
    }
}

/// `CLOCK_MONOTONIC`: comparable between the threads of one machine.
pub fn monotonic_now() -> Nanos {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    // The monotonic clock starts at boot and never shows a negative time.
    Nanos::from_secs(t.tv_sec.unsigned_abs()) + Nanos(t.tv_nsec.unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_divide_as_they_say() {
        let time = Nanos::from_ms(2_500);
        assert_eq!((time / SECOND, time.div_ceil(SECOND), time / 2), (2, 3, Nanos(1_250_000_000)));
        assert_eq!(time % SECOND, 500 * MILLISECOND);
        assert_eq!(time.as_secs_f64(), 2.5);
        assert_eq!(time.as_duration(), Duration::from_millis(2_500));
    }

    #[test]
    fn what_has_no_place_on_the_clock_ends_at_its_bounds() {
        assert_eq!(MICROSECOND.saturating_sub(SECOND), Nanos::ZERO);
        assert_eq!(MICROSECOND.checked_sub(SECOND), None);
        assert_eq!(Nanos::MAX.saturating_add(SECOND), Nanos::MAX);
        assert_eq!(SECOND.saturating_mul(u64::MAX), Nanos::MAX);
        let of = |ns: f64| Nanos::from_ns_f64(ns).as_ns();
        assert_eq!([1.5, -3.0, f64::NAN, f64::INFINITY].map(of), [2, 0, 0, u64::MAX]);
    }
}
