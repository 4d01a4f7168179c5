//! I/O between GPU memory and the data files with no host memory between: what can do it
//! ([`DirectStorage`], [`DirectQueue`]), and the thread on which it is done.
//!
//! It contains I/Os cut into parts, each of which lies in one piece of GPU memory, and the results
//! of their parts. It does not contain the choice of I/Os that go this way (`shard`).
//!
//! *Why a thread of its own for each shard.* Libraries for this have no descriptor that tells of
//! completions, some of their calls take long, and while one does, the shard goes on. One that
//! never returns holds up the end of its shard, which waits for the memory that the I/O uses: who
//! runs shards looks whether their I/Os end.

#![allow(unsafe_code, reason = "a method whose caller promises who owns the memory")]

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::Debug;
use std::thread::JoinHandle;

use super::{Bell, Piece};
use crate::error::SetupError;

/// One I/O between GPU memory and a data file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DirectIo {
    /// Number of the drive whose data file it is, from 0.
    pub drive: usize,
    /// Where in the file, bytes, whole blocks.
    pub offset_bytes: u64,
    /// Whether GPU memory is written to the file; else the file is read into GPU memory.
    pub is_write: bool,
}

/// Why GPU memory does not reach the data files: a sentence without its full stop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoDirect {
    /// It can't be had. Nothing is under way: other ways to the memory and the files may be used.
    Unusable(String),
    /// A trial did not end in its time, and may still write to the memory and to the files: nobody
    /// may use either.
    UnderWay(String),
}

impl NoDirect {
    /// The sentence, as it stands in either case.
    pub fn why(&self) -> &str {
        let (NoDirect::Unusable(why) | NoDirect::UnderWay(why)) = self;
        why
    }
}

/// The data files of a run as GPU memory reaches them.
pub trait DirectStorage: Send + Sync + Debug {
    /// A queue for the thread that calls, which alone uses it. `bell` is rung, from any thread,
    /// whenever an I/O may have ended.
    fn open_queue(&self, bell: Bell) -> Result<Box<dyn DirectQueue>, SetupError>;
}

/// One thread's I/Os. They may end in any order.
pub trait DirectQueue {
    /// Begins an I/O on `pieces`, whole blocks in the order of the file's bytes. `token` names it,
    /// and no other that is in flight.
    ///
    /// # Safety
    /// The pieces belong to the caller, and nobody writes them (for a read: nobody reads them
    /// either) until [`DirectQueue::reap`] has reported the I/O or [`DirectQueue::finish`] has
    /// returned.
    unsafe fn submit(&self, token: u64, io: DirectIo, pieces: &[Piece]);

    /// Reports what has ended since the last call, each I/O once: bytes moved from its beginning
    /// on, or a negative errno, as the kernel reports an I/O.
    fn reap(&self, ended: &mut dyn FnMut(u64, i32));

    /// Waits until nothing is in flight.
    fn finish(&self);
}

/// A part of an I/O: it lies in one piece of GPU memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Part {
    pub(super) drive: usize,
    pub(super) offset_bytes: u64,
    pub(super) is_write: bool,
    pub(super) memory: Piece,
}

/// Number of a part that has ended, and its result: bytes moved, or a negative errno.
pub(super) type PartEnded = (u64, i64);

/// Moves parts. Belongs to one thread, on which it is made.
pub(super) trait Mover {
    /// Parts that it takes now; at least one when nothing is in flight.
    fn room(&self) -> usize;

    /// Begins these parts, no more than there is room for; each has a number of its own. What has
    /// ended at once goes to `ended`.
    fn begin(&mut self, parts: &[(u64, Part)], ended: &mut Vec<PartEnded>);

    /// Collects what has ended; waits a moment for something when nothing has.
    fn collect(&mut self, ended: &mut Vec<PartEnded>);
}

/// An I/O on its way to the thread.
struct Order {
    token: u64,
    parts: Vec<Part>,
}

/// A queue whose I/Os are moved on a thread of its own.
pub(super) struct ThreadQueue {
    orders: Option<flume::Sender<Order>>,
    ended: flume::Receiver<(u64, i32)>,
    /// Ended, and not reported yet.
    early: RefCell<Vec<(u64, i32)>>,
    in_flight: RefCell<BTreeSet<u64>>,
    /// No part is longer, bytes.
    part_bytes_max: u64,
    thread: Cell<Option<JoinHandle<()>>>,
}

