//! Objects by name as a storage device: each I/O of an entry becomes an object of its own, whose
//! name says of which entry it is, and where it lies in that.
//!
//! ```text
//! extents     [ entry 7   )   [ 7  )[ entry 4 )      blocks that the placement gave them
//! objects     7-0  7-256  7-512     4-0  4-256       one for each I/O of 256 blocks
//! entry 9 is written over [ 7  ): before it is, all objects of entry 7 are removed
//! ```
//!
//! No two entries have the same number, so that the removal of an old object can't meet the write
//! of a new one. The extents of the entries that are there never overlap, so their objects hold no
//! more bytes than the device's capacity: what an eviction frees is removed when its space is
//! written again, as on a drive. A shard reads and writes an entry in the same pieces, so a read
//! lies in one object.
//!
//! Extents don't tell a shard's I/Os what they belong to, so a transfer has addresses of its own
//! while it lasts ([`Device::open_entry`]).
//!
//! *Critique.* A buffer is copied once on its way out and once on its way in: it belongs to the
//! shard's pool, and a store may keep what it sends until long after the shard gave up on it.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::fmt::Debug;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::ways::{Way, Ways};
use super::{Device, DeviceFuture, DeviceSlots};
use crate::buffer::Ticket;
use crate::clock::{Clock, Nanos};
use crate::placement::Extent;
use crate::ring::{Doorbell, IoKind, IoRequest, Parker, Ring, SlotToken, Slots};
use crate::units::BLOCK_BYTES;

/// Name of an object: its entry, and which part of that it holds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ObjectName {
    /// Number of the entry, which no other has or had.
    pub entry: u64,
    /// The first block of the entry that it holds.
    pub first_block: u64,
}

/// An object as a part of what moves its entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ObjectPart {
    /// Name of the object in the store.
    pub name: ObjectName,
    /// Size of the whole entry, blocks.
    pub entry_blocks: u64,
    /// Number of the entry's transfer, which no other has or had.
    pub transfer: u64,
}

/// Result of a request: its buffer, or an errno > 0 that says best why not.
pub type ObjectOutcome = Result<Vec<u8>, i32>;
/// Callback with the time at which the store began with a request that had waited for its threads,
/// zero where it was no later than asked for, and with the result. It is called once and on any
/// thread.
pub type ObjectDone = Box<dyn FnOnce(Nanos, ObjectOutcome) + Send>;

/// A store of objects, as a program that knows one makes it. Its functions are called on the
/// shards' threads and don't block; they answer on any thread.
pub trait ObjectIo: Send + Sync + Debug {
    /// Stores an object whole. Its bytes come back.
    fn put(&self, part: ObjectPart, bytes: Vec<u8>, done: ObjectDone);

    /// Fills the buffer from an object, from `offset_bytes` on; an empty one comes back where the
    /// object is shorter.
    fn get(&self, part: ObjectPart, offset_bytes: u64, buffer: Vec<u8>, done: ObjectDone);

    /// Removes an object, which may not be there. Nobody waits for it; what fails is counted by
    /// whoever has the store.
    fn remove(&self, name: ObjectName);

    /// Name of the store for messages.
    fn name(&self) -> &str;

    /// Name of an object for messages.
    fn path(&self, object: ObjectName) -> String;
}

/// An entry of which objects are there, or are being written.
#[derive(Debug)]
struct Stored {
    extents: Box<[Extent]>,
    /// Sizes of its objects, blocks, by their first blocks.
    objects: BTreeMap<u64, u64>,
}

/// Blocks that an entry was given.
#[derive(Clone, Copy, Debug)]
struct Taken {
    entry: u64,
    end_block: u64,
}

#[derive(Debug, Default)]
struct Entries {
    /// By their numbers.
    stored: HashMap<u64, Stored>,
    /// By their first blocks. They don't overlap.
    extents: BTreeMap<u64, Taken>,
}

/// The objects of one device, for all shards.
#[derive(Debug)]
pub struct ObjectSpace {
    io: Arc<dyn ObjectIo>,
    entries: Mutex<Entries>,
    numbers: AtomicU64,
}

