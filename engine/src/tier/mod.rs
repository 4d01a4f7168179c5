//! The tiers an entry can live in, fastest first. One file a tier, and `pages`, by which GPUs reach
//! host memory; the tiers' names are a leaf of the crate ([`crate::key`]), since errors and
//! placement name tiers without knowing what is in them.

pub mod cpu;
pub mod gpu;
pub mod pages;

pub use crate::key::{TIER_COUNT, Tier};
