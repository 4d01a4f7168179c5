//! Recordings of what a program's threads did with files, as strace writes them, and the order in
//! which the same operations can be done again.
//!
//! `call`: a line as a system call. `processes`: whose descriptor is which file. `strace`: calls as
//! operations. `names`: the part below one directory, and what lies there before it begins.
//! `order`: lanes, and which operations of other lanes each one waits for. Not here: doing any of
//! it.

mod call;
mod names;
mod operation;
mod order;
mod processes;
mod strace;

pub use names::{FileBefore, Part};
pub use operation::{After, FileAction, LaneOperation, OpenMode, RecordedOperation};
pub use order::Order;
pub use strace::Recording;

#[cfg(test)]
mod tests;
