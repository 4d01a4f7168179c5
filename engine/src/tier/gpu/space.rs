//! The space of a GPU tier: chunks that belong to all shards, cut by each shard in blocks.
//!
//! A chunk that nobody holds is in a queue that all shards share, without a lock. A shard takes
//! whole chunks, and cuts one where an entry needs less: its halves, quarters and so on down to a
//! block are kept by size (a buddy allocator), and a chunk that is whole again goes back to all. An
//! entry may lie in any pieces, so what is free in blocks can be used, however it is scattered.
//!
//! *Worked example.* An entry of 5 MiB + 12 KiB takes two chunks of 2 MiB, and of a third 1 MiB,
//! 8 KiB and 4 KiB: five pieces, fewer where they lie side by side.
//!
//! *Critique.* Blocks that lie idle in a shard's cut chunks are of no use to another shard, and a
//! reader holds the space of an entry that has moved on a moment longer: for both the memory is a
//! little larger than the tier ([`GpuSpace::memory_bytes`]), and when that is not enough an entry
//! passes the tier by.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;

use crossbeam_queue::ArrayQueue;

use crate::units::{BLOCK_BYTES, MIB, blocks_for, round_up_to_block};

/// Size of a chunk.
pub const CHUNK_BYTES: u64 = 2 * MIB;
const CHUNK_BLOCKS: u64 = CHUNK_BYTES / BLOCK_BYTES;
/// Sizes of pieces: 2^0 to 2^8 blocks; the next is a whole chunk.
const ORDERS: usize = CHUNK_BLOCKS.ilog2() as usize;
/// Memory beyond the tier's size: this part of it, and chunks for each shard's cutting.
const SPARE_SHARE: u64 = 64;
const SPARE_CHUNKS_A_SHARD: u64 = 2;
/// A shard lands what it reads in at least so much memory: entries of the CPU tier go there in
/// copies of that size.
const LANDING_BYTES_MIN: u64 = MIB;

const _: () = assert!(CHUNK_BLOCKS.is_power_of_two());

/// Bytes that lie side by side in GPU memory, whole blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Piece {
    /// Where the piece begins in GPU memory, bytes.
    pub offset_bytes: u64,
    /// Length of the piece, bytes.
    pub length_bytes: u64,
}

/// Chunks that no shard holds.
#[derive(Debug)]
pub struct GpuSpace {
    free: ArrayQueue<u64>,
    /// Chunks of one device: no piece crosses from one to the next.
    device_chunks: u64,
}

impl GpuSpace {
    /// The space of `bytes`, of which each device has `device_bytes`; both rounded down to chunks.
    pub fn new(bytes: u64, device_bytes: u64) -> GpuSpace {
        let chunks = bytes / CHUNK_BYTES;
        let free = ArrayQueue::new((chunks as usize).max(1));
        for chunk in 0..chunks {
            free.push(chunk).expect("the queue has a place for every chunk");
        }
        GpuSpace { free, device_chunks: (device_bytes / CHUNK_BYTES).max(1) }
    }

    /// Memory in which a shard lands what it reads by I/Os of `io_bytes`.
    pub fn landing_bytes(io_bytes: u64) -> u64 {
        io_bytes.max(LANDING_BYTES_MIN)
    }

    /// Memory to take on each of `devices` for a tier of `capacity_bytes` that `shards` share, each
    /// of which reads by I/Os of `io_bytes`: whole chunks.
    pub fn memory_bytes(capacity_bytes: u64, devices: u32, shards: u16, io_bytes: u64) -> u64 {
        let spare = capacity_bytes.div_ceil(CHUNK_BYTES * SPARE_SHARE);
        let a_shard =
            SPARE_CHUNKS_A_SHARD + GpuSpace::landing_bytes(io_bytes).div_ceil(CHUNK_BYTES);
        let chunks = capacity_bytes.div_ceil(CHUNK_BYTES) + spare + u64::from(shards) * a_shard;
        let devices = u64::from(devices);
        chunks.div_ceil(devices.max(1)) * CHUNK_BYTES
    }

