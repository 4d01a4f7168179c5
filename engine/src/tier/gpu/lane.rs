//! A shard's jobs in flight on its GPU queue. What a job reads or writes belongs to this table
//! until the device is done with it, whatever is dropped.

#![allow(unsafe_code, reason = "submitting work on memory that the job's row holds")]

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use super::{GpuEntry, GpuFault, GpuQueue, GpuWork, JobId, WorkDone};
use crate::buffer::Ticket;
use crate::fill::{ContentName, VerifyMode};
use crate::tier::cpu::CpuEntry;
use crate::units::BLOCK_BYTES;

/// The host memory of a job.
pub enum Holding {
    /// There is none.
    Nothing,
    /// An I/O buffer.
    Ticket(Ticket),
    /// An entry of the CPU tier.
    Host(Rc<RefCell<CpuEntry>>),
}

/// A range of an entry, bytes, whole blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Range {
    /// Where the range begins in the entry, bytes.
    pub offset_bytes: u64,
    /// Length of the range, bytes.
    pub length_bytes: u64,
}

impl Range {
    /// Number of its first block in the entry.
    pub fn first_block(self) -> u64 {
        self.offset_bytes / BLOCK_BYTES
    }

    /// The range as long, at the beginning of memory where what is read lands: nobody looks at it
    /// there, and others may land on it.
    pub fn landed(self) -> Range {
        Range { offset_bytes: 0, ..self }
    }
}

struct Row {
    /// Held, and never looked at.
    _entry: Rc<GpuEntry>,
    holding: Holding,
    waker: Option<Waker>,
    /// Nobody waits for it any more.
    is_abandoned: bool,
    result: Option<Result<WorkDone, GpuFault>>,
}

/// A shard's queue with its jobs.
pub struct GpuLane {
    queue: Box<dyn GpuQueue>,
    rows: RefCell<BTreeMap<JobId, Row>>,
}

impl GpuLane {
    /// The jobs of `queue`.
    pub fn new(queue: Box<dyn GpuQueue>) -> Rc<GpuLane> {
        Rc::new(GpuLane { queue, rows: RefCell::default() })
    }

    /// Jobs in flight, or ended and not collected.
    pub fn in_flight(&self) -> usize {
        self.rows.borrow().len()
    }

    /// Makes a range of an entry's content.
    #[must_use]
    pub fn fill(self: &Rc<Self>, entry: &Rc<GpuEntry>, range: Range, name: ContentName) -> GpuJob {
        let work = GpuWork::Fill { name, first_block: range.first_block() };
        self.start(work, entry, range, Holding::Nothing)
    }

    /// Compares a range of GPU memory with an entry's content from `first_block` of the entry on.
    /// The buffer, if what is compared was read to its place, comes back with the answer.
    #[must_use]
    pub fn check(
        self: &Rc<Self>,
        place: (&Rc<GpuEntry>, Range),
        name: ContentName,
        first_block: u64,
        mode: VerifyMode,
        ticket: Option<Ticket>,
    ) -> GpuJob {
        let work = GpuWork::Check { name, first_block, mode };
        self.start(work, place.0, place.1, ticket.map_or(Holding::Nothing, Holding::Ticket))
    }

    /// Copies a range of an entry to the beginning of a buffer, which comes back with the answer.
    #[must_use]
    pub fn copy_to_buffer(
        self: &Rc<Self>,
        entry: &Rc<GpuEntry>,
        range: Range,
        mut ticket: Ticket,
    ) -> GpuJob {
        let bytes = &mut ticket.buffer_mut().bytes_mut()[..range.length_bytes as usize];
        let work = GpuWork::CopyOut { host: bytes.as_mut_ptr() };
        self.start(work, entry, range, Holding::Ticket(ticket))
    }

    /// Copies the beginning of a buffer, which comes back with the answer, to a range of an entry.
    #[must_use]
    pub fn copy_from_buffer(
        self: &Rc<Self>,
        entry: &Rc<GpuEntry>,
        range: Range,
        ticket: Ticket,
    ) -> GpuJob {
        let bytes = &ticket.buffer().bytes()[..range.length_bytes as usize];
        let work = GpuWork::CopyIn { host: bytes.as_ptr() };
        self.start(work, entry, range, Holding::Ticket(ticket))
    }

    /// Copies a range to the same place of an entry of the CPU tier that nobody reads yet. The
    /// range lies in one piece there: it crosses no multiple of the CPU tier's chunks.
    #[must_use]
    pub fn copy_to_host(
        self: &Rc<Self>,
        entry: &Rc<GpuEntry>,
        range: Range,
        host: &Rc<RefCell<CpuEntry>>,
    ) -> GpuJob {
        let start = {
            let (offset, length) = (range.offset_bytes as usize, range.length_bytes as usize);
            let mut host = host.borrow_mut();
            let piece = host.piece_mut(offset, length);
            assert_eq!(piece.len(), length, "a range lies in one piece of host memory");
            piece.as_mut_ptr()
        };
        let work = GpuWork::CopyOut { host: start };
        self.start(work, entry, range, Holding::Host(Rc::clone(host)))
    }

