//! The storage engine of ringfall: keys → tiers → bytes, on io_uring, one thread a core.
//!
//! It contains shards, the tiers and the io_uring data path; what it decides and counts is in
//! `ringfall_core`, whose modules are its own too. It knows nothing of users, models, tokens or
//! flags.
//!
//! Start from [`engine::Engine`].

#![deny(unsafe_code)]

pub mod buffer;
pub mod device;
pub mod engine;
pub mod files;
pub mod load;
pub mod ring;
pub mod shard;
pub mod tier;

pub use ringfall_core::{
    clock, drive, error, facts, fill, held, key, metrics, model, nvme, occupation, placement,
    space, units,
};

/// The page beside the crate, so that its example is compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
