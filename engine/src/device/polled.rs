//! Data files whose I/Os are polled for: a ring that finds completions when it is looked at, and
//! one for the flushes, which no drive can be polled for.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use super::{DataFile, Device, DeviceFuture, FileDevice};
use crate::buffer::Ticket;
use crate::clock::{Nanos, monotonic_now};
use crate::drive::DriveId;
use crate::ring::{Doorbell, IoKind, IoRequest, Parker, Ring};

/// The data files of all drives through two rings of the shard.
///
/// [`Device::kick`] hands over what is queued. Reads and writes complete when the drives are looked
/// at, which [`Parker::poll`] and [`Parker::park`] do: the thread does not sleep while one is in
/// flight. Flushes complete as those of [`FileDevice`] do.
pub struct PolledDevice {
    transfers: FileDevice,
    polled: Rc<Ring<Ticket>>,
    flushes: Rc<Ring<Ticket>>,
}

impl PolledDevice {
    /// Joins a ring that is polled, one that is not, and the files that both were made for: one a
    /// drive, at least one.
    pub fn new(
        polled: Rc<Ring<Ticket>>,
        flushes: Rc<Ring<Ticket>>,
        files: &[Arc<DataFile>],
    ) -> PolledDevice {
        let transfers = FileDevice::new(Rc::clone(&polled), files);
        PolledDevice { transfers, polled, flushes }
    }
}

impl Parker for PolledDevice {
    fn poll(&self) {
        self.polled.poll_drives();
        self.flushes.poll();
    }

    fn park(&self, doorbell: &Doorbell, now: Nanos, longest: Option<Duration>) -> Nanos {
        if self.polled.in_flight() > 0 {
            self.poll();
            return monotonic_now();
        }
        self.flushes.park(doorbell, now, longest)
    }
}

impl Device for PolledDevice {
    fn submit(&self, request: IoRequest, ticket: Option<Ticket>) -> DeviceFuture {
        if request.kind == IoKind::Flush {
            let (drive, offset_bytes) = DriveId::of_byte(request.offset_bytes);
            let request = IoRequest { offset_bytes, ..request };
            return self.flushes.push_to(drive.index(), request, ticket);
        }
        self.transfers.submit(request, ticket)
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

    fn place(&self, offset_bytes: u64) -> (String, u64) {
        self.transfers.place(offset_bytes)
    }

    fn first_touch_bytes(&self, start_block: u64, blocks: u64) -> u64 {
        self.transfers.first_touch_bytes(start_block, blocks)
    }
}