impl Entries {
    /// Forgets the entry that overlaps an extent, if one does: its objects.
    fn take_overlapped(&mut self, extent: Extent) -> Option<Vec<ObjectName>> {
        let (_, &Taken { entry, end_block }) =
            self.extents.range(..extent.end_block()).next_back()?;
        if end_block <= extent.start_block {
            return None;
        }
        let Stored { extents, objects } = self.stored.remove(&entry)?;
        for extent in &extents {
            self.extents.remove(&extent.start_block);
        }
        let name = |first_block| ObjectName { entry, first_block };
        Some(objects.into_keys().map(name).collect())
    }
}

impl ObjectSpace {
    /// Nothing is stored yet.
    pub fn new(io: Arc<dyn ObjectIo>) -> ObjectSpace {
        ObjectSpace { io, entries: Mutex::default(), numbers: AtomicU64::new(0) }
    }

    fn entries(&self) -> MutexGuard<'_, Entries> {
        // A panic elsewhere ends the run: what it could have left half-changed is not used.
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn new_number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    /// A new entry in those extents: those that it overlaps are removed.
    fn begin(&self, extents: &[Extent]) -> u64 {
        let entry = self.new_number();
        let mut old = Vec::new();
        {
            let mut entries = self.entries();
            for extent in extents {
                while let Some(names) = entries.take_overlapped(*extent) {
                    old.extend(names);
                }
                let taken = Taken { entry, end_block: extent.end_block() };
                entries.extents.insert(extent.start_block, taken);
            }
            let stored = Stored { extents: extents.into(), objects: BTreeMap::new() };
            entries.stored.insert(entry, stored);
        }
        old.into_iter().for_each(|name| self.io.remove(name));
        entry
    }

    fn entry_at(&self, start_block: u64) -> Option<u64> {
        let entries = self.entries();
        let entry = entries.extents.get(&start_block)?.entry;
        let first = entries.stored.get(&entry)?.extents.first()?;
        (first.start_block == start_block).then_some(entry)
    }

    /// The object that holds these blocks of an entry, and where in it they begin, bytes.
    fn find(&self, entry: u64, first_block: u64, blocks: u64) -> Option<(ObjectName, u64)> {
        let entries = self.entries();
        let objects = &entries.stored.get(&entry)?.objects;
        let (&start, &length) = objects.range(..=first_block).next_back()?;
        let is_within = first_block + blocks <= start + length;
        let name = ObjectName { entry, first_block: start };
        is_within.then_some((name, (first_block - start) * BLOCK_BYTES))
    }

    /// That object of so many blocks is there now, unless its entry has gone meanwhile.
    fn written(&self, name: ObjectName, blocks: u64) {
        let is_known = match self.entries().stored.get_mut(&name.entry) {
            Some(stored) => {
                stored.objects.insert(name.first_block, blocks);
                true
            }
            None => false,
        };
        if !is_known {
            self.io.remove(name);
        }
    }

    #[cfg(test)]
    fn stored_bytes(&self) -> u64 {
        let blocks = |stored: &Stored| stored.objects.values().sum::<u64>();
        self.entries().stored.values().map(blocks).sum::<u64>() * BLOCK_BYTES
    }
}

/// Result of a request, by its token.
struct Answer {
    token: SlotToken,
    /// For a write, the object and its size in blocks.
    written: Option<(ObjectName, u64)>,
    /// Where in its buffer a read begins.
    buffer_offset: usize,
    /// When the store began with it.
    begun: Nanos,
    outcome: ObjectOutcome,
}

/// Answers that the shard has not seen, and how it is woken.
struct Letters {
    answers: Mutex<Vec<Answer>>,
    bell: Box<dyn Fn() + Send + Sync>,
}

impl Letters {
    fn answers(&self) -> MutexGuard<'_, Vec<Answer>> {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn post(&self, answer: Answer) {
        self.answers().push(answer);
        (self.bell)();
    }
}

/// One shard's view of an [`ObjectSpace`].
pub struct ObjectDevice {
    space: Arc<ObjectSpace>,
    slots: Rc<DeviceSlots>,
    letters: Arc<Letters>,
    ways: RefCell<Ways>,
    /// Memory that came back.
    spare: RefCell<Vec<Vec<u8>>>,
    clock: Clock,
}

