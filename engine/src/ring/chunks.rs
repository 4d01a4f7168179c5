//! A ring for a plain thread that moves whole chunks to and from files: it owns a chunk from the
//! moment it is pushed until the last piece of it has completed, whatever goes wrong meanwhile.

#![allow(unsafe_code, reason = "pushing entries whose chunks the ring owns until they complete")]

use std::collections::VecDeque;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::sync::Arc;

use super::dialect::{Files, NamedFile, file_entry};
use super::op::{IoKind, IoRequest};
use super::patience::WAIT_MAX;
use super::raw::RawRing;
use super::setup::{RingConfig, RingSetup};
use crate::buffer::{Chunk, ChunkPool, MemoryPlace};
use crate::clock::{Nanos, monotonic_now};
use crate::error::SetupError;
use crate::units::BLOCK_BYTES;

/// Submission queue entries: pieces that the kernel takes at a time.
const ENTRIES: u32 = 64;

/// One chunk's way to or from a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ChunkIo {
    /// Whether the file is read into the chunk or written from it.
    pub kind: IoKind,
    /// Where in the file, bytes; a multiple of 4 KiB for a file opened with O_DIRECT.
    pub offset_bytes: u64,
    /// Bytes of the chunk from its beginning, not 0.
    pub length_bytes: usize,
    /// Comes back with the completion.
    pub tag: u64,
}

/// End of a chunk's I/O.
#[derive(Debug)]
pub struct ChunkDone {
    /// The I/O as it was asked for.
    pub io: ChunkIo,
    /// The chunk, given back.
    pub chunk: Chunk,
    /// The positive errno of the first piece that failed; 0 where the file ended too early.
    pub outcome: Result<(), i32>,
    /// When it was pushed.
    pub pushed: Nanos,
    /// When its last piece had completed.
    pub completed: Nanos,
}

/// A chunk under way.
struct Flight {
    chunk: Chunk,
    file: Arc<File>,
    io: ChunkIo,
    pushed: Nanos,
    pieces: u32,
    failed: Option<i32>,
}

/// The ring. All I/O is done when it is dropped. Each piece of a chunk is one I/O, named by the
/// chunk's flight and the block of the chunk that it begins with.
pub struct ChunkRing {
    raw: RawRing<Files>,
    pool: ChunkPool,
    piece_bytes: usize,
    /// Bytes that a registered piece of the region holds; none where it is not registered.
    registered_span: Option<usize>,
    flights: Vec<Option<Flight>>,
    done: VecDeque<ChunkDone>,
}

impl ChunkRing {
    /// Makes a ring on this thread, which must be the one to drive it, for the chunks of a pool.
    /// Each chunk is moved in pieces of at most `piece_bytes`, all of them at once.
    ///
    /// # Errors
    /// When the kernel or its limits do not allow it.
    ///
    /// # Panics
    /// When `piece_bytes` is no multiple of 4 KiB: a bug of the caller.
    pub fn new(pool: &ChunkPool, piece_bytes: usize) -> Result<ChunkRing, SetupError> {
        assert!(piece_bytes > 0 && piece_bytes.is_multiple_of(BLOCK_BYTES as usize));
        let mut setup = RingSetup::new(RingConfig { entries: ENTRIES, ..RingConfig::default() })?;
        let (start, bytes) = pool.region();
        // SAFETY: the pool lives in the same struct as the ring, whose `Drop` waits until nothing
        // is in flight; the kernel holds registered pages whatever is unmapped.
        let registered = unsafe { setup.register_buffers(start, bytes, pool.buffer_bytes()) };
        // Without it each I/O pins its pages: slower, not wrong.
        let registered_span = registered.is_ok().then_some(setup.registered_span_bytes);
        Ok(ChunkRing {
            raw: RawRing::new(setup.ring),
            pool: pool.clone(),
            piece_bytes,
            registered_span,
            flights: Vec::new(),
            done: VecDeque::new(),
        })
    }

    /// Chunks not given back.
    pub fn in_flight(&self) -> usize {
        self.flights.iter().flatten().count() + self.done.len()
    }

