//! Objects by name as a block device: each write becomes an object of its own, whose name says
//! where it lies and that it is the latest there.
//!
//! ```text
//! addresses   0        16        32        48    blocks of 4 KiB
//! objects     [ 0-g7   )[16-g2 )          [40-g9 )
//! write 8..24          ^ a new object 8-g10; then 0-g7 and 16-g2, which it overlaps, are removed
//! ```
//!
//! A name is never used twice, so that the removal of an old object can't meet the write of a new
//! one. The objects of a device never overlap, so they hold no more bytes than its capacity: what
//! an eviction frees is removed when its space is written again, as on a drive. A shard reads and
//! writes an entry in the same pieces, so a read lies in one object.
//!
//! *Critique.* A buffer is copied once on its way out and once on its way in: it belongs to the
//! shard's pool, and a store may keep what it sends until long after the shard gave up on it.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::{Device, DeviceFuture, DeviceSlots};
use crate::buffer::Ticket;
use crate::clock::{Clock, Nanos};
use crate::ring::{Doorbell, IoKind, IoRequest, Parker, Ring, SlotToken, Slots};
use crate::units::BLOCK_BYTES;

/// Name of an object: the first block that it holds, and how new it is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ObjectName {
    /// The first block of the device that it holds.
    pub start_block: u64,
    /// Counts all objects of the device: the latest has the highest.
    pub generation: u64,
}

/// Result of a request: its buffer, or an errno > 0 that says best why not.
pub type ObjectOutcome = Result<Vec<u8>, i32>;
/// Callback with the result of a request, called once and on any thread.
pub type ObjectDone = Box<dyn FnOnce(ObjectOutcome) + Send>;

/// A store of objects, as a program that knows one makes it. Its functions are called on the
/// shards' threads and don't block; they answer on any thread.
pub trait ObjectIo: Send + Sync + Debug {
    /// Stores an object whole. Its bytes come back.
    fn put(&self, name: ObjectName, bytes: Vec<u8>, done: ObjectDone);

    /// Fills the buffer from an object, from `offset_bytes` on.
    fn get(&self, name: ObjectName, offset_bytes: u64, buffer: Vec<u8>, done: ObjectDone);

    /// Removes an object, which may not be there. Nobody waits for it; what fails is counted by
    /// whoever has the store.
    fn remove(&self, name: ObjectName);

    /// Name of the store for messages.
    fn name(&self) -> &str;
}

/// An object that is there.
#[derive(Clone, Copy, Debug)]
struct Stored {
    blocks: u64,
    generation: u64,
}

/// The objects of one device, for all shards.
#[derive(Debug)]
pub struct ObjectSpace {
    io: Arc<dyn ObjectIo>,
    /// By their first block. They don't overlap.
    stored: Mutex<BTreeMap<u64, Stored>>,
    generation: AtomicU64,
}

impl ObjectSpace {
    /// Nothing is stored yet.
    #[must_use]
    pub fn new(io: Arc<dyn ObjectIo>) -> ObjectSpace {
        ObjectSpace { io, stored: Mutex::default(), generation: AtomicU64::new(0) }
    }

    fn stored(&self) -> MutexGuard<'_, BTreeMap<u64, Stored>> {
        // Each change is one call: a panic elsewhere can't have left it half-changed.
        self.stored.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn new_name(&self, start_block: u64) -> ObjectName {
        ObjectName { start_block, generation: self.generation.fetch_add(1, Ordering::Relaxed) }
    }

    /// The object that holds these blocks, and where in it they begin, bytes.
    fn find(&self, start_block: u64, blocks: u64) -> Option<(ObjectName, u64)> {
        let stored = self.stored();
        let (&start, object) = stored.range(..=start_block).next_back()?;
        let is_within = start_block + blocks <= start + object.blocks;
        let name = ObjectName { start_block: start, generation: object.generation };
        is_within.then_some((name, (start_block - start) * BLOCK_BYTES))
    }

