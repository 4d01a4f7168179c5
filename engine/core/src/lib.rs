//! The part of the engine that decides and counts: keys, units, the clock, content, placement and
//! eviction, counters, and the plain values in which the engine is described.
//!
//! It performs no I/O but on names of files ([`held`]) and in `/sys` ([`nvme`]), and knows neither
//! io_uring nor an executor, so that whatever reads results builds without either.

#![deny(unsafe_code)]

pub mod arenas;
pub mod clock;
pub mod drive;
pub mod error;
pub mod facts;
pub mod fill;
pub mod held;
pub mod key;
pub mod metrics;
pub mod model;
mod named;
pub mod nvme;
pub mod occupation;
pub mod placement;
pub mod space;
pub mod units;
