//! Everything that moves bytes: sources of requests, drivers and phases on threads or on a
//! simulated clock, stores, the search for a drive's limits, checkpoints, preconditioning, ranks.
//!
//! Not here: what is asked for (`ringfall_config`), what figures mean (`ringfall_model`), or how
//! anything is shown (`ringfall_report`).

#![forbid(unsafe_code)]

pub mod blocktrace;
pub mod checkpoint;
pub mod datagen;
pub mod driver;
pub mod group;
pub mod iotrace;
pub mod layouts;
#[cfg(feature = "objects")]
pub mod objects;
pub mod precondition;
mod remedy;
pub mod run;
pub mod saturate;
pub mod source;
pub mod store;
mod threads;
