//! Work on files as stores of KV cache do it: many objects, each found, opened, written or read,
//! renamed and closed by its path below a directory.
//!
//! Lives here: scripts of such steps, what each answer of the kernel leads to, and who makes the
//! calls: threads with plain system calls, one at a time each, or one ring with many in flight; for
//! a load of its own, or for whoever asks (`crew`), also on a simulated drive (`simulated`).
//! Must not: which store does what (its layout decides and hands in the scripts), and ringfall's
//! own data files, which are `device`.

mod calls;
mod content;
mod course;
mod crew;
mod lines;
mod load;
mod outcome;
mod ring;
mod script;
mod simulated;
mod tile;

pub use calls::close;
pub use content::Marks;
pub use crew::{FileCrew, FileDone, FileJob};
pub use lines::FileLine;
pub use load::{FileLoad, FilePass, FileWorkers, Stopwatch, run, run_passes};
pub use outcome::{FaultCause, FileFault, FileOutcome, StepKind};
pub use script::{FileRequest, FileScript, FileStep, FileTile, OpenHow};
pub use simulated::{FileRule, SimFileDevice, SimFiles};

#[cfg(test)]
mod tests;