    /// The largest capacity of whole chunks whose [`GpuSpace::memory_bytes`] are at most
    /// `device_bytes` on each device; 0 when there is none. O(log capacity).
    pub fn capacity_within(device_bytes: u64, devices: u32, shards: u16, io_bytes: u64) -> u64 {
        let fits = |chunks: u64| {
            GpuSpace::memory_bytes(chunks * CHUNK_BYTES, devices, shards, io_bytes) <= device_bytes
        };
        // A tier takes more than its capacity: so many chunks never fit.
        let (mut fitting, mut beyond) = (0, device_bytes / CHUNK_BYTES * u64::from(devices) + 1);
        while fitting + 1 < beyond {
            let middle = u64::midpoint(fitting, beyond);
            match fits(middle) {
                true => fitting = middle,
                false => beyond = middle,
            }
        }
        fitting * CHUNK_BYTES
    }

    /// Chunks that no shard holds.
    pub fn free_chunks(&self) -> usize {
        self.free.len()
    }

    fn put_back(&self, chunk: u64) {
        self.free.push(chunk).expect("the queue has a place for every chunk");
    }
}

/// One shard's part of the space: what is left of the chunks that it has cut.
#[derive(Debug)]
pub struct ShardSpace {
    shared: Arc<GpuSpace>,
    /// Free pieces by the power of two of their blocks: the numbers of their first blocks.
    orders: RefCell<[BTreeSet<u64>; ORDERS]>,
}

impl ShardSpace {
    /// A part of `shared` that holds nothing.
    pub fn new(shared: Arc<GpuSpace>) -> Rc<ShardSpace> {
        Rc::new(ShardSpace { shared, orders: RefCell::default() })
    }

    /// Space for an entry of `bytes`, rounded up to whole blocks; none when there is not so much.
    #[must_use]
    pub fn allocate(self: &Rc<Self>, bytes: u64) -> Option<Rc<GpuEntry>> {
        let mut left = blocks_for(bytes);
        let mut pieces = Vec::new();
        while left > 0 {
            let wanted = (left.ilog2() as usize).min(ORDERS);
            let Some((first, order)) = self.take(wanted) else {
                self.free(&pieces);
                return None;
            };
            left -= 1 << order;
            self.append(&mut pieces, first, 1 << order);
        }
        let bytes = round_up_to_block(bytes);
        Some(Rc::new(GpuEntry { pieces, bytes, space: Rc::clone(self) }))
    }

    /// A piece of 2^`wanted` blocks, or the largest smaller one.
    fn take(&self, wanted: usize) -> Option<(u64, usize)> {
        let orders = &mut *self.orders.borrow_mut();
        let cut = (wanted..ORDERS).find_map(|order| Some((orders[order].pop_first()?, order)));
        let whole = || self.shared.free.pop().map(|chunk| (chunk * CHUNK_BLOCKS, ORDERS));
        if let Some((first, mut order)) = cut.or_else(whole) {
            while order > wanted {
                order -= 1;
                orders[order].insert(first + (1 << order));
            }
            return Some((first, order));
        }
        let smaller = wanted.min(ORDERS);
        (0..smaller).rev().find_map(|order| Some((orders[order].pop_first()?, order)))
    }

    /// Adds blocks to the end of an entry: to its last piece, where they lie side by side.
    fn append(&self, pieces: &mut Vec<Piece>, first: u64, blocks: u64) {
        let (offset_bytes, length_bytes) = (first * BLOCK_BYTES, blocks * BLOCK_BYTES);
        let is_device_start = first.is_multiple_of(self.shared.device_chunks * CHUNK_BLOCKS);
        match pieces.last_mut() {
            Some(last)
                if last.offset_bytes + last.length_bytes == offset_bytes && !is_device_start =>
            {
                last.length_bytes += length_bytes;
            }
            _ => pieces.push(Piece { offset_bytes, length_bytes }),
        }
    }