impl ObjectDevice {
    /// `bell` is rung, on any thread, when there is something to collect by [`Device::kick`].
    pub fn new(
        space: Arc<ObjectSpace>,
        bell: Box<dyn Fn() + Send + Sync>,
        clock: Clock,
    ) -> ObjectDevice {
        let letters = Arc::new(Letters { answers: Mutex::default(), bell });
        let (ways, spare) = (RefCell::default(), RefCell::default());
        ObjectDevice { space, slots: Slots::new(), letters, ways, spare, clock }
    }

    fn buffer(&self, length: usize) -> Vec<u8> {
        let mut buffer = self.spare.borrow_mut().pop().unwrap_or_default();
        buffer.resize(length, 0);
        buffer
    }

    fn finish(&self, answer: Answer, now: Nanos) {
        let result = match answer.outcome {
            Ok(bytes) => {
                if let Some((name, blocks)) = answer.written {
                    self.space.written(name, blocks);
                } else {
                    self.slots.with_owned(answer.token, |ticket, is_live| {
                        if let (Some(ticket), true) = (ticket, is_live) {
                            let buffer = ticket.buffer_mut().bytes_mut();
                            buffer[answer.buffer_offset..][..bytes.len()].copy_from_slice(&bytes);
                        }
                    });
                }
                // An I/O has at most 64 MiB.
                let length = bytes.len() as i32;
                self.spare.borrow_mut().push(bytes);
                length
            }
            Err(errno) => {
                // It may have been stored all the same.
                if let Some((name, _)) = answer.written {
                    self.space.io.remove(name);
                }
                -errno
            }
        };
        self.slots.begin_at(answer.token, answer.begun);
        self.slots.complete(answer.token, result, now);
    }

    fn send(&self, request: IoRequest, token: SlotToken, content: Option<Vec<u8>>) {
        let letters = Arc::clone(&self.letters);
        let (way, first_block) = self.ways.borrow().of(request.offset_bytes / BLOCK_BYTES);
        let blocks = u64::from(request.length_bytes) / BLOCK_BYTES;
        let buffer_offset = request.buffer_offset as usize;
        let answer =
            move |written, begun, outcome| Answer { token, written, buffer_offset, begun, outcome };
        let at_once = |outcome| letters.post(answer(None, Nanos::ZERO, outcome));
        let entry = way.and_then(|way| Some((way, way.entry?)));
        match (request.kind, content, entry) {
            (IoKind::Write, Some(bytes), Some((way, entry))) => {
                let name = ObjectName { entry, first_block };
                let written = Some((name, blocks));
                let letters = Arc::clone(&letters);
                let done = move |begun, outcome| letters.post(answer(written, begun, outcome));
                self.space.io.put(way.part(name), bytes, Box::new(done));
            }
            (IoKind::Read, _, Some((way, entry))) => {
                match self.space.find(entry, first_block, blocks) {
                    Some((name, offset_bytes)) => {
                        let buffer = self.buffer(request.length_bytes as usize);
                        let letters = Arc::clone(&letters);
                        let done = move |begun, outcome| letters.post(answer(None, begun, outcome));
                        self.space.io.get(way.part(name), offset_bytes, buffer, Box::new(done));
                    }
                    None => at_once(Err(libc::ENODATA)),
                }
            }
            (IoKind::Read, _, None) => at_once(Err(libc::ENODATA)),
            // What a store has answered for is durable.
            (IoKind::Flush, _, _) => at_once(Ok(Vec::new())),
            // More ways than there can be, or a larger entry.
            (IoKind::Write, _, _) => at_once(Err(libc::ENOBUFS)),
        }
    }
}

/// An [`ObjectDevice`], whose thread sleeps in a ring that nothing else uses.
pub struct ObjectParker {
    /// Looked at whenever the thread is awake.
    pub device: Rc<ObjectDevice>,
    /// Slept in, until the device's bell rings the thread's.
    pub ring: Rc<Ring<Ticket>>,
}

impl Parker for ObjectParker {
    fn poll(&self) {
        self.device.kick();
    }