    /// That object is there now; those that it overlaps are removed.
    fn written(&self, name: ObjectName, blocks: u64) {
        let end = name.start_block + blocks;
        let mut old = Vec::new();
        {
            let mut stored = self.stored();
            while let Some((&start, object)) = stored.range(..end).next_back()
                && start + object.blocks > name.start_block
            {
                old.push(ObjectName { start_block: start, generation: object.generation });
                stored.remove(&start);
            }
            stored.insert(name.start_block, Stored { blocks, generation: name.generation });
        }
        old.into_iter().for_each(|name| self.io.remove(name));
    }

    /// Bytes of the objects that are there.
    #[cfg(test)]
    fn stored_bytes(&self) -> u64 {
        self.stored().values().map(|object| object.blocks * BLOCK_BYTES).sum()
    }
}

/// Result of a request, by its token.
struct Answer {
    token: SlotToken,
    /// For a write, the object and its size in blocks.
    written: Option<(ObjectName, u64)>,
    /// Where in its buffer a read begins.
    buffer_offset: usize,
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
    /// Memory that came back.
    spare: RefCell<Vec<Vec<u8>>>,
    clock: Clock,
}

impl ObjectDevice {
    /// `bell` is rung, on any thread, when there is something to collect by [`Device::kick`].
    #[must_use]
    pub fn new(
        space: Arc<ObjectSpace>,
        bell: Box<dyn Fn() + Send + Sync>,
        clock: Clock,
    ) -> ObjectDevice {
        let letters = Arc::new(Letters { answers: Mutex::default(), bell });
        ObjectDevice { space, slots: Slots::new(), letters, spare: RefCell::default(), clock }
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
        self.slots.complete(answer.token, result, now);
    }

