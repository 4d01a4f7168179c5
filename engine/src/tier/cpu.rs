//! The CPU tier: entries in host memory, made and read where they are.
//!
//! The whole tier is one range of addresses, cut in 2 MiB chunks that belong to all shards. Memory
//! comes to it in steps, ahead of need, and is touched before an entry gets it: the first touch of
//! a page costs the kernel its zeroing (and a virtual machine its host's too), which would be
//! measured as the tier's slowness. What an entry has beyond whole chunks is allocated exactly.

#![allow(unsafe_code, reason = "slices over chunks that exactly one entry owns")]

use std::cell::RefCell;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use crossbeam_queue::ArrayQueue;

use crate::buffer::{AlignedBytes, Lender, Mapping, NumaNodes};
use crate::error::SetupError;
use crate::fill::{NamedContent, VerifyMode, VerifyReport};
use crate::space::Space;
use crate::tier::pages::{HostPages, PageLocker};
use crate::units::{MIB, round_up_to_block};

/// Size of a chunk.
pub const CHUNK_BYTES: usize = 2 * MIB as usize;

/// Says how much memory may still be taken on this machine.
#[derive(Clone)]
pub struct MemoryGauge(Arc<dyn Fn() -> Option<u64> + Send + Sync>);

impl MemoryGauge {
    /// A gauge that asks `left_bytes`, on a thread of its own, before each step; none: unknown.
    pub fn new(left_bytes: impl Fn() -> Option<u64> + Send + Sync + 'static) -> MemoryGauge {
        MemoryGauge(Arc::new(left_bytes))
    }
}

impl std::fmt::Debug for MemoryGauge {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("MemoryGauge")
    }
}

/// The memory of the tier, shared by all shards. Taking and giving back a chunk is lock-free.
#[derive(Debug)]
pub struct CpuPool {
    /// By chunk: how the GPUs reach it. Before the mapping, which is to outlive them.
    pages: Box<[OnceLock<HostPages>]>,
    /// The GPUs for which chunks are page-locked, until they take no more.
    gpu: Option<Arc<dyn PageLocker>>,
    /// Why a chunk is not page-locked for them.
    unlocked: OnceLock<String>,
    mapping: Option<Mapping>,
    chunk_count: u32,
    /// Chunks that get their memory when the shards open.
    first_chunks: u32,
    /// Chunks that have memory, or get it now. Raised by one thread at a time.
    next_chunk: AtomicU32,
    free: ArrayQueue<u32>,
    gauge: Option<MemoryGauge>,
    /// NUMA nodes of the threads that have the memory.
    nodes: NumaNodes,
    /// Set when what comes in steps was told to come from these nodes.
    is_spread: OnceLock<()>,
    /// Entries have sizes only.
    is_hollow: bool,
}

impl CpuPool {
    /// A tier whose entries have no memory, however large they are: for simulated runs.
    pub fn hollow() -> Arc<CpuPool> {
        Arc::new(CpuPool { is_hollow: true, ..CpuPool::over(None, 0, 0, None, None) })
    }

    /// Address space for a tier of `capacity_bytes`, all of which [`CpuPool::populate`] gives
    /// memory.
    pub fn new(capacity_bytes: u64) -> Result<Arc<CpuPool>, SetupError> {
        CpuPool::growing(capacity_bytes, u64::MAX, None, None)
    }

    /// The same for a tier of which [`CpuPool::populate`] gives memory to the first `first_bytes`
    /// only. The rest comes in steps ([`Space`]), each after a look at `gauge`. Its chunks are
    /// page-locked for `gpu`, where there is one, so that copies between the two need no other
    /// memory.
    pub fn growing(
        capacity_bytes: u64,
        first_bytes: u64,
        gauge: Option<MemoryGauge>,
        gpu: Option<Arc<dyn PageLocker>>,
    ) -> Result<Arc<CpuPool>, SetupError> {
        let too_large = || SetupError::CpuTierTooLarge { bytes: capacity_bytes };
        let chunks = capacity_bytes / CHUNK_BYTES as u64;
        let chunk_count = u32::try_from(chunks).map_err(|_| too_large())?;
        let first_chunks = (first_bytes / CHUNK_BYTES as u64).min(chunks) as u32;
        let bytes = chunk_count as usize * CHUNK_BYTES;
        let mapping = if bytes > 0 { Some(Mapping::closed(bytes)?) } else { None };
        Ok(Arc::new(CpuPool::over(mapping, chunk_count, first_chunks, gauge, gpu)))
    }

