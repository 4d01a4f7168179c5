//! Lines on standard error. One that can't be written ends nothing: its reader may be gone, or its
//! disk full, and the results matter more.

use std::io::Write as _;

/// Writes a line to standard error; one that can't be written is lost.
pub fn tell(line: std::fmt::Arguments<'_>) {
    let _nobody_may_read_it = writeln!(std::io::stderr().lock(), "{line}");
}