    fn send(&self, request: IoRequest, token: SlotToken, content: Option<Vec<u8>>) {
        let letters = Arc::clone(&self.letters);
        let start_block = request.offset_bytes / BLOCK_BYTES;
        let blocks = u64::from(request.length_bytes) / BLOCK_BYTES;
        let buffer_offset = request.buffer_offset as usize;
        let answer = move |written, outcome| Answer { token, written, buffer_offset, outcome };
        match (request.kind, content) {
            (IoKind::Write, Some(bytes)) => {
                let name = self.space.new_name(start_block);
                let written = Some((name, blocks));
                let done = move |outcome| letters.post(answer(written, outcome));
                self.space.io.put(name, bytes, Box::new(done));
            }
            (IoKind::Read, _) => match self.space.find(start_block, blocks) {
                Some((name, offset_bytes)) => {
                    let buffer = self.buffer(request.length_bytes as usize);
                    let done = move |outcome| letters.post(answer(None, outcome));
                    self.space.io.get(name, offset_bytes, buffer, Box::new(done));
                }
                None => letters.post(answer(None, Err(libc::ENODATA))),
            },
            // What a store has answered for is durable.
            (IoKind::Flush, _) => letters.post(answer(None, Ok(Vec::new()))),
            (IoKind::Write, None) => letters.post(answer(None, Err(libc::EINVAL))),
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

    fn park(&self, doorbell: &Doorbell, longest: Option<Duration>) {
        self.ring.park(doorbell, longest);
        self.device.kick();
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

    fn first_touch_bytes(&self, _start_block: u64, _blocks: u64) -> u64 {
        0
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::pin::Pin;
    use std::task::{Context, Poll, Waker};

    use super::*;
    use crate::buffer::{BufferPool, Tickets, Urgency};

    /// Objects in a map; answers at once.
    #[derive(Debug, Default)]
    struct Shelf {
        objects: Mutex<HashMap<ObjectName, Vec<u8>>>,
        refuses: Mutex<Option<i32>>,
    }

    impl ObjectIo for Shelf {
        fn put(&self, name: ObjectName, bytes: Vec<u8>, done: ObjectDone) {
            match self.refuses.lock().unwrap().take() {
                Some(errno) => done(Err(errno)),
                None => {
                    self.objects.lock().unwrap().insert(name, bytes.clone());
                    done(Ok(bytes));
                }
            }
        }

        fn get(&self, name: ObjectName, offset: u64, mut buffer: Vec<u8>, done: ObjectDone) {
            let length = buffer.len();
            buffer
                .copy_from_slice(&self.objects.lock().unwrap()[&name][offset as usize..][..length]);
            done(Ok(buffer));
        }

        fn remove(&self, name: ObjectName) {
            self.objects.lock().unwrap().remove(&name);
        }

        fn name(&self) -> &str {
            "shelf"
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

        /// The result, and the first byte of each block that was read.
        fn io(&self, kind: IoKind, start: u64, blocks: u64, value: u8) -> (i32, Vec<u8>) {
            let mut context = Context::from_waker(Waker::noop());
            let mut acquire = self.tickets.acquire(Urgency::HIGHEST);
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

        fn write(&self, start: u64, blocks: u64, value: u8) {
            let (result, _) = self.io(IoKind::Write, start, blocks, value);
            assert_eq!(u64::try_from(result), Ok(blocks * BLOCK_BYTES));
        }

        fn starts(&self) -> Vec<u64> {
            let objects = self.shelf.objects.lock().unwrap();
            let mut starts: Vec<u64> = objects.keys().map(|name| name.start_block).collect();
            starts.sort_unstable();
            starts
        }
    }

    #[test]
    fn what_is_written_is_read_whole_and_in_part() {
        let bench = Bench::new();
        bench.write(8, 4, 7);
        assert_eq!(bench.io(IoKind::Read, 8, 4, 0).1, [7; 4]);
        assert_eq!(bench.io(IoKind::Read, 9, 2, 0), (2 * BLOCK_BYTES as i32, vec![7; 2]));
        assert_eq!(bench.io(IoKind::Flush, 0, 0, 0).0, 0);
        assert_eq!(bench.device.in_flight(), 0);
    }

    #[test]
    fn what_was_never_written_can_t_be_read() {
        let bench = Bench::new();
        bench.write(8, 4, 7);
        for (start, blocks) in [(0, 4), (7, 2), (10, 4), (12, 1)] {
            assert_eq!(bench.io(IoKind::Read, start, blocks, 0).0, -libc::ENODATA, "{start}");
        }
    }

    #[test]
    fn what_a_write_overlaps_is_removed_and_nothing_else() {
        let bench = Bench::new();
        for start in [0, 8, 16, 24] {
            bench.write(start, 8, start as u8);
        }
        bench.write(4, 8, 99);
        assert_eq!(bench.starts(), [4, 16, 24]);
        bench.write(4, 8, 100);
        assert_eq!(bench.starts(), [4, 16, 24]);
        assert_eq!(bench.io(IoKind::Read, 4, 8, 0).1, [100; 8]);
        bench.write(0, 16, 1);
        assert_eq!(bench.starts(), [0, 16, 24]);
        assert_eq!(bench.space.stored_bytes(), 32 * BLOCK_BYTES);
    }

    #[test]
    fn a_write_that_fails_leaves_what_was_there() {
        let bench = Bench::new();
        bench.write(0, 4, 5);
        *bench.shelf.refuses.lock().unwrap() = Some(libc::ETIMEDOUT);
        assert_eq!(bench.io(IoKind::Write, 0, 4, 6).0, -libc::ETIMEDOUT);
        assert_eq!(bench.io(IoKind::Read, 0, 4, 0).1, [5; 4]);
    }

    #[test]
    fn a_dropped_read_gives_its_buffer_back_when_it_is_answered() {
        let bench = Bench::new();
        bench.write(0, 4, 5);
        let mut context = Context::from_waker(Waker::noop());
        let mut acquire = bench.tickets.acquire(Urgency::HIGHEST);
        let Poll::Ready(ticket) = Pin::new(&mut acquire).poll(&mut context) else { panic!() };
        let length_bytes = 4 * BLOCK_BYTES as u32;
        let request =
            IoRequest { kind: IoKind::Read, offset_bytes: 0, length_bytes, buffer_offset: 0 };
        drop(bench.device.submit(request, Some(ticket)));
        assert_eq!(bench.device.in_flight(), 1);
        bench.device.kick();
        assert_eq!(bench.device.in_flight(), 0);
        assert_eq!(bench.io(IoKind::Read, 0, 4, 0).1, [5; 4]);
    }
}