    fn over(
        mapping: Option<Mapping>,
        chunk_count: u32,
        first_chunks: u32,
        gauge: Option<MemoryGauge>,
        gpu: Option<Arc<dyn PageLocker>>,
    ) -> CpuPool {
        let locked_chunks = if gpu.is_some() { chunk_count } else { 0 };
        CpuPool {
            pages: (0..locked_chunks).map(|_| OnceLock::new()).collect(),
            gpu,
            unlocked: OnceLock::new(),
            mapping,
            chunk_count,
            first_chunks,
            next_chunk: AtomicU32::new(first_chunks),
            free: ArrayQueue::new((chunk_count as usize).max(1)),
            gauge,
            nodes: NumaNodes::default(),
            is_spread: OnceLock::new(),
            is_hollow: false,
        }
    }

    /// Touches part `part` of `parts` of what is to have memory at first, and makes its chunks
    /// available. Each part once, by the thread whose NUMA node is to hold it.
    pub fn populate(&self, part: u16, parts: u16) -> Result<(), SetupError> {
        self.nodes.add_this_thread();
        let first = u64::from(self.first_chunks);
        let bound = |n: u16| (first * u64::from(n) / u64::from(parts)) as u32;
        (bound(part)..bound(part + 1)).try_for_each(|chunk| self.open(chunk))
    }

    /// Has what comes in steps come from the nodes of the threads that use it, in turn: the thread
    /// that takes the steps is on whichever node has a core to spare.
    fn spread_steps(&self) {
        let Some(mapping) = &self.mapping else { return };
        self.is_spread.get_or_init(|| {
            let first_bytes = self.first_chunks as usize * CHUNK_BYTES;
            let all_bytes = self.chunk_count as usize * CHUNK_BYTES;
            let spread = self.nodes.spread(mapping, first_bytes, all_bytes - first_bytes);
            if let Err(error) = spread {
                tracing::debug!(%error, "host memory is not spread over NUMA nodes");
            }
        });
    }

    fn open(&self, chunk: u32) -> Result<(), SetupError> {
        let mapping = self.mapping.as_ref().expect("there are chunks, so there is a mapping");
        mapping.populate(chunk as usize * CHUNK_BYTES, CHUNK_BYTES)?;
        self.lock(chunk);
        self.free.push(chunk).expect("the queue has a place for every chunk");
        Ok(())
    }

    /// Page-locks a chunk for the GPUs. What can't be is copied all the same, only slower.
    fn lock(&self, chunk: u32) {
        let (Some(gpu), None) = (&self.gpu, self.unlocked.get()) else { return };
        // SAFETY: the mapping lives longer than `pages`, which keeps the answer.
        match unsafe { gpu.lock_pages(self.start(chunk), CHUNK_BYTES) } {
            // A chunk is opened once, or again after there was no memory for it.
            Ok(pages) => drop(self.pages[chunk as usize].set(pages)),
            Err(fault) => drop(self.unlocked.set(fault.to_string())),
        }
    }

    /// Why some of the tier's chunks are not page-locked for the GPUs; none where all are, or where
    /// there is no GPU.
    pub fn why_unlocked(&self) -> Option<&str> {
        self.unlocked.get().map(String::as_str)
    }

    fn is_page_locked(&self, chunk: u32) -> bool {
        self.pages.get(chunk as usize).is_some_and(|pages| pages.get().is_some())
    }

