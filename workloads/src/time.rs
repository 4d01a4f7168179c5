//! Time as a type of its own.

use std::ops::{Add, AddAssign, Sub};

/// A moment, counted from the run's start, or a length of time, in whole nanoseconds.
///
/// The driver owns the clock; this crate is told. Plain integers of nanoseconds, as figures that
/// are recorded and reported are, have names that end in `_ns`.
///
/// Sums and differences overflow as those of `u64` do.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[repr(transparent)]
pub struct Nanos(u64);

impl Nanos {
    /// The run's start; no time at all.
    pub const ZERO: Nanos = Nanos(0);
    /// Later than anything that happens: 584 years.
    pub const MAX: Nanos = Nanos(u64::MAX);

    /// The moment `ns` nanoseconds after the clock's zero, or a span of that length.
    #[inline]
    pub const fn from_ns(ns: u64) -> Nanos {
        Nanos(ns)
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

    /// So many nanoseconds, rounded down; 0 for what is negative or no number, and [`Nanos::MAX`]
    /// for what is longer than that.
    #[inline]
    pub const fn from_ns_f64(ns: f64) -> Nanos {
        Nanos(ns as u64)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_place_on_the_clock_ends_at_its_bounds() {
        let second = Nanos::from_secs(1);
        assert_eq!(Nanos::ZERO.saturating_sub(second), Nanos::ZERO);
        assert_eq!(Nanos::MAX.saturating_add(second), Nanos::MAX);
        let of = |ns: f64| Nanos::from_ns_f64(ns).as_ns();
        assert_eq!([1.9, -3.0, f64::NAN, f64::INFINITY].map(of), [1, 0, 0, u64::MAX]);
    }
}
