//! The only file of the engine that reads time.

use std::cell::Cell;
use std::rc::Rc;

/// Nanoseconds on a monotonic clock whose zero means nothing by itself, equal on all shards.
pub type Nanos = u64;

/// One microsecond.
pub const MICROSECOND: Nanos = 1_000;
/// One millisecond.
pub const MILLISECOND: Nanos = 1_000_000;
/// One second.
pub const SECOND: Nanos = 1_000_000_000;

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
    /// The present time.
    #[must_use]
    pub fn now(&self) -> Nanos {
        match self {
            Clock::Os => monotonic_now(),
            Clock::Simulated(cell) => cell.get(),
            Clock::Ticking(cell) => {
                cell.set(cell.get() + 1);
                cell.get()
            }
        }
    }
}

/// `CLOCK_MONOTONIC` in nanoseconds: comparable between the threads of one machine.
#[must_use]
pub fn monotonic_now() -> Nanos {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    // The monotonic clock starts at boot and never shows a negative time.
    t.tv_sec.unsigned_abs() * SECOND + t.tv_nsec.unsigned_abs()
}