    /// Chunks that no entry holds.
    pub fn free_chunks(&self) -> usize {
        self.free.len()
    }

    /// Chunks that have memory by now.
    pub fn chunks(&self) -> usize {
        self.next_chunk.load(Ordering::Relaxed) as usize
    }

    /// Memory for an entry of `bytes`, rounded up to whole blocks. Within the tier's budget its
    /// whole chunks come from the pool; a reader that still holds what was moved away may make the
    /// pool short, then they come from the heap.
    #[must_use]
    pub fn allocate(self: &Arc<Self>, bytes: u64) -> CpuEntry {
        if self.is_hollow {
            return CpuEntry { chunks: Vec::new(), tail: AlignedBytes::zeroed(0) };
        }
        let bytes = round_up_to_block(bytes) as usize;
        let chunks = (0..bytes / CHUNK_BYTES).map(|_| self.chunk()).collect();
        CpuEntry { chunks, tail: AlignedBytes::zeroed(bytes % CHUNK_BYTES) }
    }

    fn chunk(self: &Arc<Self>) -> Chunk {
        match self.free.pop() {
            Some(index) => Chunk::Pooled(Arc::clone(self), index),
            None => Chunk::Heap(AlignedBytes::zeroed(CHUNK_BYTES)),
        }
    }

    fn start(&self, index: u32) -> *mut u8 {
        let mapping = self.mapping.as_ref().expect("a chunk was handed out, so there is a mapping");
        mapping.range_ptr(index as usize * CHUNK_BYTES, CHUNK_BYTES)
    }
}

/// A step is memory for so many bytes of entries, which take it as chunks and as exact rests: of
/// both together there is no more than the steps came to. Chunks get memory as long as fewer are
/// free than the step is long.
impl Space for CpuPool {
    fn left_bytes(&self) -> Option<u64> {
        self.gauge.as_ref().and_then(|MemoryGauge(left_bytes)| left_bytes())
    }

    fn take(&self, _offset_bytes: u64, length_bytes: u64) -> Result<(), String> {
        self.spread_steps();
        let wanted = (length_bytes / CHUNK_BYTES as u64) as usize;
        while self.free.len() < wanted {
            let chunk = self.next_chunk.load(Ordering::Relaxed);
            if chunk == self.chunk_count {
                break;
            }
            self.next_chunk.store(chunk + 1, Ordering::Relaxed);
            self.open(chunk).map_err(|error| {
                // Not there: the next step tries it again.
                self.next_chunk.store(chunk, Ordering::Relaxed);
                error.to_string()
            })?;
        }
        Ok(())
    }
}

#[derive(Debug)]
enum Chunk {
    Pooled(Arc<CpuPool>, u32),
    Heap(AlignedBytes),
}

impl Chunk {
    fn bytes(&self) -> &[u8] {
        match self {
            Chunk::Heap(bytes) => bytes.bytes(),
            // SAFETY: inside the mapping, which the Arc keeps; this Chunk alone owns the index,
            // which came from the queue once and goes back on drop.
            Chunk::Pooled(pool, index) => unsafe {
                std::slice::from_raw_parts(pool.start(*index), CHUNK_BYTES)
            },
        }
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        match self {
            Chunk::Heap(bytes) => bytes.bytes_mut(),
            // SAFETY: as in `bytes`, and `&mut self` excludes any other reference.
            Chunk::Pooled(pool, index) => unsafe {
                std::slice::from_raw_parts_mut(pool.start(*index), CHUNK_BYTES)
            },
        }
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        if let Chunk::Pooled(pool, index) = self {
            pool.free.push(*index).expect("the queue has a place for every chunk");
        }
    }
}

impl Lender for RefCell<CpuEntry> {
    fn show(&self, offset: usize, length: usize, look: &mut dyn FnMut(&[u8])) {
        look(self.borrow().piece(offset, length));
    }
}

