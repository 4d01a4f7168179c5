//! Reads that are one I/O, as those of small entries are, without the lists and lanes that a
//! [`Transfer`] keeps: of an entry of one block, these were a fifth of what a read costs. One that
//! goes wrong is carried on by a [`Transfer`], which knows how.

use super::{
    Begun, Content, DataPath, InFlight, SLICE_BYTES, Transfer, TransferDone, TransferSpec,
};
use crate::buffer::Ticket;
use crate::clock::Nanos;
use crate::drive::DriveId;
use crate::error::{ErrorKind, IoError};
use crate::fill::VerifyMode;
use crate::ring::{Completion, IoKind, IoRequest};
use crate::shard::EntryData;
use crate::shard::measure::Direction;
use crate::units::{BLOCK_BYTES, blocks_for};

/// Bytes that wait for a drive until this is dropped, as those of a transfer do.
struct Coming<'a> {
    path: &'a DataPath,
    request: IoRequest,
}

impl Drop for Coming<'_> {
    fn drop(&mut self) {
        self.path.moved(self.request);
    }
}

impl DataPath {
    /// The I/O of a transfer that is a read of one I/O to its buffer and no further, with a ticket;
    /// none for other transfers, and where a ticket has to be waited for.
    #[inline]
    pub(super) fn single_read(&self, spec: &TransferSpec<'_>) -> Option<(IoRequest, Ticket)> {
        let config = &self.config;
        let [extent] = spec.extents else { return None };
        let blocks = blocks_for(spec.bytes);
        let io_bytes_max = config.tickets[0].pool().buffer_bytes() as u64;
        let is_one_io = spec.direction == Direction::Read
            && blocks <= extent.blocks
            && blocks * BLOCK_BYTES <= io_bytes_max
            && blocks * BLOCK_BYTES < SLICE_BYTES;
        let goes_further = !matches!(spec.sink, EntryData::Elsewhere) || config.gpu.is_some();
        if !is_one_io || goes_further || config.gpu_direct.is_some() || self.stopping.get() {
            return None;
        }
        let (drive, _) = DriveId::of_block(extent.start_block);
        let ticket = config.tickets[drive.index()].take()?;
        let request = IoRequest {
            kind: IoKind::Read,
            offset_bytes: extent.start_block * BLOCK_BYTES,
            length_bytes: (blocks * BLOCK_BYTES) as u32,
            buffer_offset: 0,
        };
        Some((request, ticket))
    }

    /// Does such a read, and checks what came.
    #[inline]
    pub(super) async fn read_single(
        &self,
        spec: &TransferSpec<'_>,
        request: IoRequest,
        ticket: Ticket,
    ) -> Result<TransferDone, IoError> {
        self.comes(request);
        let future = self.config.device.submit(request, Some(ticket));
        let coming = Coming { path: self, request };
        let (completion, ticket) = future.await;
        drop(coming);
        let ticket = ticket.expect("a read holds a ticket");
        if completion.result != request.length_bytes as i32 {
            // In memory of its own, for which the other reads then need no room.
            return Box::pin(self.carry_on(spec, request, completion, ticket)).await;
        }
        let measure = &self.config.measure;
        let Completion { submitted, completed, .. } = completion;
        let bytes = u64::from(request.length_bytes);
        self.count_wait(Nanos::ZERO, completed);
        self.worked(request);
        let drive = self.drive_of(request);
        measure.io(IoKind::Read, drive, bytes, bytes.min(spec.bytes), completion);
        let bad = self.compare(spec, request, 0, &ticket, completed);
        drop(ticket);
        if let Some(bad) = bad {
            let error = self.io_error(bad, ErrorKind::Corrupt, 0);
            self.failed(bad, &error, completed);
            return Err(error);
        }
        let device = completed.saturating_sub(submitted);
        measure.transfer(Direction::Read, device, completed);
        let ended = (!self.compares()).then_some(completed);
        Ok(TransferDone { device, copy: Nanos::ZERO, ended })
    }

    /// Has a transfer do what is left of a read that failed or fell short.
    #[cold]
    async fn carry_on(
        &self,
        spec: &TransferSpec<'_>,
        request: IoRequest,
        completion: Completion,
        ticket: Ticket,
    ) -> Result<TransferDone, IoError> {
        let mut transfer = Transfer::new(self, spec);
        for lane in transfer.lanes.iter_mut() {
            // It has been started, and waits for the drive no more.
            self.no_more_wait_for(lane.drive, lane.left * BLOCK_BYTES);
            lane.left = 0;
        }
        transfer.left = 0;
        // It did not wait for its ticket.
        let begun = Begun { request, first_block: 0, first_touch_bytes: 0, wait: Nanos::ZERO };
        transfer.complete(InFlight::first(begun), completion, ticket);
        transfer.end().await
    }

    /// Whether what is read is compared with what it should be.
    #[inline]
    pub(super) fn compares(&self) -> bool {
        let config = &self.config;
        config.verify != VerifyMode::Off && !matches!(config.content, Content::Hollow(_))
    }

    /// Whether nothing is left to do with what its I/Os bring or have taken.
    #[inline]
    pub(super) fn ends_with_io(&self, spec: &TransferSpec<'_>) -> bool {
        spec.direction == Direction::Write
            || (!self.compares()
                && matches!(spec.sink, EntryData::Elsewhere)
                && self.config.gpu.is_none())
    }

    /// Compares what an I/O brought to its buffer with what it should be, as far as is asked for;
    /// the first block that differs.
    #[inline]
    pub(super) fn compare(
        &self,
        spec: &TransferSpec<'_>,
        request: IoRequest,
        first_block: u64,
        ticket: &Ticket,
        now: Nanos,
    ) -> Option<IoRequest> {
        if !self.compares() {
            return None;
        }
        let config = &self.config;
        self.before_work(u64::from(request.length_bytes));
        let from = request.buffer_offset as usize;
        let buffer = &ticket.buffer().bytes()[from..from + request.length_bytes as usize];
        let report = spec.content.verify(config.verify, buffer, first_block * BLOCK_BYTES);
        config.measure.verified(&report, now);
        let bad = report.first_bad_block?;
        let offset_bytes = request.offset_bytes + (bad - first_block) * BLOCK_BYTES;
        Some(IoRequest { offset_bytes, length_bytes: BLOCK_BYTES as u32, ..request })
    }
}
