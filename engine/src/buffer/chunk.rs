//! Large equal buffers that threads hand to each other: a stream is made in one, written from
//! another and read into a third, and its memory stays the same however long it is.

#![allow(unsafe_code, reason = "slices over buffers that exactly one owner holds")]

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use super::Mapping;
use crate::error::SetupError;
use crate::units::BLOCK_BYTES;

#[derive(Debug)]
struct Inner {
    mapping: Mapping,
    chunk_bytes: usize,
    count: u32,
    free: Mutex<Vec<u32>>,
    given_back: Condvar,
}

impl Inner {
    fn free(&self) -> MutexGuard<'_, Vec<u32>> {
        // Plain data: a panic elsewhere can't have left it half-changed.
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Equal chunks in one aligned region. All operations are O(1) and allocate nothing.
#[derive(Clone, Debug)]
pub struct ChunkPool {
    inner: Arc<Inner>,
}

/// One chunk: the only access to its bytes, on whichever thread has it. Goes back to its pool on
/// drop.
#[derive(Debug)]
pub struct Chunk {
    pool: Arc<Inner>,
    index: u32,
}

impl ChunkPool {
    /// `count` chunks of `chunk_bytes` (a multiple of 4 KiB). They hold zeros, and take memory when
    /// they are first written to.
    ///
    /// # Errors
    /// When there is no memory.
    ///
    /// # Panics
    /// On a size that is no multiple of 4 KiB, or no chunks: a bug of the caller.
    pub fn new(chunk_bytes: usize, count: u32) -> Result<ChunkPool, SetupError> {
        assert!(chunk_bytes > 0 && chunk_bytes.is_multiple_of(BLOCK_BYTES as usize) && count > 0);
        let all_bytes = chunk_bytes
            .checked_mul(count as usize)
            .ok_or(SetupError::BufferMemory { bytes: u64::MAX, errno: libc::ENOMEM })?;
        let mapping = Mapping::new(all_bytes, true)?;
        let free = Mutex::new((0..count).rev().collect());
        let inner = Inner { mapping, chunk_bytes, count, free, given_back: Condvar::new() };
        Ok(ChunkPool { inner: Arc::new(inner) })
    }

    /// A free chunk, if there is one.
    #[must_use]
    pub fn take(&self) -> Option<Chunk> {
        let index = self.inner.free().pop()?;
        Some(Chunk { pool: Arc::clone(&self.inner), index })
    }

    /// A free chunk; waits until somebody on another thread gives one back.
    #[must_use]
    pub fn take_wait(&self) -> Chunk {
        let mut free = self.inner.free();
        loop {
            if let Some(index) = free.pop() {
                return Chunk { pool: Arc::clone(&self.inner), index };
            }
            free = self.inner.given_back.wait(free).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Number of chunks that the pool was made with.
    pub fn count(&self) -> u32 {
        self.inner.count
    }

    /// Chunks that nobody holds.
    pub fn free_count(&self) -> usize {
        self.inner.free().len()
    }

    /// Size of each, bytes.
    pub fn chunk_bytes(&self) -> usize {
        self.inner.chunk_bytes
    }

    /// Start and length of the whole region, for registration with the kernel.
    pub fn region(&self) -> (*mut u8, usize) {
        (self.inner.mapping.as_ptr(), self.inner.chunk_bytes * self.inner.count as usize)
    }

    /// Whether a chunk came from here.
    pub fn is_home_of(&self, chunk: &Chunk) -> bool {
        Arc::ptr_eq(&self.inner, &chunk.pool)
    }
}

impl Chunk {
    fn start(&self) -> *mut u8 {
        let bytes = self.pool.chunk_bytes;
        self.pool.mapping.range_ptr(self.index as usize * bytes, bytes)
    }

    /// Offset of this chunk in its pool's region.
    pub fn region_offset(&self) -> usize {
        self.index as usize * self.pool.chunk_bytes
    }

    /// Its address, for the kernel. Aligned to 4 KiB.
    pub fn as_ptr(&self) -> *mut u8 {
        self.start()
    }

    /// All bytes of the chunk, with what its last user left in them.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: inside the mapping, initialised (zeroed by the kernel), and this Chunk is the
        // only owner of the index; the mapping lives as long as the Arc held here.
        unsafe { std::slice::from_raw_parts(self.start(), self.pool.chunk_bytes) }
    }

    /// Its bytes, to write.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `bytes`, and `&mut self` excludes any other reference.
        unsafe { std::slice::from_raw_parts_mut(self.start(), self.pool.chunk_bytes) }
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

impl Drop for Chunk {
    fn drop(&mut self) {
        self.pool.free().push(self.index);
        self.pool.given_back.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_do_not_overlap_and_come_back() {
        let pool = ChunkPool::new(8192, 5).unwrap();
        let mut held: Vec<Chunk> = std::iter::from_fn(|| pool.take()).collect();
        assert_eq!(held.len(), 5);
        for (value, chunk) in held.iter_mut().enumerate() {
            chunk.bytes_mut().fill(value as u8);
        }
        for (value, chunk) in held.iter().enumerate() {
            assert!(chunk.bytes().iter().all(|&byte| byte == value as u8));
            assert!(pool.is_home_of(chunk));
        }
        assert!(pool.take().is_none());
        held.clear();
        assert_eq!(pool.free_count(), 5);
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
