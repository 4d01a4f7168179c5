//! Named workloads for this machine: which there are, with which flags, and why; what keeps
//! them from measuring the drive.
//!
//! Not here: reading the machine (`host::survey`), running anything.

mod machine;
mod report;
mod saved;
mod table;
mod workload;

pub use machine::{Engine, Machine, Place};
pub use report::{Advice, Discovery, IoUring, KvSize, Weight};
pub use saved::SavedSuite;
pub(crate) use table::found;
pub use table::{End, FIGURES, GoBy, Row, SuiteTable, Verdict};
pub use workload::{Asked, Flag, Invocation, WORKLOADS, Workload, invocations};

#[cfg(test)]
mod suite_test;
