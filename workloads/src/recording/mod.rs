//! Recordings of what a program's threads did with files, as strace writes them, or of the requests
//! that drives were sent, and the order in which the same operations can be done again.
//!
//! `ahead`: lines, and those behind them. `call`: a line as a system call. `processes`: whose
//! descriptor is which file. `strace`: calls as operations. `blocks`: requests to drives as
//! operations. `names`: the part below one directory.
//! `tree`: what lies there before it begins, and the space that it takes. `order`: lanes, and which
//! operations of other lanes each one waits for.
//! Not here: doing any of it.

mod ahead;
mod blocks;
mod call;
mod names;
mod operation;
mod order;
mod processes;
mod strace;
mod tree;

pub use names::Part;
pub use operation::{
    After, Failure, FileAction, LaneOperation, LeftOutCalls, OpenMode, RecordedOperation,
};
pub use order::Order;
pub use strace::Recording;
pub use tree::FileBefore;

#[cfg(test)]
mod tests;
