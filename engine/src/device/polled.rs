//! Data files whose I/Os are polled for: a ring that finds completions when it is looked at, and
//! one for the flushes, which no drive can be polled for.

use std::cell::Cell;
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Poll, Waker};

use super::{DataFile, Device, DeviceFuture, FileDevice};
use crate::buffer::Ticket;
use crate::clock::Nanos;
use crate::drive::DriveId;
use crate::ring::{IoKind, IoRequest, Ring};

/// The data files of all drives through two rings of the shard.
///
/// [`Device::kick`] hands over what is queued; reads and writes complete in
/// [`PolledDevice::poll`], which somebody must call for as long as any is in flight. Flushes
/// complete as those of [`FileDevice`] do, told by the bell of their ring.
pub struct PolledDevice {
    transfers: FileDevice,
    polled: Rc<Ring<Ticket>>,
    flushes: Rc<Ring<Ticket>>,
    /// Who polls, while there is nothing to poll for.
    idle: Cell<Option<Waker>>,
}

impl PolledDevice {
    /// Joins a ring that is polled, one that is not, and the files that both were made for: one a
    /// drive, at least one.
    #[must_use]
    pub fn new(
        polled: Rc<Ring<Ticket>>,
        flushes: Rc<Ring<Ticket>>,
        files: &[Arc<DataFile>],
    ) -> PolledDevice {
        let transfers = FileDevice::new(Rc::clone(&polled), files);
        PolledDevice { transfers, polled, flushes, idle: Cell::default() }
    }

    /// Looks once for what has completed, and works it off: a system call that does not sleep.
    pub fn poll(&self) {
        self.polled.poll();
    }

    /// Waits until there is a read or a write to poll for. For one task: that which polls.
    pub async fn is_wanted(&self) {
        poll_fn(|cx| {
            if self.polled.in_flight() > 0 {
                return Poll::Ready(());
            }
            self.idle.set(Some(cx.waker().clone()));
            Poll::Pending
        })
        .await;
    }
}

impl Device for PolledDevice {
    fn submit(&self, request: IoRequest, ticket: Option<Ticket>) -> DeviceFuture {
        if request.kind == IoKind::Flush {
            let (drive, offset_bytes) = DriveId::of_byte(request.offset_bytes);
            let request = IoRequest { offset_bytes, ..request };
            return self.flushes.push_to(drive.index(), request, ticket);
        }
        let future = self.transfers.submit(request, ticket);
        if let Some(waker) = self.idle.take() {
            waker.wake();
        }
        future
    }

    fn kick(&self) {
        self.transfers.kick();
        self.flushes.turn();
    }

    fn close(&self) {
        self.transfers.close();
        self.flushes.release_file();
    }

    fn in_flight(&self) -> u32 {
        self.transfers.in_flight() + self.flushes.in_flight()
    }

    fn oldest_in_flight(&self) -> Option<Nanos> {
        let oldest = [self.transfers.oldest_in_flight(), self.flushes.oldest_in_flight()];
        oldest.into_iter().flatten().min()
    }

    fn name(&self) -> &str {
        self.transfers.name()
    }

    fn place(&self, offset_bytes: u64) -> (&str, u64) {
        self.transfers.place(offset_bytes)
    }

    fn first_touch_bytes(&self, start_block: u64, blocks: u64) -> u64 {
        self.transfers.first_touch_bytes(start_block, blocks)
    }
}
