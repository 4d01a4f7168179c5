//! Digests of what a source gives, by which a load is known whatever its file is called.

use std::fmt;

use crate::rng::mix64;

/// Binary digits that the numbers of rows may begin with after which a digest is told: four depths
/// from one power of two to the next. Runs read a trace to different depths, and of two of them at
/// least four fifths of what the shorter one read can be compared.
const LEADING_DIGITS: u32 = 3;

/// Increment between the states, so that zeros count: 2^64 over the golden ratio.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// Digest of rows or conversations in their order. It is the same on every machine, and no
/// protection against forgery.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Digest(u64);

impl Digest {
    pub(crate) fn add(&mut self, numbers: impl IntoIterator<Item = u64>) {
        for number in numbers {
            self.0 = mix64(self.0.wrapping_add(STEP) ^ mix64(number));
        }
    }

    /// The digest as a number, to be a key of what was added.
    pub(crate) fn number(self) -> u64 {
        self.0
    }

    /// Whether the digest of so many rows is one to keep.
    pub fn is_kept_after(rows: u64) -> bool {
        let digits = u64::BITS - rows.leading_zeros();
        digits <= rows.trailing_zeros() + LEADING_DIGITS
    }

    /// The digest with the number of rows that it is of, as a result has it.
    pub fn of_first(self, rows: u64) -> String {
        format!("first {rows}: {self}")
    }

    /// The same of all that there are.
    pub fn of_all(self, rows: u64) -> String {
        format!("all {rows}: {self}")
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_kept_at_four_depths_a_power_of_two() {
        let kept: Vec<u64> = (1..50).filter(|&rows| Digest::is_kept_after(rows)).collect();
        assert_eq!(kept, [1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48]);
    }
}
