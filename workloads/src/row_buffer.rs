//! A trace's rows between the file and the queue. The buffer is bounded, and so is the queue behind
//! it: rows that are due and can't be served stay in the file. Their latency counts from their
//! intended arrival all the same.

use std::collections::VecDeque;

use crate::contract::Nanos;
use crate::source::SourceRequest;

/// Rows ahead of their time kept at most.
const ROWS_MAX: usize = 4_096;
/// Memory of rows and of the queued requests' blocks, at most.
const BYTES_MAX: usize = 32 << 20;
/// A trace without gaps arrives as long as fewer requests than this are queued.
const QUEUED_WITHOUT_GAPS: usize = 64;
/// Rows that have arrived and are not being served, at most.
const QUEUED_MAX: usize = 65_536;

/// See above.
#[derive(Debug, Default)]
pub(crate) struct RowBuffer {
    rows: VecDeque<SourceRequest>,
    /// Blocks of queued requests, and the cycle that they belong to.
    blocks: Vec<Option<(u32, Box<[u64]>)>>,
    free_blocks: Vec<u32>,
    bytes: usize,
    started: bool,
    ended: bool,
}

impl RowBuffer {
    pub(crate) fn has_room(&self) -> bool {
        !self.ended && self.rows.len() < ROWS_MAX && self.bytes < BYTES_MAX
    }

    /// The run's time begins: rows may be due from now on.
    pub(crate) fn start(&mut self) {
        self.started = true;
    }

    pub(crate) fn push(&mut self, row: SourceRequest) {
        self.bytes += bytes_of(row.blocks.as_deref());
        self.rows.push_back(row);
    }

    pub(crate) fn end(&mut self) {
        self.ended = true;
    }

    pub(crate) fn clear(&mut self) {
        *self = RowBuffer { ended: true, ..RowBuffer::default() };
    }

    pub(crate) fn is_over(&self) -> bool {
        self.ended && self.rows.is_empty()
    }

    /// Intended arrivals before `until` of rows that have not been taken yet.
    pub(crate) fn due_before(&self, until: Nanos) -> impl Iterator<Item = (u64, Nanos)> + '_ {
        let arrivals = self.rows.iter().filter(|_| self.started);
        let arrivals = arrivals.filter_map(|row| Some((row.user, row.arrival?)));
        arrivals.filter(move |(_, arrived)| *arrived < until)
    }

    /// When the next row is due; none while the queue is as long as it may get.
    pub(crate) fn next_due(&self, queued: usize) -> Option<Nanos> {
        match self.rows.front().filter(|_| self.started)?.arrival {
            Some(at) => (queued < QUEUED_MAX).then_some(at),
            None => (queued < QUEUED_WITHOUT_GAPS).then_some(Nanos::ZERO),
        }
    }

    pub(crate) fn pop_due(&mut self, now: Nanos, queued: usize) -> Option<SourceRequest> {
        self.next_due(queued).filter(|&at| at <= now)?;
        let row = self.rows.pop_front()?;
        self.bytes -= bytes_of(row.blocks.as_deref());
        Some(row)
    }

    /// Keeps a queued request's blocks; where.
    pub(crate) fn keep_blocks(&mut self, cycle: u32, blocks: Option<Box<[u64]>>) -> Option<u32> {
        let blocks = blocks?;
        self.bytes += bytes_of(Some(&blocks));
        let slot = self.free_blocks.pop().unwrap_or_else(|| {
            self.blocks.push(None);
            (self.blocks.len() - 1) as u32
        });
        self.blocks[slot as usize] = Some((cycle, blocks));
        Some(slot)
    }

    /// Takes them back.
    pub(crate) fn take_blocks(&mut self, slot: u32) -> Option<(u32, Box<[u64]>)> {
        let taken = self.blocks.get_mut(slot as usize)?.take()?;
        self.bytes -= bytes_of(Some(&taken.1));
        self.free_blocks.push(slot);
        Some(taken)
    }
}

fn bytes_of(blocks: Option<&[u64]>) -> usize {
    size_of::<SourceRequest>() + blocks.map_or(0, size_of_val)
}