    /// Copies the range `from` of an entry of the CPU tier, which lies in one piece as for
    /// [`GpuLane::copy_to_host`], to the range `to`, as long, of `entry`.
    #[must_use]
    pub fn copy_from_host(
        self: &Rc<Self>,
        entry: &Rc<GpuEntry>,
        to: Range,
        host: &Rc<RefCell<CpuEntry>>,
        from: Range,
    ) -> GpuJob {
        let start = {
            let (offset, length) = (from.offset_bytes as usize, from.length_bytes as usize);
            let host = host.borrow();
            let piece = host.piece(offset, length);
            assert_eq!(piece.len(), length, "a range lies in one piece of host memory");
            piece.as_ptr()
        };
        let work = GpuWork::CopyIn { host: start };
        self.start(work, entry, to, Holding::Host(Rc::clone(host)))
    }

    fn start(
        self: &Rc<Self>,
        work: GpuWork,
        entry: &Rc<GpuEntry>,
        range: Range,
        holding: Holding,
    ) -> GpuJob {
        let pieces = entry.range(range.offset_bytes, range.length_bytes);
        // SAFETY: the row made below holds the entry, whose pieces nobody else has, and the host
        // memory, which does not move, until the job is reaped; `Drop` waits for those that are
        // not. Writers of an entry are alone with it, by placement's pins and states; what lands
        // where others land is never read.
        let submitted = unsafe { self.queue.submit(&work, &pieces) };
        let (id, result) = match submitted {
            Ok(id) => (id, None),
            Err(fault) => {
                return GpuJob {
                    lane: Rc::clone(self),
                    state: JobState::Ended(Some((Err(fault), holding))),
                };
            }
        };
        let row =
            Row { _entry: Rc::clone(entry), holding, waker: None, is_abandoned: false, result };
        self.rows.borrow_mut().insert(id, row);
        GpuJob { lane: Rc::clone(self), state: JobState::Running(id) }
    }

    /// Looks for jobs that have ended, and wakes who waits for them. Cheap when there are none.
    pub fn reap(&self) {
        if self.rows.borrow().is_empty() {
            return;
        }
        let mut ended = Vec::new();
        self.queue.reap(&mut |id, result| ended.push((id, result)));
        for (id, result) in ended {
            let mut rows = self.rows.borrow_mut();
            let row = rows.get_mut(&id).expect("a job has its row until it is collected");
            let waker = row.waker.take();
            let abandoned = if row.is_abandoned {
                rows.remove(&id)
            } else {
                row.result = Some(result);
                None
            };
            drop(rows);
            // Gives back what it held, which may wake others.
            drop(abandoned);
            if let Some(waker) = waker {
                waker.wake();
            }
        }
    }
}

impl Drop for GpuLane {
    fn drop(&mut self) {
        // Before what the jobs read and write is freed.
        self.queue.finish();
    }
}

enum JobState {
    Running(JobId),
    /// Result, until somebody takes it.
    Ended(Option<(Result<WorkDone, GpuFault>, Holding)>),
}

/// The future of a job. Dropped early, what it holds stays held until the device is done with it.
pub struct GpuJob {
    lane: Rc<GpuLane>,
    state: JobState,
}

impl Future for GpuJob {
    type Output = (Result<WorkDone, GpuFault>, Holding);

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let id = match &mut self.state {
            JobState::Running(id) => *id,
            JobState::Ended(ended) => {
                return Poll::Ready(ended.take().expect("a job is not polled after it has ended"));
            }
        };
        self.lane.reap();
        let mut rows = self.lane.rows.borrow_mut();
        let row = rows.get_mut(&id).expect("a job has its row until it is collected");
        match row.result.take() {
            Some(result) => {
                let row = rows.remove(&id).expect("just looked at");
                drop(rows);
                self.state = JobState::Ended(None);
                Poll::Ready((result, row.holding))
            }
            None => {
                row.waker = Some(cx.waker().clone());
                if self.lane.queue.must_be_polled() {
                    cx.waker().wake_by_ref();
                }
                Poll::Pending
            }
        }
    }
}

impl Drop for GpuJob {
    fn drop(&mut self) {
        let JobState::Running(id) = self.state else { return };
        let mut rows = self.lane.rows.borrow_mut();
        let Some(row) = rows.get_mut(&id) else { return };
        let ended = if row.result.is_some() { rows.remove(&id) } else { None };
        if let Some(row) = rows.get_mut(&id) {
            row.is_abandoned = true;
            row.waker = None;
        }
        drop(rows);
        drop(ended);
    }
}
