//! Errors of an I/O, and those found before any work starts. Facts as fields, for callers to branch
//! on; as text, a sentence of what happened. Remedies are the program's, which has flags to name.

mod gpu;
mod io;
mod nvme;
mod passthrough;
mod setup;

pub use gpu::GpuFault;
pub use io::{ErrorKind, IoError, Operation};
pub use nvme::{NvmeStatus, errno_text};
pub use passthrough::PassthroughFault;
pub use setup::SetupError;