    fn park(&self, doorbell: &Doorbell, now: Nanos, longest: Option<Duration>) -> Nanos {
        let woken = self.ring.park(doorbell, now, longest);
        self.device.kick();
        woken
    }
}

impl Device for ObjectDevice {
    fn submit(&self, request: IoRequest, mut ticket: Option<Ticket>) -> DeviceFuture {
        let (begin, length) = (request.buffer_offset as usize, request.length_bytes as usize);
        let content = match (request.kind, &mut ticket) {
            (IoKind::Write, Some(ticket)) => {
                let mut bytes = self.buffer(length);
                bytes.copy_from_slice(&ticket.buffer_mut().bytes_mut()[begin..begin + length]);
                Some(bytes)
            }
            _ => None,
        };
        let (token, future) = self.slots.insert(ticket, self.clock.now());
        self.send(request, token, content);
        future
    }

    fn kick(&self) {
        let answers = std::mem::take(&mut *self.letters.answers());
        for answer in answers {
            self.finish(answer, self.clock.now());
        }
    }

    fn in_flight(&self) -> u32 {
        self.slots.pending()
    }

    fn oldest_in_flight(&self) -> Option<Nanos> {
        self.slots.oldest()
    }

    fn name(&self) -> &str {
        self.space.io.name()
    }

    /// The object, and the offset in it; the store, where nothing is known of an entry.
    fn place(&self, offset_bytes: u64) -> (String, u64) {
        let (way, first_block) = self.ways.borrow().of(offset_bytes / BLOCK_BYTES);
        let Some(entry) = way.and_then(|way| way.entry) else {
            return (self.name().to_owned(), first_block * BLOCK_BYTES);
        };
        // One that is not there was to be written.
        let found = self.space.find(entry, first_block, 1);
        let (name, offset_bytes) = found.unwrap_or((ObjectName { entry, first_block }, 0));
        (self.space.io.path(name), offset_bytes)
    }

    fn open_entry(&self, kind: IoKind, extents: &[Extent], blocks: u64) -> Option<Extent> {
        let entry = match kind {
            IoKind::Write => Some(self.space.begin(extents)),
            _ => extents.first().and_then(|first| self.space.entry_at(first.start_block)),
        };
        let way = Way { entry, entry_blocks: blocks, transfer: self.space.new_number() };
        Some(self.ways.borrow_mut().open(way))
    }

