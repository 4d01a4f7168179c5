//! Users, conversations and requests of an LLM service as one state machine:
//! time and events in, actions out. No I/O, no threads, no clock, no tiers.

#![forbid(unsafe_code)]

pub mod config;
pub mod contract;
mod conversation;
mod error;
mod key;
pub mod model;
mod queue;
mod request;
mod rng;
mod stats;
mod user;
mod workload;

pub use config::WorkloadConfig;
pub use error::Error;
pub use stats::WorkloadStats;
pub use workload::{PopulationItem, Workload};
