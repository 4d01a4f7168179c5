//! Users, conversations and requests of an LLM service as one state machine:
//! time and events in, actions out. No I/O, no threads, no clock, no tiers.

#![forbid(unsafe_code)]

pub mod contract;