    /// Takes a chunk and hands its pieces to the kernel, as many as it takes at once.
    ///
    /// # Panics
    /// When the chunk is of another pool, or shorter than what is to be moved: a bug of the caller.
    pub fn push(&mut self, file: &Arc<File>, io: ChunkIo, chunk: Chunk) {
        assert!(self.pool.is_home_of(&chunk), "the ring registered the memory of its own pool");
        assert!(io.length_bytes > 0 && io.length_bytes <= self.pool.buffer_bytes());
        assert!(io.kind != IoKind::Flush, "a flush moves no chunk");
        let index = self.flights.iter().position(Option::is_none).unwrap_or_else(|| {
            self.flights.push(None);
            self.flights.len() - 1
        });
        let pieces = io.length_bytes.div_ceil(self.piece_bytes) as u32;
        let (file, pushed) = (Arc::clone(file), monotonic_now());
        self.flights[index] = Some(Flight { chunk, file, io, pushed, pieces, failed: None });
        (0..io.length_bytes).step_by(self.piece_bytes).for_each(|start| self.ask(index, start));
        self.raw.hand_over(|_| {});
    }

    /// Number of bytes from `start` to the end of the piece that it is in.
    fn piece_length(&self, io: &ChunkIo, start: usize) -> usize {
        (self.piece_bytes - start % self.piece_bytes).min(io.length_bytes - start)
    }

    /// Queues what is left of a piece from `start` on.
    fn ask(&mut self, index: usize, start: usize) {
        let flight = self.flights[index].as_ref().expect("a piece's chunk is in flight");
        let length = self.piece_length(&flight.io, start);
        let request = IoRequest {
            kind: flight.io.kind,
            offset_bytes: flight.io.offset_bytes + start as u64,
            length_bytes: u32::try_from(length).expect("a piece is far below 4 GiB"),
            buffer_offset: 0,
        };
        let place = MemoryPlace {
            pointer: flight.chunk.as_ptr().wrapping_add(start),
            region_offset: Some(flight.chunk.region_offset() + start),
        };
        let file = NamedFile::Descriptor(flight.file.as_raw_fd());
        let entry = file_entry(&file, request, Some(&place), self.registered_span);
        let token = ((index as u64) << 32) | (start as u64 / BLOCK_BYTES);
        // SAFETY: the chunk and the file belong to the flight, which stays in the table until its
        // last piece has completed; `Drop` waits for that.
        unsafe { self.raw.push(token, entry, |_| {}) };
    }

    /// Hands over what waits, and waits until some piece has completed, a second at the most.
    ///
    /// # Errors
    /// `ETIMEDOUT` when nothing has completed for [`SILENCE_MAX`](super::SILENCE_MAX) although I/Os
    /// are in flight.
    pub fn wait(&mut self) -> std::io::Result<()> {
        if !self.done.is_empty() {
            return Ok(());
        }
        let waited = self.raw.wait(Some(WAIT_MAX), |_| {});
        self.reap();
        waited
    }

    /// A chunk that has been moved, or could not be.
    pub fn next_done(&mut self) -> Option<ChunkDone> {
        self.reap();
        self.done.pop_front()
    }

    fn reap(&mut self) {
        while let Some((token, result)) = self.raw.reap() {
            let start = (token & 0xffff_ffff) * BLOCK_BYTES;
            self.complete((token >> 32) as usize, start as usize, result);
        }
    }

    fn complete(&mut self, index: usize, start: usize, result: i32) {
        let flight = self.flights[index].as_ref().expect("a piece's chunk is in flight");
        let length = self.piece_length(&flight.io, start);
        let moved = usize::try_from(result).unwrap_or(0);
        if moved > 0 && moved < length && moved.is_multiple_of(BLOCK_BYTES as usize) {
            // The kernel may stop half-way, as at a signal: the rest is asked for again.
            return self.ask(index, start + moved);
        }
        let flight = self.flights[index].as_mut().expect("it was there");
        if moved != length {
            // A device that takes nothing more, or a file that ends, reports no error of its own.
            flight.failed.get_or_insert(result.min(0).saturating_neg());
        }
        flight.pieces -= 1;
        if flight.pieces == 0
            && let Some(flight) = self.flights[index].take()
        {
            self.done.push_back(ChunkDone {
                io: flight.io,
                chunk: flight.chunk,
                outcome: flight.failed.map_or(Ok(()), Err),
                pushed: flight.pushed,
                completed: monotonic_now(),
            });
        }
    }
}