/// The sum of all words, which nobody needs: to read them is to add them. Eight sums at once, so
/// that the compiler makes vectors of them and loads don't wait for each other.
fn sum_of(bytes: &[u8]) -> u64 {
    const LANES: usize = 8;
    let mut sums = [0u64; LANES];
    let (groups, rest) = bytes.as_chunks::<{ LANES * size_of::<u64>() }>();
    assert!(rest.is_empty(), "what is read is whole blocks");
    for group in groups {
        for (sum, word) in sums.iter_mut().zip(group.as_chunks::<{ size_of::<u64>() }>().0) {
            *sum = sum.wrapping_add(u64::from_ne_bytes(*word));
        }
    }
    sums.iter().fold(0, |all, sum| all.wrapping_add(*sum))
}

/// One entry's memory, whole blocks.
#[derive(Debug)]
pub struct CpuEntry {
    chunks: Vec<Chunk>,
    tail: AlignedBytes,
}

impl CpuEntry {
    /// The longest piece at `offset` that is contiguous, at most `length`.
    pub fn piece(&self, offset: usize, length: usize) -> &[u8] {
        let (chunk, within) = (offset / CHUNK_BYTES, offset % CHUNK_BYTES);
        let bytes = self.chunks.get(chunk).map_or(self.tail.bytes(), Chunk::bytes);
        &bytes[within..(within + length).min(bytes.len())]
    }

    /// As [`CpuEntry::piece`], to write.
    pub fn piece_mut(&mut self, offset: usize, length: usize) -> &mut [u8] {
        let (chunk, within) = (offset / CHUNK_BYTES, offset % CHUNK_BYTES);
        let bytes = match self.chunks.get_mut(chunk) {
            Some(chunk) => chunk.bytes_mut(),
            None => self.tail.bytes_mut(),
        };
        let end = (within + length).min(bytes.len());
        &mut bytes[within..end]
    }

    /// Makes the content of a range, whole blocks, where it is to be. Past the caches where that is
    /// possible: an entry is larger than they are.
    pub fn make(&mut self, offset: usize, length: usize, content: &NamedContent) {
        let mut done = 0;
        while done < length {
            let from = offset + done;
            let piece = self.piece_mut(from, length - done);
            assert!(!piece.is_empty(), "what is made stays inside the entry");
            content.fill(piece, from as u64);
            done += piece.len();
        }
    }

    /// Whether the memory at `offset` is page-locked for the GPUs: of whole chunks of the tier it
    /// is, where that could be done; the rest of an entry, less than a chunk, never is.
    pub fn is_page_locked(&self, offset: usize) -> bool {
        match self.chunks.get(offset / CHUNK_BYTES) {
            Some(Chunk::Pooled(pool, index)) => pool.is_page_locked(*index),
            Some(Chunk::Heap(_)) | None => false,
        }
    }

    /// The contiguous pieces of a range, each with its place in the entry.
    fn pieces(&self, offset: usize, length: usize) -> impl Iterator<Item = (usize, &[u8])> {
        let (mut from, end) = (offset, offset + length);
        std::iter::from_fn(move || {
            let piece = (from < end).then(|| self.piece(from, end - from))?;
            assert!(!piece.is_empty(), "a range stays inside the entry");
            let start = from;
            from += piece.len();
            Some((start, piece))
        })
    }

    /// Reads every byte of a range, whole blocks, once from memory.
    pub fn read_through(&self, offset: usize, length: usize) {
        for (_, piece) in self.pieces(offset, length) {
            std::hint::black_box(sum_of(piece));
        }
    }

    /// Compares a range, whole blocks, with what was made there.
    #[must_use]
    pub fn check(
        &self,
        offset: usize,
        length: usize,
        content: &NamedContent,
        mode: VerifyMode,
    ) -> VerifyReport {
        let mut sum = VerifyReport::default();
        for (from, piece) in self.pieces(offset, length) {
            sum.add(content.verify(mode, piece, from as u64));
        }
        sum
    }

