//! I/Os between GPU memory and drives that wait until somebody ends them: for simulations, whose
//! drives and time are on one thread.
//!
//! The engine must survive an I/O that ends late, never, or with any answer of a drive, and
//! whatever is dropped meanwhile.

#![allow(unsafe_code, reason = "slices over pieces that belong to an I/O until it has ended")]

use std::cell::Cell;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ringfall_engine::buffer::Mapping;
use ringfall_engine::error::SetupError;
use ringfall_engine::tier::gpu::emulated::EmulatedMemory;
use ringfall_engine::tier::gpu::{Bell, DirectIo, DirectQueue, DirectStorage, Piece};

/// Drives reached from memory that stands in for a GPU's by I/Os that another does, one by one.
#[derive(Debug)]
pub struct ByHand {
    mapping: Arc<Mapping>,
    queues: AtomicUsize,
    begun: Arc<Mutex<Vec<HandedIo>>>,
}

impl ByHand {
    /// Drives that `memory` reaches by I/Os which the caller does.
    pub fn new(memory: &EmulatedMemory) -> Arc<ByHand> {
        let mapping = Arc::clone(memory.mapping());
        Arc::new(ByHand { mapping, queues: AtomicUsize::new(0), begun: Arc::default() })
    }

    /// The I/Os that have begun since the last call, in their order.
    pub fn take_begun(&self) -> Vec<HandedIo> {
        std::mem::take(&mut *locked(&self.begun))
    }
}

impl DirectStorage for ByHand {
    fn open_queue(&self, bell: Bell) -> Result<Box<dyn DirectQueue>, SetupError> {
        Ok(Box::new(HandedQueue {
            number: self.queues.fetch_add(1, Relaxed),
            mapping: Arc::clone(&self.mapping),
            begun: Arc::clone(&self.begun),
            state: Arc::default(),
            is_finished: Cell::new(false),
            bell,
        }))
    }
}

/// A lock that no panic spoils: what it guards is changed in one step.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// State that a queue and its I/Os share.
#[derive(Debug, Default)]
struct State {
    /// Those whose memory is still theirs.
    in_flight: BTreeSet<u64>,
    ended: Vec<(u64, i32)>,
}

struct HandedQueue {
    number: usize,
    mapping: Arc<Mapping>,
    begun: Arc<Mutex<Vec<HandedIo>>>,
    state: Arc<Mutex<State>>,
    is_finished: Cell<bool>,
    bell: Bell,
}

/// An I/O past host memory for somebody to do. Dropped, it never ends.
#[derive(Debug)]
pub struct HandedIo {
    /// Number of its queue, in the order in which they were opened.
    pub queue: usize,
    /// Drive, place in its data file, and direction of the I/O.
    pub io: DirectIo,
    /// Bytes that it moves.
    pub length_bytes: u64,
    token: u64,
    pieces: Vec<Piece>,
    mapping: Arc<Mapping>,
    state: Arc<Mutex<State>>,
    bell: Bell,
}

impl DirectQueue for HandedQueue {
    unsafe fn submit(&self, token: u64, io: DirectIo, pieces: &[Piece]) {
        assert!(!self.is_finished.get(), "nothing begins after the end");
        let is_new = locked(&self.state).in_flight.insert(token);
        assert!(is_new, "a token names one I/O in flight");
        locked(&self.begun).push(HandedIo {
            queue: self.number,
            io,
            length_bytes: pieces.iter().map(|piece| piece.length_bytes).sum(),
            token,
            pieces: pieces.to_vec(),
            mapping: Arc::clone(&self.mapping),
            state: Arc::clone(&self.state),
            bell: self.bell.clone(),
        });
    }

    fn reap(&self, ended: &mut dyn FnMut(u64, i32)) {
        let all = std::mem::take(&mut locked(&self.state).ended);
        all.into_iter().for_each(|(token, result)| ended(token, result));
    }

    /// Does not wait, since nobody would end them: what has not ended by now touches no memory.
    fn finish(&self) {
        self.is_finished.set(true);
        locked(&self.state).in_flight.clear();
    }
}

impl HandedIo {
    /// Ends it. `transfer` is given the bytes to write, or room for those that are read, and says
    /// what the kernel would: bytes moved from the beginning on, or a negative errno. It is not
    /// called, and nothing happens, when nobody has that memory for it any more.
    pub fn end(self, transfer: impl FnOnce(&mut [u8]) -> i32) {
        let mut state = locked(&self.state);
        if !state.in_flight.remove(&self.token) {
            return;
        }
        let mut bytes = Vec::with_capacity(self.length_bytes as usize);
        for piece in &self.pieces {
            let length = piece.length_bytes as usize;
            let start = self.mapping.range_ptr(piece.offset_bytes as usize, length);
            // SAFETY: inside the mapping, which this keeps; the caller of `submit` promised that
            // nobody writes to the piece before the end is reported, which is after this.
            bytes.extend_from_slice(unsafe { std::slice::from_raw_parts(start, length) });
        }
        let result = transfer(&mut bytes);
        if !self.io.is_write {
            let mut rest = &bytes[..];
            for piece in &self.pieces {
                let length = piece.length_bytes as usize;
                let start = self.mapping.range_ptr(piece.offset_bytes as usize, length);
                let (of_piece, others) = rest.split_at(length);
                rest = others;
                // SAFETY: as above, and nobody reads it either.
                unsafe { std::slice::from_raw_parts_mut(start, length) }.copy_from_slice(of_piece);
            }
        }
        state.ended.push((self.token, result));
        drop(state);
        self.bell.ring();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringfall_engine::units::{BLOCK_BYTES, MIB};

    #[test]
    fn an_io_moves_its_bytes_when_it_is_ended_and_not_after_its_queue() {
        let by_hand = ByHand::new(&EmulatedMemory::new(1, 2 * MIB).unwrap());
        let queue = by_hand.open_queue(Bell::silent()).unwrap();
        let block =
            |number| Piece { offset_bytes: number * BLOCK_BYTES, length_bytes: BLOCK_BYTES };
        let begin = |token, is_write, pieces: &[Piece]| {
            // SAFETY: nobody else has this memory.
            unsafe {
                queue.submit(token, DirectIo { drive: 0, offset_bytes: 0, is_write }, pieces)
            };
            by_hand.take_begun().pop().unwrap()
        };
        let read = begin(1, false, &[block(3), block(1)]);
        assert_eq!((read.queue, read.length_bytes), (0, 2 * BLOCK_BYTES));
        let mut ended = Vec::new();
        queue.reap(&mut |token, result| ended.push((token, result)));
        assert!(ended.is_empty());
        read.end(|bytes| {
            bytes[0] = 7;
            bytes[BLOCK_BYTES as usize] = 9;
            8192
        });
        begin(2, true, &[block(1), block(3)]).end(|bytes| {
            assert_eq!((bytes[0], bytes[BLOCK_BYTES as usize]), (9, 7));
            -5
        });
        queue.reap(&mut |token, result| ended.push((token, result)));
        assert_eq!(ended, [(1, 8192), (2, -5)]);
        let late = begin(3, false, &[block(0)]);
        queue.finish();
        late.end(|_| panic!("its memory is another's by now"));
    }
}
