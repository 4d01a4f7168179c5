//! Zeroed memory of the heap that begins at a page, as direct I/O and streaming stores want it.

#![allow(unsafe_code, reason = "an allocation with an alignment of its own")]

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ptr::NonNull;

/// Where it begins: what O_DIRECT asks for at most.
const ALIGNMENT: usize = 4096;

/// Bytes that begin at a page. None of them need memory when there are none.
#[derive(Debug)]
pub struct AlignedBytes {
    start: NonNull<u8>,
    length: usize,
}

impl AlignedBytes {
    /// So many zeros, at most 2 GiB.
    ///
    /// # Panics
    /// When there are more: a bug of the caller. The process ends when there is no memory.
    pub fn zeroed(length: usize) -> AlignedBytes {
        if length == 0 {
            return AlignedBytes { start: NonNull::dangling(), length };
        }
        let layout = layout_of(length);
        // SAFETY: the layout has a size, as `length` is not 0.
        let start = unsafe { alloc_zeroed(layout) };
        let Some(start) = NonNull::new(start) else { handle_alloc_error(layout) };
        AlignedBytes { start, length }
    }

    /// All bytes of the allocation; zero until written.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: allocated and zeroed for this length, and owned by this alone.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.length) }
    }

    /// The bytes, to write.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `bytes`, and `&mut self` excludes any other reference.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.length) }
    }
}

fn layout_of(length: usize) -> Layout {
    assert!(length <= 1 << 31, "what is larger than 2 GiB is mapped");
    Layout::from_size_align(length, ALIGNMENT).expect("a page is a power of two")
}

impl Drop for AlignedBytes {
    fn drop(&mut self) {
        if self.length > 0 {
            // SAFETY: allocated with this layout, once, and not used any more.
            unsafe { dealloc(self.start.as_ptr(), layout_of(self.length)) };
        }
    }
}

// SAFETY: plain bytes that it owns, as a box does.
unsafe impl Send for AlignedBytes {}
// SAFETY: as above; nothing in a shared one changes.
unsafe impl Sync for AlignedBytes {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_begins_at_a_page_and_is_zero() {
        for length in [0, 1, 4096, 300_000] {
            let mut bytes = AlignedBytes::zeroed(length);
            assert_eq!(bytes.bytes().len(), length);
            assert!(length == 0 || bytes.bytes().as_ptr().align_offset(ALIGNMENT) == 0);
            assert!(bytes.bytes().iter().all(|&byte| byte == 0));
            bytes.bytes_mut().fill(7);
            assert!(bytes.bytes().iter().all(|&byte| byte == 7));
        }
    }
}
