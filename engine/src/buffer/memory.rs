//! The memory of an I/O: a buffer of the pool, or memory of somebody else's that is written from
//! where it is.

use std::rc::Rc;

use super::Buffer;

/// Where the bytes of an I/O are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemoryPlace {
    /// Address of the first byte of the I/O's memory.
    pub pointer: *mut u8,
    /// Their offset in the region of the pool that they are part of, which may be registered with
    /// the kernel; none when they are no part of it.
    pub region_offset: Option<usize>,
}

/// Memory owned by an I/O in flight: it stays where it is for as long as this lives.
pub trait IoMemory {
    /// Where `length` bytes from `offset` on are.
    ///
    /// # Panics
    /// When there are not so many: a bug of the caller.
    fn place(&self, offset: usize, length: usize) -> MemoryPlace;
}

impl IoMemory for Buffer {
    fn place(&self, offset: usize, length: usize) -> MemoryPlace {
        let bytes = &self.bytes()[offset..];
        assert!(length <= bytes.len(), "an I/O stays inside its buffer");
        MemoryPlace {
            pointer: self.as_ptr().wrapping_add(offset),
            region_offset: Some(self.region_offset() + offset),
        }
    }
}

/// Whose memory an I/O may write from where it is. As long as it lives, and has lent something, its
/// bytes stay where they are and as they are.
pub trait Lender {
    /// Shows the bytes of a range that lie side by side: the longest piece at `offset`, at most
    /// `length`.
    fn show(&self, offset: usize, length: usize, look: &mut dyn FnMut(&[u8]));
}

/// A range of a lender's memory.
pub(super) struct Lent {
    from: Rc<dyn Lender>,
    offset: usize,
    length: usize,
}

impl Lent {
    /// The range, if its bytes lie side by side from the beginning of a page.
    pub(super) fn of(from: Rc<dyn Lender>, offset: usize, length: usize) -> Option<Lent> {
        /// Alignment that O_DIRECT asks of the address of a write, on every device that there is.
        const ALIGNMENT: usize = 4096;
        let mut fits = false;
        from.show(offset, length, &mut |bytes| {
            fits = bytes.len() == length && bytes.as_ptr().align_offset(ALIGNMENT) == 0;
        });
        fits.then_some(Lent { from, offset, length })
    }

    pub(super) fn copy_to(&self, target: &mut [u8]) {
        let target = &mut target[..self.length];
        self.from.show(self.offset, self.length, &mut |bytes| target.copy_from_slice(bytes));
    }
}

impl IoMemory for Lent {
    fn place(&self, offset: usize, length: usize) -> MemoryPlace {
        assert!(offset + length <= self.length, "an I/O stays inside what was lent");
        let mut pointer = std::ptr::null();
        self.from.show(self.offset, self.length, &mut |bytes| pointer = bytes[offset..].as_ptr());
        MemoryPlace { pointer: pointer.cast_mut(), region_offset: None }
    }
}
