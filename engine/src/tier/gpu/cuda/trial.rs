//! Whether a trial on a thread of its own has touched anything when it is given up.

use std::sync::atomic::{AtomicU8, Ordering};

/// Progress of a trial, for the thread that waits for it.
#[derive(Default)]
pub(super) struct Trial(AtomicU8);

impl Trial {
    const PREPARES: u8 = 0;
    const TOUCHES: u8 = 1;
    const GIVEN_UP: u8 = 2;

    /// Notes that memory and files are touched from now on; an error where nobody waits any more.
    pub(super) fn begin(&self) -> Result<(), String> {
        let (from, to) = (Self::PREPARES, Self::TOUCHES);
        let began = self.0.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire);
        began.map(drop).map_err(|_| "it was given up".to_owned())
    }

    /// An error where nobody waits any more, so that the next step is not taken.
    pub(super) fn goes_on(&self) -> Result<(), String> {
        match self.0.load(Ordering::Acquire) {
            Self::GIVEN_UP => Err("it was given up".to_owned()),
            _ => Ok(()),
        }
    }

    /// Notes that nobody waits any more; whether memory and files may have been touched.
    pub(super) fn give_up(&self) -> bool {
        self.0.swap(Self::GIVEN_UP, Ordering::AcqRel) == Self::TOUCHES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_is_given_up_early_never_begins_and_a_late_one_is_known() {
        let early = Trial::default();
        assert!(!early.give_up());
        assert!(early.begin().is_err() && early.goes_on().is_err());
        let late = Trial::default();
        assert!(late.begin().is_ok() && late.goes_on().is_ok());
        assert!(late.give_up());
        assert!(late.goes_on().is_err());
    }
}
