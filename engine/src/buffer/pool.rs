//! A region cut in equal buffers, each with at most one owner: of one thread, or handed from thread
//! to thread, so that a stream is made in one, written from another and read into a third, and its
//! memory stays the same however long it is.

#![allow(unsafe_code, reason = "slices over buffers that exactly one owner holds")]

use std::cell::RefCell;
use std::ops::Deref;
use std::rc::Rc;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use super::{Mapping, PageKind};
use crate::error::SetupError;
use crate::units::BLOCK_BYTES;

/// Buffers of one thread.
pub type BufferPool = Pool<Rc<Region<OfOneThread>>>;
/// Buffer of one thread.
pub type Buffer = Pooled<Rc<Region<OfOneThread>>>;
/// Large buffers that threads hand to each other.
pub type ChunkPool = Pool<Arc<Region<Handed>>>;
/// Large buffer, on whichever thread has it.
pub type Chunk = Pooled<Arc<Region<Handed>>>;

/// Equal buffers in one aligned region. Taking and giving back are O(1) and allocate nothing.
#[derive(Clone, Debug)]
pub struct Pool<R: SharedRegion> {
    region: R,
}

/// One buffer: the only access to its bytes. Goes back to the pool on drop.
#[derive(Debug)]
pub struct Pooled<R: SharedRegion> {
    region: R,
    index: u32,
}

/// Memory of a pool, and who has which part of it.
#[derive(Debug)]
pub struct Region<F> {
    mapping: Mapping,
    buffer_bytes: usize,
    count: u32,
    free: F,
}

/// A region that its pool and all buffers in use hold together.
pub trait SharedRegion:
    Clone + Deref<Target = Region<Self::Free>> + From<Region<Self::Free>>
{
    /// Numbers of the buffers that nobody holds.
    type Free: FreeBuffers;
}

/// Numbers of the buffers that nobody holds.
pub trait FreeBuffers {
    /// All of them, the next one last.
    fn of(indices: Vec<u32>) -> Self;
    /// Takes a look at them.
    fn with<T>(&self, look: impl FnOnce(&mut Vec<u32>) -> T) -> T;
    /// Gives one back.
    fn give_back(&self, index: u32);
}

/// Free buffers that one thread takes and gives back.
pub type OfOneThread = RefCell<Vec<u32>>;

/// Free buffers that any thread takes and gives back.
#[derive(Debug)]
pub struct Handed {
    free: Mutex<Vec<u32>>,
    given_back: Condvar,
}

impl SharedRegion for Rc<Region<OfOneThread>> {
    type Free = OfOneThread;
}

impl SharedRegion for Arc<Region<Handed>> {
    type Free = Handed;
}

impl FreeBuffers for OfOneThread {
    fn of(indices: Vec<u32>) -> OfOneThread {
        RefCell::new(indices)
    }

    fn with<T>(&self, look: impl FnOnce(&mut Vec<u32>) -> T) -> T {
        look(&mut self.borrow_mut())
    }

    fn give_back(&self, index: u32) {
        self.borrow_mut().push(index);
    }
}

impl FreeBuffers for Handed {
    fn of(indices: Vec<u32>) -> Handed {
        Handed { free: Mutex::new(indices), given_back: Condvar::new() }
    }

