//! Named workloads for this machine: which there are, with which flags, and why; what would be
//! better set otherwise before they run.
//!
//! Not here: reading the machine (`host::survey`), running anything.

mod advice;
mod machine;
mod report;
mod saved;
mod table;
mod workload;

pub use advice::{Advice, Weight, advise};
pub use machine::{Engine, Machine, Place};
pub use report::{Discovery, IoUring};
pub use saved::SavedSuite;
pub use table::{End, FIGURES, GoBy, Row, Table, Verdict};
pub use workload::{Asked, Flag, Invocation, WORKLOADS, Workload, invocations};

#[cfg(test)]
mod suite_test;