    fn free(&self, pieces: &[Piece]) {
        for piece in pieces {
            let mut first = piece.offset_bytes / BLOCK_BYTES;
            let mut left = piece.length_bytes / BLOCK_BYTES;
            while left > 0 {
                // The largest piece that begins here and is aligned to its size.
                let order = (first.trailing_zeros().min(left.ilog2()) as usize).min(ORDERS);
                self.give_back(first, order);
                first += 1 << order;
                left -= 1 << order;
            }
        }
    }

    fn give_back(&self, mut first: u64, mut order: usize) {
        let orders = &mut *self.orders.borrow_mut();
        while order < ORDERS && orders[order].remove(&(first ^ (1 << order))) {
            first &= !(1 << order);
            order += 1;
        }
        match orders.get_mut(order) {
            Some(free) => {
                let is_new = free.insert(first);
                assert!(is_new, "block {first} of GPU memory was given back twice");
            }
            None => self.shared.put_back(first / CHUNK_BLOCKS),
        }
    }

    /// Bytes free in the chunks that this shard has cut.
    pub fn idle_bytes(&self) -> u64 {
        let orders = self.orders.borrow();
        let blocks = orders.iter().enumerate().map(|(order, free)| (free.len() as u64) << order);
        blocks.sum::<u64>() * BLOCK_BYTES
    }
}

/// One entry's place in GPU memory; free again once nobody holds it.
#[derive(Debug)]
pub struct GpuEntry {
    pieces: Vec<Piece>,
    bytes: u64,
    space: Rc<ShardSpace>,
}

impl GpuEntry {
    /// Its size, whole blocks, bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Where `length_bytes` from `offset_bytes` of the entry on lie, both whole blocks.
    ///
    /// # Panics
    /// When that is not all inside the entry: a bug of the caller.
    pub fn range(&self, offset_bytes: u64, length_bytes: u64) -> Vec<Piece> {
        assert!(offset_bytes + length_bytes <= self.bytes, "a range stays inside its entry");
        let (mut skip, mut left) = (offset_bytes, length_bytes);
        let mut range = Vec::with_capacity(1);
        for piece in &self.pieces {
            if skip >= piece.length_bytes {
                skip -= piece.length_bytes;
                continue;
            }
            if left == 0 {
                break;
            }
            let length_bytes = (piece.length_bytes - skip).min(left);
            range.push(Piece { offset_bytes: piece.offset_bytes + skip, length_bytes });
            left -= length_bytes;
            skip = 0;
        }
        range
    }
}

