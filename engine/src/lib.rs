//! The storage engine of ringfall: keys → tiers → bytes, on io_uring, one thread a core.
//!
//! It contains shards, placement and eviction, the tiers, the io_uring data path, content
//! generation and verification, and measuring. It knows nothing of users, models, tokens or flags.
//!
//! Start from [`engine::Engine`].

#![deny(unsafe_code)]

pub mod buffer;
pub mod clock;
pub mod device;
pub mod drive;
pub mod engine;
pub mod error;
pub mod fill;
pub mod held;
pub mod key;
pub mod load;
pub mod metrics;
pub mod placement;
pub mod ring;
pub mod shard;
pub mod space;
pub mod tier;
pub mod units;

/// The page beside the crate, so that its example is compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