    /// Copies `target.len()` bytes from `offset`.
    pub fn copy_to(&self, offset: usize, target: &mut [u8]) {
        for (from, piece) in self.pieces(offset, target.len()) {
            target[from - offset..][..piece.len()].copy_from_slice(piece);
        }
    }

    /// Copies `source` to `offset`.
    pub fn copy_from(&mut self, offset: usize, source: &[u8]) {
        let mut done = 0;
        while done < source.len() {
            let piece = self.piece_mut(offset + done, source.len() - done);
            assert!(!piece.is_empty(), "a copy stays inside the entry");
            let length = piece.len();
            piece.copy_from_slice(&source[done..done + length]);
            done += length;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(bytes: u64) -> Arc<CpuPool> {
        let pool = CpuPool::new(bytes).unwrap();
        (0..3).for_each(|part| pool.populate(part, 3).unwrap());
        pool
    }

    #[test]
    fn entries_of_all_shapes_keep_their_bytes() {
        let pool = pool(8 << 20);
        let sizes = [1, 4096, 300_000, 2 << 20, (2 << 20) + 1, 7_000_000];
        let mut entries = Vec::new();
        for (tag, bytes) in sizes.into_iter().enumerate() {
            let mut entry = pool.allocate(bytes);
            let pattern: Vec<u8> = (0..bytes).map(|i| (i as usize * 31 + tag) as u8).collect();
            entry.copy_from(0, &pattern);
            entries.push((entry, pattern));
        }
        assert_eq!(pool.free_chunks(), 0, "the last entry took some from the heap");
        for (entry, pattern) in &entries {
            let mut back = vec![0; pattern.len()];
            entry.copy_to(0, &mut back);
            assert_eq!(&back, pattern);
        }
        drop(entries);
        assert_eq!(pool.free_chunks(), 4);
    }

    #[test]
    fn a_tier_of_nothing_and_one_beyond_all_memory() {
        let nothing = pool(0);
        assert_eq!((nothing.free_chunks(), nothing.chunks()), (0, 0));
        let error = CpuPool::new(u64::MAX).unwrap_err();
        assert_eq!(error, SetupError::CpuTierTooLarge { bytes: u64::MAX });
    }

    #[test]
    fn a_tier_that_grows_has_memory_for_what_was_taken_and_no_more() {
        let gauge = MemoryGauge::new(|| Some(123));
        let pool = CpuPool::growing(64 << 30, 8 << 20, Some(gauge), None).unwrap();
        (0..3).for_each(|part| pool.populate(part, 3).unwrap());
        assert_eq!((pool.free_chunks(), pool.chunks()), (4, 4));
        assert_eq!(pool.left_bytes(), Some(123));
        let entry = pool.allocate(6 << 20);
        pool.take(8 << 20, 4 << 20).unwrap();
        assert_eq!((pool.free_chunks(), pool.chunks()), (2, 5));
        // What small entries hold is no chunk: the idle ones are enough.
        pool.take(12 << 20, 4 << 20).unwrap();
        assert_eq!((pool.free_chunks(), pool.chunks()), (2, 5));
        drop(entry);
        assert_eq!(pool.free_chunks(), 5);
        let small = CpuPool::growing(4 << 20, 0, None, None).unwrap();
        small.take(0, 64 << 20).unwrap();
        assert_eq!(small.free_chunks(), 2, "all there are");
    }

    #[test]
    fn chunks_are_shared_between_threads_without_loss() {
        let pool = pool(64 << 20);
        std::thread::scope(|scope| {
            for tag in 0..4u8 {
                let pool = Arc::clone(&pool);
                scope.spawn(move || {
                    for _ in 0..50 {
                        let mut entry = pool.allocate(6 << 20);
                        entry.copy_from(0, &[tag; 64]);
                        let mut back = [0; 64];
                        entry.copy_to(0, &mut back);
                        assert_eq!(back, [tag; 64]);
                    }
                });
            }
        });
        assert_eq!(pool.free_chunks(), 32);
    }
}
