//! Lines on standard error. One that can't be written ends nothing and delays nothing: its reader
//! may be gone or have stopped, or its disk be full, and the results matter more.

use std::io::Write as _;

use crate::outlet::{Stream, notices};

/// Writes a line to standard error; one that can't be written is lost.
pub fn tell(line: std::fmt::Arguments<'_>) {
    let _nobody_may_read_it = writeln!(notices(Stream::Err), "{line}");
}