impl ThreadQueue {
    /// Starts the thread; `make` makes its mover there. A part is cut where it would be longer than
    /// `part_bytes_max`, whole blocks.
    ///
    /// # Errors
    /// When there is no thread, or what `make` says.
    pub(super) fn start<M: Mover>(
        bell: Bell,
        part_bytes_max: u64,
        make: impl FnOnce() -> Result<M, String> + Send + 'static,
    ) -> Result<ThreadQueue, SetupError> {
        // No more in flight than the caller has buffers, which bound both.
        let (orders, orders_of_thread) = flume::unbounded();
        let (ended_of_thread, ended) = flume::unbounded();
        let (ready, is_ready) = flume::bounded(1);
        let work = move || {
            let mover = match make() {
                Ok(mover) => mover,
                Err(what) => {
                    let _told = ready.send(Err(what));
                    return;
                }
            };
            // Nobody listens any more when the queue was given up meanwhile: no orders come.
            let _told = ready.send(Ok(()));
            serve(mover, &orders_of_thread, &ended_of_thread, &bell);
        };
        let thread = std::thread::Builder::new()
            .name("ringfall-direct".to_owned())
            .spawn(work)
            .map_err(|error| SetupError::NoThread { reason: error.to_string() })?;
        match is_ready.recv() {
            Ok(Ok(())) => {}
            Ok(Err(what)) => return Err(SetupError::Gpu { what }),
            Err(_) => {
                let what = "the thread for direct I/O ended early".to_owned();
                return Err(SetupError::Gpu { what });
            }
        }
        Ok(ThreadQueue {
            orders: Some(orders),
            ended,
            early: RefCell::default(),
            in_flight: RefCell::default(),
            part_bytes_max,
            thread: Cell::new(Some(thread)),
        })
    }

    fn note(&self, (token, result): (u64, i32)) {
        self.in_flight.borrow_mut().remove(&token);
        self.early.borrow_mut().push((token, result));
    }

    /// The thread is gone, by a panic: what it had in flight never ends.
    fn lose_all(&self) {
        let lost = std::mem::take(&mut *self.in_flight.borrow_mut());
        self.early.borrow_mut().extend(lost.into_iter().map(|token| (token, -libc::EIO)));
    }
}

/// Cuts the pieces of an I/O into parts.
fn parts_of(io: DirectIo, pieces: &[Piece], part_bytes_max: u64) -> Vec<Part> {
    let (mut parts, mut done) = (Vec::with_capacity(pieces.len()), 0);
    for piece in pieces {
        let mut within = 0;
        while within < piece.length_bytes {
            let length_bytes = part_bytes_max.min(piece.length_bytes - within);
            parts.push(Part {
                drive: io.drive,
                offset_bytes: io.offset_bytes + done,
                is_write: io.is_write,
                memory: Piece { offset_bytes: piece.offset_bytes + within, length_bytes },
            });
            within += length_bytes;
            done += length_bytes;
        }
    }
    parts
}

impl DirectQueue for ThreadQueue {
    unsafe fn submit(&self, token: u64, io: DirectIo, pieces: &[Piece]) {
        let parts = parts_of(io, pieces, self.part_bytes_max);
        assert!(!parts.is_empty(), "an I/O has at least a block");
        let is_new = self.in_flight.borrow_mut().insert(token);
        assert!(is_new, "a token names one I/O in flight");
        let sent = self.orders.as_ref().map(|orders| orders.send(Order { token, parts }));
        if !matches!(sent, Some(Ok(()))) {
            self.lose_all();
        }
    }

    fn reap(&self, ended: &mut dyn FnMut(u64, i32)) {
        loop {
            match self.ended.try_recv() {
                Ok(one) => self.note(one),
                Err(flume::TryRecvError::Empty) => break,
                Err(flume::TryRecvError::Disconnected) => {
                    self.lose_all();
                    break;
                }
            }
        }
        for (token, result) in self.early.take() {
            ended(token, result);
        }
    }

