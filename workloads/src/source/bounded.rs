//! A reader of a JSON array that gives up inside an element that is too large to be one, so that
//! parsing it takes bounded memory.

use std::cell::Cell;
use std::io::Read;
use std::rc::Rc;

/// Ends with an error inside an element of more than `bytes_max`. Who takes an element sets
/// `since_last` back to 0.
pub(super) struct Bounded<R> {
    pub reader: R,
    pub since_last: Rc<Cell<u64>>,
    pub bytes_max: u64,
    /// Name of an element, for the error message.
    pub what: &'static str,
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        if self.since_last.get() > self.bytes_max {
            let told = format!("{} of more than {} bytes", self.what, self.bytes_max);
            return Err(std::io::Error::other(told));
        }
        let read = self.reader.read(buffer)?;
        self.since_last.set(self.since_last.get() + read as u64);
        Ok(read)
    }
}
