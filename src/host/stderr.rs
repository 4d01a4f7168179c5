//! Lines on standard error. One that can't be written ends nothing and delays nothing: its reader
//! may be gone or have stopped, or its disk be full, and the results matter more.

use crate::outlet::{self, Stream};

/// Writes a line to standard error; one that can't be written is lost.
pub fn tell(line: std::fmt::Arguments<'_>) {
    outlet::tell(Stream::Err, &format!("{line}\n"));
}
