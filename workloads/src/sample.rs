//! A sample of the users, for counts that would take too long over all of them: of every so many in
//! a row, one drawn at random stands for all.

use rand::RngExt;

use crate::rng::{Stream, StreamPurpose, stream};

/// Requests drawn at most, about, to count what has arrived by a sample of the users, over all
/// shards: under a second of work. In tests it comes to that.
const DRAWN_MAX: u64 = if cfg!(test) { 1 << 16 } else { 1 << 23 };

/// Chooses users, who are shown to it one after the other.
pub(crate) struct Sample {
    /// Number of users in a row of whom one is chosen.
    users_each: u64,
    /// Number of those that were shown since the last row was complete.
    shown: u64,
    /// Place in the row of the one that is chosen.
    chosen: u64,
    draws: Stream,
}

impl Sample {
    /// A sample in which one user stands for `users_each`, at least 1.
    pub(crate) fn of_one_in(users_each: u64, seed: u64) -> Sample {
        let draws = stream(seed, StreamPurpose::Sample, users_each);
        Sample { users_each, shown: 0, chosen: 0, draws }
    }

    /// Whether the next user is one of the sample. Classes go by the users' numbers: a fixed step
    /// from one to the next might meet too many of one class.
    pub(crate) fn chooses(&mut self) -> bool {
        if self.users_each == 1 {
            return true;
        }
        if self.shown == 0 {
            self.chosen = self.draws.random_range(0..self.users_each);
        }
        let is_chosen = self.shown == self.chosen;
        self.shown = (self.shown + 1) % self.users_each;
        is_chosen
    }
}

/// Number of users for whom one is to stand, where counting all would take about `draws` draws on
/// one of `shards` shards.
pub(crate) fn users_each(draws: f64, shards: u32) -> u64 {
    let share = DRAWN_MAX as f64 / f64::from(shards);
    (draws / share).ceil().max(1.0) as u64
}