impl Drop for GpuEntry {
    fn drop(&mut self) {
        self.space.free(&self.pieces);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::mix64;

    fn shards(bytes: u64, count: usize) -> Vec<Rc<ShardSpace>> {
        let shared = Arc::new(GpuSpace::new(bytes, bytes));
        (0..count).map(|_| ShardSpace::new(Arc::clone(&shared))).collect()
    }

    #[test]
    fn the_worked_example() {
        let space = &shards(16 * MIB, 1)[0];
        let small = space.allocate(1).unwrap();
        let entry = space.allocate(5 * MIB + 12 * 1024 - 5).unwrap();
        assert_eq!(entry.bytes(), 5 * MIB + 12 * 1024);
        let all = entry.range(0, entry.bytes());
        assert_eq!(all.iter().map(|piece| piece.length_bytes).sum::<u64>(), entry.bytes());
        let part = entry.range(2 * MIB - 4096, 8192);
        assert_eq!(part.iter().map(|piece| piece.length_bytes).sum::<u64>(), 8192);
        drop((small, entry));
        assert_eq!((space.idle_bytes(), space.shared.free_chunks()), (0, 8));
    }

    #[test]
    fn random_entries_never_overlap_use_every_block_and_leave_nothing() {
        const BYTES: u64 = 24 * MIB;
        let shards = shards(BYTES, 3);
        let mut held: Vec<Rc<GpuEntry>> = Vec::new();
        let (mut owner, mut refused) = (vec![false; (BYTES / BLOCK_BYTES) as usize], 0);
        let mark = |owner: &mut Vec<bool>, entry: &GpuEntry, on: bool| {
            for piece in entry.range(0, entry.bytes()) {
                for block in piece.offset_bytes / BLOCK_BYTES
                    ..(piece.offset_bytes + piece.length_bytes) / BLOCK_BYTES
                {
                    assert_ne!(owner[block as usize], on, "block {block}");
                    owner[block as usize] = on;
                }
            }
        };
        for step in 0..6_000u64 {
            let random = mix64(step);
            if random % 5 < 2 && !held.is_empty() {
                let entry = held.swap_remove((random >> 8) as usize % held.len());
                mark(&mut owner, &entry, false);
            } else {
                let bytes =
                    1 + (random >> 16) % if random.is_multiple_of(7) { 7 * MIB } else { 300_000 };
                let shard = &shards[(random >> 40) as usize % 3];
                match shard.allocate(bytes) {
                    Some(entry) => {
                        mark(&mut owner, &entry, true);
                        held.push(entry);
                    }
                    None => {
                        let free =
                            shard.idle_bytes() + shard.shared.free_chunks() as u64 * CHUNK_BYTES;
                        assert!(free < round_up_to_block(bytes), "{bytes} of {free} free bytes");
                        refused += 1;
                        held.drain(..held.len() / 2).for_each(|entry| {
                            mark(&mut owner, &entry, false);
                        });
                    }
                }
            }
        }
        assert!(refused > 20, "it was never full");
        held.clear();
        for shard in &shards {
            assert_eq!(shard.idle_bytes(), 0, "cut chunks become whole again");
        }
        assert_eq!(shards[0].shared.free_chunks() as u64, BYTES / CHUNK_BYTES);
    }

    #[test]
    fn no_piece_crosses_from_one_device_to_the_next() {
        let shared = Arc::new(GpuSpace::new(8 * MIB, 4 * MIB));
        let space = ShardSpace::new(shared);
        let all = space.allocate(8 * MIB).unwrap();
        assert_eq!(all.range(0, 8 * MIB).len(), 2, "{all:?}");
        assert!(space.allocate(1).is_none());
    }

    #[test]
    fn memory_is_larger_than_the_tier_by_what_shards_may_hold_idle() {
        assert_eq!(GpuSpace::memory_bytes(0, 1, 1, 0), 3 * CHUNK_BYTES);
        let one = GpuSpace::memory_bytes(128 * MIB, 1, 2, 128 * 1024);
        assert_eq!(one, (64 + 1 + 2 * 3) * CHUNK_BYTES);
        assert_eq!(GpuSpace::memory_bytes(128 * MIB, 2, 2, 128 * 1024), 36 * CHUNK_BYTES);
    }

    #[test]
    fn the_capacity_within_a_limit_is_the_largest_that_fits() {
        let io_bytes = 128 * 1024;
        for (limit, devices, shards) in
            [(0, 1, 1), (100 * MIB, 1, 2), (100 * MIB, 3, 2), (80_000 * MIB + 1, 8, 64)]
        {
            let capacity = GpuSpace::capacity_within(limit, devices, shards, io_bytes);
            let takes = |bytes| GpuSpace::memory_bytes(bytes, devices, shards, io_bytes);
            assert!(capacity == 0 || takes(capacity) <= limit, "{capacity} in {limit}");
            assert!(takes(capacity + CHUNK_BYTES) > limit, "{capacity} in {limit}");
            assert_eq!(capacity > 0, limit > 0);
        }
    }
}