    fn finish(&self) {
        while !self.in_flight.borrow().is_empty() {
            match self.ended.recv() {
                Ok(one) => self.note(one),
                Err(_) => self.lose_all(),
            }
        }
    }
}

impl Drop for ThreadQueue {
    fn drop(&mut self) {
        self.finish();
        // Without orders to come, the thread ends.
        self.orders = None;
        if let Some(thread) = self.thread.take() {
            let _panicked_already = thread.join();
        }
    }
}

/// Parts under way on the thread.
#[derive(Default)]
struct Jobs {
    next: u64,
    waiting: VecDeque<(u64, Part)>,
    /// By the number of a part: its I/O and its place there.
    places: BTreeMap<u64, (u64, usize)>,
    /// By token: length and result of each part.
    ios: BTreeMap<u64, Vec<(u64, Option<i64>)>>,
}

impl Jobs {
    fn add(&mut self, order: Order) {
        let mut lengths = Vec::with_capacity(order.parts.len());
        for (place, part) in order.parts.into_iter().enumerate() {
            self.waiting.push_back((self.next, part));
            self.places.insert(self.next, (order.token, place));
            lengths.push((part.memory.length_bytes, None));
            self.next += 1;
        }
        self.ios.insert(order.token, lengths);
    }

    fn is_empty(&self) -> bool {
        self.ios.is_empty()
    }

    /// A part has ended; its I/O and what that came to, if it was the last one.
    fn end(&mut self, (number, result): PartEnded) -> Option<(u64, i32)> {
        // What a library reports twice counts once.
        let (token, place) = self.places.remove(&number)?;
        let parts = self.ios.get_mut(&token)?;
        parts[place].1 = Some(result);
        if parts.iter().any(|(_, result)| result.is_none()) {
            return None;
        }
        let parts = self.ios.remove(&token)?;
        Some((token, outcome(&parts)))
    }
}

/// Result of an I/O: the bytes that were moved from its beginning on without a gap; the errno of
/// the first part that failed, when that is none.
fn outcome(parts: &[(u64, Option<i64>)]) -> i32 {
    let mut bytes: i64 = 0;
    for (length, result) in parts {
        let (length, result) = (*length as i64, result.unwrap_or(0));
        if result < 0 {
            return if bytes > 0 { bytes as i32 } else { result.max(i64::from(i32::MIN)) as i32 };
        }
        bytes += result.min(length);
        if result < length {
            break;
        }
    }
    // An I/O has 64 MiB at most.
    bytes as i32
}

