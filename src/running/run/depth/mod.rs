//! `--queue-depth auto`: finds, while a run warms up, the smallest depth that the drive needs for
//! this run's own sizes and mix. `search` decides from what was measured, `tuner` says when to
//! measure; both are pure, and drive the threads of a real run and simulated shards alike.
//! `over_ranks` has the ranks of a launch search together.

mod over_ranks;
mod search;
mod tuner;

pub use over_ranks::Tuning;
pub use tuner::Tuner;

pub use crate::driver::TunerOrder;

#[cfg(test)]
#[path = "depth_test.rs"]
mod tests;