    fn close_entry(&self, extent: Extent) {
        self.ways.borrow_mut().close(extent);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::pin::Pin;
    use std::task::{Context, Poll, Waker};

    use super::*;
    use crate::buffer::{BufferPool, Tickets};

    /// Objects in a map; answers at once.
    #[derive(Debug, Default)]
    struct Shelf {
        objects: Mutex<HashMap<ObjectName, Vec<u8>>>,
        refuses: Mutex<Option<i32>>,
    }

    impl ObjectIo for Shelf {
        fn put(&self, part: ObjectPart, bytes: Vec<u8>, done: ObjectDone) {
            match self.refuses.lock().unwrap().take() {
                Some(errno) => done(Nanos::ZERO, Err(errno)),
                None => {
                    self.objects.lock().unwrap().insert(part.name, bytes.clone());
                    done(Nanos::ZERO, Ok(bytes));
                }
            }
        }

        fn get(&self, part: ObjectPart, offset: u64, mut buffer: Vec<u8>, done: ObjectDone) {
            let (length, objects) = (buffer.len(), self.objects.lock().unwrap());
            buffer.copy_from_slice(&objects[&part.name][offset as usize..][..length]);
            done(Nanos::ZERO, Ok(buffer));
        }

        fn remove(&self, name: ObjectName) {
            self.objects.lock().unwrap().remove(&name);
        }

        fn name(&self) -> &str {
            "shelf"
        }

        fn path(&self, object: ObjectName) -> String {
            format!("shelf/{}-{}", object.entry, object.first_block)
        }
    }

    struct Bench {
        shelf: Arc<Shelf>,
        space: Arc<ObjectSpace>,
        device: ObjectDevice,
        tickets: Rc<Tickets>,
    }

    const PIECE_BYTES: usize = 16 * BLOCK_BYTES as usize;

    impl Bench {
        fn new() -> Bench {
            let shelf = Arc::<Shelf>::default();
            let space = Arc::new(ObjectSpace::new(Arc::clone(&shelf) as Arc<dyn ObjectIo>));
            let device = ObjectDevice::new(Arc::clone(&space), Box::new(|| {}), Clock::Os);
            let tickets = Tickets::new(BufferPool::new(PIECE_BYTES, 1).unwrap(), 1);
            Bench { shelf, space, device, tickets }
        }

        /// One I/O on the blocks of an open entry: the result, and the first byte of each block.
        fn io(&self, kind: IoKind, start: u64, blocks: u64, value: u8) -> (i32, Vec<u8>) {
            let mut context = Context::from_waker(Waker::noop());
            let mut acquire = self.tickets.acquire();
            let Poll::Ready(mut ticket) = Pin::new(&mut acquire).poll(&mut context) else {
                panic!("the buffer came back");
            };
            ticket.buffer_mut().bytes_mut().fill(value);
            let length_bytes = (blocks * BLOCK_BYTES) as u32;
            let offset_bytes = start * BLOCK_BYTES;
            let request = IoRequest { kind, offset_bytes, length_bytes, buffer_offset: 0 };
            let mut future = self.device.submit(request, Some(ticket));
            self.device.kick();
            let Poll::Ready((done, Some(mut ticket))) = Pin::new(&mut future).poll(&mut context)
            else {
                panic!("it is done");
            };
            let bytes = &ticket.buffer_mut().bytes_mut()[..length_bytes as usize];
            (done.result, bytes.chunks(BLOCK_BYTES as usize).map(|block| block[0]).collect())
        }

        /// Writes an entry into those extents by I/Os of four blocks; the last result.
        fn write(&self, extents: &[Extent], value: u8) -> i32 {
            let blocks = extents.iter().map(|extent| extent.blocks).sum();
            let way = self.device.open_entry(IoKind::Write, extents, blocks).unwrap();
            let mut last = 0;
            for place in (0..blocks).step_by(4) {
                let length = (blocks - place).min(4);
                (last, _) = self.io(IoKind::Write, way.start_block + place, length, value);
            }
            self.device.close_entry(way);
            last
        }

        /// Reads blocks of the entry that begins with that extent.
        fn read(&self, extent: Extent, place: u64, blocks: u64) -> (i32, Vec<u8>) {
            let way = self.device.open_entry(IoKind::Read, &[extent], 8).unwrap();
            let found = self.io(IoKind::Read, way.start_block + place, blocks, 0);
            self.device.close_entry(way);
            found
        }

        /// Entries and first blocks of the objects that are there.
        fn names(&self) -> Vec<(u64, u64)> {
            let objects = self.shelf.objects.lock().unwrap();
            let mut names: Vec<_> = objects.keys().map(|n| (n.entry, n.first_block)).collect();
            names.sort_unstable();
            names
        }
    }

    const fn extent(start_block: u64, blocks: u64) -> Extent {
        Extent { start_block, blocks }
    }

    /// An entry's objects are cut by its own length, however its extents lie.
    #[test]
    fn an_entry_is_read_whole_and_in_part_across_its_extents() {
        let bench = Bench::new();
        assert_eq!(bench.write(&[extent(8, 3), extent(40, 6)], 7), BLOCK_BYTES as i32);
        let entry = bench.names()[0].0;
        assert_eq!(bench.names(), [(entry, 0), (entry, 4), (entry, 8)]);
        assert_eq!(bench.read(extent(8, 3), 0, 4).1, [7; 4]);
        assert_eq!(bench.read(extent(8, 3), 5, 2), (2 * BLOCK_BYTES as i32, vec![7; 2]));
        assert_eq!(bench.io(IoKind::Flush, 0, 0, 0).0, 0);
        assert_eq!(bench.device.in_flight(), 0);
    }

    #[test]
    fn what_was_never_written_can_t_be_read() {
        let bench = Bench::new();
        bench.write(&[extent(8, 6)], 7);
        for (start, place, blocks) in [(0, 0, 4), (9, 0, 2), (8, 3, 2), (8, 4, 3), (8, 7, 1)] {
            let (result, _) = bench.read(extent(start, 8), place, blocks);
            assert_eq!(result, -libc::ENODATA, "{start} {place} {blocks}");
        }
    }

    #[test]
    fn entries_that_a_new_one_overlaps_are_removed_and_no_others() {
        let bench = Bench::new();
        for start in [0, 8, 16, 24] {
            bench.write(&[extent(start, 4), extent(start + 100, 4)], start as u8);
        }
        bench.write(&[extent(6, 3), extent(200, 3)], 99);
        let values = || [0, 6, 8, 16, 24].map(|start| bench.read(extent(start, 1), 0, 1).0 > 0);
        assert_eq!(values(), [true, true, false, true, true]);
        bench.write(&[extent(108, 4), extent(115, 12)], 1);
        assert_eq!(values(), [true, true, false, false, false]);
        assert_eq!(bench.read(extent(108, 4), 12, 4).1, [1; 4]);
        assert_eq!(bench.space.stored_bytes(), (8 + 6 + 16) * BLOCK_BYTES);
        assert_eq!(bench.names().len(), 2 + 2 + 4);
    }

    #[test]
    fn a_write_that_fails_can_be_made_again() {
        let bench = Bench::new();
        *bench.shelf.refuses.lock().unwrap() = Some(libc::ETIMEDOUT);
        assert_eq!(bench.write(&[extent(0, 4)], 6), -libc::ETIMEDOUT);
        assert_eq!(bench.read(extent(0, 4), 0, 4).0, -libc::ENODATA);
        bench.write(&[extent(0, 4)], 5);
        assert_eq!(bench.read(extent(0, 4), 0, 4).1, [5; 4]);
    }

    /// Errors named the store, and where in the entry they were.
    #[test]
    fn an_address_is_told_by_the_object_that_holds_it() {
        let bench = Bench::new();
        bench.write(&[extent(8, 6)], 7);
        let (entry, _) = bench.names()[0];
        let way = bench.device.open_entry(IoKind::Read, &[extent(8, 6)], 6).unwrap();
        let place = |block| bench.device.place((way.start_block + block) * BLOCK_BYTES);
        assert_eq!(place(5), (format!("shelf/{entry}-4"), BLOCK_BYTES));
        // One that is yet to be written, and an entry of which nothing is known.
        assert_eq!(place(8), (format!("shelf/{entry}-8"), 0));
        bench.device.close_entry(way);
        assert_eq!(place(5), ("shelf".to_owned(), 5 * BLOCK_BYTES));
    }

    #[test]
    fn a_way_that_leads_to_no_entry_is_an_error() {
        let bench = Bench::new();
        let large = bench.device.open_entry(IoKind::Write, &[extent(0, 4)], 1 << 24);
        let place = large.unwrap().start_block;
        assert_eq!(bench.io(IoKind::Write, place, 4, 1).0, -libc::ENOBUFS);
    }

    #[test]
    fn a_dropped_read_gives_its_buffer_back_when_it_is_answered() {
        let bench = Bench::new();
        bench.write(&[extent(0, 4)], 5);
        let mut context = Context::from_waker(Waker::noop());
        let mut acquire = bench.tickets.acquire();
        let Poll::Ready(ticket) = Pin::new(&mut acquire).poll(&mut context) else { panic!() };
        let way = bench.device.open_entry(IoKind::Read, &[extent(0, 4)], 4).unwrap();
        let (offset_bytes, length_bytes) = (way.start_block * BLOCK_BYTES, 4 * BLOCK_BYTES as u32);
        let request =
            IoRequest { kind: IoKind::Read, offset_bytes, length_bytes, buffer_offset: 0 };
        drop(bench.device.submit(request, Some(ticket)));
        bench.device.close_entry(way);
        assert_eq!(bench.device.in_flight(), 1);
        bench.device.kick();
        assert_eq!(bench.device.in_flight(), 0);
        assert_eq!(bench.read(extent(0, 4), 0, 4).1, [5; 4]);
    }
}