fn serve<M: Mover>(
    mut mover: M,
    orders: &flume::Receiver<Order>,
    ended: &flume::Sender<(u64, i32)>,
    bell: &Bell,
) {
    let (mut jobs, mut results) = (Jobs::default(), Vec::new());
    loop {
        if jobs.is_empty() {
            match orders.recv() {
                Ok(order) => jobs.add(order),
                Err(_) => return,
            }
        }
        orders.try_iter().for_each(|order| jobs.add(order));
        let take = mover.room().min(jobs.waiting.len());
        let parts: Vec<(u64, Part)> = jobs.waiting.drain(..take).collect();
        if !parts.is_empty() {
            mover.begin(&parts, &mut results);
        }
        if results.is_empty() {
            mover.collect(&mut results);
        }
        let mut has_ended = false;
        for one in results.drain(..).filter_map(|result| jobs.end(result)) {
            has_ended = true;
            // Nobody listens any more: the queue is being dropped, and waits for none of this.
            let _told = ended.send(one);
        }
        if has_ended {
            bell.ring();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::MIB;

    #[test]
    fn an_io_comes_to_what_was_moved_without_a_gap() {
        let part = |result| (4096, Some(result));
        assert_eq!(outcome(&[part(4096), part(4096)]), 8192);
        assert_eq!(outcome(&[part(4096), part(100), part(4096)]), 4196);
        assert_eq!(outcome(&[part(4096), part(-5)]), 4096);
        assert_eq!(outcome(&[part(-5), part(4096)]), -5);
        assert_eq!(outcome(&[part(0), part(4096)]), 0);
        assert_eq!(outcome(&[part(9999)]), 4096, "more than was asked for is no more than that");
        assert_eq!(outcome(&[part(i64::MIN)]), i32::MIN);
    }

    #[test]
    fn parts_follow_each_other_in_the_file_and_none_is_too_long() {
        let pieces = [
            Piece { offset_bytes: 8 * MIB, length_bytes: 3 * MIB },
            Piece { offset_bytes: 0, length_bytes: 4096 },
        ];
        let io = DirectIo { drive: 2, offset_bytes: MIB, is_write: true };
        let parts = parts_of(io, &pieces, 2 * MIB);
        let places: Vec<(u64, u64, u64)> = parts
            .iter()
            .map(|part| (part.offset_bytes, part.memory.offset_bytes, part.memory.length_bytes))
            .collect();
        let expected =
            [(MIB, 8 * MIB, 2 * MIB), (3 * MIB, 10 * MIB, MIB), (4 * MIB, 0, 4096)].to_vec();
        assert_eq!(places, expected);
        assert!(parts.iter().all(|part| part.drive == 2 && part.is_write));
    }

    /// Ends parts in the wrong order, each of them twice.
    struct Backwards(Vec<(u64, Part)>);

    impl Mover for Backwards {
        fn room(&self) -> usize {
            3 - self.0.len()
        }

        fn begin(&mut self, parts: &[(u64, Part)], _: &mut Vec<PartEnded>) {
            assert!(parts.len() <= self.room());
            self.0.extend(parts);
        }

        fn collect(&mut self, ended: &mut Vec<PartEnded>) {
            if let Some((number, part)) = self.0.pop() {
                let result = match part.drive {
                    0 => part.memory.length_bytes as i64,
                    _ => -i64::from(libc::EIO),
                };
                ended.extend([(number, result), (number, result)]);
            }
        }
    }

    #[test]
    fn every_io_is_reported_once_whatever_order_its_parts_end_in() {
        let queue = ThreadQueue::start(Bell::silent(), 4096, || Ok(Backwards(Vec::new()))).unwrap();
        for token in 0..50 {
            let io = DirectIo { drive: (token % 2) as usize, offset_bytes: 0, is_write: false };
            let length_bytes = 4096 * (1 + token % 5);
            // SAFETY: this mover touches no memory.
            unsafe { queue.submit(token, io, &[Piece { offset_bytes: 0, length_bytes }]) };
        }
        queue.finish();
        let mut seen = BTreeMap::new();
        queue.reap(&mut |token, result| assert_eq!(seen.insert(token, result), None));
        assert_eq!(seen.len(), 50);
        for (token, result) in seen {
            let whole = 4096 * (1 + token as i32 % 5);
            assert_eq!(result, if token % 2 == 0 { whole } else { -libc::EIO });
        }
    }

    struct Panics;

    impl Mover for Panics {
        fn room(&self) -> usize {
            1
        }

        fn begin(&mut self, _: &[(u64, Part)], _: &mut Vec<PartEnded>) {
            std::panic::resume_unwind(Box::new("as a failed assertion would"));
        }

        fn collect(&mut self, _: &mut Vec<PartEnded>) {}
    }

    #[test]
    fn what_a_thread_that_is_gone_had_in_flight_ends_as_failed() {
        let queue = ThreadQueue::start(Bell::silent(), 4096, || Ok(Panics)).unwrap();
        let io = DirectIo { drive: 0, offset_bytes: 0, is_write: false };
        let piece = Piece { offset_bytes: 0, length_bytes: 4096 };
        // SAFETY: this mover touches no memory.
        unsafe { queue.submit(1, io, &[piece]) };
        queue.finish();
        // SAFETY: as above.
        unsafe { queue.submit(2, io, &[piece]) };
        let mut ended = Vec::new();
        queue.reap(&mut |token, result| ended.push((token, result)));
        assert_eq!(ended, [(1, -libc::EIO), (2, -libc::EIO)]);
        let refused = ThreadQueue::start::<Panics>(Bell::silent(), 1, || Err("no".to_owned()));
        assert!(matches!(refused, Err(SetupError::Gpu { what }) if what == "no"));
    }
}