impl Drop for ChunkRing {
    fn drop(&mut self) {
        // The rest of a short piece is not asked for.
        if !self.raw.drain(|_| {}, |_, _| {}) {
            // Reusing chunks under a device that still writes could corrupt memory; leaking them
            // can't.
            std::mem::forget(std::mem::take(&mut self.flights));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;

    fn scratch(name: &str) -> (std::path::PathBuf, Arc<File>) {
        let name = format!("ringfall-chunks-{}-{name}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let mut options = File::options();
        let file = options.read(true).write(true).create(true).truncate(true).open(&path).unwrap();
        (path, Arc::new(file))
    }

    fn next(ring: &mut ChunkRing) -> ChunkDone {
        loop {
            if let Some(done) = ring.next_done() {
                return done;
            }
            ring.wait().unwrap();
        }
    }

    fn io(kind: IoKind, offset_bytes: u64, length_bytes: usize) -> ChunkIo {
        ChunkIo { kind, offset_bytes, length_bytes, tag: offset_bytes }
    }

    #[test]
    fn chunks_go_out_in_pieces_and_come_back_whole() {
        let (path, file) = scratch("pieces");
        let pool = ChunkPool::new(1 << 20, 3).unwrap();
        // 256 pieces a chunk: many times what the queue takes at once.
        let mut ring = ChunkRing::new(&pool, 4096).unwrap();
        for part in 0..3_u64 {
            let mut chunk = pool.take().unwrap();
            for (place, bytes) in chunk.bytes_mut().as_chunks_mut::<8>().0.iter_mut().enumerate() {
                *bytes = (part << 32 | place as u64).to_le_bytes();
            }
            ring.push(&file, io(IoKind::Write, part << 20, 1 << 20), chunk);
        }
        assert_eq!((ring.in_flight(), pool.free_count()), (3, 0));
        for _ in 0..3 {
            assert_eq!(next(&mut ring).outcome, Ok(()));
        }
        assert_eq!((ring.in_flight(), pool.free_count()), (0, 3));
        ring.push(&file, io(IoKind::Read, 2 << 20, 1 << 20), pool.take().unwrap());
        let done = next(&mut ring);
        assert_eq!(done.outcome, Ok(()));
        assert!(done.completed >= done.pushed && done.io.tag == 2 << 20);
        let mut expected = vec![0; 1 << 20];
        file.read_exact_at(&mut expected, 2 << 20).unwrap();
        assert_eq!(done.chunk.bytes(), expected);
        assert_eq!(expected[8..16], (2_u64 << 32 | 1).to_le_bytes());
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn a_file_that_ends_early_is_told_from_an_errno() {
        let (path, file) = scratch("short");
        file.set_len(8192 + 5).unwrap();
        let pool = ChunkPool::new(64 << 10, 1).unwrap();
        let mut ring = ChunkRing::new(&pool, 16 << 10).unwrap();
        ring.push(&file, io(IoKind::Read, 0, 32 << 10), pool.take().unwrap());
        assert_eq!(next(&mut ring).outcome, Err(0));
        let read_only = Arc::new(File::open(&path).unwrap());
        ring.push(&read_only, io(IoKind::Write, 0, 4096), pool.take().unwrap());
        assert_eq!(next(&mut ring).outcome, Err(libc::EBADF));
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn a_ring_that_ends_gives_its_chunks_back_when_the_kernel_has() {
        let (path, file) = scratch("dropped");
        let pool = ChunkPool::new(1 << 20, 4).unwrap();
        let mut ring = ChunkRing::new(&pool, 64 << 10).unwrap();
        for part in 0..4_u64 {
            ring.push(&file, io(IoKind::Write, part << 20, 1 << 20), pool.take().unwrap());
        }
        drop(ring);
        assert_eq!(pool.free_count(), 4);
        std::fs::remove_file(path).unwrap();
    }
}