    fn with<T>(&self, look: impl FnOnce(&mut Vec<u32>) -> T) -> T {
        // Plain data: a panic elsewhere can't have left it half-changed.
        look(&mut self.free.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn give_back(&self, index: u32) {
        self.with(|free| free.push(index));
        self.given_back.notify_one();
    }
}

impl<R: SharedRegion> Pool<R> {
    /// `count` buffers of `buffer_bytes` (a multiple of 4 KiB). They hold zeros, and take memory
    /// when they are first written to.
    ///
    /// # Errors
    /// When there is no memory.
    ///
    /// # Panics
    /// On a size that is no multiple of 4 KiB, or no buffers: a bug of the caller.
    pub fn new(buffer_bytes: usize, count: u32) -> Result<Pool<R>, SetupError> {
        assert!(buffer_bytes > 0 && buffer_bytes.is_multiple_of(BLOCK_BYTES as usize) && count > 0);
        let all_bytes = buffer_bytes
            .checked_mul(count as usize)
            .ok_or(SetupError::BufferMemory { bytes: u64::MAX, errno: libc::ENOMEM })?;
        let mapping = Mapping::new(all_bytes, true)?;
        // Popped from the end: the lowest, cache-warm buffers are used first.
        let free = R::Free::of((0..count).rev().collect());
        Ok(Pool { region: Region { mapping, buffer_bytes, count, free }.into() })
    }

    /// A free buffer, if there is one.
    #[must_use]
    pub fn take(&self) -> Option<Pooled<R>> {
        let index = self.region.free.with(Vec::pop)?;
        Some(Pooled { region: self.region.clone(), index })
    }

    /// Number of buffers that the pool was made with.
    pub fn count(&self) -> u32 {
        self.region.count
    }

    /// Buffers that nobody holds.
    pub fn free_count(&self) -> usize {
        self.region.free.with(|free| free.len())
    }

    /// Size of each buffer of the pool, bytes.
    pub fn buffer_bytes(&self) -> usize {
        self.region.buffer_bytes
    }

    /// Kind of pages that back the region.
    pub fn page_kind(&self) -> PageKind {
        self.region.mapping.page_kind()
    }

    /// Gives all buffers their memory now, as [`Mapping::make_huge`].
    #[must_use]
    pub fn make_huge(&self) -> Option<bool> {
        self.region.mapping.make_huge()
    }

    /// Start and length of the whole region, for registration with the kernel.
    pub fn region(&self) -> (*mut u8, usize) {
        (self.region.mapping.as_ptr(), self.region.buffer_bytes * self.region.count as usize)
    }

    /// Whether a buffer came from here.
    pub fn is_home_of(&self, buffer: &Pooled<R>) -> bool {
        std::ptr::eq(&*self.region, &*buffer.region)
    }
}

impl ChunkPool {
    /// A free chunk; waits until somebody on another thread gives one back.
    #[must_use]
    pub fn take_wait(&self) -> Chunk {
        let Handed { free, given_back } = &self.region.free;
        let mut free = free.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(index) = free.pop() {
                return Pooled { region: Arc::clone(&self.region), index };
            }
            free = given_back.wait(free).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl<R: SharedRegion> Pooled<R> {
    /// Offset of this buffer in the pool's region.
    pub fn region_offset(&self) -> usize {
        self.index as usize * self.region.buffer_bytes
    }

    /// Its address, for the kernel. Aligned to 4 KiB.
    pub fn as_ptr(&self) -> *mut u8 {
        self.region.mapping.range_ptr(self.region_offset(), self.region.buffer_bytes)
    }

    /// All bytes of the buffer, with what its last user left in them.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: inside the mapping, initialised (zeroed by the kernel), and this handle is the
        // only owner of the index; the mapping lives as long as the region held here.
        unsafe { std::slice::from_raw_parts(self.as_ptr(), self.region.buffer_bytes) }
    }

    /// Its bytes, to write.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `bytes`, and `&mut self` excludes any other reference.
        unsafe { std::slice::from_raw_parts_mut(self.as_ptr(), self.region.buffer_bytes) }
    }
}

impl AsRef<[u8]> for Chunk {
    fn as_ref(&self) -> &[u8] {
        self.bytes()
    }
}

impl AsMut<[u8]> for Chunk {
    fn as_mut(&mut self) -> &mut [u8] {
        self.bytes_mut()
    }
}

impl<R: SharedRegion> Drop for Pooled<R> {
    fn drop(&mut self) {
        self.region.free.give_back(self.index);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn do_not_overlap_and_come_back<R: SharedRegion>() {
        let pool = Pool::<R>::new(8192, 5).unwrap();
        let mut held: Vec<Pooled<R>> = std::iter::from_fn(|| pool.take()).collect();
        assert_eq!(held.len(), 5);
        for (value, buffer) in held.iter_mut().enumerate() {
            buffer.bytes_mut().fill(value as u8);
        }
        for (value, buffer) in held.iter().enumerate() {
            assert!(buffer.bytes().iter().all(|&byte| byte == value as u8));
            assert!(pool.is_home_of(buffer));
        }
        assert!(pool.take().is_none());
        held.clear();
        assert_eq!(pool.free_count(), 5);
    }

    #[test]
    fn buffers_do_not_overlap_and_come_back() {
        do_not_overlap_and_come_back::<Rc<Region<OfOneThread>>>();
        do_not_overlap_and_come_back::<Arc<Region<Handed>>>();
    }

    #[test]
    fn a_buffer_outlives_the_pool_handle() {
        let pool = BufferPool::new(4096, 1).unwrap();
        let mut buffer = pool.take().unwrap();
        drop(pool);
        buffer.bytes_mut()[4095] = 7;
        assert_eq!(buffer.bytes()[4095], 7);
    }

    #[test]
    fn a_chunk_that_another_thread_gives_back_wakes_who_waits() {
        let pool = ChunkPool::new(4096, 1).unwrap();
        let mut chunk = pool.take().unwrap();
        let other = std::thread::spawn(move || {
            chunk.bytes_mut()[4095] = 7;
            drop(chunk);
        });
        assert_eq!(pool.take_wait().bytes()[4095], 7);
        other.join().unwrap();
    }

    #[test]
    fn more_than_can_be_addressed_is_an_error() {
        let error = ChunkPool::new(1 << 62, 8).unwrap_err();
        assert!(matches!(error, SetupError::BufferMemory { .. }), "{error}");
    }
}
