//! Users, conversations and requests of an LLM service as one state machine:
//! time and events in, actions out. No I/O, no threads, no clock, no tiers.

#![forbid(unsafe_code)]

pub mod autoscale;
pub mod config;
pub mod contract;
mod conversation;
pub mod dataset;
mod depth;
pub mod digest;
mod error;
mod estimate;
mod habits;
mod ingest;
mod key;
pub mod layout;
pub mod model;
pub mod prefill;
mod queue;
mod rag;
pub mod recording;
mod request;
pub mod reuse;
mod rng;
mod row_buffer;
mod sample;
mod sightings;
pub mod source;
mod stats;
pub mod tiers;
mod time;
pub mod trace;
mod user;
mod workload;

pub use config::WorkloadConfig;
pub use error::Error;
pub use estimate::PopulationEstimate;
pub use source::Source;
pub use stats::WorkloadStats;
pub use workload::{PopulationItem, SharedParts, Workload};
