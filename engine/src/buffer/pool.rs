//! A region cut in equal buffers, each owned by at most one [`Buffer`].

#![allow(unsafe_code, reason = "slices over buffers that exactly one owner holds")]

use std::cell::RefCell;
use std::rc::Rc;

use super::{Mapping, PageKind};
use crate::error::SetupError;

#[derive(Debug)]
struct Inner {
    mapping: Mapping,
    buffer_bytes: usize,
    count: u32,
    free: RefCell<Vec<u32>>,
}

/// Equal buffers in one aligned region. Taking and giving back are O(1) and allocate nothing.
#[derive(Clone, Debug)]
pub struct BufferPool {
    inner: Rc<Inner>,
}

/// One buffer: the only access to its bytes. Goes back to the pool on drop.
#[derive(Debug)]
pub struct Buffer {
    pool: Rc<Inner>,
    index: u32,
}

impl BufferPool {
    /// `count` buffers of `buffer_bytes` (a multiple of 4 KiB).
    pub fn new(buffer_bytes: usize, count: u32) -> Result<BufferPool, SetupError> {
        assert!(buffer_bytes > 0 && buffer_bytes.is_multiple_of(4096) && count > 0);
        let mapping = Mapping::new(buffer_bytes * count as usize, true)?;
        // Popped from the end: the lowest, cache-warm buffers are used first.
        let free = RefCell::new((0..count).rev().collect());
        Ok(BufferPool { inner: Rc::new(Inner { mapping, buffer_bytes, count, free }) })
    }

    /// A free buffer, if there is one.
    #[must_use]
    pub fn take(&self) -> Option<Buffer> {
        let index = self.inner.free.borrow_mut().pop()?;
        Some(Buffer { pool: Rc::clone(&self.inner), index })
    }

    /// Number of buffers that the pool was made with.
    pub fn count(&self) -> u32 {
        self.inner.count
    }

    /// Buffers that nobody holds.
    pub fn free_count(&self) -> usize {
        self.inner.free.borrow().len()
    }

    /// Size of each buffer of the pool, bytes.
    pub fn buffer_bytes(&self) -> usize {
        self.inner.buffer_bytes
    }

    /// Kind of pages that back the region.
    pub fn page_kind(&self) -> PageKind {
        self.inner.mapping.page_kind()
    }

    /// Gives all buffers their memory now, as [`Mapping::make_huge`].
    #[must_use]
    pub fn make_huge(&self) -> Option<bool> {
        self.inner.mapping.make_huge()
    }

    /// Start and length of the whole region, for registration with the kernel.
    pub fn region(&self) -> (*mut u8, usize) {
        (self.inner.mapping.as_ptr(), self.inner.buffer_bytes * self.inner.count as usize)
    }
}

impl Buffer {
    fn start(&self) -> *mut u8 {
        let bytes = self.pool.buffer_bytes;
        self.pool.mapping.range_ptr(self.index as usize * bytes, bytes)
    }

    /// Offset of this buffer in the pool's region.
    pub fn region_offset(&self) -> usize {
        self.index as usize * self.pool.buffer_bytes
    }

    /// Its address, for the kernel.
    pub fn as_ptr(&self) -> *mut u8 {
        self.start()
    }

    /// All bytes of the buffer, with what its last user left in them.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: inside the mapping, initialised (zeroed by the kernel), and this Buffer is the
        // only owner of the index; the mapping lives as long as the Rc held here.
        unsafe { std::slice::from_raw_parts(self.start(), self.pool.buffer_bytes) }
    }

    /// Its bytes, to write.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `bytes`, and `&mut self` excludes any other reference.
        unsafe { std::slice::from_raw_parts_mut(self.start(), self.pool.buffer_bytes) }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        self.pool.free.borrow_mut().push(self.index);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_do_not_overlap_and_come_back() {
        let pool = BufferPool::new(8192, 5).unwrap();
        let mut held: Vec<Buffer> = std::iter::from_fn(|| pool.take()).collect();
        assert_eq!(held.len(), 5);
        for (value, buffer) in held.iter_mut().enumerate() {
            buffer.bytes_mut().fill(value as u8);
        }
        for (value, buffer) in held.iter().enumerate() {
            assert!(buffer.bytes().iter().all(|&b| b == value as u8));
        }
        assert!(pool.take().is_none());
        held.clear();
        assert_eq!(pool.free_count(), 5);
    }

    #[test]
    fn a_buffer_outlives_the_pool_handle() {
        let pool = BufferPool::new(4096, 1).unwrap();
        let mut buffer = pool.take().unwrap();
        drop(pool);
        buffer.bytes_mut()[4095] = 7;
        assert_eq!(buffer.bytes()[4095], 7);
    }
}
